use frognano_bot::demo::model_server::{MODEL, ModelServer, Mood};
use frognano_bot::model::{RestartOn, Script, Scripted};
use serde_json::{Value, json};

use super::sample;

async fn ask(client: &reqwest::Client, server: &ModelServer, messages: Value) -> (u16, String) {
    let body = json!({ "model": MODEL, "messages": messages });
    let response = client.post(format!("{}/chat/completions", server.base_url)).json(&body).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_script_is_replayed_for_each_conversation() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let script = Script::parse(sample::SCRIPT).unwrap();
    let turns = script.lines().len();
    let server = ModelServer::start(Scripted::new(script, RestartOn::Conversation)).await.unwrap();
    let models: Value = client.get(format!("{}/models", server.base_url)).send().await.unwrap().json().await.unwrap();
    assert_eq!(models["data"][0]["id"], MODEL);

    for _conversation in 0..2 {
        let mut messages = vec![json!({ "role": "user", "content": "Mend it" })];
        for turn in 1..=turns {
            let (status, answer) = ask(&client, &server, json!(messages)).await;
            let answer: Value = serde_json::from_str(&answer).unwrap();
            let message = answer["choices"][0]["message"].clone();
            let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
            assert_eq!((status, calls > 0), (200, turn < turns), "turn {turn}: {message}");
            messages.push(message);
        }
    }
    assert_eq!(server.requests().len(), 2 * turns);

    server.set_mood(Mood::Down);
    assert_eq!(ask(&client, &server, json!([])).await.0, 503);
    assert_eq!(client.get(format!("{}/models", server.base_url)).send().await.unwrap().status(), 503);
    server.set_mood(Mood::Html);
    let (status, page) = ask(&client, &server, json!([])).await;
    assert!(status == 200 && page.starts_with("<!doctype html>"), "{page}");
    assert_eq!(server.requests().len(), 2 * turns + 2);
    let base_url = server.base_url.clone();
    server.stop().await;
    assert!(client.get(format!("{base_url}/models")).send().await.is_err(), "the port is free again");
}
