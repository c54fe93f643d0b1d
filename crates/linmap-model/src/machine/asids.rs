//! ASIDs: each tree has one, and TLBs tell apart by it what is not global (D8.17 RNWYRD).

use linmap::Attributes;
use linmap::arch::{Entry, Leaf};

use super::frames::sequence;
use super::{Cpu, Finding, Left, Machine, Ttbr};
use crate::asid::Asid;
use crate::pages::Place;
use crate::stale::Issued;
use crate::{CpuId, Register};

impl Machine {
    /// Judges that a tree has one ASID: entries of one tree under two ASIDs are not modelled.
    pub(super) fn one_asid(&self, cpu: CpuId, new: Ttbr) -> Result<(), Finding> {
        let loaded =
            self.cpus.iter().flat_map(|c| c.ttbr.iter().flatten().chain(c.left.iter().map(|l| &l.ttbr)));
        let mut loaded = loaded.filter(|t| t.root == new.root);
        match loaded.find(|t| (t.asid, t.space) != (new.asid, new.space)) {
            None => Ok(()),
            Some(old) => {
                let fact = format!(
                    "the tree at {:#x} has ASID {} and is of {}, and is loaded with {} for {}",
                    new.root, old.asid, old.space, new.asid, new.space
                );
                Err(sequence(cpu, fact))
            }
        }
    }

    /// Returns the ASID of a tree, which CPUs may have left.
    pub(super) fn asid_of(&self, root: u64) -> Asid {
        let loaded = |c: &Cpu| {
            let mut all = c.ttbr.iter().flatten().chain(c.left.iter().map(|l| &l.ttbr));
            all.find(|t| t.root == root).map(|t| t.asid)
        };
        self.cpus.iter().find_map(loaded).map_or(Asid::Unknown, Asid::Of)
    }

    /// Returns true if walks and accesses of a tree never meet an entry: the TLB holds it under another ASID.
    pub(super) fn is_apart(&self, held: Asid, root: u64) -> bool {
        matches!(held, Asid::Of(_)) && !held.serves(self.asid_of(root))
    }

    /// Notes that some CPUs dropped all entries of an ASID: with them have gone those of a tree of the lower half that
    /// they left, if it has nothing global.
    pub(super) fn forget_trees_of_asid(&mut self, cpus: u8, issued: &Issued, asid: u16) {
        let gone = |l: &Left| {
            l.until.is_some_and(|until| until < issued.at)
                && issued.what.target.has(l.ttbr.space)
                && l.ttbr.asid == asid
                && has_asids(l.half)
                && !self.has_global(l.ttbr.root, l.half)
        };
        let all_gone = |cpu: &Cpu| cpu.left.iter().map(gone).collect();
        let gone: Vec<Vec<bool>> = self.cpus.iter().map(all_gone).collect();
        for (n, (cpu, gone)) in self.cpus.iter_mut().zip(gone).enumerate() {
            let mut gone = gone.into_iter();
            cpu.left.retain(|_| !(gone.next().unwrap_or(false) && cpus & 1 << n != 0));
        }
    }

    /// Judges the ASIDs of both halves of a CPU: where they differ, TCR.A1 says which of them the pages of both have.
    /// The model takes that of each half's own register.
    pub(super) fn local_pages_have_one_asid(&self, cpu: CpuId, half: usize) -> Result<(), Finding> {
        match two_asids(self.cpu(cpu), half) {
            Some([_, upper]) if self.has_local(self.whole(upper.root, 1)) => Err(two_asids_refused(cpu)),
            _ => Ok(()),
        }
    }

    /// Judges a store into a table of the upper half in the same way, for all CPUs.
    pub(super) fn stored_pages_have_one_asid(&self, place: Place, span: (u64, u64)) -> Result<(), Finding> {
        if place.va >> 63u32 == 0 {
            return Ok(());
        }
        let two = |c: &Cpu| {
            let halves = [Register::Ttbr0, Register::Ttbr0El2].map(|register| two_asids(c, register.slot()));
            halves.into_iter().flatten().any(|[_, upper]| self.leads(upper.root, place.root))
        };
        let cpus = self.cpus_that(two);
        if cpus == 0 || !self.has_local(((place.root, self.place_of_root(place.root, 1)), span)) {
            return Ok(());
        }
        Err(two_asids_refused(super::lowest(cpus)).at(span.0))
    }

    /// Returns a tree and all addresses that it may translate.
    fn whole(&self, root: u64, half: usize) -> ((u64, Place), (u64, u64)) {
        let place = self.place_of_root(root, half);
        ((root, place), (place.va, place.va + ((1 << self.geometry().va_bits()) - 1)))
    }

    /// Returns true if some leaf of a tree is not global.
    fn has_local(&self, (tree, span): ((u64, Place), (u64, u64))) -> bool {
        let local = |leaf: Leaf| leaf.valid && leaf.attributes.contains(Attributes::NOT_GLOBAL);
        let found = self.pages.walk(tree, span, self.geometry(), &mut |piece| match piece.entry {
            Entry::Leaf(leaf) if local(leaf) => Err(()),
            _ => Ok(()),
        });
        found.is_err()
    }
}

/// Returns the trees of both halves of a regime on a CPU, if they have two ASIDs.
fn two_asids(cpu: &Cpu, half: usize) -> Option<[Ttbr; 2]> {
    let [lower, upper] = [cpu.ttbr[half & !1]?, cpu.ttbr[half | 1]?];
    (lower.asid != upper.asid).then_some([lower, upper])
}

fn two_asids_refused(cpu: CpuId) -> Finding {
    let fact = "pages of the upper half are not global, and the registers of the two halves have two ASIDs: that TCR.A1 \
                says which is for these pages is not modelled; write one to both";
    sequence(cpu, fact)
}

/// Returns true for the halves whose trees are told apart by ASID: the lower ones. A kernel has one tree for all.
pub(super) fn has_asids(half: usize) -> bool {
    [Register::Ttbr0.slot(), Register::Ttbr0El2.slot()].contains(&half)
}
