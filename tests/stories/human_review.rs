//! The human review of our pull requests: a status that fails from the commit's birth on and passes for what a person approved, and that alone.

use frognano_bot::demo::forge::{Delivery, NewReview, Strike, Verdict, deliver};
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::{Outcome, Permission};

use crate::commands::by_another_hook;
use crate::crashes::Bot;
use crate::faces::{on_each_forge, opening};
use crate::house::{House, Service};

const CONTEXT: &str = "frognano/human-review";
/// May write, and asked for nothing.
pub const WRITER: &str = "olga";

/// A service with an open pull request of ours, and its number.
async fn proposed_with(kind: Kind, entry: &str) -> (House, Service, i64) {
    let house = House::new(kind).await.forge_entry(entry).set("reconcile_seconds = 300");
    house.forge().add_user(WRITER, false);
    house.forge().permit(project::PATH, WRITER, Permission::Write).unwrap();
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    let outcome = service.outcome().await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{kind:?}: {outcome:?}");
    let number = house.pull_requests()[0].number;
    looks(&service).await;
    (house, service, number)
}

pub async fn proposed(kind: Kind) -> (House, Service, i64) {
    proposed_with(kind, "").await
}

/// Looks at all that is due; what each look came to.
async fn looks(service: &Service) -> Vec<String> {
    let mut came = Vec::new();
    while let Some(look) = service.worker.review_next().await.unwrap() {
        came.push(look);
    }
    came
}

fn head(house: &House) -> String {
    let pull = house.pull_requests()[0].pull.clone().unwrap();
    house.forge().state().repository(project::PATH).unwrap().branch_tip(&pull.head).unwrap()
}

/// Whether the status of this commit is green, and what it says; none where there is none.
fn status_of(house: &House, commit: &str) -> Option<(bool, String)> {
    let state = house.forge().state();
    let status = state.statuses.iter().rfind(|status| status.commit == commit && status.context == CONTEXT)?;
    Some((status.state == "success", status.description.clone()))
}

fn status(house: &House) -> (bool, String) {
    status_of(house, &head(house)).expect("the head has a status")
}

fn is_green(house: &House) -> bool {
    status(house).0
}

/// Takes the pull request out of draft, as a person does.
pub fn undraft(house: &House, number: i64) {
    house.with_pull_request(number, |issue| {
        issue.pull.as_mut().unwrap().draft = false;
        issue.title = issue.title.replace("WIP: ", "").replace("Draft: ", "");
    });
}

pub async fn hear(service: &Service, told: &[Delivery]) {
    service.take(told).await;
    looks(service).await;
}

on_each_forge! {
    async fn the_status_fails_before_the_pull_request_is_opened_and_says_what_is_missing(kind: Kind) {
        let (house, _service, _) = proposed(kind).await;
        let requests = house.forge().requests();
        let at = |path: &str| requests.iter().position(|asked| asked.method == "POST" && asked.path.contains(path)).unwrap();
        assert!(at("/statuses/") < at(opening(kind).1.trim_start_matches('*')));
        let first = house.forge().state().statuses[0].clone();
        assert_eq!((first.commit.as_str(), first.context.as_str(), first.state == "success"), (head(&house).as_str(), CONTEXT, false));
        let (green, said) = status(&house);
        assert!(!green && said.contains(&head(&house)[..7]) && said.contains("other than ada"), "{said}");
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    }
}

