//! Pure: root and geometry of the tables of the upper half, from registers or from VMCOREINFO.
//!
//! VMCOREINFO does not give the format of descriptors. Linux uses LPA2 (TCR_EL1.DS = 1) exactly with 4K and 16K pages
//! and more than 48 VA bits. Instead of relying on that, or on the root's address, each possible format and address
//! is tried on the one thing that is certain: the tables map the symbol `swapper_pg_dir` to themselves. Linux maps
//! its image as inner shareable; if the two shareability bits of the leaf that maps the symbol differ, they are bits
//! of an address, and the format is LPA2.

use linmap::arch::{Descriptor, Entry};
use linmap::error::GeometryError;
use linmap::read::ReadTables;
use linmap::{Attributes, Geometry, Granule, OaFormat, Pa, Slot, Va};

use super::memory::Physical;
use super::snapshot::{Snapshot, Unread};
use super::vmcoreinfo::VmcoreInfo;
use super::{Request, Wanted};

/// Tables of the upper half, as hardware is told of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Regime {
    /// The address of the root table.
    pub(super) root: Pa,
    /// Their geometry.
    pub(super) geometry: Geometry,
}

/// Why registers or VMCOREINFO lead to no tables.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum RegimeError {
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    #[error("TCR {tcr:#x}: its granule field for the upper half is 0, which means nothing")]
    Granule { tcr: u64 },
    #[error("TCR {tcr:#x}: walks of the upper half are off (EPD1), so there are no tables of a kernel")]
    Off { tcr: u64 },
    #[error("VMCOREINFO has no usable `{0}`")]
    Lacks(&'static str),
    #[error("VMCOREINFO's PAGESIZE={0} is no page size of arm64: 4096, 16384 or 65536")]
    PageSize(u64),
    #[error("VMCOREINFO puts the root table at {root}, and {unread}")]
    Unread { root: Pa, unread: Box<Unread> },
    #[error(
        "VMCOREINFO puts the root table at {root}, but what is there does not map swapper_pg_dir ({symbol}); it is damaged, or VMCOREINFO is another kernel's"
    )]
    NotTheRoot { root: Pa, symbol: Va },
}

impl Regime {
    /// Decodes TTBR1 and TCR of the kernel's exception level.
    pub(super) fn of_registers(ttbr: u64, tcr: u64) -> Result<Self, RegimeError> {
        if tcr & EPD1 != 0 {
            return Err(RegimeError::Off { tcr });
        }
        let granule = match tcr >> 30u32 & 3 {
            1 => Granule::K16,
            2 => Granule::K4,
            3 => Granule::K64,
            _ => return Err(RegimeError::Granule { tcr }),
        };
        let format = match granule {
            Granule::K64 if tcr >> 32u32 & 7 == IPS_52 => OaFormat::Lpa,
            Granule::K4 | Granule::K16 if tcr & DS != 0 => OaFormat::Lpa2,
            _ => OaFormat::Bits48,
        };
        let geometry = Geometry::new(granule, 64 - (tcr >> 16 & 0x3f) as u32, format)?;
        Ok(Self { root: root(ttbr, geometry), geometry })
    }

    /// Returns the kernel's own tables, if these are the ones that a CPU in user space has instead.
    ///
    /// With page-table isolation (KPTI), the kernel maps little but its entry code in user space, by a root two pages
    /// before its own. Such a root has no linear map.
    pub(super) fn behind_trampoline(self, memory: &dyn Physical) -> Self {
        let own = Self { root: Pa(self.root.0.wrapping_add(2 * self.geometry.page_size())), ..self };
        if !self.has_linear_map(memory) && own.has_linear_map(memory) { own } else { self }
    }

    fn has_linear_map(self, memory: &dyn Physical) -> bool {
        let mut half = vec![0; self.geometry.entries(self.geometry.root()) * 8 / 2];
        let valid = |word: &[u8; 8]| Descriptor(u64::from_le_bytes(*word)).is_valid();
        memory.read(self.root, &mut half).is_ok() && half.as_chunks().0.iter().any(valid)
    }

    /// Returns the tables that VMCOREINFO describes, confirmed by the tables themselves.
    pub(super) fn of_vmcoreinfo(info: &VmcoreInfo, memory: &dyn Physical) -> Result<Self, RegimeError> {
        let claim = Claim::of(info)?;
        let mut refused = RegimeError::NotTheRoot { root: claim.root, symbol: claim.symbol };
        for candidate in claim.candidates()? {
            match claim.is_proved_by(candidate, memory) {
                Ok(true) => return Ok(candidate),
                Ok(false) => {}
                Err(unread) => refused = RegimeError::Unread { root: candidate.root, unread },
            }
        }
        Err(refused)
    }
}

