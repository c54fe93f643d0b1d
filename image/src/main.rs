//! The bootable image: one kernel for every page size, built around its linear map.
//!
//! The entry code maps the image at its high address in whatever granule the CPU has; from there on everything is Rust.
//! Page size and VA size are values, chosen once from the boot arguments.
//!
//! A file uses only those before it in this list:
//!
//! - `json`, `virtual_addresses`, `psci`, `cpu`, `clock`, `lock`, `pmu`, `marks`, `probe`, `port`: single facts about machine and CPU.
//! - `translation`, `image`, `cpus`: register values, the image in memory, all CPUs as one.
//! - `frames`, `identity`: table pages; the 1:1 map.
//! - `interrupts`, `parking`, `limbo`, `hardware`: how CPUs reach each other, leave the upper half, read the tables, and
//!   lock them.
//! - `efi`: the start by EFI firmware.
//! - `counters`, `console`, `warning`, `ending`, `exceptions`: counts and text, and how a run ends.
//! - `boot`, `early`, `memory`: from the entry code's map to the final one, splits on the way, and the linear map.
//! - `smp::{slot, mailbox, held, team, idle}`, `handler`, `system`: the other CPUs; the interrupt handler; all as one
//!   value.
//! - `leaf`, `area`, `code`, `poke`, `kprobes`, `crash`, `hidden`, `repaint`: users of the map.
//! - `smp::{stacks, spin_table, bring_up}`, `report`: how the other CPUs come up; what is printed.
//! - `exercises`: the tasks of `run=`; `scratch`, `tally`, `traffic`, `counted`, `planned` and `costs` before those that use them.
//! - this file: the sequence of a boot.
#![no_std]
#![no_main]
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod area;
mod boot;
mod clock;
mod code;
mod console;
mod counters;
mod cpu;
mod cpus;
mod crash;
mod early;
mod efi;
mod ending;
mod exceptions;
mod exercises;
mod frames;
mod handler;
mod hardware;
mod hidden;
mod identity;
mod image;
mod interrupts;
mod json;
mod kprobes;
mod leaf;
mod limbo;
mod lock;
mod marks;
mod memory;
mod parking;
mod pmu;
mod poke;
mod port;
mod probe;
mod psci;
mod repaint;
mod report;
mod smp;
mod system;
mod translation;
mod virtual_addresses;
mod warning;

use core::ops::Range;

use kernel::crashkernel::Reserved;
use kernel_plan::bootargs::BootArgs;
use kernel_plan::device_tree::{is_empty, total_size};
use kernel_plan::machine::{self, Machine};
use kernel_plan::plan::{Draft, Given, Plan, PlanError, Room};
use kernel_plan::tasks::{Refusal, Task};
use kernel_plan::uart::{self, Consoles};
use kernel_plan::{admit, choice};
use linmap::arm64::Cpu;
use linmap::policy::Decision;
use linmap::{Granule, Pa};
use spin::mutex::SpinMutex;

use crate::console::say;
use crate::counters::Counters;
use crate::efi::HandedOver;
use crate::ending::{fail, finish};
use crate::frames::Frames;
use crate::hardware::HARDWARE;
use crate::image::Image;
use crate::lock::Guarded;
use crate::memory::Mapped;
use crate::smp::team::Team;
use crate::system::System;
use crate::warning::{note, warn};

/// The entry code comes here, with the physical addresses of device tree and image, the exception level that the loader
/// started it at, and the address of what the EFI stub handed on, or 0. The image is mapped at its high address.
#[unsafe(no_mangle)]
extern "C" fn kernel_main(dtb: u64, image: u64, level: u64, handover: u64) -> ! {
    cpu::set_mpidr(0, cpu::own_mpidr());
    // Firmware is called by HVC from EL1 and by SMC from EL2, unless the device tree says otherwise.
    psci::use_conduit(if level == 2 { machine::Conduit::Smc } else { machine::Conduit::Hvc });
    let image = Image::at(Pa(image));
    // SAFETY: the entry code has the address from the stub, and maps it; the area is set apart.
    let efi = unsafe { HandedOver::at(handover) };
    let (machine, loaded) = match &efi {
        Some(efi) => (by_efi(efi), efi.range()),
        None => by_loader(dtb),
    };
    if uart::fallback(&machine).is_none() {
        // SAFETY: no address needs no promise.
        unsafe { console::may_fall_back_to(None) };
    }
    if let Some(conduit) = machine.conduit {
        psci::use_conduit(conduit);
    }
    let args = BootArgs::parse(&machine.bootargs, |ignored| warn(format_args!("{ignored}")));
    start(&machine, &args, image, &loaded, efi)
}

