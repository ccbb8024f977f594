//! However a sandbox of bubblewrap ends, everything in it ends too, and nothing of it is left on the host.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use frognano_bot::sandbox::local::Local;
use frognano_bot::sandbox::{Command, Listing, Sandbox, SandboxError, Sandboxes};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::local::{TOOLS, is_root, local, settings};
use super::tar_files::one_file;

/// The processes of one sandbox as the host sees them, bubblewrap first and the program inside second.
struct Seen(Vec<i32>);

impl Seen {
    fn of(mark: &str) -> Self {
        let marked = |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark));
        let mut seen: Vec<i32> = all_pids().into_iter().filter(|pid| marked(pid) && name(*pid) == "bwrap").collect();
        let mut next = 0;
        while let Some(parent) = seen.get(next).copied() {
            seen.extend(all_pids().into_iter().filter(|pid| parent_of(*pid) == Some(parent)));
            next += 1;
        }
        Self(seen)
    }

    fn alive(&self) -> Vec<i32> {
        self.0.iter().copied().filter(|pid| parent_of(*pid).is_some() && state(*pid) != Some('Z')).collect()
    }

    fn kill(&self, index: usize) {
        kill(Pid::from_raw(self.0[index]), Signal::SIGKILL).unwrap();
    }
}

fn all_pids() -> Vec<i32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn after_name(pid: i32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/stat")).ok()?.rsplit_once(") ")?.1.to_owned())
}

fn state(pid: i32) -> Option<char> {
    after_name(pid)?.chars().next()
}

fn parent_of(pid: i32) -> Option<i32> {
    after_name(pid)?.split(' ').nth(1)?.parse().ok()
}

fn groups(owner: u32, name: &str) -> Vec<String> {
    let folders = ["pids", "memory", "cpu", "."].map(|part| format!("/sys/fs/cgroup/{part}"));
    let inside = |folder: &String| {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path().display().to_string()).collect::<Vec<_>>()
    };
    let ours = |path: &String| path.contains(&format!("/frognano-{owner}.")) && path.contains(&format!("-{name}-"));
    folders.iter().flat_map(inside).filter(ours).collect()
}

async fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < limit, "not within 10 s: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Starts a sandbox with a stubborn background process inside.
async fn start(name: &str) -> (Box<dyn Sandbox>, Seen) {
    let mut settings = settings();
    settings.env = vec![("MARK".into(), format!("story-{name}"))];
    let mut sandbox = Local::new(settings).unwrap().start(name).await.unwrap();
    let stubborn = serde_json::json!({"command": "(trap '' TERM HUP INT; setsid sleep 1234 >/dev/null 2>&1 &)"});
    sandbox.call("Bash", &stubborn).await.unwrap();
    let seen = Seen::of(&format!("story-{name}"));
    assert!(seen.alive().len() >= 3, "bubblewrap, the program inside and a background process were expected: {:?}", seen.alive());
    assert_eq!(groups(std::process::id(), name).is_empty(), !is_root());
    (sandbox, seen)
}

async fn nothing_is_left(name: &str, seen: &Seen) {
    soon("its processes are gone", || seen.alive().is_empty()).await;
    soon("its groups are gone", || groups(std::process::id(), name).is_empty()).await;
}

#[tokio::test]
async fn closing_waits_until_nothing_is_left() {
    let (sandbox, seen) = start("closed").await;
    sandbox.close().await;
    assert_eq!(seen.alive(), [0; 0]);
    assert_eq!(groups(std::process::id(), "closed"), [""; 0]);
}

#[tokio::test]
async fn dropping_leaves_nothing() {
    let (sandbox, seen) = start("dropped").await;
    drop(sandbox);
    nothing_is_left("dropped", &seen).await;
}

#[tokio::test]
async fn dropping_in_the_middle_of_a_command_leaves_nothing() {
    let (mut sandbox, seen) = start("halfway").await;
    let command = Command { script: "sleep 1234".into(), timeout: Duration::from_secs(600), output_limit: 100 };
    let cut = tokio::time::timeout(Duration::from_millis(50), sandbox.run(&command)).await;
    assert!(cut.is_err());
    assert!(matches!(sandbox.list(Listing::Exact).await, Err(SandboxError::Lost(_))));
    soon("its processes are gone", || seen.alive().is_empty()).await;
    drop(sandbox);
    nothing_is_left("halfway", &seen).await;
}

