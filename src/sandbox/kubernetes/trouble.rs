//! What a cluster can do to a sandbox, each with a name, the cluster's own words, and what is to be done about it.
//!
//! What must hold: the words are those of the answer, the status or the event, never ours in their place; a state that passes by itself is waited
//! for, and one that only a person can change is reported at once.

use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod, PodStatus};

use super::super::SandboxError;

/// The exit codes of a pod's first process when the program that answers ended without a word, and when that was where the kernel killed for want
/// of memory (`tools/pod.rs`).
const LEFT_ALONE: i32 = 70;
const LEFT_ALONE_FOR_MEMORY: i32 = 71;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The image could not be fetched.
    ImagePull,
    /// There is no such image, or it may not be fetched.
    ImageMissing,
    /// No node has room for it.
    Unschedulable,
    /// The namespace's quota is used up.
    QuotaExceeded,
    /// The node needed its room for something else.
    Evicted,
    /// It used up its memory.
    OutOfMemory,
    /// It used up its disk.
    OutOfDisk,
    /// Its node is gone.
    NodeGone,
    /// It lived as long as it may.
    TooOld,
    /// Somebody deleted it.
    Deleted,
    /// The API server does not answer.
    ServerDown,
    /// The API server has too much to do.
    Throttled,
    /// The stream to the program inside was cut.
    ExecCut,
    /// There is no such RuntimeClass, or no node has what it needs.
    RuntimeClassMissing,
    /// An admission rule of the cluster refused it.
    AdmissionRefused,
    /// The namespace's Pod Security level refused it.
    PodSecurityRefused,
    /// The cluster made something else of it than was asked for.
    Changed,
    /// The service may not do this in the cluster, or the namespace or owner is not there.
    NotPermitted,
    /// A container could not be started, or ended.
    ContainerFailed,
    /// It took too long to start.
    Slow,
}

/// What is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// It passes: the job waits in the queue.
    Wait,
    /// Another try may go well; so often and no more.
    TryAgain,
    /// Somebody must change something.
    Report,
}

/// A trouble with the cluster's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) trouble: Trouble,
    pub(super) words: String,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::ImagePull,
        Self::ImageMissing,
        Self::Unschedulable,
        Self::QuotaExceeded,
        Self::Evicted,
        Self::OutOfMemory,
        Self::OutOfDisk,
        Self::NodeGone,
        Self::TooOld,
        Self::Deleted,
        Self::ServerDown,
        Self::Throttled,
        Self::ExecCut,
        Self::RuntimeClassMissing,
        Self::AdmissionRefused,
        Self::PodSecurityRefused,
        Self::Changed,
        Self::NotPermitted,
        Self::ContainerFailed,
        Self::Slow,
    ];

    /// The stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ImagePull => "image-pull",
            Self::ImageMissing => "image-missing",
            Self::Unschedulable => "unschedulable",
            Self::QuotaExceeded => "quota-exceeded",
            Self::Evicted => "evicted",
            Self::OutOfMemory => "out-of-memory",
            Self::OutOfDisk => "out-of-disk",
            Self::NodeGone => "node-gone",
            Self::TooOld => "too-old",
            Self::Deleted => "deleted",
            Self::ServerDown => "api-server-down",
            Self::Throttled => "throttled",
            Self::ExecCut => "exec-cut",
            Self::RuntimeClassMissing => "runtime-class-missing",
            Self::AdmissionRefused => "admission-refused",
            Self::PodSecurityRefused => "pod-security-refused",
            Self::Changed => "changed",
            Self::NotPermitted => "not-permitted",
            Self::ContainerFailed => "container-failed",
            Self::Slow => "slow",
        }
    }

    /// What is to be done about it.
    #[must_use]
    pub const fn remedy(self) -> Remedy {
        match self {
            Self::Unschedulable | Self::QuotaExceeded | Self::ServerDown | Self::Throttled => Remedy::Wait,
            Self::ImagePull
            | Self::Evicted
            | Self::NodeGone
            | Self::TooOld
            | Self::Deleted
            | Self::ExecCut
            | Self::ContainerFailed
            | Self::Slow => Remedy::TryAgain,
            Self::ImageMissing
            | Self::OutOfMemory
            | Self::OutOfDisk
            | Self::RuntimeClassMissing
            | Self::AdmissionRefused
            | Self::PodSecurityRefused
            | Self::Changed
            | Self::NotPermitted => Remedy::Report,
        }
    }

    pub(super) fn told(self, words: impl Into<String>) -> Told {
        Told { trouble: self, words: words.into() }
    }

    /// Whether a pod that has it may still come to run by itself.
    const fn may_pass(self) -> bool {
        matches!(self, Self::ImagePull | Self::Unschedulable)
    }
}

