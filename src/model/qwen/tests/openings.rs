//! Rules 5, 10 to 13 and 15: what opens a call, what an attempt is, names, closers, JSON.

use super::*;
use crate::model::qwen::Form;

const LS: &str = r#"Bash {"command":"ls"}"#;

#[test]
fn tags_may_have_any_case_blanks_and_quotes() {
    for (open, key) in [
        ("<function=Bash>", "command"),
        ("<FUNCTION =\tBash >", "COMMAND"),
        ("<function=\"Bash\">", "\"command\""),
        ("<function='ba.sh' >", "com-mand"),
        ("<function= \" B_a/s:h \" >", "'com mand'"),
    ] {
        let text = format!("<Tool_Call >\n{open}\n<Parameter = {key}>\nls\n</PARAMETER >\n</Function\t>\n</tool_CALL>");
        assert_calls(&text, LS, "");
    }
    for open in [
        "< function=Bash>",
        "<function\n=Bash>",
        "<function=Bash\n>",
        "<function=\"Bash>",
        "<function=9Bash>",
        "<function=>",
        "<function:Bash>",
    ] {
        assert_ne!(of(&format!("x {open}<parameter=command>ls</parameter></function>")).kind, Kind::Recovered, "{open}");
    }
}

#[test]
fn names_have_64_letters_at_most() {
    let named = |name: &str| of(&format!("<tool_call>\n<function={name}>\n</function>\n</tool_call>"));
    let longest = format!("_{}", "x".repeat(63));
    assert_eq!(calls(&named(&format!("{longest}  "))), format!("{longest} {{}}"));
    assert_eq!(named(&format!("{longest}x")).kind, Kind::Malformed);
}

#[test]
fn a_wrapped_function_opens_anywhere_and_with_any_white_space() {
    let inner = "<function=Bash><parameter=command>ls</parameter></function></tool_call>";
    for between in ["", " ", "\n", "\n\n \t", "\r\n", "<tool_call>", "\n<tool_call>\n<tool_call>\n"] {
        assert_calls(&format!("Now:<tool_call>{between}{inner}"), LS, "Now:");
    }
    assert_answer("Now <tool_call> and <function=Bash> are tags.");
    assert_calls("see <tool_call><function=Nope></function></tool_call>", "Nope {}", "see");
}

#[test]
fn a_bare_function_opens_at_the_start_of_a_line_or_with_a_parameter_at_once() {
    let inner = "<parameter=command>ls</parameter></function>";
    assert_calls(&format!("a\n \t<function=Bash>\n{inner}"), LS, "a");
    assert_calls(&format!("a <function=Bash>{inner}"), LS, "a");
    assert_answer("a <function=Bash> b");
    assert_answer("a <function=Bash></function>");
    assert_eq!(of(&format!("<function=Bash>{inner}")).tool_calls[0].form, Form::Bare);
    assert_malformed("a <function=Bash><parameter=command>ls", "parameter command of Bash");
    assert_malformed("<function=Bash> runs it", "text between its tags: 'runs it'");
    assert_malformed("<function=Bash>", "no </function>");
    assert_calls("<function=Bash>\n</function>", "Bash {}", "");
}

