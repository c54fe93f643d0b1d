//! A log as a trace for casemate, which judges break-before-make on the tables of EL2.
//!
//! The format is a list of records in parentheses; casemate's manual has its grammar. Its stage 1 is that of EL2, with
//! one tree: the tree of the log takes its place, whichever half it translates, and TLBIs of EL1 become those of EL2.

use std::collections::BTreeSet;
use std::fmt::Write;

use linmap::arch::{Descriptor, Entry, Level};
use linmap::{Granule, OaFormat};

use super::error::{Inexpressible, Why};
use super::tables::{Tables, half_of};
use crate::space::Context;
use crate::{Barrier, CpuId, Event, Setup, Tlb};

/// The number of CPUs that casemate has.
const CPUS: usize = 4;

/// Returns a log as a trace for casemate.
///
/// Expressed are stores, table pages, DSBs, ISBs, broadcast TLBIs of EL1, the first load of one tree, and operations,
/// during which the CPU holds the tree's lock. The record of an event ends with its number.
///
/// Some events are expressed by what they mean, not by what they are:
/// - A store to a live table is a release: casemate knows no other order of two live stores than a release or a DSB, which
///   a batch of independent changes does not need.
/// - A TLBI of the last level is one of all levels where it ends at a block: casemate takes level 3 for the last one.
/// - A TLBI of all levels by address is one of everything if a table was unlinked there: casemate does not let a TLBI by
///   address reach table descriptors, as the architecture does.
/// - A TLBI by range is one by address for each entry that became invalid in it, and none if a CPU has no such TLBIs.
/// - A DSB of a larger domain is one of the inner shareable domain.
///
/// # Errors
///
/// The first event, or the property of the machine, that casemate has not: other granules than 4K, other addresses than
/// 48 bits, more than four CPUs; a second tree, CPUs that leave the map or are reset, registers other than those of table
/// bases, TLBIs and DSBs that are not broadcast, by ASID, with nXS or of other regimes, instructions; live stores outside of
/// operations, and two operations at a time.
pub fn casemate(setup: &Setup, events: &[Event]) -> Result<String, Inexpressible> {
    let machine = |why| Inexpressible { event: None, why };
    let g = setup.geometry;
    if g.granule() != Granule::K4 || g.oa_format() != OaFormat::Bits48 || g.va_bits() > 48 {
        return Err(machine(Why::Geometry { has: "4K pages, 48 bits of addresses" }));
    }
    if setup.cores.len() > CPUS {
        return Err(machine(Why::Cpus { has: CPUS }));
    }
    let mut trace = Trace::new(setup);
    for cpu in 0..setup.cores.len() as CpuId {
        trace.record(0, cpu, "sysreg-write", &format!("(sysreg tcr_el2) (value {:#x})", 64 - g.va_bits()));
    }
    for (n, event) in events.iter().enumerate() {
        let refuse = |why| Inexpressible { event: Some((n, event.clone())), why };
        if usize::from(event.cpu()) >= setup.cores.len() {
            return Err(refuse(Why::NotInMachine));
        }
        trace.event(n, event).map_err(refuse)?;
    }
    Ok(trace.text)
}

/// A DSB in casemate's words. Those of larger domains do what it knows of that of the inner one.
const fn dsb(kind: Barrier) -> Result<&'static str, Why> {
    match kind {
        Barrier::Ish | Barrier::Osh | Barrier::Sy => Ok("ish"),
        Barrier::Ishst | Barrier::Oshst | Barrier::St => Ok("ishst"),
        Barrier::Nsh | Barrier::Nshst => Err(Why::NoSuchEvent { lacks: "DSB for one CPU alone" }),
        Barrier::Ishnxs | Barrier::Nshnxs | Barrier::Oshnxs | Barrier::Synxs => {
            Err(Why::NoSuchEvent { lacks: "nXS qualifier" })
        }
    }
}

/// A trace that grows by one event after another.
struct Trace {
    text: String,
    records: usize,
    tables: Tables,
    root: Option<u64>,
    /// The CPU that holds the lock.
    holder: Option<CpuId>,
    /// The entries that became invalid: the first address, the level, and whether it was that of a table.
    broken: BTreeSet<(u64, i8, bool)>,
}

