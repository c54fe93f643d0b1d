/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A kernel in C from its first instruction to a linear map whose pages change, for QEMU's machine `virt` with 512 MiB:
 *
 *     dev/scripts/c-bare-metal.sh
 *     qemu-system-aarch64 -M virt -cpu max -m 512M -nic none -nographic -kernel target/c-library/bare-metal-gcc.elf
 */
#include "kernel.h"

/* A real kernel reads from the device tree where its RAM is, and from its registers what its CPUs promise. */
#define RAM 0x40000000ull
#define RAM_BYTES 0x20000000ull
#define BASE 0xffff000000000000ull
#define AT(pa) (BASE + (pa))

/* Memory types 0, normal, and 1, device; inner shareable, accessed. UXN everywhere; PXN but for text; AP[2] is read-only. */
#define MAIR 0x04ffull
#define PXN (1ull << 53)
#define READ_ONLY (1ull << 7)
#define DATA (3ull << 8 | 1ull << 10 | 1ull << 54 | PXN)
#define DEVICE (DATA | 1ull << 2)
#define TEXT ((DATA & ~PXN) | READ_ONLY)

/* 48 bits and 4K pages in both halves, tables cacheable and shareable, physical addresses of 40 bits. */
#define TCR (16ull | 16ull << 16 | 2ull << 30 | 0x35ull << 8 | 0x35ull << 24 | 2ull << 32)

/* QEMU's CPUs have all of a TLB entry or nothing: they never abort. */
#define PROMISE (LINMAP_NEVER_ABORTS | LINMAP_RANGE_TLBI)

static struct linmap lower, upper;
static unsigned failed;

/* Prints a step, and whether it went as it must. */
static void step(const char *what, bool right)
{
    print(right ? "ok     " : "wrong  ");
    print(what);
    print("\n");
    failed += !right;
}

static struct linmap_region region(uint64_t va, uint64_t from, uint64_t to, uint64_t attributes)
{
    return (struct linmap_region){.va = va, .pa = from, .bytes = to - from, .attributes = attributes};
}

/* With the MMU off: both maps, and the MMU on. */
static void make_maps(void)
{
    const struct linmap_geometry of = {.page_shift = 12, .va_bits = 48, .max_leaf_shift = 30};
    const struct linmap_geometry of_lower = {.page_shift = 12, .va_bits = 48, .lower = 1};
    const uint64_t text = (uint64_t)text_start, rodata = (uint64_t)rodata_start, data = (uint64_t)data_start;
    const uint64_t end = (uint64_t)image_end, ram_end = RAM + RAM_BYTES;
    const struct linmap_region kernel[] = {
        region(CONSOLE, CONSOLE, CONSOLE + PAGE, DEVICE),
        region(text, text, rodata, TEXT),
        region(rodata, rodata, data, DATA | READ_ONLY),
        region(data, data, end, DATA),
    };
    const struct linmap_region linear[] = {
        region(AT(RAM), RAM, text, DATA),
        region(AT(text), text, data, DATA | READ_ONLY),
        region(AT(data), data, ram_end, DATA),
    };
    struct registers registers = {.mair = MAIR, .tcr = TCR};

    prepare_tables();
    step("the lower half is made", !linmap_init(&lower, &of_lower, 0, PROMISE) && !linmap_create(&lower, kernel, 4));
    step("the upper half is made", !linmap_init(&upper, &of, 0, PROMISE) && !linmap_create(&upper, linear, 3));
    registers.ttbr0 = linmap_root(&lower);
    registers.ttbr1 = linmap_root(&upper);
    mmu_on(&registers);
}

/* Returns true if this CPU can read, or write, an address. */
static bool may(uint64_t va, bool write)
{
    uint64_t par;

    if (write)
        asm volatile("at s1e1w, %0" : : "r"(va) : "memory");
    else
        asm volatile("at s1e1r, %0" : : "r"(va) : "memory");
    asm volatile("isb\n\tmrs %0, par_el1" : "=r"(par) : : "memory");
    return !(par & 1);
}

static void show(void)
{
    struct linmap_stats stats;

    linmap_stats(&upper, &stats);
    print("       ");
    for (int n = 0; n < LINMAP_LEAF_SIZES; n++) {
        if (stats.leaves[n].count) {
            print_number(stats.leaves[n].count);
            print(" x ");
            print_number(stats.leaves[n].bytes >> 10);
            print("K, ");
        }
    }
    print_number(stats.tables);
    print(" tables\n");
}

/* With the MMU on: a page of RAM changes, and merges again. */
static void change(void)
{
    const uint64_t page = RAM + 0x10007000, va = AT(page), block = AT(page & ~0x1fffffull);
    const unsigned before = table_pages_out();

    *(volatile uint64_t *)va = 42;
    step("RAM is written through the linear map", *(volatile uint64_t *)va == 42);
    step("text is not writable there", !may(AT((uint64_t)text_start), true));
    show();
    step("a page becomes read-only", !linmap_change(&upper, va, 1, READ_ONLY, 0, 0));
    step("it is readable", may(va, false));
    step("it is not writable", !may(va, true));
    step("its neighbour is", may(va + PAGE, true));
    show();
    step("it becomes invalid", !linmap_change(&upper, va, 1, 0, 1, LINMAP_ATOMIC));
    step("it is not readable", !may(va, false));
    step("it becomes valid and writable", !linmap_change(&upper, va, 1, LINMAP_VALID, READ_ONLY, 0));
    step("it is writable, and has its contents", may(va, true) && *(volatile uint64_t *)va == 42);
    step("the block merges again", !linmap_collapse(&upper, block, 512, 0));
    show();
    step("its table is free again", table_pages_out() == before);
    step("all of RAM is split", !linmap_split(&upper, AT(RAM), RAM_BYTES / PAGE, 0));
    step("all of it is writable in pages", may(va, true) && may(AT(RAM), true));
    show();
    step("an unaligned address is refused", linmap_change(&upper, va + 1, 1, READ_ONLY, 0, 0) == -LINMAP_EINVAL);
}

/* Where an exception ends the run. */
_Noreturn void exception(void);
void exception(void)
{
    print("wrong  an exception\n");
    power_off();
}

#define PAINT 0x5a5a5a5a5a5a5a5aull

_Noreturn void boot(void);
void boot(void)
{
    volatile uint64_t *bottom = (volatile uint64_t *)stack_bottom, *top = (volatile uint64_t *)__builtin_frame_address(0);
    uint64_t used;

    make_maps();
    /* The stack below this function shows how deep calls go. */
    for (volatile uint64_t *at = bottom; at < top - 64; at++)
        *at = PAINT;
    change();
    while (*bottom == PAINT)
        bottom++;
    used = (uint64_t)((char *)top - (char *)bottom);
    print("stack  ");
    print_number(used);
    print(" bytes\n");
    print(failed ? "failed\n" : "passed\n");
    power_off();
}
