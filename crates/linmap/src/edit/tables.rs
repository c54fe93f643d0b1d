//! The tables of a map, as far as they are known without being read: the root, the geometry, the policy.
//!
//! All of it fits into a cache line. While a map is shared, it changes by single stores.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use crate::build::page_tables_for;
use crate::edit::error::ChangeError;
use crate::format::{
    Change, ChangeFlags, Descriptor, Geometry, Half, LeafChange, Level, Pa, Remake, Span, TableAttributes,
    Unaligned, Va,
};
use crate::plan::{Leaves, Policy};
use crate::platform::Hardware;

/// The facts that are known of live tables without reading them, and the settings of their owner. Both forms of an address space lead here.
///
/// A setting holds for the operations that begin after it. It can be changed while others change the map.
#[derive(Debug)]
pub struct Tables {
    /// The physical address of the root, which changes under the lock.
    root: AtomicU64,
    geometry: Geometry,
    half: Half,
    /// The first address of the half.
    base: u64,
    /// The addresses whose mappings belong to this map; others may use the rest of the root.
    owned: Span,
    /// True if the root stays where it is for ever.
    fixed_root: AtomicBool,
    /// log2 of the bytes that an entry of the root spans.
    root_shift: u8,
    policy: AtomicU8,
    write_execute: AtomicBool,
    hardware_updates: AtomicBool,
    /// The bits of the descriptors of new tables.
    table_attributes: AtomicU64,
}

impl Tables {
    /// Those of no map yet. All of it is zero.
    #[allow(clippy::declare_interior_mutable_const, reason = "each use is a value of its own")]
    pub(crate) const BLANK: Self = Self {
        root: AtomicU64::new(0),
        geometry: Geometry::NONE,
        half: Half::Lower,
        base: 0,
        owned: Span { first: 0, last: 0 },
        fixed_root: AtomicBool::new(false),
        root_shift: 0,
        policy: AtomicU8::new(0),
        write_execute: AtomicBool::new(false),
        hardware_updates: AtomicBool::new(false),
        table_attributes: AtomicU64::new(0),
    };

    /// Sets what depends on the root, in a value that is blank.
    pub(crate) fn begin(&mut self, (root, geometry, half): (Pa, Geometry, Half)) {
        self.root = AtomicU64::new(root.0);
        (self.geometry, self.half, self.base) = (geometry, half, geometry.base(half));
        self.owned = Span { first: self.base, last: self.base + ((1 << geometry.va_bits()) - 1) };
        self.root_shift = geometry.level_shift(geometry.root()) as u8;
        self.set_policy(Policy::Fixed);
    }

    /// Lets the map have only a part of its root, which stays where it is.
    pub(crate) fn share_root(&mut self, owned: Span) {
        self.owned = owned;
        self.fix_root();
    }

    /// Returns the addresses whose mappings belong to this map.
    pub(crate) const fn owned(&self) -> Span {
        self.owned
    }

    /// Returns true if the root stays where it is.
    pub(crate) fn is_root_fixed(&self) -> bool {
        self.fixed_root.load(Relaxed)
    }

    /// Lets the root stay where it is from now on.
    pub(crate) fn fix_root(&self) {
        self.fixed_root.store(true, Relaxed);
    }

    /// Returns the first and the last address of what belongs to this map: the half, or
    /// [a part of it](crate::SharedSpace::from_shared_root).
    pub const fn range(&self) -> (Va, Va) {
        (Va(self.owned.first), Va(self.owned.last))
    }

    /// Returns the largest number of table pages that a [`protect`](crate::Live::protect), [`set_valid`](crate::Live::set_valid) or
    /// [`unmap`](crate::Live::unmap) may need, whatever its range and whatever leaves are there: for each end of the range a table
    /// of each level below the root. See [`Reserved`](crate::Reserved).
    pub const fn most_tables(&self) -> u64 {
        let levels = Level::PAGE.number() - self.geometry.root().number();
        2 * levels as u64
    }

    /// Returns the largest number of table pages that [`map`](crate::Live::map), [`split_to_pages`](crate::Live::split_to_pages) or
    /// [`pin`](crate::Live::pin) may need for `pages` pages from `va` on, whatever is there. Returns 0 for a range that they refuse.
    pub fn most_tables_in_pages(&self, va: Va, pages: u64) -> u64 {
        let Ok(Some(span)) = self.owned_span(va, pages) else { return 0 };
        page_tables_for(self.geometry, self.geometry.root(), span, span)
    }

