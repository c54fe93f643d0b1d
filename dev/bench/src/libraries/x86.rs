//! `x86_64`: its mapper for physical memory mapped at an offset, here zero. Flushes are ignored.

use linmap::arch::Level;
use x86_64::structures::paging::mapper::{Mapper, OffsetPageTable, Translate};
use x86_64::structures::paging::page::PageSize;
use x86_64::structures::paging::{
    FrameAllocator, Page, PageTable, PageTableFlags, PhysFrame, Size1GiB, Size2MiB, Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};

use super::{Lacks, Leaves, Library, Map, only_4k, raw};
use crate::host::{Loan, OFFSET, Plan, Pool, take};

pub(crate) struct X86;

pub(crate) struct Table<'m> {
    table: OffsetPageTable<'m>,
    plan: Plan,
}

/// Table pages on loan; physical addresses are those of this process.
struct Lent;

// SAFETY: each page is handed out once.
unsafe impl FrameAllocator<Size4KiB> for Lent {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let address = take()?.as_ptr().expose_provenance() as u64;
        Some(PhysFrame::containing_address(PhysAddr::new(address)))
    }
}

const WRITABLE: PageTableFlags =
    PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE).union(PageTableFlags::NO_EXECUTE);

impl Library for X86 {
    type Pages<'p> = Loan<'p>;
    type Built<'m> = OffsetPageTable<'m>;
    type Map<'m> = Table<'m>;

    fn pages(pool: &Pool) -> Loan<'_> {
        pool.lend()
    }

    #[inline(always)]
    fn build<'m>(_: &'m Loan<'_>, plan: &Plan) -> Result<OffsetPageTable<'m>, Lacks> {
        only_4k(plan)?;
        let mut root = take().expect("as many pages as planned").cast::<PageTable>();
        // SAFETY: the page has no other owner while it is on loan; zeros are a valid table. Tables point to each
        // other by addresses of this process.
        let mut table = unsafe {
            root.write_bytes(0, 1);
            OffsetPageTable::new(root.as_mut(), VirtAddr::zero())
        };
        match plan.level {
            Level::PAGE => map_all::<Size4KiB>(&mut table, plan),
            level if level.number() == 2 => map_all::<Size2MiB>(&mut table, plan),
            _ => map_all::<Size1GiB>(&mut table, plan),
        }
        Ok(table)
    }

    fn map<'m>(_: &'m Loan<'_>, table: OffsetPageTable<'m>, plan: &Plan) -> Table<'m> {
        Table { table, plan: *plan }
    }
}

/// Returns the pages of a plan and their memory.
fn pages<S: PageSize>(plan: &Plan) -> impl Iterator<Item = (Page<S>, u64)> + use<S> {
    let (pa, bytes) = (plan.pa, plan.bytes);
    let page = |offset| Page::containing_address(VirtAddr::new_truncate(OFFSET + offset));
    (0..bytes / S::SIZE).map(move |n| (page(n * S::SIZE), pa + n * S::SIZE))
}

fn map_all<'m, S: PageSize + std::fmt::Debug>(table: &mut OffsetPageTable<'m>, plan: &Plan)
where
    OffsetPageTable<'m>: Mapper<S>,
{
    for (page, pa) in pages::<S>(plan) {
        let frame = PhysFrame::containing_address(PhysAddr::new_truncate(pa));
        // SAFETY: no CPU uses these tables.
        let mapped = unsafe { table.map_to(page, frame, WRITABLE, &mut Lent) };
        mapped.expect("a free range").ignore();
    }
}

impl<'m> Table<'m> {
    fn update_all<S: PageSize>(&mut self, flags: PageTableFlags)
    where
        OffsetPageTable<'m>: Mapper<S>,
    {
        for (page, _) in pages::<S>(&self.plan) {
            // SAFETY: no CPU uses these tables.
            let updated = unsafe { self.table.update_flags(page, flags) };
            updated.expect("all of it is mapped").ignore();
        }
    }
}

impl Map for Table<'_> {
    fn leaves(&self) -> Leaves {
        let root = std::ptr::NonNull::from(self.table.level_4_table()).cast();
        // SAFETY: these are the library's tables, and it does not write to them now.
        unsafe { raw::count(root, &raw::x86_64) }
    }

    fn protect(&mut self, read_only: bool) -> Result<(), Lacks> {
        let mut flags = WRITABLE;
        flags.set(PageTableFlags::WRITABLE, !read_only);
        match self.plan.level {
            Level::PAGE => self.update_all::<Size4KiB>(flags),
            level if level.number() == 2 => self.update_all::<Size2MiB>(flags),
            _ => self.update_all::<Size1GiB>(flags),
        }
        Ok(())
    }

    fn walk(&self) -> Result<u64, Lacks> {
        Err(Lacks("does not visit ranges; it looks up single addresses"))
    }

    fn look_up(&self, addresses: &[u64]) -> Result<u64, Lacks> {
        let one = |&address: &u64| {
            let found = self.table.translate_addr(VirtAddr::new_truncate(address));
            found.expect("all of it is mapped").as_u64()
        };
        Ok(addresses.iter().map(one).sum())
    }
}
