use super::parse;
use crate::domain::TestResult::{Error, Failed, Passed, Skipped};

fn suite(attributes: &str, rows: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" {attributes}>{rows}</testsuite></testsuites>"#
    )
}

fn refused(report: &str) -> String {
    parse(report.as_bytes()).unwrap_err()
}

#[test]
fn a_report_of_pytest_is_read() {
    let rows = r#"
        <testcase classname="" name="test_broken"><error message="collection failure">ImportError &lt;x&gt;</error></testcase>
        <testcase classname="test_a" name="twice" time="1.25"><failure type="pkg.Error" message="x"/><error type="OSError"/></testcase>
        <testcase classname="test_a" name="skipped"><skipped type="pytest.xfail" message="a &amp; b"/></testcase>
        <testcase classname="test_a" name="sub"><failure/><failure/></testcase>
        <testcase classname="test_a.T" name="param[&lt;é&#233;]"><system-out><![CDATA[<failure/>]]></system-out></testcase>"#;
    let cases = parse(suite(r#"errors="2" failures="3" skipped="1" tests="5" time="0.1""#, rows).as_bytes()).unwrap();
    let read: Vec<_> = cases.iter().map(|case| (case.name.as_str(), case.result)).collect();
    assert_eq!(
        read,
        [
            ("test_a.T::param[<éé]", Passed),
            ("test_a::skipped", Skipped),
            ("test_a::sub", Failed),
            ("test_a::twice", Error),
            ("test_broken", Error)
        ]
    );
    assert_eq!((cases[3].exception.as_deref(), cases[3].ms, cases[0].ms), (Some("pkg.Error"), 1250, 0));
    assert_eq!(parse(suite(r#"tests="0""#, "").as_bytes()).unwrap(), []);
}

#[test]
fn a_name_that_stands_there_twice_is_no_result() {
    for second in [r#"<testcase name="a"/>"#, r#"<testcase name="a"><failure/></testcase>"#, r#"<testcase classname="" name="a"/>"#] {
        assert!(refused(&suite("", &format!(r#"<testcase name="a"/>{second}"#))).contains("two rows"), "{second}");
    }
    let rows = r#"<testcase classname="x" name="a"/><testcase classname="y" name="a"/>"#;
    assert_eq!(parse(suite("", rows).as_bytes()).unwrap().len(), 2);
}

#[test]
fn what_is_no_type_or_time_is_left_out() {
    let rows =
        r#"<testcase name="a" time="-1"><failure type="a b"/></testcase><testcase name="b" time="NaN"><failure type=""/></testcase>"#;
    assert!(parse(suite("", rows).as_bytes()).unwrap().iter().all(|case| case.exception.is_none() && case.ms == 0));
}

#[test]
fn marks_count_only_directly_below_their_test() {
    let rows = r#"<testcase name="a"><properties><failure/></properties></testcase><failure/><testcase name="b"/><error/>"#;
    assert!(parse(suite("", rows).as_bytes()).unwrap().iter().all(|case| case.result == Passed));
}

#[test]
fn contradictory_totals_are_refused() {
    let rows = r#"<testcase name="a"><failure/></testcase><testcase name="b"/>"#;
    assert!(parse(suite(r#"tests="2" failures="1""#, rows).as_bytes()).is_ok());
    for attributes in [r#"failures="0""#, r#"failures="1" errors="1""#, r#"skipped="1""#, r#"tests="1""#, r#"tests="3""#] {
        assert!(refused(&suite(attributes, rows)).contains("contradicts itself"), "{attributes}");
    }
    assert!(refused(&suite(r#"tests="3""#, "")).contains("contradicts itself"));
    assert!(refused(&suite(r#"tests="many""#, "")).contains("no number"));
}

#[test]
fn bombs_and_entities_are_refused() {
    let bomb = r#"<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>"#;
    assert!(refused(bomb).contains("document type"));
    assert!(refused(r#"<testsuite><testcase name="&b;"/></testsuite>"#).contains("broken attribute"));
    assert!(refused("<testsuite>&b;</testsuite>").contains("entity"));
    assert!(refused(&format!("<testsuite>{}", "<a>".repeat(100))).contains("nested deeper"));
    assert!(refused(&suite("", &r#"<testcase name="a"/>"#.repeat(200_001))).contains("more than 200000 rows"));
    assert!(parse(&vec![b' '; 16 * 1024 * 1024 + 1]).unwrap_err().contains("larger than"));
    assert!(refused(&suite("", &format!(r#"<testcase name="{}"/>"#, "x".repeat(20_000)))).contains("a name of more"));
}

#[test]
fn what_is_no_report_is_refused() {
    for report in [
        "",
        " ",
        "hello",
        "{}",
        "<html></html>",
        "<testsuite>",
        "<testsuite></testsuites>",
        "<testsuite/><testsuite/>",
        "<testsuite/>x",
        "x<testsuite/>",
        "<testcase name='a'/>",
        "<testsuite><testcase/></testsuite>",
        "<testsuite><testcase name=''/></testsuite>",
        "<testsuite><testcase name='a'",
        "<testsuite><testcase name='a' name='b'/></testsuite>",
        "<testsuite><testcase name='a'><testcase name='b'/></testcase></testsuite>",
        "<testsuite><testcase name='a'><testsuite/></testcase></testsuite>",
        "<?xml version='1.0' encoding='utf-16'?><testsuite/>",
        "</testsuite>",
        "<testsuite/>&lt;",
    ] {
        assert!(parse(report.as_bytes()).is_err(), "{report}");
    }
    assert!(parse(b"<testsuite><testcase name='\xff'/></testsuite>").unwrap_err().contains("not UTF-8"));
    let utf16: Vec<u8> = "<testsuite/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(parse(&utf16).is_err());
    assert!(parse(b"\xef\xbb\xbf<testsuite/>").is_ok());
}

#[test]
fn a_report_that_is_cut_anywhere_gives_no_result() {
    let report = suite(r#"tests="2" failures="1""#, r#"<testcase name="a"><failure/></testcase><testcase name="é"/>"#);
    for end in 0..report.len() {
        assert!(parse(&report.as_bytes()[..end]).is_err(), "{end}");
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn no_markup_makes_it_panic(parts in proptest::collection::vec(0_usize..14, 0..40)) {
        let known = [
            "<testsuite>", "</testsuite>", "<testcase name='a'>", "<testcase name='b'/>", "</testcase>", "<failure/>", "<error>", "</error>", "&#0;",
            "<![CDATA[", "]]>", "<!-- x", "-->", "<testsuites tests='1'>",
        ];
        let _ = parse(parts.into_iter().map(|part| known[part]).collect::<String>().as_bytes());
    }
}
