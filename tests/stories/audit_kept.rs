//! What is kept for the auditor, how long, and that nobody bends it: not two workers at once, not a kill, not who holds the database.

use std::process::Command;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use frognano_bot::app::{self, TimeIds};
use frognano_bot::audit::{Export, Kind as What, Note, SigningKey};
use frognano_bot::config::Config;
use frognano_bot::demo::{Kind, init_bare, project};
use frognano_bot::domain::{Outcome, Permission};
use frognano_bot::store::{Doer, Made, Store};
use serde_json::json;
use sqlx::{AnyConnection, Connection as _, Row as _};

use crate::databases::Database;
use crate::house::{House, Service};

const DAY: i64 = 24 * 60 * 60 * 1000;

async fn texts(database: &str, query: &str) -> Vec<String> {
    let mut connection = AnyConnection::connect(database).await.unwrap();
    let rows = sqlx::query(sqlx::AssertSqlSafe(query)).fetch_all(&mut connection).await;
    connection.close().await.unwrap();
    rows.unwrap_or_else(|error| panic!("{query}: {error}")).iter().map(|row| row.try_get(0).unwrap_or_default()).collect()
}

async fn refused(database: &str, statement: &str) -> String {
    let mut connection = AnyConnection::connect(database).await.unwrap();
    let done = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await;
    connection.close().await.unwrap();
    done.err().map(|error| error.to_string()).unwrap_or_default()
}

fn key(house: &House) -> SigningKey {
    app::signing_key(&Config::load(&house.write_config()).unwrap()).unwrap()
}

/// The export of a run, as it can be made now, which must hold.
async fn export(house: &House, service: &Service, run: &str) -> (Export, Vec<String>) {
    let export = service.store.export(run, &key(house)).await.unwrap().unwrap();
    let (export, held) = Export::verify(&export.to_bytes().unwrap(), Some(&key(house).public())).unwrap();
    service.store.check_chain(Some(&key(house).public()), &[], |_, _| {}).await.unwrap();
    (export, held.erased)
}

