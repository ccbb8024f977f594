//! Whatever the arguments and the tree are: an observation in bounded time and memory, and a program that goes on.

use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::Program;

#[test]
fn special_files_are_refused_at_once() {
    let mut program = Program::start();
    nix::unistd::mkfifo(&program.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(program.path("socket")).unwrap();
    let pipe = format!("OSError: not a regular file: '{}'", program.path("pipe").display());
    assert_eq!(program.call("Read", json!({"file_path": "pipe"})), pipe);
    assert_eq!(program.call("Edit", json!({"file_path": "pipe", "old_string": "a", "new_string": "b"})), pipe);
    for device in ["/dev/zero", "/dev/full", "/dev/random", "/proc/self/fd/0", "/proc/self/fd/1"] {
        assert_eq!(program.call("Read", json!({"file_path": device})), format!("OSError: not a regular file: '{device}'"));
    }
    let no_reader = format!("OSError: [Errno 6] No such device or address: '{}'", program.path("pipe").display());
    assert_eq!(program.call("Write", json!({"file_path": "pipe", "content": "x"})), no_reader);
    assert_eq!(
        program.call("Write", json!({"file_path": "/proc/self/fd/1", "content": "{}\n"})),
        "OSError: not a regular file: '/proc/self/fd/1'"
    );
    assert!(program.call("Read", json!({"file_path": "socket"})).starts_with("OSError: [Errno 6]"));
    assert_eq!(program.call("Read", json!({"file_path": "/dev/null"})), "/dev/null\n");
}

#[test]
fn large_files_are_read_in_bounded_memory_and_counted_exactly() {
    let mut program = Program::start_with(&[], &[("LEAF_TOOL_OUTPUT_CHARS", "12")]);
    let size = 200 << 20;
    std::fs::File::create(program.path("sparse")).unwrap().set_len(size).unwrap();
    let observation = program.call("Read", json!({"file_path": "sparse"}));
    assert_eq!(observation, format!("sparse\n1. \0\0\n[truncated {} chars]", size - 2));
    let too_large = program.call("Edit", json!({"file_path": "sparse", "old_string": "a", "new_string": "b"}));
    assert!(too_large.ends_with("which is too large for Edit"), "{too_large}");
}

#[test]
fn a_hundred_megabytes_of_arguments_get_an_observation() {
    let mut program = Program::start();
    let content = "x".repeat(1 << 20);
    program.send(b"{\"id\": 5, \"tool\": \"Write\", \"args\": {\"file_path\": \"a\", \"content\": \"");
    for _ in 0..100 {
        program.send(content.as_bytes());
    }
    program.send(b"\"}}\n");
    let answer = program.answer();
    assert_eq!(answer["id"], 5);
    assert!(answer["observation"].as_str().unwrap().starts_with("ValueError: the line is longer than"), "{answer}");
    assert_eq!(program.call("Write", json!({"file_path": "a", "content": "x"})), "Wrote a (1 bytes).");
}

#[test]
fn paths_that_name_nothing_are_python_errors() {
    let mut program = Program::start();
    symlink("loop", program.path("loop")).unwrap();
    let workdir = program.workdir().display().to_string();
    for (tool, path, expected) in [
        ("Read", "a\0b", "ValueError: embedded null byte".to_owned()),
        ("Write", "a\0b", "ValueError: embedded null byte".to_owned()),
        ("Write", "a\0b/c", "ValueError: embedded null byte".to_owned()),
        ("Read", "loop", format!("OSError: [Errno 40] Too many levels of symbolic links: '{workdir}/loop'")),
        ("Write", "loop/x", format!("FileExistsError: [Errno 17] File exists: '{workdir}/loop'")),
        ("Read", "~nobody-of-that-name/x", "RuntimeError: Could not determine home directory.".to_owned()),
    ] {
        assert_eq!(program.call(tool, json!({"file_path": path})), expected, "{tool} {path:?}");
    }
    let long = "x".repeat(300);
    assert_eq!(program.call("Read", json!({"file_path": long})), format!("OSError: [Errno 36] File name too long: '{workdir}/{long}'"));
}

#[test]
fn arguments_of_every_wrong_type_get_an_observation() {
    let mut program = Program::start();
    let odd = [Value::Null, json!(true), json!(-1), json!(1.5e300), json!(""), json!("x"), json!([[]]), json!({"a": {}})];
    for tool in ["Read", "Write", "Edit", "Glob", "Bash"] {
        for name in [
            "file_path",
            "path",
            "offset",
            "limit",
            "content",
            "old_string",
            "new_string",
            "replace_all",
            "pattern",
            "timeout",
            "timeout_ms",
        ] {
            for value in &odd {
                let mut args = json!({"file_path": "f", "old_string": "o", "pattern": "p", "command": "true"});
                args[name] = value.clone();
                assert!(!program.call(tool, args).is_empty());
            }
        }
    }
    assert_eq!(
        program.call("Read", json!({"file_path": "f", "offset": [1]})),
        "TypeError: int() argument must be a string, a bytes-like object or a real number, not 'list'"
    );
    assert_eq!(
        program.call("Bash", json!({"command": "true", "timeout": {}})),
        "TypeError: float() argument must be a string or a real number, not 'dict'"
    );
}

#[test]
fn searches_end_whatever_the_pattern_and_the_links_are() {
    let mut program = Program::start();
    program.write(&format!("{}f", "d/".repeat(60)), "");
    assert!(
        program.call("Glob", json!({"pattern": "**/**/**/*"})).contains("more files"),
        "60 folders can be split in more than 1,000 ways"
    );
    for pattern in ["*/**/*/**/*/**/f".to_owned(), "**/".repeat(500), "*".repeat(5_000), "[".repeat(5_000)] {
        assert!(!program.call("Glob", json!({"pattern": pattern})).is_empty());
    }
    for name in ["left", "right"] {
        symlink(".", program.path(name)).unwrap();
    }
    let before = Instant::now();
    let observation = program.call("Glob", json!({"pattern": "**"}));
    assert!(observation.ends_with("use a narrower pattern"), "{observation}");
    assert!(before.elapsed() < Duration::from_secs(20), "{:?}", before.elapsed());
}

#[test]
fn an_edit_touches_nothing_but_the_edit() {
    let mut program = Program::start();
    let before = b"\xef\xbb\xbfone\r\ntwo\nthree\rfour\r\n\xff\xfe five\r\nsix";
    program.write("mixed", before);
    std::os::unix::fs::symlink("mixed", program.path("link")).unwrap();
    std::fs::hard_link(program.path("mixed"), program.path("twin")).unwrap();
    std::fs::set_permissions(program.path("mixed"), std::os::unix::fs::PermissionsExt::from_mode(0o750)).unwrap();
    let observation = program.call(
        "Edit",
        json!({"file_path": "link", "old_string": "four\n\u{fffd}\u{fffd} five", "new_string": "4\n4\n\u{fffd}\u{fffd} five"}),
    );
    assert_eq!(observation, "Edited mixed (1 replacement).");
    assert_eq!(program.content("twin"), b"\xef\xbb\xbfone\r\ntwo\nthree\r4\r\n4\r\n\xff\xfe five\r\nsix");
    assert!(program.path("link").symlink_metadata().unwrap().is_symlink());
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&program.path("mixed").metadata().unwrap().permissions()) & 0o777, 0o750);
}
