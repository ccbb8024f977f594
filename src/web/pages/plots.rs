//! The figures as pictures: numbers for inline SVG, which needs no style of its own.

use super::text::{short_span, words};

/// One part of a bar.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub name: String,
    pub shown: String,
    /// From the left, in thousandths of the whole.
    pub x: i64,
    /// In thousandths of the whole.
    pub width: i64,
    /// One of six colours.
    pub colour: usize,
}

/// A bar of parts one behind the other.
pub(super) fn bar(parts: &[(String, u64)]) -> Vec<Piece> {
    let whole = parts.iter().map(|(_, ms)| *ms).sum::<u64>().max(1);
    let (mut before, mut pieces) = (0_u64, Vec::new());
    let at = |ms: u64| i64::try_from(ms.saturating_mul(1000) / whole).unwrap_or(0);
    for (number, (name, ms)) in parts.iter().enumerate() {
        let (x, end) = (at(before), at(before + ms));
        let shown = short_span(i64::try_from(*ms).unwrap_or(i64::MAX));
        pieces.push(Piece { name: words(name), shown, x, width: (end - x).max(2), colour: number % 6 });
        before += ms;
    }
    pieces
}

/// One column of a plot by day.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub day: String,
    pub x: i64,
    /// From the top, the height and the class of each part.
    pub parts: Vec<(i64, i64, &'static str)>,
    pub told: String,
}

/// Columns of so many parts a day, the height of all within 100.
pub(super) fn columns(days: &[(String, Vec<(&'static str, &'static str, i64)>)]) -> Vec<Column> {
    let sum = |parts: &[(&str, &str, i64)]| parts.iter().map(|(_, _, count)| *count).sum::<i64>();
    let highest = days.iter().map(|(_, parts)| sum(parts)).max().unwrap_or(0).max(1);
    let made = days.iter().enumerate().map(|(at, (day, parts))| {
        let (mut below, mut drawn) = (0, Vec::new());
        for (_, class, count) in parts.iter().filter(|(_, _, count)| *count > 0) {
            let (low, high) = (below * 100 / highest, (below + count) * 100 / highest);
            drawn.push((100 - high, (high - low).max(1), *class));
            below += count;
        }
        let told = parts.iter().filter(|(_, _, count)| *count > 0).map(|(name, _, count)| format!("{count} {name}"));
        let told = format!("{day}: {}", told.collect::<Vec<_>>().join(", "));
        Column { day: day.clone(), x: i64::try_from(at).unwrap_or(0) * 10, parts: drawn, told }
    });
    made.collect()
}

#[cfg(test)]
mod tests {
    use super::{bar, columns};

    #[test]
    fn pieces_fill_the_bar_and_columns_their_height() {
        let pieces = bar(&[("tests_before".into(), 300), ("agent".into(), 700), ("none".into(), 0)]);
        assert_eq!(pieces.iter().map(|piece| (piece.x, piece.width)).collect::<Vec<_>>(), [(0, 300), (300, 700), (1000, 2)]);
        assert_eq!((pieces[0].name.as_str(), bar(&[]).len()), ("tests before", 0));
        let made = columns(&[("a".into(), vec![("good", "g", 1), ("bad", "b", 1)]), ("b".into(), vec![("good", "g", 4)])]);
        assert_eq!(
            (made[0].parts.as_slice(), made[1].parts.as_slice()),
            ([(75, 25, "g"), (50, 25, "b")].as_slice(), [(0, 100, "g")].as_slice())
        );
        assert_eq!(made[0].told, "a: 1 good, 1 bad");
    }
}
