//! The loop (leaf.md, "The loop"), from the first turn or from a kept one.

use std::mem;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::history::{self, Arguments};
use super::reading::{self, Asks, Call, Reading};
use super::stuck::is_stuck;
use super::trajectory::{Observation, Recovery, Step, Trajectory, TurnRecord};
use super::{Budgets, LeafError, Observer, Preset, telling};
use crate::domain::{Clock, ExitReason};
use crate::model::qwen::{Kind, Tools};
use crate::model::{Model, ModelError, Turn, TurnRequest};
use crate::sandbox::{Sandbox, SandboxError};
use crate::telemetry::metrics;

/// What a run works with.
pub struct With<'a> {
    /// Answers the turns.
    pub model: &'a dyn Model,
    /// Runs the calls. After a cancellation one may still be under way in it: it can only be closed then.
    pub sandbox: &'a mut dyn Sandbox,
    /// Tells the time.
    pub clock: &'a dyn Clock,
    /// Stops the run at once, also in the middle of a turn or a call.
    pub cancel: &'a CancellationToken,
    /// Is told after every step.
    pub observer: &'a mut dyn Observer,
}

/// Runs the agent to one of its endings. The trajectory is a new one ([`Trajectory::begin`]) or one that was kept after a step.
///
/// # Errors
/// [`LeafError`] when the model's server or the sandbox fails; it holds the trajectory up to the last finished step. (An answer of a tool
/// above the sandbox's limit is no such failure: it ends the run as `tool_error`, with its work kept.)
pub async fn run<'a>(trajectory: Trajectory, preset: &'a Preset, with: With<'a>) -> Result<Trajectory, LeafError> {
    Run::resume(trajectory, preset, with).until_it_ends().await
}

/// Why the loop stops.
enum Stop {
    /// One of the named endings, and one sentence on it.
    Ending(ExitReason, String),
    /// A turn was asked for and the request was refused.
    Unanswered(ExitReason, String),
    ModelDown(String),
    NotAModel(String),
    Sandbox(SandboxError),
}

struct Run<'a> {
    trajectory: Trajectory,
    preset: &'a Preset,
    with: With<'a>,
    context: Context,
    tools: Tools,
    started_ms: i64,
    before_ms: u64,
}

impl<'a> Run<'a> {
    fn resume(mut trajectory: Trajectory, preset: &'a Preset, with: With<'a>) -> Self {
        let (counted, limit) = (trajectory.context_tokens, preset.max_context_tokens);
        let context = Context::of(&trajectory.messages, &trajectory.tools, counted, limit, preset.tokenizer.clone());
        with.model.name().clone_into(&mut trajectory.frognano.model);
        trajectory.frognano.parse_tool_calls = with.model.parse_tool_calls();
        trajectory.frognano.budgets = Some(Budgets::of(preset));
        trajectory.frognano.interrupted = None;
        trajectory.exit_reason = None;
        trajectory.error = None;
        trajectory.partial = true;
        let before_ms = u64::try_from(Duration::try_from_secs_f64(trajectory.elapsed_sec).unwrap_or_default().as_millis()).unwrap_or(0);
        let tools = Tools::of(&trajectory.tools);
        Self { started_ms: with.clock.now_ms(), trajectory, preset, with, context, tools, before_ms }
    }

    async fn until_it_ends(mut self) -> Result<Trajectory, LeafError> {
        loop {
            if let Err(stop) = self.step().await {
                return self.end(stop);
            }
        }
    }

