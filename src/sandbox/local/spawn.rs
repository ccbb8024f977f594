//! The way from a process of the service to one that may be locked in: the only unsafe code of the house.
//!
//! What must hold: bubblewrap never runs with the host's user id 0 (what it locks in would still be root to `/proc/sys`); it inherits no open file
//! but its own; it dies with the service. The kernel ties that death to the thread that made the child, so one thread that never ends makes them all.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, mkdir, setgid, setgroups, setsid, setuid, write};
use tokio::process::{Child, Command};

use super::bwrap::Bind;

/// An empty folder on which each child, in a mount namespace of its own, mounts what the sandbox's user could not reach otherwise.
pub const STAGE: &str = "/run/frognano-bot/stage";

/// What a child does between fork and exec.
#[derive(Debug, Default)]
pub struct Passage {
    /// Files into which `0` is written to join control groups.
    pub doors: Vec<File>,
    /// The user to become, and the parts of the host to put on the stage first; none when the service is not root.
    pub descent: Option<Descent>,
    /// Open files that the child keeps.
    pub files: Vec<OwnedFd>,
}

/// From root down to a user that owns nothing.
#[derive(Debug)]
pub struct Descent {
    uid: u32,
    stage: CString,
    props: Vec<Prop>,
}

#[derive(Debug)]
struct Prop {
    source: CString,
    staged: CString,
    folder: bool,
}

impl Descent {
    /// To this user, with these files and folders staged; and where each of them is found then.
    ///
    /// # Errors
    /// A path that can't be resolved.
    pub fn new(uid: u32, parts: &[&Path]) -> io::Result<(Self, Vec<PathBuf>)> {
        let mut descent = Self { uid, stage: CString::new(STAGE)?, props: Vec::new() };
        let mut staged = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let source = part.canonicalize()?;
            let at = Path::new(STAGE).join(number.to_string());
            let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
            descent.props.push(Prop { source: text(&source)?, staged: text(&at)?, folder: source.is_dir() });
            staged.push(at);
        }
        Ok((descent, staged))
    }
}

/// The parts of the host as the sandbox's user finds them: as they are.
///
/// # Errors
/// A path that can't be resolved.
pub fn unstaged(parts: &[&Path]) -> io::Result<Vec<PathBuf>> {
    parts.iter().map(|part| part.canonicalize()).collect()
}

/// Pairs the places found with the places seen.
#[must_use]
pub fn binds(found: &[PathBuf], seen: &[PathBuf]) -> Vec<Bind> {
    found.iter().zip(seen).map(|(from, to)| Bind { from: from.clone(), to: to.clone() }).collect()
}

/// Starts the command by the thread that never ends.
///
/// # Errors
/// One sentence that names the step between fork and exec that failed.
pub async fn spawn(mut command: Command, passage: Passage) -> Result<Child, String> {
    #[expect(
        unsafe_code,
        reason = "the closure only makes system calls on what was prepared before the fork; it allocates nothing and takes no lock"
    )]
    unsafe {
        command.pre_exec(move || passage.walk());
    }
    let (answer, spawned) = tokio::sync::oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    let errand: Errand = Box::new(move || {
        let _within = runtime.enter();
        let _ = answer.send(command.spawn());
    });
    let gone = || "the thread that starts sandboxes could not do it".to_owned();
    spawner().ok_or_else(gone)?.send(errand).map_err(|_| gone())?;
    spawned.await.map_err(|_| gone())?.map_err(|error| Step::explain(&error))
}

type Errand = Box<dyn FnOnce() + Send>;

fn spawner() -> Option<&'static Sender<Errand>> {
    static SPAWNER: OnceLock<Option<Sender<Errand>>> = OnceLock::new();
    let start = || {
        let (sender, errands) = channel::<Errand>();
        let serve = move || errands.into_iter().for_each(|errand| drop(catch_unwind(AssertUnwindSafe(errand))));
        std::thread::Builder::new().name("sandbox-spawner".to_owned()).spawn(serve).ok().map(|_| sender)
    };
    SPAWNER.get_or_init(start).as_ref()
}

/// Which step failed. Only a number gets from the child to its parent, so the step travels above the system's own error number.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Join = 1,
    Session,
    Namespace,
    Stage,
    Drop,
    Files,
}

impl Step {
    const ALL: [Self; 6] = [Self::Join, Self::Session, Self::Namespace, Self::Stage, Self::Drop, Self::Files];
    const SHIFT: i32 = 4096;

    fn failed(self) -> impl Fn(Errno) -> io::Error {
        move |errno| io::Error::from_raw_os_error(self as i32 * Self::SHIFT + errno as i32)
    }

