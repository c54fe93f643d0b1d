//! `aarch64-paging`: a `Mapping` that is not active, so that it skips TLB maintenance and its checks.

use std::ptr::NonNull;

use aarch64_paging::descriptor::{El1Attributes, PhysicalAddress};
use aarch64_paging::paging::{Constraints, El1And0, MemoryRegion, PageTable, Translation, VaRange};

use super::{Lacks, Leaves, Library, Map, only_4k, raw};
use crate::host::{Loan, OFFSET, Plan, Pool, give, take};

pub(crate) struct Paging;

pub(crate) struct Mapping<'m> {
    mapping: aarch64_paging::Mapping<Lent, El1And0>,
    plan: Plan,
    _pages: &'m Loan<'m>,
}

/// Table pages on loan; physical addresses are those of this process.
pub(crate) struct Lent;

impl Translation<El1Attributes> for Lent {
    fn allocate_table(&mut self) -> (NonNull<PageTable<El1Attributes>>, PhysicalAddress) {
        let page = take().expect("as many pages as planned").cast::<PageTable<El1Attributes>>();
        // SAFETY: the page has no other owner, and the size and alignment of a table; zeros are a valid table.
        unsafe { page.write_bytes(0, 1) };
        (page, PhysicalAddress(page.as_ptr().expose_provenance()))
    }

    unsafe fn deallocate_table(&mut self, page_table: NonNull<PageTable<El1Attributes>>) {
        give(page_table.cast());
    }

    fn physical_to_virtual(&self, pa: PhysicalAddress) -> NonNull<PageTable<El1Attributes>> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(pa.0)).expect("the address of a table")
    }
}

impl Library for Paging {
    type Pages<'p> = Loan<'p>;
    type Built<'m> = aarch64_paging::Mapping<Lent, El1And0>;
    type Map<'m> = Mapping<'m>;

    fn pages(pool: &Pool) -> Loan<'_> {
        pool.lend()
    }

    #[inline(always)]
    fn build<'m>(_: &'m Loan<'_>, plan: &Plan) -> Result<Self::Built<'m>, Lacks> {
        only_4k(plan)?;
        let attributes = El1Attributes::VALID
            | El1Attributes::ATTRIBUTE_INDEX_1
            | El1Attributes::INNER_SHAREABLE
            | El1Attributes::ACCESSED
            | El1Attributes::PXN
            | El1Attributes::UXN;
        let mut mapping =
            aarch64_paging::Mapping::with_asid_and_va_range(Lent, 1, 0, El1And0, VaRange::Lower);
        // It chooses the largest possible blocks: those planned.
        let constraints = match plan.level {
            linmap::arch::Level::PAGE => Constraints::NO_BLOCK_MAPPINGS,
            _ => Constraints::empty(),
        };
        let pa = PhysicalAddress(plan.pa as usize);
        mapping.map_range(&region(OFFSET, plan.bytes), pa, attributes, constraints).expect("a free range");
        Ok(mapping)
    }

    fn map<'m>(pages: &'m Loan<'_>, mapping: Self::Built<'m>, plan: &Plan) -> Mapping<'m> {
        Mapping { mapping, plan: *plan, _pages: pages }
    }
}

fn region(start: u64, bytes: u64) -> MemoryRegion {
    MemoryRegion::new(start as usize, (start + bytes) as usize)
}

impl Mapping<'_> {
    fn modify(&mut self, region: &MemoryRegion, set: El1Attributes, clear: El1Attributes) {
        let modified = self.mapping.modify_range(region, &|_, entry| entry.modify_flags(set, clear));
        modified.expect("all of it is mapped");
    }
}

impl Map for Mapping<'_> {
    fn leaves(&self) -> Leaves {
        let root = Lent.physical_to_virtual(self.mapping.root_address());
        // SAFETY: these are the library's tables, and it does not write to them now.
        unsafe { raw::count(root.cast(), &raw::arm64) }
    }

    fn protect(&mut self, read_only: bool) -> Result<(), Lacks> {
        let (on, off) = (El1Attributes::READ_ONLY, El1Attributes::empty());
        let (set, clear) = if read_only { (on, off) } else { (off, on) };
        self.modify(&region(OFFSET, self.plan.bytes), set, clear);
        Ok(())
    }

    fn protect_parts(&mut self) -> Result<(), Lacks> {
        for leaf in 0..self.plan.leaves() {
            let page = region(OFFSET + leaf * self.plan.leaf_bytes(), self.plan.geometry.page_size());
            self.modify(&page, El1Attributes::READ_ONLY, El1Attributes::empty());
        }
        Ok(())
    }

    fn split(&mut self) -> Result<(), Lacks> {
        Err(Lacks("splits a block only if a changed range ends inside it"))
    }

    fn collapse(&mut self) -> Result<(), Lacks> {
        Err(Lacks("removes empty tables, but does not collapse pages to blocks"))
    }

    fn walk(&self) -> Result<u64, Lacks> {
        let mut leaves = 0;
        let walked = self.mapping.walk_range(&region(OFFSET, self.plan.bytes), &mut |_, entry, _| {
            leaves += u64::from(entry.is_valid());
            Ok(())
        });
        walked.expect("a range of the half");
        Ok(leaves)
    }

    fn look_up(&self, addresses: &[u64]) -> Result<u64, Lacks> {
        let page = self.plan.geometry.page_size();
        let mut sum = 0;
        for &address in addresses {
            let walked = self.mapping.walk_range(&region(address, page), &mut |_, entry, level| {
                let leaf = 1 << (12 + 9 * (3 - level));
                sum += entry.output_address().0 as u64 + (address & (leaf - 1));
                Ok(())
            });
            walked.expect("a range of the half");
        }
        Ok(sum)
    }
}
