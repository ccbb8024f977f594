//! How the audit chain stands.

use axum::extract::State;
use axum::response::{IntoResponse as _, Json, Response};
use serde_json::json;

use super::down;
use crate::web::{Auditor, Door};

/// So many rows at the end of the chain are checked for an answer; the whole is checked by `frognano-bot audit verify --database`.
const TAIL: i64 = 1000;

pub(super) async fn state(State(door): State<Door>, Auditor(_): Auditor) -> Response {
    let (state, tail) = match (door.store.chain_state().await, door.store.check_tail(TAIL).await) {
        (Ok(state), Ok(tail)) => (state, tail),
        (Err(error), _) | (_, Err(error)) => return down(&error),
    };
    let signed = state.signed.map(|(row, at_ms, key)| json!({"row": row, "at_ms": at_ms, "key": key}));
    let broken = tail.1.map(|broken| json!({"row": broken.row, "why": broken.why}));
    Json(json!({
        "log": state.log, "rows": state.last, "waiting": state.waiting, "signed": signed,
        "end": {"checked": tail.0, "holds": broken.is_none(), "broken": broken},
    }))
    .into_response()
}
