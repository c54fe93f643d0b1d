//! Accesses: a CPU uses a virtual address, and nothing that it may use for the translation faults or leads elsewhere.
//!
//! It may use the tables as its walker may see them, a table that its walk caches still lead to, any member of a
//! contiguous run, and the stale entries of its TLB. Accesses are those of EL1; privileged access never (PAN) and
//! tag checks are not modelled.

use linmap::arch::{Descriptor, Entry, Leaf};
use linmap::{Attributes, MemoryType, Pa};

use super::{Finding, Machine};
use crate::asid::Asid;
use crate::cached::Cached;
use crate::fields::sctlr;
use crate::pages::Place;
use crate::space::Space;
use crate::stale::StaleTable;
use crate::{Access, Core, CpuId, Register, Rule, stage2};

/// An access through one tree.
#[derive(Clone, Copy)]
struct Use {
    cpu: CpuId,
    root: u64,
    asid: u16,
    space: Space,
    va: u64,
    how: Access,
}

impl Machine {
    /// Judges that a CPU may use an address.
    pub(super) fn access(&self, cpu: CpuId, va: u64, how: Access) -> Result<(), Finding> {
        let (this, half) = (self.cpu(cpu), usize::from(va >> 63u32 == 1));
        if how == Access::Tag && !this.core.mte {
            let fact = format!("cpu {cpu} has no allocation tags");
            return Err(Finding::new(Rule::Untagged, fact).on(cpu).at(va));
        }
        // With translation off an address is a physical one.
        let slots = self.slots_at_work(cpu);
        if slots.iter().all(|&slot| this.ttbr[slot].is_none()) {
            self.may_use_physical(cpu, va)?;
            return if how == Access::Execute { self.executes(cpu, va) } else { Ok(()) };
        }
        let Some(now) = this.ttbr[slots[half]] else {
            let fact = format!("cpu {cpu} has loaded no tables for this half");
            return Err(Finding::new(Rule::TranslationFault, fact).on(cpu).at(va));
        };
        self.in_force(cpu, 1 << slots[half])?;
        // Until an ISB it may be on the tree before.
        let before = this.left.iter().filter(|l| l.half == slots[half] && l.until.is_none()).map(|l| l.ttbr);
        before.chain([now]).try_for_each(|ttbr| {
            self.access_through(Use { cpu, root: ttbr.root, asid: ttbr.asid, space: ttbr.space, va, how })
        })
    }

    /// Judges a physical address that a CPU uses with translation off: no one else owns its page.
    fn may_use_physical(&self, cpu: CpuId, pa: u64) -> Result<(), Finding> {
        // With stage 2 it is none.
        let stages = self.cpu(cpu).ttbr.iter().flatten().count();
        let Some((_, since)) = self.physical.given.first_in(pa, pa).filter(|_| stages == 0) else {
            return Ok(());
        };
        let fact = format!("the page at {pa:#x} was given away by event {since}");
        let uses = format!("cpu {cpu} uses it with translation off");
        Err(Finding::new(Rule::Given, fact).on(cpu).at(pa).and(uses))
    }

    fn access_through(&self, usage: Use) -> Result<(), Finding> {
        let Use { cpu, root, va, .. } = usage;
        let g = self.geometry();
        let place = self.place_of_root(root, usize::from(va >> 63u32 == 1));
        let mut end = None;
        if va >= place.va && va - place.va < 1 << g.va_bits() {
            self.pages.tables((root, place), (va, va), g, &mut |(table, place), slots| {
                end = Some((table, place, slots.start));
                self.is_seen(usage, table, slots.start)
            })?;
        }
        let entry = end.map(|(table, place, slot)| {
            stage2::decode(self.read(Pa(table), slot).unwrap_or_default(), g, place)
        });
        let (Some((table, place, slot)), Some(Entry::Leaf(leaf))) = (end, entry.filter(is_valid)) else {
            return Err(usage.faults("the tables do not translate it"));
        };
        let start = place.va.wrapping_add((slot as u64) << g.level_shift(place.level));
        let Some(cached) = usable(start, leaf, place, self.cpu(cpu).core, g) else {
            return Err(usage.faults("its access flag is 0, and this CPU does not set it"));
        };
        self.may_use(usage, &cached, None)?;
        self.run_may_be_used(usage, table, place, slot)?;
        self.stale_may_be_used(usage)
    }

