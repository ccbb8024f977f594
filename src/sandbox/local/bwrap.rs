//! The command line of bubblewrap: what a sandbox can see, word for word.
//!
//! What must hold: no network, no host folder but read-only toolchains, nothing writable that has no size, no variable but these.
//! The order matters: the root is made read-only last, since its own memory file system has no size.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::super::WORKSPACE;
use super::settings::Settings;

/// The home folder inside.
const HOME: &str = "/home/agent";
/// The program inside.
const PROGRAM: &str = "/run/frognano-tools";

const FILES: [(&str, &str); 4] = [
    (
        "/etc/passwd",
        "root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:1000:1000:agent:/home/agent:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("/etc/group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
];

/// A part of the host that is seen inside: where it is found when bubblewrap starts, and where it is seen.
#[derive(Debug, Clone)]
pub struct Bind {
    /// On the host, as the sandbox's user reaches it.
    pub from: PathBuf,
    /// Inside.
    pub to: PathBuf,
}

/// The arguments, and the files that bubblewrap reads by their numbers.
#[derive(Debug)]
pub struct Line {
    /// All arguments after the program's name.
    pub args: Vec<OsString>,
    /// To be inherited by bubblewrap, which closes them.
    pub files: Vec<OwnedFd>,
}

impl Line {
    /// The line for one sandbox. `tools` and `binds` are where the sandbox's user reaches them; `limit_memory` asks the program inside for what no
    /// control group does.
    ///
    /// # Errors
    /// When a small file can't be kept in memory.
    pub fn new(settings: &Settings, tools: &Path, binds: &[Bind], limit_memory: bool) -> io::Result<Self> {
        let mut line = Self { args: Vec::new(), files: Vec::new() };
        line.walls();
        line.environment(settings);
        line.system()?;
        line.room(settings);
        for bind in binds {
            line.bind("--ro-bind", &bind.from, &bind.to);
        }
        line.bind("--ro-bind", tools, Path::new(PROGRAM));
        line.add(["--chdir", WORKSPACE, "--remount-ro", "/", "--", PROGRAM, "--workdir", WORKSPACE, "--confine"]);
        line.limits(settings, limit_memory);
        Ok(line)
    }

    fn walls(&mut self) {
        self.add(["--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup"]);
        self.add(["--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--disable-userns", "--cap-drop", "ALL"]);
        self.add(["--die-with-parent", "--new-session", "--as-pid-1"]);
    }

    fn environment(&mut self, settings: &Settings) {
        let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
        let path = settings.path.iter().chain(&usual).map(|folder| folder.as_os_str()).collect::<Vec<_>>().join(":".as_ref());
        self.add(["--clearenv", "--setenv", "PATH"]);
        self.args.push(path);
        for (name, value) in [("HOME", HOME), ("USER", "agent"), ("LANG", "C.UTF-8"), ("TMPDIR", "/tmp")] {
            self.add(["--setenv", name, value]);
        }
        for (name, value) in &settings.env {
            self.add(["--setenv", name, value]);
        }
    }

    fn system(&mut self) -> io::Result<()> {
        self.add(["--ro-bind", "/usr", "/usr"]);
        for name in ["/bin", "/sbin", "/lib", "/lib64", "/lib32"] {
            match fs::read_link(name) {
                Ok(target) => self.bind("--symlink", &target, Path::new(name)),
                Err(_) => self.add(["--ro-bind-try", name, name]),
            }
        }
        for name in ["/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs"] {
            self.add(["--ro-bind-try", name, name]);
        }
        for (name, content) in FILES {
            let file = in_memory(content)?;
            self.add(["--perms", "0444", "--ro-bind-data", &file.as_raw_fd().to_string(), name]);
            self.files.push(file);
        }
        self.add(["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]);
        self.add(["--dev", "/dev", "--perms", "1777", "--size", "67108864", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]);
        Ok(())
    }

    fn room(&mut self, settings: &Settings) {
        self.add(["--perms", "1777", "--size", &settings.tmp_bytes.to_string(), "--tmpfs", "/tmp"]);
        self.add(["--perms", "0755", "--size", &settings.tmp_bytes.to_string(), "--tmpfs", HOME]);
        self.add(["--perms", "0755", "--size", &settings.workspace_bytes.to_string(), "--tmpfs", WORKSPACE]);
    }

    fn limits(&mut self, settings: &Settings, limit_memory: bool) {
        self.add(["--max-processes", &settings.max_processes.to_string()]);
        self.add(["--max-file-bytes", &settings.max_file_bytes.to_string()]);
        self.add(["--max-open-files", &settings.max_open_files.to_string()]);
        if limit_memory {
            self.add(["--max-memory-bytes", &settings.memory_bytes.to_string()]);
        }
    }

    fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.args.extend(words.map(OsString::from));
    }

    fn bind(&mut self, how: &str, from: &Path, to: &Path) {
        self.args.extend([how.as_ref(), from.as_os_str(), to.as_os_str()].map(OsString::from));
    }
}

/// The bounds that this line keeps by itself, for the record.
#[must_use]
pub fn bounds(settings: &Settings, limit_memory: bool) -> Vec<String> {
    let mut bounds = vec![
        format!("tmpfs: workspace {} bytes", settings.workspace_bytes),
        format!("tmpfs: tmp and home {} bytes each", settings.tmp_bytes),
        format!("rlimit: processes {}", settings.max_processes),
        format!("rlimit: open files {}", settings.max_open_files),
        format!("rlimit: file size {} bytes", settings.max_file_bytes),
    ];
    if limit_memory {
        bounds.push(format!("rlimit: memory {} bytes for each process", settings.memory_bytes));
    }
    bounds
}

fn in_memory(content: &str) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"frognano", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(content.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}