/// Returns the machine that a loader's device tree describes, and where the tree is.
fn by_loader(dtb: u64) -> (Machine, Range<Pa>) {
    let tree = device_tree(dtb);
    match Machine::read(tree, &mut note) {
        Ok(machine) => (machine, Pa(dtb)..Pa(dtb + tree.len() as u64)),
        Err(e) => fail(format_args!("{e}")),
    }
}

/// Returns the machine that EFI firmware describes. Its memory map says which RAM there is; a command line of the stub's takes
/// the place of the device tree's boot arguments.
fn by_efi(efi: &HandedOver) -> Machine {
    let map = match efi.memory_map() {
        Ok(map) => map,
        Err(e) => fail(format_args!("{e}")),
    };
    // A tree of boot arguments alone describes nothing.
    let tree = efi.device_tree().filter(|tree| efi.acpi().is_none() || !is_empty(tree));
    let read = match tree {
        Some(tree) => Machine::read_with(tree, Some(map), &mut note),
        None => Machine::read_acpi(efi.acpi().unwrap_or_default(), map, &mut note),
    };
    let mut machine = read.unwrap_or_else(|e| fail(format_args!("{e}")));
    if let Some(line) = efi.command_line() {
        machine.bootargs.clear();
        // There is room: a command line is no longer than boot arguments.
        machine.bootargs.push_str(line);
    }
    machine
}

/// Returns the device tree that the loader left at `dtb`.
fn device_tree(dtb: u64) -> &'static [u8] {
    if dtb == 0 {
        fail(format_args!("the loader gave no device tree: x0 must hold its address, a multiple of 8"));
    }
    let start: *const u8 = core::ptr::with_exposed_provenance(dtb as usize);
    // SAFETY: the entry code has mapped from the 2 MiB boundary below `dtb` for 4 MiB, so 8 bytes and
    // 2 MiB from `dtb` on are mapped; nothing writes there before the memory is handed out, and it
    // never is.
    let header = unsafe { start.cast::<[u8; 8]>().read() };
    match total_size(header) {
        // SAFETY: as above.
        Some(size @ ..=0x20_0000) => unsafe { core::slice::from_raw_parts(start, size) },
        Some(size) => {
            fail(format_args!("the device tree at {dtb:#x} claims {size} bytes; 2 MiB is the limit"))
        }
        None => fail(format_args!("no device tree at {dtb:#x}: it starts with {header:02x?}")),
    }
}

