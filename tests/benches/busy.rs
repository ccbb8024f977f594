//! Whether one worker keeps the model busy: 32 runs at once against a model that takes 200 ms a turn. `cargo bench --bench busy`.
//! On PostgreSQL where `FROGNANO_TEST_POSTGRES_URL` names an administrator, else on SQLite.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, dead_code, reason = "a bench may stop at once and say why")]

#[path = "../stories/databases.rs"]
mod databases;
#[path = "../stories/house.rs"]
mod house;
#[path = "../stories/crash_matrix/parts.rs"]
mod parts;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use frognano_bot::demo::Kind;
use frognano_bot::demo::forge::deliver;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use databases::Database;
use house::House;
use parts::{Part, Process};

const RUNS: usize = 32;
const TURN: Duration = Duration::from_millis(200);
const TURNS: usize = 80;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}

/// A model that answers by how far the conversation is, and waits until every run has come to its first turn.
struct Model {
    all_are_there: Barrier,
    began: Mutex<Option<Instant>>,
    ended: Mutex<Option<Instant>>,
    turns: Mutex<usize>,
}

async fn measure() {
    let model =
        Arc::new(Model { all_are_there: Barrier::new(RUNS), began: Mutex::default(), ended: Mutex::default(), turns: Mutex::default() });
    let routes = Router::new()
        .route("/v1/chat/completions", post(turn))
        .route("/v1/models", get(|| async { Json(json!({"object": "list", "data": [{"id": "scripted", "object": "model"}]})) }))
        .layer(axum::extract::DefaultBodyLimit::disable())
        .with_state(model.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });

    let house = House::new(Kind::Gitea).await.set(&format!("concurrency = {RUNS}\n[run]\nattempts = 1\nmax_steps = {}", TURNS + 10));
    let house = match Database::postgres() {
        Some(database) => house.on(database),
        None => house,
    };
    let issues = (0..RUNS).map(|_| house.open_issue()).collect::<Vec<_>>();
    let service = Process::start_with(&house, Part::Whole, None, |config| config.replace(&house.model.base_url, &address));
    for issue in issues {
        for delivery in house.label(issue) {
            assert_eq!(deliver(&delivery, &service.door).await.unwrap(), 202);
        }
    }
    while model.ended.lock().unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = model.ended.lock().unwrap().unwrap() - model.began.lock().unwrap().unwrap();
    let turns = *model.turns.lock().unwrap();
    let (each_second, most) = (turns as f64 / took.as_secs_f64(), RUNS as f64 / TURN.as_secs_f64());
    let megabytes = service.peak_memory_bytes() as f64 / 1e6;
    println!(
        "{RUNS} runs at once, {} ms a turn: {each_second:.1} turns a second, {:.3} of the most that there could be (goal 0.9); resident memory {megabytes:.0} MB (goal 500)",
        TURN.as_millis(),
        each_second / most
    );
}

async fn turn(State(model): State<Arc<Model>>, Json(request): Json<Value>) -> Json<Value> {
    let is_answer = |message: &&Value| message["role"] == "assistant";
    let answered = request["messages"].as_array().unwrap().iter().filter(is_answer).count();
    if answered == 0 && model.all_are_there.wait().await.is_leader() {
        *model.began.lock().unwrap() = Some(Instant::now());
    }
    tokio::time::sleep(TURN).await;
    {
        let mut ended = model.ended.lock().unwrap();
        if ended.is_none() {
            *model.turns.lock().unwrap() += 1;
        }
        if answered + 1 == TURNS {
            ended.get_or_insert_with(Instant::now);
        }
    }
    let call = |name: &str, arguments: Value| json!([{"id": format!("call-{answered}"), "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}]);
    let calls = match answered {
        last if last + 1 >= TURNS => Value::Null,
        even if even % 2 == 0 => call("Read", json!({"file_path": "tallybook/plan.py"})),
        odd => call("Bash", json!({"command": format!("echo {odd}")})),
    };
    let finish = if calls.is_null() { "stop" } else { "tool_calls" };
    Json(json!({
        "id": "turn", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": "I go on.", "tool_calls": calls}}],
        "usage": {"prompt_tokens": 1000 + 60 * answered, "completion_tokens": 40, "total_tokens": 1040 + 60 * answered}
    }))
}
