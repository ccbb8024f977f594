//! `frognano-bot doctor`: what would fail is said before the first label, and what is too much as well.

use std::process::Output;

use frognano_bot::app::doctor;
use frognano_bot::config::Config;
use frognano_bot::demo::forge::Account;
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::{Check, Health, Permission, RepoRef};
use serde_json::Value;

use crate::house::{House, TOKEN};

const CALL: &str = r#"{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "true"}}]}"#;

async fn house(kind: Kind) -> House {
    House::with_script(kind, CALL).await
}

async fn run(house: &House, arguments: &[&str]) -> Output {
    let config = house.write_config();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
    command.arg("doctor").arg("--config").arg(config).args(["--repo", project::PATH]).args(arguments).output().await.unwrap()
}

async fn checks(house: &House) -> Vec<Check> {
    let config = Config::load(&house.write_config()).unwrap();
    let named = RepoRef { forge: "here".to_owned(), id: String::new(), path: project::PATH.to_owned() };
    let checks = doctor::examine(&config, &[named]).await;
    assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    checks
}

fn found<'a>(checks: &'a [Check], name: &str) -> &'a Check {
    checks.iter().find(|check| check.check == name).unwrap_or_else(|| panic!("no check {name}: {checks:#?}"))
}

/// Everything in order, as the forge of this kind wants it: the least rights and scopes that do.
async fn in_order(kind: Kind) -> House {
    let house = house(kind).await;
    let (scopes, permission): (&[&str], _) = match kind {
        Kind::Gitea | Kind::Forgejo => (&["write:repository", "write:issue", "read:user"], Permission::Admin),
        Kind::GitHub => (&["repo"], Permission::Write),
        Kind::GitLab => (&["api"], Permission::Write),
    };
    house.forge().add_token(TOKEN, project::BOT, scopes).unwrap();
    house.forge().permit(project::PATH, project::BOT, permission).unwrap();
    house
}

#[tokio::test]
async fn a_service_in_order_has_nothing_that_would_fail() {
    for kind in Kind::ALL {
        let house = in_order(kind).await;
        let output = run(&house, &["--json"]).await;
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!((output.status.code(), &told["ok"]), (Some(0), &Value::Bool(true)), "{told:#}");
        let all = told["checks"].as_array().unwrap();
        for name in [
            "reachable",
            "version",
            "token",
            "scopes",
            "write",
            "permissions",
            "drafts",
            "protection",
            "answers",
            "tool_calls",
            "starts",
            "reaches_nothing",
            "opens",
            "writable",
        ] {
            let check = all.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("{kind:?}: no {name} in {told:#}"));
            assert!(check["status"] == "ok" || name == "protection", "{kind:?}: {check}");
        }
        assert!(all.iter().all(|check| check["check"] != "too_wide"), "{kind:?}: {told:#}");
        let text = String::from_utf8(run(&house, &[]).await.stdout).unwrap();
        assert!(text.lines().count() == all.len() && text.contains("ok    model"), "{text}");
    }
}

