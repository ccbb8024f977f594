//! The command line: one file a command.
//!
//! Results go to the standard output, everything else to the error output. Exit status: 0 done, 1 our fault, 2 usage or configuration;
//! `fix` adds 3 (no patch) and 4 (refused), `check-patch` adds 4 (refused), `runs` adds 3 (no such run) and 4 (the service says no).

mod audit;
mod check_patch;
mod demo;
mod doctor;
mod fix;
mod progress;
mod queue;
mod replay;
mod runs;
mod serve;
mod table;
mod token;
mod webhook;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::domain::hidden_escaped;

/// Label an issue, get a draft pull request that code has judged and a human must review.
#[derive(Debug, Parser)]
#[command(name = "frognano-bot", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service: take webhooks in, work on jobs.
    Serve(serve::Serve),
    /// Show the whole way on this machine: a small built-in forge, a project with a bug, a scripted model.
    Demo(demo::Demo),
    /// Look whether everything that a run needs is there.
    Doctor(doctor::Doctor),
    /// Work on one local repository without any forge; nothing is pushed.
    Fix(Box<fix::Fix>),
    /// Look at the queue, hold it, let it go on, stop everything.
    Queue(queue::Queue),
    /// Look at runs, follow one, end one, make one anew, over the API of a running service.
    Runs(runs::Runs),
    /// Keys for programs that use the API.
    Token(token::Token),
    /// Look into deliveries of webhooks.
    Webhook(webhook::Webhook),
    /// Take a run out of the audit chain, check it, check the chain.
    Audit(audit::Audit),
    /// Rebuild the patch of an exported run from the kept answers of its model.
    Replay(replay::Replay),
    /// Ask the rules about a patch, without running anything.
    CheckPatch(check_patch::CheckPatch),
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A core dump would hold the tokens, ours and git's.
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0).ok();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fault(&format!("no threads: {error}")),
    };
    runtime.block_on(async {
        match arguments.command {
            Command::Serve(serve) => serve.run(asked_to_stop()).await,
            Command::Demo(demo) => demo.run(asked_to_stop()).await,
            Command::Doctor(doctor) => doctor.run().await,
            Command::Fix(fix) => fix.run(asked_to_stop()).await,
            Command::Queue(queue) => queue.run().await,
            Command::Runs(runs) => runs.run().await,
            Command::Token(token) => token.run().await,
            Command::Webhook(webhook) => webhook.run(),
            Command::Audit(audit) => audit.run().await,
            Command::Replay(replay) => replay.run(asked_to_stop()).await,
            Command::CheckPatch(check) => check.run().await,
        }
    })
}

/// A line for people, on the error output. Whoever wrote its words, they do not control the terminal.
fn say(line: &str) {
    writeln!(std::io::stderr(), "{}", hidden_escaped(line)).ok();
}

/// A result, on the standard output; in the same way, which changes no JSON.
fn print(text: &str) {
    writeln!(std::io::stdout(), "{}", hidden_escaped(text)).ok();
}

fn fault(why: &str) -> ExitCode {
    say(&format!("frognano-bot: {why}"));
    ExitCode::from(1)
}

fn usage(complaints: &[String]) -> ExitCode {
    for complaint in complaints {
        say(&format!("frognano-bot: {complaint}"));
    }
    ExitCode::from(2)
}

/// Cancelled by SIGTERM or Ctrl-C. They are caught from the call on, so it comes before anything is made that would be left behind.
fn asked_to_stop() -> CancellationToken {
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    if let (Ok(mut term), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        tokio::spawn(async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = interrupt.recv() => {}
            }
            stopping.cancel();
        });
    }
    stop
}
