//! Where a recovery ends: what is told of it, what could not be kept, how often it may happen.

use std::sync::Arc;

use frognano_bot::domain::{Fault, Outcome};
use frognano_bot::pipeline::{KeepLimits, Stop};
use serde_json::json;

use super::world::{Blow, NEVER, Run, Striking};

fn peace() -> Arc<Striking> {
    Arc::new(Striking::new(Blow::Worker, NEVER, false))
}

fn script(commands: &[&str]) -> String {
    let turn = |command: &&str| json!({"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": command}}]}).to_string();
    let edit = json!({"content": "", "tool_calls": [{"name": "Write", "arguments": {"file_path": "a.txt", "content": "a"}}]}).to_string();
    let end = json!({"content": "done"}).to_string();
    [edit].into_iter().chain(commands.iter().map(turn)).chain([end]).collect::<Vec<_>>().join("\n")
}

const TOLD: &str = "the sandbox was lost and replaced by a new one";

#[tokio::test(flavor = "multi_thread")]
async fn the_model_is_told_once_of_what_is_gone_and_only_after_a_command() {
    let script = script(&["printf x > /tmp/x; printf b > b.txt", "cat /tmp/x b.txt", "cat b.txt"]);
    // Struck at the call, then once more or at the same call again, before its step is kept.
    for (blow, call, then, told_in, recoveries) in [
        (Blow::Helper, 1, &[][..], None, 1),
        (Blow::Helper, 2, &[], None, 1),
        (Blow::Helper, 3, &[], Some(2), 1),
        (Blow::Helper, 3, &[1], Some(2), 2),
        (Blow::Worker, 3, &[1], Some(2), 2),
        (Blow::Worker, 4, &[], Some(3), 1),
        (Blow::Stop, 4, &[], Some(3), 1),
    ] {
        let run = Run::new(&script);
        let striking = Striking::at_calls(blow, call, then);
        match run.live_on(striking).await {
            Err(Stop::Shutdown) if blow == Blow::Stop => run.live_on(peace()).await.unwrap(),
            ended => ended.unwrap(),
        }
        let trajectory = run.trajectory();
        let ours = &trajectory.frognano.recoveries;
        assert_eq!(ours.len(), recoveries, "{blow:?} {call}");
        assert!(ours.iter().all(|recovery| recovery.in_order == (blow == Blow::Stop)));
        let steps = trajectory.steps.iter().filter(|step| step.observations.iter().any(|done| done.observation.contains(TOLD)));
        assert_eq!(steps.map(|step| step.step).collect::<Vec<_>>(), told_in.into_iter().collect::<Vec<_>>(), "{blow:?} {call}");
        let told = trajectory.messages.iter().filter(|message| message.to_string().contains(TOLD)).collect::<Vec<_>>();
        assert!(told.len() == usize::from(told_in.is_some()) && told.iter().all(|message| message["role"] == "tool"));
        if call == 3 {
            let observation = &trajectory.steps[2].observations[0].observation;
            assert!(observation.contains("/tmp/x: No such file") && observation.contains("b"), "{observation}");
        }
        let asked = run.asked.lock().unwrap();
        for pair in asked.windows(2) {
            let (before, after) = (&pair[0].messages, &pair[1].messages);
            assert_eq!(after[..before.len()], before[..], "what was said once is never said in another way");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_too_large_to_be_kept_makes_the_run_start_over_and_says_so() {
    let script = script(&["head -c 20000 /dev/zero > big.bin", "cat a.txt", "wc -c < big.bin > size.txt; rm big.bin"]);
    let new = || {
        let mut run = Run::new(&script);
        run.limits = KeepLimits { file_bytes: 10_000, ..KeepLimits::default() };
        run
    };
    let undisturbed = new();
    undisturbed.live_on(peace()).await.unwrap();
    assert!(undisturbed.patch().contains("+20000"));
    for blow in [Blow::Helper, Blow::Worker] {
        let mut started_over = Vec::new();
        for call in 1..=4 {
            let run = new();
            run.live_on(Striking::at_calls(blow, call, &[])).await.unwrap();
            assert_eq!(run.patch(), undisturbed.patch(), "{blow:?} {call}");
            let trajectory = run.trajectory();
            assert_eq!((trajectory.steps.len(), trajectory.frognano.recoveries.len()), (5, 1));
            let recovery = &trajectory.frognano.recoveries[0];
            let why = "starts over, since its last step could not be kept: big.bin has 20000 bytes, the largest file that is kept 10000";
            assert_eq!(recovery.why.contains(why), recovery.before_step + 1 != call as u64, "{recovery:?}");
            started_over.push(recovery.why.contains(why));
            assert!(!trajectory.messages.iter().any(|message| started_over[call - 1] && message.to_string().contains(TOLD)));
        }
        assert_eq!(started_over, [false, false, true, true]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recoveries_are_counted_over_all_lives_and_those_in_order_are_not() {
    let script = script(&["cat a.txt", "cat a.txt"]);
    for (most, blow) in [(1, Blow::Worker), (2, Blow::Worker), (3, Blow::Worker), (1, Blow::Helper), (2, Blow::Helper), (3, Blow::Helper)] {
        let mut run = Run::new(&script);
        run.max_recoveries = most;
        // Three losses: at the second call, at the same one, at the one after it.
        let mut ended = run.live_on(Striking::at_calls(blow, 2, &[1, 2])).await;
        if blow == Blow::Helper && most < 3 {
            assert!(matches!(ended, Err(Stop::TryAgain(Fault::SandboxFailed, _))), "{ended:?}");
            // Another worker has the job now, and finds what was lost before; this loss is its last.
            ended = run.live_on(peace()).await;
        }
        match ended {
            Err(Stop::Outcome(Outcome::Abandoned { fault: Fault::WorkerLost, detail })) if most < 3 => {
                assert!(detail.contains(&format!("{} times", most + 1)), "{detail}");
            }
            Ok(()) if most == 3 => assert_eq!(run.trajectory().frognano.recoveries.len(), 3),
            other => panic!("{blow:?}, at most {most}: {other:?}"),
        }
    }
    let mut run = Run::new(&script);
    run.max_recoveries = 0;
    assert!(matches!(run.live_on(Striking::at_calls(Blow::Stop, 2, &[])).await, Err(Stop::Shutdown)));
    run.live_on(peace()).await.unwrap();
    assert_eq!(run.trajectory().frognano.recoveries[0].why, "it was stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_while_it_wrote_a_line_loses_that_line_alone() {
    let script = script(&["printf b >> b.txt", "printf c >> b.txt", "printf d >> b.txt"]);
    let undisturbed = Run::new(&script);
    undisturbed.live_on(peace()).await.unwrap();
    for call in 2..=4 {
        let run = Run::new(&script);
        assert!(run.live(Striking::at_calls(Blow::Worker, call, &[])).await.is_none());
        let journal = run.path("run/kept/journal.jsonl");
        let text = std::fs::read(&journal).unwrap();
        let lines = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!(lines.len(), call);
        std::fs::write(&journal, &text[..text.len() - lines[call - 1] / 2]).unwrap();
        run.live_on(peace()).await.unwrap();
        assert_eq!(run.patch(), undisturbed.patch(), "cut in line {call}");
        assert_eq!(run.trajectory().frognano.recoveries[0].before_step + 2, call as u64);
    }
}
