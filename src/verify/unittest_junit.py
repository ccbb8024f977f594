"""Runs unittest exactly as `python -m unittest` does, and writes what each test said as JUnit XML.

    python3 unittest_junit.py REPORT [arguments of unittest...]

Standard library only, Python 3.8 and newer. The report is written once, after the last test: a run that ends early leaves none. A file `only`
beside it, a list of paths in JSON, leaves out the tests of every other file.
One row a test: a test with sub-tests fails if one of them does. Expected failures are skips, unexpected successes are failures.
"""

import sys

# As with `python -m unittest`, the folder of the project comes first, not the folder of this file; but what is needed here is
# imported before the project's files can stand in for it.
_isolated = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
_project_path = sys.path[:] if _isolated else sys.path[1:]
sys.path[:] = [entry for entry in _project_path if entry.startswith((sys.base_prefix, sys.prefix))]

import os  # noqa: E402
import time  # noqa: E402
import unittest  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import runner_watch  # noqa: E402
import sealed_report  # noqa: E402
from sealed_report import ERROR, FAILED, PASSED, SKIPPED, Sealed  # noqa: E402

sys.modules.pop("sealed_report", None)
sys.modules.pop("runner_watch", None)
sys.path[:] = _project_path if _isolated else [os.getcwd(), *_project_path]

__unittest = True  # leaves this file out of tracebacks

SUBTEST_SKIPPED = "subtest skipped"


class Row:
    """What was heard of one test."""

    def __init__(self):
        self.heard = set()
        self.messages = []
        self.kinds = []
        self.started = time.perf_counter()
        self.seconds = 0.0

    def verdict(self):
        for kind in (ERROR, FAILED, SKIPPED, PASSED):
            if kind in self.heard:
                return kind
        return SKIPPED if SUBTEST_SKIPPED in self.heard else ERROR


class Result(unittest.TextTestResult):
    """The usual result, which also keeps a row for each test."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.rows = {}

    def hear(self, test, kind, message="", err=None):
        row = self.rows.setdefault(names(test), Row())
        row.heard.add(kind)
        if err is not None:
            row.kinds.append("AssertionError" if issubclass(err[0], AssertionError) else err[0].__name__)
        if message:
            row.messages.append(message)

    def startTest(self, test):
        super().startTest(test)
        self.rows.setdefault(names(test), Row()).started = time.perf_counter()

    def stopTest(self, test):
        super().stopTest(test)
        row = self.rows[names(test)]
        row.seconds += time.perf_counter() - row.started

    def addSuccess(self, test):
        super().addSuccess(test)
        self.hear(test, PASSED)

    def addError(self, test, err):
        super().addError(test, err)
        self.hear(test, ERROR, self.errors[-1][1], err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.hear(test, FAILED, self.failures[-1][1], err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is None:
            self.hear(test, PASSED)
        elif issubclass(err[0], test.failureException):
            self.hear(test, FAILED, "%s\n%s" % (subtest, self.failures[-1][1]), err)
        else:
            self.hear(test, ERROR, "%s\n%s" % (subtest, self.errors[-1][1]), err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        is_subtest = hasattr(test, "test_case")
        self.hear(test.test_case if is_subtest else test, SUBTEST_SKIPPED if is_subtest else SKIPPED, str(reason))

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.hear(test, SKIPPED, "expected failure")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.hear(test, FAILED, "unexpected success")


def names(test):
    """The two names of a row: the class, and the method or, for a fixture that broke, the fixture."""
    whole = str(test.id())
    method = getattr(test, "_testMethodName", None)
    if method and whole.endswith("." + method):
        return whole[: -len(method) - 1], method
    fixture, bracket, owner = whole.partition(" (")
    if bracket and owner.endswith(")"):
        return owner[:-1], fixture
    owner, _, name = whole.rpartition(".")
    return owner, name


def told(rows):
    for (owner, name), row in rows.items():
        verdict = row.verdict()
        kinds = row.kinds if verdict in (ERROR, FAILED) else []
        yield owner, name, verdict, kinds[0] if kinds else "", "\n".join(row.messages), row.seconds


def tests_of(suite):
    """Every test of a suite and of the suites in it."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def is_wanted(test, sealed):
    if type(test).__name__ == "_FailedTest":
        tail = os.sep + str(test.id()).rsplit(".", 1)[-1] + ".py"
        return any(path.endswith(tail) for path in sealed.only)
    return sealed.wants(getattr(sys.modules.get(type(test).__module__), "__file__", None) or "")


def main(path, arguments):
    sealed = Sealed(os.path.dirname(path))
    watch = runner_watch.Watch(sys.modules[__name__], sealed_report, runner_watch)
    altered = watch.altered

    class Runner(unittest.TextTestRunner):
        resultclass = Result

        def run(self, test):
            if sealed.only is not None:
                test = unittest.TestSuite([one for one in tests_of(test) if is_wanted(one, sealed)])
            for one in (one for one in tests_of(test) if type(one).__name__ != "_FailedTest"):
                watch.test(one.id(), one, getattr(one, "_testMethodName", "runTest"))
            altered()
            result = super().run(test)
            sealed.write(path, told(result.rows), altered())
            return result

        def _makeResult(self):
            result = super()._makeResult()
            watch.object("result", result)
            return result

    program = os.path.basename(sys.executable) + " -m unittest"
    unittest.main(module=None, argv=[program, *arguments], testRunner=Runner)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: unittest_junit.py REPORT [arguments of unittest...]")
    main(os.path.abspath(sys.argv[1]), sys.argv[2:])
