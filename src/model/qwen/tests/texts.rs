//! Rules 1 to 4, 14 to 16: cut turns, native calls, where thinking ends, which text counts, what is left.

use super::*;
use crate::model::qwen::Channel;

const LS: &str = r#"Bash {"command":"ls"}"#;

#[test]
fn a_turn_cut_by_length_has_no_calls_and_its_texts_are_untouched() {
    let text = format!("<think>a</think>\n{}<|im_end|>", bash("ls"));
    for reason in ["length", "LENGTH", "max_tokens", "Max_New_Tokens"] {
        let reading = read(&turn(&text, " r ", reason), CAP, &tools());
        assert_eq!((reading.kind, reading.content.as_str(), reading.reasoning.as_str()), (Kind::Truncated, text.as_str(), " r "));
        assert_eq!(calls(&reading), "");
    }
    assert_ne!(read(&turn(&text, "", "max"), CAP, &tools()).kind, Kind::Truncated);
}

#[test]
fn a_lying_server_is_found_out_by_its_count() {
    let counted = |completion_tokens| {
        let usage = Some(Usage { prompt_tokens: 1, completion_tokens, total_tokens: completion_tokens + 1 });
        read(&Turn { usage, ..turn(&bash("ls"), "", "tool_calls") }, CAP, &tools()).kind
    };
    assert_eq!((counted(99), counted(100), counted(101)), (Kind::Recovered, Kind::Truncated, Kind::Truncated));
}