    /// Judges that the walker of the CPU sees the entry in a slot, not one that faulted before.
    fn is_seen(&self, usage: Use, table: u64, slot: usize) -> Result<(), Finding> {
        let Use { cpu, how, .. } = usage;
        if let Some(fresh) = self.fresh.iter().find(|f| f.slot == Some((table, slot))) {
            let fact = format!("a store of cpu {} made this valid, and has had no DSB", fresh.cpu);
            return Err(usage.faults(fact));
        }
        let core = self.cpu(cpu).core;
        let made = self.pages.get(table).and_then(|page| page.made_valid.get(slot)).copied().unwrap_or(0);
        if made <= self.cpu(cpu).isb_at || (how != Access::Execute && core.ets2) {
            return Ok(());
        }
        let fact = format!("this is valid since event {made}, and cpu {cpu} has had no ISB since");
        let fetch =
            if core.ets2 { "FEAT_ETS2 does not order instruction fetches" } else { "it has no FEAT_ETS2" };
        Err(Finding::new(Rule::Unsynchronised, fact).on(cpu).at(usage.va).and(fetch))
    }

    /// Judges the members of the run that a slot is in: any of them may be cached for all.
    fn run_may_be_used(&self, usage: Use, table: u64, place: Place, slot: usize) -> Result<(), Finding> {
        let members = self.geometry().contiguous_entries(place.level);
        let first = slot - slot % members;
        let others = (first..first + members).filter(|&s| s != slot && members > 1);
        let run = others.filter_map(|s| self.leaf_in(table, s, place)).filter(|c| c.contiguous);
        run.into_iter().try_for_each(|cached| self.may_use(usage, &cached, None))
    }

    fn stale_may_be_used(&self, usage: Use) -> Result<(), Finding> {
        let (Use { cpu, va, .. }, g) = (usage, self.geometry());
        let asid = Asid::Of(usage.asid);
        let all = self.stale_of(usage.space);
        for stale in all.leaves.iter().filter(|l| self.users_of_entries(l.holders, l.root) & 1 << cpu != 0) {
            if stale.asid.serves(asid) && stale.members & stale.cached.members_in(va, va) != 0 {
                let why = || self.why_leaf_remains(stale, cpu, va);
                self.may_use(usage, &stale.cached, Some((stale.since, &why)))?;
            }
        }
        for stale in all.tables.iter().filter(|t| self.users_of_entries(t.holders, t.root) & 1 << cpu != 0) {
            let why = || self.why_table_remains(stale, cpu);
            for cached in stale.slots_in(va, va, g).into_iter().filter_map(|slot| stale.leaf(slot, g)) {
                if stale.leaf_asid(&cached).serves(asid) {
                    self.may_use(usage, &cached, Some((stale.since, &why)))?;
                }
            }
            if stale.way_asid().serves(asid) {
                self.old_table_translates(usage, stale)?;
            }
        }
        Ok(())
    }

    /// Judges a walk by way of a table that was unlinked and that walk caches may lead to.
    fn old_table_translates(&self, usage: Use, stale: &StaleTable) -> Result<(), Finding> {
        let (g, va) = (self.geometry(), usage.va);
        let (first, last) = stale.span(g);
        if !stale.walkable || va < first || last < va {
            return Ok(());
        }
        let slot = ((va - first) >> g.level_shift(stale.level)) as usize;
        let word = stale.words.get(slot).copied().unwrap_or_default();
        let unseen = self.fresh.iter().find(|f| f.slot == Some((stale.table, slot)));
        let missing = match unseen {
            Some(fresh) => format!(" until a store of cpu {} has had a DSB", fresh.cpu),
            None if is_valid(&Descriptor(word).decode(g, stale.level)) => return Ok(()),
            None => String::new(),
        };
        let fact = format!(
            "the table at {:#x}, unlinked by event {}, does not translate it{missing}",
            stale.table, stale.since
        );
        let walks = "walk caches may lead there";
        Err(usage.faults(fact).and(walks).and(self.why_table_remains(stale, usage.cpu)))
    }

