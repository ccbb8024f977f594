//! What an answer of a forge means: good, final, or "later" (forges.md, sections 2.5, 4.4 and 6.12).

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, LOCATION, RETRY_AFTER};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::ForgeError;

const LONGEST_MESSAGE: usize = 200;

/// No forge means to be left alone for longer: a number beyond it is nonsense, and must not put a run off for ever.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// GitHub's words to an App whose installation somebody has suspended: all that it saw is hidden from it.
const SUSPENDED: &str = "installation has been suspended";

/// One answer, read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// Why an answer is not the one that was wanted.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It will be the same the next time.
    Final(ForgeError),
    /// A later try may work.
    Later {
        /// What happened.
        message: String,
        /// How long the forge asks us to wait.
        wait: Option<Duration>,
    },
    /// A limit on the number of calls was hit: nothing was done, and nobody should ask before its time.
    Limited {
        /// What happened.
        message: String,
        /// How long the forge asks us to wait, if it says so.
        wait: Option<Duration>,
    },
}

impl Answer {
    /// The answer itself when it is a success, else the trouble with this answer to `what`.
    pub(super) fn trouble(self, what: &str) -> Result<Self, Trouble> {
        if self.status.is_success() {
            return Ok(self);
        }
        let what = what.to_owned();
        let message = format!("status {}: {}", self.status.as_u16(), self.message());
        Err(match self.status.as_u16() {
            300..=399 => Trouble::Final(ForgeError::NotFound { what: self.moved(&what) }),
            404 | 410 => Trouble::Final(ForgeError::NotFound { what }),
            429 => Trouble::Limited { message, wait: self.wait() },
            403 if self.is_limit() => Trouble::Limited { message, wait: self.wait() },
            403 if self.message().contains(SUSPENDED) => {
                Trouble::Final(ForgeError::NotFound { what: format!("{what} (the app's installation is suspended)") })
            }
            401 | 403 => Trouble::Final(ForgeError::Denied { what, message }),
            408 | 500..=599 => Trouble::Later { message, wait: self.wait() },
            _ => Trouble::Final(ForgeError::Rejected { what, message }),
        })
    }

