// SPDX-License-Identifier: GPL-2.0
/*
 * The regions of the linear map, noted one by one while Linux says what it
 * wants, until all are mapped at once.
 *
 * A region that was noted before wins: Linux notes what changes later, such as
 * the alias of the kernel's text, in front of the memory around it. Its ends
 * are ends of leaves, so that it can change without a split.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/string.h>

#include "regions.h"

struct linmap_region linmap_regions[LINMAP_MAX_REGIONS] __initdata;
unsigned int linmap_region_count __initdata;

/*
 * Each bank of memory is a region, and each region in front of it splits one
 * bank: the kernel's text and data, KFENCE's pool, and a few to spare. The first
 * answer stays, since Linux 6.12 splits a bank between two questions.
 */
bool __init linmap_regions_are_many(void)
{
	static unsigned int banks __initdata;

	if (!banks)
		banks = memblock.memory.cnt;
	return banks + 2 * 8 > LINMAP_MAX_REGIONS;
}

static void __init insert(unsigned int at, u64 pa, u64 end, u64 attributes,
			  u32 flags)
{
	struct linmap_region *r = linmap_regions + at;

	BUG_ON(linmap_region_count == LINMAP_MAX_REGIONS);
	memmove(r + 1, r, (linmap_region_count - at) * sizeof(*r));
	linmap_region_count++;
	*r = (struct linmap_region) {
		.va = __phys_to_virt(pa),
		.pa = pa,
		.bytes = end - pa,
		.attributes = attributes,
		.flags = flags,
	};
}

void __init linmap_note_region(u64 pa, u64 end, u64 attributes, u32 flags)
{
	unsigned int at;

	for (at = 0; at < linmap_region_count && pa < end; at++) {
		struct linmap_region *r = linmap_regions + at;
		u64 r_end = r->pa + r->bytes;

		if (r_end <= pa)
			continue;
		if (end <= r->pa)
			break;
		if (pa < r->pa) {
			insert(at, pa, r->pa, attributes, flags);
			at++;
		}
		pa = r_end;
	}
	if (pa < end)
		insert(at, pa, end, attributes, flags);
}
