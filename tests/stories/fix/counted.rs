//! What the model's server lost is counted, each time in the record of the run and in the log: by model, channel and form.

use serde_json::{Value, json};

use super::place::{END, FIX, Place};

fn raw(content: &str, reasoning: &str) -> String {
    json!({"raw": true, "content": content, "reasoning_content": reasoning, "finish_reason": "stop"}).to_string()
}

/// The log's lines with this counter: what it counts, and by what.
fn counted(log: &[Value], counter: &str) -> Vec<Value> {
    let key = format!("monotonic_counter.{counter}");
    let with = log.iter().filter(|line| line.get(&key).is_some());
    with.map(|line| json!([line[&key], line["model"], line["channel"], line["form"]])).collect()
}

#[test]
fn each_lost_call_and_each_lost_text_is_in_the_record_and_in_the_log() {
    let place = Place::new();
    let wrapped = "<tool_call>\n<function=Read>\n<parameter=file_path>\ncalc.py\n</parameter>\n</function>\n</tool_call>";
    let bare = wrapped.replace("<tool_call>\n", "");
    let json_call = "<tool_call>\n{\"name\": \"Glob\", \"arguments\": {\"pattern\": \"*.py\"}}\n</tool_call>";
    let dropped = json!({"raw": true, "content": "I write it.", "finish_reason": "tool_calls",
        "usage": {"prompt_tokens": 700, "completion_tokens": 900, "total_tokens": 1600}});
    let script = [
        raw(&format!("{wrapped}\n{wrapped}"), ""),
        raw("", &format!("I look.\n{bare}")),
        raw(&format!("{json_call}\n{bare}"), ""),
        raw(&format!("I look.\n```\n{wrapped}\n```"), ""),
        dropped.to_string(),
        FIX.to_owned(),
        END.to_owned(),
    ];
    let output = place.start(&script.each_ref().map(String::as_str), &[]).wait_with_output().unwrap();
    let log: Vec<Value> = String::from_utf8(output.stderr).unwrap().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();

    let ours = place.json("trajectory.json")["frognano"].clone();
    let reading = |turn: usize| ours["turns"][turn]["reading"].clone();
    let read = |turn: usize| json!([reading(turn)["kind"], reading(turn)["channel"], reading(turn)["forms"]]);
    assert_eq!(ours["model"], "script");
    assert_eq!(read(0), json!(["recovered", "content", {"native": 2}]));
    assert_eq!(read(1), json!(["recovered", "reasoning", {"bare": 1}]));
    assert_eq!(read(2), json!(["recovered", "content", {"bare": 1, "json": 1}]));
    assert_eq!(read(3), json!(["recovered", "content", {"fenced": 1}]));
    assert_eq!(read(4), json!(["malformed", "content", null]));
    assert_eq!(reading(4)["lost_tokens"], 887);
    assert!((0..4).chain([5, 6]).all(|turn| reading(turn).get("lost_tokens").is_none()), "{ours}");
    let sums = json!({"content": {"native": 2, "bare": 1, "json": 1, "fenced": 1}, "reasoning": {"bare": 1}});
    assert_eq!((&ours["readings"]["recovered"], &ours["readings"]["turns_with_lost_text"]), (&sums, &json!(1)));
    assert_eq!(ours["readings"]["kinds"], json!({"native": 1, "recovered": 4, "malformed": 1, "final": 1}));

    assert_eq!(
        counted(&log, "tool_calls_recovered"),
        [
            json!([2, "script", "content", "native"]),
            json!([1, "script", "reasoning", "bare"]),
            json!([1, "script", "content", "bare"]),
            json!([1, "script", "content", "json"]),
            json!([1, "script", "content", "fenced"]),
        ]
    );
    assert_eq!(counted(&log, "tool_calls_malformed"), [json!([1, "script", "content", null])]);
    assert_eq!(counted(&log, "lost_tokens"), [json!([887, "script", null, null])]);
    assert_eq!(counted(&log, "turns_with_lost_text"), [json!([1, "script", null, null])]);
}
