//! The client of the model's server: asks for a turn, repeats what is worth repeating, and says whose fault a failure is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use time::PrimitiveDateTime;
use time::macros::format_description;

use super::answer::read_turn;
use super::pause::{Pause, TokioPause};
use super::rejection::{Complaint, looks_like_html};
use super::settings::Settings;
use super::transport::{Answer, Endpoint, NoAnswer, SetUpError, Transport};
use super::{Model, ModelError, Turn, TurnRequest};
use crate::config::ParseToolCalls;
use crate::domain::{Clock, SystemClock};

/// A model behind an [`Endpoint`].
pub struct Client {
    transport: Transport,
    settings: Settings,
    pause: Arc<dyn Pause>,
    clock: Arc<dyn Clock>,
}

/// What one answer means.
enum Meaning {
    Turn(Box<Turn>),
    /// The server is overloaded or down: worth repeating, after the pause it asked for.
    Busy(Trouble, Option<Duration>),
    /// llama.cpp could not read what the model wrote: asked again once.
    FormatSlip,
    /// No model server's answer: asked again once.
    Odd(String),
    Final(ModelError),
}

/// What went wrong, for the log, and the server's own words, which only go to who asked.
struct Trouble {
    what: String,
    words: String,
}

impl From<String> for Trouble {
    fn from(what: String) -> Self {
        Self { what, words: String::new() }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)?;
        if self.words.is_empty() { Ok(()) } else { write!(out, ": {}", self.words) }
    }
}

impl Client {
    /// Makes a client. Nothing is asked yet.
    ///
    /// # Errors
    /// When address, key or certificates can't be used.
    pub fn new(endpoint: Endpoint, settings: Settings) -> Result<Self, SetUpError> {
        let transport = Transport::new(endpoint, settings.request_timeout)?;
        Ok(Self { transport, settings, pause: Arc::new(TokioPause), clock: Arc::new(SystemClock) })
    }

    /// The same client with other ways to wait and to tell the time.
    #[must_use]
    pub fn with_time(self, pause: Arc<dyn Pause>, clock: Arc<dyn Clock>) -> Self {
        Self { pause, clock, ..self }
    }

    async fn ask(&self, body: Bytes) -> Meaning {
        match self.transport.post(body).await {
            Ok(answer) => self.meaning(&answer),
            Err(NoAnswer::Broken(why)) => Meaning::Busy(why.into(), None),
            Err(NoAnswer::TooLarge) => Meaning::Odd("the answer is above 32 MiB".to_owned()),
        }
    }

    fn meaning(&self, answer: &Answer) -> Meaning {
        if (200..300).contains(&answer.status) {
            return read_success(answer);
        }
        let complaint = Complaint::read(&answer.body);
        let said = Trouble { what: format!("HTTP {}", answer.status), words: complaint.excerpt() };
        match answer.status {
            500..=599 if complaint.is_format_slip() => Meaning::FormatSlip,
            _ if complaint.is_context_full() => Meaning::Final(ModelError::ContextFull(complaint.excerpt())),
            500..=599 if complaint.refuses_the_request() => Meaning::Final(self.refused(&said)),
            408 | 429 | 500..=599 => Meaning::Busy(said, self.asked_pause(answer)),
            300..=399 => {
                let to = answer.location.as_ref().and_then(|to| reqwest::Url::parse(to).ok()).map(|to| super::transport::shown(&to));
                let to = to.unwrap_or_else(|| "elsewhere".to_owned());
                Meaning::Odd(format!("{}, a redirect to {to}, which is not followed", said.what))
            }
            401 | 403 => Meaning::Final(ModelError::Refused(format!("{} says {said}; check the model's API key", self.transport.shown()))),
            404 => Meaning::Final(ModelError::Refused(format!(
                "{} says {said}; check the address and that the server knows the model `{}`",
                self.transport.shown(),
                self.settings.name
            ))),
            _ => Meaning::Final(self.refused(&said)),
        }
    }

