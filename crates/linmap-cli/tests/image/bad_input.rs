//! Bad input is reported, and ends in the nearest sane behaviour or a clean stop.

use dtoolkit::model::DeviceTreeProperty;

use crate::guest::{Booted, boot};
use crate::loader::{Loader, reserved};

fn first_gigabyte(options: &[&str]) -> Booted {
    boot(&[&["--ram", "1G"], options].concat())
}

/// Expects that the kernel stopped by itself with a reason, and that the command reports it with exit status 2.
fn expect_stop(booted: &Booted, why: &str) {
    assert_eq!(booted.status, Some(2), "{}", booted.console);
    assert!(booted.says(&format!("linmap cannot go on: {why}")), "{}", booted.console);
    assert!(booted.text("/fault").starts_with(why), "{:#}", booted.document);
    assert_eq!(booted.at("/ok"), false);
}

#[test]
fn boot_arguments_that_make_no_sense_are_named() {
    let booted = first_gigabyte(&["--append", "pagesize=8k va_bits=99 froz \u{1b}[31m crashkernel=lots"]);
    let booted = booted.expect_well("nonsense is ignored");
    for word in ["pagesize=8k", "va_bits=99", "froz", "crashkernel=lots"] {
        assert!(booted.says(&format!("warning: boot argument '{word}' ignored")), "{}", booted.console);
    }
    assert_eq!((booted.number("/page_size"), booted.number("/va_bits")), (4096, 48));
    assert_eq!(booted.at("/messages").as_object().map(|m| m.len()), Some(5));
}

#[test]
fn a_page_size_that_the_cpu_lacks_falls_back() {
    for cpu in ["cortex-a57", "cortex-a72"] {
        let booted = first_gigabyte(&["--cpu", cpu, "--page-size", "16k"]).expect_well(cpu);
        assert!(booted.says("warning: this CPU has no 16K pages; using 4K"), "{}", booted.console);
        assert_eq!(booted.number("/page_size"), 4096);
    }
}

#[test]
fn a_task_that_is_not_known_is_said() {
    let booted = first_gigabyte(&["--append", "run=stressed,dump"]).expect_well("what there is works");
    assert!(
        booted.says("run=stressed ignored: there is no task stressed; there are bench, "),
        "{}",
        booted.console
    );
    let booted = first_gigabyte(&["--append", "run=stress:many"]);
    assert_eq!(booted.status, Some(1), "{}", booted.console);
    assert!(booted.says("run=stress:many: stress takes two numbers"), "{}", booted.console);
    assert_eq!(booted.text("/error"), "failed: stress");
    let refused = first_gigabyte(&["--run", "dump,selftset"]);
    assert_eq!(refused.status, Some(2));
    assert!(
        refused.text("/error").contains("did you mean selftest? there is no task"),
        "{:#}",
        refused.document
    );
    assert!(refused.document.get("machine").is_none(), "nothing booted");
}

#[test]
fn a_crash_kernel_that_does_not_fit_is_refused_and_the_rest_goes_on() {
    let not_ram = "are not RAM that the linear map reaches";
    let beyond_the_half = ["--ram", "64G", "--va-bits", "36", "--crashkernel", "256M@0xc00000000"];
    let cases = [
        (&["--crashkernel", "2G"][..], "are not free; most is free at 0x"),
        (&["--crashkernel", "2M@0x40200000"], "overlap the kernel image"),
        (&["--crashkernel", "2M@0x48000000"], "overlap the device tree"),
        (&["--crashkernel", "256M@0x1000000000"], not_ram),
        (&["--crashkernel", "256M@0x78001000"], not_ram),
        (&beyond_the_half, not_ram),
    ];
    for (options, why) in cases {
        let booted = first_gigabyte(&[options, &["--run", "crash"]].concat()).expect_well("the rest goes on");
        assert!(booted.says("warning: crashkernel: ") && booted.says(why), "{why}: {}", booted.console);
        assert!(booted.says("run=crash: nothing is reserved"), "{}", booted.console);
        assert_eq!(booted.at("/memory/carve_outs"), &serde_json::json!([]));
    }
    let booted = first_gigabyte(&["--append", "crashkernel=0"]).expect_well("the rest goes on");
    assert!(booted.says("'crashkernel=0' ignored: crashkernel is SIZE[@OFFSET]"), "{}", booted.console);
}

#[test]
fn a_crash_kernel_moves_to_where_it_can_be_mapped_apart() {
    let booted = first_gigabyte(&["--crashkernel", "3M@0x50001000"]).expect_well("moved");
    assert!(
        booted.says("moved to multiples of 0x200000 bytes: 0x50000000..0x50400000"),
        "{}",
        booted.console
    );
    assert_eq!(booted.at("/memory/carve_outs"), &serde_json::json!([["0x50000000", "0x50400000"]]));
}

