//! A boot from the description of a machine to the plan of memory, and what must hold of each.

use core::ops::Range;
use std::string::{String, ToString};
use std::vec::Vec;

use linmap::cpu::Features;
use linmap::{Attributes, Leaves, Pa, Region, Stats, Va};

use crate::bootargs::BootArgs;
use crate::choice;
use crate::machine::Machine;
use crate::note::Note;
use crate::plan::{Given, Plan, PlanError, Room};
use crate::ranges::bytes;
use crate::serial::Uart;
use crate::uart::Consoles;

/// QEMU's virt machine with 4 GiB, as QEMU describes it.
pub(super) const VIRT: &[u8] = include_bytes!("../../tests/data/virt.dtb");
pub(super) const GIB: u64 = 1 << 30;

/// The input of a boot apart from the device tree.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(super) features: Features,
    pub(super) image: Range<Pa>,
    pub(super) read_only: Range<Pa>,
    pub(super) tree_at: u64,
}

impl Setting {
    /// Returns QEMU's: a Cortex-A72 and 44-bit addresses, the image 2 MiB into RAM.
    pub(crate) fn usual() -> Self {
        Self {
            features: Features { midr: 0x410f_d083, mmfr0: 0x1124, ..Features::default() },
            image: Pa(0x4020_0000)..Pa(0x4040_0000),
            read_only: Pa(0x4020_0000)..Pa(0x4023_0000),
            tree_at: 0x4800_0000,
        }
    }
}

/// The end of a boot without a plan, or the figures by which a plan is judged.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    Unreadable,
    NoGranule,
    NoPlan(PlanError),
    Planned { free: u64, crash: Option<Range<Pa>> },
}

/// Boots as far as the plan. Each note is one line.
pub(super) fn boot(dtb: &[u8], setting: &Setting) -> (End, Vec<String>) {
    let mut notes = Vec::new();
    let end = way(dtb, setting, &mut notes);
    for text in &notes {
        assert!(!text.is_empty() && !text.chars().any(char::is_control), "{text:?}");
    }
    (end, notes)
}

pub(super) fn way(dtb: &[u8], setting: &Setting, notes: &mut Vec<String>) -> End {
    let machine = match Machine::read(dtb, &mut |note| notes.push(note.to_string())) {
        Ok(machine) => machine,
        Err(e) => {
            notes.push(e.to_string());
            return End::Unreadable;
        }
    };
    boot_machine(&machine, dtb.len() as u64, setting, notes)
}

/// Boots a machine whose description has so many bytes, as far as the plan.
pub(crate) fn boot_machine(machine: &Machine, bytes: u64, setting: &Setting, notes: &mut Vec<String>) -> End {
    let args = BootArgs::parse(&machine.bootargs, |ignored| notes.push(ignored.to_string()));
    let order = machine.cpus.order(0, args.cpus, &mut |note| notes.push(note.to_string()));
    assert!(order.iter().enumerate().all(|(i, cpu)| !order[..i].contains(cpu)), "{order:?}");
    let Ok(geometry) = choice::geometry(&args, &setting.features, |f| notes.push(f.to_string())) else {
        return End::NoGranule;
    };
    let given = Given {
        ram: &machine.ram,
        reserved: &machine.reserved,
        no_map: &machine.no_map,
        args: &args,
        geometry,
        pa_bits: choice::pa_bits(&setting.features, geometry),
        image: setting.image.clone(),
        read_only: setting.read_only.clone(),
        // What follows code and constants, to the end of the image.
        data: setting.read_only.end.min(setting.image.end)..setting.image.end,
        tree: Pa(setting.tree_at)..Pa(setting.tree_at + bytes),
    };
    judge_consoles(machine, given.pa_bits, &mut |note| notes.push(note.to_string()));
    let mut room = Room::default();
    match Plan::new(&given, &mut room, &mut |note| notes.push(note.to_string())) {
        Ok(plan) => {
            judge(&plan, &given);
            End::Planned { free: plan.free.bytes(), crash: plan.crash }
        }
        Err(e) => {
            notes.push(e.to_string());
            End::NoPlan(e)
        }
    }
}

pub(super) fn inside(part: &Range<Pa>, whole: &Range<Pa>) -> bool {
    whole.start <= part.start && part.end <= whole.end
}

pub(super) fn apart(a: &Range<Pa>, b: &Range<Pa>) -> bool {
    a.is_empty() || b.is_empty() || a.end <= b.start || b.end <= a.start
}

