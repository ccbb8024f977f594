//! Sandboxes of bubblewrap keep every promise, started by root and by another user, and show of the host only what they are told to.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use frognano_bot::sandbox::local::{Local, Settings};
use frognano_bot::sandbox::{SandboxError, Sandboxes, Target};

use super::suite::run;
use super::{suite, walls};

/// Where the program for inside is; another place when the tests run as a user who can't reach the folder of the build.
pub const TOOLS: &str = "FROGNANO_STORY_TOOLS";

pub fn settings() -> Settings {
    let tools = std::env::var_os(TOOLS).map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_frognano-tools")), PathBuf::from);
    let mut settings = Settings::new(tools, "/nowhere/frognano-state");
    settings.workspace_bytes = 64 << 20;
    settings.tmp_bytes = 16 << 20;
    settings.memory_bytes = 256 << 20;
    settings.max_processes = 96;
    settings.env = vec![("MARK".into(), "frognano".into())];
    settings
}

pub fn local() -> Local {
    Local::new(settings()).unwrap()
}

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

macro_rules! promises {
    ($($room:ident::$promise:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $promise() {
            $room::$promise(&local()).await;
        })*
    };
}

promises!(
    suite::brings_odd_names_in_and_out,
    suite::keeps_modes_and_never_follows_links,
    suite::takes_no_more_than_the_limit,
    suite::answers_the_tools,
    suite::bounds_time_and_output,
    suite::bounds_processes,
    suite::bounds_memory,
    suite::bounds_the_disk,
    walls::reaches_no_network,
    walls::shows_nothing_of_the_host,
    walls::is_writable_only_where_it_should_be,
    walls::gives_no_rights,
);

#[test]
fn every_promise_holds_for_a_user_who_is_not_root() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        fs::copy(from, &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
        to
    };
    let tools = copy(env!("CARGO_BIN_EXE_frognano-tools").as_ref(), "frognano-tools");
    let stories = copy(&std::env::current_exe().unwrap(), "stories");
    let output = Process::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(stories)
        .arg("sandbox::")
        .env(TOOLS, tools)
        .env("HOME", "/nonexistent")
        .current_dir("/")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains("shows_nothing_of_the_host ... ok"),
        "{told}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn a_reachable_target_refuses_the_sandbox() {
    let mut settings = settings();
    settings.probe_targets = vec![Target::new("udp", "127.0.0.1:9")];
    let opened = Local::new(settings).unwrap().start("open").await;
    let Err(SandboxError::NetworkOpen(what)) = opened else { panic!("an open network was accepted") };
    assert_eq!(what, "udp 127.0.0.1:9");
}

#[tokio::test]
async fn a_sandbox_without_the_wall_to_the_network_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let careless = folder.path().join("bwrap");
    let script = r#"for arg; do shift; [ "$arg" = --unshare-net ] || set -- "$@" "$arg"; done; exec bwrap "$@""#;
    fs::write(&careless, format!("#!/bin/sh\nPATH=/usr/bin\n{script}\n")).unwrap();
    fs::set_permissions(&careless, fs::Permissions::from_mode(0o755)).unwrap();
    let mut settings = settings();
    settings.bwrap = careless;
    let opened = Local::new(settings).unwrap().start("careless").await;
    let Err(SandboxError::NetworkOpen(what)) = opened else { panic!("an open network was accepted") };
    assert!(what.contains("tcp 127.0.0.1:") && what.contains("abstract frognano-bait-"), "{what}");
}

#[tokio::test]
async fn a_toolchain_in_a_closed_folder_is_seen_at_its_own_path_and_nothing_beside_it() {
    let closed = tempfile::tempdir().unwrap();
    let toolchain = closed.path().join("versions/1.2");
    fs::DirBuilder::new().recursive(true).mode(0o755).create(toolchain.join("bin")).unwrap();
    fs::write(closed.path().join("secret"), "x").unwrap();
    fs::write(toolchain.join("bin/hello"), "#!/bin/sh\necho hello\n").unwrap();
    fs::set_permissions(toolchain.join("bin/hello"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut settings = settings();
    settings.binds = vec![toolchain.clone()];
    settings.path = vec![toolchain.join("bin")];
    let mut sandbox = Local::new(settings).unwrap().start("toolchain").await.unwrap();
    let seen = run(&mut sandbox, &format!("hello; ls {}; touch {}/x", closed.path().display(), toolchain.display())).await;
    assert_eq!(seen.stdout, "hello\nversions\n");
    assert!(seen.stderr.contains("Read-only file system"), "{seen:?}");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("frognano-bot/stage"), "{mounts}");
    sandbox.close().await;
}

#[tokio::test]
async fn what_can_not_be_started_says_why() {
    let mut settings = settings();
    settings.tools = "/bin/true".into();
    let silent = Local::new(settings).unwrap().start("silent").await;
    assert!(matches!(silent, Err(SandboxError::NotStarted(_))));
    let mut settings = self::settings();
    settings.tools = "/usr/bin/false".into();
    settings.bwrap = "/bin/cat".into();
    let Err(SandboxError::NotStarted(why)) = Local::new(settings).unwrap().start("no-bwrap").await else { panic!("cat is no bubblewrap") };
    assert!(why.contains("unshare-user"), "the last words are missing: {why}");
}

#[tokio::test]
async fn the_bounds_in_force_are_on_record() {
    let mut sandbox = local().start("record").await.unwrap();
    let report = serde_json::to_value(sandbox.probe_report()).unwrap();
    let bounds = report["bounds"].to_string();
    assert!(bounds.contains("workspace 67108864 bytes") && bounds.contains("memory 268435456 bytes"), "{bounds}");
    if is_root() {
        assert!(bounds.contains("cgroup"), "{bounds}");
    }
    assert!(report["attempts"].as_array().is_some_and(|attempts| attempts.len() > 7));
    assert_eq!(run(&mut sandbox, "ulimit -Hu; ulimit -Hn; ulimit -Hf; ulimit -c").await.stdout, "96\n1024\n1048576\n0\n");
    sandbox.close().await;
}

#[tokio::test]
async fn the_processor_is_shared_as_configured() {
    if !is_root() {
        return;
    }
    let mut settings = settings();
    settings.cpus = 0.5;
    let mut sandbox = Local::new(settings).unwrap().start("cpu").await.unwrap();
    let half_a_second = "exec perl -MTime::HiRes=time -e '$began = time; 1 while (times)[0] + (times)[1] < 0.5; print time - $began'";
    let took: f64 = run(&mut sandbox, half_a_second).await.stdout.parse().unwrap();
    assert!(took > 0.8, "half a second of processor time took {took} s on half a processor");
    sandbox.close().await;
}
