/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the example's files know of each other. */
#ifndef KERNEL_H
#define KERNEL_H

#include "linmap.h"

#define PAGE 4096
#define CONSOLE 0x9000000ull

/* The symbols of link.ld, which are addresses. */
extern char text_start[], rodata_start[], data_start[], stack_bottom[], image_end[];

/* The registers that start.S loads. */
struct registers {
    uint64_t mair, tcr, ttbr0, ttbr1;
};
void mmu_on(const struct registers *registers);

void prepare_tables(void);
unsigned table_pages_out(void);

void print_char(char c);
void print(const char *text);
void print_number(uint64_t number);
_Noreturn void power_off(void);

#endif
