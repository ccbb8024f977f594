//! What a sandbox on this machine is made of, checked as a whole before the first one is started.
//!
//! What must hold: nothing that a person configures here can bring a credential or a network into a sandbox.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use super::super::probe::Target;
use super::super::{Patience, WORKSPACE};

/// The user under whose id the sandboxes run when the service runs as root; no account needs to exist for it.
pub const SANDBOX_UID: u32 = 61_457;

/// How sandboxes on this machine are made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program bubblewrap.
    pub bwrap: PathBuf,
    /// The program `frognano-tools`, linked statically.
    pub tools: PathBuf,
    /// Where the service keeps its own files: never visible inside.
    pub state_dir: PathBuf,
    /// Folders (or files) of toolchains outside `/usr` that are visible inside at the same path, read-only.
    pub binds: Vec<PathBuf>,
    /// Folders that come first in `PATH` inside.
    pub path: Vec<PathBuf>,
    /// Further environment variables inside. Nothing of the service's own environment is ever inherited.
    pub env: Vec<(String, String)>,
    /// The size of the workspace in bytes, kept in memory. Default 1 GiB.
    pub workspace_bytes: u64,
    /// The size of `/tmp` and of the home folder, each, in bytes, kept in memory. Default 512 MiB.
    pub tmp_bytes: u64,
    /// Memory for all processes and for the file systems above together, in bytes; without cgroups for each process by itself. Default 4 GiB.
    pub memory_bytes: u64,
    /// Processes and threads together. Default 512.
    pub max_processes: u64,
    /// Open files of each process. Default 1024.
    pub max_open_files: u64,
    /// The size of one file in bytes. Default 1 GiB.
    pub max_file_bytes: u64,
    /// Processors' worth of time; needs cgroups. Default 2.
    pub cpus: f64,
    /// The user id of the sandboxes when the service runs as root (never 0); else the service's own is used. Default [`SANDBOX_UID`].
    pub uid: u32,
    /// What the probe tries besides its own targets, such as the forge and the model server: `address:port`, not a name, for tcp and udp.
    pub probe_targets: Vec<Target>,
    /// How long an answer from inside is waited for.
    pub patience: Patience,
}

impl Settings {
    /// The defaults, with Debian's bubblewrap.
    #[must_use]
    pub fn new(tools: impl Into<PathBuf>, state_dir: impl Into<PathBuf>) -> Self {
        Self {
            bwrap: PathBuf::from("/usr/bin/bwrap"),
            tools: tools.into(),
            state_dir: state_dir.into(),
            binds: Vec::new(),
            path: Vec::new(),
            env: Vec::new(),
            workspace_bytes: 1 << 30,
            tmp_bytes: 512 << 20,
            memory_bytes: 4 << 30,
            max_processes: 512,
            max_open_files: 1024,
            max_file_bytes: 1 << 30,
            cpus: 2.0,
            uid: SANDBOX_UID,
            probe_targets: Vec::new(),
            patience: Patience::default(),
        }
    }

    /// Everything that is wrong, one sentence each.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let programs =
            [("bubblewrap", &self.bwrap, "install the package bubblewrap"), ("frognano-tools", &self.tools, "build or install it")];
        for (name, program, remedy) in programs {
            if !is_program(program) {
                complaints.push(format!("sandbox: {} is no executable file ({name}): {remedy}", program.display()));
            }
        }
        complaints.extend(self.binds.iter().filter_map(|bind| self.complaint_about_bind(bind)));
        complaints.extend(
            self.path
                .iter()
                .filter(|folder| !folder.is_absolute())
                .map(|folder| format!("sandbox: the path entry {} is not absolute", folder.display())),
        );
        complaints.extend(self.env.iter().filter_map(|(name, _)| complaint_about_variable(name)));
        complaints.extend(self.probe_targets.iter().filter(|target| !can_be_tried(target)).map(|target| {
            format!(
                "sandbox: the probe can't try {} {:?}: tcp and udp need an address and a port, such as 10.0.0.1:443",
                target.kind, target.address
            )
        }));
        let amounts = [
            ("workspace_bytes", self.workspace_bytes),
            ("tmp_bytes", self.tmp_bytes),
            ("memory_bytes", self.memory_bytes),
            ("max_processes", self.max_processes),
            ("max_open_files", self.max_open_files),
            ("max_file_bytes", self.max_file_bytes),
        ];
        complaints.extend(amounts.into_iter().filter(|(_, amount)| *amount == 0).map(|(name, _)| format!("sandbox: {name} must not be 0")));
        if !(self.cpus > 0.0 && self.cpus <= 4096.0) {
            complaints.push(format!("sandbox: cpus is {}, it must be above 0", self.cpus));
        }
        if self.uid == 0 || self.uid == u32::MAX {
            complaints.push(format!("sandbox: uid {} can't be the user of a sandbox: choose one that nothing else uses", self.uid));
        }
        complaints
    }

    fn complaint_about_bind(&self, bind: &Path) -> Option<String> {
        let complain = |why: String| Some(format!("sandbox: {} can't be visible inside: {why}", bind.display()));
        if !bind.is_absolute() || bind.components().any(|part| part == Component::ParentDir) {
            return complain("it must be an absolute path without `..`".to_owned());
        }
        let (Ok(real), Ok(about)) = (bind.canonicalize(), fs::metadata(bind)) else {
            return complain("it does not exist or can't be read".to_owned());
        };
        let state_dir = self.state_dir.canonicalize().unwrap_or_else(|_| self.state_dir.clone());
        if overlap(&real, &state_dir) || overlap(bind, &self.state_dir) {
            return complain("it overlaps the state folder of the service".to_owned());
        }
        if about.file_type().is_socket() || !(about.is_dir() || about.is_file()) {
            return complain("it is neither a folder nor a file".to_owned());
        }
        [real.as_path(), bind].into_iter().find_map(reason_against).and_then(complain)
    }
}

