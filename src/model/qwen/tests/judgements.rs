//! Rule 7 again, where one judgement hangs on one mark.

use super::*;

/// A call of Bash whose command stands between its tag and the end of the text.
fn command(rest: &str) -> String {
    format!("<tool_call>\n<function=Bash>\n<parameter=command>\n{rest}")
}

fn read_as(reading: &Reading) -> (String, String) {
    let value = reading.tool_calls.first().map(|call| call.arguments["command"].as_str().unwrap().to_owned());
    (value.unwrap_or_default(), reading.content.clone())
}

fn found(command: &str, left: &str) -> (String, String) {
    (command.to_owned(), left.to_owned())
}

const CLOSE: &str = "\n</parameter>\n</function>\n</tool_call>";

#[test]
fn a_level_closes_by_what_follows_or_by_its_line() {
    for value in [
        "<parameter=a>\ny</parameter></function>\nz",
        "<parameter=a>\ny</parameter><parameter=timeout>1</parameter>\nz",
        "<parameter=a>\ny </parameter> x\n</parameter>\n</function>\n<tool_call> z",
    ] {
        assert_eq!(read_as(&of(&command(&format!("{value}{CLOSE}")))), found(value, ""));
    }
}

#[test]
fn an_unknown_tool_may_have_any_parameter() {
    let quoted = "y\n</parameter>\n</function>\nz";
    let text = printed("grep", &[("a", "x"), ("b", quoted)]);
    assert_calls(&text, &format!("grep {}", json!({"a": "x", "b": quoted})), "");
    let forgotten = "<tool_call>\n<function=grep>\n<parameter=a>\nx\n<parameter=b>\ny\n</parameter>\n</function>\n</tool_call>";
    assert_calls(forgotten, r#"grep {"a":"x","b":"y"}"#, "");
}

#[test]
fn an_opening_right_behind_is_lenient_and_one_behind_closers_is_strict() {
    let value = "x\n</parameter>\n<tool_call>\ny";
    assert_eq!(read_as(&of(&command(&format!("{value}{CLOSE}")))), found(value, ""));
    assert_malformed(&command("x\n</parameter> <function=x> y"), "no clear end");
    assert_malformed(&command("x\n</parameter>\n<parameter=>\ny"), "text between its tags: '<parameter=>'");
    let value = "<parameter=zone>\nx\n</function>";
    assert_eq!(read_as(&of(&command(&format!("{value}\n</parameter>\n</function>\n")))), found(value, ""));
}

#[test]
fn the_end_of_the_thinking_ends_a_value_where_it_is_no_boundary() {
    for closers in ["</parameter>", "</function>", "</parameter></function>"] {
        let reading = both(&command(&format!("x\n{closers} </think> so")), "r");
        assert_eq!(read_as(&reading), found("x", "</think> so"), "{closers}");
    }
}

#[test]
fn a_value_does_not_leave_its_fence() {
    let open = command("ls\n</parameter>\n");
    assert_answer(&format!("```\n{open}```\ntext\n```{CLOSE}\n```"));
    assert_answer(&format!("```\n{}\n```\nand\n```\nx{CLOSE}\n```", bash("ls")));
}

#[test]
fn fences_pair_by_letter_length_and_info() {
    let ls = bash("ls");
    let expected = r#"Bash {"command":"ls"}"#;
    assert_calls(&format!("``` `a`\n{ls}\n```"), expected, "``` `a`\n\n```");
    assert_answer(&format!("````\n{ls}\n`````\nso\n```\n```"));
    assert_calls(&format!("````\n{ls}\n```\n````\n{ls}\n````"), expected, &format!("````\n{ls}\n```\n````\n\n````"));
    assert_malformed("a\n\t<tool_call>\t\n", "no <function=NAME>");
}
