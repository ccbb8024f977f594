"""A plugin of pytest that keeps what each test said and writes it, sealed, when the session ends.

Loaded with `-p` from a folder of this run alone, so before any conftest.py. Only the first session of a run reports: a pytest that a test starts
by itself, in this process or another, and the workers of pytest-xdist find no key and leave everything as it is.
"""

import os
import re
import sys

import pytest

_folder = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, _folder)
import runner_watch  # noqa: E402
import sealed_report  # noqa: E402

sys.path.remove(_folder)
sys.modules.pop("sealed_report", None)
sys.modules.pop("runner_watch", None)

# What the tests start themselves is not ours to load.
os.environ["PYTEST_ADDOPTS"] = os.environ.get("PYTEST_ADDOPTS", "").replace("-p " + __name__, "").strip()

_waiting = [sealed_report.Sealed(_folder)]
_watch = [None]


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests():
    # The plugins that are installed have been loaded by now, and some of them change pytest.
    if _watch[0] is not None:
        _watch[0].look()


def pytest_configure(config):
    sealed = _waiting.pop() if _waiting else None
    if sealed is not None and sealed.is_asked:
        config.pluginmanager.register(Recorder(sealed, _watch[0]), __name__ + "_recorder")


class Recorder:
    """Hears the session."""

    def __init__(self, sealed, watch):
        self.sealed = sealed
        self.rows = {}
        self.watch = watch
        self.altered = watch.altered
        self.watch.object("recorder", self)

    if int(pytest.__version__.split(".")[0]) >= 7:

        def pytest_ignore_collect(self, collection_path):
            return self.ignores(collection_path)

    else:

        def pytest_ignore_collect(self, path):
            return self.ignores(path)

    def ignores(self, path):
        return True if os.path.isfile(str(path)) and not self.sealed.wants(path) else None

    def pytest_collectreport(self, report):
        if report.failed:
            self.hear(report, sealed_report.ERROR)
        elif report.skipped:
            self.hear(report, sealed_report.SKIPPED)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.hear(report, sealed_report.FAILED if report.when == "call" else sealed_report.ERROR)
        elif report.skipped:
            self.hear(report, sealed_report.SKIPPED)
        elif report.passed and report.when == "call":
            self.hear(report, sealed_report.PASSED)
        self.row(report).seconds += getattr(report, "duration", 0.0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session):
        self.watch.look()
        self.plugins = deciding(session.config)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session):
        for item in session.items:
            if hasattr(item, "obj"):
                self.watch.test(item.nodeid, item, "obj")
            self.watch.object(item.nodeid, item)
        self.altered()

    def row(self, report):
        return self.rows.setdefault(names(report.nodeid), Row())

    def hear(self, report, kind):
        row = self.row(report)
        row.heard.add(kind)
        crash = getattr(report.longrepr, "reprcrash", None)
        message = crash.message if crash is not None else str(report.longrepr or "")
        row.messages.append(message)
        if kind == sealed_report.FAILED:
            row.kinds.append(type_of(message) if crash is not None else "")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        rows = [name + row.told() for name, row in self.rows.items()]
        later = [plugin for plugin in deciding(session.config) if not any(plugin is known for known in self.plugins)]
        altered = self.altered() + ["plugin " + type(plugin).__name__ for plugin in later if not is_conftest(plugin)]
        self.sealed.write(os.path.join(_folder, "report"), rows, altered)


def deciding(config):
    """The plugins that have a say in what a test says."""
    hooks = ("runtest_makereport", "runtest_logreport", "runtest_protocol", "runtest_call", "pyfunc_call", "sessionfinish")
    return [one.plugin for hook in hooks for one in getattr(config.hook, "pytest_" + hook).get_hookimpls()]


def is_conftest(plugin):
    return os.path.basename(getattr(plugin, "__file__", None) or "") == "conftest.py"


class Row:
    """What was heard of one test."""

    def __init__(self):
        self.heard = set()
        self.messages = []
        self.kinds = []
        self.seconds = 0.0

    def told(self):
        known = (sealed_report.ERROR, sealed_report.FAILED, sealed_report.SKIPPED, sealed_report.PASSED)
        verdict = next((kind for kind in known if kind in self.heard), sealed_report.ERROR)
        kind = self.kinds[0] if verdict == sealed_report.FAILED and self.kinds else ""
        return verdict, kind, "\n".join(self.messages), self.seconds


def type_of(message):
    """The type of an exception by the line that pytest tells of it; a rewritten assertion is told without its type."""
    line = message.lstrip().split("\n", 1)[0]
    if line.startswith("assert "):
        return "AssertionError"
    found = re.match(r"([A-Za-z_][\w.]*)(?::|$)", line)
    return found.group(1).rsplit(".", 1)[-1] if found else ""


def names(nodeid):
    """The two names of a row, as in pytest's own reports."""
    base, bracket, parameters = nodeid.partition("[")
    parts = base.split("::")
    parts[0] = re.sub(r"\.py$", "", parts[0]).replace("/", ".")
    return ".".join(parts[:-1]), parts[-1] + bracket + parameters


# Last, since everything above is watched too.
_watch[0] = runner_watch.Watch(sys.modules[__name__], sealed_report, runner_watch)
