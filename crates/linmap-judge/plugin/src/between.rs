//! Pure: the lines of memory that one CPU uses between two marks, and which of them another CPU has written.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// The bytes of a line: 64, as a shift.
const LINE: u32 = 6;

/// An instruction, as far as it is counted or begins and ends what is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The mark before what is counted: ISB #12, an ISB to each CPU.
    Begin,
    /// The mark after it: ISB #13.
    End,
    /// An atomic of LSE, a CAS, or the store of an exclusive pair.
    Atomic,
    /// A DMB.
    Dmb,
    /// Any other.
    Other,
}

impl Kind {
    /// Returns the kind of an instruction.
    pub(crate) const fn of(word: u32) -> Self {
        match word {
            0xd503_3cdf => Self::Begin,
            0xd503_3ddf => Self::End,
            _ if word & 0xffff_f0ff == 0xd503_30bf => Self::Dmb,
            _ if is_atomic(word) => Self::Atomic,
            _ => Self::Other,
        }
    }
}

/// Returns true for instructions that load and store at once (C4.1.88 of the manual), and for stores of exclusive pairs.
const fn is_atomic(word: u32) -> bool {
    // STXR, STLXR, STXP, STLXP.
    let exclusive = word & 0x3f40_0000 == 0x0800_0000 && word & 0x0080_0000 == 0 && !is_casp(word);
    // CAS with its orders.
    let cas = word & 0x3fa0_7c00 == 0x08a0_7c00;
    // LDADD and its like, and SWP. LDAPR and ST64B have bit 15 and another operation.
    let lse = word & 0x3b20_0c00 == 0x3820_0000 && (word & 0x8000 == 0 || word & 0x7000 == 0);
    // LDCLRP, LDSETP and SWPP.
    let pairs = word & 0xff20_0c00 == 0x1920_0000;
    exclusive || is_casp(word) || cas || lse || pairs
}

/// CASP has what would be a store of an exclusive pair of bytes.
const fn is_casp(word: u32) -> bool {
    word & 0xbfa0_7c00 == 0x0820_7c00
}

/// The counts between two marks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    pub(crate) code_lines: usize,
    pub(crate) data_lines: usize,
    /// Data lines that another CPU has written since the mark before.
    pub(crate) shared_lines: usize,
    pub(crate) atomics: u64,
    pub(crate) dmb: u64,
}

/// The CPUs that wrote to a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writers {
    One(u32),
    Several,
}

/// The counts between marks: those that are done, and those of the CPU that is between two.
#[derive(Default)]
pub(crate) struct Between {
    /// The CPU that has passed a mark, and not yet the second one.
    cpu: Option<u32>,
    code: HashSet<u64>,
    data: HashSet<u64>,
    atomics: u64,
    dmb: u64,
    /// Who wrote to a line since the last mark at an end.
    written: HashMap<u64, Writers>,
    done: Vec<Counts>,
}

impl Between {
    /// Returns true if a CPU is between two marks.
    pub(crate) fn is_counting(&self) -> bool {
        self.cpu.is_some()
    }

    /// A CPU executes an instruction that is no `Other`.
    pub(crate) fn executes(&mut self, cpu: u32, kind: Kind) {
        match kind {
            Kind::Begin => self.begin(cpu),
            _ if self.cpu != Some(cpu) => {}
            Kind::End => self.end(cpu),
            Kind::Atomic => self.atomics += 1,
            Kind::Dmb => self.dmb += 1,
            Kind::Other => {}
        }
    }

    fn begin(&mut self, cpu: u32) {
        (self.atomics, self.dmb) = (0, 0);
        self.code.clear();
        self.data.clear();
        self.cpu = Some(cpu);
    }

    fn end(&mut self, cpu: u32) {
        let by_another =
            |line: &&u64| self.written.get(*line).is_some_and(|writers| *writers != Writers::One(cpu));
        self.done.push(Counts {
            code_lines: self.code.len(),
            data_lines: self.data.len(),
            shared_lines: self.data.iter().filter(by_another).count(),
            atomics: self.atomics,
            dmb: self.dmb,
        });
        self.written.clear();
        self.cpu = None;
    }

    /// A CPU executes instructions of the line of this address.
    pub(crate) fn fetches(&mut self, cpu: u32, va: u64) {
        if self.cpu == Some(cpu) {
            self.code.insert(va >> LINE);
        }
    }

    /// A CPU loads or stores some bytes at a physical address.
    pub(crate) fn accesses(&mut self, cpu: u32, pa: u64, bytes: u64, is_store: bool) {
        for line in pa >> LINE..=(pa + bytes - 1) >> LINE {
            if self.cpu == Some(cpu) {
                self.data.insert(line);
            }
            if is_store {
                let writers = self.written.entry(line).or_insert(Writers::One(cpu));
                if *writers != Writers::One(cpu) {
                    *writers = Writers::Several;
                }
            }
        }
    }

    /// Returns all counts so far as JSON, in the order of their ends.
    pub(crate) fn document(&self) -> String {
        let mut text = String::from("{\"windows\":[");
        for (n, counts) in self.done.iter().enumerate() {
            let Counts { code_lines, data_lines, shared_lines, atomics, dmb } = counts;
            let _ = write!(
                text,
                "{}\n{{\"atomics\":{atomics},\"dmb\":{dmb},\"code_lines\":{code_lines},\"data_lines\":{data_lines},\
                 \"shared_lines\":{shared_lines}}}",
                if n == 0 { "" } else { "," }
            );
        }
        text + "\n]}\n"
    }
}
