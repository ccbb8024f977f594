//! The rules of the house that no compiler checks: who may import whom, and that the annotated example is the configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use frognano_bot::config::{Config, File};

/// Every room with the rooms that it may import (the picture in `lib.rs`).
const ARROWS: [(&str, &[&str]); 20] = [
    ("client", &[]),
    ("domain", &[]),
    ("config", &["domain"]),
    ("audit", &[]),
    ("tools", &[]),
    ("telemetry", &["domain"]),
    ("forge", &["domain", "config", "telemetry"]),
    ("store", &["audit", "domain", "config"]),
    ("git", &["domain", "config"]),
    ("sandbox", &["domain", "config", "telemetry"]),
    ("model", &["domain", "config"]),
    ("leaf", &["domain", "config", "sandbox", "model", "telemetry"]),
    ("verify", &["domain", "config", "sandbox"]),
    ("guard", &["domain", "config"]),
    ("demo", &["domain", "config", "model"]),
    ("publish", &["domain", "config", "forge", "git", "guard"]),
    (
        "pipeline",
        &["audit", "domain", "config", "forge", "git", "guard", "leaf", "model", "publish", "sandbox", "store", "verify", "telemetry"],
    ),
    ("worker", &["audit", "domain", "config", "forge", "leaf", "pipeline", "publish", "store", "telemetry"]),
    ("web", &["audit", "domain", "config", "forge", "publish", "store", "telemetry"]),
    (
        "app",
        &[
            "audit",
            "config",
            "domain",
            "forge",
            "git",
            "guard",
            "leaf",
            "model",
            "pipeline",
            "publish",
            "sandbox",
            "store",
            "telemetry",
            "web",
            "worker",
        ],
    ),
];

/// Libraries that only some rooms may name.
const KEPT_IN: [(&str, &[&str]); 8] = [
    ("sqlx", &["store"]),
    ("axum", &["web", "demo"]),
    ("hyper", &["web"]),
    ("reqwest", &["client", "forge", "model", "demo", "telemetry"]),
    ("opentelemetry_proto", &["telemetry"]),
    ("clap", &["cli"]),
    ("kube", &["sandbox"]),
    ("k8s_openapi", &["sandbox"]),
];

fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    files
}

fn room_of(file: &str) -> &str {
    let below = file.split("/src/").last().unwrap();
    below.split('/').next().unwrap().trim_end_matches(".rs")
}

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The rooms named by `use crate::…` and `crate::…` of a source text.
fn imports(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let named =
        code.split("crate::").skip(1).map(|rest| rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect());
    named.filter(|name: &String| !name.is_empty()).collect()
}

#[test]
fn imports_go_down_only() {
    let allowed = ARROWS.into_iter().collect::<BTreeMap<_, _>>();
    let mut wrong = Vec::new();
    for (file, text) in sources(&source_folder()) {
        let Some(rooms) = allowed.get(room_of(&file)) else { continue };
        let up = imports(&text).into_iter().filter(|room| room != room_of(&file) && !rooms.contains(&room.as_str()));
        wrong.extend(up.map(|room| format!("{file} imports {room}")));
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(imports("use crate::store::Store;\n// crate::web\nlet x = crate::git::which(1);"), ["store", "git"]);
}

#[test]
fn libraries_stay_in_their_rooms() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&source_folder()) {
        for (library, rooms) in KEPT_IN {
            let names_it = text.lines().any(|line| line.contains(&format!("{library}::")) && !line.trim_start().starts_with("//"));
            if names_it && !rooms.contains(&room_of(&file)) {
                wrong.push(format!("{file} names {library}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn unsafe_code_is_in_one_file_of_the_sandbox() {
    let with = sources(&source_folder()).into_iter().filter(|(_, text)| text.lines().any(|line| line.contains("unsafe {")));
    let files = with.map(|(file, _)| file.split("/src/").last().unwrap().to_owned()).collect::<Vec<_>>();
    assert!(files.iter().all(|file| file == "sandbox/local/spawn.rs"), "{files:?}");
}

fn example() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config/frognano.example.toml")).unwrap()
}

#[test]
fn the_annotated_example_is_loaded_and_its_defaults_are_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("secrets")).unwrap();
    for secret in ["gitea-webhook", "gitea-token", "ghes-webhook"] {
        std::fs::write(folder.path().join("secrets").join(secret), "s3cret\n").unwrap();
    }
    std::fs::write(folder.path().join("ghes-token"), "s3cret").unwrap();
    let text = example().replace("{ env = \"FROGNANO_GHES_TOKEN\" }", "{ file = \"ghes-token\" }");
    let config = Config::parse(&text, folder.path()).unwrap();
    let defaults = File::local("http://localhost/".parse().unwrap(), "local");
    assert_eq!(format!("{:?}", config.file.sandbox), format!("{:?}", defaults.sandbox));
    assert_eq!(format!("{:?}", config.file.run), format!("{:?}", defaults.run));
    assert_eq!(format!("{:?}", config.file.repositories), format!("{:?}", defaults.repositories));
    let defaults_of_guard = frognano_bot::guard::Limits::default();
    assert_eq!(
        (config.file.guard.max_files, config.file.guard.max_lines),
        (Some(defaults_of_guard.max_files), Some(defaults_of_guard.max_lines))
    );
    assert_eq!(config.forges.len(), 2);
}

/// The example with the sections that stand there commented out, where these are on.
fn example_with(sections: &[&str]) -> String {
    let mut is_on = false;
    let line = |line: &str| {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        is_on = if bare.starts_with('[') { sections.iter().any(|section| bare.starts_with(section)) } else { is_on && bare != line };
        if is_on { bare } else { line }.to_owned() + "\n"
    };
    example().lines().map(line).collect()
}

fn example_complains(text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("secrets")).unwrap();
    for secret in ["secrets/gitea-webhook", "secrets/gitea-token", "secrets/ghes-webhook", "secrets/collector", "ghes-token", "ca.pem"] {
        std::fs::write(folder.path().join(secret), "s3cret").unwrap();
    }
    let ca = format!("{:?}", folder.path().join("ca.pem"));
    let text = text.replace("{ env = \"FROGNANO_GHES_TOKEN\" }", "{ file = \"ghes-token\" }").replace("\"/etc/ssl/private-ca.pem\"", &ca);
    Config::parse(&text, folder.path()).err().unwrap_or_default()
}

