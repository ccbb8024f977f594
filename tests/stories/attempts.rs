//! Several attempts: a red, refused or empty result is followed by a fresh conversation, the best is proposed, and nothing that has ended is made again.

use frognano_bot::demo::forge::deliver;
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Outcome;
use frognano_bot::worker::Ended;
use serde_json::Value;

use crate::crashes::{Bot, recovers};
use crate::house::{BOTH, House, Service};

const THREE: &str = "[run]\nattempts = 3\n";

/// A conversation of one command and its last words.
fn conversation(command: &str, last: &str) -> String {
    let call = serde_json::json!({"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": command}}]});
    format!("{call}\n{}\n", serde_json::json!({"content": last}))
}

/// Breaks a test that passes.
fn red() -> String {
    conversation("sed -i 's/return \\[share\\] \\* parts/return [share]/' tallybook/plan.py", "It returns one share now.")
}

/// Touches what no patch may touch.
fn refused() -> String {
    conversation("mkdir -p .github/workflows && echo 'on: push' > .github/workflows/x.yml", "CI runs now.")
}

fn empty() -> String {
    conversation("ls", "There is nothing to do.")
}

/// Breaks nothing, proves nothing.
fn consistent() -> String {
    conversation("echo 'MORE = 1' >> tallybook/money.py", "A remark.")
}

fn right() -> String {
    let fix = "python3 - <<'X'\np='tallybook/plan.py'\ns=open(p).read()\n\
               s=s.replace('    share = total // parts\\n    return [share] * parts\\n', \
               '    share, remainder = divmod(total, parts)\\n    return [share + 1] * remainder + [share] * (parts - remainder)\\n')\n\
               open(p,'w').write(s)\nX";
    conversation(fix, "The cents that are left over go to the first parts.")
}

async fn solved(settings: &str, script: &str) -> (House, Service, Outcome) {
    let house = House::with_script_of_turns(Kind::Gitea, script).await.set(settings);
    let service = house.service().await;
    house.open_issue();
    service.take(&house.label(1)).await;
    let outcome = service.outcome().await;
    (house, service, outcome)
}

/// The conversations that the model saw: each request's messages.
fn conversations(house: &House) -> Vec<Vec<Value>> {
    let all = house.model.requests();
    let messages = all.iter().map(|request| request["messages"].as_array().unwrap().clone()).collect::<Vec<_>>();
    let firsts = messages.into_iter().filter(|messages| messages.len() == 2);
    firsts.collect()
}

async fn report(service: &Service) -> Value {
    serde_json::from_str(service.jobs().await[0].report.as_deref().unwrap()).unwrap()
}

#[tokio::test]
async fn after_a_red_result_a_fresh_attempt_is_told_what_failed() {
    let (house, service, outcome) = solved(THREE, &[red(), right()].concat()).await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
    assert_eq!(house.model.requests().len(), 4);
    let [first, second] = &conversations(&house)[..] else { panic!("two conversations") };
    assert_eq!((&first[0], second.len()), (&second[0], 2), "one system message and one user message, as ever");
    let (task, again) = (first[1]["content"].as_str().unwrap(), second[1]["content"].as_str().unwrap());
    assert!(again.starts_with(task), "the task stays as it is, and what failed stands behind it");
    let told = &again[task.len()..];
    assert!(told.contains("do not pass on the patch") && told.contains("test_"), "{told}");
    for request in house.model.requests() {
        let users = request["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user").count();
        assert_eq!(users, 1);
    }
    let pull_request = &house.pull_requests()[0];
    assert!(pull_request.body.contains("2 attempts"), "{}", pull_request.body);
    let report = report(&service).await;
    assert_eq!(report["attempts"][0]["reason"], "tests-regressed");
    assert_eq!(report["attempts"][1]["proof"], "fixed");
    assert_eq!((&report["attempts"][0]["agrees"], &report["attempts"][1]["chosen"]), (&Value::Bool(false), &Value::Bool(true)));
}

