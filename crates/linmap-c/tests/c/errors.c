/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every wrong argument and every refusal is answered by its number, and leaves the map and the table pages as they were. */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE 0xffff000000000000ull
#define PLAIN (3ull << 8 | 1ull << 10 | 3ull << 53)
#define PXN (1ull << 53)
#define READ_ONLY (1ull << 7)
#define MEGA (1ull << 20)
#define GIGA (1ull << 30)
/* Where the map has 2M blocks from its first address on, and where it has nothing. */
#define BLOCK BASE
#define HOLE (BASE + 4 * GIGA)

static struct linmap map, none;
static const struct linmap_geometry geometry = {.page_shift = 12, .va_bits = 48};
static unsigned wrong;

/* Calls that must answer with an error. Counts and tables do not change. */
#define ANSWERS(error, call)                                                                                           \
    do {                                                                                                               \
        struct linmap_stats before, after;                                                                             \
        long answer;                                                                                                   \
                                                                                                                       \
        linmap_stats(&map, &before);                                                                                   \
        answer = (long)(call);                                                                                         \
        linmap_stats(&map, &after);                                                                                    \
        if (answer != -(error)) {                                                                                      \
            printf("line %d: %s is %ld, not %d\n", __LINE__, #call, answer, -(error));                                 \
            wrong++;                                                                                                   \
        }                                                                                                              \
        if (memcmp(before.leaves, after.leaves, sizeof before.leaves) || after.tables != kernel.tables) {              \
            printf("line %d: %s has changed the map\n", __LINE__, #call);                                              \
            wrong++;                                                                                                   \
        }                                                                                                              \
    } while (0)

static int init_with(struct linmap_geometry of, uint64_t offset, uint32_t promise)
{
    static struct linmap other;

    return linmap_init(&other, &of, offset, promise);
}

static void geometries(void)
{
    const uint64_t at = table_offset();
    struct linmap_geometry wrong_ones[] = {
        {.page_shift = 13, .va_bits = 48},
        {.page_shift = 12, .va_bits = 49},
        {.page_shift = 12, .va_bits = 20},
        {.page_shift = 12, .va_bits = 48, .oa_format = LINMAP_OA_LPA},
        {.page_shift = 16, .va_bits = 48, .oa_format = LINMAP_OA_LPA2},
        {.page_shift = 12, .va_bits = 48, .oa_format = 3},
        {.page_shift = 12, .va_bits = 48, .max_leaf_shift = 11},
        {.page_shift = 12, .va_bits = 48, .lower = 2},
        {.page_shift = 12, .va_bits = 48, .table_attributes = 1},
    };

    for (size_t n = 0; n < sizeof wrong_ones / sizeof *wrong_ones; n++) {
        ANSWERS(LINMAP_EINVAL, init_with(wrong_ones[n], at, 0));
        ANSWERS(LINMAP_EINVAL, linmap_tables_needed(&wrong_ones[n], NULL, 0));
    }
    ANSWERS(LINMAP_EINVAL, init_with(geometry, at + 8, 0));
    ANSWERS(LINMAP_EINVAL, init_with(geometry, at, 1u << 31));
    ANSWERS(LINMAP_EINVAL, linmap_init(NULL, &geometry, at, 0));
    ANSWERS(LINMAP_EINVAL, linmap_init(&none, NULL, at, 0));
    ANSWERS(LINMAP_EINVAL, linmap_init((struct linmap *)((char *)&none + 64), &geometry, at, 0));
    kernel.limit = kernel.tables;
    ANSWERS(LINMAP_ENOMEM, init_with(geometry, at, 0));
    kernel.limit = POOL_PAGES;
}

static void roots(void)
{
    const uint64_t at = table_offset();
    const struct linmap_range giga = {BASE, BASE + GIGA - 1}, outside = {0, GIGA - 1};
    const struct linmap_range backwards = {BASE + 512 * GIGA, BASE - 1};

    ANSWERS(LINMAP_EINVAL, linmap_adopt(&none, &geometry, at, 0, linmap_root(&map), &giga));
    ANSWERS(LINMAP_ERANGE, linmap_adopt(&none, &geometry, at, 0, linmap_root(&map), &outside));
    ANSWERS(LINMAP_ERANGE, linmap_adopt(&none, &geometry, at, 0, linmap_root(&map), &backwards));
    ANSWERS(LINMAP_EINVAL, linmap_adopt(&none, &geometry, at, 0, linmap_root(&map), NULL));
    ANSWERS(LINMAP_EINVAL, linmap_adopt(&none, &geometry, at, 0, linmap_root(&map) + 8, &giga));
    ANSWERS(LINMAP_EINVAL, linmap_move_tables(&map, at + 1));
}

/* A map that is all zero, or none. */
static void no_map(void)
{
    struct linmap *maps[] = {NULL, &none};
    static _Alignas(128) char other[sizeof map + 64];
    struct linmap_stats stats;
    uint64_t page = BLOCK;
    const struct linmap_range range = {BASE, BASE + 512 * GIGA - 1};
    const struct linmap_region ram = {HOLE, 0, GIGA, PLAIN, 0};

    for (size_t n = 0; n < sizeof maps / sizeof *maps; n++) {
        ANSWERS(LINMAP_EINVAL, linmap_create(maps[n], NULL, 0));
        ANSWERS(LINMAP_EINVAL, linmap_change(maps[n], BLOCK, 1, READ_ONLY, 0, 0));
        ANSWERS(LINMAP_EINVAL, linmap_change_pages(maps[n], &page, 1, READ_ONLY, 0, 0));
        ANSWERS(LINMAP_EINVAL, linmap_flush(maps[n], BLOCK, 1));
        ANSWERS(LINMAP_EINVAL, linmap_map(maps[n], HOLE, 1, 0, PLAIN, 0));
        ANSWERS(LINMAP_EINVAL, linmap_unmap(maps[n], BLOCK, 1, 0));
        ANSWERS(LINMAP_EINVAL, linmap_add(maps[n], &ram, 0));
        ANSWERS(LINMAP_EINVAL, linmap_remove(maps[n], &ram, 0));
        ANSWERS(LINMAP_EINVAL, linmap_split(maps[n], BLOCK, 1, 0));
        ANSWERS(LINMAP_EINVAL, linmap_collapse(maps[n], BLOCK, 1, 0));
        ANSWERS(LINMAP_EINVAL, linmap_repaint(maps[n], &range, NULL, 0, 0));
        ANSWERS(LINMAP_EINVAL, linmap_promise(maps[n], 0));
        ANSWERS(LINMAP_EINVAL, linmap_move_tables(maps[n], 0));
        ANSWERS(LINMAP_EINVAL, linmap_stats(maps[n], &stats));
        ANSWERS(0, linmap_root(maps[n]));
    }
    ANSWERS(LINMAP_EINVAL, linmap_stats(&map, NULL));
    /* One that is initialised, at an address that is not aligned. */
    memcpy(other + 64, &map, sizeof map);
    ANSWERS(LINMAP_EINVAL, linmap_flush((struct linmap *)(other + 64), BLOCK, 1));
    ANSWERS(0, linmap_root((struct linmap *)(other + 64)));
}

static int create_one(struct linmap_region region)
{
    return linmap_create(&map, &region, 1);
}

static void regions(void)
{
    const uint64_t root_entry = BASE + 512 * GIGA;
    const struct linmap_region fine = {root_entry, 0, GIGA, PLAIN, 0};
    struct linmap_region other;

#define WITH(field, value) (other = fine, other.field = (value), create_one(other))
    ANSWERS(LINMAP_EINVAL, WITH(va, root_entry + 1));
    ANSWERS(LINMAP_EINVAL, WITH(pa, 0x800));
    ANSWERS(LINMAP_EINVAL, WITH(bytes, 0));
    ANSWERS(LINMAP_EINVAL, WITH(bytes, GIGA + 1));
    ANSWERS(LINMAP_EINVAL, WITH(bytes, ~0ull << 12));
    ANSWERS(LINMAP_EINVAL, WITH(attributes, PLAIN | 1ull << 52));
    ANSWERS(LINMAP_EINVAL, WITH(attributes, PLAIN | 1ull << 30));
    ANSWERS(LINMAP_EINVAL, WITH(flags, 2));
    ANSWERS(LINMAP_ERANGE, WITH(va, 0x1000));
    ANSWERS(LINMAP_ERANGE, WITH(pa, 1ull << 48));
    ANSWERS(LINMAP_EACCES, WITH(attributes, PLAIN & ~PXN));
    ANSWERS(LINMAP_EEXIST, WITH(va, HOLE));
    ANSWERS(LINMAP_EINVAL, linmap_create(&map, NULL, 1));
    other = (struct linmap_region){root_entry + GIGA / 2, GIGA, GIGA, PLAIN, 0};
    ANSWERS(LINMAP_EINVAL, linmap_create(&map, (struct linmap_region[]){fine, other}, 2));
    ANSWERS(LINMAP_EINVAL, linmap_create(&map, (struct linmap_region[]){other, fine}, 2));
    kernel.limit = kernel.tables + 1;
    ANSWERS(LINMAP_ENOMEM, WITH(flags, LINMAP_PAGES));
    kernel.limit = POOL_PAGES;
}

/* How many tables a creation takes, of which the root is there: it refuses what a creation refuses. */
static void needed(void)
{
    const uint64_t at = BASE + 512 * GIGA;
    struct linmap_region two[] = {{at, 0, GIGA, PLAIN, 0}, {at + GIGA, GIGA, GIGA + PAGE, PLAIN, 0}};

    ANSWERS(-4, linmap_tables_needed(&geometry, two, 2));
    two[0].va += GIGA;
    ANSWERS(LINMAP_EINVAL, linmap_tables_needed(&geometry, two, 2));
    two[0].va = 0;
    ANSWERS(LINMAP_ERANGE, linmap_tables_needed(&geometry, two, 2));
    two[0].va = BASE - GIGA / 2;
    ANSWERS(LINMAP_ERANGE, linmap_tables_needed(&geometry, two, 1));
    two[0] = (struct linmap_region){at, (1ull << 48) - PAGE, 2 * PAGE, PLAIN, 0};
    ANSWERS(LINMAP_ERANGE, linmap_tables_needed(&geometry, two, 1));
    two[0] = (struct linmap_region){~0ull << 12, ~0ull << 12, PAGE, PLAIN, 0};
    ANSWERS(LINMAP_ERANGE, linmap_tables_needed(&geometry, two, 1));
}

static void changes(void)
{
    uint64_t pages[] = {BLOCK, BLOCK + PAGE, HOLE};
    const uint64_t end = BASE + (1ull << 48);

    ANSWERS(LINMAP_EINVAL, linmap_change(&map, BLOCK + 8, 1, READ_ONLY, 0, 0));
    ANSWERS(LINMAP_EINVAL, linmap_change(&map, BLOCK, 1, READ_ONLY, 0, 1u << 31));
    ANSWERS(LINMAP_EINVAL, linmap_change(&map, BLOCK, 1, 1ull << 10, 0, 0));
    ANSWERS(LINMAP_EINVAL, linmap_change(&map, BLOCK, 1, 0, 1ull << 52, 0));
    ANSWERS(LINMAP_ERANGE, linmap_change(&map, 0, 1, READ_ONLY, 0, 0));
    ANSWERS(LINMAP_ERANGE, linmap_change(&map, BLOCK, ~0ull, READ_ONLY, 0, 0));
    ANSWERS(LINMAP_ENOENT, linmap_change(&map, HOLE, 1, READ_ONLY, 0, 0));
    ANSWERS(LINMAP_ENOENT, linmap_change(&map, BLOCK, 4ull << 18, 0, LINMAP_VALID, 0));
    ANSWERS(LINMAP_EACCES, linmap_change(&map, BLOCK, 1, 0, PXN, 0));
    ANSWERS(LINMAP_ENOENT, linmap_change_pages(&map, pages, 3, READ_ONLY, 0, 0));
    ANSWERS(LINMAP_EINVAL, linmap_change_pages(&map, NULL, 3, READ_ONLY, 0, 0));
    pages[2] = BLOCK + 1;
    ANSWERS(LINMAP_EINVAL, linmap_change_pages(&map, pages, 3, READ_ONLY, 0, 0));
    ANSWERS(LINMAP_EINVAL, linmap_flush(&map, BLOCK + 1, 1));
    ANSWERS(LINMAP_ERANGE, linmap_flush(&map, BLOCK - PAGE, 1));

    ANSWERS(LINMAP_EEXIST, linmap_map(&map, BLOCK, 1, 0, PLAIN, 0));
    ANSWERS(LINMAP_ERANGE, linmap_map(&map, HOLE, 1, 1ull << 48, PLAIN, 0));
    ANSWERS(LINMAP_EINVAL, linmap_map(&map, HOLE, 1, 8, PLAIN, 0));
    ANSWERS(LINMAP_EINVAL, linmap_map(&map, HOLE, 1, 0, PLAIN | 1ull << 12, 0));
    ANSWERS(LINMAP_EINVAL, linmap_map(&map, HOLE, 1, 0, PLAIN, LINMAP_NOFLUSH));
    ANSWERS(LINMAP_EACCES, linmap_map(&map, HOLE, 1, 0, PLAIN & ~PXN, 0));
    ANSWERS(LINMAP_ENOENT, linmap_unmap(&map, HOLE, 1, 0));
    ANSWERS(LINMAP_ENOENT, linmap_split(&map, HOLE, 1, 0));
    ANSWERS(LINMAP_EINVAL, linmap_collapse(&map, BLOCK + 1, 1, 0));
    ANSWERS(LINMAP_EINVAL, linmap_unmap(&map, BLOCK, 1, LINMAP_SKIP_HOLES));

    /* Zero pages are a range, also at the end of the half. */
    ANSWERS(0, linmap_change(&map, BLOCK, 0, READ_ONLY, 0, 0));
    ANSWERS(0, linmap_change(&map, end, 0, READ_ONLY, 0, 0));
    ANSWERS(0, linmap_change_pages(&map, NULL, 0, READ_ONLY, 0, 0));
    ANSWERS(0, linmap_create(&map, NULL, 0));

    kernel.limit = kernel.tables;
    ANSWERS(LINMAP_ENOMEM, linmap_change(&map, BLOCK, 1, READ_ONLY, 0, 0));
    kernel.atomic = true;
    ANSWERS(LINMAP_ENOMEM, linmap_split(&map, BLOCK, 512, LINMAP_ATOMIC));
    kernel.atomic = false;
    kernel.limit = POOL_PAGES;
}

static int add(struct linmap_region region)
{
    return linmap_add(&map, &region, 0);
}

static int remove_ram(struct linmap_region region)
{
    return linmap_remove(&map, &region, 0);
}

/* RAM that comes and goes. */
static void hotplug(void)
{
    const struct linmap_region blocks = {BLOCK + 4 * MEGA, 6 * MEGA, 4 * MEGA, PLAIN, 0}, fine = {HOLE, 0, GIGA, PLAIN, 0};
    struct linmap_region other;
    struct linmap_stats stats;

#define OTHER(from, field, value) (other = (from), other.field = (value), other)
    ANSWERS(LINMAP_EINVAL, linmap_add(&map, NULL, 0));
    ANSWERS(LINMAP_EINVAL, linmap_remove(&map, NULL, 0));
    ANSWERS(LINMAP_EINVAL, linmap_add(&map, &fine, LINMAP_NOFLUSH));
    ANSWERS(LINMAP_EINVAL, add(OTHER(fine, va, HOLE + 8)));
    ANSWERS(LINMAP_EINVAL, add(OTHER(fine, bytes, 0)));
    ANSWERS(LINMAP_EINVAL, add(OTHER(fine, attributes, PLAIN | 1ull << 12)));
    ANSWERS(LINMAP_EINVAL, add(OTHER(fine, flags, 2)));
    ANSWERS(LINMAP_ERANGE, add(OTHER(fine, va, 0)));
    ANSWERS(LINMAP_ERANGE, add(OTHER(fine, pa, 1ull << 48)));
    ANSWERS(LINMAP_EACCES, add(OTHER(fine, attributes, PLAIN & ~PXN)));
    ANSWERS(LINMAP_EEXIST, add(blocks));
    kernel.limit = kernel.tables;
    ANSWERS(LINMAP_ENOMEM, add(OTHER(fine, flags, LINMAP_PAGES)));
    kernel.limit = POOL_PAGES;

    /* It is mapped elsewhere, or nowhere; or in use for something special. */
    ANSWERS(LINMAP_EBUSY, remove_ram(OTHER(blocks, pa, 0)));
    ANSWERS(LINMAP_EBUSY, remove_ram(OTHER(blocks, attributes, PLAIN | READ_ONLY)));
    ANSWERS(LINMAP_ENOENT, remove_ram(fine));
    if (linmap_change(&map, BLOCK + 4 * MEGA, 512, 0, LINMAP_VALID, 0))
        wrong++;
    ANSWERS(LINMAP_EBUSY, remove_ram(blocks));
    if (linmap_change(&map, BLOCK + 4 * MEGA, 512, LINMAP_VALID, 0, 0))
        wrong++;

    /* Pages, although there could be a leaf of a gigabyte. */
    if (add(OTHER(fine, flags, LINMAP_PAGES)) || linmap_stats(&map, &stats) || stats.leaves[1].count ||
        remove_ram(fine) || add(fine) || linmap_stats(&map, &stats) || stats.leaves[1].count != 1 || remove_ram(fine)) {
        puts("RAM does not come and go");
        wrong++;
    }
}

/* A block is split for a reason, and counted; then it is whole again. */
static void reasons(void)
{
    struct linmap_split_cost cost = {0, 0};

    ANSWERS(LINMAP_EINVAL, linmap_split_cost(&map, 0, &cost));
    ANSWERS(LINMAP_EINVAL, linmap_split_cost(&map, 8 << 8, &cost));
    ANSWERS(LINMAP_EINVAL, linmap_split_cost(&map, LINMAP_BY_BPF | LINMAP_ATOMIC, &cost));
    ANSWERS(LINMAP_EINVAL, linmap_split_cost(&map, LINMAP_BY_BPF, NULL));
    ANSWERS(LINMAP_EINVAL, linmap_split_cost(&none, LINMAP_BY_BPF, &cost));
    ANSWERS(LINMAP_EINVAL, linmap_change(&map, BLOCK, 1, 0, LINMAP_NOT_GLOBAL, 0));
    /* A block becomes 31 runs of sixteen pages, and sixteen pages. */
    if (linmap_change(&map, BLOCK + 32 * MEGA, 1, READ_ONLY, 0, LINMAP_BY_BPF) ||
        linmap_split_cost(&map, LINMAP_BY_BPF, &cost) || cost.splits != 1 || cost.tlb_entries != 31 + 16 - 1 ||
        linmap_split_cost(&map, LINMAP_BY_MODULE, &cost) || cost.splits || cost.tlb_entries) {
        printf("a split for BPF is counted as %llu, %llu\n", (unsigned long long)cost.splits,
               (unsigned long long)cost.tlb_entries);
        wrong++;
    }
    if (linmap_change(&map, BLOCK + 32 * MEGA, 1, 0, READ_ONLY, 0) || linmap_collapse(&map, BLOCK, 512, 0))
        wrong++;
}

/* Leaves in use that must not change their size. */
static void promises(void)
{
    const struct linmap_range range = {BASE, BASE + 512 * GIGA - 1}, part = {BASE, BASE + GIGA - 1}, low = {0, GIGA - 1};
    struct linmap_range kept[LINMAP_MOST_KEPT + 1] = {{0, 0}};

    ANSWERS(LINMAP_EINVAL, linmap_promise(&map, 1u << 30));
    ANSWERS(0, linmap_promise(&map, 0));
    ANSWERS(LINMAP_EOPNOTSUPP, linmap_change(&map, BLOCK, 1, READ_ONLY, 0, 0));
    ANSWERS(LINMAP_EOPNOTSUPP, linmap_split(&map, BLOCK, 1, 0));
    ANSWERS(LINMAP_EOPNOTSUPP, linmap_unmap(&map, BLOCK, 1, 0));
    ANSWERS(LINMAP_EOPNOTSUPP, linmap_repaint(&map, &range, NULL, 0, 0));
    ANSWERS(0, linmap_promise(&map, LINMAP_PARKS));
    ANSWERS(LINMAP_ETIMEDOUT, linmap_change(&map, BLOCK, 1, READ_ONLY, 0, 0));
    ANSWERS(LINMAP_ETIMEDOUT, linmap_repaint(&map, &range, NULL, 0, 0));
    ANSWERS(LINMAP_EINVAL, linmap_repaint(&map, NULL, NULL, 0, 0));
    ANSWERS(LINMAP_EINVAL, linmap_repaint(&map, &range, NULL, 1, 0));
    ANSWERS(LINMAP_EINVAL, linmap_repaint(&map, &range, kept, LINMAP_MOST_KEPT + 1, 0));
    ANSWERS(LINMAP_EINVAL, linmap_repaint(&map, &part, NULL, 0, 0));
    ANSWERS(LINMAP_ERANGE, linmap_repaint(&map, &low, NULL, 0, 0));
    kernel.parks = true;
    kernel.limit = kernel.tables + 2;
    ANSWERS(LINMAP_ENOMEM, linmap_repaint(&map, &range, NULL, 0, 0));
    kernel.limit = POOL_PAGES;
}

int main(void)
{
    const struct linmap_region blocks = {BLOCK, 2ull << 20, GIGA - (2ull << 20), PLAIN, 0};

    if (linmap_init(&map, &geometry, table_offset(), LINMAP_NEVER_ABORTS) || linmap_create(&map, &blocks, 1)) {
        puts("there is no map");
        return 1;
    }
    geometries();
    roots();
    no_map();
    regions();
    needed();
    changes();
    hotplug();
    reasons();
    promises();
    if (linmap_promise(&map, LINMAP_NEVER_ABORTS) || linmap_unmap(&map, BLOCK, blocks.bytes / PAGE, 0) || kernel.tables != 1) {
        printf("%u tables are left\n", kernel.tables);
        wrong++;
    }
    printf("%u wrong answers\n", wrong);
    return wrong != 0;
}
