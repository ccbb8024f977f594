//! Tool calls that a server's parser lost: every vector, through the client that a server's answer comes in by.

mod in_the_loop;

use std::collections::BTreeSet;

use frognano_bot::leaf::tools;
use frognano_bot::model::qwen::{Kind, Reading, Tools, read};
use frognano_bot::model::{Client, Endpoint, Model as _, RestartOn, Script, Scripted, Settings, TurnRequest};
use serde_json::{Value, json};

const VECTORS: &str = include_str!("../fixtures/leaf/toolcalls.jsonl");
/// More of the same kind, one for each clause that the vectors leave out.
const VARIANTS: &str = include_str!("../fixtures/leaf/more_toolcalls.jsonl");
const CAP: u64 = 8_192;

/// What comes of a message that a server sends.
async fn reading(message: &Value, finish_reason: &Value) -> Reading {
    let mut line = message.clone();
    line["raw"] = json!(true);
    line["finish_reason"] = finish_reason.clone();
    let script = Scripted::new(Script::parse(&line.to_string()).unwrap(), RestartOn::Never);
    let client = Client::new(Endpoint::Script(script), Settings::default()).unwrap();
    let request = TurnRequest { messages: Vec::new(), tools: tools(), max_completion_tokens: CAP, seed: None };
    read(&client.turn(&request).await.unwrap(), CAP, &Tools::of(&tools()))
}

/// Equal by value, numbers too; booleans are no numbers.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other)),
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

fn as_expected(reading: &Reading) -> Value {
    let calls: Vec<_> = reading.tool_calls.iter().map(|call| json!({"name": call.name, "arguments": call.arguments})).collect();
    json!({"tool_calls": calls, "content": reading.content, "reasoning": reading.reasoning, "kind": reading.kind})
}

/// Reads every vector; how many there are, and of how many kinds.
async fn read_all(vectors: &str) -> (usize, usize) {
    let (mut wrong, mut kinds, mut count) = (Vec::new(), BTreeSet::new(), 0);
    for line in vectors.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let reading = reading(&vector["message"], &vector["finish_reason"]).await;
        let found = as_expected(&reading);
        if !same(&found, &vector["expect"]) {
            wrong.push(format!(
                "{} (rule {}): {}\n  found    {found}\n  expected {}",
                vector["id"], vector["rule"], vector["why"], vector["expect"]
            ));
        }
        assert_eq!(reading.not_understood.is_empty(), reading.kind != Kind::Malformed, "{}", vector["id"]);
        kinds.insert(found["kind"].to_string());
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    (count, kinds.len())
}

#[tokio::test]
async fn every_vector_passes() {
    assert_eq!(read_all(VECTORS).await, (91, 5));
}

#[tokio::test]
async fn every_variant_that_the_rules_decide_passes() {
    assert_eq!(read_all(VARIANTS).await, (72, 5));
}
