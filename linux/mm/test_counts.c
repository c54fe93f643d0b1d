// SPDX-License-Identifier: GPL-2.0
/*
 * Counts of instructions: of the creation of the linear map, of CPUs parked, and
 * of changes. They are exact where QEMU executes one instruction a tick.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/set_memory.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include <asm/sysreg.h>
#include <asm/tlbflush.h>

#include "glue.h"
#include "internal.h"
#include "test.h"

static u64 count(void)
{
	isb();
	return read_sysreg(pmccntr_el0);
}

static void start_counter(void)
{
	write_sysreg(0, pmccfiltr_el0);
	write_sysreg(BIT(31), pmcntenset_el0);
	write_sysreg(read_sysreg(pmcr_el0) | BIT(0) | BIT(6), pmcr_el0);
	isb();
}

static u64 creation_began __initdata;
static u64 creation_took;

void __init linmap_test_begin(void)
{
	if (creation_began)
		return;
	start_counter();
	creation_began = count();
}

void __init linmap_test_end(void)
{
	creation_took = count() - creation_began;
}

static u64 parked_at;

void linmap_test_parked(void)
{
	parked_at = count();
}

void linmap_test_unparked(void)
{
	u64 parked_for = count() - parked_at;

	pr_info("test: count parked %llu\n", parked_for);
}

static void report(const char *what, u64 began)
{
	pr_info("test: count %s %llu\n", what, count() - began);
}

static void invalidate(const char *what, struct page *page)
{
	u64 began = count();

	set_direct_map_invalid_noflush(page);
	report(what, began);
}

/*
 * Counts of one page invalid, of pages that were in three sizes of leaves. The
 * first change brings code into what QEMU has translated, and splits what is
 * larger than a block: it is of the other half of the same memory.
 */
static int count_pages(void)
{
	const unsigned int order = PMD_SHIFT - PAGE_SHIFT;
	struct page *first = alloc_pages(GFP_KERNEL, order);
	struct page *block = alloc_pages(GFP_KERNEL, order);
	u64 began;
	int error;

	if (!first || !block) {
		error = -ENOMEM;
		goto out;
	}
	error = CHECK(page_to_phys(first) >> CONT_PMD_SHIFT ==
		      page_to_phys(block) >> CONT_PMD_SHIFT);
	set_direct_map_invalid_noflush(first);
	set_direct_map_default_noflush(first);
	invalidate("invalid-of-block", block);
	invalidate("invalid-of-run", block + CONT_PTES * 3);
	invalidate("invalid-of-pages", block + 1);
	began = count();
	set_direct_map_default_noflush(block + 1);
	report("default", began);
	set_direct_map_default_noflush(block);
	set_direct_map_default_noflush(block + CONT_PTES * 3);
	flush_tlb_all();
out:
	if (block)
		__free_pages(block, order);
	if (first)
		__free_pages(first, order);
	return error;
}

/* 512 pages of a vmalloc area that lie next to each other. */
static int count_area(void)
{
	void *va = linmap_test_area(get_order(512 * PAGE_SIZE), 0);
	struct vm_struct *area = va ? find_vm_area(va) : NULL;
	u64 began;
	int error;

	if (!area)
		return -ENOMEM;
	/* vmap keeps the pages for vfree; set_memory wants them, too. */
	error = CHECK(area->pages && area->pages[511] == area->pages[0] + 511);
	vm_unmap_aliases();
	if (linmap_on) {
		int pages_left = 512;

		began = count();
		linmap_change_pages_of(area, 0, &pages_left, __pgprot(PTE_RDONLY),
				       __pgprot(PTE_WRITE));
		report("ro-512-linear-half", began);
		pages_left = 512;
		linmap_change_pages_of(area, 0, &pages_left, __pgprot(PTE_WRITE),
				       __pgprot(PTE_RDONLY));
	}
	began = count();
	error = error ?: set_memory_ro((unsigned long)va, 512);
	report("ro-512", began);
	began = count();
	error = error ?: set_memory_rw((unsigned long)va, 512);
	report("rw-512", began);
	began = count();
	vm_unmap_aliases();
	report("vm_unmap_aliases", began);
	vfree(va);
	return error;
}

int linmap_test_counts(void)
{
	int error;

	pr_info("test: count map_mem %llu\n", creation_took);
	migrate_disable();
	start_counter();
	error = count_pages() ?: count_area();
	migrate_enable();
	return error;
}
