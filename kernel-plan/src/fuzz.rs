//! All that a boot loader hands over, from the device tree to the plan of memory: no panic, no overflow, and a plan
//! that keeps its promises. The code is the image's own.

extern crate std;

use core::ops::Range;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use crate::bootargs::BootArgs;
use crate::choice;
use crate::machine::Machine;
use crate::note::Note;
use crate::plan::{Given, Plan, PlanError, Room};
use crate::uart::Consoles;
use dtoolkit::fdt::Fdt;
use dtoolkit::memreserve::MemoryReservation;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use linmap::{Attributes, Features, Leaves, Pa, Region, Stats, Va};
use proptest::sample::Index;
use test_support::prelude::*;

/// QEMU's virt machine with 4 GiB, as QEMU describes it.
const VIRT: &[u8] = include_bytes!("../tests/data/virt.dtb");
const GIB: u64 = 1 << 30;

/// The input of a boot apart from the device tree.
#[derive(Clone, Debug)]
struct Setting {
    features: Features,
    image: Range<Pa>,
    read_only: Range<Pa>,
    tree_at: u64,
}

impl Setting {
    /// Returns QEMU's: a Cortex-A72 and 44-bit addresses, the image 2 MiB into RAM.
    fn usual() -> Self {
        Self {
            features: Features {
                midr: 0x410f_d083,
                isar0: 0,
                mmfr0: 0x1124,
                mmfr2: 0,
                pfr1: 0,
                dfr0: 0,
                ctr: 0,
            },
            image: Pa(0x4020_0000)..Pa(0x4040_0000),
            read_only: Pa(0x4020_0000)..Pa(0x4023_0000),
            tree_at: 0x4800_0000,
        }
    }
}

/// The end of a boot without a plan, or the figures by which a plan is judged.
#[derive(Debug, PartialEq)]
enum End {
    Unreadable,
    NoGranule,
    NoPlan(PlanError),
    Planned { free: u64, crash: Option<Range<Pa>> },
}

/// Boots as far as the plan. Each note is one line.
fn boot(dtb: &[u8], setting: &Setting) -> (End, Vec<String>) {
    let mut notes = Vec::new();
    let end = way(dtb, setting, &mut notes);
    for text in &notes {
        assert!(!text.is_empty() && !text.chars().any(char::is_control), "{text:?}");
    }
    (end, notes)
}

fn way(dtb: &[u8], setting: &Setting, notes: &mut Vec<String>) -> End {
    let machine = match Machine::read(dtb, &mut |note| notes.push(note.to_string())) {
        Ok(machine) => machine,
        Err(e) => {
            notes.push(e.to_string());
            return End::Unreadable;
        }
    };
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
        tree: Pa(setting.tree_at)..Pa(setting.tree_at + dtb.len() as u64),
    };
    judge_consoles(&machine, given.pa_bits, &mut |note| notes.push(note.to_string()));
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

fn inside(part: &Range<Pa>, whole: &Range<Pa>) -> bool {
    whole.start <= part.start && part.end <= whole.end
}

fn apart(a: &Range<Pa>, b: &Range<Pa>) -> bool {
    a.is_empty() || b.is_empty() || a.end <= b.start || b.end <= a.start
}

fn bytes(range: &Range<Pa>) -> u64 {
    range.end.0.saturating_sub(range.start.0)
}

