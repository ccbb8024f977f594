use std::collections::HashSet;

use serde_json::{Value, json};

use super::*;

fn answer(code: u16, message: &str) -> Told {
    let status: kube::core::Status =
        serde_json::from_value(json!({ "status": "Failure", "code": code, "message": message, "reason": "x" })).unwrap();
    of_answer(&kube::Error::Api(Box::new(status)))
}

fn pod(status: Value) -> Option<Told> {
    of_pod(&serde_json::from_value(json!({ "metadata": { "name": "x" }, "status": status })).unwrap())
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({ "phase": "Pending", "containerStatuses": [{ "name": "sandbox", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "waiting": { "reason": reason, "message": message } } }] })
}

fn ended(list: &str, reason: &str, code: i32) -> Value {
    json!({ "phase": "Failed", list: [{ "name": "sandbox", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": { "reason": reason, "exitCode": code } } }] })
}

#[test]
fn every_answer_of_the_api_server_has_its_name_and_keeps_its_words() {
    use Trouble::*;
    for (code, message, expected) in [
        (429, "too many requests, please try again later", Throttled),
        (403, "pods \"x\" is forbidden: exceeded quota: sandboxes, requested: pods=1, used: pods=8, limited: pods=8", QuotaExceeded),
        (403, "pods \"x\" is forbidden: failed quota: sandboxes: must specify limits.cpu", QuotaExceeded),
        (403, "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true", PodSecurityRefused),
        (403, "pods \"x\" is forbidden: pod rejected: RuntimeClass \"gvisor\" not found", RuntimeClassMissing),
        (403, "pods \"x\" is forbidden: no PriorityClass with name batch was found", AdmissionRefused),
        (403, "pods \"x\" is forbidden: maximum cpu usage per Pod is 1, but limit is 2", AdmissionRefused),
        (403, "pods is forbidden: User \"system:serviceaccount:a:b\" cannot create resource \"pods\" in API group \"\"", NotPermitted),
        (400, "admission webhook \"policy.example.com\" denied the request: no images from there", AdmissionRefused),
        (403, "admission webhook \"policy.example.com\" denied the request: exceeded quota of patience", AdmissionRefused),
        (500, "Internal error occurred: failed calling webhook \"policy.example.com\": connection refused", ServerDown),
        (422, "Pod \"x\" is invalid: spec.containers[0].resources.limits: must be greater", AdmissionRefused),
        (401, "Unauthorized", NotPermitted),
        (404, "namespaces \"frognano-sandboxes\" not found", NotPermitted),
        (404, "pods \"x\" not found", Deleted),
        (503, "apiserver not ready", ServerDown),
        (500, "etcdserver: request timed out", ServerDown),
    ] {
        let told = answer(code, message);
        assert_eq!((told.trouble, told.words.as_str()), (expected, message), "{code}");
    }
    assert_eq!(answer(503, "").words, "the API server answered 503 x");
}

#[test]
fn every_state_of_a_pod_has_its_name_and_keeps_its_words() {
    use Trouble::*;
    let failed = |reason: &str, message: &str| json!({ "phase": "Failed", "reason": reason, "message": message });
    let condition = |kind: &str, status: &str, reason: &str| json!({ "phase": "Pending", "conditions": [{ "type": kind, "status": status, "reason": reason, "message": "0/3 nodes are available" }] });
    let not_there = "rpc error: code = NotFound desc = failed to pull and unpack image: not found";
    for (status, expected, words) in [
        (waiting("ErrImagePull", "dial tcp: i/o timeout"), ImagePull, "i/o timeout"),
        (waiting("ImagePullBackOff", "Back-off pulling image \"x\""), ImagePull, "Back-off pulling"),
        (waiting("ErrImagePull", not_there), ImageMissing, "NotFound"),
        (waiting("ErrImageNeverPull", "Container image \"x\" is not present with pull policy of Never"), ImageMissing, "not present"),
        (waiting("InvalidImageName", "couldn't parse image reference"), ImageMissing, "parse image"),
        (waiting("CreateContainerConfigError", "container has runAsNonRoot"), ContainerFailed, "runAsNonRoot"),
        (condition("PodScheduled", "False", "Unschedulable"), Unschedulable, "0/3 nodes"),
        (condition("DisruptionTarget", "True", "DeletionByTaintManager"), NodeGone, "DeletionByTaintManager"),
        (condition("DisruptionTarget", "True", "PreemptionByScheduler"), Evicted, "PreemptionByScheduler"),
        (failed("Evicted", "The node was low on resource: memory."), Evicted, "low on resource"),
        (failed("Evicted", "Usage of EmptyDir volume \"workspace\" exceeds the limit \"1Gi\"."), OutOfDisk, "workspace"),
        (failed("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 2Gi."), OutOfDisk, "ephemeral"),
        (failed("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"), TooOld, "deadline"),
        (failed("NodeLost", "Node n which was running pod x is unresponsive"), NodeGone, "unresponsive"),
        (failed("Shutdown", "Node is shutting down"), NodeGone, "shutting down"),
        (failed("OutOfcpu", "Node didn't have enough resource: cpu"), Unschedulable, "enough resource"),
        (ended("containerStatuses", "OOMKilled", 137), OutOfMemory, "137"),
        (ended("containerStatuses", "Error", 1), ContainerFailed, "exit code 1"),
        (ended("containerStatuses", "OOMKilled", 71), OutOfMemory, "killed for memory"),
        (ended("containerStatuses", "Error", 71), OutOfMemory, "killed for memory"),
        (ended("containerStatuses", "Error", 70), ExecCut, "without a word"),
        (ended("initContainerStatuses", "Error", 71), ContainerFailed, "71"),
        (ended("initContainerStatuses", "StartError", 128), ContainerFailed, "128"),
    ] {
        let told = pod(status.clone()).unwrap_or_else(|| panic!("{status} is fine"));
        assert!(told.trouble == expected && told.words.contains(words), "{status}: {told:?}");
    }
    for fine in
        [waiting("ContainerCreating", ""), waiting("PodInitializing", ""), ended("initContainerStatuses", "Completed", 0), json!({})]
    {
        assert_eq!(pod(fine.clone()), None, "{fine}");
    }
}

#[test]
fn the_last_warning_speaks_for_a_pod_that_does_not_run() {
    let event = |kind: &str, reason: &str, message: &str| -> Event {
        serde_json::from_value(json!({ "metadata": {}, "involvedObject": {}, "type": kind, "reason": reason, "message": message })).unwrap()
    };
    let handler = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for \"runsc\" is configured";
    for (reason, message, expected) in [
        ("FailedCreatePodSandBox", handler, Trouble::RuntimeClassMissing),
        ("FailedCreatePodSandBox", "failed to set up the network", Trouble::Slow),
        ("FailedScheduling", "0/1 nodes are available", Trouble::Unschedulable),
        ("BackOff", "Back-off pulling image", Trouble::ImagePull),
    ] {
        let told = of_events(&[event("Warning", "Old", "old"), event("Warning", reason, message), event("Normal", "Pulled", "x")]).unwrap();
        assert_eq!((told.trouble, told.words), (expected, format!("{reason}: {message}")));
    }
    assert_eq!(of_events(&[event("Normal", "Scheduled", "x")]), None);
}

#[test]
fn what_passes_waits_and_what_does_not_is_reported() {
    let names: HashSet<_> = Trouble::ALL.iter().map(|trouble| trouble.name()).collect();
    assert_eq!(names.len(), Trouble::ALL.len());
    for trouble in Trouble::ALL {
        let (start, later) = (trouble.told("words").at_the_start(), trouble.told("words").later());
        assert!(start.to_string().contains(&format!("{}: words", trouble.name())) && later.to_string().contains("words"));
        let kept = match trouble.remedy() {
            Remedy::Wait => matches!(start, SandboxError::NoPlaceYet(_)),
            Remedy::TryAgain => matches!(start, SandboxError::NotStarted(_)),
            Remedy::Report => matches!(start, SandboxError::Unfit(_)),
        };
        let room = matches!(trouble, Trouble::OutOfMemory | Trouble::OutOfDisk) == matches!(later, SandboxError::NoRoom(_));
        assert!(kept && room, "{trouble:?}");
    }
    assert!(Trouble::Evicted.told("a\u{1b}[31m\nb").later().to_string().ends_with("evicted: a [31m b"));
}
