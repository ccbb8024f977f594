//! Lost calls in a run: each form works as a native one would, no malformed one ends a run, and both are counted.

use std::collections::BTreeMap;

use frognano_bot::config::ParseToolCalls;
use frognano_bot::domain::ExitReason;
use frognano_bot::leaf::Trajectory;
use frognano_bot::model::qwen::{Channel, Form, Kind};
use frognano_bot::model::{Client, Endpoint, RestartOn, Script, Scripted, Settings};
use serde_json::{Value, json};

use crate::leaf_loop::world::{World, begun, call, done};
use crate::tools::Program;

/// The work of the stories: three calls in two turns.
fn work() -> [Vec<(&'static str, Value)>; 2] {
    [
        vec![
            (
                "Write",
                json!({"file_path": "a.py", "content": "SAMPLE = '''\n<tool_call>\n<function=Read>\n</function>\n</tool_call>\n'''\nx = 1\n"}),
            ),
            ("Bash", json!({"command": "mkdir -p d && echo '</parameter>' > d/b.txt", "timeout": 20})),
        ],
        vec![("Edit", json!({"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2\r\ny = None", "replace_all": false}))],
    ]
}

/// A call as the template prints it.
fn printed(name: &str, arguments: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let arguments = arguments.as_object().unwrap().iter();
    let parameters: String = arguments.map(|(key, value)| format!("<parameter={key}>\n{}\n</parameter>\n", text(value))).collect();
    format!("<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>")
}

fn each(calls: &[(&str, Value)], print: impl Fn(&str, &Value) -> String) -> String {
    calls.iter().map(|(name, arguments)| print(name, arguments)).collect::<Vec<_>>().join("\n")
}

fn raw(content: &str, reasoning: &str) -> Value {
    json!({"raw": true, "content": content, "reasoning_content": reasoning, "finish_reason": "stop"})
}

/// A turn that lost these calls in some way.
type Lost = fn(&[(&str, Value)]) -> Value;

const WAYS: [(&str, Channel, Form, Lost); 7] = [
    ("left in the content", Channel::Content, Form::Native, |calls| raw(&format!("I write.\n\n{}", each(calls, printed)), "Hm.")),
    ("in the thinking", Channel::Reasoning, Form::Native, |calls| raw("", &format!("Hm.\n{}", each(calls, printed)))),
    ("nothing parsed by the server", Channel::Content, Form::Native, |calls| {
        raw(&format!("<think>\nHm.\n</think>\n\nI write.\n{}<|im_end|>", each(calls, printed)), "")
    }),
    ("without the wrapper", Channel::Content, Form::Bare, |calls| {
        raw(&format!("I write.\n{}", each(calls, |name, arguments| printed(name, arguments).replacen("<tool_call>\n", "", 1))), "Hm.")
    }),
    ("as JSON", Channel::Content, Form::Json, |calls| {
        let json = |name: &str, arguments: &Value| format!("<tool_call>\n{}\n</tool_call>", json!({"name": name, "arguments": arguments}));
        raw(&format!("I write.\n{}", each(calls, json)), "Hm.")
    }),
    ("in a fence", Channel::Content, Form::Fenced, |calls| raw(&format!("I write.\n```xml\n{}\n```", each(calls, printed)), "Hm.")),
    ("in fences of their own", Channel::Content, Form::Fenced, |calls| {
        raw(&format!("I write.\n{}", each(calls, |name, arguments| format!("```\n{}\n```", printed(name, arguments)))), "Hm.")
    }),
];

/// The files that these calls leave when the real tools run them.
fn files_after(made: &[(String, Value)]) -> Vec<(String, Vec<u8>)> {
    let mut program = Program::start();
    for (name, arguments) in made {
        let observation = program.call(name, arguments.clone());
        assert!(
            observation.starts_with("Wrote") || observation.starts_with("Edited") || observation.starts_with("Exit code: 0"),
            "{observation}"
        );
    }
    ["a.py", "d/b.txt"].map(|name| (name.to_owned(), program.content(name))).into()
}

#[tokio::test]
async fn lost_calls_change_the_same_files_as_native_ones() {
    let native = |calls: &[(&str, Value)]| {
        let calls: Vec<_> = calls.iter().map(|(name, arguments)| json!({"name": name, "arguments": arguments})).collect();
        json!({"content": "I write.", "reasoning_content": "Hm.", "tool_calls": calls})
    };
    let mut lines: Vec<_> = work().iter().map(|calls| native(calls)).collect();
    lines.push(done());
    let mut world = World::new(&lines);
    let expected = world.run().await.unwrap();
    let (made, files) = (world.sandbox.made.clone(), files_after(&world.sandbox.made));
    assert_eq!((made.len(), files.len()), (3, 2));
    assert_eq!(expected.frognano.readings.recovered, BTreeMap::new());
    assert_eq!(expected.frognano.readings.kinds, BTreeMap::from([(Kind::Native, 2), (Kind::Final, 1)]));

    for (way, channel, form, lost) in WAYS {
        let mut lines: Vec<_> = work().iter().map(|calls| lost(calls)).collect();
        lines.push(done());
        let mut world = World::new(&lines);
        let trajectory = world.run().await.unwrap();
        assert_eq!(trajectory.exit_reason, Some(ExitReason::Agent), "{way}");
        assert_eq!(world.sandbox.made, made, "{way}");
        assert_eq!(files_after(&world.sandbox.made), files, "{way}");
        assert_same_conversation(&trajectory, &expected, way);
        let readings = &trajectory.frognano.readings;
        assert_eq!(readings.recovered, BTreeMap::from([(channel, BTreeMap::from([(form, 3)]))]), "{way}");
        assert_eq!(readings.kinds, BTreeMap::from([(Kind::Recovered, 2), (Kind::Final, 1)]), "{way}");
        let turn = &trajectory.frognano.turns[0];
        assert_eq!(turn.raw.as_ref().unwrap()["content"], lines[0]["content"], "the server's message is kept: {way}");
        assert_eq!(turn.reading.as_ref().unwrap().channel, Some(channel), "{way}");
    }
}

/// The same messages but for ids, and text that a form has no place for.
fn assert_same_conversation(one: &Trajectory, other: &Trajectory, way: &str) {
    assert_eq!(one.messages.len(), other.messages.len(), "{way}");
    for (index, (one, other)) in one.messages.iter().zip(&other.messages).enumerate() {
        assert_eq!(one["role"], other["role"], "{way} {index}");
        assert_eq!(one.get("reasoning_content"), other.get("reasoning_content"), "{way} {index}");
        let calls = |message: &Value| {
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            calls.iter().map(|call| call["function"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(calls(one), calls(other), "{way} {index}");
        if way != "in the thinking" {
            assert_eq!(one["content"], other["content"], "{way} {index}");
        }
    }
    let ids = |index: usize| one.messages[index]["tool_call_id"].as_str().unwrap().to_owned();
    assert_eq!([ids(3), ids(4), ids(6)], ["call_0_0", "call_0_1", "call_1_0"], "{way}");
    assert_eq!(one.messages[2]["tool_calls"][1]["id"], "call_0_1", "{way}");
}

#[tokio::test]
async fn a_malformed_call_goes_back_as_written_with_one_result_and_the_run_goes_on() {
    let half = "I write.\n<tool_call>\n<function=Write>\n<parameter=file_path>\na.py\n</parameter>\n<parameter=content>\nx = ";
    let mut world = World::new(&[raw(half, "Hm."), call("Read", &json!({"file_path": "a.py"})), done()]);
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::Agent), 3));
    assert_eq!(world.sandbox.made.len(), 1, "the half call was not run");
    let why = "parameter content of Write has no clear end; close it with </parameter> and </function>";
    let said = format!("ValueError: tool call not understood: {why}");
    assert_eq!(
        trajectory.messages[2..4],
        [
            json!({"role": "assistant", "content": half, "reasoning_content": "Hm."}),
            json!({"role": "tool", "tool_call_id": "call_0_0", "content": said}),
        ]
    );
    assert_eq!(trajectory.messages.iter().filter(|message| message["role"] == "user").count(), 1);
    let step = &trajectory.steps[0];
    assert_eq!((step.observations.len(), step.observations[0].tool.as_str(), &step.observations[0].observation), (1, "", &said));
    let reading = trajectory.frognano.turns[0].reading.as_ref().unwrap();
    assert_eq!((reading.kind, reading.channel, reading.not_understood.as_str()), (Kind::Malformed, Some(Channel::Content), why));
    assert_eq!(trajectory.frognano.readings.kinds[&Kind::Malformed], 1);
    let requests = world.requests();
    assert_eq!(requests[1].messages[..], trajectory.messages[..4], "the next request begins with the attempt and its one result");
    let kept: Trajectory = serde_json::from_value(world.checkpoints.0[0].clone()).unwrap();
    assert_eq!(kept.progress().tools, Vec::<String>::new());
}

#[tokio::test]
async fn malformed_calls_are_bounded_by_the_steps() {
    let announced = json!({"raw": true, "content": "I escape ", "finish_reason": "tool_calls"});
    let draft = raw("", "Maybe\n<tool_call>\n<function=Bash>\n</function>\n</tool_call>\nor not.");
    let mut world = World::new(&[announced, draft, raw("</tool_call>", "")]);
    world.preset.max_steps = 3;
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::MaxTurns), 3));
    assert_eq!(world.sandbox.made, []);
    let said: Vec<_> = [3, 5, 7].iter().map(|index| trajectory.messages[*index]["content"].as_str().unwrap().to_owned()).collect();
    for (said, words) in said.iter().zip(["none arrived", "in the thinking", "closing tags"]) {
        assert!(said.starts_with("ValueError: tool call not understood: ") && said.contains(words), "{said}");
    }
    assert_eq!((trajectory.frognano.readings.drafts, trajectory.frognano.readings.kinds[&Kind::Malformed]), (1, 3));
}

