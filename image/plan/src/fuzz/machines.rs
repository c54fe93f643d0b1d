//! Machines with exact results: where registers, tables and the crash kernel are, and what is noted.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use linmap::cpu::Features;
use linmap::{Leaves, Pa};

use super::boot::{End, GIB, Setting, VIRT, boot};
use super::trees::{Reserved, behind_buses, tree};
use crate::bootargs::BootArgs;
use crate::choice;
use crate::machine::Machine;
use crate::plan::{Given, Plan, PlanError, Room};
use crate::ranges::bytes;
use crate::serial::Uart;

#[test]
fn registers_behind_buses_are_where_a_cpu_has_them() {
    let mut tree = tree(&[(GIB, GIB)], &[], &[], b"");
    behind_buses(&mut tree);
    let machine = Machine::read(&tree.to_dtb(), &mut |note| panic!("{note}")).expect("a machine");
    assert_eq!(machine.uart, Some(Uart::pl011(Pa(0x900_0000))));
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
        let (read_only, data) = (image.clone(), image.clone());
        let Machine { ram, reserved, no_map, .. } = &machine;
        let given =
            Given { ram, reserved, no_map, args: &args, geometry, pa_bits: 44, image, read_only, data, tree };
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