#[tokio::test]
async fn what_would_fail_is_named_and_ends_with_status_1() {
    type Break = fn(&House);
    let breaks: [(&str, Break); 4] = [
        ("token", |house| house.forge().revoke(TOKEN)),
        ("write", |house| house.forge().permit(project::PATH, project::BOT, Permission::Read).unwrap()),
        ("repository", |house| house.forge().with_repository(project::PATH, |repository| repository.archived = true).unwrap()),
        ("reachable", |house| house.forge().fail_next("GET", "*/user", 404, 99)),
    ];
    for kind in [Kind::Gitea, Kind::GitHub, Kind::GitLab] {
        for (name, make) in breaks {
            let house = in_order(kind).await;
            make(&house);
            let output = run(&house, &["--json"]).await;
            let told: Value = serde_json::from_slice(&output.stdout).unwrap();
            let failed = told["checks"].as_array().unwrap().iter().filter(|check| check["status"] == "fail");
            let failed = failed.map(|check| check["check"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
            assert!(failed.contains(&name.to_owned()), "{kind:?} {name}: {told:#}");
            assert_eq!((output.status.code(), &told["ok"]), (Some(1), &Value::Bool(false)));
            assert!(!String::from_utf8_lossy(&output.stdout).contains(TOKEN));
        }
    }
}

#[tokio::test]
async fn rights_and_scopes_beyond_the_need_are_named() {
    let house = in_order(Kind::GitHub).await;
    house.forge().add_token(TOKEN, project::BOT, &["repo", "admin:org", "delete_repo"]).unwrap();
    house.forge().permit(project::PATH, project::BOT, Permission::Admin).unwrap();
    let checks = checks(&house).await;
    let wide = checks.iter().filter(|check| check.check == "too_wide").map(|check| check.detail.as_str()).collect::<Vec<_>>();
    assert!(wide.len() == 2 && wide[0].contains("admin:org, delete_repo") && wide[1].contains("administrator"), "{wide:?}");

    let house = in_order(Kind::GitLab).await;
    house.forge().add_token(TOKEN, project::BOT, &["api", "sudo", "read_user"]).unwrap();
    house.forge().permit(project::PATH, project::BOT, Permission::Admin).unwrap();
    let checks = self::checks(&house).await;
    let wide = checks.iter().filter(|check| check.check == "too_wide").map(|check| check.detail.as_str()).collect::<Vec<_>>();
    assert!(wide.len() == 2 && wide[0].contains("has sudo beyond") && wide[1].contains("Maintainer"), "{wide:?}");
    house.forge().add_token(TOKEN, project::BOT, &["read_api"]).unwrap();
    assert_eq!(found(&self::checks(&house).await, "scopes").status, Health::Fail);

    let house = in_order(Kind::Gitea).await;
    house.forge().add_token(TOKEN, project::BOT, &["all"]).unwrap();
    assert!(found(&self::checks(&house).await, "too_wide").detail.contains("read:notification"));
}

#[tokio::test]
async fn hooks_branches_and_permissions_are_looked_at() {
    let house = house(Kind::GitHub).await;
    house.forge().state().hook_tries = vec![202, 500, 0];
    house.forge().state().protected = false;
    let told = checks(&house).await;
    assert_eq!(found(&told, "webhook").status, Health::Ok);
    assert!(found(&told, "deliveries").detail.starts_with("2 of the last 3"), "{told:#?}");
    assert_eq!(found(&told, "protection").status, Health::Warn);
    house.forge().with_repository(project::PATH, |repository| repository.hooks.clear()).unwrap();
    assert_eq!(found(&checks(&house).await, "webhook").status, Health::Fail);

    let house = in_order(Kind::GitLab).await;
    assert_eq!(found(&checks(&house).await, "webhook").status, Health::Warn, "a developer may not see it");
    house.forge().permit(project::PATH, project::BOT, Permission::Admin).unwrap();
    house.forge().state().protected = false;
    let told = checks(&house).await;
    assert_eq!((found(&told, "webhook").status, found(&told, "protection").status), (Health::Ok, Health::Warn));
    house.forge().state().hook_tries = vec![500];
    let told = checks(&house).await;
    assert!(found(&told, "webhook").status == Health::Fail && found(&told, "webhook").detail.contains("press Test"), "{told:#?}");
    house.forge().with_repository(project::PATH, |repository| repository.hooks.clear()).unwrap();
    assert_eq!(found(&checks(&house).await, "webhook").status, Health::Fail);

    let house = in_order(Kind::Gitea).await;
    assert_eq!(found(&checks(&house).await, "webhook").status, Health::Ok);
    house.forge().permit(project::PATH, project::BOT, Permission::Write).unwrap();
    let told = checks(&house).await;
    let of = |name: &str| found(&told, name).status;
    assert_eq!((of("permissions"), of("webhook")), (Health::Warn, Health::Warn), "a writer may not see it: {told:#?}");
}

#[tokio::test]
async fn a_hook_that_may_be_the_organisations_is_no_failure_and_one_that_can_be_nowhere_is() {
    for kind in [Kind::Gitea, Kind::Forgejo] {
        let house = in_order(kind).await;
        house.forge().with_repository(project::PATH, |repository| repository.hooks.clear()).unwrap();
        let told = checks(&house).await;
        let webhook = found(&told, "webhook");
        assert!(webhook.status == Health::Warn && webhook.detail.contains("whether acme has one"), "{kind:?}: {webhook:?}");
        house.forge().state().users.iter_mut().find(|user| user.login == "acme").unwrap().account = Account::Person;
        house.forge().add_token(TOKEN, project::BOT, &["write:repository", "write:issue", "read:user", "read:organization"]).unwrap();
        let told = checks(&house).await;
        assert_eq!(found(&told, "webhook").status, Health::Fail, "{kind:?}: {told:#?}");
    }
}

#[tokio::test]
async fn a_model_that_is_gone_or_makes_no_call_is_told_apart() {
    let house = House::with_script(Kind::Gitea, r#"{"content": "I'd rather not."}"#).await;
    let told = checks(&house).await;
    assert_eq!((found(&told, "answers").status, found(&told, "tool_calls").status), (Health::Ok, Health::Warn));
    let text = std::fs::read_to_string(house.write_config()).unwrap().replace(&house.model.base_url, "http://127.0.0.1:1/v1");
    let config = Config::parse(&text, house.folder.path()).unwrap();
    let told = doctor::examine(&config, &[]).await;
    let answers = found(&told, "answers");
    assert!(answers.status == Health::Fail && answers.detail.contains("[model] url"), "{answers:?}");
}

#[tokio::test]
async fn repositories_that_were_worked_on_are_looked_at_without_being_named() {
    let house = House::new(Kind::GitHub).await;
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    assert_eq!(service.outcome().await.name(), "proposed");
    service.end().await;
    let config = Config::load(&house.write_config()).unwrap();
    let told = doctor::examine(&config, &[]).await;
    assert!(told.iter().any(|check| check.subject == format!("here {}", project::PATH)), "{told:#?}");
}

#[tokio::test]
async fn rulesets_are_read_for_the_default_branch_and_for_ours() {
    let house = in_order(Kind::GitHub).await;
    house.forge().state().protected = false;
    let rule = |approvals: u64| serde_json::json!([{"type": "pull_request", "parameters": {"required_approving_review_count": approvals}}]);
    for (approvals, health, words) in [(2, Health::Ok, "approving reviews for main: 2"), (0, Health::Warn, "no approval")] {
        house.forge().state().rules.insert("main".to_owned(), rule(approvals));
        let told = checks(&house).await;
        let protection = found(&told, "protection");
        assert!(protection.status == health && protection.detail.contains(words), "{protection:?}");
        assert!(told.iter().all(|check| check.check != "our_branches"), "{told:#?}");
    }
    let blocking = serde_json::json!([{"type": "creation"}, {"type": "deletion"}, {"type": "required_linear_history"}]);
    house.forge().state().rules.insert("frognano/issue-0-doctor".to_owned(), blocking);
    let told = checks(&house).await;
    assert!(found(&told, "our_branches").detail.contains("creation, deletion;"), "{told:#?}");
}
