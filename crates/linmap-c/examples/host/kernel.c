/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions that linmap calls, in the memory of a process. Each checks what the header promises: pages are
 * freed once, nothing is allocated under a lock, locks are taken once, one table of each level is mapped at a time.
 */
#include "kernel.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kernel kernel = {.limit = POOL_PAGES};

static _Alignas(4096) unsigned char pool[POOL_PAGES][PAGE];
static bool taken[POOL_PAGES];
static bool mapped[5];
/* The locks that are held, and the one that was taken last. */
static bool locked[LINMAP_LOCKS];
static uint32_t last;

uint64_t table_offset(void)
{
    return (uint64_t)(uintptr_t)pool - POOL_PA;
}

static unsigned number_of(uint64_t pa)
{
    uint64_t number = (pa - POOL_PA) / PAGE;

    assert(pa % PAGE == 0 && pa >= POOL_PA && number < POOL_PAGES && taken[number]);
    return (unsigned)number;
}

uint64_t *table_at(uint64_t pa)
{
    return (uint64_t *)(void *)pool[number_of(pa)];
}

uint64_t linmap_table_alloc(bool may_wait)
{
    assert(kernel.held == 0 && may_wait != kernel.atomic);
    if (kernel.changes)
        kernel.changes();
    if (kernel.tables == kernel.limit)
        return 0;
    for (unsigned n = 0; n < POOL_PAGES; n++) {
        if (!taken[n]) {
            taken[n] = true;
            kernel.tables++;
            memset(pool[n], 0xa5, PAGE);
            return POOL_PA + (uint64_t)n * PAGE;
        }
    }
    return 0;
}

static void release(uint64_t pa)
{
    unsigned n = number_of(pa);

    taken[n] = false;
    kernel.tables--;
    memset(pool[n], 0x5a, PAGE);
}

void linmap_table_free(uint64_t pa)
{
    assert(kernel.held == 0);
    if (kernel.changes)
        kernel.changes();
    release(pa);
}

/* A kernel with readers waits for them first. */
void linmap_table_retire(uint64_t pa)
{
    release(pa);
}

uint64_t *linmap_table_map(uint64_t pa, int32_t level)
{
    assert(level >= -1 && level <= 3 && !mapped[level + 1]);
    mapped[level + 1] = true;
    return table_at(pa);
}

void linmap_table_unmap(int32_t level)
{
    assert(level >= -1 && level <= 3 && mapped[level + 1]);
    mapped[level + 1] = false;
}

void linmap_root_set(uint64_t root, size_t index, uint64_t descriptor)
{
    kernel.root_sets++;
    __atomic_store_n(&table_at(root)[index], descriptor, __ATOMIC_RELAXED);
}

void linmap_lock(uint32_t number)
{
    assert(number < LINMAP_LOCKS && !locked[number] && (kernel.held == 0 || last < number));
    locked[number] = true;
    last = number;
    kernel.held++;
}

void linmap_unlock(uint32_t number)
{
    assert(number < LINMAP_LOCKS && locked[number]);
    locked[number] = false;
    kernel.held--;
}

bool linmap_wait(void)
{
    assert(kernel.held == 0 && !kernel.atomic);
    kernel.waits++;
    return true;
}

bool linmap_ask_cpus(void)
{
    assert(kernel.held == 0 && !kernel.atomic);
    return kernel.parks;
}

/* There are no other CPUs, so this one stores. */
bool linmap_park(uint64_t root, const struct linmap_update *updates, size_t count)
{
    (void)root;
    kernel.parked++;
    for (const struct linmap_update *update = updates; update < updates + count; update++) {
        uint64_t *to = table_at(update->table), *from = table_at(update->from);

        for (size_t n = update->index; n < update->index + update->count; n++)
            to[n] = (from[n] & ~update->clear) | update->set;
    }
    return kernel.parks;
}

void linmap_tlbi(uint64_t va, uint64_t bytes, bool tables)
{
    (void)va, (void)tables;
    assert(bytes != 0);
    kernel.tlbi++;
}

void linmap_panic(const char *message, size_t length)
{
    fprintf(stderr, "linmap: %.*s\n", (int)length, message);
    abort();
}