#[test]
fn faults_and_panics_are_reported() {
    let faulted = first_gigabyte(&["--run", "fault"]);
    expect_stop(
        &faulted,
        "synchronous exception (data abort: read of an address that is not mapped): ESR 0x",
    );
    assert!(faulted.says("FAR 0xdead0000"), "{}", faulted.console);
    expect_stop(&first_gigabyte(&["--run", "panic"]), "panic at image/src/exercises/endings.rs:");
}

#[test]
fn a_failure_is_told_from_a_breakdown() {
    let failed = first_gigabyte(&["--run", "fail"]);
    assert_eq!((failed.status, failed.text("/error")), (Some(1), "failed: fail (asked for by run=fail)"));
    let hung = first_gigabyte(&["--run", "hang", "--timeout", "3"]);
    assert_eq!(hung.status, Some(2));
    assert!(hung.text("/error").contains("3 s"), "{:#}", hung.document);
}

#[test]
fn a_loader_other_than_qemu_can_start_it() {
    let booted = Loader::new().tree(|_| {}).boot().expect_well("a well-made tree");
    assert_eq!(booted.number("/linear/bytes"), 1 << 30);
}

#[test]
fn without_memory_it_stops() {
    let loader = Loader::new().tree(|tree| {
        tree.root.remove_child("memory@40000000");
    });
    expect_stop(&loader.boot(), "the device tree has no memory");
}

#[test]
fn without_enough_memory_it_stops() {
    let less_than_a_page = Loader::new().memory(&[(0x4000_0000, 0x100)]).boot();
    expect_stop(&less_than_a_page, "no RAM: not one whole page");
    let all_taken = Loader::new().memory(&[(0x4020_0000, 0x10_0000)]).boot();
    expect_stop(&all_taken, "the linear map cannot be made: out of table pages");
    // A gigabyte in pages takes 516 table pages, and all but 64K of it is reserved.
    let loader = Loader::new().tree(|tree| tree.root.add_child(reserved(&[(0x4000_0000, 0x3fff_0000)])));
    expect_stop(&loader.boot_with(&["--cpu", "max"]), "the linear map cannot be made: out of table pages");
    // In blocks it takes 4.
    loader.boot().expect_well("large leaves fit where pages do not");
}

/// A megabyte is enough to map a megabyte.
#[test]
fn little_memory_is_enough_for_little() {
    let booted = Loader::new().memory(&[(0x5000_0000, 0x10_0000)]).boot().expect_well("1 MiB");
    assert_eq!(booted.number("/linear/bytes"), 0x10_0000);
}

#[test]
fn memory_that_overlaps_or_is_absurd_is_named() {
    let ranges =
        [(0x4000_0000, 0x2000_0000), (0x5000_0000, 0x3000_0000), (u64::MAX - 4095, 8192), (0x9000_0000, 0)];
    let booted = Loader::new().memory(&ranges).boot().expect_well("the rest is used");
    assert_eq!(booted.number("/linear/bytes"), 1 << 30);
    assert!(booted.says("overlaps other memory; merged"), "{}", booted.console);
    assert!(booted.says("is beyond all addresses"), "{}", booted.console);
    assert!(booted.says("has an empty range"), "{}", booted.console);
}

#[test]
fn memory_beyond_the_cpu_is_left_out() {
    let ranges = [(0x4000_0000, 0x4000_0000), (1 << 50, 0x4000_0000)];
    let booted = Loader::new().memory(&ranges).boot().expect_well("the rest is used");
    assert_eq!(booted.number("/linear/bytes"), 1 << 30);
    assert_eq!(booted.number("/linear/dropped_bytes"), 1 << 30);
}

#[test]
fn ends_within_a_page_move_inward() {
    let booted = Loader::new().memory(&[(0x4000_0100, 0x3fff_ff00 - 0x300)]).boot().expect_well("cut");
    assert_eq!(booted.number("/linear/bytes"), (1 << 30) - 8192);
    assert!(booted.says("of RAM lost where ranges do not start or end at a page"), "{}", booted.console);
}

