//! One parsed file.

use ruff_python_ast::token::TokenKind;
use ruff_python_ast::{AnyNodeRef, PySourceType, Stmt, Suite};
use ruff_python_parser::{Mode, lexer, parse_unchecked_source};
use ruff_text_size::{Ranged, TextSize};

use super::{Names, each};

/// What reading one side of a file gave.
pub(in crate::guard) enum Reading {
    /// There is no such file on this side.
    Absent,
    /// Python would not read it; a sentence says why.
    Broken(String),
    /// Python may read it, but the rules don't: it is too large, too deep, or in an encoding that nobody reviews. A sentence says which.
    Unread(String),
    /// Its syntax tree.
    Read(Box<Module>),
}

impl Reading {
    pub(super) fn of(content: Option<&[u8]>) -> Self {
        match content.map(Module::parse) {
            None => Self::Absent,
            Some(Ok(module)) => Self::Read(Box::new(module)),
            Some(Err(Unparsed::Broken(why))) => Self::Broken(why),
            Some(Err(Unparsed::Unread(why))) => Self::Unread(why),
        }
    }

    pub(in crate::guard) fn module(&self) -> Option<&Module> {
        if let Self::Read(module) = self { Some(module) } else { None }
    }
}

/// Why there is no syntax tree.
#[derive(Debug)]
pub(in crate::guard) enum Unparsed {
    /// It is no Python.
    Broken(String),
    /// It may be Python, and is not read.
    Unread(String),
}

/// A syntax tree with its names.
pub(in crate::guard) struct Module {
    pub(in crate::guard) body: Suite,
    pub(in crate::guard) names: Names,
    pub(in crate::guard) text: String,
    lines: Vec<usize>,
}

/// Larger files are not parsed: nobody writes them by hand.
const LARGEST: usize = 4 * 1024 * 1024;

/// CPython itself gives up at 200 brackets and 100 levels of indentation.
const BRACKETS: usize = 200;
const INDENTS: usize = 100;

/// As many tokens that are still inside one expression; each could be one level of the tree.
const OPEN_TOKENS: usize = 8000;

/// The levels of a tree, and those of calls, attributes and parts in one chain, that the rules go up and down again for each node.
const LEVELS: usize = 1000;
const CHAIN: usize = 200;

impl Module {
    pub(super) fn parse(content: &[u8]) -> Result<Self, Unparsed> {
        if content.len() > LARGEST {
            return Err(Unparsed::Unread(format!("it has {} bytes; the rules read {LARGEST}", content.len())));
        }
        let text = decode(content)?;
        let too_deep = || Unparsed::Unread("it nests deeper than the rules read".to_owned());
        if nests_too_deep(&text) {
            return Err(too_deep());
        }
        let parsed = parse_unchecked_source(&text, PySourceType::Python);
        if let Some(error) = parsed.errors().first() {
            return Err(Unparsed::Broken(error.error.to_string()));
        }
        let body = parsed.into_suite();
        if is_too_deep(&body) {
            return Err(too_deep());
        }
        let lines = std::iter::once(0).chain(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1)).collect();
        let names = Names::of(&body);
        Ok(Self { body, names, text, lines })
    }

    /// The line of a node from 1.
    pub(in crate::guard) fn line(&self, node: &impl Ranged) -> u64 {
        self.line_at(node.start())
    }

    pub(in crate::guard) fn line_at(&self, at: TextSize) -> u64 {
        self.lines.partition_point(|start| *start <= at.to_usize()) as u64
    }
}

/// The text by the file's own encoding. Encodings under which ASCII letters mean something else are refused: nobody could review the file.
fn decode(content: &[u8]) -> Result<String, Unparsed> {
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    match declared(content).as_deref() {
        None | Some("utf8" | "utf8sig" | "ascii" | "usascii") => {
            String::from_utf8(content.to_vec()).map_err(|_| Unparsed::Broken("it is not UTF-8 and names no other encoding".to_owned()))
        }
        Some("latin1" | "iso88591" | "iso885915" | "latin9" | "cp1252" | "windows1252") => {
            Ok(content.iter().map(|byte| char::from(*byte)).collect())
        }
        Some(other) => Err(Unparsed::Unread(format!("its encoding is {other}, under which the text means something else than it shows"))),
    }
}

/// The encoding that one of the first two lines declares (PEP 263), in lower case without dashes.
fn declared(content: &[u8]) -> Option<String> {
    let comments = content.split(|byte| matches!(byte, b'\n' | b'\r')).take(2).map(String::from_utf8_lossy);
    let comment = comments.filter(|line| line.trim_start().starts_with('#')).find_map(|line| {
        let rest = line.split_once("coding").map(|(_, rest)| rest.to_owned())?;
        rest.strip_prefix([':', '=']).map(str::to_owned)
    })?;
    let name: String = comment.trim_start().chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')).collect();
    let name: String = name.to_ascii_lowercase().chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    (!name.is_empty()).then_some(name)
}

