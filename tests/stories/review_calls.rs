//! Who may ask and who is asked: allow-lists, reviewers, and forges that make no drafts.

use frognano_bot::demo::forge::{Failure, Strike};
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::{Outcome, Permission};
use frognano_bot::worker::Ended;

use crate::faces::{on_each_forge, opening};
use crate::house::{House, Service};

async fn outcome_of(house: &House) -> (Outcome, Service) {
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    (service.outcome().await, service)
}

fn with_team(house: &House, members: &[&str]) {
    let members = members.iter().map(|&member| member.to_owned()).collect();
    house.forge().state().teams.insert("acme/fixers".to_owned(), members);
}

on_each_forge! {
    async fn a_label_by_somebody_who_is_not_listed_is_answered_once_with_the_rule(kind: Kind) {
        let house = House::new(kind).await.forge_entry("allowed_users = [\"olga\"]\nallowed_teams = [\"acme/fixers\", \"acme/nobody\"]");
        with_team(&house, &["someone"]);
        let (outcome, service) = outcome_of(&house).await;
        assert_eq!(outcome.reason(), "not_allowed", "{kind:?}: {outcome:?}");
        let [said] = &house.said(1)[..] else { panic!("{:?}", house.said(1)) };
        assert!(said.contains(project::MAINTAINER) && said.contains("listed"), "{said}");
        service.take(&house.label(1)).await;
        service.work_off().await;
        assert_eq!((house.said(1).len(), house.model.requests().len()), (1, 0), "{kind:?}");
        service.end().await;
    }
}

on_each_forge! {
    async fn listed_people_and_members_of_listed_teams_may_ask_but_need_write_access_too(kind: Kind) {
        for entry in ["allowed_users = [\"ADA\"]", "allowed_teams = [\"acme/fixers\"]"] {
            let house = House::new(kind).await.forge_entry(entry);
            with_team(&house, &[project::MAINTAINER]);
            let (outcome, _service) = outcome_of(&house).await;
            assert!(matches!(outcome, Outcome::Proposed { .. }), "{kind:?} {entry}: {outcome:?}");
            assert_eq!(house.forge().unexpected(), Vec::<String>::new());
        }
        let house = House::new(kind).await.forge_entry("allowed_users = [\"rita\"]");
        let service = house.service().await;
        let issue = house.open_issue();
        service.take(&house.forge().set_label(project::PATH, issue, project::LABEL, project::READER).unwrap()).await;
        assert_eq!(service.outcome().await.reason(), "no_write_access", "{kind:?}");
    }
}

on_each_forge! {
    async fn who_left_the_team_meanwhile_gets_no_pull_request(kind: Kind) {
        let house = House::new(kind).await.forge_entry("allowed_teams = [\"acme/fixers\"]");
        with_team(&house, &[project::MAINTAINER]);
        house.model.set_delay(Some(std::time::Duration::from_millis(100)));
        let service = house.service().await;
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        let leave = async {
            house.until(|house| house.said(issue).concat().contains("Now: the model")).await;
            with_team(&house, &[]);
        };
        let (ended, ()) = tokio::join!(service.step(), leave);
        assert!(matches!(&ended, Some(Ended::Outcome(Outcome::Cancelled { by })) if by.contains("list")), "{ended:?}");
        assert_eq!((house.pull_requests().len(), house.branches().len()), (0, 0));
    }
}

fn asked(house: &House) -> Vec<String> {
    house.forge().state().review_requests.iter().map(|(_, _, who)| who.clone()).collect()
}

