//! RAM that comes and goes while the map is in use: hot-add and hot-remove.
//!
//! *Add* maps RAM in the largest leaves, and merges them at both ends with what was there. *Remove* claims the range and
//! checks that it is RAM as it was added; then it is unmapped. So the tables are afterwards what they would be if the
//! RAM had been there, or not been there, when the map was created.

use core::ops::Range;

use crate::edit::{
    Call, ChangeError, Editor, Guard, Live, LiveVisitor, Stop, Survey, collapse, refusal, unmap_claimed,
};
use crate::format::{
    Attributes, Descriptor, Entry, Leaf, LeafChange, Pa, Span, Unaligned, Va, in_place_bits,
};
use crate::plan::{Layout, Leaves};
use crate::platform::Platform;
use crate::read::{Entries, visit_span};
use crate::share::Hold;

/// The linear map of a live address space, whose RAM comes and goes.
///
/// ```
/// use linmap::host::HostMemory;
/// use linmap::{
///     SharedSpace, Geometry, Granule, Half, Hotplug, Layout, Leaves, OaFormat, Pa, Policy, Tree,
/// };
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let memory = HostMemory::new(g, 16);
/// let platform = memory.platform();
/// let space = SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, core::iter::empty())?);
/// space.set_policy(Policy::Live);
/// let mut ram = [Pa(0x4000_0000)..Pa(0x7fe0_0000)];
/// let layout = Layout::of_ram(g, &mut ram)?;
/// // SAFETY: no CPU uses these tables.
/// unsafe { space.on(&platform).create(&layout, Leaves::Largest)? };
/// let at_boot = space.on(&platform).stats();
///
/// // The last 2 MiB of a gigabyte, and the gigabyte after it.
/// let mut hotplug = Hotplug::new(space.on(&platform), &layout);
/// // SAFETY: as above.
/// unsafe { hotplug.add(Pa(0x7fe0_0000)..Pa(0xc000_0000))? };
/// assert_eq!(space.on(&platform).stats().tables, 2, "two leaves of a gigabyte, in the table below the root");
///
/// // SAFETY: as above.
/// unsafe { hotplug.remove(Pa(0x7fe0_0000)..Pa(0xc000_0000))? };
/// assert_eq!(space.on(&platform).stats(), at_boot);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// `LOCKS` is that of the [space](crate::SharedSpace).
#[derive(Debug)]
pub struct Hotplug<'a, P: Platform, const LOCKS: usize = 64> {
    live: Live<'a, Hold<'a, P, LOCKS>>,
    /// The value to add to a physical address, wrapping.
    offset: u64,
    /// The physical addresses that the linear map reaches.
    reach: Range<Pa>,
    attributes: Attributes,
    /// The leaves of RAM that is added, if the policy does not say.
    leaves: Option<Leaves>,
}

impl<'a, P: Platform, const LOCKS: usize> Hotplug<'a, P, LOCKS> {
    /// Returns the linear map that was laid out like this: RAM is added at the same offset, with the same attributes.
    pub const fn new(live: Live<'a, Hold<'a, P, LOCKS>>, layout: &Layout<'_>) -> Self {
        let Range { start, end } = layout.mapped();
        Self::of(live, layout.offset(), *start..*end, layout.ram_attributes())
    }

    /// Does the same without a layout. `offset` is the value to add to a physical address, wrapping; `reach` are the physical
    /// addresses that the map can take in; RAM that comes and goes has these attributes.
    pub const fn of(
        live: Live<'a, Hold<'a, P, LOCKS>>,
        offset: u64,
        reach: Range<Pa>,
        attributes: Attributes,
    ) -> Self {
        Self { live, offset, reach, attributes, leaves: None }
    }

    /// Adds RAM in these leaves from now on, whatever the policy, as [`create`](crate::Live::create) does: large ones are
    /// permitted where nothing changes their size later. RAM that is added in pages stays in pages
    /// ([`Attributes::STAYS_SPLIT`]).
    pub fn with_leaves(self, leaves: Leaves) -> Self {
        Self { leaves: Some(leaves), ..self }
    }

