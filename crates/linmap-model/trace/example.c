/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A kernel in the memory of a process: it maps a page, unmaps it, and tells of its stores and instructions. With an argument its TLBI is for
 * the CPU alone that unmaps, as on a kernel that was written for one CPU.
 */
#include <stdint.h>
#include <stdio.h>

#define LINMAP_TRACE_PUT(line, length) fwrite(line, 1, length, stdout)
#define LINMAP_TRACE_CPU() this_cpu

static unsigned this_cpu;

#include "linmap_trace.h"

enum { VALID = 1, TABLE = 3, PAGE = 0x703 };

/* Physical memory: a table for each level. */
static uint64_t memory[3][512];
#define MEMORY 0x40000000ULL

static uint64_t pa_of(uint64_t *slot)
{
	return MEMORY + (uint64_t)((char *)slot - (char *)memory);
}

static void store(uint64_t *slot, uint64_t value)
{
	*(volatile uint64_t *)slot = value;
	linmap_trace_store(pa_of(slot), value);
}

static void unmap(uint64_t va, int alone)
{
	store(&memory[2][va >> 12 & 511], 0);
	linmap_trace_dsb("ishst");
	linmap_trace_tlbi(alone ? "vaae1" : "vaae1is", va >> 12 & ((1ULL << 44) - 1));
	linmap_trace_dsb("ish");
	linmap_trace_isb();
	linmap_trace_leave();
}

int main(int count, char **arguments)
{
	const uint64_t va = 0xffffff8000003000;

	(void)arguments;
	linmap_trace_machine("4k", 39, 2);
	store(&memory[0][0], pa_of(memory[1]) | TABLE);
	store(&memory[1][0], pa_of(memory[2]) | TABLE);
	store(&memory[2][3], 0x80000000 | PAGE);
	linmap_trace_dsb("ishst");
	for (this_cpu = 0; this_cpu < 2; this_cpu++)
		linmap_trace_msr("ttbr1_el1", pa_of(memory[0]));
	this_cpu = 0;
	linmap_trace_access(va);
	unmap(va, count > 1);
	return 0;
}
