//! Deliveries: which forge tells whom of what, in which bytes, signed how (forges.md, sections 2.1 and 4.1).

use std::sync::OnceLock;

use axum::body::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::Sha256;

use super::Kind;
use super::state::{Label, Spot, State};
use super::{Forge, gitea, github, gitlab};

/// A webhook request, ready to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The forge's id of it.
    pub id: String,
    /// The event and action, for people: `issues labeled`.
    pub what: String,
    /// All headers that the forge sends.
    pub headers: Vec<(String, String)>,
    /// The exact bytes that are signed.
    pub body: Bytes,
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Delivery").field("id", &self.id).field("what", &self.what).finish_non_exhaustive()
    }
}

impl Delivery {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Sends a delivery as the forge would, once and without following redirects; answers the status.
///
/// # Errors
/// When nothing answers at the address.
pub async fn deliver(delivery: &Delivery, url: &str) -> Result<u16, reqwest::Error> {
    let client = client()?;
    let mut request = client.post(url).body(delivery.body.clone());
    for (name, value) in &delivery.headers {
        request = request.header(name, value);
    }
    Ok(request.send().await?.status().as_u16())
}

impl Forge {
    /// Sends the deliveries of hooks that have an address, without waiting for their answers.
    pub(super) fn send_out(&self) {
        let post = std::mem::take(&mut self.state().post);
        for (url, delivery) in post {
            tokio::spawn(async move {
                if let Err(error) = deliver(&delivery, &url).await {
                    tracing::warn!(%error, what = delivery.what, "the demonstration forge could not send a delivery");
                }
            });
        }
    }
}

/// One client for all deliveries. It keeps no connection, for those would end with the runtime that made them.
fn client() -> Result<&'static reqwest::Client, reqwest::Error> {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    if let Some(client) = CLIENT.get() {
        return Ok(client);
    }
    // Refused when the program has chosen a provider already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).pool_max_idle_per_host(0).build()?;
    Ok(CLIENT.get_or_init(|| client))
}

/// What is told to the hooks of a repository.
#[derive(Debug, Clone)]
pub(super) enum News {
    Opened,
    Labelled(Label),
    Unlabelled(Label),
    Closed,
    Reopened,
    Locked,
    /// Deleted or transferred, in the forge's word.
    Gone(&'static str),
    Edited {
        title_from: Option<String>,
        body_from: Option<String>,
    },
    /// A reviewer has another state; with the reviewers as they were before (GitLab).
    Reviewed {
        before: Value,
    },
    Commented(u64),
    CommentEdited {
        id: u64,
        from: String,
    },
    /// Commits came to the branch of a pull request.
    Pushed {
        before: String,
    },
    /// GitLab alone tells of these so.
    Approved,
    Unapproved,
}

impl News {
    fn action(&self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Self::Opened, _) => "opened",
            (Self::Labelled(_) | Self::Unlabelled(_), Kind::Gitea | Kind::Forgejo) => "label_updated",
            (Self::Labelled(_), _) => "labeled",
            (Self::Unlabelled(_), _) => "unlabeled",
            (Self::Closed, _) => "closed",
            (Self::Reopened, _) => "reopened",
            (Self::Locked, _) => "locked",
            (Self::Gone(how), _) => how,
            (Self::Edited { .. } | Self::CommentEdited { .. }, _) => "edited",
            (Self::Reviewed { .. }, _) => "submitted",
            (Self::Commented(_), _) => "created",
            (Self::Pushed { .. }, Kind::Gitea | Kind::Forgejo) => "synchronized",
            (Self::Pushed { .. }, _) => "synchronize",
            (Self::Approved, _) => "approved",
            (Self::Unapproved, _) => "unapproved",
        }
    }

    pub(super) const fn comment(&self) -> Option<u64> {
        match self {
            Self::Commented(id) | Self::CommentEdited { id, .. } => Some(*id),
            _ => None,
        }
    }

    fn changes(&self) -> Option<Value> {
        let from = |text: &String| json!({ "from": text });
        match self {
            Self::Edited { title_from, body_from } => {
                let changed = [("title", title_from), ("body", body_from)];
                Some(changed.into_iter().filter_map(|(key, text)| Some((key.to_owned(), from(text.as_ref()?)))).collect())
            }
            Self::CommentEdited { from: text, .. } => Some(json!({ "body": from(text) })),
            _ => None,
        }
    }
}

