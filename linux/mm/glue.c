// SPDX-License-Identifier: GPL-2.0
/*
 * The linear map by linmap: what mmu.c and pageattr.c ask for becomes calls of
 * the library.
 *
 * The root is swapper_pg_dir, which has other entries that stay as they are.
 * While the linear map is made, its tables are reached by windows, from then on
 * by the linear map itself.
 */
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kfence.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include <asm/cpufeature.h>
#include <asm/fixmap.h>
#include <asm/kernel-pgtable.h>
#include <asm/mmu.h>
#include <asm/pgtable.h>
#include <asm/tlbflush.h>

#include "glue.h"
#include "internal.h"
#include "regions.h"

struct linmap linear_map;
bool linmap_on __ro_after_init = true;

/* Addresses on the stack. */
#define AT_ONCE 64

static int __init parse_linmap(char *arg)
{
	return kstrtobool(arg, &linmap_on);
}
early_param("linmap", parse_linmap);

/*
 * Says why the map cannot be the library's, or nothing. The library takes whole
 * entries of a root at the beginning of its page. With 64K pages and fewer bits
 * than the kernel was built for the root is not there; with 52 bits of smaller
 * pages (LPA2) one entry has vmalloc's memory, too.
 */
static const char *__init unfit(void)
{
	bool whole = IS_ENABLED(CONFIG_ARM64_64K_PAGES) ? vabits_actual == VA_BITS :
							  vabits_actual != 52;

	if (!whole)
		return "the root does not fit";
	return linmap_regions_are_many() ? "memory has too many banks" : NULL;
}

bool __init linmap_can_be_on(void)
{
	return linmap_on && !unfit();
}

static u32 oa_format(void)
{
	if (IS_ENABLED(CONFIG_ARM64_64K_PAGES))
		return IS_ENABLED(CONFIG_ARM64_PA_BITS_52) ? LINMAP_OA_LPA :
							     LINMAP_OA_48;
	return lpa2_is_enabled() ? LINMAP_OA_LPA2 : LINMAP_OA_48;
}

/*
 * What all CPUs promise. While some have come and the capabilities are not
 * final, it is what a CPU without the promise allows.
 */
static u32 promise(bool alone)
{
	u32 bits = 0;

	if (!system_capabilities_finalized()) {
		if (alone && linmap_cpu_never_aborts())
			bits |= LINMAP_NEVER_ABORTS;
		return bits | LINMAP_REPEAT_TLBI;
	}
	if (linmap_cpus_never_abort())
		bits |= LINMAP_NEVER_ABORTS;
	if (system_supports_tlb_range())
		bits |= LINMAP_RANGE_TLBI;
	if (linmap_cpus_repeat_tlbi())
		bits |= LINMAP_REPEAT_TLBI;
	return bits;
}

static int __init more_cpus_come(void)
{
	if (linmap_on)
		linmap_promise(&linear_map, promise(false));
	return 0;
}
early_initcall(more_cpus_come);

static struct linmap_range linmap_range(void)
{
	return (struct linmap_range) {
		.first = _PAGE_OFFSET(vabits_actual),
		.last = PAGE_END - 1,
	};
}

bool __init linmap_add_region(phys_addr_t start, phys_addr_t end,
			      pgprot_t prot, bool pages)
{
	linmap_test_begin();
	if (linmap_on && unfit()) {
		pr_warn("linmap: off at %llu bits, since %s\n", (u64)vabits_actual, unfit());
		linmap_on = false;
	}
	if (!linmap_on)
		return false;
	linmap_note_region(start, end, pgprot_val(prot) & ~(u64)PTE_TYPE_MASK,
			   pages ? LINMAP_PAGES : 0);
	return true;
}

