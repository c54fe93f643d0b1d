/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * linmap: the arm64 kernel linear map. Made of crates/linmap-c/src by its test `header`; not edited by hand.
 *
 * The kernel provides the functions of the first part, and calls those of the second. Any CPU may call them at any time
 * unless they say otherwise. What returns an int64_t or an int returns a negative number on an error, LINMAP_E... below.
 */

#ifndef LINMAP_H
#define LINMAP_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#define LINMAP_ALIGNED(n) __attribute__((aligned(n)))
#define LINMAP_NORETURN __attribute__((noreturn))


// An address or a length is not a multiple of the page size, the geometry is impossible, regions overlap or are not in
// order, unknown flags or bits, a pointer is null or not aligned, or the map was not initialised.
#define LINMAP_EINVAL 22

// Out of table pages. All that were taken have been given back.
#define LINMAP_ENOMEM 12

// Nothing is mapped at an address of the range.
#define LINMAP_ENOENT 2

// Something is mapped already at an address of the range.
#define LINMAP_EEXIST 17

// An address is not in the half of the map, or physical memory is beyond what descriptors can express.
#define LINMAP_ERANGE 34

// Memory would be both writable and executable.
#define LINMAP_EACCES 13

// The addresses are in a part of the root that the map does not have (linmap_adopt).
#define LINMAP_EPERM 1

// A repaint is under way; or memory that is to be removed is in use for something else than plain RAM.
#define LINMAP_EBUSY 16

// A leaf in use would have to change its size, and neither do all CPUs promise LINMAP_NEVER_ABORTS nor
// does the kernel promise LINMAP_PARKS; or a repaint without LINMAP_PARKS.
#define LINMAP_EOPNOTSUPP 95

// Another caller has claimed the addresses, or CPUs would have to be parked, and this caller cannot wait.
#define LINMAP_EAGAIN 11

// A CPU did not answer when it was to be parked.
#define LINMAP_ETIMEDOUT 110

// The tables have a descriptor that the library would not write.
#define LINMAP_EUCLEAN 117

#if !defined(LINMAP_LOCKS_64)
// The number of locks, from 0 on. The gigabyte with the number n has the lock n % LINMAP_LOCKS. An object built with the
// feature locks-64 has 64.
#define LINMAP_LOCKS 1
#endif

#if defined(LINMAP_LOCKS_64)
// The number of locks, from 0 on. The gigabyte with the number n has the lock n % LINMAP_LOCKS.
#define LINMAP_LOCKS 64
#endif

#if !defined(LINMAP_LOCKS_64)
// The size of struct linmap in bytes.
#define LINMAP_SIZE 1280
#endif

#if defined(LINMAP_LOCKS_64)
// The size of struct linmap in bytes.
#define LINMAP_SIZE 12288
#endif

// The alignment of struct linmap in bytes.
#define LINMAP_ALIGN 128

// 48-bit output addresses.
#define LINMAP_OA_48 0

// 52-bit output addresses of the 64K granule (FEAT_LPA).
#define LINMAP_OA_LPA 1

// 52-bit output addresses of the 4K and 16K granules (FEAT_LPA2, TCR.DS set).
#define LINMAP_OA_LPA2 2

// The region is mapped in pages that are in no contiguous run, so that each can change without a change of size. Bit 58 of their
// descriptors says that they stay pages: linmap_collapse leaves them.
#define LINMAP_PAGES (1 << 0)

// All CPUs never raise an abort when the size of a live leaf changes (FEAT_BBM level 2 alone does not say so).
#define LINMAP_NEVER_ABORTS (1 << 0)

// All CPUs have TLBIs by range (FEAT_TLBIRANGE).
#define LINMAP_RANGE_TLBI (1 << 1)

// A CPU needs each batch of TLBIs repeated.
#define LINMAP_REPEAT_TLBI (1 << 2)

// The kernel parks CPUs (linmap_park). Where not all CPUs promise LINMAP_NEVER_ABORTS, leaves in use change their size while
// they are parked.
#define LINMAP_PARKS (1 << 3)

// The valid bit, for linmap_change.
#define LINMAP_VALID (1 << 0)

// nG, which linmap_change can set, and not clear.
#define LINMAP_NOT_GLOBAL (1 << 11)

// The call does not wait and does not sleep. It fails with -EAGAIN where it would have to wait for another caller, or for
// the other CPUs to park.
#define LINMAP_ATOMIC (1 << 0)

