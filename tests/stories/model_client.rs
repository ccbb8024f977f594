//! The client over real HTTP: what is sent, what is repeated, whose fault a failure is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use frognano_bot::leaf::tools;
use frognano_bot::model::{Client, Endpoint, Model as _, ModelError, Settings, Turn, TurnRequest};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::leaf_loop::world::Time;

const GOOD: &str = r#"{"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}"#;

/// Answers each connection with the next of these bytes, and keeps what was asked.
struct Server {
    base: String,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Server {
    async fn start(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        tokio::spawn(async move {
            for answer in answers {
                let (stream, _) = listener.accept().await.unwrap();
                let mut stream = BufReader::new(stream);
                let asked = read_request(&mut stream).await;
                kept.lock().unwrap().push(asked);
                let sent = stream.write_all(&answer).await;
                if sent.is_ok() {
                    stream.shutdown().await.unwrap();
                }
            }
        });
        Self { base, asked }
    }

    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> (String, String) {
    let (mut head, mut line) = (String::new(), String::new());
    while stream.read_line(&mut line).await.unwrap() > 2 {
        head.push_str(&line);
        line.clear();
    }
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

fn http(status: u16, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).into_bytes()
}

fn ok(body: &str) -> Vec<u8> {
    http(200, "content-type: application/json\r\n", body)
}

fn request() -> TurnRequest {
    TurnRequest { messages: vec![json!({"role": "user", "content": "u"})], tools: tools(), max_completion_tokens: 8_192, seed: None }
}

/// What came of one turn against these answers, the pauses in milliseconds, and how often the server was asked.
async fn turn(answers: Vec<Vec<u8>>) -> (Result<Turn, ModelError>, Vec<u128>, usize) {
    let server = Server::start(answers).await;
    let time = Arc::new(Time::default());
    let endpoint = Endpoint::Http { base_url: server.base.clone(), api_key: None, ca_bundle: None };
    let client = Client::new(endpoint, Settings::default()).unwrap().with_time(time.clone(), time.clone());
    let turn = client.turn(&request()).await;
    let pauses = time.pauses.lock().unwrap().iter().map(Duration::as_millis).collect();
    (turn, pauses, server.count())
}

#[tokio::test]
async fn the_request_is_the_evaluated_one_field_by_field() {
    let server = Server::start(vec![ok(GOOD), ok(GOOD)]).await;
    let endpoint =
        Endpoint::Http { base_url: server.base.trim_end_matches("/v1").to_owned(), api_key: Some("geheim".into()), ca_bundle: None };
    let client = Client::new(endpoint, Settings::default()).unwrap();
    client.turn(&request()).await.unwrap();
    client.turn(&TurnRequest { seed: Some(7), ..request() }).await.unwrap();
    let asked = server.asked.lock().unwrap().clone();
    let (head, body) = &asked[0];
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: Bearer geheim\r\n") && head.contains("content-type: application/json\r\n"), "{head}");
    let expected = json!({
        "model": "FrogNano-4B",
        "messages": [{"role": "user", "content": "u"}],
        "tools": tools(),
        "tool_choice": "auto",
        "temperature": 0.6,
        "parallel_tool_calls": true,
        "max_completion_tokens": 8192,
        "top_p": 0.95,
        "top_k": 20,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "repetition_penalty": 1.0,
        "chat_template_kwargs": {"enable_thinking": true},
    });
    assert_eq!(body, &expected.to_string());
    assert_eq!(serde_json::from_str::<Value>(&asked[1].1).unwrap()["seed"], 7);
}

#[tokio::test]
async fn busy_servers_are_asked_again_with_growing_pauses() {
    for status in [408, 429, 500, 502, 503, 504] {
        let (turn, pauses, asked) = turn(vec![http(status, "", ""), http(status, "", "<html>busy"), ok(GOOD)]).await;
        assert_eq!(turn.unwrap().content, "hi");
        assert_eq!((pauses, asked), (vec![1_000, 2_000], 3), "{status}");
    }
}

#[tokio::test]
async fn after_all_repetitions_the_server_is_down() {
    let (turn, pauses, asked) = turn(vec![http(503, "", r#"{"error": {"message": "Loading model"}}"#); 7]).await;
    let error = turn.unwrap_err();
    assert!(matches!(&error, ModelError::Down(why) if why.contains("503: Loading model") && why.contains("127.0.0.1")), "{error}");
    assert_eq!((pauses, asked), (vec![1_000, 2_000, 4_000, 8_000, 16_000], 6));
}

#[tokio::test]
async fn broken_connections_are_asked_again() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"choices\"".to_vec();
    let (turn, pauses, asked) = turn(vec![Vec::new(), half, ok(GOOD)]).await;
    assert_eq!(turn.unwrap().content, "hi");
    assert_eq!((pauses, asked), (vec![1_000, 2_000], 3));
}

#[tokio::test]
async fn nobody_at_the_address_is_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let time = Arc::new(Time::default());
    let endpoint = Endpoint::Http { base_url, api_key: None, ca_bundle: None };
    let client = Client::new(endpoint, Settings { retries: 1, ..Settings::default() }).unwrap().with_time(time.clone(), time.clone());
    assert!(!client.is_up().await);
    assert!(matches!(client.turn(&request()).await, Err(ModelError::Down(why)) if why.contains("refused")));
}

#[tokio::test]
async fn retry_after_is_obeyed_in_both_forms_and_capped() {
    let after = |value: &str| http(429, &format!("retry-after: {value}\r\n"), "");
    let answers = ["7", "Thu, 01 Jan 1970 00:00:09 GMT", "86400", "0", "soon"];
    let (turn, pauses, _) = turn(answers.iter().map(|value| after(value)).chain([ok(GOOD)]).collect()).await;
    assert!(turn.is_ok());
    assert_eq!(pauses, [7_000, 9_000, 120_000, 8_000, 16_000]);
}

#[tokio::test]
async fn a_request_that_is_refused_is_not_repeated_and_says_what_to_check() {
    for (status, check) in [(400, "bad field"), (401, "API key"), (403, "API key"), (404, "`FrogNano-4B`"), (422, "bad field")] {
        let (turn, pauses, asked) = turn(vec![http(status, "", r#"{"object": "error", "message": "bad field"}"#)]).await;
        let error = turn.unwrap_err();
        assert!(matches!(&error, ModelError::Refused(why) if why.contains(check) && why.contains(&status.to_string())), "{error}");
        assert_eq!((pauses, asked), (vec![], 1));
    }
}

#[tokio::test]
async fn a_full_context_is_told_from_other_refusals_whatever_the_status() {
    let full = r#"{"error": {"code": 400, "message": "request (9 tokens) exceeds the available context size (8 tokens), try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}}"#;
    for status in [400, 413, 500] {
        let (turn, pauses, asked) = turn(vec![http(status, "", full)]).await;
        assert!(matches!(turn, Err(ModelError::ContextFull(why)) if why.contains("8 tokens")));
        assert_eq!((pauses, asked), (vec![], 1));
    }
}

#[tokio::test]
async fn what_is_no_model_server_is_asked_once_more_and_then_named() {
    let page = "<!DOCTYPE html><title>Sign in</title>";
    for (answer, why) in [
        (http(200, "content-type: text/html\r\n", page), "web page"),
        (ok("{\"status\": \"ok\"}"), "without choices"),
        (ok("pong"), "no JSON"),
        (http(302, "location: http://login.invalid/?secret=1\r\n", ""), "redirect to http://login.invalid/"),
    ] {
        let (turn_of, pauses, asked) = turn(vec![answer.clone(), answer.clone()]).await;
        let error = turn_of.unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, ModelError::NotAModel(_)) && said.contains(why) && !said.contains("secret"), "{said}");
        assert_eq!((pauses, asked), (vec![1_000], 2));
        assert_eq!(turn(vec![answer, ok(GOOD)]).await.0.unwrap().content, "hi");
    }
}

#[tokio::test]
async fn a_slip_of_the_model_s_format_is_asked_again_once_and_is_no_outage() {
    for message in [
        "Failed to parse input at pos 3: <tool_call>",
        "The model produced output that does not match the expected peg-native format",
        "Failed to parse input at pos 3: I grep for 'exceeds the maximum context length' and 'failed to parse messages'",
    ] {
        let slip = || http(500, "", &json!({"error": {"code": 500, "message": message, "type": "server_error"}}).to_string());
        let (refused, pauses, asked) = turn(vec![slip(), slip()]).await;
        assert!(matches!(&refused, Err(ModelError::FormatSlip)));
        assert_eq!((pauses, asked), (vec![], 2));
        assert_eq!(turn(vec![slip(), ok(GOOD)]).await.0.unwrap().content, "hi");
    }
}

#[tokio::test]
async fn an_aborted_turn_is_the_server_s_fault() {
    let aborted = r#"{"choices": [{"message": {"role": "assistant", "content": "I wi"}, "finish_reason": "abort"}]}"#;
    let (turn, pauses, _) = turn(vec![ok(aborted), ok(GOOD)]).await;
    assert_eq!((turn.unwrap().content, pauses), ("hi".to_owned(), vec![1_000]));
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let endless = ok(&"x".repeat(33 * 1024 * 1024));
    let (turn, _, asked) = turn(vec![endless.clone(), endless]).await;
    assert!(matches!(turn, Err(ModelError::NotAModel(why)) if why.contains("32 MiB")));
    assert_eq!(asked, 2);
}

#[tokio::test]
async fn is_up_asks_for_the_models() {
    for (status, expected) in [(200, true), (404, true), (401, true), (429, false), (503, false)] {
        let server = Server::start(vec![http(status, "", "{}")]).await;
        let endpoint = Endpoint::Http { base_url: server.base.clone(), api_key: None, ca_bundle: None };
        assert_eq!(Client::new(endpoint, Settings::default()).unwrap().is_up().await, expected, "{status}");
        assert!(server.asked.lock().unwrap()[0].0.starts_with("GET /v1/models "));
    }
}