void __init linmap_map_regions(void)
{
	const struct linmap_geometry geometry = {
		.page_shift = PAGE_SHIFT,
		.va_bits = vabits_actual,
		.oa_format = oa_format(),
		.max_leaf_shift = pud_sect_supported() ? PUD_SHIFT : CONT_PMD_SHIFT,
		.table_attributes = LINMAP_TABLE_ATTRIBUTES,
	};
	const struct linmap_range range = linmap_range();
	phys_addr_t root = __pa_symbol(swapper_pg_dir);
	int error;

	if (linmap_on) {
		/* The root is reached by the kernel's mapping for now. */
		error = linmap_adopt(&linear_map, &geometry,
				     (u64)swapper_pg_dir - root, promise(true),
				     root, &range);
		error = error ?: linmap_create(&linear_map, linmap_regions,
					       linmap_region_count);
		error = error ?: linmap_move_tables(&linear_map,
						    PAGE_OFFSET - PHYS_OFFSET);
		if (error)
			panic("linmap: creation failed: %d\n", error);
		linmap_tables_live();
	}
	linmap_test_end();
}

/*
 * The library knows how a page that is not valid says that it is present, and
 * whether it is global when it is valid again.
 */
static const u64 permissions = PTE_VALID | PTE_USER | PTE_RDONLY | PTE_DBM |
			       PTE_GP | PTE_PXN | PTE_UXN;

/* These are pages already, and change in any context. */
static u32 context(unsigned long va)
{
	return debug_pagealloc_enabled() || is_kfence_address((void *)va) ?
	       LINMAP_ATOMIC : 0;
}

/* Lack of memory is no mistake: the caller goes on without the change. */
static int told(int error, unsigned long va)
{
	if (error == -ENOMEM)
		pr_warn_ratelimited("linmap: no memory for tables at %#lx\n", va);
	else
		WARN_ONCE(error, "linmap: %#lx keeps its protection: %d\n", va, error);
	return error;
}

static int change(unsigned long va, unsigned long size, pgprot_t set,
		  pgprot_t clear, u32 flags)
{
	int error = linmap_change(&linear_map, va, size >> PAGE_SHIFT,
				  pgprot_val(set) & permissions,
				  pgprot_val(clear) & permissions,
				  flags | context(va));

	return told(error, va);
}

int linmap_change_range(unsigned long va, unsigned long size, pgprot_t set,
			pgprot_t clear)
{
	return change(va, size, set, clear, 0);
}

int linmap_change_noflush(unsigned long va, unsigned long size, pgprot_t set,
			  pgprot_t clear)
{
	return change(va, size, set, clear, LINMAP_NOFLUSH);
}

/*
 * What changed without a flush is pending in the library, which neither merges
 * it nor takes it for done. It ends here. Returns true if nothing is left to be
 * flushed, since all of the range is the library's.
 */
bool linmap_flush_kernel(unsigned long start, unsigned long end)
{
	const unsigned long last = linmap_range().last;
	unsigned long pages;

	if (!linmap_owns(start))
		return false;
	start &= PAGE_MASK;
	pages = (min(end - 1, last) - start) / PAGE_SIZE + 1;
	return !linmap_flush(&linear_map, start, pages) && end - 1 <= last;
}
EXPORT_SYMBOL_GPL(linmap_flush_kernel);

void linmap_set_prot(unsigned long va, unsigned long size, pgprot_t prot)
{
	pgprot_t clear = __pgprot((PTE_RDONLY | PTE_DBM | PTE_PXN) & ~pgprot_val(prot));

	change(va, size, prot, clear, 0);
}

/* Negative if each of so many addresses is higher than the one before. */
static long rise(const u64 *address, int count)
{
	long all = -1;

	for (; count >= 8; address += 8, count -= 8)
		all &= (address[-1] - address[0]) & (address[0] - address[1]) &
		       (address[1] - address[2]) & (address[2] - address[3]) &
		       (address[3] - address[4]) & (address[4] - address[5]) &
		       (address[5] - address[6]) & (address[6] - address[7]);
	for (; count > 0; address++, count--)
		all &= address[-1] - address[0];
	return all;
}

/*
 * Whether pages follow each other in memory. The memory map is one array, so
 * they do if each is after the one before, and the last as far from the first
 * as it should be.
 */
static bool adjacent(struct page **pages, int count)
{
	return pages[count - 1] - pages[0] == count - 1 &&
	       rise((const u64 *)pages + 1, count - 1) < 0;
}

