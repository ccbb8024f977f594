//! The promises, for any kind of sandbox: what an enemy inside finds of the host.

use frognano_bot::sandbox::Sandboxes;

use super::suite::run;

pub async fn reaches_no_network(boxes: &dyn Sandboxes) {
    let mut sandbox = boxes.start("network").await.unwrap();
    let report = sandbox.probe_report();
    let tried = |kind: &str| report.attempts.iter().any(|attempt| attempt.kind == kind);
    assert!(["tcp", "udp", "dns", "abstract", "vsock"].into_iter().all(tried), "{report:#?}");
    assert!(report.attempts.iter().all(|attempt| !attempt.reached && !attempt.why.is_empty()), "{report:#?}");
    let routes = run(&mut sandbox, "tail -n +2 /proc/net/route; echo > /dev/tcp/192.0.2.1/80").await;
    assert_eq!(routes.stdout, "");
    assert!(routes.stderr.contains("unreachable"), "{routes:?}");
    let own = "perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen => 1, LocalAddr => q(127.0.0.1)) or die; IO::Socket::INET->new(PeerAddr => q(127.0.0.1), PeerPort => $l->sockport) or die; print q(own loopback)'";
    assert_eq!(run(&mut sandbox, own).await.stdout, "own loopback");
    sandbox.close().await;
}

pub async fn shows_nothing_of_the_host(boxes: &dyn Sandboxes) {
    let mut sandbox = boxes.start("host").await.unwrap();
    let environment = run(&mut sandbox, "env").await.stdout;
    let usual = ["PATH", "HOME", "USER", "LANG", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_", "MARK"];
    let strange: Vec<_> = environment.lines().filter(|line| !usual.contains(&line.split('=').next().unwrap_or_default())).collect();
    assert_eq!(strange, Vec::<&str>::new());
    let pids = run(&mut sandbox, "cd /proc; for pid in [0-9]*; do [ $pid -le 100 ] || echo $pid; done; ls -d [0-9]* | wc -l").await.stdout;
    assert!(pids.trim().parse::<u32>().is_ok_and(|count| count < 8), "{pids}");
    let seen = run(&mut sandbox, "ls -A / /etc /home /run /root /var /sys 2>/dev/null").await.stdout;
    for secret in ["shadow", "ssh", "docker.sock", "hostname", "machine-id", "resolv.conf", "/var:", "/sys:"] {
        assert!(!seen.lines().any(|line| line == secret), "{secret} in\n{seen}");
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_ne!(run(&mut sandbox, "cat /proc/sys/kernel/hostname").await.stdout, host);
    let inherited = run(&mut sandbox, "cat /proc/1/environ; ls -l /proc/1/fd/; ls /proc/self/fd").await;
    assert_eq!(inherited.stdout, "0\n1\n2\n3\n", "{inherited:?}");
    sandbox.close().await;
}

pub async fn is_writable_only_where_it_should_be(boxes: &dyn Sandboxes) {
    let mut sandbox = boxes.start("write").await.unwrap();
    let refused = "for path in /x /etc/x /etc/passwd /usr/x /usr/bin/env /bin/x /lib/x /dev/x /run/x /home/x /run/frognano-tools \
        /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sys/kernel/hostname /proc/sysrq-trigger /proc/1/mem /proc/1/fd/1; do \
        (echo x >> $path) 2>/dev/null && echo $path; done; \
        for path in /workspace/x /tmp/x ~/x /dev/shm/x; do echo x > $path || echo no $path; done";
    assert_eq!(run(&mut sandbox, refused).await.stdout, "");
    sandbox.close().await;
}

pub async fn gives_no_rights(boxes: &dyn Sandboxes) {
    let mut sandbox = boxes.start("rights").await.unwrap();
    let status = run(&mut sandbox, "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t'").await.stdout;
    for line in ["CapEff:0000000000000000", "CapBnd:0000000000000000", "NoNewPrivs:1", "Seccomp:2"] {
        assert!(status.lines().any(|found| found == line), "{line} in\n{status}");
    }
    let tried = "unshare -U true && echo userns; unshare -m true && echo mountns; mount -t tmpfs none /tmp && echo mount; \
        kill -9 1; kill -STOP 1; chroot / true && echo chroot; mknod /tmp/null c 1 3 && echo mknod; true";
    assert_eq!(run(&mut sandbox, &format!("({tried}) 2>/dev/null")).await.stdout, "");
    assert_eq!(run(&mut sandbox, "echo alive").await.stdout, "alive\n");
    sandbox.close().await;
}