    /// One step: a turn and its calls.
    async fn step(&mut self) -> Result<(), Stop> {
        self.may_go_on()?;
        let step = self.next_step();
        let cap = self.context.cap(self.preset.max_tokens_per_turn);
        let asked_ms = self.elapsed_ms();
        let mut span = telling::turn_begins(step, self.with.model);
        let Reading { turn, asks, record: reading } = match span.around(self.ask(cap)).await? {
            Some(turn) => reading::read_turn(turn, step, cap, &self.tools),
            None => reading::unread(),
        };
        telling::tell_of(&reading, self.with.model);
        telling::turn_ended(span, &reading, &turn);
        let tokens = turn.usage.map_or((0, 0), |usage| (usage.prompt_tokens, usage.completion_tokens));
        metrics::turn(reading.kind.name(), tokens.0, tokens.1);
        let answered_ms = self.elapsed_ms();
        let mut record = TurnRecord {
            step,
            max_completion_tokens: cap,
            finish_reason: turn.finish_reason.clone(),
            usage: turn.usage,
            context_tokens: 0,
            reading: Some(reading),
            model_ms: answered_ms.saturating_sub(asked_ms),
            tools_ms: 0,
            retried: false,
            raw: None,
        };
        match asks {
            Asks::Truncated(calls) => {
                let (reason, ending) = self.cut_by_length(&turn, cap);
                if reason == ExitReason::MaxTokensPerTurn && self.ask_again(&turn, &calls, &record).await? {
                    return Ok(());
                }
                self.last_step(&turn, &calls, record).await?;
                Err(Stop::Ending(reason, ending))
            }
            Asks::Malformed(why) => self.malformed_step(&turn, &why, record).await,
            Asks::Final => {
                self.last_step(&turn, &[], record).await?;
                Err(Stop::Ending(ExitReason::Agent, String::new()))
            }
            Asks::Calls(calls) => {
                let recovered = record.reading.as_ref().is_some_and(|reading| reading.kind == Kind::Recovered);
                let observations = self.run_calls(&turn, &calls, recovered).await?;
                record.tools_ms = self.elapsed_ms().saturating_sub(answered_ms);
                self.finish_step(&turn, &calls, observations, record).await
            }
        }
    }

    fn may_go_on(&self) -> Result<(), Stop> {
        let stop = |reason, why: &str| Err(Stop::Ending(reason, why.to_owned()));
        if self.context.is_full() {
            stop(ExitReason::MaxContextLen, "the context is full")
        } else if self.next_step() >= self.preset.max_steps {
            stop(ExitReason::MaxTurns, "all steps are used")
        } else if self.preset.stuck_after.is_some_and(|times| is_stuck(&self.trajectory.steps, times)) {
            stop(ExitReason::Stuck, "the same calls gave the same answers again and again")
        } else if self.with.cancel.is_cancelled() {
            stop(ExitReason::Cancelled, "it was cancelled")
        } else if self.time_left().is_zero() {
            stop(ExitReason::MaxTime, "the time is over")
        } else {
            Ok(())
        }
    }

    /// Asks the model, until the run is cancelled or its time is over. None when the server could not read what the model wrote.
    async fn ask(&mut self, cap: u64) -> Result<Option<Turn>, Stop> {
        let request = TurnRequest {
            messages: mem::take(&mut self.trajectory.messages),
            tools: mem::take(&mut self.trajectory.tools),
            max_completion_tokens: cap,
            seed: self.trajectory.seed,
        };
        let answer = tokio::select! {
            biased;
            () = self.with.cancel.cancelled() => Err(Stop::Ending(ExitReason::Cancelled, "it was cancelled during a turn".to_owned())),
            answer = tokio::time::timeout(self.time_left(), self.with.model.turn(&request)) => match answer {
                Ok(Err(ModelError::FormatSlip)) => Ok(None),
                Ok(answer) => answer.map(Some).map_err(Stop::from),
                Err(_) => Err(Stop::Ending(ExitReason::MaxTime, "the time was over during a turn".to_owned())),
            },
        };
        self.trajectory.messages = request.messages;
        self.trajectory.tools = request.tools;
        answer
    }

    /// Runs the calls in order. When one can't be run, what there is of the step is kept aside and the conversation stays as it was.
    async fn run_calls(&mut self, turn: &Turn, calls: &[Call], recovered: bool) -> Result<Vec<Observation>, Stop> {
        let mut observations = Vec::with_capacity(calls.len());
        for call in calls {
            let mut span = telling::call_begins(call, &self.tools, recovered);
            match span.around(self.run_call(call)).await {
                Ok(observation) => {
                    telling::call_ended(span, &observation);
                    observations.push(Observation { tool: call.name.clone(), observation });
                }
                Err(stop) => {
                    let assistant = history::assistant(turn, calls, Arguments::AsGiven);
                    self.trajectory.frognano.interrupted = Some(Step { step: self.next_step(), assistant, observations });
                    return Err(stop);
                }
            }
        }
        Ok(observations)
    }

    async fn run_call(&mut self, call: &Call) -> Result<String, Stop> {
        tokio::select! {
            biased;
            () = self.with.cancel.cancelled() => Err(Stop::Ending(ExitReason::Cancelled, format!("it was cancelled during {}", call.name))),
            answer = self.with.sandbox.call(&call.name, &call.arguments) => answer.map_err(Stop::Sandbox),
        }
    }

