//! Stopping: whatever takes the reason away ends the run within five seconds, wherever it runs, with one comment and nothing left behind.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use frognano_bot::demo::forge::Delivery;
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Outcome;
use frognano_bot::worker::Ended;
use tokio_util::sync::CancellationToken;

use crate::commands::{by_another_hook, heard, say};
use crate::faces::on_each_forge;
use crate::house::{House, Service};

/// So fast a run is gone.
const AT_ONCE: Duration = Duration::from_secs(5);

/// The script of an agent that is in the middle of a command that leaves a child behind. The time that they sleep is theirs alone.
fn busy() -> (String, String) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let time = format!("{}.{}", 1000 + NEXT.fetch_add(1, Ordering::Relaxed), std::process::id());
    let call = format!(
        r#"{{"content": "", "tool_calls": [{{"name": "Bash", "arguments": {{"command": "setsid sleep {time} & sleep {time}"}}}}]}}"#
    );
    (format!("{call}\n{{\"content\": \"done\"}}"), time)
}

type Take = fn(&House) -> Vec<Delivery>;

const UNLABEL: Take = |house| house.forge().remove_label(project::PATH, 1, project::LABEL, project::MAINTAINER).unwrap();
const CLOSE: Take = |house| house.forge().close_issue(project::PATH, 1, project::READER).unwrap();
const LOCK: Take = |house| house.forge().lock_issue(project::PATH, 1, project::MAINTAINER).unwrap();
const DELETE: Take = |house| house.forge().delete_issue(project::PATH, 1, project::MAINTAINER).unwrap();
const TRANSFER: Take = |house| house.forge().transfer_issue(project::PATH, 1, project::MAINTAINER).unwrap();
const COMMAND: Take = |house| house.forge().write_comment(project::PATH, 1, "/frognano cancel", project::MAINTAINER).unwrap();

/// What is said, if anything.
fn ways(kind: Kind) -> Vec<(&'static str, Take, Option<&'static str>)> {
    let mut ways = vec![
        ("label", UNLABEL, Some("the label was taken off")),
        ("closed", CLOSE, Some("the issue was closed")),
        ("locked", LOCK, Some("the issue was locked")),
        ("deleted", DELETE, None),
        ("command", COMMAND, Some("ada asked for it")),
    ];
    match kind {
        Kind::GitHub => ways.push(("transferred", TRANSFER, None)),
        // What is moved stays there, closed.
        Kind::GitLab => ways.push(("transferred", TRANSFER, Some("the issue was closed"))),
        // Issues can't be moved.
        Kind::Gitea | Kind::Forgejo => {}
    }
    ways
}

/// Lets the service hear it, twice, as by two hooks. Of what a forge tells nobody it hears when it looks.
async fn hear(service: &Service, told: &[Delivery]) {
    if told.is_empty() {
        service.worker.reconcile().await.unwrap();
    }
    service.take(told).await;
    service.take(&by_another_hook(told)).await;
    heard(service).await;
}

/// Else it would not be known of which of them who looks has to find.
#[tokio::test]
async fn gitea_and_forgejo_tell_nobody_of_locking_and_gitlab_nobody_of_deleting() {
    for (kind, expected) in Kind::ALL.into_iter().zip([vec!["locked"], vec!["locked"], vec![], vec!["deleted"]]) {
        let mut untold = Vec::new();
        for (way, take, _) in ways(kind) {
            let house = House::new(kind).await;
            house.open_issue();
            house.label(1);
            if take(&house).is_empty() {
                untold.push(way);
            }
        }
        assert_eq!(untold, expected, "{kind:?}");
    }
}

/// How many processes of the sandbox sleep for this time.
fn asleep(time: &str) -> usize {
    let lines = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| *line == format!("sleep\0{time}\0").into_bytes()).count()
}

/// Runs the next job until the agent is in the middle of its command.
async fn working(house: &House, service: &Service, time: &str) -> tokio::task::JoinHandle<Option<Ended>> {
    let worker = service.worker.clone();
    let running = tokio::spawn(async move { worker.run_next(&CancellationToken::new()).await.unwrap() });
    house.until(|house| house.said(1).concat().contains("the model works")).await;
    fall_asleep(time).await;
    running
}

