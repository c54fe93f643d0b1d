//! One operation of a log as a litmus test for herd7, with the variant `vmsa`: can an access still go wrong?
//!
//! A litmus test has an initial state, a program for each CPU, and a condition. Here P0 carries out the operation and says
//! that it is done; P1 waits for that and accesses the address; the condition is that one of them has the wrong outcome. A
//! right operation makes that impossible (`Never`), a wrong one does not (`Sometimes`).

use std::fmt::Write;

use super::error::{Inexpressible, Why};
use super::program::{Program, Step, instruction, operation};
use super::translation::Translation;
use crate::{Event, Setup};

/// The part of a log that a litmus test is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Question {
    /// The operation, from 0, of those on trees that some CPU has loaded. None is the last one.
    pub operation: Option<usize>,
    /// The address. None is the first that the operation announces.
    pub va: Option<u64>,
    /// False: can the old translation be used when the operation has returned? True: can a walker reach a table that the
    /// operation publishes, and not see the address's entry in it?
    pub publication: bool,
}

/// Returns an operation of a log as a litmus test.
///
/// Expressed is the translation of one address: each store that changes it is a store to its entry, whatever the level;
/// with the DSBs and ISBs of the CPU, and the TLBIs that reach every entry that was replaced. All other stores and TLBIs
/// have nothing to do with the address. TLBIs by range are by address.
///
/// - P1 accesses the address after DMB LD, if the operation takes something away: no CPU can use that any longer. If it
///   adds something, P1 needs a context synchronisation event too: without one a fault on the old entry is permitted.
/// - P0 accesses the address after its last step, so an ISB that is missing is found too.
/// - A write of a table base register is a store to the entry and a DSB. There is no P1 then: the entry stands for what this
///   CPU walks.
///
/// # Errors
///
/// What a litmus test has not: changes of other attributes than write permission, more than two pages, other CPUs in the
/// operation, TLBIs of other forms than those of EL1 for one CPU or the inner shareable domain, instructions, other
/// registers. And an operation, or an address in it, that is not there or does not change.
pub fn herd(setup: &Setup, events: &[Event], question: &Question) -> Result<String, Inexpressible> {
    let (operation, tables) = operation(setup, events, question.operation, question.va)?;
    if question.publication {
        let program = operation.publication(&events[..operation.first], tables)?;
        return Ok(Test::new(program)?.publication());
    }
    let program = operation.program(tables)?;
    Ok(Test::new(program)?.of_return(setup.cores.len() > 1))
}

/// A test under construction.
struct Test {
    program: Program,
    /// The pages, by their physical addresses: those of the variables x and y.
    pages: Vec<u64>,
    /// The values that P0 stores to the entry, each in a register of its own.
    values: Vec<Translation>,
}

/// An access, and its wrong outcome.
struct Access {
    /// The instructions.
    lines: Vec<String>,
    /// The condition under which it went wrong.
    wrong: String,
}

impl Test {
    fn new(program: Program) -> Result<Self, Inexpressible> {
        let mut test = Self { program, pages: Vec::new(), values: Vec::new() };
        let stored: Vec<Translation> = test.program.steps.iter().filter_map(|step| step.stores()).collect();
        for translation in [test.program.before].iter().chain(&stored) {
            if let Translation::Page(page) = translation
                && !test.pages.contains(&page.pa)
            {
                test.pages.push(page.pa);
            }
        }
        for translation in stored {
            if !test.values.contains(&translation) {
                test.values.push(translation);
            }
        }
        if test.pages.len() > 2 {
            return Err(Inexpressible { event: None, why: Why::ManyPages { va: test.program.va } });
        }
        Ok(test)
    }

    /// The value of an entry in herd's words. A page that is read-only is one whose dirty state is clean, and no hardware
    /// changes that.
    fn entry(&self, translation: Translation) -> String {
        match translation {
            Translation::Nothing => "(valid:0)".to_owned(),
            Translation::Page(page) => {
                let name = if self.pages.first() == Some(&page.pa) { "x" } else { "y" };
                format!("(oa:PA({name}),db:{})", u8::from(page.writable))
            }
        }
    }

    /// The instructions of P0.
    fn steps(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for step in &self.program.steps {
            match step {
                Step::Store(to) => lines.push(self.store(*to)),
                Step::Switch(to) => lines.extend([self.store(*to), "DSB ISH".to_owned()]),
                Step::Publish => lines.extend(["MOV W4,#1".to_owned(), "STR W4,[X3]".to_owned()]),
                Step::Dsb(kind) => lines.push(format!("DSB {}", kind.to_string().to_uppercase())),
                Step::Isb => lines.push("ISB".to_owned()),
                Step::Tlbi(op) => {
                    let name = instruction(*op).unwrap_or_default();
                    if name.starts_with("VM") {
                        lines.push(format!("TLBI {name}"));
                    } else {
                        lines.extend(["LSR X5,X2,#12".to_owned(), format!("TLBI {name},X5")]);
                    }
                }
            }
        }
        lines
    }

