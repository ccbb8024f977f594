//! Texts that are written so that a search does not find them: by the numbers of their letters, turned, or encoded.

use ruff_python_ast::{Comprehension, Expr, ExprCall, Number};

use super::Names;

/// The text that a call always gives, where its arguments are written out.
pub(super) fn text(names: &Names, call: &ExprCall) -> Option<String> {
    let args = &call.arguments.args;
    match names.full(&call.func).as_str() {
        "bytes" | "bytearray" => of_numbers(args.first()?),
        "map" if names.full(args.first()?) == "chr" => of_numbers(args.get(1)?),
        "base64.b64decode" => from_base64(&names.text(args.first()?)?),
        "bytes.fromhex" => from_hex(&names.text(args.first()?)?),
        "codecs.decode" if names.text(args.get(1)?)?.replace(['_', '-'], "").eq_ignore_ascii_case("rot13") => {
            Some(names.text(args.first()?)?.chars().map(turned).collect())
        }
        _ => None,
    }
}

/// `chr(n) for n in (…)`.
pub(super) fn letters(element: &Expr, generators: &[Comprehension], names: &Names) -> Option<String> {
    let Expr::Call(call) = element else { return None };
    (names.full(&call.func) == "chr").then(|| of_numbers(&generators.first()?.iter)).flatten()
}

fn of_numbers(list: &Expr) -> Option<String> {
    let numbers = match list {
        Expr::List(of) => &of.elts,
        Expr::Tuple(of) => &of.elts,
        _ => return None,
    };
    numbers
        .iter()
        .map(|one| match one {
            Expr::NumberLiteral(of) => match &of.value {
                Number::Int(int) => int.as_u64().and_then(|code| u32::try_from(code).ok()).and_then(char::from_u32),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

fn from_base64(text: &str) -> Option<String> {
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0u32);
    for letter in text.bytes().filter(|letter| !matches!(letter, b'=' | b'\n')) {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (held, bits) = ((held << 6 | u32::from(value)) & 0xffff, bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).ok()?);
        }
    }
    String::from_utf8(bytes).ok()
}

fn from_hex(text: &str) -> Option<String> {
    let digits: Vec<u32> = text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair.get(1)?).ok()).collect();
    String::from_utf8(bytes?).ok()
}

fn turned(c: char) -> char {
    let turn = |first: u8, c: char| char::from((c as u8 - first + 13) % 26 + first);
    match c {
        'a'..='z' => turn(b'a', c),
        'A'..='Z' => turn(b'A', c),
        other => other,
    }
}
