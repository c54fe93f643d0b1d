// SPDX-License-Identifier: GPL-2.0
/*
 * RAM that comes and goes, and the memory of devices. It is mapped as memory is
 * at boot, in the leaves that Linux wants, and large ones are joined with what
 * is there. When it goes, tables are as if it had never been there.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mm.h>

#include <asm/memory.h>
#include <asm/pgtable.h>

#include "glue.h"
#include "internal.h"

static struct linmap_region region(unsigned long va, u64 size, pgprot_t prot)
{
	return (struct linmap_region) {
		.va = va,
		.pa = __virt_to_phys(va),
		.bytes = size,
		.attributes = pgprot_val(prot) & ~(u64)PTE_TYPE_MASK,
	};
}

int linmap_add_memory(unsigned long va, u64 size, pgprot_t prot, bool pages)
{
	struct linmap_region memory = region(va, size, prot);

	memory.flags = pages ? LINMAP_PAGES : 0;
	return linmap_add(&linear_map, &memory, 0);
}

/*
 * Nobody uses it any more, so all of it goes, whatever it is by now:
 * debug_pagealloc has taken out what is free. But memory that was left
 * read-only or invalid otherwise is somebody's mistake.
 */
void linmap_remove_memory(unsigned long va, u64 size)
{
	struct linmap_region memory = region(va, size, pgprot_mhp(PAGE_KERNEL));
	int error = linmap_remove(&linear_map, &memory, 0);

	if (error == -EBUSY) {
		/* Memory of a device has no tags. */
		memory = region(va, size, PAGE_KERNEL);
		error = linmap_remove(&linear_map, &memory, 0);
	}
	if (error == -EBUSY) {
		if (!debug_pagealloc_enabled())
			pr_notice("linmap: memory at %#lx goes that was in special use\n", va);
		error = linmap_unmap(&linear_map, va, size >> PAGE_SHIFT, 0);
	}
	WARN(error, "linmap: memory at %#lx has gone, but not its mapping: %d\n", va, error);
}

bool linmap_can_split(unsigned long va)
{
	return linmap_owns(va) && linmap_cpus_never_abort();
}
