//! Pure: pieces of memory become strips of columns, as few and as large as a page needs.

use std::collections::BTreeMap;

use linmap_plot::Strip;

use super::paint::{Painted, Piece};
use crate::size::{Size, human};

/// The columns of a strip.
const COLUMNS: u64 = 512;
/// The most strips on a page. Twice as much memory makes each strip twice as long.
const STRIPS: usize = 64;
/// The most modules that the text of a column names.
const NAMED: usize = 12;
/// The fewest bytes of a column.
const LEAST: u64 = 4096;

/// The addresses beside the strips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    /// The virtual address of its 0, wrapping.
    pub(super) origin: u64,
    /// True if it shows physical addresses.
    pub(super) physical: bool,
}

/// Strips, and what one of them is.
#[derive(Debug)]
pub(super) struct Grid {
    /// The bytes of a strip.
    pub(super) strip: u64,
    /// The bytes of a column.
    pub(super) column: u64,
    pub(super) strips: Vec<Strip>,
}

/// A column: bytes by class.
type Column = Vec<(usize, u64)>;

impl Grid {
    /// Lays pieces out; `None` if there are none.
    pub(super) fn of(painted: &Painted, axis: Axis) -> Option<Self> {
        let at = |piece: &Piece| (piece.va.wrapping_sub(axis.origin), piece.bytes);
        let mut pieces: Vec<(u64, u64, usize)> =
            painted.pieces.iter().map(|piece| (at(piece).0, at(piece).1, piece.class)).collect();
        pieces.sort_unstable();
        if pieces.is_empty() {
            return None;
        }
        let mut shift = (COLUMNS * LEAST).trailing_zeros();
        while shift < 63 && strips_of(&pieces, shift) > STRIPS {
            shift += 1;
        }
        let (strip, column) = (1 << shift, (1 << shift) / COLUMNS);
        let mut grid = Self { strip, column, strips: Vec::new() };
        let mut current: Option<(u64, Vec<Column>)> = None;
        let mut last = None;
        for (mut from, bytes, class) in pieces {
            let end = from.saturating_add(bytes - 1);
            loop {
                let number = from >> shift;
                if current.as_ref().is_none_or(|(open, _)| *open != number) {
                    if let Some((number, columns)) = current.take() {
                        grid.close(painted, axis, number, &columns, &mut last);
                    }
                    current = Some((number, vec![Column::new(); COLUMNS as usize]));
                }
                let Some((_, columns)) = current.as_mut() else { break };
                let here = end.min(number << shift | (strip - 1));
                fill(columns, column, (from & (strip - 1), here & (strip - 1)), class);
                match here.checked_add(1).filter(|_| here < end) {
                    Some(next) => from = next,
                    None => break,
                }
            }
        }
        if let Some((number, columns)) = current {
            grid.close(painted, axis, number, &columns, &mut last);
        }
        Some(grid)
    }

    /// Adds a strip, with equal neighbouring columns as one piece.
    fn close(
        &mut self,
        painted: &Painted,
        axis: Axis,
        number: u64,
        columns: &[Column],
        last: &mut Option<u64>,
    ) {
        let start = number.wrapping_mul(self.strip);
        let mut pieces = Vec::new();
        let mut first = 0;
        while first < columns.len() {
            let same = columns[first..].iter().take_while(|column| **column == columns[first]).count();
            if !columns[first].is_empty() {
                let from = start.wrapping_add(first as u64 * self.column);
                pieces.push(linmap_plot::Piece {
                    from: first as f64 / COLUMNS as f64,
                    to: (first + same) as f64 / COLUMNS as f64,
                    shares: shares(painted, &columns[first], self.column),
                    hover: hover(
                        painted,
                        axis,
                        from,
                        same as u64 * self.column,
                        &columns[first],
                        same as u64,
                    ),
                });
            }
            first += same;
        }
        let relative = axis.physical || axis.origin != 0;
        let label = if relative { Size(start).to_string() } else { format!("{start:#x}") };
        self.strips.push(Strip { label, gap: last.is_some_and(|last| last + 1 != number), pieces });
        *last = Some(number);
    }
}

