// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the linear map in a running kernel.
 *
 * They are the same with and without linmap. debugfs has linmap-test: the name
 * of a test is written to it. A wrong result is a line with "WRONG" in the log
 * and an error of the write.
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kfence.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/set_memory.h>
#include <linux/sizes.h>
#include <linux/kallsyms.h>
#include <linux/slab.h>
#include <linux/stacktrace.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include <asm/mmu.h>
#include <asm/mmu_context.h>
#include <asm/sysreg.h>
#include <asm/tlbflush.h>

#include "glue.h"
#include "internal.h"
#include "test.h"

static int withheld __ro_after_init = -1;

static int __init parse_withheld(char *arg)
{
	return kstrtoint(arg, 0, &withheld);
}
early_param("linmap_test.withheld", parse_withheld);

bool linmap_test_withholds(void)
{
	return withheld == smp_processor_id();
}

/* So many holes at the end of memory, of a page each, which split a bank each. */
static int __init parse_holes(char *arg)
{
	phys_addr_t hole = memblock_end_of_DRAM();
	unsigned int count;
	int error = kstrtouint(arg, 0, &count);

	for (; !error && count; count--) {
		hole -= 2 * PAGE_SIZE;
		error = memblock_mark_nomap(hole, PAGE_SIZE);
	}
	return error;
}
early_param("linmap_test.holes", parse_holes);

bool linmap_test_readable(const void *va)
{
	unsigned long flags;
	u64 par;

	local_irq_save(flags);
	asm volatile("at s1e1r, %0" :: "r"(va));
	isb();
	par = read_sysreg(par_el1);
	local_irq_restore(flags);
	return !(par & 1);
}

bool linmap_test_writable(const void *va)
{
	unsigned long flags;
	u64 par;

	local_irq_save(flags);
	asm volatile("at s1e1w, %0" :: "r"(va));
	isb();
	par = read_sysreg(par_el1);
	local_irq_restore(flags);
	return !(par & 1);
}

static void *alias(const void *va, unsigned long page)
{
	return page_address(vmalloc_to_page(va + page * PAGE_SIZE));
}

static int aliases_writable(const void *area, unsigned long pages, bool expected)
{
	unsigned long i;
	int error = 0;

	for (i = 0; !error && i < pages; i++)
		error = CHECK(linmap_test_writable(alias(area, i)) == expected);
	return error;
}

/* One area becomes read-only and writable again, in both of its mappings. */
static int ro_and_rw(unsigned long pages)
{
	void *area = vmalloc(pages * PAGE_SIZE);
	int error;

	if (!area)
		return -ENOMEM;
	error = set_memory_ro((unsigned long)area, pages) ?:
		aliases_writable(area, pages, !rodata_full) ?:
		CHECK(!linmap_test_writable(area)) ?:
		set_memory_rw((unsigned long)area, pages) ?:
		aliases_writable(area, pages, true) ?:
		CHECK(linmap_test_writable(area));
	vfree(area);
	return error;
}

/* Most of memory, in areas of 4 MB that are all read-only at the same time. */
static int test_vmalloc(void)
{
	const unsigned long size = SZ_4M, pages = size >> PAGE_SHIFT;
	unsigned long most = (si_mem_available() / 10 * 8) / pages, n, i;
	void **areas = kvcalloc(most, sizeof(*areas), GFP_KERNEL);
	int error = 0;

	if (!areas)
		return -ENOMEM;
	for (n = 0; n < most; n++) {
		areas[n] = vmalloc(size);
		if (!areas[n])
			break;
	}
	for (i = 0; !error && i < n; i++) {
		error = set_memory_ro((unsigned long)areas[i], pages);
		cond_resched();
	}
	for (i = 0; !error && i < n; i++) {
		error = aliases_writable(areas[i], pages, !rodata_full);
		cond_resched();
	}
	for (i = 0; !error && i < n; i++) {
		error = set_memory_rw((unsigned long)areas[i], pages) ?:
			aliases_writable(areas[i], pages, true);
		cond_resched();
	}
	for (i = 0; i < n; i++)
		vfree(areas[i]);
	kvfree(areas);
	pr_info("test: vmalloc: %lu of %lu areas of 4M\n", n, most);
	return error ?: CHECK(n > most / 2);
}

int linmap_test_invalid_and_back(struct page *page)
{
	void *va = page_address(page);
	unsigned long start = (unsigned long)va;
	int error = set_direct_map_invalid_noflush(page);

	if (error)
		return error;
	flush_tlb_kernel_range(start, start + PAGE_SIZE);
	error = CHECK(linmap_test_readable(va) == !can_set_direct_map()) ?:
		CHECK(kernel_page_present(page) == !can_set_direct_map());
	return set_direct_map_default_noflush(page) ?: error ?:
	       CHECK(linmap_test_readable(va) && linmap_test_writable(va) && kernel_page_present(page));
}

