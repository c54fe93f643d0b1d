//! Several ranges unmapped at once, with one batch of invalidations for all of them.

use crate::build::Error;
use crate::format::{Edit, Span, TableLimits, Va};
use crate::live::address_space::AddressSpace;
use crate::live::edit::Editor;
use crate::live::locked::Access;
use crate::live::table_pages::Retired;
use crate::platform::Platform;
use crate::read::Table;

impl AddressSpace {
    /// Takes away the mappings of several ranges of pages, as [`unmap`](Self::unmap) does of one. TLBs are told once,
    /// at the end: what owners of ranges gave up at different times goes for the price of one.
    ///
    /// # Errors
    ///
    /// As for [`unmap`](Self::unmap), of any of them; [`Error::NeedsResize`] as well wherever a range has a part of a
    /// leaf, whatever the policy. Then nothing has changed.
    ///
    /// # Safety
    ///
    /// Nobody uses these addresses.
    pub unsafe fn unmap_all<P: Platform>(&self, platform: &P, ranges: &[(Va, u64)]) -> Result<(), Error> {
        let _held = platform.lock();
        let access = self.access(platform);
        let root = self.root_table(&access);
        for &(va, pages) in ranges {
            if let Some(span) = self.span(va, pages)? {
                survey(&access, &access.deepest(root, span), span)?;
            }
        }
        let Some(mut editor) = self.editor_of(access, ranges) else { return Ok(()) };
        let mut retired = Retired::new();
        for &(va, pages) in ranges {
            if let Some(span) = self.span(va, pages)? {
                self.noted().changes(span);
                editor.span = span;
                editor.remove(&root, &mut retired);
            }
        }
        editor.batch.finish(&editor.access);
        retired.give(&editor.access);
        Ok(())
    }

    /// What takes mappings away, if any of the ranges has a page.
    fn editor_of<'a, P: Platform>(
        &self,
        access: Access<'a, P>,
        ranges: &[(Va, u64)],
    ) -> Option<Editor<'a, P>> {
        let mut spans = ranges.iter().filter_map(|&(va, pages)| self.span(va, pages).ok()?);
        Some(Editor::new(access, Edit::REMOVE, spans.next()?))
    }
}

/// Whether all of a range is mapped, by leaves that lie within it. Stores nothing.
fn survey<P: Platform>(access: &Access<'_, P>, table: &Table, span: Span) -> Result<(), Error> {
    let g = access.geometry;
    let (first, last) = table.entries_of(span, g);
    for index in first..=last {
        let old = access.load(table, index);
        let va = Va(table.va(index).max(span.first));
        if old.is_table(table.level) {
            if !TableLimits::of(old).is_empty() {
                return Err(Error::NotUnderstood { va });
            }
            survey(access, &access.below(table, index, old), span)?;
        } else if !old.is_leaf(g, table.level) {
            let understood = !old.is_valid();
            return Err(if understood { Error::Hole { va } } else { Error::NotUnderstood { va } });
        } else {
            let members = if old.is_contiguous() { g.contiguous_entries(table.level) } else { 1 };
            let whole = table.run_of(index, members);
            if !span.covers(whole.first, whole.last) {
                return Err(Error::NeedsResize { va: Va(whole.first), policy: access.space.policy() });
            }
        }
    }
    Ok(())
}
