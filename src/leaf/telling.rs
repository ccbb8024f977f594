//! What the log hears of how turns were read.

use super::lost;
use super::trajectory::TurnReading;
use crate::config::ParseToolCalls;
use crate::model::Model;
use crate::model::qwen::{Channel, Kind};
use crate::telemetry::metrics;

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
