//! A lost sandbox or worker costs at most the step that was under way: whatever is lost and whenever, the patch is the same.

#[path = "recovery/bounds.rs"]
mod bounds;
#[path = "recovery/programs.rs"]
mod programs;
#[path = "recovery/world.rs"]
pub mod world;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use world::{Blow, NEVER, Run, Striking};

/// Files of every kind changed, made, moved, deleted, over several steps; each step builds on the one before.
const SCRIPT: &str = r##"{"content": "", "tool_calls": [{"name": "Write", "arguments": {"file_path": "notes/a.txt", "content": "one\n"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "printf 'two\n' >> notes/a.txt; ln -s a.txt notes/link; printf '#!/bin/sh\n' > run.sh; chmod +x run.sh; printf 'x\\000\\377' > bytes.bin"}}, {"name": "Read", "arguments": {"file_path": "notes/a.txt"}}]}
{"content": "", "tool_calls": [{"name": "Glob", "arguments": {"pattern": "**/*.txt"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "rm README.md bytes.bin; mv run.sh go.sh; printf 'three\n' >> notes/a.txt; wc -l < notes/a.txt > notes/count.txt"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "mkdir -p empty/inner made/__pycache__; printf x > made/__pycache__/m.pyc; printf 'stashed\n' > stashed.txt; git add stashed.txt; git stash --quiet; git stash list | wc -l"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "git stash pop --quiet; printf y > empty/inner/f.txt; printf z > made/g.txt; git add -A; git commit --quiet -m wip; git log --oneline | wc -l"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "git log --oneline | wc -l > count-of-commits.txt; mv tallybook/money.py money.tmp; rm -r tallybook/__init__.py; git checkout --quiet HEAD -- tallybook; rm money.tmp"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "printf 'b' > \"$(printf 'caf\\351')\"; mkdir lib.egg-info in.d; printf 'lib\n' > lib.egg-info/top_level.txt; printf a > in.d/a; printf f > f; printf x > README.md; mkdir -p kept; mv tallybook kept/; printf t > tallybook; printf y > /tmp/outside"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "mv caf* café.txt; cat lib.egg-info/top_level.txt > from-egg.txt; rm -r in.d; mv f in.d; mkdir f; printf i > f/inside; rm tallybook; mv kept/tallybook .; rm README.md; mkdir README.md; printf r > README.md/r"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "cat f/inside in.d README.md/r > read.txt; rm -r README.md"}}]}
{"content": "", "tool_calls": [{"name": "Edit", "arguments": {"file_path": "tallybook/plan.py", "old_string": "    share = total // parts\n    return [share] * parts", "new_string": "    share, rest = divmod(total, parts)\n    return [share + 1] * rest + [share] * (parts - rest)"}}]}
{"content": "done"}"##;

/// Strikes at every word of the agent to its sandbox, a run for each; the patch is the undisturbed one's.
async fn struck_at_every_word(blow: Blow, after_the_word: bool) {
    let undisturbed = Run::new(SCRIPT);
    let counting = Arc::new(Striking::new(blow, NEVER, after_the_word));
    undisturbed.live_on(counting.clone()).await.unwrap();
    let words = NEVER - counting.countdown.load(Ordering::SeqCst);
    let (patch, trajectory) = (undisturbed.patch(), undisturbed.trajectory());
    assert!(patch.contains("read.txt") && !patch.contains("top_level.txt"), "{patch}");
    assert!(trajectory.frognano.recoveries.is_empty());
    assert!(words > 20, "{words}");
    let mut recovered = 0;
    for moment in 1..=words {
        let run = Run::new(SCRIPT);
        run.live_on(Arc::new(Striking::new(blow, moment, after_the_word))).await.unwrap();
        assert_eq!(run.patch(), patch, "{blow:?} killed at word {moment}");
        let again = run.trajectory();
        assert_eq!(again.steps.len(), trajectory.steps.len());
        assert_eq!(again.messages[..2], trajectory.messages[..2]);
        recovered += again.frognano.recoveries.len();
    }
    println!("{blow:?}: {recovered} recoveries in {words} losses");
    assert!(recovered + 10 >= words, "{recovered} recoveries in {words} losses: nothing was kept yet at the first words");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_killed_at_any_word_gives_the_same_patch() {
    struck_at_every_word(Blow::Helper, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_killed_at_any_word_gives_the_same_patch() {
    struck_at_every_word(Blow::Sandbox, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_at_any_word_gives_the_same_patch() {
    struck_at_every_word(Blow::Worker, true).await;
}