    /// Judges a translation that the CPU may use: it permits the access, and leads where it must.
    fn may_use(
        &self,
        usage: Use,
        cached: &Cached,
        stale: Option<(usize, &dyn Fn() -> String)>,
    ) -> Result<(), Finding> {
        let Use { cpu, root, va, how, .. } = usage;
        let core = self.cpu(cpu).core;
        let refused = match how {
            Access::Write if !writable(cached.attributes, core) => {
                Some((Rule::PermissionFault, "it is not writable"))
            }
            Access::Execute if !executable(cached.attributes) => {
                Some((Rule::PermissionFault, "it is not executable at EL1"))
            }
            Access::Execute if self.no_writable_code(cpu) && writable(cached.attributes, core) => {
                Some((Rule::PermissionFault, "it is writable, and SCTLR_EL1.WXN is 1"))
            }
            Access::Tag if cached.attributes.memory_type() != MemoryType::NORMAL_TAGGED => {
                Some((Rule::Untagged, "its memory type is not Tagged"))
            }
            _ => None,
        };
        let known = self.expected.contains_key(&self.current(root));
        let elsewhere = || known && self.may_translate_as(root, (va, va), cached).is_err();
        let refused = refused.or_else(|| {
            let rule = if stale.is_some() { Rule::Stale } else { Rule::Translation };
            elsewhere().then_some((rule, "nothing that was announced maps this address so"))
        });
        let Some((rule, what)) = refused else {
            return if how == Access::Execute { self.executes(cpu, cached.oa_at(va)) } else { Ok(()) };
        };
        let uses = format!("cpu {cpu} may use {}", cached.describe());
        let found = Finding::new(rule, what).on(cpu).at(va);
        Err(match stale {
            Some((since, why)) => found.and(format!("{uses} (replaced by event {since})")).and(why()),
            None => found.and(uses),
        })
    }
}

impl Machine {
    /// Returns true if a CPU executes nothing that it can write (D8.4.1.2.3 RSYMMB).
    fn no_writable_code(&self, cpu: CpuId) -> bool {
        self.cpu(cpu).registers.get(Register::Sctlr).written().is_some_and(|value| value & sctlr::WXN != 0)
    }
}

impl Use {
    fn faults(&self, fact: impl Into<String>) -> Finding {
        Finding::new(Rule::TranslationFault, fact).on(self.cpu).at(self.va)
    }
}

fn is_valid(entry: &Entry) -> bool {
    matches!(entry, Entry::Table(_)) || matches!(entry, Entry::Leaf(leaf) if leaf.valid)
}

/// Returns the translation of a leaf for a CPU, unless its access flag faults.
fn usable(start: u64, leaf: Leaf, place: Place, core: Core, g: linmap::Geometry) -> Option<Cached> {
    let set = if core.hardware_access_flag { Attributes::ACCESSED } else { Attributes::empty() };
    Cached::new(start, Leaf { attributes: leaf.attributes | set, ..leaf }, place.level, g)
}

/// Returns true if EL1 can write: where the CPU does not manage the dirty state, DBM has no effect.
fn writable(attributes: Attributes, core: Core) -> bool {
    !attributes.contains(Attributes::READ_ONLY)
        || (core.hardware_dirty_state && attributes.contains(Attributes::DIRTY_MANAGED))
}

/// Returns true if EL1 can execute: PXN is 0, and EL0 cannot write (D8.4.1.2.3 RLWPVL and RVWLLR).
pub(super) const fn executable(attributes: Attributes) -> bool {
    let user_writes = attributes.contains(Attributes::USER) && attributes.is_writable();
    !attributes.contains(Attributes::PXN) && !user_writes
}
