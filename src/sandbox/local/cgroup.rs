//! Bounds by control groups, where the service may make them; version 1 and version 2.
//!
//! What must hold: a process joins before it loses its rights; a folder is removed with the sandbox, and whatever is still in it is killed first.
//! A folder's name tells which process made it, so that one worker never sweeps away the living sandboxes of another.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const PREFIX: &str = "frognano-";
const CONTROLLERS: [&str; 3] = ["pids", "memory", "cpu"];
const CPU_PERIOD_US: u64 = 100_000;

/// What a sandbox may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Processes and threads.
    pub processes: u64,
    /// Bytes of memory, swap and memory file systems counted.
    pub memory: u64,
    /// Processors' worth of time.
    pub cpus: f64,
}

/// Where groups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// One mounted folder for each controller.
    V1(Vec<(&'static str, PathBuf)>),
    /// One folder whose children may use all three controllers.
    V2(PathBuf),
}

impl Tree {
    /// Finds the tree that this process can use, by trying; none where it has no right to one.
    #[must_use]
    pub fn find() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::find_in(Path::new("/sys/fs/cgroup"), &own)
    }

    fn find_in(root: &Path, own: &str) -> Option<Self> {
        if root.join("cgroup.controllers").exists() {
            return v2_parent(root, own).map(Self::V2);
        }
        let usable = CONTROLLERS.into_iter().map(|name| (name, root.join(name))).filter(|(_, folder)| can_make(folder)).collect::<Vec<_>>();
        (!usable.is_empty()).then_some(Self::V1(usable))
    }

    /// Makes the group of one sandbox with its limits.
    ///
    /// # Errors
    /// Any file that could not be made or written; nothing is left behind then.
    pub fn make(&self, name: &str, limits: Limits) -> io::Result<Group> {
        let name = format!("{PREFIX}{}-{name}", owner_mark(std::process::id()).unwrap_or_default());
        let group = match self {
            Self::V1(controllers) => {
                Group { folders: controllers.iter().map(|(kind, folder)| (*kind, folder.join(&name))).collect(), v2: false }
            }
            Self::V2(folder) => Group { folders: vec![("all", folder.join(&name))], v2: true },
        };
        match group.set_up(limits) {
            Ok(()) => Ok(group),
            Err(error) => {
                group.remove();
                Err(error)
            }
        }
    }

    /// Removes the groups of processes that are no longer there, killing what still runs in them; how many there were.
    #[must_use]
    pub fn sweep(&self) -> usize {
        let parents: Vec<(&'static str, &Path)> = match self {
            Self::V1(controllers) => controllers.iter().map(|(kind, folder)| (*kind, folder.as_path())).collect(),
            Self::V2(folder) => vec![("all", folder.as_path())],
        };
        let mut swept = 0;
        for (kind, parent) in parents {
            for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                if is_leftover(&entry.file_name().to_string_lossy()) {
                    Group { folders: vec![(kind, entry.path())], v2: kind == "all" }.remove();
                    swept += 1;
                }
            }
        }
        swept
    }
}

/// In version 2 a group with processes of its own can't hand controllers down, so a sibling of ours is tried where a child of ours can't be.
fn v2_parent(root: &Path, own: &str) -> Option<PathBuf> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let own = root.join(own);
    let candidates = [Some(own.as_path()), own.parent().filter(|parent| parent.starts_with(root))];
    candidates.into_iter().flatten().find(|folder| hands_down(folder) && can_make(folder)).map(Path::to_owned)
}

fn hands_down(folder: &Path) -> bool {
    let control = folder.join("cgroup.subtree_control");
    let enabled = || {
        let words = fs::read_to_string(&control).unwrap_or_default();
        CONTROLLERS.iter().all(|name| words.split_whitespace().any(|word| word == *name))
    };
    enabled() || (write(&control, "+pids +memory +cpu").is_ok() && enabled())
}

fn can_make(folder: &Path) -> bool {
    static TRIALS: AtomicU64 = AtomicU64::new(0);
    let number = TRIALS.fetch_add(1, Ordering::Relaxed);
    let trial = folder.join(format!("{PREFIX}{}-trial{number}", owner_mark(std::process::id()).unwrap_or_default()));
    fs::create_dir(&trial).is_ok() && fs::remove_dir(&trial).is_ok()
}

/// The process id and its start time, which together name a process for as long as the machine is up.
fn owner_mark(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let started = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    Some(format!("{pid}.{started}"))
}

fn is_leftover(folder: &str) -> bool {
    let Some(mark) = folder.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()) else { return false };
    let Some(pid) = mark.split('.').next().and_then(|pid| pid.parse().ok()) else { return false };
    owner_mark(pid).as_deref() != Some(mark)
}

