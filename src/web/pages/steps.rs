//! The agent's steps as a page shows them, from the record of a run that has ended or from the journal of one that goes on.

use serde_json::Value;

use super::text::{cut, number, short_span, span};

/// A thought or an answer of more characters is cut.
const LONGEST: usize = 20_000;
/// What is longer, in lines, is folded.
const FOLDED_FROM: usize = 12;

/// An attempt of the agent.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    pub number: usize,
    pub steps: Vec<Step>,
    pub budgets: Vec<Budget>,
    /// The tokens of all its requests and answers.
    pub tokens: i64,
    /// Why it ended, as one sentence; empty while it goes on.
    pub ending: String,
    /// Each time that it went on in a new sandbox.
    pub recoveries: Vec<String>,
}

/// How much of a budget was used.
#[derive(Debug)]
pub(super) struct Budget {
    pub name: &'static str,
    pub used: u64,
    pub most: u64,
    pub shown: String,
}

/// One turn of the model and what its calls gave.
#[derive(Debug)]
pub(super) struct Step {
    /// From 1.
    pub number: usize,
    pub thought: Text,
    pub said: Text,
    pub calls: Vec<Call>,
    pub model: String,
    pub tools: String,
    pub tokens: String,
}

/// A call with what it gave.
#[derive(Debug)]
pub(super) struct Call {
    pub tool: String,
    /// The one argument that says the most, in one line.
    pub summary: String,
    pub arguments: Vec<(String, String)>,
    pub answer: Text,
}

/// A text that may be long.
#[derive(Debug, Default)]
pub(super) struct Text {
    pub whole: String,
    pub lines: usize,
    pub is_long: bool,
}

impl Text {
    fn of(text: &str) -> Self {
        let whole = cut(text.trim_end(), LONGEST);
        let lines = whole.lines().count();
        Self { is_long: lines > FOLDED_FROM || whole.chars().count() > 1200, lines, whole }
    }
}

/// The attempt of a whole record (leaf.md: trajectory).
pub(super) fn from_record(attempt: usize, record: &[u8]) -> Option<Attempt> {
    let record: Value = serde_json::from_slice(record).ok()?;
    let (steps, turns) = (record.get("steps")?.as_array()?, record["frognano"]["turns"].as_array());
    let turns = turns.map(Vec::as_slice).unwrap_or_default();
    let steps = steps.iter().enumerate().map(|(at, one)| (one, turns.get(at).unwrap_or(&Value::Null))).collect::<Vec<_>>();
    Some(made(attempt, &steps, &record))
}

/// The attempt of a journal that is still written: its whole lines.
pub(super) fn from_journal(attempt: usize, journal: &[u8]) -> Option<Attempt> {
    let lines = journal.split(|byte| *byte == b'\n').map_while(|line| serde_json::from_slice::<Value>(line).ok()).collect::<Vec<_>>();
    let mut record = lines.first()?.get("begin")?.get("trajectory")?.clone();
    let mut steps = Vec::new();
    for finished in lines.iter().filter_map(|line| line.get("step")) {
        steps.truncate(usize::try_from(finished["step"]["step"].as_u64()?).ok()?);
        steps.push((&finished["step"], &finished["turn"]));
        record["context_tokens"] = finished["context_tokens"].clone();
        record["elapsed_sec"] = finished["elapsed_sec"].clone();
    }
    Some(made(attempt, &steps, &record))
}

fn made(attempt: usize, steps: &[(&Value, &Value)], record: &Value) -> Attempt {
    let tokens = steps.iter().filter_map(|(_, turn)| turn["usage"]["total_tokens"].as_i64()).sum();
    let recoveries = record["frognano"]["recoveries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let told = |recovery: &Value| {
        let step = recovery["before_step"].as_u64().unwrap_or(0) + 1;
        format!("before step {step}: {}", recovery["why"].as_str().unwrap_or_default())
    };
    Attempt {
        number: attempt,
        budgets: budgets(record, steps.len() as u64),
        tokens,
        ending: record["frognano"]["ending"].as_str().unwrap_or_default().to_owned(),
        recoveries: recoveries.iter().map(told).collect(),
        steps: steps.iter().enumerate().map(|(at, (step, turn))| self::step(at + 1, step, turn)).collect(),
    }
}

fn budgets(record: &Value, steps: u64) -> Vec<Budget> {
    let budgets = &record["frognano"]["budgets"];
    let seconds = record["elapsed_sec"].as_f64().unwrap_or(0.0).max(0.0) as u64;
    let context = record["context_tokens"].as_u64().unwrap_or(0);
    let long = |seconds: u64| span(i64::try_from(seconds).unwrap_or(0).saturating_mul(1000));
    let grouped = |count: u64| number(i64::try_from(count).unwrap_or(i64::MAX));
    let all = [
        ("steps", steps, &budgets["max_steps"], grouped as fn(u64) -> String),
        ("time", seconds, &budgets["max_seconds"], long),
        ("context, in tokens", context, &budgets["max_context"], grouped),
    ];
    let known = all.into_iter().filter_map(|(name, used, most, shown)| {
        let most = most.as_u64().filter(|most| *most > 0)?;
        Some(Budget { name, used, most, shown: format!("{} of {}", shown(used), shown(most)) })
    });
    known.collect()
}

