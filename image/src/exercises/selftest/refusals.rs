//! Calls that are refused and change nothing.

use linmap::error::ChangeError;
use linmap::{Attributes, Change, Pa, Va};

use super::case::{Call, Span, Tally, Test, Wrong, done, expect};

/// Returns true for the error that is expected.
type Refusal = fn(&ChangeError) -> bool;

impl Test<'_> {
    /// Makes calls that are refused and change nothing.
    pub(super) fn refusals(&self, tally: &mut Tally) {
        let page = self.page();
        let one = Span { va: self.start, pages: 1 };
        let all = Span { va: self.start, pages: self.pages_of(self.bytes) };
        let area = Span { va: self.area(), pages: 1 };
        let oa = self.system.memory.scratch.range.start;
        let both = Attributes::RAM.difference(Attributes::PXN);
        let read_only = |span| self.protect(span, Change::READ_ONLY);
        let beyond = Pa(1 << self.system.geometry.oa_bits());
        let cases: [(&str, Call<'_>, Refusal); 14] = [
            ("writable and executable", &|| self.protect(all, Change::EXECUTABLE), is_write_execute),
            ("a page writable and executable", &|| self.protect(one, Change::EXECUTABLE), is_write_execute),
            ("mapped writable and executable", &|| self.map(area, oa, both), is_write_execute),
            ("mapped where something is", &|| self.map(one, oa, Attributes::RAM), is_occupied),
            ("a hole read-only", &|| read_only(area), is_hole),
            ("a hole invalid", &|| self.set_valid(area, false), is_hole),
            ("a hole unmapped", &|| self.unmap(area), is_hole),
            ("after RAM", &|| read_only(self.after_ram()), is_hole),
            ("half a page", &|| read_only(Span { va: Va(one.va.0 + page / 2), ..one }), is_unaligned),
            ("half a page mapped", &|| self.map(area, Pa(oa.0 + 8), Attributes::RAM), is_unaligned),
            ("the lower half", &|| read_only(Span { va: Va(page), ..one }), is_outside),
            (
                "after the upper half",
                &|| read_only(Span { va: Va(page.wrapping_neg()), pages: 2 }),
                is_outside,
            ),
            ("all pages there are", &|| read_only(Span { pages: u64::MAX, ..one }), is_outside),
            ("an address beyond the format", &|| self.map(area, beyond, Attributes::RAM), is_beyond),
        ];
        for (what, call, expected) in cases {
            let before = self.stats();
            let result = call();
            let outcome = match result {
                Err(e) if expected(&e) => expect(self.stats() == before, "a refusal changed something"),
                result => Err(Wrong::Call(what, result)),
            };
            tally.add(what, one.va, outcome);
        }
        // No pages at all are always possible.
        let nothing = Span { pages: 0, ..area };
        let outcome = done("read-only", read_only(nothing))
            .and_then(|()| done("unmap", self.unmap(nothing)))
            .and_then(|()| done("map", self.map(nothing, oa, Attributes::RAM)));
        tally.add("no pages", nothing.va, outcome);
    }

    /// Returns the last page of RAM and the one after it.
    fn after_ram(&self) -> Span {
        let layout = &self.system.memory.layout;
        let last =
            layout.ram().iter().map(|r| r.end.0.min(layout.mapped().end.0)).max().unwrap_or(0) - self.page();
        Span { va: Va(last.wrapping_add(layout.offset())), pages: 2 }
    }
}

const fn is_write_execute(e: &ChangeError) -> bool {
    matches!(e, ChangeError::WriteExecute { .. })
}

const fn is_occupied(e: &ChangeError) -> bool {
    matches!(e, ChangeError::Occupied { .. })
}

const fn is_hole(e: &ChangeError) -> bool {
    matches!(e, ChangeError::Hole { .. })
}

const fn is_unaligned(e: &ChangeError) -> bool {
    matches!(e, ChangeError::Unaligned { .. })
}

const fn is_beyond(e: &ChangeError) -> bool {
    matches!(e, ChangeError::OutputAddress { .. })
}

const fn is_outside(e: &ChangeError) -> bool {
    matches!(e, ChangeError::OutsideHalf { .. })
}
