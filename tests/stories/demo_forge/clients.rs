//! The service's own clients and parsers against the demonstration forge, by every call that they have.

use std::sync::Arc;

use frognano_bot::config::ForgeKind;
use frognano_bot::demo::Kind;
use frognano_bot::domain::{Permission, RepoRef, SystemClock, Verb};
use frognano_bot::forge::{Ears, Forge, ForgeError, Headers, LabelSpec, NewDraft, Settings, Sleep, gitea, github, gitlab};

use super::{SECRET, Stage, sample};

const REVIEW: LabelSpec = LabelSpec { name: "needs-human-review", color: "d4c5f9", description: "A person must look at this" };

pub fn client(stage: &Stage, kind: Kind, login: &str) -> Box<dyn Forge> {
    let settings = Settings {
        name: "demo".to_owned(),
        api_base: format!("{}/{}", stage.running.base_url, kind.api()).parse().unwrap(),
        git_base: stage.running.base_url.parse().unwrap(),
        token: format!("{login}-token").into(),
        ca_bundle: None,
        ca_file: None,
        pause: Arc::new(Sleep),
        clock: Arc::new(SystemClock),
        write_spacing: std::time::Duration::ZERO,
        web_base: None,
    };
    match kind {
        Kind::Gitea | Kind::Forgejo => Box::new(gitea::Client::new(settings).unwrap()),
        Kind::GitHub => Box::new(github::Client::new(settings).unwrap()),
        Kind::GitLab => Box::new(gitlab::Client::new(settings).unwrap()),
    }
}

