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
mod memory;
mod newlines;
mod options;
mod output;
mod paths;
mod pod;
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
/// With `install FOLDER` it copies itself there instead, with `wait PORT` it waits to be ended.
///
/// The exit code is 0 at the end of the input, 2 when it could not start; what was wrong is then on stderr.
#[must_use]
pub fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let done = match (words.first().and_then(|word| word.to_str()), words.get(1)) {
        (Some("install"), Some(folder)) => pod::install(folder.as_ref()),
        (Some("wait"), Some(port)) => port.to_str().and_then(|port| port.parse().ok()).ok_or("no port".to_owned()).and_then(pod::wait),
        _ => {
            let watched = pod::Watched::begin();
            let served = options::Options::from_command_line(words.into_iter()).and_then(serve::serve);
            watched.end();
            served
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("frognano-tools: {complaint}\n").as_bytes());
            ExitCode::from(2)
        }
    }
}
