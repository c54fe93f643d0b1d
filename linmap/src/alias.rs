//! rodata=full: what becomes read-only anywhere becomes read-only in the linear map, and writable again with it.
//!
//! An area that is mapped at will has pages of RAM, each of which the linear map has as well: its *alias*.
//! Three steps, under one lock. *Look*: find the aliases, in stretches that are as long as they can be, and see
//! that everything is mapped and may change. *Cut*: have leaves begin and end where the stretches do. That is all
//! that can fail, and if it does, what was cut collapses again. *Change* in place: the aliases before the area
//! where something is taken away, after it where something is given; each side is one batch of invalidations. So
//! there is no moment at which a page that is read-only in the area can be written through its alias.

use crate::address_space::AddressSpace;
use crate::backing::Backing;
use crate::edit::{Edit, Editor};
use crate::live::{Access, Span};
use crate::{Change, Error, Platform, Rodata, Va};

/// An area whose pages the linear map has as well, and how their permissions change.
///
/// All methods are all or nothing, as those of [`AddressSpace`] are. They cost what
/// [`protect`](AddressSpace::protect) does, on both sides: two batches of invalidations where aliases change, one
/// where none do.
///
/// ```
/// use linmap::host::HostMemory;
/// use linmap::{AddressSpace, Aliased, Attributes, Geometry, Granule, Half, OaFormat, Pa, Policy, Rodata, Tree, Va};
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let memory = HostMemory::new(g, 100);
/// let platform = memory.platform();
/// let space = AddressSpace::adopt(Tree::build(&platform, g, Half::Upper, std::iter::empty())?);
/// space.set_policy(Policy::Live);
/// let (linear, area) = (linmap::linear_range(g).0, Va(0xffff_8000_0000_0000));
/// // SAFETY (of this and what follows): no CPU uses these tables.
/// unsafe {
///     space.map(&platform, linear, 1 << 18, Pa(0), Attributes::RAM)?;
///     space.map(&platform, area, 3, Pa(0x5000), Attributes::RAM)?;
///     let aliased = Aliased::new(&space, linear.0, Rodata::Full);
///     aliased.set_memory_ro(&platform, area, 3)?;
/// }
/// // The 1G block is split: 3 pages of it are read-only now, too.
/// assert_eq!(space.changes(&platform).splits, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Aliased<'a> {
    space: &'a AddressSpace,
    offset: u64,
    rodata: Rodata,
}

/// What becomes of aliases, and when.
#[derive(Clone, Copy)]
enum Alias {
    /// Nothing.
    Stays,
    /// Something is taken away: before it is taken from the area.
    First(Change),
    /// Something is given: after the area has it.
    Last(Change),
}

impl<'a> Aliased<'a> {
    /// An area of this address space, which has the linear map as well. `offset` is what to add to a physical
    /// address to get its linear one, wrapping ([`Layout::offset`](crate::Layout::offset)). Aliases follow with
    /// [`Rodata::Full`] alone.
    pub const fn new(space: &'a AddressSpace, offset: u64, rodata: Rodata) -> Self {
        Self { space, offset, rodata }
    }

    /// Makes `pages` pages from `va` on read-only, and their aliases.
    ///
    /// # Errors
    ///
    /// As for [`AddressSpace::protect`], of the area as of the aliases. Memory that the linear map does not
    /// have has no alias. Then no permission has changed.
    ///
    /// # Safety
    ///
    /// As for [`AddressSpace::protect`], for the pages by either address.
    pub unsafe fn set_memory_ro<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), Error> {
        self.change(platform, (va, pages), Change::READ_ONLY, Alias::First(Change::READ_ONLY))
    }

    /// Makes pages writable, and then their aliases. Not while they are executable.
    ///
    /// # Errors
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    ///
    /// # Safety
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    pub unsafe fn set_memory_rw<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), Error> {
        self.change(platform, (va, pages), Change::WRITABLE, Alias::Last(Change::WRITABLE))
    }

    /// Makes pages executable, which are read-only. For pages that hold new code,
    /// [`set_memory_rox`](Self::set_memory_rox) is right.
    ///
    /// # Errors
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    ///
    /// # Safety
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    pub unsafe fn set_memory_x<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), Error> {
        self.change(platform, (va, pages), Change::EXECUTABLE, Alias::Stays)
    }

    /// Makes pages not executable.
    ///
    /// # Errors
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    ///
    /// # Safety
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    pub unsafe fn set_memory_nx<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), Error> {
        self.change(platform, (va, pages), Change::NOT_EXECUTABLE, Alias::Stays)
    }

    /// Makes pages that were written read-only and executable at once, their aliases read-only before, and
    /// instruction caches coherent with what is in them ([`Hardware::sync_code`](crate::Hardware::sync_code)). On
    /// return this CPU may execute them; another one after its next context synchronisation event.
    ///
    /// # Errors
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    ///
    /// # Safety
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    pub unsafe fn set_memory_rox<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), Error> {
        let code = Change::READ_ONLY.and(Change::EXECUTABLE);
        self.change(platform, (va, pages), code, Alias::First(Change::READ_ONLY))?;
        platform.sync_code(va, pages << self.space.geometry().page_shift());
        Ok(())
    }

    /// Makes pages invalid, or valid again. Their aliases stay as they are.
    ///
    /// # Errors
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    ///
    /// # Safety
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    pub unsafe fn set_memory_valid<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
        valid: bool,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.space.set_valid(platform, va, pages, valid) }
    }

    fn change<P: Platform>(
        &self,
        platform: &P,
        (va, pages): (Va, u64),
        change: Change,
        alias: Alias,
    ) -> Result<(), Error> {
        let Some(span) = self.space.span(va, pages)? else { return Ok(()) };
        let alias = if self.rodata == Rodata::Full { alias } else { Alias::Stays };
        let _held = platform.lock();
        self.space.noted().changes(span);
        let access = &self.space.access(platform);
        let sides = Sides { of: self, access, span, edit: self.space.edit_of(change), only: None };
        match alias {
            Alias::Stays => sides.prepared(None)?.area(),
            Alias::First(change) => {
                let sides = sides.prepared(Some(change))?;
                sides.aliases(change);
                sides.area();
            }
            Alias::Last(change) => {
                let sides = sides.prepared(Some(change))?;
                sides.area();
                sides.aliases(change);
            }
        }
        Ok(())
    }
}

