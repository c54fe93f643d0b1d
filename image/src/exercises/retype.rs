//! A buffer becomes not cacheable, a device and write-back again, while other CPUs use the pages beside it.
//!
//! While it is out, its memory is cleaned through a window: another range that is remade to lead to it, and back. CPUs that read
//! the buffer meanwhile fault, and are told why. Its types are read back by AT S1E1R at both of its addresses.

use core::convert::Infallible;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use linmap::arch::Mair;
use linmap::arm64::Cpu;
use linmap::error::{ChangeError, RemakeError};
use linmap::{MemoryType, Policy, Remake, Remaking, Va};

use super::buffer::{Buffer, Failed, PAGES};
use super::par::translate;
use super::tally::Tally;
use crate::area::Area;
use crate::probe::{Fault, try_read, try_write};
use crate::system::System;
use crate::translation::mair;
use crate::{parking, smp};

/// The times that each type comes around.
const ROUNDS: u64 = 10;
/// The last is that of the vmalloc area.
const TYPES: [MemoryType; 3] = [MemoryType::NORMAL_NC, MemoryType::DEVICE_NGNRE, MemoryType::NORMAL];

struct Test<'a> {
    tally: &'a Tally<'a>,
    buffer: &'a Buffer<'a>,
    window: Va,
    over: AtomicBool,
    remakes: AtomicU64,
    /// The faults of CPUs that read the buffer while it was out, and those of them that were told so.
    faults: AtomicU64,
    told: AtomicU64,
    /// The accesses beside it.
    accesses: AtomicU64,
}

/// Retypes the buffer on all CPUs. Returns true if all went well.
#[inline(never)]
pub(super) fn run(system: &System<'_>) -> bool {
    let tally = Tally::start("retype", system);
    let area = Area::of(system);
    let counts = match Buffer::new(&tally, system) {
        Some(buffer) => {
            let counts = tally.done(area.allocate(PAGES), "no window").map(|window| {
                let counts = used(&tally, &buffer, window);
                area.free(window);
                counts
            });
            tally.done(buffer.free(), "the buffer cannot be given back");
            counts
        }
        None => None,
    };
    let [remakes, faults, told, accesses] = counts.unwrap_or_default();
    tally.conclude(
        format_args!(
            "{remakes} changes of type of {PAGES} pages and their aliases; {faults} reads meanwhile faulted, {told} were told why; {accesses} accesses beside them"
        ),
        &[("remakes", remakes), ("faults", faults), ("told", told), ("accesses", accesses)],
    )
}

/// Changes the buffer while others use it.
#[inline(never)]
fn used(tally: &Tally<'_>, buffer: &Buffer<'_>, window: Va) -> [u64; 4] {
    let zero = || AtomicU64::new(0);
    let (over, remakes, faults, told, accesses) = (AtomicBool::new(false), zero(), zero(), zero(), zero());
    let test = Test { tally, buffer, window, over, remakes, faults, told, accesses };
    smp::on_all(&|cpu| if cpu == 0 { test.first() } else { test.other(cpu) });
    [&test.remakes, &test.faults, &test.told, &test.accesses].map(|n| n.load(Relaxed))
}

