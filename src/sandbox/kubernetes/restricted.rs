//! The rules of Pod Security level "restricted" and those of this house, as code: what is tried on the pod that the cluster made of ours.
//!
//! What must hold: a cluster can add what it likes to a pod while it takes it (a side container, a token, a volume). None of it may be there when
//! the repository enters, so the pod is read back and judged, and whatever is not known to be harmless refuses it.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, SecurityContext, Volume};

use super::pod::CONTAINER;

/// Everything about a pod that is more than a sandbox may have, one phrase each.
pub(super) fn complaints(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return vec!["it has no spec".to_owned()] };
    let mut complaints = of_spec(spec);
    let inits = spec.init_containers.iter().flatten();
    for container in spec.containers.iter().chain(inits) {
        complaints.extend(of_container(container).into_iter().map(|what| format!("container {}: {what}", container.name)));
    }
    complaints.extend(spec.volumes.iter().flatten().filter_map(of_volume));
    complaints
}

fn of_spec(spec: &PodSpec) -> Vec<String> {
    let context = spec.security_context.clone().unwrap_or_default();
    let mut complaints = Vec::new();
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            complaints.push(what.to_owned());
        }
    };
    let names: Vec<&str> = spec.containers.iter().map(|container| container.name.as_str()).collect();
    demand(names == [CONTAINER], "it has other containers than the one that was asked for");
    let inits: Vec<&str> = spec.init_containers.iter().flatten().map(|container| container.name.as_str()).collect();
    demand(inits == ["tools"], "it has other init containers than the one that was asked for");
    demand(spec.ephemeral_containers.as_ref().is_none_or(Vec::is_empty), "it has a debugging container");
    for (what, shared) in [("hostNetwork", spec.host_network), ("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)] {
        demand(shared != Some(true), what);
    }
    demand(spec.automount_service_account_token == Some(false), "a service account's token would be mounted");
    demand(spec.enable_service_links == Some(false), "services are named in its environment");
    demand(spec.dns_policy.as_deref() == Some("None"), "it has the cluster's name servers");
    demand(spec.restart_policy.as_deref() == Some("Never"), "it would be started again");
    demand(spec.active_deadline_seconds.is_some(), "it has no deadline");
    demand(context.run_as_non_root == Some(true) && context.run_as_user.is_some_and(|user| user != 0), "it may run as root");
    demand(context.seccomp_profile.is_some_and(|profile| profile.type_ == "RuntimeDefault"), "it has no seccomp profile");
    demand(context.sysctls.is_none_or(|sysctls| sysctls.is_empty()), "it changes kernel settings");
    demand(context.supplemental_groups.is_none_or(|groups| groups.is_empty()), "it has further groups");
    complaints
}

fn of_container(container: &Container) -> Vec<String> {
    let context = container.security_context.clone().unwrap_or_default();
    let mut complaints = of_rights(&context);
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            complaints.push(what.to_owned());
        }
    };
    demand(container.env_from.as_ref().is_none_or(Vec::is_empty), "its environment comes from elsewhere");
    demand(container.env.iter().flatten().all(|variable| variable.value_from.is_none()), "a variable comes from elsewhere");
    demand(container.ports.as_ref().is_none_or(Vec::is_empty), "it has ports");
    demand(container.lifecycle.is_none(), "it has hooks");
    demand(container.volume_devices.as_ref().is_none_or(Vec::is_empty), "it has devices");
    let resources = container.resources.clone().unwrap_or_default();
    let (requests, limits) = (resources.requests.unwrap_or_default(), resources.limits.unwrap_or_default());
    for what in ["cpu", "memory", "ephemeral-storage"] {
        demand(
            limits.contains_key(what) && limits.get(what) == requests.get(what),
            &format!("its {what} is not both requested and limited"),
        );
    }
    demand(limits.len() == 3, "it is given more than processor, memory and disk");
    complaints
}

fn of_rights(context: &SecurityContext) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            complaints.push(what.to_owned());
        }
    };
    let capabilities = context.capabilities.clone().unwrap_or_default();
    demand(context.privileged != Some(true), "privileged");
    demand(context.allow_privilege_escalation == Some(false), "it may gain rights");
    demand(capabilities.drop.unwrap_or_default() == ["ALL"], "it keeps capabilities");
    demand(capabilities.add.unwrap_or_default().is_empty(), "it is given capabilities");
    demand(context.read_only_root_filesystem == Some(true), "its root can be written");
    demand(context.run_as_non_root != Some(false) && context.run_as_user != Some(0), "it may run as root");
    demand(context.seccomp_profile.as_ref().is_none_or(|profile| profile.type_ == "RuntimeDefault"), "it has no seccomp profile");
    demand(context.proc_mount.as_deref().is_none_or(|mount| mount == "Default"), "it sees more of /proc");
    complaints
}

fn of_volume(volume: &Volume) -> Option<String> {
    let only_empty = Volume { name: volume.name.clone(), empty_dir: volume.empty_dir.clone(), ..Volume::default() };
    let sized = volume.empty_dir.as_ref().is_some_and(|empty| empty.size_limit.is_some());
    (*volume != only_empty || !sized).then(|| format!("the volume {} is not an empty one with a size", volume.name))
}
