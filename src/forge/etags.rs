//! Answers kept with their `ETag`: asking again costs the forge little, and on GitHub nothing of the allowance, when nothing changed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::StatusCode;
use reqwest::header::ETAG;

use super::answer::Answer;

const MOST_BYTES: usize = 16 << 20;
const LARGEST: usize = 1 << 20;

/// The answers, the oldest given up first.
#[derive(Default)]
pub(super) struct Etags(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    answers: HashMap<String, (String, Answer)>,
    order: VecDeque<String>,
    bytes: usize,
}

impl Etags {
    /// What to send as `If-None-Match` to this address.
    pub(super) fn tag(&self, url: &str) -> Option<String> {
        self.kept().answers.get(url).map(|(tag, _)| tag.clone())
    }

    /// The answer to go on with: the kept one where the forge says that it still holds, which is then as good as new.
    pub(super) fn settle(&self, url: &str, answer: Answer) -> Answer {
        let mut kept = self.kept();
        if answer.status == StatusCode::NOT_MODIFIED {
            return match kept.answers.get(url) {
                Some((_, before)) => Answer { status: before.status, body: before.body.clone(), headers: answer.headers },
                None => answer,
            };
        }
        kept.forget(url);
        let tag = answer.headers.get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        if let Some(tag) = tag.filter(|_| answer.status == StatusCode::OK && answer.body.len() <= LARGEST) {
            kept.keep(url, tag, &answer);
        }
        answer
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn keep(&mut self, url: &str, tag: String, answer: &Answer) {
        self.bytes += answer.body.len();
        self.order.push_back(url.to_owned());
        let copy = Answer { status: answer.status, headers: answer.headers.clone(), body: answer.body.clone() };
        self.answers.insert(url.to_owned(), (tag, copy));
        while self.bytes > MOST_BYTES {
            let Some(oldest) = self.order.front().cloned() else { break };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, url: &str) {
        if let Some((_, answer)) = self.answers.remove(url) {
            self.bytes -= answer.body.len();
            self.order.retain(|other| other != url);
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;
    use reqwest::header::{ETAG, HeaderMap, HeaderValue};

    use super::{Etags, LARGEST, MOST_BYTES};
    use crate::forge::answer::Answer;

    fn answer(status: u16, tag: Option<&'static str>, body: Vec<u8>) -> Answer {
        let headers = tag.map(|tag| (ETAG, HeaderValue::from_static(tag))).into_iter().collect::<HeaderMap>();
        Answer { status: StatusCode::from_u16(status).unwrap(), headers, body }
    }

    #[test]
    fn an_answer_that_still_holds_is_given_again() {
        let etags = Etags::default();
        assert_eq!(etags.settle("a", answer(200, Some("\"1\""), b"one".to_vec())).body, b"one");
        assert_eq!(etags.tag("a").as_deref(), Some("\"1\""));
        let again = etags.settle("a", answer(304, None, vec![]));
        assert_eq!((again.status.as_u16(), &*again.body), (200, &b"one"[..]));
        etags.settle("a", answer(404, Some("\"2\""), vec![]));
        assert_eq!(etags.tag("a"), None, "what is gone is not given again");
        assert_eq!(etags.settle("b", answer(304, None, vec![])).status.as_u16(), 304);
        etags.settle("b", answer(200, None, vec![]));
        assert_eq!(etags.tag("b"), None);
    }

    #[test]
    fn no_more_is_kept_than_has_room() {
        let etags = Etags::default();
        etags.settle("large", answer(200, Some("\"l\""), vec![0; LARGEST + 1]));
        assert_eq!(etags.tag("large"), None);
        for number in 0..=MOST_BYTES / LARGEST {
            etags.settle(&number.to_string(), answer(200, Some("\"x\""), vec![0; LARGEST]));
        }
        assert_eq!((etags.tag("0"), etags.tag("1").as_deref()), (None, Some("\"x\"")));
        assert!(etags.kept().bytes <= MOST_BYTES);
    }
}
