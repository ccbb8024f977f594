//! An example in a docstring or in the documentation is a test where doctests run. One that lost its prompt is prose, one that is skipped is nothing.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::{Expr, Stmt};

use super::python::{Module, Reading, statements};
use super::{Patch, lines, of_file, text};
use crate::domain::{ChangedFile, Finding, Severity};

pub(super) const RULE: &str = "doctest-lost";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let mut new = HashMap::new();
    for file in patch.changed {
        let (had, has) = sides(file, patch);
        let had: HashSet<&String> = had.iter().collect();
        has.iter().filter(|example| !had.contains(example)).for_each(|example| *new.entry(example.clone()).or_insert(0) += 1);
    }
    Ok(patch.changed.iter().flat_map(|file| findings(file, patch, &mut new)).collect())
}

/// The dotted names of functions and classes with examples that a patch takes out of their files.
pub(super) fn gone(patch: &Patch<'_>) -> Vec<String> {
    let of_source = patch.python.iter().filter(|file| !file.role.is_of_tests());
    let names = |reading: &Reading| reading.module().map(docstrings).unwrap_or_default();
    let gone = of_source.flat_map(|file| {
        let after: HashSet<String> = names(&file.after).into_iter().map(|(name, _)| name).collect();
        let with_examples = names(&file.before).into_iter().filter(|(_, words)| !examples(words).is_empty());
        with_examples
            .filter(move |(name, _)| !name.is_empty() && !after.contains(name))
            .map(|(name, _)| super::dotted(&file.file.path, &name))
    });
    gone.collect()
}

/// The examples of both sides of a file. In a program of Python only those of docstrings run.
fn sides(file: &ChangedFile, patch: &Patch<'_>) -> (Vec<String>, Vec<String>) {
    let python = patch.python.iter().find(|python| python.file.path == file.path);
    let of = |reading: Option<&Reading>, text: String| match reading.and_then(Reading::module) {
        Some(module) => docstrings(module).iter().flat_map(|(_, words)| examples(words)).collect(),
        None => examples(&text),
    };
    let before = of(python.map(|python| &python.before), text(file.before.as_ref()));
    (before, of(python.map(|python| &python.after), text(file.after.as_ref())))
}

/// The docstrings that doctest looks into, with the dotted names of what they belong to; the name of the module is empty.
fn docstrings(module: &Module) -> Vec<(String, String)> {
    let mut found = Vec::new();
    found.extend(words_of(&module.body).map(|words| (String::new(), words)));
    below(&module.body, "", &mut found);
    for stmt in statements(&module.body) {
        if let Stmt::Assign(of) = stmt
            && of.targets.iter().any(|target| matches!(target, Expr::Name(name) if name.id == "__test__"))
            && let Expr::Dict(table) = &*of.value
        {
            found.extend(table.items.iter().filter_map(|item| Some(("__test__".to_owned(), string(&item.value)?))));
        }
    }
    found
}

fn below(body: &[Stmt], outer: &str, found: &mut Vec<(String, String)>) {
    for stmt in statements(body) {
        let (name, inner) = match stmt {
            Stmt::FunctionDef(of) => (format!("{outer}{}", of.name), &of.body),
            Stmt::ClassDef(of) => (format!("{outer}{}", of.name), &of.body),
            _ => continue,
        };
        found.push((name.clone(), words_of(inner).unwrap_or_default()));
        if matches!(stmt, Stmt::ClassDef(_)) {
            below(inner, &format!("{name}."), found);
        }
    }
}

fn words_of(body: &[Stmt]) -> Option<String> {
    if let Some(Stmt::Expr(first)) = body.first() { string(&first.value) } else { None }
}

fn string(expr: &Expr) -> Option<String> {
    if let Expr::StringLiteral(of) = expr { Some(of.value.to_str().to_owned()) } else { None }
}

