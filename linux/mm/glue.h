/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What mmu.c and pageattr.c call. Without ARM64_LINMAP, or with the boot
 * argument linmap=off, nothing is linmap's.
 */
#ifndef __MM_LINMAP_GLUE_H
#define __MM_LINMAP_GLUE_H

#include <linux/errno.h>
#include <linux/mm_types.h>
#include <linux/mmap_lock.h>
#include <linux/types.h>
#include <asm/memory.h>
#include <asm/pgtable-types.h>

#include "release.h"

struct vm_struct;

#ifdef CONFIG_ARM64_LINMAP

extern bool linmap_on;

/*
 * A realm shares memory by a bit of its address, which the library does not
 * change in place. That this is a realm is known after the map was made; Linux
 * goes on with the tables as they are.
 */
static __always_inline bool linmap_is_on(void)
{
	return linmap_on && !linmap_is_realm();
}

static __always_inline bool linmap_owns(unsigned long va)
{
	return linmap_is_on() && __is_lm_address(va);
}

/* Creation: regions are noted, and mapped all at once. */
bool linmap_add_region(phys_addr_t start, phys_addr_t end, pgprot_t prot,
		       bool pages);
void linmap_map_regions(void);

/* All attributes of a range at once, and their TLB entries. */
void linmap_set_prot(unsigned long va, unsigned long size, pgprot_t prot);

/* The bits of clear go first. Without noflush, TLB entries go, too. */
int linmap_change_range(unsigned long va, unsigned long size, pgprot_t set,
			pgprot_t clear);
int linmap_change_noflush(unsigned long va, unsigned long size, pgprot_t set,
			  pgprot_t clear);

/*
 * The linear aliases of *count pages of a vmalloc area, from its page idx on,
 * and their TLB entries. *count becomes 0 if nothing is left to do.
 */
int linmap_change_pages_of(struct vm_struct *area, unsigned long idx,
			   int *count, pgprot_t set, pgprot_t clear);

/*
 * The area itself, which consists of pages. -EOPNOTSUPP if Linux has to do it:
 * the library never makes memory both writable and executable.
 */
int linmap_change_area(unsigned long va, unsigned long size, pgprot_t set,
		       pgprot_t clear);

/*
 * The capabilities of all CPUs that were there at boot are known. Large leaves
 * become pages if one of them may abort. Returns false if Linux has to do that.
 */
bool linmap_capabilities_final(bool large_leaves);

/* All that is valid has become not global, since there is KPTI. */
void linmap_not_global(void);

/* The range becomes pages. */
int linmap_to_pages(unsigned long start, unsigned long end);

/*
 * Memory comes and goes after boot. The first fails as a whole; the second takes
 * no memory.
 */
int linmap_add_memory(unsigned long va, u64 size, pgprot_t prot, bool pages);
void linmap_remove_memory(unsigned long va, u64 size);

/*
 * A task is in the middle of a long change. Who copies all memory when no other
 * task runs, and has to make pages valid for that, would not be let in there.
 */
bool linmap_is_changing(void);

/* Until the end tables that go are not freed, also if the reader sleeps. */
static inline void linmap_read_begin(void)
{
	mmap_read_lock(&init_mm);
}

static inline void linmap_read_end(void)
{
	mmap_read_unlock(&init_mm);
}

#else

static inline bool linmap_owns(unsigned long va)
{
	return false;
}

static inline bool linmap_add_region(phys_addr_t start, phys_addr_t end,
				     pgprot_t prot, bool pages)
{
	return false;
}

static inline void linmap_set_prot(unsigned long va, unsigned long size,
				   pgprot_t prot)
{
}

static inline int linmap_change_range(unsigned long va, unsigned long size,
				      pgprot_t set, pgprot_t clear)
{
	return 0;
}

static inline int linmap_change_noflush(unsigned long va, unsigned long size,
					pgprot_t set, pgprot_t clear)
{
	return 0;
}

static inline int linmap_change_pages_of(struct vm_struct *area,
					 unsigned long idx, int *count,
					 pgprot_t set, pgprot_t clear)
{
	return 0;
}

static inline int linmap_change_area(unsigned long va, unsigned long size,
				     pgprot_t set, pgprot_t clear)
{
	return -EOPNOTSUPP;
}

static inline int linmap_to_pages(unsigned long start, unsigned long end)
{
	return 0;
}

static inline bool linmap_capabilities_final(bool large_leaves)
{
	return false;
}

static inline int linmap_add_memory(unsigned long va, u64 size, pgprot_t prot,
				    bool pages)
{
	return 0;
}

static inline bool linmap_is_changing(void)
{
	return false;
}

static inline void linmap_remove_memory(unsigned long va, u64 size) { }
static inline void linmap_map_regions(void) { }
static inline void linmap_not_global(void) { }
static inline void linmap_read_begin(void) { }
static inline void linmap_read_end(void) { }

#endif
#endif
