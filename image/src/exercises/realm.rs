//! The bit of an address by which a realm shares memory with its host: the buffer gets it and loses it again, at both of its
//! addresses.
//!
//! QEMU has no realms, and no memory where the bit is set. So the buffer is not accessed meanwhile: AT S1E1R says where it leads.
//! The step stands for the call to the monitor, and fails now and then, as that may. That the monitor and its granule
//! protection agree is not shown.

use core::cell::Cell;

use linmap::error::RemakeError;
use linmap::{Policy, Remake, Remaking};

use super::buffer::{Buffer, Failed, PAGES};
use super::tally::Tally;
use crate::probe::{Fault, try_read};
use crate::system::System;

/// The times that it is shared.
const ROUNDS: u64 = 10;

/// Shares the buffer and takes it back. Returns true if all went well.
#[inline(never)]
pub(super) fn run(system: &System<'_>) -> bool {
    let tally = Tally::start("realm", system);
    let bits = system.features.pa_bits().min(system.geometry.oa_bits());
    let bit = 1 << (bits - 1);
    let (shared, calls) = (Cell::new(0), Cell::new(0));
    if let Some(buffer) = Buffer::new(&tally, system) {
        let test = Test { tally: &tally, buffer: &buffer, bit, calls: &calls };
        // Its alias may have to come out of a larger leaf.
        if system.space.policy() != Policy::Fixed && buffer.pa.0 & bit == 0 {
            (0..ROUNDS).for_each(|round| shared.set(shared.get() + test.shares(round)));
        }
        tally.done(buffer.free(), "the buffer cannot be given back");
    }
    tally.conclude(
        format_args!("{PAGES} pages and their aliases shared by bit {} and taken back", bits - 1),
        &[("shared", shared.get()), ("calls", calls.get()), ("bit", u64::from(bits) - 1)],
    )
}

struct Test<'a> {
    tally: &'a Tally<'a>,
    buffer: &'a Buffer<'a>,
    bit: u64,
    /// The calls to the monitor.
    calls: &'a Cell<u64>,
}

impl Test<'_> {
    fn calls(&self, refuses: bool) -> Result<(), Failed> {
        self.calls.set(self.calls.get() + 1);
        if refuses { Err(Failed::OnPurpose) } else { Ok(()) }
    }

    /// Returns 1 if it was shared and came back.
    fn shares(&self, round: u64) -> u64 {
        let (to, back) = (Remake::address_bits(self.bit, 0), Remake::address_bits(0, self.bit));
        let shared = self.becomes(to, self.bit);
        if round % 2 == 1 {
            self.is_refused(back);
        }
        let came_back = self.becomes(back, 0);
        self.tally.expect(self.buffer.is_kept(), "the buffer holds something else");
        u64::from(shared && came_back)
    }

    fn becomes(&self, remake: Remake, bit: u64) -> bool {
        let before = self.calls.get();
        let done = self.buffer.remake(remake, self.bit, &|| self.calls(false));
        let done = self.tally.done(done, "the buffer is not remade").is_some();
        self.tally.expect(self.calls.get() == before + 1, "the monitor is not called once");
        // What is so already takes no call.
        _ = self.tally.done(self.buffer.remake(remake, self.bit, &|| self.calls(true)), "it is so already");
        for page in [0, PAGES - 1] {
            let pa = (self.buffer.pa.0 + (page << self.buffer.system.geometry.page_shift())) | bit;
            let is = self.buffer.translations(page).map(|translated| translated.map(|t| t.pa.0));
            self.tally.expect(is == [Some(pa); 2], format_args!("page {page} leads to {is:x?}, not {pa:#x}"));
        }
        done
    }

    /// The monitor refuses: both sides stay out, and are said to.
    fn is_refused(&self, remake: Remake) {
        let refused = self.buffer.remake(remake, self.bit, &|| self.calls(true));
        let space = self.buffer.system.space;
        let is_out = [self.buffer.va, self.buffer.alias(self.buffer.va)].iter().all(|va| {
            let said = space.on(&self.buffer.system.platform()).remaking(*va);
            said == Some(Remaking::Failed) && matches!(try_read(*va), Err(Fault::Translation(_)))
        });
        let is = matches!(refused, Err(RemakeError::Step { error: Failed::OnPurpose, .. }));
        self.tally.expect(is && is_out, "what the monitor refuses is not out");
    }
}
