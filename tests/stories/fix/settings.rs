//! The settings of a service's configuration hold for `fix` too; what the command line says wins, and what a fix does not need is left unused.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use frognano_bot::demo::model_server::ModelServer;
use frognano_bot::model::{RestartOn, Script, Scripted};
use serde_json::json;

use super::place::{END, FIX, Place};

/// The edit of [`FIX`] as a server without a parser of tool calls leaves it, with thinking and end token.
const TEXT: &str = r#"{"raw": true, "content": "<think>\nIt adds.\n</think>\n\n<tool_call>\n<function=Edit>\n<parameter=file_path>\ncalc.py\n</parameter>\n<parameter=old_string>\na - b\n</parameter>\n<parameter=new_string>\na + b\n</parameter>\n</function>\n</tool_call><|im_end|>", "finish_reason": "stop"}"#;

impl Place {
    /// A service's configuration: a forge that is not there, a model, and what else is given.
    fn configure(&self, url: &str, model: &str, rest: &str) {
        let forge = "[[forge]]\nname = \"f\"\nkind = \"gitea\"\nurl = \"https://forge.invalid\"\nca_file = \"/not/there.pem\"\ntoken = { file = \"not-there\" }\nwebhook_secrets = [{ env = \"NOT_THERE\" }]";
        let text = format!("{forge}\n[model]\nurl = {url:?}\nname = \"configured\"\n{model}\n{rest}\n");
        fs::write(self.path().join("frognano.toml"), text).unwrap();
    }
}

async fn server(lines: &[&str]) -> ModelServer {
    ModelServer::start(Scripted::new(Script::parse(&lines.join("\n")).unwrap(), RestartOn::Never)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_names_the_model_and_who_parses() {
    let (place, server) = (Place::new(), server(&[TEXT, END]).await);
    place.configure(&server.base_url, "parse_tool_calls = \"here\"", "[run]\ntemperature = 0.25\nmax_steps = 7\nseed = 3\nstuck_after = 4");
    let (status, report) = place.fix(&[], &["--config", "frognano.toml"]);
    assert_eq!((status, &report["outcome"], &report["model"]), (0, &json!("proposed"), &json!("configured")), "{report}");
    let ours = place.json("trajectory.json")["frognano"].clone();
    assert_eq!((&ours["parse_tool_calls"], &ours["readings"]["recovered"]), (&json!("here"), &json!({"content": {"native": 1}})));
    assert_eq!((&ours["budgets"]["max_steps"], &ours["budgets"]["stuck_after"]), (&json!(7), &json!(4)));
    let asked = server.requests().remove(0);
    assert_eq!((&asked["model"], &asked["temperature"], &asked["seed"]), (&json!("configured"), &json!(0.25), &json!(3)));
    let (status, _) = place.ended(&place.say(&["--replay", "out", "--json"]));
    assert_eq!(status, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_wins() {
    let (place, server) = (Place::new(), server(&[FIX, END, FIX, END]).await);
    place.configure(&server.base_url, "", "");
    let (status, report) = place.fix(&[], &["--config", "frognano.toml", "--model", "named"]);
    assert_eq!((status, &report["model"], &server.requests()[0]["model"]), (0, &json!("named"), &json!("named")), "{report}");

    place.configure("http://127.0.0.1:9/v1", "key = { file = \"not-there\" }", "");
    let (status, report) = place.fix(&[], &["--config", "frognano.toml", "--model-url", &server.base_url]);
    assert_eq!((status, &report["model"], &server.requests()[2]["model"]), (0, &json!("configured"), &json!("configured")), "{report}");

    let (status, _) = place.fix(&[FIX, END], &["--config", "frognano.toml"]);
    assert_eq!((status, server.requests().len()), (0, 4), "a script asks no server");
}

#[test]
fn the_patience_with_the_model_is_the_configured_one() {
    let place = Place::new();
    place.configure("http://127.0.0.1:9/v1", "retries = 0", "");
    let busy = r#"{"error": {"status": 503, "message": "busy"}}"#;
    let (status, report) = place.fix(&[busy, FIX, END], &["--config", "frognano.toml"]);
    assert_eq!((status, &report["outcome"], &report["reason"]), (1, &json!("abandoned"), &json!("model_failed")), "{report}");
    assert!(report["detail"].as_str().unwrap().contains("after 1 tries"), "{report}");
}

/// What a server is sent, head only; it refuses everything.
fn head_of_one_request(listener: &TcpListener) -> String {
    let mut stream = BufReader::new(listener.accept().unwrap().0);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        stream.read_line(&mut head).unwrap();
    }
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse::<u64>().ok()).unwrap();
    stream.by_ref().take(length).read_to_end(&mut Vec::new()).unwrap();
    stream.get_mut().write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").unwrap();
    head.to_lowercase()
}

#[test]
fn the_key_goes_to_the_configured_address_and_to_no_other() {
    let place = Place::new();
    let (ours, other) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let url = |listener: &TcpListener| format!("http://{}/v1", listener.local_addr().unwrap());
    place.configure(&url(&ours), "key = { file = \"key\" }", "");
    let (status, _) = place.fix(&[], &["--config", "frognano.toml"]);
    assert_eq!(status, 2, "a key that is not there is a mistake of use");
    fs::write(place.path().join("key"), "geheim\n").unwrap();

    let run = place.start(&[], &["--config", "frognano.toml"]);
    assert!(head_of_one_request(&ours).contains("authorization: bearer geheim"));
    let output = run.wait_with_output().unwrap();
    assert_eq!(place.ended(&output).0, 1);
    assert!(!String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).contains("geheim"));
    assert!(!fs::read_to_string(place.path().join("out/kept/order.json")).unwrap().contains("geheim"));

    let run = place.start(&[], &["--config", "frognano.toml", "--model-url", &url(&other)]);
    assert!(!head_of_one_request(&other).contains("authorization"));
    assert_eq!(place.ended(&run.wait_with_output().unwrap()).0, 1);
}

#[test]
fn somebody_must_be_named_who_answers() {
    let place = Place::new();
    for args in [&[][..], &["--model", "m"], &["--model-url", "http://127.0.0.1:9/v1"]] {
        assert_eq!(place.fix(&[], args).0, 2, "{args:?}");
    }
    place.configure("http://127.0.0.1:9/v1", "parse_tool_calls = \"nobody\"", "");
    let said = place.say(&["--repo", "repo", "--issue", "issue.md", "--config", "frognano.toml"]);
    let said = (said.status.code(), String::from_utf8(said.stderr).unwrap());
    assert!(said.0 == Some(2) && said.1.contains("[model] parse_tool_calls: unknown variant `nobody`"), "{said:?}");
}
