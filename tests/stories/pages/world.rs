//! A client that sends what it is told and keeps what comes, and texts that would act if they could.

use serde_json::json;
use sqlx::{AnyConnection, Connection as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A text that acts wherever it is not escaped, and hides where it is not shown.
pub const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(1)>\" onfocus=alert(1) autofocus x=\"' </title><!-- \
                           javascript:alert(1) \u{202e}txet\u{202c} \u{1b}[2J {{7*7}} &lt;b&gt; %3Cscript%3E";

/// An agent that writes such texts everywhere: thoughts, words, calls, answers, the names of files.
pub fn hostile_script() -> String {
    let act = |what: &str| format!("{what} <img src=x onerror=alert(1)><script>alert(1)</script> \u{202e}\u{1b}[31m");
    let write =
        "printf 'answered <img src=x onerror=alert(8)>\\033[31m\\n'; echo '<svg onload=alert(7)>' > '<img src=x onerror=alert(7)>.txt'";
    [
        json!({"reasoning_content": act("thought"), "content": act("said"),
            "tool_calls": [{"name": "Bash", "arguments": {"command": write, "description": act("described")}}]}),
        json!({"content": act("done")}),
    ]
    .map(|line| format!("{line}\n"))
    .concat()
}

/// Gives every run a report with such a text in each of its words.
pub async fn bend_report(database: &str) {
    let told = json!({"passed": 1, "failed": 0, "errors": 0, "skipped": 0, "exit_code": 0, "timed_out": false, "duration_ms": 5, "per_test": true,
        "unavailable": HOSTILE});
    let report = json!({
        "detail": HOSTILE, "model": HOSTILE, "final_message": HOSTILE, "proof": HOSTILE, "base": HOSTILE, "notes": [HOSTILE], "preset": HOSTILE,
        "findings": [{"rule": HOSTILE, "severity": "flag", "path": HOSTILE, "line": 1, "why": HOSTILE},
            {"rule": HOSTILE, "severity": "refuse", "path": "<img src=x onerror=alert(7)>.txt", "line": 1, "why": HOSTILE}],
        "comparison": {"fixed": [HOSTILE], "broken": [HOSTILE], "still_failing": [HOSTILE], "added": [HOSTILE]},
        "evidence": {"proving": [HOSTILE], "flaky": [HOSTILE], "changed_expectations": [HOSTILE]},
        "tests": {"command": HOSTILE, "why": HOSTILE, "before": told, "after": told, "restored": [HOSTILE]},
        "attempts": [{"outcome": HOSTILE, "reason": HOSTILE, "proof": HOSTILE}, {"outcome": HOSTILE, "chosen": true}],
        "stage_ms": [[HOSTILE, 5]],
    });
    serde_json::from_value::<frognano_bot::publish::report::Report>(report.clone()).unwrap();
    let mut connection = AnyConnection::connect(database).await.unwrap();
    sqlx::query("update jobs set report = $1, detail = $2, reason = $2, requested_by = $2, proof = $2, repo_path = $2")
        .bind(report.to_string())
        .bind(HOSTILE)
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

/// The pages of a service.
pub struct Site {
    pub base: String,
    client: reqwest::Client,
}

/// What came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: String,
}

impl Site {
    pub fn of(door: &str) -> Self {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { base: door.trim_end_matches("/webhooks/here").to_owned(), client }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], form: &str) -> Answer {
        let mut request = self.client.request(method.parse().unwrap(), format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if method == "POST" {
            request = request.header("content-type", "application/x-www-form-urlencoded").body(form.to_owned());
        }
        let answer = request.send().await.unwrap();
        Answer { status: answer.status().as_u16(), headers: answer.headers().clone(), body: answer.text().await.unwrap() }
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The token of the page's forms, as a form sends it.
    pub fn csrf(&self) -> String {
        let token = self.body.split("name=\"csrf\" value=\"").nth(1).unwrap_or_else(|| panic!("no form: {}", self.body));
        format!("csrf={}", token.split('"').next().unwrap())
    }
}

pub async fn post(site: &Site, path: &str, form: &str) -> Answer {
    site.ask("POST", path, &[], form).await
}

/// What comes for bytes that no client would send.
pub async fn raw(door: &str, request: &str) -> String {
    let address = door.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok();
    answer
}
