//! Physical memory, in pieces of a file or behind a connection.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::time::Duration;

use linmap::Pa;

use super::bytes::Bytes;
use super::seconds::Seconds;

/// Why memory cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// The source has nothing at that address.
    #[error("there is no RAM at {0} in it")]
    NoRam(Pa),
    /// The file ends before this address.
    #[error("the file ends before what should be at {0}; it is not whole")]
    Ends(Pa),
    /// The page was left out of a filtered core.
    #[error("the page of {pa} was filtered out of the core ({})", left_out(*.level))]
    Filtered {
        /// The address.
        pa: Pa,
        /// The kinds of pages that were left out: makedumpfile's dump level.
        level: u32,
    },
    /// It is in another part of a split core.
    #[error("another part of the split core has the page of {0}")]
    OtherPart(Pa),
    /// The other side does not answer any more.
    #[error("{0} is not there any more")]
    Gone(&'static str),
    /// The system or the other side refuses.
    #[error("{pa} cannot be read: {why}")]
    Failed {
        /// The address.
        pa: Pa,
        /// The reason, perhaps in the words of the other side.
        why: String,
    },
    /// It was not wanted when the source was read.
    #[error("it was not among the wanted tables")]
    NotWanted,
    /// Reading it would have kept a guest halted for too long.
    #[error(
        "there was no time for it: the guest was halted for {} and runs again; --max-pause permits more",
        Seconds(*.0)
    )]
    NotInTime(Duration),
}

/// Returns what a dump level leaves out, for people.
fn left_out(level: u32) -> String {
    const KINDS: [(u32, &str); 5] =
        [(1, "zeros"), (2, "cache"), (4, "private cache"), (8, "user pages"), (16, "free pages")];
    let kinds: Vec<_> = KINDS.iter().filter(|(bit, _)| level & bit != 0).map(|(_, kind)| *kind).collect();
    match kinds[..] {
        [] => "it does not say which pages were left out".to_owned(),
        _ => format!("dump level {level} leaves out {}", kinds.join(", ")),
    }
}

/// Called for each piece that was read, with its number and its bytes.
pub(super) type Each<'a> = dyn FnMut(usize, Result<&[u8], Unreadable>) + 'a;

/// Access to physical memory. Its answers are not trusted.
pub(crate) trait Physical: Debug {
    /// Fills `into` from the bytes at `pa`.
    fn read(&self, pa: Pa, into: &mut [u8]) -> Result<(), Unreadable>;

    /// Reads so many bytes at each address, in order. A connection is faster if many are asked for at once.
    fn read_each(&self, at: &[Pa], bytes: usize, each: &mut Each<'_>) {
        let mut buffer = vec![0; bytes];
        for (index, pa) in at.iter().enumerate() {
            let read = self.read(*pa, &mut buffer);
            each(index, read.map(|()| &buffer[..]));
        }
    }

    /// Returns the reason that nothing more can be read at all, if there is one.
    fn ended(&self) -> Option<Unreadable> {
        None
    }

    /// Returns what people should know of the answers since the last time, as a sentence.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// Memory that was released.
#[derive(Debug)]
struct Released;

impl Physical for Released {
    fn read(&self, _: Pa, _: &mut [u8]) -> Result<(), Unreadable> {
        Err(Unreadable::Gone("the connection that it was read by"))
    }
}

/// The memory of a source, and its ranges of RAM.
#[derive(Debug)]
pub(crate) struct Memory {
    ram: Vec<Range<Pa>>,
    from: Box<dyn Physical>,
    released: bool,
}

impl Memory {
    /// Returns memory with RAM in these ranges, in any order; none if they are not known.
    pub(crate) fn new(ram: impl IntoIterator<Item = Range<Pa>>, from: Box<dyn Physical>) -> Self {
        Self { ram: merged(ram), from, released: false }
    }

    /// Returns true if there is RAM at an address, or `None` if the source does not say.
    pub(crate) fn is_ram(&self, pa: Pa) -> Option<bool> {
        let after = self.ram.partition_point(|range| range.start <= pa);
        let range = after.checked_sub(1).and_then(|index| self.ram.get(index));
        (!self.ram.is_empty()).then(|| range.is_some_and(|range| range.contains(&pa)))
    }

    /// Sets the ranges of RAM, if they are found out only later.
    pub(super) fn set_ram(&mut self, ram: impl IntoIterator<Item = Range<Pa>>) {
        self.ram = merged(ram);
    }

