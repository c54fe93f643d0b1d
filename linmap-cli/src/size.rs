//! Sizes in bytes as people write and read them: `12G`, `0x80000000`, `24.1M`, `3,145,728`.

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
    #[error("not a size: write a whole number of bytes, or one with the suffix K, M, G or T, such as 12G")]
    Malformed,
    #[error("too large: sizes end below 16777216T")]
    TooLarge,
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let suffix = text.chars().next_back().map(|last| last.to_ascii_uppercase());
        let unit = UNITS.iter().find(|(letter, _)| Some(*letter) == suffix);
        let (number, scale) = match unit {
            Some((_, scale)) => (&text[..text.len() - 1], *scale),
            None => (text, 1),
        };
        let (digits, radix) = match number.strip_prefix("0x") {
            Some(hex) => (hex, 16),
            None => (number, 10),
        };
        // from_str_radix would take a sign as well.
        if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
            return Err(SizeError::Malformed);
        }
        let number = u64::from_str_radix(digits, radix).map_err(|_| SizeError::TooLarge)?;
        number.checked_mul(scale).map(Self).ok_or(SizeError::TooLarge)
    }
}

/// Exact, in the largest unit that divides the size: what parses back to the same value.
impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, scale)| self.0 != 0 && self.0.is_multiple_of(*scale)) {
            Some((letter, scale)) => write!(out, "{}{letter}", self.0 / scale),
            None => write!(out, "{}", self.0),
        }
    }
}

/// Short, to one decimal where it is not exact.
pub(crate) fn human(bytes: u64) -> String {
    match UNITS.iter().find(|(_, scale)| bytes >= *scale) {
        Some((letter, scale)) if bytes.is_multiple_of(*scale) => format!("{}{letter}", bytes / scale),
        Some((letter, scale)) => format!("{:.1}{letter}", bytes as f64 / *scale as f64),
        None => bytes.to_string(),
    }
}

/// A count with its thousands marked.
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
    use proptest::prelude::*;

    #[test]
    fn sizes_are_numbers_with_at_most_one_suffix() {
        let sizes =
            [("0", 0), ("4096", 4096), ("4k", 4096), ("12G", 12 << 30), ("1T", 1 << 40), ("0x10M", 16 << 20)];
        for (text, bytes) in sizes {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in ["", "G", "12GB", "12GiB", "1.5G", "-1", "+1", "1 G", " 1", "12X", "0x", "12é", "١"] {
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
        assert_eq!([0, 999, 1000, 3_145_728].map(grouped), ["0", "999", "1,000", "3,145,728"]);
    }

    proptest! {
        #[test]
        fn sizes_read_back_as_written(bytes: u64) {
            prop_assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<Size>();
        }
    }
}
