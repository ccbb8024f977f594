//! The files of `tests/guard`, read: a case, or one case for each of its forms.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub type Files = BTreeMap<String, String>;

/// A base, what a patch makes of it, and what the rules must say.
pub struct Case {
    pub name: String,
    pub expect: String,
    pub base: Files,
    pub after: Files,
}

impl Case {
    pub fn is_attack(&self) -> bool {
        self.name.starts_with("attack-")
    }
}

pub fn cases() -> Vec<Case> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder().join("cases")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|path| of_file(path)).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guard")
}

fn of_file(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let cut = |head: &str| text.split_once(&format!("\n--- {head}\n"));
    let (text, forms) = match (cut("forms"), cut("lines")) {
        (Some((text, forms)), _) => (text, blocks(forms)),
        (_, Some((text, lines))) => (text, lines.lines().map(str::to_owned).collect()),
        (None, None) => return vec![read(name, &text)],
    };
    let of = |(n, form): (usize, &String)| read(format!("{name}/{}", n + 1), &format!("{}\n", text.replace("@@", form)));
    forms.iter().enumerate().map(of).collect()
}

/// What stands between lines of two dots, without its last line end.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.split_inclusive('\n') {
        match blocks.last_mut() {
            Some(block) if line.trim_end() != ".." => block.push_str(line),
            _ => blocks.push(String::new()),
        }
    }
    blocks.iter().map(|block| block.strip_suffix('\n').unwrap_or(block).to_owned()).collect()
}

/// `@/@` is nothing, and `@u{202e}` a character that should not stand in a file of this project.
fn plain(text: &str) -> String {
    let text = text.replace("@/@", "");
    let mut parts = text.split("@u{");
    let mut plain = parts.next().unwrap().to_owned();
    for part in parts {
        let (number, rest) = part.split_once('}').unwrap();
        plain.push(char::from_u32(u32::from_str_radix(number, 16).unwrap()).unwrap());
        plain.push_str(rest);
    }
    plain
}

/// The parts of a file: what stands after `--- `, and the text until the next.
fn parts(text: &str) -> Vec<(String, String)> {
    let mut parts: Vec<(String, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        match (line.strip_prefix("--- "), parts.last_mut()) {
            (Some(head), _) => parts.push((plain(head.trim_end()), String::new())),
            (None, Some((_, body))) => body.push_str(&plain(line)),
            (None, None) => {}
        }
    }
    parts
}

fn read(name: String, text: &str) -> Case {
    let field = |field: &str| {
        text.lines().take_while(|line| !line.starts_with("--- ")).find_map(|line| line.strip_prefix(field)?.strip_prefix(": "))
    };
    let mut base = Files::new();
    if let Some(project) = field("project") {
        let project = std::fs::read_to_string(folder().join(format!("projects/{}.txt", project.trim()))).unwrap();
        base.extend(parts(&project).into_iter().map(|(head, body)| (head.strip_prefix("base ").unwrap().to_owned(), body)));
    }
    let parts = parts(text);
    base.extend(parts.iter().filter_map(|(head, body)| Some((head.strip_prefix("base ")?.to_owned(), body.clone()))));
    let mut after = base.clone();
    for (head, body) in &parts {
        let (verb, path) = head.split_once(' ').unwrap();
        let missing = format!("{name}: {path} is not in base");
        match verb {
            "base" => {}
            "new" => drop(after.insert(path.to_owned(), body.clone())),
            "append" => after.get_mut(path).expect(&missing).push_str(body),
            "delete" => drop(after.remove(path).expect(&missing)),
            "rename" => {
                let (from, to) = path.split_once(' ').unwrap();
                let content = after.remove(from).expect(&missing);
                after.insert(to.to_owned(), content);
            }
            "edit" => {
                let content = after.get_mut(path).expect(&missing);
                for edit in blocks(body) {
                    let edit = format!("{edit}\n");
                    let (from, to) = edit.split_once("=>\n").unwrap_or_else(|| panic!("{name}: an edit without =>"));
                    let (from, to) =
                        if content.contains(from) { (from, to) } else { (from.trim_end_matches('\n'), to.trim_end_matches('\n')) };
                    assert_eq!(content.matches(from).count(), 1, "{name}: {path} has not once {from:?}");
                    *content = content.replacen(from, to, 1);
                }
            }
            _ => panic!("{name}: {verb} is no part of a case"),
        }
    }
    assert_ne!(base, after, "{name} changes nothing");
    let expect = field("expect").unwrap().to_owned();
    assert!(matches!(expect.as_str(), "refuse" | "flag" | "publish") && field("why").is_some(), "{name}");
    Case { name, expect, base, after }
}
