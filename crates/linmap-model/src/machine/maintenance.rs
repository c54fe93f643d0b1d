//! Barriers and invalidations, and the reasons why an entry outlives them.

use super::frames::sequence;
use super::{Finding, Machine};
use crate::asid::Asid;
use crate::space::{Dropped, Space};
use crate::stale::{Fetched, Issued, StaleLeaf, StaleTable};
use crate::waits::{Completion, Wait};
use crate::{Barrier, CpuId, Event, Rule, Tlb};

/// The reason why an invalidation left what a TLB combined of both stages.
const COMBINED: &str = "it leaves entries that combine stage 2 with stage 1: a DSB, and VMALLE1IS or another of all of stage 1, must \
    follow that of the IPA (D8.17.6.1)";

impl Machine {
    pub(super) fn dsb(&mut self, cpu: CpuId, kind: Barrier) -> Result<(), Finding> {
        if kind.is_nxs() && !self.cpu(cpu).core.xs {
            return Err(sequence(cpu, format!("dsb {kind} is undefined on cpu {cpu}, which has no FEAT_XS")));
        }
        let reaches_walkers = kind.is_shared() || self.cpus.len() == 1;
        if reaches_walkers {
            self.pages.settle(cpu);
            let now = self.now;
            self.all_stale_mut().for_each(|(_, stale)| stale.settle(cpu, now));
            let (seen, unseen) = std::mem::take(&mut self.fresh).into_iter().partition(|f| f.cpu == cpu);
            let seen: Vec<super::Fresh> = seen;
            self.fresh = unseen;
            if !seen.is_empty() {
                self.cpu_mut(cpu).settled_at = now;
            }
            seen.iter().filter_map(|f| f.slot).for_each(|slot| self.pages.seen_valid(slot, now));
        }
        if kind.is_full() {
            self.complete(cpu, kind);
        }
        if kind.is_full() && reaches_walkers {
            self.code.dsb(cpu);
            self.uncached.dsb(cpu);
        }
        Ok(())
    }

    /// Completes the invalidations that a CPU has issued: on the others at once, on itself but for an ISB.
    fn complete(&mut self, cpu: CpuId, kind: Barrier) {
        let all = std::mem::take(&mut self.cpu_mut(cpu).issued);
        let completes =
            |i: &Issued| (kind.is_shared() || !i.what.broadcast) && (i.what.nxs || !kind.is_nxs());
        let (done, wait): (Vec<_>, Vec<_>) = all.into_iter().partition(completes);
        self.cpu_mut(cpu).issued = wait;
        if done.iter().any(|i| i.what.broadcast) {
            let now = self.now;
            self.all_stale_mut().for_each(|(_, stale)| stale.arrived(Wait::Repeat(cpu), now));
        }
        let lingering = self.cpus_that(|c| c.core.repeat_tlbi);
        let g = self.geometry();
        for issued in &done {
            let cpus = if issued.what.broadcast { self.recipients(issued) | 1 << cpu } else { 1 << cpu };
            let by = Completion { issuer: cpu, cpus, lingering, now: self.now };
            for (space, stale) in self.all_stale_mut() {
                stale.complete(issued, by, issued.what.target.drops(space), g);
            }
            self.forget_trees(cpus & !(1 << cpu), issued);
        }
        self.cpu_mut(cpu).awaiting_isb.extend(done);
    }

    /// Returns the CPUs that have to carry out an invalidation of another: one by range is for those that have such
    /// operations (D8.17.7 RXMZFH). A level hint is for all: that rule does not name it, so a CPU without FEAT_TTL
    /// invalidates at least what the hint leaves in.
    fn recipients(&self, issued: &Issued) -> u8 {
        self.cpus_that(|c| c.core.range_tlbi || !issued.what.range)
    }

