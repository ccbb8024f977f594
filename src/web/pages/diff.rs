//! A patch as a page shows it: file by file, line by line, with what the rules found beside the lines.

use crate::domain::{Finding, Severity};

use super::text::words;

/// Further lines are not shown.
const MOST_LINES: usize = 5000;
/// A line is cut behind so many characters.
const LONGEST_LINE: usize = 2000;

/// What a rule found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub rule: String,
    pub is_refusal: bool,
    pub path: String,
    pub line: String,
    pub why: String,
}

/// One file of a patch.
#[derive(Debug, Default)]
pub(super) struct FileDiff {
    pub path: String,
    pub added: usize,
    pub removed: usize,
    /// What is about the file and no line of it that is shown.
    pub found: Vec<Found>,
    pub lines: Vec<Line>,
    /// What is said in place of lines, or beside them.
    pub notes: Vec<String>,
}

/// One line.
#[derive(Debug)]
pub(super) struct Line {
    /// add, del, same or hunk.
    pub class: &'static str,
    /// What the class says, for who does not see colours.
    pub sign: &'static str,
    pub before: String,
    pub after: String,
    pub text: String,
    pub found: Vec<Found>,
}

impl Found {
    pub(super) fn of(finding: &Finding) -> Self {
        Self {
            rule: words(&finding.rule),
            is_refusal: finding.severity == Severity::Refuse,
            path: finding.path.clone(),
            line: finding.line.map(|line| line.to_string()).unwrap_or_default(),
            why: finding.why.clone(),
        }
    }
}

/// The files of a patch as git writes it; true when lines at its end are left out.
pub(super) fn files(patch: &str, findings: &[Finding]) -> (Vec<FileDiff>, bool) {
    let mut files = Vec::<FileDiff>::new();
    let (mut before, mut after, mut shown) = (0_u64, 0_u64, 0);
    let (mut left_before, mut left_after) = (0_u64, 0_u64);
    for text in patch.split('\n') {
        if let Some(rest) = text.strip_prefix("diff --git ").filter(|_| left_before == 0 && left_after == 0) {
            let path = rest
                .rsplit_once(" b/")
                .map_or_else(|| unquoted(rest.rsplit(' ').next().unwrap_or_default(), "b/"), |(_, path)| path.to_owned());
            files.push(FileDiff { path, ..FileDiff::default() });
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        if let Some(hunk) = text.strip_prefix("@@ -").filter(|_| left_before == 0 && left_after == 0) {
            ((before, left_before), (after, left_after)) = ranges(hunk);
            file.lines.push(Line::new("hunk", "", None, None, text));
            continue;
        }
        if left_before == 0 && left_after == 0 {
            header(file, text);
            continue;
        }
        if shown == MOST_LINES {
            finish(&mut files, findings);
            return (files, true);
        }
        shown += 1;
        let (sign, body) = text.split_at_checked(1).unwrap_or((" ", ""));
        match sign {
            "+" => {
                file.added += 1;
                file.lines.push(Line::new("add", "+", None, Some(after), body));
                (after, left_after) = (after + 1, left_after.saturating_sub(1));
            }
            "-" => {
                file.removed += 1;
                file.lines.push(Line::new("del", "−", Some(before), None, body));
                (before, left_before) = (before + 1, left_before.saturating_sub(1));
            }
            "\\" => {}
            _ => {
                file.lines.push(Line::new("same", "", Some(before), Some(after), body));
                (before, after) = (before + 1, after + 1);
                (left_before, left_after) = (left_before.saturating_sub(1), left_after.saturating_sub(1));
            }
        }
    }
    finish(&mut files, findings);
    (files, false)
}

impl Line {
    fn new(class: &'static str, sign: &'static str, before: Option<u64>, after: Option<u64>, text: &str) -> Self {
        let shown = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let cut = text.chars().nth(LONGEST_LINE).is_some();
        let text = if cut { text.chars().take(LONGEST_LINE).chain(" … cut here".chars()).collect() } else { text.to_owned() };
        Self { class, sign, before: shown(before), after: shown(after), text, found: Vec::new() }
    }
}

/// `12,3 +14,5 @@ …`: where the hunk begins before and after, and how many lines it has there.
fn ranges(hunk: &str) -> ((u64, u64), (u64, u64)) {
    let range = |text: &str| {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        (start.parse().unwrap_or(0), count.parse().unwrap_or(0))
    };
    let mut parts = hunk.split(' ');
    let before = parts.next().map_or((0, 0), range);
    let after = parts.next().and_then(|part| part.strip_prefix('+')).map_or((0, 0), range);
    (before, after)
}

/// A line between the name of a file and its hunks.
fn header(file: &mut FileDiff, line: &str) {
    if let Some(path) = line.strip_prefix("+++ ").or_else(|| line.strip_prefix("--- ")) {
        let path = path.trim_end_matches('\t');
        if path != "/dev/null" {
            file.path = unquoted(&unquoted(path, "a/"), "b/");
        }
        return;
    }
    let kept = ["new file", "deleted file", "old mode", "new mode", "rename ", "copy ", "Binary files", "GIT binary"];
    if kept.iter().any(|start| line.starts_with(start)) {
        file.notes.push(line.chars().take(300).collect());
    }
}

/// A path as git quotes it, without what stands before it.
fn unquoted(path: &str, before: &str) -> String {
    let Some(inner) = path.strip_prefix('"').and_then(|path| path.strip_suffix('"')) else {
        return path.strip_prefix(before).unwrap_or(path).to_owned();
    };
    let mut bytes = Vec::new();
    let mut rest = inner.bytes();
    while let Some(byte) = rest.next() {
        let letter = match byte {
            b'\\' => rest.next(),
            other => {
                bytes.push(other);
                continue;
            }
        };
        bytes.push(match letter {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'a') => 7,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'v') => 11,
            Some(first @ b'0'..=b'7') => {
                let digits = [first, rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                digits.iter().fold(0_u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit.wrapping_sub(b'0')))
            }
            Some(other) => other,
            None => b'\\',
        });
    }
    let path = String::from_utf8_lossy(&bytes).into_owned();
    path.strip_prefix(before).map_or(path.clone(), str::to_owned)
}

