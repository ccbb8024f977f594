//! A query that grows by its conditions.

use sqlx::Any;
use sqlx::any::AnyArguments;
use sqlx::query::Query;

/// The text of a query and what is bound to it.
#[derive(Debug, Default)]
pub(super) struct Sql {
    text: String,
    values: Vec<Value>,
}

#[derive(Debug)]
enum Value {
    Number(i64),
    Text(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(super::super::plain(text))
    }
}

#[expect(private_bounds, reason = "only numbers and texts are bound, by this file")]
impl Sql {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), values: Vec::new() }
    }

    pub(super) fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    pub(super) fn bind(&mut self, value: impl Into<Value>) -> &mut Self {
        self.values.push(value.into());
        self.text.push_str(&format!("${}", self.values.len()));
        self
    }

    /// ` and COLUMN OPERATOR value`, where there is a value.
    pub(super) fn and(&mut self, comparison: &str, value: Option<impl Into<Value>>) -> &mut Self {
        match value {
            Some(value) => self.push(" and ").push(comparison).push(" ").bind(value),
            None => self,
        }
    }

    /// ` and` the repository is one of these, where there is a list.
    pub(super) fn and_within(&mut self, within: Option<&[String]>) -> &mut Self {
        let Some(within) = within else { return self };
        let mut named = within.iter().filter_map(|name| name.split_once('/')).collect::<Vec<_>>();
        named.truncate(MOST_REPOSITORIES);
        match named.as_slice() {
            [] => self.push(" and 1 = 0"),
            [(forge, id)] => self.push(" and forge = ").bind(*forge).push(" and repo_id = ").bind(*id),
            all => {
                self.push(" and (forge, repo_id) in (values ");
                for (at, (forge, id)) in all.iter().enumerate() {
                    self.push(if at == 0 { "(" } else { ", (" }).bind(*forge).push(", ").bind(*id).push(")");
                }
                self.push(")")
            }
        }
    }

    pub(super) fn query(&self) -> Query<'_, Any, AnyArguments> {
        let query = sqlx::query(sqlx::AssertSqlSafe(self.text.clone()));
        self.values.iter().fold(query, |query, value| match value {
            Value::Number(number) => query.bind(*number),
            Value::Text(text) => query.bind(text.clone()),
        })
    }
}

/// A list of more repositories is cut: no database takes any number of values.
const MOST_REPOSITORIES: usize = 10_000;
