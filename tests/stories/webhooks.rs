//! What the forges send: every sample of the contract is read as the contract says, every signature believed or refused.

#![allow(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod explain;
mod gitlab;
mod route;
mod variants;

use std::path::PathBuf;
use std::sync::Arc;

use frognano_bot::config::ForgeKind;
use frognano_bot::domain::{Clock, Event, Verb};
use frognano_bot::forge::gitlab::Age;
use frognano_bot::forge::{Ears, Headers, Inbound, NotVerified, hmac_sha256_hex};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_oneof, proptest};
use secrecy::SecretString;
use serde_json::{Value, json};

const SECRET: &str = "It's a Secret to Everybody";
const LABEL: &str = "frognano-fix";

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/webhooks").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of a table of fixtures, each with at least `columns` fields.
fn table(name: &str, columns: usize) -> Vec<Vec<String>> {
    let text = String::from_utf8(fixture(name)).unwrap();
    let rows: Vec<Vec<String>> = text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    assert!(rows.len() > 10 && rows.iter().all(|row| row.len() >= columns), "{name} is no table of {columns} columns");
    rows
}

const FORGES: [&str; 4] = ["github", "gitlab", "gitea", "forgejo"];

fn ears(kind: &str) -> Ears {
    let kinds = [ForgeKind::Github, ForgeKind::Gitlab, ForgeKind::Gitea, ForgeKind::Forgejo];
    let at = FORGES.iter().position(|forge| *forge == kind).unwrap();
    let myself = vec!["frognano[bot]".to_owned(), "frognano-bot".to_owned()];
    Ears { kind: kinds[at], name: kind.to_owned(), label: LABEL.to_owned(), myself: myself.into() }
}

fn inbound_with(kind: &str, secrets: &[&str]) -> Result<Arc<dyn Inbound>, String> {
    ears(kind).believing(secrets.iter().map(|secret| SecretString::from(*secret)).collect(), Age::Any)
}

/// A clock that stands still.
struct At(i64);

impl Clock for At {
    fn now_ms(&self) -> i64 {
        self.0 * 1000
    }
}

fn inbound(kind: &str) -> Arc<dyn Inbound> {
    inbound_with(kind, &[SECRET]).unwrap()
}