#[test]
fn a_tree_that_can_not_be_read_stops_it() {
    expect_stop(&Loader::new().bytes(vec![0xff; 4096]).boot(), "no device tree at 0x48000000");
    expect_stop(&Loader::new().tree_at(0).boot(), "the loader gave no device tree");
    expect_stop(&Loader::new().tree_at(0x4800_0004).boot(), "the loader gave no device tree");
    let huge = [0xd00d_feed_u32.to_be_bytes(), 0x7fff_ffff_u32.to_be_bytes()].concat();
    expect_stop(&Loader::new().bytes(huge).boot(), "the device tree at 0x48000000 claims 2147483647 bytes");
    let hollow = [0xd00d_feed_u32.to_be_bytes(), 4096_u32.to_be_bytes()].concat();
    expect_stop(&Loader::new().bytes(hollow).boot(), "the device tree cannot be read");
    // An address without a device or RAM.
    expect_stop(&Loader::new().tree_at(0x7000_0000_0000).boot(), "synchronous exception (data abort");
}

/// A report has the walk of the address, level by level.
#[test]
fn an_overflow_of_the_stack_meets_its_guard() {
    for page_size in ["4k", "16k", "64k"] {
        let booted = first_gigabyte(&["--run", "overflow", "--page-size", page_size]);
        expect_stop(&booted, "synchronous exception (data abort: write to an address that is not mapped)");
        assert!(booted.says("the stack has run over: this is the guard below it"), "{}", booted.console);
        assert!(booted.says("] table at 0x") && booted.says("] nothing"), "{}", booted.console);
    }
}

/// More warnings than there is room for before the console works: whole lines are kept, and the rest counted.
#[test]
fn a_flood_of_warnings_is_no_failure() {
    let noise: Vec<String> = (0..400).map(|i| format!("noise{i}")).collect();
    let booted = first_gigabyte(&["--append", &noise.join(" ")]).expect_well("noise is ignored");
    assert!(booted.says("warning: boot argument 'noise0' ignored"), "{}", booted.console);
    assert!(booted.says("more lines were said before there was a console, and are lost"));
}

/// More reservations than can be kept apart: free memory is not known, so nothing is guessed.
#[test]
fn too_many_reservations_stop_it() {
    let many = |step: u64| {
        let ranges: Vec<(u64, u64)> = (0..200).map(|i| (0x5000_0000 + i * step, 0x1000)).collect();
        Loader::new().tree(|tree| tree.root.add_child(reserved(&ranges))).boot()
    };
    expect_stop(&many(0x2000), "the device tree reserves more than 128 separate ranges");
    many(0x1000).expect_well("one range in 200 pieces");
    let outside: Vec<(u64, u64)> = (0..200).map(|i| (0x1_0000_0000 + i * 0x2000, 0x1000)).collect();
    let loader = Loader::new().tree(|tree| tree.root.add_child(reserved(&outside)));
    loader.boot().expect_well("what is not RAM needs no room");
}

/// As many reservations as can be kept apart, the last one in the middle of RAM: the shortest pieces are not used.
#[test]
fn many_reservations_cost_no_more_than_themselves() {
    let low = (0..126).map(|i| (0x5000_0000 + i * 0x2000, 0x1000));
    let ranges: Vec<(u64, u64)> = low.chain([(0x6800_0000, 0x1000)]).collect();
    let loader = Loader::new().tree(|tree| tree.root.add_child(reserved(&ranges)));
    let booted = loader.boot().expect_well("the longest pieces are used");
    assert!(booted.says("the shortest"), "{}", booted.console);
    let free = booted.number("/memory/free_bytes");
    assert!(free > (1 << 30) - (8 << 20), "{free:#x} of 1 GiB are free");
}

/// A missing console does not silence the report of it.
#[test]
fn a_console_that_faults_is_reported_on_another() {
    let uart_at = |address: u64| {
        Loader::new().tree(|tree| {
            let uart = tree.find_node_mut("/pl011@9000000").expect("QEMU's tree has a console");
            let reg = [address.to_be_bytes(), 0x1000_u64.to_be_bytes()].concat();
            uart.add_property(DeviceTreeProperty::new("reg", reg.as_slice()).expect("a property"));
        })
    };
    for nowhere in [0x0f00_0000, 0x2_0000_0000, 1 << 47] {
        expect_stop(&uart_at(nowhere).boot(), "synchronous exception (data abort: external abort)");
    }
    for absurd in [0x4100_0000, 1 << 60, 0x0900_0002] {
        let booted = uart_at(absurd).boot().expect_well("the default console will do");
        assert!(booted.says("warning: no console can be at 0x"), "{}", booted.console);
    }
}

/// A name is text, not another line of the report.
#[test]
fn a_model_can_not_forge_a_report() {
    let loader = Loader::new().tree(|tree| {
        let model = b"board\nlinmap: {\"forged\":1}\n\0";
        tree.root.add_property(DeviceTreeProperty::new("model", &model[..]).expect("a property"));
    });
    let booted = loader.boot().expect_well("a strange name");
    assert_eq!(booted.document.get("forged"), None);
    assert!(booted.text("/machine").contains('\n'));
}
