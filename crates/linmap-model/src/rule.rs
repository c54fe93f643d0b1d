//! The rules, and the report when one is broken.

use std::fmt;

use linmap::Va;

use crate::{CpuId, Event};

macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $section:literal;)*) => {
        /// A rule for code that changes page tables.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum Rule { $($(#[doc = $doc])+ #[doc = ""] #[doc = concat!("Rests on ", $section, ".")] $name,)* }

        impl Rule {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its source: a section of the Arm ARM (DDI 0487) and the rules in it, or a promise of the operation
            /// itself.
            pub const fn section(self) -> &'static str {
                match self { $(Self::$name => $section,)* }
            }
        }

        /// The rule in a sentence.
        impl fmt::Display for Rule {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)* })
            }
        }
    };
}

rules! {
    /// A table that a walker can reach has contents that the walker may not see yet.
    Unfilled = "a table becomes reachable before its contents are visible: fill it, DSB ISHST, then publish it",
        "D8.2.6.1 RSPVBD: a store to a table is sure to be seen after a DSB of the same CPU";
    /// The TLB of a CPU that may abort on it may hold entries of two sizes for one address.
    SizeConflict = "a live entry changes its size on a CPU that may raise a TLB conflict abort",
        "D8.17.1 RWHZWS, D8.17.2 IHYQMB and RFCPSG";
    /// A TLB may hold two entries for one address that no CPU may hold together.
    BreakBeforeMake = "output address, memory type, shareability or global changes without break-before-make",
        "D8.17.1 RWHZWS";
    /// A mapped address faults for a while, on a CPU that may use it.
    InUse = "a mapped address faults while a CPU may use it",
        "D8.17.1 RDDMVT: the broken entry translates nothing";
    /// An address translates to something that it neither had before nor will have after.
    Translation = "an address translates as it never should",
        "the operation's own contract";
    /// After an operation's return a TLB may still hold what it replaced.
    Stale = "a TLB may still hold the old translation when the operation returns",
        "D8.17 RGPPYH, D8.17.7 RXMZFH, D8.17.8 RPSMWS, RYNJCP and RBLDZX";
    /// After an operation's return a walker may not see what it stored.
    NotVisible = "a store is not visible to all walkers when the operation returns",
        "D8.2.6.1 RSPVBD, D8.17 IWZCBG";
    /// A table page is given back while a walker or a walk cache can reach it.
    Freed = "a table page is given back, or used anew, while a walker may still reach it",
        "D8.17 RRVJDB: walk caches are TLB entries";
    /// The members of a contiguous run disagree.
    ContiguousRun = "a contiguous run is not whole and uniform",
        "D8.7.1, D8.7.1.1 RQTRPM, RNGLXZ and RJQQTC";
    /// The operand of a TLBI is malformed.
    TlbiOperand = "a TLBI is undefined on its CPU, has bits that must be zero, or covers an unpredictable range",
        "D8.17.5.1 IZVNJG, D8.17.5.2 IQPHNP and ITYBWT";
    /// After an operation's return the tables do not have the mappings that it promised.
    Promised = "the tables do not map what the operation promised",
        "the operation's own contract";
    /// A table page without an owner.
    Leaked = "a table page is in no tree and was not given back",
        "the contract of table pages: each has one owner";
    /// A read-only page that the hardware may make writable.
    DirtyManaged = "a page is read-only but DBM lets hardware make it writable",
        "D8.5.2.1 (hardware management of the dirty state)";
    /// A page that is read-only by one address and writable through the linear map, for some CPU.
    WritableAlias = "a page is read-only, and can be written through the linear map: protect the alias first",
        "the contract of rodata=full";
    /// A page that an operation made read-only everywhere, and some address makes writable.
    NowhereWritable = "a page can be written that was announced to be nowhere writable",
        "the operation's own contract: what rodata=full promises of an area";
    /// A page that two addresses map with different memory attributes.
    MismatchedAttributes = "a page is mapped write-back and as something else, or with two shareabilities, for some CPU",
        "B2.11 (mismatched memory attributes)";
    /// A page of data that was given away, to which some translation still leads.
    Given = "a page that was given away can still be reached: unmap it, DSB, TLBI, DSB and ISB first",
        "D8.17 RGPPYH, D8.17.8 RPSMWS, RYNJCP and RBLDZX";
    /// A descriptor was changed since the CPU that overwrites it read it.
    ///
    /// Walkers that manage the access flag or the dirty state may change it at any time.
    LostUpdate = "a store overwrites a descriptor that changed since this CPU read it, or may have",
        "single-copy atomicity of one store, not of a read and a store: take the lock; D8.5.1.1 IBMRWH, D8.5.2.1 RPQJJR: \
         compare and swap where walkers update";
    /// A valid descriptor without meaning, or with bits that must be zero.
    Reserved = "a valid descriptor has no meaning at its level, or bits that must be zero there",
        "D8.3.1, D8.7.1";
    /// A table is accessed through an address that does not translate, or not for that.
    Alias = "a table is accessed through an address that does not translate for it",
        "the parking protocol: tables are reached outside of the map that is being broken";
    /// A parked CPU, or one that made others park, took or gave back memory.
    Parked = "while CPUs are parked nothing is allocated, freed or locked",
        "the parking protocol";
    /// TTBR changes from one tree to another with entries of the first left.
    TtbrSwitch = "TTBR changes while the TLB may hold entries of another tree: load the empty table, ISB, TLBI, DSB, ISB first",
        "D8.17 RGPPYH, D8.17.8 RBLDZX";
    /// A register says something else than the tables need, than a TLB may hold, or than another CPU on the same map says.
    Control = "a register that TLBs may hold changes under a map in use, or does not fit the map or the other CPUs on it",
        "D8.17 RVNRFW; D24.2.194 (TCR_EL1), D24.2.127 (MAIR_EL1); B2.11 for CPUs that disagree";
    /// A CPU relies on a register that it wrote, and had no context synchronisation event since.
    NotInForce = "a CPU goes on without a context synchronisation event since it wrote a register: ISB",
        "D24.1.2.2, K1.2.4: until then each register may have its old value or its new one";
    /// A table is written with the MMU off, and a cache has or gets something else.
    Uncached = "a table is written with the MMU off, without the cache maintenance that this takes: DC IVAC, DSB, store, DSB, DC IVAC, DSB",
        "D8.2.12.1 RWFZPW, D8.2.5 RXGXKR, B2.11 (mismatched memory attributes), D7.5.9.15";
    /// CPUs share TLB entries of different tables.
    Common = "CPUs with CnP set for one ASID have loaded different tables",
        "D8.16.3.4 RFWQJZ and RQLGWZ; D24.2.212 (TTBR1_EL1.CnP)";
    /// A CPU translates after a reset, with an unknown TLB or unknown registers.
    Reset = "a CPU turns translation on, or loads tables of stage 2 or EL2, after a reset without a TLBI of everything, DSB NSH and ISB, or with registers unknown",
        "D8.16.1 RBQCDZ and RQNFHZ, D24.1.2.1";
    /// A CPU uses the map before it has reported its features.
    Unreported = "a CPU loads the shared tables before it has reported what it promises",
        "D8.17.2: what is allowed is what the weakest CPU allows";
    /// Stored instructions are executed before they can be fetched.
    Code = "stored instructions are executed without DC CVAU, DSB ISH, IC IVAU, DSB ISH and an ISB",
        "B2.2.5 (concurrent modification and execution of instructions)";
    /// A CPU uses an address that may not translate for it.
    TranslationFault = "a CPU uses an address that may not translate for it",
        "D8.15.1.1 RDYNYQ and RVZZSZ, D8.15.1.4 IBMSDD";
    /// A CPU writes to what may be read-only for it, or executes what may not be executable.
    PermissionFault = "a CPU uses an address in a way that may not be permitted",
        "D8.4.1.2.1 (data accesses), D8.4.1.2.3 RLWPVL, RVWLLR and RSYMMB, D8.15.1.5 RJVXRH";
    /// A leaf of a tree in use can be written and executed at EL1.
    WriteExecute = "memory is both writable and executable at EL1",
        "the setup's promise; D8.4.1.2.6 IWXKKQ: what EL1 can do";
    /// Allocation tags are used where there may be none.
    Untagged = "allocation tags are used where the memory may not be Tagged",
        "D10.3 RYSLYC, RWNMML and RVBFYY";
    /// A CPU uses a page that became valid, and has had no context synchronisation event since.
    Unsynchronised = "a page that became valid is used before a context synchronisation event on that CPU",
        "D8.17 IWZCBG, D8.2.6.1 RNNFPF (FEAT_ETS2), B2.3.7 (Instruction-fetch-barrier-ordered-before)";
    /// A table page is given back, or written anew, while a reader without a lock may be in it.
    UnderReader = "a table page is given back, or used anew, while a CPU reads that began when the page was a live table",
        "the contract of readers: a table is given back after a grace period";
    /// A leaf that stays split, for callers that must not fail, becomes larger.
    StaysSplit = "a leaf that stays split becomes larger",
        "the contract of Attributes::STAYS_SPLIT: what was split for callers that must not fail stays split";
    /// A range changes its leaves or loses its tables while another caller's invalidations of it are pending.
    Pending = "a range is merged, or its table given back, while another caller has stored there and not invalidated yet",
        "the contract of callers: a range with pending invalidations is not collapsed, retyped or freed";
    /// An event that cannot happen, or that the model does not know how to judge.
    Sequence = "the sequence of events makes no sense to the model",
        "the model's own interface";
}

