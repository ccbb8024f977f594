//! Deliveries of GitHub and GitHub Enterprise Server (forges.md, sections 2.1 and 2.2).

use secrecy::SecretString;

use crate::domain::{Event, Verb, same_label};
use crate::forge::payload::{Asked, Payload, ignore};
use crate::forge::rows::{IssueRow, Label, User};
use crate::forge::signature::{Secrets, Unproved, claimed, delivery_id, event_name, form_payload, is_form};
use crate::forge::{Headers, NotVerified, VerifiedDelivery};

/// How one GitHub speaks to us.
#[derive(Debug, Clone)]
pub struct Inbound {
    forge: String,
    secrets: Secrets,
    trigger_label: String,
    myself: Vec<String>,
}

impl Inbound {
    /// `forge` is the entry's name in the configuration, `myself` the logins of our own accounts there.
    ///
    /// # Errors
    /// A sentence when there is no secret, or an empty one.
    pub fn new(forge: String, secrets: Vec<SecretString>, trigger_label: String, myself: Vec<String>) -> Result<Self, String> {
        Ok(Self { secrets: Secrets::new(&forge, secrets)?, forge, trigger_label, myself })
    }

    fn is_trigger(&self, label: &Label) -> bool {
        same_label(&label.name, &self.trigger_label)
    }

    fn asked(&self, event: &str, payload: &Payload) -> Result<Asked, String> {
        if matches!(event, "installation" | "installation_repositories") {
            return Ok((Verb::Admin, format!("the app's installation changed ({})", payload.text("action")?)));
        }
        if let Some(own) = payload.sent_by_ourselves(&self.myself) {
            return Ok(ignore(format!("our own account `{own}` caused it")));
        }
        match event {
            "issues" => self.issues(payload),
            "issue_comment" => comments(payload),
            "pull_request" => pull_request(payload),
            "pull_request_review" => review(payload, "submitted"),
            "pull_request_review_comment" => review(payload, "created"),
            "label" => self.label(payload),
            "repository" if payload.text("action")? == "archived" => Ok((Verb::Cancel, "the repository was archived".to_owned())),
            "ping" => Ok(ignore("the hook was made or tested (ping)")),
            "" => Ok(ignore("the delivery names no event (header X-GitHub-Event)")),
            other => Ok(ignore(format!("events `{other}` are not used"))),
        }
    }

    fn issues(&self, payload: &Payload) -> Result<Asked, String> {
        let trigger = &self.trigger_label;
        Ok(match payload.text("action")? {
            "labeled" if !self.is_trigger(&payload.needed("label")?) => ignore(format!("the label that was added is not `{trigger}`")),
            "labeled" if sent_by_bot(payload)? => ignore("a bot added the label: a person has to"),
            "labeled" => (Verb::Start, format!("the label `{trigger}` was added")),
            "unlabeled" if self.is_trigger(&payload.needed("label")?) => (Verb::Cancel, format!("the label `{trigger}` was taken off")),
            "unlabeled" => ignore(format!("the label that was taken off is not `{trigger}`")),
            "opened" if payload.has("/changes/old_issue") => {
                ignore(format!("the issue was transferred here: take the label `{trigger}` off and put it on again to start"))
            }
            "opened" if !payload.needed::<IssueRow>("issue")?.labels.iter().any(|label| self.is_trigger(label)) => {
                ignore(format!("the issue was opened without the label `{trigger}`"))
            }
            "opened" if sent_by_bot(payload)? => ignore("a bot opened the issue with the label: a person has to add it"),
            "opened" => (Verb::Start, format!("the issue was opened with the label `{trigger}`")),
            action @ ("closed" | "deleted" | "transferred" | "locked") => (Verb::Cancel, format!("the issue was {action}")),
            "reopened" => ignore("reopening starts nothing: take the label off and on, or write `/frognano retry`"),
            "edited" => ignore("the issue was edited: later edits do not reach a run"),
            action => ignore(format!("action `{action}` of an issue is not used")),
        })
    }

    fn label(&self, payload: &Payload) -> Result<Asked, String> {
        Ok(match payload.text("action")? {
            "deleted" if self.is_trigger(&payload.needed("label")?) => {
                (Verb::Recheck, format!("the label `{}` itself was deleted from the repository", self.trigger_label))
            }
            _ => ignore("the repository's list of labels changed, but the trigger label was not deleted"),
        })
    }
}

impl crate::forge::Inbound for Inbound {
    fn verify(&self, headers: &Headers, body: &[u8]) -> Result<VerifiedDelivery, NotVerified> {
        let digest = claimed(headers, &[("x-hub-signature-256", "sha256=")])?;
        let json = if is_form(headers, body) { form_payload(body).unwrap_or_default() } else { body.to_vec() };
        let id = delivery_id(headers, &["x-github-delivery"], body);
        self.secrets.open(body, digest, Unproved { id, event: event_name(headers, &["x-github-event"]), body: json })
    }

    fn event(&self, delivery: &VerifiedDelivery) -> Result<Event, String> {
        let payload = Payload::parse(delivery.body())?;
        let about_issue = !matches!(delivery.event(), "installation" | "installation_repositories" | "label" | "repository");
        payload.event(&self.forge, self.asked(delivery.event(), &payload)?, about_issue)
    }
}

fn sent_by_bot(payload: &Payload) -> Result<bool, String> {
    Ok(payload.part::<User>("sender")?.is_some_and(|user| user.is_bot()))
}

fn comments(payload: &Payload) -> Result<Asked, String> {
    match payload.text("action")? {
        "created" => payload.comment(payload.has("/issue/pull_request")),
        action => Ok(ignore(format!("a comment was {action}: only new comments count"))),
    }
}

fn pull_request(payload: &Payload) -> Result<Asked, String> {
    Ok(match payload.text("action")? {
        "closed" if payload.has("/pull_request/merged_at") => (Verb::Finish, "the pull request was merged".to_owned()),
        "closed" => (Verb::Finish, "the pull request was closed without merging".to_owned()),
        "ready_for_review" => (Verb::Finish, "the pull request is no draft any more".to_owned()),
        "labeled" => ignore("labels on pull requests start nothing: put the label on an issue"),
        action => ignore(format!("action `{action}` of a pull request is not used")),
    })
}

fn review(payload: &Payload, counts: &str) -> Result<Asked, String> {
    Ok(match payload.text("action")? {
        _ if sent_by_bot(payload)? => ignore("the review was written by a bot"),
        action if action == counts => (Verb::Feedback, "a person reviewed a pull request".to_owned()),
        action => ignore(format!("a review was {action}: only new reviews count")),
    })
}
