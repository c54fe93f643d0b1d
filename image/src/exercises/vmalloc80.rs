//! 80% of free RAM, mapped in the vmalloc area: read-only there and in the linear map, then writable again, then given
//! back; all of it is still memory.

use core::convert::Infallible;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use linmap::{Pa, Rodata, Va};

use super::tally::Tally;
use crate::area::{Area, Permission};
use crate::probe::{Fault, try_read, try_write};
use crate::system::System;
use crate::{cpu, smp};

/// The number of pages that are probed.
const SAMPLE: u64 = 64;

struct Test<'a> {
    system: &'a System<'a>,
    area: Area<'a>,
    tally: Tally<'a>,
}

/// Maps, changes and frees. Returns true if all went well.
pub(super) fn run(system: &System<'_>) -> bool {
    let test = Test { system, area: Area::of(system), tally: Tally::start("vmalloc80", system) };
    let pages = (system.frames.free_bytes() >> system.geometry.page_shift()) / 100 * 80;
    test.protect(pages);
    let written = test.write(pages);
    let mapped = pages << system.geometry.page_shift();
    test.tally.conclude(
        format_args!(
            "{} MiB mapped in the vmalloc area, read-only at both addresses, writable again, freed; then each word of them \
             written and read back",
            mapped >> 20
        ),
        &[("bytes", mapped), ("written_bytes", written)],
    )
}

impl Test<'_> {
    fn allocate(&self, pages: u64) -> Option<Va> {
        self.tally.done(self.area.allocate(pages), "the pages cannot be mapped")
    }

    fn change(&self, span: (Va, u64), what: Permission) -> bool {
        self.tally.done(self.area.change(span.0, span.1, what), "the pages do not change").is_some()
    }

    fn linear(&self, pa: Pa) -> Va {
        Va(pa.0.wrapping_add(self.system.memory.layout.offset()))
    }

    /// Returns the pages that are probed, and their aliases.
    fn sample(&self, (start, pages): (Va, u64)) -> impl Iterator<Item = (Va, Va)> {
        (0..=SAMPLE).filter_map(move |n| {
            let page = (n * pages / SAMPLE).min(pages - 1);
            let va = Va(start.0 + (page << self.system.geometry.page_shift()));
            Some((va, self.linear(self.area.backing(va)?)))
        })
    }

    /// Checks that the sample can be written, or not, at both addresses.
    fn probe(&self, span: (Va, u64), writable: bool) {
        let full = self.system.args.rodata == Rodata::Full;
        for (va, alias) in self.sample(span) {
            self.tally.expect(try_read(va) == Ok(va.0), format_args!("{va} holds something else"));
            self.tally.expect(try_read(alias) == Ok(va.0), format_args!("{alias} holds something else"));
            // SAFETY: this test's memory, written with its own value.
            let written = unsafe { [try_write(va, va.0), try_write(alias, va.0)] };
            self.tally.permitted(written[0], writable, format_args!("{va}, writable: not {writable}"));
            let writable = writable || !full;
            self.tally.permitted(
                written[1],
                writable,
                format_args!("the alias {alias}, writable: not {writable}"),
            );
        }
    }

    /// Makes all of them read-only, invalid, and writable again.
    fn protect(&self, pages: u64) {
        let Some(start) = self.allocate(pages) else { return };
        let span = (start, pages);
        for (va, _) in self.sample(span) {
            // SAFETY: just allocated.
            let written = unsafe { try_write(va, va.0) };
            self.tally.permitted(written, true, format_args!("{va} cannot be written"));
        }
        self.probe(span, true);
        if self.change(span, Permission::ReadOnly) {
            smp::on_all(&|_| self.probe(span, false));
        }
        if self.change(span, Permission::Valid(false)) {
            for (va, alias) in self.sample(span) {
                let is_gone = matches!(try_read(va), Err(Fault::Translation(_)));
                let right = is_gone && try_read(alias) == Ok(va.0);
                self.tally.expect(right, format_args!("{va} is not invalid, or {alias} is as well"));
            }
            self.change(span, Permission::Valid(true));
            self.probe(span, false);
        }
        if self.change(span, Permission::Writable) {
            self.probe(span, true);
        }
        let aliases: [Option<(Va, Va)>; 3] = [0, pages / 2, pages - 1].map(|page| {
            let va = Va(start.0 + (page << self.system.geometry.page_shift()));
            Some((va, self.linear(self.area.backing(va)?)))
        });
        self.area.free(start);
        for (va, alias) in aliases.into_iter().flatten() {
            let is_gone = matches!(try_read(va), Err(Fault::Translation(_)));
            self.tally.expect(
                is_gone && try_read(alias).is_ok(),
                format_args!("{va} is mapped, or {alias} is not"),
            );
        }
    }

    /// Writes so many pages through the linear map, on all CPUs, and reads them through the area. Returns how many
    /// bytes held what was written.
    fn write(&self, pages: u64) -> u64 {
        let Some(start) = self.allocate(pages) else { return 0 };
        let right = AtomicU64::new(0);
        let cpus = cpu::running().count() as u64;
        smp::on_all(&|cpu| {
            let rank = cpu::running().take_while(|other| *other != cpu).count() as u64;
            let (from, to) = (pages * rank / cpus, pages * (rank + 1) / cpus);
            let mut va = Va(start.0 + (from << self.system.geometry.page_shift()));
            _ = self.area.each_run((va, to - from), |run| {
                right.fetch_add(self.write_run(&run, va), Relaxed);
                va = Va(va.0 + (run.end.0 - run.start.0));
                Ok::<(), Infallible>(())
            });
        });
        self.area.free(start);
        let (right, bytes) = (right.load(Relaxed), pages << self.system.geometry.page_shift());
        self.tally
            .expect(right == bytes, format_args!("only {right} of {bytes} bytes hold what was written"));
        right
    }

    /// Does the same for one run of memory, which the area has at an address.
    fn write_run(&self, run: &core::ops::Range<Pa>, area: Va) -> u64 {
        let words = (run.end.0 - run.start.0) as usize / 8;
        let of = |va: Va| core::ptr::with_exposed_provenance_mut::<u64>(va.0 as usize);
        let (linear, area) = (of(self.linear(run.start)), of(area));
        let value = |word: usize| !(run.start.0 + word as u64 * 8);
        for word in 0..words {
            // SAFETY: allocated for this, writable at both addresses, and this CPU's alone.
            unsafe { linear.add(word).write_volatile(value(word)) };
        }
        // SAFETY: as above.
        let is_right = |word: &usize| unsafe { area.add(*word).read_volatile() } == value(*word);
        8 * (0..words).filter(is_right).count() as u64
    }
}
