//! What the verdict costs beside one plain run of the project's tests: `cargo bench --bench verdict`. The goal is less than 2.2 times that where the
//! tests at base are remembered and no test is flaky.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, dead_code, reason = "a bench may stop at once and say why")]

#[path = "../stories/databases.rs"]
mod databases;
#[path = "../stories/house.rs"]
mod house;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use frognano_bot::demo::Kind;
use frognano_bot::domain::Outcome;

use house::House;

const FILES: usize = 40;
const TESTS: usize = 25;
const ROUNDS: usize = 3;
const GOAL: f64 = 2.2;

const SCRIPT: &str = r#"{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "sed -i 's/a - b/a + b/; s/a \\/ 2/a * 0.5/' shop/calc.py && printf 'import unittest\nfrom shop import calc\n\n\nclass New(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n' > tests/test_new.py"}}]}
{"content": "done"}"#;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let house = House::with_script(Kind::Gitea, SCRIPT).await;
        let folder = tempfile::tempdir().unwrap();
        put_suite(folder.path());
        let plain = middle((0..ROUNDS).map(|_| plain_run(folder.path())).collect());
        let service = house.service().await;
        let mut of_base = Vec::new();
        let mut of_patch = Vec::new();
        for round in 0..ROUNDS {
            house.commit(|folder| {
                put_suite(folder);
                std::fs::write(folder.join("round.txt"), round.to_string()).unwrap();
            });
            for remembered in [false, true] {
                let issue = house.open_issue();
                service.take(&house.label(issue)).await;
                let outcome = service.outcome().await;
                assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
                let job = service.jobs().await.into_iter().max_by_key(|job| job.id.clone()).unwrap();
                let report: serde_json::Value = serde_json::from_str(job.report.as_deref().unwrap()).unwrap();
                assert_eq!((&report["proof"], report["tests"]["after"]["passed"].as_u64()), (&"proved".into(), Some((FILES * TESTS + 1) as u64)));
                let mut took = BTreeMap::<String, f64>::new();
                for stage in report["stage_ms"].as_array().unwrap() {
                    *took.entry(stage[0].as_str().unwrap().to_owned()).or_default() += stage[1].as_f64().unwrap() / 1000.0;
                }
                let seconds = |stage: &str| took.get(stage).copied().unwrap_or_default();
                assert_eq!(took.contains_key("tests_before"), !remembered);
                of_patch.push(seconds("tests_after"));
                if !remembered {
                    of_base.push(seconds("proving") + seconds("tests_before"));
                }
            }
        }
        service.end().await;
        let (of_base, of_patch) = (middle(of_base), middle(of_patch));
        println!("plain run of {} tests in {FILES} files          {plain:6.2} s", FILES * TESTS);
        println!(
            "verdict, the tests at base remembered        {of_patch:6.2} s; {:.2} x the plain run (goal: under {GOAL}): the whole suite once, the patch's \
             own test file 3 times with and 3 times without the source, each of its 2 parts taken back",
            of_patch / plain
        );
        println!("verdict, the tests at base measured (twice)  {:6.2} s; {:.2} x the plain run", of_base + of_patch, (of_base + of_patch) / plain);
    });
}

fn middle(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn plain_run(folder: &Path) -> f64 {
    let began = Instant::now();
    let status =
        Command::new("/usr/bin/python3").args(["-m", "unittest", "-q"]).current_dir(folder).stderr(Stdio::null()).status().unwrap();
    assert!(status.success());
    began.elapsed().as_secs_f64()
}

/// A small package with a suite of some seconds.
fn put_suite(folder: &Path) {
    for name in ["shop", "tests"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        std::fs::write(folder.join(name).join("__init__.py"), "").unwrap();
    }
    let unused = (0..20).map(|n| format!("def more_{n}(a):\n    return a + {n}\n\n\n")).collect::<String>();
    let source = format!("def add(a, b):\n    return a - b\n\n\n{unused}def half(a):\n    return a / 2\n");
    std::fs::write(folder.join("shop/calc.py"), source).unwrap();
    std::fs::remove_file(folder.join("tests/test_tallybook.py")).ok();
    for file in 0..FILES {
        let mut text = "import hashlib\nimport unittest\nfrom shop import calc\n\n\nclass T(unittest.TestCase):\n".to_owned();
        for test in 0..TESTS {
            text.push_str(&format!(
                "    def test_{test}(self):\n        self.assertTrue(hashlib.pbkdf2_hmac('sha256', b'a', b'{file}', 12000))\n        self.assertEqual(calc.half({test} * 2), {test})\n\n"
            ));
        }
        std::fs::write(folder.join(format!("tests/test_{file}.py")), text).unwrap();
    }
}
