/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of linmap in the kernel have in common. */
#ifndef __MM_LINMAP_INTERNAL_H
#define __MM_LINMAP_INTERNAL_H

#include <linux/sched.h>
#include <linux/types.h>
#include <asm/pgtable-types.h>
#include "linmap.h"

extern struct linmap linear_map;

/* What the boot argument says, unless the map cannot be the library's. */
bool linmap_can_be_on(void);

/* From now on tables come from the page allocator, and are in the linear map. */
void linmap_tables_live(void);

/* Leaves become as large as they can be. */
int linmap_collapse_all(void);

/* The other CPUs are parked, so that this one cannot sleep. */
bool linmap_is_parked(void);

/* Lets the other CPUs go on, if they are parked. */
void linmap_unpark(void);

/* The page allocator is asked, so that it can fail. */
static inline bool linmap_test_fails(void)
{
#ifdef CONFIG_FAIL_PAGE_ALLOC
	return current->make_it_fail;
#else
	return false;
#endif
}

#ifdef CONFIG_ARM64_LINMAP_TEST
/* Around the creation of the map. */
void linmap_test_begin(void);
void linmap_test_end(void);
/* From the last CPU that is parked to the release. */
void linmap_test_parked(void);
void linmap_test_unparked(void);
/* This CPU withholds its promise: QEMU has no mixed CPUs. */
bool linmap_test_withholds(void);
/* A table page is asked for. Returns false if this task gets none. */
bool linmap_test_alloc(void);
#else
static inline void linmap_test_begin(void) { }
static inline void linmap_test_end(void) { }
static inline void linmap_test_parked(void) { }
static inline void linmap_test_unparked(void) { }
static inline bool linmap_test_withholds(void) { return false; }
static inline bool linmap_test_alloc(void) { return true; }
#endif

#endif
