//! What the model is asked with besides the conversation: the default is what was evaluated (leaf.md, "Evaluated configuration").

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::TurnRequest;
use crate::config::ParseToolCalls;

/// Sampling, name and patience. Other values than the default are options; only the default was evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The name the server knows the model by.
    pub name: String,
    /// Sampling temperature.
    pub temperature: f64,
    /// Nucleus sampling.
    pub top_p: f64,
    /// Only so many candidates are sampled from; -1 for all.
    pub top_k: i64,
    /// Candidates below this share of the best one's probability are dropped.
    pub min_p: f64,
    /// Penalty for words that are there already.
    pub presence_penalty: f64,
    /// Factor against repetition, 1 for none.
    pub repetition_penalty: f64,
    /// The model thinks before it answers.
    pub enable_thinking: bool,
    /// The model may call several tools in one turn.
    pub parallel_tool_calls: bool,
    /// Who reads the calls out of the model's text.
    pub parse_tool_calls: ParseToolCalls,
    /// One request may take so long.
    pub request_timeout: Duration,
    /// So many times a request is repeated after a fault of the server.
    pub retries: u32,
    /// The pause before the first repetition; it doubles with each, and chance takes up to half of it away.
    pub first_pause: Duration,
    /// No pause of ours is longer.
    pub longest_pause: Duration,
    /// A server that asks for more patience (`Retry-After`) is given this much.
    pub longest_retry_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "FrogNano-4B".to_owned(),
            temperature: 0.6,
            top_p: 0.95,
            top_k: 20,
            min_p: 0.0,
            presence_penalty: 0.0,
            repetition_penalty: 1.0,
            enable_thinking: true,
            parallel_tool_calls: true,
            parse_tool_calls: ParseToolCalls::Server,
            request_timeout: Duration::from_secs(7_200),
            retries: 5,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            longest_retry_after: Duration::from_secs(120),
        }
    }
}

impl Settings {
    /// The pause before the repetition of this number (from 1), with chance from 0 to 1 taking up to half of it away.
    pub(super) fn backoff(&self, repetition: u32, jitter: f64) -> Duration {
        let doubled = self.first_pause.saturating_mul(2_u32.saturating_pow(repetition.saturating_sub(1)));
        doubled.min(self.longest_pause).mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0)
    }

    /// The request as it goes over the wire (leaf.md, "What the model is sent").
    pub(super) fn body<'a>(&'a self, request: &'a TurnRequest) -> Body<'a> {
        Body {
            model: &self.name,
            messages: &request.messages,
            tools: &request.tools,
            tool_choice: "auto",
            temperature: self.temperature,
            parallel_tool_calls: self.parallel_tool_calls,
            max_completion_tokens: request.max_completion_tokens,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            presence_penalty: self.presence_penalty,
            repetition_penalty: self.repetition_penalty,
            chat_template_kwargs: TemplateOptions { enable_thinking: self.enable_thinking },
            seed: request.seed,
        }
    }
}

/// The body of a request; it borrows the conversation, which may be half a megabyte.
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: &'a [Value],
    tools: &'a Value,
    tool_choice: &'static str,
    temperature: f64,
    parallel_tool_calls: bool,
    max_completion_tokens: u64,
    top_p: f64,
    top_k: i64,
    min_p: f64,
    presence_penalty: f64,
    repetition_penalty: f64,
    chat_template_kwargs: TemplateOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

#[derive(Debug, Serialize)]
struct TemplateOptions {
    enable_thinking: bool,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Settings;

    #[test]
    fn pauses_double_up_to_the_longest_and_chance_takes_up_to_half() {
        let settings = Settings::default();
        let seconds: Vec<_> = (1..=7).map(|repetition| settings.backoff(repetition, 0.0).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(settings.backoff(2, 1.0), Duration::from_secs(1));
        assert_eq!(settings.backoff(u32::MAX, 7.0), Duration::from_secs(15));
    }
}
