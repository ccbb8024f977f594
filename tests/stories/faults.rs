//! Repositories, tests, disks and peers that are not as one would wish: each ends in a named outcome and leaves nothing behind.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Outcome;
use frognano_bot::worker::Ended;

use crate::faces::{changing_a_comment, on_each_forge, opening};
use crate::house::{House, Service};

async fn outcome_of(house: &House) -> (Outcome, Service) {
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    (service.outcome().await, service)
}

fn reason(outcome: &Outcome) -> String {
    format!("{}/{}", outcome.name(), outcome.reason())
}

on_each_forge! {
    async fn a_repository_that_can_not_be_worked_on_is_named(kind: Kind) {
        type Bend = fn(&House);
        let empty: Bend = |house| {
            let bare = house.folder.path().join("tallybook.git");
            std::fs::remove_dir_all(&bare).unwrap();
            frognano_bot::demo::init_bare(&bare, "main").unwrap();
        };
        let no_default: Bend =
            |house| house.forge().with_repository(project::PATH, |repository| repository.default_branch = "trunk".to_owned()).unwrap();
        let gone: Bend = |house| std::fs::remove_dir_all(house.folder.path().join("tallybook.git")).unwrap();
        for (bend, expected) in
            [(empty, "no_patch/empty_repository"), (no_default, "abandoned/default_branch_missing"), (gone, "abandoned/repository_gone")]
        {
            let house = House::new(kind).await;
            bend(&house);
            let (outcome, service) = outcome_of(&house).await;
            assert_eq!(reason(&outcome), expected, "{kind:?}: {outcome:?}");
            assert_eq!(house.said(1).len(), 1, "{kind:?}");
            service.end().await;
        }
    }
}

on_each_forge! {
    async fn a_repository_renamed_in_a_run_is_found_again(kind: Kind) {
        let renamed = if kind == Kind::GitLab { "acme/inner/most/renamed" } else { "acme/renamed" };
        let house = House::new(kind).await;
        house.model.set_delay(Some(std::time::Duration::from_millis(200)));
        let service = house.service().await;
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        let rename = async {
            house.until(|house| house.said(issue).concat().contains("Now: the model")).await;
            house.forge().with_repository(project::PATH, |repository| repository.path = renamed.to_owned()).unwrap();
        };
        let (ended, ()) = tokio::join!(service.step(), rename);
        assert_eq!(ended, Some(Ended::PutBack), "{kind:?}");
        let turns = house.model.requests().len();
        let outcome = house.later(&service).await;
        let Outcome::Proposed { url } = &outcome else { panic!("{kind:?}: {outcome:?}") };
        assert!(url.contains(&format!("/{renamed}/")), "{url}");
        assert_eq!(house.model.requests().len(), turns, "what was finished is kept");
    }
}

on_each_forge! {
    async fn a_status_comment_that_somebody_deletes_is_written_again(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        let (method, path) = changing_a_comment(kind);
        house.forge().fail_next(method, path, 404, 1);
        service.take(&house.label(issue)).await;
        assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
        assert!(house.has_proposed(issue), "{:?}", house.said(issue));
    }
}

#[tokio::test]
async fn a_repository_over_the_limit_is_refused_clearly() {
    let house = House::new(Kind::GitLab).await.set("[repositories]\nmax_bytes = 3000000");
    house.commit(|folder| {
        let noise = (0..600_000_u64).flat_map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect::<Vec<_>>();
        std::fs::write(folder.join("large.bin"), noise).unwrap();
    });
    let (outcome, _service) = outcome_of(&house).await;
    assert_eq!(reason(&outcome), "abandoned/repository_too_large");
    assert!(house.said(1)[0].contains("3000000 bytes"), "{:?}", house.said(1));
    assert_eq!(std::fs::read_dir(house.folder.path().join("data/mirrors")).unwrap().count(), 0, "the oversized mirror is gone");
}

