//! The loop over a scripted model and a sandbox in memory: every ending, the history, the budgets.

#[path = "leaf_loop/world.rs"]
pub mod world;

use std::sync::atomic::Ordering;
use std::time::Duration;

use frognano_bot::domain::ExitReason;
use frognano_bot::leaf::{LeafError, Trajectory, tools};
use frognano_bot::sandbox::SandboxError;
use serde_json::{Value, json};
use world::{Silent, World, begun, call, done};

fn read(path: &str) -> Value {
    call("Read", &json!({"file_path": path}))
}

#[tokio::test]
async fn an_agent_that_says_it_is_done_ends_the_run() {
    let mut world = World::new(&[read("a.py"), done()]);
    let trajectory = world.run().await.unwrap();
    assert_eq!(trajectory.exit_reason, Some(ExitReason::Agent));
    assert_eq!(trajectory.final_message, "Fixed.");
    assert_eq!(world.sandbox.made, [("Read".to_owned(), json!({"file_path": "a.py"}))]);
    assert_eq!(
        trajectory.messages[2..],
        [
            json!({
                "role": "assistant", "content": "",
                "tool_calls": [{"id": "call_1_0", "type": "function", "function": {"name": "Read", "arguments": "{\"file_path\":\"a.py\"}"}}],
                "reasoning_content": "I need Read.",
            }),
            json!({"role": "tool", "tool_call_id": "call_1_0", "content": "answer of Read"}),
            json!({"role": "assistant", "content": "Fixed."}),
        ]
    );
}

#[tokio::test]
async fn the_trajectory_has_the_reference_s_keys_in_its_order_and_ours_under_one() {
    let mut world = World::new(&[read("a.py"), done()]);
    let json = world.run().await.unwrap().to_json().unwrap();
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "trajectory_format",
            "trajectory_id",
            "instance_id",
            "seed",
            "messages",
            "tools",
            "steps",
            "n_steps",
            "exit_reason",
            "error",
            "final_message",
            "context_tokens",
            "elapsed_sec",
            "output_patch",
            "partial",
            "frognano",
        ]
    );
    assert_eq!(json["trajectory_format"], "leaf-function-calling");
    assert_eq!((&json["n_steps"], &json["exit_reason"], &json["error"]), (&json!(2), &json!("agent"), &Value::Null));
    assert_eq!((&json["partial"], &json["seed"], &json["output_patch"]), (&json!(false), &json!(3), &json!("")));
    assert_eq!(json["steps"][0]["step"], 0);
    assert_eq!(json["steps"][0]["observations"], json!([{"tool": "Read", "observation": "answer of Read"}]));
    assert_eq!(json["steps"][1]["observations"], json!([]));
    assert_eq!(json["tools"], tools());
    let back: Trajectory = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(back.to_json().unwrap(), json);
}

#[tokio::test]
async fn a_checkpoint_follows_every_step_and_says_that_it_is_one() {
    let mut world = World::new(&[read("a.py"), read("b.py"), done()]);
    let trajectory = world.run().await.unwrap();
    let seen: Vec<_> =
        world.checkpoints.0.iter().map(|kept| (kept["n_steps"].clone(), kept["exit_reason"].clone(), kept["partial"].clone())).collect();
    assert_eq!(seen, [1, 2, 3].map(|steps| (json!(steps), json!("running"), json!(true))));
    let progress = trajectory.progress();
    assert_eq!((progress.steps, progress.context_tokens), (3, trajectory.context_tokens));
    let kept: Trajectory = serde_json::from_value(world.checkpoints.0[1].clone()).unwrap();
    assert_eq!(kept.progress().tools, ["Read"]);
}