fn write(file: &Path, value: impl ToString) -> io::Result<()> {
    fs::write(file, value.to_string()).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

/// The group of one sandbox.
#[derive(Debug)]
pub struct Group {
    folders: Vec<(&'static str, PathBuf)>,
    v2: bool,
}

impl Group {
    fn set_up(&self, limits: Limits) -> io::Result<()> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a handful of processors, checked to be positive")]
        let quota = (limits.cpus * CPU_PERIOD_US as f64) as u64;
        for (kind, folder) in &self.folders {
            fs::create_dir(folder).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))?;
            match *kind {
                "pids" => write(&folder.join("pids.max"), limits.processes)?,
                "memory" => {
                    write(&folder.join("memory.limit_in_bytes"), limits.memory)?;
                    write_where_known(&folder.join("memory.memsw.limit_in_bytes"), limits.memory)?;
                }
                "cpu" => {
                    write(&folder.join("cpu.cfs_period_us"), CPU_PERIOD_US)?;
                    write(&folder.join("cpu.cfs_quota_us"), quota)?;
                }
                _ => {
                    write(&folder.join("pids.max"), limits.processes)?;
                    write(&folder.join("memory.max"), limits.memory)?;
                    write_where_known(&folder.join("memory.swap.max"), 0)?;
                    write(&folder.join("cpu.max"), format!("{quota} {CPU_PERIOD_US}"))?;
                }
            }
        }
        Ok(())
    }

    /// Files into which a process writes `0` to join.
    ///
    /// # Errors
    /// A file that can't be opened for writing.
    pub fn doors(&self) -> io::Result<Vec<File>> {
        self.folders.iter().map(|(_, folder)| OpenOptions::new().write(true).open(folder.join("cgroup.procs"))).collect()
    }

    /// The bounds that it keeps, for the record.
    #[must_use]
    pub fn bounds(&self, limits: Limits) -> Vec<String> {
        let version = if self.v2 { "cgroup v2" } else { "cgroup v1" };
        let kept = |kind: &str| self.v2 || self.folders.iter().any(|(name, _)| *name == kind);
        let all = [
            ("pids", format!("{version}: pids {}", limits.processes)),
            ("memory", format!("{version}: memory {} bytes, swap counted", limits.memory)),
            ("cpu", format!("{version}: cpu {}", limits.cpus)),
        ];
        all.into_iter().filter(|(kind, _)| kept(kind)).map(|(_, phrase)| phrase).collect()
    }

    /// Whether it bounds the memory.
    #[must_use]
    pub fn bounds_memory(&self) -> bool {
        self.v2 || self.folders.iter().any(|(name, _)| *name == "memory")
    }

    /// How many processes were killed in it for want of memory.
    #[must_use]
    pub fn memory_kills(&self) -> u64 {
        let counter = |(kind, folder): &(&str, PathBuf)| match *kind {
            "memory" => fs::read_to_string(folder.join("memory.oom_control")).ok(),
            "all" => fs::read_to_string(folder.join("memory.events")).ok(),
            _ => None,
        };
        let text = self.folders.iter().find_map(counter).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
    }

    /// Kills what is in it and removes it; tries for some seconds, since the kernel needs a moment to let go.
    pub fn remove(&self) {
        const TRIES: u32 = 1000;
        for (_, folder) in &self.folders {
            for _ in 0..TRIES {
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                    _ => break,
                }
                kill_all_in(folder);
                std::thread::sleep(Duration::from_millis(3));
            }
        }
    }
}

fn write_where_known(file: &Path, value: u64) -> io::Result<()> {
    if file.exists() { write(file, value) } else { Ok(()) }
}

fn kill_all_in(folder: &Path) {
    let members = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 1) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { processes: 7, memory: 1 << 20, cpus: 1.5 };

    #[test]
    fn version_2_uses_a_sibling_where_its_own_group_hands_nothing_down() {
        let root = tempfile::tempdir().unwrap();
        let unit = root.path().join("system.slice/frognano.service");
        fs::create_dir_all(unit.join("worker")).unwrap();
        fs::write(root.path().join("cgroup.controllers"), "cpu memory pids").unwrap();
        fs::write(unit.join("cgroup.subtree_control"), "cpu memory pids\n").unwrap();
        fs::create_dir(unit.join("worker/cgroup.subtree_control")).unwrap();
        let tree = Tree::find_in(root.path(), "0::/system.slice/frognano.service/worker\n").unwrap();
        assert_eq!(tree, Tree::V2(unit.clone()));
        let group = tree.make("a", LIMITS).unwrap();
        let folder = &group.folders[0].1;
        assert!(folder.starts_with(&unit));
        assert_eq!(fs::read_to_string(folder.join("cpu.max")).unwrap(), "150000 100000");
        assert_eq!(fs::read_to_string(folder.join("memory.max")).unwrap(), "1048576");
        assert_eq!(group.bounds(LIMITS)[0], "cgroup v2: pids 7");
        fs::write(folder.join("memory.events"), "low 0\noom 2\noom_kill 3\n").unwrap();
        assert_eq!(group.memory_kills(), 3);
    }

    #[test]
    fn without_the_right_to_make_groups_there_is_no_tree() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Tree::find_in(root.path(), "0::/\n"), None);
        fs::write(root.path().join("cgroup.controllers"), "").unwrap();
        fs::create_dir(root.path().join("cgroup.subtree_control")).unwrap();
        assert_eq!(Tree::find_in(root.path(), "0::/\n"), None);
    }

    #[test]
    fn only_folders_of_dead_owners_are_leftovers() {
        let mine = owner_mark(std::process::id()).unwrap();
        assert!(!is_leftover(&format!("frognano-{mine}-run")));
        assert!(is_leftover(&format!("frognano-{}.1-run", std::process::id())));
        assert!(!is_leftover("system.slice"));
        assert!(!is_leftover("frognano-bot.service"));
    }
}
