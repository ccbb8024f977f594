//! The service as a GitHub App, told through the built-in forge, which checks the App's signature with its public key.

use std::sync::Arc;

use frognano_bot::demo::forge::{Delivery, Forge as DemoForge, Installed, Strike, Token};
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::{Clock, Outcome, Permission, RepoRef, SystemClock};
use frognano_bot::forge::{Forge, ForgeError, Settings, Sleep, github};
use frognano_bot::worker::Ended;

use crate::house::House;

const KEY: &str = include_str!("../fixtures/github-app/app.key.pem");
const PUBLIC: &str = include_str!("../fixtures/github-app/app.pub.pem");
const GRANTED: [&str; 6] = ["write:contents", "write:issues", "write:pull_requests", "read:metadata", "write:statuses", "read:members"];
const ACCOUNT: &str = "frognano-app[bot]";

struct Shifted(i64);

impl Clock for Shifted {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms() + self.0
    }
}

pub fn install(forge: &DemoForge, granted: &[&str]) {
    forge.add_app("Iv1.app", "frognano-app", PUBLIC, granted).unwrap();
    forge.permit(project::PATH, ACCOUNT, Permission::Write).unwrap();
}

pub async fn house() -> House {
    let house = House::new(Kind::GitHub).await.forge_entry("app_id = \"Iv1.app\"\napp_key = { file = \"app.pem\" }");
    std::fs::write(house.folder.path().join("app.pem"), KEY).unwrap();
    install(house.forge(), &GRANTED);
    house
}

fn client(house: &House, clock: Arc<dyn Clock>) -> github::Client {
    client_of(house, clock, "Iv1.app")
}

fn client_of(house: &House, clock: Arc<dyn Clock>, id: &str) -> github::Client {
    let base = &house.running.base_url;
    let settings = Settings {
        name: "here".to_owned(),
        api_base: format!("{base}/api/v3").parse().unwrap(),
        git_base: base.parse().unwrap(),
        write_spacing: std::time::Duration::ZERO,
        web_base: None,
        token: String::new().into(),
        ca_bundle: None,
        ca_file: None,
        pause: Arc::new(Sleep),
        clock,
    };
    let identity = github::Identity { id: id.to_owned(), key: KEY.to_owned().into() };
    github::Client::for_app(settings, &identity).unwrap()
}

fn repo(house: &House) -> RepoRef {
    let id = house.forge().state().repository(project::PATH).unwrap().id.to_string();
    RepoRef { forge: "here".to_owned(), id, path: project::PATH.to_owned() }
}

