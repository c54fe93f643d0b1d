//! Recognises compressed files and memory in forms that are not read, and says how to get one that is.

/// The number of bytes at the start of a file that are enough to recognise it.
pub(super) const BEGINNING: usize = 8 << 10;

/// Compressed files by their first bytes, and the program that made them.
const PACKED: [(&[u8], &str); 5] = [
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\x04\x22\x4d\x18", "lz4"),
];

/// A guest that was saved to be continued: its memory is between the states of its devices, in forms of each release.
const SAVED_GUESTS: [(&[u8], &str); 3] =
    [(b"LibvirtQemudSave", "libvirt"), (b"LibvirtQemudPart", "libvirt"), (b"QEVM", "QEMU")];

/// Describes a file in a form that is not read by its first bytes and says what to do, or returns `None` for any other file.
pub(super) fn told(beginning: &[u8]) -> Option<String> {
    let is = |(magic, _): &&(&[u8], &str)| beginning.starts_with(magic);
    let packed = PACKED.iter().find(is).map(|(_, program)| {
        format!("it is compressed by {program}; `{program} -d` makes a file of it that may be read")
    });
    let guest = || {
        let (_, program) = SAVED_GUESTS.iter().find(is)?;
        Some(format!(
            "it is a guest that {program} saved to be continued; what is read is a core: by `virsh dump --memory-only`, or \
             by QEMU's `dump-guest-memory`"
        ))
    };
    packed.or_else(guest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    #[test]
    fn forms_are_told_by_name() {
        let told = |bytes: &[u8]| told(bytes).expect("a form");
        assert!(told(b"\xfd7zXZ\0....").contains("`xz -d`"));
        assert!(told(b"LibvirtQemudSave\x03").contains("`virsh dump --memory-only`"));
        assert_eq!(super::told(b"\x7fELF"), None);
        assert_eq!(super::told(b"KDUMP   "), None);
    }

    proptest! {
        #[test]
        fn any_beginning_is_told_or_not(noise: Vec<u8>) {
            let forms = PACKED.iter().chain(&SAVED_GUESTS);
            let is_known = forms.clone().any(|(magic, _)| noise.starts_with(magic));
            prop_assert_eq!(told(&noise).is_some(), is_known);
            for (magic, program) in forms {
                prop_assert!(told(&[magic, &noise[..]].concat()).is_some_and(|what| what.contains(program)));
            }
        }
    }
}
