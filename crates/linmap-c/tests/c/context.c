/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls in every context: that may not wait, in an allocator that changes the map, and with too few pages. A call that
 * fails gives back all that it took.
 */
#include "kernel.h"

#include <stdio.h>
#include <string.h>

#define BASE 0xffff000000000000ull
#define PLAIN (3ull << 8 | 1ull << 10 | 3ull << 53)
#define READ_ONLY (1ull << 7)
#define GIGA (1ull << 30)
#define MEGA (1ull << 20)
/* A page that the allocator makes valid and invalid. */
#define OWN (BASE + 100 * GIGA)

static struct linmap map;
static const struct linmap_geometry geometry = {.page_shift = 12, .va_bits = 48, .max_leaf_shift = 30};
static const struct linmap_range all = {BASE, BASE + 512 * GIGA - 1};
/* What a repaint leaves as it is, so that there are enough pages for the rest. */
static const struct linmap_range kept = {BASE + GIGA, BASE + 4 * GIGA - 1};
/* RAM that comes, and RAM that goes. */
static const struct linmap_region comes = {BASE + 8 * GIGA + PAGE, 8 * GIGA + PAGE, GIGA, PLAIN, 0};
static const struct linmap_region goes = {BASE + 2 * MEGA + PAGE, 2 * MEGA + PAGE, GIGA, PLAIN, 0};
static unsigned wrong, changes, busy;

static void is(int line, long answer, long right)
{
    if (answer != right) {
        printf("line %d: %ld, not %ld\n", line, answer, right);
        wrong++;
    }
}
#define IS(right, call) is(__LINE__, (long)(call), (right))

/* Four gigabytes in leaves of a gigabyte, and a page of the allocator. */
static void make(uint32_t promise)
{
    const struct linmap_region regions[] = {
        {BASE, 0, 4 * GIGA, PLAIN, 0},
        {OWN, 100 * GIGA, 64 * PAGE, PLAIN, LINMAP_PAGES},
    };

    memset(&map, 0, sizeof map);
    IS(0, linmap_init(&map, &geometry, table_offset(), promise));
    IS(0, linmap_create(&map, regions, 2));
}

static void unmake(void)
{
    kernel.limit = POOL_PAGES;
    kernel.atomic = false;
    kernel.changes = NULL;
    IS(0, linmap_promise(&map, LINMAP_NEVER_ABORTS));
    IS(0, linmap_unmap(&map, BASE, 4 * GIGA / PAGE, 0));
    IS(0, linmap_unmap(&map, OWN, 64, 0));
    IS(1, kernel.tables);
    linmap_table_free(linmap_root(&map));
}

/* The operations that take pages. */
static int operation(unsigned number, uint32_t flags)
{
    const uint64_t list[] = {BASE + 5 * PAGE, BASE + GIGA + 7 * PAGE, BASE + 3 * GIGA};

    switch (number) {
    case 0:
        return linmap_change(&map, BASE + 3 * PAGE, 1, READ_ONLY, 0, flags);
    case 1:
        return linmap_change(&map, BASE + PAGE, 3 * GIGA / PAGE, READ_ONLY, 0, flags | LINMAP_NOFLUSH);
    case 2:
        return linmap_change_pages(&map, list, 3, READ_ONLY, 0, flags);
    case 3:
        return linmap_unmap(&map, BASE + 2 * MEGA + PAGE, GIGA / PAGE, flags);
    case 4:
        return linmap_split(&map, BASE + MEGA, 64 * MEGA / PAGE, flags);
    case 5:
        return linmap_map(&map, BASE + 8 * GIGA + PAGE, GIGA / PAGE, 8 * GIGA, PLAIN, flags);
    case 6:
        return linmap_map(&map, BASE + 8 * GIGA + PAGE, 3, 8 * GIGA, PLAIN, flags);
    case 7:
        return linmap_add(&map, &comes, flags);
    case 8:
        return linmap_remove(&map, &goes, flags);
    default:
        return linmap_repaint(&map, &all, &kept, 1, flags);
    }
}
#define MAPS(number) ((number) >= 5 && (number) <= 7)
#define REPAINT 9

static void undo(unsigned number)
{
    if (MAPS(number))
        IS(0, linmap_unmap(&map, BASE + 8 * GIGA + PAGE, number == 6 ? 3 : GIGA / PAGE, 0));
    if (number == 8)
        IS(0, linmap_add(&map, &goes, 0));
    if (number == 3)
        IS(0, linmap_map(&map, BASE + 2 * MEGA + PAGE, GIGA / PAGE, 2 * MEGA + PAGE, PLAIN, 0));
}

