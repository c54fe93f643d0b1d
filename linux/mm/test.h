/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests have in common. */
#ifndef __MM_LINMAP_TEST_H
#define __MM_LINMAP_TEST_H

#include <linux/errno.h>
#include <linux/printk.h>
#include <linux/types.h>

struct page;

#define CHECK(condition) ({						\
	bool holds = (condition);					\
	if (!holds)							\
		pr_err("test: WRONG: %s:%d: %s\n", __func__, __LINE__, #condition); \
	holds ? 0 : -EILSEQ;						\
})

/* An area of a block of memory, whose page n is page n ^ turn of the block. */
void *linmap_test_area(unsigned int order, unsigned int turn);

/* Counts the instructions of changes. */
int linmap_test_counts(void);

/* What the CPU says of an address: whether it can be read, or written. */
bool linmap_test_readable(const void *va);
bool linmap_test_writable(const void *va);

/* Takes a page out of the linear map, and puts it back. */
int linmap_test_invalid_and_back(struct page *page);

/* This task gets no table page of the linear map from now on, or again. */
void linmap_test_deny(bool on);

/* RAM comes and goes, by halves or as a whole; and memory of a device. */
int linmap_test_add_low(void);
int linmap_test_add_high(void);
int linmap_test_remove_low(void);
int linmap_test_remove_high(void);
int linmap_test_whole(void);
int linmap_test_device(void);

/* Some pages leave the linear map, and come back with what they had. */
int linmap_test_take_out(void);
int linmap_test_put_back(void);

#endif
