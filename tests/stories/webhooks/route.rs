//! The samples as they arrive: over HTTP, at the service's door, written down in its database.

use std::collections::HashMap;

use frognano_bot::app::{self, TimeIds};
use frognano_bot::config::Config;
use frognano_bot::demo::forge::{Delivery, deliver};
use frognano_bot::demo::{self, project};
use frognano_bot::domain::SystemClock;
use frognano_bot::forge::gitlab::Age;
use frognano_bot::store::Store;
use frognano_bot::web::{self, Access, Door, Gate, Pages, Rights, Roles};
use tokio_util::sync::CancellationToken;

use super::*;

/// A door for all four forges, and what stands behind it.
struct House {
    store: Store,
    address: String,
    stop: CancellationToken,
    _folder: tempfile::TempDir,
}

impl House {
    async fn new(secrets: &[&str], age: Age) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&format!("sqlite://{}", folder.path().join("inbox.sqlite").display())).await.unwrap();
        let secrets = secrets.iter().map(|secret| SecretString::from(*secret)).collect::<Vec<_>>();
        let inbound: HashMap<_, _> =
            FORGES.iter().map(|kind| ((*kind).to_owned(), ears(kind).believing(secrets.clone(), age.clone()).unwrap())).collect();
        let door = Door {
            inbound: Arc::new(inbound),
            store: store.clone(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(TimeIds),
            wake: Arc::default(),
            max_body_bytes: 1 << 20,
            gate: Gate::new(Access::Loopback, Rights::new(HashMap::new(), Roles::default()), "a story's secret", ""),
            pages: Pages::new(Arc::new(|| Box::pin(async { Vec::new() })), None, folder.path().join("runs")),
            operator_token: None,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/webhooks", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        tokio::spawn(web::serve(listener, web::routes(door), stop.clone()));
        Self { store, address, stop, _folder: folder }
    }

    async fn send(&self, kind: &str, headers: Headers, body: Vec<u8>) -> u16 {
        let delivery = Delivery { id: String::new(), what: String::new(), headers: headers.0, body: body.into() };
        deliver(&delivery, &format!("{}/{kind}", self.address)).await.unwrap()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The headers of this delivery under an id of its own.
fn numbered(kind: &str, event: &str, file: &str, body: &[u8], id: &str) -> Headers {
    let mut headers = signed(kind, event, file, body);
    let ids = ["Idempotency-Key", "X-GitHub-Delivery", "X-Gitea-Delivery", "X-Forgejo-Delivery"];
    for (name, value) in &mut headers.0 {
        if ids.contains(&name.as_str()) {
            id.clone_into(value);
        }
    }
    headers
}

#[tokio::test]
async fn every_row_of_the_manifest_is_taken_in_and_read_as_it_says() {
    let house = House::new(&[SECRET], Age::Any).await;
    let mut wrong = Vec::new();
    let rows = table("manifest.tsv", 4);
    assert_eq!(rows.len(), 112);
    for (at, row) in rows.iter().enumerate() {
        let [file, kind, event, expected] = &row[..] else { panic!("{row:?}") };
        let (body, id) = (fixture(file), format!("delivery-{at}"));
        let status = house.send(kind, numbered(kind, event, file, &body, &id), body).await;
        let kept = house.store.explained(kind, &id).await.unwrap();
        match kept {
            Some(kept) if status == 202 && kept.verb == *expected && !kept.why.is_empty() && kept.event == *event && kept.verified => {}
            kept => wrong.push(format!("{file}: expected {expected}, got {status} {kept:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn what_is_explained_is_kept_with_the_delivery() {
    let house = House::new(&[SECRET], Age::Any).await;
    let body = fixture("gitlab/note_issue_command.json");
    house.send("gitlab", numbered("gitlab", "Note Hook", "x.json", &body, "one"), body).await;
    let kept = house.store.explained("gitlab", "one").await.unwrap().unwrap();
    assert_eq!(kept.repository.as_deref(), Some("gitlab-org/gitlab-test"));
    assert_eq!((kept.issue, kept.actor.as_deref(), &*kept.verb), (Some(17), Some("dev-b"), "command"));
    assert_eq!(house.store.explained("gitlab", "two").await.unwrap(), None);
}

#[tokio::test]
async fn a_signed_body_that_is_no_json_is_refused_and_json_of_any_shape_is_kept() {
    let house = House::new(&[SECRET], Age::Any).await;
    let bodies: [(&[u8], u16); 9] = [
        (b"<html>", 400),
        (b"", 400),
        (b"{\"action\": ", 400),
        (b"{} {}", 400),
        (b"{\"title\": \"\xff\"}", 400),
        (b"[]", 202),
        (b"null", 202),
        (b"{\"issue\": \"a word\"}", 202),
        (b"{\"never\": {\"heard\": [\"of\"]}}", 202),
    ];
    for kind in FORGES {
        for (at, (body, expected)) in bodies.iter().enumerate() {
            let (id, event) = (format!("{kind}-{at}"), if kind == "gitlab" { "Issue Hook" } else { "issues" });
            let status = house.send(kind, numbered(kind, event, "x.json", body, &id), body.to_vec()).await;
            assert_eq!(status, *expected, "{kind}: {}", String::from_utf8_lossy(body));
            let kept = house.store.explained(kind, &id).await.unwrap();
            assert_eq!(kept.as_ref().map(|kept| kept.verb.as_str()), (*expected == 202).then_some("ignore"), "{kind}, {at}: {kept:?}");
        }
    }
}

#[tokio::test]
async fn a_signed_delivery_of_gitlab_is_refused_a_little_later() {
    let rows: Vec<_> = table("signatures.tsv", 4).into_iter().filter(|row| row[2].starts_with("webhook-")).collect();
    let (file, secret) = (&rows[0][0], &rows[0][1]);
    let mut headers = headers(&[("X-Gitlab-Event", "Issue Hook"), ("Content-Type", "application/json")]);
    headers.0.extend(rows[..3].iter().map(|row| (row[2].clone(), row[3].clone())));
    for (late, status) in [(0, 202), (299, 202), (301, 401), (-301, 401)] {
        let time: i64 = rows[1][3].parse().unwrap();
        let ears = Age::Fresh(Arc::new(At(time + late)));
        let house = House::new(&[secret], ears).await;
        assert_eq!(house.send("gitlab", headers.clone(), fixture(file)).await, status, "{late} s");
        let kept = house.store.explained("gitlab", &rows[0][3]).await.unwrap();
        assert_eq!(kept.is_some(), status == 202);
    }
}

#[tokio::test]
async fn what_our_own_account_does_is_not_heard_once_the_forge_has_named_it() {
    let house = crate::house::House::new(demo::Kind::Gitea).await;
    let issue = house.open_issue();
    let service = app::build(&Config::load(&house.write_config()).unwrap()).await.unwrap();
    let (store, door) = (service.store.clone(), format!("http://{}/webhooks/here", service.address));
    let stop = CancellationToken::new();
    let running = tokio::spawn(service.run(stop.clone()));
    house.until(|house| house.forge().count("GET", "*/user") > 0).await;
    let mut heard = Vec::new();
    // The answer may still be on its way to the service.
    for _ in 0..100 {
        let act = house.forge().set_label(project::PATH, issue, LABEL, project::BOT).unwrap().pop().unwrap();
        assert_eq!(deliver(&act, &door).await.unwrap(), 202);
        let explained = store.explained("here", &act.id).await.unwrap().unwrap();
        if explained.verb == "ignore" {
            assert!(explained.why.contains("our own account"), "{}", explained.why);
            stop.cancel();
            running.await.unwrap().unwrap();
            return;
        }
        heard.push(explained.verb);
        house.forge().remove_label(project::PATH, issue, LABEL, project::BOT).unwrap();
    }
    panic!("our own account was heard: {heard:?}");
}