on_each_forge! {
    async fn an_approval_by_another_writer_turns_it_green_and_lets_the_merge_through(kind: Kind) {
        let (house, service, number) = proposed(kind).await;
        house.forge().state().protection.approvals = 0;
        undraft(&house, number);
        let merge = || house.forge().merge(project::PATH, number, project::MAINTAINER);
        assert!(merge().unwrap_err().to_string().contains(CONTEXT));
        let told = house.forge().approve(project::PATH, number, WRITER).unwrap();
        assert!(!is_green(&house), "nobody but the service turns it");
        hear(&service, &told).await;
        let (green, said) = status(&house);
        assert!(green && said.contains(WRITER) && said.contains(&head(&house)[..7]), "{said}");
        let [watched] = &service.store.reviews(10).await.unwrap()[..] else { panic!("one pull request is watched") };
        assert_eq!((watched.state.as_str(), watched.approved_by.as_deref()), ("approved", Some(WRITER)));
        assert_eq!(watched.head.as_deref(), Some(head(&house).as_str()));
        let statuses = house.forge().state().statuses.len();
        hear(&service, &by_another_hook(&told)).await;
        assert_eq!(house.forge().state().statuses.len(), statuses, "what stands is not written again");
        hear(&service, &merge().unwrap()).await;
        assert_eq!(service.store.reviews(10).await.unwrap()[0].state, "over");
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    }
}

on_each_forge! {
    async fn approvals_by_who_asked_by_readers_and_by_bots_do_not_count(kind: Kind) {
        let (house, service, number) = proposed(kind).await;
        let another_bot = if kind == Kind::GitLab { "project_7_bot_ab12" } else { "helper[bot]" };
        house.forge().add_user(another_bot, true);
        house.forge().permit(project::PATH, another_bot, Permission::Write).unwrap();
        for (who, why) in [(project::READER, "has no write access"), (project::BOT, ""), (another_bot, ""), (project::MAINTAINER, "asked for the change")] {
            let told = house.forge().approve(project::PATH, number, who).unwrap();
            hear(&service, &told).await;
            let (green, said) = status(&house);
            assert!(!green, "{who}: {said}");
            assert!(said.chars().count() <= 140, "{said}");
            if who == project::READER {
                assert!(said.contains(why), "{said}");
            }
        }
        let told = house.forge().approve(project::PATH, number, WRITER).unwrap();
        hear(&service, &told).await;
        assert!(is_green(&house), "one that counts is enough");
        house.forge().permit(project::PATH, WRITER, Permission::Read).unwrap();
        house.pass(300_000);
        looks(&service).await;
        assert!(!is_green(&house), "rights are asked for now");
    }
}

on_each_forge! {
    async fn a_push_by_anybody_resets_it_and_an_old_approval_never_counts_again(kind: Kind) {
        let (house, service, number) = proposed(kind).await;
        let approved = head(&house);
        hear(&service, &house.forge().approve(project::PATH, number, WRITER).unwrap()).await;
        assert!(is_green(&house));
        let told = house.forge().push_to(project::PATH, number, WRITER, "tallybook/more.py").unwrap();
        assert!(status_of(&house, &head(&house)).is_none(), "a commit is born without a green status");
        hear(&service, &told).await;
        assert!(!is_green(&house) && head(&house) != approved);
        assert_eq!(status_of(&house, &approved).map(|(green, _)| green), Some(false), "what is no head any more is green no more");
        house.pass(300_000);
        looks(&service).await;
        assert!(!is_green(&house), "the approval was for another commit");
        hear(&service, &house.forge().approve(project::PATH, number, WRITER).unwrap()).await;
        assert!(is_green(&house));
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    }
}

on_each_forge! {
    async fn an_approval_that_is_taken_back_counts_no_more(kind: Kind) {
        let (house, service, number) = proposed(kind).await;
        hear(&service, &house.forge().approve(project::PATH, number, WRITER).unwrap()).await;
        assert!(is_green(&house));
        let told = house.forge().dismiss(project::PATH, number, WRITER, project::MAINTAINER).unwrap();
        assert_eq!(told.is_empty(), matches!(kind, Kind::Gitea | Kind::Forgejo), "these tell nobody");
        if told.is_empty() {
            house.pass(300_000);
        }
        hear(&service, &told).await;
        assert!(!is_green(&house));
        assert_eq!(service.store.reviews(10).await.unwrap()[0].approved_by, None);
    }
}

