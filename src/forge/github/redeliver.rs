//! Deliveries of an App's hook that never arrived: GitHub keeps them and sends none again by itself (forges.md, section 2.1).

use std::collections::HashMap;

use reqwest::Method;
use reqwest::header::LINK;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use url::Url;

use super::app::App;
use crate::domain::Actor;
use crate::forge::ForgeError;
use crate::forge::answer::Answer;
use crate::forge::http::{Call, read};

const MOST_PAGES: usize = 20;
const MOST_TRIES: usize = 3;

/// One try of a delivery. A repeated one has the same `guid` and another `id`.
#[derive(Deserialize)]
struct Try {
    id: i64,
    guid: String,
    delivered_at: String,
    status_code: u16,
}

#[derive(Deserialize)]
struct AppRow {
    slug: String,
}

impl App {
    pub(super) async fn account(&self) -> Result<Actor, ForgeError> {
        let row: AppRow = self.http.get("our own app".to_owned(), &["app"]).await?;
        Ok(Actor { id: String::new(), login: format!("{}[bot]", row.slug), is_bot: true })
    }

    pub(super) async fn redeliver_failed(&self, since_ms: i64) -> Result<u64, ForgeError> {
        let mut asked = 0;
        for id in lost(self.tries(since_ms).await?) {
            let path = ["app", "hook", "deliveries", &id.to_string(), "attempts"];
            self.http
                .send(&Call::new(format!("asking for delivery {id} again"), Method::POST, &path).creating(serde_json::json!({})))
                .await?;
            asked += 1;
        }
        Ok(asked)
    }

    /// Every try since then, the newest first.
    async fn tries(&self, since_ms: i64) -> Result<Vec<Try>, ForgeError> {
        let what = "deliveries of the app's hook";
        let (mut tries, mut cursor) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let mut query = vec![("per_page", "100".to_owned())];
            query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let answer = self.http.send(&Call::new(what.to_owned(), Method::GET, &["app", "hook", "deliveries"]).asking(query)).await?;
            let rows: Vec<Try> = read(what, &answer)?;
            let count = rows.len();
            let of_late = rows.into_iter().filter(|row| at_ms(&row.delivered_at).is_none_or(|at| at >= since_ms)).collect::<Vec<_>>();
            let all = of_late.len() == count;
            tries.extend(of_late);
            cursor = next_cursor(&answer);
            if !all || cursor.is_none() {
                break;
            }
        }
        Ok(tries)
    }
}

/// The newest try of each delivery that never got through and was not tried too often.
fn lost(tries: Vec<Try>) -> Vec<i64> {
    let mut deliveries: HashMap<String, Vec<Try>> = HashMap::new();
    for one in tries {
        deliveries.entry(one.guid.clone()).or_default().push(one);
    }
    let failed = |tries: &Vec<Try>| tries.len() < MOST_TRIES && tries.iter().all(|one| !(200..300).contains(&one.status_code));
    let mut ids = deliveries.into_values().filter(failed).filter_map(|tries| tries.iter().map(|one| one.id).max()).collect::<Vec<_>>();
    ids.sort_unstable();
    ids
}

fn at_ms(text: &str) -> Option<i64> {
    Some(OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp() * 1000)
}

/// The cursor of the next page; the address around it is not used.
fn next_cursor(answer: &Answer) -> Option<String> {
    let links = answer.headers.get(LINK)?.to_str().ok()?;
    let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    let url = Url::parse(next.trim().strip_prefix('<')?.split_once('>')?.0).ok()?;
    url.query_pairs().find(|(key, _)| key == "cursor").map(|(_, value)| value.into_owned())
}