fn step(number_of_step: usize, step: &Value, turn: &Value) -> Step {
    let message = &step["assistant"];
    let text = |name: &str| message[name].as_str().unwrap_or_default();
    let thought = [text("reasoning_content"), text("reasoning")].into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let answers = step["observations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let calls = (0..calls.len().max(answers.len())).map(|at| call(calls.get(at), answers.get(at)));
    let ms = |name: &str| turn[name].as_i64().map(short_span).unwrap_or_default();
    Step {
        number: number_of_step,
        thought: Text::of(thought),
        said: Text::of(text("content")),
        calls: calls.collect(),
        model: ms("model_ms"),
        tools: ms("tools_ms"),
        tokens: turn["usage"]["total_tokens"].as_i64().map(number).unwrap_or_default(),
    }
}

fn call(call: Option<&Value>, answer: Option<&Value>) -> Call {
    let function = call.map_or(&Value::Null, |call| &call["function"]);
    let named = function["name"].as_str().or_else(|| answer?["tool"].as_str()).unwrap_or_default();
    let arguments = arguments(&function["arguments"]);
    let telling = ["file_path", "command", "pattern", "path"];
    let most = telling.iter().find_map(|name| arguments.iter().find(|(key, _)| key == name)).or_else(|| arguments.first());
    Call {
        tool: if named.is_empty() { "a note of the service".to_owned() } else { named.chars().take(60).collect() },
        summary: most.map(|(_, value)| value.lines().next().unwrap_or_default().chars().take(120).collect()).unwrap_or_default(),
        arguments,
        answer: Text::of(answer.and_then(|answer| answer["observation"].as_str()).unwrap_or_default()),
    }
}

/// The arguments of a call, as names and texts; what the model wrote where it is no JSON.
fn arguments(written: &Value) -> Vec<(String, String)> {
    let parsed = match written {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| written.clone()),
        other => other.clone(),
    };
    let shown = |value: &Value| cut(&value.as_str().map_or_else(|| value.to_string(), str::to_owned), LONGEST);
    match &parsed {
        Value::Object(object) => object.iter().map(|(name, value)| (name.chars().take(100).collect(), shown(value))).collect(),
        Value::Null => Vec::new(),
        other => vec![("as it was written".to_owned(), shown(other))],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{from_journal, from_record};

    #[test]
    fn a_journal_shows_what_the_record_will_show() {
        let step = |number: u64, word: &str| {
            json!({"step": number, "assistant": {"role": "assistant", "content": word, "reasoning_content": "why",
                "tool_calls": [{"function": {"name": "Bash", "arguments": "{\"command\":\"ls\\nx\"}"}}]},
                "observations": [{"tool": "Bash", "observation": "a\nb"}, {"tool": "", "observation": "note"}]})
        };
        let turn = json!({"usage": {"total_tokens": 7}, "model_ms": 1500, "tools_ms": 20});
        let ours = json!({"budgets": {"max_steps": 4, "max_seconds": 60, "max_context": 1000}});
        let begin = json!({"begin": {"base": "b", "trajectory": {"steps": [], "frognano": ours}}});
        let line =
            |number: u64, word: &str| json!({"step": {"step": step(number, word), "turn": turn, "context_tokens": 9, "elapsed_sec": 3.0}});
        let lines = [begin, line(0, "one"), line(1, "lost"), line(1, "two")].map(|line| line.to_string()).join("\n");
        let live = from_journal(1, format!("{lines}\n{{\"half").as_bytes()).unwrap();
        let mut record = json!({"steps": [step(0, "one"), step(1, "two")], "context_tokens": 9, "elapsed_sec": 3.0, "frognano": ours});
        record["frognano"]["turns"] = json!([turn, turn]);
        let kept = from_record(1, record.to_string().as_bytes()).unwrap();
        assert_eq!(format!("{live:?}"), format!("{kept:?}"));
        assert_eq!((live.tokens, live.steps.len(), live.budgets[0].shown.as_str()), (14, 2, "2 of 4"));
        let call = &live.steps[1].calls;
        assert_eq!((call[0].summary.as_str(), call[1].tool.as_str()), ("ls", "a note of the service"));
    }

    #[test]
    fn a_record_of_any_shape_makes_no_more_than_an_empty_page() {
        for odd in ["", "[]", "{}", "{\"steps\": 3}", "null"] {
            assert!(from_record(1, odd.as_bytes()).is_none() && from_journal(1, odd.as_bytes()).is_none(), "{odd}");
        }
        let odd = json!({"steps": [null, {"assistant": 3, "observations": "x"}, {"assistant": {"tool_calls": [3, {"function": {"arguments": "{"}}]}}]});
        let attempt = from_record(1, odd.to_string().as_bytes()).unwrap();
        assert_eq!(attempt.steps.iter().map(|step| step.calls.len()).collect::<Vec<_>>(), [0, 0, 2]);
        assert_eq!(attempt.steps[2].calls[1].arguments[0].1, "{");
    }
}