impl Test<'_> {
    fn first(&self) {
        if self.buffer.system.space.policy() == Policy::Fixed {
            self.is_refused();
        } else {
            for round in 0..ROUNDS {
                self.fails(round);
                TYPES.into_iter().for_each(|memory_type| self.becomes(memory_type));
            }
        }
        self.over.store(true, Relaxed);
    }

    /// Its alias cannot be taken out of a larger leaf.
    fn is_refused(&self) {
        let refused = self.buffer.remake(Remake::memory_type(TYPES[0]), 0, &|| self.clean());
        let is = matches!(refused, Ok(()) | Err(RemakeError::Refused(ChangeError::NeedsResize { .. })));
        self.tally.expect(is, "the policy is fixed, and something else is refused");
        if refused.is_ok() {
            self.becomes(MemoryType::NORMAL);
        }
    }

    /// The step: cleans the memory through the window, while nothing else leads to it.
    fn clean(&self) -> Result<(), Failed> {
        let (space, platform) = (self.buffer.system.space, self.buffer.system.platform());
        let lead = |pa| {
            // SAFETY: the window is this test's, and the memory nobody's at this moment.
            parking::again(|| unsafe {
                space.on(&platform).remake(self.window, PAGES, Remake::to(pa), || Ok::<(), Infallible>(()))
            })
            .map_err(|e| Failed::Window(e.into()))
        };
        let Some(own) = Area::of(self.buffer.system).backing(self.window) else { return Ok(()) };
        lead(self.buffer.pa)?;
        let is_there = (0..PAGES).all(|page| {
            let at = Va(self.window.0 + (page << self.buffer.system.geometry.page_shift()));
            try_read(at) == Ok(self.buffer.page(page).0)
        });
        self.tally.expect(is_there, "the window does not lead to the buffer");
        Cpu.clean_and_drop(self.window, self.buffer.bytes());
        lead(own)
    }

    fn becomes(&self, memory_type: MemoryType) {
        let done = self.buffer.remake(Remake::memory_type(memory_type), 0, &|| self.clean());
        if self.tally.done(done, "the buffer is not remade").is_some() {
            self.remakes.fetch_add(1, Relaxed);
        }
        let wanted = Mair(mair(&self.buffer.system.features)).field(memory_type);
        for page in [0, PAGES - 1] {
            let is = self.buffer.translations(page).map(|translated| translated.map(|t| t.attribute));
            self.tally.expect(
                is == [Some(wanted); 2],
                format_args!("the type of page {page} is {is:x?} and not {wanted:#x}"),
            );
        }
        self.tally.expect(self.buffer.is_kept(), "the buffer holds something else");
    }

    /// The step fails: the buffer stays out until it is remade.
    fn fails(&self, round: u64) {
        let (space, platform) = (self.buffer.system.space, self.buffer.system.platform());
        let wanted = Remake::memory_type(TYPES[round as usize % 2]);
        let failed = self.buffer.remake(wanted, 0, &|| Err(Failed::OnPurpose));
        let va = self.buffer.page(round % PAGES);
        let said = space.on(&platform).remaking(va) == Some(Remaking::Failed);
        let is_out = [va, self.buffer.alias(va)]
            .iter()
            .all(|at| matches!(try_read(*at), Err(Fault::Translation(_))) && translate(*at).is_none());
        let expected = matches!(failed, Err(RemakeError::Step { error: Failed::OnPurpose, .. }));
        self.tally.expect(expected && said && is_out, "a failed step does not leave the buffer out");
        let back = self.buffer.remake(Remake::NONE, 0, &|| Ok(()));
        self.tally.done(back, "the buffer does not come back");
        self.tally
            .expect(space.on(&platform).remaking(va).is_none(), "the buffer is back, and said to be out");
    }

    /// Uses a page beside the buffer at both of its addresses, and reads the buffer.
    fn other(&self, cpu: usize) {
        let (space, platform) = (self.buffer.system.space, self.buffer.system.platform());
        let (own, mut round) = (self.buffer.neighbour(cpu), cpu as u64);
        while !self.over.load(Relaxed) {
            round += 1;
            // SAFETY: this test's memory, and this CPU's word of it.
            let written = unsafe { try_write(own, round) };
            let right = written.is_ok() && try_read(self.buffer.alias(own)) == Ok(round);
            self.tally.expect(right, format_args!("{own} beside the buffer holds something else"));
            self.accesses.fetch_add(2, Relaxed);
            let va = self.buffer.page(round % PAGES);
            match try_read(va) {
                Ok(value) => _ = self.tally.expect(value == va.0, "the buffer holds something else"),
                Err(Fault::Translation(_)) => {
                    self.faults.fetch_add(1, Relaxed);
                    self.told.fetch_add(u64::from(space.on(&platform).remaking(va).is_some()), Relaxed);
                }
                Err(fault) => _ = self.tally.expect(false, format_args!("{va}: {fault}")),
            }
        }
    }
}
