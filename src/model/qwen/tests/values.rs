//! Rules 7 and 8: where a value ends, and what of it is the frame.

use super::*;

/// The value of `content` when it stands between the template's tags like this.
fn written(between: &str) -> String {
    let text = format!("<tool_call>\n<function=Write>\n<parameter=file_path>\na\n</parameter>\n<parameter=content>{between}");
    let reading = of(&text);
    assert_eq!((reading.kind, reading.tool_calls.len()), (Kind::Recovered, 1), "{text}: {}", reading.not_understood);
    reading.tool_calls[0].arguments["content"].as_str().unwrap().to_owned()
}

const CLOSE: &str = "\n</parameter>\n</function>\n</tool_call>";

#[test]
fn the_frame_is_one_line_end_at_each_end() {
    for (between, value) in [
        ("x", "x"),
        ("\nx\n", "x"),
        ("\n\nx\n\n", "\nx\n"),
        ("\n  x \n", "  x "),
        (" \nx\n ", " \nx\n "),
        ("x\n", "x"),
        ("\nx", "x"),
        ("\r\nx\r\n", "x"),
        ("\r\nx\n", "x"),
        ("\r\n\r\nx\r\n\r\n", "\r\nx\r\n"),
        ("\nx\r\n", "x\r"),
        ("x\r\n", "x\r"),
        ("\rx\r", "\rx\r"),
        ("", ""),
        ("\n", ""),
        ("\n\n", ""),
        ("\r\n", ""),
        ("\r\n\r\n", ""),
        ("\n\n\n", "\n"),
    ] {
        assert_eq!(written(&format!("{between}</parameter>\n</function>\n</tool_call>")), value, "{between:?}");
    }
}

#[test]
fn a_strict_end_is_the_text_s_end_a_missing_parameter_or_a_run_of_closers_before_an_end() {
    let quoted = "\nx\n</parameter>\n</function>\nmore";
    for end in [
        "",
        "\n \n",
        "</function>",
        "\n</function>\n</tool_call>\n",
        "\n</tool_call>\n<tool_call>\n",
        "\n</function>\n<function=x>",
        "</function></tool_call><tool_call>",
    ] {
        assert_eq!(written(&format!("{quoted}\n</parameter>{end}")), quoted[1..], "{end}");
    }
    let order = "<tool_call>\n<function=Write>\n<parameter=content>\nx\n</parameter>\n</function>\nmore\n</parameter>\n<parameter=file_path>\na\n</parameter>";
    assert_calls(order, "Write {\"content\":\"x\\n</parameter>\\n</function>\\nmore\",\"file_path\":\"a\"}", "");
}

#[test]
fn a_run_that_holds_another_closer_of_the_parameter_is_value() {
    assert_eq!(written(&format!("\nx{CLOSE}{CLOSE}")), format!("x{CLOSE}"));
    assert_eq!(written(&format!("\nx\n</parameter>{CLOSE}")), "x\n</parameter>");
}

#[test]
fn without_a_strict_end_the_last_lenient_one_counts() {
    for follows in ["\nso", "\n`x`", "\n</think>", "\n<parameter=zone>"] {
        let one = written(&format!("\nx{CLOSE}{follows}"));
        assert_eq!(one, "x", "{follows}");
    }
    assert_eq!(written(&format!("\nx{CLOSE}\nso{CLOSE}\nand")), format!("x{CLOSE}\nso"));
    for follows in ["\n</think>", "\n<tool_call>\n", "\n<function=x>\n"] {
        assert_eq!(written(&format!("\nx\n</parameter>{follows}")), "x", "{follows}");
    }
    assert_eq!(written(&format!("\nx\n</parameter> so\n</function>\ny{CLOSE}")), "x\n</parameter> so\n</function>\ny");
    let mid_line = format!("\nx\n</parameter> <function=x> y{CLOSE}");
    assert_eq!(written(&mid_line), "x\n</parameter> <function=x> y");
}

