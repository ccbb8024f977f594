//! `frognano-bot doctor` on what stands between the bot and a merge: who could merge without a person is refused, with what to click.

use frognano_bot::app::doctor;
use frognano_bot::config::Config;
use frognano_bot::demo::forge::Protection;
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::{Check, Health, Permission, RepoRef};

use crate::faces::on_each_forge;
use crate::house::House;

const CALL: &str = r#"{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "true"}}]}"#;

/// With the rights that the forge's page asks for.
async fn house(kind: Kind) -> House {
    let house = House::with_script(kind, CALL).await;
    let permission = if matches!(kind, Kind::Gitea | Kind::Forgejo) { Permission::Admin } else { Permission::Write };
    house.forge().permit(project::PATH, project::BOT, permission).unwrap();
    house
}

async fn told(house: &House, name: &str) -> Check {
    let config = Config::load(&house.write_config()).unwrap();
    let named = RepoRef { forge: "here".to_owned(), id: String::new(), path: project::PATH.to_owned() };
    let checks = doctor::examine(&config, &[named]).await;
    assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    checks.iter().find(|check| check.check == name).unwrap_or_else(|| panic!("no check {name}: {checks:#?}")).clone()
}

on_each_forge! {
    async fn whether_the_branch_demands_the_status_is_said(kind: Kind) {
        let house = house(kind).await;
        assert_eq!(told(&house, "human_review").await.status, Health::Ok);
        house.forge().state().protection.statuses.clear();
        let without = told(&house, "human_review").await;
        assert!(without.status == Health::Warn && without.detail.contains("Settings"), "{without:?}");
    }
}

on_each_forge! {
    async fn a_bot_that_could_merge_without_a_person_is_refused(kind: Kind) {
        let house = house(kind).await;
        assert_eq!(told(&house, "could_merge").await.status, Health::Ok);
        // Who sets the status is not held by it.
        let only_the_status = Protection { approvals: 0, writers_may_merge: true, ..Protection::default() };
        house.forge().state().protection = only_the_status;
        let open = told(&house, "could_merge").await;
        match kind {
            // What a protection demands beside statuses GitHub tells to administrators only.
            Kind::GitHub => assert!(open.status == Health::Warn && open.detail.contains("Rulesets"), "{open:?}"),
            _ => assert!(open.status == Health::Fail && open.detail.contains("Settings"), "{open:?}"),
        }
        house.forge().state().protected = false;
        let open = told(&house, "could_merge").await;
        assert!(open.status == Health::Fail && open.detail.contains("Settings"), "{open:?}");
    }
}

on_each_forge! {
    async fn an_administrator_whom_the_protection_does_not_hold_is_refused(kind: Kind) {
        let house = house(kind).await;
        house.forge().permit(project::PATH, project::BOT, Permission::Admin).unwrap();
        house.forge().state().protection.administrators_pass = true;
        let open = told(&house, "could_merge").await;
        assert!(open.status == Health::Fail && open.detail.contains("Settings"), "{open:?}");
    }
}
