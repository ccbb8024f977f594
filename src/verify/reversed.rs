//! Tests that must fail: each check in a test is turned into its opposite, so that whoever makes failing tests pass shows it.
//!
//! Code under test runs in the process that judges it, and can bend there whatever it likes: the runner, equality, the report. What it can't tell is
//! which checks are reversed. What must hold: a reversed test fails on every honest tree on which the test passes. So only checks are reversed that
//! such a test is sure to come to, and only into what can't be true together with them; a test of which that is not known is left out.

use std::collections::BTreeMap;

use ruff_python_ast::helpers::ReturnStatementVisitor;
use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::Visitor as _;
use ruff_python_ast::{CmpOp, Decorator, Expr, ExprCall, Number, PySourceType, Stmt, StmtFunctionDef, UnaryOp};
use ruff_python_parser::{Mode, lexer, parse_unchecked_source};
use ruff_text_size::{Ranged, TextRange, TextSize};

/// A larger file is left as it is, in bytes.
pub const LARGEST: u64 = 256 * 1024;

/// What can't equal anything that a test compares; only what equals everything equals it.
const ODD: &str =
    "(lambda one, other: any(one == odd or odd == other for odd in (object(), 76543210987654321, 0.1234567654321, 'x7919y7907z')))";

/// A test file with reversed checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reversed {
    /// Its text.
    pub text: String,
    /// The tests that have one, as `Class.Inner::test`, or `::test` outside of classes.
    pub tests: Vec<String>,
}

/// Reverses the checks of a test file; none where there is none that can be reversed.
#[must_use]
pub fn reversed(text: &str) -> Option<Reversed> {
    if text.len() as u64 > LARGEST || is_deep(text) {
        return None;
    }
    let parsed = parse_unchecked_source(text, PySourceType::Python);
    if !parsed.errors().is_empty() {
        return None;
    }
    let mut file = File { text, edits: Vec::new(), tests: BTreeMap::new() };
    file.read("", parsed.suite());
    let tests = file.tests.into_iter().filter(|(_, (defined, reversed))| *defined == 1 && *reversed).map(|(name, _)| name);
    let tests = tests.collect::<Vec<_>>();
    let mut edits = file.edits;
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start()));
    let mut text = text.to_owned();
    for (range, new) in edits {
        text.replace_range(range.start().to_usize()..range.end().to_usize(), &new);
    }
    (!tests.is_empty()).then_some(Reversed { text, tests })
}

/// Whether a test that a runner names so is this one of a file (`tests/test_a.py`), as [`Reversed`] names it.
#[must_use]
pub fn is_named(reported: &str, path: &str, test: &str) -> bool {
    let Some((owner, name)) = reported.split_once("::") else { return false };
    let (class, function) = test.split_once("::").unwrap_or_default();
    let module = path.strip_suffix(".py").unwrap_or(path).replace('/', ".");
    let whole = if class.is_empty() { module } else { format!("{module}.{class}") };
    let ends_so = |long: &str, end: &str| long.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    name.split('[').next() == Some(function) && !owner.is_empty() && (ends_so(&whole, owner) || ends_so(owner, &whole))
}

/// Whether the parser, which goes down once for each level, should not read this.
fn is_deep(text: &str) -> bool {
    const BRACKETS: usize = 100;
    const TOKENS: usize = 2000;
    let mut lexer = lexer::lex(text, Mode::Module);
    let (mut brackets, mut indents, mut tokens, mut lambdas) = (0_usize, 0_usize, 0, 0);
    loop {
        match lexer.next_token() {
            TokenKind::EndOfFile => return false,
            TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => brackets += 1,
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace => brackets = brackets.saturating_sub(1),
            TokenKind::Newline => (tokens, lambdas) = (0, 0),
            TokenKind::Comma => tokens = 0,
            TokenKind::Indent => indents += 1,
            TokenKind::Dedent => indents = indents.saturating_sub(1),
            TokenKind::Lambda => lambdas += 1,
            _ => tokens += 1,
        }
        if brackets > BRACKETS || indents > BRACKETS || tokens > TOKENS || lambdas > BRACKETS {
            return true;
        }
    }
}

