//! What becomes of strangers' words.

use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::{GAP, LONGEST_SUBJECT, cell, code, cut, fence_for, fenced, inert, one_line, subject, title, wrapped};

/// What a person sees: gaps have no width.
fn seen(text: &str) -> String {
    text.replace(GAP, "")
}

#[test]
fn strangers_words_do_not_act() {
    for (words, made) in [
        ("fixes #12, ask @dev-a", "fixes #\u{200b}12, ask @\u{200b}dev-a"),
        ("closes o/r#12 and GH-7 and !8", "closes o/r#\u{200b}12 and GH-\u{200b}7 and !\u{200b}8"),
        ("fixes https://git.example.com/o/r/issues/1", "fixes https:\u{200b}//git.example.com/o/r/issues/1"),
        ("www.evil.example", "www\u{200b}.evil.example"),
        ("@everyone @org/team @-x", "@\u{200b}everyone @\u{200b}org/team @\u{200b}-x"),
        ("/close", "\u{200b}/close"),
        ("a\n/merge", "a /merge"),
        ("- [x] done", "\u{200b}- \\[x\\] done"),
        ("1. first", "\u{200b}1. first"),
        ("![x](http://evil/?q)", "!\\[x\\](http:\u{200b}//evil/?q)"),
        ("<!-- hidden --> <img src=x>\u{202e}", "&lt;!-- hidden --> &lt;img src=x>"),
        ("&commat;all &num;1", "&amp;commat;all &amp;num;1"),
        ("see &12", "see &amp;\u{200b}12"),
        ("__init__.py and snake_case", "\\_\\_init\\_\\_.py and snake_case"),
        ("a\\b \\[x] \\", "a\\\\b \\[x\\] \\\\"),
        ("`code", "\\`code"),
        ("`a_b` and `<!--` of `@dev", "`a_b` and `<!--` of \\`@\u{200b}dev"),
        ("``a`` `b", "\\`\\`a\\`\\` \\`b"),
        ("ordinary words, 100 % of them; even C# and a & b", "ordinary words, 100 % of them; even C# and a &amp; b"),
    ] {
        assert_eq!(inert(words), made);
    }
}

#[test]
fn titles_and_subjects_are_plain_text() {
    assert_eq!(title(" Closes #1\n@all "), "Closes #\u{200b}1 @\u{200b}all");
    assert_eq!(title("/close it"), "\u{200b}/close it");
    assert_eq!(title("Vec<[u8]> *is* `it`"), "Vec<[u8]> *is* `it`");
    assert_eq!(title("\u{200b}\u{2066}"), "");
    assert_eq!(subject("/close: fixes #1, GH-2 @all http://e/ www.e"), "close: fixes # 1, GH- 2 @ all http: //e/ www .e");
    assert_eq!(title("修正 – ошибка 👩\u{200d}💻"), "修正 – ошибка 👩\u{200d}💻");
    let long = title(&"@ü".repeat(500));
    assert_eq!((long.chars().count(), long.ends_with('…')), (LONGEST_SUBJECT, true));
}

#[test]
fn code_stays_within_its_ticks() {
    assert_eq!(code("a`b\nc\u{202e}d"), "a'b cd");
    assert_eq!(code("img@2x.png"), "img@2x.png");
    assert_eq!(code("Closes #1"), "Closes #\u{200b}1", "GitLab looks for closing words in code too");
    assert_eq!(cell("a|b"), "`a\\|b`");
}

#[test]
fn a_fence_is_longer_than_any_inside_and_no_line_of_it_commands() {
    assert_eq!(fence_for("plain"), "```");
    assert_eq!(fence_for("a ```` b"), "`````");
    assert_eq!(fenced("one\n\ntwo\n"), "```text\none\n\ntwo\n```", "empty lines stay");
    assert!(fenced(&"x ".repeat(3000)).ends_with("x \n(cut here, after 4,000 characters)\n```"), "a cut is said");
    assert_eq!(fenced("done\n```\n/close\n  /merge"), "````text\ndone\n```\n\u{200b}/close\n  \u{200b}/merge\n````");
}

#[test]
fn long_lines_are_broken_at_spaces_and_keep_every_word() {
    let line = "word ".repeat(60);
    let broken = wrapped(&line);
    assert!(broken.lines().all(|line| line.chars().count() <= 110) && broken.lines().count() == 3, "{broken}");
    assert_eq!(broken.split_whitespace().count(), 60);
    assert_eq!(wrapped("    indented"), "    indented");
}

