use frognano_bot::demo::Kind;

use serde_json::json;

use super::{Stage, pull, sample};

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_does_nothing_on_the_pages() {
    let stage = Stage::new(Kind::Gitea).await;
    let hostile = "<script>alert(1)</script> <img src=x onerror=alert(1)>\n\n[click](javascript:alert(1))\n\n```\n</code><script>\n```\n";
    let forge = stage.forge();
    forge.open_issue(sample::PATH, "rita", "</title><script>alert(2)</script>", hostile, &["\"><script>"]).unwrap();
    forge.write_comment(sample::PATH, 1, hostile, "rita").unwrap();
    let response = stage.client.get(format!("{}/{}/issues/1", stage.running.base_url, sample::PATH)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    let html = response.text().await.unwrap();
    for bad in ["<script", "<img", "href=\"javascript", "\"><script"] {
        assert!(!html.contains(bad), "{bad} in {html}");
    }
    assert!(
        html.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && html.contains("demonstration forge built into frognano-bot"),
        "{html}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_shows_draft_labels_text_and_diff() {
    for kind in Kind::ALL {
        let path = kind.pulls_page();
        let stage = Stage::new(kind).await;
        stage.push_branch("frognano", "fix").await;
        let opened = open(&stage).await;
        stage.forge().set_label(sample::PATH, 1, "needs-human-review", "wren").unwrap();
        let url = opened.as_str();
        assert_eq!(url, format!("{}/{}/{path}/1", stage.running.base_url, sample::PATH));
        let html = stage.client.get(url).send().await.unwrap().text().await.unwrap();
        for shown in [">draft</span>", ">needs-human-review</span>", "<p>Text</p>", "<span class=\"add\">+&lt;b&gt;text&lt;/b&gt;</span>"] {
            assert!(html.contains(shown), "{shown} not in {html}");
        }
        assert!(stage.forge().unexpected().is_empty());
        assert_eq!(stage.client.get(format!("{url}0")).send().await.unwrap().status(), 404);
        assert_eq!(stage.forge().unexpected(), [format!("GET /{}/{path}/10", sample::PATH)]);
    }
}

/// Opens a draft from the branch `fix` and answers its page.
async fn open(stage: &Stage) -> String {
    let of_gitlab = json!({ "source_branch": "fix", "target_branch": "main", "title": "Draft: Mend it", "description": "Text" });
    let (path, body) = match stage.forge().state().kind {
        Kind::GitLab => ("merge_requests", Some(of_gitlab)),
        _ => ("pulls", pull("fix")),
    };
    let opened = stage.call("POST", path, "frognano", body).await.1;
    opened["html_url"].as_str().or(opened["web_url"].as_str()).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_within_groups_have_pages_and_confidential_issues_none() {
    let stage = Stage::new(Kind::GitLab).await;
    stage.forge().open_issue(sample::PATH, "rita", "Bug", "Text", &[]).unwrap();
    stage.forge().with_repository(sample::PATH, |repository| repository.path = "acme/inner/tallybook".to_owned()).unwrap();
    let status = async |path: &str| stage.client.get(format!("{}/{path}", stage.running.base_url)).send().await.unwrap().status().as_u16();
    for (path, answer) in [
        ("acme/inner/tallybook", 200),
        ("acme/inner/tallybook/-/issues/1", 200),
        ("acme/inner/tallybook/-/merge_requests/1", 404),
        ("acme/tallybook/-/issues/1", 404),
    ] {
        assert_eq!(status(path).await, answer, "{path}");
    }
    stage.forge().with_repository("acme/inner/tallybook", |repository| repository.issues[0].confidential = true).unwrap();
    assert_eq!(status("acme/inner/tallybook/-/issues/1").await, 404);
}
