//! The line protocol: every request one answer, exactly the announced bytes taken and given.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::{Program, is_alive};

fn archive(entries: &[(&[u8], tar::EntryType, u32, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, kind, mode, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        let name = std::ffi::OsStr::from_bytes(name);
        if kind.is_symlink() {
            header.set_size(0);
            archive.append_link(&mut header, name, std::ffi::OsStr::from_bytes(content)).unwrap();
        } else {
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, name, *content).unwrap();
        }
    }
    archive.into_inner().unwrap()
}

/// An archive with one file whose name is written into the header as it is.
fn hostile_archive(name: &str) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(1);
    header.set_mode(0o644);
    header.set_cksum();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append(&header, &b"x"[..]).unwrap();
    archive.into_inner().unwrap()
}

use tar::EntryType::{Directory, Regular, Symlink};

#[test]
fn a_tree_goes_in_is_listed_and_comes_out() {
    let mut program = Program::start();
    let long = format!("deep/{}/name.py", "x".repeat(150));
    let put = program.put(&archive(&[
        (long.as_bytes(), Regular, 0o644, b"hi\n"),
        (b"run.sh", Regular, 0o755, b"#!/bin/sh\n"),
        (b"odd-\xff", Regular, 0o644, b""),
        (b"link", Symlink, 0o777, b"run.sh"),
        (b"empty", Directory, 0o755, b""),
        (b".git/HEAD", Regular, 0o644, b"ref: refs/heads/main\n"),
        (b"vendored/.git/HEAD", Regular, 0o644, b"ref: refs/heads/main\n"),
        (b"vendored/lib.py", Regular, 0o644, b"hi\n"),
    ]));
    assert_eq!(put, json!({"id": 2, "put": 8}));
    assert_eq!(program.path("run.sh").metadata().unwrap().permissions().mode() & 0o777, 0o755);
    nix::unistd::mkfifo(&program.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();

    let folder = program.workdir();
    let listed = program.request(&json!({"id": 3, "op": "list", "folder": folder}), b"");
    let records = program.bytes_of(&listed);
    let records: Vec<&[u8]> = records.split(|byte| *byte == 0).filter(|record| !record.is_empty()).collect();
    let greeting = "100644 45b983be36b73c0788dc9cbcb76cbb80fc7bb057 3";
    let expected: Vec<Vec<u8>> = vec![
        format!("{greeting} {long}").into_bytes(),
        b"120000 e0e63473c2593040d7d1c67637864821b28cef4b 6 link".to_vec(),
        b"100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0 odd-\xff".to_vec(),
        b"other - 0 pipe".to_vec(),
        b"100755 1a2485251c33a70432394c93fb89330ef214bfc9 10 run.sh".to_vec(),
        format!("{greeting} vendored/lib.py").into_bytes(),
    ];
    assert_eq!(records, expected);

    let wanted = [long.as_bytes(), b"link", b"missing", b"odd-\xff", b"pipe", b"run.sh"].join(&b'\0');
    let taken = program.request(&json!({"id": 4, "op": "take", "folder": folder, "bytes": wanted.len(), "limit": 19}), &wanted);
    let taken = program.bytes_of(&taken);
    let mut taken = tar::Archive::new(taken.as_slice());
    let names: Vec<Vec<u8>> = taken.entries().unwrap().map(|entry| entry.unwrap().path_bytes().into_owned()).collect();
    assert_eq!(names, [long.as_bytes(), b"link", b"odd-\xff", b"run.sh"]);
    let refused = program.request(&json!({"id": 4, "op": "take", "folder": folder, "bytes": wanted.len(), "limit": 18}), &wanted);
    assert_eq!((&refused["id"], &refused["kind"]), (&json!(4), &json!("too_large")));
}

#[test]
fn nothing_is_unpacked_outside_of_the_folder() {
    let outside = tempfile::tempdir().unwrap();
    let mut program = Program::start();
    symlink(outside.path(), program.path("way-out")).unwrap();
    let absolute = format!("{}/absolute", outside.path().display());
    for archive in [hostile_archive("../escaped"), hostile_archive(&absolute), archive(&[(b"way-out/escaped", Regular, 0o644, b"x")])] {
        let answer = program.put(&archive);
        assert_eq!(answer["kind"], "failed", "{answer}");
    }
    let through_own_link = archive(&[(b"l", Symlink, 0o777, outside.path().as_os_str().as_bytes()), (b"l/escaped", Regular, 0o644, b"x")]);
    assert_eq!(program.put(&through_own_link)["kind"], "failed");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert!(!program.workdir().parent().unwrap().join("escaped").exists());

    let folder = program.workdir();
    let behind = b"way-out/x\0";
    std::fs::write(outside.path().join("x"), "secret").unwrap();
    let taken = program.request(&json!({"id": 4, "op": "take", "folder": folder, "bytes": behind.len(), "limit": 100}), behind);
    let taken = program.bytes_of(&taken);
    assert_eq!(tar::Archive::new(taken.as_slice()).entries().unwrap().count(), 0, "what is behind a link is not brought out");
}

#[test]
fn the_bytes_after_a_refused_line_are_consumed() {
    let mut program = Program::start();
    let damaged = vec![b'\n'; 700_000];
    assert_eq!(program.put(&damaged)["kind"], "failed");
    let no_folder = program.request(&json!({"id": 7, "op": "put", "bytes": 5}), b"\n{}\n\n");
    assert_eq!((&no_folder["id"], &no_folder["kind"]), (&json!(7), &json!("failed")));
    let no_limit = program.request(&json!({"id": 8, "op": "take", "folder": "/", "bytes": 3}), b"a\n\0");
    assert_eq!(no_limit["kind"], "failed");
    assert_eq!(program.call("Nothing", json!({})), "Unknown tool: Nothing");
}

#[test]
fn a_malformed_line_costs_one_error_and_nothing_else() {
    let mut program = Program::start();
    for (line, id) in [
        ("", Value::Null),
        ("nonsense", Value::Null),
        ("[1]", Value::Null),
        (r#"{"id": 7, "tool": "Read", "args"#, json!(7)),
        (r#"{"id":"seven", "tool": }"#, json!("seven")),
        (r#"{"id": 8}"#, json!(8)),
        (r#"{"id": 9, "op": "dance"}"#, json!(9)),
        (r#"{"id": 10, "op": "run"}"#, json!(10)),
        (r#"{"id": 11, "op": "probe", "targets": [{"kind": "carrier pigeon", "address": "x"}]}"#, json!(11)),
        (r#"{"id": 12, "op": "probe", "targets": [{"kind": "tcp", "address": "nowhere"}]}"#, json!(12)),
    ] {
        program.send(format!("{line}\n").as_bytes());
        let answer = program.answer();
        assert_eq!(answer["id"], id, "{line}: {answer}");
        assert!(answer["error"].is_string(), "{line}: {answer}");
    }
    program.send(b"{\"id\":1,\"tool\":\"Bash\",\"args\":[\"no object\"]}\n");
    assert_eq!(program.answer()["observation"], "ValueError: command is required");
}

#[test]
fn a_run_reports_and_leaves_nothing_alive() {
    let mut program = Program::start();
    let ran = program.run("printf out; printf err >&2; (setsid sleep 1000 & echo $! > daemon); exit 3", 5_000);
    assert_eq!((&ran["exit_code"], &ran["stdout"], &ran["stderr"]), (&json!(3), &json!("out"), &json!("err")));
    assert!(!is_alive(&String::from_utf8(program.content("daemon")).unwrap()));
    assert_eq!(program.run("kill -TERM $$", 5_000)["exit_code"], -15);

    let before = Instant::now();
    let ran = program.run("trap '' TERM INT HUP; echo $$ > self; echo begun; while :; do sleep 0.01; done", 300);
    assert!((300..2_000).contains(&before.elapsed().as_millis()), "{:?}", before.elapsed());
    assert_eq!((&ran["exit_code"], &ran["stdout"]), (&Value::Null, &json!("begun\n")));
    assert!(!is_alive(&String::from_utf8(program.content("self")).unwrap()));
}

#[test]
fn a_long_output_keeps_its_head_and_its_tail() {
    let mut program = Program::start();
    let ran = program
        .run("head -c 600 /dev/zero | tr '\\0' a; head -c 1000000 /dev/zero | tr '\\0' b; head -c 600 /dev/zero | tr '\\0' c", 20_000);
    let expected = format!("{}\n[... 1000200 bytes left out ...]\n{}", "a".repeat(500), "c".repeat(500));
    assert_eq!(ran["stdout"], expected.as_str());
}

#[test]
fn the_end_of_the_input_ends_a_running_command() {
    let mut program = Program::start();
    program.send(b"{\"id\":1,\"tool\":\"Bash\",\"args\":{\"command\":\"sleep 0.2; setsid sleep 1000 & echo $! > daemon; mv daemon pid; sleep 1000\"}}\n");
    let pid = wait_for_content(&program, "pid");
    let before = Instant::now();
    program.close_input();
    assert!(program.wait().success());
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
    assert!(!is_alive(&pid));
}

#[test]
fn requests_that_were_piped_in_are_answered_before_the_program_ends() {
    let mut program = Program::start();
    program.send(b"{\"id\":1,\"tool\":\"Write\",\"args\":{\"file_path\":\"a\",\"content\":\"1\"}}\n{\"id\":2,\"tool\":\"Bash\",\"args\":{\"command\":\"cat a\"}}\n{\"id\":3,\"tool\":\"Bash\",\"args\":{\"command\":\"sleep 1000\"}}\n");
    program.close_input();
    assert_eq!(program.answer()["observation"], "Wrote a (1 bytes).");
    assert_eq!(program.answer()["observation"], "Exit code: 0\nSTDOUT:\n1\nSTDERR:\n");
    assert!(program.wait().success(), "the last one is ended after the grace");
}

#[test]
fn a_confined_program_has_closed_the_doors() {
    let mut program = Program::start_with(&["--confine", "--max-open-files", "100", "--max-file-bytes", "1000000"], &[]);
    let ran = program.run("grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; ulimit -n; unshare -U true 2>&1; head -c 2000000 /dev/zero > big; stat -c %s big", 5_000);
    let expected = "NoNewPrivs:\t1\nSeccomp:\t2\n100\nunshare: unshare failed: Operation not permitted\n1000000\n";
    assert_eq!(ran["stdout"], expected, "{ran}");
    let too_big = program.call("Write", json!({"file_path": "w", "content": "x".repeat(1_000_001)}));
    assert_eq!(too_big, "OSError: [Errno 27] File too large");

    let probed = program.request(&json!({"id": 6, "op": "probe", "targets": [{"kind": "vsock", "address": "2:1024"}, {"kind": "abstract", "address": "frognano-nobody"}]}), b"");
    let expected = json!([
        {"kind": "vsock", "address": "2:1024", "reached": false, "why": "Address family not supported by protocol (os error 97)"},
        {"kind": "abstract", "address": "frognano-nobody", "reached": false, "why": "Connection refused (os error 111)"},
    ]);
    assert_eq!(probed["probed"], expected);
}

#[test]
fn a_probe_finds_what_can_be_reached() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut program = Program::start();
    let probed = program.request(&json!({"id": 6, "op": "probe", "targets": [{"kind": "tcp", "address": address}]}), b"");
    assert_eq!(probed["probed"], json!([{"kind": "tcp", "address": address, "reached": true, "why": "connected"}]));
}

/// The content of a file that a command is about to make.
fn wait_for_content(program: &Program, name: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match std::fs::read_to_string(program.path(name)) {
            Ok(content) => return content,
            Err(_) => assert!(Instant::now() < deadline, "{name} never appeared"),
        }
        std::thread::yield_now();
    }
}
