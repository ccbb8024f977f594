//! Starts commands, waits for them within their time, and ends what they leave behind.
//!
//! What must hold: a command never blocks the program longer than its time; its output is drained while it runs and after (a server that was
//! put in the background must not die of a closed pipe between calls); every ended child is reaped, also those that were inherited; when
//! [`Processes::end_all`] returns, nothing that was started here is alive. As PID 1 the kernel's `kill(-1)` does that in one stroke; elsewhere
//! the program makes itself the heir of all orphans below it and ends its descendants until there are none.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

use super::output::Sink;

/// After the command itself has ended, how long to wait for the ends of its pipes when something else still holds them.
const LAST_WORDS: Duration = Duration::from_millis(50);
/// An end of the input so soon after a command's start belongs to a request that was piped in.
const PIPED_IN: Duration = Duration::from_millis(50);
/// How long requests that were piped in may take after the end of the input.
const GRACE: Duration = Duration::from_millis(2_500);
/// How long the ending of processes may take.
const ENDING: Duration = Duration::from_secs(5);
/// How many pipes of background processes are drained; the oldest are closed first.
const MAX_LEFTOVERS: usize = 128;
const CHUNK: usize = 64 * 1024;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With this exit status, or the negative number of the signal that ended it.
    Exited(i32),
    /// It was stopped because its time was over.
    TimedOut,
    /// The input of the program ended: everything must end.
    InputClosed,
}

/// Everything that was started and not yet ended.
pub(super) struct Processes {
    signals: SignalFd,
    blocked: SigSet,
    is_init: bool,
    leftovers: Vec<PipeReader>,
    closed_since: Option<Instant>,
}

struct Stream<'a> {
    pipe: Option<PipeReader>,
    sink: &'a mut dyn Sink,
}

