//! A kernel from its first instruction to a linear map whose pages change, for QEMU's machine `virt`:
//!
//!     make bare-metal
//!     qemu-system-aarch64 -M virt -cpu max -smp 2 -m 512M -nic none -nographic -kernel target/bare-metal.elf
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]
// ANCHOR: imports
#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::fmt::{self, Write};
use core::hint::spin_loop;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::*};
use linmap::arm64::{Cpu, Cpus, Start, start};
use linmap::prelude::*;
use smccc::{Hvc, psci};
// ANCHOR_END: imports

// ANCHOR: machine
/// A real kernel reads from the device tree where its RAM and its console are.
const RAM: Range<Pa> = Pa(0x4000_0000)..Pa(0x6000_0000);
const CONSOLE: Range<Pa> = Pa(0x900_0000)..Pa(0x900_1000);
const GEOMETRY: Geometry = match Geometry::new(Granule::K4, 48, OaFormat::Bits48) {
    Ok(geometry) => geometry,
    Err(_) => panic!("4K pages are not in this build"),
};

/// The address of a symbol of link.ld or start.s: physical, and virtual in the lower half.
macro_rules! at {
    ($name:ident) => {{
        unsafe extern "C" {
            static $name: u8;
        }
        Pa(&raw const $name as u64)
    }};
}
// ANCHOR_END: machine
// ANCHOR: boot
global_asm!(include_str!("start.s"));

/// Left by `boot` to `main`: a pool of table pages, the upper half, and the registers of the CPUs.
static mut BOOT: MaybeUninit<(OffsetMemory, Tree, Registers)> = MaybeUninit::uninit();

/// With the MMU off: maps the kernel where it is, each segment with its permissions, and turns the MMU on.
#[unsafe(no_mangle)]
extern "C" fn boot() -> ! {
    // SAFETY: from .bss to the end, all that is of use is written with the MMU off.
    unsafe { Cpu.discard(Va(at!(bss_start).0), at!(image_end).0 - at!(bss_start).0) };
    // SAFETY: with the MMU off, all RAM is at its physical address.
    let pool: OffsetMemory = unsafe { OffsetMemory::new(GEOMETRY, RAM, 0) };
    // SAFETY: nothing else uses these pages.
    unsafe { pool.add(at!(pool_start)..at!(pool_end)) };
    let kernel = [
        Region::identity(CONSOLE, Attributes::DEVICE),
        Region::identity(at!(text_start)..at!(rodata_start), Attributes::KERNEL_TEXT),
        Region::identity(at!(rodata_start)..at!(data_start), Attributes::KERNEL_RODATA),
        Region::identity(at!(data_start)..at!(image_end), Attributes::KERNEL_DATA),
    ];
    let kernel = kernel.into_iter().flat_map(|region| region.runs(GEOMETRY));
    let lower = Tree::build(&pool, GEOMETRY, Half::Lower, kernel).expect("table pages").into_root();
    let upper = Tree::build(&pool, GEOMETRY, Half::Upper, [].into_iter()).expect("a table page");
    let roots = ((GEOMETRY, lower.into_pa()), (GEOMETRY, upper.root()));
    let registers = Registers::new(&Cpu::features(), roots.0, roots.1).expect("a CPU with 4K pages");
    let first = on(registers, at!(stack_top), main as *const (), 0);
    // SAFETY: nobody else runs, and the lower half maps all of this kernel. After `discard` it is in memory.
    unsafe {
        (&raw mut BOOT).write(MaybeUninit::new((pool, upper, registers)));
        Cpu.discard(Va(at!(bss_start).0), at!(image_end).0 - at!(bss_start).0);
        start(&first)
    }
}

/// The state of a CPU when its MMU is on.
fn on(registers: Registers, stack: Pa, entry: *const (), argument: u64) -> Start {
    Start { registers, stack: Va(stack.0), vectors: Va(at!(vectors).0), entry: Va(entry as u64), argument }
}
// ANCHOR_END: boot
// ANCHOR: linear
// SAFETY: each CPU is admitted before anything changes, and has the registers that linmap makes.
static CPUS: Cpus<spin::Mutex<()>> = unsafe { Cpus::new() };

