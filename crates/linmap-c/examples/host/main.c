/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A linear map in the memory of a process: made in large leaves, then changed page by page, merged again, and repainted in
 * pages. After each step it shows what the map consists of.
 *
 *     dev/scripts/c-library.sh --host
 *     cd crates/linmap-c/examples/host
 *     cc -I../../../target/c-library/host main.c kernel.c ../../../target/c-library/host/linmap.o && ./a.out
 */
#include "kernel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* 4K pages, 48 bits, no leaf above 1G, the upper half. RAM is at 1G to 5G. */
static const struct linmap_geometry geometry = {.page_shift = 12, .va_bits = 48, .max_leaf_shift = 30};
#define BASE 0xffff000000000000ull
#define RAM_PA 0x40000000ull
#define RAM_BYTES 0x100000000ull
#define IMAGE_PA 0x40200000ull
#define IMAGE_BYTES 0x230000ull
#define AT(pa) (BASE + (pa))

/* AttrIndx 0, inner shareable, accessed, never executable; and AP[2]. */
#define PLAIN (3ull << 8 | 1ull << 10 | 3ull << 53)
#define READ_ONLY (1ull << 7)

static struct linmap map;

/* Ends the program if a call was refused that must not be. */
static void must(int error, const char *what)
{
    if (error) {
        fprintf(stderr, "%s: error %d\n", what, error);
        exit(1);
    }
}

static void show(const char *when)
{
    struct linmap_stats stats;

    must(linmap_stats(&map, &stats), "stats");
    if (stats.tables != kernel.tables) {
        fprintf(stderr, "%" PRIu64 " tables are counted, and %u are out\n", stats.tables, kernel.tables);
        exit(1);
    }
    printf("%-28s %4" PRIu64 "M in", when, stats.bytes >> 20);
    for (int n = 0; n < LINMAP_LEAF_SIZES; n++)
        if (stats.leaves[n].count)
            printf(" %" PRIu64 " x %" PRIu64 "K", stats.leaves[n].count, stats.leaves[n].bytes >> 10);
    printf("; %" PRIu64 " tables, %u TLBI\n", stats.tables, kernel.tlbi);
}

int main(void)
{
    const struct linmap_region regions[] = {
        {AT(RAM_PA), RAM_PA, IMAGE_PA - RAM_PA, PLAIN, 0},
        {AT(IMAGE_PA), IMAGE_PA, IMAGE_BYTES, PLAIN, 0},
        {AT(IMAGE_PA + IMAGE_BYTES), IMAGE_PA + IMAGE_BYTES, RAM_PA + RAM_BYTES - IMAGE_PA - IMAGE_BYTES, PLAIN, 0},
    };
    const struct linmap_region more = {AT(RAM_PA + RAM_BYTES), RAM_PA + RAM_BYTES, RAM_BYTES, PLAIN, 0};
    const struct linmap_range half = {BASE, BASE + (1ull << 48) - 1};
    const uint64_t block = AT(0x80000000ull), page = block + 7 * PAGE;
    const uint64_t list[] = {page + PAGE, page + 5 * PAGE, page};

    printf("%" PRId64 " tables are needed\n", linmap_tables_needed(&geometry, regions, 3));
    must(linmap_init(&map, &geometry, table_offset(), LINMAP_NEVER_ABORTS | LINMAP_RANGE_TLBI), "init");
    must(linmap_create(&map, regions, 3), "create");
    show("created");

    must(linmap_change(&map, AT(IMAGE_PA), IMAGE_BYTES / PAGE, READ_ONLY, 0, 0), "image");
    show("the image is read-only");

    must(linmap_change(&map, page, 1, 0, LINMAP_VALID, 0), "invalid");
    show("a page is invalid");
    must(linmap_change(&map, page, 1, LINMAP_VALID | READ_ONLY, 0, LINMAP_ATOMIC), "valid and read-only");
    must(linmap_change_pages(&map, list, 3, READ_ONLY, 0, LINMAP_NOFLUSH), "a list");
    must(linmap_flush(&map, block, 512), "flush");
    show("three pages are read-only");

    must(linmap_change_pages(&map, list, 3, 0, READ_ONLY, 0), "writable");
    must(linmap_collapse(&map, block, 1 << 18, 0), "collapse");
    show("writable, and merged again");

    must(linmap_unmap(&map, block, 512, 0), "unmap");
    must(linmap_change(&map, block, 1024, 0, READ_ONLY, LINMAP_SKIP_HOLES), "skips a hole");
    must(linmap_map(&map, block, 512, block - BASE, PLAIN, 0), "map");
    must(linmap_split(&map, block, 512, 0), "split");
    show("2M mapped anew, and split");

    must(linmap_add(&map, &more, 0), "add");
    show("RAM came");
    must(linmap_remove(&map, &more, 0), "remove");
    show("and went");

    /* Another CPU comes that may abort. */
    kernel.parks = true;
    must(linmap_promise(&map, LINMAP_PARKS), "promise");
    must(linmap_change(&map, AT(0xc0000000ull), 1, READ_ONLY, 0, 0), "parked");
    must(linmap_unmap(&map, AT(0x80000000ull), 3 << 18, 0), "unmap");
    show("1G is left");
    must(linmap_repaint(&map, &half, NULL, 0, 0), "repaint");
    show("in pages");
    printf("CPUs were parked %u times\n", kernel.parked);
    return kernel.held != 0;
}
