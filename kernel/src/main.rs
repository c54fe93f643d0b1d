//! The bootable image: one kernel for every page size, and what it is for — its linear map.
//!
//! The entry code maps the image at its high address in whatever granule the CPU has; from there on
//! everything is Rust. Page size and VA size are values, chosen once from the boot arguments.
#![no_std]
#![no_main]

mod area;
mod boot;
mod code;
mod console;
mod counters;
mod cpu;
mod crash;
mod ending;
mod exceptions;
mod frames;
mod hardware;
mod identity;
mod interrupts;
mod json;
mod kprobes;
mod leaf;
mod lock;
mod memory;
mod parking;
mod poke;
mod psci;
mod repaint;
mod report;
mod smp;
mod tests;
mod workloads;

use core::fmt;
use core::ops::Range;

use kernel_plan::bootargs::BootArgs;
use kernel_plan::device_tree::total_size;
use kernel_plan::machine::{self, Machine};
use kernel_plan::note::Note;
use kernel_plan::plan::{Given, Plan, Room};
use kernel_plan::tasks::{Refusal, Task};
use kernel_plan::uart::{self, Consoles};
use kernel_plan::{admit, choice};
use linmap::arm64::Cpu;
use linmap::{AddressSpace, BbmPromise, Both, Decision, Features, Geometry, Granule, Pa, Stats};
use spin::mutex::SpinMutex;

use crate::boot::Image;
use crate::console::say;
use crate::counters::Counters;
use crate::crash::Crash;
use crate::ending::{fail, finish};
use crate::frames::Frames;
use crate::hardware::{HARDWARE, Kernel};
use crate::memory::{Costs, Mapped};
use crate::repaint::Repainted;
use crate::smp::Team;

/// What the system is, once it is up.
pub(crate) struct System<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) args: &'a BootArgs<'a>,
    pub(crate) features: Features,
    pub(crate) decision: Decision,
    pub(crate) promise: BbmPromise,
    pub(crate) geometry: Geometry,
    pub(crate) memory: &'a Plan<'a>,
    pub(crate) image: &'a Image,
    pub(crate) frames: &'a Frames,
    pub(crate) space: AddressSpace,
    /// What the linear map is made of when all that was changed is undone.
    pub(crate) stats: SpinMutex<Stats>,
    pub(crate) crash: Crash,
    pub(crate) costs: Costs,
    /// What it took to put the map into pages, if that was done.
    pub(crate) repainted: Option<Repainted>,
    pub(crate) counters: &'a Counters,
    /// The table pages of the upper half that are not the linear map's, before anything is mapped at will, and
    /// the empty one of the lower half.
    pub(crate) held_tables: u64,
    /// The table pages of the 1:1 map.
    pub(crate) identity_tables: u64,
    /// Where all that is mapped ends in physical memory.
    pub(crate) highest: Pa,
    /// The other CPUs.
    pub(crate) team: Team,
}

impl<'a> System<'a> {
    /// What the linear map is made of.
    pub(crate) fn stats(&self) -> Stats {
        *self.stats.lock()
    }

    /// Table pages and CPUs, as the library wants them.
    pub(crate) const fn platform(&self) -> Both<'a, Frames, Kernel> {
        // SAFETY: all live tables are of this frame source, and locked through `HARDWARE` alone.
        unsafe { Both::new(self.frames, &HARDWARE) }
    }
}

/// Where the entry code goes: the device tree and the image at their physical addresses, and the
/// exception level that the loader started it at. The image is mapped at its high address.
#[unsafe(no_mangle)]
extern "C" fn kernel_main(dtb: u64, image: u64, level: u64) -> ! {
    cpu::set_mpidr(0, cpu::own_mpidr());
    // Firmware is called by HVC from EL1 and by SMC from EL2, unless the device tree says otherwise.
    psci::use_conduit(if level == 2 { machine::Conduit::Smc } else { machine::Conduit::Hvc });
    let image = Image::at(Pa(image));
    let tree = device_tree(dtb);
    let machine = match Machine::read(tree, &mut note) {
        Ok(machine) => machine,
        Err(e) => fail(format_args!("{e}")),
    };
    if uart::fallback(&machine).is_none() {
        // SAFETY: nowhere is always right.
        unsafe { console::may_fall_back_to(None) };
    }
    if let Some(conduit) = machine.conduit {
        psci::use_conduit(conduit);
    }
    let args = BootArgs::parse(&machine.bootargs, |ignored| warn(format_args!("{ignored}")));
    let tree = Pa(dtb)..Pa(dtb + tree.len() as u64);
    start(&machine, &args, image, &tree)
}

/// Something that people should know and that changes nothing else.
fn warn(what: fmt::Arguments<'_>) {
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static WARNINGS: AtomicU32 = AtomicU32::new(0);
    let number = WARNINGS.fetch_add(1, Relaxed);
    say!("warning: {what}");
    say!("linmap: {{\"messages\":{{\"{number}\":\"{}\"}}}}", json::Text(what));
}

/// Prints what is left out of the device tree or of memory.
fn note(note: Note<'_>) {
    warn(format_args!("{note}"));
}

/// The device tree that the loader left at `dtb`.
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