    /// The last turn: its text is the final message. Its calls, which are not run, stay out of the conversation.
    async fn last_step(&mut self, turn: &Turn, calls: &[Call], record: TurnRecord) -> Result<(), Stop> {
        turn.content.clone_into(&mut self.trajectory.final_message);
        let message = history::assistant(turn, &[], Arguments::Valid);
        self.keep_step(turn, calls, vec![message], Vec::new(), record).await
    }

    /// Answers a cut turn by a note, its calls, which are not run, included, so that the model can go on in smaller pieces. Not twice in a row,
    /// and only where a step is left and a whole turn still fits; else it says no and nothing has happened.
    async fn ask_again(&mut self, turn: &Turn, calls: &[Call], record: &TurnRecord) -> Result<bool, Stop> {
        let was_retried = self.trajectory.frognano.turns.last().is_some_and(|turn| turn.retried);
        if !self.preset.retry_cut_turns || was_retried || self.next_step() + 1 >= self.preset.max_steps {
            return Ok(false);
        }
        let cap = record.max_completion_tokens;
        let text = format!(
            "RuntimeError: the turn was cut at {cap} tokens and no call of it was run. Go on with a shorter turn and smaller calls."
        );
        let mut messages = vec![history::assistant(turn, calls, Arguments::Valid)];
        messages.extend(calls.iter().map(|call| history::result(call, &text)));
        let mut names: Vec<String> = calls.iter().map(|call| call.name.clone()).collect();
        if calls.is_empty() {
            messages.push(history::note(record.step, &text));
            names.push("note".to_owned());
        }
        let mut after = self.context.clone();
        after.add_turn(&messages[0], turn.usage);
        after.add_results(&messages[1..]);
        if after.cap(self.preset.max_tokens_per_turn) < self.preset.max_tokens_per_turn {
            return Ok(false);
        }
        let observations = names.into_iter().map(|tool| Observation { tool, observation: text.clone() }).collect();
        self.keep_step(turn, calls, messages, observations, TurnRecord { retried: true, ..record.clone() }).await?;
        Ok(true)
    }

    /// A turn whose call was not understood goes back as it was written, and the model is told once.
    async fn malformed_step(&mut self, turn: &Turn, why: &str, record: TurnRecord) -> Result<(), Stop> {
        let note = history::not_understood(self.next_step(), why);
        let observation = note.get("content").and_then(Value::as_str).unwrap_or_default().to_owned();
        let messages = vec![history::assistant(turn, &[], Arguments::Valid), note];
        self.keep_step(turn, &[], messages, vec![Observation { tool: String::new(), observation }], record).await
    }

    async fn finish_step(&mut self, turn: &Turn, calls: &[Call], observations: Vec<Observation>, record: TurnRecord) -> Result<(), Stop> {
        let results = calls.iter().zip(&observations).map(|(call, observation)| history::result(call, &observation.observation));
        let messages = std::iter::once(history::assistant(turn, calls, Arguments::Valid)).chain(results).collect();
        self.keep_step(turn, calls, messages, observations, record).await
    }

    async fn keep_step(
        &mut self,
        turn: &Turn,
        calls: &[Call],
        mut messages: Vec<Value>,
        mut observations: Vec<Observation>,
        record: TurnRecord,
    ) -> Result<(), Stop> {
        self.tell_of_recovery(&mut messages, &mut observations);
        let step = self.next_step();
        let before = self.trajectory.mark();
        if let [assistant, results @ ..] = messages.as_slice() {
            self.context.add_turn(assistant, turn.usage);
            self.context.add_results(results);
        }
        let assistant = history::assistant(turn, calls, Arguments::AsGiven);
        let raw = (!is_same_message(&turn.raw, &assistant)).then(|| turn.raw.clone());
        let trajectory = &mut self.trajectory;
        if let Some(reading) = &record.reading {
            trajectory.frognano.readings.add(reading);
        }
        trajectory.messages.extend(messages);
        trajectory.steps.push(Step { step, assistant, observations });
        trajectory.n_steps = trajectory.steps.len() as u64;
        trajectory.context_tokens = self.context.tokens();
        trajectory.frognano.turns.push(TurnRecord { context_tokens: self.context.tokens(), raw, ..record });
        self.trajectory.elapsed_sec = seconds(self.elapsed_ms());
        let kept = self.with.observer.on_step(&self.trajectory, self.with.sandbox).await;
        kept.map_err(|error| {
            self.trajectory.take_back(before);
            Stop::Sandbox(error)
        })
    }