/// The two sides of a change under way.
struct Sides<'a, P> {
    of: &'a Aliased<'a>,
    access: &'a Access<'a, P>,
    span: Span,
    edit: Edit,
    /// The aliases, if they are one stretch; else they are looked for again each time.
    only: Option<Span>,
}

impl<P: Platform> Sides<'_, P> {
    /// All that can fail: with leaves that begin and end where the stretches do.
    fn prepared(mut self, alias: Option<Change>) -> Result<Self, Error> {
        let (mut found, mut only) = (0, None);
        let looked = self.backing(self.span, self.edit, &mut |stretch| {
            let (Some(change), Some(alias)) = (alias, self.alias(stretch)) else { return Ok(()) };
            self.of.space.noted().changes(alias);
            self.backing(alias, self.of.space.edit_of(change), &mut |_| Ok(()))?;
            (found, only) = (found + 1, Some(alias));
            self.cut(alias)
        });
        if let Err(error) = looked.and_then(|()| self.cut(self.span)) {
            self.uncut(alias.is_some());
            return Err(error);
        }
        if found == 1 {
            self.only = only;
        }
        Ok(self)
    }

    /// Calls `each` for every stretch of physical memory that a range is mapped to.
    fn backing(
        &self,
        span: Span,
        edit: Edit,
        each: &mut dyn FnMut(Span) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let node = self.access.deepest(self.of.space.root_table(self.access), span);
        Backing::new(self.access, span, edit).each(&node, each)
    }

    /// Where the linear map has physical memory, if it does.
    fn alias(&self, stretch: Span) -> Option<Span> {
        let at = |pa: u64| pa.wrapping_add(self.of.offset);
        let (first, last) = crate::linear_range(self.access.geometry);
        let alias = Span { first: at(stretch.first), last: at(stretch.last) };
        let within = first.0 <= alias.first && alias.first <= alias.last && alias.last <= last.0;
        (within && (self.is_mapped(alias.first) || self.is_mapped(alias.last))).then_some(alias)
    }

    fn is_mapped(&self, va: u64) -> bool {
        let table = self.access.deepest(self.of.space.root_table(self.access), Span { first: va, last: va });
        self.access.load(&table, table.index_of(va)).is_leaf(self.access.geometry, table.level)
    }

    fn cut(&self, span: Span) -> Result<(), Error> {
        let node = self.access.deepest(self.of.space.root_table(self.access), span);
        Editor::cutting(self.access.again(), span).cut(self.of.space, &node)
    }

    /// What was cut collapses again, as far as it can: no permission has changed.
    #[cold]
    fn uncut(&self, aliases: bool) {
        let collapse = |span| _ = self.of.space.collapse_span(self.access.again(), span);
        collapse(self.span);
        if aliases {
            // It ends where the cutting did, if that was for what it came across.
            _ = self.backing(self.span, Edit::NONE, &mut |stretch| {
                self.alias(stretch).into_iter().for_each(collapse);
                Ok(())
            });
        }
    }

    /// Changes the area, in one batch.
    fn area(&self) {
        self.in_place(self.edit, |editor| editor.in_span(self.of.space, self.span));
    }

    /// Changes the aliases, in one batch.
    fn aliases(&self, change: Change) {
        self.in_place(self.of.space.edit_of(change), |editor| match self.only {
            Some(alias) => editor.in_span(self.of.space, alias),
            None => {
                _ = self.backing(self.span, Edit::NONE, &mut |stretch| {
                    self.alias(stretch).into_iter().for_each(|alias| editor.in_span(self.of.space, alias));
                    Ok(())
                });
            }
        });
    }

    fn in_place(&self, edit: Edit, changes: impl FnOnce(&mut Editor<'_, P>)) {
        let mut editor = Editor::new(self.access.again(), edit, self.span);
        changes(&mut editor);
        editor.finish();
    }
}
