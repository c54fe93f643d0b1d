//! Rules that are judged after every step: what walks find, and what TLBs can hold.

use linmap_model::{Mapping, Rule};

use crate::descriptor::{ACCESSED, Leaf, MEMORY_TYPE, Meaning, NOT_GLOBAL, SHAREABILITY, span};
use crate::model::{Broken, Naive, Watched};
use crate::places::L2;
use crate::promise::in_hardware;
use crate::tlb::Entry;

impl Naive {
    /// Judges the addresses that the step stirred.
    pub(crate) fn judge(&self, broken: &mut Broken) {
        let loaded = self.cpus.iter().any(|c| c.loaded);
        for (index, w) in self.watched.iter().enumerate().filter(|(_, w)| w.stirred) {
            self.judge_contents(index, w, broken);
            if loaded {
                self.judge_walks(w, broken);
            }
            self.judge_runs(index, w, broken);
        }
    }

    /// Two entries for one address.
    fn judge_contents(&self, index: usize, w: &Watched, broken: &mut Broken) {
        let becomes_global = self.leaf_now(w).is_some_and(|l| l.attributes & NOT_GLOBAL == 0);
        for cpu in &self.cpus {
            let tlb = &cpu.tlb[index];
            let entries: Vec<(usize, &Entry)> = tlb.entries().enumerate().collect();
            for &(i, a) in &entries {
                for &(j, b) in &entries[..i] {
                    let mut conflicts = Broken::new();
                    conflict(*a, *b, cpu.core.never_aborts, becomes_global, &mut conflicts);
                    if !conflicts.is_empty() && tlb.holds_both(i, j) {
                        broken.append(&mut conflicts);
                    }
                }
            }
        }
    }

    /// Every walk from the root that a CPU may make now.
    fn judge_walks(&self, w: &Watched, broken: &mut Broken) {
        let allowed = self.allowed(w).map(|m| m.and_then(in_hardware));
        for found in self.walks(w) {
            match found {
                None if allowed.iter().all(Option::is_some) => drop(broken.insert(Rule::InUse)),
                None => {}
                found if allowed.contains(&found) => {}
                Some(found) => {
                    broken.insert(Rule::Translation);
                    // An access flag fault is a fault too.
                    if found.1 & ACCESSED == 0 {
                        broken.insert(Rule::InUse);
                    }
                }
            }
        }
    }

    /// Judges that every entry that a TLB may hold of a run, of whichever member, is allowed at each address that it
    /// translates (RCBXXM, RJQQTC), from its store on, whether or not the operation ever returns.
    fn judge_runs(&self, index: usize, w: &Watched, broken: &mut Broken) {
        let allowed = self.allowed(w).map(|m| m.and_then(in_hardware));
        for tlb in self.cpus.iter().map(|c| &c.tlb[index]) {
            if !tlb.entries().any(|entry| matches!(entry, Entry::Leaf { run: true, .. })) {
                continue;
            }
            for entry in tlb.entries_of(tlb.held()) {
                if let Entry::Leaf { run: true, oa, attributes, .. } = *entry
                    && !allowed.contains(&Some((oa, attributes)))
                {
                    broken.insert(Rule::ContiguousRun);
                }
            }
        }
    }

    /// Returns the entries that walks from the root may find for an address: `None` for a hole.
    pub(crate) fn walks(&self, w: &Watched) -> Vec<Option<(u64, u64)>> {
        let found = |meaning, level| match meaning {
            Meaning::Leaf(Leaf { oa, attributes, valid, .. }) => {
                in_hardware(Mapping { pa: oa + (w.va & (span(level) - 1)), attributes, valid })
            }
            _ => None,
        };
        let (slot2, slot3) = w.slots;
        let mut outcomes = Vec::new();
        for meaning in self.memory.visible((L2, slot2)) {
            match meaning {
                Meaning::Table(child) => {
                    outcomes.extend(self.memory.visible((child, slot3)).map(|m| found(m, 3)));
                }
                _ => outcomes.push(found(meaning, 2)),
            }
        }
        outcomes
    }
}

/// Names the rules that two entries for one address in one TLB break.
fn conflict(a: Entry, b: Entry, never_aborts: bool, becomes_global: bool, broken: &mut Broken) {
    let resized = match (a, b) {
        (Entry::Leaf { level, run, .. }, Entry::Leaf { level: l, run: r, .. }) => (level, run) != (l, r),
        (Entry::Table(_), Entry::Leaf { level, .. }) | (Entry::Leaf { level, .. }, Entry::Table(_)) => {
            level == 2
        }
        (Entry::Table(_), Entry::Table(_)) => true,
    };
    if resized && !never_aborts {
        broken.insert(Rule::SizeConflict);
    }
    let (Entry::Leaf { run, oa, attributes, .. }, Entry::Leaf { run: r, oa: o, attributes: other, .. }) =
        (a, b)
    else {
        return;
    };
    let changed = attributes ^ other;
    // Index 0 and 1 are one type: the second has allocation tags where the CPU has such.
    let normal = |a: u64| a & MEMORY_TYPE <= 1 << 2;
    let retyped = changed & MEMORY_TYPE != 0 && !(normal(attributes) && normal(other));
    let globalised = changed & NOT_GLOBAL != 0 && becomes_global;
    if oa != o || retyped || changed & SHAREABILITY != 0 || globalised {
        broken.insert(Rule::BreakBeforeMake);
        if run || r {
            broken.insert(Rule::ContiguousRun);
        }
    }
}
