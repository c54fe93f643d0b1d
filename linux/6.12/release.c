// SPDX-License-Identifier: GPL-2.0
/*
 * What Linux 6.12 does not know: whether CPUs abort when a leaf in use changes
 * its size. Each one is asked when it comes.
 *
 * If the first never aborts, the map is in large leaves. If another one may,
 * all becomes pages when the CPUs of the boot are there. A CPU that may abort
 * and comes even later is refused.
 */
#include <linux/cache.h>
#include <linux/init.h>
#include <linux/kfence.h>
#include <linux/mm.h>
#include <linux/smp.h>

#include <asm/cpufeature.h>
#include <asm/cputype.h>
#include <asm/kernel-pgtable.h>
#include <asm/kfence.h>
#include <asm/mmu.h>
#include <asm/mmu_context.h>
#include <asm/pgtable.h>

#include "glue.h"
#include "internal.h"

/* Of all CPUs that have come. */
static bool never_abort __ro_after_init;
static bool relies_on_cpus __ro_after_init;

bool linmap_cpu_never_aborts(void)
{
	return !linmap_test_withholds() &&
	       linmap_never_aborts(read_cpuid_id(), read_cpuid(ID_AA64MMFR2_EL1));
}

bool linmap_cpus_never_abort(void)
{
	return never_abort;
}

bool linmap_relies_on_cpus(void)
{
	return relies_on_cpus;
}

/* debug_pagealloc changes pages in any context, where nothing can be split. */
bool __init linmap_wants_pages(bool some_change)
{
	never_abort = linmap_cpu_never_aborts();
	relies_on_cpus = some_change && never_abort && linmap_can_be_on() &&
			 !debug_pagealloc_enabled();
	return some_change && !relies_on_cpus;
}

bool linmap_adds_pages(bool some_change)
{
	return some_change && !(relies_on_cpus && never_abort);
}

void linmap_cpu_comes(void)
{
	if (linmap_cpu_never_aborts())
		return;
	if (!system_capabilities_finalized()) {
		never_abort = false;
	} else if (never_abort && linmap_is_on()) {
		pr_crit("linmap: CPU%d may abort when leaves change their size, and is refused\n",
			smp_processor_id());
		cpu_die_early();
	}
}

/* Linux has mapped it if it may have to wait for KPTI, which KASLR decides before. */
void __init linmap_map_park_flag(void)
{
	static u8 tables[IDMAP_LEVELS - 1][PAGE_SIZE] __aligned(PAGE_SIZE) __ro_after_init;
	extern void __pi_map_range(u64 *tables, u64 start, u64 end, u64 pa,
				   pgprot_t prot, int level, pte_t *table,
				   bool contiguous, u64 offset);
	u64 flag = __pa_symbol(&linmap_park_flag), next = __pa_symbol(tables);

	if (relies_on_cpus)
		__pi_map_range(&next, flag, flag + sizeof(linmap_park_flag), flag,
			       PAGE_KERNEL, IDMAP_ROOT_LEVEL, (pte_t *)idmap_pg_dir,
			       false, __phys_to_virt(next) - next);
}

#ifdef CONFIG_KFENCE
/* A pool that comes late is in large leaves, and changes in any context. */
bool arch_kfence_init_pool(void)
{
	unsigned long start = (unsigned long)__kfence_pool;

	return kfence_early_init || !relies_on_cpus ||
	       !linmap_to_pages(start, start + KFENCE_POOL_SIZE);
}
#endif
