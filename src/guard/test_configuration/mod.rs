//! What decides which tests run and what counts as a failure: the settings of pytest and of coverage, wherever they stand.
//!
//! What must hold: not lines are compared but what the runner would read: the first file in its own order, before and after the patch. A setting
//! that leaves tests out, loads code into the run or lowers a bar is refused; any other change is left to the flag of every changed configuration.

mod coverage;
mod packaging;
mod pytest;
mod settings;

use std::collections::BTreeSet;

use super::{Base, Patch, file_name, folder, of_file, shown};
use crate::domain::{BlobMode, ChangedFile, Finding, Severity, TestNames};
use settings::Settings;

pub(super) const RULE: &str = "test-configuration";

/// Why a change of the settings weighs as it does.
type Weighed = (Severity, String);

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let touched = patch.changed.iter().filter(|file| settings::may_hold(file_name(&file.path)));
    let folders: BTreeSet<&[u8]> = touched.clone().map(|file| folder(&file.path)).collect();
    let tests: Vec<&[u8]> = patch.base.paths.iter().map(Vec::as_slice).filter(|path| patch.tests.would_collect(path)).collect();
    let mut findings = Vec::new();
    for top in folders {
        let before = |name: &str| content(patch, top, name, Side::Before);
        let after = |name: &str| content(patch, top, name, Side::After);
        let (was, is) = (Settings::pytest(before), Settings::pytest(after));
        let (cover_was, cover_is) = (Settings::coverage(before), Settings::coverage(after));
        if ![was.as_ref(), is.as_ref(), Some(&cover_was), Some(&cover_is)].into_iter().flatten().all(Settings::is_readable) {
            return Err(format!("the settings of the tests in {} are longer than anybody reads", shown_folder(top)));
        }
        let mut weighed = pytest::weigh(was.as_ref(), is.as_ref(), top, &tests, coverage::bar(&cover_was));
        weighed.extend(coverage::weigh(&cover_was, &cover_is));
        if was.is_none() && is.is_some() && !top.is_empty() {
            weighed.push((Severity::Refuse, "settings of pytest in this folder take the place of the project's own".to_owned()));
        }
        let file = touched.clone().find(|file| folder(&file.path) == top);
        findings.extend(file.into_iter().flat_map(|file| {
            weighed.iter().map(|(severity, why)| of_file(RULE, *severity, blamed(patch, top, why, file), None, why.clone()))
        }));
    }
    findings.extend(patch.changed.iter().flat_map(packaging::findings));
    Ok(findings)
}

/// What the settings of base call a test.
pub(super) fn test_names(changed: &[ChangedFile], base: &Base) -> TestNames {
    let settings = Settings::pytest(|name| text_of(changed, base, name.as_bytes(), Side::Before)).unwrap_or_default();
    let words = |key: &str| settings.get(key).iter().flat_map(|value| value.split_whitespace().map(str::to_owned)).collect();
    TestNames { files: words("python_files"), functions: words("python_functions"), classes: words("python_classes") }
}

/// Whether the settings of base let a runner find a file of tests at a place.
pub(super) fn reaches(patch: &Patch<'_>, path: &[u8]) -> bool {
    let settings = Settings::pytest(|name| content(patch, b"", name, Side::Before)).unwrap_or_default();
    let is_covered = settings.get("testpaths").is_empty() || pytest::covers(settings.get("testpaths"), b"", &[path]);
    is_covered && !pytest::leaves_out(&settings, path)
}

/// Whether the settings of base leave out a test by its name: `-k "not slow"`, `--deselect tests/test_a.py::test_b`.
pub(super) fn deselects(patch: &Patch<'_>, path: &[u8], test: &str) -> bool {
    let settings = Settings::pytest(|name| content(patch, b"", name, Side::Before)).unwrap_or_default();
    pytest::deselects(&settings.get("addopts").join(" "), &String::from_utf8_lossy(path), test)
}

