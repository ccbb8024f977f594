//! Whether the cluster is ready for sandboxes, looked at without a change: what we may do there, and what stands around them.
//!
//! What must hold: [`RIGHTS`] is all that is ever asked of the cluster (a story compares it with the Role of `deploy/kubernetes` and with the
//! calls that are made).

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{LimitRange, Namespace, ResourceQuota};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

use super::settings::Settings;
use super::{Kubernetes, trouble};
use crate::domain::{Check, Checks};

/// A right in the namespace of the sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The group of the API; empty for the core.
    pub group: &'static str,
    /// The resource, with its subresource behind a slash.
    pub resource: &'static str,
    /// What is done with it.
    pub verb: &'static str,
}

const fn right(group: &'static str, resource: &'static str, verb: &'static str) -> Right {
    Right { group, resource, verb }
}

const POLICIES: &str = "networking.k8s.io";

/// Every right that sandboxes and their examination need, and no other.
pub const RIGHTS: [Right; 15] = [
    right("", "configmaps", "get"),
    right("", "events", "list"),
    right("", "limitranges", "list"),
    right("", "namespaces", "get"),
    right("", "pods", "create"),
    right("", "pods", "delete"),
    right("", "pods", "get"),
    right("", "pods", "list"),
    right("", "pods", "watch"),
    // The stream is opened by GET, for which newer servers want "create".
    right("", "pods/exec", "create"),
    right("", "pods/exec", "get"),
    right("", "resourcequotas", "list"),
    right(POLICIES, "networkpolicies", "create"),
    right(POLICIES, "networkpolicies", "delete"),
    right(POLICIES, "networkpolicies", "list"),
];

/// Rights that would be too much, each with what it would allow.
const TOO_MUCH: [(Right, &str); 3] = [
    (right("", "secrets", "get"), "read secrets of the sandboxes' namespace"),
    (right("rbac.authorization.k8s.io", "rolebindings", "create"), "give rights there"),
    (right("*", "*", "*"), "do everything there"),
];

/// The label of a namespace's Pod Security level.
const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";

const ROLE: &str = "see the Role frognano-worker in deploy/kubernetes/base/rbac.yaml";

impl Kubernetes {
    /// Looks at the cluster; a sandbox that is started says the rest.
    pub(super) async fn look(&self) -> Vec<Check> {
        let mut checks = Checks::of("cluster");
        match self.client.apiserver_version().await {
            Ok(version) => checks.ok("reachable", format!("Kubernetes {}", version.git_version)),
            Err(error) => {
                checks.fail("reachable", format!("{}; see [sandbox.kubernetes] kubeconfig", trouble::of_answer(&error).words));
                return checks.done();
            }
        }
        self.the_rights(&mut checks).await;
        self.the_namespace(&mut checks).await;
        self.the_bounds(&mut checks).await;
        self.the_walls(&mut checks).await;
        self.the_owner(&mut checks).await;
        the_images(&self.settings, &mut checks);
        checks.done()
    }

    async fn may(&self, right: Right) -> Result<bool, kube::Error> {
        let (resource, subresource) = right.resource.split_once('/').unwrap_or((right.resource, ""));
        let namespace = &self.settings.namespace;
        // The Role names the one object of these kinds.
        let name = match resource {
            "configmaps" => &self.settings.owner,
            "namespaces" => namespace,
            _ => "",
        };
        let about = json!({
            "namespace": namespace, "group": right.group, "resource": resource, "subresource": subresource, "name": name, "verb": right.verb,
        });
        let asked = json!({ "spec": { "resourceAttributes": about } });
        let asked: SelfSubjectAccessReview = serde_json::from_value(asked).map_err(kube::Error::SerdeError)?;
        let reviews = Api::<SelfSubjectAccessReview>::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &asked).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    async fn the_rights(&self, checks: &mut Checks) {
        let namespace = &self.settings.namespace;
        let mut missing = Vec::new();
        for right in RIGHTS {
            match self.may(right).await {
                Ok(true) => {}
                Ok(false) => missing.push(format!("{} {}", right.verb, right.resource)),
                Err(error) => return checks.fail("rights", format!("can't be asked: {}", trouble::of_answer(&error).words)),
            }
        }
        if missing.is_empty() {
            checks.ok("rights", format!("all {} that sandboxes need in {namespace}", RIGHTS.len()));
        } else {
            checks.fail("rights", format!("the service may not {} in {namespace}: {ROLE}", missing.join(", ")));
        }
        let mut wide = Vec::new();
        for (right, what) in TOO_MUCH {
            if self.may(right).await.unwrap_or(false) {
                wide.push(what);
            }
        }
        if !wide.is_empty() {
            checks.warn("too_wide", format!("the service may {}, which it never does: {ROLE}", wide.join(", ")));
        }
    }

