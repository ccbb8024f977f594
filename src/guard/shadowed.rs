//! A new file that is found before the real one: a module of the standard library, of the runner, or of the project itself.

use std::collections::BTreeSet;

use super::{Patch, file_name, folder, of_file, shown};
use crate::domain::{ChangedFile, Finding, Severity};

pub(super) const RULE: &str = "shadowed";

/// What every run of the tests imports from elsewhere.
const RUNNERS: &[&str] = &[
    "pytest",
    "_pytest",
    "pluggy",
    "iniconfig",
    "packaging",
    "coverage",
    "pytest_cov",
    "xdist",
    "execnet",
    "nose",
    "tox",
    "nox",
    "hypothesis",
    "py",
    "exceptiongroup",
    "tomli",
    "pygments",
    "mock",
    "pytest_asyncio",
    "pytest_mock",
    "attr",
    "attrs",
    "setuptools",
    "pkg_resources",
    "pip",
    "wheel",
    "_distutils_hack",
    "distutils",
    "requests",
    "numpy",
    "yaml",
    "six",
];

const STANDARD: &[&str] = &[
    "abc",
    "argparse",
    "array",
    "ast",
    "asyncio",
    "atexit",
    "base64",
    "bdb",
    "binascii",
    "bisect",
    "builtins",
    "bz2",
    "calendar",
    "cmath",
    "cmd",
    "code",
    "codecs",
    "collections",
    "colorsys",
    "compileall",
    "concurrent",
    "configparser",
    "contextlib",
    "contextvars",
    "copy",
    "copyreg",
    "csv",
    "ctypes",
    "curses",
    "dataclasses",
    "datetime",
    "dbm",
    "decimal",
    "difflib",
    "dis",
    "doctest",
    "email",
    "encodings",
    "enum",
    "errno",
    "faulthandler",
    "fcntl",
    "filecmp",
    "fileinput",
    "fnmatch",
    "fractions",
    "ftplib",
    "functools",
    "gc",
    "genericpath",
    "getopt",
    "getpass",
    "gettext",
    "glob",
    "graphlib",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "http",
    "imaplib",
    "imp",
    "importlib",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "keyword",
    "linecache",
    "locale",
    "logging",
    "lzma",
    "mailbox",
    "marshal",
    "math",
    "mimetypes",
    "mmap",
    "multiprocessing",
    "netrc",
    "ntpath",
    "numbers",
    "opcode",
    "operator",
    "optparse",
    "os",
    "pathlib",
    "pdb",
    "pickle",
    "pickletools",
    "pkgutil",
    "platform",
    "plistlib",
    "poplib",
    "posixpath",
    "pprint",
    "profile",
    "pstats",
    "pty",
    "pwd",
    "py_compile",
    "pyclbr",
    "pydoc",
    "queue",
    "quopri",
    "random",
    "re",
    "readline",
    "reprlib",
    "resource",
    "rlcompleter",
    "runpy",
    "sched",
    "secrets",
    "select",
    "selectors",
    "shelve",
    "shlex",
    "shutil",
    "signal",
    "site",
    "smtplib",
    "socket",
    "socketserver",
    "sqlite3",
    "sre_compile",
    "sre_constants",
    "sre_parse",
    "ssl",
    "stat",
    "statistics",
    "string",
    "stringprep",
    "struct",
    "subprocess",
    "symtable",
    "sys",
    "sysconfig",
    "tarfile",
    "tempfile",
    "termios",
    "textwrap",
    "this",
    "threading",
    "time",
    "timeit",
    "token",
    "tokenize",
    "tomllib",
    "trace",
    "traceback",
    "tracemalloc",
    "tty",
    "turtle",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "urllib",
    "uuid",
    "venv",
    "warnings",
    "wave",
    "weakref",
    "webbrowser",
    "wsgiref",
    "xml",
    "xmlrpc",
    "zipapp",
    "zipfile",
    "zipimport",
    "zlib",
    "zoneinfo",
    "_strptime",
    "_collections_abc",
    "__future__",
    "__main__",
];

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let after: BTreeSet<&[u8]> = patch.paths_after().collect();
    let new = patch.changed.iter().filter(|file| file.before.is_none() && file.after.is_some());
    Ok(new.filter_map(|file| finding(file, patch, &after)).collect())
}