#[test]
fn a_long_text_is_cut_at_a_line_and_what_is_open_is_closed() {
    let short = "ü".repeat(60_000);
    assert_eq!(cut(short.clone()), short);
    let long = format!("<details>\n\n````text\n{}", "ü line\n".repeat(20_000));
    let cut = cut(long);
    assert!(cut.chars().count() < 65_536);
    assert!(cut.ends_with("ü line\n````\n\n</details>\n\n(cut here; the whole is in the run's record)"), "{}", &cut[cut.len() - 120..]);
}

#[test]
fn one_long_line_is_cut_within() {
    let cut = cut("ü".repeat(70_000));
    assert_eq!(cut.chars().filter(|letter| *letter == 'ü').count(), 60_000);
    assert!(cut.ends_with("ü\n\n(cut here; the whole is in the run's record)"));
}

fn any_words() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        prop::sample::select(vec![
            "@dev",
            "#1",
            "!2",
            "GH-",
            "3",
            "://",
            "www.",
            "/close",
            "/frognano retry",
            "\n",
            "\r\n",
            "\t",
            " ",
            "```",
            "`",
            "~~~",
            "*",
            "_",
            "**",
            "[x](y)",
            "[",
            "]",
            "![",
            "<!--",
            "-->",
            "<b>",
            "&lt;",
            "&",
            ";",
            "\\",
            "|",
            "- ",
            "1. ",
            "> ",
            "# ",
            "===",
            "\u{200b}",
            "\u{202e}",
            "\u{2066}",
            "\u{200d}",
            "\u{fe0f}",
            "👩",
            "ü",
            "日本",
            "word",
            "fixes ",
            "<details>",
            "$x$",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

/// What the page of a Markdown text shows, and whether anything but plain paragraphs and code is in it.
fn rendered(markdown: &str) -> (String, bool) {
    let (mut text, mut markup) = (String::new(), false);
    for event in Parser::new_ext(markdown, Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS) {
        match event {
            Event::Text(words) => text.push_str(&words),
            Event::Code(words) => text.push_str(&format!("`{words}`")),
            Event::Start(Tag::Paragraph) | Event::End(TagEnd::Paragraph) => {}
            _ => markup = true,
        }
    }
    (text, markup)
}

proptest! {
    #[test]
    fn what_is_inert_is_seen_as_it_was_written_and_stays_as_it_is(words in any_words()) {
        let made = inert(&words);
        prop_assert_eq!(&inert(&made), &made);
        prop_assert!(!made.trim_start().starts_with('/') && !made.contains('\n'));
        let (text, markup) = rendered(&made);
        prop_assert!(!markup, "{}", made);
        if !words.contains('\\') && !words.contains("&lt;") && !words.contains("&amp;") {
            prop_assert_eq!(seen(&text), one_line(&words));
        }
    }

    #[test]
    fn nothing_made_inert_mentions_closes_or_links(words in any_words()) {
        for made in [inert(&words), title(&words), fenced(&words)] {
            let acts = made.char_indices().any(|(at, letter)| {
                let next = made[at + letter.len_utf8()..].chars().next();
                match letter {
                    '@' => next.is_some_and(|next| next.is_alphanumeric()),
                    '#' | '!' => next.is_some_and(|next| next.is_ascii_digit()),
                    ':' => made[at..].starts_with("://"),
                    _ => false,
                }
            });
            prop_assert!(!acts, "{}", made);
        }
    }

    #[test]
    fn titles_and_subjects_fit_and_stay_as_they_are(words in any_words()) {
        let made = title(&words);
        prop_assert_eq!(&title(&made), &made);
        prop_assert!(made.chars().count() <= LONGEST_SUBJECT && !made.starts_with('/'));
        if made.chars().count() < LONGEST_SUBJECT {
            prop_assert_eq!(seen(&made), one_line(&words));
        }
        let made = subject(&words);
        prop_assert_eq!(&subject(&made), &made);
    }

    #[test]
    fn nothing_gets_out_of_a_fence_or_out_of_code(words in any_words()) {
        let made = fenced(&words);
        prop_assert!(made.lines().all(|line| !line.trim_start().starts_with('/')));
        let events: Vec<_> = Parser::new(&made).collect();
        let blocks = events.iter().filter(|event| matches!(event, Event::Start(_))).count();
        prop_assert!(blocks == 1 && matches!(events.first(), Some(Event::Start(Tag::CodeBlock(_)))), "{}", made);
        let made = format!("before `x{}x` after", code(&words));
        let inside = Parser::new(&made).filter(|event| matches!(event, Event::Code(_))).count();
        prop_assert_eq!(inside, 1, "{}", made);
        prop_assert_eq!(code(&code(&words)), code(&words));
    }
}
