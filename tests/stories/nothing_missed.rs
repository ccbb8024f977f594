//! Nothing missed: what a lost delivery would have brought is found, and nothing else.

use frognano_bot::demo::forge::Forge;
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Outcome;
use frognano_bot::worker::{Ended, Found};

use crate::commands::heard;
use crate::faces::on_each_forge;
use crate::house::House;

const NOTHING: Found = Found { jobs: 0, asked_again: 0, unread: 0 };

on_each_forge! {
    async fn a_label_whose_delivery_was_lost_is_found_once(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        drop(house.label(issue));
        assert_eq!(service.worker.reconcile().await.unwrap(), Found { jobs: 1, ..NOTHING }, "{kind:?}");
        assert_eq!(service.worker.reconcile().await.unwrap(), NOTHING, "{kind:?}");
        assert!(matches!(service.outcome().await, Outcome::Proposed { .. }), "{kind:?}");
        assert_eq!(service.worker.reconcile().await.unwrap(), NOTHING, "{kind:?}: answered");
        heard(&service).await;
        assert_eq!((house.pull_requests().len(), service.jobs().await.len()), (1, 1), "{kind:?}");
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    }
}

on_each_forge! {
    async fn a_label_set_again_unheard_is_a_new_act(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        service.outcome().await;
        house.forge().remove_label(project::PATH, issue, project::LABEL, project::MAINTAINER).unwrap();
        assert_eq!(service.worker.reconcile().await.unwrap(), NOTHING, "{kind:?}");
        house.label(issue);
        assert_eq!(service.worker.reconcile().await.unwrap(), Found { jobs: 1, ..NOTHING }, "{kind:?}");
        service.outcome().await;
        assert_eq!(house.pull_requests().len(), 2, "{kind:?}");
    }
}

on_each_forge! {
    async fn a_delivery_that_comes_late_finds_the_work_done(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        let late = house.label(issue);
        service.worker.reconcile().await.unwrap();
        service.outcome().await;
        service.take(&late).await;
        assert_eq!(service.work_off().await, [Ended::Quietly], "{kind:?}");
        assert_eq!((house.pull_requests().len(), house.said(issue).len()), (1, 1), "{kind:?}");
    }
}

on_each_forge! {
    async fn closed_unlabelled_and_refused_issues_are_not_found(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let by_reader = house.open_issue();
        house.forge().set_label(project::PATH, by_reader, project::LABEL, project::READER).unwrap();
        let closed = house.open_issue();
        house.label(closed);
        house.forge().close_issue(project::PATH, closed, project::MAINTAINER).unwrap();
        house.open_issue();
        assert_eq!(service.worker.reconcile().await.unwrap(), Found { jobs: 1, ..NOTHING }, "{kind:?}");
        assert_eq!(service.outcome().await.reason(), "no_write_access", "{kind:?}");
        assert_eq!(service.worker.reconcile().await.unwrap(), NOTHING, "{kind:?}");
        assert_eq!((house.said(by_reader).len(), house.model.requests().len()), (1, 0), "{kind:?}");
    }
}

on_each_forge! {
    async fn every_page_of_labelled_issues_is_read_and_labels_compare_as_people_read_them(kind: Kind) {
        let house = House::new(kind).await.set("label = \"FrogNano-Fix\"");
        let service = house.service().await;
        for _ in 0..120 {
            let issue = house.open_issue();
            house.label(issue);
        }
        assert_eq!(service.worker.reconcile().await.unwrap(), Found { jobs: 120, ..NOTHING }, "{kind:?}");
        assert_eq!(service.worker.reconcile().await.unwrap(), NOTHING, "{kind:?}");
    }
}

on_each_forge! {
    async fn a_lost_database_does_not_make_everything_anew(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        service.outcome().await;
        service.end().await;
        std::fs::rename(house.folder.path().join("data"), house.folder.path().join("lost")).unwrap();
        let service = house.service().await;
        assert_eq!(service.worker.reconcile().await.unwrap(), NOTHING, "{kind:?}");
        house.forge().remove_label(project::PATH, issue, project::LABEL, project::MAINTAINER).unwrap();
        service.take(&house.label(issue)).await;
        service.work_off().await;
        assert_eq!(house.pull_requests().len(), 2, "{kind:?}: set again, it is asked again");
    }
}

on_each_forge! {
    async fn a_lost_word_to_stop_is_found_too(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        house.forge().close_issue(project::PATH, issue, project::READER).unwrap();
        service.worker.reconcile().await.unwrap();
        assert_eq!(heard(&service).await, ["cancelled: the issue was closed"], "{kind:?}");
        assert_eq!(service.work_off().await, [], "{kind:?}");
    }
}

on_each_forge! {
    async fn a_forge_that_does_not_answer_or_list_costs_nothing(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        // Heard of by another delivery, so that it is known although it is not listed.
        service.take(&house.forge().edit_issue(project::PATH, issue, "x", "y", project::READER).unwrap()).await;
        house.label(issue);
        type Break = fn(&Forge);
        let down: Break = |forge| forge.fail_next("GET", "*/issues", 403, 1);
        let hidden: Break = |forge| {
            let list = if forge.state().kind == Kind::GitLab { "*/projects" } else { "*/user/repos" };
            forge.fail_next("GET", list, 403, 1);
        };
        for (fail, found) in [(down, Found { unread: 1, ..NOTHING }), (hidden, Found { jobs: 1, ..NOTHING })] {
            fail(house.forge());
            assert_eq!(service.worker.reconcile().await.unwrap(), found);
        }
    }
}

on_each_forge! {
    async fn looking_again_costs_little_where_nothing_changed(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        for issue in 1..=120 {
            house.open_issue();
            if issue % 2 == 0 {
                house.label(issue);
            }
        }
        service.worker.reconcile().await.unwrap();
        let before = house.forge().requests().len();
        assert_eq!(service.worker.reconcile().await.unwrap(), NOTHING);
        let asked = house.forge().requests().split_off(before);
        let expected = if kind.is_gitea_or_its_fork() { 200 } else { 304 };
        assert!(!asked.is_empty() && asked.iter().all(|request| request.status == expected), "{kind:?}: {asked:?}");
        house.label(1);
        assert_eq!(service.worker.reconcile().await.unwrap(), Found { jobs: 1, ..NOTHING }, "{kind:?}: what is new is seen");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_looks_at_its_start() {
    let house = House::new(Kind::GitHub).await.set("reconcile_seconds = 3600");
    let issue = house.open_issue();
    house.label(issue);
    let bot = crate::crashes::Bot::start(&house);
    house.until(|house| house.has_proposed(issue)).await;
    bot.stop();
}
