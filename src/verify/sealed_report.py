"""What our runners share: the report in JUnit's XML, sealed with a key that is gone from the disk before any test is imported.

Standard library only, Python 3.8 and newer. The key is read and deleted when this file is loaded, and forgotten when the report is written; a
report without its seal, or changed after it, counts for nothing. Code in the same process can still look for the key in memory while the tests
run: the seal keeps out what only writes files, prints or ends the run.
"""

import hmac
import json
import os

MESSAGE_LIMIT = 2000
PASSED, SKIPPED, FAILED, ERROR = "passed", "skipped", "failure", "error"


def take(folder, name):
    """The content of a file that nobody reads a second time; none where it is gone."""
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            content = file.read()
        os.unlink(path)
        return content
    except OSError:
        return None


class Sealed:
    """Where the report of this run goes, and which test files are asked for."""

    def __init__(self, folder):
        self._key = take(folder, "key")
        only = take(folder, "only")
        self.is_asked = self._key is not None
        self.only = None if only is None else {os.path.realpath(path) for path in json.loads(only.decode("utf-8"))}

    def wants(self, path):
        """Whether the tests of this file are asked for."""
        return self.only is None or os.path.realpath(str(path)) in self.only

    def write(self, path, rows, altered):
        """Writes what is altered of the runner, and the rows (class, name, verdict, type of the exception, message, seconds), once."""
        text = (json.dumps(altered) + "\n" + "".join(report(rows))).encode("utf-8")
        key, self._key = self._key, None
        seal = b"" if key is None else hmac.new(key, text, "sha256").hexdigest().encode("ascii") + b"\n"
        with open(path, "wb") as file:
            file.write(seal + text)


def escaped(text):
    """Text for an attribute; what XML 1.0 can't hold is shown as Python would show it."""
    pieces = []
    for char in text:
        code = ord(char)
        if char in '&<>"\n\r\t':
            pieces.append("&#%d;" % code)
        elif code < 0x20 or 0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF):
            pieces.append("\\x%02x" % code if code < 0x100 else "\\u%04x" % code)
        else:
            pieces.append(char)
    return "".join(pieces)


def report(rows):
    rows = list(rows)
    verdicts = [row[2] for row in rows]
    yield '<?xml version="1.0" encoding="utf-8"?>\n<testsuites>\n'
    yield '<testsuite name="tests" tests="%d" failures="%d" errors="%d" skipped="%d">\n' % (
        len(verdicts),
        verdicts.count(FAILED),
        verdicts.count(ERROR),
        verdicts.count(SKIPPED),
    )
    for owner, name, verdict, kind, message, seconds in rows:
        yield '<testcase classname="%s" name="%s" time="%.3f">' % (escaped(owner), escaped(name), seconds)
        if verdict != PASSED:
            of_type = ' type="%s"' % escaped(kind) if kind else ""
            yield '<%s%s message="%s"/>' % (verdict, of_type, escaped(message[:MESSAGE_LIMIT]))
        yield "</testcase>\n"
    yield "</testsuite>\n</testsuites>\n"