#[test]
fn the_example_of_the_traces_is_loaded_and_what_is_wrong_in_it_is_told() {
    let with_traces = example_with(&["[telemetry.traces]"]);
    assert!(with_traces.contains("\nendpoint = ") && with_traces.contains("\nlink = "), "{with_traces}");
    assert_eq!(example_complains(&with_traces), Vec::<String>::new());
    let wrong = with_traces.replace("\nendpoint", "\nendpont").replace("\nshare = 1.0", "\nshare = \"all\"") + "[telemetry]\nlogs = 1\n";
    let told = example_complains(&wrong).join("\n");
    for words in [
        "[telemetry.traces] endpont: unknown field",
        "[telemetry.traces] endpoint: missing",
        "[telemetry.traces] share: ",
        "[telemetry] logs: unknown field",
    ] {
        assert!(told.contains(words), "{words} is not in {told}");
    }
    let without_a_secret = with_traces.replace("secrets/collector", "secrets/nowhere");
    assert!(example_complains(&without_a_secret).concat().starts_with("[telemetry.traces] header_value: "));
}

#[test]
fn a_fault_in_one_section_is_no_complaint_of_the_others() {
    let every_section = example_with(&["[telemetry.traces]"]);
    let told = example_complains(&format!("{every_section}[nonsense]\n"));
    assert_eq!(told, ["[nonsense]: there is no such section"]);
}

#[test]
fn a_database_on_a_server_has_its_password_in_a_place_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("password"), "p@ss/word").unwrap();
    let with = |service: &str| Config::parse(&format!("[service]\n{service}\n{ONE_FORGE}"), folder.path()).map_err(|why| why.join("\n"));
    std::fs::write(folder.path().join("secret"), "s3cret").unwrap();
    let good = with("database = \"postgres://frognano@db/frognano\"\ndatabase_password = { file = \"password\" }").unwrap();
    assert!(good.database_password.is_some());
    for (service, complaint) in [
        ("database = \"postgres://frognano:p@db/frognano\"", "a password stands in the address"),
        ("database = \"postgres://frognano@db/frognano?password=p\"", "a password stands in the address"),
        ("database = \"mysql://db/frognano\"", "sqlite:// and a file, or postgres://"),
        ("database_password = { file = \"password\" }", "only a postgres:// database has one"),
        ("database = \"postgres://db/f\"\ndatabase_password = { file = \"nowhere\" }", "[service] database_password: "),
    ] {
        let told = with(service).err().unwrap_or_default();
        assert!(told.contains(complaint), "{service}: {told}");
    }
}

const ONE_FORGE: &str = r#"
[[forge]]
name = "here"
kind = "gitea"
url = "https://git.example.com"
webhook_secrets = [{ file = "secret" }]
token = { file = "secret" }
[model]
url = "http://localhost/v1"
name = "m"
"#;

