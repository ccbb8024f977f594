//! Rule 6: fences that are quotations, and fences that were meant as calls.

use super::*;
use crate::model::qwen::Form;

const LS: &str = r#"Bash {"command":"ls"}"#;

fn fenced(inner: &str) -> String {
    format!("```xml\n{inner}\n```")
}

#[test]
fn a_fence_of_complete_calls_at_the_end_is_meant() {
    let (ls, pwd) = (bash("ls"), bash("pwd"));
    for text in [
        fenced(&ls),
        format!("So\n\n  {}  \n\n", fenced(&ls)),
        format!("So\n~~~\n{ls}\n~~~~"),
        format!("So\n`````\n\n{ls}\n\n`````"),
        format!("So\n{}", fenced(&ls.replace("<tool_call>\n", "").replace("\n</tool_call>", ""))),
        format!("So\n{}", fenced("<tool_call>{\"name\": \"Bash\", \"arguments\": {\"command\": \"ls\"}}</tool_call>")),
    ] {
        let reading = of(&text);
        assert_eq!((calls(&reading).as_str(), reading.tool_calls[0].form), (LS, Form::Fenced), "{text}");
        assert_eq!(reading.mentions, 0, "{text}");
        assert_eq!(reading.content, if text.starts_with('S') { "So" } else { "" });
    }
    assert_calls(&format!("a\n{}\n\n{}", fenced(&ls), fenced(&pwd)), &format!("{LS}; Bash {{\"command\":\"pwd\"}}"), "a");
    assert_calls(&fenced(&format!("{ls}\n{pwd}")), &format!("{LS}; Bash {{\"command\":\"pwd\"}}"), "");
    let shared = ls.replace("\n</tool_call>", &format!("\n{}", &ls[12..]));
    assert_calls(&fenced(&shared), &format!("{LS}; {LS}"), "");
    assert_calls(&format!("{}\nb\n{}", fenced(&pwd), fenced(&ls)), LS, &format!("{}\nb", fenced(&pwd)));
}

#[test]
fn any_other_fence_is_text() {
    let ls = bash("ls");
    for inner in [
        ls.replace("Bash", "grep"),
        printed("Read", &[("offset", "1")]),
        ls.replace("\n</tool_call>", ""),
        ls.replace("</function>\n", ""),
        ls.replace("</parameter>\n", ""),
        format!("{ls}\nx"),
        format!("x\n{ls}"),
        format!("{ls}\n<tool_call>\n"),
        format!("{ls}\n{}", ls.replace("Bash", "grep")),
        format!("<tool_call>\n{}", "<tool_call>{\"name\": \"Bash\", \"arguments\": {}}</tool_call>"),
    ] {
        assert_answer(&format!("So\n{}", fenced(&inner)));
    }
    assert_answer(&format!("{}\nand text", fenced(&ls)));
    assert_answer(&format!("{}\n`x`", fenced(&ls)));
    let reading = of(&format!("{}\nand text", fenced(&ls)));
    assert_eq!((reading.mentions, reading.drafts), (1, 0));
}

#[test]
fn a_fence_beside_an_unfenced_call_or_an_attempt_is_text() {
    let (ls, pwd) = (bash("ls"), bash("pwd"));
    assert_calls(&format!("{pwd}\n{}", fenced(&ls)), r#"Bash {"command":"pwd"}"#, &fenced(&ls));
    assert_malformed(&format!("<tool_call>\n{{\n</tool_call>\n{}", fenced(&ls)), "invalid JSON");
}

#[test]
fn what_is_no_fence_quotes_nothing() {
    let ls = bash("ls");
    assert_calls(&format!("```\n{ls}"), LS, "```");
    assert_calls(&format!("~~~\n{ls}\n```"), LS, "~~~\n\n```");
    assert_calls(&format!("````\n{ls}\n```"), LS, "````\n\n```");
    assert_calls(&format!("```\n{ls}\n``` x"), LS, "```\n\n``` x");
    assert_calls(&format!("``\n{ls}\n``"), LS, "``\n\n``");
    assert_calls(&format!("x ```\n{ls}\n```\n"), LS, "x ```\n\n```");
    assert_calls(&format!("x ~~~\n{ls}\n~~~"), LS, "x ~~~\n\n~~~");
    assert_calls(&format!("``` `a`\n{ls}"), LS, "``` `a`");
}

#[test]
fn fences_inside_a_call_are_value() {
    let text = "# T\n```sh\nls\n```\n<tool_call>\n~~~";
    let value = json!(text).to_string();
    let expected = format!("Write {{\"file_path\":\"a\",\"content\":{value}}}");
    let write = printed("Write", &[("file_path", "a"), ("content", text)]);
    assert_calls(&write, &expected, "");
    assert_calls(&fenced(&write), &expected, "");
    assert_answer(&format!("{}\nand text", fenced(&write)));
}

#[test]
fn a_fence_can_end_the_thinking_too() {
    let reading = both("", &format!("So\n{}\n", fenced(&bash("ls"))));
    assert_eq!((calls(&reading).as_str(), reading.reasoning.as_str()), (LS, "So"));
    let reading = both("", &format!("So\n{}\nNo.", fenced(&bash("ls"))));
    assert_eq!((reading.kind, calls(&reading).as_str()), (Kind::Final, ""));
}