#[tokio::test]
async fn each_request_begins_with_the_one_before_and_has_one_user_message() {
    let mut world = World::new(&[
        read("a.py"),
        json!({"content": "two", "tool_calls": [{"name": "Bash", "arguments": "{broken"}, {"name": "Nope", "arguments": [1]}]}),
        json!({"raw": true, "content": null, "reasoning": "hm", "tool_calls": [{"function": {"name": "Glob", "arguments": {"pattern": "*"}}}]}),
        done(),
    ]);
    world.run().await.unwrap();
    let requests = world.requests();
    assert_eq!(requests.len(), 4);
    for pair in requests.windows(2) {
        let (before, after) = (&pair[0].messages, &pair[1].messages);
        assert!(after.len() > before.len());
        let text = |messages: &[Value]| messages.iter().map(Value::to_string).collect::<Vec<_>>();
        assert_eq!(text(&after[..before.len()]), text(before));
        assert_eq!(pair[1].tools.to_string(), pair[0].tools.to_string());
    }
    for request in &requests {
        let roles: Vec<_> = request.messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles[..2], ["system", "user"]);
        assert!(roles[2..].iter().all(|role| matches!(*role, "assistant" | "tool")));
        assert_eq!(request.seed, Some(3));
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_count_as_none_and_go_back_as_one() {
    let texts = ["{broken", "[1]", "\"{}\"", "", "null", "{\"b\": 1, \"a\": 2}"];
    let calls: Vec<_> = texts.iter().map(|text| json!({"name": "Read", "arguments": text})).collect();
    let mut world = World::new(&[json!({"tool_calls": calls}), done()]);
    let trajectory = world.run().await.unwrap();
    let given: Vec<_> = world.sandbox.made.iter().map(|(_, arguments)| arguments.to_string()).collect();
    assert_eq!(given, ["{}", "{}", "{}", "{}", "{}", "{\"b\":1,\"a\":2}"]);
    let arguments = |message: &Value| {
        let calls = message["tool_calls"].as_array().unwrap();
        calls.iter().map(|call| call["function"]["arguments"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(arguments(&trajectory.messages[2]), ["{}", "{}", "{}", "{}", "{}", "{\"b\": 1, \"a\": 2}"]);
    assert_eq!(arguments(&trajectory.steps[0].assistant), texts);
}

#[tokio::test]
async fn parallel_calls_run_in_order_and_each_has_its_result() {
    let calls = ["Glob", "Read", "Nope"].map(|name| json!({"name": name, "arguments": {}}));
    let mut world = World::new(&[json!({"tool_calls": calls}), done()]);
    let trajectory = world.run().await.unwrap();
    assert_eq!(world.sandbox.made.iter().map(|(tool, _)| tool.as_str()).collect::<Vec<_>>(), ["Glob", "Read", "Nope"]);
    let results: Vec<_> =
        trajectory.messages[3..6].iter().map(|message| (message["tool_call_id"].clone(), message["content"].clone())).collect();
    assert_eq!(
        results,
        [
            (json!("call_1_0"), json!("answer of Glob")),
            (json!("call_1_1"), json!("answer of Read")),
            (json!("call_1_2"), json!("answer of Nope")),
        ]
    );
}

#[tokio::test]
async fn a_call_without_an_id_gets_one_of_its_step_and_place() {
    let calls =
        json!([{"function": {"name": "Read", "arguments": "{}"}}, {"id": "given", "function": {"name": "Bash", "arguments": "{}"}}]);
    let mut world = World::new(&[read("a"), json!({"raw": true, "tool_calls": calls}), done()]);
    let trajectory = world.run().await.unwrap();
    let ids: Vec<_> = trajectory.messages[5..7].iter().map(|message| message["tool_call_id"].clone()).collect();
    assert_eq!(ids, ["call_1_0", "given"]);
}

#[tokio::test]
async fn thinking_goes_back_under_the_names_the_server_uses() {
    let calls = json!([{"id": "c", "function": {"name": "Read", "arguments": "{}"}}]);
    let mut world = World::new(&[
        json!({"raw": true, "reasoning_content": "one", "tool_calls": calls}),
        json!({"raw": true, "reasoning": "two", "tool_calls": calls}),
        json!({"raw": true, "reasoning_content": "", "tool_calls": calls}),
        done(),
    ]);
    world.run().await.unwrap();
    let last = world.requests().pop().unwrap().messages;
    let keys = |message: &Value| message.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&last[2]), ["role", "content", "tool_calls", "reasoning_content"]);
    assert_eq!(keys(&last[4]), ["role", "content", "tool_calls", "reasoning_content", "reasoning"]);
    assert_eq!(keys(&last[6]), ["role", "content", "tool_calls"]);
    assert_eq!((&last[2]["reasoning_content"], &last[4]["reasoning"]), (&json!("one"), &json!("two")));
}

#[tokio::test]
async fn a_server_s_message_is_kept_whole_where_ours_says_less() {
    let odd = json!({"raw": true, "content": [{"type": "text", "text": "Done."}], "annotations": [1]});
    let mut world = World::new(&[read("a.py"), odd]);
    let trajectory = world.run().await.unwrap();
    assert_eq!(trajectory.final_message, "Done.");
    assert_eq!(trajectory.frognano.turns[0].raw, None);
    assert_eq!(trajectory.frognano.turns[1].raw.as_ref().unwrap()["annotations"], json!([1]));
}

#[tokio::test]
async fn the_step_budget_ends_the_run() {
    let mut world = World::new(&[read("a"), read("b"), read("c")]);
    world.preset.max_steps = 2;
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps, world.sandbox.made.len()), (Some(ExitReason::MaxTurns), 2, 2));
}