    /// Adds RAM: maps it as [`Live::map`](crate::Live::map) does, and then returns to larger leaves where it continues RAM that was
    /// there. An empty range is permitted.
    ///
    /// Nothing merges if the policy or the CPUs do not permit live changes of size, nor with what is not RAM of the same
    /// attributes, of which [`Attributes::STAYS_SPLIT`] is one. Other leaves keep their size, so the policy
    /// [`Fixed`](crate::Policy::Fixed) is enough to add RAM.
    ///
    /// Another CPU uses the RAM as `map` says: after a context synchronisation event.
    ///
    /// # Errors
    ///
    /// RAM beyond what the linear map reaches; a range that does not start and end at page boundaries; a mapping in it,
    /// valid or present-invalid; out of frames; a claim in the way. Nothing has changed then.
    ///
    /// # Safety
    ///
    /// The range is RAM, which may be read and written through the linear map, as [`create`](crate::Live::create) asks. The
    /// platform is that of the tables.
    pub unsafe fn add(&mut self, ram: Range<Pa>) -> Result<(), ChangeError> {
        let Some((va, pages)) = self.range(&ram)? else { return Ok(()) };
        let stays =
            if self.leaves == Some(Leaves::Pages) { Attributes::STAYS_SPLIT } else { Attributes::empty() };
        let leaves = self.leaves.unwrap_or(self.live.tables().leaves());
        let attributes = self.attributes.union(stays);
        self.live.map_in((va, pages), (ram.start, attributes), leaves)?;
        if !stays.is_empty() {
            return Ok(());
        }
        let last = Va(ram.end.0.wrapping_add(self.offset).wrapping_sub(1));
        self.join(va);
        // After the highest address comes 0.
        last.0.checked_add(1).inspect(|next| self.join(Va(*next)));
        Ok(())
    }

    /// Removes RAM: unmaps it as [`Live::unmap`](crate::Live::unmap) does, if all of it is RAM as [`add`](Self::add) and
    /// [`create`](crate::Live::create) map it: valid, at its own address, with their attributes, whether in pages that stay so or
    /// not. A leaf that reaches beyond the range is split; a table that becomes empty is given back. On return no TLB has any
    /// of it. An empty range is permitted.
    ///
    /// # Errors
    ///
    /// [`NotRam`](ChangeError::NotRam) for memory that is in use for something special: read-only, not valid, or of another
    /// memory type; a hole; a leaf at an end that would have to be split although the policy or the CPUs do not permit it;
    /// all others as for [`add`](Self::add). No translation has changed then.
    ///
    /// # Safety
    ///
    /// Nothing uses these addresses, and no memory of the range is a table page of the map.
    pub unsafe fn remove(&mut self, ram: Range<Pa>) -> Result<(), ChangeError> {
        let Some((va, pages)) = self.range(&ram)? else { return Ok(()) };
        let Some(span) = self.live.tables().owned_span(va, pages)? else { return Ok(()) };
        let mut call = Call::new(self.live.caller);
        call.claim(span)?;
        let mut plain = Plain { ram: (self.offset, self.attributes), span, found: Survey::default() };
        call.pieces(span, |editor, piece| visit_span(editor, &editor.table_of(piece), piece, &mut plain))?;
        unmap_claimed(&mut call, span, &plain.found)
    }

