//! Tests of other languages are not parsed; what switches them off is known by its words all the same.
//!
//! What must hold: a word in a comment counts for nothing; what base had as often is not new; and where tests went together with source, or to
//! another file, a person looks.

use std::sync::LazyLock;

use regex::Regex;

use super::{Patch, file_name, of_file, text};
use crate::domain::{ChangedFile, Finding, Severity, is_test_file};

pub(super) const RULE: &str = "foreign-test";

/// The words of a language's tests.
struct Language {
    endings: &'static [&'static str],
    /// What leaves a test out, lets it fail, or leaves all others out.
    skip: Regex,
    /// Where a test begins.
    test: Regex,
    /// What can fail.
    assertion: Regex,
    /// Whether tests stand in the source too.
    inside_source: bool,
}

static LANGUAGES: LazyLock<Result<Vec<Language>, regex::Error>> = LazyLock::new(|| {
    Ok(vec![
        language(
            &[".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".vue"],
            r#"\b(?:it|test|describe|context|suite|bench)(?:\.\w+)*(?:\.|\[\s*["'`])(?:skip|skipIf|runIf|todo|failing|fails|fixme|only)\b|(?m)(?:^|[\s;{(])(?:xit|xtest|xdescribe|xcontext|fit|fdescribe|fcontext)\s*\(|\bthis\.skip\s*\(|\b(?:t|ctx|context|test|it)\.skip\s*\("#,
            r"\b(?:it|test|specify)(?:\.\w+(?:\([^)]*\))?)*\s*\(",
            r"\b(?:expect|assert\w*|should|ok|equal|deepEqual|throws|rejects)\b\s*[.(]",
            false,
        )?,
        language(
            &[".go"],
            r"\b(?:t|b|f|tb|s|suite)\.Skip(?:f|Now)?\s*\(|(?m)^//(?:go:build|\s*\+build)\b",
            r"(?m)^func\s+(?:Test|Fuzz|Example)\w*\s*\(",
            r"\b[a-z]+\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\s*\(|\b(?:require|assert|is|qt|c)\.\w+\s*\(",
            false,
        )?,
        language(
            &[".rs"],
            r"#!?\[(?:cfg_attr\s*\(.*,\s*)?ignore\b|#\[\s*should_panic|#!?\[\s*cfg\s*\(\s*(?:any\s*\(\s*\)|not\s*\(\s*test|FALSE)",
            r"#\[\s*(?:\w+::)*(?:test|rstest|test_case|quickcheck)\b",
            r"\b(?:assert\w*|prop_assert\w*|panic|unreachable)!",
            true,
        )?,
        language(
            &[".java", ".kt", ".kts", ".groovy", ".scala"],
            r"@(?:Disabled|Ignore|EnabledIf|EnabledOn|Tag\s*\(\s*.(?i:skip|disabled))\w*|\benabled\s*=\s*false|\b(?:assume\w*|Assumptions|Assume)\s*[.(]",
            r"@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Property)\b|\bfun\s+test\w*\s*\(|\bvoid\s+test\w*\s*\(",
            r"\b(?:assert\w*|verify|fail|expect\w*|should\w*)\s*[({]",
            false,
        )?,
        language(
            &[".rb"],
            r#"\bx(?:it|describe|context|specify|example|scenario)\b|(?m)^\s*f(?:it|describe|context)\b|(?m)^\s*(?:skip|pending)\b|(?:skip|pending):\s*(?:true|["'])"#,
            r"(?m)^\s*(?:it|specify|example|scenario|test)\b|\bdef\s+test_\w+",
            r"\b(?:expect|assert\w*|refute\w*|should|must_\w+)\b",
            false,
        )?,
        language(
            &[".cs", ".fs", ".vb"],
            r"\b(?:Fact|Theory|InlineData)\s*\([^)]*\bSkip\s*=|\[\s*(?:Ignore|Explicit)\b|\bAssert\.(?:Ignore|Inconclusive|Pass)\b",
            r"\[\s*(?:Fact|Theory|Test|TestCase|TestMethod|DataTestMethod)\b",
            r"\bAssert\.\w+|\.Should\w*\(",
            false,
        )?,
        language(
            &[".php"],
            r"markTest(?:Skipped|Incomplete)|->skip\s*\(|->todo\s*\(|@group\s+skip",
            r"function\s+test\w*\s*\(|@test\b|#\[\s*Test\b|\b(?:it|test)\s*\(",
            r"\bassert\w*\s*\(|\bexpect\w*\s*\(",
            false,
        )?,
        language(
            &[".swift", ".dart", ".ex", ".exs", ".lua", ".c", ".cc", ".cpp", ".cxx", ".pl", ".t"],
            r"\bXCTSkip\w*|\bskip:\s*(?:true|['\x22])|@(?:module)?tag\s+:?skip|\bGTEST_SKIP\b|\bDISABLED_\w+|\bskip_all\b|\bpending\s*\(|\.disabled\(",
            r"\bfunc\s+test\w*\s*\(|\btest\s*[( ]\s*['\x22]|\b(?:TEST|TEST_F|TEST_P|TEST_CASE|BOOST_AUTO_TEST_CASE)\s*\(|\bit\s*\(",
            r"\bXCTAssert\w*|\b(?:assert\w*|expect\w*|refute|ok|is|is_deeply)\b\s*[( ]|\b(?:ASSERT|EXPECT|REQUIRE|CHECK)\w*\s*\(",
            false,
        )?,
    ])
});

fn language(
    endings: &'static [&'static str],
    skip: &str,
    test: &str,
    assertion: &str,
    inside_source: bool,
) -> Result<Language, regex::Error> {
    Ok(Language { endings, skip: Regex::new(skip)?, test: Regex::new(test)?, assertion: Regex::new(assertion)?, inside_source })
}