#[tokio::test]
async fn a_mention_in_an_answer_is_an_answer() {
    let text = "I taught the lexer about `<tool_call>`:\n\n```xml\n<tool_call>\n<function=Read>\n</function>\n</tool_call>\n```\n";
    let mut world = World::new(&[raw(text, "Before, I ran\n<tool_call>\n<function=Bash>\n</function>\n</tool_call>\nand it worked.")]);
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.final_message.as_str()), (Some(ExitReason::Agent), text));
    assert_eq!(world.sandbox.made, []);
    assert_eq!((trajectory.frognano.readings.drafts, trajectory.frognano.readings.mentions), (1, 3));
}

#[tokio::test]
async fn thinking_left_in_the_text_goes_back_as_thinking() {
    let mut world = World::new(&[raw("<think>\nAll done.\n</think>\n\nFixed.", "")]);
    let trajectory = world.run().await.unwrap();
    assert_eq!(trajectory.final_message, "Fixed.");
    assert_eq!(trajectory.messages[2], json!({"role": "assistant", "content": "Fixed.", "reasoning_content": "All done."}));
}

#[tokio::test]
async fn what_the_server_could_not_parse_twice_is_the_model_s_slip_and_the_run_goes_on() {
    let slip = json!({"error": {"status": 500, "message": "Failed to parse input at pos 12: <tool_call>"}});
    let mut world = World::new(&[slip.clone(), slip, call("Read", &json!({"file_path": "a.py"})), done()]);
    let trajectory = world.run().await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps, trajectory.error), (Some(ExitReason::Agent), 3, None));
    assert_eq!(trajectory.messages[2], json!({"role": "assistant", "content": ""}));
    assert_eq!(trajectory.messages[3]["content"], "ValueError: tool call not understood: the server could not parse it");
    assert_eq!(trajectory.frognano.turns[0].reading.as_ref().unwrap().kind, Kind::Malformed);
    assert_eq!((&trajectory.frognano.turns[0].raw, trajectory.frognano.readings.kinds[&Kind::Malformed]), (&None, 1));
    assert_eq!(world.sandbox.made.len(), 1);
}