    pub(super) fn isb(&mut self, cpu: CpuId) -> Result<(), Finding> {
        let now = self.now;
        self.all_stale_mut().for_each(|(_, stale)| stale.arrived(Wait::Isb(cpu), now));
        for issued in std::mem::take(&mut self.cpu_mut(cpu).awaiting_isb) {
            self.forget_trees(1 << cpu, &issued);
            if let Some(reset) =
                self.cpu_mut(cpu).registers.reset.as_mut().filter(|_| issued.is_of_everything())
            {
                reset.emptied.push(issued.what.target);
            }
        }
        let this = self.cpu_mut(cpu);
        this.isb_at = now;
        this.registers.synchronise(now);
        this.left.iter_mut().for_each(|l| l.until = l.until.or(Some(now)));
        self.code.isb(cpu);
        Ok(())
    }

    /// Notes that some CPUs dropped all entries: those of trees that they left have gone with them.
    fn forget_trees(&mut self, cpus: u8, issued: &Issued) {
        if let Some(asid) = issued.whole_asid() {
            self.forget_trees_of_asid(cpus, issued, asid);
        }
        if issued.is_of_everything() {
            for (_, cpu) in self.cpus.iter_mut().enumerate().filter(|(n, _)| cpus & 1 << n != 0) {
                let target = issued.what.target;
                cpu.left
                    .retain(|l| l.until.is_none_or(|until| issued.at < until) || !target.has(l.ttbr.space));
                if target.has(Space::El1(cpu.context.vmid)) {
                    cpu.registers.tlb_was_emptied(issued.at);
                }
            }
        }
    }

    pub(super) fn tlbi(&mut self, cpu: CpuId, op: Tlb, operand: u64) -> Result<(), Finding> {
        if let Some(what) = self.cpu(cpu).core.lacks_for(op) {
            let fact = format!("tlbi {op} is undefined on cpu {cpu}, which {what}");
            return Err(Finding::new(Rule::TlbiOperand, fact).on(cpu));
        }
        for &register in op.depends_on(self.cpu(cpu).context) {
            self.synchronised(cpu, register, &format!("issues tlbi {op}"))?;
        }
        let decoded = op.decode(operand, self.geometry(), self.cpu(cpu).core.ttl, self.cpu(cpu).context);
        let what = decoded.map_err(|why| {
            Finding::new(Rule::TlbiOperand, format!("in tlbi {op}, {operand:#x} {why}")).on(cpu)
        })?;
        let at = self.now;
        self.cpu_mut(cpu).issued.push(Issued { what, at });
        Ok(())
    }

    /// Returns the reason why a leaf may still be in a CPU's TLB.
    pub(super) fn why_leaf_remains(&self, leaf: &StaleLeaf, cpu: CpuId, va: u64) -> String {
        let member = leaf.cached.members_in(va, va);
        let why = |op: Tlb, operand: u64, issuer: CpuId, at: usize| {
            let what = self.decoded(op, operand, issuer, at)?;
            let drops = what.target.drops(leaf.space);
            Some(if drops == Dropped::Nothing {
                format!("it is for {}", what.target)
            } else if leaf.combined && drops != Dropped::Stage2Alone && leaf.hit(&what) != 0 {
                self.why_too_early(leaf.fetched(), leaf.combined, issuer, at, cpu, op)
            } else if leaf.combined {
                COMBINED.into()
            } else if !what.target.has(leaf.space) {
                format!("it is for {}", what.target)
            } else if what.other_granule {
                "its operand names another granule".into()
            } else if what.level.is_some_and(|l| l != leaf.cached.level.number()) {
                let hint = what.level.unwrap_or_default();
                format!(
                    "its TTL hint says level {hint}, the entry is of level {}",
                    leaf.cached.level.number()
                )
            } else if what.nxs && leaf.cached.has_xs() {
                "it has the nXS qualifier, and such an invalidation may leave entries with the XS attribute"
                    .into()
            } else if let (Asid::Of(ours), Some(_)) =
                (leaf.asid, what.asid.filter(|&a| leaf.asid != Asid::Of(a)))
            {
                format!("it is for another ASID than {ours}")
            } else if leaf.hit(&what) & member == 0 {
                "it does not cover the address".into()
            } else {
                self.why_too_early(leaf.fetched(), leaf.combined, issuer, at, cpu, op)
            })
        };
        self.first_reason(leaf.since, why)
    }

