//! Tests of what reviewers come to, against prepared answers in GitLab's own shapes.

use super::Client;
use crate::domain::ReviewState;
use crate::forge::canned::{Canned, Reply, answer, repo};
use crate::forge::{Forge as _, Review};

async fn client(replies: Vec<Reply>) -> (Client, Canned) {
    let canned = Canned::new(replies).await;
    (Client::new(canned.settings.clone()).unwrap(), canned)
}

/// The reviews of merge request 3, which has these approvals, reviewers and versions.
async fn reviewed(approved_by: &str, reviewers: &str, versions: &str, threads: Option<&str>) -> (Vec<Review>, Canned) {
    let list = |rows: &str| answer(200, &format!("[{rows}]"));
    let mut replies = vec![answer(200, &format!(r#"{{"approved_by": [{approved_by}]}}"#))];
    if approved_by.is_empty() {
        replies.push(list(reviewers));
        replies.extend(threads.map(|_| list(versions)));
    } else {
        replies.extend((!approved_by.contains("approved_at")).then(|| list("")));
        replies.extend([list(versions), list(reviewers)]);
    }
    replies.extend(threads.map(|threads| answer(200, threads)));
    let (client, canned) = client(replies).await;
    (client.reviews(&repo(), 3).await.unwrap(), canned)
}

const VERSIONS: &str = r#"{"id": 2, "head_commit_sha": "bbb", "created_at": "2026-01-02T10:00:00.500Z"}, {"id": 1, "head_commit_sha": "aaa", "created_at": "2026-01-01T10:00:00.000Z"}"#;

#[tokio::test]
async fn an_approval_is_one_of_the_version_that_was_there_when_it_was_given() {
    let by = |id: u64, at: &str| format!(r#"{{"user": {{"id": {id}, "username": "u{id}"}}{at}}}"#);
    let at = |time: &str| format!(r#", "approved_at": "{time}""#);
    for (when, commit) in [
        (at("2026-01-02T10:00:00.501Z"), Some("bbb")),
        (at("2026-01-02T12:00:00.501+02:00"), Some("bbb")),
        (at("2026-01-02T10:00:00.500Z"), Some("aaa")),
        (at("2026-01-01T09:59:59.000Z"), None),
        (at("yesterday"), None),
        (String::new(), None),
    ] {
        let (reviews, _) = reviewed(&by(9, &when), "", VERSIONS, None).await;
        let [review] = &reviews[..] else { panic!("{reviews:?}") };
        assert_eq!((&*review.author, review.state, review.commit.as_deref()), ("u9", ReviewState::Approved, commit), "{when}");
    }
    let (nobody, _) = reviewed("", r#"{"user": {"id": 1, "username": "a"}, "state": "reviewed"}"#, "", None).await;
    assert_eq!(nobody, []);
}

const THREADS: &str = r#"[
    {"notes": [{"id": 1, "body": "before the last push", "author": {"id": 5, "username": "olga"}, "created_at": "2026-01-01T11:00:00Z"}]},
    {"notes": [{"id": 2, "body": "assigned", "author": {"id": 5, "username": "olga"}, "system": true, "created_at": "2026-01-02T11:00:00Z"}]},
    {"notes": [{"id": 3, "body": "among us", "author": {"id": 5, "username": "olga"}, "internal": true, "created_at": "2026-01-02T11:00:00Z"}]},
    {"notes": [{"id": 4, "body": "Please rename it.", "author": {"id": 5, "username": "olga"}, "created_at": "2026-01-02T11:00:00Z"}]},
    {"notes": [{"id": 5, "body": "by another", "author": {"id": 6, "username": "wren"}, "created_at": "2026-01-02T11:00:00Z"}]},
    {"notes": [{"id": 6, "body": "Why?", "author": {"id": 5, "username": "olga"}, "created_at": "2026-01-01T11:00:00Z", "resolved": false,
        "position": {"new_path": "a.py", "old_path": "a.py", "new_line": 12, "old_line": null}},
        {"id": 7, "body": "Because.", "author": {"id": 6, "username": "wren"}, "resolved": false, "position": {"new_path": "a.py", "new_line": 12}}]},
    {"notes": [{"id": 8, "body": "done with", "author": {"id": 5, "username": "olga"}, "resolved": true, "position": {"new_path": "a.py", "new_line": 1}}]},
    {"notes": [{"id": 9, "body": "gone", "author": {"id": 5, "username": "olga"}, "position": {"new_path": null, "old_path": "b.py", "old_line": 3}}]},
    {"notes": [{"id": 10, "body": "/frognano status", "author": {"id": 5, "username": "olga"}, "created_at": "2026-01-02T11:00:00Z"}]}]"#;

#[tokio::test]
async fn who_wants_changes_said_why_in_open_threads_and_in_notes_since_the_last_push() {
    let wanting = r#"{"user": {"id": 5, "username": "olga"}, "state": "requested_changes"}, {"user": {"id": 6, "username": "wren"}, "state": "unreviewed"}"#;
    let (reviews, _) = reviewed("", wanting, VERSIONS, Some(THREADS)).await;
    let [review] = &reviews[..] else { panic!("{reviews:?}") };
    let words = (&*review.author, review.state, &*review.body, review.commit.as_deref());
    assert_eq!(words, ("olga", ReviewState::ChangesRequested, "Please rename it.", None));
    assert_eq!(review.id, "changes-5-9", "with more words it is another");
    let (client, canned) = client(vec![answer(200, THREADS)]).await;
    let lines = client.line_comments(&repo(), 3, &review.id).await.unwrap();
    let lines = lines.iter().map(|line| (&*line.path, line.line, &*line.body)).collect::<Vec<_>>();
    assert_eq!(lines, [("a.py", Some(12), "Why?"), ("b.py", Some(3), "gone")]);
    assert_eq!(canned.lines(), ["GET /api/projects/7/merge_requests/3/discussions?per_page=100&page=1"]);
    for other in ["approval-5", "changes-", "changes-x-1", ""] {
        assert!(client.line_comments(&repo(), 3, other).await.unwrap().is_empty(), "{other}");
    }
}
