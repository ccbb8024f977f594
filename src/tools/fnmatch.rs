//! One name against one pattern, as Python's `fnmatch` does it.

/// A pattern of one path part: `*`, `?`, `[set]`, `[!set]`; everything else stands for itself.
#[derive(Debug)]
pub(super) struct Pattern(Vec<Piece>);

#[derive(Debug)]
enum Piece {
    Any,
    One,
    Exact(char),
    Set { negated: bool, ranges: Vec<(char, char)> },
}

/// Whether `glob` takes the text as a pattern.
pub(super) fn has_magic(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

impl Pattern {
    /// Reads a pattern; every text is one.
    pub(super) fn new(pattern: &str) -> Self {
        let pattern: Vec<char> = pattern.chars().collect();
        let mut pieces = Vec::new();
        let mut at = 0;
        while let Some(character) = pattern.get(at) {
            at += 1;
            match character {
                '*' if matches!(pieces.last(), Some(Piece::Any)) => {}
                '*' => pieces.push(Piece::Any),
                '?' => pieces.push(Piece::One),
                '[' => match end_of_set(&pattern, at) {
                    Some(end) => {
                        pieces.push(set(&pattern[at..end]));
                        at = end + 1;
                    }
                    None => pieces.push(Piece::Exact('[')),
                },
                other => pieces.push(Piece::Exact(*other)),
            }
        }
        Self(pieces)
    }

    /// Whether the whole name matches.
    pub(super) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut piece, mut at) = (0, 0);
        let mut retry = None;
        loop {
            match (self.0.get(piece), name.get(at)) {
                (Some(Piece::Any), _) => {
                    retry = Some((piece + 1, at));
                    piece += 1;
                }
                (Some(wanted), Some(character)) if wanted.takes(*character) => {
                    piece += 1;
                    at += 1;
                }
                (None, None) => return true,
                _ => match retry {
                    Some((after_star, from)) if from < name.len() => {
                        retry = Some((after_star, from + 1));
                        (piece, at) = (after_star, from + 1);
                    }
                    _ => return false,
                },
            }
        }
    }
}

impl Piece {
    fn takes(&self, character: char) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::Exact(wanted) => *wanted == character,
            Self::Set { negated, ranges } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *negated,
        }
    }
}

/// The place of the `]` that ends the set whose inside begins at `start`; a `]` in the first place (after `!`) belongs to the set.
fn end_of_set(pattern: &[char], start: usize) -> Option<usize> {
    let mut at = start;
    at += usize::from(pattern.get(at) == Some(&'!'));
    at += usize::from(pattern.get(at) == Some(&']'));
    pattern.get(at..)?.iter().position(|character| *character == ']').map(|found| at + found)
}

/// The inside of a set. A hyphen makes a range where it has a character on both sides; a range that runs backwards matches nothing.
fn set(inside: &[char]) -> Piece {
    let (negated, inside) = match inside {
        ['!', rest @ ..] => (true, rest),
        all => (false, all),
    };
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < inside.len() {
        match inside.get(at..at + 3) {
            Some([low, '-', high]) => {
                ranges.push((*low, *high));
                at += 3;
            }
            _ => {
                ranges.push((inside[at], inside[at]));
                at += 1;
            }
        }
    }
    Piece::Set { negated, ranges }
}