/// `elsewhere` counts the examples that are new in their files: what moved is not lost.
fn findings(file: &ChangedFile, patch: &Patch<'_>, elsewhere: &mut HashMap<String, usize>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (had, has) = sides(file, patch);
    let kept: HashSet<&String> = has.iter().collect();
    let mut moved = |example: &String| elsewhere.get_mut(example).filter(|left| **left > 0).map(|left| *left -= 1).is_some();
    let lost = had.iter().filter(|example| !kept.contains(example) && !moved(example)).count();
    if lost > 0 && has.len() < had.len() {
        let why = format!("{} examples run as doctests; before it was {}", has.len(), had.len());
        findings.push(of_file(RULE, Severity::Flag, file, None, why));
    } else if lost > 0 {
        findings.push(of_file(RULE, Severity::Flag, file, None, "an example that runs as a doctest says something else than before"));
    }
    if file.before.is_none() || file.after.is_none() {
        return findings;
    }
    let before = text(file.before.as_ref());
    let old: HashSet<&str> = before.lines().map(str::trim_end).collect();
    for (number, line) in lines::added(file) {
        let line = String::from_utf8_lossy(line);
        let start = line.trim_start().to_lowercase();
        let is_no_docstring =
            ["f\"\"\"", "rf\"\"\"", "fr\"\"\"", "b\"\"\"", "f'''", "rf'''", "b'''"].iter().any(|quote| start.starts_with(quote));
        if is_no_docstring && !had.is_empty() {
            findings.push(of_file(
                RULE,
                Severity::Flag,
                file,
                Some(number),
                "a text that is computed is no docstring: its examples run no more",
            ));
        }
        let Some((example, directive)) = line.split_once("doctest:") else { continue };
        let example = example.trim_end().trim_end_matches('#').trim_end();
        if directive.contains("+SKIP") && old.contains(example) {
            findings.push(of_file(RULE, Severity::Refuse, file, Some(number), "an example that ran is skipped"));
        } else if directive.contains('+') {
            findings.push(of_file(RULE, Severity::Flag, file, Some(number), "an example is compared more loosely, or skipped"));
        }
    }
    findings
}

/// Each example with what it must give.
fn examples(text: &str) -> Vec<String> {
    let mut examples: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with(">>> ") || line == ">>>" {
            examples.push(line.to_owned());
            open = true;
        } else if line.is_empty() || line.starts_with("\"\"\"") || line.starts_with("'''") || line.starts_with("```") {
            open = false;
        } else if let Some(example) = examples.last_mut().filter(|_| open) {
            example.push_str(line);
        }
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    #[test]
    fn examples_that_no_longer_run_are_seen() {
        let base = "def f():\n    \"\"\"\n    >>> f()\n    1\n    \"\"\"\n";
        let weigh = |to: &str| -> Vec<Severity> { severities(check, &[changed("a.py", Some(base), Some(&base.replace(">>> f()", to)))]) };
        assert_eq!(weigh(">> f()"), [Flag]);
        assert!(weigh(">>> f()  # doctest: +SKIP").contains(&Refuse));
        assert!(weigh(">>> f()  # doctest: +ELLIPSIS").iter().all(|severity| *severity == Flag));
        assert!(weigh(">>> f()\n    1\n    >>> f()").is_empty());
        assert_eq!(weigh(">>> f(2)"), [Flag]);
    }

    #[test]
    fn an_example_that_is_no_docstring_any_more_is_lost_and_one_that_moved_is_not() {
        let base = "def f():\n    \"\"\"Gives.\n\n    >>> f()\n    1\n    \"\"\"\n    return 1\n";
        for after in [
            base.replace("    \"\"\"Gives", "    x = \"\"\"Gives"),
            base.replace("def f():\n", "def f():\n    pass\n"),
            base.replace("    >>>", "    # >>>"),
            format!("def g():\n{}", base.lines().map(|line| format!("    {line}\n")).collect::<String>()),
        ] {
            assert_eq!(severities(check, &[changed("a.py", Some(base), Some(&after))]), [Flag], "{after}");
        }
        let moved = [changed("a.py", Some(base), Some("from b import f\n")), changed("b.py", None, Some(base))];
        assert!(severities(check, &moved).is_empty());
        assert_eq!(severities(check, &[changed("a.py", Some(base), None)]), [Flag]);
    }
}