    /// What a recovery has to say goes with the first result after it.
    fn tell_of_recovery(&self, messages: &mut [Value], observations: &mut [Observation]) {
        let due = |recovery: &&Recovery| recovery.before_step == self.next_step() && !recovery.told.is_empty();
        let Some(recovery) = self.trajectory.frognano.recoveries.last().filter(due) else { return };
        if let ([_, result, ..], [observation, ..]) = (messages, observations) {
            observation.observation = history::with_note(&observation.observation, &recovery.told);
            result["content"] = observation.observation.clone().into();
        }
    }

    /// Which budget cut a turn (leaf.md, rule 3). A cap that was lowered for the context's sake is the context's.
    fn cut_by_length(&self, turn: &Turn, cap: u64) -> (ExitReason, String) {
        let counts = turn.usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens)).filter(|counts| *counts != (0, 0));
        let lowered = cap < self.preset.max_tokens_per_turn;
        let by_the_turn = match counts {
            Some((prompt, completion)) => prompt.saturating_add(completion) < self.preset.max_context_tokens && completion >= cap,
            None => true,
        };
        if by_the_turn && !lowered {
            (ExitReason::MaxTokensPerTurn, format!("one turn reached {cap} generated tokens"))
        } else {
            (ExitReason::MaxContextLen, "the last turn was cut at the end of the context".to_owned())
        }
    }

    fn end(mut self, stop: Stop) -> Result<Trajectory, LeafError> {
        self.trajectory.elapsed_sec = seconds(self.elapsed_ms());
        let step = self.next_step();
        let mut trajectory = self.trajectory;
        match stop {
            Stop::ModelDown(why) => Err(LeafError::ModelDown { why, trajectory: Box::new(trajectory) }),
            Stop::NotAModel(why) => Err(LeafError::NotAModel { why, trajectory: Box::new(trajectory) }),
            Stop::Sandbox(source @ SandboxError::TooLarge { .. }) => {
                trajectory.n_steps += 1;
                trajectory.error = Some(source.to_string());
                Ok(ended(trajectory, ExitReason::ToolError, source.to_string()))
            }
            Stop::Sandbox(source) => Err(LeafError::Sandbox { step, source, trajectory: Box::new(trajectory) }),
            Stop::Unanswered(reason, why) => {
                trajectory.n_steps += 1;
                trajectory.error = (reason == ExitReason::LlmQueryError).then(|| why.clone());
                Ok(ended(trajectory, reason, why))
            }
            Stop::Ending(reason, why) => Ok(ended(trajectory, reason, why)),
        }
    }

    fn next_step(&self) -> u64 {
        self.trajectory.steps.len() as u64
    }

    fn elapsed_ms(&self) -> u64 {
        let since = self.with.clock.now_ms().saturating_sub(self.started_ms);
        self.before_ms + u64::try_from(since).unwrap_or(0)
    }

    fn time_left(&self) -> Duration {
        self.preset.max_time.saturating_sub(Duration::from_millis(self.elapsed_ms()))
    }
}

impl From<ModelError> for Stop {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::ContextFull(why) => Self::Unanswered(ExitReason::MaxContextLen, why),
            ModelError::FormatSlip => Self::Unanswered(ExitReason::LlmQueryError, error.to_string()),
            ModelError::Refused(why) => Self::Unanswered(ExitReason::LlmQueryError, why),
            ModelError::Down(why) => Self::ModelDown(why),
            ModelError::NotAModel(why) => Self::NotAModel(why),
        }
    }
}

fn ended(mut trajectory: Trajectory, reason: ExitReason, ending: String) -> Trajectory {
    trajectory.exit_reason = Some(reason);
    trajectory.partial = false;
    trajectory.frognano.ending = ending;
    trajectory
}

fn seconds(milliseconds: u64) -> f64 {
    Duration::from_millis(milliseconds).as_secs_f64()
}

/// Whether a server's message says no more than ours: keys without a value apart, they are equal.
fn is_same_message(raw: &Value, ours: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    let (Some(raw), Some(ours)) = (raw.as_object(), ours.as_object()) else { return false };
    let covers = |one: &serde_json::Map<String, Value>, other: &serde_json::Map<String, Value>| {
        one.iter().all(|(key, value)| is_empty(value) || key == "role" || other.get(key) == Some(value))
    };
    covers(raw, ours) && covers(ours, raw)
}