#[tokio::test]
async fn the_total_time_ends_the_run_before_the_next_turn() {
    let mut world = World::new(&[read("a"), read("b"), done()]);
    let time = world.time.clone();
    world.sandbox.effect = Some(Box::new(move |_| {
        time.now_ms.fetch_add(5_400_000, Ordering::SeqCst);
    }));
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::MaxTime), 2));
    assert_eq!(trajectory.elapsed_sec, 10_800.0);
    assert_eq!(trajectory.frognano.turns[0].tools_ms, 5_400_000);
}

#[tokio::test]
async fn cancelling_ends_the_run_between_turns_and_in_the_middle_of_a_call() {
    let mut world = World::new(&[read("a"), done()]);
    let cancel = world.cancel.clone();
    world.sandbox.effect = Some(Box::new(move |_| cancel.cancel()));
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::Cancelled), 1));

    let calls = ["Read", "Bash"].map(|name| json!({"name": name, "arguments": {}}));
    let mut world = World::new(&[read("a"), json!({"tool_calls": calls})]);
    let cancel = world.cancel.clone();
    world.sandbox.hang_at = Some(3);
    world.sandbox.effect = Some(Box::new(move |count| {
        if count == 3 {
            cancel.cancel();
        }
    }));
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::Cancelled), 1));
    assert_eq!(trajectory.messages.len(), 4, "the unfinished step is not in the conversation");
    let interrupted = trajectory.frognano.interrupted.unwrap();
    assert_eq!((interrupted.step, interrupted.observations.len()), (1, 1));
}

#[tokio::test]
async fn a_turn_that_never_comes_is_given_up_when_the_run_is_cancelled_or_its_time_is_over() {
    let mut world = World::new(&[done()]);
    let cancel = world.cancel.clone();
    let trajectory = world.run_with(&Silent { asked: Box::new(move || cancel.cancel()) }).await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.messages.len()), (Some(ExitReason::Cancelled), 2));

    let mut world = World::new(&[done()]);
    world.preset.max_time = Duration::from_millis(20);
    let trajectory = world.run_with(&Silent { asked: Box::new(|| ()) }).await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.messages.len()), (Some(ExitReason::MaxTime), 2));
    assert_eq!(trajectory.tools, tools());
}