impl Trace {
    fn new(setup: &Setup) -> Self {
        let tables = Tables::new(setup);
        Self { text: String::new(), records: 0, tables, root: None, holder: None, broken: BTreeSet::new() }
    }

    fn record(&mut self, event: usize, cpu: CpuId, kind: &str, fields: &str) {
        // Writing to a string does not fail.
        _ = writeln!(
            self.text,
            "({kind} (id {}) (tid {cpu}) {fields} (src \"event:{event}\"))",
            self.records
        );
        self.records += 1;
    }

    fn event(&mut self, n: usize, event: &Event) -> Result<(), Why> {
        let cpu = event.cpu();
        let lacks = |lacks| Err(Why::NoSuchEvent { lacks });
        match *event {
            Event::Write { table, index, value, count, step, .. } => {
                self.write(n, cpu, (table, index), (value, count, step))?;
            }
            Event::Dsb { kind, .. } => {
                let kind = dsb(kind)?;
                self.record(n, cpu, "barrier", &format!("dsb (kind {kind})"));
            }
            Event::Isb { .. } | Event::Exception { .. } => self.record(n, cpu, "barrier", "isb"),
            Event::Tlbi { op, operand, .. } => self.tlbi(n, cpu, op, operand)?,
            Event::Msr { register, value, .. } if half_of(register).is_some() => {
                self.load(n, cpu, value & ((1 << 48) - 2))?;
            }
            Event::Msr { .. } => return lacks("registers of EL1 other than those of table bases"),
            Event::Park { .. } | Event::Unpark { .. } => return lacks("CPUs that leave the map"),
            Event::Reset { .. } => return lacks("CPUs that are reset"),
            // They matter to other rules than casemate's.
            Event::Report { .. } | Event::Access { .. } | Event::Give { .. } | Event::Take { .. } => {}
            Event::ReadBegin { .. } | Event::ReadEnd { .. } => {}
            Event::Link { .. } | Event::Release { .. } | Event::Leave { .. } => {}
            // Refused with the tables.
            Event::Cas { .. } | Event::Update { .. } => {}
            Event::Alloc { table, .. } => self.page(n, cpu, "mem-init", table),
            Event::Free { table, .. } => self.page(n, cpu, "mem-free", table),
            Event::Begin { root, .. } => self.lock(n, cpu, root)?,
            Event::Done { .. } => self.unlock(n, cpu),
            Event::Code { .. } | Event::Cache { .. } | Event::Execute { .. } => {
                return lacks("instructions that are stored and executed");
            }
        }
        self.tables.apply(event)
    }

    fn page(&mut self, n: usize, cpu: CpuId, kind: &str, table: u64) {
        self.record(n, cpu, kind, &format!("(address {table:#x}) (size 0x1000)"));
    }

    fn write(
        &mut self,
        n: usize,
        cpu: CpuId,
        (table, index): (u64, usize),
        (value, count, step): (u64, usize, u64),
    ) -> Result<(), Why> {
        let slots = self.tables.slots(table, index, (value, count, step))?;
        let live = self.tables.tree_of(table).is_some();
        if live && self.holder != Some(cpu) {
            return Err(Why::OutsideOperation);
        }
        if (value, count, step) == (0, 512, 0) && !live {
            self.record(n, cpu, "mem-set", &format!("(address {table:#x}) (size 0x1000) (value 0x0)"));
            return Ok(());
        }
        let order = if live { "release" } else { "plain" };
        for (index, value) in slots {
            let address = table + 8 * index as u64;
            let fields = format!("(mem-order {order}) (address {address:#x}) (value {value:#x})");
            self.record(n, cpu, "mem-write", &fields);
            self.note(table, index, value);
        }
        Ok(())
    }

    /// Notes an entry of the tree that becomes invalid, or is used again.
    fn note(&mut self, table: u64, index: usize, value: u64) {
        let Some(old) = self.tables.slot(table, index) else { return };
        let was_table = matches!(Descriptor(old.word).decode(self.tables.g, old.level), Entry::Table(_));
        if value & 1 == 1 {
            self.broken.retain(|b| (b.0, b.1) != (old.va, old.level.number()));
        } else if old.word & 1 == 1 {
            self.broken.insert((old.va, old.level.number(), was_table));
        }
    }

