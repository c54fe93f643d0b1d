//! The symbols that a kernel's image has of itself (`kernel/kallsyms.c`): names in tokens of several letters, and addresses as
//! offsets. Pure: memory is read by a function of the caller.
//!
//! Up to Linux 6.x an offset counts from `kallsyms_relative_base`; later kernels have none, and count from the place of the
//! offset itself. The right way is the one that gives `_stext` the address that VMCOREINFO has.

use super::symbols::Symbols;

/// More symbols than a kernel has, more bytes of all names, and more letters than one has.
const MAX_COUNT: usize = 1 << 22;
const MAX_NAMES: usize = 256 << 20;
const MAX_NAME: usize = 1024;
/// The number of bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// The number of tokens, and more bytes than they have.
const TOKENS: usize = 256;
const TOKEN_BYTES: usize = 1 << 16;

/// Reads memory of the kernel at an address; returns false if it cannot.
pub(crate) type Read<'a> = dyn Fn(u64, &mut [u8]) -> bool + 'a;

/// Why there are no symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KallsymsError {
    #[error("VMCOREINFO does not say where the kernel's own symbols are; it does from Linux 6.0 on")]
    NotTold,
    #[error("the kernel's own symbols cannot be read: the source does not have that memory")]
    Memory,
    #[error("the kernel's own symbols are not in a form that is known, or damaged")]
    Damaged,
}

/// The places of the tables.
struct Places {
    names: u64,
    count: u64,
    token_table: u64,
    token_index: u64,
    offsets: u64,
    base: Option<u64>,
    stext: u64,
}

/// Reads all symbols of a kernel. `told` is the address of a symbol in VMCOREINFO.
pub(crate) fn read(told: impl Fn(&str) -> Option<u64>, read: &Read<'_>) -> Result<Symbols, KallsymsError> {
    let place = |name: &str| told(name).ok_or(KallsymsError::NotTold);
    let places = Places {
        names: place("kallsyms_names")?,
        count: place("kallsyms_num_syms")?,
        token_table: place("kallsyms_token_table")?,
        token_index: place("kallsyms_token_index")?,
        offsets: place("kallsyms_offsets")?,
        base: told("kallsyms_relative_base"),
        stext: place("_stext")?,
    };
    let count = u32::from_le_bytes(fixed(read, places.count)?) as usize;
    if count == 0 || count > MAX_COUNT {
        return Err(KallsymsError::Damaged);
    }
    let names = names(&places, count, read)?;
    let mut offsets = vec![0; count * 4];
    if !read(places.offsets, &mut offsets) {
        return Err(KallsymsError::Memory);
    }
    let base = places.base.map(|at| fixed(read, at).map(u64::from_le_bytes)).transpose()?;
    let address = |index: usize, word: &[u8; 4]| match base {
        Some(base) => base.wrapping_add(u32::from_le_bytes(*word).into()),
        None => {
            let at = places.offsets.wrapping_add(index as u64 * 4);
            at.wrapping_add_signed(i32::from_le_bytes(*word).into())
        }
    };
    let words = offsets.as_chunks().0.iter().enumerate();
    let symbols = Symbols::new(words.map(|(index, word)| address(index, word)).zip(names));
    if symbols.address("_stext") == Some(places.stext) { Ok(symbols) } else { Err(KallsymsError::Damaged) }
}

fn fixed<const N: usize>(read: &Read<'_>, at: u64) -> Result<[u8; N], KallsymsError> {
    let mut bytes = [0; N];
    if read(at, &mut bytes) { Ok(bytes) } else { Err(KallsymsError::Memory) }
}

/// Returns the text of each token.
fn tokens(places: &Places, read: &Read<'_>) -> Result<Vec<Vec<u8>>, KallsymsError> {
    let index: [u8; 2 * TOKENS] = fixed(read, places.token_index)?;
    let starts = index.as_chunks().0.iter().map(|word| usize::from(u16::from_le_bytes(*word)));
    let mut table = Vec::new();
    let mut token = |start: usize| {
        while table.len() <= TOKEN_BYTES {
            let rest = table.get(start..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte: &u8| *byte == 0) {
                return Ok(rest[..end].to_vec());
            }
            let more: [u8; 64] = fixed(read, places.token_table.wrapping_add(table.len() as u64))?;
            table.extend(more);
        }
        Err(KallsymsError::Damaged)
    };
    starts.map(&mut token).collect()
}

/// Returns all names in order, without the letter of their type.
fn names(places: &Places, count: usize, read: &Read<'_>) -> Result<Vec<String>, KallsymsError> {
    let tokens = tokens(places, read)?;
    let mut bytes = Bytes { read, at: places.names, buffer: Vec::new(), next: 0 };
    let (mut names, mut all) = (Vec::new(), 0);
    for _ in 0..count {
        let mut length = usize::from(bytes.next()?);
        // Since Linux 6.1 a long name has a second byte for its length.
        if length & 0x80 != 0 {
            length = length & 0x7f | usize::from(bytes.next()?) << 7u32;
        }
        let mut name = Vec::new();
        for _ in 0..length {
            name.extend_from_slice(&tokens[usize::from(bytes.next()?)]);
            if name.len() > MAX_NAME {
                return Err(KallsymsError::Damaged);
            }
        }
        all += name.len();
        let name = name.get(1..).filter(|_| all <= MAX_NAMES).ok_or(KallsymsError::Damaged)?;
        names.push(String::from_utf8_lossy(name).into_owned());
    }
    Ok(names)
}