fn headers(list: &[(&str, &str)]) -> Headers {
    Headers(list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

/// The headers with which this forge would send this body.
fn signed(kind: &str, event: &str, file: &str, body: &[u8]) -> Headers {
    let is_form = file.ends_with(".form");
    let content = if is_form { "application/x-www-form-urlencoded" } else { "application/json" };
    const ID: &str = "5f1d7a3e-0000-4000-8000-000000000001";
    if kind == "gitlab" {
        return headers(&[("Content-Type", content), ("X-Gitlab-Event", event), ("Idempotency-Key", ID), ("X-Gitlab-Token", SECRET)]);
    }
    let digest = match kind {
        "github" => format!("sha256={}", hmac_sha256_hex(SECRET.as_bytes(), body)),
        _ if is_form => hmac_sha256_hex(SECRET.as_bytes(), &payload_of_form(body)),
        _ => hmac_sha256_hex(SECRET.as_bytes(), body),
    };
    let (prefix, signature) = match kind {
        "github" => ("X-GitHub", "X-Hub-Signature-256"),
        "gitea" => ("X-Gitea", "X-Gitea-Signature"),
        _ => ("X-Forgejo", "X-Forgejo-Signature"),
    };
    headers(&[("Content-Type", content), (&format!("{prefix}-Event"), event), (&format!("{prefix}-Delivery"), ID), (signature, &digest)])
}

fn payload_of_form(body: &[u8]) -> Vec<u8> {
    url::form_urlencoded::parse(body).find(|(key, _)| key == "payload").unwrap().1.into_owned().into_bytes()
}

fn read(kind: &str, event: &str, file: &str, body: &[u8]) -> Result<Event, String> {
    let inbound = inbound(kind);
    let delivery = inbound.verify(&signed(kind, event, file, body), body).unwrap();
    assert_eq!((delivery.id(), delivery.event()), ("5f1d7a3e-0000-4000-8000-000000000001", event));
    inbound.event(&delivery)
}

fn read_value(kind: &str, event: &str, payload: &Value) -> Result<Event, String> {
    read(kind, event, "made.json", payload.to_string().as_bytes())
}

fn sample(file: &str) -> Value {
    serde_json::from_slice(&fixture(file)).unwrap()
}

/// The forge whose rule a row of the signature tables is about.
fn forge_of(file: &str) -> &str {
    match file.split('/').next().unwrap_or_default() {
        "vectors" if file.ends_with(".txt") => "github",
        "vectors" => "gitlab",
        forge => forge,
    }
}

/// Each row is judged at its own time by a service that knows the secret of the row and another one of its kind.
fn verify_row(row: &[String], also: &[Vec<String>]) -> Result<(), NotVerified> {
    let [file, secret, header, value, ..] = row else { panic!("{row:?}") };
    let content = if file.ends_with(".form") { "application/x-www-form-urlencoded" } else { "application/json" };
    let mut all = vec![("content-type", content), (header.as_str(), value.as_str())];
    all.extend(also.iter().map(|row| (row[2].as_str(), row[3].as_str())));
    let time = all.iter().find(|(name, _)| *name == "webhook-timestamp").and_then(|(_, time)| time.parse().ok()).unwrap_or(0);
    let other = if secret.starts_with("whsec_") { "whsec_AAAA" } else { "another secret" };
    let secrets = [other, secret].map(SecretString::from).to_vec();
    let inbound = ears(forge_of(file)).believing(secrets, Age::Fresh(Arc::new(At(time)))).unwrap();
    inbound.verify(&headers(&all), &fixture(file)).map(drop)
}

/// The other headers that GitLab's signing scheme needs for this row.
fn rest_of_signing(row: &[String], rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let belongs = |other: &&Vec<String>| other[..2] == row[..2] && other[2] != row[2] && row[2].starts_with("webhook-");
    rows.iter().filter(belongs).cloned().collect()
}

#[test]
fn every_signature_of_the_table_is_believed_but_the_legacy_one() {
    let rows = table("signatures.tsv", 4);
    let (mut believed, mut legacy) = (0, 0);
    for row in &rows {
        let verified = verify_row(row, &rest_of_signing(row, &rows));
        if row[2] == "X-Hub-Signature" {
            // SHA-1 alone is refused by policy: signatures_reject.tsv has the same value.
            assert_eq!(verified, Err(NotVerified::Missing), "{row:?}");
            legacy += 1;
        } else {
            assert_eq!(verified, Ok(()), "{row:?}");
            believed += 1;
        }
    }
    assert_eq!((believed, legacy), (44, 2));
}

#[test]
fn every_signature_to_refuse_is_refused() {
    let (good, bad) = (table("signatures.tsv", 4), table("signatures_reject.tsv", 5));
    assert_eq!(bad.len(), 17);
    for row in bad {
        let refused = verify_row(&row, &rest_of_signing(&row, &good));
        assert!(refused.is_err() && refused != Err(NotVerified::Stale), "{row:?}: {refused:?}");
    }
}

#[test]
fn one_changed_bit_anywhere_is_refused() {
    let body = fixture("vectors/hello-world.txt");
    let inbound = inbound("github");
    let good = signed("github", "ping", "hello-world.txt", &body);
    for (at, bit) in (0..body.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut changed = body.clone();
        changed[at] ^= 1 << bit;
        assert_eq!(inbound.verify(&good, &changed), Err(NotVerified::Wrong));
    }
    assert!(inbound.verify(&good, &body).is_ok());
    let mut doubled = good;
    doubled.0.push(doubled.0.last().unwrap().clone());
    assert_eq!(inbound.verify(&doubled, &body), Err(NotVerified::Missing));
}

#[test]
fn without_a_secret_nothing_starts() {
    for kind in FORGES {
        for secrets in [&[][..], &[""][..], &[SECRET, ""][..]] {
            let complaint = inbound_with(kind, secrets).err().unwrap();
            assert!(complaint.contains(kind) && complaint.contains("secret") && !complaint.contains(SECRET), "{complaint}");
        }
    }
}

/// A sample, changes at JSON pointers (null for missing), the verb, and words of its reason.
type Case<'a> = (&'a str, Vec<(&'a str, Value)>, Verb, &'a str);

fn changed(file: &str, changes: &[(&str, Value)]) -> Value {
    let mut payload = sample(file);
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        payload.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    payload
}

fn all_hold(kind: &str, event: &str, cases: Vec<Case<'_>>) {
    for (file, changes, expected, words) in cases {
        match read_value(kind, event, &changed(file, &changes)) {
            Ok(read) if read.verb == expected && read.why.contains(words) => {}
            other => panic!("{file} {changes:?}: expected {expected:?} ({words}), got {other:?}"),
        }
    }
}

#[test]
fn a_trigger_holds_the_words_of_that_time() {
    let event = read("github", "issues", "x.json", &fixture("github/issues_labeled_trigger.json")).unwrap();
    let trigger = event.trigger.unwrap();
    assert_eq!((&*trigger.repo.forge, &*trigger.repo.id, &*trigger.repo.path), ("github", "186853002", "dev-a/Hello-World"));
    assert_eq!((trigger.number, &*trigger.title), (1, "Spelling error in the README file"));
    assert_eq!(trigger.body, "It looks like you accidently spelled 'commit' with two 't's.");
    assert_eq!(trigger.url, "https://github.com/dev-a/Hello-World/issues/1");
    let actor = event.actor.unwrap();
    assert_eq!((&*actor.id, &*actor.login, actor.is_bot), ("101", "dev-a", false));

    for row in table("manifest.tsv", 4).iter().filter(|row| row[0].contains("/issue")) {
        let event = read(&row[1], &row[2], &row[0], &fixture(&row[0])).unwrap();
        assert!(event.trigger.is_some_and(|trigger| trigger.number > 0 && trigger.repo.path.contains('/')), "{row:?}");
    }
}

#[test]
fn labels_compare_as_people_read_them() {
    let mut payload = sample("github/issues_labeled_trigger.json");
    for (name, verb) in [(" Frognano-FIX ", Verb::Start), ("frognano-fix-not", Verb::Ignore), ("", Verb::Ignore)] {
        payload["label"]["name"] = json!(name);
        assert_eq!(read_value("github", "issues", &payload).unwrap().verb, verb, "{name:?}");
    }
}

#[test]
fn our_own_account_is_never_heard() {
    for (kind, event, file) in [
        ("github", "issues", "github/issues_labeled_trigger.json"),
        ("github", "issues", "github/issues_unlabeled_trigger.json"),
        ("github", "issue_comment", "github/issue_comment_created_command.json"),
        ("gitea", "issues", "gitea/issues_label_updated_trigger.json"),
        ("gitea", "pull_request", "gitea/pull_request_closed.json"),
        ("forgejo", "issue_comment", "forgejo/issue_comment_created_command.json"),
    ] {
        let mut payload = sample(file);
        payload["sender"]["login"] = json!("Frognano-Bot");
        let event = read_value(kind, event, &payload).unwrap();
        assert_eq!(event.verb, Verb::Ignore, "{file}");
        assert!(event.why.contains("our own account"), "{}", event.why);
    }
}

#[test]
fn only_a_whole_first_line_by_a_person_is_a_command() {
    for (kind, file) in [("github", "github/issue_comment_created_command.json"), ("gitea", "gitea/issue_comment_created_command.json")] {
        let mut payload = sample(file);
        for (text, verb) in [
            ("/frognano status\r\nthanks", Verb::Command),
            ("/frognano retry --force", Verb::Ignore),
            ("> /frognano retry", Verb::Ignore),
            ("please\n/frognano retry", Verb::Ignore),
        ] {
            payload["comment"]["body"] = json!(text);
            assert_eq!(read_value(kind, "issue_comment", &payload).unwrap().verb, verb, "{kind} {text:?}");
        }
        payload["comment"]["body"] = json!("/frognano retry");
        payload["comment"]["user"] = json!({"id": -2, "login": "actions-user"});
        assert_eq!(read_value(kind, "issue_comment", &payload).unwrap().verb, Verb::Ignore, "{kind}: a system user");
    }
    let mut through_app = sample("github/issue_comment_created_command.json");
    through_app["comment"]["performed_via_github_app"] = json!({"id": 1});
    assert_eq!(read_value("github", "issue_comment", &through_app).unwrap().verb, Verb::Ignore);
}

#[test]
fn merged_and_closed_are_told_apart() {
    for (kind, file, words) in [
        ("github", "github/pull_request_merged.json", "was merged"),
        ("github", "github/pull_request_closed_unmerged.json", "without merging"),
        ("gitea", "gitea/pull_request_merged.json", "was merged"),
        ("gitea", "gitea/pull_request_closed.json", "without merging"),
        ("forgejo", "forgejo/pull_request_merged.json", "was merged"),
        ("forgejo", "forgejo/pull_request_closed.json", "without merging"),
    ] {
        let event = read(kind, "pull_request", file, &fixture(file)).unwrap();
        assert!(event.why.contains(words), "{file}: {}", event.why);
        assert!(event.trigger.is_some_and(|pull| pull.number > 0), "{file}");
    }
    let mut edited = sample("forgejo/pull_request_edited.json");
    edited["pull_request"]["title"] = json!("WIP: Adjust file");
    assert_eq!(read_value("forgejo", "pull_request", &edited).unwrap().verb, Verb::Ignore, "still a draft");
}

#[test]
fn unknown_events_actions_and_fields_are_ignored() {
    for kind in ["github", "gitea", "forgejo"] {
        for (event, payload) in [
            ("", json!({})),
            ("star", json!({"action": 7, "sender": "x", "issue": []})),
            ("issues", json!({"action": "frobnicated", "issue": {"number": "seven"}})),
            ("pull_request", json!({"action": "frobnicated"})),
            ("issue_comment", json!({"action": "frobnicated", "comment": null})),
        ] {
            let read = read_value(kind, event, &payload).unwrap();
            assert_eq!(read.verb, Verb::Ignore, "{kind} {event}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_complained_about_in_a_sentence() {
    for kind in ["github", "gitea", "forgejo"] {
        assert!(read(kind, "issues", "x.json", b"<html>").unwrap_err().contains("not JSON"));
        assert!(read(kind, "issues", "x.json", b"").unwrap_err().contains("not JSON"));
        for (payload, words) in [
            (json!({"action": "closed"}), "names no issue"),
            (json!({"action": "closed", "issue": {"number": 1}}), "no `repository`"),
            (json!({"action": "closed", "issue": {"number": "one"}, "repository": {"id": 1, "full_name": "o/n"}}), "`issue`"),
            (json!({"action": "closed", "issue": {}, "repository": {"id": 1, "full_name": "o/n"}}), "no number"),
            (json!({"action": []}), "`action`"),
        ] {
            let complaint = read_value(kind, "issues", &payload).unwrap_err();
            assert!(complaint.contains(words), "{kind} {payload}: {complaint}");
        }
    }
}

#[test]
fn issue_numbers_are_large_and_bodies_may_be_null() {
    let mut payload = sample("github/issues_labeled_trigger.json");
    payload["issue"]["number"] = json!(5_000_000_000_i64);
    payload["issue"]["body"] = Value::Null;
    let trigger = read_value("github", "issues", &payload).unwrap().trigger.unwrap();
    assert_eq!((trigger.number, &*trigger.body), (5_000_000_000, ""));
}

#[test]
fn a_forgejo_delivery_with_only_giteas_headers_is_read() {
    let body = fixture("forgejo/issues_label_updated_trigger.json");
    let inbound = inbound("forgejo");
    let delivery = inbound.verify(&signed("gitea", "issues", "x.json", &body), &body).unwrap();
    assert_eq!(inbound.event(&delivery).unwrap().verb, Verb::Recheck);
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "labeled",
        "label_updated",
        "opened",
        "closed",
        "created",
        "reviewed",
        "edited",
        "issue",
        "note",
        "merge_request",
        "update",
        "open",
        "close",
        "Issue",
        "/frognano retry",
        LABEL,
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "action",
        "issue",
        "label",
        "labels",
        "comment",
        "pull_request",
        "repository",
        "sender",
        "number",
        "id",
        "name",
        "full_name",
        "login",
        "user",
        "body",
        "title",
        "changes",
        "old_issue",
        "type",
        "draft",
        "object_kind",
        "object_attributes",
        "iid",
        "project",
        "path_with_namespace",
        "previous",
        "current",
        "noteable_type",
        "note",
    ]);
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(keys.clone().prop_map(str::to_owned), inner, 0..8).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn any_event() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "issues",
        "issue_comment",
        "pull_request",
        "pull_request_review",
        "pull_request_comment",
        "label",
        "installation",
        "push",
        "Issue Hook",
        "Note Hook",
        "Merge Request Hook",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_json_makes_it_panic_or_start_without_an_issue(payload in any_json(), event in any_event()) {
        for kind in FORGES {
            if let Ok(read) = read_value(kind, event, &payload) {
                let needs_issue = matches!(read.verb, Verb::Start | Verb::Cancel | Verb::Command | Verb::Feedback | Verb::Finish);
                prop_assert!(!needs_issue || read.trigger.is_some());
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(body in any::<Vec<u8>>(), event in any_event(), form in any::<bool>()) {
        let content = if form { "application/x-www-form-urlencoded" } else { "application/json" };
        let digest = hmac_sha256_hex(SECRET.as_bytes(), &body);
        for kind in FORGES {
            let headers = headers(&[
                ("x-gitlab-token", SECRET),
                ("x-gitlab-event", event),
                ("content-type", content),
                ("x-hub-signature-256", &format!("sha256={digest}")),
                ("x-github-event", event),
            ]);
            let inbound = inbound(kind);
            if let Ok(delivery) = inbound.verify(&headers, &body) {
                let _ = inbound.event(&delivery);
            }
        }
    }
}