static int test_direct(void)
{
	struct page *page = alloc_page(GFP_KERNEL);
	int error;

	if (!page)
		return -ENOMEM;
	error = linmap_test_invalid_and_back(page);
	__free_page(page);
	return error;
}

#ifdef CONFIG_KFENCE
/* A guard of KFENCE's pool was not valid when it was decided whether pages are global. */
static int test_guard(void)
{
	unsigned long va = (unsigned long)__kfence_pool;
	u64 page;
	int error;

	if (!va)
		return 0;
	error = set_memory_valid(va, 1, 1);
	if (error)
		return error;
	page = pte_val(__ptep_get(virt_to_kpte(va)));
	return set_memory_valid(va, 1, 0) ?: CHECK(page & PTE_VALID) ?:
		CHECK(!(page & PTE_NG) == !arm64_use_ng_mappings);
}
#else
static int test_guard(void)
{
	return 0;
}
#endif

/* On each CPU, at the same time: areas, single pages, and their neighbours. */
static int stressor(void *until)
{
	int error = 0;

	while (!error && time_before(jiffies, *(unsigned long *)until)) {
		error = get_random_u32() & 1 ? test_direct() :
					       ro_and_rw(1 + get_random_u32_below(300));
		if (error == -ENOMEM)
			error = 0;
		cond_resched();
	}
	return error;
}

static int test_stress(void)
{
	static struct task_struct *tasks[NR_CPUS];
	static unsigned long until;
	int cpu, error = 0;

	until = jiffies + 5 * HZ;
	for_each_online_cpu(cpu) {
		tasks[cpu] = kthread_run_on_cpu(stressor, &until, cpu, "linmap-%u");
		if (IS_ERR(tasks[cpu]))
			return PTR_ERR(tasks[cpu]);
		get_task_struct(tasks[cpu]);
	}
	while (time_before(jiffies, until))
		schedule_timeout_uninterruptible(HZ / 10);
	for_each_online_cpu(cpu) {
		/* It has not been started if kthread_stop is first. */
		error = kthread_stop_put(tasks[cpu]) ?: error;
	}
	return error;
}

void *linmap_test_area(unsigned int order, unsigned int turn)
{
	struct page **pages = kvmalloc_array(1 << order, sizeof(*pages), GFP_KERNEL);
	struct page *block = alloc_pages(GFP_KERNEL, order);
	void *area = NULL;
	int i;

	if (pages && block) {
		for (i = 0; i < 1 << order; i++)
			pages[i] = block + (i ^ turn);
		split_page(block, order);
		area = vmap(pages, 1 << order, VM_ALLOC | VM_MAP_PUT_PAGES, PAGE_KERNEL);
		for (i = 0; !area && i < 1 << order; i++)
			__free_page(block + i);
	} else if (block) {
		__free_pages(block, order);
	}
	if (!area)
		kvfree(pages);
	return area;
}

#ifdef CONFIG_FAIL_PAGE_ALLOC
static int area_writable(const void *area, unsigned long pages, bool expected)
{
	unsigned long i;
	int error = 0;

	for (i = 0; !error && i < pages; i++)
		error = CHECK(linmap_test_writable(area + i * PAGE_SIZE) == expected);
	return error;
}

/*
 * Tables cannot be had now and then: a change is made, or it is not. All but the
 * first and the last page change, so that both halves have a block to split. A
 * few pages that are read-only before that stay so.
 */
static int fail_once(bool some_are_ro, unsigned int *failed)
{
	const unsigned long pages = (SZ_4M >> PAGE_SHIFT) - 2;
	const unsigned int order = get_order(SZ_4M);
	/* The second half of a block of memory comes first. */
	void *area = linmap_test_area(order, 1 << (order - 1)), *inner = area + PAGE_SIZE;
	const unsigned long ro = some_are_ro ? 9 : 0;
	int result, error;

	if (!area)
		return -ENOMEM;
	linmap_collapse_all();
	error = set_memory_ro((unsigned long)inner, ro);
	current->make_it_fail = 1;
	result = set_memory_ro((unsigned long)inner, pages);
	current->make_it_fail = 0;
	*failed += !!result;
	error = error ?: CHECK(!result || result == -ENOMEM) ?:
		aliases_writable(inner, ro, !rodata_full) ?:
		area_writable(inner, ro, false) ?:
		aliases_writable(inner + ro * PAGE_SIZE, pages - ro, result || !rodata_full) ?:
		area_writable(inner + ro * PAGE_SIZE, pages - ro, result) ?:
		set_memory_rw((unsigned long)inner, pages) ?:
		aliases_writable(area, pages + 2, true) ?:
		area_writable(area, pages + 2, true);
	vfree(area);
	return error;
}

