use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::domain::BlobMode;
use crate::git::TreeEntry;
use crate::leaf::{Observation, Step, Task, TurnRecord};

fn begun() -> Trajectory {
    Trajectory::begin(Task { trajectory_id: "t".to_owned(), instance_id: "i".to_owned(), seed: None, text: "task".to_owned() })
}

fn take_step(trajectory: &mut Trajectory) {
    let step = trajectory.steps.len() as u64;
    trajectory.messages.extend([json!({"role": "assistant", "content": ""}), json!({"role": "tool", "content": "ok"})]);
    let observations = vec![Observation { tool: "Bash".to_owned(), observation: "ok".to_owned() }];
    trajectory.steps.push(Step { step, assistant: json!({}), observations });
    let turn = json!({"step": step, "max_completion_tokens": 1, "finish_reason": "", "usage": null, "context_tokens": 7, "model_ms": 0, "tools_ms": 0});
    trajectory.frognano.turns.push(serde_json::from_value::<TurnRecord>(turn).unwrap());
}

async fn open(folder: &Path, base: &ObjectId, trajectory: &Trajectory, kept: Option<&Differences>) -> Keeper {
    let (ignored, limits) = (IgnoreRules::new(&[]), KeepLimits::default());
    Keeper::open(Opening { folder, shared: None, base, trajectory, kept, ignored, new: Vec::new(), limits }).await.unwrap()
}

fn found(folder: &Path, base: &ObjectId) -> Option<Resumable> {
    match find(folder, Some(base)) {
        Found::Run(kept) => Some(*kept),
        _ => None,
    }
}

fn refusal(folder: &Path, base: &ObjectId) -> String {
    match find(folder, Some(base)) {
        Found::Refused { why, .. } => why,
        _ => String::new(),
    }
}

fn one_file(path: &[u8], blob: String) -> Differences {
    Differences::from([(path.to_vec(), Some((BlobMode::File, blob)))])
}

fn base() -> ObjectId {
    ObjectId::parse(&"a".repeat(40)).unwrap()
}

/// A kept run of two steps, each of which wrote one file anew; the journal and the last blob.
async fn kept(folder: &Path) -> (Vec<u8>, PathBuf) {
    let keeper = open(folder, &base(), &begun(), None).await;
    two_steps(folder, keeper).await
}

async fn two_steps(folder: &Path, mut keeper: Keeper) -> (Vec<u8>, PathBuf) {
    let mut trajectory = begun();
    for step in 0..2 {
        let before = trajectory.messages.len();
        take_step(&mut trajectory);
        let blob = keeper.blobs.store(format!("content {step}").as_bytes()).unwrap();
        let differences = one_file(b"a.txt", blob);
        let change = change(&keeper.last, &differences, 0);
        keeper.last = differences;
        keeper.write(&Line::step(&trajectory, before, change).unwrap()).await.unwrap();
    }
    let blob = folder.join(BLOBS).join(blobs::name_of(b"content 1"));
    (std::fs::read(folder.join(JOURNAL)).unwrap(), blob)
}

#[tokio::test]
async fn a_run_cut_at_any_byte_goes_on_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = kept(folder.path()).await;
    let first = journal.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in first..=journal.len() {
        std::fs::write(folder.path().join(JOURNAL), &journal[..cut]).unwrap();
        let Resumable { mut trajectory, differences, .. } = found(folder.path(), &base()).unwrap();
        let steps = trajectory.steps.len();
        let content = steps.checked_sub(1).map(|last| one_file(b"a.txt", blobs::name_of(format!("content {last}").as_bytes())));
        assert_eq!(differences, content.unwrap_or_default(), "cut at {cut}");
        let mut keeper = open(folder.path(), &base(), &trajectory, Some(&differences)).await;
        let before = trajectory.messages.len();
        take_step(&mut trajectory);
        keeper.write(&Line::step(&trajectory, before, Value::Null).unwrap()).await.unwrap();
        let again = found(folder.path(), &base()).unwrap_or_else(|| panic!("cut at {cut}"));
        assert_eq!((again.trajectory.steps, again.differences), (trajectory.steps, differences), "cut at {cut}");
    }
}

