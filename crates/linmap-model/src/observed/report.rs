//! Findings as values: the grade, the rule, the store, what should have followed it, and who suffers.

use std::fmt;

use linmap::Va;

use crate::{CpuId, Event, Rule, Tlb};

/// How sure it is that something is wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Grade {
    /// A habit of kernels, and what is wrong only if it was not meant.
    Hint,
    /// An invalidation that missed what it was probably for, or that did not come.
    Suspect,
    /// Wrong by the letter of the manual, whatever was meant.
    Breach,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hint => "hint",
            Self::Suspect => "suspect",
            Self::Breach => "breach",
        })
    }
}

/// A step of the code that is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The CPU.
    pub cpu: CpuId,
    /// The address of the instruction; 0 if that is not known.
    pub pc: u64,
    /// The number of the event, from 0.
    pub at: usize,
}

/// A store that changed a translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Who, where and when.
    pub step: Step,
    /// The physical address of the descriptor.
    pub slot: u64,
    /// The word before.
    pub old: u64,
    /// The word now.
    pub new: u64,
}

/// The reason why an invalidation does not drop an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Miss {
    /// It came before a barrier had ordered the store: a walker may fetch the old entry after it.
    TooEarly,
    /// No DSB of its CPU had completed it.
    NotComplete,
    /// It is for other addresses.
    Elsewhere,
    /// It is for one CPU, and others may hold the entry.
    LocalOnly,
    /// It is for another ASID.
    OtherAsid,
    /// It is for another regime, or another VMID.
    OtherRegime,
    /// Its hint names another level, or another granule.
    OtherLevel,
    /// It leaves walk caches: it is for the last level alone.
    OtherKind,
    /// It has nXS, and the memory has XS.
    Xs,
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooEarly => "no barrier had ordered the store before it",
            Self::NotComplete => "no DSB had completed it",
            Self::Elsewhere => "it is for other addresses",
            Self::LocalOnly => "it is for its own CPU alone",
            Self::OtherAsid => "it is for another ASID",
            Self::OtherRegime => "it is for another regime",
            Self::OtherLevel => "its hint names another level or granule",
            Self::OtherKind => "it keeps walk caches",
            Self::Xs => "it has nXS, and the memory may have XS",
        })
    }
}

/// An invalidation that did not drop an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missed {
    /// Who and when.
    pub step: Step,
    /// The instruction.
    pub op: Tlb,
    /// Its operand.
    pub operand: u64,
    /// Why the entry stays.
    pub why: Miss,
}

/// Something that is wrong, or may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How sure it is.
    pub grade: Grade,
    /// The rule.
    pub rule: Rule,
    /// The step that makes it wrong.
    pub step: Step,
    /// The address that it is about.
    pub va: Option<Va>,
    /// The facts that contradict each other, a sentence each.
    pub facts: Vec<String>,
    /// The right way, in a sentence.
    pub right: &'static str,
    /// The store that it is about.
    pub stored: Option<Stored>,
    /// The invalidation that missed it.
    pub missed: Option<Missed>,
    /// The CPUs that may hold the entry, as bits.
    pub holders: u64,
    /// The last events that concern it, with their numbers and places in the code.
    pub events: Vec<(usize, u64, Event)>,
    /// How often the same rule was broken from the same place.
    pub count: usize,
}

impl Finding {
    pub(super) const fn new(grade: Grade, rule: Rule, step: Step) -> Self {
        Self {
            grade,
            rule,
            step,
            va: None,
            facts: Vec::new(),
            right: "",
            stored: None,
            missed: None,
            holders: 0,
            events: Vec::new(),
            count: 1,
        }
    }
}

/// The CPUs of some bits, in words.
pub(super) fn named(cpus: u64) -> String {
    let names: Vec<_> = (0..64u32).filter(|n| cpus >> n & 1 == 1).map(|n| n.to_string()).collect();
    format!("cpu {}", names.join(", "))
}

/// Prints it as a page for a person to read.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |step: &Step| if step.pc == 0 { String::new() } else { format!(" at {:#x}", step.pc) };
        writeln!(f, "{}: {:?}: {}", self.grade, self.rule, self.rule)?;
        writeln!(f, "  by       {}", self.rule.section())?;
        writeln!(f, "  step     {} of cpu {}{}", self.step.at, self.step.cpu, place(&self.step))?;
        if let Some(va) = self.va {
            writeln!(f, "  address  {va}")?;
        }
        for (i, fact) in self.facts.iter().enumerate() {
            writeln!(f, "  {}  {fact}", if i == 0 { "because" } else { "   and " })?;
        }
        if let Some(s) = self.stored.filter(|s| s.step != self.step) {
            let (at, by) = (s.step.at, s.step.cpu);
            writeln!(
                f,
                "  store    {at} of cpu {by}{}: {:#x} at {:#x}, was {:#x}",
                place(&s.step),
                s.new,
                s.slot,
                s.old
            )?;
        }
        if let Some(m) = self.missed {
            writeln!(
                f,
                "  tlbi     {} of cpu {}{}: {}, {:#x}: {}",
                m.step.at,
                m.step.cpu,
                place(&m.step),
                m.op,
                m.operand,
                m.why
            )?;
        }
        if self.holders != 0 {
            writeln!(f, "  held by  {}, perhaps", named(self.holders))?;
        }
        writeln!(f, "  right    {}", self.right)?;
        for (number, pc, event) in &self.events {
            let at = if *pc == 0 { String::new() } else { format!("  {pc:#x}") };
            writeln!(f, "  {} {number:>6}  {event}{at}", if *number == self.step.at { ">" } else { " " })?;
        }
        if self.count > 1 {
            writeln!(f, "  {} times", self.count)?;
        }
        Ok(())
    }
}
