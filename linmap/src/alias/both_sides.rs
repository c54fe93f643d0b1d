//! A change of an area and of its aliases in the linear map, under the lock.
//!
//! Three steps. *Look*: find the aliases, in stretches that are as long as they can be, and see that everything is
//! mapped and may change; nothing is stored. *Cut*: have leaves that change begin and end where the stretches do. Table
//! pages or parking can fail there, before anything is stored (`cuts.rs`). *Change* in place, each side in one batch of
//! invalidations. That cannot fail.

use core::ops::ControlFlow::{Break, Continue};

use crate::alias::cuts::Cuts;
use crate::alias::extents::Backing;
use crate::build::Error;
use crate::format::{Edit, Entry, Span, Va};
use crate::live::{Access, AddressSpace, Editor, Survey};
use crate::plan::linear_range;
use crate::platform::Platform;
use crate::read::visit;

/// The two sides of a change under way.
pub(crate) struct Sides<'a, P> {
    pub(crate) space: &'a AddressSpace,
    /// What to add to a physical address to get its linear one.
    pub(crate) offset: u64,
    pub(crate) access: &'a Access<'a, P>,
    /// The area.
    pub(crate) span: Span,
    /// What becomes of it, and of the aliases.
    pub(crate) area: Edit,
    pub(crate) aliases: Edit,
}

/// What a look at both sides found.
#[derive(Default)]
pub(crate) struct Found {
    /// How many stretches have an alias, and the last of those: others are looked for again each time.
    stretches: usize,
    alias: Option<Span>,
    /// Whether any begins before the end of the previous one: then they may have pages in common.
    overlap: bool,
    /// What it takes.
    area: Survey,
    aliases: Survey,
}

impl<P: Platform> Sides<'_, P> {
    /// Finds the aliases, and what keeps both sides from changing, but for table pages and parking. Stores nothing.
    pub(crate) fn look(&self, found: &mut Found) -> Result<(), Error> {
        found.area = self.backing(&self.editor(self.span, self.area), &mut |stretch| {
            let Some(alias) = self.alias(stretch)? else { return Ok(()) };
            found.overlap |= found.alias.is_some_and(|before| alias.first <= before.last);
            (found.stretches, found.alias) = (found.stretches + 1, Some(alias));
            let survey = self.backing(&self.editor(alias, self.aliases), &mut |_| Ok(()))?;
            if survey.changes() && !broken!(AliasNotNoted) {
                self.space.noted().changes(alias);
            }
            found.aliases.include(&survey);
            Ok(())
        })?;
        self.access.may_resize(self.space.policy(), found.aliases.resizes.or(found.area.resizes))
    }

    /// Calls `each` for every stretch of physical memory that the range of an edit is mapped to. What the edit takes.
    fn backing(
        &self,
        editor: &Editor<'_, P>,
        each: &mut dyn FnMut(Span) -> Result<(), Error>,
    ) -> Result<Survey, Error> {
        let node = self.access.deepest(self.space.root_table(self.access), editor.span);
        Backing::new(editor).each(&node, each)
    }

    /// Where the linear map has physical memory, if it has any of it.
    ///
    /// # Errors
    ///
    /// A part of it lies outside of what the linear map can have.
    fn alias(&self, stretch: Span) -> Result<Option<Span>, Error> {
        let (Va(first), Va(last)) = linear_range(self.access.geometry);
        // Counted from the first address that the linear map can have.
        let at = |pa: u64| pa.wrapping_add(self.offset).wrapping_sub(first);
        let (from, to, most) = (at(stretch.first), at(stretch.last), last - first);
        let (begins, ends) = (from <= most, to <= most);
        if !begins && !ends && from <= to {
            return Ok(None);
        }
        let alias =
            Span { first: first + if begins { from } else { 0 }, last: first + if ends { to } else { most } };
        if !self.is_mapped(alias.first) && !self.maps_any(alias) {
            return Ok(None);
        }
        match (begins, ends) {
            (true, true) => Ok(Some(alias)),
            (true, false) => Err(Error::Hole { va: Va(last + 1) }),
            (false, _) => Err(Error::Hole { va: Va(first.wrapping_add(from)) }),
        }
    }

    fn is_mapped(&self, va: u64) -> bool {
        let table = self.access.deepest(self.space.root_table(self.access), Span { first: va, last: va });
        self.access.load(&table, table.index_of(va)).is_leaf(self.access.geometry, table.level)
    }

    /// Whether anything is mapped in a range.
    #[cold]
    fn maps_any(&self, Span { first, last }: Span) -> bool {
        let (space, g) = (self.space, self.access.geometry);
        let tables = space.tables(self.access.platform);
        let flow = visit(&tables, g, space.root(), (Va(first), Va(last)), |_, _, entry| match entry {
            Entry::Leaf(_) => Break(()),
            _ => Continue(()),
        });
        flow.unwrap_or_else(|e| match e {}).is_break()
    }

    fn editor(&self, span: Span, edit: Edit) -> Editor<'_, P> {
        Editor::new(self.access.again(), edit, span)
    }

    /// Has leaves begin and end where the stretches do, if any has to. All of them, or none.
    pub(crate) fn cut(&self, found: &Found) -> Result<(), Error> {
        if !found.aliases.splits && !found.area.splits {
            return Ok(());
        }
        let mut cuts = Cuts::new(self.access);
        match self.add_to(&mut cuts, found) {
            Ok(()) => {
                let in_use = found.aliases.resizes.or(found.area.resizes).is_some();
                cuts.carry_out(self.space.policy(), in_use)
            }
            Err(Error::OutOfFrames { taken }) => Err(Error::OutOfFrames { taken: taken + cuts.undo() }),
            Err(other) => {
                cuts.undo();
                Err(other)
            }
        }
    }

    fn add_to(&self, cuts: &mut Cuts<'_, P>, found: &Found) -> Result<(), Error> {
        if found.aliases.splits {
            self.each_alias(found, &mut |alias| Ok(cuts.add(self.aliases, alias)?))?;
        }
        if found.area.splits {
            cuts.add(self.area, self.span)?;
        }
        Ok(())
    }

    /// Calls `each` for every alias.
    fn each_alias(
        &self,
        found: &Found,
        each: &mut dyn FnMut(Span) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match (found.stretches, found.alias) {
            (1, Some(alias)) => each(alias),
            _ => self
                .backing(&self.editor(self.span, Edit::NONE), &mut |stretch| {
                    self.alias(stretch)?.map_or(Ok(()), &mut *each)
                })
                .map(|_| ()),
        }
    }

    /// Changes the area, in one batch.
    pub(crate) fn change_area(&self, found: &Found) {
        if found.area.changes() {
            let mut editor = Editor::new(self.access.again(), self.area, self.span);
            editor.alike = found.area.is_alike();
            editor.in_span(self.space, self.span);
            editor.finish();
        }
    }

    /// Changes the aliases, in one batch.
    pub(crate) fn change_aliases(&self, found: &Found) {
        if !found.aliases.changes() || broken!(AliasForgotten) {
            return;
        }
        let mut editor = Editor::new(self.access.again(), self.aliases, self.span);
        editor.alike = found.aliases.is_alike() && !found.overlap;
        _ = self.each_alias(found, &mut |alias| {
            editor.in_span(self.space, alias);
            Ok(())
        });
        if !broken!(AliasNotInvalidated) {
            editor.finish();
        }
    }
}