/* All of the pages, or none. The addresses are not in the stack frame of those who have none. */
static noinline int change_few(struct page **pages, int count, u64 set, u64 clear)
{
	u64 addresses[AT_ONCE];
	int i;

	for (i = 0; i < count; i++)
		addresses[i] = (u64)page_address(pages[i]);
	return linmap_change_pages(&linear_map, addresses, count, set, clear, 0);
}

/* Whether a page of the area itself, which changes last, was like this before. */
static bool was(struct vm_struct *area, unsigned long idx, u64 set, u64 clear)
{
	u64 leaf = pte_val(__ptep_get(virt_to_kpte((u64)area->addr + idx * PAGE_SIZE)));

	return (leaf & set) == set && !(leaf & clear);
}

/*
 * The first pages, which have changed, are again as they were. They are in page
 * tables by now, since so few are never a block: no table page is needed,
 * unless a collapse has come between.
 */
static void change_back(struct vm_struct *area, unsigned long idx, int count,
			u64 set, u64 clear)
{
	int n;

	for (; count > 0; idx += n, count -= n) {
		bool same = was(area, idx, set, clear);

		for (n = 1; n < min(count, AT_ONCE) &&
			    was(area, idx + n, set, clear) == same; n++)
			;
		if (!same && WARN_ON(change_few(area->pages + idx, n, clear, set)))
			return;
	}
}

/*
 * Scattered pages change a few at a time: as many as the stack has room for
 * their addresses.
 */
int linmap_change_pages_of(struct vm_struct *area, unsigned long idx,
			   int *count, pgprot_t set_mask, pgprot_t clear_mask)
{
	u64 set = pgprot_val(set_mask) & permissions;
	u64 clear = pgprot_val(clear_mask) & permissions;
	struct page **pages = area->pages + idx;
	u64 first;
	int done, n, error = 0;

	if (!linmap_is_on())
		return 0;
	first = (u64)page_address(pages[0]);
	if (adjacent(pages, *count)) {
		error = linmap_change(&linear_map, first, *count, set, clear, 0);
	} else {
		for (done = 0; done < *count && !error; done += n) {
			n = min(*count - done, AT_ONCE);
			error = change_few(pages + done, n, set, clear);
		}
		if (error)
			change_back(area, idx, done - n, set, clear);
	}
	if (error)
		return told(error, first);
	*count = 0;
	return 0;
}

int linmap_change_area(unsigned long va, unsigned long size, pgprot_t set,
		       pgprot_t clear)
{
	int error;

	if (!linmap_is_on())
		return -EOPNOTSUPP;
	error = linmap_change(&linear_map, va, size >> PAGE_SHIFT,
			      pgprot_val(set) & permissions,
			      pgprot_val(clear) & permissions, 0);
	return error == -EACCES ? -EOPNOTSUPP : told(error, va);
}

/*
 * A CPU came without the promise: everything becomes pages but the kernel's
 * alias, which does not change any more.
 */
static void __init repaint(void)
{
	const struct linmap_range all = linmap_range(), kept = {
		.first = (u64)lm_alias(_stext),
		.last = (u64)lm_alias(__init_begin) - 1,
	};
	int error;

	linmap_promise(&linear_map, LINMAP_PARKS | promise(false));
	error = linmap_repaint(&linear_map, &all, &kept, 1, 0);
	linmap_unpark();
	if (error)
		panic("linmap: repaint failed: %d\n", error);
}

bool __init linmap_capabilities_final(bool large_leaves)
{
	if (!linmap_is_on()) {
		if (linmap_on)
			pr_warn("linmap: off, since this is a realm\n");
		linmap_on = false;
		return false;
	}
	if (large_leaves && !linmap_cpus_never_abort())
		repaint();
	linmap_promise(&linear_map, promise(false));
	return true;
}

int linmap_to_pages(unsigned long start, unsigned long end)
{
	return linmap_split(&linear_map, start, (end - start) >> PAGE_SHIFT, 0);
}

bool linmap_is_changing(void)
{
	return linmap_is_on() && linmap_is_busy(&linear_map);
}
