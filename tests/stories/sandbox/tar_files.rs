//! Archives for the way in.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub enum Item<'a> {
    File(&'a [u8]),
    Program(&'a [u8]),
    Link(&'a [u8]),
}

pub fn archive(items: &[(Vec<u8>, Item<'_>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, item) in items {
        let path = Path::new(OsStr::from_bytes(path));
        let mut header = tar::Header::new_gnu();
        match item {
            Item::File(content) | Item::Program(content) => {
                header.set_mode(if matches!(item, Item::Program(_)) { 0o755 } else { 0o644 });
                header.set_size(content.len() as u64);
                tar.append_data(&mut header, path, *content).unwrap();
            }
            Item::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_mode(0o777);
                header.set_size(0);
                tar.append_link(&mut header, path, OsStr::from_bytes(target)).unwrap();
            }
        }
    }
    tar.into_inner().unwrap()
}

pub fn one_file(path: &str, content: &[u8]) -> Vec<u8> {
    archive(&[(path.into(), Item::File(content))])
}
