//! Deliveries of Gitea and Forgejo (forges.md, sections 4.1, 4.2 and 5).
//!
//! A label event does not say which label was put on or taken off, and its list may be stale: it only asks to read the issue again.

use secrecy::SecretString;

use super::{Kind, is_draft_title};
use crate::domain::{Event, Verb, same_label};
use crate::forge::payload::{Asked, Payload, ignore};
use crate::forge::rows::IssueRow;
use crate::forge::signature::{Secrets, Unproved, claimed, delivery_id, event_name, form_payload, is_form};
use crate::forge::{Headers, NotVerified, OwnAccounts, VerifiedDelivery};

/// How one Gitea or Forgejo speaks to us.
#[derive(Debug, Clone)]
pub struct Inbound {
    forge: String,
    kind: Kind,
    secrets: Secrets,
    trigger_label: String,
    myself: OwnAccounts,
}

/// The headers in the order in which they are asked. Both forges send their forerunners' headers with the same values too; that of
/// GitHub is the last resort behind proxies that let through only what they know.
struct Names {
    signature: &'static [(&'static str, &'static str)],
    event: &'static [&'static str],
    delivery: &'static [&'static str],
}

const GITEA: Names = Names {
    signature: &[("x-gitea-signature", ""), ("x-hub-signature-256", "sha256=")],
    event: &["x-gitea-event", "x-github-event"],
    delivery: &["x-gitea-delivery", "x-github-delivery"],
};

const FORGEJO: Names = Names {
    signature: &[("x-forgejo-signature", ""), ("x-gitea-signature", ""), ("x-hub-signature-256", "sha256=")],
    event: &["x-forgejo-event", "x-gitea-event", "x-github-event"],
    delivery: &["x-forgejo-delivery", "x-gitea-delivery", "x-github-delivery"],
};

impl Inbound {
    /// `forge` is the entry's name in the configuration, `myself` our own accounts there.
    ///
    /// # Errors
    /// A sentence when there is no secret, or an empty one.
    pub fn new(
        forge: String,
        kind: Kind,
        secrets: Vec<SecretString>,
        trigger_label: String,
        myself: impl Into<OwnAccounts>,
    ) -> Result<Self, String> {
        Ok(Self { secrets: Secrets::new(&forge, secrets)?, forge, kind, trigger_label, myself: myself.into() })
    }

    /// One that has no secret and so believes nothing: it only reads what deliveries claim.
    pub fn reader(forge: String, kind: Kind, trigger_label: String, myself: impl Into<OwnAccounts>) -> Self {
        Self { secrets: Secrets::none(), forge, kind, trigger_label, myself: myself.into() }
    }

    const fn names(&self) -> &'static Names {
        match self.kind {
            Kind::Gitea => &GITEA,
            Kind::Forgejo => &FORGEJO,
        }
    }

    fn asked(&self, event: &str, payload: &Payload) -> Result<Asked, String> {
        if let Some(ignored) = payload.sent_by_ourselves(&self.myself) {
            return Ok(ignored);
        }
        match event {
            "issues" => self.issues(payload),
            "issue_comment" => comments(payload),
            "pull_request" => pull_request(payload),
            "pull_request_approved" | "pull_request_rejected" | "pull_request_comment" => review(payload),
            "push" => Ok(ignore("pushes are not used (the forge's \"Test Delivery\" is one too: the hook works)")),
            "" => Ok(ignore("the delivery names no event (header X-Gitea-Event)")),
            other => Ok(ignore(format!("events `{other}` are not used"))),
        }
    }

    fn issues(&self, payload: &Payload) -> Result<Asked, String> {
        let trigger = &self.trigger_label;
        if payload.has("/issue/pull_request") {
            return Ok(ignore("labels on pull requests start nothing: put the label on an issue"));
        }
        Ok(match payload.text("action")? {
            "label_updated" => (Verb::Recheck, "the labels changed, and the payload does not say how".to_owned()),
            "label_cleared" => (Verb::Cancel, "all labels were taken off".to_owned()),
            "opened" if payload.needed::<IssueRow>("issue")?.labels.iter().any(|label| same_label(&label.name, trigger)) => {
                (Verb::Recheck, format!("the issue was opened with the label `{trigger}`"))
            }
            "opened" => ignore(format!("the issue was opened without the label `{trigger}`")),
            action @ ("closed" | "deleted") => (Verb::Cancel, format!("the issue was {action}")),
            "reopened" => ignore("reopening starts nothing: take the label off and on, or write `/frognano retry`"),
            "edited" => ignore("the issue was edited: later edits do not reach a run"),
            action => ignore(format!("action `{action}` of an issue is not used")),
        })
    }
}

impl crate::forge::Inbound for Inbound {
    fn verify(&self, headers: &Headers, body: &[u8]) -> Result<VerifiedDelivery, NotVerified> {
        let digest = claimed(headers, self.names().signature)?;
        if is_form(headers, body) && form_payload(body).is_none() {
            return Err(NotVerified::Wrong);
        }
        let delivery = self.claims(headers, body);
        self.secrets.open(&delivery.body.clone(), digest, delivery)
    }

    fn claims(&self, headers: &Headers, body: &[u8]) -> Unproved {
        let names = self.names();
        let json = if is_form(headers, body) { form_payload(body).unwrap_or_default() } else { body.to_vec() };
        Unproved { id: delivery_id(headers, names.delivery, body), event: event_name(headers, names.event), body: json }
    }

    fn read(&self, event: &str, body: &[u8]) -> Result<Event, String> {
        let payload = Payload::parse(body)?;
        payload.event(&self.forge, self.asked(event, &payload)?, true)
    }
}

fn comments(payload: &Payload) -> Result<Asked, String> {
    match payload.text("action")? {
        "created" => payload.comment(payload.is_true("/is_pull") || payload.has("/issue/pull_request")),
        action => Ok(ignore(format!("a comment was {action}: only new comments count"))),
    }
}

fn pull_request(payload: &Payload) -> Result<Asked, String> {
    Ok(match payload.text("action")? {
        "closed" if payload.has("/pull_request/merged_at") || payload.is_true("/pull_request/merged") => {
            (Verb::Finish, "the pull request was merged".to_owned())
        }
        "closed" => (Verb::Finish, "the pull request was closed without merging".to_owned()),
        "edited" if is_draft(&payload.needed("pull_request")?) => ignore("the pull request was edited and is still a draft"),
        "edited" => (Verb::Finish, "the pull request was edited and is no draft any more".to_owned()),
        "label_updated" | "label_cleared" => ignore("labels on pull requests start nothing: put the label on an issue"),
        action => ignore(format!("action `{action}` of a pull request is not used")),
    })
}

fn is_draft(pull_request: &IssueRow) -> bool {
    pull_request.draft.unwrap_or_else(|| is_draft_title(pull_request.title()))
}

fn review(payload: &Payload) -> Result<Asked, String> {
    Ok(match payload.text("action")? {
        _ if payload.is_sent_by_bot() => ignore("the review was written by a bot"),
        "reviewed" => (Verb::Feedback, "a person reviewed a pull request".to_owned()),
        action => ignore(format!("action `{action}` of a review is not used")),
    })
}
