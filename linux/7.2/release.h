/* SPDX-License-Identifier: GPL-2.0 */
/* How Linux 7.2 calls what the files of linmap use. */
#ifndef __MM_LINMAP_RELEASE_H
#define __MM_LINMAP_RELEASE_H

#define linmap_cpu_never_aborts() cpu_supports_bbml2_noabort()
#define linmap_cpus_never_abort() system_supports_bbml2_noabort()
#define linmap_park_flag idmap_kpti_bbml2_flag

#endif
