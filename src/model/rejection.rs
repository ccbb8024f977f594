//! The words with which servers refuse a request (toolcalls.md, "Answers of the servers").
//!
//! A full context must be told from every other refusal: it ends a run with its work kept, where the others would lose it.

use serde_json::Value;

/// No more than so many characters of a server's own words are passed on.
const EXCERPT_CHARS: usize = 300;

/// What a server says in the body of an error, in any of the known forms.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    /// Its message; empty where the body holds none that we know.
    pub message: String,
    /// Everything it could be recognised by, in lower case.
    words: String,
}

impl Complaint {
    /// Reads SGLang's form (top level), vLLM's and llama.cpp's (`error`), FastAPI's (`detail`), or plain text. Of JSON only the message, the
    /// type and the code are looked at: a validation error may echo the whole conversation.
    pub fn read(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&body[..body.len().min(64 * 1024)]).into_owned();
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            let message = if looks_like_html(&text) { String::new() } else { text.clone() };
            return Self { message, words: text.to_lowercase() };
        };
        let inner = json.get("error").filter(|error| !error.is_null()).unwrap_or(&json);
        let field = |key: &str| inner.get(key).or_else(|| json.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned();
        let first_detail = json.pointer("/detail/0/msg").and_then(Value::as_str).unwrap_or_default().to_owned();
        let message = [inner.as_str().unwrap_or_default().to_owned(), field("message"), field("detail"), first_detail];
        let message = message.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        let words = [&message, &field("type"), &field("code")].map(|part| part.to_lowercase()).join("\n");
        Self { message, words }
    }

    /// The message for people: one line, shortened.
    pub fn excerpt(&self) -> String {
        let line = self.message.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(EXCERPT_CHARS) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }

    /// Whether the request did not fit the context, in the words of SGLang, vLLM, llama.cpp and the reference's own markers.
    pub fn is_context_full(&self) -> bool {
        let words = self.words.as_str();
        let any = |marks: &[&str]| marks.iter().any(|mark| words.contains(mark));
        let too_large_a_cap = any(&["this model supports at most", "cannot be greater than max_model_len"]);
        let named = any(&[
            "context_length_exceeded",
            "exceed_context_size_error",
            "reduce the length",
            "maximum context length",
            "longer than the model's context length",
            "exceeds the available context size",
        ]);
        !too_large_a_cap && (named || (words.contains("context length") && words.contains("exceed")) || exceeds_a_count_of_tokens(words))
    }

    /// llama.cpp's answer, with the status of an outage, to messages or tools that it can't read: asking again would not help.
    pub fn refuses_the_request(&self) -> bool {
        ["failed to parse messages", "failed to parse tools"].iter().any(|mark| self.words.contains(mark))
    }

    /// llama.cpp's answer when what the model wrote does not fit its grammar: the model's slip, no outage.
    pub fn is_format_slip(&self) -> bool {
        ["failed to parse input at pos", "does not match the expected"].iter().any(|mark| self.words.contains(mark))
    }
}

/// SGLang's `Input length (N tokens) exceeds the … (L tokens)` in its wordings over time.
fn exceeds_a_count_of_tokens(words: &str) -> bool {
    words.split_once(" tokens)").and_then(|(_, rest)| rest.split_once(" exceeds the ")).is_some_and(|(_, rest)| {
        let sentence = rest.split(". ").next().unwrap_or_default();
        sentence
            .split_once('(')
            .is_some_and(|(_, count)| count.trim_start_matches(|digit: char| digit.is_ascii_digit()).starts_with(" tokens)"))
    })
}

/// Whether a text is a web page.
pub(super) fn looks_like_html(text: &str) -> bool {
    let start: String = text.trim_start_matches('\u{feff}').trim_start().chars().take(15).collect::<String>().to_lowercase();
    ["<!doctype", "<html", "<head", "<body", "<?xml"].iter().any(|tag| start.starts_with(tag))
}

#[cfg(test)]
mod tests {
    use super::Complaint;

