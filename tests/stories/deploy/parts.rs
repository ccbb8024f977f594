//! The two parts of an installation in a cluster, each a process as its container starts it.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use frognano_bot::demo::Kind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::databases::Database;
use crate::house::House;

/// A cluster that nobody is asked of before the first sandbox.
const CLUSTER: &str = r#"
[sandbox]
kind = "kubernetes"
[sandbox.kubernetes]
kubeconfig = "KUBECONFIG"
image = "registry.example.com/python:1"
tools_image = "registry.example.com/tools:1"
allow_tags = true
"#;

#[tokio::test]
async fn neither_part_needs_bubblewrap_where_sandboxes_are_pods() {
    let Some(database) = Database::postgres() else { return };
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, super::kubeconfig("http://127.0.0.1:1", "t0ken")).unwrap();
    // All that the image has on its PATH, as far as the service looks.
    std::os::unix::fs::symlink(frognano_bot::git::which("git").unwrap(), folder.path().join("git")).unwrap();
    let cluster = CLUSTER.replace("KUBECONFIG", &kubeconfig.display().to_string());
    let house = House::new(Kind::Gitea).await.on(database).set(&cluster);
    let config = house.write_config();
    for part in ["web", "worker"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
        command.args(["serve", "--only", part, "--config"]).arg(&config).env("PATH", folder.path());
        let mut process = command.stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut log = String::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("{part} did not start: {log}")).unwrap();
            let event: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(address) = event["address"].as_str() {
                break address.to_owned();
            }
            log += &line;
        };
        for path in ["healthz", "readyz"] {
            let answer = reqwest::get(format!("http://{address}/{path}")).await.unwrap();
            assert_eq!(answer.status(), 200, "{part} {path}");
        }
        kill(Pid::from_raw(i32::try_from(process.id()).unwrap()), Signal::SIGTERM).unwrap();
        let log = lines.map_while(Result::ok).fold(log, |log, line| log + &line + "\n");
        assert!(process.wait().unwrap().success(), "{part}: {log}");
        assert!(!log.contains("t0ken"), "{part}: {log}");
    }
}
