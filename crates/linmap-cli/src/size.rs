//! Sizes in bytes as people write and read them: `12G`, `1.5GiB`, `0x80000000`, `24.1M`, `3,145,728`.
//!
//! K, M, G and T are 2^10, 2^20, 2^30 and 2^40, as for QEMU and Linux; KiB and so on are the same. `4GB` is refused:
//! it would be 4 * 10^9 to some and 2^32 to others.

use std::fmt;
use std::str::FromStr;

/// Binary units, largest first.
const UNITS: [(char, u64); 4] = [('T', 1 << 40), ('G', 1 << 30), ('M', 1 << 20), ('K', 1 << 10)];

/// A number of bytes. Parsed strictly, written exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

/// Why a text is not a size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SizeError {
    #[error(
        "not a size: write a number of bytes, or one with the suffix K, M, G or T, such as 12G, 12GiB or 1.5G"
    )]
    Malformed,
    #[error(
        "GB is 10^9 bytes to some and 2^30 to others: write G or GiB for 2^30, such as 12G; K, M and T likewise"
    )]
    Decimal,
    #[error("not a whole number of bytes")]
    Fraction,
    #[error("too large: sizes end below 16777216T")]
    TooLarge,
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let (number, scale) = unit(text)?;
        if let Some(hex) = number.strip_prefix("0x") {
            let number = whole(hex, 16)?;
            return number.checked_mul(scale).map(Self).ok_or(SizeError::TooLarge);
        }
        let (units, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let bytes = whole(units, 10)?.checked_mul(scale).ok_or(SizeError::TooLarge)?;
        let parts = 10_u128.checked_pow(fraction.len() as u32).ok_or(SizeError::Fraction)?;
        let scaled = u128::from(whole(fraction, 10)?) * u128::from(scale);
        if !scaled.is_multiple_of(parts) {
            return Err(SizeError::Fraction);
        }
        // It is less than the scale.
        let rest = (scaled / parts) as u64;
        bytes.checked_add(rest).map(Self).ok_or(SizeError::TooLarge)
    }
}

/// Splits a text into the number and the bytes of its unit.
fn unit(text: &str) -> Result<(&str, u64), SizeError> {
    let scale =
        |letter: char| UNITS.iter().find(|(own, _)| *own == letter.to_ascii_uppercase()).map(|own| own.1);
    let is_hex = text.starts_with("0x");
    let mut letters = text.char_indices().rev();
    let (last, rest) = (letters.next(), [letters.next(), letters.next()]);
    let Some((at, last)) = last else { return Err(SizeError::Malformed) };
    match (last.to_ascii_uppercase(), rest) {
        ('B', [Some((_, 'i')), Some((at, letter))]) if scale(letter).is_some() => {
            Ok((&text[..at], scale(letter).unwrap_or(1)))
        }
        // In a hexadecimal number, b is a digit.
        ('B', [Some((_, letter)), _]) if scale(letter).is_some() && !is_hex => Err(SizeError::Decimal),
        _ => Ok(scale(last).map_or((text, 1), |scale| (&text[..at], scale))),
    }
}

/// Parses a number without a sign, which `from_str_radix` would accept.
fn whole(digits: &str, radix: u32) -> Result<u64, SizeError> {
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(SizeError::Malformed);
    }
    u64::from_str_radix(digits, radix).map_err(|_| SizeError::TooLarge)
}

/// Writes it exactly, in the largest unit that divides it; parsing returns the same value.
impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, scale)| self.0 != 0 && self.0.is_multiple_of(*scale)) {
            Some((letter, scale)) => write!(out, "{}{letter}", self.0 / scale),
            None => write!(out, "{}", self.0),
        }
    }
}

/// Returns a short size with at most one decimal, without a trailing 0, so that a column has one form.
pub(crate) fn human(bytes: u64) -> String {
    let tenths = |scale: u64| (u128::from(bytes) * 10 + u128::from(scale / 2)) / u128::from(scale);
    let Some(fits) = UNITS.iter().position(|(_, scale)| bytes >= *scale) else { return bytes.to_string() };
    // 1024 of a unit is written as one of the next.
    let above = fits.checked_sub(1).filter(|_| tenths(UNITS[fits].1) >= 10240);
    let (letter, scale) = UNITS[above.unwrap_or(fits)];
    match (tenths(scale) / 10, tenths(scale) % 10) {
        (whole, 0) => format!("{whole}{letter}"),
        (whole, tenth) => format!("{whole}.{tenth}{letter}"),
    }
}

