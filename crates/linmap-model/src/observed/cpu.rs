//! One CPU that is watched: its registers, what it has loaded, and what its next barriers concern.

use std::collections::{BTreeMap, HashMap};

use linmap::Geometry;

use super::held::Issued;
use super::report::{Step, Stored};
use super::tree::{Format, Run, TreeId};
use super::types::Types;
use crate::fields::{sctlr, tcr};
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
    /// The last tree of the lower half that is not empty.
    pub(super) process: Option<TreeId>,
    /// The event at which it came to that one.
    pub(super) process_since: usize,
    /// The event of its last ISB.
    pub(super) last_isb: usize,
    /// The contiguous runs that it was the last to store to, with its last store.
    pub(super) runs: BTreeMap<Run, Stored>,
    /// The tree of the upper half that it had before.
    pub(super) before: Option<TreeId>,
    /// The other tree of two between which it goes back and forth, as with KPTI.
    pub(super) twin: Option<TreeId>,
}

impl Cpu {
    pub(super) fn new(core: Core) -> Self {
        Self {
            core,
            values: [None; Register::ALL.len()],
            loaded: [None; 2],
            asids: HashMap::new(),
            issued: Vec::new(),
            fresh: Vec::new(),
            process: None,
            process_since: 0,
            last_isb: 0,
            runs: BTreeMap::new(),
            before: None,
            twin: None,
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
        self.get(Register::Sctlr).is_none_or(|value| value & sctlr::M != 0)
    }

    /// Returns true if TTBR1 has the ASID.
    pub(super) fn is_asid_in_ttbr1(&self) -> bool {
        self.has(Register::Tcr, tcr::A1)
    }

    /// Returns the ASID of its accesses.
    pub(super) fn asid(&self) -> u16 {
        let register = if self.is_asid_in_ttbr1() { Register::Ttbr1 } else { Register::Ttbr0 };
        let asid = (self.get(register).unwrap_or_default() >> 48u32) as u16;
        if self.get(Register::Tcr).is_none_or(|value| value & tcr::AS != 0) { asid } else { asid & 0xff }
    }

    /// Returns true if its registers load a tree for a half.
    pub(super) fn has_tree(&self, half: usize) -> bool {
        self.get([Register::Ttbr0, Register::Ttbr1][half]).is_some()
            && self.is_on()
            && !self.has(Register::Tcr, tcr::EPD[half])
    }

    /// Returns the tree that its registers load for a half.
    pub(super) fn tree(&self, half: usize, format: &Format) -> Option<TreeId> {
        let value = self.get([Register::Ttbr0, Register::Ttbr1][half]).filter(|_| self.has_tree(half))?;
        let root = Register::root(value, format.geometry.oa_format());
        Some(TreeId { root, half })
    }

    /// Returns the format of the tables of a half, or `None` if they are big-endian, or TCR has none that is known.
    pub(super) fn format(&self, half: usize, default: Geometry) -> Option<Format> {
        if self.has(Register::Sctlr, sctlr::EE) {
            return None;
        }
        let types = self.get(Register::Mair).map_or_else(Types::default, Types::new);
        let geometry = self.get(Register::Tcr).map_or(Some(default), |value| tcr::geometry(value, half))?;
        let set_by_walkers = [tcr::HA, tcr::HA | tcr::HD].map(|bits| self.has(Register::Tcr, bits));
        Some(Format { geometry, types, accessed: set_by_walkers[0], dirty: set_by_walkers[1] })
    }
}