/// What a run writes into the log.
async fn log_of(lines: &[Value], settings: Settings) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    let log =
        tracing_subscriber::fmt().json().flatten_event(true).with_writer(file.reopen().unwrap()).with_max_level(tracing::Level::DEBUG);
    let guard = tracing::subscriber::set_default(log.finish());
    let text: Vec<_> = lines.iter().map(ToString::to_string).collect();
    let script = Scripted::new(Script::parse(&text.join("\n")).unwrap(), RestartOn::Never);
    let client = Client::new(Endpoint::Script(script), settings).unwrap();
    World::new(&[done()]).run_with(&client).await.unwrap();
    drop(guard);
    std::fs::read_to_string(file.path()).unwrap()
}

#[tokio::test]
async fn each_recovery_is_counted_in_the_log_by_model_channel_and_form() {
    let lost = "<tool_call>\n<function=Read>\n</function>\n</tool_call>\n<function=Bash>\n</function>";
    let native = json!({"tool_calls": [{"name": "Read", "arguments": {}}]});
    let lines = [raw(lost, "I saw `<tool_call>`."), raw("", lost), raw("</tool_call>", ""), native, raw("The `<tool_call>`.", "")];
    let log = log_of(&lines, Settings::default()).await;
    let count = |counter: &str, rest: &str| {
        let is_one = |line: &&str| line.contains(&format!("\"monotonic_counter.{counter}\":1")) && line.contains(rest);
        log.lines().filter(is_one).count()
    };
    for (channel, form) in [("content", "native"), ("content", "bare"), ("reasoning", "native"), ("reasoning", "bare")] {
        let by = format!("\"model\":\"FrogNano-4B\",\"channel\":\"{channel}\",\"form\":\"{form}\"");
        assert_eq!(count("tool_calls_recovered", &by), 1, "{by}\n{log}");
    }
    assert_eq!(
        (count("tool_calls_recovered", "WARN"), count("tool_calls_malformed", "WARN"), count("tool_call_mentions", "DEBUG")),
        (4, 1, 1)
    );
    assert!(!log.contains("parses tool calls itself"));

    let here = log_of(&lines, Settings { parse_tool_calls: ParseToolCalls::Here, ..Settings::default() }).await;
    assert_eq!((here.matches("counter.tool_calls_parsed").count(), here.matches("counter.tool_calls_recovered").count()), (4, 0));
    assert_eq!(here.matches("parses tool calls itself").count(), 1);
}

