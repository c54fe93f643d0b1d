//! Recognises compressed cores, which are not read, and says how to get a core that is.
//!
//! A kdump-compressed core begins with `KDUMP   ` (formerly `DISKDUMP`); its header has the kernel's name and the
//! compression method. QEMU's `dump-guest-memory -z`, `-l` and `-s` and makedumpfile write it. Both also write it
//! flattened, for readers that cannot seek: a header that begins with `makedumpfile`, then pieces, each after its
//! offset and length. The piece at offset 0 begins like the file itself.

use crate::printable::excerpt;

/// The number of bytes at the start of a file that are enough to recognise it.
pub(super) const BEGINNING: usize = 8 << 10;

const FLATTENED: &[u8] = b"makedumpfile\0";
/// Bytes of the header of a flattened file, and of the header of each piece.
const FLATTENED_HEADER: usize = 4096;
const PIECE_HEADER: usize = 16;

/// Compression methods by their flags in the header, in order of preference if several are set.
const METHODS: [(u32, &str); 4] = [(0x1, "zlib"), (0x2, "LZO"), (0x4, "Snappy"), (0x20, "Zstandard")];
/// Offsets of the release, the machine and the flags in the header.
const RELEASE: usize = 142;
const MACHINE: usize = 272;
const NAME: usize = 65;
const STATUS: usize = 424;

/// Compressed files by their first bytes, and the program that made them.
const PACKED: [(&[u8], &str); 5] = [
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\x04\x22\x4d\x18", "lz4"),
];

/// Describes a compressed file by its first bytes and says what to do, or returns `None` for any other file.
pub(super) fn told(beginning: &[u8]) -> Option<String> {
    if let Some((_, program)) = PACKED.iter().find(|(magic, _)| beginning.starts_with(magic)) {
        return Some(format!(
            "it is compressed by {program}; `{program} -d` makes a file of it that may be read"
        ));
    }
    if !beginning.starts_with(FLATTENED) {
        return kdump(beginning).map(|what| format!("it is {what}; {WAY_OUT}"));
    }
    let inner = beginning.get(FLATTENED_HEADER + PIECE_HEADER..).unwrap_or_default();
    Some(match kdump(inner) {
        Some(what) => format!("it is {what}, flattened; {WAY_OUT}"),
        None if inner.starts_with(&super::core::MAGIC) => "it is an ELF core in makedumpfile's flattened format; \
                                                            `makedumpfile -R CORE < FILE` makes the core of it"
            .to_owned(),
        None => format!("it is in makedumpfile's flattened format, of what cannot be told; {WAY_OUT}"),
    })
}

/// makedumpfile refuses -E for compressed input (its manual, and its own words: "'-E' option is disable").
const WAY_OUT: &str = "such cores are not read, and makedumpfile makes no ELF core of one. What is read is an ELF core: \
                       of QEMU by `dump-guest-memory` without -z, -l and -s, of kdump by `makedumpfile -E` in place \
                       of -c, -l, -p or -z when /proc/vmcore is saved";

/// Describes a kdump-compressed core: `a kdump-compressed core (zlib) of Linux 6.1.0-40-arm64 on aarch64`.
fn kdump(header: &[u8]) -> Option<String> {
    if !header.starts_with(b"KDUMP   ") && !header.starts_with(b"DISKDUMP") {
        return None;
    }
    let name = |at: usize| {
        let field = header.get(at..at + NAME)?.split(|byte| *byte == 0).next()?;
        let text = excerpt(&String::from_utf8_lossy(field), 64);
        (!text.is_empty()).then_some(text)
    };
    let status =
        header.get(STATUS..).and_then(|bytes| bytes.first_chunk()).map(|word| u32::from_le_bytes(*word));
    let method = METHODS.iter().find(|(mark, _)| status.is_some_and(|status| status & mark != 0));
    let mut what = "a kdump-compressed core".to_owned();
    what += &method.map(|(_, method)| format!(" ({method})")).unwrap_or_default();
    what += &name(RELEASE).map(|release| format!(" of Linux {release}")).unwrap_or_default();
    // QEMU writes this for every guest but those of x86.
    let machine = name(MACHINE).filter(|machine| machine != "Unknown");
    what += &machine.map(|machine| format!(" on {machine}")).unwrap_or_default();
    Some(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    fn header(release: &str, status: u32) -> Vec<u8> {
        let mut header = vec![0; 512];
        header[..8].copy_from_slice(b"KDUMP   ");
        header[RELEASE..RELEASE + release.len()].copy_from_slice(release.as_bytes());
        header[MACHINE..MACHINE + 7].copy_from_slice(b"aarch64");
        header[STATUS..STATUS + 4].copy_from_slice(&status.to_le_bytes());
        header
    }

    fn flattened(inner: &[u8]) -> Vec<u8> {
        let mut bytes = FLATTENED.to_vec();
        bytes.resize(FLATTENED_HEADER + PIECE_HEADER, 0);
        [&bytes, inner].concat()
    }

    #[test]
    fn formats_are_told_by_name() {
        let told = |bytes: &[u8]| told(bytes).expect("a format");
        assert!(told(&header("6.1.0-40-arm64", 1)).starts_with(
            "it is a kdump-compressed core (zlib) of Linux 6.1.0-40-arm64 on aarch64; such cores are not read"
        ));
        assert!(
            told(&flattened(&header("", 4)))
                .starts_with("it is a kdump-compressed core (Snappy) on aarch64, flat")
        );
        assert!(told(&flattened(b"\x7fELF\x02")).contains("`makedumpfile -R CORE < FILE`"));
        assert!(told(&flattened(b"")).contains("of what cannot be told"));
        assert!(told(b"KDUMP   ").starts_with("it is a kdump-compressed core; "));
        assert!(told(b"\x28\xb5\x2f\xfd....").contains("`zstd -d`"));
        let of_qemu = [&header("", 1)[..MACHINE], b"Unknown", &header("", 1)[MACHINE + 7..]].concat();
        assert!(told(&flattened(&of_qemu)).starts_with("it is a kdump-compressed core (zlib), flattened; "));
        assert_eq!(super::told(b"\x7fELF"), None);
    }

    proptest! {
        /// Of a header that was cut, each field is told that is whole.
        #[test]
        fn a_core_is_told_as_far_as_its_header_goes(noise: Vec<u8>, length in 0usize..=512) {
            let magics = PACKED.iter().map(|(magic, _)| *magic).chain([&b"KDUMP   "[..], b"DISKDUMP", FLATTENED]);
            let is_known = magics.clone().any(|magic| noise.starts_with(magic));
            prop_assert_eq!(told(&noise).is_some(), is_known);
            let short = &noise[..noise.len().min(RELEASE - 8)];
            let expected = format!("it is a kdump-compressed core; {WAY_OUT}");
            prop_assert_eq!(told(&[b"KDUMP   ", short].concat()), Some(expected));
            let fields = [
                (STATUS + 4, " (LZO)"), (RELEASE + NAME, " of Linux 6.1^["), (MACHINE + NAME, " on aarch64"),
            ];
            let fields: String = fields.iter().filter(|(end, _)| length >= *end).map(|(_, field)| *field).collect();
            let expected = match length {
                0..8 => format!("it is in makedumpfile's flattened format, of what cannot be told; {WAY_OUT}"),
                _ => format!("it is a kdump-compressed core{fields}, flattened; {WAY_OUT}"),
            };
            prop_assert_eq!(told(&flattened(&header("6.1\x1b", 2)[..length])), Some(expected));
        }
    }
}