#[tokio::test]
async fn a_killed_bubblewrap_or_program_is_a_lost_sandbox() {
    for (name, victim) in [("bwrapkilled", 0), ("toolskilled", 1)] {
        let (mut sandbox, seen) = start(name).await;
        seen.kill(victim);
        soon("its processes are gone", || seen.alive().is_empty()).await;
        let lost = sandbox.list(Listing::Exact).await;
        assert!(matches!(lost, Err(SandboxError::Lost(_))), "{name}: {lost:?}");
        assert!(matches!(sandbox.list(Listing::Exact).await, Err(SandboxError::Lost(_))));
        sandbox.close().await;
        nothing_is_left(name, &seen).await;
    }
}

#[tokio::test]
async fn a_program_that_hangs_is_killed_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let deaf = folder.path().join("frognano-tools");
    fs::write(&deaf, "#!/bin/sh\ntrap '' TERM HUP INT\nwhile :; do sleep 1234; done\n").unwrap();
    fs::set_permissions(&deaf, fs::Permissions::from_mode(0o755)).unwrap();
    let mut settings = settings();
    settings.tools = deaf;
    settings.env = vec![("MARK".into(), "story-deaf".into())];
    settings.patience.grace = Duration::from_millis(300);
    let boxes = Local::new(settings).unwrap();
    let starting = tokio::spawn(async move { boxes.start("deaf").await.err() });
    let mut seen = Seen(Vec::new());
    soon("the program inside runs", || {
        seen = Seen::of("story-deaf");
        seen.0.len() >= 3
    })
    .await;
    let refused = starting.await.unwrap();
    assert!(matches!(&refused, Some(SandboxError::NotStarted(why)) if why.contains("within 600 ms")), "{refused:?}");
    nothing_is_left("deaf", &seen).await;
}

#[tokio::test]
async fn a_program_that_dies_of_memory_is_told_from_a_lost_one() {
    if !is_root() {
        return;
    }
    let mut settings = settings();
    settings.memory_bytes = 24 << 20;
    let mut sandbox = Local::new(settings).unwrap().start("small").await.unwrap();
    let put = sandbox.put(one_file("large", &vec![b'x'; 60 << 20])).await;
    assert!(matches!(&put, Err(SandboxError::NoRoom(why)) if why.contains("memory")), "{put:?}");
    sandbox.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_outlives_the_thread_that_asked_for_it() {
    let runtime = tokio::runtime::Handle::current();
    let asking = std::thread::spawn(move || runtime.block_on(local().start("thread")));
    let started = tokio::task::spawn_blocking(move || asking.join().unwrap()).await.unwrap();
    let mut sandbox = started.unwrap();
    assert_eq!(sandbox.list(Listing::Exact).await.unwrap(), []);
    sandbox.close().await;
}

#[tokio::test]
async fn the_program_inside_is_never_the_hosts_root() {
    let (sandbox, seen) = start("uid").await;
    for pid in seen.alive() {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let ids: Vec<&str> =
            status.lines().filter(|line| ["Uid:", "Gid:", "Groups:"].iter().any(|field| line.starts_with(field))).collect();
        let root = ids.iter().any(|line| line.split_whitespace().skip(1).any(|id| id == "0"));
        assert!(!root, "{} has {ids:?}", name(pid));
    }
    sandbox.close().await;
}

#[tokio::test]
#[ignore = "run by another story, which kills it"]
async fn a_worker_to_be_killed() {
    let (_sandbox, seen) = start("worker").await;
    println!("seen {}", seen.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_worker_takes_its_sandboxes_along_and_the_next_one_sweeps_up() {
    let mut worker = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox::local_ends::a_worker_to_be_killed", "--ignored", "--nocapture"])
        .env(TOOLS, settings().tools)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(worker.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("seen ").map(|(_, pids)| pids.to_owned()));
    let seen = Seen(told.unwrap().split(' ').map(|pid| pid.parse().unwrap()).collect());
    let mut living = local().start("living").await.unwrap();
    worker.kill().unwrap();
    soon("the sandbox of the killed worker is gone", || seen.alive().is_empty()).await;
    worker.wait().unwrap();
    assert_eq!(groups(worker.id(), "worker").is_empty(), !is_root());
    let swept = local().sweep();
    assert!(swept > 0 || !is_root(), "{swept}");
    assert_eq!(groups(worker.id(), "worker"), [""; 0]);
    assert_eq!(living.list(Listing::Exact).await.unwrap(), []);
    living.close().await;
}
