//! The calls that are made to an API server, as rights of the cluster: heard from what the client tells of each request.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// Group, resource (with its subresource behind a slash), verb.
pub type Call = (String, String, String);

/// The question whether one has a right, which everybody may ask.
pub fn reviews() -> Call {
    ("authorization.k8s.io".to_owned(), "selfsubjectaccessreviews".to_owned(), "create".to_owned())
}

/// Hears every call that is made in this thread.
pub struct Ear {
    heard: Arc<Mutex<BTreeSet<Call>>>,
    _listening: tracing::subscriber::DefaultGuard,
}

impl Ear {
    pub fn listen() -> Self {
        let heard = Arc::<Mutex<BTreeSet<Call>>>::default();
        let listening = tracing::subscriber::set_default(tracing_subscriber::registry().with(Requests(heard.clone())));
        Self { heard, _listening: listening }
    }

    pub fn heard(&self) -> BTreeSet<Call> {
        self.heard.lock().unwrap().clone()
    }
}

struct Requests(Arc<Mutex<BTreeSet<Call>>>);

impl<S: tracing::Subscriber> Layer<S> for Requests {
    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut request = Request::default();
        span.record(&mut request);
        self.0.lock().unwrap().extend(call(&request.method, &request.url));
    }
}

#[derive(Default)]
struct Request {
    method: String,
    url: String,
}

impl Visit for Request {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "http.method" => self.method = format!("{value:?}"),
            "http.url" => self.url = format!("{value:?}"),
            _ => {}
        }
    }
}

/// The right that a request to an API server needs; none for one that is no resource's.
fn call(method: &str, url: &str) -> Option<Call> {
    let after_host = url.split_once("://").map_or(url, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    let (path, query) = after_host.split_once('?').unwrap_or((after_host, ""));
    let parts = path.trim_matches('/').split('/').collect::<Vec<_>>();
    let (group, parts) = match parts.as_slice() {
        ["api", _, parts @ ..] => ("", parts),
        ["apis", group, _, parts @ ..] => (*group, parts),
        _ => return None,
    };
    let (resource, is_named) = match parts {
        ["namespaces", _, resource] => ((*resource).to_owned(), false),
        ["namespaces", _, resource, _] => ((*resource).to_owned(), true),
        ["namespaces", _, resource, _, subresource] => (format!("{resource}/{subresource}"), true),
        [resource] => ((*resource).to_owned(), false),
        [resource, _] => ((*resource).to_owned(), true),
        _ => return None,
    };
    let watches = query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1");
    let verb = match (method, is_named) {
        ("GET", false) if watches => "watch",
        ("GET", false) => "list",
        ("GET", true) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => return None,
    };
    Some((group.to_owned(), resource, verb.to_owned()))
}

#[test]
fn a_request_is_read_as_the_cluster_reads_it() {
    let at = |method, path: &str| call(method, &format!("https://10.0.0.1:6443{path}"));
    let right = |group: &str, resource: &str, verb: &str| Some((group.to_owned(), resource.to_owned(), verb.to_owned()));
    assert_eq!(at("GET", "/api/v1/namespaces/n/pods?watch=true&fieldSelector=x"), right("", "pods", "watch"));
    assert_eq!(at("GET", "/api/v1/namespaces/n/pods?labelSelector=x"), right("", "pods", "list"));
    assert_eq!(at("GET", "/api/v1/namespaces/n/pods/p/exec?command=x"), right("", "pods/exec", "get"));
    assert_eq!(
        at("DELETE", "/apis/networking.k8s.io/v1/namespaces/n/networkpolicies/p"),
        right("networking.k8s.io", "networkpolicies", "delete")
    );
    assert_eq!(at("GET", "/api/v1/namespaces/n"), right("", "namespaces", "get"));
    assert_eq!(at("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), Some(reviews()));
    assert_eq!(at("GET", "/version"), None);
}