impl Told {
    fn text(&self) -> String {
        let words: String = self.words.trim().chars().take(800).map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("{}: {words}", self.trouble.name())
    }

    /// What is said of a sandbox that was never there.
    pub(super) fn at_the_start(&self) -> SandboxError {
        match self.trouble.remedy() {
            Remedy::Wait => SandboxError::NoPlaceYet(self.text()),
            Remedy::TryAgain => SandboxError::NotStarted(self.text()),
            Remedy::Report => SandboxError::Unfit(self.text()),
        }
    }

    /// What is said of a sandbox that was there.
    pub(super) fn later(&self) -> SandboxError {
        match self.trouble {
            Trouble::OutOfMemory | Trouble::OutOfDisk => SandboxError::NoRoom(self.text()),
            _ => SandboxError::Lost(self.text()),
        }
    }

    /// Whether waiting may still help a pod that has not come to run.
    pub(super) const fn may_pass(&self) -> bool {
        self.trouble.may_pass()
    }
}

/// What an answer of the API server that is no success means.
pub(super) fn of_answer(error: &kube::Error) -> Told {
    let kube::Error::Api(status) = error else { return of_broken(error) };
    let said = status.message.as_str();
    let says = |words: &str| said.contains(words);
    let trouble = match status.code {
        429 => Trouble::Throttled,
        500.. if says("failed calling webhook") || says("failed calling admission webhook") => Trouble::ServerDown,
        _ if says("admission webhook") => Trouble::AdmissionRefused,
        403 if says("exceeded quota") || says("failed quota") => Trouble::QuotaExceeded,
        403 if says("violates PodSecurity") => Trouble::PodSecurityRefused,
        403 if says("RuntimeClass") => Trouble::RuntimeClassMissing,
        401 => Trouble::NotPermitted,
        403 if says("cannot ") && says("User ") => Trouble::NotPermitted,
        404 if says("namespaces") => Trouble::NotPermitted,
        404 => Trouble::Deleted,
        409 | 410 => Trouble::Slow,
        400..=499 => Trouble::AdmissionRefused,
        _ => Trouble::ServerDown,
    };
    trouble.told(if said.is_empty() { format!("the API server answered {} {}", status.code, status.reason) } else { said.to_owned() })
}

fn of_broken(error: &kube::Error) -> Told {
    let trouble = match error {
        kube::Error::UpgradeConnection(kube::client::UpgradeConnectionError::ProtocolSwitch(status)) => match status.as_u16() {
            401 | 403 => Trouble::NotPermitted,
            429 => Trouble::Throttled,
            _ => Trouble::ExecCut,
        },
        kube::Error::UpgradeConnection(_) => Trouble::ExecCut,
        kube::Error::Auth(_) => Trouble::NotPermitted,
        _ => Trouble::ServerDown,
    };
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(this) = cause {
        let more = this.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = this.source();
    }
    trouble.told(words)
}

/// What a pod's status says, when it says that something is wrong.
pub(super) fn of_pod(pod: &Pod) -> Option<Told> {
    let status = pod.status.as_ref()?;
    of_end(status)
        .or_else(|| of_containers(status))
        .or_else(|| of_conditions(status))
        .or_else(|| pod.metadata.deletion_timestamp.as_ref().map(|_| Trouble::Deleted.told("somebody deletes the pod")))
}

fn of_end(status: &PodStatus) -> Option<Told> {
    let (phase, reason) = (status.phase.as_deref()?, status.reason.as_deref().unwrap_or_default());
    let words = format!("{reason}: {}", status.message.as_deref().unwrap_or("the pod failed"));
    let trouble = match reason {
        "Evicted" if ["emptyDir", "EmptyDir", "ephemeral", "local storage"].iter().any(|part| words.contains(part)) => Trouble::OutOfDisk,
        "Evicted" | "Preempting" | "Preempted" => Trouble::Evicted,
        "NodeLost" | "NodeShutdown" | "Shutdown" | "Terminated" | "NodeAffinity" => Trouble::NodeGone,
        "DeadlineExceeded" => Trouble::TooOld,
        "UnexpectedAdmissionError" => Trouble::Unschedulable,
        _ if reason.starts_with("OutOf") => Trouble::Unschedulable,
        _ => return None,
    };
    (phase == "Failed" || reason == "NodeLost").then(|| trouble.told(words))
}