#[tokio::test]
async fn the_trajectory_says_who_parses() {
    let mut world =
        World::new(&[raw("<tool_call>\n<function=Read>\n<parameter=file_path>\na\n</parameter>\n</function>\n</tool_call>", ""), done()]);
    assert_eq!(world.run().await.unwrap().frognano.parse_tool_calls, ParseToolCalls::Server);

    let script = Scripted::new(Script::parse(&done().to_string()).unwrap(), RestartOn::Never);
    let here = Settings { parse_tool_calls: ParseToolCalls::Here, ..Settings::default() };
    let client = Client::new(Endpoint::Script(script), here).unwrap();
    let trajectory = world.run_with(&client).await.unwrap();
    assert_eq!(trajectory.to_json().unwrap()["frognano"]["parse_tool_calls"], "here");
}

#[tokio::test]
async fn a_trajectory_of_an_older_version_is_carried_on() {
    let mut world = World::new(&[call("Read", &json!({"file_path": "a.py"})), done()]);
    world.preset.max_steps = 1;
    let mut json = world.run().await.unwrap().to_json().unwrap();
    let ours = json["frognano"].as_object_mut().unwrap();
    ours.remove("readings").unwrap();
    ours.remove("parse_tool_calls").unwrap();
    ours["turns"][0].as_object_mut().unwrap().remove("reading").unwrap();
    world.preset.max_steps = 9;
    let trajectory = world.go_on(serde_json::from_value(json).unwrap()).await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::Agent), 2));
    assert_ne!(trajectory, begun());
}
