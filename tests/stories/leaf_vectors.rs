//! The reference's own answers: every row of the vectors, byte for byte, but for what we do better on purpose.

use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::tools::Program;

const VECTORS: &str = include_str!("../fixtures/leaf/vectors.jsonl");

/// What is expected instead where a row's note says that we do better.
struct Better {
    observation: Option<&'static str>,
    file: Option<(&'static str, &'static [u8])>,
}

fn better(id: &str) -> Better {
    let (observation, file): (_, Option<(_, &[u8])>) = match id {
        "edit-match-spans-crlf-as-lf" => (None, Some(("w.txt", b"1\r\n2\r\nthree\r\n"))),
        "edit-crlf-single-line" => (None, Some(("w.txt", b"one\r\n2\r\nthree\r\n"))),
        "edit-invalid-utf8-elsewhere" => (None, Some(("l1.py", b"# caf\xe9\nx = 2\n"))),
        "bash-invalid-utf8-output" => (Some("Exit code: 0\nSTDOUT:\n\u{fffd}\u{fffd}\nSTDERR:\n"), None),
        _ => (None, None),
    };
    Better { observation, file }
}

#[test]
fn every_vector_passes() {
    let mut count = 0;
    for line in VECTORS.lines() {
        check(&serde_json::from_str(line).unwrap());
        count += 1;
    }
    assert_eq!(count, 127);
}

fn check(row: &Value) {
    let id = row["id"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let environment: Vec<(&str, &str)> =
        row["env"].as_object().unwrap().iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect();
    let mut program = Program::start_in(folder, &[], &environment);
    for (name, content) in row["files"].as_object().unwrap() {
        prepare(&program, name, content);
    }
    let workdir = program.workdir().display().to_string();
    let args = serde_json::from_str(&row["args"].to_string().replace("${WORKDIR}", &workdir)).unwrap();
    let expected = row["observation"].as_str().unwrap().replace("${WORKDIR}", &workdir);
    let better = better(id);
    assert_eq!(program.call(row["tool"].as_str().unwrap(), args), better.observation.map_or(expected, str::to_owned), "{id}");
    match better.file {
        Some((name, content)) => assert_eq!(program.content(name), content, "{id}"),
        None => {
            for (name, content) in row["after"].as_object().unwrap() {
                assert_eq!(program.content(name), content.as_str().unwrap().as_bytes(), "{id}: {name}");
            }
        }
    }
}

fn prepare(program: &Program, name: &str, content: &Value) {
    match content {
        Value::String(text) if name == "generate" => {
            assert!(text.starts_with("pkg/m0000.py .. pkg/m1202.py"), "an unknown recipe: {text}");
            (0..=1202).for_each(|number| program.write(&format!("pkg/m{number:04}.py"), "x = 1\n"));
        }
        Value::String(text) => program.write(name, text),
        Value::Object(kind) => match kind.iter().next().map(|(kind, value)| (kind.as_str(), value)).unwrap() {
            ("b64", encoded) => {
                program.write(name, base64::Engine::decode(&base64::prelude::BASE64_STANDARD, encoded.as_str().unwrap()).unwrap())
            }
            ("symlink", target) => symlink(target.as_str().unwrap(), program.path(name)).unwrap(),
            ("dir", _) => std::fs::create_dir_all(program.path(name)).unwrap(),
            ("generate", recipe) => {
                assert!(recipe.as_str().unwrap().starts_with("lines 1..1500: 'line N of a long file"), "an unknown recipe: {recipe}");
                program.write(name, (1..=1500).map(|number| format!("line {number} of a long file\n")).collect::<String>());
            }
            (other, _) => panic!("an unknown kind of file: {other}"),
        },
        other => panic!("an unknown file: {other}"),
    }
}
