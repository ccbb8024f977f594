//! Markdown as HTML that is safe to show, whoever wrote it.
//!
//! HTML in the text is shown as text, but for the few harmless tags that forges keep; HTML comments vanish, as on forges. Links go to the web
//! or stay on the page; images become their description.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};

use super::escaped;

/// The tags that pass, written exactly so.
const HARMLESS: [&str; 8] = ["<details>", "</details>", "<summary>", "</summary>", "<br>", "<sub>", "</sub>", "<hr>"];

/// Renders a text.
pub(super) fn html(text: &str) -> String {
    let mut block = String::new();
    let mut in_block = false;
    let events =
        Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS).filter_map(|event| {
            Some(match event {
                Event::Start(Tag::HtmlBlock) => {
                    in_block = true;
                    return None;
                }
                Event::Html(html) if in_block => {
                    block.push_str(&html);
                    return None;
                }
                Event::End(TagEnd::HtmlBlock) => {
                    in_block = false;
                    Event::Html(harmless(&std::mem::take(&mut block)).into())
                }
                Event::Html(html) | Event::InlineHtml(html) => Event::Html(harmless(&html).into()),
                Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                    Event::Start(Tag::Link { link_type, dest_url: safe_address(dest_url), title, id })
                }
                Event::Start(Tag::Image { .. }) => Event::Text("[image: ".into()),
                Event::End(TagEnd::Image) => Event::Text("]".into()),
                other => other,
            })
        });
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, events);
    html
}

fn harmless(html: &str) -> String {
    let mut rest = html;
    let mut text = String::new();
    while let Some((before, comment)) = rest.split_once("<!--") {
        text.push_str(before);
        rest = comment.split_once("-->").map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    HARMLESS.iter().fold(escaped(&text), |html, tag| html.replace(&escaped(tag), tag))
}

fn safe_address(address: CowStr<'_>) -> CowStr<'_> {
    let lower = address.to_ascii_lowercase();
    if ["http://", "https://", "#"].iter().any(|start| lower.starts_with(start)) { address } else { "#".into() }
}

#[cfg(test)]
mod tests {
    use super::html;

    #[test]
    fn hostile_text_stays_text() {
        let shown = html("<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> ![x](http://x/y.png) [a](javascript:alert(1))\n");
        for bad in ["<script", "<img", "javascript:"] {
            assert!(!shown.contains(bad), "{shown}");
        }
        assert!(shown.contains("&lt;script&gt;"), "{shown}");
        assert!(html("<DETAILS onclick=x>\ntext").contains("&lt;DETAILS onclick=x&gt;"));
    }

    #[test]
    fn tables_fences_and_folds_are_rendered_and_markers_vanish() {
        let shown = html(
            "<!-- marker -->\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nif a < b: pass\n```\n\n<details><summary>More</summary>\n\n- x\n\n</details>\n",
        );
        assert!(shown.contains("<td>1</td>"), "{shown}");
        assert!(shown.contains("if a &lt; b: pass"), "{shown}");
        assert!(shown.contains("<details><summary>More</summary>"), "{shown}");
        assert!(!shown.contains("marker"), "{shown}");
    }
}
