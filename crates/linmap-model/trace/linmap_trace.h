/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a kernel does with its page tables, as lines that `linmap-model replay --observed` judges. For code that runs without QEMU, or
 * that is to be judged step by step.
 *
 * Before it is included, define how a line leaves, and which CPU this is:
 *
 *     #define LINMAP_TRACE_PUT(line, length) uart_write(line, length)
 *     #define LINMAP_TRACE_CPU() smp_processor_id()
 *
 * Call linmap_trace_machine() once, then each function where its instruction is: at every store into a table, barrier, TLBI, and write
 * of a register that says how a CPU translates. A line is put as a whole; lines of two CPUs must not mix, and come in the order of what
 * they tell. Without LINMAP_TRACE_PUT all of it is nothing.
 *
 * No allocation, no library, about 180 bytes of stack for a line.
 */
#ifndef LINMAP_TRACE_H
#define LINMAP_TRACE_H

#ifdef LINMAP_TRACE_PUT

/* A line that is being written. */
struct linmap_trace_line {
	char text[160];
	unsigned length;
};

static inline void linmap_trace_text(struct linmap_trace_line *line, const char *text)
{
	while (*text && line->length < sizeof(line->text))
		line->text[line->length++] = *text++;
}

static inline void linmap_trace_number(struct linmap_trace_line *line, unsigned long long number, unsigned base)
{
	char digits[20];
	unsigned count = 0;

	do {
		digits[count++] = "0123456789abcdef"[number % base];
		number /= base;
	} while (number);
	while (count && line->length < sizeof(line->text))
		line->text[line->length++] = digits[--count];
}

static inline void linmap_trace_hex(struct linmap_trace_line *line, const char *before, unsigned long long number)
{
	linmap_trace_text(line, before);
	linmap_trace_text(line, "\"0x");
	linmap_trace_number(line, number, 16);
	linmap_trace_text(line, "\"");
}

/* Begins the line of an event of this CPU. */
static inline void linmap_trace_begin(struct linmap_trace_line *line, const char *event)
{
	line->length = 0;
	linmap_trace_text(line, "{\"event\":\"");
	linmap_trace_text(line, event);
	linmap_trace_text(line, "\",\"cpu\":");
	linmap_trace_number(line, LINMAP_TRACE_CPU(), 10);
}

static inline void linmap_trace_end(struct linmap_trace_line *line)
{
	linmap_trace_text(line, "}\n");
	LINMAP_TRACE_PUT(line->text, line->length);
}

/* The caller's place in the code. */
static inline void linmap_trace_place(struct linmap_trace_line *line, const void *pc)
{
	linmap_trace_hex(line, ",\"pc\":", (unsigned long long)(__UINTPTR_TYPE__)pc);
	linmap_trace_end(line);
}

/*
 * Describes the machine: its page size ("4k", "16k" or "64k"), the bits of virtual addresses, and the number of CPUs. Each CPU counts as
 * one that may abort when a live leaf changes size. Once a CPU writes TCR_EL1, that says page size and bits instead.
 */
static inline void linmap_trace_machine(const char *granule, unsigned va_bits, unsigned cpus)
{
	struct linmap_trace_line line = { .length = 0 };
	unsigned cpu;

	linmap_trace_text(&line, "{\"event\":\"machine\",\"granule\":\"");
	linmap_trace_text(&line, granule);
	linmap_trace_text(&line, "\",\"va_bits\":");
	linmap_trace_number(&line, va_bits, 10);
	linmap_trace_text(&line, ",\"format\":\"48\",\"tables_at\":\"0x0\",\"tables\":0,\"cpus\":[");
	LINMAP_TRACE_PUT(line.text, line.length);
	for (cpu = 0; cpu < cpus; cpu++) {
		line.length = 0;
		linmap_trace_text(&line, cpu ? "," : "");
		linmap_trace_text(&line, "{\"ttl\":true,\"range_tlbi\":true,\"outer_tlbi\":true,\"xs\":true}");
		LINMAP_TRACE_PUT(line.text, line.length);
	}
	line.length = 0;
	linmap_trace_text(&line, "]");
	linmap_trace_end(&line);
}

