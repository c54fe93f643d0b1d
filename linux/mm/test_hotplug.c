// SPDX-License-Identifier: GPL-2.0
/*
 * Memory comes and goes. The boot arguments mem= and linmap_test.ram= say where
 * there is RAM that Linux does not know; it comes in two halves.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/memory_hotplug.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/sizes.h>

#include <asm/memory.h>

#include "glue.h"
#include "internal.h"
#include "test.h"

static struct range ram __ro_after_init;

static int __init parse_ram(char *arg)
{
	u64 bytes = memparse(arg, &arg);

	if (*arg != '@')
		return -EINVAL;
	ram.start = memparse(arg + 1, NULL);
	ram.end = ram.start + bytes;
	return 0;
}
early_param("linmap_test.ram", parse_ram);

/* Whether all pages can be written, or none can be read. */
static int reachable(u64 start, u64 end, bool expected)
{
	int error = 0;
	u64 pa;

	for (pa = start; !error && pa < end; pa += PAGE_SIZE) {
		const void *va = __va(pa);

		error = CHECK((expected ? linmap_test_writable(va) :
					  linmap_test_readable(va)) == expected);
	}
	return error;
}

static u64 middle(void)
{
	return ram.start + (ram.end - ram.start) / 2;
}

static int add(u64 start, u64 end)
{
	return CHECK(start < end) ?:
	       reachable(start, end, false) ?:
	       add_memory(0, start, end - start, MHP_NONE) ?:
	       reachable(start, end, true) ?:
	       /* It is there: nothing changes. */
	       CHECK(add_memory(0, start, end - start, MHP_NONE) == -EEXIST) ?:
	       reachable(start, end, true);
}

/* Removal needs no page for a table, whatever has been merged before. */
static int remove(u64 start, u64 end)
{
	int error;

	if (linmap_is_on())
		linmap_collapse_all();
	linmap_test_deny(true);
	error = offline_and_remove_memory(start, end - start);
	linmap_test_deny(false);
	return error ?: reachable(start, end, false);
}

int linmap_test_add_low(void)
{
	return add(ram.start, middle());
}

int linmap_test_add_high(void)
{
	return add(middle(), ram.end);
}

/* What is left is as it was. */
int linmap_test_remove_low(void)
{
	return remove(ram.start, middle()) ?: reachable(middle(), ram.end, true);
}

int linmap_test_remove_high(void)
{
	return remove(middle(), ram.end);
}

/* A section out of the middle goes first. Linux alone does not split a leaf for it. */
static int remove_parts(u64 start, u64 end)
{
	if (!linmap_is_on())
		return remove(ram.start, ram.end);
	return remove(start, end) ?:
	       reachable(ram.start, start, true) ?: reachable(end, ram.end, true) ?:
	       remove(ram.start, start) ?: remove(end, ram.end);
}

/* All of it comes at once, has a page that changes, and goes. */
int linmap_test_whole(void)
{
	struct page *page = pfn_to_page(PHYS_PFN(middle()) + 1);

	return add(ram.start, ram.end) ?: linmap_test_invalid_and_back(page) ?:
	       remove_parts(middle(), middle() + BIT_ULL(PA_SECTION_SHIFT));
}

#ifdef CONFIG_ZONE_DEVICE
/* Memory of a device need not have the size of a block. */
int linmap_test_device(void)
{
	struct dev_pagemap map = {
		.type = MEMORY_DEVICE_GENERIC,
		.nr_range = 1,
		.range = { .start = ram.start + SZ_2M, .end = ram.start + SZ_8M - 1 },
	};
	void *va = memremap_pages(&map, NUMA_NO_NODE);
	int error;

	if (IS_ERR(va))
		return PTR_ERR(va);
	error = reachable(ram.start, ram.start + SZ_2M, false) ?:
		reachable(ram.start + SZ_2M, ram.start + SZ_8M, true) ?:
		reachable(ram.start + SZ_8M, ram.end, false);
	memunmap_pages(&map);
	return error ?: reachable(ram.start, ram.end, false);
}
#endif
