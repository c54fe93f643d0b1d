// SPDX-License-Identifier: GPL-2.0
/*
 * RAM that comes and goes, and the memory of devices. When it goes, tables are
 * as if it had never been there.
 *
 * Memory goes by whole sections at least, and when it goes it is too late to say
 * that there is no page for a table. So no leaf reaches beyond its section, and
 * removal splits nothing.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/mmzone.h>

#include <asm/memory.h>
#include <asm/pgtable.h>

#include "glue.h"
#include "internal.h"

/*
 * A bit that only software sees. Two sections that could be in one leaf differ
 * in it, so that no collapse merges them. Memory that was there at boot does not
 * go, and does not have it.
 */
static u64 mark(u64 pa)
{
	unsigned long section = pfn_to_section_nr(PHYS_PFN(pa));

	return section & 1 || early_section(__nr_to_section(section ^ 1)) ? PTE_SPECIAL : 0;
}

/*
 * The part of a range that is in its first section. What is less than a section
 * is memory of a device. It is in pages, since the rest of the section can belong
 * to another device.
 */
static struct linmap_region first_part(unsigned long va, u64 size, pgprot_t prot)
{
	const u64 section = BIT_ULL(PA_SECTION_SHIFT), pa = __virt_to_phys(va);
	const u64 bytes = min(size, section - (pa & (section - 1)));

	return (struct linmap_region) {
		.va = va,
		.pa = pa,
		.bytes = bytes,
		.attributes = (pgprot_val(prot) & ~(u64)PTE_TYPE_MASK) | mark(pa),
		.flags = bytes < section ? LINMAP_PAGES : 0,
	};
}

int linmap_add_memory(unsigned long va, u64 size, pgprot_t prot, bool pages)
{
	struct linmap_region part;
	u64 done;
	int error;

	for (done = 0; done < size; done += part.bytes) {
		part = first_part(va + done, size - done, prot);
		if (pages)
			part.flags = LINMAP_PAGES;
		error = linmap_add(&linear_map, &part, 0);
		if (error) {
			linmap_remove_memory(va, done);
			return error;
		}
	}
	return 0;
}

/*
 * Nobody uses it any more, so all of it goes, whatever it is by now:
 * debug_pagealloc has taken out what is free. But memory that was left
 * read-only or invalid otherwise is somebody's mistake.
 */
static u64 remove_part(unsigned long va, u64 size)
{
	struct linmap_region part = first_part(va, size, pgprot_mhp(PAGE_KERNEL));
	int error = linmap_remove(&linear_map, &part, 0);

	if (error == -EBUSY) {
		/* Memory of a device has no tags. */
		part = first_part(va, size, PAGE_KERNEL);
		error = linmap_remove(&linear_map, &part, 0);
	}
	if (error == -EBUSY) {
		if (!debug_pagealloc_enabled())
			pr_notice("linmap: memory at %#lx goes that was in special use\n", va);
		error = linmap_unmap(&linear_map, va, part.bytes >> PAGE_SHIFT, 0);
	}
	WARN(error, "linmap: memory at %#lx has gone, but not its mapping: %d\n", va, error);
	return part.bytes;
}

void linmap_remove_memory(unsigned long va, u64 size)
{
	u64 done;

	for (done = 0; done < size;)
		done += remove_part(va + done, size - done);
}