on_each_forge! {
    async fn owners_of_the_changed_files_are_asked_one_by_one_and_a_bad_name_costs_nothing(kind: Kind) {
        let house = House::new(kind).await.forge_entry("reviewers = [\"rita\"]");
        house.forge().add_user("olga", false);
        house.forge().permit(project::PATH, "olga", Permission::Write).unwrap();
        with_team(&house, &[]);
        house.commit(|folder| {
            let owners = "* @rita\n/tallybook/ @ghost-nobody mail@example.org @frognano @ada @olga @acme/fixers\n";
            std::fs::create_dir_all(folder.join(".github")).unwrap();
            std::fs::write(folder.join(".github/CODEOWNERS"), owners).unwrap();
        });
        let (outcome, service) = outcome_of(&house).await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{kind:?}: {outcome:?}");
        let open = service.store.open_reviews(None).await.unwrap();
        let named: &[&str] = if kind == Kind::GitLab { &["olga", "ada"] } else { &["olga", "acme/fixers", "ada"] };
        assert_eq!(open[0].asked, named, "{kind:?}");
        let groups = reqwest::get(format!("{}/reviews?by=team", service.door.trim_end_matches("/webhooks/here"))).await.unwrap();
        let groups = groups.text().await.unwrap();
        let shown = groups.match_indices("<h2").map(|(at, _)| groups[at..].split(['<', '>']).nth(2).unwrap()).collect::<Vec<_>>();
        assert_eq!(shown, named, "{kind:?}: {groups}");
        let (of_gitlab, elsewhere): (&[&str], &[&str]) = (&["ada", "olga"], &["olga", "fixers", "ada"]);
        assert_eq!(asked(&house), if kind == Kind::GitLab { of_gitlab } else { elsewhere }, "{kind:?}");
        let pull_request = &house.pull_requests()[0];
        let [said] = &pull_request.comments[..] else { panic!("{kind:?}: {:?}", pull_request.comments) };
        assert!(said.body.contains("ghost-nobody") && !said.body.contains("@ghost"), "{}", said.body);
        assert_eq!(said.body.contains("groups are not asked here"), kind == Kind::GitLab, "{}", said.body);
        assert!(house.issue(1).comments.iter().all(|comment| !comment.body.contains("ghost-nobody")), "said on the pull request alone");
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    }
}

on_each_forge! {
    async fn who_set_the_label_is_not_the_only_one_asked(kind: Kind) {
        let house = House::new(kind).await.forge_entry("reviewers = [\"ada\"]");
        let (outcome, _service) = outcome_of(&house).await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
        assert_eq!(asked(&house), Vec::<String>::new());
        assert!(house.pull_requests()[0].body.contains("nobody but who set the label is named as a reviewer"));
    }
}

on_each_forge! {
    async fn who_set_the_label_is_asked_after_all_others_and_never_alone(kind: Kind) {
        let house = House::new(kind).await.forge_entry("reviewers = [\"Ada\", \"ghost-nobody\"]");
        let (outcome, _service) = outcome_of(&house).await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{kind:?}: {outcome:?}");
        assert_eq!(asked(&house), Vec::<String>::new(), "{kind:?}: nobody else was taken");
        let said = house.pull_requests()[0].comments.iter().map(|comment| comment.body.clone()).collect::<String>();
        assert!(said.contains("ghost-nobody") && said.contains("Ada asked for the change"), "{kind:?}: {said}");

        let house = House::new(kind).await.forge_entry("reviewers = [\"ada\", \"olga\"]");
        house.forge().add_user("olga", false);
        house.forge().permit(project::PATH, "olga", Permission::Write).unwrap();
        house.forge().state().one_reviewer = kind == Kind::GitLab;
        outcome_of(&house).await;
        let expected: &[&str] = if kind == Kind::GitLab { &["olga"] } else { &["olga", "ada"] };
        assert_eq!(asked(&house), expected, "{kind:?}");
    }
}

on_each_forge! {
    async fn a_pull_request_that_the_forge_does_not_label_is_closed_again(kind: Kind) {
        let house = House::new(kind).await;
        let (method, path) = if kind == Kind::GitLab { ("PUT", "*/merge_requests/1") } else { ("POST", "*/issues/2/labels") };
        house.forge().fail_next(method, path, 403, 1);
        let (outcome, _service) = outcome_of(&house).await;
        assert_eq!(outcome.reason(), "forge_failed", "{kind:?}: {outcome:?}");
        let Outcome::Abandoned { detail, .. } = outcome else { panic!("{kind:?}") };
        assert!(detail.contains("needs-human-review"), "{kind:?}: {detail}");
        assert!(!house.pull_requests()[0].open, "{kind:?}");
    }
}

