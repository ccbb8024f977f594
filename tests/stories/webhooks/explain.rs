//! `frognano-bot webhook explain`: the administrator's answer to "why did the bot not react?".

use std::process::Command;

use super::*;

/// A folder with a configuration and one delivery.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new(headers: &str, body: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let forges = FORGES.map(|kind| {
            format!(
                "[[forge]]\nname = \"our-{kind}\"\nkind = \"{kind}\"\nurl = \"https://{kind}.example.com\"\n\
                 webhook_secrets = [{{ file = \"secret\" }}]\ntoken = {{ file = \"not-needed\" }}\n"
            )
        });
        let config =
            format!("[service]\nlabel = \"frognano-fix\"\n{}[model]\nurl = \"http://127.0.0.1:9\"\nname = \"any\"\n", forges.concat());
        let desk = Self(folder);
        for (name, content) in
            [("config.toml", config.as_bytes()), ("headers", headers.as_bytes()), ("body", body), ("secret", SECRET.as_bytes())]
        {
            std::fs::write(desk.0.path().join(name), content).unwrap();
        }
        desk
    }

    /// Exit status, standard output and error output.
    fn explain(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_frognano-bot"))
            .current_dir(self.0.path())
            .args(["webhook", "explain", "--headers", "headers", "--body", "body"])
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn json(&self, arguments: &[&str], status: i32) -> Value {
        let (code, out, error) = self.explain(arguments);
        assert_eq!((code, &*error), (status, ""), "{out}");
        serde_json::from_str(&out).unwrap()
    }
}