    fn refused(&self, said: &Trouble) -> ModelError {
        ModelError::Refused(format!("{} says {said}", self.transport.shown()))
    }

    /// `Retry-After` in seconds or as an HTTP date, at most [`Settings::longest_retry_after`]; none for a moment that is over.
    fn asked_pause(&self, answer: &Answer) -> Option<Duration> {
        let text = answer.retry_after.as_deref()?.trim();
        let asked = match text.parse::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
            Err(_) => {
                let form = format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");
                let moment = PrimitiveDateTime::parse(text, form).ok()?.assume_utc();
                let wait_ms = moment.unix_timestamp().saturating_mul(1_000).saturating_sub(self.clock.now_ms());
                Duration::from_millis(u64::try_from(wait_ms).ok()?)
            }
        };
        (!asked.is_zero()).then(|| asked.min(self.settings.longest_retry_after))
    }
}

#[async_trait]
impl Model for Client {
    async fn turn(&self, request: &TurnRequest) -> Result<Turn, ModelError> {
        let body = serde_json::to_vec(&self.settings.body(request)).map_err(|error| ModelError::Refused(error.to_string()))?;
        let body = Bytes::from(body);
        let (mut repetitions, mut slipped, mut was_odd) = (0, false, false);
        loop {
            let pause = match self.ask(body.clone()).await {
                Meaning::Turn(turn) => return Ok(*turn),
                Meaning::Final(error) => return Err(error),
                Meaning::FormatSlip if slipped => return Err(ModelError::FormatSlip),
                Meaning::FormatSlip => {
                    slipped = true;
                    tracing::warn!("the server could not read what the model wrote; asking again");
                    continue;
                }
                Meaning::Odd(why) if was_odd => {
                    return Err(ModelError::NotAModel(format!("{}: {why}; check the model's address", self.transport.shown())));
                }
                Meaning::Odd(why) => {
                    was_odd = true;
                    tracing::warn!(why, "the model's server gave an odd answer; asking again");
                    self.settings.backoff(1, self.pause.jitter())
                }
                Meaning::Busy(why, _) if repetitions >= self.settings.retries => {
                    let tries = repetitions + 1;
                    return Err(ModelError::Down(format!("{} after {tries} tries: {why}", self.transport.shown())));
                }
                Meaning::Busy(why, asked) => {
                    repetitions += 1;
                    tracing::warn!(why = why.what, repetitions, "the model's server is busy or gone; asking again");
                    asked.unwrap_or_else(|| self.settings.backoff(repetitions, self.pause.jitter()))
                }
            };
            self.pause.pause(pause).await;
        }
    }

    async fn is_up(&self) -> bool {
        self.transport.is_up().await
    }

    fn parse_tool_calls(&self) -> ParseToolCalls {
        self.settings.parse_tool_calls
    }

    fn name(&self) -> &str {
        &self.settings.name
    }
}

fn read_success(answer: &Answer) -> Meaning {
    match read_turn(&answer.body) {
        Ok(turn) if turn.finish_reason.eq_ignore_ascii_case("abort") => {
            Meaning::Busy("the server aborted the turn".to_owned().into(), None)
        }
        Ok(turn) => Meaning::Turn(Box::new(turn)),
        Err(_) if looks_like_html(&String::from_utf8_lossy(&answer.body[..answer.body.len().min(256)])) => {
            Meaning::Odd(format!("HTTP {} with a web page of {} bytes", answer.status, answer.body.len()))
        }
        Err(why) => {
            let complaint = Complaint::read(&answer.body);
            if complaint.is_context_full() {
                return Meaning::Final(ModelError::ContextFull(complaint.excerpt()));
            }
            Meaning::Odd(format!("HTTP {}, {} bytes of `{}`: {why}", answer.status, answer.body.len(), answer.content_type))
        }
    }
}