/// Checks that no console is in RAM, or at no address.
pub(super) fn judge_consoles(machine: &Machine, pa_bits: u32, note: &mut dyn FnMut(Note<'_>)) {
    let Consoles { named, fallback } = Consoles::new(machine, pa_bits, note);
    for uart in [named, fallback.map(Uart::pl011)].into_iter().flatten() {
        let registers = uart.range().expect("an address");
        let mut ram = machine.ram.as_slice().iter().chain(machine.no_map.as_slice());
        assert!(ram.all(|ram| apart(ram, &registers)), "{uart:?}");
    }
    assert!(named.is_none_or(|uart| uart.registers.0 >> pa_bits == 0), "{named:?}");
}

/// Checks what every plan promises.
pub(super) fn judge(plan: &Plan<'_>, given: &Given<'_>) {
    let (layout, page) = (&plan.layout, given.geometry.page_size());
    let mapped = layout.mapped();
    let spoken_for = given.reserved.as_slice().iter().chain(given.no_map.as_slice());
    let spoken_for: Vec<_> = spoken_for.chain([&given.image, &given.tree]).chain(&plan.crash).collect();
    assert!(!plan.free.as_slice().is_empty());
    let scratch = plan.scratch.ends.iter().flatten().map(|first| *first..Pa(first.0 + page));
    let scratch: Vec<_> = scratch.chain([plan.scratch.range.clone()]).filter(|r| !r.is_empty()).collect();
    for range in &scratch {
        let others = scratch.iter().filter(|other| *other != range);
        assert!(others.chain(plan.free.as_slice()).all(|other| apart(range, other)), "{range:?}");
    }
    for free in plan.free.as_slice().iter().chain(&scratch) {
        assert!(free.start.0 % page == 0 && free.end.0 % page == 0 && free.start != Pa(0), "{free:?}");
        assert!(given.ram.covers(free) && inside(free, mapped), "{free:?}");
        assert!(free.end.0 - 1 < 1 << given.pa_bits, "{free:?}");
        for other in &spoken_for {
            assert!(apart(free, other), "{free:?} {other:?}");
        }
    }
    for ram in layout.ram() {
        assert!(given.ram.covers(ram));
        given.no_map.as_slice().iter().for_each(|r| assert!(apart(ram, r), "{ram:?} {r:?}"));
    }
    let clipped = |r: &Range<Pa>| {
        let start = r.start.max(mapped.start);
        start..r.end.min(mapped.end).max(start)
    };
    let reached: u64 = layout.ram().iter().map(|r| bytes(&clipped(r))).sum();
    for leaves in [Leaves::Largest, Leaves::Pages] {
        let regions: Vec<Region> = layout.regions(leaves).collect();
        assert_eq!(Stats::of_runs(given.geometry, layout.runs(leaves)).bytes(given.geometry), reached);
        judge_special(&regions, plan.crash.as_ref(), |r| r.leaves == Leaves::Pages);
        let alias = (!plan.alias.is_empty()).then_some(&plan.alias);
        judge_special(&regions, alias, |r| r.leaves == Leaves::Largest);
    }
    [Leaves::Largest, Leaves::Pages].into_iter().for_each(|leaves| judge_first_frames(plan, given, leaves));
    let all = reached + layout.dropped_bytes() + layout.unaligned_bytes() + plan.beyond_bytes;
    assert_eq!(all, given.ram.bytes());
}

/// The table pages for the 1:1 map that the image has room for beside those of its own map: of 64K, which are the
/// fewest.
pub(super) const ROOM_FOR_IDENTITY: u64 = 8;

/// Checks that the first frames are free, enough, and reached by few tables.
pub(super) fn judge_first_frames(plan: &Plan<'_>, given: &Given<'_>, leaves: Leaves) {
    let (geometry, longest) = (given.geometry, plan.free.longest());
    let tables = Stats::of_runs(geometry, plan.layout.runs(leaves)).tables;
    let needed = (tables - 1) * geometry.page_size();
    let frames = match plan.first_frames(leaves) {
        Ok(frames) => frames,
        Err(e) => {
            assert_eq!(e, PlanError::NoRoomForTables { needed, longest: longest.clone() });
            return assert!(bytes(&longest) < needed, "{longest:?} for {needed:#x} bytes");
        }
    };
    assert!(inside(&frames, &longest) && bytes(&frames) >= needed, "{frames:?} for {needed:#x} bytes");
    let Ok(lower) = choice::identity_geometry(geometry, frames.end.0.max(given.image.end.0)) else { return };
    let text = Pa(given.image.start.0 & !0xffff)..Pa((given.image.start.0 & !0xffff) + 0x4_0000);
    if !apart(&text, &frames) {
        return;
    }
    let mut regions = [text, frames].map(|range| Region {
        va: Va(range.start.0),
        oa: range.start,
        bytes: bytes(&range),
        attributes: Attributes::RAM,
        leaves: Leaves::Largest,
    });
    regions.sort_unstable_by_key(|region| region.oa);
    let tables = Stats::of_runs(lower, regions.iter().flat_map(|region| region.runs(lower))).tables;
    let room = ROOM_FOR_IDENTITY * 0x1_0000 / geometry.page_size();
    assert!(tables <= room, "{tables} tables for a 1:1 map of {regions:?}");
}

/// Checks that a range is mapped whole, with the right attributes.
pub(super) fn judge_special(
    regions: &[Region],
    special: Option<&Range<Pa>>,
    right: impl Fn(&Region) -> bool,
) {
    let Some(special) = special else { return };
    let mut covered = 0;
    for region in regions {
        let range = region.oa..Pa(region.oa.0 + region.bytes);
        if !apart(&range, special) {
            assert!(right(region), "{special:?} in {region:?}");
            covered += bytes(&(range.start.max(special.start)..range.end.min(special.end)));
        }
    }
    assert_eq!(covered, bytes(special), "{special:?}");
}