/// TCR.EPD1: nothing walks the tables of the upper half.
const EPD1: u64 = 1 << 23;
/// TCR.DS: descriptors are those of LPA2.
const DS: u64 = 1 << 59;
/// TCR.IPS of 52 address bits.
const IPS_52: u64 = 6;

/// The root's address in a TTBR: bits 63:48 are the ASID, bit 0 is CnP, and with 52-bit addresses bits 5:2 are
/// address bits 51:48 (D24.2.192).
fn root(ttbr: u64, geometry: Geometry) -> Pa {
    let bytes = geometry.entries(geometry.root()) as u64 * 8;
    match geometry.oa_format() {
        OaFormat::Bits48 => Pa(ttbr & ((1 << 48) - bytes.max(2))),
        OaFormat::Lpa | OaFormat::Lpa2 => Pa(ttbr & ((1 << 48) - bytes.max(64)) | (ttbr >> 2 & 0xf) << 48),
    }
}

/// The facts about tables in VMCOREINFO.
struct Claim {
    symbol: Va,
    root: Pa,
    granule: Granule,
    /// The VA bits in use.
    va_bits: u32,
    /// The VA bits that the kernel was built for.
    built_for: u32,
    /// True if it was built for 52-bit physical addresses.
    large_pa: bool,
}

impl Claim {
    fn of(info: &VmcoreInfo) -> Result<Self, RegimeError> {
        let lacks = |what| move || RegimeError::Lacks(what);
        let symbol = info.symbol("swapper_pg_dir").ok_or_else(lacks("SYMBOL(swapper_pg_dir)"))?;
        let offset = info.number("kimage_voffset").ok_or_else(lacks("NUMBER(kimage_voffset)"))?;
        let page_size = info.page_size().ok_or_else(lacks("PAGESIZE"))?;
        let granule = Granule::ALL.into_iter().find(|granule| granule.page_size() == page_size);
        let built_for = info.number("VA_BITS");
        let in_use = info.number("TCR_EL1_T1SZ").map(|t1sz| 64u64.saturating_sub(t1sz)).or(built_for);
        let in_use = in_use.ok_or_else(lacks("NUMBER(TCR_EL1_T1SZ) or NUMBER(VA_BITS)"))?;
        let bits = |bits: u64| u32::try_from(bits.min(64)).unwrap_or(64);
        Ok(Self {
            symbol: Va(symbol),
            root: Pa(symbol.wrapping_sub(offset)),
            granule: granule.ok_or(RegimeError::PageSize(page_size))?,
            va_bits: bits(in_use),
            built_for: bits(built_for.unwrap_or(in_use)),
            large_pa: info.number("MAX_PHYSMEM_BITS").is_some_and(|bits| bits > 48),
        })
    }

    /// Returns all possible tables, likeliest first.
    fn candidates(&self) -> Result<Vec<Regime>, GeometryError> {
        let formats: &[OaFormat] = match (self.granule, self.va_bits > 48) {
            (Granule::K64, _) if self.large_pa => &[OaFormat::Lpa],
            (Granule::K64, _) => &[OaFormat::Bits48],
            (_, true) => &[OaFormat::Lpa2],
            (_, false) => &[OaFormat::Bits48, OaFormat::Lpa2],
        };
        let mut candidates = Vec::new();
        for format in formats {
            let geometry = Geometry::new(self.granule, self.va_bits, *format)?;
            // A kernel that was built for more VA bits than the CPU has can use only the end of its root table.
            let spare = match Geometry::new(self.granule, self.built_for, *format) {
                Ok(built) if built.root() == geometry.root() => {
                    built.entries(built.root()).saturating_sub(geometry.entries(geometry.root())) as u64 * 8
                }
                _ => 0,
            };
            candidates.push(Regime { root: self.root, geometry });
            if spare != 0 {
                candidates.push(Regime { root: Pa(self.root.0.wrapping_add(spare)), geometry });
            }
        }
        Ok(candidates)
    }