#[test]
fn the_examples_of_the_forges_pages_are_loaded_and_the_readme_links_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("secrets")).unwrap();
    for secret in ["webhook", "token", "app.pem"] {
        std::fs::write(folder.path().join("secrets").join(secret), "s3cret").unwrap();
    }
    for (page, examples) in [("github", 2), ("gitlab", 1), ("gitea", 1), ("forgejo", 1)] {
        let path = format!("docs/forges/{page}.md");
        assert!(readme.contains(&format!("({path})")), "{path}");
        let text = std::fs::read_to_string(root.join(&path)).unwrap();
        let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect::<Vec<_>>();
        assert_eq!(blocks.len(), examples, "{path}");
        for block in blocks {
            let whole = format!("{block}[model]\nurl = \"http://localhost/v1\"\nname = \"m\"\n");
            let config = Config::parse(&whole, folder.path()).unwrap_or_else(|complaints| panic!("{path}: {complaints:?}"));
            assert_eq!(config.file.forges.len(), 1, "{path}");
        }
    }
}

#[test]
fn ways_in_that_do_not_fit_together_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |kind: &str, ways: &str| {
        let text = format!(
            "[[forge]]\nname = \"x\"\nkind = \"{kind}\"\nurl = \"https://h\"\nwebhook_secrets = [{{ env = \"PATH\" }}]\n{ways}\n\
             [model]\nurl = \"http://localhost/v1\"\nname = \"m\"\n"
        );
        Config::parse(&text, folder.path()).err().map(|complaints| complaints.join("; ")).unwrap_or_default()
    };
    let app = "app_id = \"1\"\napp_key = { env = \"PATH\" }";
    for (kind, ways, words) in [
        ("github", String::new(), "token: missing"),
        ("github", format!("token = {{ env = \"PATH\" }}\n{app}"), "use one of both ways"),
        ("github", "app_id = \"1\"".to_owned(), "an App needs both"),
        ("gitea", app.to_owned(), "only GitHub has Apps"),
        ("github", format!("{app}\nallowed_teams = [\"fixers\"]"), "is not organization/team"),
        ("github", format!("{app}\ninternal_url = \"http://10.0.0.1\""), "internal_url: http:// would send"),
        ("github", app.to_owned(), ""),
    ] {
        let complaints = refused(kind, &ways);
        assert!(if words.is_empty() { complaints.is_empty() } else { complaints.contains(words) }, "{ways}: {complaints}");
    }
}

#[test]
fn every_complaint_comes_at_once_with_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frognano.toml");
    std::fs::write(
        &path,
        "[service]\nlisten = \"nowhere\"\nlable = \"x\"\nconcurrency = 0\n[model]\nurl = \"ftp://x\"\nname = \"\"\n[sandbox]\nuid = 0\nnetwork = true\n\
         [[forge]]\nname = \"a b\"\nkind = \"gitea\"\nurl = \"http://git.example.com\"\ntoken = { file = \"missing\" }\n[nonsense]\n",
    )
    .unwrap();
    let run = || Command::new(env!("CARGO_BIN_EXE_frognano-bot")).args(["serve", "--config"]).arg(&path).output().unwrap();
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let output = run();
    assert_eq!(output.status.code(), Some(2));
    for words in ["[service] lable: unknown field", "[sandbox] network: unknown field", "[nonsense]: there is no such section"] {
        assert!(said(&output).contains(words), "{words} is not in {}", said(&output));
    }
    let text =
        std::fs::read_to_string(&path).unwrap().replace("lable = \"x\"\n", "").replace("network = true\n", "").replace("[nonsense]\n", "");
    std::fs::write(&path, text).unwrap();
    let output = run();
    assert_eq!(output.status.code(), Some(2));
    for words in [
        "[service] listen: \"nowhere\"",
        "[service] concurrency",
        "[model] url",
        "[model] name",
        "[sandbox] uid: never 0",
        "name: letters, digits",
        "webhook_secrets: none",
        "url: http:// would send the token in the clear",
        "missing: can't be read",
    ] {
        assert!(said(&output).contains(words), "{words} is not in {}", said(&output));
    }
    for (kind, memory, is_enough) in
        [("local", 1999, false), ("local", 2000, true), ("kubernetes", 2999, false), ("kubernetes", 3000, true)]
    {
        let rooms = format!(
            "[model]\nurl = \"http://127.0.0.1:9\"\nname = \"m\"\n[sandbox]\nkind = \"{kind}\"\nworkspace_bytes = 1000\ntmp_bytes = 1000\nmemory_bytes = {memory}\n"
        );
        std::fs::write(&path, rooms).unwrap();
        assert_eq!(said(&run()).contains("[sandbox] memory_bytes: less than"), !is_enough, "{kind} {memory}: {}", said(&run()));
    }
}

#[test]
fn two_services_do_not_share_a_data_folder() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let house = crate::house::House::new(frognano_bot::demo::Kind::Gitea).await;
        let service = house.service().await;
        let config = Config::load(&house.write_config()).unwrap();
        let complaints = frognano_bot::app::build(&config).await.err().unwrap();
        assert!(complaints.concat().contains("another service works in this folder"), "{complaints:?}");
        service.end().await;
    });
}
