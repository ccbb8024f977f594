//! Names that mean another file to another system, or that can't be shown to a person as they are.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;

use super::{Patch, invisible_characters, of_file};
use crate::domain::{Finding, Severity};

pub(super) const RULE: &str = "odd-name";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let odd = patch.changed.iter().filter_map(|file| complaint(&file.path).map(|why| of_file(RULE, Severity::Refuse, file, None, why)));
    Ok(odd.chain(twins(patch)).collect())
}

fn complaint(path: &[u8]) -> Option<&'static str> {
    let Ok(text) = std::str::from_utf8(path) else { return Some("the name is not UTF-8") };
    let parts = || path.split(|byte| *byte == b'/');
    if text.chars().any(char::is_control) {
        Some("the name has control characters")
    } else if invisible_characters::in_text(text).next().is_some() {
        Some("the name has invisible characters")
    } else if parts().any(|part| matches!(part, b"" | b"." | b"..")) {
        Some("the path is not in its plain form")
    } else if path.contains(&b'\\') {
        Some("the name has a backslash, which is a folder on Windows")
    } else if parts().any(is_dot_git) {
        Some("the path goes into a .git folder")
    } else {
        None
    }
}

/// Whether some file system takes this name for `.git`: in any case, with characters that HFS+ ignores, or as NTFS shortens and trims it.
pub(super) fn is_dot_git(part: &[u8]) -> bool {
    let seen: String = String::from_utf8_lossy(part).chars().filter(|c| !is_ignored_by_hfs(*c)).collect();
    let seen = seen.to_ascii_lowercase();
    let stem = seen.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    matches!(stem, ".git" | "git~1")
}

const fn is_ignored_by_hfs(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// New paths that differ from another path of the patched tree, or one of its folders, by case or Unicode form only.
fn twins<'a>(patch: &'a Patch<'_>) -> impl Iterator<Item = Finding> + 'a {
    let new = || patch.changed.iter().filter(|file| file.before.is_none() && file.after.is_some());
    let mut spellings: HashMap<String, Vec<&[u8]>> =
        new().flat_map(|file| prefixes(&file.path)).map(|(folded, _)| (folded, vec![])).collect();
    let deleted = |path: &[u8]| patch.changed.iter().any(|file| file.path == path && file.after.is_none());
    let kept =
        patch.base.paths.iter().map(Vec::as_slice).filter(|_| !spellings.is_empty()).filter(|path| !deleted(path)).collect::<Vec<_>>();
    for path in kept.into_iter().chain(new().map(|file| file.path.as_slice())) {
        for (folded, actual) in prefixes(path) {
            if let Some(known) = spellings.get_mut(&folded).filter(|known| !known.contains(&actual)) {
                known.push(actual);
            }
        }
    }
    new().filter_map(move |file| {
        let other = prefixes(&file.path).find_map(|(folded, actual)| spellings.get(&folded)?.iter().find(|known| **known != actual))?;
        let why = format!("the path differs from {} by case or Unicode form only", String::from_utf8_lossy(other));
        Some(of_file(RULE, Severity::Refuse, file, None, why))
    })
}

/// The path and each of its folders, folded and as it is.
fn prefixes(path: &[u8]) -> impl Iterator<Item = (String, &[u8])> {
    let mut folded = String::new();
    let mut end = 0;
    path.split(|byte| *byte == b'/').map(move |part| {
        end += part.len() + 1;
        folded.push_str(&fold(part));
        folded.push('/');
        (folded.clone(), &path[..end - 1])
    })
}

fn fold(part: &[u8]) -> String {
    if part.is_ascii() {
        return String::from_utf8_lossy(&part.to_ascii_lowercase()).into_owned();
    }
    caseless::default_case_fold_str(&String::from_utf8_lossy(part).nfc().collect::<String>()).nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::{BlobMode, ChangedFile};
    use crate::guard::Limits;
    use crate::guard::tests::{base_with, changed, findings_with};

    fn named(path: &[u8]) -> ChangedFile {
        ChangedFile { path: path.to_vec(), before: None, after: Some((BlobMode::File, b"x".to_vec())) }
    }

    fn complaints(changed: &[ChangedFile], base: &[&str]) -> usize {
        findings_with(check, changed, &Limits::default(), &base_with(base, &[])).len()
    }

    #[test]
    fn names_that_lie_are_refused() {
        for path in [
            &b"caf\xe9.py"[..],
            b"a\nb",
            b"\x1b[31m",
            b"a//b",
            b"../x",
            b"/etc",
            b"a\\b",
            b".GIT/config",
            b"a/.git/hooks/x",
            b"git~1/x",
            b".git ./x",
            b".git::$INDEX_ALLOCATION/x",
            ".g\u{200c}it/x".as_bytes(),
            "a\u{202e}b".as_bytes(),
        ] {
            assert_eq!(complaints(&[named(path)], &[]), 1, "{}", String::from_utf8_lossy(path));
        }
        for path in ["src/a.py", "größe.txt", ".github/x", "a b.txt", "gitolite/x", "日本.py"] {
            assert_eq!(complaints(&[named(path.as_bytes())], &[]), 0, "{path}");
        }
    }

    #[test]
    fn twins_by_case_are_refused_but_renames_are_not() {
        assert_eq!(complaints(&[named(b"src/Store.py")], &["src/store.py"]), 1);
        assert_eq!(complaints(&[named(b"SRC/other.py")], &["src/store.py"]), 1);
        assert_eq!(complaints(&[named(b"a.py"), named(b"A.py")], &[]), 2);
        assert_eq!(complaints(&[named("e\u{301}.py".as_bytes())], &["\u{e9}.py"]), 1);
        assert_eq!(complaints(&[named(b"src/other.py")], &["src/store.py", "lib/Other.py"]), 0);
        assert_eq!(complaints(&[changed("store.py", Some("x"), None), named(b"Store.py")], &["store.py"]), 0);
    }
}
