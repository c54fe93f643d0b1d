//! One CPU that is watched: its registers, what it has loaded, and what its next barriers concern.

use std::collections::HashMap;

use linmap::{Geometry, Granule, OaFormat};

use super::held::Issued;
use super::report::Step;
use super::tree::{Format, TreeId};
use super::types::Types;
use crate::{Core, Register};

/// A leaf that a CPU made valid: its own accesses need a DSB and an ISB before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fresh {
    pub(super) half: usize,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) step: Step,
    /// True once a DSB came.
    pub(super) visible: bool,
}

pub(super) struct Cpu {
    pub(super) core: Core,
    values: [Option<u64>; Register::ALL.len()],
    /// The trees of both halves.
    pub(super) loaded: [Option<TreeId>; 2],
    /// The ASIDs under which it has loaded trees of the lower half, and may hold their entries.
    pub(super) asids: HashMap<u16, TreeId>,
    pub(super) issued: Vec<Issued>,
    pub(super) fresh: Vec<Fresh>,
}

/// TCR_EL1.A1: the ASID is that of TTBR1 (D24.2.194).
const A1: u64 = 1 << 22;
/// TCR_EL1.EPD0 and EPD1: no walks.
const EPD: [u64; 2] = [1 << 7, 1 << 23];
/// TCR_EL1.AS: ASIDs have 16 bits.
const AS: u64 = 1 << 36;
/// SCTLR_EL1.M: translation is on.
const M: u64 = 1;

impl Cpu {
    pub(super) fn new(core: Core) -> Self {
        Self {
            core,
            values: [None; Register::ALL.len()],
            loaded: [None; 2],
            asids: HashMap::new(),
            issued: Vec::new(),
            fresh: Vec::new(),
        }
    }

    pub(super) fn get(&self, register: Register) -> Option<u64> {
        self.values[register as usize]
    }

    pub(super) fn set(&mut self, register: Register, value: u64) {
        self.values[register as usize] = Some(value);
    }

    /// After a reset nothing is known, and translation is off.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.core);
        self.set(Register::Sctlr, 0);
    }

    fn has(&self, register: Register, bits: u64) -> bool {
        self.get(register).is_some_and(|value| value & bits == bits)
    }

    /// Returns true if translation is on: so it is on a CPU that wrote no SCTLR.
    fn is_on(&self) -> bool {
        self.get(Register::Sctlr).is_none_or(|value| value & M != 0)
    }

    /// Returns the ASID of its accesses.
    pub(super) fn asid(&self) -> u16 {
        let register = if self.has(Register::Tcr, A1) { Register::Ttbr1 } else { Register::Ttbr0 };
        let asid = (self.get(register).unwrap_or_default() >> 48u32) as u16;
        if self.get(Register::Tcr).is_none_or(|tcr| tcr & AS != 0) { asid } else { asid & 0xff }
    }

    /// Returns the tree that its registers load for a half.
    pub(super) fn tree(&self, half: usize, format: &Format) -> Option<TreeId> {
        let value = self.get([Register::Ttbr0, Register::Ttbr1][half])?;
        if !self.is_on() || self.has(Register::Tcr, EPD[half]) {
            return None;
        }
        let address = value & ((1 << 48u32) - 2);
        let root = match format.geometry.oa_format() {
            OaFormat::Bits48 => address,
            _ => address & !0x3f | (value >> 2u32 & 0xf) << 48u32,
        };
        Some(TreeId { root, half })
    }

    /// Returns the format of the tables of a half, or `None` if TCR has none that is known.
    pub(super) fn format(&self, half: usize, default: Geometry) -> Option<Format> {
        let types = self.get(Register::Mair).map_or_else(Types::default, Types::new);
        let geometry = self.get(Register::Tcr).map_or(Some(default), |tcr| geometry(tcr, half))?;
        Some(Format { geometry, types })
    }
}

/// Reads TnSZ, TGn and DS of TCR_EL1 (D24.2.194).
fn geometry(tcr: u64, half: usize) -> Option<Geometry> {
    let field = |low: usize, bits: u32| tcr >> (low + 16 * half) & ((1 << bits) - 1);
    let granule = match (half, field(14, 2)) {
        (0, 0) | (1, 2) => Granule::K4,
        (0, 2) | (1, 1) => Granule::K16,
        (0, 1) | (1, 3) => Granule::K64,
        _ => return None,
    };
    let (lpa2, wide) = (tcr >> 59u32 & 1 == 1, tcr >> 32u32 & 7 >= 6);
    let format = match granule {
        Granule::K64 if wide => OaFormat::Lpa,
        Granule::K4 | Granule::K16 if lpa2 => OaFormat::Lpa2,
        _ => OaFormat::Bits48,
    };
    Geometry::new(granule, 64 - field(0, 6) as u32, format).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcr_has_a_geometry_for_each_half() {
        // 4K pages, 48 bits above; 64K pages, 42 bits below.
        let tcr = 2 << 30u64 | 16 << 16u64 | 1 << 14u64 | 22;
        let at = |half| geometry(tcr, half).map(|g| (g.granule(), g.va_bits()));
        assert_eq!([at(0), at(1)], [Some((Granule::K64, 42)), Some((Granule::K4, 48))]);
        assert_eq!(geometry(0, 1), None);
    }
}
