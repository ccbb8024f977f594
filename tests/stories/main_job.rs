//! The main job: a label becomes a draft pull request, once, or one reason.

use frognano_bot::demo::forge::{Delivery, deliver};
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Outcome;
use frognano_bot::worker::Ended;

use crate::faces::{again, is_proof, on_each_forge};
use crate::house::{House, SECRET, TOKEN};

on_each_forge! {
    async fn a_label_becomes_a_labelled_draft_on_each_forge(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        let outcome = service.outcome().await;
        let [pull_request] = &house.pull_requests()[..] else { panic!("{kind:?}: {outcome:?}") };
        let pull = pull_request.pull.as_ref().unwrap();
        assert!(house.forge().state().is_draft(pull_request, pull), "{kind:?}");
        assert_eq!(pull_request.labels.iter().map(|label| label.name.as_str()).collect::<Vec<_>>(), ["needs-human-review"]);
        assert_eq!(house.branches(), std::slice::from_ref(&pull.head));
        assert!(pull.head.starts_with(&format!("frognano/issue-{issue}-")), "{}", pull.head);
        assert_eq!(outcome, Outcome::Proposed { url: pull_request_url(&house, pull_request.number) });
        let label = pull_request.title.find("[fixed] ").map(|at| &pull_request.title[at..]);
        assert!(label.is_some_and(|title| title.ends_with(&format!("(#{issue})"))), "{}", pull_request.title);
        assert!(pull_request.body.starts_with("**Fixed: "), "{}", pull_request.body);
        for words in [
            "Fixed: 1 test that failed before passes now",
            "| passed | 8 | 9 |",
            "| failed | 1 | 0 |",
            "tallybook/plan.py",
            project::FAILING_TEST,
        ] {
            assert!(pull_request.body.contains(words), "{words} is not in {}", pull_request.body);
        }
        let [said] = &house.said(issue)[..] else { panic!("one status comment, edited: {:?}", house.said(issue)) };
        assert!(said.contains(&pull_request_url(&house, pull_request.number)), "{said}");
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
        assert_eq!(house.forge().state().quick_actions, Vec::<String>::new());
        service.end().await;
    }
}

fn pull_request_url(house: &House, number: i64) -> String {
    let pulls = house.kind.pulls_page();
    format!("{}/{}/{pulls}/{number}", house.running.base_url, project::PATH)
}

on_each_forge! {
    async fn the_commit_is_the_bots_and_names_issue_and_run(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        service.outcome().await;
        let branch = house.branches().pop().unwrap();
        let show = std::process::Command::new("git")
            .arg("-C")
            .arg(house.folder.path().join("tallybook.git"))
            .args(["log", "-1", "--format=%an <%ae>%n%B", &branch])
            .output()
            .unwrap();
        let text = String::from_utf8(show.stdout).unwrap();
        let run = branch.rsplit('-').next().unwrap();
        assert!(text.starts_with("frognano-bot <frognano-bot@localhost>\n"), "{text}");
        assert!(text.contains(&format!("Frognano-Run: {run}")), "{text}");
        assert!(text.contains(&format!("/issues/{issue}\n")), "{text}");
    }
}

on_each_forge! {
    async fn a_hundred_deliveries_of_one_label_in_any_order_make_one_pull_request(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        let deliveries = house.label(issue);
        let copy = |copy: i32| if copy % 3 == 0 { String::new() } else { format!("-{copy}") };
        let copies = (0..100).flat_map(|number| deliveries.iter().map(move |delivery| again(delivery, &copy(number))));
        let mut all = copies.collect::<Vec<_>>();
        all.reverse();
        service.take(&all[..120.min(all.len())]).await;
        let first = service.step().await;
        assert!(matches!(first, Some(Ended::Outcome(Outcome::Proposed { .. }))), "{first:?}");
        service.take(&all).await;
        let rest = service.work_off().await;
        assert!(rest.iter().all(|ended| *ended == Ended::Quietly), "{rest:?}");
        assert_eq!((house.pull_requests().len(), house.branches().len(), house.said(issue).len()), (1, 1, 1), "{kind:?}");
    }
}

