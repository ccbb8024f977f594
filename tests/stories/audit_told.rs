//! What an auditor has in the hand without the service: the statement beside the commit, the patch made again, and no secret in any of it.

use std::path::Path;
use std::process::{Command, Output};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use frognano_bot::app;
use frognano_bot::audit::{Envelope, Export, Kind as What, Note, PublicKey, Record, SigningKey, Statement};
use frognano_bot::config::Config;
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Outcome;

use crate::databases::Database;
use crate::house::{House, Service, TOKEN};

/// What the program says to these arguments, and its status.
fn program(arguments: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_frognano-bot")).args(arguments).output().unwrap();
    (status.code().unwrap(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

fn of_git(repository: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("git").arg("-C").arg(repository).args(arguments).output().unwrap();
    output.status.success().then_some(output.stdout)
}

/// The export of the only run, in a file, and the public key in another.
async fn export(house: &House, service: &Service) -> (Export, String, String, PublicKey) {
    let run = service.jobs().await[0].run.clone().unwrap();
    let key = app::signing_key(&Config::load(&house.write_config()).unwrap()).unwrap();
    let export = service.store.export(&run, &key).await.unwrap().unwrap();
    let file = |name: &str| house.folder.path().join(name).display().to_string();
    let (exported, public) = (file("run.json"), file("key.pem"));
    std::fs::write(&exported, export.to_bytes().unwrap()).unwrap();
    std::fs::write(&public, key.public().pem()).unwrap();
    (export, exported, public, key.public())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_statement_beside_the_commit_ties_it_to_its_run_and_the_export_makes_the_patch_again() {
    let weights = "ab".repeat(32);
    let house = House::new(Kind::Gitea).await;
    let config = house.write_config();
    let text = std::fs::read_to_string(&config)
        .unwrap()
        .replace("name = \"scripted\"", &format!("name = \"scripted\"\nweights_sha256 = {weights:?}"));
    std::fs::write(&config, text).unwrap();
    let service = house.service_of(&Config::load(&config).unwrap()).await;
    service.take(&house.label(house.open_issue())).await;
    assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
    let (export, exported, public, key) = export(&house, &service).await;

    let git_dir = house.folder.path().join("tallybook.git");
    let reference = format!("refs/frognano/statements/{}", export.run);
    let statement = of_git(&git_dir, &["show", &format!("{reference}:statement.json")]).unwrap();
    assert_eq!(of_git(&git_dir, &["log", "--format=%P", &reference]).unwrap(), b"\n", "a commit by itself");
    assert_eq!(export.records_of("statement").next().unwrap().1, statement);
    let opened = Statement::open(&serde_json::from_slice::<Envelope>(&statement).unwrap(), &key).unwrap();
    assert_eq!(opened.commit(), Some(house.branch_tips()[0].as_str()));
    assert_eq!(opened.subject[0].name, format!("git+{}/{}", house.running.base_url, project::PATH));
    let told = &opened.predicate;
    for (name, kind) in [("transcript", "trajectory-1"), ("policy", "policy")] {
        assert_eq!(told[name], export.records_of(kind).next().unwrap().0, "{name}");
    }
    assert_eq!(told["issue"]["snapshot"], export.records_of("issue").next().unwrap().0);
    assert_eq!((&told["model"]["weights"], &told["verdict"]["proof"]), (&weights.into(), &"fixed".into()), "{told}");
    assert!(export.people.contains_key(told["asked_by"].as_str().unwrap()) && !told.to_string().contains(project::MAINTAINER));

    let alone = house.folder.path().join("statement.json").display().to_string();
    std::fs::write(&alone, &statement).unwrap();
    let (status, said) = program(&["audit", "verify", &alone, "--key", &public]);
    assert!(status == 0 && said.contains(opened.commit().unwrap()), "{status}: {said}");
    assert_eq!(program(&["audit", "verify", &alone]).0, 2, "it has no key beside it");
    let other = STANDARD.encode(told.to_string().replace("fixed", "proved"));
    let mut forged = serde_json::from_slice::<Envelope>(&statement).unwrap();
    forged.payload = other;
    std::fs::write(&alone, serde_json::to_string(&forged).unwrap()).unwrap();
    let (status, said) = program(&["audit", "verify", &alone, "--key", &public]);
    assert!(status == 1 && said.contains("not one of the key"), "{status}: {said}");

    let git_dir = git_dir.display().to_string();
    let tools = crate::house::tools().display().to_string();
    let settings = house.folder.path().join("replay.toml");
    std::fs::write(&settings, format!("[model]\nurl = \"http://localhost\"\nname = \"x\"\n[sandbox]\ntools = {tools:?}\n")).unwrap();
    let settings = settings.display().to_string();
    let (status, said) = program(&["replay", &exported, "--repo", &git_dir, "--key", &public, "--config", &settings]);
    assert!(status == 0 && said.contains("the same patch, byte for byte"), "{status}: {said}");
    std::fs::write(&exported, &export.to_bytes().unwrap()[1..]).unwrap();
    assert_eq!(program(&["replay", &exported, "--repo", &git_dir]).0, 1);
    service.end().await;
}

#[tokio::test]
async fn a_file_that_a_stranger_signed_controls_no_terminal_and_names_no_folder() {
    let hostile = "../\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}x";
    let database = Database::sqlite();
    let store = database.open().await;
    let policy = serde_json::json!({"base": "ab".repeat(20), hostile: hostile});
    for (kind, facts) in [(What::Policy, policy), (What::RunEnded, serde_json::json!({"outcome": hostile}))] {
        store.witness(&Note::new(kind, facts).of_run(hostile)).await.unwrap();
    }
    let key = SigningKey::read(&SigningKey::generate().unwrap()).unwrap();
    let mut export = store.export(hostile, &key).await.unwrap().unwrap();
    // What goes on elsewhere later makes it neither another file nor a longer one.
    store.witness(&Note::new(What::Configuration, serde_json::json!({}))).await.unwrap();
    assert!(store.export(hostile, &key).await.unwrap().unwrap().to_bytes().unwrap() == export.to_bytes().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json").display().to_string();
    std::fs::write(&file, export.to_bytes().unwrap()).unwrap();
    let holds = program(&["audit", "verify", &file]);
    assert!(holds.0 == 0 && holds.1.contains("owned"), "{holds:?}");
    let (status, json) = program(&["audit", "verify", &file, "--json"]);
    let json = serde_json::from_str::<serde_json::Value>(&json).unwrap();
    assert_eq!((status, json["held"]["run"].as_str()), (0, Some(hostile)), "for a machine it is what it was");
    let repeated = program(&["replay", &file, "--repo", "."]);
    assert!(repeated.0 == 2 && repeated.1.contains("the name of its run"), "{repeated:?}");
    hostile.clone_into(&mut export.format);
    std::fs::write(&file, export.to_bytes().unwrap()).unwrap();
    let other = program(&["audit", "verify", &file]);
    export.records.insert(hostile.to_owned(), Record::of(hostile, b"x"));
    "frognano-export/1".clone_into(&mut export.format);
    std::fs::write(&file, export.to_bytes().unwrap()).unwrap();
    let broken = program(&["audit", "verify", &file]);
    assert_eq!((other.0, broken.0), (1, 1), "{other:?} {broken:?}");
    for (_, said) in [holds, repeated, other, broken] {
        assert!(!said.contains(|letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}'), "{said:?}");
    }
    store.close().await;
}

#[tokio::test]
async fn an_export_is_written_for_its_owner_alone_and_through_no_link() {
    let house = House::new(Kind::Gitea).await;
    let config = house.write_config();
    std::fs::create_dir_all(house.folder.path().join("data")).unwrap();
    let store = app::open_store(&Config::load(&config).unwrap()).await.unwrap();
    store.witness(&Note::new(What::RunEnded, serde_json::json!({"outcome": "refused"})).of_run("r1")).await.unwrap();
    store.close().await;
    let [out, link, other] = ["run.json", "link.json", "other"].map(|name| house.folder.path().join(name));
    std::fs::write(&other, "of somebody").unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    let export =
        |out: &Path| program(&["audit", "export", "--config", config.to_str().unwrap(), "--run", "r1", "--out", out.to_str().unwrap()]);
    assert_eq!((export(&out).0, export(&out).0, export(&link).0), (0, 0, 1));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&out).unwrap().permissions());
    assert_eq!((mode & 0o777, std::fs::read_to_string(&other).unwrap().as_str()), (0o600, "of somebody"));
    assert_eq!(program(&["audit", "verify", out.to_str().unwrap()]).0, 0);
}

/// The run tells a token of the forge, a token of known shape and a word of the configuration wherever it can.
#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_kept_or_shown_and_a_forge_that_takes_no_statement_gets_its_draft_all_the_same() {
    let shaped = format!("ghp_{}", "a1B2".repeat(9));
    let secrets = format!("{TOKEN} {shaped} BADGE-4711");
    let tell = serde_json::json!({"content": format!("It says {secrets}"), "tool_calls": [{"name": "Bash", "arguments": {"command": format!("echo {secrets}")}}]});
    let mut script = project::SCRIPT.trim_end().lines().map(str::to_owned).collect::<Vec<_>>();
    script.insert(1, tell.to_string());
    let last = script.pop().unwrap();
    let mut last = serde_json::from_str::<serde_json::Value>(&last).unwrap();
    last["content"] = format!("Done with {secrets}").into();
    script.push(last.to_string());
    let house = House::with_script(Kind::Gitea, &script.join("\n")).await.set("[audit]\nredact = [\"BADGE-[0-9]+\"]");
    let hook = house.folder.path().join("tallybook.git/hooks/update");
    let refusing = "#!/bin/sh\ncase \"$1\" in refs/frognano/*) echo 'this reference is not taken' >&2; exit 1;; esac\n";
    std::fs::write(&hook, refusing).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let service = house.service().await;
    let issue =
        house.forge().open_issue(project::PATH, project::READER, project::issue_title(), &format!("I see {secrets}"), &[]).unwrap().number;
    service.take(&house.label(issue)).await;
    assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));

    let pull_request = house.pull_requests().remove(0);
    assert!(pull_request.body.contains("the run's audit export alone"), "{}", pull_request.body);
    assert!(of_git(&house.folder.path().join("tallybook.git"), &["show-ref", "--verify", "refs/frognano"]).is_none());
    let (_, exported, _, key) = export(&house, &service).await;
    let exported = std::fs::read_to_string(exported).unwrap();
    let (_, held) = Export::verify(exported.as_bytes(), Some(&key)).unwrap();
    assert_eq!(held.commit.as_deref(), Some(house.branch_tips()[0].as_str()));
    let job = service.jobs().await.remove(0);
    let folder = house.folder.path().join("data/runs").join(&held.run);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert!(!folder.join("kept").exists(), "the very words are gone with the run's end");
    for (place, text) in [
        ("export", exported),
        ("trajectory.json", read("trajectory.json")),
        ("report.json", read("report.json")),
        ("comments", house.said(issue).concat()),
        ("pull request", pull_request.body),
        ("report", job.report.unwrap_or_default()),
        ("checkpoint", job.checkpoint),
    ] {
        assert!(place == "comments" || text.contains("[redacted]"), "{place} tells nothing of it");
        for secret in [TOKEN, &shaped, "BADGE-4711"] {
            assert!(!text.contains(secret), "{secret} is in {place}");
        }
    }
    service.end().await;
}