/// Returns a count with its thousands marked.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    #[test]
    fn sizes_are_numbers_with_at_most_one_suffix() {
        let sizes =
            [("0", 0), ("4096", 4096), ("4k", 4096), ("12G", 12 << 30), ("1T", 1 << 40), ("0x10M", 16 << 20)];
        let binary = [("4GiB", 4 << 30), ("4gib", 4 << 30), ("1.5G", 3 << 29), ("0.5KiB", 512), ("0x1b", 27)];
        let sizes = [&sizes[..], &binary, &[("0x1GiB", 1 << 30), ("1.0", 1)]].concat();
        for (text, bytes) in sizes {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in ["4GB", "4gb", "1.5MB"] {
            assert_eq!(text.parse::<Size>(), Err(SizeError::Decimal), "{text:?}");
        }
        for text in ["1.3K", "0.1", "1.00000000000000000000000000000000000000000001G"] {
            assert!(text.parse::<Size>().is_err(), "{text:?}");
        }
        for text in [
            "", "G", "B", "iB", "GiB", "12B", "12iB", "1.G", ".5G", "1.5.5G", "0x1.8G", "-1", "+1", "1 G",
            " 1", "12X", "0x", "12é", "١",
        ] {
            assert_eq!(text.parse::<Size>(), Err(SizeError::Malformed), "{text:?}");
        }
        for text in ["16777216T", "18446744073709551616", "0xfffffffffffffffffM"] {
            assert_eq!(text.parse::<Size>(), Err(SizeError::TooLarge), "{text:?}");
        }
    }

    #[test]
    fn people_see_short_numbers() {
        assert_eq!(human(12 << 30), "12G");
        assert_eq!(human(6158 * 4096), "24.1M");
        assert_eq!(human(17), "17");
        assert_eq!([513 << 20, (513 << 20) + 4096, 1023 << 10].map(human), ["513M", "513M", "1023K"]);
        assert_eq!([(1 << 20) - 1, (1 << 20) + (1 << 17), u64::MAX].map(human), ["1M", "1.1M", "16777216T"]);
        assert_eq!([1000, 1_000_000].map(human), ["1000", "976.6K"]);
        assert_eq!([0, 999, 1000, 3_145_728].map(grouped), ["0", "999", "1,000", "3,145,728"]);
    }

    /// Returns the value of a text, from its whole digits and the places behind its point.
    fn value(text: &str) -> Option<u64> {
        let lower = text.to_ascii_lowercase();
        let is_hex = text.starts_with("0x");
        let unit = UNITS.iter().find_map(|(unit, scale)| {
            let unit = unit.to_ascii_lowercase();
            let short = lower.strip_suffix(&format!("{unit}ib")).or_else(|| lower.strip_suffix(unit));
            Some((short?, *scale))
        });
        let (number, scale) = unit.unwrap_or((&lower, 1));
        let (radix, number) = if is_hex { (16, number.strip_prefix("0x")?) } else { (10, number) };
        let (whole, places) = if is_hex {
            (number, None)
        } else {
            number.split_once('.').map_or((number, None), |(whole, places)| (whole, Some(places)))
        };
        let digits = [whole, places.unwrap_or("0")].concat();
        if whole.is_empty() || places == Some("") || !digits.chars().all(|digit| digit.is_digit(radix)) {
            return None;
        }
        let behind = places.map_or(1, |places| places.len() as u32);
        let scaled = u128::from_str_radix(&digits, radix).ok()? * u128::from(scale);
        let one = u128::from(radix).pow(behind);
        scaled.is_multiple_of(one).then(|| u64::try_from(scaled / one).ok())?
    }

    proptest! {
        #[test]
        fn sizes_read_back_as_written(bytes: u64) {
            prop_assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }

        #[test]
        fn any_text_is_its_value_or_refused(
            text in "([0-9]{0,20}|0x[0-9a-fA-F]{0,17}|[0-9]{1,9}\\.[0-9]{0,9}|[0-9]\\.[05]|[+-]1)([KMGTkmgt]i?|i)?[Bb]?|.*",
        ) {
            prop_assert_eq!(text.parse::<Size>().ok().map(|size| size.0), value(&text), "{:?}", text);
        }
    }
}
