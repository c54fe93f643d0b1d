/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A part of a root that others use too, with three levels, where entries of the root are leaves, and with four. */
#include "kernel.h"

#include <stdio.h>
#include <string.h>

#define PLAIN (3ull << 8 | 1ull << 10 | 3ull << 53)
#define READ_ONLY (1ull << 7)
#define PXN_TABLE (1ull << 59)
#define GIGA (1ull << 30)
#define OTHERS 0x123456789ull << 12 | 3

static struct linmap map;
static unsigned wrong;

static void is(int line, long answer, long right)
{
    if (answer != right) {
        printf("line %d: %ld, not %ld\n", line, answer, right);
        wrong++;
    }
}
#define IS(right, call) is(__LINE__, (long)(call), (right))

static void adopted(uint32_t va_bits)
{
    const struct linmap_geometry geometry = {
        .page_shift = 12, .va_bits = va_bits, .max_leaf_shift = 34, .table_attributes = PXN_TABLE};
    const uint64_t base = ~0ull << va_bits, entry = va_bits == 39 ? GIGA : 512 * GIGA;
    /* Half of the root, which has 512 entries. */
    const struct linmap_range half = {base, base + 256 * entry - 1};
    const struct linmap_region region = {base + 16 * entry, 0, 32 * GIGA + 4 * PAGE, PLAIN, 0};
    const uint64_t root = linmap_table_alloc(true);
    const uint64_t outside = base + 256 * entry, page = region.va + 7 * PAGE;
    const unsigned tables = kernel.tables;
    uint64_t *entries = table_at(root);
    struct linmap_stats stats;
    unsigned sets;

    memset(&map, 0, sizeof map);
    memset(entries, 0, 256 * 8);
    for (int n = 256; n < 512; n++)
        entries[n] = OTHERS;
    kernel.parks = true;
    IS(0, linmap_adopt(&map, &geometry, table_offset(), LINMAP_PARKS, root, &half));
    IS(root, linmap_root(&map));
    IS(0, linmap_create(&map, &region, 1));
    linmap_stats(&map, &stats);
    IS(kernel.tables, tables - 1 + stats.tables);
    IS(region.bytes, stats.bytes);
    /* A run of 16 leaves of 1G is dissolved while CPUs are parked. */
    IS(0, linmap_change(&map, page, 1, READ_ONLY, 0, 0));
    IS(0, linmap_change(&map, page, 1, 0, READ_ONLY, 0));
    IS(0, linmap_change(&map, region.va, 32 * GIGA / PAGE, READ_ONLY, 0, 0));
    IS(0, linmap_collapse(&map, region.va, 32 * GIGA / PAGE, 0));
    linmap_stats(&map, &stats);
    IS(16 * GIGA, stats.leaves[0].bytes);
    IS(2, stats.leaves[0].count);
    IS(kernel.tables, tables - 1 + stats.tables);

    /* What is not the map's own. */
    IS(-LINMAP_EPERM, linmap_map(&map, outside, 1, 0, PLAIN, 0));
    IS(-LINMAP_EPERM, linmap_unmap(&map, outside, 1, 0));
    IS(-LINMAP_EPERM, linmap_split(&map, outside - PAGE, 2, 0));
    IS(-LINMAP_EPERM, linmap_collapse(&map, outside, 1, 0));
    IS(-LINMAP_EPERM, linmap_repaint(&map, &(struct linmap_range){base, base + 512 * entry - 1}, NULL, 0, 0));

    /* All but a gigabyte goes, and the rest is repainted in place. */
    IS(0, linmap_unmap(&map, region.va + GIGA, (region.bytes - GIGA) / PAGE, 0));
    sets = kernel.root_sets;
    IS(0, linmap_repaint(&map, &half, NULL, 0, 0));
    IS(root, linmap_root(&map));
    IS(sets, kernel.root_sets);
    linmap_stats(&map, &stats);
    IS(PAGE, stats.leaves[5].bytes);
    IS(GIGA / PAGE, stats.leaves[5].count);
    IS(kernel.tables, tables - 1 + stats.tables);
    IS(PXN_TABLE, entries[16] & PXN_TABLE);
    IS(0, linmap_unmap(&map, region.va, GIGA / PAGE, 0));
    for (int n = 0; n < 512; n++)
        IS(n < 256 ? 0 : OTHERS, entries[n]);
    IS(tables, kernel.tables);
    linmap_stats(&map, &stats);
    IS(1, stats.tables);
    linmap_table_free(root);
}

int main(void)
{
    adopted(39);
    adopted(48);
    printf("%u stores to roots, %u wrong\n", kernel.root_sets, wrong);
    return wrong != 0;
}