static COMMENTS: LazyLock<Result<[Regex; 2], regex::Error>> = LazyLock::new(|| {
    Ok([Regex::new(r"(?s)/\*.*?\*/|(?m)(?:^|\s)//(?:[^g+\n ][^\n]*| [^+\n][^\n]*|$)")?, Regex::new(r"(?m)^\s*#[^!\[][^\n]*")?])
});

/// Settings of runners, whose change a person must see.
const SETTINGS: &[&str] = &[
    "jest.config.",
    "jest.setup.",
    "vitest.config.",
    "vitest.workspace.",
    "vitest.setup.",
    ".mocharc",
    "karma.conf.",
    "playwright.config.",
    "cypress.config.",
    "cypress.json",
    "ava.config.",
    ".nycrc",
    ".c8rc",
    "phpunit.xml",
    "phpunit.dist.xml",
    "pest.php",
    ".rspec",
    "spec_helper.rb",
    "rails_helper.rb",
    "nextest.toml",
    "testng.xml",
    "surefire",
    ".testcoverage.yml",
    "xunit.runner.json",
    ".runsettings",
];

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let languages = LANGUAGES.as_ref().map_err(ToString::to_string)?;
    let mut findings: Vec<Finding> = patch.changed.iter().filter(|file| is_settings(&file.path)).map(settings).collect();
    for language in languages {
        findings.extend(weaker(language, patch)?);
    }
    Ok(findings)
}

/// Whether a path is one of a test in another language than Python, by its name or its folder.
pub(super) fn is_foreign_test(path: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path).into_owned();
    let name = path.rsplit('/').next().unwrap_or(&path);
    let stem = name.split('.').next().unwrap_or(name);
    let is_python = [".py", ".pyi", ".pyw", ".md", ".rst", ".txt"].iter().any(|ending| name.ends_with(ending));
    let in_name =
        [".test.", ".spec.", ".cy.", ".e2e.", "_test.", "_spec.", "_unittest.", "-test.", "-spec."].iter().any(|part| name.contains(part));
    let in_stem = name.contains('.') && ["Test", "Tests", "Spec", "IT", "TestCase"].iter().any(|end| stem.ends_with(end) && stem != *end);
    let in_folder = path.split('/').rev().skip(1).any(|folder| {
        let folder = folder.to_ascii_lowercase();
        matches!(folder.as_str(), "__tests__" | "spec" | "specs" | "cypress" | "e2e" | "t" | "tests" | "test" | "androidtest")
    });
    !is_python && (in_name || in_stem || in_folder && name.contains('.')) || name.ends_with(".bats")
}

fn is_settings(path: &[u8]) -> bool {
    let name = String::from_utf8_lossy(file_name(path)).to_lowercase();
    SETTINGS.iter().any(|known| name.starts_with(known))
}

fn settings(file: &ChangedFile) -> Finding {
    of_file(RULE, Severity::Flag, file, None, "the file decides how tests of another language run")
}

/// What one side of a file holds of each kind.
#[derive(Default, Clone, Copy)]
struct Counts {
    skips: usize,
    tests: usize,
    assertions: usize,
}