    /// Returns the first address of RAM in the linear map, and its pages, unless it is empty.
    fn range(&self, ram: &Range<Pa>) -> Result<Option<(Va, u64)>, ChangeError> {
        let g = self.live.tables().geometry();
        let unaligned = |pa: &Pa| pa.0 & (g.page_size() - 1) != 0;
        if let Some(&pa) = [ram.start, ram.end].iter().find(|pa| unaligned(pa)) {
            return Err(ChangeError::Unaligned(Unaligned::Pa(pa)));
        }
        if ram.start >= ram.end {
            return Ok(None);
        }
        let Range { start, end } = self.reach;
        if ram.start < start || end < ram.end {
            let pa = if ram.start < start { ram.start } else { ram.start.max(end) };
            return Err(ChangeError::NotReached { pa, reach: (start, end) });
        }
        let va = Va(ram.start.0.wrapping_add(self.offset));
        Ok(Some((va, (ram.end.0 - ram.start.0) >> g.page_shift())))
    }

    /// Merges leaves on both sides of an address, if they may merge. The RAM is mapped in any case. It has a frame of the stack of its
    /// own, which is gone while RAM is mapped.
    #[inline(never)]
    fn join(&self, va: Va) {
        let (g, owned) = (self.live.tables().geometry(), self.live.tables().owned());
        let largest = g.new_leaf_sizes()[0].bytes();
        let before = va.0.wrapping_sub(g.page_size());
        // No leaf has both where the largest begins.
        if va.0 & (largest - 1) != 0 && owned.covers(before, va.0) && self.continues(before, va.0) {
            _ = collapse(self.live.caller, Span { first: before, last: va.0 });
        }
    }
}

impl<P: Platform, const LOCKS: usize> Hotplug<'_, P, LOCKS> {
    /// Returns true if what is mapped at two addresses is RAM as it is added. What is beside RAM and not the same was mapped in
    /// its leaves for a reason, and stays in them.
    fn continues(&self, before: u64, va: u64) -> bool {
        let g = self.live.tables().geometry();
        let is_ram = |va: u64| match self.live.read(|reader| reader.entry(Va(va))) {
            Some((start, level, Entry::Leaf(leaf))) => {
                let (oa, attributes) = (Pa(start.0.wrapping_sub(self.offset)), self.attributes);
                let ram = Leaf { oa, attributes, valid: true, ..leaf };
                // Not all attributes are in all formats.
                leaf.oa == oa && Descriptor::leaf(leaf, g, level) == Descriptor::leaf(ram, g, level)
            }
            _ => false,
        };
        is_ram(before) && is_ram(va)
    }
}

/// Surveys a span that is removed, and checks that its leaves are RAM as it is added.
struct Plain {
    /// The value to add to a physical address, wrapping, and the attributes.
    ram: (u64, Attributes),
    span: Span,
    found: Survey,
}

impl<G: Guard> LiveVisitor<G> for Plain {
    type Stop = Stop;

    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Stop> {
        let Entries { table, index, last, entry: old } = at;
        let (g, (offset, attributes), va) = (editor.geometry, self.ram, table.va(index));
        let oa = Pa(va.wrapping_sub(offset));
        let stays = Attributes::from_bits_retain(old.0).intersection(Attributes::STAYS_SPLIT);
        let (attributes, contiguous) = (attributes.union(stays), old.is_contiguous());
        let ram = |oa| Descriptor::leaf(Leaf { oa, attributes, contiguous, valid: true }, g, table.level);
        if !old.is_leaf(g, table.level) {
            return Err(refusal(va.max(self.span.first), table.level, old, g).into());
        }
        // No descriptor has the bits of an address below the leaf's size.
        if old != ram(oa) || oa.0 & ((1 << table.shift) - 1) != 0 {
            return Err(ChangeError::NotRam { va: Va(va.max(self.span.first)) }.into());
        }
        // An address grows like its descriptor as far as the format keeps its bits in place.
        let even = ((1u64 << in_place_bits(g.oa_format())) - 1) >> table.shift;
        let left = even - (oa.0 >> table.shift & even);
        let last = last.min(index.saturating_add(left as usize));
        let (end, _) = editor.slots(table).series(0, (index, last), (old, 1 << table.shift));
        self.found.leaves(editor, (LeafChange::REMOVE, self.span), (table, index, end - 1), old)?;
        Ok(end)
    }
}
