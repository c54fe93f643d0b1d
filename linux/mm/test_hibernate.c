// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that are not in the linear map, with known contents: who copies all of
 * memory, as hibernation does, has to put them back for a moment.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/set_memory.h>
#include <linux/string.h>

#include <asm/tlbflush.h>

#include "test.h"

/* Neighbours, and more than one of them. */
#define OUT 3
static struct page *out[OUT];

static int take_out(int n)
{
	void *va;

	out[n] = alloc_page(GFP_KERNEL);
	if (!out[n])
		return -ENOMEM;
	va = page_address(out[n]);
	memset(va, 0x70 + n, PAGE_SIZE);
	return set_direct_map_invalid_noflush(out[n]) ?:
	       (flush_tlb_kernel_range((unsigned long)va, (unsigned long)va + PAGE_SIZE),
		CHECK(!linmap_test_readable(va)));
}

static int put_back(int n)
{
	void *va = page_address(out[n]);
	int error = CHECK(!linmap_test_readable(va)) ?:
		    set_direct_map_default_noflush(out[n]) ?:
		    CHECK(linmap_test_writable(va)) ?:
		    CHECK(!memchr_inv(va, 0x70 + n, PAGE_SIZE));

	__free_page(out[n]);
	return error;
}

int linmap_test_take_out(void)
{
	int n, error = 0;

	for (n = 0; !error && n < OUT; n++)
		error = take_out(n);
	return error;
}

int linmap_test_put_back(void)
{
	int n, error = 0;

	for (n = 0; !error && n < OUT; n++)
		error = put_back(n);
	return error;
}