/// Puts the findings to their lines; those of no shown line to their file.
fn finish(files: &mut [FileDiff], findings: &[Finding]) {
    for finding in findings {
        let Some(file) = files.iter_mut().find(|file| file.path == finding.path) else { continue };
        let line = finding.line.map(|line| line.to_string());
        let place = file.lines.iter_mut().find(|shown| line.as_ref().is_some_and(|line| *line == shown.after) && shown.class != "hunk");
        match place {
            Some(shown) => shown.found.push(Found::of(finding)),
            None => file.found.push(Found::of(finding)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::files;
    use crate::domain::{Finding, Severity};

    const PATCH: &str = "diff --git a/a b.py b/a b.py\nindex 1..2 100644\n--- a/a b.py\t\n+++ b/a b.py\t\n@@ -1,3 +1,4 @@ def f():\n one\n-two\n+diff --git a/x b/x\n+@@ -9,9 +9,9 @@\n three\n\\ No newline at end of file\ndiff --git \"a/\\303\\274\\n.py\" \"b/\\303\\274\\n.py\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/\\303\\274\\n.py\"\n@@ -0,0 +1 @@\n+<script>alert(1)</script>\n";

    fn finding(path: &str, line: Option<u64>) -> Finding {
        Finding { rule: "risky-call".into(), severity: Severity::Flag, path: path.into(), line, why: "why".into() }
    }

    #[test]
    fn a_patch_is_shown_file_by_file_and_no_line_of_it_is_taken_for_a_header() {
        let (shown, cut) =
            files(PATCH, &[finding("a b.py", Some(3)), finding("a b.py", Some(99)), finding("ü\n.py", Some(1)), finding("", None)]);
        assert!(!cut);
        assert_eq!(
            shown.iter().map(|file| (file.path.as_str(), file.added, file.removed)).collect::<Vec<_>>(),
            [("a b.py", 2, 1), ("ü\n.py", 1, 0)]
        );
        let line = &shown[0].lines[4];
        assert_eq!((line.text.as_str(), line.after.as_str(), line.found.len()), ("@@ -9,9 +9,9 @@", "3", 1));
        assert_eq!((shown[0].found.len(), shown[1].lines[1].found.len()), (1, 1));
        assert_eq!(shown[1].notes, ["new file mode 100644"]);
    }

    #[test]
    fn a_huge_patch_and_a_damaged_one_have_an_end() {
        let lines = "+x\n".repeat(9000);
        let (shown, cut) = files(&format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,9000 @@\n{lines}"), &[]);
        assert!(cut && shown[0].lines.len() < 5010);
        for odd in [
            "",
            "no patch",
            "@@ -1 +1 @@\n+x",
            "diff --git \n@@ -x +y @@\n+z",
            "diff --git \"a/\\",
            "diff --git a b\n@@ -1,99999999999999999999 +1 @@\n é",
        ] {
            files(odd, &[finding("x", None)]);
        }
    }
}