#[tokio::test]
async fn what_is_no_model_server_is_no_ending() {
    let redirect = json!({"error": {"status": 302}});
    let mut world = World::new(&[read("a"), redirect.clone(), redirect]);
    let error = world.run().await.unwrap_err();
    assert!(matches!(&error, LeafError::NotAModel { .. }), "{error}");
    assert_eq!((error.trajectory().steps.len(), error.trajectory().exit_reason), (1, None));
}

#[tokio::test]
async fn a_turn_cut_by_length_runs_nothing_and_names_the_budget() {
    let usage = |prompt: u64, completion: u64| json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion});
    for (reason, usage, expected) in [
        ("length", usage(1_000, 8_192), ExitReason::MaxTokensPerTurn),
        ("MAX_TOKENS", usage(1_000, 9_000), ExitReason::MaxTokensPerTurn),
        ("max_new_tokens", usage(125_000, 6_072), ExitReason::MaxContextLen),
        ("length", usage(122_880, 8_192), ExitReason::MaxContextLen),
        ("length", usage(1_000, 500), ExitReason::MaxContextLen),
        ("length", Value::Null, ExitReason::MaxTokensPerTurn),
        ("tool_calls", usage(1_000, 8_192), ExitReason::MaxTokensPerTurn),
    ] {
        let line = json!({"content": "half", "tool_calls": [{"name": "Write", "arguments": {}}], "finish_reason": reason, "usage": usage});
        let mut world = World::new(&[line]);
        let trajectory = world.run().await.unwrap();
        assert_eq!(trajectory.exit_reason, Some(expected), "{reason} {usage}");
        assert_eq!(world.sandbox.made, [], "{reason} {usage}");
        assert_eq!((trajectory.n_steps, trajectory.final_message.as_str()), (1, "half"));
        assert!(trajectory.messages[2].get("tool_calls").is_none(), "a call that was not run stays out of the conversation");
        assert!(trajectory.steps[0].assistant.get("tool_calls").is_some());
    }
}

#[tokio::test]
async fn the_context_budget_counts_the_results_too() {
    let nearly = json!({"tool_calls": [{"name": "Read", "arguments": {}}], "usage": {"prompt_tokens": 130_000, "completion_tokens": 1_000, "total_tokens": 131_000}});
    let mut world = World::new(&[nearly.clone(), done()]);
    world.sandbox.answers.push_back(Ok("x".repeat(400)));
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::MaxContextLen), 1));
    assert_eq!(trajectory.steps[0].observations.len(), 1, "the calls of that turn were run");
    assert!(trajectory.context_tokens >= 131_072);

    let mut world = World::new(&[nearly, done()]);
    world.sandbox.answers.push_back(Ok("x".to_owned()));
    let trajectory = world.run().await.unwrap();
    assert_eq!(trajectory.exit_reason, Some(ExitReason::Agent));
    let caps: Vec<u64> = world.requests().iter().map(|request| request.max_completion_tokens).collect();
    assert_eq!(caps[0], 8_192);
    assert!((1..72).contains(&caps[1]), "{caps:?}");
}

#[tokio::test]
async fn a_cap_lowered_for_the_context_ends_as_the_context_s() {
    let counted = json!({"tool_calls": [{"name": "Read", "arguments": {}}], "usage": {"prompt_tokens": 127_000, "completion_tokens": 1_000, "total_tokens": 128_000}});
    let cut = json!({"content": "half", "finish_reason": "length", "usage": {"prompt_tokens": 128_010, "completion_tokens": 3_030, "total_tokens": 131_040}});
    let mut world = World::new(&[counted, cut]);
    assert_eq!(world.run().await.unwrap().exit_reason, Some(ExitReason::MaxContextLen));
}

