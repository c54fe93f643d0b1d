//! Reads the text of `kernel_page_tables`: one [`SavedRun`] for each line.
//!
//! It looks for words, not columns, so that texts of kernels with other columns are read as well. Output addresses
//! and the geometry are not in the text: the names of levels tell which levels there are.
//!
//! Since Linux 5.4, regions have a marker line before and one after them (`Linear Mapping start`, `Linear Mapping
//! end`). Before that, the linear map had one line and lay in the upper half of the kernel's addresses: such a text
//! is refused. So is one that was cut short.

use linmap::arch::Level;
use linmap::{Attributes, MemoryType, Va};

use super::super::{EntryKind, Saved, SavedRun};
use crate::printable::excerpt;

/// The facts that a text lacks.
const LACKS: [&str; 2] = [
    "output addresses, and so what is an alias of what: a text of kernel_page_tables has none",
    "the kernel's release, command line and image, the CPUs, and what tables restrict; page size and VA size are \
     those that all of its lines fit",
];
/// The line before the linear map up to Linux 5.3.
const OLD_LINEAR_MAP: &str = "Linear Mapping";

/// An error in a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {what}: `{text}`")]
pub(crate) struct TextError {
    /// The number of the line, from 1.
    pub(crate) line: usize,
    /// The expected form.
    pub(crate) what: &'static str,
    /// The line, or its beginning.
    pub(crate) text: String,
}

/// Returns true if a text that begins so can be such a dump.
pub(super) fn begins(text: &[u8]) -> bool {
    text.starts_with(b"---[ ") || text.starts_with(b"0x")
}

/// Reads a text. The caller names it.
pub(super) fn read(text: &str) -> Result<Saved, TextError> {
    let mut saved = Saved { missing: LACKS.map(str::to_owned).to_vec(), ..Saved::default() };
    let (top, count) = (top_level(text), text.lines().count());
    let is_cut = !text.ends_with('\n') && !text.ends_with(" ]---");
    // The last line of the region that has begun and not ended.
    let mut open = None;
    for (index, line) in text.lines().enumerate() {
        // The last line can be incomplete.
        let is_half = is_cut && index + 1 == count;
        let wrong = |what| {
            let what = if is_half { WITHIN_LINE } else { what };
            TextError { line: index + 1, what, text: excerpt(line, 60) }
        };
        let marker = line.trim().strip_prefix("---[ ").and_then(|rest| rest.strip_suffix(" ]---"));
        if let Some(name) = marker {
            if name == OLD_LINEAR_MAP {
                return Err(wrong(OLD_LAYOUT));
            }
            open = end_of(name).or(open.filter(|end| end != name));
            saved.markers.push((saved.stretches.len(), excerpt(name, 60)));
        } else if !line.trim().is_empty() {
            let next = stretch(line, top).map_err(wrong)?;
            add(&mut saved.stretches, next).map_err(wrong)?;
        }
        if is_half {
            return Err(wrong(WITHIN_LINE));
        }
    }
    let last = text.lines().last().unwrap_or_default();
    let wrong = |line, what| TextError { line, what, text: excerpt(last, 60) };
    let Some(top) = saved.stretches.last().map(|row| row.va.0.checked_add(row.bytes)) else {
        return Err(wrong(1, "there are markers and no line of a dump"));
    };
    // Linux leaves out marker lines if an entry crosses the boundaries of several regions.
    if open.is_some() && top.is_some_and(|top| top != 0) {
        return Err(wrong(count, "the text ends before the region does that it is in; is it whole?"));
    }
    Ok(saved)
}

const WITHIN_LINE: &str = "the text ends within this line, without a line break; is it whole?";
const OLD_LAYOUT: &str = "this is how Linux up to 5.3 begins its linear map, which lies in the upper half of its \
                          addresses; such maps are not read";

/// Adds a line to those before it.
fn add(stretches: &mut Vec<SavedRun>, next: SavedRun) -> Result<(), &'static str> {
    let end = stretches.last().map_or(Some(0), |last| last.va.0.checked_add(last.bytes));
    if end.is_none_or(|end| next.va.0 < end) {
        return Err("this begins before the line before it ends");
    }
    if stretches.len() == Saved::MAX_ROWS {
        return Err("more lines than the map of any machine has");
    }
    stretches.push(next);
    Ok(())
}

/// Returns the line after the region that this line begins.
fn end_of(start: &str) -> Option<String> {
    match start.strip_suffix(" start") {
        Some(name) => Some(format!("{name} end")),
        None => (start == "vmalloc() area").then(|| "vmalloc() end".to_owned()),
    }
}

/// Returns the level that is called PGD: the names in the text tell which levels are folded.
fn top_level(text: &str) -> i8 {
    let names = [("P4D", -1), ("PUD", 0), ("PMD", 1)];
    let occurs = |name| text.lines().any(|line| line.split_whitespace().nth(2) == Some(name));
    names.iter().find(|(name, _)| occurs(name)).map_or(2, |(_, top)| *top)
}

