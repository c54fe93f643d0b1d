//! rodata=full: memory that becomes read-only anywhere becomes read-only in the linear map, and writable again with it.
//!
//! A vmalloc-like area maps pages of RAM, each of which the linear map has as well: its *alias*. When permissions are
//! removed, the aliases change first; when permissions are granted, they change last (`both_sides.rs`). So a page that
//! is read-only in the area is never writable through its alias, neither in the tables nor in a TLB. A memory type is of both,
//! too: they go out together, and come back together (`remake_both.rs`).

use core::cell::Cell;

use crate::alias::both_sides::{BothSides, Findings};
use crate::alias::long::long;
use crate::alias::remake::remake_both;
use crate::alias::sides::{Side, Sides};
use crate::edit::{Call, ChangeError, Cover, Guard, Live, RemakeError, tables_for_ends};
use crate::format::{Change, LeafChange, Remake, Span, Va};
use crate::plan::{Rodata, linear_range};
use crate::platform::Platform;
use crate::share::Hold;

/// An area whose pages the linear map has as well, and the operations that change the permissions of both.
///
/// All methods do everything or nothing, as those of [`Live`] do, except when CPUs stop parking half way
/// ([`set_memory_ro`](Self::set_memory_ro)). They cost as much as [`protect`](crate::Live::protect) on both sides: two
/// batches of invalidations if aliases change, otherwise one.
///
/// ```
/// use linmap::host::HostMemory;
/// use linmap::layout::linear_range;
/// use linmap::{SharedSpace, Aliased, Attributes, Geometry, Granule, Half, OaFormat, Pa, Policy, Rodata, Tree, Va};
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let memory = HostMemory::new(g, 100);
/// let platform = memory.platform();
/// let space = SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, std::iter::empty())?);
/// space.set_policy(Policy::Live);
/// let (linear, area) = (linear_range(g).0, Va(0xffff_8000_0000_0000));
/// // SAFETY (of this and what follows): no CPU uses these tables.
/// unsafe {
///     space.on(&platform).map(linear, 1 << 18, Pa(0), Attributes::RAM)?;
///     space.on(&platform).map(area, 3, Pa(0x5000), Attributes::RAM)?;
///     Aliased::new(space.on(&platform), linear.0, Rodata::Full).set_memory_ro(area, 3)?;
/// }
/// // The 1G block is split: 3 pages of it are read-only now, too.
/// assert_eq!(space.on(&platform).changes().splits, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `LOCKS` is that of the [space](crate::SharedSpace).
#[derive(Debug)]
pub struct Aliased<'a, P: Platform, const LOCKS: usize = 64> {
    live: Live<'a, Hold<'a, P, LOCKS>>,
    offset: u64,
    range: (Va, Va),
    /// Bits of output addresses that are not of the memory.
    besides: u64,
    rodata: Rodata,
}

/// The change of aliases, and its order.
#[derive(Clone, Copy)]
enum Alias {
    /// Permissions are removed: the aliases change before the area.
    First(Change),
    /// Permissions are granted: the aliases change after the area.
    Last(Change),
}

impl Alias {
    /// Returns the sides in the order of their changes.
    fn phases(self) -> [Side; 2] {
        match self {
            Self::First(_) => [Side::Aliases, Side::Area],
            Self::Last(_) => [Side::Area, Side::Aliases],
        }
    }
}

impl<'a, P: Platform, const LOCKS: usize> Aliased<'a, P, LOCKS> {
    /// Returns the operations for areas of this address space, which also has the linear map. `offset` is the value to
    /// add to a physical address to get its linear address, wrapping ([`Layout::offset`](crate::Layout::offset)).
    /// Aliases change only with [`Rodata::Full`].
    pub fn new(live: Live<'a, Hold<'a, P, LOCKS>>, offset: u64, rodata: Rodata) -> Self {
        let range = linear_range(live.tables().geometry());
        Self { live, offset, range, besides: 0, rodata }
    }

    /// Looks for aliases in a range of addresses, both included, instead of [`linear_range`]: that of the map
    /// ([`Layout::range`](crate::Layout::range)), if [`Layout::at`](crate::Layout::at) has moved it.
    #[must_use]
    pub fn in_range(self, range: (Va, Va)) -> Self {
        Self { range, ..self }
    }

    /// Leaves these bits of output addresses out when aliases are looked for: they say whose the memory is, as the bit by which
    /// a realm shares it, and memory has its alias where it has none of them.
    #[must_use]
    pub fn sharing_bits(self, bits: u64) -> Self {
        Self { besides: bits, ..self }
    }