#[tokio::test]
async fn a_rule_that_refused_is_named_and_an_empty_result_draws_another_seed() {
    let (house, service, outcome) = solved(THREE, &[refused(), empty(), right()].concat()).await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
    let [first, second, third] = &conversations(&house)[..] else { panic!("three conversations") };
    let said = second[1]["content"].as_str().unwrap();
    assert!(said.contains(".github/workflows/x.yml"), "{said}");
    assert_eq!(third[1], first[1], "of nothing nothing can be said");
    let seeds = house.model.requests().iter().map(|request| request["seed"].clone()).collect::<Vec<_>>();
    assert_ne!(seeds.first(), seeds.last());
    let report = report(&service).await;
    let reasons = report["attempts"].as_array().unwrap().iter().map(|attempt| attempt["reason"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(reasons, ["protected-path", "nothing_changed", ""]);
}

#[tokio::test]
async fn the_first_that_is_accepted_ends_it() {
    for (settings, script, asked, proof) in [
        (THREE, [right(), red()].concat(), 2, "fixed"),
        (THREE, [consistent(), right()].concat(), 2, "consistent"),
        ("[run]\nattempts = 3\nattempts_for_proof = true\n", [consistent(), right()].concat(), 4, "fixed"),
        ("[run]\nattempts = 2\nattempts_for_proof = true\n", [consistent(), red()].concat(), 4, "consistent"),
    ] {
        let (house, service, outcome) = solved(settings, &script).await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
        let report = report(&service).await;
        assert_eq!((house.model.requests().len(), report["proof"].as_str().unwrap()), (asked, proof), "{settings}");
    }
}

#[tokio::test]
async fn when_all_fail_the_best_reason_is_told_once() {
    let (house, service, outcome) = solved(THREE, &[empty(), red(), empty()].concat()).await;
    assert!(matches!(&outcome, Outcome::Refused { reason, .. } if reason == "tests-regressed"), "{outcome:?}");
    assert_eq!((house.pull_requests().len(), house.said(1).len(), house.model.requests().len()), (0, 1, 6));
    assert!(house.said(1)[0].contains("3 attempts"), "{:?}", house.said(1));
    assert_eq!(report(&service).await["attempts"].as_array().unwrap().len(), 3);
    let (_, _, outcome) = solved(THREE, &[empty(), empty(), empty()].concat()).await;
    assert!(matches!(outcome, Outcome::NoPatch { .. }), "{outcome:?}");
}

#[tokio::test]
async fn a_repository_may_ask_for_fewer_attempts() {
    let house = House::with_script_of_turns(Kind::Gitea, &[red(), right()].concat()).await.set(THREE);
    house.commit(|folder| std::fs::write(folder.join(".frognano.toml"), "[run]\nattempts = 1\n").unwrap());
    let service = house.service().await;
    house.open_issue();
    service.take(&house.label(1)).await;
    let outcome = service.outcome().await;
    assert!(matches!(outcome, Outcome::Refused { .. }), "{outcome:?}");
    assert_eq!(house.model.requests().len(), 2);
}

#[tokio::test]
async fn all_attempts_share_the_time() {
    let slow = conversation("sleep 1.1", "There is nothing to do.");
    let (house, _, outcome) = solved("[run]\nattempts = 3\nmax_seconds = 1\n", &[slow, right()].concat()).await;
    assert!(matches!(outcome, Outcome::NoPatch { .. }), "{outcome:?}");
    assert_eq!(house.model.requests().len(), 1, "the time of all is over");
}

#[tokio::test]
async fn a_fault_in_a_further_attempt_leaves_what_the_first_came_to() {
    let failing = r#"{"error": {"status": 400, "message": "no"}}"#;
    let (house, _, outcome) = solved(THREE, &format!("{}{failing}\n", red())).await;
    assert!(matches!(&outcome, Outcome::Refused { reason, .. } if reason == "tests-regressed"), "{outcome:?}");
    assert!(house.said(1)[0].contains("not the model's"), "{:?}", house.said(1));
    let (_, _, outcome) = solved(THREE, failing).await;
    assert!(matches!(outcome, Outcome::Abandoned { .. }), "the first attempt's fault is no ending of the model's: {outcome:?}");
}

#[tokio::test]
async fn a_model_that_is_down_between_attempts_is_waited_for() {
    let down = r#"{"error": {"status": 503, "message": "loading"}}"#;
    let house = House::with_script_of_turns(Kind::Gitea, &format!("{}{down}\n{}", red(), right())).await.set(THREE);
    let service = house.service().await;
    house.open_issue();
    service.take(&house.label(1)).await;
    assert_eq!(service.step().await, Some(Ended::PutBack));
    let outcome = house.later(&service).await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
    assert_eq!(house.model.requests().len(), 5, "the red attempt is not made again");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_word_to_the_model_no_attempt_that_ended_is_made_again() {
    for after in 0..6 {
        let house = House::with_script_of_turns(Kind::Gitea, &[red(), refused(), right()].concat()).await.set(THREE);
        house.open_issue();
        let bot = Bot::start(&house);
        let reached = house.model.hold(after);
        for delivery in house.label(1) {
            assert_eq!(deliver(&delivery, &bot.door).await.unwrap(), 202);
        }
        reached.await.unwrap();
        bot.kill();
        recovers(&house, &format!("killed at request {} to the model", after + 1)).await;
        let began = conversations(&house).len();
        assert!(began <= 3 + usize::from(after % 2 == 0), "killed at request {}: {began} conversations began", after + 1);
    }
}

#[tokio::test]
async fn another_round_makes_several_attempts_too_and_the_title_follows_its_proof() {
    for kind in BOTH {
        let script = [consistent(), red(), right()].concat();
        let house = House::with_script_of_turns(kind, &script).await.set(THREE);
        let service = house.service().await;
        house.open_issue();
        service.take(&house.label(1)).await;
        service.outcome().await;
        let first = house.pull_requests()[0].clone();
        assert!(first.title.contains("[consistent] "), "{}", first.title);
        let revise = "/frognano revise\nMend it.";
        service.take(&house.forge().write_comment(project::PATH, first.number, revise, project::MAINTAINER).unwrap()).await;
        crate::commands::heard(&service).await;
        let outcome = service.outcome().await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
        let now = house.pull_requests()[0].clone();
        assert_eq!(now.title, first.title.replace("[consistent]", "[fixed]"));
        assert!(house.forge().state().is_draft(&now, now.pull.as_ref().unwrap()), "{}", now.title);
        assert!(now.body.contains("2 attempts"), "{}", now.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_what_tests_expect_is_labelled_and_said_on_top() {
    for kind in [Kind::GitHub, Kind::GitLab] {
        let script = [consistent(), red()].concat();
        let settings = "[run]\nattempts = 2\nattempts_for_proof = true\n";
        let house = House::with_script_of_turns(kind, &script).await.set(settings);
        house.open_issue();
        let bot = Bot::start(&house);
        let reached = house.model.hold(2);
        for delivery in house.label(1) {
            assert_eq!(deliver(&delivery, &bot.door).await.unwrap(), 202);
        }
        reached.await.unwrap();
        bot.kill();
        let database = format!("sqlite://{}", house.folder.path().join("data/frognano.sqlite").display());
        let pool = sqlx::SqlitePool::connect(&database).await.unwrap();
        let bent =
            "update jobs set checkpoint = replace(checkpoint, '\"changed_expectations\":[]', '\"changed_expectations\":[\"t::bent\"]')";
        assert_eq!(sqlx::query(bent).execute(&pool).await.unwrap().rows_affected(), 1);
        let checkpoint: String = sqlx::query_scalar("select checkpoint from jobs").fetch_one(&pool).await.unwrap();
        assert!(checkpoint.contains("t::bent"), "{checkpoint}");
        pool.close().await;
        let mut bot = Bot::start(&house);
        bot.ended.recv().await.unwrap();
        bot.stop();
        let [pull_request] = &house.pull_requests()[..] else { panic!("{:?}", house.said(1)) };
        assert!(pull_request.open, "{kind:?}: {:?}", house.said(1));
        let labels = pull_request.labels.iter().map(|label| label.name.as_str()).collect::<Vec<_>>();
        assert_eq!(labels, ["needs-human-review", "frognano-tests-changed"], "{kind:?}: {}", pull_request.body);
        let top = pull_request.body.split("### ").next().unwrap();
        assert!(top.contains("alters what an existing test") && top.contains("`t::bent`"), "{top}");
        assert!(house.said(1)[0].contains("It alters what 1 existing test"), "{:?}", house.said(1));
    }
}