    /// A CPU loads the tree. The first time it gets a lock, for which its own address stands.
    fn load(&mut self, n: usize, cpu: CpuId, root: u64) -> Result<(), Why> {
        if *self.root.get_or_insert(root) != root {
            return Err(Why::SecondTree);
        }
        if !self.tables.is_live(root) {
            let fields = format!("(kind set_root_lock) (location {root:#x}) (value {root:#x})");
            self.record(n, cpu, "hint", &fields);
        }
        self.record(n, cpu, "sysreg-write", &format!("(sysreg ttbr0_el2) (value {root:#x})"));
        Ok(())
    }

    /// An operation on the tree begins: its CPU has the lock. Announcements of other trees are none of casemate's.
    fn lock(&mut self, n: usize, cpu: CpuId, root: u64) -> Result<(), Why> {
        if !self.tables.is_live(root) {
            return Ok(());
        }
        if self.holder.is_some() {
            return Err(Why::TwoOperations);
        }
        self.holder = Some(cpu);
        self.record(n, cpu, "lock", &format!("(address {root:#x})"));
        Ok(())
    }

    fn unlock(&mut self, n: usize, cpu: CpuId) {
        if let (Some(root), true) = (self.root, self.holder == Some(cpu)) {
            self.holder = None;
            self.record(n, cpu, "unlock", &format!("(address {root:#x})"));
        }
    }

    fn tlbi(&mut self, n: usize, cpu: CpuId, op: Tlb, operand: u64) -> Result<(), Why> {
        let lacks = |lacks| Err(Why::NoSuchEvent { lacks });
        match op {
            Tlb::Vmalle1is => self.record(n, cpu, "tlbi", "alle2is"),
            Tlb::Vae1is | Tlb::Vale1is | Tlb::Vaae1is | Tlb::Vaale1is | Tlb::Rvaae1is | Tlb::Rvaale1is => {
                self.tlbi_of_addresses(n, cpu, op, operand)?;
            }
            Tlb::Aside1is => return lacks("TLBI by ASID"),
            op if !op.is_broadcast() => return lacks("TLBI for one CPU alone"),
            _ => return lacks("TLBI of that form"),
        }
        Ok(())
    }

    /// A TLBI by address or by range, for the entries of the tree that it reaches.
    fn tlbi_of_addresses(&mut self, n: usize, cpu: CpuId, op: Tlb, operand: u64) -> Result<(), Why> {
        let g = self.tables.g;
        let tlbi = op.decode(operand, g, true, Context::default()).map_err(Why::Operand)?;
        let Some((first, last)) = tlbi.addresses else { return Ok(()) };
        let Some((root, asid)) = self.tables.loaded(cpu, first) else { return Ok(()) };
        if op.is_range() && !self.tables.range_tlbi {
            return Ok(());
        }
        if tlbi.asid.is_some_and(|a| a != asid) {
            return Err(Why::OtherAsid);
        }
        let end = |b: &(u64, i8, bool)| b.0 | ((1 << g.level_shift(Level::new(b.1))) - 1);
        let reached: Vec<_> =
            self.broken.iter().filter(|b| b.0 <= last && first <= end(b)).copied().collect();
        if reached.iter().any(|b| b.2) && !tlbi.last_level {
            self.record(n, cpu, "tlbi", "alle2is");
            return Ok(());
        }
        let addresses: BTreeSet<u64> = if op.is_range() {
            reached.iter().map(|b| b.0.max(first)).chain([first]).collect()
        } else {
            [first].into()
        };
        for va in addresses {
            let at_page = self.tables.find(root, va).is_none_or(|found| found.level == Level::PAGE);
            let name = if tlbi.last_level && at_page { "vale2is" } else { "vae2is" };
            let page = (va & ((1 << g.va_bits()) - 1)) >> 12u32;
            self.record(n, cpu, "tlbi", &format!("{name} (value {page:#x})"));
        }
        Ok(())
    }
}
