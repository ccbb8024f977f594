//! What GitHub, Gitea and Forgejo may send beyond the samples.

use super::*;

#[test]
fn what_happens_to_issues_on_github() {
    const LABELED: &str = "github/issues_labeled_trigger.json";
    const UNLABELED: &str = "github/issues_unlabeled_trigger.json";
    const OPENED: &str = "github/issues_opened_with_trigger.json";
    let action = |action: &str| ("/action", json!(action));
    all_hold(
        "github",
        "issues",
        vec![
            (LABELED, vec![("/label/name", json!("FROGNANO-FIX"))], Verb::Start, "was added"),
            (LABELED, vec![("/label/name", json!("area/frognano-fix"))], Verb::Ignore, "not `frognano-fix`"),
            (LABELED, vec![("/issue/labels", json!([]))], Verb::Start, "was added"),
            (LABELED, vec![("/issue/labels", Value::Null)], Verb::Start, "was added"),
            (LABELED, vec![("/issue/number", json!("7")), ("/repository/id", json!("9"))], Verb::Start, "was added"),
            (LABELED, vec![("/issue/pull_request", json!({"url": "x"}))], Verb::Ignore, "pull requests"),
            (LABELED, vec![("/sender/type", json!("Bot"))], Verb::Ignore, "a bot"),
            (LABELED, vec![("/sender/login", json!("other-app[bot]"))], Verb::Ignore, "a bot"),
            (LABELED, vec![("/sender/login", json!("Frognano-BOT"))], Verb::Ignore, "our own account"),
            (LABELED, vec![("/sender/login", json!("frognano[bot]"))], Verb::Ignore, "our own account"),
            (LABELED, vec![("/sender", Value::Null)], Verb::Start, "was added"),
            (UNLABELED, vec![("/label/name", json!("Frognano-Fix"))], Verb::Cancel, "taken off"),
            (UNLABELED, vec![("/label/name", json!("bug"))], Verb::Ignore, "not `frognano-fix`"),
            (UNLABELED, vec![("/sender/type", json!("Bot"))], Verb::Cancel, "taken off"),
            (
                OPENED,
                vec![("/issue/labels", json!([{"name": "bug"}, {"name": null}, {"name": " frognano-fix"}]))],
                Verb::Start,
                "opened with",
            ),
            (OPENED, vec![("/issue/labels", Value::Null)], Verb::Ignore, "opened without"),
            (OPENED, vec![("/sender/type", json!("Bot"))], Verb::Ignore, "a bot"),
            (OPENED, vec![("/changes", json!({"old_issue": {"number": 1}}))], Verb::Ignore, "transferred here"),
            (LABELED, vec![action("locked")], Verb::Cancel, "locked"),
            (LABELED, vec![action("unlocked")], Verb::Ignore, "`unlocked`"),
            (LABELED, vec![action("transferred")], Verb::Cancel, "transferred"),
            (LABELED, vec![action("deleted")], Verb::Cancel, "deleted"),
            (LABELED, vec![action("closed")], Verb::Cancel, "closed"),
            (LABELED, vec![action("unassigned")], Verb::Ignore, "`unassigned`"),
            (LABELED, vec![action("milestoned")], Verb::Ignore, "`milestoned`"),
            (LABELED, vec![action("reopened")], Verb::Ignore, "reopening"),
            (LABELED, vec![("/action", Value::Null)], Verb::Ignore, "names no action"),
        ],
    );
}

#[test]
fn what_happens_to_the_label_itself_on_github() {
    const DELETED: &str = "github/label_deleted_trigger.json";
    let edited = |name: &str, from: Value| vec![("/action", json!("edited")), ("/label/name", json!(name)), ("/changes", from)];
    all_hold(
        "github",
        "label",
        vec![
            (DELETED, vec![("/label/name", json!("Frognano-Fix"))], Verb::Recheck, "deleted"),
            (DELETED, vec![("/label/name", json!("bug"))], Verb::Ignore, "was not"),
            (DELETED, vec![("/action", json!("created"))], Verb::Ignore, "was not"),
            (DELETED, edited("done", json!({"name": {"from": "frognano-fix"}})), Verb::Recheck, "renamed"),
            (DELETED, edited("frognano-fix", json!({"name": {"from": "other"}})), Verb::Recheck, "renamed"),
            (DELETED, edited("frognano-fix", json!({"name": {"from": "Frognano-Fix"}})), Verb::Ignore, "was not"),
            (DELETED, edited("frognano-fix", json!({"color": {"from": "ffffff"}})), Verb::Ignore, "was not"),
        ],
    );
}