/// Returns how many strips of 2^`shift` bytes have something.
fn strips_of(pieces: &[(u64, u64, usize)], shift: u32) -> usize {
    let (mut count, mut next) = (0_u64, 0);
    for (from, bytes, _) in pieces {
        let (first, last) = (from >> shift, from.saturating_add(bytes - 1) >> shift);
        let first = first.max(next);
        if first <= last {
            count = count.saturating_add(last - first + 1);
            next = last + 1;
        }
    }
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Adds the bytes from `from` to `to` of a strip, both included, to its columns.
fn fill(columns: &mut [Column], column: u64, (from, to): (u64, u64), class: usize) {
    for index in from / column..=to / column {
        let (first, last) = (from.max(index * column), to.min(index * column + (column - 1)));
        let Some(shares) = columns.get_mut(index as usize) else { return };
        let bytes = last - first + 1;
        match shares.iter_mut().find(|share| share.0 == class) {
            Some(share) => share.1 += bytes,
            None => {
                shares.push((class, bytes));
                shares.sort_unstable();
            }
        }
    }
}

/// Returns the numbers of equal columns: addresses, and bytes by class.
fn hover(painted: &Painted, axis: Axis, from: u64, bytes: u64, shares: &Column, columns: u64) -> String {
    let va = from.wrapping_add(axis.origin);
    let mut text = format!("{va:#018x}-{:#018x}", va.wrapping_add(bytes));
    if axis.physical {
        text += &format!("\nphysical {from:#x}-{:#x}", from.wrapping_add(bytes));
    }
    // Modules are many; the largest have lines of their own.
    let (mut lines, mut modules): (Column, Column) = shares.iter().copied().partition(|(class, _)| {
        painted.names[*class].owner.as_ref().is_none_or(|owner| owner.name.is_none())
    });
    modules.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let more = modules.split_off(modules.len().min(NAMED));
    lines.extend(modules);
    for (class, share) in lines {
        text += &format!("\n{}: {}", painted.names[class].shown(), human(share.saturating_mul(columns)));
    }
    if !more.is_empty() {
        let bytes = more.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
        text += &format!("\n{} more modules: {}", more.len(), human(bytes.saturating_mul(columns)));
    }
    text
}

/// Returns the parts of a column that the entries of the legend have.
fn shares(painted: &Painted, column: &Column, bytes: u64) -> Vec<(usize, f64)> {
    let mut entries: BTreeMap<usize, u64> = BTreeMap::new();
    for (class, share) in column {
        *entries.entry(painted.names[*class].entry).or_default() += share;
    }
    entries.into_iter().map(|(entry, share)| (entry, share as f64 / bytes as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::paint::Name;
    use super::*;
    use crate::map::owners::{By, Kind, Owner};
    use test_support::prelude::*;

    const AXIS: Axis = Axis { origin: 0, physical: true };

    fn painted(pieces: &[(u64, u64, usize)]) -> Painted {
        let pieces: Vec<Piece> =
            pieces.iter().map(|(va, bytes, class)| Piece { va: *va, bytes: *bytes, class: *class }).collect();
        let names = vec![Name::new("large", 0), Name::new("small", 1)];
        let bytes = pieces.iter().map(|piece| piece.bytes).sum();
        Painted { bytes, pieces, names, entries: Vec::new(), invalid: 0 }
    }

    #[test]
    fn half_a_terabyte_fits_on_a_page() {
        let all = painted(&[(1 << 30, 512 << 30, 0)]);
        let grid = Grid::of(&all, AXIS).expect("memory");
        assert_eq!((grid.strip, grid.column), (16 << 30, 32 << 20));
        assert_eq!(grid.strips.len(), 33);
        assert_eq!(grid.strips[0].pieces[0].from, 1.0 / 16.0);
        assert_eq!((grid.strips[32].label.as_str(), grid.strips[32].pieces[0].to), ("512G", 1.0 / 16.0));
        assert!(Grid::of(&painted(&[]), AXIS).is_none());
    }

    #[test]
    fn a_page_is_in_its_column_and_a_gap_is_marked() {
        let all = painted(&[(0, 1 << 30, 0), (64 << 30, 4096, 1), ((64 << 30) + 4096, (1 << 30) - 4096, 0)]);
        let grid = Grid::of(&all, AXIS).expect("memory");
        let gaps: Vec<bool> = grid.strips.iter().map(|strip| strip.gap).collect();
        assert_eq!((gaps.len(), gaps.iter().filter(|gap| **gap).count()), (64, 1));
        let strip = grid.strips.iter().find(|strip| strip.gap).expect("the second bank");
        assert_eq!(strip.label, "64G");
        let first = &strip.pieces[0];
        assert_eq!(first.shares.len(), 2, "{first:?}");
        assert!(first.hover.contains("physical 0x1000000000-0x1000010000"), "{}", first.hover);
        assert!(first.hover.ends_with("large: 60K\nsmall: 4K"), "{}", first.hover);
    }

    /// Of many modules in a column, the largest have names; in the picture all are one.
    #[test]
    fn a_column_names_its_largest_modules() {
        let module = |n| {
            let owner = Owner { kind: Kind::Module, name: Some(format!("m{n}")), by: By::List };
            Name { text: owner.text(), owner: Some(owner), entry: 1 }
        };
        let count = NAMED + 2;
        let mut all = painted(&[]);
        all.names.extend((0..count).map(module));
        let column: Column = (0..count).map(|n| (2 + n, (n as u64 + 1) << 12)).collect();
        let hover = hover(&all, AXIS, 0, 1 << 20, &column, 1);
        assert!(
            hover.ends_with("\n2 more modules: 12K") && hover.contains("\nmodule m13 [list]: 56K\n"),
            "{hover}"
        );
        assert_eq!(hover.matches("\nmodule ").count(), NAMED);
        assert_eq!(shares(&all, &column, 1 << 20), [(1, 105.0 / 256.0)]);
    }

    proptest! {
        /// Nothing is lost or drawn twice, and no addresses panic.
        #[test]
        fn every_byte_is_in_the_picture(
            origin: u64,
            pieces in prop::collection::vec((0u64..1 << 20, 1u64..1 << 12), 1..30),
        ) {
            let (mut at, mut list) = (origin, Vec::new());
            for (index, (gap, pages)) in pieces.iter().enumerate() {
                at = at.wrapping_add(gap << 12);
                list.push((at, pages << 12, index % 2));
                at = at.wrapping_add(pages << 12);
            }
            let all = painted(&list);
            let grid = Grid::of(&all, Axis { origin, physical: true }).expect("memory");
            prop_assert!(grid.strips.len() <= STRIPS);
            let drawn: f64 = grid
                .strips
                .iter()
                .flat_map(|strip| &strip.pieces)
                .map(|p| (p.to - p.from) * COLUMNS as f64 * p.shares.iter().map(|s| s.1).sum::<f64>())
                .sum();
            let expected = all.bytes as f64 / grid.column as f64;
            prop_assert!((drawn - expected).abs() < 1e-6 * expected.max(1.0), "{drawn} of {expected}");
        }

        #[test]
        fn no_addresses_panic(origin: u64, va: u64, bytes in 1u64.., physical: bool) {
            let _ = Grid::of(&painted(&[(va, bytes, 0)]), Axis { origin, physical });
        }
    }
}
