//! Live progress on the error output: a spinner on a terminal, plain lines elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::domain::{Stage, hidden_escaped};

/// What goes on, for who watches.
pub(super) struct Bar {
    bar: ProgressBar,
    lines: bool,
    attempt: Option<(u32, u32)>,
}

impl Bar {
    /// A bar on the error output.
    pub(super) fn new() -> Self {
        let lines = !std::io::IsTerminal::is_terminal(&std::io::stderr());
        let bar = if lines { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {elapsed:>4} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, lines, attempt: None }
    }

    /// A stage begins.
    pub(super) fn stage(&self, stage: Stage) {
        self.tell(in_words(stage));
    }

    /// An attempt begins, of so many at most; the first goes without saying.
    pub(super) fn attempt(&mut self, number: u32, most: u32) {
        self.attempt = (number > 1).then_some((number, most));
    }

    /// The agent made a step.
    pub(super) fn step(&self, step: u64, tools: &[String]) {
        let tools = if tools.is_empty() { "answers".to_owned() } else { tools.join(", ") };
        self.tell(&format!("the agent works: step {step}, {tools}"));
    }

    fn tell(&self, text: &str) {
        let text = match self.attempt {
            Some((number, most)) => &format!("attempt {number} of at most {most}: {text}"),
            None => text,
        };
        let text = hidden_escaped(text);
        let before = self.bar.message();
        if before == text {
            return;
        }
        if self.lines {
            super::say(&text);
        } else if !before.is_empty() {
            self.bar.println(format!("  \u{2713} {before}"));
        }
        self.bar.set_message(text);
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        let last = self.bar.message();
        if !self.lines && !last.is_empty() {
            self.bar.println(format!("  \u{2713} {last}"));
        }
        self.bar.finish_and_clear();
    }
}

const fn in_words(stage: Stage) -> &'static str {
    match stage {
        Stage::Queued => "in the queue",
        Stage::Admitting => "reading the issue and the rights of who set the label",
        Stage::Cloning => "fetching the repository",
        Stage::Proving => "starting a sandbox and proving that it reaches nothing",
        Stage::TestsBefore => "running the project's tests as they are",
        Stage::Agent => "the agent works",
        Stage::WaitingForModel => "waiting for the model's server",
        Stage::TestsAfter => "judging the patch in a second, fresh sandbox",
        Stage::Publishing => "opening the draft pull request",
        Stage::Done => "done",
    }
}