fn weaker(language: &Language, patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let of_language = |file: &&ChangedFile| {
        let path = String::from_utf8_lossy(&file.path).to_lowercase();
        language.endings.iter().any(|ending| path.ends_with(ending))
    };
    let files: Vec<&ChangedFile> = patch.changed.iter().filter(of_language).collect();
    let is_tests = |file: &ChangedFile| language.inside_source || is_foreign_test(&file.path) || is_test_file(&file.path);
    let mut sides = Vec::new();
    for file in files.iter().filter(|file| is_tests(file)) {
        sides.push((*file, count(language, &text(file.before.as_ref()))?, count(language, &text(file.after.as_ref()))?));
    }
    let total =
        |kind: fn(&Counts) -> usize| sides.iter().fold((0, 0), |(before, after), (_, old, new)| (before + kind(old), after + kind(new)));
    let (tests, assertions) = (total(|counts| counts.tests), total(|counts| counts.assertions));
    let source_shrank = files.iter().filter(|file| !is_foreign_test(&file.path)).any(|file| file.after.is_none() || shrank(file));
    let lost = if source_shrank { Severity::Flag } else { Severity::Refuse };
    let mut findings = Vec::new();
    for (file, old, new) in sides {
        let say = |severity, why: &str| of_file(RULE, severity, file, None, why);
        let here = |old: usize, new: usize, total: (usize, usize)| {
            (file.after.is_some() && new < old).then_some(if total.1 < total.0 { lost } else { Severity::Flag })
        };
        let inverted = if language.inside_source { new.tests.saturating_sub(old.tests) } else { 0 };
        if file.before.is_some() && new.skips > old.skips + inverted {
            findings.push(say(Severity::Refuse, "a test is left out, may fail, or runs alone"));
        } else if let Some(severity) = here(old.tests, new.tests, tests) {
            let severity =
                if has_rows(&text(file.after.as_ref())) && !has_rows(&text(file.before.as_ref())) { Severity::Flag } else { severity };
            findings.push(say(severity, "there are fewer tests than before"));
        } else if let Some(severity) = here(old.assertions, new.assertions, assertions) {
            let severity = if new.assertions < new.tests { severity } else { Severity::Flag };
            findings.push(say(severity, "the tests assert less than before"));
        }
    }
    Ok(findings)
}

fn count(language: &Language, text: &str) -> Result<Counts, String> {
    let [slashes, hashes] = COMMENTS.as_ref().map_err(ToString::to_string)?;
    let comments = if language.endings.contains(&".rb") { hashes } else { slashes };
    let text = comments.replace_all(text, "\n");
    let count = |shape: &Regex| shape.find_iter(&text).count();
    let is_of_tests = !language.inside_source || language.test.is_match(&text);
    let assertions = if is_of_tests { count(&language.assertion) } else { 0 };
    Ok(Counts { skips: count(&language.skip), tests: count(&language.test), assertions })
}

/// Whether tests go through rows: several may have become one.
fn has_rows(text: &str) -> bool {
    [".each", "range tests", "range cases", "@ParameterizedTest", "[Theory]", "rstest", "@ValueSource", "dataProvider"]
        .iter()
        .any(|word| text.contains(word))
}

/// Whether the source lost more lines than it got.
fn shrank(file: &ChangedFile) -> bool {
    let source = |text: String| text.split("#[cfg(test)]").next().map_or(0, |source| source.lines().count());
    source(text(file.after.as_ref())) + 2 < source(text(file.before.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::{check, is_foreign_test};
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    #[test]
    fn a_test_that_goes_with_its_source_is_shown() {
        let test = changed(
            "cart_test.go",
            Some("func TestA(t *testing.T) { t.Fatal(1) }\nfunc TestB(t *testing.T) {}\n"),
            Some("func TestB(t *testing.T) {}\n"),
        );
        assert_eq!(severities(check, std::slice::from_ref(&test)), [Refuse]);
        let source = changed("cart.go", Some("a\nb\nc\nd\n"), Some("a\n"));
        assert_eq!(severities(check, &[test, source]), [Flag]);
    }

    #[test]
    fn a_word_in_a_comment_is_no_skip() {
        let old = "it(\"a\", () => { expect(1).toBe(1); });\n";
        for more in ["// it.skip( is for others\n", "/* xit( */\n", "const items = list.skip(2);\n"] {
            assert!(severities(check, &[changed("a.test.js", Some(old), Some(&format!("{old}{more}")))]).is_empty(), "{more}");
        }
    }

    #[test]
    fn tests_of_other_languages_are_known_by_name_or_folder() {
        for path in ["a/b.test.ts", "x_test.go", "spec/x.rb", "src/test/java/ATest.java", "A/CartTests.swift", "t/a.t"] {
            assert!(is_foreign_test(path.as_bytes()), "{path}");
        }
        for path in ["src/latest.js", "src/contest.go", "docs/spec.md", "src/Manifest.java", "src/inspect.rs"] {
            assert!(!is_foreign_test(path.as_bytes()), "{path}");
        }
    }
}
