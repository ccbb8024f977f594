//! One story on every face of the forge, and the few places in which the faces differ for a story.

use frognano_bot::demo::Kind;
use frognano_bot::demo::forge::Delivery;

/// Tells the same story once on each face of the forge, as four tests.
macro_rules! on_each_forge {
    (async fn $name:ident($kind:ident: Kind) $story:block) => {
        mod $name {
            use super::*;

            async fn story($kind: Kind) $story

            #[tokio::test]
            async fn gitea() {
                story(Kind::Gitea).await;
            }

            #[tokio::test]
            async fn forgejo() {
                story(Kind::Forgejo).await;
            }

            #[tokio::test]
            async fn github() {
                story(Kind::GitHub).await;
            }

            #[tokio::test]
            async fn gitlab() {
                story(Kind::GitLab).await;
            }
        }
    };
}
pub(crate) use on_each_forge;

/// Method and path by which a comment is written on issue 1.
pub fn commenting(kind: Kind) -> (&'static str, &'static str) {
    ("POST", if kind == Kind::GitLab { "*/issues/1/notes" } else { "*/issues/1/comments" })
}

/// Method and path by which a comment is changed.
pub fn changing_a_comment(kind: Kind) -> (&'static str, &'static str) {
    if kind == Kind::GitLab { ("PUT", "*/notes/*") } else { ("PATCH", "*/issues/comments/*") }
}

/// Method and path by which a pull request is opened.
pub fn opening(kind: Kind) -> (&'static str, &'static str) {
    ("POST", if kind == Kind::GitLab { "*/merge_requests" } else { "*/pulls" })
}

/// Method and path by which a label is taken off issue 1.
pub fn unlabelling(kind: Kind) -> (&'static str, &'static str) {
    if kind == Kind::GitLab { ("PUT", "*/issues/1") } else { ("DELETE", "*/issues/1/labels/*") }
}

/// The same delivery under another id: a replay by hand, or by another hook.
pub fn again(delivery: &Delivery, mark: &str) -> Delivery {
    let mut again = delivery.clone();
    let ids = again.headers.iter_mut().filter(|(name, _)| {
        let name = name.to_ascii_lowercase();
        name.ends_with("-delivery") || name == "idempotency-key"
    });
    ids.for_each(|(_, id)| id.push_str(mark));
    again
}

/// Whether this header is what a delivery is believed for.
pub fn is_proof(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    header.contains("signature") || header == "x-gitlab-token"
}
