//! Rights that the program takes from itself, and so from everything it starts.
//!
//! What must hold: once confined, no process here can read the program's own files in `/proc` (a forged answer), make a new user namespace,
//! reach the host by a socket family that the network namespace doesn't cover (vsock), or use the kernel's rarely used corners. Limits are only
//! ever lowered: raising a hard limit needs a right that the sandbox doesn't have.

use std::collections::BTreeMap;

use nix::libc;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

/// The resource limits to set; none keeps what is in force.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Bounds {
    /// Processes and threads of this user in this user namespace.
    pub processes: Option<u64>,
    /// The size of one file in bytes.
    pub file_bytes: Option<u64>,
    /// The address space of one process in bytes.
    pub memory_bytes: Option<u64>,
    /// Open files of one process.
    pub open_files: Option<u64>,
}

/// Makes the program unreadable to others, sets the limits and installs the system call filters.
///
/// # Errors
/// One sentence about the step that failed; the program must then not go on.
pub(super) fn confine(bounds: &Bounds) -> Result<(), String> {
    prctl::set_dumpable(false).map_err(|why| format!("can't make the program undumpable: {why}"))?;
    let wanted = [
        (Resource::RLIMIT_NPROC, bounds.processes),
        (Resource::RLIMIT_FSIZE, bounds.file_bytes),
        (Resource::RLIMIT_AS, bounds.memory_bytes),
        (Resource::RLIMIT_NOFILE, bounds.open_files),
        (Resource::RLIMIT_CORE, Some(0)),
    ];
    for (resource, limit) in wanted.into_iter().filter_map(|(resource, limit)| Some((resource, limit?))) {
        lower(resource, limit).map_err(|why| format!("can't lower {resource:?} to {limit}: {why}"))?;
    }
    install_filters().map_err(|why| format!("can't install the system call filter: {why}"))
}

/// The lines of the kernel about this program's rights, which everything that it starts inherits: `NoNewPrivs`, `Seccomp` and the capabilities.
///
/// # Errors
/// When the kernel does not tell.
pub(super) fn about() -> Result<BTreeMap<String, String>, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|why| format!("/proc/self/status can't be read: {why}"))?;
    let told = status.lines().filter_map(|line| line.split_once(':'));
    let rights = told.filter(|(name, _)| name.starts_with("Cap") || ["NoNewPrivs", "Seccomp"].contains(name));
    Ok(rights.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
}

fn lower(resource: Resource, limit: u64) -> nix::Result<()> {
    let (_, hard) = getrlimit(resource)?;
    let limit = limit.min(hard);
    setrlimit(resource, limit, limit)
}

/// Refused with "Operation not permitted" whatever the arguments are.
const NOT_PERMITTED: &[libc::c_long] = &[
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_quotactl,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_fsmount,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_personality,
    libc::SYS_fanotify_init,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_acct,
    libc::SYS_pidfd_getfd,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Answered with "Function not implemented", so that the C library takes the older way.
const NOT_THERE: &[libc::c_long] = &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// The socket families that stay: all of them end at the walls of the network namespace.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

fn install_filters() -> Result<(), Box<dyn std::error::Error>> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut not_permitted: BTreeMap<i64, Vec<SeccompRule>> =
        NOT_PERMITTED.iter().flat_map(|call| numbers(*call)).map(|call| (call, Vec::new())).collect();
    let new_user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let clone = SeccompRule::new(vec![argument(0, SeccompCmpOp::MaskedEq(new_user), new_user)?])?;
    let type_ahead = SeccompRule::new(vec![argument(1, SeccompCmpOp::Eq, libc::TIOCSTI)?])?;
    let console = SeccompRule::new(vec![argument(1, SeccompCmpOp::Eq, libc::TIOCLINUX)?])?;
    for call in numbers(libc::SYS_clone) {
        not_permitted.insert(call, vec![clone.clone()]);
    }
    for call in numbers(libc::SYS_ioctl) {
        not_permitted.insert(call, vec![type_ahead.clone(), console.clone()]);
    }
    let not_there = NOT_THERE.iter().flat_map(|call| numbers(*call)).map(|call| (call, Vec::new())).collect();
    let other_family =
        FAMILIES.iter().map(|family| argument(0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs()))).collect::<Result<_, _>>()?;
    let other_family = SeccompRule::new(other_family)?;
    let sockets = [libc::SYS_socket, libc::SYS_socketpair]
        .iter()
        .flat_map(|call| numbers(*call))
        .map(|call| (call, vec![other_family.clone()]))
        .collect();

    for (rules, errno) in [(not_permitted, libc::EPERM), (not_there, libc::ENOSYS), (sockets, libc::EAFNOSUPPORT)] {
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()), arch)?;
        apply_filter(&BpfProgram::try_from(filter)?)?;
    }
    Ok(())
}

fn argument(index: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)
}

/// A system call's number, and on x86-64 also its x32 twin, which the kernel reports under the same architecture.
fn numbers(call: libc::c_long) -> impl Iterator<Item = i64> {
    let twin = cfg!(target_arch = "x86_64").then_some(call | 0x4000_0000);
    std::iter::once(call).chain(twin)
}