    /// Returns the reason why walk caches may still lead to a table.
    pub(super) fn why_table_remains(&self, table: &StaleTable, cpu: CpuId) -> String {
        let g = self.geometry();
        let why = |op: Tlb, operand: u64, issuer: CpuId, at: usize| {
            let what = self.decoded(op, operand, issuer, at)?;
            Some(if table.combined {
                COMBINED.into()
            } else if !what.target.has(table.space) {
                format!("it is for {}", what.target)
            } else if what.last_level {
                "it drops leaves only, and table entries stay".into()
            } else if !table.way_asid().is_hit(what.asid, what.addresses.is_some()) {
                match table.way_asid() {
                    Asid::Of(asid) => format!("it is for another ASID than {asid}"),
                    _ => "table entries may be cached with any ASID".into(),
                }
            } else if !table.walk_hit(&what, g) {
                "it does not cover the table's addresses".into()
            } else {
                self.why_too_early(table.fetched, table.combined, issuer, at, cpu, op)
            })
        };
        self.first_reason(table.since, why)
    }

    fn decoded(&self, op: Tlb, operand: u64, issuer: CpuId, at: usize) -> Option<crate::tlb::Invalidation> {
        op.decode(operand, self.geometry(), self.cpu(issuer).core.ttl, self.context_at(issuer, at)).ok()
    }

    /// Returns the reason why an invalidation that names the entry did not drop it.
    fn why_too_early(
        &self,
        fetched: Fetched,
        combined: bool,
        issuer: CpuId,
        at: usize,
        cpu: CpuId,
        op: Tlb,
    ) -> String {
        let waits_for_isb = self.cpu(issuer).awaiting_isb.iter().any(|i| i.at == at);
        match fetched {
            Fetched::Until(writer) => {
                format!("the store of cpu {writer} has had no DSB, so the old entry can be fetched again")
            }
            Fetched::Before(end) if combined && end >= at => format!(
                "the entry of stage 2 was dropped only by event {end}, so it could be combined with stage 1 again"
            ),
            Fetched::Before(end) if end >= at => format!(
                "the store had no DSB by then (it came with event {end}), so the old entry could be fetched again"
            ),
            _ if issuer != cpu && !op.is_broadcast() => format!("it is local to cpu {issuer}"),
            _ if issuer != cpu && op.is_range() && !self.cpu(cpu).core.range_tlbi => {
                format!("it is by range, and cpu {cpu} has no such TLBIs, so it need not heed one")
            }
            _ if self.cpu(issuer).issued.iter().any(|i| i.at == at) => {
                format!("cpu {issuer} has executed no DSB ISH since, so it may not be complete")
            }
            _ if issuer == cpu && waits_for_isb => {
                format!("cpu {cpu} has had no ISB since the DSB")
            }
            _ if self.cpu(cpu).core.repeat_tlbi => {
                format!("cpu {cpu} needs one more TLBI and DSB after it (CVE-2025-10263)")
            }
            _ => "table entries that lead to it stayed, so it could be fetched again".into(),
        }
    }

    /// Returns the reasons why the invalidations since an event were of no use.
    fn first_reason(&self, since: usize, why: impl Fn(Tlb, u64, CpuId, usize) -> Option<String>) -> String {
        let later = self.log.iter().filter(|(number, _)| *number > since);
        let mut reasons = Vec::new();
        for (number, event) in later {
            if let Event::Tlbi { cpu, op, operand } = *event
                && let Some(reason) = why(op, operand, cpu, *number)
            {
                reasons.push(format!("event {number} (tlbi {op}) was of no use: {reason}"));
            }
        }
        // The best reason is that of an invalidation that covers the address, and of both stages the later.
        let covers = |r: &String| !r.contains("does not cover");
        let best = reasons.iter().position(|r| covers(r) && !r.contains(COMBINED));
        let best = best.or_else(|| reasons.iter().position(covers));
        match (best, reasons.is_empty()) {
            (Some(i), _) => reasons.swap_remove(i),
            (None, false) => reasons.swap_remove(reasons.len() - 1),
            (None, true) => format!("no TLBI was issued since event {since}"),
        }
    }
}