    /// Makes `pages` pages from `va` on, and their aliases, read-only.
    ///
    /// # Errors
    ///
    /// As for [`Live::protect`](crate::Live::protect), for the area and for the aliases. Memory outside the linear map has no alias.
    /// Consecutive memory of which the linear map has only a part is refused as a hole. Translations and permissions
    /// are then as before, although leaves may have been split.
    ///
    /// An area that has, with its aliases, more entries than [`HOLD`](crate::Sharing::HOLD), or more than 16 ends within leaves,
    /// takes several holds; each stretch of consecutive memory after the first counts as 32 entries. Then the area is claimed
    /// with its aliases, and the call may fail with [`ChangeError::Busy`]. Under [`Policy::Park`](crate::Policy::Park) CPUs are
    /// parked once for each extent of memory whose ends are split. If they stop parking after the first time, the leaves of the
    /// previous parkings stay split, and translate as before.
    ///
    /// An area of more than 15 aliases changes part by part, one side after the other. If another caller changes the same pages
    /// meanwhile, the call may be refused after some parts have changed.
    ///
    /// # Safety
    ///
    /// As for [`Live::protect`](crate::Live::protect), for the pages by both addresses.
    pub unsafe fn set_memory_ro(&mut self, va: Va, pages: u64) -> Result<(), ChangeError> {
        let alias = Alias::First(Change::READ_ONLY);
        // SAFETY: the caller's promise.
        unsafe { self.change((va, pages), Change::READ_ONLY, alias) }
    }

    /// Makes pages, and then their aliases, writable. The pages must not be executable.
    ///
    /// # Errors
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    ///
    /// # Safety
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    pub unsafe fn set_memory_rw(&mut self, va: Va, pages: u64) -> Result<(), ChangeError> {
        let alias = Alias::Last(Change::WRITABLE);
        // SAFETY: the caller's promise.
        unsafe { self.change((va, pages), Change::WRITABLE, alias) }
    }

    /// Makes read-only pages executable. Their aliases stay as they are. For pages with new code use
    /// [`set_memory_rox`](Self::set_memory_rox).
    ///
    /// # Errors
    ///
    /// As for [`Live::protect`](crate::Live::protect).
    ///
    /// # Safety
    ///
    /// As for [`Live::protect`](crate::Live::protect).
    pub unsafe fn set_memory_x(&mut self, va: Va, pages: u64) -> Result<(), ChangeError> {
        // SAFETY: the caller's promise.
        unsafe { self.live.protect(va, pages, Change::EXECUTABLE) }
    }

    /// Removes the permission to execute pages. Their aliases stay as they are.
    ///
    /// # Errors
    ///
    /// As for [`Live::protect`](crate::Live::protect).
    ///
    /// # Safety
    ///
    /// As for [`Live::protect`](crate::Live::protect).
    pub unsafe fn set_memory_nx(&mut self, va: Va, pages: u64) -> Result<(), ChangeError> {
        // SAFETY: the caller's promise.
        unsafe { self.live.protect(va, pages, Change::NOT_EXECUTABLE) }
    }