/// The share of the code, in percent, that the settings of base ask to be covered; 0 where they ask for none.
pub(super) fn bar(patch: &Patch<'_>) -> f64 {
    let settings = Settings::pytest(|name| content(patch, b"", name, Side::Before)).unwrap_or_default();
    let of_coverage = coverage::bar(&Settings::coverage(|name| content(patch, b"", name, Side::Before)));
    pytest::bar(&settings.get("addopts").join(" ")).unwrap_or(of_coverage)
}

/// The words of the expressions by which the settings of base choose tests: `-m "not slow"`.
pub(super) fn choosing_words(patch: &Patch<'_>) -> Vec<String> {
    let settings = Settings::pytest(|name| content(patch, b"", name, Side::Before)).unwrap_or_default();
    pytest::choosing_words(&settings.get("addopts").join(" "))
}

fn shown_folder(top: &[u8]) -> String {
    if top.is_empty() { "the repository's top".to_owned() } else { shown(top) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// A file's text on one side: from the patch where it is changed, else from base.
fn content(patch: &Patch<'_>, top: &[u8], name: &str, side: Side) -> Option<String> {
    let path = if top.is_empty() { name.as_bytes().to_vec() } else { [top, b"/", name.as_bytes()].concat() };
    text_of(patch.changed, patch.base, &path, side)
}

fn text_of(changed: &[ChangedFile], base: &Base, path: &[u8], side: Side) -> Option<String> {
    let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned();
    let of_blob = |blob: &Option<(BlobMode, Vec<u8>)>| blob.as_ref().map(|(_, content)| text(content));
    match changed.iter().find(|file| file.path == path) {
        Some(file) if side == Side::Before => of_blob(&file.before),
        Some(file) => of_blob(&file.after),
        None => base.text_of(path),
    }
}

/// The changed file that a complaint is about: the one that has the setting's name in it, else the first.
fn blamed<'a>(patch: &'a Patch<'_>, top: &[u8], why: &str, first: &'a ChangedFile) -> &'a ChangedFile {
    let key = why.split(' ').next().unwrap_or_default();
    let candidates = patch.changed.iter().filter(|file| folder(&file.path) == top && settings::may_hold(file_name(&file.path)));
    let mentions =
        |blob: &Option<(BlobMode, Vec<u8>)>| blob.as_ref().is_some_and(|(_, content)| String::from_utf8_lossy(content).contains(key));
    candidates.into_iter().find(|file| mentions(&file.after) || mentions(&file.before)).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::Limits;
    use crate::guard::tests::{base_with, changed, findings_with};

    fn weigh(path: &str, from: Option<&str>, to: Option<&str>) -> Option<Severity> {
        let others =
            [("pyproject.toml", "[tool.pytest.ini_options]\naddopts = \"--doctest-modules\"\n[tool.coverage.report]\nfail_under = 90\n")];
        let others = if path.ends_with("pyproject.toml") { &[][..] } else { &others[..] };
        let base = base_with(&["tests/test_a.py", "tests/slow/test_b.py", "src/a.py"], others);
        findings_with(check, &[changed(path, from, to)], &Limits::default(), &base).iter().map(|finding| finding.severity).max()
    }

    fn project(from: &str, to: &str) -> Option<Severity> {
        let of = |text: &str| format!("[tool.pytest.ini_options]\n{text}\n");
        weigh("pyproject.toml", Some(&of(from)), Some(&of(to)))
    }

    #[test]
    fn settings_that_leave_tests_out_are_refused() {
        for (from, to) in [
            ("", "addopts = \"--ignore=tests/test_a.py\""),
            ("addopts = \"-ra\"", "addopts = \"-ra -k 'not b'\""),
            ("", "addopts = [\"-m\", \"not slow\"]"),
            ("", "addopts = \"-p shop._report\""),
            ("", "addopts = \"--continue-on-collection-errors\""),
            ("addopts = \"--maxfail=5\"", "addopts = \"--maxfail=1\""),
            ("addopts = \"--doctest-modules\"", ""),
            ("addopts = \"--strict-markers\"", ""),
            ("addopts = \"--cov-fail-under=90\"", "addopts = \"--cov-fail-under=50\""),
            ("", "addopts = \"tests/test_a.py\""),
            ("", "python_functions = [\"test_[!d]*\"]"),
            ("", "python_files = \"check_*.py\""),
            ("", "testpaths = [\"tests/slow\"]"),
            ("", "norecursedirs = [\"slow\"]"),
            ("filterwarnings = [\"error\"]", ""),
            ("", "filterwarnings = [\"ignore\"]"),
            ("xfail_strict = true", "xfail_strict = false"),
            ("pythonpath = [\"src\"]", "pythonpath = [\"tests/fake\", \"src\"]"),
            ("", "usefixtures = [\"skipper\"]"),
        ] {
            assert_eq!(project(from, to), Some(Refuse), "{to}");
        }
        assert_eq!(weigh("pytest.ini", None, Some("[pytest]\n")), Some(Refuse), "it hides the settings of pyproject.toml");
        assert_eq!(weigh("tests/pytest.ini", None, Some("[pytest]\n")), Some(Refuse));
        assert_eq!(weigh("pytest.toml", None, Some("[pytest]\naddopts = [\"-k\", \"x\"]\n")), Some(Refuse));
    }

    #[test]
    fn other_settings_are_not() {
        for (from, to) in [
            ("", "markers = [\"slow: slow\"]"),
            ("addopts = \"-ra\"", "addopts = \"-ra -v --tb=short --strict-markers\""),
            ("testpaths = [\"tests/slow\"]", "testpaths = [\"tests\"]"),
            ("", "testpaths = [\"tests\"]"),
            ("", "python_files = [\"test_*.py\", \"*_test.py\", \"check_*.py\"]"),
            ("", "filterwarnings = [\"ignore::DeprecationWarning:six\"]"),
            ("", "pythonpath = [\"src\"]"),
            ("", "xfail_strict = true"),
            ("addopts = \"-k x\"", ""),
        ] {
            assert_ne!(project(from, to), Some(Refuse), "{to}");
        }
    }

    #[test]
    fn a_bar_of_coverage_is_not_lowered() {
        assert_eq!(weigh(".coveragerc", None, Some("[run]\nbranch = true\n")), Some(Refuse), "it hides fail_under of pyproject.toml");
        assert_eq!(weigh(".coveragerc", Some("[report]\nfail_under = 90\n"), Some("[report]\nfail_under = 50\n")), Some(Refuse));
        assert_eq!(
            weigh(".coveragerc", Some("[report]\nfail_under = 90\n"), Some("[report]\nfail_under = 90\nomit = src/a.py\n")),
            Some(Refuse)
        );
        assert_eq!(weigh(".coveragerc", Some("[report]\nfail_under = 90\n"), Some("[report]\nfail_under = 95\n")), Some(Flag));
    }

    #[test]
    fn a_package_does_not_become_a_plugin() {
        let plugin = "[project.entry-points.pytest11]\nx = \"shop._report\"\n";
        assert_eq!(weigh("pyproject.toml", Some(""), Some(plugin)), Some(Refuse));
        assert_eq!(weigh("pyproject.toml", Some(plugin), Some(&plugin.replace("_report", "plugin"))), Some(Flag));
        assert_eq!(
            weigh("setup.cfg", Some("[metadata]\n"), Some("[metadata]\n[options.entry_points]\npytest11 =\n    x = shop\n")),
            Some(Refuse)
        );
        assert_eq!(weigh("pyproject.toml", Some("[build-system]\n"), Some("[build-system]\nbackend-path = [\".\"]\n")), Some(Refuse));
        assert_eq!(weigh("pyproject.toml", Some("[project]\n"), Some("[project.scripts]\npytest = \"shop:main\"\n")), Some(Refuse));
    }
}
