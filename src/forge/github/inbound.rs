//! Deliveries of GitHub and GitHub Enterprise Server (forges.md, sections 2.1 and 2.2).

use secrecy::SecretString;

use crate::domain::{Event, Verb, same_label};
use crate::forge::payload::{Asked, Payload, ignore};
use crate::forge::rows::{IssueRow, Label};
use crate::forge::signature::{Secrets, Unproved, claimed, delivery_id, event_name, form_payload, is_form};
use crate::forge::{Headers, NotVerified, OwnAccounts, VerifiedDelivery};

/// How one GitHub speaks to us.
#[derive(Debug, Clone)]
pub struct Inbound {
    forge: String,
    secrets: Secrets,
    trigger_label: String,
    myself: OwnAccounts,
}

impl Inbound {
    /// `forge` is the entry's name in the configuration, `myself` our own accounts there.
    ///
    /// # Errors
    /// A sentence when there is no secret, or an empty one.
    pub fn new(forge: String, secrets: Vec<SecretString>, trigger_label: String, myself: impl Into<OwnAccounts>) -> Result<Self, String> {
        Ok(Self { secrets: Secrets::new(&forge, secrets)?, forge, trigger_label, myself: myself.into() })
    }

    /// One that has no secret and so believes nothing: it only reads what deliveries claim.
    pub fn reader(forge: String, trigger_label: String, myself: impl Into<OwnAccounts>) -> Self {
        Self { secrets: Secrets::none(), forge, trigger_label, myself: myself.into() }
    }

    fn is_trigger(&self, label: &Label) -> bool {
        same_label(&label.name, &self.trigger_label)
    }

    fn asked(&self, event: &str, payload: &Payload) -> Result<Asked, String> {
        if matches!(event, "installation" | "installation_repositories") {
            return Ok((Verb::Admin, format!("the app's installation changed ({})", payload.text("action")?)));
        }
        if let Some(ignored) = payload.sent_by_ourselves(&self.myself) {
            return Ok(ignored);
        }
        match event {
            "issues" => self.issues(payload),
            "issue_comment" => comments(payload),
            "pull_request" => pull_request(payload),
            "pull_request_review" => review(payload, "submitted"),
            "pull_request_review_comment" => review(payload, "created"),
            "label" => self.label(payload),
            "ping" => Ok(ignore("the hook was made or tested (ping)")),
            "" => Ok(ignore("the delivery names no event (header X-GitHub-Event)")),
            other => Ok(ignore(format!("events `{other}` are not used"))),
        }
    }

    fn issues(&self, payload: &Payload) -> Result<Asked, String> {
        let trigger = &self.trigger_label;
        if payload.has("/issue/pull_request") {
            return Ok(ignore("labels on pull requests start nothing: put the label on an issue"));
        }
        Ok(match payload.text("action")? {
            "labeled" if !self.is_trigger(&payload.needed("label")?) => ignore(format!("the label that was added is not `{trigger}`")),
            "labeled" if payload.is_sent_by_bot() => ignore("a bot added the label: a person has to"),
            "labeled" => (Verb::Start, format!("the label `{trigger}` was added")),
            "unlabeled" if self.is_trigger(&payload.needed("label")?) => (Verb::Cancel, format!("the label `{trigger}` was taken off")),
            "unlabeled" => ignore(format!("the label that was taken off is not `{trigger}`")),
            "opened" if payload.has("/changes/old_issue") => {
                ignore(format!("the issue was transferred here: take the label `{trigger}` off and put it on again to start"))
            }
            "opened" if !payload.needed::<IssueRow>("issue")?.labels.iter().any(|label| self.is_trigger(label)) => {
                ignore(format!("the issue was opened without the label `{trigger}`"))
            }
            "opened" if payload.is_sent_by_bot() => ignore("a bot opened the issue with the label: a person has to add it"),
            "opened" => (Verb::Start, format!("the issue was opened with the label `{trigger}`")),
            action @ ("closed" | "deleted" | "transferred" | "locked") => (Verb::Cancel, format!("the issue was {action}")),
            "reopened" => ignore("reopening starts nothing: take the label off and on, or write `/frognano retry`"),
            "edited" => ignore("the issue was edited: later edits do not reach a run"),
            "" => ignore("the payload names no action"),
            action => ignore(format!("action `{action}` of an issue is not used")),
        })
    }

    fn label(&self, payload: &Payload) -> Result<Asked, String> {
        let is_trigger = |at: &str| same_label(payload.text_at(at), &self.trigger_label);
        let (is, was) = (is_trigger("/label/name"), is_trigger("/changes/name/from"));
        Ok(match payload.text("action")? {
            "deleted" if is => (Verb::Recheck, format!("the label `{}` itself was deleted from the repository", self.trigger_label)),
            "edited" if payload.has("/changes/name/from") && is != was => {
                (Verb::Recheck, format!("a label was renamed from or to `{}`", self.trigger_label))
            }
            _ => ignore("the repository's list of labels changed, but the trigger label was not deleted or renamed"),
        })
    }
}

impl crate::forge::Inbound for Inbound {
    fn verify(&self, headers: &Headers, body: &[u8]) -> Result<VerifiedDelivery, NotVerified> {
        let digest = claimed(headers, &[("x-hub-signature-256", "sha256=")])?;
        self.secrets.open(body, digest, self.claims(headers, body))
    }

    fn claims(&self, headers: &Headers, body: &[u8]) -> Unproved {
        let json = if is_form(headers, body) { form_payload(body).unwrap_or_default() } else { body.to_vec() };
        let id = delivery_id(headers, &["x-github-delivery"], body);
        Unproved { id, event: event_name(headers, &["x-github-event"]), body: json }
    }

    fn read(&self, event: &str, body: &[u8]) -> Result<Event, String> {
        let payload = Payload::parse(body)?;
        let about_issue = !matches!(event, "installation" | "installation_repositories" | "label");
        payload.event(&self.forge, self.asked(event, &payload)?, about_issue)
    }
}

fn comments(payload: &Payload) -> Result<Asked, String> {
    match payload.text("action")? {
        "created" => payload.comment(payload.has("/issue/pull_request")),
        action => Ok(ignore(format!("a comment was {action}: only new comments count"))),
    }
}

fn pull_request(payload: &Payload) -> Result<Asked, String> {
    Ok(match payload.text("action")? {
        "closed" if payload.has("/pull_request/merged_at") || payload.is_true("/pull_request/merged") => {
            (Verb::Finish, "the pull request was merged".to_owned())
        }
        "closed" => (Verb::Finish, "the pull request was closed without merging".to_owned()),
        "ready_for_review" => (Verb::Finish, "the pull request is no draft any more".to_owned()),
        "labeled" | "unlabeled" => ignore("labels on pull requests start nothing: put the label on an issue"),
        action => ignore(format!("action `{action}` of a pull request is not used")),
    })
}

fn review(payload: &Payload, counts: &str) -> Result<Asked, String> {
    Ok(match payload.text("action")? {
        _ if payload.is_sent_by_bot() => ignore("the review was written by a bot"),
        action if action == counts => (Verb::Feedback, "a person reviewed a pull request".to_owned()),
        action => ignore(format!("a review was {action}: only new reviews count")),
    })
}
