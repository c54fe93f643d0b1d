//! The machine that is modelled: its CPUs, its geometry, and where its tables are.

use linmap::{Geometry, Granule, OaFormat};
use serde::{Deserialize, Serialize};

use crate::Tlb;
use crate::json::{hex, is_yes, maybe_hex, read, yes};

/// The features of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Core {
    /// It never raises a TLB conflict abort when a live entry changes its size.
    pub never_aborts: bool,
    /// It has TTL hints (FEAT_TTL); without, the field must be zero.
    pub ttl: bool,
    /// It has TLBIs by range (FEAT_TLBIRANGE).
    pub range_tlbi: bool,
    /// It has TLBIs for the outer shareable domain (FEAT_TLBIOS).
    pub outer_tlbi: bool,
    /// It has TLBIs and DSBs with the nXS qualifier (FEAT_XS).
    pub xs: bool,
    /// It needs one more TLBI and DSB after a batch (CVE-2025-10263).
    pub repeat_tlbi: bool,
    /// It has allocation tags (FEAT_MTE2).
    pub mte: bool,
    /// Its loads order later walks, which then see the new entry (FEAT_ETS2).
    pub ets2: bool,
    /// Its walkers set the access flag (FEAT_HAFDBS, TCR_EL1.HA).
    pub hardware_access_flag: bool,
    /// Its walkers make writable-clean entries writable-dirty (FEAT_HAFDBS, TCR_EL1.HD and HA).
    pub hardware_dirty_state: bool,
    /// It has CnP in TTBR0 and TTBR1 (FEAT_TTCNP); without, the bit has no effect.
    pub cnp: bool,
}

impl Core {
    /// A CPU that never aborts on a live change of size.
    pub const STRONG: Self = Self {
        never_aborts: true,
        ttl: true,
        range_tlbi: true,
        outer_tlbi: true,
        xs: true,
        repeat_tlbi: false,
        mte: true,
        ets2: false,
        hardware_access_flag: false,
        hardware_dirty_state: false,
        cnp: false,
    };
    /// Returns the feature that a TLBI needs and the CPU lacks: it is undefined there.
    pub(crate) fn lacks_for(&self, op: Tlb) -> Option<&'static str> {
        let lacks = [
            (op.is_range() && !self.range_tlbi, "has no TLBIs by range"),
            (op.is_outer() && !self.outer_tlbi, "has no TLBIs for the outer shareable domain"),
            (op.is_nxs() && !self.xs, "has no TLBIs with the nXS qualifier"),
        ];
        lacks.iter().find(|lack| lack.0).map(|lack| lack.1)
    }

    /// A CPU that may abort.
    pub const WEAK: Self = Self { never_aborts: false, ..Self::STRONG };
}

/// A machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The geometry of all tables, in both halves.
    pub geometry: Geometry,
    /// Its CPUs, 1 to 8; 1 to 64 of code that announces nothing.
    pub cores: Vec<Core>,
    /// The physical address of the first table page.
    pub tables_at: u64,
    /// The number of table pages.
    pub tables: usize,
    /// The offset from the physical address of a table to the virtual one by which CPUs access it, through the map
    /// that they have loaded. `None`: tables are accessed outside of any map.
    pub table_offset: Option<u64>,
    /// The offset from a physical address to its address in the linear map, wrapping, as far as that is in
    /// [`linear_range`](linmap::layout::linear_range). If it is given, a page that is
    /// read-only by another address must be read-only in the linear map ([`Rule::WritableAlias`](crate::Rule)).
    pub linear_offset: Option<u64>,
    /// True if EL1 may execute memory that it can write. The architecture permits that, so the machine judges it as a
    /// promise of the system ([`Rule::WriteExecute`](crate::Rule)), which `linmap` keeps by default. It is true for
    /// a log whose first line does not say it: older ones made no such promise.
    pub allow_write_execute: bool,
}

impl Setup {
    /// Returns a machine with these CPUs and 1,024 table pages, which are accessed outside of any map.
    pub fn new(geometry: Geometry, cores: &[Core]) -> Self {
        Self {
            geometry,
            cores: cores.to_vec(),
            tables_at: 0x1000_0000,
            tables: 1024,
            table_offset: None,
            linear_offset: None,
            allow_write_execute: false,
        }
    }
}

