//! The model's own tokenizer, where one is configured: it counts what no server has counted yet.

use std::fmt;
use std::path::{Path, PathBuf};

/// A tokenizer read from a `tokenizer.json`.
#[derive(Clone)]
pub struct Tokenizer {
    file: PathBuf,
    #[cfg(feature = "tokenizer")]
    inner: std::sync::Arc<tokenizers::Tokenizer>,
}

impl Tokenizer {
    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with it, or that this program was built without tokenizers.
    #[cfg(feature = "tokenizer")]
    pub fn load(file: &Path) -> Result<Self, String> {
        let inner = tokenizers::Tokenizer::from_file(file).map_err(|error| format!("{} can't be read: {error}", file.display()))?;
        Ok(Self { file: file.to_owned(), inner: std::sync::Arc::new(inner) })
    }

    /// Reads the file.
    ///
    /// # Errors
    /// That this program was built without tokenizers.
    #[cfg(not(feature = "tokenizer"))]
    pub fn load(file: &Path) -> Result<Self, String> {
        Err(format!("{} can't be used: this program was built without `--features tokenizer`", file.display()))
    }

    /// So many tokens a text has; by its bytes where it can't be told.
    #[cfg(feature = "tokenizer")]
    pub(super) fn count(&self, text: &str) -> u64 {
        let count = self.inner.encode_fast(text, false).map(|encoding| encoding.len());
        count.ok().and_then(|count| u64::try_from(count).ok()).unwrap_or_else(|| (text.len() as u64).div_ceil(4))
    }

    /// By its bytes: without the feature there is no tokenizer to ask.
    #[cfg(not(feature = "tokenizer"))]
    #[allow(clippy::unused_self, reason = "the same shape as with the feature")]
    pub(super) const fn count(&self, text: &str) -> u64 {
        (text.len() as u64).div_ceil(4)
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Tokenizer").field(&self.file).finish()
    }
}

impl PartialEq for Tokenizer {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file
    }
}

impl Eq for Tokenizer {}

#[cfg(test)]
mod tests {
    use super::Tokenizer;

    #[cfg(feature = "tokenizer")]
    mod with_the_feature {
        use serde_json::json;

        use super::Tokenizer;
        use crate::leaf::context::Context;
        use crate::model::Usage;

        /// One token a word, as the simplest tokenizer has it.
        fn words() -> Tokenizer {
            let file = json!({
                "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
                "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
                "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
            });
            kept(&file)
        }

        fn kept(file: &serde_json::Value) -> Tokenizer {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("tokenizer.json");
            std::fs::write(&path, file.to_string()).unwrap();
            Tokenizer::load(&path).unwrap()
        }

        /// The parts that Qwen's file is made of, with a vocabulary of four.
        #[test]
        fn a_file_of_qwen_s_form_is_read() {
            let pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
            let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
            let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
            let file = json!({
                "version": "1.0", "truncation": null, "padding": null, "normalizer": {"type": "NFC"},
                "added_tokens": [{"id": 4, "content": "<|im_end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
                "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, bytes]}, "post_processor": bytes, "decoder": bytes,
                "model": {
                    "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                    "fuse_unk": false, "byte_fallback": false, "vocab": {"a": 0, "b": 1, "ab": 2, "\u{120}": 3}, "merges": [["a", "b"]],
                },
            });
            let tokenizer = kept(&file);
            assert_eq!(tokenizer.count("ab ab ba<|im_end|>"), 7);
        }

        #[test]
        fn it_counts_what_the_server_has_not_counted() {
            let words = words();
            assert_eq!(words.count("one two  three"), 3);
            let message = json!({"role": "user", "content": "a b c"});
            let mut context = Context::of(std::slice::from_ref(&message), &json!([]), 0, 1_000, Some(words));
            assert_eq!(context.tokens(), 4, "three words and the tools");
            context.add_turn(&message, None);
            assert_eq!(context.tokens(), 7);
            context.add_results(&[message.clone(), message.clone()]);
            assert_eq!(context.tokens(), 13);
            context.add_turn(&message, Some(Usage { prompt_tokens: 90, completion_tokens: 10, total_tokens: 100 }));
            assert_eq!(context.tokens(), 100, "a believable count of the server comes first");
            context.add_results(std::slice::from_ref(&message));
            assert_eq!(context.tokens(), 103);
            context.add_turn(&message, Some(Usage { prompt_tokens: 0, completion_tokens: 1, total_tokens: 1 }));
            assert_eq!(context.tokens(), 22, "one that is none gives way to the tokenizer's of the whole");
        }

        #[test]
        fn a_kept_count_is_gone_on_from() {
            let message = json!({"role": "user", "content": "a b c"});
            let mut context = Context::of(&[], &json!([]), 500, 1_000, Some(words()));
            context.add_turn(&message, None);
            assert_eq!(context.tokens(), 503);
        }
    }

    #[test]
    fn a_file_that_can_t_be_used_is_named() {
        let why = Tokenizer::load("/nowhere/tokenizer.json".as_ref()).unwrap_err();
        assert!(why.contains("/nowhere/tokenizer.json"), "{why}");
        assert_eq!(why.contains("--features tokenizer"), !cfg!(feature = "tokenizer"), "{why}");
    }
}