/* Each operation with no page more, with one, and so on, until it has enough. */
static void starved(uint32_t flags)
{
    for (unsigned number = 0; number <= REPAINT; number++) {
        struct linmap_stats before, after;
        unsigned tables, limit;
        int answer;

        if (number == REPAINT && flags)
            continue;
        make(number == REPAINT ? LINMAP_PARKS : LINMAP_NEVER_ABORTS);
        kernel.parks = true;
        kernel.atomic = flags != 0;
        tables = kernel.tables;
        for (limit = tables;; limit++) {
            linmap_stats(&map, &before);
            kernel.limit = limit;
            answer = operation(number, flags);
            if (answer != -LINMAP_ENOMEM || limit == POOL_PAGES)
                break;
            linmap_stats(&map, &after);
            /* Nothing is lost. Leaves may have been split. */
            IS(kernel.tables, after.tables);
            IS(before.bytes, after.bytes);
            if (MAPS(number) || number == REPAINT)
                IS(0, memcmp(before.leaves, after.leaves, sizeof before.leaves) || after.tables != tables);
        }
        IS(0, answer);
        IS(1, limit > tables);
        linmap_stats(&map, &after);
        IS(kernel.tables, after.tables);
        kernel.limit = POOL_PAGES;
        kernel.atomic = false;
        undo(number);
        unmake();
    }
}

/* Makes a page of its own invalid and valid again. */
static void change_own(void)
{
    static bool inside;

    if (inside)
        return;
    inside = true;
    changes++;
    busy += linmap_is_busy(&map);
    IS(0, linmap_change(&map, OWN, 1, 0, LINMAP_VALID, LINMAP_ATOMIC));
    IS(0, linmap_change(&map, OWN, 1, LINMAP_VALID, 0, 0));
    inside = false;
}

static void allocator_changes_the_map(void)
{
    for (unsigned number = 0; number < REPAINT; number++) {
        make(LINMAP_NEVER_ABORTS);
        kernel.changes = change_own;
        IS(0, operation(number, 0));
        IS(false, linmap_is_busy(&map));
        IS(0, linmap_split(&map, OWN, 64, 0));
        undo(number);
        unmake();
    }
    make(LINMAP_PARKS);
    kernel.parks = true;
    kernel.changes = change_own;
    IS(0, linmap_repaint(&map, &all, &kept, 1, 0));
    unmake();
    IS(1, changes > 10);
    /* Long operations have claimed addresses meanwhile, others have not. */
    IS(1, busy && busy < changes);
}

/* Where CPUs would have to be parked: they are not even asked. */
static void atomic(void)
{
    make(LINMAP_PARKS);
    kernel.parks = true;
    kernel.atomic = true;
    IS(-LINMAP_EAGAIN, linmap_change(&map, BASE, 1, READ_ONLY, 0, LINMAP_ATOMIC));
    IS(-LINMAP_EAGAIN, linmap_split(&map, BASE, 1, LINMAP_ATOMIC));
    IS(-LINMAP_EAGAIN, linmap_unmap(&map, BASE, 1, LINMAP_ATOMIC));
    IS(0, linmap_change(&map, BASE, GIGA / PAGE, READ_ONLY, 0, LINMAP_ATOMIC));
    IS(-LINMAP_EINVAL, linmap_repaint(&map, &all, NULL, 0, LINMAP_ATOMIC));
    kernel.atomic = false;
    IS(0, linmap_change(&map, BASE, 1, 0, READ_ONLY, 0));
    IS(1, kernel.parked != 0);
    unmake();
}

/* What a kernel that parks gets: large leaves, which also collapse. */
static void parks(void)
{
    struct linmap_stats stats;
    unsigned parked;

    make(LINMAP_PARKS);
    kernel.parks = true;
    IS(0, linmap_map(&map, BASE + 8 * GIGA, GIGA / PAGE, 8 * GIGA, PLAIN, 0));
    linmap_stats(&map, &stats);
    IS(GIGA, stats.leaves[1].bytes);
    IS(5, stats.leaves[1].count);
    IS(0, linmap_split(&map, BASE + 8 * GIGA, 1, 0));
    parked = kernel.parked;
    IS(0, linmap_collapse(&map, BASE + 8 * GIGA, 1, 0));
    linmap_stats(&map, &stats);
    IS(5, stats.leaves[1].count);
    IS(1, kernel.parked > parked);
    IS(0, linmap_unmap(&map, BASE + 8 * GIGA, GIGA / PAGE, 0));
    unmake();
}

/* AmpereOne is listed, whatever its BBM field says; Cortex-A53 is not, unless that is above 2. */
static void cpus(void)
{
    IS(true, linmap_never_aborts(0xc00fac30, 0));
    IS(false, linmap_never_aborts(0x410fd034, (uint64_t)2 << 52));
    IS(true, linmap_never_aborts(0x410fd034, (uint64_t)3 << 52));
}

int main(void)
{
    cpus();
    starved(0);
    starved(LINMAP_ATOMIC);
    allocator_changes_the_map();
    atomic();
    parks();
    IS(0, kernel.tables);
    printf("%u changes by the allocator, %u wrong\n", changes, wrong);
    return wrong != 0;
}