/// Chooses, maps, reports, ends.
fn start(machine: &Machine, args: &BootArgs<'_>, image: Image, tree: &Range<Pa>) -> ! {
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
    HARDWARE.rely_on(&features, never_aborts);

    let tree = tree.clone();
    let (range, read_only) = (image.range(), image.read_only());
    let given = Given { machine, args, geometry, pa_bits, image: range, read_only, tree };
    let mut room = Room::default();
    let memory = match Plan::new(&given, &mut room, &mut note) {
        Ok(memory) => memory,
        Err(e) => fail(format_args!("{e}")),
    };
    let frames = Frames::new(&image, geometry.page_size());
    let counters = Counters::start(&features);
    let consoles = Consoles::new(machine, pa_bits, &mut note);
    match memory::bring_up(&memory, &frames, &image, (geometry, &features), &consoles, &decision, &counters) {
        Ok(Mapped { space, stats, costs, identity_tables }) => {
            let (frames, memory, image) = (&frames, &memory, &image);
            let (root, reach) = (space.root(), frames.reach());
            exceptions::report_walks_of(exceptions::Tables { geometry, root, reach });
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
                crash: Crash::new(memory.crash.as_ref(), geometry.page_size()),
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

/// Starts interrupts, and has this CPU take them. Without them the system runs as well.
fn start_interrupts(system: &System<'_>) {
    let pa_bits = choice::pa_bits(&system.features, system.geometry);
    let started = interrupts::start(system.machine, pa_bits, &system.space, &system.platform());
    match started.and_then(|()| interrupts::start_cpu()) {
        Ok(()) => interrupts::unmask(),
        Err(e) => warn(format_args!("no interrupts: {e}")),
    }
}

/// Where all that is or may yet be mapped ends: RAM, the image, the registers of devices.
fn highest(machine: &Machine, memory: &Plan<'_>, image: &Image, consoles: &Consoles) -> Pa {
    let (ram, reached) = (memory.layout.ram().last(), memory.layout.mapped().end);
    let ram = ram.map_or(reached, |range| range.end.min(reached));
    let consoles = [consoles.named, consoles.fallback].into_iter().flatten().map(|uart| Pa(uart.0 + 1));
    let known = [ram, image.range().end].into_iter().chain(consoles);
    let controller = machine.interrupts.iter().flat_map(|c| c.ranges()).map(|r| r.end);
    known.chain(controller).max().unwrap_or_default()
}

/// Starts the other CPUs, then does what `run=` asks for, in its order.
fn run(mut system: System<'_>) -> ! {
    system.held_tables = report::kept_tables(&system);
    if let Err(e) = system.crash.set_apart(&system)
        && system.memory.crash.is_some()
    {
        warn(format_args!("the crash kernel's memory may not stay in pages: {e}"));
    }
    parking::start(system.image, system.geometry, system.space.root());
    start_interrupts(&system);
    smp::bring_up(&mut system);
    let system = &system;
    report::banner(system);
    report::document(system);
    let mut ok = report::check_frames(system) & report::check_map(system);
    for name in system.args.tasks() {
        match Task::parse(name) {
            Ok(task) => ok &= carry_out(system, task) || failed(name),
            Err(why @ Refusal::Unknown(_)) => {
                warn(format_args!("run={} ignored: {why}", name.escape_debug()));
            }
            Err(why) => {
                warn(format_args!("run={}: {why}", name.escape_debug()));
                ok = failed(name);
            }
        }
    }
    interrupts::report_unexpected();
    parking::report();
    finish(ok)
}

/// Says that a task failed, whatever it has said itself. That is not well.
fn failed(task: &str) -> bool {
    let name = task.split(':').next().unwrap_or_default();
    say!("linmap: {{\"tests\":{{\"{}\":{{\"ok\":false}}}}}}", json::Text(name));
    false
}

/// Does a task. Whether all went well.
fn carry_out(system: &System<'_>, task: Task) -> bool {
    match task {
        Task::Bench => workloads::bench::run(system),
        Task::Cpus => tests::cpus::run(system),
        Task::Crash => tests::crash::run(system),
        Task::Dump => report::dump(system),
        Task::Interrupts => tests::interrupts::run(),
        Task::Kprobes => tests::kprobes::run(system),
        Task::Late(milliseconds) => tests::late::run(system, milliseconds),
        Task::Micro => workloads::micro::run(system),
        Task::Modes => tests::modes::run(system),
        Task::Modules => tests::modules::run(system),
        Task::Protection => tests::protection::run(system),
        Task::Selftest => tests::selftest::run(system),
        Task::Stress(asked) => tests::stress::run(system, asked),
        Task::Together => tests::together::run(system),
        Task::Vmalloc80 => tests::vmalloc80::run(system),
        // For those who test how a run that goes wrong is reported.
        Task::Fail => {
            say!("linmap: {{\"tests\":{{\"fail\":{{\"why\":\"asked for by run=fail\"}}}}}}");
            false
        }
        Task::Fault => {
            fault(0);
            true
        }
        Task::FaultAll => {
            smp::on_all(&fault);
            true
        }
        Task::Overflow => {
            _ = overflow(core::hint::black_box(0));
            true
        }
        Task::OverflowLast => {
            smp::on(cpu::running().last().unwrap_or(0), &|_| {
                _ = overflow(core::hint::black_box(0));
            });
            true
        }
        Task::Panic => panic!("asked for by run=panic"),
        Task::Hang => loop {
            aarch64_cpu::asm::wfi();
        },
    }
}

/// Reads where nothing is mapped.
fn fault(_: usize) {
    let nowhere: *const u64 = core::ptr::with_exposed_provenance(0xdead_0000);
    // SAFETY: the lower half is empty, so this faults, and the fault ends the run.
    unsafe { nowhere.read_volatile() };
}

/// Uses the stack until there is none left.
fn overflow(depth: u64) -> u64 {
    let frame = core::hint::black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { overflow(depth + 1) + frame[depth as usize % 64] }
}
