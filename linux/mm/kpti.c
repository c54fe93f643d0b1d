// SPDX-License-Identifier: GPL-2.0
/*
 * KPTI is decided when the map is there: all that Linux has mapped becomes not
 * global then, while the other CPUs wait. Linux leaves out what is not valid,
 * such as guards of KFENCE's pool, since it sets nG with the valid bit. The
 * library keeps nG, also of a page that is not valid.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/pgtable.h>

#include "glue.h"

/*
 * In a page that is not valid, bit 11 says that it is present, so that nG is
 * elsewhere: the bit of the type is clear in a page that is not global.
 */
static void __init table_not_global(pte_t *table)
{
	unsigned int i;

	for (i = 0; i < PTRS_PER_PTE; i++) {
		u64 page = pte_val(__ptep_get(table + i));

		if (!(page & PTE_VALID) && (page & PTE_NG))
			WRITE_ONCE(pte_val(table[i]), page & ~PTE_TYPE_MASK);
	}
}

/* Nothing larger than a page is invalid so early. */
void __init linmap_not_global(void)
{
	unsigned long va = _PAGE_OFFSET(vabits_actual);

	if (!linmap_is_on())
		return;
	for (; va < (unsigned long)high_memory; va += PMD_SIZE) {
		pgd_t *pgd = pgd_offset_k(va);
		p4d_t *p4d = p4d_offset(pgd, va);
		pud_t *pud;
		pmd_t *pmd;

		if (pgd_none(READ_ONCE(*pgd)) || p4d_none(READ_ONCE(*p4d)))
			continue;
		pud = pud_offset(p4d, va);
		if (pud_none(READ_ONCE(*pud)) || !pud_table(READ_ONCE(*pud)))
			continue;
		pmd = pmd_offset(pud, va);
		if (pmd_table(READ_ONCE(*pmd)))
			table_not_global(pte_offset_kernel(pmd, va));
	}
}
