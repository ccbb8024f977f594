use frognano_bot::demo::Kind;
use frognano_bot::domain::Permission;
use serde_json::json;

use super::clients::{client, repo};
use super::{Stage, sample};

#[tokio::test(flavor = "multi_thread")]
async fn forgejo_is_told_from_gitea_by_a_version_of_its_own() {
    let address = |stage: &Stage| format!("{}/api/forgejo/v1/version", stage.running.base_url);
    let forgejo = Stage::new(Kind::Forgejo).await;
    let answer = forgejo.client.get(address(&forgejo)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.text().await.unwrap().contains("+gitea-"));
    assert!(forgejo.call("GET", "/version", "wren", None).await.1["version"].as_str().unwrap().contains("+gitea-"));
    let gitea = Stage::new(Kind::Gitea).await;
    assert_eq!(gitea.client.get(address(&gitea)).send().await.unwrap().status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn forgejo_sends_its_own_headers_and_those_of_all_that_it_came_from() {
    let stage = Stage::new(Kind::Forgejo).await;
    stage.forge().open_issue(sample::PATH, "rita", "Bug", "Text", &[]).unwrap();
    let delivery = stage.forge().set_label(sample::PATH, 1, "frognano-fix", "wren").unwrap().pop().unwrap();
    for name in ["X-Forgejo", "X-Gitea", "X-Gogs", "X-GitHub"] {
        assert_eq!(delivery.header(&format!("{name}-Event")), Some("issues"), "{name}");
        assert_eq!(delivery.header(&format!("{name}-Event-Type")), Some("issue_label"), "{name}");
        assert_eq!(delivery.header(&format!("{name}-Delivery")), Some(delivery.id.as_str()), "{name}");
    }
    let signature = delivery.header("X-Forgejo-Signature").unwrap();
    assert_eq!((signature.len(), delivery.header("X-Gitea-Signature")), (64, Some(signature)));
    assert_eq!(stage.forge().set_label(sample::PATH, 1, "frognano-fix", "wren").unwrap().len(), 1, "as Gitea, also when nothing changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_token_of_an_administrator_is_not_told_of_others() {
    let stage = Stage::new(Kind::Forgejo).await;
    stage.forge().add_token("narrow-token", "frognano", &["all", "limited"]).unwrap();
    let (status, refused) = stage.call("GET", "collaborators/wren/permission", "narrow", None).await;
    assert_eq!((status, refused["message"].as_str().unwrap().starts_with("Only admins")), (403, true));
    assert_eq!(stage.call("GET", "collaborators/wren/permission", "frognano", None).await.1["permission"], json!("write"));

    stage.forge().open_issue(sample::PATH, "rita", "Bug", "Text", &[]).unwrap();
    stage.forge().set_label(sample::PATH, 1, "frognano-fix", "wren").unwrap();
    let (client, repo) = (client(&stage, Kind::Forgejo, "narrow"), repo(&stage));
    client.label_set(&repo, 1, "frognano-fix").await.unwrap();
    assert_eq!(client.permission(&repo, "wren").await.unwrap(), Permission::Write, "by the timeline");
    assert_eq!(client.permission(&repo, "rita").await.unwrap(), Permission::None);
}