impl Processes {
    /// Takes over the children of this program. Must be called before any other thread is started.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn new() -> nix::Result<Self> {
        let mut watched = SigSet::empty();
        watched.add(Signal::SIGCHLD);
        let mut blocked = watched;
        // A write beyond the file size limit is then an error of that write, not the end of the program.
        blocked.add(Signal::SIGXFSZ);
        blocked.thread_block()?;
        let is_init = getpid().as_raw() == 1;
        if !is_init {
            prctl::set_child_subreaper(true)?;
        }
        let signals = SignalFd::with_flags(&watched, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { signals, blocked, is_init, leftovers: Vec::new(), closed_since: None })
    }

    /// Waits until `bell` rings or hangs up, looking after background processes meanwhile.
    ///
    /// # Errors
    /// When waiting is impossible.
    pub(super) fn wait_for(&mut self, bell: BorrowedFd<'_>) -> nix::Result<()> {
        loop {
            let mut waiting = vec![PollFd::new(bell, PollFlags::POLLIN), PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            waiting.extend(self.leftovers.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
            poll_again(&mut waiting, PollTimeout::NONE)?;
            let rang = is_ready(&waiting[0]);
            let ready: Vec<bool> = waiting[2..].iter().map(is_ready).collect();
            if is_ready(&waiting[1]) {
                self.reap(None);
            }
            let mut index = 0;
            self.leftovers.retain_mut(|pipe| {
                index += 1;
                !ready[index - 1] || read_some(pipe, CHUNK, &mut |_| ())
            });
            if rang {
                return Ok(());
            }
        }
    }

    /// Runs a command in a process group of its own, its stdin empty, until it ends, its time is over, or `bell` says that the input ended.
    /// On the latter two everything that was ever started here is ended. What it left in the background lives on.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn run(
        &mut self,
        command: Command,
        timeout: Duration,
        bell: BorrowedFd<'_>,
        out: &mut dyn Sink,
        err: &mut dyn Sink,
    ) -> io::Result<Ended> {
        if self.is_crowded() {
            self.end_all();
        }
        let started = Instant::now();
        let deadline = started.checked_add(timeout);
        let (mut child, out_pipe, err_pipe) = self.spawn(command)?;
        let mut streams = [Stream { pipe: Some(out_pipe), sink: out }, Stream { pipe: Some(err_pipe), sink: err }];
        // A child that ended before its signal was watched again.
        let mut exit = self.reap(Some(&mut child));
        let ended = loop {
            if let Some(code) = exit {
                last_words(&mut streams)?;
                break Ended::Exited(code);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                break Ended::TimedOut;
            }
            if self.closed_since.is_some_and(|since| now >= since + GRACE) {
                break Ended::InputClosed;
            }
            let until = [deadline, self.closed_since.map(|since| since + GRACE)].into_iter().flatten().min();
            let mut waiting = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            waiting
                .extend(streams.iter().filter_map(|stream| stream.pipe.as_ref()).map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
            if self.closed_since.is_none() {
                waiting.push(PollFd::new(bell, PollFlags::empty()));
            }
            poll_again(&mut waiting, until.map_or(PollTimeout::NONE, |until| rounded_up(until.saturating_duration_since(now))))?;
            let hung_up = self.closed_since.is_none() && waiting.last().is_some_and(is_ready);
            drop(waiting);
            if hung_up {
                if started.elapsed() > PIPED_IN {
                    break Ended::InputClosed;
                }
                self.closed_since = Some(Instant::now());
            }
            streams.iter_mut().for_each(|stream| stream.read(4 * CHUNK));
            exit = self.reap(Some(&mut child));
        };
        if !matches!(ended, Ended::Exited(_)) {
            let _ = killpg(pid_of(&child), Signal::SIGKILL);
            self.end_all();
            streams.iter_mut().for_each(|stream| stream.read(1 << 20));
        }
        self.leftovers.extend(streams.into_iter().filter_map(|stream| stream.pipe));
        self.leftovers.drain(..self.leftovers.len().saturating_sub(MAX_LEFTOVERS));
        Ok(ended)
    }

    /// Whether what was left in the background takes so much of the allowed processes that a shell may not get the few it needs.
    fn is_crowded(&mut self) -> bool {
        let Ok((limit, _)) = getrlimit(Resource::RLIMIT_NPROC) else { return false };
        !self.reap_all() && descendants(getpid()).iter().map(|process| process.threads).sum::<u64>() > limit / 4 * 3
    }

    /// Starts the command; when there is no room for one more process, the background processes of earlier calls make way.
    fn spawn(&mut self, mut command: Command) -> io::Result<(Child, PipeReader, PipeReader)> {
        let (out_pipe, out_end) = io::pipe()?;
        let (err_pipe, err_end) = io::pipe()?;
        for pipe in [&out_pipe, &err_pipe] {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        let no_input = match std::fs::File::open("/dev/null") {
            Ok(null) => Stdio::from(null),
            Err(_) => Stdio::from(io::pipe()?.0),
        };
        command.stdin(no_input).stdout(out_end).stderr(err_end).process_group(0);
        let child = match self.spawn_unblocked(&mut command) {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                self.end_all();
                self.spawn_unblocked(&mut command)?
            }
            other => other?,
        };
        Ok((child, out_pipe, err_pipe))
    }

    /// Starts the command with no signal blocked, since it inherits what is.
    fn spawn_unblocked(&self, command: &mut Command) -> io::Result<Child> {
        self.blocked.thread_unblock()?;
        let child = command.spawn();
        self.blocked.thread_block()?;
        child
    }

    /// Ends everything that was started here and still lives, and waits until it is gone.
    pub(super) fn end_all(&mut self) {
        let deadline = Instant::now() + ENDING;
        loop {
            if self.is_init {
                let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
            } else {
                for process in descendants(getpid()) {
                    let _ = kill(process.pid, Signal::SIGKILL);
                }
            }
            let none_left = self.reap_all();
            if none_left || Instant::now() >= deadline {
                return;
            }
            let _ = poll(&mut [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)], 5_u8);
        }
    }

    /// Reaps what has ended; true when there is no child any more.
    fn reap_all(&mut self) -> bool {
        self.reap(None);
        waitpid(None, Some(WaitPidFlag::WNOHANG)) == Err(Errno::ECHILD)
    }

    /// Reaps what has ended, and gives the exit status of `watched` if it was among it.
    fn reap(&mut self, mut watched: Option<&mut Child>) -> Option<i32> {
        while self.signals.read_signal().is_ok_and(|signal| signal.is_some()) {}
        let mut exit = watched.as_mut().and_then(|child| child.try_wait().ok()?).map(status_of);
        let watched = watched.map(|child| pid_of(child));
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if Some(pid) == watched => exit = Some(code),
                Ok(WaitStatus::Signaled(pid, signal, _)) if Some(pid) == watched => exit = Some(-(signal as i32)),
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return exit,
                // Reaped, but by a real-time signal, which has no name here.
                Err(Errno::EINVAL) if watched.is_some_and(|pid| kill(pid, None) == Err(Errno::ESRCH)) => {
                    exit = exit.or(Some(-libc::SIGRTMIN()))
                }
                Ok(_) | Err(Errno::EINVAL | Errno::EINTR) => {}
                Err(_) => return exit,
            }
        }
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

