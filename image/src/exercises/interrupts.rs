//! Interrupts as the CPU takes them: timers tick, CPUs reach each other, and interrupted code does not notice.

use core::arch::asm;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use aarch64_cpu::asm::wfi;

use crate::clock::{comes_true, counter_frequency, now};
use crate::console::say;
use crate::cpu;
use crate::handler::PROBE_AT_WAKE;
use crate::interrupts::{self, Sgi, TICKS_PER_SECOND, counts, is_started, own_ticks};
use crate::warning::warn;

/// The number of ticks to wait for.
const TICKS: u64 = 5;

/// The cases tried, and those that went wrong.
#[derive(Default)]
struct Tally {
    tried: u32,
    wrong: u32,
}

impl Tally {
    fn add(&mut self, what: fmt::Arguments<'_>, right: bool) {
        self.tried += 1;
        self.wrong += u32::from(!right);
        say!("  {what}{}", if right { "" } else { ": WRONG" });
    }
}

/// Tries all of them. Returns true if all went well.
pub(super) fn run() -> bool {
    let own = cpu::this().index;
    let Some(version) = interrupts::version().filter(|_| is_started(own)) else {
        warn(format_args!("run=interrupts: there are no interrupts on this CPU"));
        return false;
    };
    let mut tally = Tally::default();
    let before = counts(own);
    ticks(&mut tally);
    tally.add(format_args!("registers that a tick must not change"), registers_stay());
    let cpus = || (0..cpu::MAX).filter(|cpu| is_started(*cpu));
    for cpu in cpus() {
        tally.add(format_args!("CPU {cpu} ticks"), ticks_on(cpu));
        tally.add(format_args!("CPU {cpu} woken by CPU {own}"), woken(cpu));
    }
    PROBE_AT_WAKE.store(true, Relaxed);
    let woken_by_fault = woken(own);
    PROBE_AT_WAKE.store(false, Relaxed);
    // Flags and masks are restored: interrupts come as before.
    tally.add(format_args!("a handler that faults and recovers"), woken_by_fault && ticks_on(own));
    let others: [u64; cpu::MAX] = core::array::from_fn(|cpu| counts(cpu).wakes);
    interrupts::send_to_others(Sgi::Wake);
    let all = comes_true(|| cpus().all(|cpu| cpu == own || counts(cpu).wakes > others[cpu]));
    tally.add(format_args!("all others woken at once"), all && counts(own).wakes == others[own]);
    let after = counts(own);
    let strange = after.unexpected != 0 || after.parks != before.parks;
    tally.add(format_args!("nothing that was not asked for"), !strange);
    let (ok, Tally { tried, wrong }) = (tally.wrong == 0, tally);
    say!("interrupts: GICv{version}, {tried} cases tried, {wrong} wrong\n");
    say!(
        "linmap: {{\"tests\":{{\"interrupts\":{{\"ok\":{ok},\"gic\":{version},\"cpus\":{},\"tried\":{tried},\"wrong\":{wrong},\
         \"ticks\":{},\"spurious\":{}}}}}}}",
        cpus().count(),
        after.ticks,
        after.spurious
    );
    ok
}

/// Ticks come, end a WFI, and are no more frequent than they should be.
fn ticks(tally: &mut Tally) {
    let comes = ticks_on(cpu::this().index);
    tally.add(format_args!("a tick"), comes);
    if !comes {
        return;
    }
    let ticks = || own_ticks().load(Relaxed);
    let (start, first) = (now(), ticks());
    while ticks() < first + TICKS {
        wfi();
    }
    // The first may have been due for long, and the second right after it, as a CPU that is a thread may sleep at any
    // time.
    let least = (TICKS - 2) * counter_frequency() / TICKS_PER_SECOND;
    tally.add(format_args!("{TICKS} ticks, waited for by WFI"), now() - start >= least);
}

/// Returns true if another tick of a CPU comes.
fn ticks_on(cpu: usize) -> bool {
    let before = counts(cpu).ticks;
    comes_true(|| counts(cpu).ticks != before)
}

/// Returns true if a CPU takes a wake-up. An earlier one, which was to end its sleep, may still come, so there may be
/// two.
fn woken(cpu: usize) -> bool {
    let before = counts(cpu).wakes;
    interrupts::send(cpu, Sgi::Wake);
    comes_true(|| counts(cpu).wakes > before)
}

/// Returns true if the registers that functions may change, and the flags, are the same after a tick.
fn registers_stay() -> bool {
    let changed: u64;
    let ticks = own_ticks().as_ptr();
    // SAFETY: it reads the count of ticks, an aligned word that its CPU stores whole; all else are registers.
    unsafe {
        asm!(
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,30",
            r"mov x\n, #(\n * 17 + 1)",
            ".endr",
            "ldr x22, [x20]",
            // N and C, and neither Z nor V.
            "mov x23, #0xa0000000",
            "msr nzcv, x23",
            "2: ldr x24, [x20]",
            "sub x24, x24, x22",
            "cbz x24, 2b",
            "mrs x24, nzcv",
            "eor x21, x23, x24",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,30",
            r"sub x24, x\n, #(\n * 17 + 1)",
            "orr x21, x21, x24",
            ".endr",
            in("x20") ticks, inout("x21") 0u64 => changed, out("x22") _, out("x23") _, out("x24") _,
            out("x0") _, out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _, out("x6") _,
            out("x7") _, out("x8") _, out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x13") _,
            out("x14") _, out("x15") _, out("x16") _, out("x17") _, out("x30") _,
            options(nostack),
        );
    }
    changed == 0
}
