//! What every sandbox promises, kept by a pod.

use std::time::Duration;

use frognano_bot::sandbox::{Command, Listing, SandboxError, Sandboxes as _};
use serde_json::json;

use super::world::World;
use crate::sandbox::suite::run;
use crate::sandbox::{suite, tar_files, walls};

macro_rules! promises {
    ($($room:ident::$promise:ident),* $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $promise() {
            if let Some(world) = World::enforced("promises").await {
                $room::$promise(&world.sandboxes().await).await;
            }
        })*
    };
}

promises!(
    suite::brings_odd_names_in_and_out,
    suite::keeps_modes_and_never_follows_links,
    suite::takes_no_more_than_the_limit,
    suite::answers_the_tools,
    suite::bounds_time_and_output,
    suite::bounds_processes,
    suite::bounds_memory,
    walls::is_writable_only_where_it_should_be,
    walls::gives_no_rights,
);

/// The kubelet looks once a minute.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_fills_its_disk_is_evicted_and_said_to_have_no_room() {
    let Some(world) = World::enforced("promises").await else { return };
    let mut sandbox = world.sandboxes().await.start("disk").await.unwrap();
    let fill = "for part in 1 2 3 4; do head -c 30M /dev/zero > big$part || exit 1; done; sleep 200";
    let filled = sandbox.run(&Command { script: fill.into(), timeout: Duration::from_secs(240), output_limit: 100 }).await;
    assert!(matches!(&filled, Err(SandboxError::NoRoom(why)) if why.starts_with("out-of-disk: ")), "{filled:?}");
    sandbox.close().await;
    world.nothing_is_left_of("disk").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_shows_nothing_of_the_cluster() {
    let Some(world) = World::enforced("promises").await else { return };
    let mut sandbox = world.sandboxes().await.start("host").await.unwrap();
    let environment = run(&mut sandbox, "env").await.stdout;
    let usual = ["PATH", "HOME", "USER", "LANG", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_", "MARK"];
    let name = |line: &str| line.split('=').next().unwrap_or_default().to_owned();
    let strange: Vec<_> =
        environment.lines().map(name).filter(|name| !usual.contains(&name.as_str()) && !name.starts_with("GIT_CONFIG_")).collect();
    assert_eq!(strange, Vec::<String>::new());
    let seen =
        run(&mut sandbox, "cat /etc/resolv.conf; ls -A /var/run/secrets /run/secrets 2>/dev/null; cat /proc/1/environ; ls -l /proc/1/fd/")
            .await;
    assert_eq!(seen.stdout.trim(), "nameserver 127.0.0.1", "{seen:?}");
    assert_eq!(run(&mut sandbox, "ls /proc/self/fd").await.stdout, "0\n1\n2\n3\n");
    let git = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --format=%s && rm -rf .git";
    assert_eq!(run(&mut sandbox, git).await.stdout, "x\n", "git works in a folder that the cluster made");
    sandbox.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_a_shell_has_every_tool_but_bash() {
    let Some(world) = World::enforced("promises").await else { return };
    let mut config = world.config();
    config.kubernetes.image.clone_from(&config.kubernetes.tools_image);
    let mut sandbox = world.sandboxes_of(config, |_| ()).await.start("bare").await.unwrap();
    sandbox.put(tar_files::one_file("a/b.py", b"x = 1\n")).await.unwrap();
    assert!(sandbox.call("Read", &json!({"file_path": "a/b.py"})).await.unwrap().contains("x = 1"));
    sandbox.call("Write", &json!({"file_path": "c.py", "content": "y"})).await.unwrap();
    assert!(sandbox.call("Glob", &json!({"pattern": "**/*.py"})).await.unwrap().contains("c.py"));
    let bash = sandbox.call("Bash", &json!({"command": "true"})).await.unwrap();
    assert_eq!(bash, "FileNotFoundError: [Errno 2] No such file or directory: '/bin/bash'");
    let ran = sandbox.run(&Command { script: "true".into(), timeout: Duration::from_secs(5), output_limit: 100 }).await.unwrap();
    assert!(ran.exit_code == Some(127) && ran.stderr.contains("/bin/bash is not in this image"), "{ran:?}");
    assert_eq!(sandbox.list(Listing::Exact).await.unwrap().len(), 2);
    sandbox.close().await;
}