#[test]
fn native_calls_are_taken_as_they_are_and_the_text_is_not_searched() {
    let call = |name: &str, arguments: &str| ToolCall { id: String::new(), name: name.into(), arguments: arguments.into() };
    let native = |content: &str, reasoning: &str, calls: &[(&str, &str)]| {
        let tool_calls = calls.iter().map(|(name, arguments)| call(name, arguments)).collect();
        read(&Turn { tool_calls, ..turn(content, reasoning, "stop") }, CAP, &tools())
    };
    let reading =
        native(&bash("ls"), &bash("pwd"), &[("read", "{\"filePath\": \"a\"}"), ("Nope", "[1]"), ("Bash", "\"{}\""), ("Bash", "")]);
    assert_eq!(calls(&reading), r#"read {"filePath":"a"}; Nope {}; Bash {}; Bash {}"#);
    assert_eq!((reading.kind, reading.content, reading.reasoning), (Kind::Native, bash("ls"), bash("pwd")));
    assert_eq!(reading.drafts, 1);
    let reading = native("a\n</think>\n\nb<|im_end|>", "", &[("Bash", "{}")]);
    assert_eq!((reading.content.as_str(), reading.reasoning.as_str()), ("b", "a"));
}

#[test]
fn end_tokens_go_at_the_very_end_only() {
    for text in ["Done.<|im_end|>", "Done.<|endoftext|><|im_end|>\n", "Done.<|im_end|>\n<|im_end|>"] {
        assert_eq!(of(text).content.trim_end(), "Done.", "{text}");
    }
    assert_answer("The token <|im_end|> ends a turn.");
    assert_calls(&format!("{}<|im_end|>", bash("ls")), LS, "");
    assert_eq!(calls(&both("", &format!("{}\n<|im_end|>", bash("ls")))), LS);
}

/// Content and reasoning of an answer.
fn split(content: &str, reasoning: &str) -> (String, String) {
    let reading = both(content, reasoning);
    assert_eq!(reading.kind, Kind::Final, "{content}");
    (reading.content, reading.reasoning)
}

fn pair(content: &str, reasoning: &str) -> (String, String) {
    (content.to_owned(), reasoning.to_owned())
}

#[test]
fn thinking_left_in_the_text_is_split_off_at_the_last_tag() {
    assert_eq!(split("a\n</think>\n\nb\n", ""), pair("b\n", "a"));
    assert_eq!(split("a</think>b", ""), pair("b", "a"));
    assert_eq!(split("<think>\na\n</THINK >\r\n\r\n b", ""), pair(" b", "a"));
    assert_eq!(split("a</think>b\n<think>c</think>\nd", ""), pair("d", "ab\nc"));
    assert_eq!(split("  <think>a", ""), pair("", "a"));
    assert_eq!(split("b <think>a", ""), pair("b <think>a", ""));
    assert_eq!(split("a\n", "r\n"), pair("a\n", "r\n"));
}

#[test]
fn what_stands_before_the_tag_joins_the_server_s_thinking_without_a_separator() {
    assert_eq!(split("<tool_call>` tag\n</think>\n\nb", " I quote the `"), pair("b", "I quote the `<tool_call>` tag"));
    assert_eq!(split("a\n</think>\nb", "<think>r\n"), pair("b", "r\na"));
    assert_eq!(split("</think>b", "r"), pair("b", "r"));
}

#[test]
fn when_the_server_split_only_a_tag_at_an_edge_of_its_line_counts() {
    assert_eq!(split("x </think> y", "r"), pair("x </think> y", "r"));
    assert_eq!(split("x </think>  \ny", "r"), pair("  \ny", "rx"));
    assert_eq!(split("x\n  </think> y", "r"), pair(" y", "rx"));
    assert_eq!(split("x </think> y", " \n"), pair(" y", "x"));
}

#[test]
fn a_tag_in_a_call_an_attempt_or_a_quote_is_no_boundary() {
    assert_answer("The tag `</think>` ends it.");
    assert_answer("So:\n```\na\n</think>\nb\n```\nfine");
    assert_calls(&format!("x\n{}", bash("echo\n</think>\nls")), "Bash {\"command\":\"echo\\n</think>\\nls\"}", "x");
    assert_malformed("<tool_call>\nls\n</think>\n</tool_call>", "no <function=NAME>");
    assert_eq!(split("`</think>` a\n</think>\nb", ""), pair("b", "`</think>` a"));
}

#[test]
fn a_call_before_the_end_of_the_thinking_belongs_to_the_thinking() {
    let reading = of(&format!("I look.\n{}\n</think>\n\n", bash("ls")));
    assert_eq!((calls(&reading).as_str(), reading.channel, reading.reasoning.as_str()), (LS, Channel::Reasoning, "I look."));
    let reading = of(&format!("I look.\n{}\n</think>\n\nIt is fixed.", bash("ls")));
    assert_eq!((reading.kind, reading.drafts, reading.content.as_str()), (Kind::Final, 1, "It is fixed."));
}

#[test]
fn the_thinking_is_read_only_when_the_text_is_blank_or_closers() {
    for content in ["", " \n", "</tool_call>", "\n</function>\n</tool_call>\n"] {
        let reading = both(content, &format!("So\n{}", bash("ls")));
        assert_eq!((calls(&reading).as_str(), reading.channel), (LS, Channel::Reasoning), "{content}");
        assert_eq!((reading.reasoning.as_str(), reading.content.as_str()), ("So", ""));
    }
    for content in ["Done.", "</tool_call> is the tag"] {
        let reading = both(content, &bash("ls"));
        assert_eq!((reading.kind, reading.drafts, reading.content.as_str()), (Kind::Final, 1, content));
        assert_eq!(reading.reasoning, bash("ls"));
    }
    let reading = both(&bash("ls"), &bash("pwd"));
    assert_eq!((calls(&reading).as_str(), reading.channel, reading.drafts), (LS, Channel::Content, 1));
    assert_eq!(reading.reasoning, bash("pwd"));
}

#[test]
fn only_the_calls_that_end_the_thinking_count() {
    let pwd_ls = r#"Bash {"command":"pwd"}; Bash {"command":"ls"}"#;
    let (ls, pwd) = (bash("ls"), bash("pwd"));
    let reading = both("", &format!("\na\n{pwd}\n{ls}\n </tool_call>\n"));
    assert_eq!((calls(&reading).as_str(), reading.reasoning.as_str(), reading.drafts), (pwd_ls, "a", 0));
    let reading = both("", &format!("a\n{pwd}\nb\n{ls}"));
    assert_eq!((calls(&reading), reading.reasoning, reading.drafts), (LS.to_owned(), format!("a\n{pwd}\nb"), 1));
    for text in [format!("{ls}\nbut no"), format!("{pwd}\n{ls}\n<tool_call>\n{{"), format!("{ls}\n`x`")] {
        let reading = both("", &text);
        assert_eq!((reading.kind, calls(&reading).as_str(), &reading.reasoning), (Kind::Malformed, "", &text));
        assert!(reading.not_understood.contains("in the thinking"), "{}", reading.not_understood);
    }
    let reading = both("</tool_call>", &format!("{ls}\nbut no"));
    assert!(reading.not_understood.contains("in the thinking"), "{}", reading.not_understood);
    let reading = both("", &format!("<tool_call>\n{{oops\n</tool_call>\n{ls}"));
    assert_eq!((calls(&reading).as_str(), reading.reasoning.as_str()), (LS, "<tool_call>\n{oops\n</tool_call>"));
}

#[test]
fn an_attempt_in_the_thinking_is_no_answer_when_there_is_no_other() {
    let reading = both("\n", "So\n<tool_call>\n<function=Bash>\n<parameter=command>\nls");
    assert_eq!((reading.kind, reading.channel, reading.content.as_str()), (Kind::Malformed, Channel::Reasoning, "\n"));
    assert_eq!(both("Done.", "<tool_call>\n").kind, Kind::Final);
    assert_eq!(both("", "I use `<tool_call>` now.").kind, Kind::Final);
}

#[test]
fn what_is_left_is_trimmed_and_joined_by_an_empty_line() {
    let (ls, pwd) = (bash("ls"), bash("pwd"));
    let text = format!("\n a \n\n{ls}\n\n b\n c \n{pwd}\n \n{ls}\n");
    assert_calls(&text, &format!("{LS}; Bash {{\"command\":\"pwd\"}}; {LS}"), "a\n\nb\n c");
    assert_calls(&format!("a\n{ls}\n<tool_call>\n{{x\n</tool_call>\nb"), LS, "a\n\n<tool_call>\n{x\n</tool_call>\nb");
}

#[test]
fn calls_that_are_announced_and_do_not_come_are_no_answer() {
    let said = |content: &str, reason: &str| read(&turn(content, "", reason), CAP, &tools());
    assert_eq!(said("I escape ", "tool_calls").kind, Kind::Malformed);
    assert_eq!(said("", "Tool_Calls").not_understood, "a call was announced and none arrived");
    assert_eq!(said("I escape ", "stop").kind, Kind::Final);
    assert_eq!(said(&bash("ls"), "tool_calls").kind, Kind::Recovered);
}

#[test]
fn an_answer_is_passed_on_byte_for_byte() {
    for text in ["", " \n", "\n\nFixed.\r\n", "a < b && c > d <b>bold</b> </p>", "‹tool_call› 工具 🐸", "- `a\n- b`"] {
        assert_answer(text);
    }
}