static int test_failing(void)
{
	unsigned int failed = 0;
	int i, error = 0;

	/* Linux alone leaves what it has done so far. */
	if (!linmap_on)
		return 0;
	for (i = 0; !error && i < 100; i++)
		error = fail_once(i & 1, &failed);
	pr_info("test: failing: %u of %d\n", failed, i);
	return error ?: CHECK(failed && failed < i);
}
#endif

static unsigned int hits;

static int hit(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	return 0;
}

static int probe(const char *symbol)
{
	struct kprobe p = { .symbol_name = symbol, .pre_handler = hit };
	int error = register_kprobe(&p);

	if (error)
		return error;
	ksize(NULL);
	vfree(vmalloc(PAGE_SIZE));
	unregister_kprobe(&p);
	return 0;
}

/* Probes come and go: their slots are pages of code that is written. */
static int test_kprobes(void)
{
	int i, error = 0;

	hits = 0;
	for (i = 0; !error && i < 50; i++)
		error = probe("vfree");
	return error ?: CHECK(hits >= 50) ?: CHECK(probe("linmap_change") == -EINVAL);
}

/* Who is to be traced when a table page is asked for, and the callers then. */
static struct task_struct *to_trace;
static unsigned long callers[32];
static unsigned int caller_count;
/* The task that gets none. */
static struct task_struct *denied;

bool linmap_test_alloc(void)
{
	if (to_trace == current) {
		to_trace = NULL;
		caller_count = stack_trace_save(callers, ARRAY_SIZE(callers), 0);
	}
	return denied != current;
}

void linmap_test_deny(bool on)
{
	denied = on ? current : NULL;
}

/* A page out of a block takes a table, if blocks can be split. */
static bool takes_table(void)
{
	return linmap_is_on() && can_set_direct_map() && PAGE_SIZE == SZ_4K &&
	       linmap_cpus_never_abort() && !debug_pagealloc_enabled();
}

/* A stack trace goes through the library to its callers. */
static noinline int test_trace(void)
{
	const unsigned int order = get_order(SZ_2M);
	struct page *block = alloc_pages(GFP_KERNEL, order);
	char name[KSYM_SYMBOL_LEN];
	bool found = false;
	unsigned int i;
	int error;

	if (!block)
		return -ENOMEM;
	if (linmap_is_on())
		linmap_collapse_all();
	caller_count = 0;
	to_trace = current;
	error = linmap_test_invalid_and_back(block + 1);
	to_trace = NULL;
	__free_pages(block, order);
	for (i = 0; i < caller_count; i++) {
		sprint_symbol(name, callers[i]);
		found |= str_has_prefix(name, "test_trace");
	}
	return error ?: CHECK(found == takes_table());
}

static const struct {
	const char *name;
	int (*run)(void);
} tests[] = {
	{ "trace", test_trace },
	{ "vmalloc", test_vmalloc },
	{ "direct", test_direct },
	{ "guard", test_guard },
	{ "stress", test_stress },
	{ "kprobes", test_kprobes },
	{ "counts", linmap_test_counts },
	{ "take-out", linmap_test_take_out },
	{ "put-back", linmap_test_put_back },
#ifdef CONFIG_FAIL_PAGE_ALLOC
	{ "failing", test_failing },
#endif
#ifdef CONFIG_MEMORY_HOTREMOVE
	{ "add-low", linmap_test_add_low },
	{ "add-high", linmap_test_add_high },
	{ "remove-low", linmap_test_remove_low },
	{ "remove-high", linmap_test_remove_high },
	{ "whole", linmap_test_whole },
#endif
#ifdef CONFIG_ZONE_DEVICE
	{ "device", linmap_test_device },
#endif
};

static ssize_t test_write(struct file *file, const char __user *text,
			  size_t length, loff_t *offset)
{
	char name[32] = "";
	int i, error;

	if (length >= sizeof(name) || copy_from_user(name, text, length))
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		if (!sysfs_streq(name, tests[i].name))
			continue;
		error = tests[i].run();
		if (error)
			pr_err("test: %s: error %d\n", tests[i].name, error);
		return error ?: length;
	}
	return -ENOENT;
}

static const struct file_operations test_fops = {
	.write = test_write,
};

static int __init linmap_tests(void)
{
	debugfs_create_file("linmap-test", 0200, NULL, NULL, &test_fops);
	return 0;
}
late_initcall(linmap_tests);
