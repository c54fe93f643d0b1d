//! Modules: code comes and goes on all CPUs at once. It runs wherever it was loaded, cannot be written at any of its
//! addresses while it can be executed, and leaves nothing behind.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrayvec::ArrayVec;
use linmap::{Policy, Reason, Rodata, Va};

use super::costs::{self, adds};
use super::tally::Tally;
use crate::area::{Area, Error, Permission};
use crate::code::Code;
use crate::probe::{Fault, try_execute, try_read, try_write};
use crate::system::System;
use crate::{cpu, smp};

/// The modules that all CPUs load together.
const LOADS: u64 = 120;
/// The modules of each CPU at a time.
const AT_ONCE: usize = 4;
/// The most pages of a module.
const PAGES: u64 = 4;

struct Test<'a> {
    system: &'a System<'a>,
    area: Area<'a>,
    tally: Tally<'a>,
    loaded: AtomicU64,
}

/// Makes all CPUs load and run. Returns true if all went well.
pub(super) fn run(system: &System<'_>) -> bool {
    let tally = Tally::start("modules", system);
    let test = Test { system, area: Area::of(system), tally, loaded: AtomicU64::new(0) };
    costs::count(&test.tally, test.area);
    for pages in 1..=PAGES {
        test.everywhere(pages);
    }
    test.later();
    if let Some(shared) = test.load(1, 7) {
        smp::on_all(&|cpu| test.stress(cpu, &shared));
        shared.unload();
    }
    let (loaded, cpus) = (test.loaded.load(Relaxed), cpu::running().count() as u64);
    test.tally.conclude(
        format_args!(
            "{loaded} modules loaded and run on {cpus} CPUs, none of them writable by any address while executable"
        ),
        &[("modules", loaded), ("cpus", cpus)],
    )
}

