/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __MM_LINMAP_REGIONS_H
#define __MM_LINMAP_REGIONS_H

#include <linux/types.h>
#include "linmap.h"

#define LINMAP_MAX_REGIONS 512

/* In the order of their addresses, without overlap. */
extern struct linmap_region linmap_regions[];
extern unsigned int linmap_region_count;

/* There may be more than there is room for. */
bool linmap_regions_are_many(void);

/* Adds what no region before it has. */
void linmap_note_region(u64 pa, u64 end, u64 attributes, u32 flags);

#endif
