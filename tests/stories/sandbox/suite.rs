//! The promises, for any kind of sandbox: the workspace in and out, commands and their bounds.
//!
//! Made for a sandbox with a workspace of 64 MiB, 256 MiB of memory (512 MiB where each process is bounded by itself) and 96 processes.

use std::collections::HashMap;
use std::time::Duration;

use frognano_bot::domain::BlobMode;
use frognano_bot::sandbox::{Command, Listing, Ran, Sandbox, SandboxError, Sandboxes, TakenFile};
use serde_json::json;
use sha1::{Digest as _, Sha1};

use super::tar_files::{Item, archive, one_file};

pub async fn run(sandbox: &mut Box<dyn Sandbox>, script: &str) -> Ran {
    let command = Command { script: script.to_owned(), timeout: Duration::from_secs(60), output_limit: 64 << 10 };
    sandbox.run(&command).await.unwrap()
}

fn blob(content: &[u8]) -> String {
    let whole = [format!("blob {}\0", content.len()).as_bytes(), content].concat();
    Sha1::digest(whole).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub async fn brings_odd_names_in_and_out(boxes: &dyn Sandboxes) {
    let mut sandbox = boxes.start("names").await.unwrap();
    let deep = vec!["twenty-bytes-of-name"; 60].join("/").into_bytes();
    let names: Vec<Vec<u8>> = vec![
        b"plain.py".to_vec(),
        b"not utf-8 \xff\xfe".to_vec(),
        b"new\nline".to_vec(),
        b"-rf".to_vec(),
        b" lead and trail ".to_vec(),
        b"back\\slash\"quote'".to_vec(),
        vec![b'n'; 255],
        deep,
    ];
    let items: Vec<_> = names.iter().map(|name| (name.clone(), Item::File(name.as_slice()))).collect();
    sandbox.put(archive(&items)).await.unwrap();

    let listed: HashMap<_, _> = sandbox.list(Listing::Exact).await.unwrap().into_iter().map(|entry| (entry.path.clone(), entry)).collect();
    assert_eq!(listed.len(), names.len());
    for name in &names {
        let entry = &listed[name];
        assert_eq!(
            (entry.mode, entry.size, &entry.blob),
            (Some(BlobMode::File), name.len() as u64, &blob(name)),
            "{}",
            name.escape_ascii()
        );
    }
    let taken = sandbox.take("/workspace", &names, 1 << 20).await.unwrap();
    assert_eq!(taken.len(), names.len());
    assert!(taken.iter().all(|file| file.content == file.path && file.mode == BlobMode::File));
    sandbox.close().await;
}

pub async fn keeps_modes_and_never_follows_links(boxes: &dyn Sandboxes) {
    let mut sandbox = boxes.start("links").await.unwrap();
    let links: [(&str, &[u8]); 4] = [("dangling", b"nowhere"), ("passwd", b"/etc/passwd"), ("root", b"/root"), ("odd", b"a\xff/../../..")];
    let mut items: Vec<_> = links.iter().map(|(name, target)| (name.as_bytes().to_vec(), Item::Link(target))).collect();
    items.push((b"run.sh".to_vec(), Item::Program(b"#!/bin/sh\necho ran\n")));
    sandbox.put(archive(&items)).await.unwrap();
    let made =
        run(&mut sandbox, "./run.sh; mkfifo pipe; mkdir -p .git sub/.git empty; touch .git/a sub/.git/b sub/c; ln -s sub link").await;
    assert_eq!((made.stdout.as_str(), made.exit_code), ("ran\n", Some(0)));

    let listed: HashMap<_, _> = sandbox
        .list(Listing::Exact)
        .await
        .unwrap()
        .into_iter()
        .map(|entry| (String::from_utf8(entry.path.clone()).unwrap(), entry))
        .collect();
    let mut names: Vec<_> = listed.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["dangling", "link", "odd", "passwd", "pipe", "root", "run.sh", "sub/c"]);
    assert_eq!(listed["run.sh"].mode, Some(BlobMode::Executable));
    assert_eq!((listed["pipe"].mode, listed["pipe"].blob.as_str()), (None, ""));
    for (name, target) in links {
        assert_eq!((listed[name].mode, &listed[name].blob), (Some(BlobMode::Symlink), &blob(target)), "{name}");
    }
    let asked = ["dangling", "passwd", "root", "odd", "run.sh", "pipe", "missing", "link/c"].map(|name| name.as_bytes().to_vec());
    let taken = sandbox.take("/workspace", &asked, 1 << 20).await.unwrap();
    let expect = |path: &str, mode, content: &[u8]| TakenFile { path: path.into(), mode, content: content.into() };
    let mut expected: Vec<_> = links.iter().map(|(name, target)| expect(name, BlobMode::Symlink, target)).collect();
    expected.push(expect("run.sh", BlobMode::Executable, b"#!/bin/sh\necho ran\n"));
    assert_eq!(taken, expected);

    let way_out = archive(&[(b"out".to_vec(), Item::Link(b"/tmp")), (b"out/planted".to_vec(), Item::File(b"x"))]);
    assert!(sandbox.put(way_out).await.is_err());
    sandbox.close().await;
}

pub async fn takes_no_more_than_the_limit(boxes: &dyn Sandboxes) {
    let mut sandbox = boxes.start("limit").await.unwrap();
    sandbox.put_into("/tmp/further/folder", one_file("ten", b"0123456789")).await.unwrap();
    let ten = [b"ten".to_vec()];
    assert_eq!(sandbox.take("/tmp/further/folder", &ten, 10).await.unwrap()[0].content, b"0123456789");
    assert!(matches!(sandbox.take("/tmp/further/folder", &ten, 9).await, Err(SandboxError::TooLarge { limit: 9, .. })));
    assert_eq!(sandbox.list(Listing::Exact).await.unwrap(), []);
    sandbox.close().await;
}