    /// Returns true if these tables map the symbol to its own address, by a leaf of this format.
    fn is_proved_by(&self, regime: Regime, memory: &dyn Physical) -> Result<bool, Box<Unread>> {
        let (geometry, symbol) = (regime.geometry, self.symbol);
        let request = Request { wanted: Wanted::Range(symbol, symbol), progress: &|_| () };
        let Ok(tables) = Snapshot::read(memory, geometry, regime.root, request) else {
            return Ok(false);
        };
        let Some(leaf) = translate(&tables, regime, symbol).map_err(Box::new)? else { return Ok(false) };
        let shareable = leaf.attributes.contains(Attributes::INNER_SHAREABLE);
        Ok(leaf.oa == self.root && (shareable || geometry.oa_format() == OaFormat::Lpa2))
    }
}

/// The mapping of an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped {
    /// The physical address.
    pub(super) oa: Pa,
    /// The attributes.
    pub(super) attributes: Attributes,
}

/// Returns the mapping of an address, if there is one.
pub(super) fn translate(tables: &Snapshot, regime: Regime, va: Va) -> Result<Option<Mapped>, Unread> {
    let Regime { root: mut table, geometry } = regime;
    let mut level = geometry.root();
    loop {
        let slot = Slot { table, index: geometry.index(va.0, level) };
        match tables.entry(slot, level)?.decode(geometry, level) {
            Entry::Table(next) => (table, level) = (next, level.next()),
            Entry::Leaf(leaf) if leaf.valid => {
                let offset = va.0 & (geometry.level_size(level) - 1);
                return Ok(Some(Mapped { oa: Pa(leaf.oa.0 | offset), attributes: leaf.attributes }));
            }
            _ => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    /// TG1, T1SZ, IPS and DS.
    fn tcr(tg1: u64, va_bits: u64, ips: u64, ds: u64) -> u64 {
        tg1 << 30 | (64 - va_bits) << 16 | ips << 32 | ds << 59
    }

    #[test]
    fn registers_say_where_the_tables_are() {
        use {Granule::*, OaFormat::*};
        let asid_and_cnp = 0x1234_0000_0000_0001;
        let rows = [
            (tcr(2, 48, 5, 0), 0x4185_8000, K4, Bits48, 0x4185_8000),
            (tcr(2, 52, 6, 1), 0x41ef_e000, K4, Lpa2, 0x41ef_e000),
            (tcr(2, 52, 6, 1), 0x41ef_e03c, K4, Lpa2, 0x000f_0000_41ef_e000),
            (tcr(1, 47, 5, 0), 0x4185_8000, K16, Bits48, 0x4185_8000),
            // A short root is aligned to its own size only.
            (tcr(3, 48, 5, 0), 0x4185_1e00, K64, Bits48, 0x4185_1e00),
            (tcr(3, 48, 6, 0), 0x4185_1e04, K64, Lpa, 0x0001_0000_4185_1e00),
        ];
        for (tcr, ttbr, granule, format, root) in rows {
            let regime = Regime::of_registers(ttbr | asid_and_cnp, tcr).expect("tables");
            let found = (regime.geometry.granule(), regime.geometry.oa_format(), regime.root);
            assert_eq!(found, (granule, format, Pa(root)), "{tcr:#x} {ttbr:#x}");
        }
    }

    #[test]
    fn registers_without_tables() {
        let of = |tcr| Regime::of_registers(0, tcr).expect_err("no tables");
        let off = tcr(2, 48, 5, 0) | EPD1;
        assert_eq!(of(off), RegimeError::Off { tcr: off });
        assert_eq!(of(0), RegimeError::Granule { tcr: 0 });
        assert!(matches!(of(tcr(2, 52, 5, 0)), RegimeError::Geometry(_)));
    }

    /// A root with an entry in its lower half is the kernel's own, two pages after the one for user space.
    #[test]
    fn the_trampoline_is_seen_through() {
        #[derive(Debug)]
        struct At(u64);
        impl Physical for At {
            fn read(&self, pa: Pa, into: &mut [u8]) -> Result<(), super::super::memory::Unreadable> {
                into.fill(0);
                into[0] = if pa.0 == self.0 { 3 } else { 0 };
                Ok(())
            }
        }
        let regime = Regime::of_registers(0x8000, tcr(2, 48, 5, 0)).expect("tables");
        let root = |own| regime.behind_trampoline(&At(own)).root;
        assert_eq!((root(0x8000), root(0xa000), root(0x9000)), (Pa(0x8000), Pa(0xa000), Pa(0x8000)));
    }

    proptest! {
        #[test]
        fn no_registers_panic(ttbr: u64, tcr: u64) {
            let _ = Regime::of_registers(ttbr, tcr);
        }
    }
}