fn is_program(path: &Path) -> bool {
    path.is_absolute() && fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// What can't be tried would count as not reached.
fn can_be_tried(target: &Target) -> bool {
    match target.kind.as_str() {
        "tcp" | "udp" => target.address.parse::<SocketAddr>().is_ok(),
        "dns" | "abstract" => !target.address.is_empty(),
        _ => false,
    }
}

fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Why a folder of the host must not be seen by an enemy.
fn reason_against(path: &Path) -> Option<String> {
    const NEVER: [&str; 9] = ["/etc", "/var", "/run", "/proc", "/sys", "/dev", "/boot", "/tmp/.X11-unix", WORKSPACE];
    const PRIVATE: [&str; 11] =
        [".ssh", ".aws", ".azure", ".config", ".docker", ".gnupg", ".kube", ".netrc", ".git-credentials", ".npmrc", ".pypirc"];
    if let Some(never) = NEVER.iter().find(|never| overlap(path, Path::new(never))) {
        return Some(format!("it overlaps {never}"));
    }
    if let Some(home) = homes().into_iter().find(|home| home.starts_with(path)) {
        return Some(format!("it holds the home folder {}: name the folder of the toolchain alone", home.display()));
    }
    let private = |name: &std::ffi::OsStr| PRIVATE.iter().any(|private| name == *private);
    if let Some(part) = path.components().find(|part| private(part.as_os_str())) {
        return Some(format!("{} is where credentials are kept", part.as_os_str().display()));
    }
    if path.file_name().is_some_and(|name| name == ".cargo") {
        return Some("credentials are kept in .cargo: name its bin or registry folder alone".to_owned());
    }
    let held = PRIVATE.iter().chain(&["credentials.toml", "credentials"]).find(|name| path.join(name).symlink_metadata().is_ok());
    held.map(|name| format!("it holds {name}, where credentials are kept"))
}

fn homes() -> Vec<PathBuf> {
    let own = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute() && home.parent().is_some());
    let others = fs::read_dir("/home").into_iter().flatten().flatten().map(|entry| entry.path());
    own.into_iter().chain([PathBuf::from("/root"), PathBuf::from("/home")]).chain(others).collect()
}

/// Why no sandbox may have this variable.
pub(in super::super) fn complaint_about_variable(name: &str) -> Option<String> {
    const FIXED: [&str; 5] = ["PATH", "HOME", "LANG", "TMPDIR", "USER"];
    const SECRET: [&str; 11] =
        ["PROXY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "KEY", "AUTH", "COOKIE", "SESSION", "DSN", "DATABASE_URL"];
    let upper = name.to_ascii_uppercase();
    let proper = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !proper {
        return Some(format!("sandbox: {name:?} is no name of an environment variable"));
    }
    if FIXED.contains(&name) {
        return Some(format!("sandbox: the environment variable {name} is set by the sandbox itself (for PATH there is `path`)"));
    }
    let hint = SECRET.iter().find(|hint| upper.contains(*hint))?;
    Some(format!("sandbox: the environment variable {name} looks like a proxy or a credential ({hint}); none may enter"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_bind(bind: impl Into<PathBuf>, state_dir: &Path) -> Option<String> {
        Settings::new("/bin/true", state_dir).complaint_about_bind(&bind.into())
    }

    #[test]
    fn what_may_hold_credentials_is_never_bound() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let make = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(&path).unwrap();
            path
        };
        for bind in
            ["/", "/etc", "/etc/ssl", "/var", "/var/lib", "/run", "/proc/self", "/home", "/root", "/nowhere/at/all", "usr", "/usr/../etc"]
        {
            assert!(with_bind(bind, &state).is_some(), "{bind}");
        }
        assert!(with_bind(make("a/.cargo"), &state).is_some());
        assert!(with_bind(make("a/.cargo/bin"), &state).is_none());
        assert!(with_bind(make("b/.ssh/x"), &state).is_some());
        assert!(with_bind(make("b"), &state).unwrap().contains("it holds .ssh"));
        assert!(with_bind(make("state"), &state).unwrap().contains("state folder"));
        assert!(with_bind(make("state/x"), &state).unwrap().contains("state folder"));
        assert!(with_bind(folder.path(), &state).unwrap().contains("state folder"));
        std::os::unix::fs::symlink("/etc", folder.path().join("innocent")).unwrap();
        assert!(with_bind(folder.path().join("innocent"), &state).is_some());
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("docker.sock")).unwrap();
        assert!(with_bind(folder.path().join("docker.sock"), &state).unwrap().contains("neither"));
        assert!(with_bind(make("toolchain"), &state).is_none());
    }

    #[test]
    fn variables_that_look_like_a_way_out_are_refused() {
        for name in ["https_proxy", "GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "PATH", "HOME", "", "A=B", "A B"] {
            assert!(complaint_about_variable(name).is_some(), "{name}");
        }
        assert!(complaint_about_variable("PYTHONDONTWRITEBYTECODE").is_none());
    }

    #[test]
    fn every_complaint_is_made_at_once() {
        let mut settings = Settings::new("/nowhere/frognano-tools", "/nowhere/state");
        settings.bwrap = "/etc/passwd".into();
        settings.binds = vec!["/".into()];
        settings.env = vec![("http_proxy".into(), "x".into())];
        settings.path = vec!["bin".into()];
        settings.cpus = f64::NAN;
        settings.uid = 0;
        settings.memory_bytes = 0;
        settings.probe_targets = vec![Target::new("tcp", "forge:443"), Target::new("dns", "forge")];
        assert_eq!(settings.complaints().len(), 9, "{:#?}", settings.complaints());
    }
}