/// The number that a local sandbox shows of its user, or one of those that pods get.
pub fn is_a_sandboxs(user: &str) -> bool {
    user == "1000" || user.parse().is_ok_and(|user: u32| (10_000..60_000).contains(&user))
}

pub async fn answers_the_tools(boxes: &dyn Sandboxes) {
    let mut sandbox = boxes.start("tools").await.unwrap();
    let wrote = sandbox.call("Write", &json!({"file_path": "a/b.py", "content": "x = 1\n"})).await.unwrap();
    assert_eq!(wrote, "Wrote a/b.py (6 characters).".replace("characters", "bytes"));
    // Not there, or another's: the image of a pod has one.
    let shadow = sandbox.call("Read", &json!({"file_path": "/etc/shadow"})).await.unwrap();
    assert!(["FileNotFoundError: ", "PermissionError: "].iter().any(|refusal| shadow.starts_with(refusal)), "{shadow}");
    let ran = sandbox.call("Bash", &json!({"command": "cat a/b.py; pwd; id -u; echo oops >&2; exit 3"})).await.unwrap();
    let user = ran.lines().nth(4).unwrap_or_default();
    assert!(is_a_sandboxs(user), "{ran}");
    assert_eq!(ran, format!("Exit code: 3\nSTDOUT:\nx = 1\n/workspace\n{user}\n\nSTDERR:\noops\n"));
    sandbox.close().await;
}

pub async fn bounds_time_and_output(boxes: &dyn Sandboxes) {
    let mut sandbox = boxes.start("bounds").await.unwrap();
    let loud = Command { script: "yes | head -c 1000000000".into(), timeout: Duration::from_secs(60), output_limit: 10_000 };
    let ran = sandbox.run(&loud).await.unwrap();
    assert_eq!(ran.exit_code, Some(0));
    assert!(ran.stdout.len() < 10_200 && ran.stdout.contains("[... 999990000 bytes left out ...]"), "{} bytes", ran.stdout.len());

    let endless = "trap '' TERM; (setsid sleep 1234 &); sleep 1234 & while :; do :; done";
    let ran = sandbox.run(&Command { script: endless.into(), timeout: Duration::from_millis(300), output_limit: 100 }).await.unwrap();
    assert_eq!(ran.exit_code, None);
    assert!(ran.elapsed >= Duration::from_millis(300) && ran.elapsed < Duration::from_secs(20), "{:?}", ran.elapsed);
    run(&mut sandbox, "(setsid sleep 1234 >/dev/null 2>&1 &)").await;
    assert_eq!(run(&mut sandbox, "grep -l '^sleep' /proc/[0-9]*/comm").await.stdout, "");
    assert_eq!(run(&mut sandbox, "kill -9 $$").await.exit_code, Some(-9));
    sandbox.close().await;
}

pub async fn bounds_processes(boxes: &dyn Sandboxes) {
    let mut sandbox = boxes.start("forks").await.unwrap();
    let count = r#"my $n = 0; while (defined(my $p = fork)) { if (!$p) { sleep 100; exit } $n++ } print $n"#;
    let forked: u32 = run(&mut sandbox, &format!("exec perl -e '{count}'")).await.stdout.parse().unwrap();
    assert!((10..=96).contains(&forked), "{forked} processes could be started");
    let bomb = Command { script: "b() { b | b & }; b; sleep 1234".into(), timeout: Duration::from_millis(500), output_limit: 1000 };
    let bombed = sandbox.run(&bomb).await;
    assert!(bombed.is_ok(), "{bombed:?}");
    assert_eq!(run(&mut sandbox, "echo alive").await.stdout, "alive\n");
    sandbox.close().await;
}

pub async fn bounds_memory(boxes: &dyn Sandboxes) {
    let mut sandbox = boxes.start("memory").await.unwrap();
    let together = sandbox.probe_report().bounds.iter().any(|bound| bound.starts_with("cgroup") && bound.contains("memory"));
    let hog = Command { script: "exec perl -e '$x = q(x) x 1_500_000_000'".into(), timeout: Duration::from_secs(60), output_limit: 1000 };
    match sandbox.run(&hog).await {
        Err(SandboxError::NoRoom(why)) => assert!(together && why.contains("memory"), "{why}"),
        Ok(ran) => assert!(!together && ran.exit_code != Some(0), "{ran:?}"),
        Err(other) => panic!("{other}"),
    }
    assert_eq!(run(&mut sandbox, "echo alive").await.stdout, "alive\n");
    sandbox.close().await;
}

pub async fn bounds_the_disk(boxes: &dyn Sandboxes) {
    let mut sandbox = boxes.start("disk").await.unwrap();
    let filled = run(&mut sandbox, "head -c 100M /dev/zero > big").await;
    assert!(filled.exit_code != Some(0) && filled.stderr.contains("No space left on device"), "{filled:?}");
    let refused = sandbox.put(one_file("more", &vec![b'x'; 1 << 20])).await;
    assert!(matches!(refused, Err(SandboxError::NoRoom(_))), "{refused:?}");
    run(&mut sandbox, "rm big").await;
    sandbox.put(one_file("more", &vec![b'x'; 1 << 20])).await.unwrap();
    let names: Vec<_> = sandbox.list(Listing::Exact).await.unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(names, [b"more"]);
    sandbox.close().await;
}