on_each_forge! {
    async fn what_no_webhook_told_is_found_within_the_interval(kind: Kind) {
        let (house, service, number) = proposed(kind).await;
        house.forge().approve(project::PATH, number, WRITER).unwrap();
        assert_eq!(looks(&service).await, Vec::<String>::new(), "not due yet");
        house.pass(300_000);
        assert_eq!(looks(&service).await.len(), 1);
        assert!(is_green(&house));
        house.forge().push_to(project::PATH, number, WRITER, "tallybook/more.py").unwrap();
        house.pass(300_000);
        looks(&service).await;
        assert!(!is_green(&house));
    }
}

on_each_forge! {
    async fn a_service_that_was_away_goes_by_what_it_finds(kind: Kind) {
        let (house, service, number) = proposed(kind).await;
        service.end().await;
        house.forge().approve(project::PATH, number, WRITER).unwrap();
        let service = house.service().await;
        house.pass(300_000);
        looks(&service).await;
        assert!(is_green(&house));
        service.end().await;
        let told = house.forge().dismiss(project::PATH, number, WRITER, project::MAINTAINER).unwrap();
        let service = house.service().await;
        hear(&service, &told).await;
        house.pass(300_000);
        looks(&service).await;
        assert!(!is_green(&house));
    }
}

on_each_forge! {
    async fn a_status_that_somebody_else_wrote_is_written_again(kind: Kind) {
        let (house, service, _) = proposed(kind).await;
        let forged = {
            let mut state = house.forge().state();
            let mut status = state.statuses[0].clone();
            "success".clone_into(&mut status.state);
            state.statuses.push(status.clone());
            status
        };
        assert_eq!(forged.commit, head(&house));
        house.pass(300_000);
        looks(&service).await;
        assert!(!is_green(&house));
    }
}

on_each_forge! {
    async fn with_teams_named_only_their_members_count(kind: Kind) {
        let (house, service, number) = proposed_with(kind, "human_review_teams = [\"acme/owners\"]").await;
        house.forge().state().teams.insert("acme/owners".to_owned(), vec![project::READER.to_owned()]);
        hear(&service, &house.forge().approve(project::PATH, number, WRITER).unwrap()).await;
        let (green, said) = status(&house);
        assert!(!green && said.contains("olga is in no team"), "{said}");
        hear(&service, &house.forge().approve(project::PATH, number, project::READER).unwrap()).await;
        assert!(!is_green(&house), "a member must have write access too");
        house.forge().state().teams.insert("acme/owners".to_owned(), vec![WRITER.to_owned()]);
        house.pass(300_000);
        looks(&service).await;
        assert!(is_green(&house));
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    }
}

on_each_forge! {
    async fn a_forge_that_is_away_is_asked_again_and_nothing_turns_green_meanwhile(kind: Kind) {
        let (house, service, number) = proposed(kind).await;
        let told = house.forge().approve(project::PATH, number, WRITER).unwrap();
        house.forge().fail_next("*", "*/statuses/*", 503, 9);
        hear(&service, &told).await;
        assert!(!is_green(&house));
        house.forge().recover();
        house.let_time_pass();
        looks(&service).await;
        assert!(is_green(&house));
    }
}

on_each_forge! {
    async fn a_run_whose_token_may_set_no_status_says_so_on_the_pull_request(kind: Kind) {
        let house = House::new(kind).await;
        house.forge().fail_next("POST", "*/statuses/*", 403, 1);
        let service = house.service().await;
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        let outcome = service.outcome().await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
        let pull_request = &house.pull_requests()[0];
        let [said] = &pull_request.comments[..] else { panic!("{:?}", pull_request.comments) };
        assert!(said.body.contains("human-review"), "{}", said.body);
        looks(&service).await;
        assert!(!is_green(&house), "what could not be set then is set at the first look");
    }
}