#[tokio::test]
async fn a_blob_that_is_not_what_its_name_says_is_not_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let (_, blob) = kept(folder.path()).await;
    assert!(found(folder.path(), &base()).is_some());
    std::fs::write(&blob, b"").unwrap();
    assert_eq!(refusal(folder.path(), &base()), "its kept files are damaged");
    open(folder.path(), &base(), &begun(), None).await;
    assert!(!blob.exists(), "a run that starts over keeps nothing of the one before");
}

#[tokio::test]
async fn a_run_is_found_for_its_own_commit_and_one_of_another_version_starts_over() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(find(folder.path(), None), Found::Nothing));
    let (journal, _) = kept(folder.path()).await;
    let other = ObjectId::parse(&"b".repeat(40)).unwrap();
    assert!(matches!(find(folder.path(), Some(&other)), Found::Nothing));
    assert!(matches!(find(folder.path(), None), Found::Run(kept) if kept.base == base().as_str()));

    let lines = String::from_utf8(journal).unwrap();
    let old = lines.lines().map(|line| {
        let mut line = serde_json::from_str::<Value>(line).unwrap();
        if let Some(workspace) = line.pointer_mut("/step/workspace") {
            *workspace = json!([["612e747874", "100644", "a".repeat(40)]]);
        }
        format!("{line}\n")
    });
    std::fs::write(folder.path().join(JOURNAL), old.collect::<String>()).unwrap();
    assert_eq!(refusal(folder.path(), &base()), "its journal is of another version");
    std::fs::write(folder.path().join(JOURNAL), "{}\n").unwrap();
    assert_eq!(refusal(folder.path(), &base()), "its journal is damaged or of another version");
}

#[test]
fn lines_of_changes_give_the_whole_back() {
    let state = |paths: &[(&str, Option<&str>)]| {
        let row = |(path, blob): &(&str, Option<&str>)| (path.as_bytes().to_vec(), blob.map(|blob| (BlobMode::File, blob.repeat(40))));
        paths.iter().map(row).collect::<Differences>()
    };
    let states = [
        state(&[("a", Some("1")), ("b", None)]),
        state(&[("a", Some("2")), ("b", None), ("c/d", Some("3"))]),
        state(&[("c/d", Some("3"))]),
        state(&[("c/d", Some("3"))]),
        state(&[]),
    ];
    let (mut written, mut read) = (Differences::new(), Differences::new());
    for now in states {
        let line = change(&written, &now, 0);
        let rows = line["changed"].as_array().unwrap().len();
        assert_eq!(rows, now.iter().filter(|(path, state)| written.get(*path) != Some(state)).count());
        fold(&mut read, &line).unwrap();
        assert_eq!(read, now);
        written = now;
    }
    let nonsense = [
        json!({}),
        json!([]),
        json!({"changed": [["zz"]]}),
        json!({"changed": [["61", "100644", "../x"]]}),
        json!({"changed": [], "as_base": ["61"]}),
    ];
    for line in nonsense {
        assert_eq!(fold(&mut Differences::new(), &line), None, "{line}");
    }
}

fn entry(path: &str, size: u64, blob: &str) -> Entry {
    Entry { path: path.as_bytes().to_vec(), mode: Some(BlobMode::File), size, blob: blob.repeat(40) }
}

