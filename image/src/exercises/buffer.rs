//! A buffer of the exercises `retype` and `realm`: pages of the vmalloc area, with pages before and after them that stay as
//! they are, and their aliases in the linear map.

use linmap::error::{ChangeError, RemakeError};
use linmap::{Aliased, Pa, Remake, Va};

use super::par::{Translated, translate};
use super::tally::Tally;
use crate::area::Area;
use crate::parking;
use crate::probe::{try_read, try_write};
use crate::system::System;

/// The pages that are remade, of three times as many.
pub(super) const PAGES: u64 = 8;

/// The mistake of a step that fails on purpose, as a realm's monitor may, or what went wrong in one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Failed {
    OnPurpose,
    Window(ChangeError),
}

impl core::fmt::Display for Failed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OnPurpose => f.write_str("on purpose"),
            Self::Window(e) => e.fmt(f),
        }
    }
}

/// The buffer.
pub(super) struct Buffer<'a> {
    pub(super) system: &'a System<'a>,
    area: Area<'a>,
    start: Va,
    /// The buffer itself.
    pub(super) va: Va,
    pub(super) pa: Pa,
}

impl<'a> Buffer<'a> {
    /// Returns a buffer, each page of which has its own address in its first word.
    pub(super) fn new(tally: &Tally<'a>, system: &'a System<'a>) -> Option<Self> {
        let area = Area::of(system);
        let start = tally.done(area.allocate(3 * PAGES), "the pages cannot be mapped")?;
        let mut runs = 0i32;
        _ = area.each_run((start, 3 * PAGES), |_| {
            runs += 1i32;
            Ok::<(), core::convert::Infallible>(())
        });
        tally.expect(runs == 1i32, "the memory of the buffer is not in a row");
        let va = Va(start.0 + (PAGES << system.geometry.page_shift()));
        let Some(pa) = area.backing(va).filter(|_| runs == 1i32) else {
            area.free(start);
            return None;
        };
        let buffer = Self { system, area, start, va, pa };
        for page in 0..PAGES {
            let at = buffer.page(page);
            // SAFETY: just allocated.
            tally.permitted(unsafe { try_write(at, at.0) }, true, format_args!("{at} cannot be written"));
        }
        Some(buffer)
    }

    /// Returns the address of a page of the buffer.
    pub(super) fn page(&self, number: u64) -> Va {
        Va(self.va.0 + (number << self.system.geometry.page_shift()))
    }

    /// Returns the size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        PAGES << self.system.geometry.page_shift()
    }

    /// Returns the address in the linear map of the same memory.
    pub(super) fn alias(&self, va: Va) -> Va {
        Va(va
            .0
            .wrapping_sub(self.va.0)
            .wrapping_add(self.pa.0)
            .wrapping_add(self.system.memory.layout.offset()))
    }

    /// Returns an address of a page beside the buffer, one for each CPU.
    pub(super) fn neighbour(&self, cpu: usize) -> Va {
        let page = cpu as u64 % (2 * PAGES);
        let page = if page < PAGES { page } else { page + PAGES };
        Va(self.start.0 + (page << self.system.geometry.page_shift()) + 8 * cpu as u64)
    }

    /// Remakes the buffer and its aliases. `shared` are the bits of an address that are not of the memory.
    pub(super) fn remake(
        &self,
        remake: Remake,
        shared: u64,
        step: &dyn Fn() -> Result<(), Failed>,
    ) -> Result<(), RemakeError<Failed>> {
        let System { space, args, memory, .. } = self.system;
        let platform = self.system.platform();
        let mut aliased =
            Aliased::new(space.on(&platform), memory.layout.offset(), args.rodata).sharing_bits(shared);
        // SAFETY: this exercise's memory, by its only two addresses; who reads it meanwhile expects a fault.
        parking::again(|| unsafe { aliased.remake(self.va, PAGES, remake, step) })
    }

    /// Returns the translations of a page at both addresses.
    pub(super) fn translations(&self, page: u64) -> [Option<Translated>; 2] {
        let va = self.page(page);
        [translate(va), translate(self.alias(va))]
    }

    /// Checks that each page has its own address in its first word, at both addresses.
    pub(super) fn is_kept(&self) -> bool {
        (0..PAGES)
            .map(|page| self.page(page))
            .all(|va| try_read(va) == Ok(va.0) && try_read(self.alias(va)) == Ok(va.0))
    }

    /// Gives the memory back: its alias is what it was at boot.
    pub(super) fn free(self) -> Result<(), ChangeError> {
        let (space, platform) = (self.system.space, self.system.platform());
        let alias = self.alias(self.va);
        // SAFETY: its memory, which is Normal again.
        parking::again(|| unsafe { space.on(&platform).set_tagged(alias, PAGES, true) })?;
        parking::again(|| space.on(&platform).collapse(alias, PAGES))?;
        self.area.free(self.start);
        Ok(())
    }
}
