//! The model's server: one OpenAI-compatible endpoint inside the company's network.
//!
//! What must hold: nothing but the configured address is ever asked (no proxy of the environment, no redirect followed), no body and no key
//! reaches a log, and a server's fault never looks like a fault of the model ([`ModelError`] keeps the two apart).

mod answer;
mod client;
mod pause;
pub mod qwen;
mod rejection;
mod script;
mod settings;
mod transport;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::ParseToolCalls;

pub use client::Client;
pub use pause::{Pause, TokioPause};
pub use script::{Reply, RestartOn, Script, ScriptLine, ScriptUsage, Scripted};
pub use settings::Settings;
pub use transport::{Endpoint, SetUpError};

/// One request for a turn (leaf.md, "What the model is sent").
#[derive(Debug, Clone)]
pub struct TurnRequest {
    /// The messages as they go over the wire.
    pub messages: Vec<Value>,
    /// The tools as they go over the wire.
    pub tools: Value,
    /// The cap on generated tokens.
    pub max_completion_tokens: u64,
    /// The seed, where one is wanted.
    pub seed: Option<u64>,
}

/// A native tool call as the server gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The server's id of it; empty where it gave none (the loop makes one up from step and index).
    pub id: String,
    /// The name, untouched.
    pub name: String,
    /// The arguments as the server's text, untouched (objects are printed).
    pub arguments: String,
}

/// Token counts as the server gave them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub completion_tokens: u64,
    /// Both.
    pub total_tokens: u64,
}

/// One turn of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The text; empty for null or missing.
    pub content: String,
    /// The thinking, from `reasoning_content` or `reasoning`; empty for none.
    pub reasoning: String,
    /// The native tool calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// The server's word for why the turn ended; empty for none.
    pub finish_reason: String,
    /// None when the server gave none.
    pub usage: Option<Usage>,
    /// The server's `choices[0].message`, kept whole for the trajectory.
    pub raw: Value,
}

/// What a request can end in. The variant decides what the loop does.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The request does not fit the context: the run ends as `max_context_len` and keeps its work.
    #[error("the model's context is full: {0}")]
    ContextFull(String),
    /// The server is down or overloaded, after all retries: the queue waits, the fix has not failed.
    #[error("the model's server does not answer: {0}")]
    Down(String),
    /// The server refuses the request for another reason, after retries where they make sense: `llm_query_error`.
    #[error("the model's server refuses the request: {0}")]
    Refused(String),
    /// The server could not read what the model wrote, twice (llama.cpp's parser of tool calls): the model's slip, no outage.
    #[error("the model's server can't read what the model wrote")]
    FormatSlip,
    /// What answers is no model server (HTML, no JSON, no choices): a wrong address or a proxy's page.
    #[error("what answers at the model's address is no model server: {0}")]
    NotAModel(String),
}

/// Something that answers turns.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks for one turn; retries are inside.
    async fn turn(&self, request: &TurnRequest) -> Result<Turn, ModelError>;
    /// One cheap question whether the server is there (used while the queue waits for it).
    async fn is_up(&self) -> bool;
    /// Who reads the calls out of the model's text, as configured.
    fn parse_tool_calls(&self) -> ParseToolCalls {
        ParseToolCalls::Server
    }
    /// The model's name as configured, for the record.
    fn name(&self) -> &str;
}