#[test]
fn a_bare_unknown_name_needs_a_parameter_and_a_closer() {
    assert_calls("<function=grep>\n<parameter=a>\n1\n</parameter>\n</function>", r#"grep {"a":"1"}"#, "");
    assert_answer("<function=name> stands for the tool");
    assert_answer("<function=name></function>");
    assert_malformed("<function=grep><parameter=a>1</parameter>", "function grep has no </function>");
    assert_malformed("<function=grep><parameter=a>1", "parameter a of grep");
    assert_calls(&printed("grep", &[]), "grep {}", "");
    assert_malformed("<tool_call><function=grep>", "no </function>");
}

#[test]
fn several_functions_in_one_wrapper_are_several_calls() {
    let one = |name: &str| format!("<function={name}><parameter=command>ls</parameter></function>");
    assert_calls(&format!("<tool_call>{} {}</tool_call>", one("Bash"), one("grep")), &format!("{LS}; grep {{\"command\":\"ls\"}}"), "");
    assert_calls(&format!("<tool_call>{}</tool_call> <function=x></function>", one("Bash")), LS, "<function=x></function>");
    assert_calls(&format!("<tool_call>{}\nso <function=x></function>", one("Bash")), LS, "so <function=x></function>");
    assert_calls("<tool_call><function=Bash></function><function=grep></function></tool_call>", "Bash {}; grep {}", "");
    assert_calls("<function=Bash></function> <function=grep></function>", "Bash {}", "<function=grep></function>");
}

#[test]
fn what_is_quoted_opens_nothing() {
    let call = "<function=Bash><parameter=command>ls</parameter></function></tool_call>";
    for text in [format!("see `<tool_call>{call}`"), format!("see ``a ` <tool_call>{call}``."), "`<tool_call>`\n".to_owned()] {
        assert_answer(&text);
        assert!(of(&text).mentions > 0);
    }
    assert_calls(&format!("a ` b\n<tool_call>{call}\n`"), LS, "a ` b\n\n`");
    assert_calls(&format!("`` <tool_call>{call} `"), LS, "`` \n\n`".trim_start_matches(' ').replace(" \n", "\n").as_str());
    assert_calls(&format!("<tool_call>{}", call.replace("ls", "echo `x")), r#"Bash {"command":"echo `x"}"#, "");
}

#[test]
fn attempts_by_their_lines() {
    for (attempt, why) in [
        ("<tool_call>", "no <function=NAME>"),
        ("a\n  <tool_call> \t\nb", "no <function=NAME>"),
        ("<tool_call> Bash ls </tool_call>  ", "no <function=NAME>"),
        ("x <tool_call>\n<tool_call>\nls", "no <function=NAME>"),
        ("<function=Bash\n<parameter=command>ls</parameter>", "<function=Bash has no '>'"),
        ("  <function=bash", "<function=bash has no '>'"),
        ("<tool_call><function=Bash\nls", "no '>'"),
        ("<parameter=command>\nls", "parameter command stands outside"),
        ("so\n <parameter=x>ls</parameter> more", "parameter x stands outside"),
        ("a\n</tool_call>", "closing tags"),
        ("a\n </function> </tool_call>\t\nb", "closing tags"),
        ("</function_invocation>", "closing tags"),
        ("&lt;tool_call&gt;\nx", "entities"),
        ("a\n &lt;Function = Bash&gt;", "entities"),
        ("see <tool_call> {\"a\": 1}", "no \"name\""),
        ("<tool_call>[", "invalid JSON"),
    ] {
        assert_malformed(attempt, why);
    }
    for answer in [
        "<tool_call> is the tag",
        "x <tool_call>\ny",
        "x <tool_call>ls</tool_call>",
        "<tool_call>ls</tool_call> x",
        "<function=nope\nls",
        "a <function=Bash",
        "<parameter=x> is a tag",
        "a <parameter=x>\nb",
        "a </tool_call>",
        "</tool_call> a",
        "</function> and </tool_call>",
        "a &lt;tool_call&gt;",
        "&lt;parameter=x&gt;",
        "</think",
    ] {
        assert_answer(answer);
    }
}

#[test]
fn attempts_reach_to_their_closers_or_the_next_wrapper_that_starts_a_line() {
    let ls = bash("ls");
    assert_calls(&format!("<tool_call>\n{{x\n</tool_call>\n{}", &ls[12..]), LS, "<tool_call>\n{x\n</tool_call>");
    assert_calls(&format!("<tool_call>\n{{x\n{ls}"), LS, "<tool_call>\n{x");
    assert_malformed(&format!("<tool_call>\n{{x\n{}", &ls[12..]), "invalid JSON");
    assert_malformed(&format!("<tool_call>\n{{x {ls}"), "invalid JSON");
    assert_calls(&format!("<tool_call>\nI list.\n{}", &ls[12..]), LS, "<tool_call>\nI list.");
    assert_calls(&format!("<function=Bash\nno\n{}", &ls[12..]), LS, "<function=Bash\nno");
    assert_malformed(&format!("<parameter=command>\nno\n{}", &ls[12..]), "parameter command stands outside");
    let lost = "<tool_call>\n<function=Write>\n<parameter=content>\nx\n<function=Bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>";
    assert_malformed(lost, "parameter content of Write");
    assert_calls(&format!("{lost}\n{ls}"), LS, lost);
}

#[test]
fn names_are_corrected_and_unknown_ones_kept() {
    assert_calls(
        &printed("wRITE", &[("filePath", "a"), ("CONTENT", "b"), ("Mode-X", "7")]),
        r#"Write {"file_path":"a","content":"b","Mode-X":"7"}"#,
        "",
    );
    assert_calls(&printed(" no such.tool ", &[(" Some Key ", "5")]), r#"no such.tool {"Some Key":"5"}"#, "");
    let twice = printed("Read", &[("offset", "1"), ("file_path", "a"), ("Offset", "2")]);
    assert_calls(&twice, r#"Read {"offset":2,"file_path":"a"}"#, "");
}

#[test]
fn closers_may_be_missing_or_too_many() {
    let call = "<tool_call><function=Bash><parameter=command>ls</parameter>";
    for closers in ["", "\n", "</function>", "</tool_call>", "</function></function>\n</tool_call> </function_invocation>"] {
        assert_calls(&format!("{call}{closers}"), LS, "");
    }
    assert_calls(&format!("{call}</function></tool_call>and"), LS, "and");
    assert_calls(&format!("{call}\n{call}"), &format!("{LS}; {LS}"), "");
    assert_malformed("<tool_call><function=Bash>x<parameter=command>ls</parameter></function>", "text between its tags: 'x<parameter");
    assert_malformed("<tool_call><function=Bash><parameter=>ls</parameter></function>", "text between its tags");
    assert_malformed(&format!("{call} x </function></tool_call>"), "parameter command of Bash");
}

#[test]
fn json_in_the_wrapper() {
    let wrapped = |json: &str| format!("<tool_call>\n{json}\n</tool_call>");
    for json in [
        r#"{"name": "bash", "arguments": {"Command": "ls"}}"#,
        r#"{"id": 1, "parameters": {"command": "ls"}, "name": " Bash "}"#,
        r#"{"name": "Bash", "arguments": "{\"command\": \"ls\"}", "parameters": {}}"#,
        r#"[{"name": "Bash", "arguments": {"command": "pwd", "command": "ls"}}]"#,
    ] {
        assert_calls(&wrapped(json), LS, "");
    }
    assert_calls(
        &wrapped(r#"[{"name":"Bash","arguments":null},{"name":"x","arguments":{"a":[1,"2"]}}]"#),
        r#"Bash {}; x {"a":[1,"2"]}"#,
        "",
    );
    assert_eq!(of(&wrapped(r#"{"name":"Bash","arguments":{}}"#)).tool_calls[0].form, Form::Json);
    let tag = r#"{"name":"Bash","arguments":{"command":"</tool_call>`"}}"#;
    assert_calls(&format!("a {}b", wrapped(tag)), r#"Bash {"command":"</tool_call>`"}"#, "a\n\nb");
    for (json, why) in [
        (r#"{"name": "Bash"}"#, "no \"name\""),
        (r#"{"arguments": {}}"#, "no \"name\""),
        (r#"{"name": 7, "arguments": {}}"#, "no \"name\""),
        (r#"{"name": "Bash", "arguments": [1]}"#, "no \"name\""),
        (r#"{"name": "Bash", "arguments": "ls"}"#, "no \"name\""),
        (r#"{"name": "Bash", "arguments": "[1]"}"#, "no \"name\""),
        (r#"[{"name": "Bash", "arguments": {}}, 1]"#, "no \"name\""),
        ("[]", "no \"name\""),
        (r#"{"name": "Bash", "arguments": {"command": "ls",}}"#, "invalid JSON"),
        ("{'name': 'Bash', 'arguments': {}}", "invalid JSON"),
        (r#"{"name": "Bash", "arguments": {}} x"#, "text behind the JSON in <tool_call>: 'x'"),
        (r#"{"name": "Bash", "arguments": {}} {"name": "Bash", "arguments": {}}"#, "text behind the JSON"),
    ] {
        assert_malformed(&wrapped(json), why);
    }
    assert_calls("<tool_call>{\"name\":\"Bash\",\"arguments\":{}}\nso", "Bash {}", "so");
    let open = r#"<tool_call>{"name":"Bash","arguments":{"command":"ls"}}"#;
    assert_calls(open, LS, "");
    assert_calls(&format!("{open}\n{open}</tool_call>"), &format!("{LS}; {LS}"), "");
}

#[test]
fn json_without_a_wrapper_is_a_call_when_it_is_all_there_is() {
    let call = r#"{"name": "bash", "arguments": {"command": "ls"}}"#;
    assert_calls(&format!(" \n{call}\n"), LS, "");
    assert_calls(&format!("```json\n{call}\n```\n"), LS, "");
    assert_eq!(of(&format!("~~~\n{call}\n~~~")).tool_calls[0].form, Form::Fenced);
    assert_eq!(of(call).tool_calls[0].form, Form::Json);
    assert_calls(r#"{"parameters": {"content": "a </think> b"}, "name": "Write"}"#, r#"Write {"content":"a </think> b"}"#, "");
    assert_calls(&format!("</think>\n{call}"), LS, "");
    for text in [
        r#"{"name": "nope", "arguments": {}}"#.to_owned(),
        r#"{"name": "bash", "arguments": {}, "id": 1}"#.to_owned(),
        r#"{"name": "bash", "parameters": 1}"#.to_owned(),
        format!("[{call}]"),
        format!("{call} done"),
        format!("Call:\n{call}"),
        format!("Call:\n```json\n{call}\n```"),
        format!("```json\n{call}\n```\nok"),
        format!("```json\n{call}\n```\n```json\n{call}\n```"),
        format!("```json\n{call}"),
    ] {
        assert_answer(&text);
    }
}

#[test]
fn entities_are_never_decoded() {
    assert_calls(&bash("echo &lt;a&gt; &amp;&amp; x"), r#"Bash {"command":"echo &lt;a&gt; &amp;&amp; x"}"#, "");
    assert_malformed("&lt;tool_call&gt;\n&lt;function=Bash&gt;", "entities");
}