fn stretch(line: &str, top: i8) -> Result<SavedRun, &'static str> {
    let mut words = line.split_whitespace();
    let range = words.next().and_then(range);
    let (first, end) =
        range.ok_or("two addresses such as 0xffff000000000000-0xffff000000200000 were expected")?;
    let size = words.next().and_then(|size| size.strip_suffix(['K', 'M', 'G', 'T', 'P', 'E']));
    size.filter(|size| size.parse::<u64>().is_ok())
        .ok_or("a size such as 2M was expected after the addresses")?;
    let level = match words.next() {
        Some("PGD") => top,
        Some("P4D") => 0,
        Some("PUD") => 1,
        Some("PMD") => 2,
        Some("PTE") => 3,
        _ => return Err("PGD, P4D, PUD, PMD or PTE was expected after the size"),
    };
    // The last line can end at 0, after the last address.
    let bytes = end.wrapping_sub(first);
    if bytes == 0 || (end != 0 && end < first) {
        return Err("this ends before it begins");
    }
    Ok(SavedRun { va: Va(first), bytes, level: Level::new(level), what: what(words)?, descriptor: None })
}

fn range(word: &str) -> Option<(u64, u64)> {
    let (first, end) = word.split_once('-')?;
    let number = |text: &str| {
        let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'))?;
        u64::from_str_radix(digits, 16).ok()
    };
    Some((number(first)?, number(end)?))
}

/// Parses the words after the level.
fn what<'l>(words: impl Iterator<Item = &'l str>) -> Result<EntryKind, &'static str> {
    let (mut attributes, mut contiguous, mut valid) = (Attributes::empty(), false, true);
    let mut any = false;
    for word in words {
        any = true;
        match word {
            "F" => valid = false,
            "USR" => attributes |= Attributes::USER,
            "ro" => attributes |= Attributes::READ_ONLY,
            "RW" | "x" | "BLK" => {}
            "NX" => attributes |= Attributes::PXN,
            "SHD" => attributes |= Attributes::INNER_SHAREABLE,
            "AF" => attributes |= Attributes::ACCESSED,
            "NG" => attributes |= Attributes::NOT_GLOBAL,
            "CON" => contiguous = true,
            "UXN" => attributes |= Attributes::UXN,
            "GP" => attributes |= Attributes::GUARDED,
            "RESERVED" => return Ok(EntryKind::Reserved),
            _ => attributes |= memory(word).ok_or("a word that no kernel_page_tables has")?,
        }
    }
    Ok(if any { EntryKind::Leaf { oa: None, attributes, contiguous, valid } } else { EntryKind::Hole })
}