/// Every text of the database but the chain's own, whole records in clear.
async fn everything(database: &str) -> Vec<(String, String)> {
    let columns = if database.starts_with("postgres") {
        "select cast(table_name || '.' || column_name as text) from information_schema.columns where table_schema = 'public' and data_type = 'text'"
    } else {
        "select m.name || '.' || p.name from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table' and lower(p.type) = 'text'"
    };
    let mut all = Vec::new();
    for place in texts(database, columns).await {
        let (table, column) = place.split_once('.').unwrap();
        for text in texts(database, &format!("select \"{column}\" from \"{table}\" where \"{column}\" is not null")).await {
            let text =
                if place == "audit_records.body" { String::from_utf8_lossy(&STANDARD.decode(text).unwrap()).into_owned() } else { text };
            all.push((place.clone(), text));
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_erased_when_their_time_is_over_and_a_person_on_their_word_and_the_chain_stays_whole() {
    for database in Database::each() {
        let keeping = "[audit]\nkeep_days = 30\n[[audit.repositories]]\nrepositories = \"acme/*\"\nkeep_days = 90";
        let house = House::new(Kind::Gitea).await.on(database).set(keeping);
        let service = house.service().await;
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        assert_eq!(service.store.forget("here", project::MAINTAINER, "olga").await.unwrap(), None, "a job of theirs is in the queue");
        assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
        let run = service.jobs().await[0].run.clone().unwrap();

        let named = |(_, text): &(String, String)| {
            let mut words = text.split(|letter: char| !letter.is_alphanumeric());
            words.any(|word| word.eq_ignore_ascii_case(project::MAINTAINER))
        };
        assert!(everything(&house.database()).await.iter().any(&named));
        let known = service.store.pseudonym_of("here", project::MAINTAINER).await.unwrap();
        let forgotten = service.store.forget("here", "Ada", "olga").await.unwrap().unwrap();
        assert_eq!(forgotten.pseudonym, known, "however the login is written");
        assert_eq!(forgotten.runs, std::slice::from_ref(&run), "its report names who asked");
        let left = everything(&house.database()).await.into_iter().filter(|text| named(text)).collect::<Vec<_>>();
        assert_eq!(left, []);
        let (exported, erased) = export(&house, &service, &run).await;
        assert!(exported.people.is_empty() && !erased.is_empty() && exported.records_of("patch").count() == 1, "{erased:?}");

        house.pass(31 * DAY);
        assert_eq!(service.worker.erase_old_texts().await.unwrap(), 0, "this repository's are kept longer");
        house.pass(60 * DAY);
        let folder = house.folder.path().join("data/runs").join(&run);
        assert!(folder.join("patch.diff").exists());
        assert_eq!(service.worker.erase_old_texts().await.unwrap(), 1);
        assert_eq!(service.worker.erase_old_texts().await.unwrap(), 0);
        assert!(!folder.exists());
        let left = everything(&house.database()).await.into_iter().filter(|(_, text)| text.contains("instalments")).collect::<Vec<_>>();
        assert_eq!(left, [], "the issue's words");
        let job = service.store.job_of_run(&run).await.unwrap().unwrap();
        let again = service.store.retry_job(&job, &Doer::operator("olga"), house.clock().as_ref(), &TimeIds).await.unwrap();
        assert_eq!(again, Made::Erased, "a run without an issue's words is none");
        let (exported, erased) = export(&house, &service, &run).await;
        assert!(exported.records.is_empty() && erased.len() >= 6, "{erased:?}");
        let kinds = exported.events().map(|(_, event)| event.kind).collect::<Vec<_>>();
        assert_eq!(kinds.iter().filter(|kind| **kind == What::Erased).count(), 2, "once for the person, once for the time");

        service.take(&house.forge().remove_label(project::PATH, issue, project::LABEL, project::MAINTAINER).unwrap()).await;
        service.take(&house.label(issue)).await;
        assert!(matches!(service.outcome().await, Outcome::Proposed { .. }), "who was forgotten may ask again");
        service.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_signed_end_is_in_the_auditors_repository_and_a_chain_that_was_cut_is_found_by_it() {
    let house = House::new(Kind::Gitea).await.set("[audit.anchor_repository]\nforge = \"here\"\npath = \"acme/audit\"");
    let kept = house.folder.path().join("audit.git");
    init_bare(&kept, "main").unwrap();
    house.forge().add_repository("acme/audit", &kept).unwrap();
    house.forge().permit("acme/audit", project::BOT, Permission::Write).unwrap();
    let service = house.service().await;
    let config = house.write_config().display().to_string();
    for _ in 0..2 {
        service.take(&house.label(house.open_issue())).await;
        assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&kept).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(git(&["rev-list", "--count", "frognano-audit"]).trim(), "2", "one commit a run, each on top of the other");
    assert_eq!(git(&["ls-tree", "-r", "--name-only", "frognano-audit"]).matches("checkpoints/").count(), 2);
    service.end().await;

    let verify = || {
        let clone = kept.display().to_string();
        let arguments = ["audit", "verify", "--database", "--config", &config, "--anchor-repo", &clone];
        let output = Command::new(env!("CARGO_BIN_EXE_frognano-bot")).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (status, said) = verify();
    assert!(status == Some(0) && said.starts_with("holds"), "{said}");
    for table in ["events", "chain", "checkpoints"] {
        assert_eq!(refused(&house.database(), &format!("drop trigger audit_{table}_keep")).await, "");
    }
    assert_eq!(refused(&house.database(), "delete from audit_checkpoints").await, "");
    assert_eq!(
        refused(&house.database(), "delete from audit_events where arrival in (select arrival from audit_chain where number > 9)").await,
        ""
    );
    assert_eq!(refused(&house.database(), "delete from audit_chain where number > 9").await, "");
    let (status, said) = verify();
    assert!(status == Some(1) && said.contains("row 10: is missing"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_writes_and_seals_at_once_there_is_one_order_without_a_gap() {
    const WRITERS: usize = 4;
    const EACH: usize = 40;
    for database in Database::each() {
        let stores = [database.open().await, database.open().await];
        let key = Arc::new(SigningKey::read(&SigningKey::generate().unwrap()).unwrap());
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let (store, key) = (stores[writer % 2].clone(), key.clone());
            writers.spawn(async move {
                for number in 0..EACH {
                    let note = Note::new(What::Operator, json!({"writer": writer, "number": number}));
                    store.witness(&note.of_run(&format!("run{}", number % 3)).once(format!("{writer} {number}"))).await.unwrap();
                    if number % 7 == writer {
                        store.sign_the_end(&key).await.unwrap();
                    }
                }
            });
        }
        while let Some(done) = writers.join_next().await {
            done.unwrap();
        }
        let [one, other] = stores;
        // Whoever wrote it is gone before anybody seals it: it is sealed by the next.
        one.witness(&Note::new(What::Operator, json!({"last": true}))).await.unwrap();
        one.close().await;
        other.seal().await.unwrap();
        let state = other.chain_state().await.unwrap();
        assert_eq!((state.last, state.waiting), (i64::try_from(WRITERS * EACH).unwrap() + 1, 0));
        assert_eq!(other.check_chain(Some(&key.public()), &[], |_, _| {}).await.unwrap().number, state.last);
        for run in ["run0", "run1", "run2"] {
            let export = other.export(run, &key).await.unwrap().unwrap();
            Export::verify(&export.to_bytes().unwrap(), Some(&key.public())).unwrap();
            let of_writer = |writer: usize| {
                let of_it = export.events().filter(move |(_, event)| event.facts["writer"] == writer);
                of_it.map(|(_, event)| event.facts["number"].as_u64().unwrap()).collect::<Vec<_>>()
            };
            assert!((0..WRITERS).all(|writer| of_writer(writer).is_sorted()), "each writer's events are in their own order");
        }
        other.witness(&Note::new(What::Operator, json!({})).once("0 0".to_owned())).await.unwrap();
        other.seal().await.unwrap();
        assert_eq!(other.chain_state().await.unwrap().last, state.last, "what is told twice is there once");
        check_refusals(&database, &other).await;
        other.close().await;
    }
}

async fn check_refusals(database: &Database, store: &Store) {
    let mut forbidden =
        vec!["delete from audit_chain where number = 1", "update audit_events set run = 'x'", "delete from audit_checkpoints"];
    if database.url.starts_with("postgres") {
        forbidden.extend([
            "truncate audit_events",
            "truncate audit_chain",
            "truncate audit_checkpoints",
            "update audit_chain set hash = 'x'",
        ]);
    }
    for statement in forbidden {
        let error = refused(&database.url, statement).await;
        assert!(error.contains("never"), "{statement}: {error:?}");
    }
    store.check_chain(None, &[], |_, _| {}).await.unwrap();
}
