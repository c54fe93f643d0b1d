//! Whole trees, built off line and moved into a live map where its root has holes: the linear map is created so.

use crate::build::Tree;
use crate::edit::call::{Call, Caller};
use crate::edit::editor::Editor;
use crate::edit::error::{ChangeError, CreateError};
use crate::edit::guard::{Form, Guard};
use crate::edit::operations::Live;
use crate::edit::tables::Tables;
use crate::format::{Descriptor, Half, Span, Va};
use crate::plan::{Layout, Leaves, Region, Stats};
use crate::platform::{Dsb, Hardware, Memory};
use crate::read::Table;

impl<G: Form> Live<'_, G> {
    /// Creates the linear map in a live address space that has nothing mapped there yet. Returns the counts of what was
    /// added.
    ///
    /// The tree is built off line in one pass and published by one store for each entry of the root: no TLBI, two DSB and
    /// one ISB, whatever the size of RAM. Another CPU that uses the tables already needs a context synchronisation event
    /// before it uses the linear map, as [`map`](Self::map) says.
    ///
    /// # Errors
    ///
    /// Out of frames; an existing mapping in the range; a layout of another geometry or page size. The address space is
    /// then as before, and every frame has been given back.
    ///
    /// # Safety
    ///
    /// The ranges that the layout calls RAM are RAM, and may be read and written through the linear map as well as through
    /// all other addresses that map them: none of these has another memory type, and nothing depends on the memory not
    /// being written.
    pub unsafe fn create(&mut self, layout: &Layout<'_>, leaves: Leaves) -> Result<Stats, CreateError> {
        let tables = self.tables();
        if (layout.geometry(), Half::Upper) != (tables.geometry(), tables.half()) {
            return Err(CreateError::OtherGeometry);
        }
        // All leaves have the memory types that the caller chose, and none is executable.
        self.graft(layout.regions(leaves))
    }

    /// Creates mappings of the caller's own choice in a live address space: each region has its addresses, attributes and
    /// leaf sizes. Returns the counts of what was added. Everything else is as in [`create`](Self::create).
    ///
    /// So a kernel makes a linear map whose layout it knows already, with several parts that have attributes of their own. A
    /// region shares no leaf with its neighbours, even if they continue it: the alias of the kernel's text, as a region of its
    /// own, becomes read-only later without a change of size. A region in pages ([`Leaves::Pages`]) stays in pages
    /// ([`Attributes::STAYS_SPLIT`](crate::Attributes::STAYS_SPLIT)). [`Stats::of_runs`] of the regions' runs counts what it takes.
    ///
    /// ```
    /// use linmap::host::HostMemory;
    /// use linmap::{SharedSpace, Attributes, Change, Geometry, Granule, Half, OaFormat, Pa, Region, Tree, Va};
    ///
    /// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?.with_largest_leaf(1 << 30);
    /// let memory = HostMemory::new(g, 16);
    /// let platform = memory.platform();
    /// let space = SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, core::iter::empty())?);
    /// let at = |pa: u64| Va(g.base(Half::Upper) | pa);
    /// let region = |pa: core::ops::Range<u64>, attributes| Region::new(at(pa.start), Pa(pa.start), pa.end - pa.start, attributes);
    /// let text = 0x4021_0000..0x4024_0000;
    /// let regions = [
    ///     region(0x4000_0000..text.start, Attributes::RAM),
    ///     region(text.clone(), Attributes::KERNEL_DATA),
    ///     region(text.end..0x8000_0000, Attributes::RAM),
    /// ];
    /// // SAFETY: no CPU uses these tables.
    /// unsafe { space.on(&platform).create_regions(regions)? };
    ///
    /// // No leaf changes its size: it is possible under the policy `Fixed`.
    /// // SAFETY: as above.
    /// unsafe { space.on(&platform).protect(at(text.start), (text.end - text.start) >> 12, Change::READ_ONLY)? };
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Regions that are not in ascending address order, or overlap; memory that is both writable and executable, unless
    /// [permitted](crate::Tables::allow_write_execute). All others as for [`create`](Self::create). The address space is then as before, and
    /// every frame has been given back.
    ///
    /// # Safety
    ///
    /// As for [`map`](Self::map), for each region.
    pub unsafe fn create_regions(
        &mut self,
        regions: impl IntoIterator<Item = Region>,
    ) -> Result<Stats, CreateError> {
        self.graft(regions.into_iter().map(Region::that_stays))
    }

    /// Builds the tree of some regions, and moves it into the map, where the root has holes.
    ///
    /// Each entry of the tree's root moves into the live root by one store; everything below it is in its final state before a walker can
    /// see it. The tree's own root page goes back to the memory.
    // Inlined, as all that is done with the tree: otherwise it is copied at each step.
    #[inline(always)]
    fn graft(&self, regions: impl Iterator<Item = Region>) -> Result<Stats, CreateError> {
        let (Caller { platform, .. }, tables) = (self.caller, self.tables());
        let attributes = tables.table_attributes();
        let mut tree = Tree::of_regions(platform, tables.geometry(), tables.half(), attributes, regions)?;
        let grafted = may_graft(tables, &tree).and_then(|span| publish(self.caller, &mut tree, span));
        settled(platform, tree, grafted)
    }
}

