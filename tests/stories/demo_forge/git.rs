use frognano_bot::demo::{Kind, branch_tip};
use frognano_bot::domain::Permission;

use super::{Stage, commit, fail, git, sample, succeed};

#[tokio::test(flavor = "multi_thread")]
async fn a_private_repository_is_cloned_with_a_token_only() {
    for kind in Kind::ALL {
        let stage = Stage::new(kind).await;
        let clone = stage.clone_as("rita", "clone").await;
        assert!(clone.join("tallybook/plan.py").is_file());
        for (login, words) in [("", "Authentication failed"), ("nobody", "Authentication failed"), ("stranger", "not found")] {
            let said = fail(git(&clone, &["ls-remote", &stage.remote(login)]).await);
            assert!(said.contains(words), "{login}: {said}");
        }
        stage.forge().with_repository(sample::PATH, |repository| repository.private = false).unwrap();
        succeed(git(&clone, &["ls-remote", &stage.remote("")]).await);
        let said = fail(git(&clone, &["push", &stage.remote(""), "HEAD:refs/heads/x"]).await);
        assert!(said.contains("Authentication failed"), "{kind:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_pushes_branches_but_never_the_default_one() {
    let stage = Stage::new(Kind::Gitea).await;
    let bare = stage.path("tallybook.git");
    let before = branch_tip(&bare, "main").unwrap();
    let sha = stage.push_branch("wren", "frognano/issue-1-a").await;
    assert_eq!(branch_tip(&bare, "frognano/issue-1-a"), Some(sha));

    let clone = stage.path("clone-wren-frognano-issue-1-a");
    for (target, words) in
        [("HEAD:main", "Not allowed to push to protected branch main"), (":main", "deletion of the current branch prohibited")]
    {
        let said = fail(git(&clone, &["push", "origin", target]).await);
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(branch_tip(&bare, "main"), Some(before));
    succeed(git(&clone, &["push", "origin", ":frognano/issue-1-a"]).await);
    assert_eq!(branch_tip(&bare, "frognano/issue-1-a"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_narrow_tokens_and_archives_take_no_push() {
    let stage = Stage::new(Kind::Gitea).await;
    stage.forge().add_token("narrow-token", "wren", &["read:repository", "write:issue"]).unwrap();
    let clone = stage.clone_as("narrow", "clone").await;
    commit(&clone, "fix", "a.txt", "a\n").await;
    for login in ["rita", "narrow"] {
        assert!(fail(git(&clone, &["push", &stage.remote(login), "fix"]).await).contains("403"));
    }
    stage.forge().permit(sample::PATH, "rita", Permission::Write).unwrap();
    succeed(git(&clone, &["push", &stage.remote("rita"), "fix"]).await);
    stage.forge().with_repository(sample::PATH, |repository| repository.archived = true).unwrap();
    assert!(fail(git(&clone, &["push", &stage.remote("rita"), "fix:other"]).await).contains("403"));
}

/// git compresses long negotiations and sends large packs in chunks without a length: both must get through.
#[tokio::test(flavor = "multi_thread")]
async fn compressed_and_chunked_requests_get_through() {
    let stage = Stage::new(Kind::GitHub).await;
    let behind = stage.clone_as("wren", "behind").await;
    for step in 0..40 {
        succeed(git(&behind, &["commit", "--quiet", "--allow-empty", "-m", &format!("Step {step}")]).await);
    }
    let ahead = stage.clone_as("wren", "ahead").await;
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b' ' + u8::try_from(state >> 33 & 63).unwrap())
    });
    commit(&ahead, "large", "noise.txt", &noise.take(3_000_000).collect::<String>()).await;
    succeed(git(&ahead, &["push", "--quiet", "origin", "large"]).await);
    succeed(git(&behind, &["fetch", "--quiet", "origin"]).await);
    assert_eq!(succeed(git(&behind, &["rev-parse", "origin/large"]).await), succeed(git(&ahead, &["rev-parse", "HEAD"]).await));
}
