//! What holds for every text: no panic, linear work, printing and reading back, nothing lost.

use proptest::prelude::*;

use super::*;
use crate::model::qwen::marks::Marks;
use crate::model::qwen::scan::scan;

const PIECES: [&str; 34] = [
    "<tool_call>",
    "</tool_call>",
    "<function=Bash>",
    "<function=Write>",
    "<function=x>",
    "<function=Bash",
    "</function>",
    "<parameter=command>",
    "<parameter=content>",
    "<parameter=file_path>",
    "<parameter=",
    "</parameter>",
    "</parameter",
    "</function_invocation>",
    "<think>",
    "</think>",
    "```",
    "~~~",
    "`",
    "``",
    "\n",
    "\n",
    "\r\n",
    " ",
    "x",
    "ü🐸",
    "{\"name\":\"Bash\",\"arguments\":{}}",
    "{",
    "[",
    "\"",
    "&lt;tool_call&gt;",
    "<|im_end|>",
    "<",
    ">",
];

fn stitched() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&PIECES[..]), 0..60).prop_map(|pieces| pieces.concat())
}

/// A value whose tags are whole nested calls, or none.
fn value() -> impl Strategy<Value = String> {
    let plain = "[a-zA-Z0-9 \\n\\r\\t<>&/=\"'`{}ü🐸]{0,40}"
        .prop_map(|text| text.replace("<f", "<g").replace("<p", "<q").replace("<t", "<u").replace("</", "<"));
    let nested = prop::sample::select(vec![
        bash("ls"),
        printed("Write", &[("file_path", "x"), ("content", "y\n")]),
        printed("grep", &[("a", ""), ("b", "1")]),
        format!("{}\n{}", bash("a"), bash("b")),
        "`<tool_call>`".to_owned(),
    ]);
    let piece = prop_oneof![4 => plain, 1 => nested.prop_map(|call| format!("\n{call}\n"))];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(content in any::<String>(), reasoning in any::<String>()) {
        both(&content, &reasoning);
    }

    #[test]
    fn stitched_texts_keep_the_promises(content in stitched(), reasoning in stitched(), says_calls in any::<bool>()) {
        let reading = read(&turn(&content, &reasoning, if says_calls { "tool_calls" } else { "stop" }), CAP, &tools());
        prop_assert_eq!(reading.tool_calls.is_empty(), reading.kind != Kind::Recovered);
        prop_assert_eq!(reading.not_understood.is_empty(), reading.kind != Kind::Malformed);
        prop_assert!(!says_calls || reading.kind != Kind::Final);
        let again = read(&turn(&content, &reasoning, "stop"), CAP, &tools());
        prop_assert_eq!(again.tool_calls, reading.tool_calls);
    }

    #[test]
    fn printing_and_reading_back_is_the_identity(values in prop::collection::vec((value(), value(), prop::sample::select(vec!["Write", "grep"])), 1..4)) {
        let print = |(path, content, name): &(String, String, &str)| printed(name, &[("file_path", path), ("content", content)]);
        let text = values.iter().map(print).collect::<Vec<_>>().join("\n");
        let reading = of(&text);
        let expected: Vec<_> = values.iter().map(|(path, content, name)| format!("{name} {}", json!({"file_path": path, "content": content}))).collect();
        prop_assert_eq!(calls(&reading), expected.join("; "));
        prop_assert_eq!(reading.content, "");
        let thought = both("", &format!("So\n{text}"));
        prop_assert_eq!((calls(&thought), thought.reasoning), (expected.join("; "), "So".to_owned()));
    }
}

/// What a text of a few hundred thousand bytes may take at most.
const LARGEST: u64 = 1_300_000;

fn steps(unit: &str, count: usize) -> u64 {
    let text = unit.repeat(count);
    scan(&Marks::of(&text), &tools()).steps
}

#[test]
fn the_work_grows_with_the_text_and_no_faster() {
    for unit in [
        "<tool_call>\n",
        "<tool_call>\nx\n",
        "</parameter>\n",
        "<tool_call>\n<function=Bash>\n<parameter=command>\nls\n",
        "<function=Bash>\n<parameter=command>\n",
        "<function=x><parameter=a>\n</parameter>y\n",
        "```\n<tool_call>\n<function=Write>\n<parameter=content>\n```\n",
        "<tool_call>{\"a\n",
        "<function=Bash></function></parameter>\n",
        "```x\n",
        "` `` ",
        "</think>",
    ] {
        let (once, twice) = (steps(unit, 20_000), steps(unit, 40_000));
        assert!(twice <= (2 * once).max(LARGEST), "{unit}: {once}, {twice}");
        assert!(once <= LARGEST, "{unit}: {once}");
    }
}

#[test]
fn a_long_turn_of_many_calls_is_read_whole() {
    let text = format!("{}\nthen\n", bash("ls")).repeat(300);
    assert_eq!(of(&text).tool_calls.len(), 300);
}
