//! `memcpy` and its like, for a kernel whose target leaves them to a C library, as Debian's `aarch64-unknown-linux-gnu` does:
//! dev/scripts/rust.sh compiles and links it.
//!
//! A kernel calls them before its MMU is on, too, where an access that is not aligned faults. Those of C libraries make such accesses.
//! These go word by word where both addresses allow that, and byte by byte elsewhere.
const WORD: usize = size_of::<u64>();

/// Returns the number of bytes up to the next word of both addresses, or `None` if they never come to one together.
fn to_word(a: usize, b: usize) -> Option<usize> {
    if (a ^ b).is_multiple_of(WORD) { Some(a.wrapping_neg() % WORD) } else { None }
}

/// # Safety
///
/// As for C.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    let first = to_word(to as usize, from as usize).unwrap_or(bytes).min(bytes);
    let words = (bytes - first) / WORD;
    // SAFETY: the caller's promise. Both addresses are those of words after the first bytes.
    unsafe {
        for at in 0..first {
            to.add(at).write(from.add(at).read());
        }
        for word in 0..words {
            to.add(first).cast::<u64>().add(word).write(from.add(first).cast::<u64>().add(word).read());
        }
        for at in first + words * WORD..bytes {
            to.add(at).write(from.add(at).read());
        }
    }
    to
}

/// # Safety
///
/// As for C.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= bytes {
        // SAFETY: the caller's promise. What is written was read before.
        return unsafe { memcpy(to, from, bytes) };
    }
    let last = to_word((to as usize + bytes).wrapping_neg(), (from as usize + bytes).wrapping_neg());
    let last = last.unwrap_or(bytes).min(bytes);
    let words = (bytes - last) / WORD;
    // SAFETY: the caller's promise. From the end on: what is written was read before.
    unsafe {
        for at in (bytes - last..bytes).rev() {
            to.add(at).write(from.add(at).read());
        }
        for at in (0..words).map(|word| bytes - last - (word + 1) * WORD) {
            to.add(at).cast::<u64>().write(from.add(at).cast::<u64>().read());
        }
        for at in (0..bytes - last - words * WORD).rev() {
            to.add(at).write(from.add(at).read());
        }
    }
    to
}

/// # Safety
///
/// As for C.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn memset(to: *mut u8, value: i32, bytes: usize) -> *mut u8 {
    let byte = value as u8;
    let first = ((to as usize).wrapping_neg() % WORD).min(bytes);
    let words = (bytes - first) / WORD;
    // SAFETY: the caller's promise. The address is that of a word after the first bytes.
    unsafe {
        for at in (0..first).chain(first + words * WORD..bytes) {
            to.add(at).write(byte);
        }
        for word in 0..words {
            to.add(first).cast::<u64>().add(word).write(u64::from_ne_bytes([byte; WORD]));
        }
    }
    to
}

/// # Safety
///
/// As for C.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    for at in 0..bytes {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { (a.add(at).read(), b.add(at).read()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// # Safety
///
/// As for C.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, bytes) }
}

/// # Safety
///
/// As for C.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut bytes = 0;
    // SAFETY: the caller's promise: it ends with a 0.
    while unsafe { text.add(bytes).read() } != 0 {
        bytes += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somewhere in a buffer to somewhere in it: as the standard library does it, and nothing beside it.
    #[test]
    fn memory_becomes_what_it_is_for_others() {
        let fresh: Vec<u8> = (0..96u8).map(|n| n.wrapping_mul(37) | 1).collect();
        for bytes in 0..48 {
            for (to, from) in (0..24).flat_map(|to| (0..24).map(move |from| (to, from))) {
                let (mut moved, mut expected) = (fresh.clone(), fresh.clone());
                expected.copy_within(from..from + bytes, to);
                let base = moved.as_mut_ptr();
                // SAFETY: both are in the buffer.
                unsafe { memmove(base.add(to), base.add(from), bytes) };
                assert_eq!(moved, expected, "{bytes} bytes from {from} to {to}");
                let mut copied = vec![0; 96];
                // SAFETY: the buffers are two.
                unsafe { memcpy(copied.as_mut_ptr().add(to), fresh.as_ptr().add(from), bytes) };
                assert_eq!(copied[to..to + bytes], fresh[from..from + bytes]);
                assert_eq!(copied.iter().filter(|byte| **byte != 0).count(), bytes, "beside them");
                // SAFETY: the buffers are as long.
                let order = unsafe { memcmp(fresh.as_ptr().add(to), fresh.as_ptr().add(from), bytes) };
                let (a, b) = (&fresh[to..to + bytes], &fresh[from..from + bytes]);
                assert_eq!(order.cmp(&0), a.cmp(b), "{bytes} bytes at {to} and {from}");
            }
            for to in 0..24 {
                let (mut set, mut expected) = (fresh.clone(), fresh.clone());
                expected[to..to + bytes].fill(0xa5);
                // SAFETY: they are in the buffer.
                unsafe { memset(set.as_mut_ptr().add(to), 0x7a5, bytes) };
                assert_eq!(set, expected, "{bytes} bytes at {to}");
            }
        }
        // SAFETY: it ends with a 0.
        assert_eq!(unsafe { strlen(c"five5".as_ptr().cast()) }, 5);
        // SAFETY: both have three bytes.
        assert_eq!(unsafe { bcmp(b"abc".as_ptr(), b"abc".as_ptr(), 3) }, 0);
    }
}
