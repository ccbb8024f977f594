"""What tests/packages/run.sh asks of expect.json and of a run: one line a package, exit status 1 when something does not hold."""

import hashlib
import json
import os
import subprocess
import sys

COUNTS = ("passed", "failed", "errors", "skipped")


def main(what, expected_file, *rest):
    with open(expected_file, encoding="utf-8") as file:
        expected = json.load(file)
    if what == "pin":
        print(expected["requirement"], expected["sha256"], sep="\n")
    elif what == "test":
        if expected["test"]:
            print(expected["test"])
    else:
        sys.exit(verdict(expected, *rest))


def verdict(expected, status, printed, out, repo, work):
    wrong = []

    def same(what, is_, should):
        if is_ != should:
            wrong.append(f"{what} is {is_!r}, not {should!r}")

    same("the exit status", int(status), 0)
    report = read_json(printed, wrong)
    same("report.json", read_json(os.path.join(out, "report.json"), wrong), report)
    tests = report.get("tests", {})
    before, after = tests.get("before") or {}, tests.get("after") or {}
    same("the outcome", report.get("outcome"), "proposed")
    same("the proof", report.get("proof"), expected["proof"])
    same("the command", tests.get("command"), expected["command"])
    same("the files", [row[0] for row in report.get("files", [])], expected["files"])
    findings = [[finding.get("severity"), finding.get("rule"), finding.get("path")] for finding in report.get("findings") or []]
    same("the findings", findings, [["flag", *flag] for flag in expected.get("flags", [])])
    for when, counted in (("before", before), ("after", after)):
        for name in COUNTS:
            low, high = as_range(expected[when][name])
            if not low <= counted.get(name, -1) <= high:
                wrong.append(f"{name} {when} is {counted.get(name)}, not {expected[when][name]}")
    mended = before.get("failed", 0) - after.get("failed", 0)
    same("how many more pass", after.get("passed", 0) - before.get("passed", 0), mended)
    same("what was mended", len((report.get("comparison") or {}).get("fixed", [])), mended)
    same("what was broken", (report.get("comparison") or {}).get("broken"), [])
    try:
        with open(os.path.join(out, "patch.diff"), "rb") as file:
            same("patch_sha256", report.get("patch_sha256"), hashlib.sha256(file.read()).hexdigest())
    except OSError as error:
        wrong.append(str(error))
    same("the files written", sorted(os.listdir(out)) if os.path.isdir(out) else [], ["kept", "patch.diff", "pull-request.md", "report.json", "trajectory.json"])
    git = ["git", "-C", repo]
    if subprocess.run([*git, "apply", "--check", os.path.join(out, "patch.diff")], check=False).returncode:
        wrong.append("patch.diff does not apply")
    same("the repository's status", subprocess.run([*git, "status", "--porcelain", "--ignored"], stdout=subprocess.PIPE, check=False).stdout, b"")
    same("the temporary folder", os.listdir(os.path.join(work, "tmp")), [])
    same("what still runs", left_behind(os.path.join(work, "tmp")), [])

    name = expected["requirement"]
    if wrong:
        print(f"{name}: FAILED: {'; '.join(wrong)}", flush=True)
        return 1
    counts = "{passed} passed, {failed} failed".format
    seconds = sum(took for _, took in report["stage_ms"]) / 1000
    print(f"{name}: {report['proof']}; {counts(**before)} before; {counts(**after)} after; {report['steps']} steps, {seconds:.1f} s", flush=True)
    return 0


def as_range(count):
    """A number, or the least and the most: some tests are left out on some versions of Python."""
    return count if isinstance(count, list) else (count, count)


def read_json(path, wrong):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        wrong.append(f"{os.path.basename(path)} can't be read: {error}")
        return {}


def left_behind(folder):
    """Processes that name the folder in their arguments or have it mounted."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for file in ("cmdline", "mountinfo"):
            try:
                with open(f"/proc/{pid}/{file}", "rb") as content:
                    if int(pid) != os.getpid() and f"{folder}/frognano-".encode() in content.read():
                        found.append(int(pid))
            except OSError:
                pass
    return sorted(set(found))


main(*sys.argv[1:])
