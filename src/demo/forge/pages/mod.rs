//! Pages for people: what a reviewer would see on a real forge, without any script and without a login.
//!
//! Everything that somebody wrote is escaped, and the policy sent along lets a browser load nothing at all but the page's own style.

mod markdown;

use std::fmt::Write as _;

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

use super::state::{Issue, Pull, Repository, State, timestamp};
use super::wire::{Answer, Ask};
use super::{Account, Kind};
use crate::demo::git_backend;

const STYLE: &str = include_str!("style.css");

/// The most lines of a diff that are shown.
const DIFF_LINES: usize = 5_000;

/// Answers a request for a page; none when there is no such kind of page.
pub(super) fn answer(state: &State, ask: &Ask, path: &[&str]) -> Option<Answer> {
    if !matches!(ask.method.as_str(), "GET" | "HEAD") {
        return None;
    }
    match path {
        [""] => Some(page(state, 200, "Repositories", &index(state))),
        ["favicon.ico"] => Some(Answer::empty(204)),
        [repository @ .., "-", page @ ("issues" | "merge_requests"), number] if state.kind == Kind::GitLab => {
            Some(issue_page(state, &repository.join("/"), *page == "merge_requests", number))
        }
        [_, _] => Some(repository_page(state, &path.join("/"))),
        [repository @ .., "issues" | "pulls"] if repository.len() == 2 => Some(repository_page(state, &repository.join("/"))),
        [repository @ .., page @ ("issues" | "pulls" | "pull"), number] if repository.len() == 2 => {
            Some(issue_page(state, &repository.join("/"), *page != "issues", number))
        }
        path if state.repository(&path.join("/")).is_some() => Some(repository_page(state, &path.join("/"))),
        _ => None,
    }
}

/// Text as HTML shows it, in elements and in quoted attributes.
fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut html, letter| {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
        html
    })
}

fn page(state: &State, status: u16, title: &str, main: &str) -> Answer {
    let played = match state.kind {
        Kind::Gitea => "Gitea",
        Kind::Forgejo => "Forgejo",
        Kind::GitHub => "GitHub",
        Kind::GitLab => "GitLab",
    };
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{} · demonstration forge</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <div class=\"banner\" role=\"note\">This is the demonstration forge built into frognano-bot. It speaks {played}'s API, but it is not {played}.</div>\n\
         <main>\n{main}</main>\n</body>\n</html>\n",
        escaped(title),
    );
    let style_hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE));
    let policy =
        format!("default-src 'none'; style-src 'sha256-{style_hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    let headers = [
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Security-Policy", policy.as_str()),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
    ];
    Answer::empty(status).with(headers.map(|(name, value)| (name.to_owned(), value.to_owned()))).with_body(html.into_bytes())
}

fn missing(state: &State) -> Answer {
    page(state, 404, "Not found", "<h1>Not found</h1>\n<p>There is nothing here. <a href=\"/\">All repositories</a></p>\n")
}

/// A page with one sentence.
pub(super) fn notice(state: &State, status: u16, words: &str) -> Answer {
    page(state, status, "Sign in", &format!("<h1>Sign in</h1>\n<p>{}</p>\n", escaped(words)))
}

/// The page on which somebody says who they are; nobody is asked for a password.
pub(super) fn people(state: &State, ask: &Ask) -> Answer {
    let link = |login: &str| {
        let others = ask.query.iter().filter(|(key, _)| key != "as");
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(others).append_pair("as", login).finish();
        format!("{}?{}", escaped(&ask.raw_path), escaped(&query))
    };
    let people = state.users.iter().filter(|user| user.account == Account::Person);
    let rows = people.fold(String::new(), |mut rows, user| {
        let _ = writeln!(rows, "<li><a href=\"{}\">{}</a></li>", link(&user.login), escaped(&user.login));
        rows
    });
    page(state, 200, "Sign in", &format!("<h1>Who are you?</h1>\n<ul class=\"list\">\n{rows}</ul>\n"))
}

fn index(state: &State) -> String {
    let rows = state.repositories.iter().fold(String::new(), |mut rows, repository| {
        let path = escaped(&repository.path);
        let _ = writeln!(rows, "<li><a href=\"/{path}\">{path}</a></li>");
        rows
    });
    format!("<h1>Repositories</h1>\n<ul class=\"list\">\n{rows}</ul>\n")
}

fn repository_page(state: &State, path: &str) -> Answer {
    let Some(repository) = state.repository(path) else { return missing(state) };
    let rows = repository.issues.iter().rev().fold(String::new(), |mut rows, issue| {
        let (address, title) = (address(state, repository, issue), escaped(&issue.title));
        let _ = writeln!(
            rows,
            "<li>{} <a href=\"{address}\">{title}</a> <span class=\"number\">#{}</span></li>",
            badges(state, issue),
            issue.number
        );
        rows
    });
    let (path, branch) = (escaped(&repository.path), escaped(&repository.default_branch));
    let main = format!(
        "<p><a href=\"/\">Repositories</a></p>\n<h1>{path}</h1>\n<p class=\"meta\">Default branch {branch}</p>\n\
         <h2>Issues and pull requests</h2>\n<ul class=\"list\">\n{rows}</ul>\n"
    );
    page(state, 200, &repository.path, &main)
}