fn status_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| -signal)).unwrap_or(-1)
}

impl Stream<'_> {
    /// Reads what is there, at most about `most` bytes, and closes the pipe at its end.
    fn read(&mut self, most: usize) {
        if let Some(pipe) = &mut self.pipe
            && !read_some(pipe, most, &mut |bytes| self.sink.take(bytes))
        {
            self.pipe = None;
        }
    }
}

/// What the pipes still hold after the command has ended.
fn last_words(streams: &mut [Stream<'_>; 2]) -> io::Result<()> {
    let deadline = Instant::now() + LAST_WORDS;
    loop {
        streams.iter_mut().for_each(|stream| stream.read(1 << 20));
        let left = deadline.saturating_duration_since(Instant::now());
        let mut waiting: Vec<_> =
            streams.iter().filter_map(|stream| stream.pipe.as_ref()).map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)).collect();
        if waiting.is_empty() || left.is_zero() {
            return Ok(());
        }
        poll_again(&mut waiting, rounded_up(left))?;
    }
}

/// Reads at most about `most` bytes without blocking; false at the end of the pipe.
fn read_some(pipe: &mut PipeReader, most: usize, sink: &mut dyn FnMut(&[u8])) -> bool {
    let mut buffer = [0; CHUNK];
    let mut got = 0;
    while got < most {
        match pipe.read(&mut buffer) {
            Ok(0) => return false,
            Ok(size) => {
                got += size;
                sink(&buffer[..size]);
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return why.kind() == io::ErrorKind::WouldBlock,
        }
    }
    true
}

fn poll_again(waiting: &mut [PollFd<'_>], timeout: PollTimeout) -> nix::Result<()> {
    match poll(waiting, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(why) => Err(why),
    }
}

fn is_ready(fd: &PollFd<'_>) -> bool {
    fd.any().unwrap_or(true)
}

/// In whole milliseconds, so that a wait is never shorter than asked.
fn rounded_up(time: Duration) -> PollTimeout {
    let millis = time.as_micros().div_ceil(1_000);
    PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
}

/// A process below this program.
struct Descendant {
    pid: Pid,
    threads: u64,
}

/// All processes below `root`, by the parents that `/proc` names.
fn descendants(root: Pid) -> Vec<Descendant> {
    let mut children: BTreeMap<i32, Vec<Descendant>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if let Some((parent, threads)) = parent_and_threads(pid) {
            children.entry(parent).or_default().push(Descendant { pid: Pid::from_raw(pid), threads });
        }
    }
    let mut found = Vec::new();
    let mut next = vec![root.as_raw()];
    while let Some(pid) = next.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            next.push(child.pid.as_raw());
            found.push(child);
        }
    }
    found
}

/// The fourth and the twentieth field of `/proc/PID/stat`; the second one is a name in parentheses that may hold anything.
fn parent_and_threads(pid: i32) -> Option<(i32, u64)> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(&stat[after_name + 1..]).ok()?.split_whitespace();
    Some((fields.nth(1)?.parse().ok()?, fields.nth(15)?.parse().ok()?))
}