fn lines(headers: &Headers) -> String {
    headers.0.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

fn sent(kind: &str, event: &str, file: &str) -> Desk {
    let body = fixture(file);
    Desk::new(&lines(&signed(kind, event, file, &body)), &body)
}

#[test]
fn every_forge_is_explained_with_and_without_a_configuration() {
    for (kind, event, file, verb, repository, issue, actor) in [
        ("github", "issues", "github/issues_labeled_trigger.json", "start", "dev-a/Hello-World", 1, "dev-a"),
        ("github", "issues", "github/issues_labeled_trigger.form", "start", "dev-a/Hello-World", 1, "dev-a"),
        ("gitlab", "Note Hook", "gitlab/note_issue_command.json", "command", "gitlab-org/gitlab-test", 17, "dev-b"),
        ("gitea", "issues", "gitea/issues_label_updated_trigger.form", "recheck", "dev-a/example", 1, "dev-a"),
        ("forgejo", "issues", "forgejo/issues_closed.json", "cancel", "dev-a/test-repo", 12, "dev-a"),
    ] {
        let desk = sent(kind, event, file);
        let known = desk.json(&["--config", "config.toml", "--forge", &format!("our-{kind}")], 0);
        assert_eq!(known["verified"], true, "{file}: {known}");
        let mut unknown = desk.json(&["--forge", kind, "--no-verify"], 0);
        assert_eq!(unknown["verified"], false);
        unknown["verified"] = json!(true);
        assert_eq!(known, unknown);
        for (field, value) in [
            ("event", json!(event)),
            ("verb", json!(verb)),
            ("repository", json!(repository)),
            ("issue", json!(issue)),
            ("actor", json!(actor)),
        ] {
            assert_eq!(known[field], value, "{file}");
        }
        assert!(known["why"].as_str().is_some_and(|why| !why.is_empty()));
    }
}

#[test]
fn every_row_of_the_manifest_is_explained_as_it_says() {
    for row in table("manifest.tsv", 4) {
        let [file, kind, event, expected] = &row[..] else { panic!("{row:?}") };
        let explained = sent(kind, event, file).json(&["--forge", kind, "--no-verify"], 0);
        assert_eq!(explained["verb"], **expected, "{file}: {explained}");
        assert_eq!(explained["event"], **event, "{file}");
    }
}

#[test]
fn a_signature_that_does_not_fit_explains_nothing_but_that() {
    let desk = sent("github", "issues", "github/issues_labeled_trigger.json");
    std::fs::write(desk.0.path().join("secret"), "another").unwrap();
    let refused = desk.json(&["--config", "config.toml", "--forge", "our-github"], 1);
    assert_eq!((&refused["verified"], &refused["verb"], &refused["event"]), (&json!(false), &json!("ignore"), &json!("issues")));
    assert_eq!((&refused["repository"], &refused["issue"], &refused["actor"]), (&Value::Null, &Value::Null, &Value::Null));
    assert!(refused["why"].as_str().unwrap().contains("fits none of the configured secrets"));
    std::fs::write(desk.0.path().join("headers"), "X-GitHub-Event: issues\n").unwrap();
    let unsigned = desk.json(&["--config", "config.toml", "--forge", "our-github"], 1);
    assert!(unsigned["why"].as_str().unwrap().contains("missing or empty"));
}

#[test]
fn a_recorded_signature_may_be_old() {
    let rows: Vec<_> = table("signatures.tsv", 4).into_iter().filter(|row| row[2].starts_with("webhook-")).take(3).collect();
    let headers = rows.iter().map(|row| format!("{}: {}\n", row[2], row[3])).collect::<String>();
    let desk = Desk::new(&headers, &fixture(&rows[0][0]));
    std::fs::write(desk.0.path().join("secret"), &rows[0][1]).unwrap();
    let explained = desk.json(&["--config", "config.toml", "--forge", "our-gitlab"], 0);
    assert_eq!((&explained["verified"], &explained["verb"], &explained["event"]), (&json!(true), &json!("start"), &json!("")));
}

#[test]
fn own_accounts_are_those_that_are_named() {
    let desk = sent("github", "issues", "github/issues_labeled_trigger.json");
    let ignored = desk.json(&["--forge", "github", "--no-verify", "--self", "somebody", "--self", "DEV-A"], 0);
    assert_eq!(ignored["verb"], "ignore");
    assert!(ignored["why"].as_str().unwrap().contains("our own account `dev-a`"), "{ignored}");
}

#[test]
fn what_cannot_be_read_is_explained_too() {
    for body in [&b""[..], b"<html>", b"[1, 2]", b"{\"action\": \"closed\"}", b"\xff\xfe"] {
        let explained = Desk::new("X-GitHub-Event: issues\n", body).json(&["--forge", "github", "--no-verify"], 0);
        assert_eq!(explained["verb"], "ignore");
        assert!(explained["why"].as_str().unwrap().contains("can't be read"), "{explained}");
    }
}

#[test]
fn a_wrong_command_says_what_to_do_with_status_2() {
    let desk = sent("github", "issues", "github/issues_labeled_trigger.json");
    for (arguments, words) in [
        (&["--forge", "github"][..], "--no-verify"),
        (&["--forge", "bitbucket", "--no-verify"], "one of github, gitlab, gitea, forgejo"),
        (&["--config", "config.toml", "--forge", "github"], "our-github, our-gitlab, our-gitea, our-forgejo"),
        (&["--config", "missing.toml", "--forge", "github"], "missing.toml: can't be read"),
    ] {
        let (code, out, error) = desk.explain(arguments);
        assert!(code == 2 && out.is_empty() && error.contains(words), "{arguments:?}: {code} {out} {error}");
    }
    std::fs::write(desk.0.path().join("headers"), "no header").unwrap();
    let (code, _, error) = desk.explain(&["--forge", "github", "--no-verify"]);
    assert!(code == 2 && error.contains("headers: line 1"), "{error}");
    std::fs::remove_file(desk.0.path().join("secret")).unwrap();
    let (code, _, error) = desk.explain(&["--config", "config.toml", "--forge", "our-gitea"]);
    assert!(code == 2 && error.contains("webhook_secrets") && error.contains("can't be read"), "{error}");
}
