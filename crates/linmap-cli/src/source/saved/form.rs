//! The form of a saved dump: what `linmap dump --json` writes, key by key (docs/schema/linmap.dump-2.json).
//!
//! ```json
//! { "schema": "linmap.dump/2", "ok": true, "source": "core `vmcore`", "release": "6.1.0-40-arm64",
//!   "geometry": { "granule": "4K", "va_bits": 48, "format": "48-bit" },
//!   "kernel": { "command_line": "quiet", "vmcoreinfo": { "OSRELEASE": "6.1.0-40-arm64" } },
//!   "cpu": { "midrs": ["0xc00fac30"], "tcr": null, "mmfr0": null, "mmfr2": null, "mair": null },
//!   "regions_from": "VMCOREINFO",
//!   "regions": [ { "name": "linear", "first": "0xffff000000000000", "last": "0xffff7fffffffffff" } ],
//!   "parts": [ { "start": "Linear Mapping start", "end": "Linear Mapping end",
//!                "first": "0xffff000000000000", "last": "0xffff7fffffffffff" } ],
//!   "table_limits": [ { "va": "0xffff000000000000", "bytes": 1073741824, "level": 1, "limits": "0x1800000000000000" } ],
//!   "missing": [],
//!   "rows": [ { "va": "0xffff000000000000", "bytes": 2097152, "level": 2, "kind": "leaf", "pa": "0x40000000",
//!               "attributes": "0x60000000000704", "contiguous": false, "valid": true,
//!               "descriptor": "0x60000040000705" },
//!             { "va": "0xffff000000200000", "bytes": 2097152, "level": 2, "kind": "hole" } ] }
//! ```
//!
//! Version 1 has no `kernel`, `cpu`, `parts`, `table_limits` and `descriptor`, and `markers` instead of `parts`.
//! Keys that are not known are passed over.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Deserialize)]
pub(super) struct Document {
    pub(super) schema: String,
    #[serde(default)]
    pub(super) ok: Option<bool>,
    pub(super) source: Option<String>,
    pub(super) release: Option<String>,
    pub(super) geometry: Option<Shape>,
    pub(super) kernel: Option<KernelForm>,
    pub(super) cpu: Option<CpuForm>,
    pub(super) regions_from: Option<String>,
    #[serde(default)]
    pub(super) regions: Vec<RegionForm>,
    #[serde(default)]
    pub(super) parts: Vec<PartForm>,
    #[serde(default)]
    pub(super) table_limits: Vec<LimitsForm>,
    #[serde(default)]
    pub(super) missing: Vec<String>,
    pub(super) rows: Option<Vec<Row>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Shape {
    pub(super) granule: Pages,
    pub(super) va_bits: u32,
    pub(super) format: Format,
}

#[derive(Serialize, Deserialize)]
pub(super) enum Pages {
    #[serde(rename = "4K")]
    K4,
    #[serde(rename = "16K")]
    K16,
    #[serde(rename = "64K")]
    K64,
}

#[derive(Serialize, Deserialize)]
pub(super) enum Format {
    #[serde(rename = "48-bit")]
    Bits48,
    #[serde(rename = "lpa")]
    Lpa,
    #[serde(rename = "lpa2")]
    Lpa2,
}

#[derive(Serialize, Deserialize)]
pub(super) struct KernelForm {
    pub(super) command_line: Option<String>,
    pub(super) vmcoreinfo: Option<BTreeMap<String, String>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct CpuForm {
    #[serde(default)]
    pub(super) midrs: Vec<Hex>,
    pub(super) tcr: Option<Hex>,
    pub(super) mmfr0: Option<Hex>,
    pub(super) mmfr2: Option<Hex>,
    pub(super) mair: Option<Hex>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RegionForm {
    pub(super) name: String,
    pub(super) first: Hex,
    pub(super) last: Hex,
}

#[derive(Serialize, Deserialize)]
pub(super) struct PartForm {
    pub(super) start: String,
    pub(super) end: String,
    pub(super) first: Hex,
    pub(super) last: Hex,
}

#[derive(Serialize, Deserialize)]
pub(super) struct LimitsForm {
    pub(super) va: Hex,
    pub(super) bytes: u64,
    pub(super) level: i8,
    pub(super) limits: Hex,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Leaf,
    Hole,
    Reserved,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) va: Hex,
    pub(super) bytes: u64,
    pub(super) level: i8,
    pub(super) kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pa: Option<Hex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attributes: Option<Hex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) contiguous: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) valid: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) descriptor: Option<Hex>,
}

/// An address or a register as text, since many programs keep only 53 bits of a JSON number.
#[derive(Clone, Copy)]
pub(super) struct Hex(pub(super) u64);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:#x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'));
        let value = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        value.map(Self).ok_or_else(|| D::Error::custom("a number such as \"0x40000000\" was expected"))
    }
}
