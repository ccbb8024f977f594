//! The parts of a patch, each to be taken back alone, to learn which of them a test notices.

use similar::{Algorithm, DiffTag, capture_diff_slices, group_diff_ops};

use crate::domain::{BlobMode, ChangedFile, Hunk, TestNames, TestResult, TestRun, is_test_configuration};

/// A patch with more parts than this is not tried part by part.
pub const MOST: usize = 10;
/// A larger file is not taken apart, in bytes.
const LARGEST: usize = 1024 * 1024;

/// One part of a patch, and its file without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Which part; nothing is known of it yet.
    pub hunk: Hunk,
    /// The file with everything but this part.
    pub reverted: ChangedFile,
}

/// The parts of a patch in files of source: those that were there before, are text, and are neither tests, their configuration nor documents.
#[must_use]
pub fn parts(changed: &[ChangedFile], tests: &TestNames) -> Vec<Part> {
    changed.iter().filter(|file| is_source(&file.path, tests)).flat_map(parts_of).collect()
}

/// Whether a path is source: what a test could notice.
#[must_use]
pub fn is_source(path: &[u8], tests: &TestNames) -> bool {
    const DOCUMENTS: &[&[u8]] = &[b".md", b".rst", b".txt", b".adoc"];
    let is_document = DOCUMENTS.iter().any(|end| path.to_ascii_lowercase().ends_with(end)) || path.starts_with(b"docs/");
    !is_document && !tests.is_test_file(path) && !is_test_configuration(path)
}

/// Whether a proving test failed in a run without a part; none where that can't be told, since some did not run at all.
#[must_use]
pub fn noticed(run: &TestRun, proving: &[String]) -> Option<bool> {
    let said = proving.iter().map(|name| run.said(name)).collect::<Vec<_>>();
    if said.iter().any(|result| matches!(result, Some(TestResult::Failed | TestResult::Error))) {
        return Some(true);
    }
    (run.per_test && !said.is_empty() && said.iter().all(|result| *result == Some(TestResult::Passed))).then_some(false)
}

fn parts_of(file: &ChangedFile) -> Vec<Part> {
    let text = |side: &Option<(BlobMode, Vec<u8>)>| match side {
        Some((BlobMode::File | BlobMode::Executable, bytes)) if bytes.len() <= LARGEST => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    };
    let (Some(before), Some(after), Some((mode, _))) = (text(&file.before), text(&file.after), &file.after) else { return Vec::new() };
    let (old, new): (Vec<&str>, Vec<&str>) = (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    let groups = group_diff_ops(capture_diff_slices(Algorithm::Myers, &old, &new), 1);
    let part = |group: Vec<similar::DiffOp>| {
        let changes = group.iter().filter(|op| op.tag() != DiffTag::Equal).collect::<Vec<_>>();
        let (first, last) = (changes.first()?, changes.last()?);
        let (was, is) = (first.old_range().start..last.old_range().end, first.new_range().start..last.new_range().end);
        let reverted = [new.get(..is.start)?, old.get(was)?, new.get(is.end..)?].concat().concat();
        Some(Part {
            hunk: Hunk { path: file.shown_path(), line: is.start as u64 + 1, lines: is.len() as u64, noticed: None },
            reverted: ChangedFile { after: Some((*mode, reverted.into_bytes())), ..file.clone() },
        })
    };
    groups.into_iter().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::{noticed, parts};
    use crate::domain::{BlobMode, ChangedFile, TestCase, TestNames, TestResult, TestRun};

    fn changed(path: &str, before: Option<&str>, after: Option<&str>) -> ChangedFile {
        let blob = |text: &str| (BlobMode::File, text.as_bytes().to_vec());
        ChangedFile { path: path.as_bytes().to_vec(), before: before.map(blob), after: after.map(blob) }
    }

    #[test]
    fn each_part_is_taken_back_alone() {
        let patch = changed("a.py", Some("a\nb\nc\nd\ne\nf\ng"), Some("A\nb\nc\nd\ne\nnew\nf\nG"));
        let found = parts(&[patch, changed("new.py", None, Some("x\n")), changed("gone.py", Some("x\n"), None)], &TestNames::default());
        let seen = found.iter().map(|part| {
            let text = String::from_utf8(part.reverted.after.clone().unwrap().1).unwrap();
            (part.hunk.line, part.hunk.lines, text)
        });
        let seen = seen.collect::<Vec<_>>();
        assert_eq!(seen, [(1, 1, "a\nb\nc\nd\ne\nnew\nf\nG".to_owned()), (6, 3, "A\nb\nc\nd\ne\nf\ng".to_owned())]);
    }

    #[test]
    fn tests_documents_and_what_is_no_text_have_no_parts() {
        for path in ["tests/test_a.py", "pyproject.toml", "README.md", "docs/conf.py"] {
            assert!(parts(&[changed(path, Some("a\n"), Some("b\n"))], &TestNames::default()).is_empty(), "{path}");
        }
        let binary = ChangedFile { after: Some((BlobMode::File, vec![0xff])), ..changed("a.bin", Some("a\n"), None) };
        assert!(parts(&[binary], &TestNames::default()).is_empty());
    }

    #[test]
    fn what_did_not_run_is_no_notice() {
        let run = |cases: &[(&str, TestResult)]| TestRun {
            per_test: true,
            cases: cases.iter().map(|(name, result)| TestCase::new(name, *result)).collect(),
            ..TestRun::default()
        };
        let proving = ["a".to_owned(), "b".to_owned()];
        use TestResult::{Error, Failed, Passed, Skipped};
        assert_eq!(noticed(&run(&[("a", Passed), ("b", Failed)]), &proving), Some(true));
        assert_eq!(noticed(&run(&[("b", Failed)]), &proving), Some(true));
        assert_eq!(noticed(&run(&[("a", Passed), ("b", Passed)]), &proving), Some(false));
        for cases in [&[][..], &[("a", Passed)], &[("a", Passed), ("b", Skipped)], &[("module", Error)]] {
            assert_eq!(noticed(&run(cases), &proving), None, "{cases:?}");
        }
        assert_eq!(noticed(&run(&[]), &[]), None);
    }
}