on_each_forge! {
    async fn without_drafts_a_failing_status_stands_before_a_ready_pull_request_where_that_is_configured(kind: Kind) {
        let house = House::new(kind).await.forge_entry("draft_fallback = \"review-status\"");
        house.forge().drafts_supported(false);
        let (outcome, _service) = outcome_of(&house).await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{kind:?}: {outcome:?}");
        let pull_request = &house.pull_requests()[0];
        assert!(pull_request.open && pull_request.labels.iter().any(|label| label.name == "needs-human-review"), "{kind:?}");
        let statuses = house.forge().state().statuses.clone();
        let [status] = &statuses[..] else { panic!("{kind:?}: {statuses:?}") };
        assert_eq!(
            (status.context.as_str(), status.state.as_str()),
            ("frognano/human-review", if kind == Kind::GitLab { "failed" } else { "failure" })
        );
        assert_eq!(status.commit, pull_request.pull.as_ref().unwrap().head_sha);
        let requests = house.forge().requests();
        let at = |path: &str| requests.iter().position(|asked| asked.method == "POST" && asked.path.contains(path)).unwrap();
        assert!(at("/statuses/") < at(opening(kind).1.trim_start_matches('*')), "{kind:?}");
    }
}

on_each_forge! {
    async fn without_drafts_and_without_the_status_there_is_no_pull_request(kind: Kind) {
        let house = House::new(kind).await.forge_entry("draft_fallback = \"review-status\"");
        house.forge().drafts_supported(false);
        house.forge().fail_next("POST", "*/statuses/*", 403, 1);
        let (outcome, _service) = outcome_of(&house).await;
        assert_eq!(outcome.reason(), "forge_failed", "{kind:?}: {outcome:?}");
        assert_eq!(house.pull_requests().len(), 0, "no status, no pull request");
    }
}

on_each_forge! {
    async fn a_forge_that_asks_to_be_left_alone_for_ages_is_asked_again_the_next_day(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        let (method, path) = opening(kind);
        house.forge().fail(Failure {
            method: method.to_owned(),
            path: path.to_owned(),
            status: if kind.is_gitea_or_its_fork() { 503 } else { 429 },
            times: 1,
            strike: Strike::Before,
            headers: [("Retry-After".to_owned(), "99999999999".to_owned())].into(),
        });
        service.take(&house.label(issue)).await;
        assert_eq!(service.step().await, Some(Ended::PutBack), "{kind:?}");
        house.clock().pass(25 * 60 * 60 * 1000);
        assert!(matches!(house.later(&service).await, Outcome::Proposed { .. }), "{kind:?}");
        assert_eq!(house.pull_requests().len(), 1, "{kind:?}");
    }
}

on_each_forge! {
    async fn a_forge_that_is_down_for_hours_delays_a_finished_patch_and_the_model_is_not_asked_again(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        let (method, path) = opening(kind);
        house.forge().fail_next(method, path, 503, 1);
        service.take(&house.label(issue)).await;
        assert_eq!(service.step().await, Some(Ended::PutBack));
        let turns = house.model.requests().len();
        for _ in 0..6 {
            house.forge().fail(Failure {
                method: "*".to_owned(),
                path: "*".to_owned(),
                status: 503,
                times: 1000,
                strike: Strike::Before,
                headers: [("Retry-After".to_owned(), "3600".to_owned())].into(),
            });
            house.clock().pass(3_700_000);
            assert_eq!(service.step().await, Some(Ended::PutBack), "{kind:?}");
        }
        house.forge().recover();
        house.clock().pass(3_700_000);
        let outcome = house.later(&service).await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{kind:?}: {outcome:?}");
        assert_eq!(house.model.requests().len(), turns, "{kind:?}");
        assert_eq!(house.pull_requests().len(), 1, "{kind:?}");
    }
}

on_each_forge! {
    async fn links_for_people_have_the_public_address_where_the_service_uses_another(kind: Kind) {
        let house = House::new(kind).await;
        let inside = house.running.base_url.clone();
        let house = house.forge_entry(&format!("internal_url = \"{inside}\""));
        let path = house.write_config();
        let text = std::fs::read_to_string(&path).unwrap().replace(&format!("\nurl = \"{inside}\""), "\nurl = \"https://git.example.com\"");
        let config = frognano_bot::config::Config::parse(&text, house.folder.path()).unwrap();
        let service = house.service_of(&config).await;
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        let Outcome::Proposed { url } = service.outcome().await else { panic!("{kind:?}") };
        assert!(url.starts_with("https://git.example.com/acme/tallybook/"), "{url}");
        assert!(house.said(issue).concat().contains(&url));
    }
}