    fn store(&self, to: Translation) -> String {
        let register = self.values.iter().position(|v| *v == to).unwrap_or_default();
        format!("STR X{},[X1]", 10 + register)
    }

    /// The translation that the operation leaves.
    fn after(&self) -> Translation {
        let mut latest = self.program.steps.iter().rev().filter_map(|step| step.stores());
        latest.next().unwrap_or(self.program.before)
    }

    /// Can the old translation be used when the operation has returned?
    fn of_return(&self, others: bool) -> String {
        let (mut p0, after) = (self.steps(), self.after());
        let mut conditions = Vec::new();
        let mut programs = Vec::new();
        if others && !self.program.switches {
            p0.extend(["MOV W4,#1".to_owned(), "STR W4,[X3]".to_owned()]);
            let mut p1 = vec!["LDR W4,[X3]".to_owned()];
            let adds = self.adds(after);
            if adds {
                p1.extend(["CBZ W4,L9".to_owned(), "ISB".to_owned()]);
            } else {
                p1.push("DMB LD".to_owned());
            }
            let Access { lines, wrong } = self.access(1, after);
            p1.extend(lines);
            p1.extend(adds.then(|| "L9: NOP".to_owned()));
            conditions.push(format!("(1:X4=1 /\\ ({wrong}))"));
            programs.push(p1);
        }
        let Access { lines, wrong } = self.access(0, after);
        p0.extend(lines);
        conditions.push(format!("({wrong})"));
        programs.insert(0, p0);
        self.text(&programs, &conditions.join(" \\/ "))
    }

    /// Can a walker reach the table, and not see the entry in it?
    fn publication(&self) -> String {
        let mut p1 = vec!["LDR W4,[X3]".to_owned(), "EOR W5,W4,W4".to_owned()];
        p1.push("L1: LDR W6,[X2,W5,SXTW]".to_owned());
        self.text(&[self.steps(), p1], "(1:X4=1 /\\ fault(P1:L1,x))")
    }

    /// Returns true if the operation permits an access that faulted before.
    fn adds(&self, after: Translation) -> bool {
        match (self.program.before, after) {
            (_, Translation::Nothing) => false,
            (Translation::Nothing, Translation::Page(_)) => true,
            (Translation::Page(a), Translation::Page(b)) => (b.writable && !a.writable) || a.pa != b.pa,
        }
    }

    /// The access that tells the old translation from the new one.
    fn access(&self, cpu: usize, after: Translation) -> Access {
        let fault = format!("fault(P{cpu}:L{cpu},x)");
        let load = format!("L{cpu}: LDR W6,[X2]");
        let store = ["MOV W6,#7".to_owned(), format!("L{cpu}: STR W6,[X2]")];
        let (lines, wrong) = match (self.program.before, after) {
            (_, Translation::Nothing) => (vec![load], format!("~{fault}")),
            (Translation::Nothing, Translation::Page(_)) => (vec![load], fault),
            (Translation::Page(a), Translation::Page(b)) if a.pa != b.pa => {
                let new = if self.pages.first() == Some(&b.pa) { 1i32 } else { 2i32 };
                (vec![load], format!("{fault} \\/ ~({cpu}:X6={new})"))
            }
            (Translation::Page(a), Translation::Page(b)) if a.writable && !b.writable => {
                (store.into(), format!("~{fault}"))
            }
            (Translation::Page(a), Translation::Page(b)) if !a.writable && b.writable => {
                (store.into(), fault)
            }
            (Translation::Page(_), Translation::Page(_)) => (vec![load], fault),
        };
        Access { lines, wrong }
    }

    /// The test: the initial state, the programs side by side, and the condition.
    fn text(&self, programs: &[Vec<String>], condition: &str) -> String {
        let kept = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = self.program.name.chars().map(kept).collect();
        let mut text = format!("AArch64 {}{name}\n", if name.is_empty() { "operation" } else { "" });
        // Writing to a string does not fail.
        _ = writeln!(text, "(* x is {:#x} *)\n{{", self.program.va);
        _ = writeln!(text, "[PTE(x)]={};\nx=1; y=2; done=0;", self.entry(self.program.before));
        _ = writeln!(text, "0:X1=PTE(x); 0:X2=x; 0:X3=done;");
        for (n, value) in self.values.iter().enumerate() {
            _ = writeln!(text, "0:X{}={};", 10 + n, self.entry(*value));
        }
        if programs.len() > 1 {
            _ = writeln!(text, "1:X2=x; 1:X3=done;");
        }
        text.push_str("}\n");
        let heads: Vec<_> = (0..programs.len()).map(|n| format!("{:<26}", format!("P{n}"))).collect();
        _ = writeln!(text, " {};", heads.join("| "));
        for row in 0..programs.iter().map(Vec::len).max().unwrap_or(0) {
            let cells = programs.iter().map(|p| format!("{:<26}", p.get(row).map_or("", String::as_str)));
            _ = writeln!(text, " {};", cells.collect::<Vec<_>>().join("| "));
        }
        _ = writeln!(text, "exists {condition}");
        text
    }
}