#[tokio::test]
async fn a_further_commit_of_ours_is_born_red_and_a_later_rejection_takes_an_approval_back() {
    for kind in [Kind::Gitea, Kind::Forgejo, Kind::GitHub] {
        let (house, service, number) = proposed(kind).await;
        hear(&service, &house.forge().approve(project::PATH, number, WRITER).unwrap()).await;
        assert!(is_green(&house));
        let rejection = NewReview { verdict: Verdict::ChangesRequested, body: "Not so.", lines: &[] };
        hear(&service, &house.forge().review(project::PATH, number, WRITER, rejection).unwrap()).await;
        assert!(!is_green(&house), "{kind:?}");
        hear(&service, &house.forge().approve(project::PATH, number, WRITER).unwrap()).await;
        assert!(is_green(&house), "{kind:?}");
    }
}

#[tokio::test]
async fn an_old_gitlab_that_does_not_say_when_it_was_approved_is_read_by_its_notes() {
    let (house, service, number) = proposed(Kind::GitLab).await;
    house.forge().state().old_approvals = true;
    hear(&service, &house.forge().approve(project::PATH, number, WRITER).unwrap()).await;
    assert!(is_green(&house));
    hear(&service, &house.forge().push_to(project::PATH, number, WRITER, "tallybook/more.py").unwrap()).await;
    assert!(!is_green(&house));
}

#[tokio::test]
async fn an_app_that_may_makes_a_check_run_of_the_same_name() {
    for may in [true, false] {
        let house = crate::github_app::house().await;
        let mut granted = vec!["write:contents", "write:issues", "write:pull_requests", "read:metadata", "write:statuses"];
        granted.extend(may.then_some("write:checks"));
        crate::github_app::install(house.forge(), &granted);
        house.forge().add_user(WRITER, false);
        house.forge().permit(project::PATH, WRITER, Permission::Write).unwrap();
        let service = house.service().await;
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
        looks(&service).await;
        let runs = || house.forge().state().check_runs.iter().map(|run| (run.context.clone(), run.state.clone())).collect::<Vec<_>>();
        let latest = |state: &str| may.then(|| (CONTEXT.to_owned(), state.to_owned()));
        assert_eq!(runs().last().cloned(), latest("failure"));
        let number = house.pull_requests()[0].number;
        hear(&service, &house.forge().approve(project::PATH, number, WRITER).unwrap()).await;
        assert!(is_green(&house));
        assert_eq!(runs().last().cloned(), latest("success"));
        let written = runs().len();
        hear(&service, &house.forge().write_comment(project::PATH, issue, "Well done.", project::READER).unwrap()).await;
        assert_eq!(runs().len(), written, "what stands is not written again");
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    }
}

/// The real program, killed in the middle of a look.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_service_looks_again_at_its_next_start() {
    let house = House::new(Kind::GitHub).await;
    house.forge().add_user(WRITER, false);
    house.forge().permit(project::PATH, WRITER, Permission::Write).unwrap();
    house.open_issue();
    let bot = Bot::start(&house);
    for delivery in house.label(1) {
        assert_eq!(deliver(&delivery, &bot.door).await.unwrap(), 202);
    }
    let is_looked_at =
        |house: &House| house.forge().state().statuses.last().is_some_and(|status| status.description.contains("other than"));
    house.until(is_looked_at).await;
    let number = house.pull_requests()[0].number;
    let reached = house.forge().hold(0, Strike::Before);
    for delivery in house.forge().approve(project::PATH, number, WRITER).unwrap() {
        assert_eq!(deliver(&delivery, &bot.door).await.unwrap(), 202);
    }
    reached.await.unwrap();
    bot.kill();
    assert!(!is_green(&house));
    let bot = Bot::start(&house);
    house.until(is_green).await;
    bot.kill();
    house.forge().push_to(project::PATH, number, WRITER, "tallybook/more.py").unwrap();
    let bot = Bot::start(&house);
    house.until(|house| status_of(house, &head(house)).is_some_and(|(green, _)| !green)).await;
    bot.kill();
}
