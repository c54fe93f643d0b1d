// SPDX-License-Identifier: GPL-2.0
/*
 * What people see of the linear map: DirectMap in /proc/meminfo, counts in
 * debugfs, and collapse, at once or in the background.
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>

#include "glue.h"
#include "internal.h"

static void show_size(struct seq_file *m, const char *before, u64 bytes)
{
	static const char unit[] = "kMGT";
	unsigned int i = 0;

	for (bytes >>= 10; bytes >= 1024; bytes >>= 10)
		i++;
	seq_printf(m, "%s%llu%c", before, bytes, unit[i]);
}

void arch_report_meminfo(struct seq_file *m)
{
	struct linmap_stats stats;
	int i;

	if (!linmap_on || linmap_stats(&linear_map, &stats))
		return;
	for (i = LINMAP_LEAF_SIZES - 1; i >= 0; i--) {
		struct linmap_leaves *leaves = stats.leaves + i;

		if (!leaves->bytes)
			continue;
		show_size(m, "DirectMap", leaves->bytes);
		seq_printf(m, ":%*llu kB\n", leaves->bytes % SZ_1G ? 12 : 13,
			   leaves->count * (leaves->bytes >> 10));
	}
}

static int stats_show(struct seq_file *m, void *unused)
{
	struct linmap_stats stats;
	int error = linmap_stats(&linear_map, &stats);

	if (error)
		return error;
	seq_printf(m, "bytes %llu\ntables %llu\nsplits %llu\ncollapses %llu\ninvalidations %llu\n",
		   stats.bytes, stats.tables, stats.splits, stats.collapses,
		   stats.invalidations);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

/*
 * A gigabyte at a time, so that nobody waits long for a claim. Where the page
 * allocator changes pages in any context, they stay pages.
 */
int linmap_collapse_all(void)
{
	/* Hot-added memory is beyond high_memory. */
	const unsigned long end = (unsigned long)__va(PFN_PHYS(max_pfn) - 1);
	unsigned long va;
	int error = 0;

	if (debug_pagealloc_enabled())
		return 0;
	for (va = _PAGE_OFFSET(vabits_actual); !error && va <= end; va += SZ_1G) {
		error = linmap_collapse(&linear_map, va, SZ_1G >> PAGE_SHIFT, 0);
		cond_resched();
	}
	return error;
}

static int collapse_set(void *unused, u64 value)
{
	return linmap_collapse_all();
}
DEFINE_DEBUGFS_ATTRIBUTE(collapse_fops, NULL, collapse_set, "%llu\n");

static unsigned int collapse_seconds = 60;
static void collapse_again(struct work_struct *work);
static DECLARE_DEFERRABLE_WORK(collapse_work, collapse_again);

/*
 * Nothing is read where nothing was split since the last time. Not while tasks
 * are frozen, since all memory is copied then.
 */
static void collapse_again(struct work_struct *work)
{
	static u64 splits;
	struct linmap_stats stats;

	if (!linmap_stats(&linear_map, &stats) && stats.splits != splits) {
		splits = stats.splits;
		linmap_collapse_all();
	}
	if (collapse_seconds)
		queue_delayed_work(system_freezable_wq, &collapse_work, collapse_seconds * HZ);
}

static int seconds_set(void *unused, u64 value)
{
	if (value > 86400)
		return -EINVAL;
	collapse_seconds = value;
	if (value)
		mod_delayed_work(system_freezable_wq, &collapse_work, value * HZ);
	return 0;
}

static int seconds_get(void *unused, u64 *value)
{
	*value = collapse_seconds;
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(seconds_fops, seconds_get, seconds_set, "%llu\n");

static int __init linmap_debugfs(void)
{
	struct dentry *directory;

	if (!linmap_on)
		return 0;
	directory = debugfs_create_dir("linmap", NULL);
	debugfs_create_file("stats", 0400, directory, NULL, &stats_fops);
	debugfs_create_file("collapse", 0200, directory, NULL, &collapse_fops);
	debugfs_create_file("collapse_seconds", 0600, directory, NULL, &seconds_fops);
	queue_delayed_work(system_freezable_wq, &collapse_work, collapse_seconds * HZ);
	return 0;
}
late_initcall(linmap_debugfs);
