//! What a pull request and a comment tell of the run beside its verdict.

use frognano_bot::demo::Kind;
use frognano_bot::domain::Outcome;

use crate::house::House;

/// The body of the pull request, the comment on the issue, the report, and the run.
async fn proposed(house: &House) -> (String, String, serde_json::Value, String) {
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    assert!(matches!(service.outcome().await, Outcome::Proposed { .. }), "{:?}", house.said(issue));
    let report: serde_json::Value = serde_json::from_str(service.jobs().await[0].report.as_deref().unwrap()).unwrap();
    service.end().await;
    let run = report["run"].as_str().unwrap().to_owned();
    (house.pull_requests()[0].body.clone(), house.said(issue).concat(), report, run)
}

#[tokio::test]
async fn the_image_of_the_sandbox_is_in_the_record() {
    let house = House::new(Kind::Gitea).await;
    let (body, said, report, _) = proposed(&house).await;
    let image = report["sandbox"]["image"].as_str().unwrap();
    assert!(image.len() == 64 && image.bytes().all(|digit| digit.is_ascii_hexdigit()), "{image}");
    assert!(report["sandbox"]["attempts"].as_array().is_some_and(|attempts| !attempts.is_empty()), "{report:#}");
    assert!(body.contains(&format!("- sandbox image: `{image}`")), "{body}");
    assert!(!body.contains("/runs/") && !said.contains("/runs/"), "nothing shows runs: {body}{said}");
}

#[tokio::test]
async fn the_page_of_the_run_is_linked_to_where_there_is_one() {
    for (public_url, address) in
        [("https://runs.example.com", "https://runs.example.com"), ("http://runs.example.com/a%20b/", "http://runs.example.com/a%20b")]
    {
        let house = House::new(Kind::Gitea).await.set(&format!("public_url = {public_url:?}"));
        let (body, said, _, run) = proposed(&house).await;
        let link = format!("<{address}/runs/{run}>");
        assert!(body.contains(&format!("- run page: {link}")) && said.contains(&link), "{link}: {body}{said}");
    }
}

#[tokio::test]
async fn an_address_that_no_path_can_follow_is_refused() {
    for wrong in [
        "https://runs.example.com/?a=b",
        "https://runs.example.com/#a",
        "mailto:a@example.com",
        "runs.example.com",
        "https://runs.example.com/a//b",
        "https://runs.example.com/api/bot",
    ] {
        let house = House::new(Kind::Gitea).await.set(&format!("public_url = {wrong:?}"));
        let path = house.write_config();
        let said = frognano_bot::config::Config::load(&path).err().unwrap_or_default().join("\n");
        assert!(said.contains("public_url"), "{wrong}: {said}");
    }
}
