//! Kprobes in functions that all CPUs call meanwhile: the handler sees each call, results stay right, and at no time
//! can code be written at any of its addresses.

use core::arch::global_asm;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use kernel::instructions::{NOP, RET, add, movz};
use linmap::{Rodata, Va};

use super::tally::Tally;
use crate::area::Area;
use crate::clock::comes_true;
use crate::code::Code;
use crate::exceptions::Registers;
use crate::kprobes::{Error, Kprobe};
use crate::probe::{try_read, try_write};
use crate::system::System;
use crate::{cpu, smp};

global_asm!(
    ".pushsection .text.probed, \"ax\"",
    ".balign 64",
    ".global probed_function",
    "probed_function:",
    "add x1, x0, x0, lsl #1",
    "add x0, x1, #7",
    "ret",
    ".balign 8",
    ".quad 0",
    ".popsection",
);

unsafe extern "C" {
    /// Returns three times a number and 7. After it is a word that nothing uses.
    safe fn probed_function(number: u64) -> u64;
}

/// The rounds of planting and removing on four CPUs. On more CPUs there are fewer, as holding them takes longer.
const ROUNDS: u64 = 8;
/// The calls of each function meanwhile.
const CALLS: u64 = 8;
/// The probes of a round.
const PROBES: u64 = 3;
/// The limit for parameters of functions.
const LIMIT: u64 = 1 << 32;

/// The calls of the handler on each CPU.
static HITS: [AtomicU64; cpu::MAX] = [const { AtomicU64::new(0) }; cpu::MAX];
/// The calls that the handler did not expect.
static STRANGE: AtomicU64 = AtomicU64::new(0);

fn handler(registers: &Registers) {
    HITS[cpu::this().index].fetch_add(1, Relaxed);
    let strange = registers.x[0] >= LIMIT * 4;
    STRANGE.fetch_add(u64::from(strange), Relaxed);
}

fn rounds() -> u64 {
    (4 * ROUNDS / cpu::running().count() as u64).clamp(2, ROUNDS)
}

fn hits() -> u64 {
    HITS.iter().map(|hits| hits.load(Relaxed)).sum()
}

struct Test<'a> {
    system: &'a System<'a>,
    area: Area<'a>,
    tally: Tally<'a>,
    /// A function like the one above that adds 9 to a number.
    code: Code<'a>,
    /// Words of code that must not be writable, at their own address and at that of the linear map, and whether they
    /// may be writable nevertheless.
    text: [Option<(Va, bool)>; 4],
    over: AtomicBool,
    calls: AtomicU64,
}

