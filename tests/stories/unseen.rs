//! Who sees one repository alone finds no trace of another, whatever they ask: the same question is answered alike before there is anything in the
//! other repository, and when there is a run in it.

use std::collections::BTreeMap;

use frognano_bot::app::TimeIds;
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::{Permission, SystemClock};
use frognano_bot::store::{Doer, Scope};
use regex::Regex;
use reqwest::header::LOCATION;
use sqlx::{AnyConnection, Connection as _};

use crate::access::{Browser, MINUTE_MS, house};
use crate::house::{House, Service, TOKEN};

const OTHER: &str = "acme/vault";
const TITLE: &str = "The combination of the vault";

/// Everything that can be asked by a GET about a run, for one that is seen and one that is not; the API as it describes itself.
async fn questions(of: &mut Asker, runs: &[&str]) -> Vec<String> {
    let described: serde_json::Value = serde_json::from_str(&of.asked("GET", "/api/openapi.json").await.2).unwrap();
    let with_get = described["paths"].as_object().unwrap().iter().filter(|(_, path)| path.get("get").is_some());
    let mut paths = with_get.map(|(path, _)| path.clone()).collect::<Vec<_>>();
    let pages =
        ["/", "/runs", "/runs/{run}", "/runs/{run}/export", "/repositories", "/repositories?days=90", "/reviews", "/health", "/audit"];
    paths.extend(pages.map(str::to_owned));
    for path in ["/runs", "/api/v1/runs"] {
        let filters = [format!("repository={OTHER}"), format!("person={}", project::MAINTAINER), "outcome=proposed".to_owned()];
        paths.extend(filters.iter().map(|filter| format!("{path}?{filter}")));
    }
    paths.extend(
        ["/runs?outcome=queued", "/runs?older=9999999999999.0", "/runs?newer=1.0", "/events", "/events?run={run}"].map(str::to_owned),
    );
    let of_runs = |path: &String| match path.contains("{run}") {
        true => runs.iter().map(|run| path.replace("{run}", run)).collect(),
        false => vec![path.clone()],
    };
    paths.iter().flat_map(of_runs).collect()
}

/// Somebody with a session, or a program with a key.
enum Asker {
    Person(Box<Browser>),
    Program(String, String),
}

impl Asker {
    /// The status, the place that they are sent to, and the words but for what goes on with the time.
    async fn asked(&mut self, method: &str, path: &str) -> (u16, String, String) {
        let (service, key) = match self {
            Self::Person(browser) => (browser.service.clone(), None),
            Self::Program(service, key) => (service.clone(), Some(key.clone())),
        };
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build().unwrap();
        let mut request = client.request(method.parse().unwrap(), format!("{service}{path}")).header("x-frognano-request", "1");
        if method == "POST" {
            request = request.header("content-type", "application/x-www-form-urlencoded").body("");
        }
        let mut answer = match (self, key) {
            (Self::Person(browser), _) => browser.send(request).await,
            (_, key) => request.header("accept", "text/html").bearer_auth(key.unwrap()).send().await.unwrap(),
        };
        let place = answer.headers().get(LOCATION).map(|place| place.to_str().unwrap().to_owned()).unwrap_or_default();
        let status = answer.status().as_u16();
        let body = match path.starts_with("/events") && status == 200 {
            true => String::from_utf8(answer.chunk().await.unwrap().unwrap().to_vec()).unwrap(),
            false => answer.text().await.unwrap(),
        };
        let times = Regex::new(r"(\d+ (d|h|min|s|ms)\b ?)+").unwrap();
        (status, place, times.replace_all(&body, "a while").into_owned())
    }

    async fn all(&mut self, paths: &[String]) -> BTreeMap<String, (u16, String, String)> {
        let mut answers = BTreeMap::new();
        for path in paths {
            answers.insert(path.clone(), self.asked("GET", path).await);
        }
        answers
    }
}

/// A second project beside the first, with people of its own.
fn build_the_other(house: &House) {
    let git_dir = house.folder.path().join("vault.git");
    project::make_bare(&git_dir).unwrap();
    house.forge().add_repository(OTHER, &git_dir).unwrap();
    for (login, permission) in [(project::MAINTAINER, Permission::Admin), (project::BOT, Permission::Admin)] {
        house.forge().permit(OTHER, login, permission).unwrap();
    }
    house.forge().add_hook(OTHER, crate::house::SECRET).unwrap();
    house.forge().add_label(OTHER, project::LABEL, "1f883d").unwrap();
}

