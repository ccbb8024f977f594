//! Properties of the rules, against plainer models of them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::fnmatch::Pattern;
use super::newlines::Normalised;
use super::options::Limits;
use super::output::{Head, HeadAndTail, Sink};
use super::paths::{Args, Workdir};
use super::text::{Capped, LossyDecoder};
use super::{edit, python, read};

const LIMITS: Limits = Limits { read_chars: 20_000, bash_chars: 30_000, glob_rows: 1_000, bash_seconds: 120 };

/// Text with many line ends, odd bytes and wide characters.
fn messy_bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces: &[&'static [u8]] = &[
        b"a",
        b"bc",
        b"\n",
        b"\r\n",
        b"\r",
        b"\x0b",
        b"\x0c",
        b"\x1c",
        b"\x1e",
        b"\x1f",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"\xff",
        b"\xe2\x80",
        b"\xf0\x9f",
        b"\xed\xa0\x80",
        b"\0",
    ];
    let frog: &'static [u8] = "🐸é".as_bytes();
    prop::collection::vec(prop::sample::select([pieces, &[frog]].concat()), 0..40).prop_map(|pieces| pieces.concat())
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1..5_usize, 1..60)
}

/// The bytes in pieces of the given sizes, over and over.
fn pieces<'a>(bytes: &'a [u8], sizes: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    sizes.iter().cycle().map_while(move |size| {
        let (piece, left) = rest.split_at((*size).min(rest.len()));
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

fn folded(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// `str.splitlines` of a whole text.
fn splitlines(text: &str) -> Vec<String> {
    let text: String = folded(text)
        .chars()
        .map(|character| if "\x0b\x0c\x1c\x1d\x1e\u{85}\u{2028}\u{2029}".contains(character) { '\n' } else { character })
        .collect();
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().canonicalize().unwrap().join(format!("frognano-tools-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn args(value: Value) -> Args {
    value.as_object().unwrap().clone()
}

proptest! {
    #[test]
    fn decoding_in_pieces_is_decoding_at_once(bytes in messy_bytes(), sizes in cuts()) {
        let mut decoder = LossyDecoder::default();
        let mut text = String::new();
        pieces(&bytes, &sizes).for_each(|piece| decoder.push(piece, |more| text.push_str(more)));
        decoder.finish(|more| text.push_str(more));
        prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_head_in_pieces_keeps_and_counts_like_the_whole(bytes in messy_bytes(), sizes in cuts(), limit in 1..30_usize) {
        let head = || {
            let mut head = Head::new(i64::try_from(limit).unwrap());
            pieces(&bytes, &sizes).for_each(|piece| head.take(piece));
            head
        };
        let whole = String::from_utf8_lossy(&bytes).into_owned();
        for (kept, whole) in [(head().raw(), whole.clone()), (head().folded(), folded(&whole))] {
            let count = whole.chars().count();
            prop_assert_eq!(kept.text.chars().count() as u64 + kept.left_out, count as u64);
            prop_assert!(kept.text.chars().take(limit).eq(whole.chars().take(limit)));
            prop_assert!(kept.text.chars().count() >= limit.min(count));
        }
    }

    #[test]
    fn a_capped_text_is_the_first_characters_and_the_count_of_the_rest(text in "\\PC{0,40}", limit in -1..50_i64) {
        let mut capped = Capped::new(limit);
        capped.push_str(&text);
        let count = i64::try_from(text.chars().count()).unwrap();
        let expected = if limit <= 0 || count <= limit {
            text
        } else {
            format!("{}\n[truncated {} chars]", text.chars().take(usize::try_from(limit).unwrap()).collect::<String>(), count - limit)
        };
        prop_assert_eq!(capped.finish(), expected);
    }

    #[test]
    fn head_and_tail_lose_only_the_middle(bytes in messy_bytes(), sizes in cuts(), half in 1..20_usize) {
        let bytes: Vec<u8> = bytes.into_iter().filter(u8::is_ascii).collect();
        let mut kept = HeadAndTail::new(2 * half);
        pieces(&bytes, &sizes).for_each(|piece| kept.take(piece));
        let text = String::from_utf8(bytes.clone()).unwrap();
        let expected = if bytes.len() <= 2 * half {
            text
        } else {
            format!("{}\n[... {} bytes left out ...]\n{}", &text[..half], bytes.len() - 2 * half, &text[bytes.len() - half..])
        };
        prop_assert_eq!(kept.text(), expected);
    }

    #[test]
    fn reading_numbers_the_lines_of_splitlines(bytes in messy_bytes(), offset in -1..8_i64, limit in -1..8_i64) {
        let folder = Folder::new("read");
        std::fs::write(folder.0.join("f"), &bytes).unwrap();
        let workdir = Workdir::new(folder.0.clone());
        let shown = read::read(&workdir, &LIMITS, &args(json!({"file_path": "f", "offset": offset, "limit": limit}))).unwrap();
        let lines = splitlines(&String::from_utf8_lossy(&bytes));
        let skip = usize::try_from(offset.max(1) - 1).unwrap();
        let take = if limit <= 0 { usize::MAX } else { usize::try_from(limit).unwrap() };
        let expected: Vec<String> = lines.iter().enumerate().skip(skip).take(take).map(|(index, line)| format!("{}. {line}", index + 1)).collect();
        prop_assert_eq!(shown, format!("f\n{}", expected.join("\n")));
    }

    #[test]
    fn an_edit_keeps_every_byte_around_it(before in messy_bytes(), after in messy_bytes(), end in prop::sample::select(vec!["\n", "\r\n", "\r"])) {
        let folder = Folder::new("edit");
        let path = folder.0.join("f");
        std::fs::write(&path, [&before, format!("<OLD{end}OLD>").as_bytes(), &after].concat()).unwrap();
        let call = args(json!({"file_path": "f", "old_string": "<OLD\nOLD>", "new_string": "<NEW\nNEW\nNEW>"}));
        prop_assert_eq!(edit::edit(&Workdir::new(folder.0.clone()), &call).unwrap(), "Edited f (1 replacement).");
        prop_assert_eq!(std::fs::read(&path).unwrap(), [&before, format!("<NEW{end}NEW{end}NEW>").as_bytes(), &after].concat());
    }

    #[test]
    fn normalised_text_leads_back_to_its_bytes(bytes in messy_bytes()) {
        let normalised = Normalised::new(&bytes);
        prop_assert_eq!(&normalised.text, &folded(&String::from_utf8_lossy(&bytes)));
        let places: Vec<usize> = normalised.text.char_indices().map(|(at, _)| at).chain([normalised.text.len()]).collect();
        let back: Vec<u8> = places.windows(2).flat_map(|pair| bytes[normalised.origin(pair[0]..pair[1])].to_vec()).collect();
        prop_assert_eq!(back, bytes);
    }

    #[test]
    fn patterns_match_as_their_parts_say(pattern in "[ab*?]{0,6}", name in "[ab]{0,6}") {
        fn plain(pattern: &[u8], name: &[u8]) -> bool {
            match (pattern.split_first(), name.split_first()) {
                (None, None) => true,
                (Some((b'*', rest)), _) => plain(rest, name) || (!name.is_empty() && plain(pattern, &name[1..])),
                (Some((wanted, rest)), Some((got, left))) => (*wanted == b'?' || wanted == got) && plain(rest, left),
                _ => false,
            }
        }
        prop_assert_eq!(Pattern::new(&pattern).matches(&name), plain(pattern.as_bytes(), name.as_bytes()));
    }

    #[test]
    fn a_float_is_written_so_that_it_reads_back(bits in any::<u64>()) {
        let float = f64::from_bits(bits);
        prop_assume!(float.is_finite());
        prop_assert_eq!(python::repr_float(float).parse::<f64>().unwrap().to_bits(), bits);
    }
}

#[test]
fn values_are_written_as_python_writes_them() {
    for (value, expected) in [
        (json!(1.0), "1.0"),
        (json!(-0.0), "-0.0"),
        (json!(1e16), "1e+16"),
        (json!(9_999_999_999_999_998.0), "9999999999999998.0"),
        (json!(0.0001), "0.0001"),
        (json!(0.00001), "1e-05"),
        (json!(1.5e300), "1.5e+300"),
        (
            json!([null, true, "it's", "say \"it's\"", {"é\n": "\u{200b}\u{1f438}\u{e000}\u{7f}\u{85}\u{301}"}]),
            "[None, True, \"it's\", 'say \"it\\'s\"', {'é\\n': '\\u200b🐸\\ue000\\x7f\\x85\u{301}'}]",
        ),
    ] {
        assert_eq!(python::repr(&value), expected);
    }
}

#[test]
fn numbers_are_read_as_python_reads_them() {
    for (text, expected) in [
        (" 12\n", Some(12)),
        ("1_0", Some(10)),
        ("-٣", Some(-3)),
        ("1__0", None),
        ("_1", None),
        ("1\x1f", None),
        ("0x1", None),
        ("", None),
        ("+", None),
    ] {
        assert_eq!(python::int(&json!(text)).ok(), expected, "{text:?}");
    }
    for (text, expected) in [
        (" 1_0.5 ", Some(10.5)),
        ("1e3", Some(1_000.0)),
        ("-Infinity", Some(f64::NEG_INFINITY)),
        ("1_", None),
        ("._1", None),
        ("0x1", None),
        ("", None),
    ] {
        assert_eq!(python::float(&json!(text)).ok(), expected, "{text:?}");
    }
}

#[test]
fn sets_follow_fnmatch() {
    for (pattern, matching, other) in [
        ("[]]", "]", "["),
        ("[!]a]", "b", "a"),
        ("[a-c]", "b", "d"),
        ("[c-a]", "", "b"),
        ("[a-]", "-", "b"),
        ("[-a]", "-", "b"),
        ("[!!]", "a", "!"),
        ("[^a]", "^", "b"),
        ("[a", "[a", "a"),
        ("[!", "[!", "!"),
        ("[\\]", "\\", "]"),
        ("{a,b}", "{a,b}", "a"),
    ] {
        assert!(matching.is_empty() || Pattern::new(pattern).matches(matching), "{pattern} {matching}");
        assert!(!Pattern::new(pattern).matches(other), "{pattern} {other}");
    }
}