/// Checks a tree. Returns the addresses of the entries of the root that its entries may take; those of one if it has none.
fn may_graft(tables: &Tables, tree: &Tree) -> Result<Span, CreateError> {
    let span = touched_by(tables, tree);
    if !tree.used().is_empty()
        && let Err(ChangeError::NotOwned { va }) = tables.owns(span)
    {
        return Err(CreateError::NotOwned { va });
    }
    match tree.write_execute() {
        Some(va) if !tables.allows_write_execute() => Err(CreateError::WriteExecute { va }),
        _ => Ok(span),
    }
}

/// Moves the entries of the tree's root into the live root.
fn publish<G: Guard>(caller: Caller<'_, G>, tree: &mut Tree, span: Span) -> Result<(), CreateError> {
    let published = Call::new(caller).attempts(span, |editor| {
        let root = editor.root();
        is_free(editor, &root, tree)?;
        editor.guard.mark(span);
        store_root(editor, &root, tree);
        Ok(())
    });
    match published {
        Err(ChangeError::Occupied { va }) => Err(CreateError::Occupied { va }),
        Err(_) => Err(CreateError::Busy { va: Va(span.first) }),
        Ok(_) => Ok(()),
    }
}

#[inline(always)]
fn touched_by(tables: &Tables, tree: &Tree) -> Span {
    let used = tree.used();
    let at = |index: usize| tables.base() + ((index as u64) << tables.root_shift());
    let last = used.end.max(used.start + 1) - 1;
    Span { first: at(used.start), last: at(last) + ((1 << tables.root_shift()) - 1) }
}

/// Gives the root of a tree that was grafted back, or all of a tree that was not.
#[inline(always)]
fn settled(memory: &impl Memory, tree: Tree, grafted: Result<(), CreateError>) -> Result<Stats, CreateError> {
    match grafted {
        Ok(()) => {
            let stats = tree.stats();
            memory.give(tree.into_root());
            Ok(stats)
        }
        Err(error) => {
            tree.discard(memory);
            Err(error)
        }
    }
}

/// Checks that the live root has holes where a tree may have entries.
///
/// # Errors
///
/// It has something there.
fn is_free<G: Guard>(editor: &Editor<'_, G>, root: &Table, tree: &Tree) -> Result<(), ChangeError> {
    match tree.used().find(|&n| editor.load(root, n) != Descriptor::HOLE) {
        Some(index) => Err(ChangeError::Occupied { va: Va(root.va(index)) }),
        None => Ok(()),
    }
}

/// Stores the entries of a tree's root, which are holes in the live root, and counts the tree.
#[inline(always)]
fn store_root<G: Guard>(editor: &Editor<'_, G>, root: &Table, tree: &mut Tree) {
    let (used, stats) = (tree.used(), tree.stats());
    editor.publish_barrier();
    tree.with_root_entries(editor.platform, |entries| {
        for (index, &bits) in used.clone().zip(&entries[used]) {
            if bits != 0 {
                editor.store(root, index, Descriptor(bits));
            }
        }
    });
    editor.platform.dsb(Dsb::Ishst);
    editor.platform.isb();
    // The tree's own root is given back.
    let below = Stats { tables: stats.tables - 1, ..stats };
    editor.count(|counters| counters.include(&below));
}