impl State {
    /// Writes one delivery for each hook of the repository into the outbox. Gitea and Forgejo tell nobody that something was locked.
    pub(super) fn announce(&mut self, spot: Spot, by: &str, news: &News) {
        if self.kind.is_gitea_or_its_fork() && matches!(news, News::Locked) {
            return;
        }
        if self.kind == Kind::GitLab {
            for (url, delivery) in gitlab::hooks::deliveries(self, spot, by, news) {
                self.hand_over(url, delivery);
            }
            return;
        }
        let payload = self.payload(spot, by, news);
        let pretty = self.kind.is_gitea_or_its_fork();
        let body = if pretty { serde_json::to_vec_pretty(&payload) } else { serde_json::to_vec(&payload) };
        let body = Bytes::from(body.unwrap_or_default());
        let (event, event_type) = self.event_names(spot, news);
        for hook in self.repositories[spot.repository].hooks.clone() {
            let id = self.next_uuid();
            let headers = match self.kind {
                Kind::Gitea => gitea_headers(&["Gitea"], &id, event, event_type, &hook.secret, &body),
                Kind::Forgejo => gitea_headers(&["Forgejo", "Gitea"], &id, event, event_type, &hook.secret, &body),
                _ => github_headers(&id, event, hook.id, self.repositories[spot.repository].id, &hook.secret, &body),
            };
            let what = format!("{event} {}", news.action(self.kind));
            self.hand_over(hook.url, Delivery { id, what, headers, body: body.clone() });
        }
    }

    /// To the forge's own post where the hook has an address, else to whoever asks.
    fn hand_over(&mut self, url: Option<String>, delivery: Delivery) {
        match url {
            Some(url) => self.post.push((url, delivery)),
            None => self.outbox.push(delivery),
        }
    }

    /// The event in its collapsed and its exact form; GitHub knows only the first.
    fn event_names(&self, spot: Spot, news: &News) -> (&'static str, &'static str) {
        let is_pull = self.at(spot).1.pull.is_some();
        match (is_pull, news) {
            (false, News::Commented(_) | News::CommentEdited { .. }) => ("issue_comment", "issue_comment"),
            (true, News::Commented(_) | News::CommentEdited { .. }) => ("issue_comment", "pull_request_comment"),
            (false, News::Labelled(_) | News::Unlabelled(_)) => ("issues", "issue_label"),
            (true, News::Labelled(_) | News::Unlabelled(_)) => ("pull_request", "pull_request_label"),
            (true, News::Pushed { .. }) => ("pull_request", "pull_request_sync"),
            (false, _) => ("issues", "issues"),
            (true, _) => ("pull_request", "pull_request"),
        }
    }

    fn payload(&self, spot: Spot, by: &str, news: &News) -> Value {
        let (repository, issue) = self.at(spot);
        let mut payload = json!({ "action": news.action(self.kind) });
        let mut put = |key: &str, value: Value| payload[key] = value;
        let comment = news.comment().and_then(|id| issue.comments.iter().find(|comment| comment.id == id));
        let as_pull = comment.is_none() && issue.pull.is_some();
        match self.kind {
            Kind::Gitea | Kind::Forgejo => {
                if comment.is_none() {
                    put("number", issue.number.into());
                }
                match &issue.pull {
                    Some(pull) if as_pull => put("pull_request", gitea::shape::pull(self, repository, issue, pull)),
                    _ => put("issue", gitea::shape::issue(self, repository, issue)),
                }
                if let Some(comment) = comment {
                    put("comment", gitea::shape::comment(self, repository, issue, comment));
                    put("is_pull", issue.pull.is_some().into());
                }
                put("repository", gitea::shape::repository(self, repository, &issue.author));
                put("sender", gitea::shape::user(self, by));
            }
            _ => {
                match &issue.pull {
                    Some(pull) if as_pull => {
                        put("number", issue.number.into());
                        put("pull_request", github::shape::pull(self, repository, issue, pull));
                    }
                    _ => put("issue", github::shape::issue(self, repository, issue)),
                }
                if let News::Labelled(label) | News::Unlabelled(label) = news {
                    put("label", github::shape::label(self, repository, label));
                }
                if let Some(comment) = comment {
                    put("comment", github::shape::comment(self, repository, issue, comment));
                }
                put("repository", github::shape::repository(self, repository, ""));
                put("sender", github::shape::user(self, by));
            }
        }
        if let Some(changes) = news.changes() {
            payload["changes"] = changes;
        }
        payload
    }
}