/// Checks that no console is in RAM, or at no address.
fn judge_consoles(machine: &Machine, pa_bits: u32, note: &mut dyn FnMut(Note<'_>)) {
    let Consoles { named, fallback } = Consoles::new(machine, pa_bits, note);
    for uart in [named, fallback].into_iter().flatten() {
        let registers = uart..Pa(uart.0 + 0x1000);
        let mut ram = machine.ram.as_slice().iter().chain(machine.no_map.as_slice());
        assert!(ram.all(|ram| apart(ram, &registers)), "{uart:?}");
    }
    assert!(named.is_none_or(|uart| uart.0 >> pa_bits == 0), "{named:?}");
}

/// Checks what every plan promises.
fn judge(plan: &Plan<'_>, given: &Given<'_>) {
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
    let clipped = |r: &Range<Pa>| r.start.max(mapped.start)..r.end.min(mapped.end);
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
const ROOM_FOR_IDENTITY: u64 = 8;

/// Checks that the first frames are free, enough, and reached by few tables.
fn judge_first_frames(plan: &Plan<'_>, given: &Given<'_>, leaves: Leaves) {
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
fn judge_special(regions: &[Region], special: Option<&Range<Pa>>, right: impl Fn(&Region) -> bool) {
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

fn set(node: &mut DeviceTreeNode, name: &str, value: &[u8]) {
    node.add_property(DeviceTreeProperty::new(name, value).expect("a property"));
}

fn cells(ranges: &[(u64, u64)]) -> Vec<u8> {
    ranges.iter().flat_map(|r| [r.0.to_be_bytes(), r.1.to_be_bytes()].concat()).collect()
}

/// A reserved range, and whether it must not be mapped.
type Reserved = (u64, u64, bool);

/// Makes QEMU's machine with other memory, reservations and boot arguments.
fn tree(ram: &[(u64, u64)], reserved: &[Reserved], memreserve: &[(u64, u64)], line: &[u8]) -> DeviceTree {
    let mut tree = DeviceTree::from_fdt(&Fdt::new(VIRT).expect("QEMU's tree"));
    let root = &mut tree.root;
    set(root.child_mut("memory@40000000").expect("memory"), "reg", &cells(ram));
    set(root.child_mut("chosen").expect("chosen"), "bootargs", line);
    let mut all = DeviceTreeNode::new("reserved-memory").expect("a node");
    set(&mut all, "#address-cells", &[0, 0, 0, 2]);
    set(&mut all, "#size-cells", &[0, 0, 0, 2]);
    for (i, (start, size, no_map)) in reserved.iter().enumerate() {
        let mut node = DeviceTreeNode::new(format!("r@{i}")).expect("a node");
        set(&mut node, "reg", &cells(&[(*start, *size)]));
        if *no_map {
            set(&mut node, "no-map", &[]);
        }
        all.add_child(node);
    }
    root.add_child(all);
    let entries = memreserve.iter().map(|(start, size)| MemoryReservation::new(*start, *size));
    tree.memory_reservations = entries.collect();
    tree
}

/// An address or a size: near a boundary, round, or any.
fn number() -> impl Strategy<Value = u64> {
    let boundary = (0u32..64, -2i64..=2).prop_map(|(bit, by)| (1u64 << bit).wrapping_add_signed(by));
    let near = (0u64..8 * 512).prop_map(|n| n << 21);
    let pages = (0u64..4 << 20).prop_map(|n| n << 12);
    prop_oneof![4 => near, 3 => pages, 2 => boundary, 1 => any::<u64>()]
}

fn ranges(most: usize) -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((number(), number()), 0..most)
}

/// RAM that makes sense mostly, and sometimes does not.
fn ram() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let usual = (1u64..64).prop_map(|n| vec![(GIB, n * GIB / 4)]);
    let many = (1u64..300, 1u64..6)
        .prop_map(|(n, pages)| (0..n).map(|i| (GIB + i * 0x10_0000, pages * 0x2_0000 - 0x800)).collect());
    (prop_oneof![6 => usual, 1 => many, 1 => Just(Vec::new())], ranges(6))
        .prop_map(|(first, more)| [first, more].concat())
}

fn reservations() -> impl Strategy<Value = Vec<Reserved>> {
    let few = prop::collection::vec((number(), number(), any::<bool>()), 0..8);
    let many = (1u64..200, any::<bool>())
        .prop_map(|(n, no_map)| (0..n).map(|i| (GIB + i * 0x3000 + 0x700, 0x1100, no_map)).collect());
    prop_oneof![6 => few, 1 => many]
}

fn bootargs() -> impl Strategy<Value = Vec<u8>> {
    let size = "(0x)?[0-9]{1,4}[KMGTkmgt]?(@(0x)?[0-9a-f]{1,9}[MG]?)?";
    let word = prop_oneof![
        3 => "pagesize=(4k|16k|64k|8k|4K)",
        3 => "va_bits=[0-9]{2}",
        2 => "rodata=(full|on|noalias|off|no)",
        1 => "split=(pages|park|x)",
        1 => "bbml2=(auto|off|boot-cpu|[0-9]{1,12})",
        1 => "cpus=[0-9]{1,12}",
        2 => "run=(dump|bench|dump,selftest)",
        4 => size.prop_map(|size| format!("crashkernel={size}")),
        1 => ".{0,12}",
    ];
    let words = prop::collection::vec(word, 0..6).prop_map(|w| w.join(" ").into_bytes());
    let noise = prop::collection::vec(any::<u8>(), 0..4096);
    prop_oneof![12 => words, 1 => noise]
}

fn setting() -> impl Strategy<Value = Setting> {
    // TGran4, TGran64, TGran16 and PARange as CPUs have them, with FEAT_LPA2 or without.
    let mmfr0 = (0u64..8, prop::sample::select(vec![0u64, 1, 15]), any::<bool>(), 0u64..3);
    let features = mmfr0.prop_map(|(pa, k4, no_64k, k16)| Features {
        mmfr0: pa | k4 << 28 | if no_64k { 15 << 24 } else { 0 } | k16 << 20,
        mmfr2: 1 << 16,
        ..Setting::usual().features
    });
    let usual = (0u64..64, 1u64..40, 0u64..40).prop_map(|(at, size, read_only)| {
        let start = GIB + (at << 21);
        let read_only = Pa(start)..Pa(start + (read_only.min(size) << 16));
        (Pa(start)..Pa(start + (size << 16)), read_only)
    });
    let odd = (number(), number(), number()).prop_map(|(start, size, read_only)| {
        let end = start.saturating_add(size);
        (Pa(start)..Pa(end), Pa(start)..Pa(start.saturating_add(read_only).min(end)))
    });
    let image = prop_oneof![4 => usual, 1 => odd];
    let tree_at = prop_oneof![3 => Just(GIB + GIB / 4), 1 => number().prop_map(|n| (n & !7).min(1 << 52))];
    (features, image, tree_at).prop_map(|(features, (image, read_only), tree_at)| Setting {
        features,
        image,
        read_only,
        tree_at,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    /// Well-made trees of strange machines.
    #[test]
    fn strange_machines(
        ram in ram(),
        reserved in reservations(),
        memreserve in ranges(5),
        line in bootargs(),
        setting in setting(),
    ) {
        boot(&tree(&ram, &reserved, &memreserve, &line).to_dtb(), &setting);
    }

    /// Usual machines, for which there is a plan whatever the boot arguments are.
    #[test]
    fn strange_arguments(line in bootargs(), gib in 1u64..32) {
        let dtb = tree(&[(GIB, gib * GIB)], &[], &[], &line).to_dtb();
        let (end, notes) = boot(&dtb, &Setting::usual());
        prop_assert!(matches!(end, End::Planned { .. }), "{end:?} {notes:?}");
    }

    /// QEMU's tree with bytes or whole words damaged.
    #[test]
    fn damaged_trees(
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..8),
        words in prop::collection::vec((any::<Index>(), prop_oneof![0u32..16, any::<u32>()]), 0..3),
        setting in setting(),
    ) {
        let mut dtb = VIRT.to_vec();
        for (at, value) in damage {
            let at = at.index(dtb.len());
            dtb[at] = value;
        }
        for (at, value) in words {
            let at = at.index(dtb.len() / 4) * 4;
            dtb[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        boot(&dtb, &setting);
    }

    /// Registers behind two buses whose properties have any value.
    #[test]
    fn damaged_buses(
        which in any::<Index>(),
        words in prop::collection::vec(prop_oneof![0u32..8, any::<u32>()], 0..16),
        rest in 0usize..4,
    ) {
        let properties = [
            ("/soc", "ranges"),
            ("/soc", "#address-cells"),
            ("/soc", "#size-cells"),
            ("/soc/bus", "ranges"),
            ("/soc/bus", "#address-cells"),
            ("/soc/bus", "#size-cells"),
            ("/soc/bus/pl011@9000000", "reg"),
            ("/soc/bus/intc@8000000", "reg"),
            ("/aliases", "serial0"),
            ("/chosen", "stdout-path"),
        ];
        let mut tree = tree(&[(GIB, GIB)], &[], &[], b"");
        behind_buses(&mut tree);
        let (path, name) = properties[which.index(properties.len())];
        let mut value: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        value.truncate(value.len().saturating_sub(rest));
        set(tree.find_node_mut(path).expect("a node"), name, &value);
        boot(&tree.to_dtb(), &Setting::usual());
    }

    /// Properties that the kernel reads, with any value.
    #[test]
    fn damaged_properties(which in any::<Index>(), value in prop::collection::vec(any::<u8>(), 0..40)) {
        let properties = [
            ("/memory@40000000", "reg"),
            ("/memory@40000000", "device_type"),
            ("/memory@40000000", "status"),
            ("/", "#address-cells"),
            ("/", "#size-cells"),
            ("/", "model"),
            ("/chosen", "stdout-path"),
            ("/pl011@9000000", "reg"),
            ("/reserved-memory", "#size-cells"),
            ("/reserved-memory/r@0", "reg"),
            ("/cpus", "#address-cells"),
            ("/cpus/cpu@1", "reg"),
            ("/cpus/cpu@1", "status"),
            ("/cpus/cpu@1", "enable-method"),
            ("/cpus/cpu@1", "device_type"),
            ("/intc@8000000", "reg"),
            ("/intc@8000000", "compatible"),
            ("/intc@8000000", "#interrupt-cells"),
            ("/intc@8000000", "#redistributor-regions"),
            ("/intc@8000000", "redistributor-stride"),
            ("/timer", "interrupts"),
            ("/timer", "compatible"),
        ];
        let (path, name) = properties[which.index(properties.len())];
        let mut tree = tree(&[(GIB, GIB)], &[(GIB, 4096, true)], &[], b"");
        if name.contains("redistributor") {
            set(tree.find_node_mut(path).expect("a node"), "compatible", b"arm,gic-v3\0");
        }
        set(tree.find_node_mut(path).expect("a node"), name, &value);
        // Cells count, so a small number is worth a try.
        let small = [0, 0, 0, value.first().copied().unwrap_or(0) % 8];
        boot(&tree.to_dtb(), &Setting::usual());
        set(tree.find_node_mut(path).expect("a node"), name, &small);
        boot(&tree.to_dtb(), &Setting::usual());
    }
}

/// Moves the console and the interrupt controller behind two buses, the second of which has one cell for each.
fn behind_buses(tree: &mut DeviceTree) {
    let mut bus = DeviceTreeNode::new("bus").expect("a node");
    for (name, at) in [("pl011@9000000", 0x900_0000u32), ("intc@8000000", 0x800_0000)] {
        let mut node = tree.root.remove_child(name).expect("QEMU has it");
        let reg = [at - 0x700_0000, 0x1_0000, at - 0x6ff_0000, 0x1_0000];
        set(&mut node, "reg", &reg.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>());
        bus.add_child(node);
    }
    let mut soc = DeviceTreeNode::new("soc").expect("a node");
    for (node, cells, ranges) in [
        (&mut bus, [0, 0, 0, 1], &[0x100_0000u32, 0, 0, 0x200_0000][..]),
        (&mut soc, [0, 0, 0, 2], &[0, 0, 0, 0x800_0000, 0, 0x200_0000]),
    ] {
        set(node, "#address-cells", &cells);
        set(node, "#size-cells", &cells);
        set(node, "ranges", &ranges.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>());
    }
    soc.add_child(bus);
    tree.root.add_child(soc);
    let mut aliases = DeviceTreeNode::new("aliases").expect("a node");
    set(&mut aliases, "serial0", b"/soc/bus/pl011@9000000\0");
    tree.root.add_child(aliases);
    set(tree.find_node_mut("/chosen").expect("chosen"), "stdout-path", b"serial0\0");
}

#[test]
fn registers_behind_buses_are_where_a_cpu_has_them() {
    let mut tree = tree(&[(GIB, GIB)], &[], &[], b"");
    behind_buses(&mut tree);
    let machine = Machine::read(&tree.to_dtb(), &mut |note| panic!("{note}")).expect("a machine");
    assert_eq!(machine.uart, Some(Pa(0x900_0000)));
    let gic = machine.interrupts.expect("a controller");
    assert!(gic.ranges().eq(&[Pa(0x800_0000)..Pa(0x801_0000), Pa(0x801_0000)..Pa(0x802_0000)]), "{gic:?}");
}

fn plain(ram: &[(u64, u64)], reserved: &[Reserved], line: &str) -> (End, Vec<String>) {
    boot(&tree(ram, reserved, &[], line.as_bytes()).to_dtb(), &Setting::usual())
}

#[test]
fn qemu_s_machine_is_read_without_a_note() {
    let machine = Machine::read(VIRT, &mut |note| panic!("{note}")).expect("QEMU's tree");
    assert_eq!(machine.ram.as_slice(), [Pa(GIB)..Pa(5 * GIB)]);
    assert_eq!((machine.cpus.present, &*machine.bootargs), (2, "pagesize=16k run=dump"));
    let (end, notes) = boot(VIRT, &Setting::usual());
    assert!(matches!(end, End::Planned { crash: None, .. }));
    assert_eq!(notes, ["this CPU has no 16K pages; using 4K"]);
}

/// The tables of a map come from RAM that few tables of the 1:1 map reach, however much RAM there is.
#[test]
fn large_machines_reach_their_first_frames_with_few_tables() {
    let features = Features { mmfr0: 0x1020_1126, mmfr2: 1 << 16, ..Setting::usual().features };
    let setting = Setting { features, ..Setting::usual() };
    for gigabytes in [1, 5, 12, 64, 300, 512, 2900, 3 << 10, 16 << 10, 54 << 10] {
        for (pages, va_bits) in [("4k", 48), ("4k", 52), ("16k", 48), ("16k", 52), ("64k", 48), ("64k", 52)] {
            let line = format!("pagesize={pages} va_bits={va_bits}");
            let (end, notes) =
                boot(&tree(&[(GIB, gigabytes * GIB)], &[], &[], line.as_bytes()).to_dtb(), &setting);
            assert!(
                matches!(end, End::Planned { .. }) && notes.is_empty(),
                "{line} {gigabytes}: {end:?} {notes:?}"
            );
        }
    }
}

/// A gigabyte in pages needs 2 MiB of tables: they fit into the longest free range, or there is no map.
#[test]
fn tables_take_one_range() {
    let features = Setting::usual().features;
    let args = BootArgs::parse("", |_| {});
    let geometry = choice::geometry(&args, &features, |_| {}).expect("4K pages");
    let first = |free: u64| {
        let reserved = [(GIB + free, 0x1000, false), (GIB + 2 * free, GIB, false)];
        let dtb = tree(&[(GIB, GIB)], &reserved, &[], b"").to_dtb();
        let machine = Machine::read(&dtb, &mut |_| {}).expect("a machine");
        let (image, tree) = (Pa(0)..Pa(0), Pa(0)..Pa(0));
        let read_only = image.clone();
        let Machine { ram, reserved, no_map, .. } = &machine;
        let given =
            Given { ram, reserved, no_map, args: &args, geometry, pa_bits: 44, image, read_only, tree };
        let mut room = Room::default();
        let plan = Plan::new(&given, &mut room, &mut |_| {}).expect("a plan");
        assert!(plan.first_frames(Leaves::Largest).is_ok());
        plan.first_frames(Leaves::Pages)
    };
    // 512 tables of pages, and two above them below the root.
    let needed = 514 * 0x1000;
    assert_eq!(first(needed), Ok(Pa(GIB)..Pa(GIB + needed)));
    let longest = Pa(GIB)..Pa(GIB + needed - 0x1000);
    let e = first(needed - 0x1000).expect_err("both ranges are too short");
    assert_eq!(e, PlanError::NoRoomForTables { needed, longest });
    assert_eq!(
        e.to_string(),
        "the linear map cannot be made: out of table pages, as it takes 0x202000 bytes of them from one range, and \
         the longest free one is 0x40000000..0x40201000"
    );
}

#[test]
fn a_machine_without_a_free_page_is_named() {
    let (end, notes) = plain(&[(GIB, GIB)], &[(0, u64::MAX, false)], "");
    assert_eq!(end, End::NoPlan(PlanError::NothingFree { bytes: GIB }));
    assert!(notes.iter().any(|n| n.ends_with("take all of 0x40000000 bytes of RAM")), "{notes:?}");
}

#[test]
fn ram_that_no_address_reaches_is_named() {
    let far = 1 << 46;
    let (end, _) = plain(&[(far, GIB)], &[], "");
    assert_eq!(end, End::NoPlan(PlanError::Beyond { bytes: GIB, pa_bits: 44 }));
}

#[test]
fn a_tree_in_the_image_ends_the_boot() {
    let setting = Setting { tree_at: 0x403f_f000, ..Setting::usual() };
    assert!(matches!(boot(VIRT, &setting).0, End::NoPlan(PlanError::TreeInImage { .. })));
    let beside = Setting { tree_at: 0x4040_0000, ..Setting::usual() };
    assert!(matches!(boot(VIRT, &beside).0, End::Planned { .. }));
}

#[test]
fn image_and_tree_in_no_map_memory_are_named() {
    let (end, notes) = plain(&[(GIB, GIB)], &[(GIB, GIB / 2, true)], "");
    assert!(matches!(end, End::Planned { .. }));
    assert_eq!(
        notes[0],
        "the kernel image at 0x40200000..0x40400000 is in memory that must not be mapped (no-map)"
    );
    assert!(notes[1].starts_with("the device tree at 0x48000000..0x48"), "{notes:?}");
    assert_eq!(notes[2], "the kernel image at 0x40200000..0x40400000 is not in the device tree's memory");
    // Only the data of the image: its alias can still be protected.
    let (_, notes) = plain(&[(GIB, GIB)], &[(0x4030_0000, 0x1000, true)], "");
    assert_eq!(notes.len(), 1, "{notes:?}");
}

#[test]
fn where_a_crash_kernel_can_go() {
    let crash = |ram: &[(u64, u64)], line: &str| match plain(ram, &[], line) {
        (End::Planned { crash, .. }, notes) => (crash.map(|r| (r.start.0, bytes(&r))), notes),
        end => panic!("{end:?}"),
    };
    let gib = &[(GIB, GIB)];
    assert_eq!(crash(gib, "crashkernel=256M"), (Some((0x7000_0000, 256 << 20)), Vec::new()));
    let (at, notes) = crash(gib, "crashkernel=1M@0x5010_0000");
    assert_eq!((at, notes.len()), (None, 1));
    let (at, notes) = crash(gib, "crashkernel=1M@0x50100000");
    assert_eq!(at, Some((0x5000_0000, 2 << 20)));
    assert_eq!(notes, ["crashkernel: moved to multiples of 0x200000 bytes: 0x50000000..0x50200000"]);
    // The obstacle is named.
    for (line, why) in [
        ("2M@0x40200000", "overlap the kernel image"),
        ("2M@0x48000000", "overlap the device tree"),
        ("2M@0x80000000", "are not RAM that the linear map reaches"),
        ("2M@0x7ff00000", "moved to multiples of 0x200000 bytes"),
        ("2G", "are not free"),
        ("0xfffffffffffff000@2M", "are not RAM that the linear map reaches"),
    ] {
        let (_, notes) = crash(gib, &format!("crashkernel={line}"));
        assert!(notes[0].contains(why), "{line}: {notes:?}");
    }
    // The longest range has less room than another once both are cut to 2 MiB.
    let crooked = [(GIB, GIB / 2), (0xa010_0000, 0x2f_0000), (0xb000_0000, 0x20_0000)];
    assert_eq!(crash(&crooked[1..], "crashkernel=2M").0, Some((0xb000_0000, 2 << 20)));
    // All that is free is too much.
    let (at, notes) = crash(&crooked[2..], "crashkernel=2M");
    assert_eq!(at, None);
    assert_eq!(notes[0], "crashkernel: 0x200000 bytes are all that is free; page tables need some");
}

#[test]
fn the_page_at_address_0_is_left_alone() {
    let (end, _) = plain(&[(0, GIB)], &[], "");
    assert_eq!(end, End::Planned { free: GIB - 4096, crash: None });
}

#[test]
fn more_pieces_than_there_is_room_for_cost_free_memory_and_no_more() {
    let ram: Vec<_> = (0..128).map(|i| (GIB + i * 0x20_0000, 0x10_0000)).collect();
    // The image takes one bank; two are cut in two, the second one near its start.
    let middles = [(0x4008_0000, 0x1000, false), (0x4040_1000, 0x1000, false)];
    let (end, notes) = plain(&ram, &middles, "");
    assert!(matches!(end, End::Planned { .. }));
    assert_eq!(
        notes,
        ["free memory is not used: 0x1000 bytes, the shortest 1 of more than 128 separate ranges"]
    );
}

/// However many pieces are removed from RAM, and in any order, the rest on both sides is used.
#[test]
fn the_longest_pieces_are_used() {
    let mut reserved: Vec<Reserved> = (0..126).map(|i| (GIB + GIB / 2 + i * 0x2000, 0x1000, false)).collect();
    reserved.push((GIB + GIB / 4 * 3, 0x1000, false));
    let (end, notes) = plain(&[(GIB, GIB)], &reserved, "");
    let End::Planned { free, .. } = end else { panic!("{end:?} {notes:?}") };
    let tree = tree(&[(GIB, GIB)], &reserved, &[], b"").to_dtb().len() as u64;
    let taken = 0x20_0000 + 127 * 0x1000 + tree.next_multiple_of(0x1000);
    assert!(free + 0x2000 >= GIB - taken, "{:#x} of {taken:#x} taken: {notes:?}", GIB - free);
}