pub fn repo(stage: &Stage) -> RepoRef {
    let id = stage.forge().state().repository(sample::PATH).unwrap().id.to_string();
    RepoRef { forge: "demo".to_owned(), id, path: sample::PATH.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_the_clients_is_known_and_answered() {
    for kind in Kind::ALL {
        let stage = Stage::new(kind).await;
        let number = stage.forge().open_issue(sample::PATH, "rita", "Bug", "", &[]).unwrap().number;
        let (bot, repo) = (client(&stage, kind, "frognano"), repo(&stage));
        assert_eq!(bot.myself().await.unwrap().login, "frognano");
        let repository = bot.repository(&repo).await.unwrap();
        assert_eq!((repository.default_branch.as_deref(), repository.archived), (Some("main"), false));

        assert_eq!(bot.label_set(&repo, number, "frognano-fix").await.unwrap(), None);
        stage.forge().set_label(sample::PATH, number, "frognano-fix", "wren").unwrap();
        let set = bot.label_set(&repo, number, "frognano-fix").await.unwrap().unwrap();
        assert_eq!(set.by.login, "wren");
        stage.forge().remove_label(sample::PATH, number, "frognano-fix", "wren").unwrap();
        stage.forge().set_label(sample::PATH, number, "frognano-fix", "rita").unwrap();
        let again = bot.label_set(&repo, number, "frognano-fix").await.unwrap().unwrap();
        assert!(again.by.login == "rita" && again.episode != set.episode);
        for (login, permission) in [("wren", Permission::Write), ("rita", Permission::Read), ("ghost", Permission::None)] {
            assert_eq!(bot.permission(&repo, login).await.unwrap(), permission, "{login}");
        }

        let comment = bot.comment(&repo, number, "Working on it").await.unwrap();
        bot.edit_comment(&repo, &comment.id, "Done").await.unwrap();
        let comments = bot.comments(&repo, number).await.unwrap();
        assert_eq!((comments.len(), comments[0].body.as_str(), comments[0].author.as_str()), (1, "Done", "frognano"));

        let sha = stage.push_branch("frognano", "frognano/issue-1-a").await;
        assert_eq!(bot.find_pull_request(&repo, "frognano/issue-1-a").await.unwrap(), None);
        let draft = NewDraft { head: "frognano/issue-1-a".into(), base: "main".into(), title: "Mend it".into(), body: "Text".into() };
        let opened = bot.open_draft(&repo, &draft).await.unwrap();
        assert!(opened.draft && opened.head_sha == sha, "{opened:?}");
        assert!(matches!(bot.open_draft(&repo, &draft).await, Err(ForgeError::Rejected { .. })));
        assert_eq!(bot.find_pull_request(&repo, "frognano/issue-1-a").await.unwrap(), Some(opened.clone()));
        for _ in 0..2 {
            bot.add_label(&repo, number, REVIEW).await.unwrap();
            bot.label_pull_request(&repo, opened.number, REVIEW).await.unwrap();
        }
        assert!(bot.issue(&repo, number).await.unwrap().has_label(REVIEW.name));
        for _ in 0..2 {
            bot.remove_label(&repo, number, REVIEW.name).await.unwrap();
        }
        let comment = bot.comment_on_pull_request(&repo, opened.number, "Look").await.unwrap();
        bot.edit_comment(&repo, &comment.id, "Look here").await.unwrap();
        let comments = bot.pull_request_comments(&repo, opened.number).await.unwrap();
        assert_eq!(comments.iter().map(|comment| comment.body.as_str()).collect::<Vec<_>>(), ["Look here"], "{kind:?}");
        let now = bot.pull_request(&repo, opened.number).await.unwrap();
        let title = now.title.replace("Mend", "Repair");
        assert!(title.contains("Repair it"), "{kind:?}: {title}");
        bot.edit_pull_request(&repo, opened.number, Some(&title), "other words").await.unwrap();
        bot.edit_pull_request(&repo, opened.number, None, "further words").await.unwrap();
        assert_eq!(bot.pull_request(&repo, opened.number).await.unwrap().title, title, "{kind:?}");
        assert!(bot.find_pull_request(&repo, "frognano/issue-1-a").await.unwrap().unwrap().draft, "{kind:?}: still a draft");
        bot.close_pull_request(&repo, opened.number).await.unwrap();
        let issues = stage.forge().state().repository(sample::PATH).unwrap().issues.clone();
        let [issue, pull] = issues.as_slice() else { panic!("{issues:#?}") };
        assert!(issue.open && issue.labels.iter().all(|label| label.name != REVIEW.name), "{kind:?}");
        assert!(!pull.open && pull.labels.iter().any(|label| label.name == REVIEW.name), "{kind:?}");
        assert_eq!(opened.number, if kind == Kind::GitLab { 1 } else { 2 }, "GitLab numbers them apart");
        let access = bot.git_access(&repo).await.unwrap();
        assert_eq!(access.url, format!("{}/{}.git", stage.running.base_url, sample::PATH));
        assert!(stage.forge().unexpected().is_empty(), "{:?}", stage.forge().unexpected());
        let made = stage.forge().state().repository(sample::PATH).unwrap().labels.clone();
        assert_eq!(made.iter().filter(|label| label.name == REVIEW.name && label.color == REVIEW.color).count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_believed_and_understood() {
    let kinds = [ForgeKind::Gitea, ForgeKind::Forgejo, ForgeKind::Github, ForgeKind::Gitlab];
    for (kind, entry) in Kind::ALL.into_iter().zip(kinds) {
        let verb = if kind.is_gitea_or_its_fork() { Verb::Recheck } else { Verb::Start };
        let stage = Stage::new(kind).await;
        let ears = Ears { kind: entry, name: "demo".into(), label: "frognano-fix".into(), myself: vec!["frognano".to_owned()].into() };
        let inbound = ears.believing(vec![SECRET.to_owned().into()], gitlab::Age::Any).unwrap();
        stage.forge().open_issue(sample::PATH, "rita", sample::issue_title(), sample::issue_body(), &[]).unwrap();
        let labelled = stage.forge().set_label(sample::PATH, 1, "frognano-fix", "wren").unwrap();
        let said = stage.forge().write_comment(sample::PATH, 1, "/frognano status", "wren").unwrap();
        let closed = stage.forge().close_issue(sample::PATH, 1, "wren").unwrap();
        for (delivery, verb) in [(&labelled[0], verb), (&said[0], Verb::Command), (&closed[0], Verb::Cancel)] {
            let verified = inbound.verify(&Headers(delivery.headers.clone()), &delivery.body).unwrap();
            let event = inbound.event(&verified).unwrap();
            assert_eq!(event.verb, verb, "{kind:?}: {}", event.why);
            assert_eq!(event.actor.unwrap().login, "wren", "{kind:?}");
            let trigger = event.trigger.unwrap();
            assert_eq!((trigger.repo.path.as_str(), trigger.number, trigger.title.as_str()), (sample::PATH, 1, sample::issue_title()));
            assert_eq!(trigger.body, sample::issue_body());
            let without = Headers(
                delivery
                    .headers
                    .iter()
                    .filter(|(_, value)| value != SECRET && !value.ends_with(&sha256(&delivery.body)))
                    .cloned()
                    .collect(),
            );
            assert!(inbound.verify(&without, &delivery.body).is_err(), "{kind:?}: without its proof");
            if kind != Kind::GitLab {
                assert!(inbound.verify(&Headers(delivery.headers.clone()), &delivery.body[1..]).is_err());
            }
        }
    }
}

fn sha256(body: &[u8]) -> String {
    frognano_bot::forge::hmac_sha256_hex(SECRET.as_bytes(), body)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_gitlab_signs_is_believed_for_its_bytes_and_its_time() {
    let stage = Stage::new(Kind::GitLab).await;
    let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    stage.forge().with_repository(sample::PATH, |repository| repository.hooks.clear()).unwrap();
    stage.forge().add_hook(sample::PATH, secret).unwrap();
    stage.forge().open_issue(sample::PATH, "rita", "Bug", "", &[]).unwrap();
    let delivery = stage.forge().set_label(sample::PATH, 1, "frognano-fix", "wren").unwrap().pop().unwrap();
    let ears = Ears { kind: ForgeKind::Gitlab, name: "demo".into(), label: "frognano-fix".into(), myself: Vec::<String>::new().into() };
    let any = ears.clone().believing(vec![secret.to_owned().into()], gitlab::Age::Any).unwrap();
    let fresh = ears.believing(vec![secret.to_owned().into()], gitlab::Age::Fresh(Arc::new(SystemClock))).unwrap();
    let headers = Headers(delivery.headers.clone());
    assert!(any.verify(&headers, &delivery.body).is_ok() && any.verify(&headers, &delivery.body[1..]).is_err());
    assert!(fresh.verify(&headers, &delivery.body).is_err(), "the stage's clock is months away");
}
