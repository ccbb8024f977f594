//! The manifests on a real cluster (`KUBECONFIG`): a service that has nothing but the Role works, and uses all of it.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::process::Command;

use frognano_bot::app;
use frognano_bot::config::File;
use frognano_bot::domain::{Clock as _, Health, SystemClock};
use frognano_bot::sandbox::SandboxError;
use serde_json::{Value, json};

use super::calls::{Ear, reviews};
use super::{folder, rights_that_are_needed};
use crate::kubernetes::world::bait;

const OBJECTS: [&str; 3] = ["base/namespaces.yaml", "base/rbac.yaml", "base/sandboxes.yaml"];

fn kubectl(arguments: &[&str]) -> String {
    let output = Command::new("kubectl").args(arguments).current_dir(folder()).output().unwrap();
    assert!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The installation's namespaces, gone with this.
struct Installed;

impl Installed {
    fn make() -> Self {
        for file in OBJECTS {
            kubectl(&["apply", "--validate=false", "-f", file]);
        }
        Self
    }

    /// The way in with the worker's own token.
    fn kubeconfig(&self) -> String {
        let mut config: Value =
            serde_json::from_str(&kubectl(&["config", "view", "--raw", "--minify", "--flatten", "-o", "json"])).unwrap();
        let token = kubectl(&["-n", "frognano", "create", "token", "frognano-worker"]);
        config["users"][0]["user"] = json!({"token": token.trim()});
        config.to_string()
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        kubectl(&["delete", "--timeout=60s", "-f", OBJECTS[0]]);
    }
}

fn sandboxes(kubeconfig: &Path, more: &str) -> File {
    let text = format!(
        "[model]\nurl = \"http://127.0.0.1:1\"\nname = \"x\"\n\
         [sandbox]\nkind = \"kubernetes\"\ncpus = 0.5\nmemory_bytes = 268435456\nworkspace_bytes = 67108864\ntmp_bytes = 16777216\n\
         [sandbox.kubernetes]\nkubeconfig = {kubeconfig:?}\nimage = \"docker.io/frognano/python:test\"\n\
         tools_image = \"docker.io/frognano/tools:test\"\nallow_tags = true\npull_policy = \"Never\"\nbait_address = \"{}\"\n{more}\n",
        bait()
    );
    toml::from_str(&text).unwrap()
}

#[tokio::test]
async fn a_service_that_has_the_role_alone_works_and_none_of_its_rights_is_idle() {
    if std::env::var_os("KUBECONFIG").is_none_or(|path| path.is_empty()) {
        println!("NOT RUN here: the Role on a real cluster; KUBECONFIG names none");
        return;
    }
    let is_open = std::env::var("FROGNANO_TEST_KUBE_MODE").is_ok_and(|mode| mode == "open");
    rustls::crypto::ring::default_provider().install_default().ok();
    let installed = Installed::make();
    let data = tempfile::tempdir().unwrap();
    let kubeconfig = data.path().join("kubeconfig");
    std::fs::write(&kubeconfig, installed.kubeconfig()).unwrap();
    let ear = Ear::listen();

    let boxes = app::sandboxes(&sandboxes(&kubeconfig, ""), data.path(), Vec::new()).await.unwrap();
    let not_ok = boxes.examine().await.into_iter().filter(|check| check.status != Health::Ok).collect::<Vec<_>>();
    assert!(not_ok.iter().all(|check| check.check == "images"), "{not_ok:#?}");
    match boxes.start("rights").await {
        Ok(mut sandbox) => {
            assert!(!is_open, "a cluster that enforces nothing was believed");
            let said = sandbox.call("Bash", &json!({"command": "id -u"})).await.unwrap();
            assert!(said.lines().any(crate::sandbox::suite::is_a_sandboxs), "{said}");
            sandbox.close().await;
        }
        Err(error) => assert!(is_open && matches!(error, SandboxError::NetworkOpen(_)), "{error}"),
    }
    assert_eq!(boxes.reap(&HashSet::new(), SystemClock.now_ms()).await.unwrap(), Vec::<String>::new());
    // What waits for a node is asked for its events.
    let nowhere = sandboxes(&kubeconfig, "start_seconds = 7\n[sandbox.kubernetes.node_selector]\nnowhere = \"there\"");
    let nowhere = app::sandboxes(&nowhere, data.path(), Vec::new()).await.unwrap();
    let error = nowhere.start("nowhere").await.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("didn't match") || error.contains("nodes are available"), "{error}");

    let mut used = ear.heard();
    assert!(used.remove(&reviews()));
    let mut needed: BTreeSet<_> = rights_that_are_needed();
    // Only newer servers ask for it, for the same call.
    needed.remove(&(String::new(), "pods/exec".to_owned(), "create".to_owned()));
    assert_eq!(used, needed);
}