    /// Releases it. The ranges of RAM are still known.
    pub(super) fn release(&mut self) {
        self.from = Box::new(Released);
        self.released = true;
    }

    /// Returns true if it was released.
    pub(super) const fn is_released(&self) -> bool {
        self.released
    }

    /// Returns the access to it.
    pub(super) fn from(&self) -> &dyn Physical {
        &*self.from
    }
}

/// Returns ranges in order, with neighbours joined and without empty ones.
fn merged(ranges: impl IntoIterator<Item = Range<Pa>>) -> Vec<Range<Pa>> {
    let mut sorted: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
    sorted.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<Pa>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// A piece of a file that holds a piece of physical memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// The physical address of its first byte.
    pub(super) pa: u64,
    /// Its size in bytes of memory.
    pub(super) bytes: u64,
    /// The number of these bytes in the file; the others are zeros.
    pub(super) stored: u64,
    /// Its offset in the file.
    pub(super) offset: u64,
}

impl Piece {
    /// Returns its range of RAM, which ends at the last address at most.
    pub(super) fn range(&self) -> Range<Pa> {
        Pa(self.pa)..Pa(self.pa.saturating_add(self.bytes))
    }

    /// Removes the bytes before an address. Returns false if none are left.
    fn cut_to(&mut self, start: u64) -> bool {
        let less = start.saturating_sub(self.pa).min(self.bytes);
        self.pa += less;
        self.bytes -= less;
        self.stored = self.stored.saturating_sub(less);
        self.offset = self.offset.saturating_add(less);
        self.bytes != 0
    }
}

/// The most neighbours that are read at once.
const TOGETHER: usize = 64;

/// Memory in pieces of a file: a core, the RAM of a guest, the memory of a process.
///
/// It is read by `pread`, not mapped: then a guest that writes meanwhile, or a file that becomes shorter, is an
/// ordinary event. A table costs less than a microsecond.
#[derive(Debug)]
pub(super) struct Pieces {
    bytes: Bytes,
    /// In order of address, without overlaps: where pieces overlapped, the first one has the bytes.
    pieces: Vec<Piece>,
}

impl Pieces {
    pub(super) fn new(bytes: Bytes, mut pieces: Vec<Piece>) -> Self {
        pieces.sort_by_key(|piece| piece.pa);
        let mut end = 0;
        pieces.retain_mut(|piece| {
            let kept = piece.cut_to(end);
            end = if kept { piece.range().end.0 } else { end };
            kept
        });
        Self { bytes, pieces }
    }

    /// Returns the piece that has an address.
    fn piece(&self, pa: u64) -> Option<&Piece> {
        let after = self.pieces.partition_point(|piece| piece.pa <= pa);
        let piece = self.pieces.get(after.checked_sub(1)?)?;
        (pa - piece.pa < piece.bytes).then_some(piece)
    }
}

impl Physical for Pieces {
    /// Tables often are neighbours: those are read together.
    fn read_each(&self, at: &[Pa], bytes: usize, each: &mut Each<'_>) {
        let mut buffer = vec![0; bytes.saturating_mul(at.len().min(TOGETHER))];
        let mut index = 0;
        while let Some(first) = at.get(index) {
            let follows = |(n, pa): &(usize, &Pa)| first.0.checked_add((n * bytes) as u64) == Some(pa.0);
            let count = at[index..].iter().take(TOGETHER).enumerate().take_while(follows).count();
            let together = self.read(*first, &mut buffer[..count * bytes]);
            for (n, pa) in at[index..index + count].iter().enumerate() {
                let buffer = &mut buffer[n * bytes..(n + 1) * bytes];
                // If one of several cannot be read, each is asked for alone.
                let read = if together.is_ok() { Ok(()) } else { self.read(*pa, buffer) };
                each(index + n, read.map(|()| &*buffer));
            }
            index += count;
        }
    }