#[tokio::test]
async fn a_missing_or_lying_usage_is_replaced_by_an_estimate() {
    for usage in
        [Value::Null, json!({}), json!({"total_tokens": 0}), json!({"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4})]
    {
        let line = json!({"tool_calls": [{"name": "Read", "arguments": {}}], "usage": usage});
        let mut world = World::new(&[line.clone(), line, done()]);
        world.preset.max_context_tokens = 4_000;
        world.sandbox.answers.extend([Ok("x".repeat(6_000)), Ok("x".repeat(8_000))]);
        let trajectory = world.run().await.unwrap();
        assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::MaxContextLen), 2), "{usage}");
    }
}

#[tokio::test]
async fn a_rejection_for_the_context_keeps_the_work() {
    let full = json!({"error": {"status": 400, "message": "The input (140000 tokens) is longer than the model's context length (131072 tokens)."}});
    let mut world = World::new(&[read("a"), full]);
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps, trajectory.steps.len()), (Some(ExitReason::MaxContextLen), 2, 1));
    assert_eq!(trajectory.error, None);
    assert!(trajectory.frognano.ending.contains("131072"));
    assert!(world.pauses().is_empty());
}

#[tokio::test]
async fn a_refused_request_ends_as_llm_query_error() {
    let mut world = World::new(&[read("a"), json!({"error": {"status": 422, "message": "no such field"}})]);
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.partial), (Some(ExitReason::LlmQueryError), false));
    assert!(trajectory.error.unwrap().contains("no such field"));
    let mut world = World::new(&[read("a")]);
    let trajectory = world.run().await.unwrap();
    assert!(trajectory.error.unwrap().contains("the script has no more lines"));
}

#[tokio::test]
async fn a_model_that_is_down_is_no_ending_and_the_run_goes_on_from_where_it_was() {
    let down = json!({"error": {"status": 503, "message": "loading"}});
    let mut lines = vec![read("a")];
    lines.extend(std::iter::repeat_n(down, 6));
    lines.extend([read("b"), done()]);
    let mut world = World::new(&lines);
    let error = world.run().await.unwrap_err();
    assert!(matches!(&error, LeafError::ModelDown { why, .. } if why.contains("503") && why.contains("6 tries")), "{error}");
    assert_eq!((error.trajectory().steps.len(), error.trajectory().exit_reason, error.trajectory().partial), (1, None, true));
    assert_eq!(world.pauses(), [1, 2, 4, 8, 16]);
    let trajectory = world.go_on(error.into_trajectory()).await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::Agent), 3));
    assert_eq!(world.sandbox.made.len(), 2, "no call is run twice");
}

#[tokio::test]
async fn a_lost_sandbox_is_no_ending_and_the_kept_run_goes_on_in_another() {
    let mut world = World::new(&[read("a"), read("b"), read("b"), done()]);
    world.sandbox.answers.extend([Ok("one".into()), Err(SandboxError::Lost("killed".into()))]);
    let error = world.run().await.unwrap_err();
    assert!(matches!(&error, LeafError::Sandbox { step: 1, source: SandboxError::Lost(_), .. }), "{error}");
    let kept = error.into_trajectory();
    assert_eq!((kept.messages.len(), kept.steps.len()), (4, 1));
    assert_eq!(kept.frognano.interrupted.as_ref().unwrap().step, 1);
    let json = kept.to_json().unwrap();
    let trajectory = world.go_on(serde_json::from_value(json).unwrap()).await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::Agent), 3));
    assert_eq!(trajectory.frognano.interrupted, None);
}

#[tokio::test]
async fn a_tool_that_answers_more_than_the_limit_ends_as_tool_error() {
    let mut world = World::new(&[read("a"), read("b")]);
    world.sandbox.answers.extend([Ok("one".into()), Err(SandboxError::TooLarge { what: "the observation".into(), limit: 10 })]);
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps, trajectory.steps.len()), (Some(ExitReason::ToolError), 2, 1));
    assert!(trajectory.error.unwrap().contains("the observation"));
}

