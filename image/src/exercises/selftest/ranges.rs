//! Ranges of every kind: read-only, invalid, both, and back; in pages, and back.

use linmap::error::ChangeError;
use linmap::{Change, Policy, Va};

use super::case::{Access, Call, Span, Tally, Test, Wrong, done, expect, only};
use crate::leaf::Leaf;
use crate::parking;
use crate::system::System;

impl Test<'_> {
    /// Ranges of every kind: read-only, invalid, both, and back.
    pub(super) fn ranges(&self, tally: &mut Tally) {
        let (page, g) = (self.page(), self.system.geometry);
        let sizes = g.leaf_sizes();
        let bytes_of = |level, contiguous| {
            let size = sizes.iter().find(|s| (s.level.number(), s.contiguous) == (level, contiguous));
            size.map_or(page, |s| s.bytes())
        };
        let (run, block) = (bytes_of(3, true), bytes_of(2, false));
        let half = self.bytes / 2;
        let at = |offset: u64, bytes: u64| Span { va: Va(self.start.0 + offset), pages: bytes / page };
        let midst = at(half / 2 + 3 * page, page);

        // An anchor keeps the leaves beside it small, if there are smaller ones: a read-only page in the first run.
        let anchor = at(0, page);
        for (what, span, anchored) in [
            ("a page amid the largest leaf", midst, false),
            ("pages amid the largest leaf", Span { pages: 5, ..midst }, false),
            ("the first page of a leaf", at(half, page), false),
            ("the last page of a leaf", at(half - page, page), false),
            ("the largest leaf", at(0, half), false),
            ("both sides of where two leaves meet", at(half - 3 * page, 8 * page), false),
            ("most of two leaves", at(half / 2 + page, half), false),
            ("a page of a run", at(run + 2 * page, page), true),
            ("the end of a run", at(2 * run - 2 * page, 2 * page), true),
            ("a run", at(run, run), true),
            ("part of a run, a run, part of a run", at(2 * run - page, run + 2 * page), true),
            ("a single page beside it", at(page, page), true),
            ("a block", at(block, block), true),
            ("a page of a block", at(block + block / 2, page), true),
            ("the end of a table, half a block", at(block - 3 * page, block / 2 + 3 * page), true),
        ] {
            if !self.has(span) {
                continue;
            }
            let anchored = anchored && self.protect(anchor, Change::READ_ONLY).is_ok();
            tally.add(what, span.va, self.change(span));
            if anchored {
                let undone = self.protect(anchor, Change::WRITABLE);
                let (va, pages) = (self.start, self.pages_of(self.bytes));
                let undone = done("the anchor back", undone).and_then(|()| self.collapse(va, pages));
                if undone.is_err() {
                    tally.add("the anchor back", anchor.va, undone);
                }
            }
        }
        tally.add("what is partly right already", self.start, self.partly());
        tally.add("one page of a table that differs", self.start, self.one_differs());
        let ends = self.system.memory.scratch.ends;
        for (what, end) in ["the first page of RAM", "the last page of RAM"].into_iter().zip(ends) {
            if let Some(va) = end.and_then(|pa| self.system.memory.layout.va(pa)) {
                tally.add(what, va, self.change(Span { va, pages: 1 }));
            }
        }
    }

    /// A range whose first leaf is read-only already, and stays as it is.
    fn partly(&self) -> Result<(), Wrong> {
        let (before, half) = (self.stats(), self.pages_of(self.bytes / 2));
        let first = Span { va: self.start, pages: half };
        let span = Span { va: Va(self.start.0 + half / 2 * self.page()), pages: half };
        let probed = self.inside(span);
        Self::fill(&probed)?;
        let leaf = Leaf::at(self.system, self.start);
        let refused = self.is_refused(span);
        if self.is_refused(first) {
            // Both are in one leaf.
            let is_refusal =
                matches!(self.protect(span, Change::READ_ONLY), Err(ChangeError::NeedsResize { .. }));
            return expect(is_refusal && self.stats() == before, "not refused, or not left alone");
        }
        done("read-only", self.protect(first, Change::READ_ONLY))?;
        let result = self.protect(span, Change::READ_ONLY);
        match (refused, result) {
            (true, Err(ChangeError::NeedsResize { .. })) => {}
            (true, result) => return Err(Wrong::Call("read-only, the second half", result)),
            (false, result) => {
                done("read-only, the second half", result)?;
                Self::judge(&probed, Access::ReadOnly, "read-only")?;
            }
        }
        let is_half = leaf.is_some_and(|l| l.pages(self.system) == half);
        expect(!is_half || Leaf::at(self.system, self.start) == leaf, "what was right already was split")?;
        done("writable", self.protect(Span { pages: 2 * half, ..first }, Change::WRITABLE))?;
        self.collapse(self.start, 2 * half)?;
        Self::judge(&probed, Access::ReadWrite, "writable")?;
        expect(self.stats() == before, "not the leaves that it had")?;
        self.counted()
    }

    /// A page that differs from all others of its table, wherever it is, keeps the table.
    fn one_differs(&self) -> Result<(), Wrong> {
        let (before, pages) = (self.stats(), 1 << self.system.geometry.index_bits());
        let table = Span { va: self.start, pages };
        if !self.has(table) || self.is_refused(Span { pages: 1, ..table }) {
            return Ok(());
        }
        // While others are parked, eight will do.
        let tries = if self.system.space.policy() == Policy::Live { pages.min(512) } else { 8 };
        let apart = pages / tries;
        for n in 0..tries {
            let va = Va(table.va.0 + (n * apart + n % apart) * self.page());
            let after = Va(table.va.0 + (va.0 - table.va.0 + self.page()) % (pages * self.page()));
            let page = Span { va, pages: 1 };
            Self::fill(&only(va))?;
            Self::fill(&only(after))?;
            done("read-only", self.protect(page, Change::READ_ONLY))?;
            self.collapse(table.va, table.pages)?;
            Self::judge(&only(va), Access::ReadOnly, "after a collapse beside it")?;
            Self::judge(&only(after), Access::ReadWrite, "after a collapse of it")?;
            done("writable", self.protect(page, Change::WRITABLE))?;
        }
        self.collapse(table.va, table.pages)?;
        expect(self.stats() == before, "not the leaves that it had")
    }

    /// Makes a span read-only, invalid, both, and restores it; then collapses.
    fn change(&self, span: Span) -> Result<(), Wrong> {
        let before = self.stats();
        let (inside, outside) = (self.inside(span), self.outside(span));
        Self::fill(&inside)?;
        Self::judge(&inside, Access::ReadWrite, "before any change")?;
        let found = outside.map(|va| va.map(Self::probe));
        let refused = self.is_refused(span);
        let steps: [(&str, Call<'_>, Access); 7] = [
            ("read-only", &|| self.protect(span, Change::READ_ONLY), Access::ReadOnly),
            ("writable", &|| self.protect(span, Change::WRITABLE), Access::ReadWrite),
            ("invalid", &|| self.set_valid(span, false), Access::Nothing),
            ("valid", &|| self.set_valid(span, true), Access::ReadWrite),
            ("invalid again", &|| self.set_valid(span, false), Access::Nothing),
            (
                "read-only and valid",
                &|| self.protect(span, Change::READ_ONLY).and_then(|()| self.set_valid(span, true)),
                Access::ReadOnly,
            ),
            ("writable again", &|| self.protect(span, Change::WRITABLE), Access::ReadWrite),
        ];
        for (what, step, access) in steps {
            let result = step();
            match (refused, result) {
                (false, result) => done(what, result)?,
                (true, Err(ChangeError::NeedsResize { .. })) => {}
                // Leaves that are right already need no change of size, nor do leaves that would be invalid.
                (true, Ok(())) if self.stats() == before => {}
                (true, result) => return Err(Wrong::Call(what, result)),
            }
            let access = if refused { Access::ReadWrite } else { access };
            Self::judge(&inside, access, what)?;
            Self::as_before(&outside, &found, what)?;
            if refused {
                expect(self.stats() == before, "a refusal changed something")?;
            }
        }
        self.collapse(span.va, span.pages)?;
        expect(self.stats() == before, "not the leaves that it had")?;
        self.counted()
    }

    /// A range in pages, of which one then changes without a change of size.
    pub(super) fn pages(&self, tally: &mut Tally) {
        let half = self.pages_of(self.bytes / 2);
        for (what, span) in [
            ("a leaf in pages", Span { va: self.start, pages: half }),
            ("part of a leaf in pages", Span { va: Va(self.start.0 + 5 * self.page()), pages: half / 2 }),
        ] {
            if self.has(span) {
                tally.add(what, span.va, self.in_pages(span));
            }
        }
    }

    fn in_pages(&self, span: Span) -> Result<(), Wrong> {
        let System { space, geometry, .. } = self.system;
        let (before, inside, outside) = (self.stats(), self.inside(span), self.outside(span));
        Self::fill(&inside)?;
        let found = outside.map(|va| va.map(Self::probe));
        let size_at = |va| Leaf::at(self.system, va).map_or(0, |l| l.size.bytes());
        let is_large = inside.iter().flatten().any(|va| size_at(*va) != self.page());
        let split =
            || parking::again(|| space.on(&self.system.platform()).split_to_pages(span.va, span.pages));
        match (space.policy() == Policy::Fixed && is_large, split()) {
            (true, Err(ChangeError::NeedsResize { .. })) => {
                return expect(self.stats() == before, "a refusal changed something");
            }
            (true, result) => return Err(Wrong::Call("split_to_pages", result)),
            (false, result) => done("split_to_pages", result)?,
        }
        Self::judge(&inside, Access::ReadWrite, "after the split")?;
        let in_pages = inside.iter().flatten().all(|va| size_at(*va) == self.page());
        expect(in_pages, "not split into pages")?;
        let bytes = space
            .on(&self.system.platform())
            .read(|reader| reader.count((span.va, self.last(span))))
            .bytes(*geometry);
        expect(bytes == span.pages * self.page(), "not as many bytes as were split")?;
        let tables = self.stats();
        done("split_to_pages again", split())?;
        let page = Span { pages: 1, va: Va(span.va.0 + span.pages / 2 * self.page()) };
        done("read-only", self.protect(page, Change::READ_ONLY))?;
        Self::judge(&only(page.va), Access::ReadOnly, "as one page of many")?;
        done("writable", self.protect(page, Change::WRITABLE))?;
        expect(self.stats() == tables, "a page changed its size once more")?;
        Self::as_before(&outside, &found, "after the split")?;
        self.collapse(span.va, span.pages)?;
        Self::judge(&inside, Access::ReadWrite, "after the collapse")?;
        expect(self.stats() == before, "not the leaves that it had")?;
        self.counted()
    }
}
