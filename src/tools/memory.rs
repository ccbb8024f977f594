//! How often the kernel killed a process inside because the memory of its control group was used up.

use std::fs;

/// Where a container sees its own group, version 2 and version 1.
const PLACES: [&str; 2] = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"];

/// The count so far; 0 where it can't be read.
pub(super) fn kills() -> u64 {
    PLACES.iter().find_map(|place| counted(&fs::read_to_string(place).ok()?)).unwrap_or(0)
}

fn counted(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_versions_of_the_kernel_are_read() {
        assert_eq!(super::counted("low 0\nhigh 0\nmax 3\noom 2\noom_kill 4\noom_group_kill 1\n"), Some(4));
        assert_eq!(super::counted("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), Some(2));
        assert_eq!(super::counted("oom_kill_disable 0\nunder_oom 0\n"), None);
    }
}