#[test]
fn what_is_written_on_github() {
    const COMMAND: &str = "github/issue_comment_created_command.json";
    const ON_PULL: &str = "github/issue_comment_created_on_pull_request.json";
    let body = |text: &str| vec![("/comment/body", json!(text))];
    all_hold(
        "github",
        "issue_comment",
        vec![
            (COMMAND, body("/frognano cancel\n\nthe issue is moot"), Verb::Command, "/frognano cancel"),
            (COMMAND, body("\n/frognano cancel"), Verb::Ignore, "whole first line"),
            (COMMAND, body("> /frognano cancel"), Verb::Ignore, "whole first line"),
            (COMMAND, body("```\n/frognano cancel\n```"), Verb::Ignore, "whole first line"),
            (COMMAND, body("    /frognano cancel"), Verb::Ignore, "whole first line"),
            (COMMAND, body("/frognano retry now"), Verb::Ignore, "no options"),
            (COMMAND, body("/frognano"), Verb::Ignore, "known words"),
            (COMMAND, vec![("/comment/body", Value::Null)], Verb::Ignore, "no command"),
            (COMMAND, vec![("/action", json!("edited"))], Verb::Ignore, "only new comments"),
            (COMMAND, vec![("/sender/type", json!("Bot"))], Verb::Ignore, "a bot"),
            (COMMAND, vec![("/comment/user/type", json!("Bot"))], Verb::Ignore, "a bot"),
            (COMMAND, vec![("/comment/user/login", json!("frognano[bot]"))], Verb::Ignore, "our own account"),
            (ON_PULL, body("/frognano revise\nname it better"), Verb::Command, "/frognano revise"),
            (ON_PULL, body("looks good"), Verb::Feedback, "commented on a pull request"),
        ],
    );
    let read = read_value("github", "issue_comment", &changed(COMMAND, &[("/sender", Value::Null)])).unwrap();
    assert_eq!(read.actor.map(|actor| actor.login), Some("dev-a".to_owned()), "the author of the comment stands in");
}

#[test]
fn what_happens_to_pull_requests_on_github() {
    const OPENED: &str = "github/pull_request_opened.json";
    const REVIEW: &str = "github/pull_request_review_commented.json";
    const INLINE: &str = "github/pull_request_review_comment_created.json";
    let action = |action: &str| vec![("/action", json!(action))];
    let merged = vec![("/action", json!("closed")), ("/pull_request/merged", json!(true)), ("/pull_request/merged_at", Value::Null)];
    all_hold(
        "github",
        "pull_request",
        vec![
            (OPENED, action("closed"), Verb::Finish, "without merging"),
            (OPENED, merged, Verb::Finish, "was merged"),
            (OPENED, action("ready_for_review"), Verb::Finish, "no draft"),
            (OPENED, action("converted_to_draft"), Verb::Ignore, "`converted_to_draft`"),
            (OPENED, action("review_requested"), Verb::Ignore, "`review_requested`"),
            (OPENED, action("unlabeled"), Verb::Ignore, "labels on pull requests"),
            (OPENED, action("synchronize"), Verb::Ignore, "`synchronize`"),
        ],
    );
    all_hold(
        "github",
        "pull_request_review",
        vec![
            (REVIEW, vec![("/review/state", json!("approved"))], Verb::Feedback, "reviewed"),
            (REVIEW, action("dismissed"), Verb::Ignore, "only new reviews"),
            (REVIEW, action("edited"), Verb::Ignore, "only new reviews"),
            (REVIEW, vec![("/sender/type", json!("Bot"))], Verb::Ignore, "a bot"),
        ],
    );
    all_hold("github", "pull_request_review_comment", vec![(INLINE, action("deleted"), Verb::Ignore, "only new reviews")]);
}