/// Returns the attributes of a memory type by its name.
fn memory(name: &str) -> Option<Attributes> {
    let types = (0..8).map(MemoryType::new);
    let mut named = types.filter(|memory_type| memory_type.name() == Some(name));
    named.next().map(|memory_type| Attributes::from_bits_retain(u64::from(memory_type.index()) << 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::{Geometry, Granule, OaFormat, Pa};
    use test_support::prelude::*;

    const TEXT: &str = "\
---[ Linear Mapping start ]---
0xffff000000000000-0xffff000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL-TAGGED
0xffff000000200000-0xffff000000250000         320K PTE   F   ro NX SHD AF NG CON     UXN    MEM/NORMAL
0xffff000000250000-0xffff800000000000   134217724K PUD
---[ Linear Mapping end ]---
0xffff800000000000-0x0000000000000000      131072G PGD
";

    #[test]
    fn lines_become_stretches() {
        use Attributes as A;
        let saved = read(TEXT).expect("a dump");
        let leaf =
            |contiguous, valid, attributes| EntryKind::Leaf { oa: None, attributes, contiguous, valid };
        let ram = leaf(false, true, Attributes::RAM);
        // The software-present bit, in the place of nG.
        let kept = leaf(true, false, A::KERNEL_RODATA | A::NOT_GLOBAL);
        let of = |va, bytes, level, what| SavedRun {
            va: Va(va),
            bytes,
            level: Level::new(level),
            what,
            descriptor: None,
        };
        assert_eq!(
            saved.stretches,
            [
                of(0xffff_0000_0000_0000, 2 << 20, 2, ram),
                of(0xffff_0000_0020_0000, 320 << 10, 3, kept),
                of(0xffff_0000_0025_0000, 0x7fff_ffdb_0000, 1, EntryKind::Hole),
                of(0xffff_8000_0000_0000, 1 << 47, 0, EntryKind::Hole),
            ]
        );
        let markers = saved.markers.iter().map(|(row, name)| (*row, name.as_str()));
        assert_eq!(markers.collect::<Vec<_>>(), [(0, "Linear Mapping start"), (3, "Linear Mapping end")]);
    }

    #[test]
    fn the_names_that_occur_say_what_the_top_is() {
        for (names, top) in [("P4D PUD", -1), ("PUD PMD PTE", 0), ("PMD PTE", 1), ("PTE", 2)] {
            let line = |name: &str| format!("0x0-0x1000 4K {name}\n");
            assert_eq!(top_level(&names.split(' ').map(line).collect::<String>()), top, "{names}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let lines = [
            ("0x1000-0x2000 4K PTE BOO", "a word that no kernel_page_tables has"),
            ("0x1000-0x2000 4K PTF", "PGD, P4D, PUD, PMD or PTE was expected after the size"),
            ("0x1000-0x2000 PTE", "a size such as 2M was expected after the addresses"),
            ("0x1000", "two addresses such as 0xffff000000000000-0xffff000000200000 were expected"),
            ("0x2000-0x1000 4K PTE", "this ends before it begins"),
            ("0x0-0x1000 4K PTE", "this begins before the line before it ends"),
        ];
        for (text, what) in lines {
            let error = read(&format!("0x0-0x1000 4K PTE\n{text}\n")).expect_err(text);
            assert_eq!((error.line, error.what, error.text.as_str()), (2, what, text));
        }
        assert!(read("---[ vmalloc() area ]---\n").is_err());
    }

    #[test]
    fn a_text_that_was_cut_short_is_refused() {
        // Cut anywhere, except where a region is complete.
        for end in 1..TEXT.len() {
            let is_whole = TEXT[..end].trim_end().ends_with("Linear Mapping end ]---");
            assert_eq!(read(&TEXT[..end]).is_ok(), is_whole, "{:?}", &TEXT[..end]);
        }
        let what = |text: &str| read(text).expect_err(text).what;
        let lines: Vec<&str> = TEXT.split_inclusive('\n').collect();
        assert!(what(&lines[..3].concat()).contains("before the region does"));
        assert!(what(TEXT.trim_end()).contains("within this line"));
        // No region, or one that the last address ends.
        assert!(read(lines[1]).is_ok() && read(&[TEXT, lines[0]].concat()).is_ok());
    }

    #[test]
    fn the_layout_of_old_kernels_is_refused_by_name() {
        let text = "---[ Modules start ]---\n0xffff000000000000-0xffff000008000000 128M PMD\n\
                    ---[ Linear Mapping ]---\n0xffff800000000000-0xffff800040000000 1G PUD\n";
        let error = read(text).expect_err("an old layout");
        assert_eq!(error.line, 3);
        assert!(error.what.contains("Linux up to 5.3"), "{error}");
    }

    #[test]
    fn what_the_library_prints_reads_back() {
        /// Two slots of every table are leaves, by their bits.
        struct Tables;
        impl linmap::read::ReadTables for Tables {
            type Error = std::convert::Infallible;
            fn entry(
                &self,
                slot: linmap::Slot,
                level: Level,
            ) -> Result<linmap::arch::Descriptor, Self::Error> {
                let page = if level == Level::PAGE { 2 } else { 0 };
                Ok(linmap::arch::Descriptor(match (level.number(), slot.index) {
                    (3, 5) => 0x0060_0000_4000_0f01 | page,
                    (2 | 3, 7) => 0x0050_0000_4000_0781 | page,
                    (0..3, 9) => 0x1003,
                    _ => 0,
                }))
            }
        }
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
        let mut text = String::new();
        let marked = linmap::read::MarkedRange::linear_map(g);
        linmap::read::dump(&Tables, g, Pa(0), marked, &mut text).expect("nothing to fail");
        let saved = read(&text).expect("a dump");
        let leaves: Vec<_> = saved.stretches.iter().filter(|s| s.what != EntryKind::Hole).collect();
        assert_eq!(
            leaves.iter().map(|s| (s.level.number(), s.bytes)).collect::<Vec<_>>(),
            [(2, 2 << 20), (3, 4096), (3, 4096),]
        );
    }

    /// Checks that rows are in order, and that each is in a line, as the addresses that it has.
    fn are_in(rows: &[SavedRun], text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        let printed =
            |row: &SavedRun| format!("{:#018x}-{:#018x}", row.va.0, row.va.0.wrapping_add(row.bytes));
        let is_in = |row: &SavedRun| text.split_whitespace().any(|word| word == printed(row));
        rows.windows(2).all(|pair| pair[0].va.0 + pair[0].bytes <= pair[1].va.0)
            && rows.iter().all(|row| row.bytes > 0 && is_in(row))
    }

    proptest! {
        /// Text at random is refused, with its line.
        #[test]
        fn any_text_is_refused(text: String) {
            let error = read(&text).expect_err("no dump");
            prop_assert_eq!((error.line, error.text), (1, excerpt(text.lines().last().unwrap_or_default(), 60)));
        }

        #[test]
        fn a_damaged_dump_is_read_as_it_stands_or_its_line_is_named(at in 0..TEXT.len(), byte: u8, end in 1..TEXT.len()) {
            let mut bytes = TEXT.as_bytes().to_vec();
            bytes[at] = byte;
            for text in [&String::from_utf8_lossy(&bytes), &TEXT[..end]] {
                match read(text) {
                    Ok(saved) => prop_assert!(are_in(&saved.stretches, text), "{}\n{:?}", text, saved.stretches),
                    Err(error) => {
                        let line = text.lines().nth(error.line - 1).map(|line| excerpt(line, 60));
                        prop_assert_eq!(line, Some(error.text));
                    }
                }
            }
        }
    }
}
