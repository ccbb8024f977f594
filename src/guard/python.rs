//! A first reading of Python: its functions and classes, and the words in them that are code. Strings and comments hold no words.
//!
//! It needs no valid program: what it can't place belongs to the module, and nothing here fails.

use std::collections::BTreeSet;

/// The module, a class, or an outermost function with all that is in it and its decorators.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// The names down to it joined by dots; empty for the module.
    pub name: String,
    /// The line of its header from 1.
    pub line: u64,
    /// A test that pytest or unittest collects: `test…`, in the module or in classes that are named `Test…` or have a base.
    pub is_test: bool,
    /// How often something is asserted.
    pub asserts: usize,
    /// How often something is skipped or expected to fail.
    pub skips: usize,
    /// Every word of it.
    pub words: BTreeSet<String>,
}

/// The blocks of a program, the module first. Of equal names the last one stays, as in Python.
pub(super) fn blocks(source: &str) -> Vec<Block> {
    let mut reader = Reader { blocks: vec![Block { line: 1, ..Block::default() }], open: Vec::new(), decorators: Vec::new() };
    let mut depth = 0_usize;
    let mut continues = false;
    for (number, line) in (1..).zip(code_lines(source)) {
        if !line.trim().is_empty() {
            if depth == 0 && !continues {
                reader.start_statement(&line, number);
            }
            reader.add_words(&line);
            depth = brackets_after(&line, depth);
            continues = line.trim_end().ends_with('\\');
        }
    }
    let mut last_of_each: Vec<Block> = Vec::new();
    for block in reader.blocks {
        last_of_each.retain(|other| other.name != block.name);
        last_of_each.push(block);
    }
    last_of_each
}

struct Open {
    indent: usize,
    block: usize,
    is_function: bool,
    collects: bool,
}

struct Reader {
    blocks: Vec<Block>,
    open: Vec<Open>,
    decorators: Vec<String>,
}

impl Reader {
    fn start_statement(&mut self, line: &str, number: u64) {
        let indent = line.len() - line.trim_start().len();
        while self.open.last().is_some_and(|open| open.indent >= indent) {
            self.open.pop();
        }
        let statement = line.trim_start();
        if statement.starts_with('@') {
            self.decorators.push(String::new());
            return;
        }
        let header = statement.strip_prefix("async ").map_or(statement, str::trim_start);
        let is_function = header.starts_with("def ");
        if is_function || header.starts_with("class ") {
            self.open_block(header, indent, number, is_function);
        }
        for decorator in std::mem::take(&mut self.decorators) {
            self.add_words(&decorator);
        }
    }

    fn open_block(&mut self, header: &str, indent: usize, line: u64, is_function: bool) {
        let Some(name) = words(header).nth(1) else { return };
        if let Some(open) = self.open.last().filter(|open| open.is_function) {
            let block = open.block;
            self.open.push(Open { indent, block, is_function: true, collects: false });
            return;
        }
        let collected_here = self.open.last().is_none_or(|open| open.collects);
        let outer = self.open.last().map(|open| format!("{}.", self.blocks[open.block].name)).unwrap_or_default();
        let is_test = is_function && collected_here && name.starts_with("test");
        let has_base = header.split_once('(').is_some_and(|(_, bases)| words(bases).any(|base| base != "object"));
        let collects = collected_here && (name.starts_with("Test") || has_base);
        self.blocks.push(Block { name: format!("{outer}{name}"), line, is_test, ..Block::default() });
        self.open.push(Open { indent, block: self.blocks.len() - 1, is_function, collects });
    }

    fn add_words(&mut self, line: &str) {
        if let Some(decorator) = self.decorators.last_mut() {
            decorator.push_str(line);
            decorator.push('\n');
            return;
        }
        let block = &mut self.blocks[self.open.last().map_or(0, |open| open.block)];
        let is_import = matches!(words(line).next(), Some("import" | "from"));
        for word in words(line) {
            block.asserts += usize::from(!is_import && is_assertion(word));
            block.skips += usize::from(!is_import && is_skip(word));
            block.words.insert(word.to_owned());
        }
    }
}