/// Whether some expression could be a tree too deep for our own stack: judged from the tokens, before anything recursive looks at the text.
fn nests_too_deep(text: &str) -> bool {
    let mut lexer = lexer::lex(text, Mode::Module);
    let (mut open, mut lambdas, mut indents, mut inside) = (vec![0usize], 0usize, 0usize, 0usize);
    loop {
        let kind = lexer.next_token();
        let here = open.len() - 1;
        match kind {
            TokenKind::EndOfFile => return false,
            TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => {
                open[here] += 1;
                inside += 1;
                open.push(0);
            }
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace if here > 0 => {
                inside -= open.pop().unwrap_or_default();
            }
            TokenKind::Newline => (open, lambdas, inside) = (vec![0], 0, 0),
            TokenKind::Comma => inside -= std::mem::take(&mut open[here]),
            TokenKind::Lambda => lambdas += 1,
            TokenKind::Indent => indents += 1,
            TokenKind::Dedent => indents = indents.saturating_sub(1),
            TokenKind::NonLogicalNewline | TokenKind::Comment | TokenKind::String => {}
            _ => {
                open[here] += 1;
                inside += 1;
            }
        }
        if open.len() > BRACKETS || indents > INDENTS || inside + lambdas > OPEN_TOKENS {
            return true;
        }
    }
}

/// Whether the rules would go up and down the tree too often.
fn is_too_deep(body: &[Stmt]) -> bool {
    let is_link = |node: &AnyNodeRef<'_>| {
        matches!(node, AnyNodeRef::ExprAttribute(_) | AnyNodeRef::ExprCall(_) | AnyNodeRef::ExprSubscript(_) | AnyNodeRef::ExprAwait(_))
    };
    let mut too_deep = false;
    each(body, |path, _| {
        too_deep = too_deep || path.len() > LEVELS || path.iter().rev().take(CHAIN + 1).take_while(|node| is_link(node)).count() > CHAIN;
    });
    too_deep
}

#[cfg(test)]
mod tests {
    use super::{CHAIN, Module, Unparsed};

    #[test]
    fn every_syntax_of_today_is_read() {
        let all = "match x:\n    case {'a': [1, *_], **rest} if rest: pass\n    case A(b=1) | None: pass\n\
                   type X[T: int = str, *Ts, **P] = list[T]\ndef f[T](x: T, /, *, y=(z := 1)) -> T: return f'{x!r:>{y}} {f'{'nested'}'}'\n\
                   try: pass\nexcept* (A, B) as e: pass\ntry: pass\nexcept A, B: pass\nwith (a as b, c as d): pass\nt'{x}'\n\
                   async def g():\n    async for i in x: await i\n    return [j async for j in y]\nprint(*a, **b, sep='')\nx: int = lambda *a, **k: (yield)\n";
        let module = Module::parse(all.as_bytes());
        assert!(module.is_ok(), "{:?}", module.err());
    }

    #[test]
    fn what_python_would_not_read_is_broken_and_not_a_crash() {
        for text in ["def f(:\n", "x = = 1", "\0", "if x:\n", "print 'two'", "(", "'"] {
            assert!(Module::parse(text.as_bytes()).is_err(), "{text:?}");
        }
        for deep in ["(", "-", "not ", "lambda: ", "f(", "x.y.", "[{(", "a if b else ", "x + ", "lambda a, b: ", "f'{"] {
            Module::parse(format!("x = {}1", deep.repeat(200_000)).as_bytes()).err();
        }
        assert!(Module::parse(b"# coding: rot13\nvzcbeg bf\n").is_err());
        assert!(Module::parse(b"# -*- coding: latin-1 -*-\nx = '\xe9'\n").is_ok());
        assert!(Module::parse(b"x = '\xe9'\n").is_err());
    }

    #[test]
    fn what_python_may_read_and_the_rules_do_not_is_told_apart() {
        let chain = |links: usize| format!("x = a{}\n", ".b(1)".repeat(links));
        for text in [chain(CHAIN), format!("x = {}1\n", "a + ".repeat(1500)), "x = 1\n".repeat(1_000_000), "# coding: utf-7\n".to_owned()] {
            assert!(matches!(Module::parse(text.as_bytes()), Err(Unparsed::Unread(_))), "{}", text.get(..40).unwrap_or(&text));
        }
        assert!(Module::parse(chain(60).as_bytes()).is_ok());
        assert!(matches!(Module::parse(b"x = = 1"), Err(Unparsed::Broken(_))));
    }

    #[test]
    fn names_and_texts_that_double_stay_short() {
        let doubled =
            |first: &str| (0..64).map(|n| format!("x{} = x{n} + x{n}\n", n + 1)).fold(format!("x0 = {first}\n"), |all, one| all + &one);
        let replaced =
            (0..64).map(|n| format!("x{} = x{n}.replace('a', x{n})\n", n + 1)).fold("x0 = 'aa'\n".to_owned(), |all, one| all + &one);
        let followed = (0..5000).map(|n| format!("x{} = x{n}.y\n", n + 1)).fold("import x0\n".to_owned(), |all, one| all + &one);
        let formatted = (0..64).map(|n| format!("x{} = f'{{x{n}}}{{x{n}}}'\n", n + 1)).fold("x0 = 'a'\n".to_owned(), |all, one| all + &one);
        for text in [doubled("'a'"), doubled("b'a'"), replaced, followed, formatted] {
            assert!(Module::parse(text.as_bytes()).is_ok());
        }
    }

    #[test]
    fn long_tables_and_sums_are_ordinary() {
        let table = format!("x = [{}]\ny = {}1\n", "-1, (2, 'a'), {'k': 3},\n".repeat(20_000), "a + ".repeat(300));
        assert!(Module::parse(table.as_bytes()).is_ok());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_fault(content: Vec<u8>) {
            Module::parse(&content).err();
        }

        #[test]
        fn any_tokens_are_read_without_fault(text in "(def |class |if |\\(|\\)|:|\n|    |'|f'|\\{|\\}|x|=|,|lambda |\\[|\\]|@|#|match |case |\"\"\"|\\\\)*") {
            Module::parse(text.as_bytes()).err();
        }
    }
}
