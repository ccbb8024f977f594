//! What a change of pytest's settings means.

use std::os::unix::ffi::OsStrExt as _;

use ignore::gitignore::GitignoreBuilder;

use super::Weighed;
use super::settings::Settings;
use crate::domain::Severity::{self, Flag, Refuse};

/// Options that change what is shown, or make the run stricter.
const HARMLESS: &[&str] = &[
    "-v",
    "-vv",
    "-vvv",
    "-q",
    "-qq",
    "-l",
    "-s",
    "-n",
    "-r",
    "--tb",
    "--durations",
    "--durations-min",
    "--color",
    "--code-highlight",
    "--strict",
    "--strict-markers",
    "--strict-config",
    "--showlocals",
    "--show-capture",
    "--verbose",
    "--quiet",
    "--verbosity",
    "--no-header",
    "--capture",
    "--log-level",
    "--log-cli-level",
    "--log-format",
    "--cov",
    "--cov-report",
    "--cov-branch",
    "--cov-context",
    "--cov-fail-under",
    "--doctest-modules",
    "--doctest-glob",
    "--doctest-plus",
    "--import-mode",
    "--numprocesses",
    "--dist",
    "--timeout",
    "--asyncio-mode",
    "--html",
    "--junit-prefix",
    "--randomly-seed",
    "--cache-clear",
    "--basetemp",
    "--ds",
    "--reuse-db",
    "--nomigrations",
    "--full-trace",
    "--junitxml",
    "--junit-xml",
    "--force-sugar",
    "--disable-socket",
    "--verbosity-test-cases",
    "--full-capture",
];

/// Options whose loss lets something pass that failed, or fewer tests run.
const STRICT: &[&str] = &[
    "--strict",
    "--strict-markers",
    "--strict-config",
    "--doctest-modules",
    "--doctest-glob",
    "--doctest-plus",
    "--doctest-continue-on-failure",
    "--runxfail",
    "--cov-fail-under",
    "--disable-socket",
];

/// Options that take the next word with them.
const WITH_VALUE: &[&str] = &[
    "-p",
    "-k",
    "-m",
    "-W",
    "-o",
    "-c",
    "-n",
    "-r",
    "--tb",
    "--ignore",
    "--deselect",
    "--maxfail",
    "--rootdir",
    "--cov-fail-under",
    "--confcutdir",
    "--ignore-glob",
];

pub(super) fn weigh(was: Option<&Settings>, is: Option<&Settings>, top: &[u8], tests: &[&[u8]], covered: f64) -> Vec<Weighed> {
    let nothing = Settings::default();
    let (was, is) = (was.unwrap_or(&nothing), is.unwrap_or(&nothing));
    let mut weighed = options(&was.get("addopts").join(" "), &is.get("addopts").join(" "), covered);
    let keys = was.0.keys().chain(is.0.keys().filter(|key| !was.0.contains_key(*key)));
    weighed.extend(keys.filter(|key| *key != "addopts" && was.get(key) != is.get(key)).filter_map(|key| setting(key, was, is, top, tests)));
    weighed
}

fn refused(key: &str, why: &str) -> Option<Weighed> {
    Some((Refuse, format!("{key} {why}")))
}

