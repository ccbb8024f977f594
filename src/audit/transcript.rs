//! What the chain holds of a turn of the model, and whether a kept transcript is the one that it was taken from.

use serde::Deserialize;
use serde_json::{Value, json};

use super::Digest;

/// A turn as a transcript keeps it (leaf.md: trajectory).
#[derive(Debug, Deserialize)]
pub struct Turn {
    /// From 0.
    pub step: u64,
    /// The assistant's message.
    pub assistant: Value,
    /// What its calls gave.
    pub observations: Vec<Answer>,
}

/// What a call gave.
#[derive(Debug, Deserialize)]
pub struct Answer {
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// What the model is shown.
    pub observation: String,
}

/// The facts of a turn: names, and the SHA-256 of everything that was said.
///
/// # Errors
/// When it can't be written as JSON.
pub fn turn<'a>(
    attempt: u32,
    step: u64,
    assistant: &Value,
    answers: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Value, serde_json::Error> {
    let calls = answers.map(|(tool, answer)| json!({"tool": known(tool), "answer": Digest::of(answer.as_bytes())}));
    Ok(json!({"attempt": attempt, "step": step, "said": Digest::of_value(assistant)?, "calls": calls.collect::<Vec<_>>()}))
}

/// A model may write anything for a tool's name; a text of its own is not in the chain.
fn known(tool: &str) -> &str {
    if matches!(tool, "Read" | "Write" | "Edit" | "Glob" | "Bash" | "note" | "") { tool } else { "another" }
}

/// The turns of a transcript; none when it is none.
pub(super) fn turns(transcript: &[u8]) -> Option<Vec<Turn>> {
    #[derive(Deserialize)]
    struct Transcript {
        steps: Vec<Turn>,
    }
    serde_json::from_slice::<Transcript>(transcript).ok().map(|transcript| transcript.steps)
}

impl Turn {
    /// The facts that the chain must hold of it.
    pub(super) fn facts(&self, attempt: u32) -> Result<Value, serde_json::Error> {
        let answers = self.observations.iter().map(|answer| (answer.tool.as_str(), answer.observation.as_str()));
        turn(attempt, self.step, &self.assistant, answers)
    }
}
