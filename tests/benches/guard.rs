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
    hostile();
}

/// What an attacker would write to make a rule slow: twice as much of it must take about twice as long.
fn hostile() {
    let each = |count: usize, line: fn(usize) -> String| (0..count).map(line).collect::<String>();
    let of_size = |times: usize| {
        [
            ("one line", "a ".repeat(60_000 * times)),
            ("chains", each(30 * times, |n| format!("x{n} = a{}\n", ".b(1)".repeat(90)))),
            ("sums of texts", each(20 * times, |n| format!("x{n} = {}f()\n", "'a' + ".repeat(300)))),
            ("tests", each(1500 * times, |n| format!("def test_{n}():\n    assert f({n}) == {n}\n"))),
            ("classes of one name", each(1500 * times, |n| format!("class A:\n    def test_{n}(self):\n        pass\n"))),
            ("commands", each(3000 * times, |n| format!("pytest tests/test_{n}.py\n"))),
        ]
    };
    let limits = Limits { max_lines: 1_000_000, max_bytes: 64 * 1024 * 1024, ..Limits::default() };
    for ((what, once), (_, twice)) in of_size(1).into_iter().zip(of_size(2)) {
        for path in ["src/a.py", "tests/test_a.py", "Makefile"] {
            let took = |text: &str| {
                let blob = |text: &str| Some((BlobMode::File, text.as_bytes().to_vec()));
                let changed = vec![ChangedFile { path: path.as_bytes().to_vec(), before: blob("x = 1\n"), after: blob(text) }];
                let start = Instant::now();
                drop(guard::check(changed, &limits, &Base::default()));
                start.elapsed().as_secs_f64()
            };
            let (one, two) = (took(&once), took(&twice));
            println!(
                "{what:20} {path:16} {:7.1} ms for {:4} KB; twice as much takes {:.1} times as long",
                one * 1000.0,
                once.len() / 1024,
                two / one
            );
        }
    }
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
