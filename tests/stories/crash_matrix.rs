//! The crash matrix: at each stage of a run one part is killed or goes away, and comes back. Whatever it was, there is one outcome, one pull
//! request, and nothing is left. `tests/crash-matrix.sh` prints all of it; the suite tells a part.
//!
//! The parts are processes of the built program: on PostgreSQL one that takes webhooks in and one or two that work, on SQLite one that does both.
//! A worker is frozen where the stage is reached, so that the blow falls there and nowhere else.

#[path = "crash_matrix/parts.rs"]
mod parts;

use std::time::Duration;

use frognano_bot::demo::Kind;
use frognano_bot::demo::forge::{Delivery, Strike, deliver};
use frognano_bot::demo::model_server::Mood;
use frognano_bot::domain::Stage;
use frognano_bot::store::Store;
use futures_util::{StreamExt as _, stream};

use crate::crashes::inside_of;
use crate::databases::{Database, psql};
use crate::house::{House, TOKEN};
use parts::{Moment, Part, Process, Said};

/// Every stage that a job can be in.
const STAGES: [Stage; 10] = [
    Stage::Queued,
    Stage::Admitting,
    Stage::Cloning,
    Stage::Proving,
    Stage::TestsBefore,
    Stage::Agent,
    Stage::WaitingForModel,
    Stage::TestsAfter,
    Stage::Publishing,
    Stage::Done,
];

/// What is killed, or goes away for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Worker,
    WorkerForGood,
    WorkerInOrder,
    Web,
    Database,
    Forge,
    Model,
    Sandbox,
}

const VICTIMS: [Victim; 8] = [
    Victim::Worker,
    Victim::WorkerForGood,
    Victim::WorkerInOrder,
    Victim::Web,
    Victim::Database,
    Victim::Forge,
    Victim::Model,
    Victim::Sandbox,
];

impl Victim {
    const fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker, kill -9, started again",
            Self::WorkerForGood => "worker, kill -9, another machine's goes on",
            Self::WorkerInOrder => "worker, SIGTERM, another machine's goes on",
            Self::Web => "web process, kill -9",
            Self::Database => "every connection to the database",
            Self::Forge => "forge, six answers of 503",
            Self::Model => "model, away",
            Self::Sandbox => "sandbox, kill -9",
        }
    }

    /// Whether there is such a part: several processes need a database that they share, and only some stages have a sandbox.
    fn is_there(self, shared: bool, stage: Stage) -> bool {
        let has_sandbox = matches!(stage, Stage::Proving | Stage::TestsBefore | Stage::Agent | Stage::TestsAfter);
        match self {
            Self::Worker | Self::Forge | Self::Model => true,
            Self::Sandbox => has_sandbox,
            Self::WorkerForGood | Self::WorkerInOrder | Self::Web | Self::Database => shared,
        }
    }
}

/// A line of the table.
struct Row {
    database: &'static str,
    stage: Stage,
    victim: Victim,
    outcome: String,
    pull_requests: usize,
    leftovers: Vec<String>,
}

impl Row {
    fn is_ok(&self) -> bool {
        self.outcome == "proposed" && self.pull_requests == 1 && self.leftovers.is_empty()
    }

    fn line(&self) -> String {
        let leftovers = if self.leftovers.is_empty() { "none".to_owned() } else { self.leftovers.join("; ") };
        format!(
            "| {} | {} | {} | {} | {} | {leftovers} | {} |",
            self.database,
            self.stage.name(),
            self.victim.name(),
            self.outcome,
            self.pull_requests,
            if self.is_ok() { "ok" } else { "NOT OK" }
        )
    }
}

/// A house with the parts of its service.
struct Scene {
    house: House,
    shared: bool,
    web: Option<Process>,
    workers: Vec<Process>,
    label: Vec<Delivery>,
    log: String,
}

impl Scene {
    async fn new(shared: bool) -> Option<Self> {
        let house = House::new(Kind::Gitea).await;
        let house = if shared { house.on(Database::postgres()?) } else { house };
        house.open_issue();
        let label = house.label(1);
        let web = shared.then(|| Process::start(&house, Part::Web, None));
        Some(Self { house, shared, web, workers: Vec::new(), label, log: String::new() })
    }

    async fn tell(&self) {
        let door = self.web.as_ref().or(self.workers.last()).unwrap().door.clone();
        for delivery in &self.label {
            assert_eq!(deliver(delivery, &door).await.unwrap(), 202);
        }
    }