/// With the MMU on: creates the linear map, and an allocator of the RAM that it maps.
extern "C" fn main() -> ! {
    // SAFETY: `boot` has written it, and leaves it to this function.
    let (pool, upper, registers) = unsafe { (&raw const BOOT).read().assume_init() };
    let never_aborts = CPUS.admit(&Cpu::features()).never_aborts;
    let decision = Decision::on_boot_cpu(never_aborts, Rodata::Full, SplitFallback::Pages);
    let (mut ram, read_only) = ([RAM], at!(text_start)..at!(data_start));
    let layout = Layout::of_ram(GEOMETRY, &mut ram).expect("RAM");
    let layout = layout.with_image(read_only, Rodata::Full).expect("an image in RAM");
    let space = SharedSpace::adopt(upper);
    space.set_policy(decision.policy);
    // SAFETY: this is the only lock on the tables; RAM is RAM, and nobody writes to the kernel's text and constants.
    let created = unsafe { space.on(&Combined::new(&pool, &CPUS)).create(&layout, decision.leaves()) };
    created.expect("table pages");
    // SAFETY: the linear map has all RAM.
    let memory: OffsetMemory<spin::Mutex<()>> = unsafe { pool.moved(RAM, layout.offset()) };
    // SAFETY: nothing else uses what is above the kernel.
    unsafe { memory.add(at!(image_end)..RAM.end) };
    // ANCHOR_END: linear
    // ANCHOR: second
    let page = memory.take().expect("free RAM").into_pa();
    let word = layout.va(page).expect("all RAM is mapped");
    // SAFETY: the page was free.
    unsafe { (word.0 as *mut u64).write_volatile(41) };
    // QEMU's CPUs are equal, so this one gets CPU 0's registers. Where CPUs differ, each reports its `Features` first and
    // makes its own `Registers`.
    let second = on(registers, at!(second_stack_top), second_cpu as *const (), word.0);
    Cpu.clean(Va(&raw const second as u64), size_of::<Start>() as u64);
    psci::cpu_on::<Hvc>(1, start as *const () as u64, &raw const second as u64).expect("a second CPU");
    wait_for(1);
    // ANCHOR_END: second
    // ANCHOR: protect
    // SAFETY: as for the pool.
    let platform = unsafe { Combined::new(&memory, &CPUS) };
    // SAFETY: that a CPU still writes to the page is what this is about.
    unsafe { space.on(&platform).protect(word, 1, Change::READ_ONLY) }.expect("a page of the linear map");
    space
        .on(&platform)
        .read(|reader| reader.dump(MarkedRange::linear_map(GEOMETRY), &mut Console))
        .expect("a console");
    STEP.store(word.0, Release);
    sleep()
}

/// The other CPU: its TLB has an entry by which it writes to the page, until that is read-only.
extern "C" fn second_cpu(word: *mut u64) -> ! {
    CPUS.admit(&Cpu::features());
    // SAFETY: the page is mapped, and this CPU's for now.
    let read = unsafe { word.replace(42) };
    _ = writeln!(Console, "CPU 1 reads {read} at {word:?}, and writes 42");
    STEP.store(1, Release);
    wait_for(word as u64);
    // SAFETY: it faults.
    unsafe { word.write_volatile(43) };
    panic!("a read-only page was written")
}

/// Where an exception of any CPU ends the run: the one that is due, or another.
#[unsafe(no_mangle)]
extern "C" fn fault() -> ! {
    let (esr, far): (u64, u64);
    // SAFETY: reading them has no side effect.
    unsafe { asm!("mrs {}, esr_el1", "mrs {}, far_el1", out(reg) esr, out(reg) far) };
    // A data abort of this level, for a write, by permission.
    let due = far == STEP.load(Acquire) && esr >> 26u32 == 0x25 && esr & 0x7c == 0x4c;
    let what = if due { "the write to the read-only page faults" } else { "wrong: an exception" };
    end(format_args!("{what}: ESR {esr:#x}, FAR {far:#x}"))
}
// ANCHOR_END: protect

// ANCHOR: rest
static STEP: AtomicU64 = AtomicU64::new(0);

fn wait_for(step: u64) {
    while STEP.load(Acquire) != step {
        spin_loop();
    }
}

fn sleep() -> ! {
    loop {
        spin_loop();
    }
}

struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the data register of a PL011, which is mapped, as QEMU leaves it.
        text.bytes().for_each(|byte| unsafe { (CONSOLE.start.0 as *mut u32).write_volatile(byte.into()) });
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    end(format_args!("wrong: {info}"))
}

fn end(last_words: fmt::Arguments<'_>) -> ! {
    _ = writeln!(Console, "{last_words}");
    _ = psci::system_off::<Hvc>();
    sleep()
}
// ANCHOR_END: rest
