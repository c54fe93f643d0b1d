//! The TLBIs and DSBs of the code, and whether anything waited for them.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Barrier, Tlb};

/// An instruction that invalidates or completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A TLBI.
    Tlbi(Tlb),
    /// A DSB.
    Dsb(Barrier),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tlbi(op) => write!(f, "tlbi {op}"),
            Self::Dsb(kind) => write!(f, "dsb {kind}"),
        }
    }
}

/// One of them, at its place in the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// The instruction.
    pub kind: Kind,
    /// How often it was executed.
    pub count: u64,
    /// How often something needed it: for a TLBI an old entry that it dropped; for a DSB a store to a table or a TLBI of its CPU before
    /// it. Barriers that order a table before it is linked are not told apart from those that order other memory.
    pub needed: u64,
}

/// All of them, by their addresses.
#[derive(Default)]
pub(super) struct Sites(BTreeMap<u64, Site>);

impl Sites {
    fn executed(&mut self, pc: u64, kind: Kind) -> &mut Site {
        let site = self.0.entry(pc).or_insert(Site { kind, count: 0, needed: 0 });
        site.count += 1;
        site
    }

    /// A TLBI was issued.
    pub(super) fn tlbi(&mut self, pc: u64, op: Tlb) {
        self.executed(pc, Kind::Tlbi(op));
    }

    /// A TLBI has dropped something.
    pub(super) fn removed(&mut self, pc: u64) {
        if let Some(site) = self.0.get_mut(&pc) {
            site.needed += 1;
        }
    }

    /// A DSB was executed; `waited` if something waited for it.
    pub(super) fn dsb(&mut self, pc: u64, kind: Barrier, waited: bool) {
        self.executed(pc, Kind::Dsb(kind)).needed += u64::from(waited);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (u64, &Site)> {
        self.0.iter().map(|(pc, site)| (*pc, site))
    }
}