on_each_forge! {
    async fn a_label_set_again_is_asked_again(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        service.outcome().await;
        let off = house.forge().remove_label(project::PATH, issue, project::LABEL, project::MAINTAINER).unwrap();
        service.take(&off).await;
        service.take(&house.label(issue)).await;
        service.work_off().await;
        assert_eq!(house.pull_requests().len(), 2);
        assert_eq!(house.branches().len(), 2);
    }
}

on_each_forge! {
    async fn what_is_not_signed_by_the_forge_is_not_believed(kind: Kind) {
        let house = House::new(kind).await.set("max_body_bytes = 65536");
        let service = house.service().await;
        let issue = house.open_issue();
        let delivery = house.label(issue).pop().unwrap();
        let mut unsigned = delivery.clone();
        unsigned.headers.retain(|(name, _)| !is_proof(name));
        let mut empty = delivery.clone();
        let mut wrong = delivery.clone();
        for (delivery, value) in [(&mut empty, ""), (&mut wrong, &"0".repeat(64))] {
            delivery
                .headers
                .iter_mut()
                .filter(|(name, _)| is_proof(name))
                .for_each(|(_, old)| value.clone_into(old));
        }
        for forged in [&unsigned, &empty, &wrong] {
            assert_eq!(deliver(forged, &service.door).await.unwrap(), 401);
        }
        assert_eq!(deliver(&delivery, &service.door.replace("/here", "/elsewhere")).await.unwrap(), 404);
        let large = Delivery { body: vec![b' '; 70_000].into(), ..delivery.clone() };
        assert_eq!(deliver(&large, &service.door).await.unwrap(), 413);
        assert_eq!(service.step().await, None);
        assert_eq!(service.store.deliveries("here", 10).await.unwrap(), Vec::<[String; 4]>::new());
    }
}

#[tokio::test]
async fn a_signed_body_that_is_no_json_is_refused_and_leaves_nothing() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    let mut delivery = house.label(house.open_issue()).pop().unwrap();
    delivery.body = "<html>".into();
    let signature = frognano_bot::forge::hmac_sha256_hex(SECRET.as_bytes(), &delivery.body);
    delivery.headers.iter_mut().filter(|(name, _)| name == "X-Gitea-Signature").for_each(|(_, value)| value.clone_from(&signature));
    assert_eq!(deliver(&delivery, &service.door).await.unwrap(), 400);
    assert_eq!(service.store.deliveries("here", 10).await.unwrap(), Vec::<[String; 4]>::new());
    assert_eq!(service.step().await, None);
}

on_each_forge! {
    async fn the_token_is_nowhere_but_on_its_way_to_the_forge(kind: Kind) {
        let look = r#"{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "env; cat .git/config; git remote -v; cat /proc/1/environ /proc/*/cmdline 2>&1 | tr '\\0' ' '"}}, {"name": "Write", "arguments": {"file_path": "notes.txt", "content": "x\n"}}]}
{"content": "done"}"#;
        let house = House::with_script(kind, look).await;
        let service = house.service().await;
        service.take(&house.label(house.open_issue())).await;
        service.outcome().await;
        let seen = house.model.requests().last().unwrap().to_string();
        assert!(seen.contains("HOME=/home/agent"), "{seen}");
        for secret in [TOKEN, SECRET, "127.0.0.1"] {
            assert!(!seen.contains(secret), "{secret} was seen in the sandbox: {seen}");
        }
        for file in files_below(&house.folder.path().join("data")) {
            let bytes = std::fs::read(&file).unwrap_or_default();
            assert!(!bytes.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes()), "the token is in {}", file.display());
        }
        let texts = house.said(1).concat() + &house.pull_requests().iter().map(|pull| pull.body.clone()).collect::<String>();
        assert!(!texts.contains(TOKEN));
    }
}

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() { files.extend(files_below(&entry.path())) } else { files.push(entry.path()) }
    }
    files
}
