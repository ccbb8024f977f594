//! What the rules cost: `cargo bench --bench guard`. The goal is a patch of 5,000 lines in less than 100 ms.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench may stop at once and say why")]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use frognano_bot::domain::{BlobMode, ChangedFile};
use frognano_bot::guard::{self, Base, Limits};

const FILES: usize = 20;
const ROUNDS: usize = 15;

fn main() {
    let (changed, lines) = patch();
    let limits = Limits { max_lines: 1_000_000, max_bytes: 64 * 1024 * 1024, ..Limits::default() };
    let base = Base { paths: (0..5000).map(|n| format!("src/pkg{}/mod{n}.py", n % 50).into_bytes()).collect(), ..Base::default() };
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let changed = changed.clone();
            let start = Instant::now();
            drop(guard::check(changed, &limits, &base));
            start.elapsed()
        })
        .collect();
    times.sort();
    let median = times[times.len() / 2].as_secs_f64() * 1000.0;
    println!(
        "guard: {median:.1} ms for a patch of {lines} added lines in {FILES} Python files, half of them tests (median of {ROUNDS}; goal: under 100 ms)"
    );
}

/// Source and tests with a new function every few lines.
fn patch() -> (Vec<ChangedFile>, usize) {
    let (mut changed, mut lines) = (Vec::new(), 0);
    for file in 0..FILES {
        let is_test = file % 2 == 0;
        let (mut before, mut after) = (String::from("import os\nimport pytest\n\n"), String::from("import os\nimport pytest\n\n"));
        for n in 0..50 {
            let name = if is_test { format!("test_{n}") } else { format!("value_{n}") };
            let body = format!("def {name}(x=1):\n    total = sum([x, {n}])\n    assert total == x + {n}\n\n");
            before.push_str(&body);
            after.push_str(&body);
            write!(after, "def {name}_more(x=2):\n    names = {{'a': x, 'b': [{n}, 2, 3]}}\n    for key, value in names.items():\n        assert key != str(value)\n\n").unwrap();
            lines += 5;
        }
        let path = if is_test { format!("tests/test_{file}.py") } else { format!("src/pkg/new_{file}.py") };
        let blob = |text: String| Some((BlobMode::File, text.into_bytes()));
        changed.push(ChangedFile { path: path.into_bytes(), before: blob(before), after: blob(after) });
    }
    (changed, lines)
}