    fn worker(&mut self, freezes_at: Option<Moment>) {
        self.workers.push(Process::start(&self.house, if self.shared { Part::Worker("data") } else { Part::Whole }, freezes_at));
    }

    /// A worker with a data folder of its own, as on another machine.
    fn another_worker(&mut self) {
        self.workers.push(Process::start(&self.house, Part::Worker("elsewhere"), None));
    }

    /// Brings a run to the beginning of a stage, where its worker stands still.
    async fn bring_to(&mut self, stage: Stage) {
        match stage {
            Stage::Queued => self.tell().await,
            Stage::Agent => {
                self.house.model.set_delay(Some(Duration::from_millis(300)));
                self.worker(None);
                self.tell().await;
                // Two steps are finished, the third is under way.
                self.workers[0].until(|| self.house.model.requests().len() >= 3).await;
                self.workers[0].freeze();
            }
            Stage::Publishing => {
                self.worker(None);
                let freezes = self.workers[0].freezer();
                self.house.forge().when("POST", "*/git-receive-pack", Strike::After, move |_| freezes.freeze());
                self.tell().await;
                self.workers[0].until_frozen().await;
            }
            stage => {
                if stage == Stage::WaitingForModel {
                    self.house.model.set_mood(Mood::Down);
                }
                self.worker(Some(match stage {
                    Stage::WaitingForModel => Moment::Said("the job is put back"),
                    Stage::Done => Moment::Said("ended"),
                    stage => Moment::Enters(stage.name()),
                }));
                self.tell().await;
                self.workers[0].until_frozen().await;
            }
        }
    }

    /// Strikes; false where there is nothing to strike at this stage.
    async fn strike(&mut self, victim: Victim) -> bool {
        match victim {
            Victim::Worker | Victim::WorkerForGood | Victim::WorkerInOrder if self.workers.is_empty() => return false,
            Victim::Worker => {
                self.log += &self.workers.remove(0).kill();
                self.worker(None);
            }
            Victim::WorkerForGood => {
                self.log += &self.workers.remove(0).kill();
                self.another_worker();
                psql(&self.house.database(), "update jobs set lease_until_ms = 0 where state = 'running'");
            }
            Victim::WorkerInOrder => {
                self.another_worker();
                self.workers[0].thaw();
                self.log += &self.workers.remove(0).stop().await;
            }
            Victim::Web => {
                self.log += &self.web.take().unwrap().kill();
                self.web = Some(Process::start(&self.house, Part::Web, None));
            }
            Victim::Database => {
                psql(
                    &self.house.database(),
                    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
                );
            }
            Victim::Forge => self.house.forge().fail_next("*", "*", 503, 6),
            Victim::Model => self.house.model.set_mood(Mood::Down),
            Victim::Sandbox => return !self.workers.is_empty() && self.workers[0].kill_sandbox().await,
        }
        true
    }

    /// Everything is there again; waits for the end of the run.
    async fn recover(&mut self, stage: Stage, victim: Victim) {
        self.house.model.set_delay(None);
        if victim != Victim::Model {
            self.house.model.set_mood(Mood::Up);
        }
        if self.workers.is_empty() {
            self.worker(None);
        }
        for worker in &self.workers {
            worker.thaw();
        }
        // A worker that is stopped in order may have finished: then nobody else has a word to say of the job.
        let is_over =
            victim == Victim::WorkerInOrder && psql(&self.house.database(), "select count(*) from jobs where state <> 'done'") == "0";
        if stage != Stage::Done && !is_over {
            self.until_it_ends().await;
        }
        self.house.model.set_mood(Mood::Up);
        // The forge tells it once more, as forges do.
        self.tell().await;
    }

    async fn until_it_ends(&mut self) {
        while self.workers[0].next().await == Said::PutBack {
            self.house.model.set_mood(Mood::Up);
            self.let_time_pass();
        }
    }

    /// A job that was put back for a while is due.
    fn let_time_pass(&self) {
        if self.shared {
            psql(&self.house.database(), "update jobs set not_before_ms = 0 where state = 'queued'");
        }
    }

