//! What the tools' schemas say: whose name is meant, and what type a value has.

use serde_json::{Map, Number, Value};

/// The tools that a call may name, read from the `tools` of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tools {
    list: Vec<Tool>,
}

/// One tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tool {
    pub name: String,
    plain: String,
    parameters: Vec<Parameter>,
    required: Vec<String>,
}

/// One parameter of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameter {
    pub name: String,
    plain: String,
    kind: Kind,
}

/// What a parameter's value is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    Object,
    List,
}

impl Tools {
    /// Reads a request's `tools`; what is no function is left out.
    #[must_use]
    pub fn of(schemas: &Value) -> Self {
        Self { list: schemas.as_array().into_iter().flatten().filter_map(Tool::of).collect() }
    }

    /// Whether one of them has this very name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.list.iter().any(|tool| tool.name == name)
    }

    /// The tool whose name has the same letters and digits.
    pub(super) fn find(&self, name: &str) -> Option<&Tool> {
        let plain = plain(name);
        self.list.iter().find(|tool| tool.plain == plain)
    }
}

impl Tool {
    fn of(schema: &Value) -> Option<Self> {
        let function = schema.get("function")?;
        let name = function.get("name")?.as_str()?;
        let properties = function.pointer("/parameters/properties").and_then(Value::as_object);
        let required = function.pointer("/parameters/required").and_then(Value::as_array);
        Some(Self {
            name: name.to_owned(),
            plain: plain(name),
            parameters: properties.into_iter().flatten().map(|(name, schema)| Parameter::of(name, schema)).collect(),
            required: required.into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect(),
        })
    }

    /// The parameter whose name has the same letters and digits.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        let plain = plain(name);
        self.parameters.iter().find(|parameter| parameter.plain == plain)
    }

    /// Whether every required parameter is there.
    pub fn is_satisfied_by(&self, arguments: &Map<String, Value>) -> bool {
        self.required.iter().all(|name| arguments.contains_key(name))
    }
}

impl Parameter {
    fn of(name: &str, schema: &Value) -> Self {
        let kind = match schema.get("type").and_then(Value::as_str) {
            Some("integer") => Kind::Integer,
            Some("number") => Kind::Number,
            Some("boolean") => Kind::Boolean,
            Some("object") => Kind::Object,
            Some("array") => Kind::List,
            _ => Kind::Text,
        };
        Self { name: name.to_owned(), plain: plain(name), kind }
    }

    /// The value that a text stands for. What does not fit the type stays the text as it is, so that the tool answers in its own words.
    pub fn value(&self, text: &str) -> Value {
        if self.kind == Kind::Text {
            return Value::String(text.to_owned());
        }
        let word = text.trim();
        if word.eq_ignore_ascii_case("null") || word.eq_ignore_ascii_case("none") {
            return Value::Null;
        }
        let read = match self.kind {
            Kind::Text => None,
            Kind::Integer => integer(word),
            Kind::Number => integer(word).or_else(|| decimal(word)),
            Kind::Boolean => boolean(word),
            Kind::Object => serde_json::from_str(word).ok().filter(Value::is_object),
            Kind::List => serde_json::from_str(word).ok().filter(Value::is_array),
        };
        read.unwrap_or_else(|| Value::String(text.to_owned()))
    }
}

/// A name's letters and digits in lower case: all that names are compared by.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn integer(word: &str) -> Option<Value> {
    word.parse::<i64>().ok().map(Value::from)
}

fn decimal(word: &str) -> Option<Value> {
    let looks_like_one = word.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let number = if looks_like_one { word.parse::<f64>().ok() } else { None };
    number.and_then(Number::from_f64).map(Value::Number)
}

