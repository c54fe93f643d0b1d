//! Pure: packets of gdb's remote protocol, encoded and decoded.

/// The longest packet accepted; stubs have no reason to send a longer one.
pub(super) const MAX_PACKET: usize = 1 << 20;

/// The beginning of the bytes that have arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Arrived {
    /// No complete packet yet.
    Nothing,
    /// A packet, and how many bytes it took, with everything before it.
    Packet(Vec<u8>, usize),
    /// A packet with a wrong checksum, or a too long one.
    Damaged,
}

/// Encodes a packet.
pub(super) fn frame(packet: &str) -> Vec<u8> {
    format!("${packet}#{:02x}", sum(packet.as_bytes())).into_bytes()
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte))
}

/// Decodes the first packet; acknowledgements and notifications before it are skipped.
pub(super) fn take(bytes: &[u8]) -> Arrived {
    let mut at = 0;
    loop {
        let Some(skipped) = bytes[at..].iter().position(|byte| matches!(byte, b'$' | b'%')) else {
            return Arrived::Nothing;
        };
        let start = at + skipped;
        let body = start + 1;
        let Some(length) = memchr::memchr(b'#', &bytes[body..]) else {
            return if bytes.len() - start > MAX_PACKET { Arrived::Damaged } else { Arrived::Nothing };
        };
        let Some(digits) = bytes.get(body + length + 1..body + length + 3) else { return Arrived::Nothing };
        at = body + length + 3;
        if bytes[start] == b'%' {
            continue;
        }
        let (packet, digits) = (&bytes[body..body + length], std::str::from_utf8(digits));
        let stated = digits.ok().and_then(|digits| u8::from_str_radix(digits, 16).ok());
        return match expanded(packet).filter(|_| stated == Some(sum(packet))) {
            Some(packet) => Arrived::Packet(packet, at),
            None => Arrived::Damaged,
        };
    }
}

/// Expands escapes (`}` and a byte) and run lengths (`*` and a count); `None` if the result is too long.
fn expanded(packet: &[u8]) -> Option<Vec<u8>> {
    if memchr::memchr2(b'}', b'*', packet).is_none() {
        return (packet.len() <= MAX_PACKET).then(|| packet.to_vec());
    }
    let mut expanded = Vec::with_capacity(packet.len());
    let mut bytes = packet.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'}' => expanded.push(bytes.next()? ^ 0x20),
            b'*' => {
                let (last, count) = (*expanded.last()?, bytes.next()?.checked_sub(29)?);
                expanded.extend(std::iter::repeat_n(last, count.into()));
            }
            byte => expanded.push(*byte),
        }
        if expanded.len() > MAX_PACKET {
            return None;
        }
    }
    Some(expanded)
}

/// Decodes hexadecimal digits; there must be exactly as many as fill `into`.
pub(super) fn unhex(digits: &[u8], into: &mut [u8]) -> Option<()> {
    if digits.len() != 2 * into.len() {
        return None;
    }
    for (pair, byte) in digits.as_chunks::<2>().0.iter().zip(into) {
        let (high, low) = (DIGITS[usize::from(pair[0])], DIGITS[usize::from(pair[1])]);
        if (high | low) > 0xf {
            return None;
        }
        *byte = high << 4u32 | low;
    }
    Some(())
}

/// Returns the output of a monitor if this is such a packet: `O` and digits. `OK` is an answer.
pub(super) fn printed(packet: &[u8]) -> Option<Vec<u8>> {
    let digits = packet.strip_prefix(b"O").filter(|digits| *digits != b"K")?;
    let mut bytes = vec![0; digits.len() / 2];
    unhex(digits, &mut bytes).map(|()| bytes)
}

/// The value of each byte as a hexadecimal digit; 0xff for other bytes.
const DIGITS: [u8; 256] = {
    let mut values = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        values[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    values
};

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    #[test]
    fn packets_are_framed_as_gdb_does() {
        assert_eq!(frame("g"), b"$g#67");
        assert_eq!(take(b"+$OK#9a+"), Arrived::Packet(b"OK".to_vec(), 7));
        assert_eq!(take(b"+$OK#9"), Arrived::Nothing);
        assert_eq!(take(b"%Stop:T05#00$#00"), Arrived::Packet(Vec::new(), 16));
        assert_eq!(take(b"$OK#9b"), Arrived::Damaged);
        assert_eq!(take(b"$0* #7a"), Arrived::Packet(b"0000".to_vec(), 7));
        assert_eq!(take(&frame("m}\x03x")), Arrived::Packet(b"m#x".to_vec(), 8));
        for broken in ["*a", "a*", "a}", "a*\x01"] {
            assert_eq!(take(&frame(broken)), Arrived::Damaged, "{broken:?}");
        }
        assert_eq!(take(&[b'$'; MAX_PACKET + 2]), Arrived::Damaged);
    }

    #[test]
    fn digits_become_bytes() {
        let mut bytes = [0; 2];
        assert_eq!(unhex(b"1aFf", &mut bytes), Some(()));
        assert_eq!(bytes, [0x1a, 0xff]);
        assert_eq!(printed(b"O6869").as_deref(), Some(&b"hi"[..]));
        assert_eq!([printed(b"OK"), printed(b"O6"), printed(b"")], [None, None, None]);
        for wrong in [&b"1aF"[..], b"1aFg", b"1aFf0", b"xxxx"] {
            assert_eq!(unhex(wrong, &mut bytes), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, text in "[$#*}+a-f0-9%]*") {
            let _ = (take(&bytes), take(text.as_bytes()), expanded(&bytes));
        }
    }
}