/// One check: how it looks reversed.
struct Check {
    statement: TextRange,
    edit: (TextRange, String),
    /// It is a block, of which only the head is changed.
    is_block: bool,
}

struct File<'a> {
    text: &'a str,
    edits: Vec<(TextRange, String)>,
    /// How often each test is defined, and whether a check of it is reversed.
    tests: BTreeMap<String, (usize, bool)>,
}

impl File<'_> {
    fn read(&mut self, class: &str, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::FunctionDef(function) if function.name.starts_with("test") => {
                    let is_reversed = self.all_known(&function.decorator_list) && self.reverse(function);
                    let test = self.tests.entry(format!("{class}::{}", function.name)).or_default();
                    *test = (test.0 + 1, is_reversed);
                }
                Stmt::ClassDef(inner) if self.all_known(&inner.decorator_list) => {
                    let name = if class.is_empty() { inner.name.to_string() } else { format!("{class}.{}", inner.name) };
                    self.read(&name, &inner.body);
                }
                _ => {}
            }
        }
    }

    /// Whether none of these could swallow what a test raises.
    fn all_known(&self, decorators: &[Decorator]) -> bool {
        const HARMLESS: &[&str] = &["patch", "given", "settings", "skipIf", "skipUnless", "override_settings", "freeze_time"];
        decorators.iter().all(|decorator| {
            let name = self.slice(decorator.expression.range()).split('(').next().unwrap_or_default();
            let is_mark = name.starts_with("pytest.mark.") && !name.contains("fail") && !name.contains("raises");
            is_mark || name.split('.').any(|part| HARMLESS.contains(&part))
        })
    }

    /// Every check but the last ends the test well where it holds reversed, and else lets it go on; the last one decides.
    fn reverse(&mut self, function: &StmtFunctionDef) -> bool {
        let mut leaves = ReturnStatementVisitor::default();
        leaves.visit_body(&function.body);
        if !leaves.returns.is_empty() || leaves.is_generator {
            return false;
        }
        let mut checks = self.checks(&function.body);
        let Some(last) = checks.pop() else { return false };
        self.edits.push(last.edit);
        for check in checks.into_iter().filter(|check| !check.is_block) {
            let indent = self.indent(check.statement).unwrap_or_default().to_owned();
            let (range, new) = check.edit;
            let before = self.slice(TextRange::new(check.statement.start(), range.start()));
            let after = self.slice(TextRange::new(range.end(), check.statement.end()));
            let tried =
                format!("try:\n{indent} {before}{new}{after}\n{indent}except Exception:\n{indent} pass\n{indent}else:\n{indent} return");
            self.edits.push((check.statement, tried));
        }
        true
    }

    /// The checks that a test comes to when it passes, in their order.
    fn checks(&self, body: &[Stmt]) -> Vec<Check> {
        let mut found = Vec::new();
        for stmt in body {
            match stmt {
                Stmt::With(with) if !with.is_async => match &with.items[..] {
                    [item] if self.is_call_of(&item.context_expr, &["subTest"]) => found.extend(self.checks(&with.body)),
                    [item] if self.is_call_of(&item.context_expr, &["raises", "assertRaises"]) => {
                        found.extend(self.of_raises(stmt, &item.context_expr))
                    }
                    _ => {}
                },
                Stmt::For(each)
                    if !each.is_async
                        && is_filled(&each.iter)
                        && !self.slice(stmt.range()).contains("break")
                        && !self.slice(stmt.range()).contains("continue") =>
                {
                    found.extend(self.checks(&each.body));
                }
                Stmt::Assert(assert) => found.extend(self.alone(stmt, self.of_condition(&assert.test))),
                Stmt::Expr(expr) => {
                    if let Expr::Call(call) = &*expr.value {
                        found.extend(self.of_call(call).and_then(|edit| self.alone(stmt, edit)));
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn alone(&self, stmt: &Stmt, edit: (TextRange, String)) -> Option<Check> {
        let statement = stmt.range();
        self.indent(statement)?;
        Some(Check { statement, edit, is_block: false })
    }

    /// What stands before a statement in its line; none where it shares its lines with others.
    fn indent(&self, statement: TextRange) -> Option<&str> {
        let (before, after) = (&self.text[..statement.start().to_usize()], &self.text[statement.end().to_usize()..]);
        let indent = before.rsplit('\n').next()?;
        let rest = after.split('\n').next()?.trim();
        (indent.chars().all(|c| c == ' ' || c == '\t') && (rest.is_empty() || rest.starts_with('#'))).then_some(indent)
    }

    fn of_condition(&self, test: &Expr) -> (TextRange, String) {
        if let Expr::Compare(compare) = test
            && let ([CmpOp::Eq], [right]) = (&compare.ops[..], &compare.comparators[..])
        {
            let literal = self.other(right).or_else(|| self.other(&compare.left));
            if let Some(edit) = literal.or_else(|| self.of_pair(test.range(), &compare.left, right)) {
                return edit;
            }
        }
        (test.range(), format!("not ({})", self.slice(test.range())))
    }

    fn of_call(&self, call: &ExprCall) -> Option<(TextRange, String)> {
        const OPPOSITES: &[(&str, &str)] = &[
            ("assertTrue", "assertFalse"),
            ("assertIn", "assertNotIn"),
            ("assertIs", "assertIsNot"),
            ("assertIsNone", "assertIsNotNone"),
            ("assertIsInstance", "assertNotIsInstance"),
            ("assertRegex", "assertNotRegex"),
            ("assertAlmostEqual", "assertNotAlmostEqual"),
            ("assertGreater", "assertLessEqual"),
            ("assertGreaterEqual", "assertLess"),
        ];
        let Expr::Attribute(method) = &*call.func else { return None };
        let is_own = matches!(&*method.value, Expr::Name(name) if name.id.as_str() == "self");
        let is_plain =
            !call.arguments.args.iter().any(Expr::is_starred_expr) && call.arguments.keywords.iter().all(|word| word.arg.is_some());
        let name = method.attr.as_str();
        if !is_own || !is_plain {
            return None;
        }
        if let Some((one, other)) = OPPOSITES.iter().find(|(one, other)| name == *one || name == *other) {
            return Some((method.attr.range(), (if name == *one { *other } else { *one }).to_owned()));
        }
        let [left, right, ..] = &call.arguments.args[..] else { return None };
        match name {
            "assertNotEqual" => Some((method.attr.range(), "assertEqual".to_owned())),
            "assertEqual" | "assertEquals" => self.other(right).or_else(|| self.other(left)).or_else(|| {
                let (_, pair) = self.of_pair(call.range(), left, right)?;
                Some((call.range(), format!("self.assertTrue({pair})")))
            }),
            "assertListEqual" | "assertTupleEqual" | "assertDictEqual" | "assertSequenceEqual" | "assertMultiLineEqual" => {
                self.other(right).or_else(|| self.other(left))
            }
            _ => None,
        }
    }

    /// Another exception than the one that is raised.
    fn of_raises(&self, stmt: &Stmt, context: &Expr) -> Option<Check> {
        let Expr::Call(call) = context else { return None };
        let expected = call.arguments.args.first()?;
        let edit = (expected.range(), "type('Other', (Exception,), {})".to_owned());
        Some(Check { statement: stmt.range(), edit, is_block: true })
    }

    /// Two things that equal each other, asked whether one of them equals what it can't.
    fn of_pair(&self, whole: TextRange, left: &Expr, right: &Expr) -> Option<(TextRange, String)> {
        if self.equals_many(left) || self.equals_many(right) {
            return None;
        }
        Some((whole, format!("{ODD}(({}), ({}))", self.slice(left.range()), self.slice(right.range()))))
    }

    /// Whether a test compares with what is made to equal many things.
    fn equals_many(&self, expr: &Expr) -> bool {
        const PREFIXES: &[&str] = &["any", "is", "has", "contains", "match", "instance"];
        let named = if let Expr::Call(call) = expr { &call.func } else { expr };
        let name = match named {
            Expr::Name(name) => name.id.as_str(),
            Expr::Attribute(attribute) => attribute.attr.as_str(),
            _ => return false,
        };
        PREFIXES.iter().any(|prefix| name.to_ascii_lowercase().starts_with(prefix))
    }

    /// A literal that differs from this one, and looks like any other.
    fn other(&self, expr: &Expr) -> Option<(TextRange, String)> {
        const PRECISE: f64 = 1e12;
        let text = self.slice(expr.range());
        match expr {
            Expr::UnaryOp(unary) if unary.op == UnaryOp::USub && unary.operand.is_number_literal_expr() => self.other(&unary.operand),
            Expr::NumberLiteral(literal) => match &literal.value {
                Number::Int(value) => Some((expr.range(), value.as_i64()?.checked_add(1)?.to_string())),
                Number::Float(value) if value.abs() < PRECISE => Some((expr.range(), format!("{:?}", value + 1.0))),
                Number::Float(_) | Number::Complex { .. } => None,
            },
            Expr::StringLiteral(_) | Expr::BytesLiteral(_) => {
                let quotes = if text.ends_with("\"\"\"") || text.ends_with("'''") { 3 } else { 1 };
                let (inside, end) = text.split_at_checked(text.len().checked_sub(quotes)?)?;
                Some((expr.range(), format!("{inside}q{end}")))
            }
            Expr::BooleanLiteral(literal) => Some((expr.range(), (if literal.value { "False" } else { "True" }).to_owned())),
            Expr::List(list) => list.elts.iter().find_map(|one| self.other(one)),
            Expr::Tuple(tuple) => tuple.elts.iter().find_map(|one| self.other(one)),
            Expr::Dict(dict) if dict.items.iter().all(|item| item.key.is_some()) => {
                dict.items.iter().find_map(|item| self.other(&item.value))
            }
            _ => None,
        }
    }

    fn is_call_of(&self, expr: &Expr, names: &[&str]) -> bool {
        let Expr::Call(call) = expr else { return false };
        let name = self.slice(call.func.range());
        names.iter().any(|known| name == *known || name.strip_suffix(known).is_some_and(|rest| matches!(rest, "self." | "pytest.")))
    }

    fn slice(&self, range: TextRange) -> &str {
        let at = |size: TextSize| size.to_usize();
        &self.text[at(range.start())..at(range.end())]
    }
}

/// A list that is written out, so that a loop over it has a first round.
fn is_filled(expr: &Expr) -> bool {
    let elements = match expr {
        Expr::List(list) => &list.elts,
        Expr::Tuple(tuple) => &tuple.elts,
        _ => return false,
    };
    elements.iter().any(|one| !one.is_starred_expr())
}

#[cfg(test)]
mod tests {
    use super::{LARGEST, is_named, reversed};

    /// What one test's body becomes; none where nothing is reversed.
    fn body(text: &str) -> Option<String> {
        let lines = |text: &str| text.lines().map(|line| format!("    {line}\n")).collect::<String>();
        let found = reversed(&format!("def test_x(self):\n{}", lines(text)))?;
        assert_eq!(found.tests, ["::test_x"]);
        Some(found.text.split_once('\n')?.1.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect())
    }

    #[test]
    fn a_check_becomes_its_opposite() {
        for (check, opposite) in [
            ("assert f(2) == 4", "assert f(2) == 5"),
            ("assert -4.5 == f(2), 'why'", "assert -5.5 == f(2), 'why'"),
            ("assert f() == 'a' 'b'", "assert f() == 'a' 'bq'"),
            ("assert f() == [g(), {'a': b'x'}]", "assert f() == [g(), {'a': b'xq'}]"),
            ("assert f() == r\"\"\"a\"\"\"", "assert f() == r\"\"\"aq\"\"\""),
            ("assert f() == 0x0f", "assert f() == 16"),
            ("assert f() == True  # so", "assert f() == False  # so"),
            ("assert f() != 4", "assert not (f() != 4)"),
            ("assert (\n    f()\n)", "assert (\n    not (f())\n)"),
            ("assert f() == g == h", "assert not (f() == g == h)"),
            ("assert f() == ANY", "assert not (f() == ANY)"),
            ("assert f() == IsStr(min=1)", "assert not (f() == IsStr(min=1))"),
            ("assert f() == {**a, 'b': 1e300}", &format!("assert {}((f()), ({{**a, 'b': 1e300}}))", super::ODD)),
            ("self.assertEqual(f(), 4, msg='x')", "self.assertEqual(f(), 5, msg='x')"),
            ("self.assertEqual(f(), g())", &format!("self.assertTrue({}((f()), (g())))", super::ODD)),
            ("self.assertTrue(f())", "self.assertFalse(f())"),
            ("self.assertNotIn(1, f())", "self.assertIn(1, f())"),
            ("self.assertLessEqual(f(), 2)", "self.assertGreater(f(), 2)"),
            ("with self.assertRaises(ValueError):\n    f()", "with self.assertRaises(type('Other', (Exception,), {})):\n    f()"),
            (
                "for a in (1, 2):\n    with self.subTest(a):\n        assert f(a)",
                "for a in (1, 2):\n    with self.subTest(a):\n        assert not (f(a))",
            ),
        ] {
            assert_eq!(body(check), Some(format!("{opposite}\n")), "{check}");
        }
    }

    #[test]
    fn every_check_of_a_test_has_its_turn() {
        let text = "with pytest.raises(ValueError):\n    f()\nassert f(1) == 2\nx = 1\nself.assertIsNone(f(x))";
        let tried = "assert f(1) == 3";
        let expected = format!(
            "with pytest.raises(ValueError):\n    f()\ntry:\n {tried}\nexcept Exception:\n pass\nelse:\n return\nx = 1\nself.assertIsNotNone(f(x))\n"
        );
        assert_eq!(body(text), Some(expected));
    }

    #[test]
    fn a_check_that_an_honest_test_may_not_come_to_is_left_out() {
        for text in [
            "if a:\n    assert f()",
            "for a in g():\n    assert f(a)",
            "for a in ():\n    assert f(a)",
            "for a in (1, 2):\n    if a:\n        break\n    assert f(a)",
            "try:\n    assert f()\nexcept AssertionError:\n    pass",
            "with suppress(AssertionError):\n    assert f()",
            "if a:\n    return\nassert f()",
            "yield 1\nassert f()",
            "def inner():\n    assert f()",
            "x = 1; assert f()",
            "self.assertEqual(*f())",
            "self.assertSomething(f())",
            "f()",
        ] {
            assert_eq!(body(text), None, "{text}");
        }
        for text in [
            "@pytest.mark.xfail\ndef test_a():\n    assert f()\n".to_owned(),
            "@unittest.expectedFailure\ndef test_a():\n    assert f()\n".to_owned(),
            "@swallows\nclass T:\n    def test_a(self):\n        assert f()\n".to_owned(),
            "def test_a():\n    assert f()\n\n\ndef test_a():\n    assert g()\n".to_owned(),
            "def helper():\n    assert f()\n".to_owned(),
            "def test_a(:\n".to_owned(),
            format!("def test_a():\n    assert {}f()\n", "not ".repeat(5000)),
            format!("def test_a():\n    assert {}1\n", "(".repeat(5000)),
            format!("def test_a():\n    assert f()\n#{}\n", "x".repeat(LARGEST as usize)),
        ] {
            assert_eq!(reversed(&text), None, "{}", &text[..text.len().min(80)]);
        }
        let marked = "@pytest.mark.parametrize('a', [1])\nclass T:\n    class U:\n        @mock.patch('x')\n        def test_a(self, a):\n            assert f()\n";
        assert_eq!(reversed(marked).unwrap().tests, ["T.U::test_a"]);
    }

    #[test]
    fn a_test_is_found_by_the_name_that_a_runner_gives_it() {
        assert!(is_named("tests.test_a::test_x[1::2]", "tests/test_a.py", "::test_x"));
        assert!(is_named("tests.test_a.T::test_x", "tests/test_a.py", "T::test_x"));
        assert!(is_named("test_a.T::test_x", "tests/test_a.py", "T::test_x"), "unittest discover -s tests");
        assert!(is_named("sub.tests.test_a.T::test_x", "tests/test_a.py", "T::test_x"));
        for other in
            ["tests.test_a.T::test_y", "tests.test_a.U::test_x", "tests.test_ab.T::test_x", "tests.test_a::test_x", "::test_x", "test_x"]
        {
            assert!(!is_named(other, "tests/test_a.py", "T::test_x"), "{other}");
        }
    }
}
