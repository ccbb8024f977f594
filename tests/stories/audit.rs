//! The audit chain: what happened is there, in one order, and whoever bends it is found.

use frognano_bot::app;
use frognano_bot::audit::{Export, Kind as What, PublicKey, Who};
use frognano_bot::config::Config;
use frognano_bot::demo::Kind;
use frognano_bot::store::{ChainError, Store};
use sqlx::{AnyConnection, Connection as _};

use crate::faces::on_each_forge;
use crate::house::{House, Service};

const TABLES: [&str; 2] = ["audit_events", "audit_chain"];

async fn execute(database: &str, statement: &str) -> Result<(), String> {
    let mut connection = AnyConnection::connect(database).await.unwrap();
    let done = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await;
    connection.close().await.unwrap();
    done.map(drop).map_err(|error| error.to_string())
}

/// A run that ended with a pull request, and its export.
async fn exported(house: &House, service: &Service) -> (Export, Vec<u8>, PublicKey) {
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    service.outcome().await;
    let run = service.jobs().await[0].run.clone().unwrap();
    let key = app::signing_key(&Config::load(&house.write_config()).unwrap()).unwrap();
    let export = service.store.export(&run, &key).await.unwrap().unwrap();
    let bytes = export.to_bytes().unwrap();
    (export, bytes, key.public())
}

on_each_forge! {
    async fn a_run_is_in_the_chain_from_the_label_to_the_draft_and_its_export_holds(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let (export, bytes, key) = exported(&house, &service).await;
        let (_, held) = Export::verify(&bytes, Some(&key)).unwrap();
        assert_eq!((held.outcome.as_deref(), held.erased.len(), held.notes.len()), (Some("proposed"), 0, 0));
        let kinds = export.events().map(|(_, event)| event.kind).collect::<Vec<_>>();
        assert_eq!((kinds.first(), kinds.last()), (Some(&What::JobClaimed), Some(&What::RunEnded)));
        for kind in [What::Asked, What::Stage, What::Policy, What::Sandbox, What::Turn, What::Attempt, What::Verdict, What::ForgeWrite] {
            assert!(kinds.contains(&kind), "{kind:?} is missing: {kinds:?}");
        }
        let turns = kinds.iter().filter(|kind| **kind == What::Turn).count();
        assert_eq!(turns, 6, "one for each of the script");
        for kind in ["issue", "policy", "trajectory-1", "patch", "report"] {
            assert!(export.records_of(kind).count() == 1, "{kind} is missing: {:?}", export.records.keys());
        }
        let tip = house.branch_tips().remove(0);
        assert_eq!(held.commit.as_deref(), Some(tip.as_str()), "the statement is about what the pull request shows");
        assert!(house.pull_requests()[0].body.contains(&format!("refs/frognano/statements/{}", held.run)));
        let asked = export.events().find(|(_, event)| event.kind == What::Asked).unwrap().1;
        let Who::Person(name) = &asked.who else { panic!("{:?}", asked.who) };
        assert_eq!(export.people[name].login, "ada");
        let rows = service.store.check_chain(Some(&key), &[], |_, _| {}).await.unwrap();
        assert!(rows.number >= held.rows as i64);
        service.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_refuses_to_change_or_delete_a_row_and_what_is_changed_all_the_same_is_found() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    let (_, _, key) = exported(&house, &service).await;
    let checked = async |store: &Store| match store.check_chain(Some(&key), &[], |_, _| {}).await {
        Ok(checked) => Ok(checked.number),
        Err(ChainError::Broken(broken)) => Err(broken),
        Err(ChainError::Store(error)) => panic!("{error}"),
    };
    let database = house.database();
    let last = checked(&service.store).await.unwrap();
    for refused in [
        "update audit_events set event = '{}'",
        "delete from audit_events",
        "update audit_chain set hash = previous",
        "delete from audit_chain where number = 3",
        "update audit_checkpoints set envelope = '{}'",
        "delete from audit_checkpoints",
    ] {
        let error = execute(&database, refused).await.unwrap_err();
        assert!(error.contains("never"), "{refused}: {error}");
    }
    assert_eq!(checked(&service.store).await.unwrap(), last);
    for without in ["audit_events_stay", "audit_events_keep", "audit_events_wait", "audit_chain_stay", "audit_chain_keep"] {
        execute(&database, &format!("drop trigger {without}")).await.unwrap();
    }
    for table in TABLES {
        execute(&database, &format!("create table kept_{table} as select * from {table}")).await.unwrap();
    }
    for (bent, row) in [
        ("update audit_events set event = replace(event, 'proposed', 'refused')", None),
        ("delete from audit_chain where number = 3", Some(3)),
        ("update audit_chain set run = 'another' where number = 4", Some(4)),
        ("delete from audit_chain where number > 5", Some(6)),
        ("delete from audit_events where arrival = 2", Some(2)),
        ("update audit_chain set number = number + 1000 where number = 5", Some(5)),
    ] {
        execute(&database, bent).await.unwrap();
        let broken = checked(&service.store).await.unwrap_err();
        assert!(row.is_none_or(|row| broken.row == row), "{bent}: {broken}");
        for table in TABLES {
            execute(&database, &format!("delete from {table}")).await.unwrap();
            execute(&database, &format!("insert into {table} select * from kept_{table}")).await.unwrap();
        }
        assert_eq!(checked(&service.store).await.unwrap(), last, "{bent}");
    }
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_byte_of_an_export_that_is_changed_removed_or_added_is_found() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    let (_, bytes, key) = exported(&house, &service).await;
    let mut unseen = Vec::new();
    for at in (0..bytes.len()).step_by(97) {
        for bit in [0, 5] {
            let mut bent = bytes.clone();
            bent[at] ^= 1 << bit;
            if Export::verify(&bent, Some(&key)).is_ok() {
                unseen.push(at);
            }
        }
        let mut cut = bytes.clone();
        cut.remove(at);
        if Export::verify(&cut, None).is_ok() || Export::verify(&bytes[..at], None).is_ok() {
            unseen.push(at);
        }
    }
    assert_eq!(unseen, Vec::<usize>::new());
    assert!(Export::verify(&[&bytes[..], b"\n"].concat(), None).is_err());
    service.end().await;
}