fn setting(key: &str, was: &Settings, is: &Settings, top: &[u8], tests: &[&[u8]]) -> Option<Weighed> {
    let (old, new) = (words(was.get(key)), words(is.get(key)));
    let added: Vec<&String> = new.iter().filter(|word| !old.contains(word)).collect();
    let lost = old.iter().filter(|word| !new.contains(word)).count();
    let on = |text: &str| matches!(text, "true" | "1" | "yes" | "on");
    match key {
        "testpaths" if !new.is_empty() && !covers(&new, top, tests) && (lost > 0 || old.is_empty()) => {
            refused(key, "leaves out tests that ran before")
        }
        "python_files" | "python_classes" | "python_functions" => {
            let default = match key {
                "python_files" => vec!["test_*.py".to_owned(), "*_test.py".to_owned()],
                "python_classes" => vec!["Test".to_owned()],
                _ => vec!["test".to_owned()],
            };
            let old = if old.is_empty() { default.clone() } else { old };
            let new = if new.is_empty() { default } else { new };
            let same =
                |one: &str, other: &str| one.trim_end_matches(['*', '_']) == other.trim_end_matches(['*', '_']) && !one.contains('[');
            let narrower = !old.iter().all(|one| new.iter().any(|other| one == other || same(one, other) || other == "*"));
            narrower.then(|| (Refuse, format!("{key} no longer has the names of tests that ran before")))
        }
        "norecursedirs" | "collect_ignore" | "collect_ignore_glob" if added.iter().any(|glob| hides(glob, tests)) => {
            refused(key, "hides tests that ran before")
        }
        "filterwarnings" => {
            let lost_error = old.iter().any(|one| one.starts_with("error")) && !new.iter().any(|one| one.starts_with("error"));
            let ignores_all = added.iter().any(|one| {
                matches!(one.trim_end_matches(':'), "ignore" | "default" | "always" | "once")
                    || matches!(one.as_str(), "ignore::Warning" | "ignore::Exception" | "ignore::UserWarning")
            });
            if lost_error || ignores_all { refused(key, "lets warnings pass that failed before") } else { None }
        }
        "xfail_strict"
        | "strict"
        | "strict_xfail"
        | "strict_markers"
        | "strict_config"
        | "strict_parametrization_ids"
        | "enable_assertion_pass_hook"
            if on(&was.text(key)) && !on(&is.text(key)) && key != "enable_assertion_pass_hook" =>
        {
            refused(key, "lets pass what failed before")
        }
        "pythonpath" => {
            let moved = old.first().is_some_and(|first| new.first() != Some(first));
            let into_tests = added.iter().any(|path| {
                path.split('/')
                    .any(|part| matches!(part, "test" | "tests" | "testing" | "fake" | "fakes" | "stubs" | "mocks" | "shim" | "shims"))
            });
            if moved || into_tests || lost > 0 { refused(key, "makes the tests find other modules than before") } else { None }
        }
        "env"
        | "env_files"
        | "usefixtures"
        | "collect_imported_tests"
        | "empty_parameter_set_mark"
        | "python_plugins"
        | "confcutdir"
        | "env_override_existing_values"
            if !added.is_empty() =>
        {
            refused(key, "changes every test from outside")
        }
        "doctest_optionflags" if added.iter().any(|flag| flag.contains("SKIP") || flag.contains("IGNORE_EXCEPTION_DETAIL")) => {
            refused(key, "compares examples more loosely")
        }
        "required_plugins" | "timeout" if lost > 0 && added.is_empty() => Some((Flag, format!("{key} asks for less than before"))),
        _ => None,
    }
}

fn words(values: &[String]) -> Vec<String> {
    values
        .iter()
        .flat_map(|value| {
            if value.contains(' ') && !value.contains(':') {
                value.split_whitespace().map(str::to_owned).collect()
            } else {
                vec![value.clone()]
            }
        })
        .collect()
}

/// Whether every test file of base below this folder is below one of the paths.
pub(super) fn covers(paths: &[String], top: &[u8], tests: &[&[u8]]) -> bool {
    let top = String::from_utf8_lossy(top).into_owned();
    let here = tests
        .iter()
        .map(|test| String::from_utf8_lossy(test).into_owned())
        .filter_map(|test| test.strip_prefix(&top).map(|rest| rest.trim_start_matches('/').to_owned()));
    let places = paths.iter().map(|path| path.trim_start_matches("./").trim_end_matches('/'));
    let places: Vec<_> = places.map(|path| (path, path.contains('*').then(|| globbing(path)))).collect();
    here.into_iter().all(|test| {
        places.iter().any(|(path, holds)| {
            let path = *path;
            path == "."
                || path.is_empty()
                || test == path
                || test.starts_with(&format!("{path}/"))
                || holds.as_ref().is_some_and(|holds| holds(&test))
        })
    })
}

/// Whether a path is what a pattern names, or below it.
fn globbing(glob: &str) -> impl Fn(&str) -> bool {
    let mut builder = GitignoreBuilder::new("");
    let list = builder.add_line(None, glob).ok().and_then(|builder| builder.build().ok());
    move |path| list.as_ref().is_some_and(|list| list.matched_path_or_any_parents(path.trim_start_matches('/'), false).is_ignore())
}

fn hides(glob: &str, tests: &[&[u8]]) -> bool {
    let holds = globbing(glob);
    tests.iter().any(|test| {
        holds(&String::from_utf8_lossy(test)) && std::ffi::OsStr::from_bytes(test).to_str().is_some_and(|path| !path.starts_with('/'))
    })
}

/// The share of the code, in percent, that options ask to be covered.
pub(super) fn bar(line: &str) -> Option<f64> {
    let value = |option: &String| option.strip_prefix("--cov-fail-under").map(|rest| number(rest.trim_start_matches(['=', ' '])));
    split(line).iter().rev().find_map(value)
}

