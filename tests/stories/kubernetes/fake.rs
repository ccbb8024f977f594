//! What a cluster of today answers that the one of the stories can't: by an API server that answers as it does. No cluster is needed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use frognano_bot::config::Sandbox as Config;
use frognano_bot::sandbox::kubernetes::{Kubernetes, Settings};
use frognano_bot::sandbox::{SandboxError, Sandboxes as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::world::{refused, soon};

/// Answers in order to each POST of a pod; everything else is there.
#[derive(Clone)]
struct Server {
    to_pods: Arc<Mutex<Vec<(u16, Value)>>>,
    seen: Arc<Mutex<Vec<String>>>,
    /// A kind whose creation takes until the gate is opened.
    slow: Option<(&'static str, watch::Receiver<bool>)>,
}

impl Server {
    fn new(to_pods: Vec<(u16, Value)>) -> Self {
        Self { to_pods: Arc::new(Mutex::new(to_pods)), seen: Arc::default(), slow: None }
    }

    async fn serve(&self) -> (JoinHandle<std::io::Result<()>>, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        (tokio::spawn(axum::serve(listener, axum::Router::new().fallback(answer).with_state(self.clone())).into_future()), address)
    }

    fn has_seen(&self, call: &str) -> bool {
        self.seen.lock().unwrap().iter().any(|seen| seen.starts_with(call))
    }
}

/// As a real server, it finishes what it was asked for even when nobody waits for the answer.
async fn answer(State(server): State<Server>, method: Method, uri: Uri, body: axum::body::Bytes) -> (StatusCode, Json<Value>) {
    tokio::spawn(async move {
        if let Some((kind, gate)) = server.slow.clone()
            && method == Method::POST
            && uri.path().ends_with(kind)
        {
            server.seen.lock().unwrap().push(format!("held {kind}"));
            gate.clone().wait_for(|is_open| *is_open).await.unwrap();
        }
        answer_now(&server, &method, &uri, &body)
    })
    .await
    .unwrap()
}

fn answer_now(server: &Server, method: &Method, uri: &Uri, body: &[u8]) -> (StatusCode, Json<Value>) {
    let path = uri.path();
    server.seen.lock().unwrap().push(format!("{method} {path}"));
    let sent: Value = serde_json::from_slice(body).unwrap_or_default();
    let not_found = || (404, failure(404, "not found"));
    let (code, answer) =
        match (method.clone(), path.rsplit('/').find(|part| ["pods", "networkpolicies", "configmaps", "version"].contains(part))) {
            (Method::GET, Some("version")) => (200, version()),
            (Method::GET, Some("configmaps")) => {
                (200, json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "frognano-bot", "uid": "1" } }))
            }
            (Method::POST, Some("networkpolicies")) => (201, sent),
            (Method::POST, Some("pods")) => {
                let mut answers = server.to_pods.lock().unwrap();
                let (code, mut answer) = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
                if code == 201 {
                    let more = answer.take();
                    answer = sent;
                    merge(&mut answer, more);
                }
                (code, answer)
            }
            (Method::DELETE, Some("networkpolicies")) => (200, json!({ "apiVersion": "v1", "kind": "Status", "status": "Success" })),
            _ => not_found(),
        };
    (StatusCode::from_u16(code).unwrap(), Json(answer))
}

fn version() -> Value {
    json!({ "major": "1", "minor": "34+", "gitVersion": "v1.34.1", "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": "" })
}

fn failure(code: u16, message: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": message, "reason": if code == 404 { "NotFound" } else { "Forbidden" }, "code": code })
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            more.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value))
        }
        (into, more) => *into = more,
    }
}

/// Starts a sandbox on a server with these answers; what is said, and what was asked of the server.
async fn start(to_pods: Vec<(u16, Value)>) -> (SandboxError, Vec<String>) {
    let server = Server::new(to_pods);
    let (web, address) = server.serve().await;
    let folder = tempfile::tempdir().unwrap();
    let boxes = on(folder.path().join("kubeconfig"), &address).await;
    let error = refused(&boxes, "fake").await;
    web.abort();
    let seen = server.seen.lock().unwrap().clone();
    (error, seen)
}

