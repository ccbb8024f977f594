//! Deliveries of GitLab (forges.md, sections 3.1 and 3.2).
//!
//! What must hold: a label counts only as the difference of an `update` (closing and reopening repeat the last one) or as part of an `open`;
//! what only some may see, confidential issues and internal notes, starts nothing.

use secrecy::SecretString;

use super::payload::{actor, event, has_label, is_bot, is_confidential, is_draft_title, kind, wants_changes};
use super::proof::{Age, Proof};
use crate::domain::{Event, Verb};
use crate::forge::payload::{Asked, Payload, asked_by_words, ignore};
use crate::forge::signature::{Unproved, delivery_id, event_name};
use crate::forge::{Headers, NotVerified, OwnAccounts, VerifiedDelivery};

/// How one GitLab speaks to us.
pub struct Inbound {
    forge: String,
    proof: Proof,
    trigger_label: String,
    myself: OwnAccounts,
}

impl Inbound {
    /// `forge` is the entry's name in the configuration, `myself` our own accounts there. Secrets that begin with `whsec_` are signing
    /// tokens, all others are secret tokens; where both kinds are given, a delivery must have both.
    ///
    /// # Errors
    /// A sentence when there is no secret, or one that proves nothing.
    pub fn new(
        forge: String,
        secrets: Vec<SecretString>,
        trigger_label: String,
        myself: impl Into<OwnAccounts>,
        age: Age,
    ) -> Result<Self, String> {
        Ok(Self { proof: Proof::new(&forge, secrets, age)?, forge, trigger_label, myself: myself.into() })
    }

    /// One that has no secret and so believes nothing: it only reads what deliveries claim.
    pub fn reader(forge: String, trigger_label: String, myself: impl Into<OwnAccounts>) -> Self {
        Self { proof: Proof::none(), forge, trigger_label, myself: myself.into() }
    }

    fn asked(&self, event: &str, kind: &str, payload: &Payload) -> Asked {
        if kind == "access_token" {
            return (
                Verb::Admin,
                format!("an access token expires on {}: make a new one", payload.text_at("/object_attributes/expires_at")),
            );
        }
        if let Some(own) = actor(payload).filter(|actor| self.myself.has(actor)) {
            return ignore(format!("our own account `{}` caused it", own.login));
        }
        match kind {
            "issue" | "work_item" => self.issue(event, kind, payload),
            "note" => note(event, payload),
            "merge_request" => merge_request(payload),
            "emoji" => ignore("reactions are not used"),
            "push" | "tag_push" => ignore("pushes are not used"),
            "" => ignore("the delivery names no event (header X-Gitlab-Event, object_kind in the body)"),
            other => ignore(format!("events `{other}` are not used")),
        }
    }

    fn issue(&self, event: &str, kind: &str, payload: &Payload) -> Asked {
        if payload.is_true("/changes/confidential/current") && payload.text_at("/object_attributes/action") == "update" {
            return (Verb::Cancel, "the issue became confidential: a branch or merge request would show it".to_owned());
        }
        if is_confidential(event, payload) {
            return ignore("the issue is confidential: a branch or merge request would show it");
        }
        let its_type = payload.text_at("/object_attributes/type");
        if !its_type.is_empty() && !its_type.eq_ignore_ascii_case("issue") {
            return ignore(format!("it is a work item of type `{its_type}`: put the label on an issue"));
        }
        match self.issue_of_known_type(payload) {
            (Verb::Start, why) if kind == "work_item" && its_type.is_empty() => {
                (Verb::Recheck, format!("{why}, but the payload does not say that the work item is an issue"))
            }
            asked => asked,
        }
    }

    fn issue_of_known_type(&self, payload: &Payload) -> Asked {
        let trigger = &self.trigger_label;
        match payload.text_at("/object_attributes/action") {
            "open" if !self.is_opened_with_label(payload) => ignore(format!("the issue was opened without the label `{trigger}`")),
            "open" if sent_by_bot(payload) => ignore("a bot opened the issue with the label: a person has to add it"),
            "open" => (Verb::Start, format!("the issue was opened with the label `{trigger}`")),
            "update" => self.update(payload),
            "close" if payload.has("/object_attributes/moved_to_id") => (Verb::Cancel, "the issue was moved to another project".to_owned()),
            "close" => (Verb::Cancel, "the issue was closed".to_owned()),
            "delete" | "destroy" => (Verb::Cancel, "the issue was deleted".to_owned()),
            "reopen" => ignore("reopening starts nothing: take the label off and on, or write `/frognano retry`"),
            "" => ignore("the payload names no action"),
            action => ignore(format!("action `{action}` of an issue is not used")),
        }
    }