/// Confidential issues have no page: nobody is logged in here.
fn issue_page(state: &State, path: &str, of_pull: bool, number: &str) -> Answer {
    let of_this_kind = |issue: &&Issue| state.kind != Kind::GitLab || issue.pull.is_some() == of_pull;
    let has_number = |issue: &&Issue| issue.number.to_string() == number && !issue.confidential && of_this_kind(issue);
    let found = state.repository(path).and_then(|repository| Some((repository, repository.issues.iter().find(has_number)?)));
    let Some((repository, issue)) = found else { return missing(state) };
    let path = escaped(&repository.path);
    let mut main = format!(
        "<p><a href=\"/{path}\">{path}</a></p>\n<h1>{} <span class=\"number\">#{}</span></h1>\n<p class=\"meta\">{} opened by {} on {}{}</p>\n",
        escaped(&issue.title),
        issue.number,
        badges(state, issue),
        escaped(&issue.author),
        timestamp(issue.created_ms),
        issue.pull.as_ref().map(|pull| branches(repository, issue, pull)).unwrap_or_default(),
    );
    main.push_str(&card(&issue.author, issue.created_ms, &issue.body));
    for comment in &issue.comments {
        main.push_str(&card(&comment.author, comment.created_ms, &comment.body));
    }
    if let Some(pull) = &issue.pull {
        let _ = write!(main, "<h2>Changes</h2>\n<div class=\"card\">{}</div>\n", changes(repository, issue, pull));
    }
    page(state, 200, &issue.title, &main)
}

fn address(state: &State, repository: &Repository, issue: &Issue) -> String {
    let kind = if issue.pull.is_some() { state.kind.pulls_page() } else { state.kind.issues_page() };
    format!("/{}/{kind}/{}", escaped(&repository.path), issue.number)
}

fn badges(state: &State, issue: &Issue) -> String {
    let word = if issue.open { "open" } else { "closed" };
    let mut badges = format!("<span class=\"badge {word}\">{word}</span>");
    if issue.pull.as_ref().is_some_and(|pull| state.is_draft(issue, pull)) {
        badges.push_str(" <span class=\"badge draft\">draft</span>");
    }
    if issue.pull.is_some() {
        badges.push_str(" pull request");
    }
    for label in &issue.labels {
        let _ = write!(badges, " <span class=\"label\">{}</span>", escaped(&label.name));
    }
    badges
}

fn branches(repository: &Repository, issue: &Issue, pull: &Pull) -> String {
    let sha = repository.head_sha(issue, pull);
    let short = escaped(sha.get(..10).unwrap_or(&sha));
    format!(", from <code>{}</code> ({short}) into <code>{}</code>", escaped(&pull.head), escaped(&pull.base))
}

fn card(author: &str, at_ms: i64, text: &str) -> String {
    let (author, at, text) = (escaped(author), timestamp(at_ms), markdown::html(text));
    format!("<article class=\"card\"><header>{author} wrote on {at}</header><div class=\"text\">{text}</div></article>\n")
}

fn changes(repository: &Repository, issue: &Issue, pull: &Pull) -> String {
    let Some(base) = repository.branch_tip(&pull.base) else {
        return "<div class=\"text\"><p>The base branch is gone.</p></div>".to_owned();
    };
    match git_backend::diff(&repository.git_dir, &base, &repository.head_sha(issue, pull)) {
        Ok(diff) if diff.is_empty() => "<div class=\"text\"><p>No changes.</p></div>".to_owned(),
        Ok(diff) => coloured(&diff),
        Err(error) => format!("<div class=\"text\"><p>The changes can't be shown: {}</p></div>", escaped(&error.to_string())),
    }
}

fn coloured(diff: &str) -> String {
    let mut html = String::from("<pre class=\"diff\">");
    let mut in_hunk = false;
    for line in diff.lines().take(DIFF_LINES) {
        in_hunk = (in_hunk && !line.starts_with("diff --git ")) || line.starts_with("@@ ");
        let class = match line.as_bytes().first() {
            Some(b'@') => "hunk",
            _ if !in_hunk => "file",
            Some(b'+') => "add",
            Some(b'-') => "del",
            _ => "same",
        };
        let _ = write!(html, "<span class=\"{class}\">{}</span>", escaped(line));
    }
    if diff.lines().nth(DIFF_LINES).is_some() {
        html.push_str("<span class=\"file\">The rest is not shown.</span>");
    }
    html + "</pre>"
}