/// Chooses a geometry, plans memory, maps it, and runs. `tree` is where the loader's data are, `efi` what firmware handed on that
/// called the image, if it did. Never returns.
fn start(
    machine: &Machine,
    args: &BootArgs<'_>,
    image: Image,
    tree: &Range<Pa>,
    efi: Option<HandedOver>,
) -> ! {
    let features = Cpu::features();
    let fell_back = |f| warn(format_args!("{f}"));
    let Ok(geometry) = choice::geometry(args, &features, fell_back) else {
        let built = Granule::BUILT;
        fail(format_args!(
            "the CPU has no page size of this build, {built:?} (ID_AA64MMFR0_EL1 {:#x})",
            features.mmfr0
        ));
    };
    let pa_bits = choice::pa_bits(&features, geometry);
    let promise = features.bbm_promise();
    let never_aborts = admit::claims(args.bbml2, 0, promise);
    let decision = Decision::on_boot_cpu(never_aborts, args.rodata, args.split);
    hardware::rely_on(&features, never_aborts);

    let tree = tree.clone();
    let (range, read_only, data) = (image.range(), image.read_only(geometry.page_size()), image.data());
    let Machine { ram, reserved, no_map, .. } = machine;
    let given = Given { ram, reserved, no_map, args, geometry, pa_bits, image: range, read_only, data, tree };
    let mut room = Room::default();
    let counters = Counters::start(&features);
    let planned = Draft::new(&given, &mut room, &mut note).and_then(|(draft, lists)| {
        let (layout, counted) = counters.window(&HARDWARE.cpu, || lists.lay_out());
        Ok((draft.with(layout.map_err(PlanError::Layout)?), counted))
    });
    let (memory, layout) = match planned {
        Ok(planned) => planned,
        Err(e) => fail(format_args!("{e}")),
    };
    let frames = Frames::new(&image, geometry.page_size(), parking::answer_if_asked);
    let consoles = Consoles::new(machine, pa_bits, &mut note);
    match memory::bring_up(
        (args, &memory),
        &frames,
        &image,
        (geometry, &features),
        &consoles,
        &decision,
        (&counters, layout),
    ) {
        Ok(Mapped { space, stats, costs, identity_tables }) => {
            let (frames, memory, image) = (&frames, &memory, &image);
            if let Some(efi) = &efi {
                report::map_is_live(efi.entered_at());
            }
            exceptions::report_walks_of(exceptions::Tables { geometry, reach: frames.reach() });
            let reserved = memory.crash.clone().map(|range| Reserved::new(range, geometry.page_size()));
            run(System {
                machine,
                args,
                features,
                decision,
                promise,
                geometry,
                memory,
                image,
                frames,
                space,
                stats: SpinMutex::new(stats),
                crash: Guarded::new(reserved, parking::answer_if_asked),
                costs,
                repainted: None,
                counters: &counters,
                held_tables: 0,
                identity_tables,
                highest: highest(machine, memory, image, &consoles),
                team: Team::default(),
            })
        }
        Err(e) => fail(format_args!("{e}")),
    }
}

/// Starts interrupts, and lets this CPU take them. The system runs without them as well.
fn start_interrupts(system: &System<'_>) {
    let pa_bits = choice::pa_bits(&system.features, system.geometry);
    let started = interrupts::start(system.machine, pa_bits, system.space, &system.platform());
    match started.and_then(|()| interrupts::start_cpu()) {
        Ok(()) => interrupts::unmask(),
        Err(e) => warn(format_args!("no interrupts: {e}")),
    }
}

/// Returns the end of all that is or may be mapped: RAM, the image, the registers of devices.
fn highest(machine: &Machine, memory: &Plan<'_>, image: &Image, consoles: &Consoles) -> Pa {
    let (ram, reached) = (memory.layout.ram().last(), memory.layout.mapped().end);
    let ram = ram.map_or(reached, |range| range.end.min(reached));
    let consoles = [consoles.named.map(|uart| uart.registers), consoles.fallback];
    let consoles = consoles.into_iter().flatten().map(|registers| Pa(registers.0 + 1));
    let known = [ram, image.range().end].into_iter().chain(consoles);
    let controller = machine.interrupts.iter().flat_map(|c| c.ranges()).map(|r| r.end);
    known.chain(controller).max().unwrap_or_default()
}

/// Starts the other CPUs, then does what `run=` names, in its order. Never returns.
fn run(mut system: System<'_>) -> ! {
    system.held_tables = report::kept_tables(&system);
    if let Err(e) = hidden::hide(&system) {
        fail(format_args!("the image's data cannot be hidden in the linear map: {e}"));
    }
    if system.args.root_stays {
        system.space.fix_root();
    }
    start_interrupts(&system);
    smp::bring_up(&mut system);
    let system = &system;
    report::banner(system);
    report::document(system);
    let mut ok = report::check_frames(system) & report::check_map(system);
    for name in system.args.tasks() {
        match Task::parse(name) {
            Ok(task) => ok &= exercises::run(system, task) || failed(name),
            Err(why @ Refusal::Unknown(_)) => {
                warn(format_args!("run={} ignored: {why}", name.escape_debug()));
            }
            Err(why) => {
                warn(format_args!("run={}: {why}", name.escape_debug()));
                ok = failed(name);
            }
        }
    }
    report::unexpected_interrupts();
    report::parkings();
    report::splits(system);
    finish(ok, system.args.resets)
}

/// Reports that a task failed, whatever it has reported itself. Returns false.
fn failed(task: &str) -> bool {
    let name = task.split(':').next().unwrap_or_default();
    say!("linmap: {{\"tests\":{{\"{}\":{{\"ok\":false}}}}}}", json::Text(name));
    false
}