    fn update(&self, payload: &Payload) -> Asked {
        let trigger = &self.trigger_label;
        let had = has_label(payload.at("/changes/labels/previous"), trigger);
        let has = has_label(payload.at("/changes/labels/current"), trigger);
        if payload.has("/changes/moved_to_id/current") {
            (Verb::Cancel, "the issue was moved to another project".to_owned())
        } else if payload.is_true("/changes/discussion_locked/current") {
            (Verb::Cancel, "the issue was locked".to_owned())
        } else if had && !has {
            (Verb::Cancel, format!("the label `{trigger}` was taken off"))
        } else if has && !had && sent_by_bot(payload) {
            ignore("a bot added the label: a person has to")
        } else if has && !had {
            (Verb::Start, format!("the label `{trigger}` was added"))
        } else if has {
            ignore(format!("other labels changed, the label `{trigger}` was there before"))
        } else if payload.has("/changes/labels") {
            ignore(format!("the labels that changed are not `{trigger}`"))
        } else {
            ignore("the issue was changed, but not its labels: later edits do not reach a run")
        }
    }

    fn is_opened_with_label(&self, payload: &Payload) -> bool {
        ["/labels", "/object_attributes/labels"].iter().any(|at| has_label(payload.at(at), &self.trigger_label))
    }
}

impl crate::forge::Inbound for Inbound {
    fn verify(&self, headers: &Headers, body: &[u8]) -> Result<VerifiedDelivery, NotVerified> {
        self.proof.open(headers, body, self.claims(headers, body))
    }

    /// `X-Gitlab-Event-UUID` is no id of a delivery: several share it. A resend of an old GitLab, which has no id, has the same body.
    fn claims(&self, headers: &Headers, body: &[u8]) -> Unproved {
        let names = if self.proof.is_signed() { ["webhook-id", "idempotency-key"] } else { ["idempotency-key", "webhook-id"] };
        Unproved { id: delivery_id(headers, &names, body), event: event_name(headers, &["x-gitlab-event"]), body: body.to_vec() }
    }

    fn read(&self, named: &str, body: &[u8]) -> Result<Event, String> {
        let payload = Payload::parse(body)?;
        let kind = kind(named, &payload);
        event(&self.forge, &kind, &payload, self.asked(named, &kind, &payload))
    }
}

fn sent_by_bot(payload: &Payload) -> bool {
    actor(payload).is_some_and(|actor| is_bot(&actor.login))
}

fn note(event: &str, payload: &Payload) -> Asked {
    if is_confidential(event, payload) {
        return ignore("the note is internal or its issue confidential: an answer would show it");
    }
    if payload.is_true("/object_attributes/system") {
        return ignore("GitLab wrote the note itself");
    }
    // Before GitLab 16.11 only new notes were sent, and without an action.
    let action = payload.text_at("/object_attributes/action");
    if !matches!(action, "" | "create") {
        return ignore(format!("action `{action}` of a note: only new notes count"));
    }
    if sent_by_bot(payload) {
        return ignore("the note was written by a bot: only people give commands");
    }
    let words = payload.text_at("/object_attributes/note");
    match payload.text_at("/object_attributes/noteable_type") {
        "Issue" | "WorkItem" => {
            let its_type = payload.text_at("/issue/type");
            let is_issue = its_type.is_empty() || its_type.eq_ignore_ascii_case("issue");
            if is_issue { asked_by_words(words, false) } else { ignore(format!("the note is on a work item of type `{its_type}`")) }
        }
        "MergeRequest" => asked_by_words(words, true),
        other => ignore(format!("notes on `{other}` are not used")),
    }
}

fn merge_request(payload: &Payload) -> Asked {
    match payload.text_at("/object_attributes/action") {
        "merge" => (Verb::Finish, "the merge request was merged".to_owned()),
        "close" => (Verb::Finish, "the merge request was closed without merging".to_owned()),
        "approved" | "approval" if sent_by_bot(payload) => ignore("the review was written by a bot"),
        "approved" | "approval" => (Verb::Feedback, "a person approved a merge request".to_owned()),
        "update" if is_no_draft_any_more(payload) => (Verb::Finish, "the merge request is no draft any more".to_owned()),
        "update" if wants_changes(payload) && sent_by_bot(payload) => ignore("the review was written by a bot"),
        "update" if wants_changes(payload) => (Verb::Feedback, "a reviewer wants a merge request changed".to_owned()),
        "update" if payload.has("/changes/labels") => ignore("labels on merge requests start nothing: put the label on an issue"),
        "update" => ignore("the merge request was changed in a way that is not used"),
        "" => ignore("the payload names no action"),
        action => ignore(format!("action `{action}` of a merge request is not used")),
    }
}

fn is_no_draft_any_more(payload: &Payload) -> bool {
    let was_draft = is_draft_title(payload.text_at("/changes/title/previous"));
    let title_lost_it = was_draft && payload.has("/changes/title/current") && !is_draft_title(payload.text_at("/changes/title/current"));
    title_lost_it || (payload.is_true("/changes/draft/previous") && *payload.at("/changes/draft/current") == serde_json::Value::Bool(false))
}
