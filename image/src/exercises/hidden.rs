//! The image's data through the linear map, on all CPUs: they are reached as `data=` says, and in no other way. Without it
//! a write by that alias changes a variable, which shows what is prevented.

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kernel::views::Hidden;
use linmap::layout::ImageAlias;
use linmap::{Rodata, Va};

use super::tally::Tally;
use crate::hidden;
use crate::probe::{Fault, try_read, try_write};
use crate::smp;
use crate::system::System;
use crate::warning::warn;

/// A variable in data, and one in bss, with a word for each CPU.
static IN_DATA: [AtomicU64; crate::cpu::MAX] = [const { AtomicU64::new(0x5eed) }; crate::cpu::MAX];
static IN_BSS: [AtomicU64; crate::cpu::MAX] = [const { AtomicU64::new(0) }; crate::cpu::MAX];

/// The number of views that each CPU opens while others do.
const VIEWS: u64 = 20;

/// Tries it. Returns true if all went well.
pub(super) fn run(system: &System<'_>) -> bool {
    let alias = system.args.data;
    if alias != ImageAlias::Writable && system.memory.layout.data().0.is_empty() {
        warn(format_args!("run=hidden: the image is not in the linear map"));
        return true;
    }
    let tally = Tally::start("hidden", system);
    let test = Test { system, tally: &tally };
    smp::on_all(&|_| test.reads_text());
    let (written, hidden) = (AtomicU64::new(0), hidden::data(system));
    smp::on_all(&|cpu| _ = written.fetch_add(test.attacks(cpu, alias), Relaxed));
    let views = AtomicU64::new(0);
    if let Some(hidden) = &hidden {
        // SAFETY: it is hidden already; now this value knows.
        tally.done(unsafe { hidden.hide(&system.platform()) }, "the data are not hidden");
        smp::on_all(&|cpu| _ = views.fetch_add(test.looks(cpu, hidden), Relaxed));
        tally.expect(hidden.is_hidden(), "the data are not hidden after all views");
        smp::on_all(&|cpu| _ = test.attacks(cpu, alias));
    }
    let (written, views) = (written.into_inner(), views.into_inner());
    tally.conclude(
        format_args!("data={alias}: {written} variables were written through the linear map, {views} views"),
        &[("written", written), ("views", views)],
    )
}

struct Test<'a> {
    system: &'a System<'a>,
    tally: &'a Tally<'a>,
}

impl Test<'_> {
    /// The alias of a variable in the linear map.
    fn alias(&self, variable: &AtomicU64) -> Option<Va> {
        let pa = self.system.image.pa(core::ptr::from_ref(variable) as u64);
        self.system.memory.layout.va(pa)
    }

    /// Reads and writes code by its alias, which is read-only or hidden.
    fn reads_text(&self) {
        let System { image, memory, args, .. } = self.system;
        let code = image.range().start;
        let reached = !memory.alias.is_empty() && args.rodata != Rodata::Off;
        let Some(va) = memory.layout.va(code).filter(|_| reached) else { return };
        let (own, alias) = (Va(code.0.wrapping_add(image.offset())), hidden::text_alias(self.system));
        let read = try_read(va);
        // SAFETY: what is there already.
        let write = try_read(own).map(|word| unsafe { try_write(va, word) });
        let right = match alias {
            ImageAlias::Hidden => {
                matches!((read, write), (Err(Fault::Translation(_)), Ok(Err(Fault::Translation(_)))))
            }
            _ => read == try_read(own) && matches!(write, Ok(Err(Fault::Permission(_)))),
        };
        self.tally.expect(right, format_args!("{va}, text={alias}: read {read:x?}, write {write:x?}"));
    }

    fn variables(cpu: usize) -> [&'static AtomicU64; 2] {
        [black_box(&IN_DATA[cpu]), black_box(&IN_BSS[cpu])]
    }

    /// Reads and writes variables by their aliases. Returns the number of those that were written.
    #[inline(never)]
    fn attacks(&self, cpu: usize, alias: ImageAlias) -> u64 {
        let mut written = 0;
        for variable in Self::variables(cpu) {
            let Some(va) = self.alias(variable) else { continue };
            let value = 0x1234_0000 + cpu as u64;
            variable.store(value, Relaxed);
            let read = try_read(va);
            // SAFETY: a variable of this test.
            let write = unsafe { try_write(va, !value) };
            let now = variable.load(Relaxed);
            written += u64::from(now == !value);
            let right = match alias {
                ImageAlias::Writable => read == Ok(value) && write.is_ok() && now == !value,
                ImageAlias::ReadOnly => {
                    read == Ok(value) && matches!(write, Err(Fault::Permission(_))) && now == value
                }
                ImageAlias::Hidden => {
                    let translation = |r: Result<(), Fault>| matches!(r, Err(Fault::Translation(_)));
                    translation(read.map(|_| ())) && translation(write) && now == value
                }
            };
            self.tally.expect(
                right,
                format_args!("{va}, data={alias}: read {read:x?}, write {write:x?}, then {now:#x}"),
            );
        }
        written
    }

    /// Looks at variables while they are shown, beside others who do. Returns the number of views.
    #[inline(never)]
    fn looks(&self, cpu: usize, hidden: &Hidden<'_>) -> u64 {
        let mut views = 0;
        for view in 0..VIEWS {
            for variable in Self::variables(cpu) {
                variable.store(view, Relaxed);
                let look = || self.alias(variable).map(try_read);
                // SAFETY: a variable is read.
                let seen = unsafe { hidden.shown(&self.system.platform(), look) };
                let right = matches!(seen, Ok(Some(Ok(value))) if value == view);
                self.tally.expect(right, format_args!("a view of {view} shows {seen:x?}"));
                views += u64::from(right);
            }
        }
        views
    }
}
