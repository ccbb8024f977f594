//! What becomes of our pull requests is followed: merged, changed by people, closed, reverted, and a verdict that a person found wrong.

use frognano_bot::audit::{Export, Kind as What};
use frognano_bot::demo::forge::On;
use frognano_bot::demo::{Kind, project};
use frognano_bot::store::Fate;

use crate::commands::say;
use crate::faces::on_each_forge;
use crate::house::{House, Service};
use crate::human_review::{WRITER, hear, proposed, undraft};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

async fn fate(service: &Service) -> Fate {
    let run = service.jobs().await[0].run.clone().unwrap();
    service.store.fate(&run).await.unwrap().unwrap()
}

fn merged_as(house: &House) -> String {
    house.pull_requests()[0].pull.clone().unwrap().merged_as.unwrap()
}

on_each_forge! {
    async fn a_merge_a_change_by_people_and_a_revert_are_seen_and_in_the_chain(kind: Kind) {
        let (house, service, number) = proposed(kind).await;
        assert_eq!(fate(&service).await.became, "open");
        house.forge().state().protected = false;
        undraft(&house, number);
        hear(&service, &house.forge().push_to(project::PATH, number, WRITER, "NOTES.md").unwrap()).await;
        hear(&service, &house.forge().merge(project::PATH, number, WRITER).unwrap()).await;
        let seen = fate(&service).await;
        assert_eq!((seen.became.as_str(), seen.lines_changed, seen.reverted), ("merged", Some(1), false), "{kind:?}");
        assert_eq!(service.worker.revert_next().await.unwrap(), None, "it is not due yet");
        house.pass(DAY_MS);
        assert_eq!(service.worker.revert_next().await.unwrap().as_deref(), Some("stands"));
        house.commit_saying(&format!("Revert \"Fix it\"\n\nThis reverts commit {}.", merged_as(&house)), |_| ());
        house.pass(DAY_MS);
        assert!(service.worker.revert_next().await.unwrap().unwrap().starts_with("reverted by "));
        assert!(fate(&service).await.reverted);
        house.pass(DAY_MS);
        assert_eq!(service.worker.revert_next().await.unwrap(), None, "what is known is not asked again");
        let run = service.jobs().await[0].run.clone().unwrap();
        let key = frognano_bot::app::signing_key(&frognano_bot::config::Config::load(&house.write_config()).unwrap()).unwrap();
        let export = service.store.export(&run, &key).await.unwrap().unwrap();
        Export::verify(&export.to_bytes().unwrap(), Some(&key.public())).unwrap();
        assert_eq!(export.events().filter(|(_, event)| event.kind == What::Fate).count(), 2);
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    }
}

on_each_forge! {
    async fn a_person_marks_a_false_green_in_one_word_once(kind: Kind) {
        let (house, service, number) = proposed(kind).await;
        let on = On::PullRequest(number);
        assert_eq!(say(&house, &service, on, project::READER, "/frognano wrong lies").await.len(), 1);
        assert_eq!(fate(&service).await.wrong, None, "who may not write marks nothing");
        for (words, came, word) in [
            ("/frognano wrong", "refused: no word was said", None),
            ("/frognano wrong regression\nit breaks the export", "noted", Some("regression")),
            ("/frognano wrong other", "noted", Some("regression")),
        ] {
            assert_eq!(say(&house, &service, on, WRITER, words).await, [came], "{kind:?}: {words}");
            assert_eq!(fate(&service).await.wrong.as_deref(), word, "{kind:?}: {words}");
        }
        hear(&service, &house.forge().close_issue(project::PATH, on, WRITER).unwrap()).await;
        let seen = fate(&service).await;
        assert_eq!((seen.became.as_str(), seen.lines_changed), ("closed", Some(0)), "{kind:?}");
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    }
}
