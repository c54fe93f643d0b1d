// SPDX-License-Identifier: GPL-2.0
/*
 * What the library asks of Linux: table pages, locks, and somebody to panic.
 *
 * The pages of a creation come from memblock, a block at a time if possible, and
 * are reached by a window. Later a few pages are kept ready, also for callers
 * that cannot wait; the rest come from the page allocator, before any lock is
 * taken. A page that was a live table may still be read by code without a lock,
 * so it is given back when all that ran then has slept, and nobody prints the
 * tables.
 */
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

#include <asm/fixmap.h>
#include <asm/pgtable.h>
#include <asm/tlbflush.h>

#include "glue.h"
#include "internal.h"

/*
 * Pages of memblock, lent in the order of their addresses: what is left of a
 * block. Pages of 4K make it one of the MMU's, too.
 */
#define BLOCK SZ_2M

static struct {
	phys_addr_t next;
	phys_addr_t end;
} lent;
static bool live __ro_after_init;

/*
 * Where the block is mapped. Each has a window of its own, below the fixmap,
 * whose second table from below covers the last gigabyte of all addresses.
 */
#define WINDOWS (VMEMMAP_END + SZ_64M)
#define WINDOWS_END (-(unsigned long)SZ_64M)
/* No memory is there. */
#define NO_BLOCK (-(u64)BLOCK)

static struct {
	u64 pa;
	u64 offset;
} window = { .pa = NO_BLOCK };
static unsigned long next_window __initdata = WINDOWS;

static pmd_t __init *window_entry(unsigned long va)
{
	pud_t *pud = pud_offset_kimg(p4d_offset_kimg(pgd_offset_k(va), va), va);

	return pmd_offset_kimg(pud, va);
}

static void __init open_window(phys_addr_t pa)
{
	window.pa = NO_BLOCK;
	if (PMD_SIZE != BLOCK || next_window == WINDOWS_END)
		return;
	set_pmd(window_entry(next_window),
		pfn_pmd(PHYS_PFN(pa), __pgprot(PROT_SECT_NORMAL)));
	window.pa = pa;
	window.offset = next_window - pa;
	next_window += BLOCK;
}

static void __init close_windows(void)
{
	unsigned long va;

	window.pa = NO_BLOCK;
	if (next_window == WINDOWS)
		return;
	for (va = WINDOWS; va < next_window; va += BLOCK)
		set_pmd(window_entry(va), __pmd(0));
	flush_tlb_all();
}

static u64 __init lend_block(void)
{
	phys_addr_t pa = memblock_phys_alloc_range(BLOCK, BLOCK, 0,
						   MEMBLOCK_ALLOC_NOLEAKTRACE);

	if (!pa)
		return memblock_phys_alloc_range(PAGE_SIZE, PAGE_SIZE, 0,
						 MEMBLOCK_ALLOC_NOLEAKTRACE);
	open_window(pa);
	lent.next = pa + PAGE_SIZE;
	lent.end = pa + BLOCK;
	return pa;
}

void __init linmap_tables_live(void)
{
	close_windows();
	if (lent.next < lent.end)
		memblock_phys_free(lent.next, lent.end - lent.next);
	lent.next = lent.end;
	live = true;
}

static struct page *table_page(u64 pa)
{
	return pfn_to_page(PHYS_PFN(pa));
}

static void free_table(struct page *page)
{
	if (PageReserved(page))
		free_reserved_page(page);
	else
		pagetable_free(page_ptdesc(page));
}

#define READY_PAGES 16

static DEFINE_RAW_SPINLOCK(ready_lock);
static struct page *ready[READY_PAGES];
static unsigned int ready_count;

/* Returns false if there are enough. */
static bool put_ready(struct page *page)
{
	unsigned long flags;
	bool put;

	raw_spin_lock_irqsave(&ready_lock, flags);
	put = ready_count < READY_PAGES;
	if (put)
		ready[ready_count++] = page;
	raw_spin_unlock_irqrestore(&ready_lock, flags);
	return put;
}

static void get_ready(struct work_struct *work)
{
	struct ptdesc *table;

	do {
		table = pagetable_alloc(GFP_KERNEL, 0);
	} while (table && put_ready(ptdesc_page(table)));
	if (table)
		pagetable_free(table);
}
static DECLARE_WORK(ready_work, get_ready);

static struct page *take_ready(void)
{
	struct page *page = NULL;
	unsigned long flags;
	bool few;

	raw_spin_lock_irqsave(&ready_lock, flags);
	if (ready_count)
		page = ready[--ready_count];
	few = ready_count < READY_PAGES / 2;
	raw_spin_unlock_irqrestore(&ready_lock, flags);
	if (few && system_state >= SYSTEM_RUNNING && !irqs_disabled())
		schedule_work(&ready_work);
	return page;
}

static int __init fill_ready(void)
{
	if (linmap_on)
		get_ready(NULL);
	return 0;
}
core_initcall(fill_ready);

