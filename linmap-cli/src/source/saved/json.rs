//! The document of `linmap dump --json`, written and read: its rows are [`Stretch`]es.
//!
//! ```json
//! { "schema": "linmap.dump/1", "ok": true,
//!   "geometry": { "granule": "4K", "va_bits": 48, "format": "48-bit" },
//!   "markers": [ { "row": 0, "text": "Linear Mapping start" } ],
//!   "rows": [ { "va": "0xffff000000000000", "bytes": 2097152, "level": 2, "kind": "leaf", "pa": "0x40000000",
//!               "attributes": "0x60000000000704", "contiguous": false, "valid": true },
//!             { "va": "0xffff000000200000", "bytes": 2097152, "level": 2, "kind": "hole" } ] }
//! ```
//!
//! `kind` is `leaf`, `hole` or `reserved`; `attributes` are the bits of a descriptor that are not its address;
//! `format` is `48-bit`, `lpa` or `lpa2`. Whoever reads it passes over keys that it does not know.

use linmap::{Attributes, Geometry, GeometryError, Granule, Level, OaFormat, Pa, Va};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{Saved, Stretch, What};
use super::MOST_ROWS;

/// What the document calls itself.
pub(crate) const SCHEMA: &str = "linmap.dump/1";

/// Why a JSON document is no dump.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("it is no JSON document of a dump: {0}")]
    Syntax(#[from] serde_json::Error),
    #[error("its schema is `{0}`, and a dump's is `{SCHEMA}`: save what `linmap dump --json` writes")]
    Schema(String),
    #[error("it is the document of a run that failed; there is no dump in it")]
    Failed,
    #[error("its geometry is none: {0}")]
    Geometry(#[from] GeometryError),
    #[error("row {row}: {what}")]
    Row { row: usize, what: &'static str },
    #[error("it has {0} rows, more than the map of any machine")]
    TooMany(usize),
}

#[derive(Deserialize)]
struct Document {
    schema: String,
    #[serde(default)]
    ok: Option<bool>,
    geometry: Option<Shape>,
    #[serde(default)]
    markers: Vec<Marker>,
    rows: Option<Vec<Row>>,
}

#[derive(Serialize, Deserialize)]
struct Shape {
    granule: Pages,
    va_bits: u32,
    format: Format,
}

#[derive(Serialize, Deserialize)]
enum Pages {
    #[serde(rename = "4K")]
    K4,
    #[serde(rename = "16K")]
    K16,
    #[serde(rename = "64K")]
    K64,
}

#[derive(Serialize, Deserialize)]
enum Format {
    #[serde(rename = "48-bit")]
    Bits48,
    #[serde(rename = "lpa")]
    Lpa,
    #[serde(rename = "lpa2")]
    Lpa2,
}

#[derive(Serialize, Deserialize)]
struct Marker {
    row: usize,
    text: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Leaf,
    Hole,
    Reserved,
}

#[derive(Serialize, Deserialize)]
struct Row {
    #[serde(with = "hex")]
    va: u64,
    bytes: u64,
    level: i8,
    kind: Kind,
    #[serde(default, with = "hex::option", skip_serializing_if = "Option::is_none")]
    pa: Option<u64>,
    #[serde(default, with = "hex::option", skip_serializing_if = "Option::is_none")]
    attributes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    contiguous: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid: Option<bool>,
}

/// Addresses as text, since numbers of JSON have 53 bits in many programs.
mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{value:#x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        parse(&String::deserialize(from)?)
    }

    fn parse<E: Error>(text: &str) -> Result<u64, E> {
        let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'));
        let value = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        value.ok_or_else(|| E::custom("a number such as \"0x40000000\" was expected"))
    }

    pub(super) mod option {
        use serde::{Deserialize, Deserializer, Serializer};

        pub(in super::super) fn serialize<S: Serializer>(
            value: &Option<u64>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => super::serialize(value, to),
                None => to.serialize_none(),
            }
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<u64>, D::Error> {
            Option::<String>::deserialize(from)?.map(|text| super::parse(&text)).transpose()
        }
    }
}

/// One row of it.
pub(crate) fn row(stretch: &Stretch) -> Value {
    let (va, bytes, level) = (stretch.va.0, stretch.bytes, stretch.level.number());
    let without =
        |kind| Row { va, bytes, level, kind, pa: None, attributes: None, contiguous: None, valid: None };
    let row = match stretch.what {
        What::Hole => without(Kind::Hole),
        What::Reserved => without(Kind::Reserved),
        What::Leaf { oa, attributes, contiguous, valid } => Row {
            pa: oa.map(|oa| oa.0),
            attributes: Some(attributes.bits()),
            contiguous: Some(contiguous),
            valid: Some(valid),
            ..without(Kind::Leaf)
        },
    };
    // Nothing in a row can fail to be written.
    serde_json::to_value(row).unwrap_or(Value::Null)
}

fn geometry(shape: &Shape) -> Result<Geometry, GeometryError> {
    let granule = match shape.granule {
        Pages::K4 => Granule::K4,
        Pages::K16 => Granule::K16,
        Pages::K64 => Granule::K64,
    };
    let format = match shape.format {
        Format::Bits48 => OaFormat::Bits48,
        Format::Lpa => OaFormat::Lpa,
        Format::Lpa2 => OaFormat::Lpa2,
    };
    Geometry::new(granule, shape.va_bits, format)
}

/// Reads a document. Its name is the caller's to give.
pub(super) fn read(text: &[u8]) -> Result<Saved, JsonError> {
    let document: Document = serde_json::from_slice(text)?;
    if document.schema != SCHEMA {
        return Err(JsonError::Schema(crate::printable::excerpt(&document.schema, 40)));
    }
    let Some(rows) = document.rows.filter(|_| document.ok != Some(false)) else {
        return Err(JsonError::Failed);
    };
    if rows.len() > MOST_ROWS {
        return Err(JsonError::TooMany(rows.len()));
    }
    let geometry = document.geometry.as_ref().map(geometry).transpose()?;
    let mut stretches: Vec<Stretch> = Vec::with_capacity(rows.len());
    for (number, row) in rows.iter().enumerate() {
        let wrong = |what| JsonError::Row { row: number, what };
        let next = stretch(row).map_err(wrong)?;
        let last = stretches.last().map(|last| last.va.0.checked_add(last.bytes));
        match last {
            Some(None) => return Err(wrong("there is no address left for it after the row in front")),
            Some(Some(end)) if next.va.0 < end => {
                return Err(wrong("it begins before the row in front ends"));
            }
            _ => stretches.push(next),
        }
    }
    let markers = document.markers.into_iter().map(|marker| (marker.row.min(rows.len()), marker.text));
    Ok(Saved { name: String::new(), geometry, stretches, markers: markers.collect() })
}

fn stretch(row: &Row) -> Result<Stretch, &'static str> {
    let what = match (&row.kind, row.attributes) {
        (Kind::Hole, _) => What::Hole,
        (Kind::Reserved, _) => What::Reserved,
        (Kind::Leaf, Some(attributes)) => What::Leaf {
            oa: row.pa.map(Pa),
            attributes: Attributes::from_bits_truncate(attributes),
            contiguous: row.contiguous.unwrap_or(false),
            valid: row.valid.unwrap_or(true),
        },
        (Kind::Leaf, None) => return Err("a leaf has `attributes`"),
    };
    if !(-1..=3).contains(&row.level) {
        return Err("levels are -1 to 3");
    }
    if row.bytes == 0 || row.va.checked_add(row.bytes - 1).is_none() {
        return Err("it has no bytes, or more than there are addresses");
    }
    Ok(Stretch { va: Va(row.va), bytes: row.bytes, level: Level::new(row.level), what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The document of these rows and of the marker lines in front of them.
    fn document(geometry: Option<Geometry>, rows: &[Stretch], markers: &[(usize, String)]) -> Value {
        let markers: Vec<_> =
            markers.iter().map(|(row, text)| Marker { row: *row, text: text.clone() }).collect();
        let rows: Vec<Value> = rows.iter().map(row).collect();
        let geometry = geometry.map(shape);
        serde_json::json!({ "schema": SCHEMA, "ok": true, "geometry": geometry, "markers": markers, "rows": rows })
    }

    fn shape(geometry: Geometry) -> Shape {
        let granule = match geometry.granule() {
            Granule::K4 => Pages::K4,
            Granule::K16 => Pages::K16,
            Granule::K64 => Pages::K64,
        };
        let format = match geometry.oa_format() {
            OaFormat::Bits48 => Format::Bits48,
            OaFormat::Lpa => Format::Lpa,
            OaFormat::Lpa2 => Format::Lpa2,
        };
        Shape { granule, va_bits: geometry.va_bits(), format }
    }

    fn stretches() -> Vec<Stretch> {
        let leaf = |oa| What::Leaf { oa, attributes: Attributes::RAM, contiguous: true, valid: false };
        let at = |va, what| Stretch { va: Va(va), bytes: 0x1000, level: Level::PAGE, what };
        vec![
            at(0xffff_0000_0000_0000, What::Hole),
            at(0xffff_0000_0000_1000, leaf(Some(Pa(0x4000_0000)))),
            at(0xffff_0000_0000_3000, leaf(None)),
            at(0xffff_ffff_ffff_f000, What::Reserved),
        ]
    }

    #[test]
    fn a_document_reads_back_as_written() {
        let g = Geometry::new(Granule::K16, 52, OaFormat::Lpa2).ok();
        let markers = vec![(0, "Linear Mapping start".to_owned()), (4, "end".to_owned())];
        let text = document(g, &stretches(), &markers).to_string();
        let saved = read(text.as_bytes()).expect("a dump");
        assert_eq!((saved.geometry, saved.stretches, saved.markers), (g, stretches(), markers));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let changed = |from: &str, to: &str| {
            let text = document(None, &stretches(), &[]).to_string().replace(from, to);
            read(text.as_bytes()).expect_err(to).to_string()
        };
        assert!(changed("dump/1", "stat/1").contains("its schema is `linmap.stat/1`"));
        assert!(changed("true,\"geometry", "false,\"geometry").contains("a run that failed"));
        assert!(changed("0xffff000000001000", "0xfffe000000000000").starts_with("row 1: it begins before"));
        assert!(changed("0xffff000000001000", "ffff").contains("was expected"));
        assert!(changed("4096", "0").starts_with("row 0: it has no bytes"));
        assert!(changed("attributes", "attribute").starts_with("row 1: a leaf has"));
        assert!(changed("\"level\":3", "\"level\":4").starts_with("row 0: levels are"));
        assert!(changed("leaf", "tree").contains("unknown variant"));
    }

    proptest! {
        #[test]
        fn no_document_panics(at: usize, byte: u8, end: usize, noise: Vec<u8>) {
            let mut bytes = document(None, &stretches(), &[]).to_string().into_bytes();
            let length = bytes.len();
            bytes[at % length] = byte;
            let _ = (read(&bytes), read(&bytes[..end % length]), read(&noise));
        }
    }
}
