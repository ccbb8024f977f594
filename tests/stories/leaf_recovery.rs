//! The loop where its steps are kept and lost: what can't be kept is not finished, and a recovery is told once, with a result.

use async_trait::async_trait;
use frognano_bot::domain::{Clock, ExitReason};
use frognano_bot::leaf::{LeafError, Observer, Recovery, Trajectory, With, run};
use frognano_bot::sandbox::{Sandbox, SandboxError};
use serde_json::{Value, json};

use crate::leaf_loop::world::{World, begun, call, done};

/// Keeps nothing: fails at one of the steps.
struct Failing(u64, Option<SandboxError>);

#[async_trait]
impl Observer for Failing {
    async fn on_step(&mut self, trajectory: &Trajectory, _: &mut dyn Sandbox) -> Result<(), SandboxError> {
        match self.1.take_if(|_| trajectory.steps.len() as u64 == self.0) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

async fn run_failing(world: &mut World, step: u64, error: SandboxError) -> Result<Trajectory, LeafError> {
    let mut observer = Failing(step, Some(error));
    let clock: &dyn Clock = &*world.time;
    let with = With { model: &world.model, sandbox: &mut world.sandbox, clock, cancel: &world.cancel, observer: &mut observer };
    run(begun(), &world.preset, with).await
}

fn bash() -> Value {
    call("Bash", &json!({"command": "true"}))
}

#[tokio::test]
async fn a_step_whose_work_is_too_large_to_be_taken_out_is_counted_once_and_is_not_finished() {
    for lines in [[bash(), bash(), done()], [bash(), done(), done()]] {
        let mut world = World::new(&lines);
        let large = SandboxError::TooLarge { what: "the list of the files inside".into(), limit: 10 };
        let trajectory = run_failing(&mut world, 2, large).await.unwrap();
        assert_eq!((trajectory.exit_reason, trajectory.n_steps, trajectory.steps.len()), (Some(ExitReason::ToolError), 2, 1));
        assert_eq!((trajectory.messages.len(), trajectory.frognano.turns.len()), (4, 1));
        assert_eq!(trajectory.frognano.interrupted.unwrap().step, 1);
        assert_eq!((trajectory.final_message.as_str(), trajectory.frognano.readings.kinds.values().sum::<u64>()), ("", 1));
    }
}

#[tokio::test]
async fn a_sandbox_lost_while_a_step_is_kept_leaves_a_run_that_can_go_on() {
    let mut world = World::new(&[bash(), bash(), bash(), done()]);
    let error = run_failing(&mut world, 2, SandboxError::Lost("killed".into())).await.unwrap_err();
    assert!(matches!(&error, LeafError::Sandbox { step: 1, .. }), "{error}");
    let kept = error.into_trajectory();
    assert_eq!((kept.messages.len(), kept.steps.len(), kept.n_steps), (4, 1, 1));
    let trajectory = world.go_on(kept).await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.n_steps), (Some(ExitReason::Agent), 3));
}

fn recovered(before_step: u64, told: &str) -> Recovery {
    Recovery { before_step, why: "killed".to_owned(), told: told.to_owned(), in_order: false }
}

#[tokio::test]
async fn a_recovery_is_told_with_the_first_result_after_it_and_never_again() {
    let two = json!({"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "a"}}, {"name": "Bash", "arguments": {"command": "b"}}]});
    let not_understood = json!({"raw": true, "content": "<tool_call>\n<function=Bash>\n<parameter=command>\nls", "finish_reason": "stop"});
    for next in [two, not_understood] {
        let mut before = World::new(&[bash(), done()]);
        let mut kept = before.run().await.unwrap();
        kept.messages.pop();
        kept.steps.pop();
        kept.frognano.turns.pop();
        let mut undisturbed = World::new(&[next.clone(), bash(), done()]);
        let plain = undisturbed.go_on(kept.clone()).await.unwrap();

        kept.frognano.recoveries = vec![recovered(1, "an older word"), recovered(1, "/tmp is empty.")];
        let mut world = World::new(&[next, bash(), done()]);
        let told = world.go_on(kept.clone()).await.unwrap();
        assert_eq!(told.messages[..4], kept.messages[..], "what was said stays as it was");
        let differing = (4..told.messages.len()).filter(|at| told.messages[*at] != plain.messages[*at]).collect::<Vec<_>>();
        assert_eq!(differing, [5], "the first result alone");
        let content = told.messages[5]["content"].as_str().unwrap();
        assert_eq!(content, format!("{}\n\n/tmp is empty.", plain.messages[5]["content"].as_str().unwrap()));
        assert_eq!(told.steps[1].observations[0].observation, content);
        assert!(told.context_tokens >= plain.context_tokens);
        let requests = world.requests();
        assert!(requests.windows(2).all(|pair| pair[1].messages[..pair[0].messages.len()] == pair[0].messages[..]));
    }
}
