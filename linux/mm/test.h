/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests have in common. */
#ifndef __MM_LINMAP_TEST_H
#define __MM_LINMAP_TEST_H

#include <linux/errno.h>
#include <linux/printk.h>

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

#endif