    /// Returns the address of the root table.
    #[inline]
    pub fn root(&self) -> Pa {
        Pa(self.root.load(Relaxed))
    }

    /// Returns the geometry of the tables.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) const fn half(&self) -> Half {
        self.half
    }

    /// Returns the first address of the half.
    pub(crate) const fn base(&self) -> u64 {
        self.base
    }

    /// Returns the number of bytes from the first address of the half to this one, or `None` if it is not in the half.
    #[inline(always)]
    pub(crate) const fn offset_of(&self, va: Va) -> Option<u64> {
        let bytes = va.0.wrapping_sub(self.base);
        if bytes >> self.geometry.va_bits() == 0 { Some(bytes) } else { None }
    }

    /// Returns log2 of the bytes that an entry of the root spans.
    #[inline]
    pub(crate) const fn root_shift(&self) -> u32 {
        self.root_shift as u32
    }

    /// Returns true if an entry at a level is a leaf, valid or present-invalid.
    #[inline(always)]
    pub(crate) const fn is_leaf(&self, entry: Descriptor, level: Level) -> bool {
        entry.is_leaf(self.geometry, level)
    }

    /// Returns the policy for leaves in use that would have to change their size.
    #[inline]
    pub fn policy(&self) -> Policy {
        match self.policy.load(Relaxed) {
            n if n == Policy::Live as u8 => Policy::Live,
            n if n == Policy::Pages as u8 => Policy::Pages,
            n if n == Policy::Fixed as u8 => Policy::Fixed,
            _ => Policy::Park,
        }
    }

    /// Returns true if leaves in use change their size in place.
    #[inline(always)]
    pub(crate) fn may_resize<H: Hardware>(&self, hardware: &H) -> bool {
        self.policy() == Policy::Live && hardware.promise().never_aborts
    }

    /// Sets the policy for leaves in use that would have to change their size.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(policy as u8, Relaxed);
    }

    /// Permits memory that is both writable and executable, which is refused by default. The caller is responsible for
    /// such memory. Restrictions in table descriptors do not count: the CPUs may ignore them
    /// ([`TableLimits`](crate::arch::TableLimits)).
    pub fn allow_write_execute(&self, allow: bool) {
        self.write_execute.store(allow, Relaxed);
    }

    pub(crate) fn allows_write_execute(&self) -> bool {
        self.write_execute.load(Relaxed)
    }

    /// Says that walkers of some CPU set the access flag or manage the dirty state (TCR_EL1.HA and HD), as user space wants
    /// it; false by default. No leaf of the map must be one that they update, since a change is a load and a plain store: each
    /// has its access flag, and none is read-only with DBM (writable-clean, D8.5.2). Changes and mappings that might make
    /// another one are refused from now on. Those that exist, or are created, are the caller's; a
    /// [`check`](crate::Reader::check) finds them ([`Checks::hardware_updates`](crate::read::Checks::hardware_updates)).
    ///
    /// With TCR2_EL1.HAFT tables have their flag, too: [`TableAttributes::ACCESSED`].
    pub fn expect_hardware_updates(&self, expect: bool) {
        self.hardware_updates.store(expect, Relaxed);
    }

    pub(crate) fn expects_hardware_updates(&self) -> bool {
        self.hardware_updates.load(Relaxed)
    }

    /// Sets what the descriptors of new tables have besides the address; nothing by default. Tables that exist stay as
    /// they are.
    ///
    /// A new table gets those restrictions that remove nothing from what it is made for: from the leaf that it replaces,
    /// before and after the change, or from the new mappings below it. Later a permission that a table removes can be set in
    /// the leaves below it, and has no effect.
    pub fn set_table_attributes(&self, attributes: TableAttributes) {
        self.table_attributes.store(attributes.bits(), Relaxed);
    }

    /// Returns what the descriptors of new tables have besides the address.
    #[inline]
    pub fn table_attributes(&self) -> TableAttributes {
        TableAttributes::from_bits_truncate(self.table_attributes.load(Relaxed))
    }

    /// Switches to another root and another policy. The caller holds the lock.
    pub(crate) fn switch(&self, root: Pa, policy: Policy) {
        self.root.store(root.0, Relaxed);
        self.set_policy(policy);
    }

    /// Returns the addresses of `pages` pages from `va` on, or `None` if `pages` is 0.
    ///
    /// # Errors
    ///
    /// The range is not page-aligned, or is not in the half.
    pub(crate) fn span(&self, va: Va, pages: u64) -> Result<Option<Span>, ChangeError> {
        let (va_bits, page) = (self.geometry.va_bits(), self.geometry.page_shift());
        if va.0 & ((1 << page) - 1) != 0 {
            return Err(ChangeError::Unaligned(Unaligned::Va(va)));
        }
        let (all, before) = (1u64 << (va_bits - page), va.0.wrapping_sub(self.base) >> page);
        if before > all || pages > all - before {
            return Err(ChangeError::OutsideHalf { va, pages });
        }
        if pages == 0 {
            return Ok(None);
        }
        Ok(Some(Span { first: va.0, last: va.0 + ((pages << page) - 1) }))
    }

    /// Does the same as [`span`](Self::span) for an operation that changes more than the contents of leaves.
    ///
    /// # Errors
    ///
    /// As for [`span`](Self::span); some of the range does not belong to this map.
    pub(crate) fn owned_span(&self, va: Va, pages: u64) -> Result<Option<Span>, ChangeError> {
        let Some(span) = self.span(va, pages)? else { return Ok(None) };
        self.owns(span).map(|()| Some(span))
    }

    /// Does the same for a range that is remade.
    ///
    /// # Errors
    ///
    /// As for [`owned_span`](Self::owned_span); an address that no page can have.
    pub(crate) fn remade_span(
        &self,
        va: Va,
        pages: u64,
        remake: Remake,
    ) -> Result<Option<Span>, ChangeError> {
        let Some(span) = self.owned_span(va, pages)? else { return Ok(None) };
        let (g, oa) = (self.geometry, remake.target().or(remake.bits().map(Pa)).unwrap_or(Pa(0)));
        let length = if remake.target().is_some() { span.last - span.first } else { 0 };
        if oa.0 & (g.page_size() - 1) != 0 {
            return Err(ChangeError::Unaligned(Unaligned::Pa(oa)));
        }
        if oa.0.checked_add(length).is_none_or(|last| last >> g.oa_bits() != 0) {
            return Err(ChangeError::OutputAddress { oa, pages, bits: g.oa_bits() });
        }
        Ok(Some(span))
    }

    /// Checks that a span belongs to this map.
    ///
    /// # Errors
    ///
    /// Some of it does not.
    #[inline]
    pub(crate) fn owns(&self, span: Span) -> Result<(), ChangeError> {
        if self.owned.covers(span.first, span.last) {
            return Ok(());
        }
        let Span { first, last } = self.owned;
        let va = if span.first < first { span.first } else { span.first.max(last.wrapping_add(1)) };
        Err(ChangeError::NotOwned { va: Va(va) })
    }

    /// Returns a change of permissions and validity as a change of leaves.
    #[inline(always)]
    pub(crate) fn leaf_change(&self, change: Change) -> LeafChange {
        let refuse_write_execute = !self.allows_write_execute();
        LeafChange { refuse_write_execute, ..LeafChange::of_bits(change.bits()) }
    }

    /// Returns the same in the manner of these flags.
    #[inline(always)]
    pub(crate) fn leaf_change_with(&self, change: Change, flags: ChangeFlags) -> LeafChange {
        LeafChange { skip_holes: flags.contains(ChangeFlags::SKIP_HOLES), ..self.leaf_change(change) }
    }

    /// Checks that walkers will not update leaves after a change of the leaves from `va` on, where the map expects them.
    ///
    /// # Errors
    ///
    /// They may.
    #[inline(always)]
    pub(crate) fn may_change(&self, change: Change, va: Va) -> Result<(), ChangeError> {
        let refused = self.expects_hardware_updates() && change.may_make_clean();
        if refused { Err(ChangeError::HardwareUpdated { va }) } else { Ok(()) }
    }

    /// Returns the leaf sizes for new mappings.
    pub(crate) fn leaves(&self) -> Leaves {
        match self.policy() {
            Policy::Pages => Leaves::Pages,
            Policy::Live | Policy::Park | Policy::Fixed => Leaves::Largest,
        }
    }
}
