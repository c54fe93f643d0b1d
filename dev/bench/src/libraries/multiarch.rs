//! `page_table_multiarch`: tables of the machine that this is built for. Outside of kernels it does not flush.

use std::cell::Cell;
use std::ptr::NonNull;

use linmap::arch::Level;
use memory_addr::{PhysAddr, VirtAddr};
#[cfg(target_arch = "aarch64")]
use page_table_multiarch::aarch64::A64PageTable as PageTable;
#[cfg(target_arch = "x86_64")]
use page_table_multiarch::x86_64::X64PageTable as PageTable;
use page_table_multiarch::{GenericPTE, MappingFlags, PagingHandler};

use super::{Lacks, Leaves, Library, Map, only_4k, raw};
use crate::host::{Loan, OFFSET, Plan, Pool, give, take};

#[cfg(target_arch = "aarch64")]
const DECODE: fn(u64, usize) -> raw::Entry = raw::arm64;
#[cfg(target_arch = "x86_64")]
const DECODE: fn(u64, usize) -> raw::Entry = raw::x86_64;

pub(crate) struct Multiarch;

pub(crate) struct Table<'m> {
    table: PageTable<Lent>,
    plan: Plan,
    _pages: &'m Loan<'m>,
}

/// Table pages on loan; physical addresses are those of this process.
pub(crate) struct Lent;

impl PagingHandler for Lent {
    fn alloc_frames(num: usize, _: usize) -> Option<PhysAddr> {
        assert_eq!(num, 1, "tables are single pages");
        take().map(|page| page.as_ptr().expose_provenance().into())
    }

    fn dealloc_frames(address: PhysAddr, _: usize) {
        give(NonNull::new(pointer(address)).expect("the address of a table"));
    }

    fn phys_to_virt(address: PhysAddr) -> VirtAddr {
        address.as_usize().into()
    }
}

fn pointer(address: PhysAddr) -> *mut u64 {
    std::ptr::with_exposed_provenance_mut(address.as_usize())
}

impl Library for Multiarch {
    type Pages<'p> = Loan<'p>;
    type Built<'m> = PageTable<Lent>;
    type Map<'m> = Table<'m>;

    fn pages(pool: &Pool) -> Loan<'_> {
        pool.lend()
    }

    #[inline(always)]
    fn build(_: &Loan<'_>, plan: &Plan) -> Result<PageTable<Lent>, Lacks> {
        only_4k(plan)?;
        let mut table = PageTable::<Lent>::try_new().expect("as many pages as planned");
        let offset = (plan.pa - OFFSET) as usize;
        let pa = |va: VirtAddr| PhysAddr::from(va.as_usize() + offset);
        // It chooses the largest possible leaves: those planned.
        let large = plan.level != Level::PAGE;
        let flags = MappingFlags::READ | MappingFlags::WRITE;
        let mapped = table.cursor().map_region(start(), pa, plan.bytes as usize, flags, large);
        mapped.expect("a free range");
        Ok(table)
    }

    fn map<'m>(pages: &'m Loan<'_>, table: PageTable<Lent>, plan: &Plan) -> Table<'m> {
        Table { table, plan: *plan, _pages: pages }
    }
}

fn start() -> VirtAddr {
    (OFFSET as usize).into()
}

impl Map for Table<'_> {
    fn leaves(&self) -> Leaves {
        let root = NonNull::new(pointer(self.table.root_paddr())).expect("the address of the root");
        // SAFETY: these are the library's tables, and it does not write to them now.
        unsafe { raw::count(root, &DECODE) }
    }

    fn protect(&mut self, read_only: bool) -> Result<(), Lacks> {
        let mut flags = MappingFlags::READ | MappingFlags::WRITE;
        flags.set(MappingFlags::WRITE, !read_only);
        let changed = self.table.cursor().protect_region(start(), self.plan.bytes as usize, flags);
        changed.expect("all of it is mapped");
        Ok(())
    }

    fn walk(&self) -> Result<u64, Lacks> {
        let leaves = Cell::new(0);
        let count = |level: usize, _: usize, _: VirtAddr, entry: &_| {
            let is_leaf = level == 3 || GenericPTE::is_huge(entry);
            leaves.set(leaves.get() + u64::from(is_leaf));
        };
        self.table.walk(usize::MAX, Some(&count), None);
        Ok(leaves.get())
    }

    fn look_up(&self, addresses: &[u64]) -> Result<u64, Lacks> {
        let one = |&address: &u64| {
            let found = self.table.query((address as usize).into());
            found.expect("all of it is mapped").0.as_usize() as u64
        };
        Ok(addresses.iter().map(one).sum())
    }
}