    /// Ends every process in order, and tells what there is.
    async fn look(mut self, stage: Stage, victim: Victim) -> Row {
        for process in self.workers.drain(..).chain(self.web.take()) {
            self.log += &process.stop().await;
        }
        let house = &self.house;
        let store = Store::open(&house.database()).await.unwrap();
        let jobs = store.jobs(10).await.unwrap();
        let outcome =
            jobs.iter().map(|job| job.outcome.clone().unwrap_or(format!("none, {}", job.stage))).collect::<Vec<_>>().join(" and ");
        let mut leftovers = inside_of(house);
        let mut count = |what: &str, there: usize, wanted: usize| {
            if there != wanted {
                leftovers.push(format!("{there} {what}"));
            }
        };
        count("branches", house.branches().len(), 1);
        count("comments", house.said(1).len(), 1);
        count("open pull requests", house.pull_requests().iter().filter(|pull_request| pull_request.open).count(), 1);
        count("labels", house.pull_requests().iter().map(|pull_request| pull_request.labels.len()).sum(), 1);
        count("leases", usize::try_from(store.summary().await.unwrap().running).unwrap(), 0);
        count("times the token in the log", self.log.matches(TOKEN).count(), 0);
        if self.shared {
            count("kept files of the run", psql(&house.database(), "select count(*) from run_files").parse().unwrap(), 0);
        }
        // The agent goes on behind its last finished step: at most the one under way is asked for again.
        let turns = house.model.requests().len();
        if victim != Victim::Model && stage != Stage::WaitingForModel && turns > TURNS + 1 {
            leftovers.push(format!("{turns} turns of the model for {TURNS}"));
        }
        store.close().await;
        let database = if self.shared { "PostgreSQL" } else { "SQLite" };
        let row = Row { database, stage, victim, outcome, pull_requests: house.pull_requests().len(), leftovers };
        if !row.is_ok() {
            println!("{}\n{}", row.line(), self.log);
        }
        row
    }
}

/// So many turns the script of the demonstration has.
const TURNS: usize = 6;

/// One field of the matrix; none where there is nothing to strike, or no PostgreSQL.
async fn field(shared: bool, stage: Stage, victim: Victim) -> Option<Row> {
    let mut scene = Scene::new(shared).await?;
    scene.bring_to(stage).await;
    if !scene.strike(victim).await {
        return None;
    }
    scene.recover(stage, victim).await;
    Some(scene.look(stage, victim).await)
}

/// These fields, some at a time; each line is printed when it is known.
async fn fields(wanted: Vec<(bool, Stage, Victim)>, at_once: usize) -> Vec<Result<Row, String>> {
    let told = wanted.into_iter().map(|(shared, stage, victim)| async move {
        match tokio::spawn(field(shared, stage, victim)).await {
            Ok(row) => row.map(Ok),
            Err(error) => Some(Err(format!("{}, {}: {error}", stage.name(), victim.name()))),
        }
    });
    let rows = stream::iter(told).buffered(at_once).filter_map(std::future::ready);
    rows.inspect(|row| println!("{}", row.as_ref().map_or_else(Clone::clone, Row::line))).collect().await
}

fn all_are_ok(rows: &[Result<Row, String>]) {
    let bad = rows.iter().filter(|row| !row.as_ref().is_ok_and(Row::is_ok)).count();
    assert_eq!(bad, 0, "{bad} of {} fields are not ok", rows.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_killed_at_whatever_stage_there_is_one_pull_request() {
    let some = [
        (Stage::Queued, Victim::Web),
        (Stage::Admitting, Victim::Database),
        (Stage::Cloning, Victim::Forge),
        (Stage::Proving, Victim::Sandbox),
        (Stage::TestsBefore, Victim::WorkerForGood),
        (Stage::Agent, Victim::WorkerInOrder),
        (Stage::Agent, Victim::WorkerForGood),
        (Stage::WaitingForModel, Victim::Worker),
        (Stage::TestsAfter, Victim::Sandbox),
        (Stage::Publishing, Victim::WorkerForGood),
    ];
    let rows = fields(some.into_iter().map(|(stage, victim)| (true, stage, victim)).collect(), 2).await;
    all_are_ok(&rows);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the whole matrix takes minutes: tests/crash-matrix.sh"]
async fn the_whole_matrix() {
    println!("| database | stage | what was killed | outcome | pull requests | leftovers | ok |\n|---|---|---|---|---|---|---|");
    let mut wanted = Vec::new();
    for shared in [true, false] {
        for stage in STAGES.into_iter().filter(|stage| shared || *stage != Stage::Queued) {
            wanted.extend(VICTIMS.into_iter().filter(|victim| victim.is_there(shared, stage)).map(|victim| (shared, stage, victim)));
        }
    }
    let rows = fields(wanted, 2).await;
    println!("{} fields", rows.len());
    all_are_ok(&rows);
}