    fn read(&self, pa: Pa, into: &mut [u8]) -> Result<(), Unreadable> {
        let mut done = 0;
        while done < into.len() {
            let here = pa.0.checked_add(done as u64).ok_or(Unreadable::NoRam(pa))?;
            let piece = self.piece(here).ok_or(Unreadable::NoRam(Pa(here)))?;
            let at = here - piece.pa;
            let stored = at < piece.stored;
            let left = if stored { piece.stored.min(piece.bytes) } else { piece.bytes } - at;
            let end = into.len().min(done.saturating_add(usize::try_from(left).unwrap_or(usize::MAX)));
            let part = &mut into[done..end];
            if stored {
                let offset = piece.offset.checked_add(at).ok_or(Unreadable::Ends(Pa(here)))?;
                self.bytes.read_at(part, offset).map_err(|error| unreadable(Pa(here), &error))?;
            } else {
                part.fill(0);
            }
            done = end;
        }
        Ok(())
    }
}

fn unreadable(pa: Pa, error: &io::Error) -> Unreadable {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Unreadable::Ends(pa),
        _ => Unreadable::Failed { pa, why: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use test_support::prelude::*;

    fn file(bytes: &[u8]) -> Bytes {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(bytes).expect("room for it");
        Bytes::of(file, bytes.len() as u64)
    }

    fn alone(memory: &Pieces, pa: Pa) -> Result<Vec<u8>, Unreadable> {
        let mut buffer = vec![0xff; 2];
        memory.read(pa, &mut buffer).map(|()| buffer)
    }

    #[test]
    fn pieces_make_one_memory() {
        let piece = |pa, bytes, stored, offset| Piece { pa, bytes, stored, offset };
        let pieces = vec![
            piece(0x104, 4, 2, 0),
            piece(0x100, 4, 4, 4),
            piece(0x200, 8, 8, 6),
            piece(0x106, 1, 1, 0),
            piece(0x205, 9, 9, 0),
        ];
        let memory = Pieces::new(file(b"01234567"), pieces);
        let read = |pa, n| {
            let mut buffer = vec![0xff; n];
            memory.read(Pa(pa), &mut buffer).map(|()| buffer)
        };
        assert_eq!(read(0x100, 8), Ok(b"456701\0\0".to_vec()));
        assert_eq!(read(0x106, 2), Ok(vec![0; 2]));
        assert_eq!(read(0x108, 1), Err(Unreadable::NoRam(Pa(0x108))));
        assert_eq!(read(0xff, 2), Err(Unreadable::NoRam(Pa(0xff))));
        assert_eq!(read(0x200, 8), Err(Unreadable::Ends(Pa(0x200))));
        assert_eq!(read(u64::MAX, 2), Err(Unreadable::NoRam(Pa(u64::MAX))));
        // Neighbours are read together, also if one of them is not there.
        let mut found = Vec::new();
        let at = [0x100, 0x102, 0x104, 0x106, 0x108, 0x104, u64::MAX - 1, 0].map(Pa);
        memory.read_each(&at, 2, &mut |index, read| found.push((index, read.map(<[u8]>::to_vec))));
        assert_eq!(found.len(), at.len());
        for (index, read) in found {
            assert_eq!(read, alone(&memory, at[index]), "{index}");
        }
    }

    #[test]
    fn ram_is_known_or_it_is_not() {
        let of = |ranges: &[Range<Pa>]| {
            Memory::new(ranges.iter().cloned(), Box::new(Pieces::new(file(b""), Vec::new())))
        };
        let memory = of(&[Pa(8)..Pa(9), Pa(2)..Pa(4), Pa(5)..Pa(5), Pa(3)..Pa(6)]);
        assert_eq!(memory.ram, [Pa(2)..Pa(6), Pa(8)..Pa(9)]);
        assert_eq!(
            [1, 2, 5, 6, 8, 9].map(|pa| memory.is_ram(Pa(pa)).unwrap()),
            [false, true, true, false, true, false]
        );
        assert_eq!(of(&[]).is_ram(Pa(0)), None);
    }

    proptest! {
        #[test]
        fn no_pieces_panic(pieces: Vec<(u64, u64, u64, u64)>, pa: u64, bytes in 0usize..100) {
            let pieces = pieces.into_iter().map(|(pa, bytes, stored, offset)| Piece { pa, bytes, stored, offset });
            let pieces: Vec<_> = pieces.collect();
            let ram: Vec<_> = pieces.iter().map(Piece::range).collect();
            let at = ram.first().map_or(Pa(pa), |range| range.start);
            let memory = Memory::new(ram, Box::new(Pieces::new(file(b"0123456789"), pieces)));
            let _ = (memory.is_ram(at), memory.from.read(at, &mut vec![0; bytes]), memory.from.read(Pa(pa), &mut vec![0; bytes]));
        }
    }
}