fn of_containers(status: &PodStatus) -> Option<Told> {
    let inits = status.init_container_statuses.iter().flatten().map(|container| (container, true));
    let mains = status.container_statuses.iter().flatten().map(|container| (container, false));
    inits.chain(mains).find_map(|(container, is_init)| of_container(container, is_init))
}

fn of_container(container: &ContainerStatus, is_init: bool) -> Option<Told> {
    let state = container.state.as_ref()?;
    let of = |name: &str, reason: Option<&String>, message: Option<&String>| {
        let reason = reason.map_or("", String::as_str);
        format!("container {name}: {reason}: {}", message.map_or("", String::as_str))
    };
    if let Some(waiting) = &state.waiting {
        let words = of(&container.name, waiting.reason.as_ref(), waiting.message.as_ref());
        let no_such = ["not found", "NotFound", "manifest unknown", "denied", "unauthorized", "not present with pull policy"];
        let trouble = match waiting.reason.as_deref()? {
            "ErrImageNeverPull" | "InvalidImageName" => Trouble::ImageMissing,
            "ErrImagePull" if no_such.iter().any(|part| words.contains(part)) => Trouble::ImageMissing,
            "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "ImageInspectError" => Trouble::ImagePull,
            "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" | "CrashLoopBackOff" => Trouble::ContainerFailed,
            _ => return None,
        };
        return Some(trouble.told(words));
    }
    let ended = state.terminated.as_ref()?;
    if is_init && ended.exit_code == 0 {
        return None;
    }
    let words = of(&container.name, ended.reason.as_ref(), ended.message.as_ref());
    let words = format!("{words} (exit code {})", ended.exit_code);
    Some(match (ended.reason.as_deref(), ended.exit_code) {
        (_, LEFT_ALONE_FOR_MEMORY) if !is_init => {
            Trouble::OutOfMemory.told(format!("the program inside was killed, and the kernel killed for memory in this pod; {words}"))
        }
        (Some("OOMKilled"), _) => Trouble::OutOfMemory.told(words),
        (_, LEFT_ALONE) if !is_init => Trouble::ExecCut.told(format!("the program inside ended without a word; {words}")),
        _ => Trouble::ContainerFailed.told(words),
    })
}

fn of_conditions(status: &PodStatus) -> Option<Told> {
    status.conditions.iter().flatten().find_map(|condition| {
        let reason = condition.reason.as_deref().unwrap_or_default();
        let words = format!("{reason}: {}", condition.message.as_deref().unwrap_or_default());
        let trouble = match (condition.type_.as_str(), condition.status.as_str(), reason) {
            ("PodScheduled", "False", _) => Trouble::Unschedulable,
            ("DisruptionTarget", "True", "DeletionByTaintManager" | "DeletionByPodGC") => Trouble::NodeGone,
            ("DisruptionTarget", "True", _) => Trouble::Evicted,
            _ => return None,
        };
        Some(trouble.told(words))
    })
}

/// What the warnings about a pod that does not come to run mean; the last one speaks.
pub(super) fn of_events(events: &[Event]) -> Option<Told> {
    let last = events.iter().rev().find(|event| event.type_.as_deref() == Some("Warning"))?;
    let (reason, message) = (last.reason.as_deref().unwrap_or_default(), last.message.as_deref().unwrap_or_default());
    let trouble = match reason {
        "FailedCreatePodSandBox"
            if message.contains("runtime") && (message.contains("no runtime for") || message.contains("RuntimeHandler")) =>
        {
            Trouble::RuntimeClassMissing
        }
        "FailedScheduling" => Trouble::Unschedulable,
        "Failed" | "BackOff" if message.contains("mage") => Trouble::ImagePull,
        _ => Trouble::Slow,
    };
    Some(trouble.told(format!("{reason}: {message}")))
}

#[cfg(test)]
#[path = "trouble_tests.rs"]
mod tests;