    /// Makes pages with new code read-only and executable at once, and their aliases read-only before that. Makes
    /// instruction caches coherent with their contents ([`Hardware::sync_code`](crate::Hardware::sync_code)). On return
    /// this CPU may execute them; another CPU may do so after its next context synchronisation event.
    ///
    /// # Errors
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    ///
    /// # Safety
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro). All of the pages are valid, since caches are maintained by their
    /// addresses.
    pub unsafe fn set_memory_rox(&mut self, va: Va, pages: u64) -> Result<(), ChangeError> {
        let (code, alias) = (Change::READ_ONLY.and(Change::EXECUTABLE), Alias::First(Change::READ_ONLY));
        // SAFETY: the caller's promise.
        unsafe { self.change((va, pages), code, alias)? };
        let shift = self.live.tables().geometry().page_shift();
        self.live.caller.platform.sync_code(va, pages << shift);
        Ok(())
    }

    /// Makes pages invalid, or valid again. Their aliases stay as they are.
    ///
    /// # Errors
    ///
    /// As for [`Live::set_valid`](crate::Live::set_valid).
    ///
    /// # Safety
    ///
    /// As for [`Live::set_valid`](crate::Live::set_valid).
    pub unsafe fn set_memory_valid(&mut self, va: Va, pages: u64, valid: bool) -> Result<(), ChangeError> {
        // SAFETY: the caller's promise.
        unsafe { self.live.set_valid(va, pages, valid) }
    }

    /// Remakes `pages` pages from `va` on, and all their aliases with them, whatever [`Rodata`] says: memory that is write-back
    /// at one address is not of another type at the other one (Arm ARM B2.11). Both sides are out before `step` is called,
    /// and come back after it. Both are valid afterwards.
    ///
    /// The bits that [`Remake::address_bits`] sets or clears do not count when aliases are looked for
    /// ([`sharing_bits`](Self::sharing_bits)). [`Remake::to`] has the area lead to other memory; then no alias changes.
    ///
    /// # Errors
    ///
    /// As for [`Live::remake`](crate::Live::remake), for the area and for the aliases. Memory outside the linear map has no alias.
    /// Consecutive memory of which the linear map has only a part is refused as a hole. If the step fails, both sides stay
    /// invalid. Under [`Policy::Park`](crate::Policy::Park) CPUs are parked once for each extent of memory whose ends are
    /// split.
    ///
    /// # Safety
    ///
    /// As for [`Live::remake`](crate::Live::remake), for the pages by both addresses. No third address maps them.
    pub unsafe fn remake<E>(
        &mut self,
        va: Va,
        pages: u64,
        remake: Remake,
        step: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), RemakeError<E>> {
        let (Some(bits), true) = (remake.bits(), self.has_linear_map()) else {
            // SAFETY: the caller's promise.
            return unsafe { self.live.remake(va, pages, remake, step) };
        };
        let tables = self.live.tables();
        let Some(span) = tables.remade_span(va, pages, remake)? else { return Ok(()) };
        // All leaves of both sides go out, whatever they are, and are cut for that.
        let sides = self.sides(span, bits, [LeafChange::REMOVE; 2]);
        remake_both(&mut Call::new(self.live.caller), &sides, &remake.of(span.first, tables.geometry()), step)
    }

    /// Returns the locks of the area and of its first page's alias, and the number of table pages that it takes to cut the alias
    /// out of the leaf that this is in. Most areas take no more. An attempt without them would only find out that it takes them.
    fn likely_needs(&self, sides: &Sides) -> (Cover, u64) {
        let (g, own) = (self.live.tables().geometry(), Hold::<P, LOCKS>::for_stores(sides.span));
        let looked_up = self.live.read(|reader| {
            let first = reader.translate(Va(sides.span.first))?.0;
            let last = first + (sides.span.last - sides.span.first);
            let alias = sides.reach(Span { first, last })?.alias;
            reader.descriptor(Va(alias.first)).map(|(Va(leaf), level, _)| (alias, leaf, level))
        });
        let Some((alias, first, level)) = looked_up else { return (own, 0) };
        let leaf = Span { first, last: first + (g.level_size(level) - 1) };
        let alias_lock = Hold::<P, LOCKS>::for_stores(Span { last: alias.first, ..alias });
        (own.and(alias_lock), tables_for_ends(g, level, leaf, alias))
    }

    /// Returns a change of an area and of its aliases. These bits of output addresses do not count either.
    const fn sides(&self, span: Span, bits: u64, [area, aliases]: [LeafChange; 2]) -> Sides {
        let aliases = LeafChange { skip_holes: true, ..aliases };
        Sides { offset: self.offset, range: self.range, besides: self.besides | bits, span, area, aliases }
    }

    /// Returns true if the address space has the linear map, which the lower half has not.
    fn has_linear_map(&self) -> bool {
        let tables = self.live.tables();
        tables.base() == linear_range(tables.geometry()).0.0
    }

    /// Changes the pages, and their aliases before or after them.
    ///
    /// # Safety
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    unsafe fn change(
        &mut self,
        (va, pages): (Va, u64),
        change: Change,
        alias: Alias,
    ) -> Result<(), ChangeError> {
        if self.rodata != Rodata::Full || !self.has_linear_map() {
            // SAFETY: the caller's promise.
            return unsafe { self.live.protect(va, pages, change) };
        }
        let tables = self.live.tables();
        let Some(span) = tables.span(va, pages)? else { return Ok(()) };
        let (Alias::First(follows) | Alias::Last(follows)) = alias;
        tables.may_change(change, va).and_then(|()| tables.may_change(follows, va))?;
        let sides = self.sides(span, 0, [tables.leaf_change(change), tables.leaf_change(follows)]);
        let mut call = Call::new(self.live.caller);
        let (locks, tables) = self.likely_needs(&sides);
        // Without them the attempt says whether it takes them.
        _ = call.frames(tables);
        let wishes = Cell::new(true);
        let done = call.attempts_with(locks, core::iter::once(span), |editor| {
            editor.guard.mark(span);
            let way = editor.deepest(editor.root(), span);
            let both = BothSides { editor, sides: &sides, wishes: &wishes, way };
            let mut found = Findings::default();
            both.survey(&mut found)?;
            both.change_both(alias.phases(), &found)
        })?;
        if done.is_none() { long(&mut call, &sides, alias.phases()) } else { Ok(()) }
    }
}