#[tokio::test]
async fn a_tree_larger_than_the_sandbox_is_refused_clearly() {
    let house = House::new(Kind::GitHub).await.set("[sandbox]\nworkspace_bytes = 1000000");
    house.commit(|folder| std::fs::write(folder.join("zeros.bin"), vec![0; 2_000_000]).unwrap());
    let (outcome, _service) = outcome_of(&house).await;
    assert_eq!(reason(&outcome), "abandoned/repository_too_large");
}

#[tokio::test]
async fn hostile_and_odd_trees_are_worked_on_and_come_back_unchanged_elsewhere() {
    let house = House::new(Kind::GitLab).await;
    house.commit(|folder| {
        std::os::unix::fs::symlink("/etc/passwd", folder.join("out")).unwrap();
        std::os::unix::fs::symlink("../../../../etc", folder.join("up")).unwrap();
        std::fs::write(folder.join(std::ffi::OsStr::from_bytes(b"caf\xe9 \n\"-x")), "latin-1 name\n").unwrap();
        std::fs::write(folder.join("--output=x"), "an option?\n").unwrap();
        std::fs::write(folder.join("crlf.txt"), "one\r\ntwo\r\n").unwrap();
        std::fs::write(folder.join(".gitattributes"), "*.txt text eol=lf\n*.bin filter=lfs\nsecret.md export-ignore\n").unwrap();
        std::fs::write(folder.join("large.bin"), "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n").unwrap();
        std::fs::write(folder.join("secret.md"), "export-ignore must not hide it\n").unwrap();
        std::fs::create_dir(folder.join("bin")).unwrap();
        std::fs::write(folder.join("bin/run"), "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(folder.join("bin/run"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    });
    let (outcome, _service) = outcome_of(&house).await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
    let branch = house.branches().pop().unwrap();
    let changed = git(&house, &["diff", "--name-only", "main", &branch]);
    assert_eq!(changed, "tallybook/plan.py\n");
}

fn git(house: &House, args: &[&str]) -> String {
    let output = std::process::Command::new("git").arg("-C").arg(house.folder.path().join("tallybook.git")).args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn a_submodule_is_neither_fetched_nor_lost() {
    let house = House::new(Kind::Forgejo).await;
    house.commit(|folder| {
        let run = |args: &[&str]| assert!(std::process::Command::new("git").arg("-C").arg(folder).args(args).status().unwrap().success());
        run(&["update-index", "--add", "--cacheinfo", "160000,1111111111111111111111111111111111111111,vendored"]);
        run(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "a submodule"]);
        std::fs::write(folder.join(".gitmodules"), "[submodule \"vendored\"]\n\tpath = vendored\n\turl = http://127.0.0.1:1/x.git\n")
            .unwrap();
        std::fs::create_dir_all(folder.join("vendored")).unwrap();
        run(&["update-index", "--skip-worktree", "vendored"]);
    });
    let before = git(&house, &["ls-tree", "main", "vendored"]);
    let (outcome, _service) = outcome_of(&house).await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
    assert_eq!(git(&house, &["ls-tree", &house.branches()[0], "vendored"]), before);
}

fn replace_tests(folder: &Path, body: &str) {
    std::fs::write(
        folder.join("tests/test_tallybook.py"),
        format!("import unittest\n\nclass T(unittest.TestCase):\n    def test_it(self):\n{body}"),
    )
    .unwrap();
}

#[tokio::test]
async fn tests_that_print_a_gigabyte_are_bounded() {
    let house = House::with_script(Kind::GitHub, EDIT).await;
    house.commit(|folder| {
        replace_tests(folder, "        import sys\n        for _ in range(1024):\n            sys.stdout.write('x' * 1048576)\n")
    });
    let (outcome, _service) = outcome_of(&house).await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
    assert!(house.pull_requests()[0].body.len() < 65_536);
}

const EDIT: &str = r##"{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "sed -i 's/share = total/share = int(total)/; s/half/half/' tallybook/plan.py; echo '# looked at' >> tallybook/plan.py"}}]}
{"content": "done"}"##;

#[tokio::test]
async fn tests_that_never_end_are_stopped_with_all_that_they_started() {
    let house = House::with_script(Kind::GitLab, EDIT).await.set("[run]\ntest_seconds = 2");
    house.commit(|folder| {
        replace_tests(
            folder,
            "        import subprocess, time\n        subprocess.Popen(['setsid', 'sleep', '4242'])\n        time.sleep(4242)\n",
        );
    });
    let (outcome, _service) = outcome_of(&house).await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
    assert!(house.pull_requests()[0].body.contains("stopped for time"), "{}", house.pull_requests()[0].body);
    let left = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    assert_eq!(left.filter(|line| line == b"sleep\x004242\0").count(), 0);
}

#[tokio::test]
async fn a_patch_that_only_hangs_the_tests_is_refused() {
    let hang = r#"{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "printf 'import time\\ntime.sleep(4243)\\n' >> tallybook/money.py"}}]}
{"content": "done"}"#;
    let house = House::with_script(Kind::Forgejo, hang).await.set("[run]\ntest_seconds = 3");
    let (outcome, _service) = outcome_of(&house).await;
    assert_eq!(reason(&outcome), "refused/tests-timed-out");
    assert_eq!((house.pull_requests().len(), house.branches().len()), (0, 0));
}

#[tokio::test]
async fn a_policy_that_can_not_be_read_refuses_and_says_why() {
    let house = House::new(Kind::GitLab).await;
    house.commit(|folder| std::fs::write(folder.join(".frognano.toml"), "[tests]\ncomand = \"true\"\n").unwrap());
    let (outcome, _service) = outcome_of(&house).await;
    assert_eq!(reason(&outcome), "refused/policy-unreadable");
    assert!(house.said(1)[0].contains("comand"), "{:?}", house.said(1));
}

#[tokio::test]
async fn a_full_disk_is_named_and_not_blamed_on_the_model() {
    if !nix::unistd::geteuid().is_root() {
        println!("left out: a small disk can be mounted by root alone");
        return;
    }
    let house = House::new(Kind::GitHub).await;
    house.commit(|folder| {
        let noise = (0..1_000_000_u64).flat_map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect::<Vec<_>>();
        std::fs::write(folder.join("large.bin"), noise).unwrap();
    });
    let mirrors = house.folder.path().join("data/mirrors");
    std::fs::create_dir_all(&mirrors).unwrap();
    let mount = |args: &[&str]| assert!(std::process::Command::new(args[0]).args(&args[1..]).arg(&mirrors).status().unwrap().success());
    mount(&["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs"]);
    let (outcome, service) = outcome_of(&house).await;
    service.end().await;
    mount(&["umount"]);
    assert_eq!(reason(&outcome), "abandoned/disk_full", "{outcome:?}");
}

#[tokio::test]
async fn a_sandbox_that_can_not_be_started_is_tried_again_and_then_given_up_as_our_fault() {
    let house = House::new(Kind::GitLab).await;
    let broken = house.folder.path().join("bwrap");
    std::fs::write(&broken, "#!/bin/sh\necho 'no namespaces here' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let house = house.set(&format!("max_leases = 2\n[sandbox]\nbwrap = {broken:?}"));
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    assert_eq!(service.step().await, Some(frognano_bot::worker::Ended::PutBack));
    let outcome = house.later(&service).await;
    assert_eq!(reason(&outcome), "abandoned/sandbox_failed");
    assert!(house.said(1)[0].contains("no namespaces here"), "{:?}", house.said(1));
}

#[tokio::test]
async fn what_was_tested_before_the_mirror_was_lost_says_nothing_of_the_next_patch() {
    let house = House::new(Kind::GitHub).await;
    let service = house.service().await;
    let issue = house.open_issue();
    let (method, path) = opening(house.kind);
    house.forge().fail_next(method, path, 503, 1);
    service.take(&house.label(issue)).await;
    assert_eq!(service.step().await, Some(Ended::PutBack));
    std::fs::remove_dir_all(house.folder.path().join("data/mirrors")).unwrap();
    let bare = house.folder.path().join("tallybook.git");
    let git = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        let ran =
            command.arg("-C").arg(&bare).args(["-c", "user.name=ada", "-c", "user.email=ada@example.org"]).args(args).output().unwrap();
        assert!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    };
    git(&["update-ref", "-d", &format!("refs/heads/{}", house.branches()[0])]);
    // Nothing of the branch's past is left, so that the commit the run started from can't be had again.
    let another = git(&["commit-tree", "main^{tree}", "-m", "another base"]);
    git(&["update-ref", "refs/heads/main", &another]);
    assert_eq!(house.later(&service).await.name(), "proposed");
    let checkpoint: serde_json::Value = serde_json::from_str(&service.jobs().await[0].checkpoint).unwrap();
    let stages = checkpoint["stage_ms"].as_array().unwrap().iter().map(|stage| stage[0].as_str().unwrap()).collect::<Vec<_>>();
    for stage in ["tests_before", "tests_after"] {
        assert_eq!(stages.iter().filter(|name| **name == stage).count(), 2, "{stages:?}");
    }
}

#[tokio::test]
async fn a_submodule_is_not_replaced_by_what_the_agent_left_in_its_place() {
    for place in ["dep/fix.py", "dep"] {
        let write = format!(r#"rmdir dep; mkdir -p "$(dirname {place})"; echo x = 1 > {place}"#);
        let write = serde_json::json!({"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": write}}]});
        let house = House::with_script(Kind::Forgejo, &format!("{write}\n{}", project::SCRIPT)).await;
        house.commit(|folder| {
            std::fs::create_dir(folder.join("dep")).unwrap();
            let link = format!("160000,{},dep", "1".repeat(40));
            let git =
                std::process::Command::new("git").arg("-C").arg(folder).args(["update-index", "--add", "--cacheinfo", &link]).status();
            assert!(git.unwrap().success());
        });
        let (outcome, _service) = outcome_of(&house).await;
        assert_eq!(reason(&outcome), "refused/submodule", "{place}: {outcome:?}");
        assert_eq!(house.pull_requests().len(), 0);
    }
}

#[tokio::test]
async fn a_policy_that_is_huge_or_no_file_refuses_instead_of_being_left_aside() {
    let huge = |folder: &Path| std::fs::write(folder.join(".frognano.toml"), vec![b'#'; 20_000_000]).unwrap();
    let link = |folder: &Path| std::os::unix::fs::symlink("pyproject.toml", folder.join(".frognano.toml")).unwrap();
    for (bend, why) in [(&huge as &dyn Fn(&Path), "larger than 65536 bytes"), (&link, "it is no file")] {
        let house = House::new(Kind::GitHub).await;
        house.commit(bend);
        let (outcome, _service) = outcome_of(&house).await;
        assert_eq!(reason(&outcome), "refused/policy-unreadable");
        assert!(house.said(1)[0].contains(why), "{:?}", house.said(1));
    }
}

#[tokio::test]
async fn a_run_that_goes_round_in_circles_keeps_its_work_and_is_told_so() {
    let again = r#"{"content": "", "tool_calls": [{"name": "Read", "arguments": {"file_path": "README.md"}}]}"#;
    let edited = project::SCRIPT.lines().take(4).collect::<Vec<_>>().join("\n");
    let script = format!("{edited}\n{again}\n{again}\n{again}\n{again}");
    let house = House::with_script(Kind::Forgejo, &script).await.set("[run]\nstuck_after = 3");
    let (outcome, service) = outcome_of(&house).await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
    assert!(house.pull_requests()[0].body.contains("- agent: `7 steps, ended as stuck`"), "{}", house.pull_requests()[0].body);
    service.end().await;

    let house = House::with_script(Kind::GitLab, &format!("{again}\n{again}\n{again}")).await.set("[run]\nstuck_after = 2");
    let (outcome, service) = outcome_of(&house).await;
    assert_eq!(reason(&outcome), "no_patch/stuck");
    assert!(house.said(1)[0].contains("went round in circles") && !house.said(1)[0].contains("budget"), "{:?}", house.said(1));
    let told = "The agent made 2 steps; the last ones were the same again and again (`stuck`).";
    assert!(house.said(1)[0].contains(told), "{:?}", house.said(1));
    service.end().await;
}
