//! The bulk answers of a sandbox, read as what they are: bytes that an enemy may have written.
//!
//! What must hold: no path that leaves the workspace, no path twice, none that is file and folder at once, no size that the bytes don't have; one odd record spoils the whole answer.

use std::collections::HashSet;
use std::io::Read;

use crate::domain::BlobMode;

use super::{Entry, TakenFile};

/// Reads the answer to `list`: records `MODE SP SHA1 SP SIZE SP PATH NUL`.
///
/// # Errors
/// One sentence on the first record that no honest program writes.
pub fn entries(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    let Some(records) = bytes.strip_suffix(b"\0") else {
        return if bytes.is_empty() { Ok(Vec::new()) } else { Err("the list of files has no end".to_owned()) };
    };
    let entries = records.split(|byte| *byte == 0).map(entry).collect::<Result<Vec<_>, _>>()?;
    let mut seen = HashSet::with_capacity(entries.len());
    if let Some(twice) = entries.iter().find(|entry| !seen.insert(entry.path.as_slice())) {
        return Err(format!("the list names {} twice", shown(&twice.path)));
    }
    let through_a_file = |path: &[u8]| folders(path).any(|folder| seen.contains(folder));
    match entries.iter().find(|entry| through_a_file(&entry.path)) {
        Some(below) => Err(format!("the list has {} below a file", shown(&below.path))),
        None => Ok(entries),
    }
}

/// Every folder above a path.
fn folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end])
}

fn entry(record: &[u8]) -> Result<Entry, String> {
    let odd = || format!("the list has an odd record: {}", shown(record));
    let mut fields = record.splitn(4, |byte| *byte == b' ');
    let mut text = || fields.next().and_then(|field| std::str::from_utf8(field).ok()).ok_or_else(odd);
    let (mode, blob, size) = (text()?, text()?, text()?);
    let path = fields.next().filter(|path| stays_inside(path)).ok_or_else(odd)?;
    let mode = match mode {
        "other" => None,
        "folder" => Some(BlobMode::Submodule),
        "100644" | "100755" | "120000" => BlobMode::parse(mode),
        _ => return Err(odd()),
    };
    let named = blob.len() == 40 && blob.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match (mode, named) {
        (None | Some(BlobMode::Submodule), _) if blob != "-" => return Err(odd()),
        (Some(mode), false) if mode != BlobMode::Submodule => return Err(odd()),
        _ => {}
    }
    let blob = if blob == "-" { String::new() } else { blob.to_owned() };
    Ok(Entry { path: path.to_vec(), mode, size: size.parse().map_err(|_| odd())?, blob })
}

fn stays_inside(path: &[u8]) -> bool {
    !path.contains(&0) && path.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}

/// Reads the answer to `take`: a tar archive of some of the files that were asked for.
///
/// # Errors
/// One sentence when the archive is broken, holds what nobody asked for, or holds more than `limit` bytes.
pub fn taken(archive: &[u8], asked: &[Vec<u8>], limit: u64) -> Result<Vec<TakenFile>, String> {
    let broken = |error: std::io::Error| format!("the archive of files is broken: {error}");
    let mut open: HashSet<&[u8]> = asked.iter().map(Vec::as_slice).collect();
    let mut left = limit;
    let mut files = Vec::new();
    for item in tar::Archive::new(archive).entries().map_err(broken)? {
        let mut item = item.map_err(broken)?;
        let path = item.path_bytes().into_owned();
        if !open.remove(path.as_slice()) {
            return Err(format!("the archive holds {}, which was not asked for (or not twice)", shown(&path)));
        }
        let (mode, content) = match item.header().entry_type() {
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                let executable = item.header().mode().map_err(broken)? & 0o100 != 0;
                let mut content = Vec::new();
                item.read_to_end(&mut content).map_err(broken)?;
                (if executable { BlobMode::Executable } else { BlobMode::File }, content)
            }
            tar::EntryType::Symlink => {
                let target = item.link_name_bytes().ok_or_else(|| format!("the link {} has no target", shown(&path)))?;
                (BlobMode::Symlink, target.into_owned())
            }
            other => return Err(format!("the archive holds {} of the kind {other:?}", shown(&path))),
        };
        left = left
            .checked_sub(content.len() as u64)
            .ok_or_else(|| format!("the archive holds more than the {limit} bytes that were asked for"))?;
        files.push(TakenFile { path, mode, content });
    }
    Ok(files)
}

/// Bytes of an enemy in a message: escaped, and not many of them.
fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 120;
    let cut = &bytes[..bytes.len().min(SHOWN)];
    format!("\"{}\"{}", cut.escape_ascii(), if bytes.len() > SHOWN { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOB: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";

    #[test]
    fn a_list_is_read_whatever_bytes_its_paths_have() {
        let list = [format!("100755 {BLOB} 12 ").as_bytes(), b"a b\n\xff\0other - 0 pipe\0"].concat();
        let read = entries(&list).unwrap();
        assert_eq!(read[0], Entry { path: b"a b\n\xff".to_vec(), mode: Some(BlobMode::Executable), size: 12, blob: BLOB.into() });
        assert_eq!(read[1], Entry { path: b"pipe".to_vec(), mode: None, size: 0, blob: String::new() });
        assert_eq!(entries(b"").unwrap(), []);
    }

    #[test]
    fn a_forged_list_is_refused() {
        for record in [
            format!("100644 {BLOB} 1 ../up\0"),
            format!("100644 {BLOB} 1 /etc/passwd\0"),
            format!("100644 {BLOB} 1 a//b\0"),
            format!("100644 {BLOB} 1 \0"),
            format!("100644 {BLOB} -1 a\0"),
            format!("160000 {BLOB} 1 a\0"),
            format!("other {BLOB} 1 a\0"),
            "100644 - 1 a\0".to_owned(),
            format!("100644 {BLOB} 1 a\0100644 {BLOB} 1 a\0"),
            format!("100644 {BLOB} 1 a\0100644 {BLOB} 1 a/b\0"),
            format!("100644 {BLOB} 1 a/b/c\0other - 0 a\0"),
            format!("100644 {BLOB} 1 a"),
            "\0".to_owned(),
        ] {
            assert!(entries(record.as_bytes()).is_err(), "{record:?}");
        }
    }

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, *content).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn only_what_was_asked_for_comes_out_once_and_within_the_limit() {
        let asked = [b"a".to_vec(), b"b".to_vec()];
        let both = archive(&[("a", b"12345"), ("b", b"67890")]);
        assert_eq!(taken(&both, &asked, 10).unwrap().len(), 2);
        assert!(taken(&both, &asked, 9).is_err());
        assert!(taken(&both, &asked[..1], 10).is_err());
        assert!(taken(&archive(&[("a", b""), ("a", b"")]), &asked, 10).is_err());
        assert!(taken(&both[..700], &asked, 10).is_err());
    }
}