async fn fall_asleep(time: &str) {
    let both = async {
        while asleep(time) < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
}

on_each_forge! {
    async fn a_run_whose_reason_is_gone_ends_at_once_with_one_comment(kind: Kind) {
        for (way, take, said) in ways(kind) {
            let (script, time) = busy();
            let house = House::with_script(kind, &script).await;
            let service = house.service().await;
            house.open_issue();
            service.take(&house.label(1)).await;
            let running = working(&house, &service, &time).await;
            let deliveries = take(&house);
            let begun = Instant::now();
            hear(&service, &deliveries).await;
            let ended = running.await.unwrap();
            let took = begun.elapsed();
            println!("{kind:?}, {way}: stopped after {} ms", took.as_millis());
            assert!(took < AT_ONCE, "{kind:?}, {way}: {took:?}");
            assert!(matches!(ended, Some(Ended::Outcome(Outcome::Cancelled { .. }))), "{kind:?}, {way}: {ended:?}");
            assert_eq!(asleep(&time), 0, "{kind:?}, {way}");
            service.work_off().await;
            let comments = house.said(1);
            let last = comments.last().unwrap();
            match said {
                Some(words) => assert!(comments.len() == 1 && last.contains(words), "{kind:?}, {way}: {comments:?}"),
                None => assert!(comments.len() == 1 && last.contains("the model works"), "{kind:?}, {way}: {comments:?}"),
            }
            assert_eq!((house.pull_requests().len(), house.branches().len()), (0, 0), "{kind:?}, {way}");
        }
    }
}

on_each_forge! {
    async fn a_waiting_job_whose_reason_is_gone_is_not_begun(kind: Kind) {
        for (way, take, said) in ways(kind) {
            let house = House::new(kind).await;
            let service = house.service().await;
            house.open_issue();
            service.take(&house.label(1)).await;
            hear(&service, &take(&house)).await;
            service.work_off().await;
            let comments = house.said(1);
            match said {
                Some(words) => assert!(matches!(&comments[..], [told] if told.contains(words)), "{kind:?}, {way}: {comments:?}"),
                None => assert_eq!(comments, Vec::<String>::new(), "{kind:?}, {way}"),
            }
            assert_eq!((house.model.requests().len(), house.pull_requests().len()), (0, 0), "{kind:?}, {way}");
        }
    }
}

on_each_forge! {
    async fn an_archived_repository_stops_its_runs(kind: Kind) {
        let (script, time) = busy();
        let house = House::with_script(kind, &script).await;
        let service = house.service().await;
        house.open_issue();
        service.take(&house.label(1)).await;
        let running = working(&house, &service, &time).await;
        let told = house.forge().archive(project::PATH, project::MAINTAINER).unwrap();
        assert_eq!(told.is_empty(), kind != Kind::GitHub, "{kind:?}: the others tell nobody");
        hear(&service, &told).await;
        let ended = running.await.unwrap();
        assert!(matches!(&ended, Some(Ended::Outcome(Outcome::Cancelled { by })) if by.contains("archived")), "{kind:?}: {ended:?}");
        assert_eq!(asleep(&time), 0);
    }
}

on_each_forge! {
    async fn a_late_word_stops_nothing_that_is_wanted_again(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        house.open_issue();
        house.label(1);
        let closed = CLOSE(&house);
        house.forge().reopen_issue(project::PATH, 1, project::MAINTAINER).unwrap();
        let off = UNLABEL(&house);
        service.take(&house.label(1)).await;
        service.take(&closed).await;
        service.take(&off).await;
        let came = heard(&service).await;
        assert!(!came.is_empty() && came.iter().all(|came| came == "still wanted"), "{kind:?}: {came:?}");
        assert!(matches!(service.outcome().await, Outcome::Proposed { .. }), "{kind:?}");
    }
}

on_each_forge! {
    async fn a_label_set_again_while_it_runs_starts_anew_and_supersedes(kind: Kind) {
        let (script, time) = busy();
        let house = House::with_script(kind, &script).await;
        let service = house.service().await;
        house.open_issue();
        service.take(&house.label(1)).await;
        let running = working(&house, &service, &time).await;
        let off = UNLABEL(&house);
        let on = house.label(1);
        service.take(&on).await;
        service.take(&off).await;
        heard(&service).await;
        let ended = running.await.unwrap();
        assert!(matches!(ended, Some(Ended::Outcome(Outcome::Cancelled { .. }))), "{kind:?}: {ended:?}");
        let jobs = service.jobs().await;
        assert_eq!(jobs.iter().map(|job| job.state.as_str()).collect::<Vec<_>>(), ["queued", "done"], "{kind:?}");
    }
}

on_each_forge! {
    async fn what_changed_unheard_is_seen_before_anything_is_pushed(kind: Kind) {
        let archive: Take = |house| house.forge().archive(project::PATH, project::MAINTAINER).unwrap();
        for (take, why) in [(UNLABEL, "the label"), (CLOSE, "closed"), (LOCK, "locked"), (archive, "")] {
            let house = House::new(kind).await;
            let service = house.service().await;
            house.open_issue();
            service.take(&house.label(1)).await;
            let changing = async {
                house.until(|house| house.said(1).concat().contains("the model works")).await;
                drop(take(&house));
            };
            let (ended, ()) = tokio::join!(service.step(), changing);
            // An archived repository may refuse the status comment before we ask.
            let told = matches!(&ended, Some(Ended::Outcome(Outcome::Cancelled { by })) if by.contains(why));
            let refused = matches!(&ended, Some(Ended::Outcome(Outcome::Abandoned { detail, .. })) if detail.contains("archived"));
            assert!(told || (why.is_empty() && refused), "{kind:?}, {why}: {ended:?}");
            assert_eq!((house.pull_requests().len(), house.branches().len()), (0, 0), "{kind:?}, {why}");
        }
    }
}

on_each_forge! {
    async fn a_word_that_the_issue_is_gone_is_believed_even_while_the_forge_still_shows_it(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        house.open_issue();
        service.take(&house.label(1)).await;
        let told = DELETE(&house);
        if kind == Kind::GitLab {
            // There is no such word there: who looks finds that nothing is there.
            service.worker.reconcile().await.unwrap();
        } else {
            service.take(&told).await;
            house.with_pull_request(1, |issue| issue.gone = false);
        }
        assert_eq!(heard(&service).await, ["cancelled: the issue is gone"], "{kind:?}");
        assert_eq!((service.work_off().await.len(), house.said(1).len()), (0, 0), "{kind:?}");
    }
}

on_each_forge! {
    async fn a_word_about_the_whole_repository_is_looked_at_for_each_of_its_runs(kind: Kind) {
        use frognano_bot::domain::{Event, Verb};
        let house = House::new(kind).await;
        let service = house.service().await;
        for number in 1..=3 {
            house.open_issue();
            service.take(&house.label(number)).await;
        }
        house.forge().remove_label(project::PATH, 2, project::LABEL, project::MAINTAINER).unwrap();
        let repository = service.store.active_jobs(None).await.unwrap().remove(0).repo;
        let event = Event {
            verb: Verb::Recheck,
            why: "the label itself was deleted".to_owned(),
            repository: Some(repository),
            trigger: None,
            about_pull_request: false,
            command: None,
            note: None,
            actor: None,
        };
        service.store.ask(&event, &frognano_bot::domain::SystemClock, &frognano_bot::app::TimeIds).await.unwrap();
        assert_eq!(heard(&service).await, ["still wanted; cancelled: the label was taken off; still wanted"]);
    }
}

/// The run is in a process of its own; who hears the word is another.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_another_process_stops_as_fast() {
    use crate::crashes::Bot;
    use frognano_bot::domain::SystemClock;
    use frognano_bot::store::{NewDelivery, Store};
    let (script, time) = busy();
    let house = House::with_script(Kind::GitHub, &script).await;
    house.open_issue();
    let mut bot = Bot::start(&house);
    for delivery in house.label(1) {
        frognano_bot::demo::forge::deliver(&delivery, &bot.door).await.unwrap();
    }
    house.until(|house| house.said(1).concat().contains("the model works")).await;
    fall_asleep(&time).await;
    let database = house.database();
    let here = Store::open(&database).await.unwrap();
    let taken_off = UNLABEL(&house).pop().unwrap();
    let settings = (vec![secrecy::SecretString::from(crate::house::SECRET)], project::LABEL.to_owned());
    let inbound = frognano_bot::forge::github::Inbound::new("here".to_owned(), settings.0, settings.1, Vec::new()).unwrap();
    let headers = frognano_bot::forge::Headers(taken_off.headers.clone());
    let read = {
        use frognano_bot::forge::Inbound as _;
        let delivery = inbound.verify(&headers, &taken_off.body).unwrap();
        inbound.event(&delivery).unwrap()
    };
    let row = NewDelivery { forge: "here", delivery: &taken_off.id, event: "issues", body: "{}", read: Ok(&read) };
    let begun = Instant::now();
    here.take_in(&row, &SystemClock, &frognano_bot::app::TimeIds).await.unwrap();
    tokio::time::timeout(AT_ONCE, bot.ended.recv()).await.expect("within five seconds").unwrap();
    println!("another process: stopped after {} ms", begun.elapsed().as_millis());
    let log = bot.stop();
    assert!(log.contains("the run was stopped"), "{log}");
    assert!(house.said(1).concat().contains("the label was taken off"));
    assert_eq!(asleep(&time), 0);
}

on_each_forge! {
    async fn a_cancel_from_the_pull_request_stops_the_run_of_its_issue(kind: Kind) {
        let (house, service, number) = crate::commands::proposed(kind).await;
        say(&house, &service, 1, project::MAINTAINER, "/frognano retry").await;
        assert_eq!(say(&house, &service, number, project::MAINTAINER, "/frognano cancel").await, ["cancelled"]);
        assert_eq!(service.work_off().await, []);
        assert_eq!(house.pull_requests().len(), 1);
    }
}