async fn on(path: PathBuf, server: &str) -> Kubernetes {
    let text = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{ "name": "x", "user": {} }],
        "clusters": [{ "name": "x", "cluster": { "server": server } }], "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }] });
    std::fs::write(&path, text.to_string()).unwrap();
    let mut config = Config::default();
    config.kubernetes.kubeconfig = Some(path);
    config.kubernetes.bait_address = Some([192, 0, 2, 7].into());
    rustls::crypto::ring::default_provider().install_default().ok();
    Kubernetes::new(Settings::new(&config, Vec::new()).unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_told_in_the_clusters_words_and_its_policy_is_taken_back() {
    let security = "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": unrestricted capabilities";
    let webhook = "admission webhook \"images.example.com\" denied the request: only images of registry.example.com";
    let sidecar = json!({ "spec": { "containers": [{ "name": "sandbox", "image": "i" }, { "name": "istio-proxy", "image": "i" }] } });
    for (code, answer, words) in [
        (403, failure(403, security), format!("pod-security-refused: {security}")),
        (400, failure(400, webhook), format!("admission-refused: {webhook}")),
        (201, sidecar, "changed: the cluster made another pod of the one that was asked for: it has other containers".to_owned()),
    ] {
        let (error, seen) = start(vec![(code, answer)]).await;
        assert!(matches!(&error, SandboxError::Unfit(why) if why.contains(&words)), "{error}");
        let order: Vec<_> = seen.iter().filter(|call| call.contains("networkpolicies") || call.starts_with("POST")).collect();
        let policy_first = order[0].starts_with("POST") && order[0].ends_with("networkpolicies") && order[1].ends_with("/pods");
        let then_taken_back = order.last().unwrap().starts_with("DELETE") && order.last().unwrap().contains("networkpolicies");
        assert!(policy_first && then_taken_back, "{seen:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_too_much_to_do_is_asked_again_before_anybody_is_told() {
    let busy = failure(429, "too many requests, please try again later");
    let (error, seen) = start(vec![(429, busy.clone()), (429, busy), (403, failure(403, "exceeded quota: sandboxes"))]).await;
    assert!(matches!(&error, SandboxError::NoPlaceYet(why) if why == "quota-exceeded: exceeded quota: sandboxes"), "{error}");
    assert_eq!(seen.iter().filter(|call| call.starts_with("POST") && call.ends_with("/pods")).count(), 3, "{seen:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let boxes = on(folder.path().join("kubeconfig"), &format!("http://{nobody}")).await;
    let error = refused(&boxes, "down").await;
    assert!(matches!(&error, SandboxError::NoPlaceYet(why) if why.starts_with("api-server-down: ") && why.contains("refused")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_up_while_it_is_created_is_removed_after_its_creation() {
    for kind in ["networkpolicies", "pods"] {
        let (open, gate) = watch::channel(false);
        let server = Server { slow: Some((kind, gate)), ..Server::new(vec![(201, json!({}))]) };
        let (web, address) = server.serve().await;
        let folder = tempfile::tempdir().unwrap();
        let boxes = on(folder.path().join("kubeconfig"), &address).await;
        tokio::select! {
            started = boxes.start("given-up") => panic!("{kind}: {:?}", started.err()),
            () = soon("it is being created", async || server.has_seen("held")) => {}
        }
        let early = async {
            while !server.has_seen("DELETE") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_millis(300), early).await.is_err(), "{kind}: removed before it is there");
        open.send(true).unwrap();
        soon("it is removed", async || {
            server.seen.lock().unwrap().iter().any(|call| call.starts_with("DELETE") && call.contains("networkpolicies"))
        })
        .await;
        let seen = server.seen.lock().unwrap().clone();
        let at = |call: &str| seen.iter().position(|seen| seen.starts_with(call) && seen.contains(kind)).unwrap();
        assert!(at("POST") < at("DELETE"), "{kind}: {seen:#?}");
        web.abort();
    }
}
