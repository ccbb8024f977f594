//! What the doctor says of a cluster, told against an API server of the story's own that answers as a real one does.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use frognano_bot::app;
use frognano_bot::config::File;
use frognano_bot::domain::{Check, Health};
use frognano_bot::sandbox::kubernetes::RIGHTS;
use serde_json::{Value, json};

use super::calls::{Ear, reviews};

/// What the cluster lacks: a right as `verb resource`, or an object by its resource.
#[derive(Debug, Clone, Copy, Default)]
struct Lacks {
    right: &'static str,
    object: &'static str,
    /// The service may do whatever it likes.
    bounds: bool,
}

async fn answer(State(lacks): State<Arc<Lacks>>, uri: Uri, body: Bytes) -> Response {
    let list = |resource: &str, item: Value| {
        let items = if lacks.object == resource { json!([]) } else { json!([item]) };
        Json(json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items})).into_response()
    };
    let missing = || {
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"});
        (StatusCode::NOT_FOUND, Json(status)).into_response()
    };
    match uri.path().rsplit('/').next().unwrap_or_default() {
        "version" => {
            let version = json!({"major": "1", "minor": "33", "gitVersion": "v1.33.1", "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
            Json(version).into_response()
        }
        "selfsubjectaccessreviews" => {
            let asked: Value = serde_json::from_slice(&body).unwrap();
            let about = &asked["spec"]["resourceAttributes"];
            let text = |name: &str| about[name].as_str().unwrap_or_default().to_owned();
            let resource = [text("resource"), text("subresource")].join("/").trim_end_matches('/').to_owned();
            let is_needed =
                RIGHTS.iter().any(|right| (right.group, right.resource, right.verb) == (&text("group"), &resource, &text("verb")));
            let allowed = lacks.bounds || is_needed && lacks.right != format!("{} {resource}", text("verb"));
            Json(json!({"spec": asked["spec"], "status": {"allowed": allowed}})).into_response()
        }
        "networkpolicies" => {
            list("networkpolicies", json!({"metadata": {"name": "x"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}))
        }
        "resourcequotas" => list("resourcequotas", json!({"metadata": {"name": "x"}})),
        "limitranges" => list("limitranges", json!({"metadata": {"name": "x"}})),
        "frognano-sandboxes" => {
            let labels = if lacks.object == "labels" { json!({}) } else { json!({"pod-security.kubernetes.io/enforce": "restricted"}) };
            Json(json!({"metadata": {"name": "frognano-sandboxes", "labels": labels}})).into_response()
        }
        "frognano-bot" if lacks.object != "configmaps" => Json(json!({"metadata": {"name": "frognano-bot", "uid": "1"}})).into_response(),
        _ => missing(),
    }
}

async fn examined(lacks: Lacks, images: &str) -> Vec<Check> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(axum::serve(listener, axum::Router::new().fallback(answer).with_state(Arc::new(lacks))).into_future());
    let checks = examined_at(&address.to_string(), images).await;
    served.abort();
    checks
}

async fn examined_at(address: &str, images: &str) -> Vec<Check> {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, super::kubeconfig(&format!("http://{address}"), "t0ken")).unwrap();
    let text = format!(
        "[model]\nurl = \"http://127.0.0.1:1\"\nname = \"x\"\n[sandbox]\nkind = \"kubernetes\"\n[sandbox.kubernetes]\nkubeconfig = {kubeconfig:?}\n{images}\n"
    );
    let file: File = toml::from_str(&text).unwrap();
    app::sandboxes(&file, folder.path(), Vec::new()).await.unwrap().examine().await
}

const PINNED: &str = r#"image = "a@sha256:1"
tools_image = "b@sha256:2""#;

fn not_ok(checks: &[Check]) -> Vec<(&'static str, Health, &str)> {
    checks.iter().filter(|check| check.status != Health::Ok).map(|check| (check.check, check.status, check.detail.as_str())).collect()
}

#[tokio::test]
async fn a_cluster_in_order_has_nothing_to_be_said_and_is_asked_for_no_more_than_our_rights() {
    let ear = Ear::listen();
    let checks = examined(Lacks::default(), PINNED).await;
    assert_eq!(not_ok(&checks), []);
    let names = checks.iter().map(|check| check.check).collect::<Vec<_>>();
    assert_eq!(names, ["reachable", "rights", "namespace", "quota", "limits", "deny_all", "owner", "images", "runtime"]);
    let beyond = ear.heard().into_iter().filter(|call| *call != reviews() && !super::rights_that_are_needed().contains(call));
    assert_eq!(beyond.collect::<Vec<_>>(), []);
}

#[tokio::test]
async fn whatever_a_cluster_lacks_is_named_with_what_to_do() {
    let without = |object| Lacks { object, ..Lacks::default() };
    for (lacks, check, status, words) in [
        (Lacks { right: "create pods/exec", ..Lacks::default() }, "rights", Health::Fail, "may not create pods/exec in frognano-sandboxes"),
        (Lacks { bounds: true, ..Lacks::default() }, "too_wide", Health::Warn, "read secrets of the sandboxes' namespace"),
        (without("labels"), "namespace", Health::Warn, "kubectl label namespace frognano-sandboxes pod-security"),
        (without("resourcequotas"), "quota", Health::Warn, "has no ResourceQuota"),
        (without("limitranges"), "limits", Health::Warn, "has no LimitRange"),
        (without("networkpolicies"), "deny_all", Health::Warn, "denies everything to every pod"),
        (without("configmaps"), "owner", Health::Fail, "kubectl -n frognano-sandboxes create configmap frognano-bot"),
    ] {
        let checks = examined(lacks, PINNED).await;
        let found = not_ok(&checks);
        assert!(
            matches!(found.as_slice(), [(name, how, told)] if (*name, *how) == (check, status) && told.contains(words)),
            "{lacks:?}: {found:?}"
        );
    }
    let loose = examined(Lacks::default(), "allow_tags = true\nimage = \"a:1\"\ntools_image = \"b@sha256:2\"").await;
    assert!(matches!(not_ok(&loose).as_slice(), [("images", Health::Warn, told)] if told.starts_with("a:1: ")), "{loose:?}");
    let nobody = examined_at("127.0.0.1:1", PINNED).await;
    assert!(matches!(not_ok(&nobody).as_slice(), [("reachable", Health::Fail, told)] if told.contains("kubeconfig")), "{nobody:?}");
    assert!(!format!("{nobody:?}").contains("t0ken"));
}
