/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions that linmap calls, for one CPU that has table pages in its image; memcpy and memset; a console. */
#include "kernel.h"

/* Enough for 512M in pages. */
#define PAGES 300
static _Alignas(PAGE) unsigned char pool[PAGES][PAGE];
/* The numbers of free pages, and how many there are. */
static unsigned short free_pages[PAGES];
static unsigned free_count;

unsigned table_pages_out(void)
{
    return PAGES - free_count;
}

void prepare_tables(void)
{
    for (unsigned n = 0; n < PAGES; n++)
        free_pages[free_count++] = (unsigned short)(PAGES - 1 - n);
}

uint64_t linmap_table_alloc(bool may_wait)
{
    (void)may_wait;
    return free_count ? (uint64_t)pool[free_pages[--free_count]] : 0;
}

void linmap_table_free(uint64_t pa)
{
    free_pages[free_count++] = (unsigned short)((pa - (uint64_t)pool) / PAGE);
}

/* Nobody reads tables but the CPU, which does not walk this one any more. */
void linmap_table_retire(uint64_t pa)
{
    linmap_table_free(pa);
}

/* The kernel is mapped 1:1, its table pages included. */
uint64_t *linmap_table_map(uint64_t pa, int32_t level)
{
    (void)level;
    return (uint64_t *)pa;
}

void linmap_table_unmap(int32_t level)
{
    (void)level;
}

void linmap_root_set(uint64_t root, size_t index, uint64_t descriptor)
{
    ((volatile uint64_t *)root)[index] = descriptor;
}

/* There is one CPU, and its interrupts are masked. */
void linmap_lock(uint32_t number)
{
    (void)number;
}

void linmap_unlock(uint32_t number)
{
    (void)number;
}

bool linmap_wait(void)
{
    return false;
}

bool linmap_ask_cpus(void)
{
    return false;
}

bool linmap_park(uint64_t root, const struct linmap_update *updates, size_t count)
{
    (void)root, (void)updates, (void)count;
    return false;
}

void linmap_panic(const char *message, size_t length)
{
    print("wrong: ");
    while (length--)
        print_char(*message++);
    power_off();
}

/* The loops must not become calls of themselves: -fno-builtin and -fno-tree-loop-distribute-patterns see to that. */
void *memset(void *to, int byte, size_t bytes)
{
    for (unsigned char *at = to; bytes--; at++)
        *at = (unsigned char)byte;
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    unsigned char *at = to;

    for (const unsigned char *next = from; bytes--; next++)
        *at++ = *next;
    return to;
}

/* The data register of a PL011, as QEMU leaves it. */
void print_char(char c)
{
    *(volatile uint32_t *)CONSOLE = (unsigned char)c;
}

void print(const char *text)
{
    while (*text)
        print_char(*text++);
}

void print_number(uint64_t number)
{
    if (number > 9)
        print_number(number / 10);
    print_char((char)('0' + number % 10));
}

/* PSCI SYSTEM_OFF. */
void power_off(void)
{
    register uint64_t x0 asm("x0") = 0x84000008;

    asm volatile("hvc #0" : "+r"(x0) : : "x1", "x2", "x3", "memory");
    for (;;)
        asm volatile("wfi");
}