/// The event of the first line of a log.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Machine,
}

/// The first line of a log.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    event: Kind,
    granule: String,
    va_bits: u32,
    format: String,
    cpus: Vec<Core>,
    #[serde(with = "hex")]
    tables_at: u64,
    tables: usize,
    #[serde(default, with = "maybe_hex", skip_serializing_if = "Option::is_none")]
    table_offset: Option<u64>,
    #[serde(default, with = "maybe_hex", skip_serializing_if = "Option::is_none")]
    linear_offset: Option<u64>,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    allow_write_execute: bool,
}

const NOT_FIRST: &str = r#"the first line must describe the machine: {"event":"machine", ...}"#;

const GRANULES: [(&str, Granule); 3] = [("4k", Granule::K4), ("16k", Granule::K16), ("64k", Granule::K64)];
const FORMATS: [(&str, OaFormat); 3] =
    [("48", OaFormat::Bits48), ("lpa", OaFormat::Lpa), ("lpa2", OaFormat::Lpa2)];

impl Setup {
    /// The first line of a log.
    pub fn to_json(&self) -> String {
        let g = self.geometry;
        let granule = GRANULES.iter().find(|x| x.1 == g.granule()).map_or("", |x| x.0);
        let format = FORMATS.iter().find(|x| x.1 == g.oa_format()).map_or("", |x| x.0);
        let header = Header {
            event: Kind::Machine,
            granule: granule.into(),
            va_bits: g.va_bits(),
            format: format.into(),
            cpus: self.cores.clone(),
            tables_at: self.tables_at,
            tables: self.tables,
            table_offset: self.table_offset,
            linear_offset: self.linear_offset,
            allow_write_execute: self.allow_write_execute,
        };
        serde_json::to_string(&header).unwrap_or_default()
    }

    /// Reads the first line of a log.
    ///
    /// # Errors
    ///
    /// The mistake in it.
    pub fn from_json(line: &str) -> Result<Self, String> {
        let header: Header = read(line, |event| (event != Some("machine")).then_some(NOT_FIRST))?;
        let known = |name: &str, all: &[&str]| format!("\"{name}\" is none of {}", all.join(", "));
        let granule = GRANULES.iter().find(|x| x.0 == header.granule).map(|x| x.1);
        let granule = granule.ok_or_else(|| known(&header.granule, &GRANULES.map(|x| x.0)))?;
        let format = FORMATS.iter().find(|x| x.0 == header.format).map(|x| x.1);
        let format = format.ok_or_else(|| known(&header.format, &FORMATS.map(|x| x.0)))?;
        let geometry = Geometry::new(granule, header.va_bits, format).map_err(|e| e.to_string())?;
        let setup = Self {
            geometry,
            cores: header.cpus,
            tables_at: header.tables_at,
            tables: header.tables,
            table_offset: header.table_offset,
            linear_offset: header.linear_offset,
            allow_write_execute: header.allow_write_execute,
        };
        setup.check().map(|()| setup)
    }

    /// Fails, naming the mistake, if the machine cannot be modelled.
    pub(crate) fn check(&self) -> Result<(), String> {
        let page = self.geometry.page_size();
        let bytes = (self.tables as u64).checked_mul(page);
        let end = bytes.and_then(|b| self.tables_at.checked_add(b));
        if self.cores.is_empty() || self.cores.len() > 64 {
            return Err(format!("{} CPUs: there are 1 to 64", self.cores.len()));
        }
        if self.tables > 1 << 24u32 {
            return Err(format!("{} table pages: at most {}", self.tables, 1 << 24));
        }
        if !self.tables_at.is_multiple_of(page) || end.is_none_or(|e| e > 1 << self.geometry.oa_bits()) {
            return Err(format!(
                "{} table pages at {:#x}: not aligned, or beyond the output addresses",
                self.tables, self.tables_at
            ));
        }
        Ok(())
    }
}
