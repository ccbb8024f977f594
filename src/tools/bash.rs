//! Bash: one command of the model in a login shell, its output shown as the reference shows it.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use super::output::Head;
use super::paths::Args;
use super::process::Ended;
use super::python::{self, Exception};
use super::serve::{InputClosed, Room};
use super::text::Capped;

/// The shell of the commands.
pub(super) const SHELL: &str = "/bin/bash";

/// No command is given more time than this, whatever it asks for.
const MOST_SECONDS: f64 = 86_400.0;

/// `Exit code: N` or `Timed out after T.Ts`, then what came on stdout and stderr, cut by characters.
///
/// # Errors
/// When the input of the program ended while the command ran.
pub(super) fn bash(room: &mut Room, args: &Args) -> Result<String, InputClosed> {
    let (command, seconds) = match command_and_seconds(args, room.limits.bash_seconds) {
        Ok(asked) => asked,
        Err(exception) => return Ok(exception.observation()),
    };
    let limit = room.limits.bash_chars;
    let mut shell = room.command(SHELL);
    shell.args(["-lc", &command]);
    let (mut out, mut err) = (Head::new(limit), Head::new(limit));
    let timeout = Duration::from_secs_f64(seconds.clamp(0.1, MOST_SECONDS));
    let ended = room.processes.run(shell, timeout, room.bell.as_fd(), &mut out, &mut err);
    let (head, out, err) = match ended {
        Ok(Ended::Exited(code)) => (format!("Exit code: {code}"), out.folded(), err.folded()),
        Ok(Ended::TimedOut) => (format!("Timed out after {seconds:.1}s"), out.raw(), err.raw()),
        Ok(Ended::InputClosed) => return Err(InputClosed),
        Err(why) => return Ok(not_started(&why, room).observation()),
    };
    let mut shown = Capped::new(limit);
    for (label, stream) in [(format!("{head}\nSTDOUT:\n"), out), ("\nSTDERR:\n".to_owned(), err)] {
        shown.push_str(&label);
        shown.push_str(&stream.text);
        shown.leave_out(stream.left_out);
    }
    Ok(shown.finish())
}

fn command_and_seconds(args: &Args, default: i64) -> Result<(String, f64), Exception> {
    let command = python::str_or_empty(args.get("command"));
    if command.is_empty() {
        return Err(Exception::value("command is required"));
    }
    let seconds = seconds(args, default)?;
    if command.contains('\0') {
        return Err(Exception::value("embedded null byte"));
    }
    Ok((command, seconds))
}

/// `timeout_ms` in milliseconds, or `timeout` in seconds up to 1,000 and in milliseconds above; 0.1 s at least, also for NaN.
fn seconds(args: &Args, default: i64) -> Result<f64, Exception> {
    let given = |name: &str| args.get(name).filter(|value| !value.is_null());
    let seconds = match (given("timeout_ms"), given("timeout")) {
        (Some(millis), _) => python::float(millis)? / 1_000.0,
        (None, Some(seconds)) => {
            let value = python::float(seconds)?;
            if value > 1_000.0 { value / 1_000.0 } else { value }
        }
        #[expect(clippy::cast_precision_loss, reason = "nobody waits 2^52 seconds")]
        (None, None) => return Ok(default as f64),
    };
    Ok(seconds.max(0.1))
}

/// The shell may be missing, or the workdir gone.
fn not_started(why: &io::Error, room: &Room) -> Exception {
    let named = match why.raw_os_error() {
        Some(_) if !room.workdir.path().is_dir() => Some(room.workdir.path().to_string_lossy().into_owned()),
        Some(_) if why.kind() != io::ErrorKind::WouldBlock => Some(SHELL.to_owned()),
        _ => None,
    };
    Exception::os(why, named.as_deref())
}
