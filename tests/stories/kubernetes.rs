//! Sandboxes as pods of a real cluster keep every promise; what a cluster does to them has its name; and nothing is left.
//!
//! `KUBECONFIG` names the cluster and `FROGNANO_TEST_KUBE_MODE` says whether it enforces NetworkPolicies (`enforced`) or only stores them (`open`);
//! `tests/kube/up` starts one. On its nodes are the images `frognano/python:test` (bash, git, perl, pytest) and `frognano/tools:test` (nothing but
//! frognano-tools). `FROGNANO_TEST_KUBE_BAIT` is the address at which pods reach this machine. Without `KUBECONFIG` each story says that it was not run.

mod ends;
mod fake;
mod promises;
mod proxy;
mod runs;
mod troubles;
mod walls;
pub mod world;
