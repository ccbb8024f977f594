//! What the log, the counts and the trace hear of turns and calls: never their words.

use super::lost;
use super::reading::Call;
use super::trajectory::TurnReading;
use crate::config::ParseToolCalls;
use crate::model::qwen::Tools;
use crate::model::qwen::{Channel, Kind};
use crate::model::{Model, Turn};
use crate::telemetry::metrics;
use crate::telemetry::traces::{self, Span, Value};

/// The words by which servers say why a turn ended.
const FINISH_REASONS: [&str; 6] = ["stop", "length", "tool_calls", "function_call", "content_filter", "abort"];

/// A turn is asked for.
pub(super) fn turn_begins(step: u64, model: &dyn Model) -> Span {
    let span = traces::call("model turn").with("gen_ai.operation.name", "chat");
    span.with("gen_ai.request.model", Value::name(model.name())).with("frognano.step", step)
}

/// It was answered.
pub(super) fn turn_ended(mut span: Span, reading: &TurnReading, turn: &Turn) {
    span.set("frognano.turn.kind", reading.kind.name());
    span.set("gen_ai.response.finish_reason", Value::one_of(&FINISH_REASONS, &turn.finish_reason));
    if let Some(usage) = turn.usage {
        span.set("gen_ai.usage.input_tokens", usage.prompt_tokens);
        span.set("gen_ai.usage.output_tokens", usage.completion_tokens);
    }
}

/// A tool is called.
pub(super) fn call_begins(call: &Call, tools: &Tools, recovered: bool) -> Span {
    let span = traces::span("tool call").with("gen_ai.operation.name", "execute_tool");
    let name = if tools.has(&call.name) { Value::name(&call.name) } else { "unknown".into() };
    span.with("gen_ai.tool.name", name).with("frognano.recovered", recovered)
}

/// It answered.
pub(super) fn call_ended(mut span: Span, answer: &str) {
    span.set("frognano.answered_with_error", names_an_exception(answer));
}

/// The tools say what went wrong as Python would: the exception's name, a colon, a sentence.
fn names_an_exception(answer: &str) -> bool {
    let name = answer.split_once(": ").map_or("", |(name, _)| name);
    name.ends_with("Error") && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Counts what the server's parser lost, by model, channel and form, for whoever collects the log's `monotonic_counter` fields.
pub(super) fn tell_of(reading: &TurnReading, model: &dyn Model) {
    let (model, parsed_here) = (model.name(), model.parse_tool_calls() == ParseToolCalls::Here);
    let channel = reading.channel.map_or("", Channel::name);
    match reading.kind {
        Kind::Recovered => {
            for (form, count) in &reading.forms {
                let form = form.name();
                if parsed_here {
                    tracing::debug!(monotonic_counter.tool_calls_parsed = count, model, channel, form, "read tool calls");
                } else {
                    metrics::recovered(channel, form, *count);
                    tracing::warn!(
                        monotonic_counter.tool_calls_recovered = count,
                        model,
                        channel,
                        form,
                        "recovered tool calls that the model's server lost"
                    );
                }
            }
        }
        Kind::Malformed => {
            tracing::warn!(
                monotonic_counter.tool_calls_malformed = 1_u64,
                model,
                channel,
                "the model wrote a tool call that can't be read"
            );
        }
        Kind::Native if parsed_here => {
            tracing::warn!(model, "the model's server parses tool calls itself, where parse_tool_calls = \"here\" expects the whole text");
        }
        Kind::Native | Kind::Final | Kind::Truncated => {}
    }
    lost::tell_of(model, reading);
    if reading.drafts + reading.mentions > 0 {
        let (drafts, mentions) = (reading.drafts, reading.mentions);
        tracing::debug!(
            monotonic_counter.tool_call_drafts = drafts,
            monotonic_counter.tool_call_mentions = mentions,
            model,
            "left alone what only looks like tool calls"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::names_an_exception;

    #[test]
    fn an_answer_that_begins_with_an_exception_is_an_error() {
        for error in ["FileNotFoundError: [Errno 2] x", "RuntimeError: a: b"] {
            assert!(names_an_exception(error), "{error}");
        }
        for answer in ["", "Error", "done: no Error: here", "1: FileNotFoundError", "x Error: y"] {
            assert!(!names_an_exception(answer), "{answer}");
        }
    }
}