/// Under its own names (`own`) and under those that it sends for readers of other forges.
pub(super) fn gitea_headers(own: &[&str], id: &str, event: &str, event_type: &str, secret: &str, body: &[u8]) -> Vec<(String, String)> {
    let sha256 = if secret.is_empty() { String::new() } else { hmac_sha256(secret, body) };
    let sha1 = if secret.is_empty() { String::new() } else { hmac_sha1(secret, body) };
    let mut headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    for brand in own.iter().chain(&["Gogs", "GitHub"]) {
        headers.push((format!("X-{brand}-Delivery"), id.to_owned()));
        headers.push((format!("X-{brand}-Event"), event.to_owned()));
        headers.push((format!("X-{brand}-Event-Type"), event_type.to_owned()));
    }
    for brand in own.iter().chain(&["Gogs"]) {
        headers.push((format!("X-{brand}-Signature"), sha256.clone()));
    }
    for brand in own.iter().chain(&["GitHub"]) {
        headers.push((format!("X-{brand}-Hook-Installation-Target-Type"), "repository".to_owned()));
    }
    headers.push(("X-Hub-Signature".to_owned(), format!("sha1={sha1}")));
    headers.push(("X-Hub-Signature-256".to_owned(), format!("sha256={sha256}")));
    headers
}

pub(super) fn github_headers(id: &str, event: &str, hook: u64, repository: u64, secret: &str, body: &[u8]) -> Vec<(String, String)> {
    let mut headers: Vec<_> = [
        ("Content-Type", "application/json"),
        ("User-Agent", "GitHub-Hookshot/demo"),
        ("X-GitHub-Delivery", id),
        ("X-GitHub-Event", event),
        ("X-GitHub-Hook-ID", &hook.to_string()),
        ("X-GitHub-Hook-Installation-Target-ID", &repository.to_string()),
        ("X-GitHub-Hook-Installation-Target-Type", "repository"),
        ("X-GitHub-Enterprise-Host", "127.0.0.1"),
        ("X-GitHub-Enterprise-Version", "3.19.0"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    if !secret.is_empty() {
        headers.push(("X-Hub-Signature".to_owned(), format!("sha1={}", hmac_sha1(secret, body))));
        headers.push(("X-Hub-Signature-256".to_owned(), format!("sha256={}", hmac_sha256(secret, body))));
    }
    headers
}

fn hmac_sha256(secret: &str, body: &[u8]) -> String {
    Hmac::<Sha256>::new_from_slice(secret.as_bytes())
        .map_or_else(|_| String::new(), |mac| hex::encode(mac.chain_update(body).finalize().into_bytes()))
}

fn hmac_sha1(secret: &str, body: &[u8]) -> String {
    Hmac::<Sha1>::new_from_slice(secret.as_bytes())
        .map_or_else(|_| String::new(), |mac| hex::encode(mac.chain_update(body).finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::hmac_sha256;

    /// The vector of GitHub's own documentation.
    #[test]
    fn signatures_are_those_of_the_documentation() {
        let signature = hmac_sha256("It's a Secret to Everybody", b"Hello, World!");
        assert_eq!(signature, "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
    }
}
