//! What a sandbox of this machine is made of, as one digest: the system that it shows, the packages that can be imported, and its settings.
//!
//! What must hold: an installed, removed or upgraded package, another folder or another limit gives another digest; the same system gives the same
//! one on another machine, so neither times nor numbers of files count. Where it can't be told, there is no digest.

use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::settings::Settings;

/// How deep a folder is searched for packages; `lib/python3/site-packages/NAME.dist-info` of a virtualenv needs four.
const DEPTH: usize = 6;
/// More folders than this are not looked through.
const MOST: usize = 50_000;

/// The digest in hexadecimal; none where this machine does not say what it consists of.
pub(super) fn of(settings: &Settings) -> Option<String> {
    let system = fs::read("/var/lib/dpkg/status").or_else(|_| fs::read("/lib/apk/db/installed")).ok()?;
    let mut digest = Sha256::new();
    let mut add = |bytes: &[u8]| {
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    add(&fs::read("/etc/os-release").unwrap_or_default());
    add(&system);
    let shown = [Path::new("/usr/local/lib"), Path::new("/usr/lib/python3")];
    for folder in shown.into_iter().chain(settings.binds.iter().map(|bind| bind.as_path())) {
        add(folder.as_os_str().as_encoded_bytes());
        let mut left = MOST;
        let mut packages = Vec::new();
        packages_below(folder, DEPTH, &mut left, &mut packages);
        if left == 0 {
            return None;
        }
        packages.sort();
        packages.iter().for_each(|package| add(package));
    }
    add(&fs::read(&settings.tools).ok()?);
    add(format!("{:?} {:?} {}", settings.path, settings.env, settings.cpus).as_bytes());
    let amounts = [
        settings.workspace_bytes,
        settings.tmp_bytes,
        settings.memory_bytes,
        settings.max_processes,
        settings.max_open_files,
        settings.max_file_bytes,
    ];
    amounts.iter().for_each(|amount| add(&amount.to_le_bytes()));
    Some(hex::encode(digest.finalize()))
}

/// The names of installed packages, with their versions, and the content of the small files by which others are put on the path.
fn packages_below(folder: &Path, depth: usize, left: &mut usize, packages: &mut Vec<Vec<u8>>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return;
        }
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.as_encoded_bytes();
        let is_record = [&b".dist-info"[..], b".egg-info", b".egg-link", b".pth", b".cfg"].iter().any(|end| name.ends_with(end));
        if is_record {
            packages.push(path.as_os_str().as_encoded_bytes().to_vec());
            packages.extend(fs::read(path.join("RECORD")).or_else(|_| fs::read(&path)).ok());
        } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) && !name.ends_with(b"__pycache__") {
            packages_below(&path, depth - 1, left, packages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Settings, of};

    #[test]
    fn another_package_or_setting_is_another_image() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("venv/lib/python3/site-packages");
        std::fs::create_dir_all(site.join("a-1.dist-info")).unwrap();
        let mut settings = Settings::new("/bin/true", folder.path().join("state"));
        settings.binds = vec![folder.path().join("venv")];
        let first = of(&settings);
        assert_eq!(first, of(&settings.clone()));
        if first.is_none() {
            return;
        }
        std::fs::create_dir_all(site.join("b-1.dist-info")).unwrap();
        let second = of(&settings);
        std::fs::write(site.join("b-1.dist-info/RECORD"), "b/__init__.py,sha256=x,1").unwrap();
        let third = of(&settings);
        settings.env.push(("A".to_owned(), "1".to_owned()));
        let all = [first, second, third, of(&settings)];
        assert!((0..4).all(|at| all[at].is_some() && all[..at].iter().all(|other| *other != all[at])), "{all:?}");
    }
}