fn boolean(word: &str) -> Option<Value> {
    [true, false].into_iter().find(|value| word.eq_ignore_ascii_case(if *value { "true" } else { "false" })).map(Value::Bool)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Tools, plain};

    fn tools() -> Tools {
        let types = ["string", "integer", "number", "boolean", "object", "array", "other"];
        let mut properties = serde_json::Map::new();
        for kind in types {
            properties.insert(format!("a_{kind}"), json!({"type": kind}));
        }
        properties.insert("a_bare".into(), json!({}));
        Tools::of(&json!([
            {"type": "function", "function": {"name": "Do_It", "parameters": {"properties": properties, "required": ["a_string", "a_number"]}}},
            {"function": {"name": "doit"}}, {"function": {}}, 7
        ]))
    }

    fn value(kind: &str, text: &str) -> Value {
        tools().find("doit").unwrap().parameter(&format!("a {kind}")).unwrap().value(text)
    }

    #[test]
    fn names_are_compared_by_letters_and_digits() {
        assert_eq!((plain("File_Path-2 /:.").as_str(), plain("Über_X").as_str()), ("filepath2", "überx"));
        for name in ["Do_It", "doIt", "do-it", "DO IT", "d.o/i:t"] {
            assert_eq!(tools().find(name).unwrap().name, "Do_It");
        }
        assert_eq!((tools().find("Do"), tools().find("doit2"), tools().find("")), (None, None, None));
        assert_eq!(tools().find("doit").unwrap().parameter("AString").unwrap().name, "a_string");
        assert!(tools().find("doit").unwrap().parameter("a").is_none());
    }

    #[test]
    fn what_is_no_schema_has_no_tools() {
        for schemas in [json!(null), json!({}), json!([]), json!([null, {"function": {"name": 4}}])] {
            assert_eq!(Tools::of(&schemas), Tools::default());
        }
    }

    #[test]
    fn required_parameters_are_looked_for() {
        let given = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
        let tools = tools();
        let tool = tools.find("doit").unwrap();
        assert!(tool.is_satisfied_by(&given(&["a_string", "a_number", "more"])));
        assert!(!tool.is_satisfied_by(&given(&["a_string"])));
    }

    #[test]
    fn a_text_is_never_read() {
        for text in ["42", " null ", "None", "true", "{\"a\": 1}", "", "\n"] {
            for kind in ["string", "other", "bare"] {
                assert_eq!(value(kind, text), json!(text));
            }
        }
    }

    #[test]
    fn every_other_type_is_null_for_null_or_none() {
        for kind in ["integer", "number", "boolean", "object", "array"] {
            for text in ["null", "None", " NULL\n", "none"] {
                assert_eq!(value(kind, text), Value::Null, "{kind} {text}");
            }
            for text in ["nil", "", " ", "null!"] {
                assert_eq!(value(kind, text), json!(text), "{kind} {text}");
            }
        }
    }

    #[test]
    fn integers_are_digits_with_a_sign_within_64_bits() {
        for (text, number) in [("5", 5), (" +7 ", 7), ("-3", -3), ("007", 7), ("9223372036854775807", i64::MAX)] {
            assert_eq!(value("integer", text), json!(number));
        }
        for text in ["9223372036854775808", "2.5", "2.0", "1e3", "1_000", "two", "+", "0x10", "5 6", "٣", "true"] {
            assert_eq!(value("integer", text), json!(text));
        }
    }

    #[test]
    fn numbers_are_decimals_too_and_whole_ones_stay_whole() {
        assert_eq!(value("number", "600").to_string(), "600");
        assert_eq!(value("number", "-2").to_string(), "-2");
        for (text, number) in [("2.5", 2.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), (" -1.5E-1 ", -0.15), ("+0.5", 0.5)] {
            assert_eq!(value("number", text), json!(number), "{text}");
        }
        for text in ["inf", "NaN", "1e999", "1,5", "2.5s", ".", "e", "-", "1e"] {
            assert_eq!(value("number", text), json!(text));
        }
    }

    #[test]
    fn booleans_are_the_two_words_in_any_case() {
        for (text, truth) in [("true", true), ("True", true), (" FALSE\n", false), ("fAlse", false)] {
            assert_eq!(value("boolean", text), json!(truth));
        }
        for text in ["yes", "1", "0", "t", " on "] {
            assert_eq!(value("boolean", text), json!(text));
        }
    }

    #[test]
    fn lists_and_objects_are_json_of_their_kind() {
        assert_eq!(value("object", " {\"a\": [1]} "), json!({"a": [1]}));
        assert_eq!(value("array", "[1, {}]"), json!([1, {}]));
        assert_eq!(value("object", "[1]"), json!("[1]"));
        assert_eq!(value("array", "{}"), json!("{}"));
        assert_eq!(value("array", "[1,]"), json!("[1,]"));
    }
}