// linmap_change and linmap_change_pages leave the TLB invalidations to a later linmap_flush of the range, or of one that
// contains it. Until then CPUs may use the old translations, and another call on the range invalidates first.
#define LINMAP_NOFLUSH (1 << 1)

// linmap_change and linmap_change_pages leave out what is not mapped, instead of refusing the range.
#define LINMAP_SKIP_HOLES (1 << 2)

// The reason of a change, in its flags, by which the leaves that it splits are counted (linmap_split_cost): a module of the
// kernel. A call whose flags have none is not counted apart.
#define LINMAP_BY_MODULE (1 << 8)

// A program for the kernel's virtual machine (BPF).
#define LINMAP_BY_BPF (2 << 8)

// Pages that are watched for wrong accesses (KFENCE).
#define LINMAP_BY_GUARD (3 << 8)

// The range of a crash kernel.
#define LINMAP_BY_CRASH (4 << 8)

// Memory of a user that the kernel does not reach.
#define LINMAP_BY_USER (5 << 8)

// The bits of a reason in flags. 6 and 7 are the kernel's own.
#define LINMAP_BY (7 << 8)

// The largest number of ranges that a repaint leaves as they are.
#define LINMAP_MOST_KEPT 8

// The largest number of leaf sizes.
#define LINMAP_LEAF_SIZES 8

// Adjacent entries of a table, and what is to become of them (linmap_park).
struct linmap_update {
  // The physical address of the table.
  uint64_t table;
  // The index of the first entry.
  size_t index;
  // The physical address of the table whose entries of the same indices are read: mostly the table itself.
  uint64_t from;
  // The number of entries, at least 1.
  size_t count;
  // The bits that are cleared in what was read.
  uint64_t clear;
  // The bits that are set after that.
  uint64_t set;
  // True if the table is the root.
  bool in_root;
};

// A map. All of it is the library's; it may be anywhere in memory, and does not move.
//
// A map that is all zero has not been initialised, and every call but linmap_init and linmap_adopt refuses it.
struct LINMAP_ALIGNED(128) linmap {
  uint8_t opaque[LINMAP_SIZE];
};

// A range of addresses.
struct linmap_range {
  // The first address.
  uint64_t first;
  // The last address.
  uint64_t last;
};

// The leaves of one size. A contiguous run is a leaf.
struct linmap_leaves {
  // The number of bytes that such a leaf maps; 0 for none.
  uint64_t bytes;
  // The number of leaves.
  uint64_t count;
};

// Counts of a map and of the changes of it.
struct linmap_stats {
  // The number of table pages, with the root.
  uint64_t tables;
  // The number of bytes that are mapped, valid or not.
  uint64_t bytes;
  // Leaves that became tables.
  uint64_t splits;
  // Tables that became leaves, or were freed because they were empty.
  uint64_t collapses;
  // TLB invalidations.
  uint64_t invalidations;
  // The leaves by size, the largest first.
  struct linmap_leaves leaves[LINMAP_LEAF_SIZES];
};

// The cost of the splits for one reason since the map was made.
struct linmap_split_cost {
  // Leaves that became tables.
  uint64_t splits;
  // TLB entries that cover the map, more than before, if each contiguous run takes one.
  uint64_t tlb_entries;
};

// The addresses that a map translates, and the format of its descriptors.
struct linmap_geometry {
  // log2 of the page size: 12, 14 or 16.
  uint32_t page_shift;
  // The number of bits of a virtual address, 36 to 52.
  uint32_t va_bits;
  // LINMAP_OA_48, LINMAP_OA_LPA or LINMAP_OA_LPA2.
  uint32_t oa_format;
  // log2 of the size of the largest leaf, contiguous runs included; 0 for no limit.
  uint32_t max_leaf_shift;
  // 1 for the lower half of the address space (TTBR0), 0 for the upper (TTBR1).
  uint32_t lower;
  // The bits of the descriptors of new tables besides address and type: PXNTable, UXNTable, APTable and AF, or 0. A new
  // table gets those that remove nothing from what is below it.
  uint64_t table_attributes;
};

