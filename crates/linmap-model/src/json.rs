//! Lines of a log: numbers as they stand there, and the mistakes in a line, in the words of a log.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The event of a line, whatever else it has.
#[derive(Deserialize)]
struct Tag {
    event: Option<String>,
}

/// Reads a line. If it is malformed, `wrong_event` may say that its event is wrong in this place.
///
/// # Errors
///
/// The mistake in the line.
pub(crate) fn read<T: DeserializeOwned>(
    line: &str,
    wrong_event: impl FnOnce(Option<&str>) -> Option<&'static str>,
) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| {
        if !line.trim_start().starts_with('{') {
            return "expected a JSON object".into();
        }
        let tag: Option<Tag> = serde_json::from_str(line).ok();
        let wrong = tag.and_then(|tag| wrong_event(tag.event.as_deref()));
        wrong.map_or_else(|| plain(&error), Into::into)
    })
}

/// Returns the message of an error in a line of JSON, without its line and column, which would be taken for those in
/// the log.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

pub(crate) const fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref)]
pub(crate) const fn is_yes(b: &bool) -> bool {
    *b
}

/// Addresses and descriptors are texts: JSON's numbers are not sure to hold 64 bits.
pub(crate) mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(n: &u64, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&format_args!("{n:#x}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
        let text = String::deserialize(d)?;
        let digits = text.strip_prefix("0x").filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        number.ok_or_else(|| D::Error::custom(format_args!("\"{text}\": expected a text like \"0x1000\"")))
    }
}

/// The same for an optional number.
pub(crate) mod maybe_hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(n: &Option<u64>, s: S) -> Result<S::Ok, S::Error> {
        match n {
            Some(n) => super::hex::serialize(n, s),
            None => s.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
        #[derive(Deserialize)]
        struct Hex(#[serde(with = "super::hex")] u64);
        Ok(Option::<Hex>::deserialize(d)?.map(|h| h.0))
    }
}