fn finding(file: &ChangedFile, patch: &Patch<'_>, after: &BTreeSet<&[u8]>) -> Option<Finding> {
    let (root, name) = import_name(&file.path, after)?;
    let said = |severity, why: String| Some(of_file(RULE, severity, file, None, why));
    let is_shadow_of_module = file_name(&file.path) == b"__init__.py" && after.contains([folder(&file.path), b".py"].concat().as_slice());
    if is_shadow_of_module {
        return said(
            Severity::Refuse,
            format!("the new package {} is found before the module of the same name", shown(folder(&file.path))),
        );
    }
    if name == "conftest" && file_name(&file.path) == b"__init__.py" {
        return said(Severity::Refuse, "the new package takes the place of a conftest.py".to_owned());
    }
    if RUNNERS.contains(&name.as_str()) || STANDARD.contains(&name.as_str()) {
        let severity = if is_searched(&root, patch, after) { Severity::Refuse } else { Severity::Flag };
        return said(severity, format!("the new module is called {name}, and may be found before the one that Python or the runner means"));
    }
    let twin = patch.base.paths.iter().find(|path| is_twin(path, &root, &name, after, patch))?;
    let holds_code = !patch.tests.is_collected_file(&file.path)
        && file.after.as_ref().is_some_and(|(_, content)| !content.iter().all(u8::is_ascii_whitespace));
    let is_data = root.split(|byte| *byte == b'/').any(|part| matches!(part, b"data" | b"fixtures" | b"samples" | b"examples" | b"docs"));
    let is_found = is_searched(&root, patch, after) || patch.tests.is_test_file(&file.path) && !is_data;
    let severity = if is_found && (holds_code || !patch.tests.is_test_file(&file.path)) { Severity::Refuse } else { Severity::Flag };
    said(severity, format!("the new module {name} may be found before {}", shown(twin)))
}

/// The folder that Python would have to search for a file, and the name that it would be imported by there.
fn import_name(path: &[u8], after: &BTreeSet<&[u8]>) -> Option<(Vec<u8>, String)> {
    let name = file_name(path);
    let stem = [&b".py"[..], b".pyc", b".so", b".pyd", b".pyi"].iter().find_map(|ending| name.strip_suffix(*ending))?;
    let stem = stem.split(|byte| *byte == b'.').next().unwrap_or(stem);
    let (mut top, mut name) = (folder(path), stem.to_vec());
    if stem == b"__init__" {
        (name, top) = (file_name(top).to_vec(), folder(top));
    }
    while !top.is_empty() && after.contains([top, b"/__init__.py"].concat().as_slice()) {
        (name, top) = (file_name(top).to_vec(), folder(top));
    }
    Some((top.to_vec(), String::from_utf8(name).ok()?))
}

/// Whether a folder is on Python's way while tests run: the top, a source folder, or one that tests are collected from.
fn is_searched(root: &[u8], patch: &Patch<'_>, after: &BTreeSet<&[u8]>) -> bool {
    let on_path = patch.base.files.values().any(|content| {
        let text = String::from_utf8_lossy(content);
        text.lines()
            .any(|line| line.to_lowercase().contains("pythonpath") && line.contains(&*String::from_utf8_lossy(root)) && !root.is_empty())
    });
    let collects =
        || after.iter().any(|path| folder(path) == root && (patch.tests.is_collected_file(path) || file_name(path) == b"conftest.py"));
    root.is_empty() || on_path || matches!(file_name(root), b"src" | b"lib" | b"source" | b"python" | b"test" | b"tests") || collects()
}

/// A module of base with the same name, below another folder that Python may search.
fn is_twin(path: &[u8], root: &[u8], name: &str, after: &BTreeSet<&[u8]>, patch: &Patch<'_>) -> bool {
    if patch.tests.is_test_file(path) || !after.contains(path) {
        return false;
    }
    import_name(path, after).is_some_and(|(other, known)| {
        let is_top =
            matches!(file_name(&other), b"src" | b"lib" | b"source" | b"python") || other.is_empty() || is_searched(&other, patch, after);
        known == name && other != root && is_top
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::Limits;
    use crate::guard::tests::{base_with, changed, findings_with};

    fn weigh(path: &str) -> Vec<Severity> {
        let base = base_with(&["src/shop/__init__.py", "src/shop/tax.py", "tests/test_a.py", "tools/x.py"], &[]);
        findings_with(check, &[changed(path, None, Some("x = 1\n"))], &Limits::default(), &base)
            .iter()
            .map(|finding| finding.severity)
            .collect()
    }

    #[test]
    fn modules_that_take_anothers_place_are_refused() {
        for path in [
            "random.py",
            "src/pytest.py",
            "tests/unittest/__init__.py",
            "tests/shop/__init__.py",
            "shop.py",
            "src/shop/tax/__init__.py",
            "tests/pytest_cov.py",
        ] {
            assert_eq!(weigh(path), [Refuse], "{path}");
        }
        assert_eq!(weigh("tools/profile.py"), [Flag]);
        for path in
            ["src/shop/types.py", "src/shop/json/__init__.py", "tests/helpers.py", "tests/test_tax.py", "docs/conf.py", "src/shop/money.py"]
        {
            assert!(weigh(path).is_empty(), "{path}");
        }
    }
}