/// A broken rule: the event, the CPU, the address, and the facts that contradict each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Breach {
    /// The rule.
    pub rule: Rule,
    /// The number of the event that broke it, from 0.
    pub at: usize,
    /// The CPU that suffers from it, by its TLB or its walker.
    pub cpu: Option<CpuId>,
    /// The address that it is about.
    pub va: Option<Va>,
    /// The facts that contradict each other, a sentence each.
    pub facts: Vec<String>,
    /// The last events, with their numbers; the last of them broke the rule.
    pub events: Vec<(usize, Event)>,
}

/// Prints it as a page for a person to read.
impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}: {}", self.rule, self.rule)?;
        writeln!(f, "  by       {}", self.rule.section())?;
        if let Some(cpu) = self.cpu {
            writeln!(f, "  on       cpu {cpu}")?;
        }
        if let Some(va) = self.va {
            writeln!(f, "  address  {va}")?;
        }
        for (i, fact) in self.facts.iter().enumerate() {
            writeln!(f, "  {}  {fact}", if i == 0 { "because" } else { "   and " })?;
        }
        if let Some((first, _)) = self.events.first() {
            writeln!(f, "  events, from {first}:")?;
        }
        for (number, event) in &self.events {
            writeln!(f, "  {} {number:>6}  {event}", if *number == self.at { ">" } else { " " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Breach {}