/* Blocks are lent by init code, which only init code can call. */
static noinline u64 __ref alloc_table(bool may_wait)
{
	struct ptdesc *table;
	struct page *page;

	if (!live)
		return lend_block();
	if (!linmap_test_alloc())
		return 0;
	page = linmap_test_fails() ? NULL : take_ready();
	if (!page) {
		/* Nobody can be asked yet. */
		if (!slab_is_available())
			return 0;
		may_wait &= !linmap_is_parked();
		table = pagetable_alloc(may_wait ? GFP_KERNEL : GFP_NOWAIT, 0);
		if (!table)
			return 0;
		page = ptdesc_page(table);
	}
	count_vm_event(DIRECT_MAP_SPLIT);
	return page_to_phys(page);
}

u64 linmap_table_alloc(bool may_wait)
{
	phys_addr_t pa = lent.next;

	if (pa == lent.end)
		return alloc_table(may_wait);
	lent.next = pa + PAGE_SIZE;
	return pa;
}

void __ref linmap_table_free(u64 pa)
{
	if (live)
		count_vm_events(DIRECT_MAP_SPLIT, -1);
	if (put_ready(table_page(pa)))
		return;
	if (live)
		free_table(table_page(pa));
	else
		memblock_phys_free(pa, PAGE_SIZE);
}

static DEFINE_RAW_SPINLOCK(retired_lock);
static LIST_HEAD(retired);

static void free_retired(struct work_struct *work)
{
	struct page *page, *next;
	LIST_HEAD(list);

	raw_spin_lock_irq(&retired_lock);
	list_splice_init(&retired, &list);
	raw_spin_unlock_irq(&retired_lock);

	synchronize_rcu_tasks();
	mmap_write_lock(&init_mm);
	mmap_write_unlock(&init_mm);
	list_for_each_entry_safe(page, next, &list, lru)
		free_table(page);
}
static DECLARE_DELAYED_WORK(retire_work, free_retired);

/*
 * Locks of the library may be held, so nothing is woken up here: the work is
 * queued by linmap_unlock, which follows in any case.
 */
void linmap_table_retire(u64 pa)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&retired_lock, flags);
	list_add(&table_page(pa)->lru, &retired);
	count_vm_event(DIRECT_MAP_COLLAPSE);
	raw_spin_unlock_irqrestore(&retired_lock, flags);
}

/* While Linux boots, grace periods may not work yet: the next lock after it does. */
static void queue_retired(void)
{
	if (!list_empty_careful(&retired) && system_state >= SYSTEM_RUNNING)
		schedule_delayed_work(&retire_work, HZ / 10);
}

/* KFENCE changes pages in any context. */
static struct {
	raw_spinlock_t lock;
	unsigned long flags;
} locks[LINMAP_LOCKS] = {
	[0 ... LINMAP_LOCKS - 1] = {
		.lock = __RAW_SPIN_LOCK_UNLOCKED(locks.lock),
	},
};

void linmap_lock(u32 number)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&locks[number].lock, flags);
	locks[number].flags = flags;
}

void linmap_unlock(u32 number)
{
	raw_spin_unlock_irqrestore(&locks[number].lock, locks[number].flags);
	if (!irqs_disabled())
		queue_retired();
}

bool linmap_wait(void)
{
	/* Who is waited for is parked, too. */
	if (linmap_is_parked() || irqs_disabled())
		return false;
	/* Who is waited for may have a lower priority, and needs the CPU. */
	usleep_range(10, 100);
	return true;
}

void __noreturn linmap_panic(const char *message, size_t length)
{
	panic("linmap: %.*s\n", (int)length, message);
}

/*
 * While a creation writes tables: a slot of the fixmap for each level, for what
 * is not in the window, and which of them are used.
 */
static unsigned long fixed;

static enum fixed_addresses slot_of(int level)
{
	return FIX_PTE + (3 - level);
}

static noinline u64 *map_fixed(u64 pa, int level)
{
	fixed |= BIT(3 - level);
	__set_fixmap(slot_of(level), pa, PAGE_KERNEL);
	return (u64 *)__fix_to_virt(slot_of(level));
}

static noinline void unmap_fixed(int level)
{
	if (!(fixed & BIT(3 - level)))
		return;
	fixed &= ~BIT(3 - level);
	clear_fixmap(slot_of(level));
}

u64 *linmap_table_map(u64 pa, int level)
{
	u64 offset = window.offset;

	if ((pa & -(u64)BLOCK) != window.pa)
		return map_fixed(pa, level);
	return (u64 *)(pa + offset);
}

void linmap_table_unmap(int level)
{
	if (fixed)
		unmap_fixed(level);
}

/*
 * The root is read-only. A slot of its own needs no lock: the library's is held,
 * which is a raw one, and swapper_pgdir_lock is none.
 */
void linmap_root_set(u64 root, size_t index, u64 descriptor)
{
	u64 *table;

	__set_fixmap(FIX_LINMAP, root, PAGE_KERNEL);
	table = (u64 *)__fix_to_virt(FIX_LINMAP);
	WRITE_ONCE(table[index], descriptor);
	dsb(ishst);
	isb();
	clear_fixmap(FIX_LINMAP);
}
