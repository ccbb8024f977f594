//! Tables for people: as wide as the terminal, and nothing in them but text.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::domain::without_hidden;

const BETWEEN: &str = "  ";
/// No column is cut to less.
const LEAST: usize = 8;

/// One line of text: nothing in it moves the cursor, changes a colour, or turns its direction.
pub(super) fn plain(text: &str) -> String {
    without_hidden(text).0.replace(['\n', '\t'], " ")
}

/// The same, cut to the width of the terminal where there is one.
pub(super) fn fitted(text: &str) -> String {
    match width() {
        Some(width) => cut(&plain(text), width),
        None => plain(text),
    }
}

/// Rows below their headings. What is too wide for the terminal is cut in the last column first; nothing is where the output is no terminal.
pub(super) fn table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> String {
    written(headings, rows, width())
}

fn written<const N: usize>(headings: [&str; N], rows: &[[String; N]], terminal: Option<usize>) -> String {
    let rows = std::iter::once(headings.map(str::to_owned)).chain(rows.iter().map(|row| row.clone().map(|cell| plain(&cell))));
    let rows = rows.collect::<Vec<_>>();
    let mut widths: [usize; N] = std::array::from_fn(|column| rows.iter().map(|row| row[column].width()).max().unwrap_or(0));
    if let Some(terminal) = terminal {
        let mut over = (widths.iter().sum::<usize>() + BETWEEN.len() * (N - 1)).saturating_sub(terminal);
        // The first column is what a row is asked for by: it stays whole.
        for width in widths.iter_mut().skip(1).rev() {
            let less = over.min(width.saturating_sub(LEAST));
            *width -= less;
            over -= less;
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| {
            let cell = cut(cell, width);
            let missing = width - cell.width();
            cell + &" ".repeat(missing)
        });
        cells.collect::<Vec<_>>().join(BETWEEN).trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The text, or as much of it as has room, with a mark that it was cut.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 1);
    for letter in text.chars() {
        used += letter.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(letter);
    }
    kept.push('…');
    kept
}

/// The width of the terminal that the output goes to, in columns.
fn width() -> Option<usize> {
    std::io::IsTerminal::is_terminal(&std::io::stdout()).then(terminal_size::terminal_size).flatten().map(|(width, _)| usize::from(width.0))
}

#[cfg(test)]
mod tests {
    use super::{cut, written};
    use unicode_width::UnicodeWidthStr as _;

    #[test]
    fn no_line_is_wider_than_the_terminal_and_names_stay_whole() {
        let rows = [
            ["0192f0c4".to_owned(), "group/project#12".to_owned(), "表が崩れる a long title that has no room".to_owned()],
            ["1".to_owned(), "b".to_owned(), "é".to_owned()],
        ];
        for terminal in [30, 40, 60, 200] {
            let table = written(["run", "issue", "title"], &rows, Some(terminal));
            assert!(table.lines().all(|line| line.width() <= terminal), "{terminal}: {table}");
            assert!(table.contains("0192f0c4"), "{table}");
        }
        let whole = written(["run", "issue", "title"], &rows, None);
        assert!(whole.contains("no room") && whole.lines().count() == 3, "{whole}");
    }

    #[test]
    fn a_cut_text_says_so() {
        assert_eq!((cut("abc", 3).as_str(), cut("abcd", 3).as_str(), cut("漢字", 3).as_str()), ("abc", "ab…", "漢…"));
    }
}
