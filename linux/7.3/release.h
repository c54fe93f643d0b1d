/* SPDX-License-Identifier: GPL-2.0 */
/* How Linux 7.3 calls what the files of linmap use. */
#ifndef __MM_LINMAP_RELEASE_H
#define __MM_LINMAP_RELEASE_H

#include <asm/memory.h>
#include <asm/rsi.h>

#define linmap_is_realm() is_realm_world()
#define linmap_cpu_never_aborts() cpu_supports_bbml3()
#define linmap_cpus_never_abort() system_supports_bbml3()
#define linmap_cpus_repeat_tlbi() cpus_have_final_cap(ARM64_WORKAROUND_REPEAT_TLBI_SYNC)
#define LINMAP_TABLE_ATTRIBUTES (PMD_TABLE_PXN | PMD_TABLE_UXN | PMD_TABLE_AF)

extern u32 idmap_kpti_bbml3_flag;
#define linmap_park_flag idmap_kpti_bbml3_flag

/* With the identity map: raises the flag by 1, and waits until it is 0. */
static inline void linmap_wait_for_flag(void)
{
	extern void wait_linear_map_split_to_ptes(void);
	void (*wait)(void) = (void *)__pa_symbol(wait_linear_map_split_to_ptes);

	wait();
}

#endif
