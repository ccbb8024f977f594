//! Whether a run goes round in circles.

use serde_json::Value;

use super::trajectory::Step;

/// Whether the last steps, so many of them (at least 2), made the same calls and were given the same answers.
pub(super) fn is_stuck(steps: &[Step], times: u64) -> bool {
    let times = usize::try_from(times).unwrap_or(usize::MAX).max(2);
    let Some((last, before)) = steps.split_last() else { return false };
    let before = before.iter().rev().take(times - 1);
    steps.len() >= times && !last.observations.is_empty() && before.into_iter().all(|step| is_same(step, last))
}

/// The same calls, by name and arguments, with the same answers. Thoughts, texts and ids may differ; but the text of a turn without calls is
/// what was attempted.
fn is_same(one: &Step, other: &Step) -> bool {
    let attempted = |step: &Step| step.assistant.get("content").filter(|_| calls(step).next().is_none()).cloned();
    one.observations == other.observations && calls(one).eq(calls(other)) && attempted(one) == attempted(other)
}

/// The calls of a step; arguments that are JSON are compared as such, whatever their spaces.
fn calls(step: &Step) -> impl Iterator<Item = (&Value, Result<Value, &str>)> {
    let calls = step.assistant.get("tool_calls").and_then(Value::as_array);
    calls.into_iter().flatten().map(|call| {
        let text = call["function"]["arguments"].as_str().unwrap_or_default();
        (&call["function"]["name"], serde_json::from_str(text).map_err(|_| text))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Step, is_stuck};
    use crate::leaf::Observation;

    fn step(id: u64, arguments: &str, answer: &str) -> Step {
        let call = json!({"id": format!("call_{id}"), "type": "function", "function": {"name": "Bash", "arguments": arguments}});
        let observations = vec![Observation { tool: "Bash".to_owned(), observation: answer.to_owned() }];
        Step { step: id, assistant: json!({"role": "assistant", "content": id.to_string(), "tool_calls": [call]}), observations }
    }

    #[test]
    fn only_the_same_calls_with_the_same_answers_in_a_row_count() {
        let same = |id| step(id, r#"{"command": "ls", "timeout": 1}"#, "a");
        let steps = [step(0, "{}", "a"), same(1), same(2), step(3, r#"{"timeout":1,"command":"ls"}"#, "a")];
        assert!(is_stuck(&steps, 3) && is_stuck(&steps, 2));
        assert!(!is_stuck(&steps, 4), "the first step made another call");
        assert!(!is_stuck(&steps[1..], 4), "there are only three");
        assert!(!is_stuck(&[same(1), step(2, r#"{"command": "ls", "timeout": 1}"#, "b")], 2), "the answer is another one");
        assert!(!is_stuck(&[same(1), step(2, r#"{"command": "ls", "timeout": 2}"#, "a")], 2), "the arguments are others");
        assert!(!is_stuck(&[same(1), step(2, "{}", "b"), same(3)], 2), "not in a row");
        assert!(is_stuck(&[step(1, "{broken", "a"), step(2, "{broken", "a")], 2));
        assert!(!is_stuck(&[step(1, "{broken", "a"), step(2, "{other", "a")], 2));
    }

    #[test]
    fn attempts_that_were_not_understood_are_the_same_by_their_text() {
        let attempt = |text: &str| {
            let observations = vec![Observation { tool: String::new(), observation: "not understood".to_owned() }];
            Step { step: 0, assistant: json!({"role": "assistant", "content": text}), observations }
        };
        assert!(is_stuck(&[attempt("<tool_call>\nls"), attempt("<tool_call>\nls")], 2));
        assert!(!is_stuck(&[attempt("<tool_call>\nls"), attempt("<tool_call>\nls .")], 2));
    }

    #[test]
    fn once_is_never_a_circle() {
        for times in [0, 1, 2] {
            assert!(!is_stuck(&[step(0, "{}", "a")], times));
        }
        assert!(!is_stuck(&[], 0));
    }
}