/// A run of the other repository to its draft, and a job that waits; the names of the two.
async fn work_in_the_other(house: &House, service: &Service) -> [String; 2] {
    for title in [TITLE, "Another one"] {
        let issue = house.forge().open_issue(OTHER, project::MAINTAINER, title, project::issue_body(), &[]).unwrap().number;
        service.take(&house.forge().set_label(OTHER, issue, project::LABEL, project::MAINTAINER).unwrap()).await;
        if title == TITLE {
            service.work_off().await;
            while service.worker.review_next().await.unwrap().is_some() {}
        }
    }
    service.store.seal().await.unwrap();
    let jobs = service.jobs().await.into_iter().filter(|job| job.repo_path == OTHER).collect::<Vec<_>>();
    let done = jobs.iter().find(|job| job.outcome.as_deref() == Some("proposed")).expect("a draft in the other repository");
    let waits = jobs.iter().find(|job| job.state == "queued").unwrap();
    [done.run.clone().unwrap(), waits.id.clone()]
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sees_one_repository_finds_no_trace_of_another_by_page_api_events_or_export() {
    let (house, service) = house(Kind::Gitea).await;
    house.begin_a_day();
    service.work_off().await;
    while service.worker.review_next().await.unwrap().is_some() {}
    service.store.seal().await.unwrap();
    let own = service.jobs().await.remove(0);
    let own_run = own.run.clone().unwrap();
    let own_repository = frognano_bot::store::repository_name(&service.store.repositories("here").await.unwrap()[0]);
    build_the_other(&house);
    let mut rita = Box::new(Browser::at(&service));
    rita.sign_in(project::READER).await;
    let base = rita.service.clone();
    let mut askers = vec![("a reader", Asker::Person(rita))];
    for (name, scope) in [("a key to read", Scope::Read), ("a key to audit", Scope::Audit), ("a key to operate", Scope::Operate)] {
        let only = [own_repository.clone()];
        let made = service.store.make_token((name, scope, Some(&only)), None, &Doer::operator("a story"), &SystemClock, &TimeIds).await;
        askers.push((name, Asker::Program(base.clone(), made.unwrap().1)));
    }
    let nobody = "0123456789abcdef0123456789abcdef";
    let mut before = Vec::new();
    for (_, asker) in &mut askers {
        let paths = questions(asker, &[&own_run, nobody]).await;
        before.push((asker.all(&paths).await, paths));
    }
    let page = &before[0].0[&format!("/runs/{own_run}")];
    assert_eq!(page.0, 200, "what is hers is seen");
    let numbers = Regex::new(r#"<th scope="row" class="number">(\d+)</th><td><time"#).unwrap();
    let numbers = numbers.captures_iter(&page.2).map(|row| row[1].parse::<usize>().unwrap()).collect::<Vec<_>>();
    assert!(numbers.len() > 5 && numbers.iter().copied().eq(1..=numbers.len()), "rows are counted within the run: {numbers:?}");
    let others = work_in_the_other(&house, &service).await;
    // The forge is asked anew who may see what.
    house.pass(11 * MINUTE_MS);
    for ((name, asker), (before, paths)) in askers.iter_mut().zip(&before) {
        let now = asker.all(paths).await;
        for path in paths {
            assert_eq!(before[path], now[path], "{name} is told by {path} of what goes on elsewhere");
        }
        for path in paths.iter().filter(|path| path.contains(nobody)) {
            for other in &others {
                let (status, place, words) = asker.asked("GET", &path.replace(nobody, other)).await;
                assert_eq!((status, place, words.replace(other.as_str(), nobody)), now[path], "{name} tells {path} and {other} apart");
            }
        }
        for act in ["/runs/{}/retry", "/runs/{}/cancel", "/api/v1/runs/{}/retry", "/api/v1/runs/{}/cancel"] {
            let at = |run: &str| act.replace("{}", run);
            let of_nobody = asker.asked("POST", &at(nobody)).await;
            assert!(of_nobody.0 >= 400, "{act}: {of_nobody:?}");
            for other in &others {
                assert_eq!(asker.asked("POST", &at(other)).await, of_nobody, "{name} tells {act} of {other} apart");
            }
        }
    }
    assert!(service.jobs().await.iter().all(|job| job.state != "running" && job.outcome.as_deref() != Some("cancelled")));
    // The chain, which speaks of all, is for who sees all.
    for (name, asker) in &mut askers {
        for path in ["/audit", "/health", "/api/v1/audit", &format!("/runs/{own_run}/export"), &format!("/runs/{}/export", others[0])] {
            assert_eq!(asker.asked("GET", path).await.0, 403, "{name}: {path}");
        }
    }
    service.end().await;
}

#[tokio::test]
async fn what_an_agent_says_is_shown_without_secrets_while_it_goes_on_by_page_and_api_alike() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    service.take(&house.label(house.open_issue())).await;
    let mut connection = AnyConnection::connect(&house.database()).await.unwrap();
    sqlx::query("update jobs set run = 'r1', state = 'running', stage = 'agent'").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let kept = house.folder.path().join("data/runs/r1/kept");
    std::fs::create_dir_all(&kept).unwrap();
    let step =
        serde_json::json!({"step": {"step": 0, "assistant": {"content": format!("I see {TOKEN} here")}, "observations": []}, "turn": {}});
    let begin = serde_json::json!({"begin": {"base": "b", "trajectory": {"steps": [], "frognano": {}}}});
    std::fs::write(kept.join("journal.jsonl"), format!("{begin}\n{}\n", serde_json::json!({"step": step}))).unwrap();
    std::fs::write(
        house.folder.path().join("data/runs/r1/patch.diff"),
        format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+{TOKEN}\n"),
    )
    .unwrap();
    let base = service.door.replace("/webhooks/here", "");
    for path in ["/runs/r1", "/api/v1/runs/r1/steps"] {
        let shown = reqwest::get(format!("{base}{path}")).await.unwrap().text().await.unwrap();
        assert!(shown.contains("I see [redacted] here") && !shown.contains(TOKEN), "{path}: {shown}");
    }
    service.end().await;
}
