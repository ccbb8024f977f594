//! What runs inside the sandbox: the five Leaf tools and the line protocol, as the small static program `frognano-tools`.
//!
//! What must hold: every request gets one answer, whatever it holds and whatever the tree holds; no answer takes more than bounded time and
//! memory; nothing that was started outlives the program's input. The observations are a wire format (the words that the model was trained
//! on), so CPython's rules and error words are kept to the letter. This room imports nothing of the others: the program compiles it alone.

mod bash;
mod confine;
mod edit;
mod fnmatch;
mod glob;
mod input;
mod newlines;
mod options;
mod output;
mod paths;
mod probe;
mod process;
mod python;
mod read;
mod serve;
#[cfg(test)]
mod tests;
mod text;
mod tree;
mod unpack;
mod write;

use std::process::ExitCode;

/// The program `frognano-tools`: reads its command line, confines itself if asked to, and answers requests from stdin until it ends.
///
/// The exit code is 0 at the end of the input, 2 when it could not start; what was wrong is then on stderr.
#[must_use]
pub fn main() -> ExitCode {
    match options::Options::from_command_line(std::env::args_os().skip(1)).and_then(serve::serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("frognano-tools: {complaint}\n").as_bytes());
            ExitCode::from(2)
        }
    }
}
