//! New mappings in the vmalloc area, code among them.

use core::arch::asm;

use linmap::error::ChangeError;
use linmap::{Attributes, Change, Pa, Va};

use super::case::{Access, Span, Tally, Test, Wrong, done, expect, only};
use crate::probe::{Fault, try_execute, try_read, try_write};

impl Test<'_> {
    /// Tries new mappings in the vmalloc area.
    pub(super) fn vmalloc(&self, tally: &mut Tally) {
        let area = self.area();
        tally.add("code, written and then executed", area, self.code());
        tally.add("code, mapped as code", area, self.mapped_code());
        // A first and a last page, and some between them.
        if self.pages_of(self.bytes) >= 8 {
            tally.add("a range in the vmalloc area", area, self.mapped());
        }
    }

    /// A page that becomes code: writable first, then executable, then neither.
    fn code(&self) -> Result<(), Wrong> {
        let (before, area) = (self.stats(), Span { va: self.area(), pages: 1 });
        let alias = Span { va: self.start, pages: 1 };
        done("map", self.map(area, self.system.memory.scratch.range.start, Attributes::RAM))?;
        Self::write_function(area.va)?;
        Self::expect_code(area.va, [true, true, false], "while it is written")?;
        done("code", self.protect(area, Change::READ_ONLY.and(Change::EXECUTABLE)))?;
        Self::expect_code(area.va, [true, false, true], "as code")?;
        // As with rodata=full: not even through the linear map.
        let refused = self.is_refused(alias);
        if !refused {
            done("the alias read-only", self.protect(alias, Change::READ_ONLY))?;
        }
        Self::expect_code(alias.va, [true, refused, false], "in the linear map")?;
        done("invalid", self.set_valid(area, false))?;
        Self::judge(&only(area.va), Access::Nothing, "invalid")?;
        done("valid", self.set_valid(area, true))?;
        Self::expect_code(area.va, [true, false, true], "as code again")?;
        let data = Change::NOT_EXECUTABLE.and(Change::WRITABLE);
        done("data again", self.protect(area, data))?;
        Self::expect_code(area.va, [true, true, false], "as data again")?;
        if !refused {
            done("the alias writable", self.protect(alias, Change::WRITABLE))?;
        }
        done("unmap", self.unmap(area))?;
        Self::judge(&only(area.va), Access::Nothing, "unmapped")?;
        self.collapse(alias.va, 1)?;
        expect(self.stats() == before, "not what was there before")?;
        self.counted()
    }

    /// A page written through the linear map, and mapped as code.
    fn mapped_code(&self) -> Result<(), Wrong> {
        let (before, area) = (self.stats(), Span { va: self.area(), pages: 1 });
        Self::write_function(self.start)?;
        done("map", self.map(area, self.system.memory.scratch.range.start, Attributes::KERNEL_TEXT))?;
        Self::expect_code(area.va, [true, false, true], "as code")?;
        done("unmap", self.unmap(area))?;
        expect(self.stats() == before, "not what was there before")
    }

    /// Writes a function that returns at once, and makes it visible to instruction fetches.
    fn write_function(va: Va) -> Result<(), Wrong> {
        const RET: u64 = 0xd65f_03c0;
        // SAFETY: memory without an owner.
        unsafe { try_write(va, RET << 32 | RET) }.map_err(|_| Wrong::Access(va, "write", "of code"))?;
        // SAFETY: it makes the function visible to fetches, and nothing else changes (Arm ARM B2.7.4).
        unsafe {
            asm!("dc cvau, {va}", "dsb ish", "ic ivau, {va}", "dsb ish", "isb", va = in(reg) va.0, options(nostack));
        }
        Ok(())
    }

    /// Checks that a page that holds a function can be read, written and executed as it should.
    fn expect_code(va: Va, allowed: [bool; 3], when: &'static str) -> Result<(), Wrong> {
        let (read, write) = Self::probe(va);
        // SAFETY: there is a function that does nothing.
        let execute = unsafe { try_execute(va) };
        let results = [("read", read.map(|_| ())), ("write", write), ("execute", execute)];
        for ((what, result), allowed) in results.into_iter().zip(allowed) {
            let as_it_should = match result {
                Ok(()) => allowed,
                Err(Fault::Permission(_)) => !allowed,
                Err(_) => false,
            };
            if !as_it_should {
                return Err(Wrong::Access(va, what, when));
            }
        }
        Ok(())
    }

    /// A range that starts and ends within a leaf: mapped, with a hole, without it, unmapped.
    fn mapped(&self) -> Result<(), Wrong> {
        let (before, page) = (self.stats(), self.page());
        let pages = self.pages_of(self.bytes) - 2;
        let area = Span { va: Va(self.area().0 + page), pages };
        let oa = Pa(self.system.memory.scratch.range.start.0 + page);
        let offset = self.start.0.wrapping_sub(self.area().0);
        let probed = self.inside(area);
        for va in probed.iter().flatten() {
            let alias = Va(va.0.wrapping_add(offset));
            // SAFETY: memory without an owner.
            unsafe { try_write(alias, va.0) }
                .map_err(|_| Wrong::Access(alias, "write", "before any change"))?;
        }
        Self::judge(&probed, Access::Nothing, "before it is mapped")?;
        done("map", self.map(area, oa, Attributes::RAM))?;
        let mapped = self.stats();
        Self::judge(&probed, Access::ReadWrite, "mapped")?;
        self.counted()?;

        // The page in the middle is unmapped and mapped again.
        let hole = Span { va: Va(area.va.0 + pages / 2 * page), pages: 1 };
        let refused = self.is_refused(hole);
        let result = self.unmap(hole);
        match (refused, result) {
            (true, Err(ChangeError::NeedsResize { .. })) => {
                expect(self.stats() == mapped, "a refusal changed something")?;
            }
            (true, result) => return Err(Wrong::Call("unmap of a page", result)),
            (false, result) => {
                done("unmap of a page", result)?;
                let beside = [Some(Va(hole.va.0 - page)), Some(Va(hole.va.0 + page))];
                let beside_is_there = beside.into_iter().flatten().all(|va| try_read(va).is_ok());
                expect(beside_is_there, "a neighbour of the hole cannot be read")?;
                Self::judge(&only(hole.va), Access::Nothing, "unmapped")?;
                let holed = self.stats();
                let across = self.protect(area, Change::READ_ONLY);
                expect(
                    matches!(across, Err(ChangeError::Hole { va }) if va == hole.va),
                    "a hole was not refused",
                )?;
                expect(self.stats() == holed, "a refusal changed something")?;
                Self::judge(&self.ends(area), Access::ReadWrite, "beside a hole")?;
                done("map of a page", self.map(hole, Pa(oa.0 + pages / 2 * page), Attributes::RAM))?;
                self.collapse(area.va, area.pages)?;
            }
        }
        Self::judge(&probed, Access::ReadWrite, "mapped again")?;
        expect(self.stats() == mapped, "not the leaves that it had")?;
        done("unmap", self.unmap(area))?;
        Self::judge(&probed, Access::Nothing, "unmapped")?;
        expect(self.stats() == before, "not what was there before")?;
        self.counted()
    }
}
