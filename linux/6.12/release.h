/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How Linux 6.12 calls what the files of linmap use, and what it calls besides
 * glue.h, since it has no large leaves that change: see release.c.
 */
#ifndef __MM_LINMAP_RELEASE_H
#define __MM_LINMAP_RELEASE_H

#include <linux/types.h>
#include <asm/memory.h>

#define linmap_is_realm() false
#define linmap_cpus_repeat_tlbi() cpus_have_final_cap(ARM64_WORKAROUND_REPEAT_TLBI)
#define LINMAP_TABLE_ATTRIBUTES (PMD_TABLE_PXN | PMD_TABLE_UXN)

extern u32 __idmap_kpti_flag;
#define linmap_park_flag __idmap_kpti_flag

/* With the identity map: raises the flag by 1, and waits until it is 0. */
static inline void linmap_wait_for_flag(void)
{
	extern void idmap_kpti_install_ng_mappings(int cpu, int cpus,
						   phys_addr_t pgd, unsigned long va);
	void (*wait)(int cpu, int cpus, phys_addr_t pgd, unsigned long va) =
		(void *)__pa_symbol(idmap_kpti_install_ng_mappings);

	/* Any CPU but the first waits, and looks at nothing else. */
	wait(1, 0, 0, 0);
}

#ifdef CONFIG_ARM64_LINMAP

bool linmap_cpu_never_aborts(void);
bool linmap_cpus_never_abort(void);

/* Whether everything has to be in pages. Linux wants that if single pages change. */
bool linmap_wants_pages(bool some_change);

/* The same of memory that comes when all CPUs of the boot are there. */
bool linmap_adds_pages(bool some_change);

/* Large leaves change: a CPU that may abort must not. */
bool linmap_relies_on_cpus(void);

/* The flag is in the identity map, if CPUs may have to be parked. */
void linmap_map_park_flag(void);

/* A CPU comes: the one that calls. It does not return if it comes too late. */
void linmap_cpu_comes(void);

#else

static inline bool linmap_wants_pages(bool some_change)
{
	return some_change;
}

static inline bool linmap_adds_pages(bool some_change)
{
	return some_change;
}

static inline bool linmap_relies_on_cpus(void)
{
	return false;
}

static inline void linmap_map_park_flag(void) { }
static inline void linmap_cpu_comes(void) { }

#endif
#endif