/// The options that were added and lost. `covered` is the share that the settings of coverage asked for.
fn options(was: &str, is: &str, covered: f64) -> Vec<Weighed> {
    let covered = bar(was).unwrap_or(covered);
    let (old, new) = (split(was), split(is));
    let mut weighed = Vec::new();
    for option in new.iter().filter(|option| !old.contains(option)) {
        let name = option.split(['=', ' ']).next().unwrap_or(option);
        let value = option[name.len()..].trim_start_matches(['=', ' ']);
        let severity: Option<Severity> = match name {
            "--cov-fail-under" if number(value) < covered => Some(Refuse),
            "-W" if !matches!(value, "ignore" | "default" | "ignore::Warning") => None,
            "-p" if matches!(value, "no:cacheprovider" | "no:randomly" | "pytester") => None,
            "--maxfail" | "-x" => Some(Refuse),
            _ if HARMLESS.contains(&name) || name.starts_with("-r") && !name.starts_with("--") => None,
            _ => Some(Refuse),
        };
        weighed.extend(severity.map(|severity| {
            (severity, format!("addopts has {option}, which leaves tests out, loads code into the run, or hides what fails"))
        }));
    }
    for option in old.iter().filter(|option| !new.contains(option)) {
        let name = option.split(['=', ' ']).next().unwrap_or(option);
        let has_another = new.iter().any(|other| other.split(['=', ' ']).next() == Some(name));
        if (STRICT.contains(&name) || option.starts_with("-W error") || option.starts_with("-W=error")) && !has_another {
            weighed.push((Refuse, format!("addopts has no {option} any more, so something passes that failed, or fewer tests run")));
        }
    }
    weighed
}

/// The names in the expression of `-m`.
pub(super) fn choosing_words(line: &str) -> Vec<String> {
    let options = split(line);
    let expressions = options.iter().filter_map(|option| option.strip_prefix("-m "));
    let words = expressions.flat_map(|expression| expression.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| !matches!(*word, "" | "not" | "and" | "or")).map(str::to_owned).collect()
}

/// Whether options or folders that are passed over keep a path from being collected.
pub(super) fn leaves_out(settings: &Settings, path: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path);
    let below = |place: &str| {
        let place = place.trim_end_matches('/').trim_start_matches("./");
        path == place || path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'))
    };
    let options = split(&settings.get("addopts").join(" "));
    let value = |option: &str, name: &str| option.strip_prefix(name).and_then(|rest| rest.strip_prefix(['=', ' '])).map(str::to_owned);
    let ignored = options.iter().filter_map(|option| value(option, "--ignore")).any(|place| below(&place));
    let globs = options.iter().filter_map(|option| value(option, "--ignore-glob"));
    let folders = words(settings.get("norecursedirs"));
    ignored || globs.chain(folders).any(|glob| hides(&glob, &[path.as_bytes()]))
}

/// Whether options leave out a test of this place and name.
pub(super) fn deselects(line: &str, path: &str, test: &str) -> bool {
    let id = format!("{path}::{}", test.replace('.', "::"));
    split(line).iter().any(|option| {
        let deselected = option.strip_prefix("--deselect").map(|rest| rest.trim_start_matches(['=', ' ']));
        let expression = option.strip_prefix("-k ").or_else(|| option.strip_prefix("--keyword="));
        deselected.is_some_and(|prefix| id.starts_with(prefix)) || expression.is_some_and(|expression| !chosen(expression, &id))
    })
}

/// Whether an expression of `-k` chooses a test: names are parts of its id; `not` binds more than `and`, `and` more than `or`. What is written with
/// brackets chooses all that it names.
fn chosen(expression: &str, id: &str) -> bool {
    let id = id.to_lowercase();
    let lower = expression.to_lowercase();
    if lower.contains('(') {
        return !lower.contains("not");
    }
    lower.split(" or ").any(|all| {
        all.split(" and ").all(|one| match one.trim().strip_prefix("not ") {
            Some(word) => !id.contains(word.trim()),
            None => id.contains(one.trim()),
        })
    })
}

fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or(0.0)
}

/// The options of a command line, each with its value.
fn split(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut word, mut quote, mut open) = (String::new(), None, false);
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            None if c == '"' || c == '\'' => (quote, open) = (Some(c), true),
            None if c.is_whitespace() => {
                if open || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                open = false;
            }
            _ => word.push(c),
        }
    }
    if open || !word.is_empty() {
        words.push(word);
    }
    let mut options = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word.as_str()) {
            options.push(format!("{word} {}", words.next().unwrap_or_default()));
        } else if let Some(short) = ["-p", "-k", "-m", "-W", "-o", "-c"].into_iter().find(|short| word.len() > 2 && word.starts_with(short))
        {
            options.push(format!("{short} {}", word[2..].trim_start_matches('=')));
        } else {
            options.push(word);
        }
    }
    options
}