    fn explain(error: &io::Error) -> String {
        let Some(code) = error.raw_os_error() else { return format!("bubblewrap could not be started: {error}") };
        let cause = io::Error::from_raw_os_error(code % Self::SHIFT);
        let what = match Self::ALL.into_iter().find(|step| *step as i32 == code / Self::SHIFT) {
            None => "bubblewrap could not be started",
            Some(Self::Join) => "the control groups could not be joined",
            Some(Self::Session) => "a session of its own could not be made",
            Some(Self::Namespace) => {
                "a mount namespace could not be made (root without CAP_SYS_ADMIN? then start the service as another user)"
            }
            Some(Self::Stage) => "the tools and toolchains could not be mounted where the sandbox's user reaches them",
            Some(Self::Drop) => "the rights of root could not be given up",
            Some(Self::Files) => "the open files of the service could not be kept back",
        };
        format!("{what}: {cause}")
    }
}

impl Passage {
    fn walk(&self) -> io::Result<()> {
        for door in &self.doors {
            write(door, b"0").map_err(Step::Join.failed())?;
        }
        setsid().map_err(Step::Session.failed())?;
        if let Some(descent) = &self.descent {
            unshare(CloneFlags::CLONE_NEWNS).map_err(Step::Namespace.failed())?;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&CStr>, c"/", None::<&CStr>, private, None::<&CStr>).map_err(Step::Namespace.failed())?;
            descent.stage().map_err(Step::Stage.failed())?;
            setgroups(&[]).map_err(Step::Drop.failed())?;
            setgid(Gid::from_raw(descent.uid)).map_err(Step::Drop.failed())?;
            setuid(Uid::from_raw(descent.uid)).map_err(Step::Drop.failed())?;
        }
        keep_only(&self.files).map_err(Step::Files.failed())
    }
}

impl Descent {
    fn stage(&self) -> nix::Result<()> {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some(c"tmpfs"), self.stage.as_c_str(), Some(c"tmpfs"), flags, Some(c"mode=0755,size=1m"))?;
        for prop in &self.props {
            if prop.folder {
                mkdir(prop.staged.as_c_str(), Mode::from_bits_truncate(0o755))?;
            } else {
                open(prop.staged.as_c_str(), OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::from_bits_truncate(0o644))?;
            }
            let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(prop.source.as_c_str()), prop.staged.as_c_str(), None::<&CStr>, flags, None::<&CStr>)?;
        }
        Ok(())
    }
}

/// Marks every open file above the three standard ones to be closed by exec, then takes the mark from those that stay.
fn keep_only(kept: &[OwnedFd]) -> nix::Result<()> {
    const FIRST: libc::c_uint = 3;
    #[expect(unsafe_code, reason = "a system call without pointers; it changes only this child's own table of files")]
    let marked = unsafe { libc::close_range(FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed()) };
    Errno::result(marked)?;
    for file in kept {
        fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failed_step_and_its_cause_survive_the_way_to_the_parent() {
        for step in Step::ALL {
            let told = Step::explain(&step.failed()(Errno::EPERM));
            assert!(told.ends_with("Operation not permitted (os error 1)") && !told.starts_with("bubblewrap"), "{step:?}: {told}");
        }
        assert!(Step::explain(&io::Error::from_raw_os_error(2)).starts_with("bubblewrap could not be started: No such file"));
    }

    #[tokio::test]
    async fn a_child_that_may_not_join_says_so() {
        let read_only = File::open("/dev/null").unwrap();
        let passage = Passage { doors: vec![read_only], ..Passage::default() };
        let refused = spawn(Command::new("/bin/true"), passage).await.unwrap_err();
        assert!(refused.starts_with("the control groups could not be joined"), "{refused}");
    }

    #[tokio::test]
    async fn only_the_files_that_are_meant_for_the_child_reach_it() {
        let open = |path| -> OwnedFd {
            let file = File::open(path).unwrap();
            fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
            file.into()
        };
        let (leaked, kept) = (open("/etc/hostname"), open("/etc/hosts"));
        let mut command = Command::new("/bin/ls");
        command.args(["-l", "/proc/self/fd"]).stdout(std::process::Stdio::piped());
        let child = spawn(command, Passage { files: vec![kept], ..Passage::default() }).await.unwrap();
        let listed = String::from_utf8(child.wait_with_output().await.unwrap().stdout).unwrap();
        assert!(listed.contains("/etc/hosts\n") && !listed.contains("/etc/hostname"), "{listed}");
        drop(leaked);
    }
}