fn scopes(token: &Token) -> Vec<&str> {
    token.scopes.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn an_app_goes_the_whole_way_with_tokens_for_one_repository_and_the_least_that_is_needed() {
    let house = house().await;
    let service = house.service().await;
    assert!(house.forge().app_tokens().is_empty(), "none is made before it is used");
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    let outcome = service.outcome().await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
    assert_eq!((house.pull_requests()[0].author.as_str(), house.pull_requests().len()), (ACCOUNT, 1));
    let tokens = house.forge().app_tokens();
    let mut given = tokens.iter().map(|(_, token)| scopes(token)).collect::<Vec<_>>();
    given.sort();
    assert_eq!(
        given,
        [
            vec!["read:metadata", "write:contents"],
            vec!["read:metadata", "write:contents", "write:issues", "write:pull_requests", "write:statuses"]
        ]
    );
    let id = house.forge().state().repository(project::PATH).unwrap().id;
    assert!(tokens.iter().all(|(text, token)| text.len() > 500 && token.repositories.as_ref().unwrap().iter().eq([&id])));
    assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    service.end().await;
}

#[tokio::test]
async fn a_token_that_is_refused_is_made_anew_once() {
    let house = house().await;
    let (client, repo) = (client(&house, Arc::new(SystemClock)), repo(&house));
    client.repository(&repo).await.unwrap();
    let revoke = || house.forge().app_tokens().iter().for_each(|(token, _)| house.forge().revoke(token));
    revoke();
    client.repository(&repo).await.unwrap();
    assert_eq!(house.forge().count("POST", "*/access_tokens"), 2);
    house.forge().fail_next("GET", "*/repos/acme/tallybook", 401, 2);
    let error = client.repository(&repo).await.unwrap_err();
    assert!(matches!(error, ForgeError::Denied { .. }), "{error:?}");
    assert_eq!(house.forge().count("POST", "*/access_tokens"), 3);
    assert!(!format!("{error} {error:?}").contains("ghs_"));
}

#[tokio::test]
async fn a_token_is_kept_until_shortly_before_it_ends() {
    let house = house().await;
    let clock = house.clock();
    let (client, repo) = (client(&house, clock.clone()), repo(&house));
    for (minutes, made) in [(0, 1), (50, 1), (6, 2)] {
        clock.pass(minutes * 60_000);
        client.repository(&repo).await.unwrap();
        assert_eq!(house.forge().count("POST", "*/access_tokens"), made, "{minutes}");
    }
}

#[tokio::test]
async fn clocks_that_differ_cost_one_refusal() {
    for minutes in [-20, 20] {
        let house = house().await;
        let client = client(&house, Arc::new(Shifted(minutes * 60_000)));
        assert_eq!(client.myself().await.unwrap().login, ACCOUNT);
        client.repository(&repo(&house)).await.unwrap();
        let refused = house.forge().requests().iter().filter(|request| request.status == 401).count();
        assert_eq!(refused, 1, "{minutes}");
    }
}

#[tokio::test]
async fn another_app_and_missing_permissions_are_said() {
    let house = House::new(Kind::GitHub).await;
    install(house.forge(), &["write:contents", "read:metadata"]);
    let error = client(&house, Arc::new(SystemClock)).repository(&repo(&house)).await.unwrap_err();
    assert!(error.to_string().contains("permissions requested are not granted"), "{error}");
    let error = client_of(&house, Arc::new(SystemClock), "Iv1.other").myself().await.unwrap_err();
    assert!(matches!(error, ForgeError::Denied { .. }), "{error:?}");
}

#[tokio::test]
async fn a_repository_renamed_under_an_app_is_found_again() {
    let house = house().await;
    let service = house.service().await;
    let issue = house.open_issue();
    let deliveries = house.label(issue);
    house.forge().with_repository(project::PATH, |repository| repository.path = "acme/renamed".to_owned()).unwrap();
    service.take(&deliveries).await;
    let ended = service.step().await;
    assert!(matches!(&ended, Some(Ended::Outcome(Outcome::Proposed { url })) if url.contains("/acme/renamed/")), "{ended:?}");
}

#[tokio::test]
async fn deliveries_that_never_arrived_are_asked_for_again_at_most_three_times() {
    let house = house().await;
    let client = client(&house, Arc::new(SystemClock));
    let now = SystemClock.now_ms();
    for (guid, age, status) in [
        ("old", 7_200_000, 0),
        ("lost", 60_000, 500),
        ("late", 60_000, 0),
        ("late", 50_000, 202),
        ("hopeless", 60_000, 0),
        ("hopeless", 50_000, 0),
        ("hopeless", 40_000, 0),
        ("fine", 60_000, 202),
    ] {
        house.forge().tried(guid, now - age, status);
    }
    assert_eq!(client.redeliver_failed(now - 3_600_000).await.unwrap(), 1);
    let again = house.forge().tries();
    assert_eq!((again.len(), again[0].guid.as_str()), (9, "lost"));
    assert_eq!(client.redeliver_failed(now - 3_600_000).await.unwrap(), 0);
}

#[tokio::test]
async fn the_doctor_names_what_an_app_lacks_and_what_it_has_too_much() {
    use frognano_bot::domain::Health;
    use frognano_bot::forge::Examination;
    let house = house().await;
    let examined = async |house: &House| {
        let repositories = [repo(house)];
        client(house, Arc::new(SystemClock)).examine(&Examination { repositories: &repositories }).await
    };
    house.forge().tried("x", SystemClock.now_ms(), 202);
    let checks = examined(&house).await;
    assert!(checks.iter().all(|check| check.status == Health::Ok), "{checks:#?}");
    install(house.forge(), &["write:contents", "write:issues", "write:pull_requests", "read:metadata", "write:administration"]);
    let checks = examined(&house).await;
    let detail = |name: &str| &checks.iter().find(|check| check.check == name).unwrap().detail;
    assert!(detail("scopes").contains("statuses: write") && detail("too_wide").contains("administration: write"), "{checks:#?}");
    let here = "https://bot.example.com/webhooks/here";
    for (address, events, name, words) in [
        ("", &["issues"][..], "webhook", "has none"),
        ("https://bot.example.com/webhooks/there", &["issues"], "webhook", "/webhooks/here"),
        (here, &["push", "issue_comment"], "events", "no label"),
        (here, &["issues", "label"], "events", "does not send issue_comment, pull_request"),
    ] {
        house.forge().set_app_hook(address, events);
        let checks = examined(&house).await;
        let said = checks.iter().find(|check| check.check == name).unwrap();
        let expected = if words.starts_with("does not") { Health::Warn } else { Health::Fail };
        assert!(said.detail.contains(words) && said.status == expected, "{said:?}");
    }
    assert_eq!(house.forge().unexpected(), Vec::<String>::new());
}

#[tokio::test]
async fn a_label_whose_delivery_was_lost_is_found_in_a_repository_that_was_never_heard_of() {
    let house = house().await;
    let service = house.service().await;
    let issue = house.open_issue();
    drop(house.label(issue));
    assert_eq!(service.store.repositories("here").await.unwrap(), []);
    assert_eq!(service.worker.reconcile().await.unwrap().jobs, 1);
    assert_eq!((service.outcome().await.name(), house.pull_requests().len()), ("proposed", 1));
    assert_eq!(service.worker.reconcile().await.unwrap().jobs, 0);
    let tokens = house.forge().app_tokens();
    let for_all = tokens.iter().filter(|(_, token)| token.repositories.is_none()).map(|(_, token)| scopes(token)).collect::<Vec<_>>();
    assert_eq!(for_all, [["read:metadata"]], "a token for every repository may only look");
    assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    service.end().await;
}

#[tokio::test]
async fn every_page_of_an_installation_is_read_and_archived_repositories_are_left_out() {
    let house = house().await;
    {
        let mut state = house.forge().state();
        let sample = state.repository(project::PATH).unwrap().clone();
        for number in 0..120 {
            let mut another = sample.clone();
            (another.id, another.path, another.archived) = (10_000 + number, format!("acme/book-{number}"), number % 2 == 0);
            state.repositories.push(another);
        }
    }
    let listed = client(&house, Arc::new(SystemClock)).repositories().await.unwrap();
    assert_eq!((listed.len(), house.forge().count("GET", "*/installation/repositories")), (61, 2));
}

#[tokio::test]
async fn the_list_of_an_installation_is_for_installations_alone() {
    let house = house().await;
    let request = reqwest::Client::builder().no_proxy().user_agent("a story").build().unwrap();
    let address = format!("{}/api/v3/installation/repositories", house.running.base_url);
    let answer = request.get(address).bearer_auth(crate::house::TOKEN).send().await.unwrap();
    assert_eq!(answer.status(), 403);
}

#[tokio::test]
async fn a_token_taken_back_before_git_uses_it_costs_one_more() {
    for (method, path) in [("GET", "*/info/refs"), ("POST", "*/git-receive-pack")] {
        let house = house().await;
        let service = house.service().await;
        let issue = house.open_issue();
        let revoke = |forge: &DemoForge| forge.app_tokens().iter().for_each(|(token, _)| forge.revoke(token));
        house.forge().when(method, path, Strike::Before, revoke);
        service.take(&house.label(issue)).await;
        let outcome = service.outcome().await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{path}: {outcome:?}");
        assert_eq!(house.forge().count("POST", "*/access_tokens"), 4, "{path}: one for the API and one for git, both once more");
        service.end().await;
    }
}

#[tokio::test]
async fn an_app_that_git_never_lets_in_ends_as_a_fault_after_one_more_token() {
    let house = house().await;
    let service = house.service().await;
    let issue = house.open_issue();
    house.forge().fail_next("*", "*/git-receive-pack", 403, 100);
    service.take(&house.label(issue)).await;
    let outcome = service.outcome().await;
    assert!(matches!(&outcome, Outcome::Abandoned { fault: frognano_bot::domain::Fault::ForgeFailed, .. }), "{outcome:?}");
    assert_eq!(house.forge().count("POST", "*/git-receive-pack"), 2);
    service.end().await;
}

/// An App that is taken away, suspended, or loses the repository can write nothing any more: what runs and what waits there ends, and why is
/// written down.
#[tokio::test]
async fn runs_end_where_the_app_is_not_installed_any_more() {
    type End = fn(&DemoForge) -> Vec<Delivery>;
    let ways: [(&str, End, &str); 3] = [
        (
            "taken away",
            |forge| forge.end_installation(Installed::Not, project::MAINTAINER).unwrap(),
            "the app's installation on acme/tallybook",
        ),
        ("suspended", |forge| forge.end_installation(Installed::Suspended, project::MAINTAINER).unwrap(), "suspended"),
        ("removed", |forge| forge.remove_from_installation(project::PATH, project::MAINTAINER).unwrap(), "acme/tallybook: not found"),
    ];
    for (way, end, why) in ways {
        let house = house().await;
        let service = house.service().await;
        for issue in [house.open_issue(), house.open_issue()] {
            service.take(&house.label(issue)).await;
        }
        let reached = house.model.hold(1);
        let worker = service.worker.clone();
        let running = tokio::spawn(async move { worker.run_next(&tokio_util::sync::CancellationToken::new()).await.unwrap() });
        reached.await.unwrap();
        let said = house.said(1);
        service.take(&end(house.forge())).await;
        let came = crate::commands::heard(&service).await.concat();
        assert!(came.contains("cancelled") && came.contains(why), "{way}: {came}");
        let ended = running.await.unwrap();
        assert!(matches!(&ended, Some(Ended::Outcome(Outcome::Cancelled { by })) if by.contains(why)), "{way}: {ended:?}");
        assert_eq!(service.step().await, None, "{way}: the other does not wait any more");
        let jobs = service.jobs().await;
        assert!(
            jobs.iter().all(|job| job.state == "done" && job.detail.as_ref().is_some_and(|detail| detail.contains(why))),
            "{way}: {jobs:#?}"
        );
        assert_eq!((house.said(1), house.pull_requests().len(), house.branches().len()), (said, 0, 0), "{way}");
        service.end().await;
    }
}