#[test]
fn a_parameter_that_is_given_or_not_declared_ends_nothing_for_sure() {
    for key in ["zone", "file_path", "filePath", "content"] {
        let quoted = format!("x\n</parameter>\n<parameter={key}>\ny\n</parameter>\n</function>\nz");
        assert_eq!(written(&format!("\n{quoted}{CLOSE}")), quoted, "{key}");
    }
    let unknown = "<tool_call>\n<function=grep>\n<parameter=a>\nx\n</parameter>\n<parameter=b>\ny\n</parameter>\n</function>\n</tool_call>";
    assert_calls(unknown, r#"grep {"a":"x","b":"y"}"#, "");
    let again = unknown.replace("<parameter=b>", "<parameter=a>");
    assert_calls(&again, r#"grep {"a":"y"}"#, "");
}

#[test]
fn parameters_inside_a_value_are_levels_that_close() {
    let nested = [
        bash("ls"),
        format!("a\n{}\nb\n{}\nc", bash("ls"), printed("Edit", &[("file_path", "x"), ("old_string", "1"), ("new_string", "2")])),
        "<x><parameter=content>\ny\n</parameter>\n</x>".to_owned(),
        "<parameter=a>\n<parameter=b>\ny\n</parameter>\n</parameter>".to_owned(),
        "<parameter=a>y</parameter>\nz".to_owned(),
        "<parameter=a><parameter=b>y</parameter>\nz".to_owned(),
        "see <parameter=a>\nz".to_owned(),
        "<parameter=a>\ny </parameter> x\n</parameter> z".to_owned(),
    ];
    for value in nested {
        assert_eq!(written(&format!("\n{value}{CLOSE}")), value);
        assert_eq!(written(&format!("\n{value}{CLOSE}\nso")), value);
    }
}

#[test]
fn a_forgotten_closer_ends_the_value_at_what_can_only_come_after_it() {
    let edit = |text: &str| format!("<tool_call>\n<function=Edit>\n<parameter=file_path>\na\n{text}");
    let rest = "<parameter=old_string>\nx\n</parameter>\n</function>\n</tool_call>";
    let expected = r#"Edit {"file_path":"a","old_string":"x"}"#;
    assert_calls(&edit(rest), expected, "");
    assert_calls(&edit(&format!("</parameter\n{rest}")), expected, "");
    assert_calls(&edit(&format!("</PARAMETERS>\n{rest}")), expected, "");
    assert_calls(&edit("</function>\n</tool_call>"), r#"Edit {"file_path":"a"}"#, "");
    for end in [
        "</tool_call>",
        "</function>\n<tool_call>\n",
        "</function>\n</think>",
        "</parameter\n</function>",
        "</function></tool_call>\n<function=x>",
    ] {
        assert_eq!(written(&format!("\nx\n{end}")), "x", "{end}");
    }
    assert_eq!(written("\n<b>x</b>\n</function>"), "<b>x</b>");
    for (text, why) in [
        ("b", "parameter file_path of Edit has no clear end"),
        ("</function>\nso", "parameter file_path"),
        ("</parameter> x\n</function>", "parameter file_path"),
        ("\n<function=Bash>\n</function>", "parameter file_path"),
        ("</function_invocation>", "parameter file_path"),
        ("so <parameter=old_string>\nx", "parameter file_path"),
        ("<parameter=zone>\nx", "parameter file_path"),
    ] {
        assert_malformed(&edit(text), why);
    }
}

#[test]
fn a_closing_fence_ends_a_value_like_the_text_s_end() {
    let inner = "<tool_call>\n<function=Bash>\n<parameter=command>\nls\n</parameter>\nx\n</parameter>\n</function>\n</tool_call>";
    let reading = of(&format!("```\n{inner}\n```\n"));
    assert_eq!(calls(&reading), r#"Bash {"command":"ls\n</parameter>\nx"}"#);
}