    /// Whether no page follows, where the forge says so (GitLab's `x-next-page`, empty on the last).
    pub(super) fn is_last_page(&self) -> Option<bool> {
        self.header("x-next-page").map(|next| next.trim().is_empty())
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The allowance is used up: GitHub and GitLab say so by headers of their own names.
    fn is_spent(&self) -> bool {
        ["x-ratelimit-remaining", "ratelimit-remaining"].iter().any(|name| self.header(name).is_some_and(|left| left.trim() == "0"))
    }

    fn is_limit(&self) -> bool {
        self.headers.contains_key(RETRY_AFTER)
            || self.is_spent()
            || ["rate limit", "abuse detection"].iter().any(|words| self.message().contains(words))
    }

    /// The forge's own time, in milliseconds since the epoch.
    pub(super) fn time_ms(&self) -> Option<i64> {
        Some(self.date()?.unix_timestamp() * 1000)
    }

    fn date(&self) -> Option<OffsetDateTime> {
        OffsetDateTime::parse(self.header(DATE.as_str())?, &Rfc2822).ok()
    }

    /// How long the forge asks us to wait: `Retry-After` in seconds or as a date, else the end of its used-up allowance.
    fn wait(&self) -> Option<Duration> {
        let Some(text) = self.header(RETRY_AFTER.as_str()) else { return self.spent_for() };
        let seconds = text.trim().parse().ok().map(|seconds| Duration::from_secs(seconds).min(LONGEST_WAIT));
        seconds.or_else(|| OffsetDateTime::parse(text, &Rfc2822).ok().and_then(|then| self.until(then)))
    }

    /// For how long the allowance stays used up; none while something is left of it.
    pub(super) fn spent_for(&self) -> Option<Duration> {
        let reset = ["x-ratelimit-reset", "ratelimit-reset"].iter().find_map(|name| self.header(name)).filter(|_| self.is_spent())?;
        self.until(OffsetDateTime::from_unix_timestamp(reset.trim().parse().ok()?).ok()?)
    }

    /// Times count from the answer's own, so that its clock need not agree with ours.
    fn until(&self, then: OffsetDateTime) -> Option<Duration> {
        Some(Duration::try_from(then - self.date()?).unwrap_or_default().min(LONGEST_WAIT))
    }

    fn moved(&self, what: &str) -> String {
        let place = self.header(LOCATION.as_str()).map_or_else(|| "another place".to_owned(), shorten);
        format!("{what} (moved to {place}; such pointers are not followed: is the repository renamed, or the forge's address wrong?)")
    }

    /// The forge's own words: the message and its details where it answers JSON as forges do, else the text.
    fn message(&self) -> String {
        let complaint = serde_json::from_slice::<Value>(&self.body).map(|body| words_of(&body)).unwrap_or_default();
        if !complaint.is_empty() {
            return shorten(&complaint.join("; "));
        }
        shorten(&String::from_utf8_lossy(&self.body[..self.body.len().min(4 * LONGEST_MESSAGE)]))
    }
}

/// The words of a complaint: GitHub's, Gitea's and Forgejo's `{message, errors}`, and GitLab's `{message: text | list | {field: list}}` or
/// `{error, error_description}`.
fn words_of(body: &Value) -> Vec<String> {
    let detail = |detail: &Value| detail["message"].as_str().or(detail["code"].as_str()).or(detail.as_str()).map(str::to_owned);
    let mut words = match &body["message"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(texts) => texts.iter().filter_map(detail).collect(),
        Value::Object(fields) => fields.iter().map(|(field, texts)| format!("{field} {}", listed(texts))).collect(),
        _ => Vec::new(),
    };
    words.extend(body["errors"].as_array().into_iter().flatten().filter_map(detail));
    words.extend([&body["error"], &body["error_description"]].into_iter().filter_map(|text| text.as_str().map(str::to_owned)));
    words
}

fn listed(texts: &Value) -> String {
    match texts {
        Value::Array(texts) => texts.iter().map(|text| text.as_str().unwrap_or_default()).collect::<Vec<_>>().join(", "),
        text => text.as_str().unwrap_or_default().to_owned(),
    }
}

/// At most 200 characters in one line, without control characters.
pub(super) fn shorten(text: &str) -> String {
    let words = text.split(|character: char| character.is_whitespace() || character.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest::StatusCode;
    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    use super::{Answer, Trouble, shorten};
    use crate::forge::ForgeError;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect::<HeaderMap>();
        Answer { status: StatusCode::from_u16(status).unwrap(), headers, body: body.as_bytes().to_vec() }
    }

    fn kind(trouble: Result<Answer, Trouble>) -> &'static str {
        match trouble {
            Ok(_) => "good",
            Err(Trouble::Later { .. }) => "later",
            Err(Trouble::Limited { .. }) => "limited",
            Err(Trouble::Final(ForgeError::NotFound { .. })) => "not found",
            Err(Trouble::Final(ForgeError::Denied { .. })) => "denied",
            Err(Trouble::Final(ForgeError::Rejected { .. })) => "rejected",
            Err(Trouble::Final(_)) => "other",
        }
    }

