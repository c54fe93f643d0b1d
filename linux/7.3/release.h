/* SPDX-License-Identifier: GPL-2.0 */
/* How Linux 7.3 calls what the files of linmap use. */
#ifndef __MM_LINMAP_RELEASE_H
#define __MM_LINMAP_RELEASE_H

#define linmap_cpu_never_aborts() cpu_supports_bbml3()
#define linmap_cpus_never_abort() system_supports_bbml3()
#define linmap_park_flag idmap_kpti_bbml3_flag

#endif