/// Plants probes while all CPUs call. Returns true if all went well.
pub(super) fn run(system: &System<'_>) -> bool {
    let (area, tally) = (Area::of(system), Tally::start("kprobes", system));
    // SAFETY: a function of one parameter, which fits.
    let loaded = unsafe { Code::load(area, 1, &[NOP, movz(1, 9), add(0, 0, 1), RET]) };
    let Some(code) = tally.done(loaded, "no code can be loaded") else {
        return tally.conclude(format_args!("nothing"), &[]);
    };
    let text = words(system, area, &code);
    let before = hits();
    let (over, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let test = Test { system, area, tally, code, text, over, calls };
    smp::on_all(&|cpu| if cpu == 0 { test.first() } else { test.other(cpu) });
    let Test { tally, code, calls, .. } = test;
    code.unload();
    tally.expect(STRANGE.load(Relaxed) == 0, "the handler saw registers that no caller had");
    let (hits, calls, probes) = (hits() - before, calls.load(Relaxed), rounds() * PROBES);
    let cpus = cpu::running().count() as u64;
    tally.conclude(
        format_args!(
            "{probes} probes came and went under {calls} calls on {cpus} CPUs and were hit {hits} times; code was \
             never writable"
        ),
        &[("probes", probes), ("calls", calls), ("hits", hits), ("cpus", cpus)],
    )
}

/// Words of code that nothing executes.
fn words(system: &System<'_>, area: Area<'_>, code: &Code<'_>) -> [Option<(Va, bool)>; 4] {
    let System { memory, args, .. } = system;
    let alias = |va: Va| area.backing(va).map(|pa| Va(pa.0.wrapping_add(memory.layout.offset())));
    let text = Va(probed_function as *const () as u64 + 16);
    let own = Va(code.start().0 + 64);
    // Hidden code has none that can be tried like the others.
    let has_alias = !memory.alias.is_empty() && !args.hides_text;
    [
        Some((text, false)),
        alias(text).filter(|_| has_alias).map(|va| (va, args.rodata == Rodata::Off)),
        Some((own, false)),
        alias(own).map(|va| (va, args.rodata != Rodata::Full)),
    ]
}

impl<'a> Test<'a> {
    /// Checks the results of functions.
    fn call(&self, number: u64) {
        self.tally.expect(probed_function(number) == 3 * number + 7, "a function of the image fails");
        self.tally.expect(self.code.call(number) == number + 9, "a function that was loaded fails");
    }

    /// Checks that a word of code cannot be written, unless it may be.
    fn is_protected(&self, (va, writable): (Va, bool)) {
        // SAFETY: nothing uses the word, and it is written with its own value.
        let written = unsafe { try_write(va, try_read(va).unwrap_or(0)) };
        self.tally.permitted(written, writable, format_args!("code at {va}, writable: not {writable}"));
    }

    fn plant(&self, at: Va) -> Option<Kprobe<'a>> {
        // SAFETY: an instruction of a function that stays until the probe is removed.
        self.tally.done(unsafe { Kprobe::plant(self.area, at, handler) }, "no probe")
    }

    /// The CPU that plants and removes.
    fn first(&self) {
        let (text, code) = (probed_function as *const () as u64, self.code.start().0);
        for round in 0..rounds() {
            let probes = [text, text + 4, code + 4 * (round % 3)].map(|at| self.plant(Va(at)));
            self.planted(round);
            self.refused(&probes);
            for probe in probes.into_iter().flatten() {
                let slot = probe.slot();
                self.is_protected((slot, false));
                let alias =
                    self.area.backing(slot).map(|pa| pa.0.wrapping_add(self.system.memory.layout.offset()));
                if let Some(alias) = alias.filter(|_| self.system.args.rodata == Rodata::Full) {
                    self.is_protected((Va(alias), false));
                }
                if let Err((_, why)) = probe.remove() {
                    self.tally.expect(false, format_args!("a probe stays: {why:?}"));
                }
            }
            self.removed(round);
        }
        self.over.store(true, Relaxed);
    }

    /// Checks while the probes of a round are in place.
    fn planted(&self, round: u64) {
        let own = &HITS[cpu::this().index];
        let before = own.load(Relaxed);
        for call in 0..CALLS {
            self.call(round * CALLS + call);
        }
        let seen = own.load(Relaxed) - before;
        self.tally.expect(seen == PROBES * CALLS, format_args!("{seen} calls were seen"));
        let counts: [u64; cpu::MAX] = core::array::from_fn(|cpu| HITS[cpu].load(Relaxed));
        let each = || cpu::running().all(|cpu| cpu == 0 || HITS[cpu].load(Relaxed) > counts[cpu]);
        self.tally.expect(comes_true(each), "another CPU does not come across the probes");
    }

    /// Instructions that cannot be probed are refused.
    fn refused(&self, probes: &[Option<Kprobe<'a>>]) {
        let text = probed_function as *const () as u64;
        // SAFETY: as for `plant`.
        let twice = unsafe { Kprobe::plant(self.area, Va(text), handler) };
        // SAFETY: as for `plant`.
        let at_return = unsafe { Kprobe::plant(self.area, Va(text + 8), handler) };
        let refused = [twice, at_return].map(|result| match result {
            Err(Error::NotMovable(_)) => true,
            Err(_) => false,
            Ok(probe) => probe.remove().is_err(),
        });
        let all = probes.iter().all(Option::is_some);
        self.tally.expect(!all || refused == [true; 2], "a BRK or a return can be probed");
    }

    /// Checks after the probes of a round are gone.
    fn removed(&self, round: u64) {
        let before = hits();
        for call in 0..CALLS {
            self.call(round * CALLS + call);
        }
        self.tally.expect(hits() == before, "a probe that is gone is hit");
        self.text.into_iter().flatten().for_each(|word| self.is_protected(word));
    }

    /// The other CPUs, which call and try to write.
    fn other(&self, cpu: usize) {
        let mut number = cpu as u64;
        while !self.over.load(Relaxed) {
            number = (number + cpu::MAX as u64) % LIMIT;
            self.call(number);
            self.calls.fetch_add(2, Relaxed);
            if let Some(word) = self.text[number as usize / cpu::MAX % 4] {
                self.is_protected(word);
            }
        }
    }
}