    async fn the_namespace(&self, checks: &mut Checks) {
        let name = &self.settings.namespace;
        let found = Api::<Namespace>::all(self.client.clone()).get(name).await;
        let labels = match found {
            Ok(namespace) => namespace.metadata.labels.unwrap_or_default(),
            Err(error) => return checks.fail("namespace", format!("{name}: {}", trouble::of_answer(&error).words)),
        };
        match labels.get(POD_SECURITY).map(String::as_str) {
            Some("restricted") => checks.ok("namespace", format!("{name} takes pods of the level restricted alone")),
            level => checks.warn(
                "namespace",
                format!(
                    "{name} takes pods of the level {}: label it by `kubectl label namespace {name} {POD_SECURITY}=restricted`",
                    level.unwrap_or("privileged")
                ),
            ),
        }
    }

    async fn the_bounds(&self, checks: &mut Checks) {
        let (client, namespace) = (&self.client, &self.settings.namespace);
        let all = ListParams::default();
        let quotas = Api::<ResourceQuota>::namespaced(client.clone(), namespace).list(&all).await.map(|list| list.items.len());
        let limits = Api::<LimitRange>::namespaced(client.clone(), namespace).list(&all).await.map(|list| list.items.len());
        for (check, what, found) in [("quota", "ResourceQuota", quotas), ("limits", "LimitRange", limits)] {
            match found {
                Ok(0) => checks.warn(
                    check,
                    format!("{namespace} has no {what}: its sandboxes may fill the cluster; deploy/kubernetes/base/sandboxes.yaml has one"),
                ),
                Ok(_) => checks.ok(check, format!("{namespace} has a {what}")),
                Err(error) => checks.warn(check, format!("can't be looked at: {}", trouble::of_answer(&error).words)),
            }
        }
    }

    async fn the_walls(&self, checks: &mut Checks) {
        let namespace = &self.settings.namespace;
        match self.kinds.policies.list(&ListParams::default()).await {
            Ok(policies) if policies.items.iter().any(denies_all) => {
                checks.ok("deny_all", format!("a policy of {namespace} denies everything to every pod"));
            }
            Ok(_) => checks.warn(
                "deny_all",
                format!(
                    "no policy of {namespace} denies everything to every pod: each sandbox has one of its own, what else comes there has none; deploy/kubernetes/base/sandboxes.yaml has one"
                ),
            ),
            Err(error) => checks.warn("deny_all", format!("can't be looked at: {}", trouble::of_answer(&error).words)),
        }
    }

    async fn the_owner(&self, checks: &mut Checks) {
        let (owner, namespace) = (&self.settings.owner, &self.settings.namespace);
        match self.kinds.maps.get_opt(owner).await {
            Ok(Some(_)) => checks.ok("owner", format!("the ConfigMap {owner} owns all sandboxes")),
            Ok(None) => checks.fail("owner", format!("make it by `kubectl -n {namespace} create configmap {owner}`")),
            Err(error) => checks.fail("owner", format!("the ConfigMap {owner}: {}", trouble::of_answer(&error).words)),
        }
    }
}

fn the_images(settings: &Settings, checks: &mut Checks) {
    let loose = [&settings.image, &settings.tools_image].into_iter().filter(|image| !image.contains("@sha256:"));
    let loose = loose.map(String::as_str).collect::<Vec<_>>();
    if loose.is_empty() {
        checks.ok("images", "named by their digests");
    } else {
        checks.warn("images", format!("{}: named without a digest, so they may come to be others", loose.join(", ")));
    }
    match &settings.runtime_class {
        Some(class) => checks.ok("runtime", format!("the RuntimeClass {class}")),
        None => checks.ok("runtime", "the cluster's own; a kernel of their own comes by [sandbox.kubernetes] runtime_class (gVisor, Kata)"),
    }
}

fn denies_all(policy: &NetworkPolicy) -> bool {
    let Some(spec) = &policy.spec else { return false };
    let everybody =
        spec.pod_selector.as_ref().is_none_or(|selector| selector.match_labels.is_none() && selector.match_expressions.is_none());
    let both = spec.policy_types.as_ref().is_some_and(|types| ["Ingress", "Egress"].iter().all(|kind| types.iter().any(|t| t == kind)));
    let nothing = spec.ingress.as_ref().is_none_or(Vec::is_empty) && spec.egress.as_ref().is_none_or(Vec::is_empty);
    everybody && both && nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_policy_for_everybody_and_both_ways_that_allows_nothing_denies_all() {
        let denies =
            |spec: serde_json::Value| denies_all(&serde_json::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap());
        let both = json!(["Ingress", "Egress"]);
        assert!(denies(json!({"podSelector": {}, "policyTypes": both})));
        assert!(!denies(json!({"podSelector": {}, "policyTypes": ["Ingress"]})));
        assert!(!denies(json!({"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": both})));
        assert!(!denies(json!({"podSelector": {}, "policyTypes": both, "egress": [{}]})));
        assert!(!denies(json!({"podSelector": {}, "policyTypes": both, "ingress": [{"from": []}]})));
    }
}
