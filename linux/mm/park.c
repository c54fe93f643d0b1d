// SPDX-License-Identifier: GPL-2.0
/*
 * The other CPUs are parked while the boot CPU stores entries of the root, once
 * in the life of a kernel: the boot CPU alone is known not to abort then.
 *
 * They are asked while no lock is held, and wait in the identity map, as for
 * Linux's own split. None masks its interrupts before all have come: a task on
 * a CPU that has not might wait for an answer of one that has. Nobody else runs
 * on the boot CPU from then until they go on: another task might wait for them.
 */
#include <linux/atomic.h>
#include <linux/cpu.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/stop_machine.h>

#include <asm/mmu.h>
#include <asm/mmu_context.h>
#include <asm/pgtable.h>
#include <asm/tlbflush.h>

#include "internal.h"
#include "release.h"

static DEFINE_PER_CPU(struct cpu_stop_work, park_work);
static atomic_t to_come;
static bool parked;

static int wait_parked(void *unused)
{
	unsigned long flags;

	atomic_dec(&to_come);
	while (atomic_read(&to_come))
		cpu_relax();
	local_irq_save(flags);
	cpu_install_idmap();
	linmap_wait_for_flag();
	cpu_uninstall_idmap();
	local_irq_restore(flags);
	return 0;
}

bool linmap_is_parked(void)
{
	return parked;
}

bool linmap_ask_cpus(void)
{
	unsigned int cpu;

	if (parked)
		return true;
	preempt_disable();
	if (system_state >= SYSTEM_RUNNING || smp_processor_id()) {
		preempt_enable();
		return false;
	}
	WRITE_ONCE(linmap_park_flag, 1);
	atomic_set(&to_come, num_online_cpus() - 1);
	/* They are there before anyone changes them. */
	smp_mb();
	for_each_online_cpu(cpu)
		if (cpu != smp_processor_id())
			stop_one_cpu_nowait(cpu, wait_parked, NULL,
					    per_cpu_ptr(&park_work, cpu));
	smp_cond_load_acquire(&linmap_park_flag, VAL == num_online_cpus());
	linmap_test_parked();
	parked = true;
	return true;
}

void linmap_unpark(void)
{
	if (!parked)
		return;
	/* The stores before it have completed. */
	WRITE_ONCE(linmap_park_flag, 0);
	linmap_test_unparked();
	parked = false;
	preempt_enable();
}

bool linmap_park(u64 root, const struct linmap_update *updates, size_t count)
{
	const struct linmap_update *u;
	size_t i;

	if (!parked)
		return false;
	for (u = updates; u < updates + count; u++) {
		u64 *table = u->in_root ? (u64 *)swapper_pg_dir : __va(u->table);
		u64 *from = u->from == u->table ? table : __va(u->from);

		for (i = u->index; i < u->index + u->count; i++) {
			u64 new = (from[i] & ~u->clear) | u->set;

			if (new == table[i])
				continue;
			if (u->in_root)
				set_swapper_pgd(swapper_pg_dir + i, __pgd(new));
			else
				WRITE_ONCE(table[i], new);
		}
	}
	flush_tlb_all();
	linmap_unpark();
	return true;
}
