//! How long it takes to read a turn's text for lost tool calls: `cargo bench --bench toolcalls`. Goal: under 100 ms for the worst of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a bench may stop at once and say why")]

use std::time::Instant;

use frognano_bot::leaf::tools;
use frognano_bot::model::Turn;
use frognano_bot::model::qwen::{Tools, read};

fn main() {
    let call = "<tool_call>\n<function=Bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>\n";
    let write = |content: &str| {
        format!(
            "<tool_call>\n<function=Write>\n<parameter=file_path>\na\n</parameter>\n<parameter=content>\n{content}\n</parameter>\n</function>\n</tool_call>"
        )
    };
    let texts = [
        ("an answer of 200 bytes", "I fixed the `slice` in a.py. ".repeat(7)),
        ("one call", call.to_owned()),
        ("a file of 30,000 bytes", write(&"x = 1\n".repeat(5_000))),
        ("200 calls with prose between", format!("{call}then\n").repeat(200)),
        ("3,000 </parameter> lines", write(&"</parameter>\n".repeat(3_000))),
        ("20,000 <tool_call> lines", "<tool_call>\n".repeat(20_000)),
        ("20,000 unclosed calls", "<tool_call>\n<function=Bash>\n<parameter=command>\nls\n".repeat(20_000)),
        ("5,000 fences of unclosed calls", "```\n<tool_call>\n<function=Write>\n<parameter=content>\n```\n".repeat(5_000)),
        ("20,000 `</think>`", "a </think>\n".repeat(20_000)),
        ("1 MB of backticks", "` `` ``` ".repeat(110_000)),
    ];
    let tools = Tools::of(&tools());
    for (what, content) in texts {
        let turn = Turn {
            content,
            reasoning: String::new(),
            tool_calls: Vec::new(),
            finish_reason: "stop".to_owned(),
            usage: None,
            raw: serde_json::Value::Null,
        };
        let mut times: Vec<_> = (0..5)
            .map(|_| {
                let began = Instant::now();
                std::hint::black_box(read(&turn, u64::MAX, &tools));
                began.elapsed().as_secs_f64() * 1000.0
            })
            .collect();
        times.sort_by(f64::total_cmp);
        println!("{what:32} {:9} bytes {:9.3} ms", turn.content.len(), times[2]);
    }
}