impl<'a> Test<'a> {
    fn load(&self, pages: u64, number: u16) -> Option<Code<'a>> {
        // SAFETY: the function has one parameter, and fits into any page.
        let loaded = unsafe { Code::load(self.area.because(Reason::MODULE), pages, &adds(number)) };
        self.loaded.fetch_add(u64::from(loaded.is_ok()), Relaxed);
        self.tally.done(loaded, "a module cannot be loaded")
    }

    /// Returns the linear address of the memory at an address.
    fn alias(&self, va: Va) -> Va {
        let pa = self.area.backing(va).map_or(0, |pa| pa.0);
        Va(pa.wrapping_add(self.system.memory.layout.offset()))
    }

    /// Returns a word after the function, near one of its addresses.
    const fn behind(va: Va) -> Va {
        Va(va.0 + 64)
    }

    /// Checks that code can be read, and written at no address.
    fn is_protected(&self, start: Va, alias: Va) {
        let full = self.system.args.rodata == Rodata::Full;
        let (code, alias) = (Self::behind(start), Self::behind(alias));
        // SAFETY: words that nothing uses.
        let written = unsafe { [try_write(code, 0), try_write(alias, 0)] };
        self.tally.permitted(written[0], false, "code can be written");
        self.tally.permitted(
            written[1],
            !full,
            "code can be written through the linear map, or cannot though it might",
        );
        self.tally.permitted(try_read(code), true, "code cannot be read");
        self.tally.permitted(try_read(alias), true, "code cannot be read through the linear map");
        // SAFETY: if it can be executed, the test has failed.
        let executed = unsafe { try_execute(alias) };
        self.tally.permitted(executed, false, "code can be executed through the linear map");
    }

    /// One module that every CPU runs, and what is left of it.
    fn everywhere(&self, pages: u64) {
        let Some(code) = self.load(pages, 1000 + pages as u16) else { return };
        let (start, page) = (code.start(), self.system.geometry.page_size());
        let last = Va(start.0 + (pages - 1) * page);
        let aliases = [self.alias(start), self.alias(last)];
        smp::on_all(&|cpu| {
            let result = code.call(cpu as u64);
            self.tally.expect(result == cpu as u64 + 1000 + pages, "it does not add");
            self.is_protected(start, aliases[0]);
            self.is_protected(last, aliases[1]);
        });
        code.unload();
        for va in [start, last, Va(last.0 + page)] {
            let is_gone = matches!(try_read(va), Err(Fault::Translation(_)));
            self.tally.expect(is_gone, format_args!("{va} is still mapped"));
        }
        for alias in aliases {
            // SAFETY: no other CPU has a job, so free memory stays free; the word is after those that free memory has.
            let written = unsafe { try_write(Self::behind(alias), 0) };
            self.tally.permitted(written, true, "its memory cannot be written when it is gone");
        }
    }

    /// Data that is freed keeps its addresses until all of it is unmapped.
    fn later(&self) {
        let allocate = |pages| self.tally.done(self.area.allocate(pages), "no pages for data");
        let given: ArrayVec<Va, 8> = (1..=8).filter_map(allocate).collect();
        for start in &given {
            // SAFETY: just allocated.
            let written = unsafe { try_write(*start, start.0) };
            self.tally.permitted(written, true, "data cannot be written");
            self.tally.expect(self.area.free_later(*start), "data is not there any more");
        }
        let another = allocate(1);
        self.tally.expect(another.is_none_or(|va| !given.contains(&va)), "addresses are taken too early");
        self.tally.expect(self.area.purge(), "nothing is unmapped");
        for start in given {
            let is_gone = matches!(try_read(start), Err(Fault::Translation(_)));
            self.tally.expect(is_gone, format_args!("{start} is still mapped"));
        }
        _ = another.map(|va| self.area.free(va));
    }

    /// Several modules at a time come and go on one CPU, and data with them; a shared one stays.
    fn stress(&self, cpu: usize, shared: &Code<'_>) {
        let shared_alias = self.alias(shared.start());
        let mut own = ArrayVec::<(Code<'_>, u16), AT_ONCE>::new();
        let rounds = (LOADS / cpu::running().count() as u64).max(2 * AT_ONCE as u64);
        for round in 0..rounds {
            let number = (cpu as u64 * rounds + round) as u16;
            if own.is_full() {
                own.swap_remove(number as usize * 7 % AT_ONCE).0.unload();
            }
            self.data(1 + round % 5, number);
            if let Some(code) = self.load(1 + round % PAGES, number) {
                own.push((code, number));
            }
            for (code, number) in &own {
                self.tally.expect(code.call(round) == round + u64::from(*number), "it does not add");
                self.is_protected(code.start(), self.alias(code.start()));
            }
            self.tally.expect(shared.call(round) == round + 7, "everybody's does not add");
            self.is_protected(shared.start(), shared_alias);
        }
        own.into_iter().for_each(|(code, _)| code.unload());
    }

    /// Pages that hold what is written, cannot be executed, and are freed later.
    fn data(&self, pages: u64, number: u16) {
        let Some(start) = self.tally.done(self.area.allocate(pages), "no pages for data") else { return };
        let word = u64::from(number);
        // SAFETY: just allocated; if it could be executed, the test would have failed.
        let (written, executed) = unsafe { (try_write(start, word), try_execute(start)) };
        self.tally.permitted(written, true, "data cannot be written");
        self.tally.permitted(executed, false, "data can be executed");
        self.tally.expect(try_read(self.alias(start)) == Ok(word), "the linear map has other data");
        let last = Va(start.0 + ((pages - 1) << self.system.geometry.page_shift()));
        if number.is_multiple_of(8) {
            self.step_by_step(last);
        }
        self.tally.expect(self.area.free_later(start), "data is not there any more");
    }

    /// Changes the permissions of one page and restores them.
    fn step_by_step(&self, page: Va) {
        use Permission::{Executable, NotExecutable, ReadOnly, Writable};
        let early = self.area.change(page, 1, Executable);
        let refused = matches!(early, Err(Error::Map(linmap::error::ChangeError::WriteExecute { .. })));
        self.tally.expect(refused, "a page becomes writable and executable");
        for step in [ReadOnly, Executable, NotExecutable, Writable] {
            match self.area.change(page, 1, step) {
                // It may be in a contiguous run.
                Err(Error::Map(linmap::error::ChangeError::NeedsResize {
                    policy: Policy::Fixed, ..
                })) => {}
                result => _ = self.tally.done(result, "a page does not change"),
            }
        }
    }
}