#[tokio::test]
async fn elapsed_time_is_counted_over_both_parts_of_a_continued_run() {
    let mut trajectory = begun();
    trajectory.elapsed_sec = 10_000.0;
    let mut world = World::new(&[read("a"), done()]);
    let time = world.time.clone();
    world.sandbox.effect = Some(Box::new(move |_| {
        time.now_ms.fetch_add(800_000, Ordering::SeqCst);
    }));
    let trajectory = world.go_on(trajectory).await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.elapsed_sec), (Some(ExitReason::MaxTime), 10_800.0));
    assert_eq!(world.preset.max_time, Duration::from_secs(10_800));
}

fn cut(calls: &Value) -> Value {
    let usage = json!({"prompt_tokens": 1_000, "completion_tokens": 8_192, "total_tokens": 9_192});
    json!({"content": "half", "reasoning_content": "long", "tool_calls": calls, "finish_reason": "length", "usage": usage})
}

#[tokio::test]
async fn a_cut_turn_is_answered_by_a_note_where_that_is_asked_for() {
    let calls = json!([{"name": "Write", "arguments": "{\"file_path\": \"a\", \"content\": \"ha"}, {"name": "Read", "arguments": {"file_path": "b"}}]);
    let mut world = World::new(&[cut(&calls), done()]);
    world.preset.retry_cut_turns = true;
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::Agent), 2));
    assert_eq!(world.sandbox.made, [], "none of its calls is run");
    let note = "RuntimeError: the turn was cut at 8192 tokens and no call of it was run. Go on with a shorter turn and smaller calls.";
    let messages = &trajectory.messages;
    assert_eq!(messages[2]["tool_calls"][0]["function"]["arguments"], "{}", "half an object is none");
    assert_eq!(messages[2]["tool_calls"][1]["function"]["arguments"], "{\"file_path\":\"b\"}");
    assert_eq!((&messages[2]["content"], &messages[2]["reasoning_content"]), (&json!("half"), &json!("long")));
    for (message, call) in messages[3..5].iter().zip(messages[2]["tool_calls"].as_array().unwrap()) {
        assert_eq!(message, &json!({"role": "tool", "tool_call_id": call["id"], "content": note}));
    }
    assert_eq!(trajectory.frognano.turns.iter().map(|turn| turn.retried).collect::<Vec<_>>(), [true, false]);
    assert_eq!(trajectory.steps[0].observations.iter().map(|seen| seen.tool.as_str()).collect::<Vec<_>>(), ["Write", "Read"]);
    let requests = world.requests();
    assert_eq!(requests[1].messages[..2], requests[0].messages[..]);
    assert_eq!(serde_json::from_value::<Trajectory>(trajectory.to_json().unwrap()).unwrap(), trajectory);
}

#[tokio::test]
async fn a_cut_turn_without_calls_gets_its_note_as_a_result_and_never_as_a_user_s_message() {
    let mut world = World::new(&[read("a"), cut(&json!([])), read("b"), cut(&json!([])), done()]);
    world.preset.retry_cut_turns = true;
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::Agent), 5), "each cut turn has its own retry");
    let roles: Vec<_> = trajectory.messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant"]);
    assert_eq!((&trajectory.messages[5]["tool_call_id"], trajectory.steps[1].observations[0].tool.as_str()), (&json!("call_1_0"), "note"));
}