#[test]
fn what_happens_to_issues_on_gitea_and_forgejo() {
    for (kind, file) in [("gitea", "gitea/issues_label_updated_trigger.json"), ("forgejo", "forgejo/issues_label_updated_trigger.json")] {
        let with = |action: &str, labels: Value| vec![("/action", json!(action)), ("/issue/labels", labels)];
        let trigger = || json!([{"id": 1, "name": "Frognano-Fix"}]);
        all_hold(
            kind,
            "issues",
            vec![
                (file, with("label_updated", Value::Null), Verb::Recheck, "does not say how"),
                (file, with("label_cleared", trigger()), Verb::Cancel, "taken off"),
                (file, with("opened", trigger()), Verb::Recheck, "opened with"),
                (file, with("opened", json!([{"id": 1, "name": "bug"}])), Verb::Ignore, "opened without"),
                (file, with("deleted", trigger()), Verb::Cancel, "deleted"),
                (file, with("unassigned", trigger()), Verb::Ignore, "`unassigned`"),
                (file, with("demilestoned", trigger()), Verb::Ignore, "`demilestoned`"),
                (file, vec![("/issue/pull_request", json!({"merged": false}))], Verb::Ignore, "pull requests"),
                (file, vec![("/sender/login", json!("frognano-bot"))], Verb::Ignore, "our own account"),
                (file, vec![("/sender", Value::Null)], Verb::Recheck, "does not say how"),
            ],
        );
    }
}

#[test]
fn what_is_written_on_gitea_and_forgejo() {
    for (kind, file) in [("gitea", "gitea/issue_comment_created_command.json"), ("forgejo", "forgejo/issue_comment_created_command.json")] {
        all_hold(
            kind,
            "issue_comment",
            vec![
                (file, vec![("/is_pull", json!(true))], Verb::Command, "/frognano retry"),
                (file, vec![("/is_pull", json!(true)), ("/comment/body", json!("nice"))], Verb::Feedback, "on a pull request"),
                (file, vec![("/action", json!("edited"))], Verb::Ignore, "only new comments"),
                (file, vec![("/comment/user/login", json!("frognano-bot"))], Verb::Ignore, "our own account"),
                (file, vec![("/sender/login", json!("ci[bot]"))], Verb::Ignore, "a bot"),
            ],
        );
    }
}

#[test]
fn what_happens_to_pull_requests_on_gitea_and_forgejo() {
    let title = |title: &str| vec![("/action", json!("edited")), ("/pull_request/title", json!(title))];
    for (kind, file) in [("gitea", "gitea/pull_request_opened.json"), ("forgejo", "forgejo/pull_request_opened.json")] {
        all_hold(
            kind,
            "pull_request",
            vec![
                (file, vec![("/action", json!("closed")), ("/pull_request/merged", json!(true))], Verb::Finish, "was merged"),
                (file, vec![("/action", json!("closed"))], Verb::Finish, "without merging"),
                (file, vec![("/action", json!("review_requested"))], Verb::Ignore, "`review_requested`"),
                (file, vec![("/action", json!("synchronized"))], Verb::Ignore, "`synchronized`"),
                (file, vec![("/action", json!("label_updated"))], Verb::Ignore, "labels on pull requests"),
            ],
        );
    }
    all_hold(
        "forgejo",
        "pull_request",
        vec![
            ("forgejo/pull_request_edited.json", title("[WIP] x"), Verb::Ignore, "still a draft"),
            ("forgejo/pull_request_edited.json", title("x"), Verb::Finish, "no draft"),
        ],
    );
    const REVIEW: &str = "gitea/pull_request_review_rejected.json";
    all_hold(
        "gitea",
        "pull_request_rejected",
        vec![
            (REVIEW, vec![], Verb::Feedback, "reviewed"),
            (REVIEW, vec![("/sender/login", json!("frognano-bot"))], Verb::Ignore, "our own account"),
            (REVIEW, vec![("/sender/login", json!("ci[bot]"))], Verb::Ignore, "a bot"),
        ],
    );
}

#[test]
fn an_account_that_is_learnt_later_is_not_heard_from_then_on() {
    let ears = ears("gitea");
    let inbound = ears.clone().reading();
    let body = fixture("gitea/issue_comment_created_command.json");
    let before = inbound.read("issue_comment", &body).unwrap();
    assert_eq!(before.verb, Verb::Command);
    ears.myself.learn(before.actor.unwrap());
    assert_eq!(inbound.read("issue_comment", &body).unwrap().verb, Verb::Ignore);
}
