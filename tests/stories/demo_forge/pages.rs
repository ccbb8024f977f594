use frognano_bot::demo::Kind;

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
    for (kind, path) in [(Kind::Gitea, "pulls"), (Kind::GitHub, "pull")] {
        let stage = Stage::new(kind).await;
        stage.push_branch("frognano", "fix").await;
        let opened = stage.call("POST", "pulls", "frognano", pull("fix")).await.1;
        stage.forge().set_label(sample::PATH, 1, "needs-human-review", "wren").unwrap();
        let url = opened["html_url"].as_str().unwrap();
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