#[tokio::test]
async fn a_cut_turn_ends_the_run_after_one_retry_and_where_no_budget_is_left_for_it() {
    let ends = async |lines: &[Value], change: &dyn Fn(&mut World)| {
        let mut world = World::new(lines);
        world.preset.retry_cut_turns = true;
        change(&mut world);
        let trajectory = world.run().await.unwrap();
        (trajectory.exit_reason.unwrap(), trajectory.n_steps)
    };
    let turn = cut(&json!([{"name": "Read", "arguments": {}}]));
    assert_eq!(ends(&[turn.clone(), turn.clone(), done()], &|_| ()).await, (ExitReason::MaxTokensPerTurn, 2));
    assert_eq!(ends(&[turn.clone(), done()], &|world| world.preset.retry_cut_turns = false).await, (ExitReason::MaxTokensPerTurn, 1));
    assert_eq!(ends(&[turn.clone(), done()], &|world| world.preset.max_steps = 1).await, (ExitReason::MaxTokensPerTurn, 1));
    assert_eq!(ends(&[turn.clone(), done()], &|world| world.preset.max_steps = 2).await, (ExitReason::Agent, 2));
    assert_eq!(ends(&[turn.clone(), done()], &|world| world.preset.max_context_tokens = 17_400).await, (ExitReason::MaxTokensPerTurn, 1));
    assert_eq!(ends(&[turn, done()], &|world| world.preset.max_context_tokens = 17_600).await, (ExitReason::Agent, 2));
    let by_context = json!({"content": "half", "finish_reason": "length", "usage": {"prompt_tokens": 1_000, "completion_tokens": 500}});
    assert_eq!(ends(&[by_context, done()], &|_| ()).await, (ExitReason::MaxContextLen, 1));
}

#[tokio::test]
async fn a_retry_is_not_given_again_to_a_run_that_was_kept_after_it() {
    let turn = cut(&json!([]));
    let mut world = World::new(&[turn.clone(), turn.clone()]);
    world.preset.retry_cut_turns = true;
    world.run().await.unwrap();
    let kept: Trajectory = serde_json::from_value(world.checkpoints.0[0].clone()).unwrap();
    let mut world = World::new(&[turn, done()]);
    world.preset.retry_cut_turns = true;
    let trajectory = world.go_on(kept).await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::MaxTokensPerTurn), 2));
}

#[tokio::test]
async fn a_run_that_goes_round_in_circles_ends_with_its_own_reason_where_that_is_asked_for() {
    let mut lines = vec![read("a"), read("b")];
    lines.extend(std::iter::repeat_n(read("c"), 4));
    lines.push(done());
    let mut world = World::new(&lines);
    world.preset.stuck_after = Some(3);
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps, world.sandbox.made.len()), (Some(ExitReason::Stuck), 5, 5));
    assert_eq!((trajectory.error.as_deref(), &trajectory.to_json().unwrap()["exit_reason"]), (None, &json!("stuck")));
    assert_eq!(serde_json::from_value::<Trajectory>(trajectory.to_json().unwrap()).unwrap(), trajectory);
    let kept: Trajectory = serde_json::from_value(world.checkpoints.0[4].clone()).unwrap();
    let trajectory = world.go_on(kept).await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::Stuck), 5), "also when it is continued");

    let mut world = World::new(&lines);
    assert_eq!(world.run().await.unwrap().exit_reason, Some(ExitReason::Agent), "by default never");

    let mut world = World::new(&lines);
    world.preset.stuck_after = Some(3);
    world.sandbox.answers.extend(["1", "2", "3", "4", "3", "3"].map(|answer| Ok(answer.to_owned())));
    assert_eq!(world.run().await.unwrap().exit_reason, Some(ExitReason::Agent), "another answer is no circle");
}

#[tokio::test]
async fn a_count_that_can_t_be_true_neither_ends_a_run_nor_lowers_its_cap() {
    for usage in [
        json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 1_000_000_000}),
        json!({"prompt_tokens": 900_000_000, "completion_tokens": 5}),
        json!({"total_tokens": u64::MAX}),
        json!({"prompt_tokens": "130000", "completion_tokens": null}),
        json!({"prompt_tokens": -5, "total_tokens": -1}),
    ] {
        let line = json!({"tool_calls": [{"name": "Read", "arguments": {}}], "usage": usage});
        let mut world = World::new(&[line, done()]);
        let trajectory = world.run().await.unwrap();
        assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::Agent), 2), "{usage}");
        assert!(trajectory.context_tokens < 2_000, "{usage}: {}", trajectory.context_tokens);
        assert_eq!(world.requests()[1].max_completion_tokens, 8_192, "{usage}");
    }
}