/* A descriptor is stored at a physical address. */
static __attribute__((noinline, unused)) void linmap_trace_store(unsigned long long slot, unsigned long long value)
{
	struct linmap_trace_line line;

	linmap_trace_begin(&line, "write");
	linmap_trace_hex(&line, ",\"table\":", slot & ~0xfffULL);
	linmap_trace_text(&line, ",\"index\":");
	linmap_trace_number(&line, (slot & 0xfff) / 8, 10);
	linmap_trace_hex(&line, ",\"value\":", value);
	linmap_trace_place(&line, __builtin_return_address(0));
}

/* The next store is a store-release, or a DMB is here. */
static inline __attribute__((unused)) void linmap_trace_release(void)
{
	struct linmap_trace_line line;

	linmap_trace_begin(&line, "release");
	linmap_trace_end(&line);
}

/* DSB, by its kind: "ish", "ishst", "nsh", "sy" and so on. */
static __attribute__((noinline, unused)) void linmap_trace_dsb(const char *kind)
{
	struct linmap_trace_line line;

	linmap_trace_begin(&line, "dsb");
	linmap_trace_text(&line, ",\"kind\":\"");
	linmap_trace_text(&line, kind);
	linmap_trace_text(&line, "\"");
	linmap_trace_place(&line, __builtin_return_address(0));
}

/* ISB, or another context synchronisation event. */
static inline __attribute__((unused)) void linmap_trace_isb(void)
{
	struct linmap_trace_line line;

	linmap_trace_begin(&line, "isb");
	linmap_trace_end(&line);
}

/* TLBI, by its mnemonic: "vaae1is"; and the register that it takes, or 0. */
static __attribute__((noinline, unused)) void linmap_trace_tlbi(const char *op, unsigned long long operand)
{
	struct linmap_trace_line line;

	linmap_trace_begin(&line, "tlbi");
	linmap_trace_text(&line, ",\"op\":\"");
	linmap_trace_text(&line, op);
	linmap_trace_hex(&line, "\",\"operand\":", operand);
	linmap_trace_place(&line, __builtin_return_address(0));
}

/* MSR of "ttbr0_el1", "ttbr1_el1", "tcr_el1", "mair_el1" or "sctlr_el1". */
static __attribute__((noinline, unused)) void linmap_trace_msr(const char *name, unsigned long long value)
{
	struct linmap_trace_line line;

	linmap_trace_begin(&line, "msr");
	linmap_trace_text(&line, ",\"register\":\"");
	linmap_trace_text(&line, name);
	linmap_trace_hex(&line, "\",\"value\":", value);
	linmap_trace_place(&line, __builtin_return_address(0));
}

/* The first use of an address that this CPU has mapped. */
static __attribute__((noinline, unused)) void linmap_trace_access(unsigned long long va)
{
	struct linmap_trace_line line;

	linmap_trace_begin(&line, "access");
	linmap_trace_hex(&line, ",\"va\":", va);
	linmap_trace_text(&line, ",\"how\":\"read\"");
	linmap_trace_place(&line, __builtin_return_address(0));
}

/* The CPU returns to a lower exception level, or idles: it has ended what it did in its tables. */
static inline __attribute__((unused)) void linmap_trace_leave(void)
{
	struct linmap_trace_line line;

	linmap_trace_begin(&line, "leave");
	linmap_trace_end(&line);
}

#else

#define linmap_trace_machine(granule, va_bits, cpus) do { } while (0)
#define linmap_trace_store(slot, value) do { } while (0)
#define linmap_trace_release() do { } while (0)
#define linmap_trace_dsb(kind) do { } while (0)
#define linmap_trace_isb() do { } while (0)
#define linmap_trace_tlbi(op, operand) do { } while (0)
#define linmap_trace_msr(name, value) do { } while (0)
#define linmap_trace_access(va) do { } while (0)
#define linmap_trace_leave() do { } while (0)

#endif
#endif
