//! Settings as their reader finds them: the first file that has any, in the reader's own order.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// Settings by name; each value as its parts: the items of a list, or the lines of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settings(pub(super) BTreeMap<String, Vec<String>>);

/// More settings, or words in one of them, are not weighed.
const MOST: usize = 1000;

/// Whether a file of this name may hold settings of the runner.
pub(super) fn may_hold(name: &[u8]) -> bool {
    [&b"pytest.toml"[..], b".pytest.toml", b"pytest.ini", b".pytest.ini", b"pyproject.toml", b"tox.ini", b"setup.cfg", b".coveragerc"]
        .contains(&name)
}

impl Settings {
    /// The settings that pytest reads in a folder; none where no file there has any.
    pub(super) fn pytest(read: impl Fn(&str) -> Option<String>) -> Option<Self> {
        for name in ["pytest.toml", ".pytest.toml"] {
            if let Some(text) = read(name) {
                return Some(table(&text, &["pytest"]).unwrap_or_default());
            }
        }
        for name in ["pytest.ini", ".pytest.ini"] {
            if let Some(text) = read(name) {
                return Some(section(&text, "pytest").unwrap_or_default());
            }
        }
        let project = read("pyproject.toml")
            .and_then(|text| table(&text, &["tool", "pytest", "ini_options"]).or_else(|| table(&text, &["tool", "pytest"])));
        project
            .or_else(|| read("tox.ini").and_then(|text| section(&text, "pytest")))
            .or_else(|| read("setup.cfg").and_then(|text| section(&text, "tool:pytest")))
    }

    /// The settings that coverage reads in a folder, as `section.key`.
    pub(super) fn coverage(read: impl Fn(&str) -> Option<String>) -> Self {
        let from_ini = |text: &str, prefix: &str| {
            let sections = ["run", "report", "paths"].into_iter().map(|name| (name, section(text, &format!("{prefix}{name}"))));
            merged(sections.filter_map(|(name, settings)| Some((name, settings?))))
        };
        if let Some(text) = read(".coveragerc") {
            return from_ini(&text, "");
        }
        for name in ["setup.cfg", "tox.ini"] {
            if let Some(settings) = read(name).map(|text| from_ini(&text, "coverage:")).filter(|settings| !settings.0.is_empty()) {
                return settings;
            }
        }
        let Some(text) = read("pyproject.toml") else { return Self::default() };
        merged(["run", "report", "paths"].into_iter().filter_map(|name| Some((name, table(&text, &["tool", "coverage", name])?))))
    }

    /// Whether nobody has more of them, or longer ones, than a person reads.
    pub(super) fn is_readable(&self) -> bool {
        self.0.len() <= MOST
            && self.0.values().all(|values| values.iter().map(|value| value.split_whitespace().count()).sum::<usize>() <= MOST)
    }

    pub(super) fn get(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    pub(super) fn text(&self, key: &str) -> String {
        self.get(key).join(" ").trim().to_lowercase()
    }
}

fn merged<'a>(sections: impl Iterator<Item = (&'a str, Settings)>) -> Settings {
    Settings(
        sections.flat_map(|(name, settings)| settings.0.into_iter().map(move |(key, value)| (format!("{name}.{key}"), value))).collect(),
    )
}

fn table(text: &str, path: &[&str]) -> Option<Settings> {
    let mut table: &Table = &text.parse().ok()?;
    for part in path {
        table = table.get(*part)?.as_table()?;
    }
    Some(Settings(table.iter().map(|(key, value)| (key.clone(), parts(value))).collect()))
}

fn parts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => lines(text),
        Value::Array(items) => {
            items.iter().flat_map(|item| if let Value::String(text) = item { vec![text.clone()] } else { parts(item) }).collect()
        }
        other => vec![other.to_string()],
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// One section of an INI file, as Python's configparser reads it; none where it is not there.
fn section(text: &str, wanted: &str) -> Option<Settings> {
    let mut found = None;
    let mut here = false;
    let mut key = String::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()).filter(|_| !line.starts_with([' ', '\t'])) {
            here = name.trim() == wanted;
            key.clear();
            if here {
                found.get_or_insert_with(Settings::default);
            }
            continue;
        }
        let Some(settings) = found.as_mut().filter(|_| here) else { continue };
        if line.starts_with([' ', '\t']) && !key.is_empty() {
            settings.0.entry(key.clone()).or_default().push(trimmed.to_owned());
        } else {
            let (name, value) = trimmed.split_once(['=', ':']).unwrap_or((trimmed, ""));
            name.trim().clone_into(&mut key);
            settings.0.insert(key.clone(), lines(value));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::Settings;

    #[test]
    fn the_first_file_with_settings_is_the_one() {
        let read = |name: &str| match name {
            "setup.cfg" => Some("[tool:pytest]\naddopts = -x\n".to_owned()),
            "pyproject.toml" => Some("[tool.pytest.ini_options]\naddopts = '-v'\ntestpaths = ['a', 'b']\nxfail_strict = true\n".to_owned()),
            _ => None,
        };
        let settings = Settings::pytest(read).unwrap();
        assert_eq!(
            (settings.text("addopts"), settings.text("testpaths"), settings.text("xfail_strict")),
            ("-v".into(), "a b".into(), "true".into())
        );
        let only = Settings::pytest(|name| (name == "setup.cfg").then(|| read("setup.cfg").unwrap())).unwrap();
        assert_eq!(only.text("addopts"), "-x");
        let hidden = Settings::pytest(|name| if name == "pytest.ini" { Some(String::new()) } else { read(name) }).unwrap();
        assert_eq!(hidden, Settings::default());
        let ini = Settings::pytest(|name| {
            (name == "tox.ini").then(|| "[tox]\nx = 1\n[pytest]\n# no\naddopts =\n    -a\n    -b\nq: 1\n".to_owned())
        })
        .unwrap();
        assert_eq!(ini.get("addopts"), ["-a", "-b"]);
        assert_eq!(ini.get("q"), ["1"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_fault(text in "[\\[\\]=: \\n\\ta-z\"'.#]*") {
            Settings::pytest(|_| Some(text.clone()));
            Settings::coverage(|_| Some(text.clone()));
        }
    }
}