fn is_assertion(word: &str) -> bool {
    word.starts_with("assert") || matches!(word, "raises" | "warns" | "fail")
}

fn is_skip(word: &str) -> bool {
    matches!(
        word,
        "skip"
            | "skipif"
            | "skipIf"
            | "skipUnless"
            | "skipTest"
            | "SkipTest"
            | "Skipped"
            | "xfail"
            | "expectedFailure"
            | "importorskip"
            | "collect_ignore"
            | "collect_ignore_glob"
    )
}

/// The names and keywords of a line.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| word.starts_with(|c: char| !c.is_ascii_digit()))
}

fn brackets_after(line: &str, depth: usize) -> usize {
    line.chars().fold(depth, |depth, c| match c {
        '(' | '[' | '{' => depth + 1,
        ')' | ']' | '}' => depth.saturating_sub(1),
        _ => depth,
    })
}

/// The lines of a program with the contents of strings and the comments left out.
fn code_lines(source: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        if c == '#' {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        }
        if let Some(quote) = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote)) {
            let (text, after) = string_after(&rest[quote.len()..], quote);
            add(&mut lines, "\"\"");
            lines.extend(std::iter::repeat_n(String::new(), text.matches('\n').count()));
            rest = after;
            continue;
        }
        if c == '\n' {
            lines.push(String::new());
        } else {
            add(&mut lines, c.encode_utf8(&mut [0; 4]));
        }
        rest = &rest[c.len_utf8()..];
    }
    lines
}

fn add(lines: &mut [String], text: &str) {
    if let Some(line) = lines.last_mut() {
        line.push_str(text);
    }
}

/// Splits after the end of a string; one with a single quote that is left open ends with its line.
fn string_after<'a>(rest: &'a str, quote: &str) -> (&'a str, &'a str) {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if rest[at..].starts_with(quote) {
            return (&rest[..at], &rest[at + quote.len()..]);
        } else if c == '\n' && quote.len() == 1 {
            return (&rest[..at], &rest[at..]);
        }
    }
    (rest, "")
}

#[cfg(test)]
mod tests {
    use super::blocks;

    const SOURCE: &str = r#"
import pytest  # assert nothing
from numpy.testing import assert_allclose

@pytest.mark.skipif(
    True, reason="assert xfail",
)
def test_one(x=(
1)):
    """assert this
    assert that"""
    def inner():
        assert x
    assert x and 'assert \' assert'

class TestTwo:
    class Nested:
        def test_hidden(self):
            pass
    async def test_three(self):
        with pytest.raises(ValueError):
            assert_allclose(1, 2)

class Helper:
    def test_four(self): assert 4

class Case(unittest.TestCase):
    def test_five(self):
        self.assertEqual(1, 1)

def test_five():
    assert 1
def test_five():
    pass
"#;

    #[test]
    fn functions_are_found_with_their_assertions_and_skips() {
        let found = blocks(SOURCE);
        let of =
            |name: &str| found.iter().find(|block| block.name == name).map(|block| (block.is_test, block.asserts, block.skips)).unwrap();
        assert_eq!(of(""), (false, 0, 0));
        assert_eq!(of("test_one"), (true, 2, 1));
        assert_eq!(of("TestTwo.test_three"), (true, 2, 0));
        assert_eq!(of("TestTwo.Nested.test_hidden"), (false, 0, 0));
        assert_eq!(of("Helper.test_four"), (false, 1, 0));
        assert_eq!(of("Case.test_five"), (true, 1, 0));
        assert_eq!(of("test_five"), (true, 0, 0), "the last definition is the one that runs");
        assert_eq!(found.iter().find(|block| block.name == "test_one").unwrap().line, 8);
    }

    #[test]
    fn text_that_is_no_python_is_read_without_fault() {
        for text in ["", "'", "'''", "\"\\", "def", "class (", "@", ")))", "def \u{e9}(:\n\t'\u{1f600}", "\\\n\\"] {
            assert!(!blocks(text).is_empty());
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_fault(text in "[ \\n\\t@()'\"#\\\\a-zé😀]*") {
            assert!(!blocks(&text).is_empty());
        }
    }
}
