//! The costs of the vmalloc area: modules loaded and unloaded, data freed, pages made read-only and writable again.
//!
//! Each is done once before it is counted, so that table pages come from where they usually do.

use core::convert::Infallible;

use arrayvec::ArrayVec;
use kernel::instructions::{RET, add, movz};
use linmap::Va;

use super::counted::{counted, has_room};
use super::tally::Tally;
use crate::area::{Area, Permission};
use crate::code::Code;
use crate::leaf::Leaf;
use crate::report;
use crate::warning::warn;

/// The pages of a module, and of data.
const PAGES: u64 = 4;
/// The number of allocations that are freed.
const FREED: usize = 16;
/// The number of pages that become read-only.
const READ_ONLY: u64 = 512;

/// Returns a function that adds a number to its parameter.
pub(crate) const fn adds(number: u16) -> [u32; 3] {
    [movz(1, number), add(0, 0, 1), RET]
}

/// Counts all of it.
pub(crate) fn count(tally: &Tally<'_>, area: Area<'_>) {
    let costs = Costs { tally, area };
    costs.modules();
    costs.frees();
    costs.read_only();
}

struct Costs<'a> {
    tally: &'a Tally<'a>,
    area: Area<'a>,
}

impl<'a> Costs<'a> {
    /// Counts a module where there was none, as the only one, and beside another, and the table that they leave.
    fn modules(&self) {
        if let Some(code) = self.load() {
            code.unload();
        }
        self.trim();
        self.module(["module_load_first", "module_unload_first"]);
        self.module(["module_load", "module_unload"]);
        if let Some(other) = self.load() {
            self.module(["module_load_beside", "module_unload_beside"]);
            other.unload();
        }
        let before = self.tables();
        let ((), window) = counted(self.area.system, || self.trim());
        report::window("trim", &window, &[("tables_before", before), ("tables_after", self.tables())]);
    }

    /// Gives back the table that is left for the next module.
    fn trim(&self) {
        self.area.system.space.on(&self.area.system.platform()).trim();
    }

    // Out of line, as the next one: each is called several times, and is much code.
    #[inline(never)]
    fn load(&self) -> Option<Code<'a>> {
        // SAFETY: the function has one parameter, and fits into any page.
        let loaded = unsafe { Code::load(self.area, PAGES, &adds(1)) };
        self.tally.done(loaded, "a module cannot be loaded")
    }

    fn tables(&self) -> Option<u64> {
        Some(self.area.system.space.on(&self.area.system.platform()).stats().tables)
    }

    #[inline(never)]
    fn module(&self, [load, unload]: [&str; 2]) {
        let before = self.tables();
        let (code, loading) = counted(self.area.system, || self.load());
        let between = self.tables();
        let Some(code) = code else { return };
        let ((), unloading) = counted(self.area.system, || code.unload());
        let windows = [(load, &loading, before, between), (unload, &unloading, between, self.tables())];
        for (name, window, before, after) in windows {
            let more = [("pages", Some(PAGES)), ("tables_before", before), ("tables_after", after)];
            report::window(name, window, &more);
        }
    }

    /// Counts data that is freed one by one, and all together.
    fn frees(&self) {
        for (name, together) in [("free_each", false), ("free_together", true)] {
            let data: ArrayVec<Va, FREED> =
                (0..FREED).filter_map(|_| self.tally.done(self.area.allocate(PAGES), "no pages")).collect();
            let ((), window) = counted(self.area.system, || {
                for start in &data {
                    _ = if together { self.area.free_later(*start) } else { self.area.free(*start) };
                }
                self.area.purge();
            });
            report::window(name, &window, &[("allocations", Some(FREED as u64)), ("pages", Some(PAGES))]);
        }
    }

    /// Counts adjacent pages becoming read-only and writable again.
    ///
    /// Free RAM begins beside the image, where no leaf has the largest size. So as much as such a leaf is allocated
    /// before the pages that are counted.
    fn read_only(&self) {
        let system = self.area.system;
        let pages = |bytes: u64| bytes >> system.geometry.page_shift();
        let in_front = match system.frames.free_bytes() {
            4_294_967_296.. => self.tally.done(self.area.allocate(pages(1 << 30)), "no pages"),
            _ => None,
        };
        if has_room(system, 2 * READ_ONLY * system.geometry.page_size(), "set_memory_ro, set_memory_rw") {
            self.read_only_once(false);
            self.read_only_once(true);
        }
        in_front.map(|start| self.area.free(start));
    }

    fn read_only_once(&self, counts: bool) {
        let Some(start) = self.tally.done(self.area.allocate(READ_ONLY), "no pages") else { return };
        let leaf_bytes = self.one_run(start);
        if counts && leaf_bytes.is_none() {
            warn(format_args!(
                "set_memory_ro, set_memory_rw: not counted, as the free pages are not adjacent"
            ));
        }
        let steps = [("set_memory_ro", Permission::ReadOnly), ("set_memory_rw", Permission::Writable)];
        for (name, permission) in steps {
            let change = || self.area.change(start, READ_ONLY, permission);
            let (done, window) = counted(self.area.system, change);
            if self.tally.done(done, "the pages do not change").is_some() && counts && leaf_bytes.is_some() {
                report::window(name, &window, &[("pages", Some(READ_ONLY)), ("leaf_bytes", leaf_bytes)]);
            }
        }
        self.area.free(start);
    }

    /// Returns the bytes of the leaf in the linear map for the first of the pages, if these are adjacent in memory.
    fn one_run(&self, start: Va) -> Option<u64> {
        let (mut runs, mut first) = (0i32, None);
        _ = self.area.each_run((start, READ_ONLY), |run| {
            first.get_or_insert(run.start);
            runs += 1i32;
            Ok::<(), Infallible>(())
        });
        let pa = first.filter(|_| runs == 1i32)?;
        let alias = Va(pa.0.wrapping_add(self.area.system.memory.layout.offset()));
        Leaf::at(self.area.system, alias).map(|leaf| leaf.size.bytes())
    }
}