/// Bytes of memory, one after the other.
struct Bytes<'a> {
    read: &'a Read<'a>,
    /// The address of the bytes after the buffer.
    at: u64,
    buffer: Vec<u8>,
    next: usize,
}

impl Bytes<'_> {
    fn next(&mut self) -> Result<u8, KallsymsError> {
        if self.next == self.buffer.len() {
            let mut chunk = vec![0; CHUNK];
            // The last chunk may reach beyond what is mapped.
            while !(self.read)(self.at, &mut chunk) {
                chunk.truncate(chunk.len() / 2);
                if chunk.is_empty() {
                    return Err(KallsymsError::Memory);
                }
            }
            self.at = self.at.wrapping_add(chunk.len() as u64);
            self.buffer = chunk;
            self.next = 0;
        }
        let byte = self.buffer[self.next];
        self.next += 1;
        Ok(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    const NAMES: u64 = 0xffff_8000_8100_0000;
    const OFFSETS: u64 = 0xffff_8000_8200_0000;
    const STEXT: u64 = 0xffff_8000_8001_0000;

    /// Memory: the address and the bytes of each piece.
    type Pieces = Vec<(u64, Vec<u8>)>;

    /// Returns memory with the tables of these symbols, and the addresses of the tables. Letters are tokens of themselves,
    /// and the token 1 is `do_`.
    fn kernel(symbols: &[(u64, String)], is_relative: bool) -> (Pieces, impl Fn(&str) -> Option<u64>) {
        let base = STEXT - 0x1_0000;
        let (mut names, mut offsets) = (Vec::new(), Vec::new());
        for (index, (address, name)) in symbols.iter().enumerate() {
            let tokens = format!("T{name}").replace("do_", "\x01");
            match tokens.len() {
                short @ 0..0x80 => names.push(short as u8),
                long => names.extend([(long & 0x7f | 0x80) as u8, (long >> 7) as u8]),
            }
            names.extend(tokens.bytes());
            let place = OFFSETS + index as u64 * 4;
            offsets.extend(
                address.wrapping_sub(if is_relative { place } else { base }).to_le_bytes()[..4].to_vec(),
            );
        }
        let (mut table, mut index) = (Vec::new(), Vec::new());
        for token in 0..=255u8 {
            index.extend((table.len() as u16).to_le_bytes());
            table.extend(if token == 1 { b"do_\0".to_vec() } else { vec![token.max(2), 0] });
        }
        let count = (symbols.len() as u32).to_le_bytes().to_vec();
        let memory = vec![
            (NAMES, names),
            (OFFSETS, offsets),
            (0x8000, table),
            (0x1000, index),
            (0x2000, count),
            (0x3000, base.to_le_bytes().to_vec()),
        ];
        let told = move |name: &str| match name {
            "kallsyms_names" => Some(NAMES),
            "kallsyms_offsets" => Some(OFFSETS),
            "kallsyms_token_table" => Some(0x8000),
            "kallsyms_token_index" => Some(0x1000),
            "kallsyms_num_syms" => Some(0x2000),
            "kallsyms_relative_base" if !is_relative => Some(0x3000),
            "_stext" => Some(STEXT),
            _ => None,
        };
        (memory, told)
    }

    /// Reads whole pages: behind the bytes of each piece are zeros.
    fn memory(pieces: &[(u64, Vec<u8>)]) -> impl Fn(u64, &mut [u8]) -> bool {
        move |at, into| {
            let piece = pieces.iter().find(|(start, bytes)| {
                (*start..start + bytes.len().next_multiple_of(4096) as u64).contains(&at)
            });
            let Some((start, bytes)) = piece else { return false };
            let from = (at - start) as usize;
            let end = from + into.len();
            if end > bytes.len().next_multiple_of(4096) {
                return false;
            }
            into.fill(0);
            let stored = &bytes[from.min(bytes.len())..end.min(bytes.len())];
            into[..stored.len()].copy_from_slice(stored);
            true
        }
    }

    proptest! {
        #[test]
        fn the_symbols_of_an_image_are_read(
            symbols in prop::collection::btree_map(1u64..1 << 24, "(do_)?[a-z]{1,40}(do_[a-z]{0,90})?", 0..300), is_relative: bool,
        ) {
            let mut symbols: Vec<_> = symbols.into_iter().map(|(offset, name)| (STEXT + offset, name)).collect();
            symbols.insert(0, (STEXT, "_stext".to_owned()));
            let (pieces, told) = kernel(&symbols, is_relative);
            prop_assert_eq!(read(&told, &memory(&pieces)), Ok(Symbols::new(symbols.clone())));
        }

        #[test]
        fn no_memory_panics(noise: Vec<u8>, at in 0usize..6, place in any::<prop::sample::Index>()) {
            let symbols: Vec<_> = (0..40).map(|n| (STEXT + n * 16, format!("do_{n}"))).collect();
            let (mut pieces, told) = kernel(&symbols, false);
            let bytes = &mut pieces[at].1;
            let place = place.index(bytes.len());
            let length = noise.len().min(bytes.len() - place);
            bytes[place..place + length].copy_from_slice(&noise[..length]);
            let _ = read(&told, &memory(&pieces));
        }
    }

    #[test]
    fn a_kernel_that_is_another_one_has_none() {
        let symbols = [(STEXT + 4096, "_stext".to_owned())];
        let (pieces, told) = kernel(&symbols, false);
        assert_eq!(read(&told, &memory(&pieces)), Err(KallsymsError::Damaged));
        assert_eq!(read(|_| None, &memory(&pieces)), Err(KallsymsError::NotTold));
        assert_eq!(read(&told, &|_, _| false), Err(KallsymsError::Memory));
    }
}
