//! How things look as JSON; the names stay.

use serde_json::{Value, json};

use crate::store::{LogLine, OpenPullRequest, RepositoryRuns, RunDetail, RunRow};
use crate::web::Role;

pub(super) const fn role(role: Role) -> &'static str {
    match role {
        Role::Reader => "reader",
        Role::Auditor => "auditor",
        Role::Operator => "operator",
    }
}

pub(super) fn run(row: &RunRow) -> Value {
    json!({
        "run": row.name(), "job": row.id, "forge": row.forge, "repository": row.repo_path, "repository_id": row.repo_id, "issue": row.issue,
        "title": row.title, "requested_by": row.requested_by, "state": row.state, "stage": row.stage, "steps": row.steps,
        "queued_ms": row.queued_ms, "started_ms": row.started_ms, "ended_ms": row.done_ms, "outcome": row.outcome, "reason": row.reason,
        "detail": row.detail,
    })
}

pub(super) fn detail(detail: &RunDetail, trace: Option<(String, Option<String>)>) -> Value {
    let mut whole = run(&detail.row);
    let report = detail.report.as_deref().and_then(|report| serde_json::from_str::<Value>(report).ok());
    let stages = detail.checkpoint.stage_ms.iter().map(|(stage, took_ms)| json!({"stage": stage, "took_ms": took_ms})).collect::<Vec<_>>();
    let (trace, trace_url) = trace.unzip();
    let more = json!({
        "trace": trace, "trace_url": trace_url.flatten(),
        "issue_url": detail.issue_url, "issue_title": detail.text.title, "issue_body": detail.text.body,
        "base": detail.checkpoint.base.as_ref().map(ToString::to_string),
        "cancel_asked": detail.cancel.as_ref().map(|cancel| cancel.why.as_str()), "leases": detail.leases, "stages": stages, "report": report,
    });
    if let (Some(whole), Value::Object(more)) = (whole.as_object_mut(), more) {
        whole.extend(more);
    }
    whole
}

pub(super) fn line(line: &LogLine) -> Value {
    let event = &line.event;
    json!({"line": line.nth, "at_ms": event.at_ms, "kind": event.kind, "who": event.who.to_string(), "facts": event.facts})
}

pub(super) fn repository(row: &RepositoryRuns) -> Value {
    json!({"forge": row.repo.forge, "repository": row.repo.path, "repository_id": row.repo.id, "runs": row.runs})
}

pub(super) fn review(row: &OpenPullRequest) -> Value {
    json!({
        "forge": row.repo.forge, "repository": row.repo.path, "repository_id": row.repo.id, "issue": row.issue, "run": row.run,
        "pull_request": row.number, "state": row.state, "approved_by": row.approved_by, "opened_ms": row.opened_ms,
    })
}