// Memory that is mapped linearly with one set of attributes.
struct linmap_region {
  // The first virtual address.
  uint64_t va;
  // The physical address to which it is mapped.
  uint64_t pa;
  // The length in bytes, a multiple of the page size.
  uint64_t bytes;
  // The attributes of its leaves, as they are in a page descriptor: bits of the address and of the descriptor's type, and
  // the contiguous bit, are not among them.
  uint64_t attributes;
  // LINMAP_PAGES or 0.
  uint32_t flags;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the physical address of a page for tables, with undefined contents, or 0 if there is none. No lock is held.
// may_wait is false if the caller has passed LINMAP_ATOMIC. It may change the map, if that change takes no page.
extern uint64_t linmap_table_alloc(bool may_wait);

// Takes back a page that no CPU has ever walked, or that a creation did not need. No lock is held. It may
// change the map as linmap_table_alloc may.
extern void linmap_table_free(uint64_t pa);

// Takes back a page that was a live table. No CPU walks it any more, but code that reads the tables without a lock
// may. Until that has ended the page must not be written: hand it to call_rcu or its like. Locks may be held, so this
// does not wait and calls nothing of the library.
extern void linmap_table_retire(uint64_t pa);

// Returns the address at which a new table page, which will be a table at `level`, can be written until
// linmap_table_unmap(level). linmap_init, linmap_adopt and linmap_create reach new tables by this alone, and one of each
// level at a time, so that a fixmap with a slot for each level can serve, if these calls do not run at the same time.
// Locks may be held. Levels are -1 to 3; 3 is that of pages.
extern uint64_t *linmap_table_map(uint64_t pa,
                                  int32_t level);

// Ends the use of the page that linmap_table_map returned last for this level.
extern void linmap_table_unmap(int32_t level);

// Stores an entry of the live root table at the physical address `root`, by a single 64-bit store.
extern void linmap_root_set(uint64_t root, size_t index, uint64_t descriptor);

// Takes a lock. Several are taken in the order of their numbers and released in reverse order.
extern void linmap_lock(uint32_t number);

// Releases a lock.
extern void linmap_unlock(uint32_t number);

// Waits a moment, for example by cond_resched, since another caller's long operation has claimed the same addresses.
// No lock is held. Returns false if this context cannot wait; the call then fails with -EAGAIN. It is not called where
// the caller has passed LINMAP_ATOMIC.
extern bool linmap_wait(void);

// Asks all CPUs whether they answer, and waits until they have. No lock is held. Returns false if one does not, or if
// this kernel cannot park CPUs.
extern bool linmap_ask_cpus(void);

// Applies updates in their order while no CPU uses the tables; all CPUs then continue with the tables of `root`. Meanwhile
// each translates by other tables, holds no entry of these in its TLB, and takes no exception; before it uses `root`,
// its TLB has dropped all that it had. Locks are held. An update says for each index from its first on:
// table[index] = (from[index] & ~clear) | set. Returns false, and has stored nothing, if the CPUs cannot be parked.
extern bool linmap_park(uint64_t root,
                        const struct linmap_update *updates,
                        size_t count);

// Does not return: the library has found its own state, or a table, to be wrong. The text is not terminated by a zero.
extern void linmap_panic(const char *message,
                         size_t length) LINMAP_NORETURN;

#if (defined(LINMAP_TLBI_CALLBACK) || !defined(__aarch64__))
// Issues the TLB invalidation of `bytes` bytes from va on, on all CPUs and for every ASID: of everything where bytes is
// UINT64_MAX. If tables is false, entries of the last level suffice. A DSB ISHST comes before it, and the library
// executes the DSB ISH that completes it. Only in a build with the feature tlbi-callback, or not for arm64.
extern void linmap_tlbi(uint64_t va,
                        uint64_t bytes,
                        bool tables);
#endif

// Changes the leaves of `pages` pages from va on: clears some bits of a valid descriptor, then sets some. These are
// LINMAP_VALID, AP, DBM, GP, PXN, UXN and the software bits (58, 56, 55), and LINMAP_NOT_GLOBAL, which can be set only; all others cannot
// change in place and are kept. Pages that become
// invalid keep all else that they say, and are no holes. A leaf that is partly in the range is split first. Returns 0 or a
// negative error; no translation has changed then.
//
// Flags: LINMAP_ATOMIC, LINMAP_NOFLUSH, LINMAP_SKIP_HOLES, a reason (LINMAP_BY).
//
// # Safety
//
// The map is one. All users of the addresses expect the change.
int32_t linmap_change(struct linmap *map,
                      uint64_t va,
                      uint64_t pages,
                      uint64_t set,
                      uint64_t clear,
                      uint32_t flags);

// Changes single pages as linmap_change does one range: all of them, or none. `addresses` are those of `count` pages in any
// order; adjacent ones change together. TLBs are invalidated once, at the end.
//
// # Safety
//
// As for linmap_change. There are so many addresses, and nothing writes to them meanwhile.
int32_t linmap_change_pages(struct linmap *map,
                            const uint64_t *addresses,
                            size_t count,
                            uint64_t set,
                            uint64_t clear,
                            uint32_t flags);

// Invalidates what changes with LINMAP_NOFLUSH have left to invalidate in `pages` pages from va on. On return no CPU uses an
// old translation of them. Returns 0 or a negative error.
//
// # Safety
//
// The map is one.
int32_t linmap_flush(struct linmap *map,
                     uint64_t va,
                     uint64_t pages);

// Maps `pages` pages from va on to memory from pa on. Nothing may be mapped there. In the largest leaves if all CPUs
// promise LINMAP_NEVER_ABORTS or the kernel promises LINMAP_PARKS, otherwise in pages. Returns 0 or a negative error;
// nothing has changed then.
//
// Another CPU uses the addresses only after a context synchronisation event. Flags: LINMAP_ATOMIC.
//
// # Safety
//
// As for linmap_create.
int32_t linmap_map(struct linmap *map,
                   uint64_t va,
                   uint64_t pages,
                   uint64_t pa,
                   uint64_t attributes,
                   uint32_t flags);

// Removes the mapping of `pages` pages from va on, invalid ones included. Tables that become empty are retired. Returns 0
// or a negative error; no translation has changed then. Flags: LINMAP_ATOMIC.
//
// # Safety
//
// The map is one. Nothing uses the addresses.
int32_t linmap_unmap(struct linmap *map,
                     uint64_t va,
                     uint64_t pages,
                     uint32_t flags);

// Splits `pages` pages from va on into pages that are in no contiguous run. Translations stay as they are. Returns 0 or a
// negative error. Flags: LINMAP_ATOMIC.
//
// # Safety
//
// The map is one.
int32_t linmap_split(struct linmap *map,
                     uint64_t va,
                     uint64_t pages,
                     uint32_t flags);

// Returns to the largest leaves where `pages` pages from va on, with their neighbours in the same tables, are uniform.
// Translations stay as they are; tables are retired. Without LINMAP_NEVER_ABORTS they collapse while the other CPUs
// are parked, and without LINMAP_PARKS nothing does. Returns 0 or a negative error. Flags: LINMAP_ATOMIC.
//
// # Safety
//
// The map is one.
int32_t linmap_collapse(struct linmap *map,
                        uint64_t va,
                        uint64_t pages,
                        uint32_t flags);

// Maps everything in `range`, which consists of whole entries of the root, in pages, although no live leaf changes its size:
// second tables are built, and the CPUs switch to them while they are parked (linmap_park). What is within one of `kept`
// ranges, at most LINMAP_MOST_KEPT, keeps its size. Needs LINMAP_PARKS. Returns 0 or a negative error; nothing has changed
// then. From then on new mappings are in pages (linmap_promise says otherwise), and linmap_root returns another address,
// except after linmap_adopt. `flags` is 0: this call waits for the other CPUs.
//
// # Safety
//
// The map is one, `range` is null or a range, and there are so many kept ones.
int32_t linmap_repaint(struct linmap *map,
                       const struct linmap_range *range,
                       const struct linmap_range *kept,
                       size_t count,
                       uint32_t flags);

// Says what all CPUs promise that use the map from now on, for example because another one came. Returns 0 or a negative
// error.
//
// # Safety
//
// The map is one. No other call is under way. All CPUs keep the promise.
int32_t linmap_promise(struct linmap *map,
                       uint32_t bits);

// Returns true if a call is under way that has claimed addresses, or a repaint: a caller that cannot wait may be refused
// there. False for a map that was not initialised.
//
// # Safety
//
// The map is one, or all zero, or null.
bool linmap_is_busy(const struct linmap *map);

// Writes the counts of a map to `stats`. Takes all locks for a moment. Returns 0 or a negative error.
//
// # Safety
//
// The map is one, and `stats` is memory for the counts.
int32_t linmap_stats(struct linmap *map, struct linmap_stats *stats);

// Says what the splits for a reason have cost, one of LINMAP_BY_MODULE and its like: each is counted once its stores are made.
// Returns 0 or a negative error.
//
// # Safety
//
// The map is one. `cost` is null or a struct to write to.
int32_t linmap_split_cost(const struct linmap *map,
                          uint32_t by,
                          struct linmap_split_cost *cost);

// Returns true if a CPU with this MIDR_EL1 and ID_AA64MMFR2_EL1 never aborts when a leaf in use changes its size. If all
// CPUs that use a map are like that, they promise LINMAP_NEVER_ABORTS. Needs no map.
bool linmap_never_aborts(uint64_t midr,
                         uint64_t id_aa64mmfr2);

// Returns the number of table pages that linmap_create takes for these regions, or a negative error: the order and
// the addresses of the regions are judged as by linmap_create. The root is one of them.
//
// # Safety
//
// The pointers are those of a geometry and of so many regions, or null.
int64_t linmap_tables_needed(const struct linmap_geometry *geometry,
                             const struct linmap_region *regions,
                             size_t count);

// Makes an empty map: a root table, from linmap_table_alloc. From then on, tables are reached at their physical address plus
// table_offset, wrapping, but for new ones (linmap_table_map). `promise` is what all CPUs promise that use the map now
// (linmap_promise). Returns 0 or a negative error.
//
// # Safety
//
// - `map` is memory for a struct linmap, which nothing else uses yet, and `geometry` is null or that of a geometry.
// - The functions of the kernel keep what this header says of them. The pages of linmap_table_alloc are RAM that is mapped
//   at the offset, writable, as normal memory, before they are used in a call other than linmap_init, linmap_adopt and
//   linmap_create.
// - All CPUs keep the promise.
// - No CPU writes to the tables: TCR_EL1.HA and HD are 0 or find nothing to do, since every leaf has the access flag and
//   none is read-only with DBM.
int32_t linmap_init(struct linmap *map,
                    const struct linmap_geometry *geometry,
                    uint64_t table_offset,
                    uint32_t promise);

// Makes a map of a part of a root that CPUs use already and that others use too, such as the kernel's first root: the
// addresses of `range`, which consists of whole entries of the root. Tables that are there are counted. The root stays where
// it is; its entries are stored by linmap_root_set alone. All else is as for linmap_init.
//
// # Safety
//
// As for linmap_init. `root` is the physical address of that root, and it and its tables are reached at the offset. Others
// store to no entry of the root in the range, and leave its tables alone.
int32_t linmap_adopt(struct linmap *map,
                     const struct linmap_geometry *geometry,
                     uint64_t table_offset,
                     uint32_t promise,
                     uint64_t root,
                     const struct linmap_range *range);

// Adds regions to a map. They are in the order of their addresses, and no entry of the root between the first and the last
// of them is in use. The tables are built before any CPU sees them; nothing is invalidated. Returns 0 or a negative error;
// nothing has changed then.
//
// # Safety
//
// The map is one, and there are so many regions. Their memory may be accessed as their attributes permit, through these
// addresses and through all others that map it: there are no mismatched memory types.
int32_t linmap_create(struct linmap *map,
                      const struct linmap_region *regions,
                      size_t count);

// Returns the physical address of the root table, for a TTBR, or 0 if the map was not initialised. linmap_repaint changes
// it, except after linmap_adopt.
//
// # Safety
//
// The map is one, or all zero, or null.
uint64_t linmap_root(const struct linmap *map);

// From now on all table pages are reached at another offset, for example because the linear map exists. Returns 0 or a
// negative error.
//
// # Safety
//
// As for linmap_init, for all pages of the map. No other call is under way.
int32_t linmap_move_tables(struct linmap *map,
                           uint64_t table_offset);

// Adds RAM: maps a region where nothing is mapped, in the largest leaves or, with LINMAP_PAGES, in pages, whatever all CPUs
// promise. Large leaves merge at both ends with what was there, as far as the promises permit. Returns 0 or a negative
// error; nothing has changed then.
//
// Another CPU uses the addresses only after a context synchronisation event. Flags: LINMAP_ATOMIC.
//
// # Safety
//
// As for linmap_create. `region` is null or a region.
int32_t linmap_add(struct linmap *map,
                   const struct linmap_region *region,
                   uint32_t flags);

// Removes RAM: a region that is mapped as linmap_add and linmap_create map it, all of it valid and with these attributes,
// which is checked. The leaves may be of any size; one that reaches beyond the region is split. On return no TLB has any of
// it; tables that become empty are retired. Returns 0 or a negative error; no translation has changed then. -EBUSY says
// that a page of it is in use for something else: it is not valid, or has other attributes. Flags: LINMAP_ATOMIC.
//
// # Safety
//
// The map is one, `region` is null or a region. Nothing uses the addresses, and no memory of the region is a table page.
int32_t linmap_remove(struct linmap *map,
                      const struct linmap_region *region,
                      uint32_t flags);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LINMAP_H */