#[test]
fn by_products_are_kept_where_they_are_small_and_caches_are_not() {
    let rules = Rules::new(IgnoreRules::new(&[(b".gitignore".to_vec(), b"data/\n".to_vec())]), vec![entry(".git/HEAD", 1, "1")]);
    let limits = KeepLimits { file_bytes: 10, ignored_bytes: 15, run_bytes: 100 };
    let tree = Tree { entries: [(b"old.pyc".to_vec(), TreeEntry { mode: BlobMode::File, blob: "1".repeat(40), size: 1 })].into() };
    let compare = |there: &[Entry]| {
        let seen = rules.compare(&tree, there, &limits, |blob| blob.starts_with('9'))?;
        let text = |path: &Vec<u8>| String::from_utf8(path.clone()).unwrap();
        let wanted = seen.wanted.iter().map(|(path, _)| text(path)).collect::<Vec<_>>();
        Ok::<_, String>((seen.differences.keys().map(text).collect::<Vec<_>>(), wanted, seen.left_out))
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let there = [
        entry(".git/HEAD", 1, "1"),
        entry(".git/index", 1, "2"),
        entry("a/__pycache__/m.pyc", 99, "3"),
        entry("b/.pytest_cache/v/x", 99, "4"),
        entry("data/small", 1, "5"),
        entry("known", 99, "9"),
        entry("old.pyc", 2, "6"),
        entry("x.egg-info/top_level.txt", 1, "7"),
    ];
    let kept = [".git/index", "a", "b", "data/small", "known", "old.pyc", "x.egg-info/top_level.txt"];
    let wanted = [".git/index", "data/small", "old.pyc", "x.egg-info/top_level.txt"];
    assert_eq!(compare(&there), Ok((names(&kept), names(&wanted), 0)));

    let large = [entry("data/1", 10, "5"), entry("data/2", 10, "6"), entry("data/3", 11, "7"), entry("old.pyc", 1, "1")];
    assert_eq!(compare(&large), Ok((names(&["data", "data/1"]), names(&["data/1"]), 2)));

    let too_large = compare(&[entry("new.bin", 11, "5"), entry("old.pyc", 1, "1")]);
    assert_eq!(too_large, Err("new.bin has 11 bytes, the largest file that is kept 10".to_owned()));
}

#[test]
fn contents_come_in_pieces() {
    let wanted = |sizes: &[u64]| sizes.iter().map(|size| ((), *size)).collect::<Vec<_>>();
    let sizes = |wanted: Vec<((), u64)>| pieces(wanted).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(wanted(&[])), Vec::<usize>::new());
    assert_eq!(sizes(wanted(&[1, 2, PIECE, 1, PIECE / 2, PIECE / 2, u64::MAX])), [2, 1, 2, 1, 1]);
    assert_eq!(sizes(wanted(&vec![0; 20_000])), [8192, 8192, 3616]);
}

struct Numbered(std::sync::atomic::AtomicU64);

impl crate::domain::Ids for Numbered {
    fn next(&self) -> String {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string()
    }
}

/// The files of a leased run in a database of SQLite.
pub(super) async fn files_of_a_run(folder: &Path) -> RunFiles {
    use crate::domain::{RepoRef, SystemClock, Trigger};
    use crate::store::{QueueLimits, Store, Which};
    let store = Store::open(&format!("sqlite://{}", folder.join("db.sqlite").display())).await.unwrap();
    let repo = RepoRef { forge: "f".to_owned(), id: "1".to_owned(), path: "o/n".to_owned() };
    let trigger = Trigger { repo, number: 1, title: String::new(), body: String::new(), url: String::new() };
    let ids = Numbered(1.into());
    store.take_up(&trigger, "an act", &SystemClock, &ids).await.unwrap().unwrap();
    let claimed = store.claim(&QueueLimits::default(), Which::Any, "worker", 60_000, &SystemClock, &ids).await.unwrap().unwrap();
    store.run_files(&claimed.lease)
}

#[tokio::test]
async fn another_machine_finds_the_run_as_the_first_left_it_whatever_its_own_disk_has() {
    for place in ["", "attempt-2/"] {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = files_of_a_run(here.path()).await;
        // An earlier life on each machine: the one in the database is forgotten with the beginning of the next.
        kept(there.path()).await;
        for _ in 0..2 {
            let opening = Opening {
                folder: here.path(),
                shared: Some((files.clone(), place.to_owned())),
                base: &base(),
                trajectory: &begun(),
                kept: None,
                ignored: IgnoreRules::new(&[]),
                new: Vec::new(),
                limits: KeepLimits::default(),
            };
            two_steps(here.path(), Keeper::open(opening).await.unwrap()).await;
        }
        std::fs::remove_file(there.path().join(BLOBS).join(blobs::name_of(b"content 1"))).unwrap();
        std::fs::write(there.path().join(BLOBS).join(blobs::name_of(b"content 0")), b"damaged").unwrap();
        std::fs::write(there.path().join(JOURNAL), b"").unwrap();
        fetch(&files, place, there.path()).await.unwrap();
        let (left, gone_on) = (found(here.path(), &base()).unwrap(), found(there.path(), &base()).unwrap());
        assert_eq!((gone_on.trajectory, gone_on.differences), (left.trajectory, left.differences));
        assert_eq!(std::fs::read(there.path().join(BLOBS).join(blobs::name_of(b"content 0"))).unwrap(), b"content 0");

        let other = if place.is_empty() { "attempt-2/" } else { "" };
        fetch(&files, other, there.path()).await.unwrap();
        assert!(found(there.path(), &base()).is_some(), "nothing is kept of that attempt: the disk is left as it is");
    }
}