    #[test]
    fn statuses_mean_what_the_forges_say() {
        let table = [
            (200, "good"),
            (201, "good"),
            (204, "good"),
            (301, "not found"),
            (307, "not found"),
            (400, "rejected"),
            (401, "denied"),
            (403, "denied"),
            (404, "not found"),
            (408, "later"),
            (409, "rejected"),
            (410, "not found"),
            (413, "rejected"),
            (422, "rejected"),
            (423, "rejected"),
            (429, "limited"),
            (500, "later"),
            (502, "later"),
            (503, "later"),
        ];
        for (status, wanted) in table {
            assert_eq!(kind(answer(status, &[], "{}").trouble("x")), wanted, "{status}");
        }
        assert_eq!(kind(answer(403, &[("retry-after", "5")], "").trouble("x")), "limited");
        assert_eq!(kind(answer(403, &[("x-ratelimit-remaining", "0")], "").trouble("x")), "limited");
        assert_eq!(kind(answer(403, &[("x-ratelimit-remaining", "7")], "").trouble("x")), "denied");
        for words in ["You have exceeded a secondary rate limit.", "You have triggered an abuse detection mechanism."] {
            assert_eq!(kind(answer(403, &[], &format!(r#"{{"message": "{words}"}}"#)).trouble("x")), "limited", "{words}");
        }
    }

    fn wait(status: u16, headers: &[(&str, &str)]) -> Option<Duration> {
        match answer(status, headers, "").trouble("x") {
            Err(Trouble::Later { wait, .. } | Trouble::Limited { wait, .. }) => wait,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_forge_says_how_long_to_wait() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(wait(429, &[("retry-after", "17")]), Some(Duration::from_secs(17)));
        assert_eq!(wait(503, &[date, ("retry-after", "Sun, 06 Nov 1994 08:50:00 GMT")]), Some(Duration::from_secs(23)));
        assert_eq!(wait(503, &[date, ("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(Duration::ZERO));
        let spent = ("x-ratelimit-remaining", "0");
        assert_eq!(wait(403, &[date, spent, ("x-ratelimit-reset", "784111787")]), Some(Duration::from_secs(10)));
        assert_eq!(wait(429, &[date, ("ratelimit-remaining", "0"), ("ratelimit-reset", "784111787")]), Some(Duration::from_secs(10)));
        assert_eq!(wait(403, &[spent, ("x-ratelimit-reset", "784111787")]), None);
        assert_eq!(wait(429, &[("retry-after", "soon")]), None);
        for nonsense in ["99999999999", "18446744073709551615", "Sun, 06 Nov 9994 08:50:00 GMT"] {
            assert_eq!(wait(503, &[date, ("retry-after", nonsense)]), Some(Duration::from_hours(24)), "{nonsense}");
        }
        assert_eq!(wait(429, &[date, spent, ("x-ratelimit-reset", "99999999999")]), Some(Duration::from_hours(24)));
        assert_eq!(wait(500, &[]), None);
    }

    #[test]
    fn the_forges_words_are_short_and_plain() {
        let body = r#"{"message": "Validation Failed", "errors": [{"code": "custom", "message": "A pull request already exists for o:b."}, {"code": "missing"}, "plain"]}"#;
        let Err(Trouble::Final(error)) = answer(422, &[], body).trouble("pull request") else { panic!() };
        assert_eq!(
            error.to_string(),
            "pull request: the forge does not accept it (status 422: Validation Failed; A pull request already exists for o:b.; missing; plain)"
        );
        for (body, words) in [
            (r#"{"message": "404 Project Not Found"}"#, "404 Project Not Found"),
            (
                r#"{"message": ["Another open merge request already exists for this source branch: !7"]}"#,
                "already exists for this source branch: !7",
            ),
            (r#"{"message": {"title": ["is too long", "is odd"], "base": ["no"]}}"#, "title is too long, is odd; base no"),
            (r#"{"error": "insufficient_scope", "error_description": "needs more"}"#, "insufficient_scope; needs more"),
            (r#"{"error": "title is missing"}"#, "title is missing"),
            ("Retry later\n", "Retry later"),
            ("{}", "{}"),
        ] {
            assert!(answer(400, &[], body).message().contains(words), "{body}");
        }
        assert_eq!(shorten("a\u{1b}[31m\n\0b\tc"), "a [31m b c");
        assert_eq!(shorten(&"ü".repeat(300)).chars().count(), 201);
        assert!(answer(500, &[], &"<p>".repeat(100_000)).message().len() < 300);
    }

    #[test]
    fn a_new_place_is_named_and_not_followed() {
        let moved = answer(301, &[("location", "https://elsewhere.example/x")], "").trouble("repository o/n");
        let Err(Trouble::Final(error @ ForgeError::NotFound { .. })) = moved else { panic!() };
        assert!(error.to_string().contains("https://elsewhere.example/x"));
    }
}