    fn sglang(message: &str) -> Complaint {
        let body = serde_json::json!({"object": "error", "message": message, "type": "BadRequestError", "param": null, "code": 400});
        Complaint::read(body.to_string().as_bytes())
    }

    fn nested(message: &str, kind: &str) -> Complaint {
        let body = serde_json::json!({"error": {"message": message, "type": kind, "code": 400}});
        Complaint::read(body.to_string().as_bytes())
    }

    #[test]
    fn every_server_s_words_for_a_full_context_are_known() {
        let said = [
            "The input (140000 tokens) is longer than the model's context length (131072 tokens).",
            "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 131073 tokens: 122881 \
             tokens from the input messages and 8192 tokens for the completion. Please reduce the number of tokens in the input messages or \
             the completion to fit within the limit.",
            "Input length (140000 tokens) exceeds the maximum allowed length (131066 tokens). Use a shorter input or enable \
             --allow-auto-truncate.",
            "Input length (140000 tokens) of the prompt exceeds the capacity of the pool (131066 tokens). Use a shorter input.",
            "This model's maximum context length is 131072 tokens. However, you requested 131073 tokens (122881 in the messages, 8192 in the \
             completion). Please reduce the length of the messages or completion.",
            "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 131072 tokens and your \
             request has 122881 input tokens (8192 > 131072 - 122881).",
            "You passed 122881 input tokens and requested 8192 output tokens. However, the model's context length is only 131072 tokens, \
             resulting in a maximum input length of 122880 tokens. Please reduce the length of the input prompt.",
            "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
            "the request exceeds the available context size, try increasing it",
            "THE CONTEXT LENGTH WAS EXCEEDED",
            "error: context_length_exceeded",
        ];
        for message in said {
            assert!(sglang(message).is_context_full(), "{message}");
            assert!(nested(&message.to_uppercase(), "BadRequestError").is_context_full(), "{message}");
            assert!(Complaint::read(message.as_bytes()).is_context_full(), "{message}");
        }
        assert!(nested("no words that we know", "exceed_context_size_error").is_context_full());
    }

    #[test]
    fn a_cap_above_what_the_server_allows_is_configuration_and_no_full_context() {
        for message in [
            "max_completion_tokens is too large: 9000.This model supports at most 4096 completion tokens.",
            "max_tokens (9000) cannot be greater than max_model_len (4096). Please request fewer output tokens.",
            "Assistant tool call function.arguments must be valid JSON.",
            "The file (12 tokens) is fine; the temperature exceeds the maximum (2.0).",
        ] {
            assert!(!sglang(message).is_context_full(), "{message}");
        }
    }

    #[test]
    fn a_request_that_llama_cpp_can_t_read_is_no_slip_of_the_model() {
        let unread = nested("Failed to parse messages: Missing 'role' in message: {}", "server_error");
        assert_eq!((unread.refuses_the_request(), unread.is_format_slip()), (true, false));
        let slip = nested("Failed to parse input at pos 3: <tool_call>", "server_error");
        assert_eq!((slip.refuses_the_request(), slip.is_format_slip()), (false, true));
    }

    #[test]
    fn messages_are_found_in_every_form_and_pages_are_not_quoted() {
        assert_eq!(sglang("top level").excerpt(), "top level");
        assert_eq!(nested("inside", "x").excerpt(), "inside");
        assert_eq!(Complaint::read(br#"{"error": "a bare word"}"#).excerpt(), "a bare word");
        assert_eq!(Complaint::read(br#"{"detail": "Not Found"}"#).excerpt(), "Not Found");
        let echo = br#"{"detail": [{"msg": "Field required", "input": "please reduce the length"}]}"#;
        assert_eq!((Complaint::read(echo).excerpt().as_str(), Complaint::read(echo).is_context_full()), ("Field required", false));
        assert_eq!(Complaint::read(b"upstream\n  connect error").excerpt(), "upstream connect error");
        assert_eq!(Complaint::read(b"<!DOCTYPE html><p>Sign in").excerpt(), "");
        assert_eq!(Complaint::read(b"").excerpt(), "");
        assert_eq!(sglang(&"x".repeat(5_000)).excerpt().chars().count(), 301);
    }
}
