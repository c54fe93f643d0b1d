/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of a kernel that linmap calls, in the memory of a process: what each function must do, and nothing else. */
#ifndef KERNEL_H
#define KERNEL_H

#include "linmap.h"

#define PAGE 4096u
/* The physical address of the first table page. */
#define POOL_PA 0x80000000ull
#define POOL_PAGES 1024u

/* What has been asked of the kernel. */
struct kernel {
    /* The pages that are out, and how many may be. */
    unsigned tables, limit;
    /* Locks that are held, TLB invalidations, waits, the times that CPUs were parked, and stores to roots. */
    unsigned held, tlbi, waits, parked, root_sets;
    /* True if CPUs can be parked. */
    bool parks;
    /* True while the caller may not wait: its call has LINMAP_ATOMIC. */
    bool atomic;
    /* Called when a page is allocated or freed, if it is not null: some allocators change the map then. */
    void (*changes)(void);
};

extern struct kernel kernel;

/* The table pages are at their physical address plus this. */
uint64_t table_offset(void);

/* Returns the address of a table. */
uint64_t *table_at(uint64_t pa);

#endif
