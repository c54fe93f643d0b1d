//! Mutants: for each rule sequences of steps that break it, and the same made right.
//!
//! Each is a story that takes whether to go wrong, which it does in one place. The model must catch the
//! wrong version by the rule that is meant for it, and have nothing against the right one.

mod access;
mod alias;
mod asids;
mod callers;
mod code;
mod common;
mod everywhere;
mod forms;
mod given;
mod guests;
mod hardware_update;
mod hidden;
mod hosts;
mod hotplug;
mod invalidate;
mod limits;
mod order;
mod park;
mod power;
mod promise;
mod recipients;
mod regimes;
mod registers;
mod relax;
mod remake;
mod repaint;
mod replace;
mod runs;
mod scene;
mod size;
mod tables;
mod types;
mod uncached;
mod visible;
mod watched;
mod write_execute;

use std::collections::BTreeSet;
use std::time::Instant;

use linmap_model::{CpuId, Rule};

/// The bits of an address that are zero in the first address of each half.
const WITHIN_HALF: u64 = (1 << 36) - 1;

/// A story, its mistake, and the expected verdict of the model.
struct Mutant {
    name: &'static str,
    story: fn(bool) -> scene::Scene,
    /// The mistake.
    wrong: &'static str,
    rule: Rule,
    /// The CPU that suffers, where that tells something.
    cpu: Option<CpuId>,
    /// How far from the first address of its half.
    at: Option<u64>,
    /// A part of the model's report.
    says: &'static str,
}

macro_rules! maybe {
    () => {
        None
    };
    ($given:literal) => {
        Some($given)
    };
}

macro_rules! mutants {
    ($($theme:ident::$name:ident: $wrong:literal,
       $rule:ident $(on $cpu:literal)? $(at $at:literal)?, $says:literal;)*) => {
        const MUTANTS: &[Mutant] = &[$(Mutant {
            name: concat!(stringify!($theme), "::", stringify!($name)),
            story: $theme::$name,
            wrong: $wrong,
            rule: Rule::$rule,
            cpu: maybe!($($cpu)?),
            at: maybe!($($at)?),
            says: $says,
        }),*];
    };
}

mutants! {
    size::split_on_a_weak_cpu: "a block is split, and the CPU may abort",
        SizeConflict on 0 at 0, "cpu 0 may raise a TLB conflict abort";
    size::split_where_one_cpu_is_weak: "a block is split, and one of three CPUs may abort",
        SizeConflict on 1 at 0, "cpu 1 may raise a TLB conflict abort";
    size::split_of_512g_at_level_0: "a block of 512G is split, and the CPU may abort",
        SizeConflict at 0, "level 0, 512G";
    size::split_of_1g_at_level_1: "a block of 1G is split, and the CPU may abort",
        SizeConflict at 0, "level 1, 1G";
    size::split_of_32m_at_16k: "a block of 32M is split, and the CPU may abort",
        SizeConflict at 0, "level 2, 32M";
    size::split_of_512m_at_64k: "a block of 512M is split, and the CPU may abort",
        SizeConflict at 0, "level 2, 512M";
    size::run_dissolved_on_a_weak_cpu: "the contiguous bits of a run are cleared, and the CPU may abort",
        SizeConflict, "the contiguous bit changes";
    size::run_of_128_pages_dissolved: "the same at 16K, and one of two CPUs may abort",
        SizeConflict on 1, "16K run of 128";
    size::run_formed_on_a_weak_cpu: "pages are made a run, and the CPU may abort",
        SizeConflict, "the contiguous bit changes";
    size::collapse_on_a_weak_cpu: "a table becomes a block, and the CPU may abort",
        SizeConflict, "the level of the leaf changes";
    size::split_comes_back_to_a_stale_block: "a CPU comes back to a split block that it has in its TLB",
        SizeConflict, "the level of the leaf changes";

    replace::output_address_in_place: "a page moves in place",
        BreakBeforeMake at 0, "the output address changes";
    replace::memory_type_in_place: "RAM becomes a device in place",
        BreakBeforeMake at 0, "the memory type changes";
    replace::shareability_in_place: "a page ceases to be shareable in place",
        BreakBeforeMake at 0, "the shareability changes";
    replace::cacheability_in_place: "a page ceases to be cacheable in place",
        BreakBeforeMake at 0, "the memory type changes";
    replace::local_to_global_in_place: "a page of one ASID becomes global in place",
        BreakBeforeMake at 0, "not global becomes global";
    replace::local_to_global_not_the_other_way: "local to global instead of global to local",
        BreakBeforeMake at 0, "not global becomes global";
    replace::broken_in_use: "a page is broken and made, and the CPU is not parked",
        InUse on 0 at 0, "do not translate it";
    replace::broken_with_one_cpu_at_work: "a page is broken and made, and one of three CPUs is not parked",
        InUse on 1 at 0, "do not translate it";
    replace::protected_by_breaking_it: "a page is broken and made to change its permissions alone",
        InUse at 0, "do not translate it";
    replace::access_flag_cleared: "a page loses its access flag",
        Translation at 0, "attributes 0x60000000000384";

    visible::published_before_it_is_filled: "a table is published, then filled",
        Unfilled, "never written";
    visible::no_dsb_before_it_is_published: "a table is filled and published without a DSB",
        Unfilled, "have had no DSB";
    visible::dsb_nshst_before_it_is_published: "the DSB does not reach the other CPU",
        Unfilled, "have had no DSB";
    visible::dsb_by_another_cpu: "the DSB is not of the CPU that filled it",
        Unfilled, "stores of cpu 1";
    visible::filled_in_part: "the last slot of a child is left undefined",
        Unfilled, "never written";
    visible::no_dsb_after_mapping: "a page is mapped without a DSB",
        NotVisible, "have had no DSB";
    visible::dsb_nshst_after_mapping: "a page is mapped, and the DSB does not reach the other CPU",
        NotVisible, "have had no DSB";
    visible::isb_before_the_dsb: "a page is mapped, and the ISB comes before the DSB",
        NotVisible, "no ISB on cpu 0 since the DSB";
    visible::no_isb_after_mapping: "a page is mapped without an ISB",
        NotVisible, "no ISB on cpu 0 since the DSB";
    visible::no_isb_after_a_cut: "a block that is out is cut, one of its pages becomes valid, and there is no ISB",
        NotVisible on 0, "no ISB on cpu 0 since the DSB";
    visible::loaded_with_unseen_writes: "a map is loaded before the DSB",
        Unfilled, "have had no DSB";
    visible::dsb_nshst_before_another_cpu_comes: "a page is mapped with a DSB for the one CPU that is up",
        NotVisible, "have had no DSB";
    visible::loaded_before_it_reported: "a CPU loads the map and then reports",
        Unreported on 1, "has not reported what it promises";

    invalidate::no_tlbi: "a page is protected without a TLBI",
        Stale on 0 at 0, "no TLBI was issued";
    invalidate::unmapped_without_tlbi: "a page is unmapped without a TLBI",
        Stale on 0 at 0, "has made it a hole";
    invalidate::local_only: "the TLBI is local, and there are two CPUs",
        Stale on 1 at 0, "it is local to cpu 0";
    invalidate::by_asid_alone: "the TLBI is by ASID, the page is global",
        Stale at 0, "does not cover the address";
    invalidate::of_another_asid: "the TLBI is for another ASID",
        Stale at 0, "it is for another ASID than 0";
    invalidate::made_local: "the TLBI is by ASID, the old entry is global",
        Stale at 0, "does not cover the address";
    invalidate::of_another_page: "the TLBI is for the next page",
        Stale at 0, "does not cover the address";
    invalidate::of_the_other_half: "the TLBI is for the other half",
        Stale at 0x8000_0000, "does not cover the address";
    invalidate::no_dsb_before_it: "no DSB between the store and the TLBI",
        Stale, "the store had no DSB by then";
    invalidate::dsb_nshst_before_it: "the DSB before the TLBI does not reach the other CPU",
        Stale, "the store had no DSB by then";
    invalidate::no_dsb_after_it: "no DSB after the TLBI",
        Stale, "cpu 0 has executed no DSB ISH since";
    invalidate::dsb_nsh_after_it: "the DSB after the TLBI does not wait for the other CPU",
        Stale, "cpu 0 has executed no DSB ISH since";
    invalidate::dsb_before_it_of_another_cpu: "the DSB before the TLBI is of another CPU",
        Stale, "the store had no DSB by then";
    invalidate::dsb_after_it_of_another_cpu: "the DSB after the TLBI is of another CPU",
        Stale, "cpu 0 has executed no DSB ISH since";
    invalidate::before_the_store: "the TLBI comes before the store",
        Stale, "no TLBI was issued";
    invalidate::dsb_ishst_after_it: "the DSB after the TLBI waits for stores alone",
        Stale, "cpu 0 has executed no DSB ISH since";
    invalidate::no_isb_after_it: "no ISB after it",
        Stale on 0, "cpu 0 has had no ISB since the DSB";
    invalidate::not_repeated: "a CPU needs the TLBI twice",
        Stale on 1, "CVE-2025-10263";
    invalidate::repeated_without_a_dsb: "a CPU needs the TLBI twice, and the DSB",
        Stale on 1, "CVE-2025-10263";
    invalidate::stale_writable_page_at_return: "the operation returns before the DSB",
        Stale at 0, "writable";
    invalidate::repeated_by_another_cpu_alone: "another CPU invalidates everything instead, but has no ISB",
        Stale on 1, "CVE-2025-10263";
    invalidate::hint_of_a_page_for_a_block: "the TTL is that of a page, the leaf a block",
        Stale at 0, "its TTL hint says level 3, the entry is of level 2";
    invalidate::hint_of_a_page_after_a_split: "the TTL is that of a page, the block was just split",
        Stale at 0, "its TTL hint says level 3, the entry is of level 2";
    invalidate::hint_of_a_page_long_after_a_split: "the TTL is that of a page, the block may still be cached",
        Stale at 0, "its TTL hint says level 3, the entry is of level 2";
    invalidate::hint_of_a_block_after_a_collapse: "the TTL is that of a block, its pages may still be cached",
        Stale at 0, "level 3, 4K, writable";
    invalidate::one_for_a_table_of_pages: "one TLBI for a table that went with its pages",
        Stale at 0x1000, "0xffffff8000001000 -> 0x8000001000, level 3";
    invalidate::hint_on_a_cpu_without: "the CPU has no TTL",
        TlbiOperand, "without FEAT_TTL";
    invalidate::unmasked_address_as_asid: "the sign of the address fills bits that must be zero",
        TlbiOperand, "takes no ASID";
    invalidate::unmasked_address_as_hint: "the sign of the address is taken for a TTL",
        Stale, "names another granule";
    invalidate::address_not_shifted_by_12: "at 64K the address is shifted by 16",
        Stale at 0x10000, "does not cover the address";
    invalidate::one_page_of_a_run: "one TLBI for a run of 16",
        Stale at 0x1000, "run of 16";
    invalidate::run_of_128_pages_as_one_of_32: "32 TLBIs for a run of 128",
        Stale at 0x80000, "run of 128";
    invalidate::range_an_odd_page_short: "a range is even, the pages are five",
        Stale at 0x4000, "does not cover the address";
    invalidate::range_base_in_pages_under_lpa2: "with DS=1 a range's base is not in units of 64K",
        Stale, "does not cover the address";
    invalidate::range_of_another_granule: "a range's TG is that of 16K",
        Stale, "names another granule";
    invalidate::range_with_a_hint_not_aligned: "a range with a TTL does not start at a block",
        TlbiOperand, "not aligned to level 2";

    recipients::by_range_to_a_cpu_without: "the TLBI is by range, and another CPU has none",
        Stale on 1 at 0, "it is by range, and cpu 1 has no such TLBIs";
    recipients::table_by_range_to_a_cpu_without: "a table goes with a TLBI by range, and another CPU has none",
        Freed on 1, "it is by range, and cpu 1 has no such TLBIs";
    recipients::by_range_on_a_cpu_without: "the CPU has no TLBIs by range",
        TlbiOperand on 0, "undefined on cpu 0";
    recipients::hint_from_the_cpu_without: "the CPU without TTL issues the TLBI, not the other",
        TlbiOperand on 0, "without FEAT_TTL";

    forms::outer_on_a_cpu_without: "the TLBI is for the outer shareable domain, and the CPU has none",
        TlbiOperand on 0, "no TLBIs for the outer shareable domain";
    forms::outer_with_a_dsb_of_this_cpu: "the DSB after a TLBI for the outer domain waits for no other CPU",
        Stale at 0, "cpu 0 has executed no DSB ISH since";
    forms::outer_with_a_dsb_for_stores: "the DSB after a TLBI for the outer domain waits for stores alone",
        Stale at 0, "cpu 0 has executed no DSB ISH since";
    forms::of_el2: "the TLBI is that of EL2, the page of EL1",
        Stale at 0, "it is for EL2";
    forms::of_stage_2: "the TLBI takes an IPA",
        Stale at 0, "it is for stage 2 alone";
    forms::nxs_on_a_cpu_without: "the CPU has no TLBIs with nXS",
        TlbiOperand on 0, "no TLBIs with the nXS qualifier";
    forms::dsb_nxs_on_a_cpu_without: "the CPU has no DSBs with nXS",
        Sequence on 0, "no FEAT_XS";
    forms::dsb_nxs_after_another_tlbi: "the DSB has nXS, the TLBI has not",
        Stale at 0, "cpu 0 has executed no DSB ISH since";
    forms::nxs_for_a_device: "the TLBI has nXS, the page is a device's",
        Stale at 0, "may leave entries with the XS attribute";
    forms::range_with_a_hint_under_lpa2: "with DS=1 a range with a TTL does not start at a block",
        TlbiOperand, "not aligned to level 2";

    asids::of_a_process_that_does_not_run: "a page goes by the ASID of the process that runs",
        Stale on 1, "it is for another ASID";
    asids::switch_amid_an_unmap: "a CPU goes over to another process with the same ASID",
        TtbrSwitch on 1, "may hold entries of the tree";
    asids::tables_of_a_process_that_does_not_run: "a table goes by the ASID of the process that runs",
        Freed on 1, "it is for another ASID";
    asids::tables_of_a_process_that_runs: "global pages go by ASID",
        Stale on 1, "does not cover";
    asids::exit_by_another_asid: "a process exits, and its ASID is not invalidated",
        Freed on 1, "may walk that tree";
    asids::exit_with_global_pages: "a process with global pages exits, and is invalidated by ASID",
        Freed on 1, "may walk that tree";
    asids::exit_before_the_isb: "a process exits, and its ASID is invalidated while a CPU may still walk it",
        Freed on 1, "may walk that tree";
    asids::asid_used_again: "an ASID is used again, and the TLBI was for another",
        TtbrSwitch on 1, "has dropped them";
    asids::two_asids_for_the_upper_half: "pages of the upper half are not global, and the lower half has another ASID",
        Sequence on 0, "write one to both";
    asids::local_page_beside_a_process: "a page that is not global is mapped beside a process with its own ASID",
        Sequence on 0, "write one to both";

    regimes::ipa_alone: "a page of a guest goes, and its IPA alone is invalidated",
        Stale at 0x4000_0000, "entries that combine stage 2 with stage 1";
    regimes::stage_1_first: "the IPA is invalidated after stage 1",
        Stale at 0x4000_0000, "the entry of stage 2 was dropped only by event";
    regimes::no_dsb_between: "no DSB between the TLBI of the IPA and that of stage 1",
        Stale at 0x4000_0000, "the entry of stage 2 was dropped only by event";
    regimes::by_an_address_of_the_guest: "stage 1 is invalidated by the IPA as an address",
        Stale at 0x4000_0000, "entries that combine stage 2 with stage 1";
    regimes::stage_1_alone: "the TLBI of everything is for stage 1 alone",
        Stale at 0x4000_0000, "it is for stage 1 of EL1&0 with VMID 1";
    regimes::another_ipa: "the TLBI is for the next IPA",
        Stale at 0x4000_0000, "it is for stage 1 of EL1&0 with VMID 1";
    regimes::another_vmid: "the TLBI is for the VMID of the next guest",
        Stale at 0x4000_0000, "it is for both stages of EL1&0 with VMID 2";
    regimes::by_a_host_that_keeps_tge: "a host invalidates stage 1 of its guest and keeps TGE",
        Stale at 0x4000_0000, "it is for EL2";
    regimes::table_after_a_last_level_tlbi: "a table of stage 2 goes, and walk caches keep it",
        Freed, "drops leaves only";
    regimes::pages_of_a_table_by_ipa_alone: "a table of stage 2 goes, and its IPAs alone are invalidated",
        Stale at 0x4000_0000, "entries that combine stage 2 with stage 1";
    regimes::vmid_of_another_guest: "two guests have one VMID",
        TtbrSwitch at 0, "may hold entries of the tree";
    regimes::vmid_used_again: "a VMID is used again, and the TLBI was for another",
        TtbrSwitch at 0, "no TLBI of everything after its ISB";
    regimes::output_address_in_place: "a page of a guest moves in place",
        BreakBeforeMake at 0x4000_0000, "the output address changes";
    regimes::memory_type_in_place: "a page of a guest becomes cacheable in place",
        BreakBeforeMake at 0x4000_0000, "the memory type changes";
    regimes::split_on_a_weak_cpu: "a block of a guest is split, and one CPU may abort",
        SizeConflict on 1 at 0x4000_0000, "cpu 1 may raise a TLB conflict abort";
    regimes::page_of_el2_by_the_form_of_el1: "a page of EL2 is invalidated by the form of EL1",
        Stale at 0x4000_0000, "it is for stage 1 of EL1&0";
    regimes::page_of_el2_and_0_without_tge: "a host invalidates its page by the form of EL1, without TGE",
        Stale at 0, "it is for stage 1 of EL1&0";
    regimes::upper_half_of_el2_without_e2h: "the upper half of EL2 is loaded without E2H",
        Sequence on 0, "HCR_EL2.E2H is 0";
    regimes::local_page_of_el2_without_e2h: "a page of EL2 is not global, and there is no ASID",
        Sequence on 0, "there is no ASID";
    regimes::vmid_under_a_tree_of_el1: "the VMID changes under a tree of EL1",
        Sequence on 0, "load empty tables first";

    guests::given_while_mapped: "a page is given away that a guest has",
        Given on 0 at 0x4000_0000, "there is IPA 0x40000000";
    guests::given_before_the_ipa_is_invalidated: "a page of a guest is given away, and its IPA was not invalidated",
        Given on 0 at 0x4000_0000, "it is for stage 1 of EL1&0 with VMID 1";
    guests::given_before_what_combines_both_is_invalidated: "a page of a guest is given away, and its IPA alone was invalidated",
        Given on 0 at 0x4000_0000, "entries that combine stage 2 with stage 1";
    guests::tlbi_before_the_vmid_is_in_force: "a TLBI for a guest without ISB after VTTBR",
        NotInForce on 0, "cpu 0 wrote vttbr_el2";
    guests::tlbi_before_tge_is_cleared: "a TLBI for a guest without ISB after TGE is cleared",
        NotInForce on 0, "issues tlbi vmalle1is without an ISB";
    guests::guest_after_a_reset: "a CPU comes back to a guest after a reset, and empties stage 1 of its TLB alone",
        Reset on 1, "it has had no TLBI ALLE1 of its own";
    guests::el2_after_a_reset: "a CPU loads a tree of EL2 after a reset, and empties EL1 of its TLB",
        Reset on 0, "it has had no TLBI ALLE2 of its own";
    guests::tree_of_el1_goes_to_el2: "a tree goes from EL1 to EL2&0, and the TLBI is for EL1",
        Stale on 0 at 0, "it is for stage 1 of EL1&0";
    guests::empty_tree_of_two_vmids_is_filled: "CPUs with two VMIDs share an empty tree, and it is filled",
        Sequence on 1, "is filled while CPUs have it loaded";
    guests::permissions_without_a_tlbi: "a guest loses a permission without TLBI, though faults are handled",
        Stale on 0 at 0x4000_0000, "no TLBI was issued";

    hosts::not_reported: "a CPU is on the map of a host in EL2&0 and has not reported",
        Unreported on 1 at 0, "has not reported";
    hosts::no_isb_before_its_work: "a host in EL2&0 begins its work without ISB after TTBR1_EL2",
        NotInForce on 0, "cpu 0 wrote ttbr1_el2";
    hosts::writable_by_the_linear_map: "a page is read-only in an area of a host in EL2&0, and writable by its linear map",
        WritableAlias on 0 at 0, "0xffffff8000028000 read-only";
    hosts::use_of_what_is_not_mapped: "a host in EL2&0 reads what its tables do not map",
        TranslationFault on 0 at 0x2_8000, "the tables do not translate it";

    runs::partly_changed: "four pages of a run change",
        ContiguousRun, "may be cached for the whole run";
    runs::changed_before_it_is_seen_dissolved: "a page of a run changes without a DSB after the run is dissolved",
        ContiguousRun at 0, "level 3, 4K, read-only";
    runs::changed_before_it_is_dissolved: "a page of a run changes, then the run is dissolved",
        ContiguousRun at 0, "level 3, 4K, read-only";
    runs::joined_before_all_say_the_same: "a page becomes like its neighbours and, without a DSB, one of their run",
        ContiguousRun at 0, "level 3, 4K, read-only";
    runs::member_stored_by_another_cpu: "another CPU makes a page one of a run in which one changes",
        ContiguousRun at 0, "either may be cached for the whole run";
    runs::member_stored_beside_a_hole: "another CPU makes a page one of a run from which one goes",
        ContiguousRun at 0xe000, "slot 0 of";
    runs::member_among_holes: "a page among holes is mapped as one of a run",
        ContiguousRun at 0x20000, "here it must be a hole";
    runs::member_beside_an_open_operation: "a page becomes one of a run where another operation is to come",
        ContiguousRun at 0, "slot 2 of";
    runs::dissolved_beside_another_operation: "a run is dissolved but for its last page",
        ContiguousRun at 0xe000, "slot 15 of";
    runs::block_of_a_run_split: "a block of a run becomes a table",
        ContiguousRun at 0x60_0000, "slot 3 is not one";
    runs::partly_unmapped: "one page of a run becomes a hole",
        ContiguousRun, "";
    runs::dissolved_in_part: "one member of a run loses the contiguous bit",
        ContiguousRun, "";
    runs::of_two_output_ranges: "the second half of a run is elsewhere",
        ContiguousRun at 0x28000, "slot 32 of";
    runs::one_member_without_the_bit: "the last of a run has no contiguous bit",
        SizeConflict, "the contiguous bit changes";
    runs::output_not_aligned: "a run's output is not aligned to it",
        ContiguousRun, "";

    runs::block_moved_beside_its_run: "a block of a run becomes pages elsewhere, and the others are members",
        BreakBeforeMake at 0x60_0000, "the first is a member of a run";
    runs::table_unlinked_with_a_hole_in_a_run: "a page goes before its table, and is invalidated before it alone",
        Stale at 0x3000, "run of 16";

    alias::alias_in_the_run_of_others: "an alias is unmapped, and the others of its run are members",
        WritableAlias at 0x3000, "run of 16";
    alias::area_before_alias: "a page becomes read-only before its alias",
        WritableAlias at 0, "the tables make 0xffffff8000028000 read-only";
    alias::alias_forgotten: "a page becomes read-only, and its alias does not",
        WritableAlias at 0, "there is 0xffffff8000000000 -> 0x8000000000, level 3, 4K, writable";
    alias::alias_not_invalidated: "the alias is in TLBs when the page becomes read-only",
        WritableAlias on 0 at 0, "may still use";
    alias::alias_not_complete: "the invalidation of the alias has had no DSB",
        WritableAlias at 0, "may still use";
    alias::alias_invalidated_locally: "the invalidation of the alias is local",
        WritableAlias on 1 at 0, "cpu 1 may still use";
    alias::alias_not_repeated: "a CPU needs the invalidation of the alias twice",
        WritableAlias on 1 at 0, "cpu 1 may still use";
    alias::alias_writable_first: "an alias becomes writable before the page does",
        WritableAlias at 0, "the tables make 0xffffff8000000000 writable";
    alias::page_not_invalidated: "an alias becomes writable while TLBs have the page read-only",
        WritableAlias at 0, "may still use 0xffffff8000028000";
    alias::mapped_read_only: "a page is mapped read-only, and its alias is writable",
        WritableAlias at 0, "the tables make 0xffffff8000028000 read-only";
    alias::alias_in_an_unlinked_table: "the alias is unmapped with its table, which TLBs still know",
        WritableAlias at 0, "may still use";
    alias::hardware_may_write_the_alias: "the alias becomes read-only and keeps DBM",
        WritableAlias at 0, "writable";

    remake::old_type_still_cached: "a page comes back not cacheable, and no TLBI was issued",
        BreakBeforeMake at 0, "the memory type changes";
    remake::tlbi_after_it_is_back: "the TLBI comes after the page is back as another type",
        BreakBeforeMake at 0, "the memory type changes";
    remake::shared_without_a_break: "a bit of the output address is set in place",
        BreakBeforeMake at 0, "the output address changes";
    remake::private_without_a_break: "a bit of the output address is cleared in place",
        BreakBeforeMake at 0, "the output address changes";
    remake::step_before_the_tlbi: "a page goes to the host, and TLBs have it",
        Given at 0, "no TLBI was issued";
    remake::alias_stays: "a page is remade not cacheable at one of its two addresses",
        MismatchedAttributes at 0x28000, "and here it is write-back";
    remake::back_beside_a_cached_alias: "a page comes back not cacheable while TLBs have its other address",
        MismatchedAttributes at 0x28000, "cpu 0 may still use";
    remake::used_while_it_is_out: "a page is used while it is out",
        TranslationFault on 1 at 0, "";

    types::ram_as_a_device: "RAM is mapped a second time, as a device",
        MismatchedAttributes at 0, "and here it is write-back, inner shareable";
    types::ram_as_not_cacheable: "RAM is mapped a second time, not cacheable",
        MismatchedAttributes at 0, "the page at 0xffffff8000028000 is not write-back";
    types::ram_with_another_shareability: "RAM is mapped a second time, not shareable",
        MismatchedAttributes at 0, "is write-back, not shareable";
    types::mapped_before_the_tlbi: "RAM is mapped not cacheable before the TLBI of its cacheable mapping",
        MismatchedAttributes at 0, "no TLBI was issued";
    types::mapped_before_the_dsb: "RAM is mapped not cacheable before the TLBI of its cacheable mapping is complete",
        MismatchedAttributes at 0, "cpu 0 has executed no DSB ISH since";
    types::mapped_after_a_local_tlbi: "RAM is mapped not cacheable, and one CPU has its cacheable mapping",
        MismatchedAttributes on 1 at 0, "it is local to cpu 0";
    types::cacheable_again_too_early: "RAM is mapped cacheable while another address has it not cacheable",
        MismatchedAttributes at 0x28000, "and here it is not write-back";
    types::in_another_tree: "the lower half has RAM not cacheable",
        MismatchedAttributes at 0, "the page at 0x0 is not write-back";
    types::device_by_two_types: "a device is mapped a second time, as RAM",
        MismatchedAttributes at 0x28000, "and here it is not write-back";

    everywhere::mapped_twice_in_one_area: "a page becomes read-only everywhere, and is mapped twice in its area",
        NowhereWritable at 0x28000, "there is 0xffffff8000028000 -> 0x8000000000";
    everywhere::mapped_in_another_tree: "a page becomes read-only everywhere, and another tree has it writable",
        NowhereWritable on 1 at 0, "there is 0x0 -> 0x8000000000";
    everywhere::other_address_not_invalidated: "a page becomes read-only everywhere, and TLBs have another address of it",
        NowhereWritable at 0x28000, "may still use 0xffffff8000028000";
    everywhere::other_address_invalidated_locally: "the same, and the TLBI of the other address was local",
        NowhereWritable on 0 at 0x28000, "it is local to cpu 1";
    everywhere::mapped_writable_later: "a page that is read-only everywhere is mapped writable elsewhere",
        NowhereWritable at 0x28000, "was announced to be nowhere writable";
    everywhere::mapped_writable_before_the_promise_is_lifted: "the same, and then the promise is lifted",
        NowhereWritable at 0x28000, "was announced to be nowhere writable";
    everywhere::dirty_managed_elsewhere: "a page becomes read-only everywhere, and DBM lets hardware write it elsewhere",
        NowhereWritable at 0x28000, "writable";
    everywhere::loaded_with_a_writable_page: "a CPU loads a tree that has a page writable which is read-only everywhere",
        NowhereWritable on 1 at 0, "there is 0x0 -> 0x8000000000";
    everywhere::announced_and_writable: "an announcement makes a page writable and says that it is nowhere",
        Sequence at 0, "nowhere writable";

    relax::without_a_handler: "a page becomes writable without a TLBI, and nobody handles spurious faults",
        Stale at 0, "read-only";
    relax::made_stricter: "a page ceases to be executable without a TLBI, and somebody handles spurious faults",
        Stale at 0, "executable";
    relax::relaxed_and_made_stricter: "a page becomes writable and ceases to be executable without a TLBI",
        Stale at 0, "executable";
    relax::relaxed_and_guarded: "a page becomes writable and guarded without a TLBI",
        Stale at 0, "read-only";
    relax::relaxed_for_el0: "a page becomes writable, and EL0's, without a TLBI",
        Stale at 0, "read-only";
    relax::beside_what_is_handled: "two pages become writable without a TLBI, and faults of one are handled",
        Stale at 0x1000, "read-only";
    relax::stricter_afterwards: "a page becomes writable and read-only again without a TLBI",
        Stale at 0, "writable";
    relax::handled_no_more: "spurious faults of a relaxed page are handled no more, and TLBs have it as it was",
        Stale at 0, "read-only";

    given::before_the_tlbi: "a page is given away before the TLBI",
        Given at 0, "no TLBI was issued";
    given::before_the_dsb: "a page is given away before the TLBI's DSB",
        Given at 0, "cpu 0 has executed no DSB ISH since";
    given::before_the_isb: "a page is given away before the ISB of its own CPU",
        Given on 0 at 0, "cpu 0 has had no ISB since the DSB";
    given::after_a_local_tlbi: "the TLBI is local, and there are two CPUs",
        Given on 1 at 0, "it is local to cpu 0";
    given::without_a_dsb_before_the_tlbi: "the DSB before the TLBI does not reach the other CPU",
        Given at 0, "the store had no DSB by then";
    given::mapped_a_second_time: "a page is unmapped and given away, and another address has it",
        Given at 0x28000, "there is 0xffffff8000028000 -> 0x8000000000";
    given::mapped_in_another_tree: "a page is unmapped and given away, and another tree has it",
        Given on 1 at 0, "there is 0x0 -> 0x8000000000";
    given::within_a_block: "pages are given away, and their block is mapped",
        Given at 0x5000, "level 2, 2M";
    given::while_its_run_is_one: "a page is unmapped and given away, and the others of its run are members",
        Given at 0x3000, "run of 16";
    given::with_its_table: "a page goes with its table, and the TLBIs are for walk caches and other pages",
        Given at 0x7000, "may still use";
    given::mapped_before_it_is_taken_back: "a page is mapped that is not taken back",
        Given at 0x28000, "was given away by event";
    given::mapped_with_one_that_is_not_taken_back: "a block is mapped, and one of its pages is not taken back",
        Given at 0x2000, "the page at 0x8000002000 was given away";
    given::loaded_before_it_is_taken_back: "a CPU loads a tree that has a page which is not taken back",
        Given on 0 at 0, "was given away by event";
    given::table_page_in_use: "a table page is given away, and is not given back",
        Given, "is a table page in use";
    hidden::used_after_the_view: "a hidden page is written after the view of it has ended",
        TranslationFault on 0 at 0, "the tables do not translate it";
    hidden::second_view_without_an_isb: "another CPU looks at what was shown, and has had no ISB",
        Unsynchronised on 1 at 0, "cpu 1 has had no ISB since";
    hidden::hidden_by_the_first_view_that_ends: "a page is hidden while another CPU looks",
        TranslationFault on 1 at 0, "the tables do not translate it";
    hotplug::removed_from_within_a_block: "a half of a block is removed and given away, and the TLBI is for another block",
        Given, "was given away";
    hotplug::removed_with_a_block_and_a_page: "a block and a page after it are removed, and the TLBI is for the block",
        Given, "was given away";
    hotplug::added_while_it_is_another_owners: "RAM is added before its owner has given it up",
        Given, "was given away";
    given::given_twice: "a page is given away twice",
        Sequence, "already";
    given::taken_and_not_given: "two pages are taken back of which one was given away",
        Sequence, "some were not given away";
    given::written_with_translation_off: "a CPU whose MMU is off writes to a page that was given away",
        Given on 1, "uses it with translation off";

    tables::freed_before_the_tlbi: "an unlinked table is given back before the TLBI",
        Freed, "walk caches may lead to it";
    tables::freed_before_the_dsb: "an unlinked table is given back before the TLBI's DSB",
        Freed, "cpu 0 has executed no DSB ISH since";
    tables::freed_after_a_last_level_tlbi: "the TLBI leaves walk caches",
        Freed, "drops leaves only";
    tables::freed_after_a_local_tlbi: "the TLBI is local, and there are two CPUs",
        Freed on 1, "it is local to cpu 0";
    tables::freed_while_reachable: "an empty table is given back and still linked",
        Freed, "can be reached from the root";
    tables::reused_before_the_tlbi: "an unlinked table is written before the TLBI",
        Freed, "walk caches may lead to it";
    tables::collapsed_table_freed_before_the_tlbi: "the table that a block replaced is given back at once",
        Freed, "no TLBI was issued";
    tables::freed_twice: "a table is given back twice",
        Sequence, "is free already";
    tables::written_after_it_was_freed: "a table is written that was given back",
        Freed, "which is free";
    tables::freed_after_the_tlbi_of_another: "the TLBI is for another of the unlinked tables",
        Freed at 0x200000, "does not cover the table's addresses";
    tables::freed_while_loaded: "a tree is given back, and a CPU has it in TTBR0",
        Freed, "can be reached from the root";
    tables::not_given_back: "an unlinked table is forgotten",
        Leaked, "was not given back";
    tables::stored_in_a_row_into_a_live_table: "stores into a live table as if they were one",
        Sequence, "32 stores at once";
    tables::linked_twice: "a table is below two slots",
        Sequence, "one place for each table";
    tables::twice_in_a_tree_that_is_not_loaded: "a table is twice in a tree that is announced and not loaded",
        Sequence, "the model knows one place for each table";

    promise::child_with_another_output_address: "in a child a page moves",
        BreakBeforeMake at 0x5000, "the output address changes";
    promise::child_with_another_memory_type: "in a child a page becomes a device",
        BreakBeforeMake at 0x5000, "the memory type changes";
    promise::child_with_another_permission: "in a child a page becomes read-only",
        Translation at 0x5000, "the tables say 0x8000005000, read-only";
    promise::child_with_a_hole: "in a child a page is missing",
        InUse at 0x5000, "do not translate it";
    promise::neighbour_protected_in_a_child: "in a child one page too many becomes read-only",
        Translation at 0x6000, "the tables say 0x8000006000, read-only";
    promise::another_page_protected: "the page after it is protected",
        Translation at 0x4000, "the tables say 0x8000004000, read-only";
    promise::another_page_mapped: "the hole after it is filled",
        Translation at 0x29000, "it must be a hole";
    promise::another_page_unmapped: "the page after it is unmapped",
        InUse at 0x4000, "do not translate it";
    promise::one_page_of_two_protected: "one page of two is left as it was",
        Promised at 0x1000, "the tables say 0x8000001000, writable";
    promise::hole_where_the_leaf_should_be_kept: "a leaf that should be kept is lost",
        Promised at 0, "not valid";
    promise::leaf_kept_where_a_hole_should_be: "a leaf is kept that should be a hole",
        Promised at 0, "it must be a hole";
    promise::changed_outside_of_an_operation: "a page is protected and no operation has begun",
        Translation at 0, "the tables say 0x8000000000, read-only";
    promise::refused_with_a_change_by_another_cpu: "an operation is refused, and another CPU has done it",
        Promised at 0, "read-only";
    promise::refused_with_a_change_left: "an operation is refused, and has done half of it",
        Promised at 0, "the tables say 0x8000000000, read-only";
    promise::read_only_but_dirty_managed: "a page becomes read-only and keeps DBM",
        DirtyManaged at 0, "it must be 0x8000000000, read-only";
    promise::kept_block_split_into_valid_pages: "a block that is not valid becomes pages that are",
        Translation at 0, "not valid";
    promise::collapse_of_a_page_elsewhere: "a table becomes a block, and one page was elsewhere",
        BreakBeforeMake at 0x5000, "the output address changes";
    promise::collapse_of_a_read_only_page: "a table becomes a block, and one page was read-only",
        Translation at 0x5000, "it must be 0x8000005000, read-only";
    promise::mapped_to_another_output_address: "a page is mapped to the next page",
        Translation at 0x28000, "the tables say 0x8000029000";
    promise::shareability_in_the_address: "with DS=1 a page is given a shareability",
        Translation at 0x28000, "the tables say 0xc008000028000";
    promise::update_lost: "two CPUs change a page, the second does not see it",
        LostUpdate, "but meanwhile it is";
    promise::block_at_a_level_without: "a block at level 0",
        Reserved, "no meaning at level 0";
    promise::page_without_bit_1: "a page with the bits of a block",
        Reserved, "no meaning at level 3";
    promise::bit_below_the_address_of_a_block: "a block of 2M with bit 17",
        Reserved at 0x5000000, "the bits 0x20000 of the descriptor";
    promise::bit_above_the_address_of_a_page: "a page with bit 48, where addresses have 48 bits",
        Reserved at 0x28000, "the bits 0x1000000000000 of the descriptor";
    promise::run_of_the_largest_blocks: "a block of 512G with the contiguous bit",
        Reserved, "must be zero at level 0";
    promise::guarded_as_a_page_is: "a table with the bit GP of pages",
        Reserved at 0, "must be zero at level 2";
    promise::returns_from_what_it_did_not_begin: "another CPU returns from an operation",
        Sequence, "no operation is under way";
    promise::cpu_that_is_not_there: "a CPU that the machine has not",
        Sequence, "no CPU 2";

    limits::split_takes_more_than_the_block: "a writable block becomes a table that forbids to write",
        Translation at 0, "read-only";
    limits::collapse_gives_more_than_the_table: "a table that forbids to execute becomes an executable block",
        Translation at 0, "executable";
    limits::restricted_in_place: "a table in use gets a restriction",
        BreakBeforeMake at 0, "walk caches may hold its descriptor as it was";
    limits::linked_again_with_a_restriction: "a table comes back restricted, and walk caches have it as it was",
        BreakBeforeMake at 0, "walk caches may hold its descriptor as it was";
    limits::write_below_a_read_only_table: "a write to a writable page below a table that forbids it",
        PermissionFault on 0 at 0, "it is not writable";
    limits::restriction_of_another_state: "a table leads to Non-secure memory",
        Reserved, "restricts what lies below it";

    park::allocated_while_parked: "a table is taken by a parked CPU",
        Parked, "cpu 0 allocates while cpu 0 is parked";
    park::freed_while_parked: "a table is given back by a parked CPU",
        Parked, "cpu 0 frees while cpu 0 is parked";
    park::allocated_while_another_is_parked: "a table is taken while another CPU is parked",
        Parked, "cpu 0 allocates while cpu 1 is parked";
    park::unparked_without_parking: "a CPU comes back that was not away",
        Sequence, "cpu 0 is not parked";
    park::back_before_the_new_entry: "a CPU comes back to a broken entry",
        InUse on 0 at 0, "do not translate it";
    park::back_without_its_map: "a CPU comes back on the empty table",
        InUse on 0, "";
    park::back_with_a_stale_entry: "a CPU comes back to a page that moved, the old one in its TLB",
        BreakBeforeMake on 1 at 0, "the output address changes on cpu 1";
    park::left_without_an_isb: "a CPU leaves the map without an ISB before its TLBI",
        BreakBeforeMake at 0, "the output address changes on cpu 0";
    park::back_with_a_stale_permission: "a CPU comes back to a page that was protected, the old one in its TLB",
        Stale on 1 at 0, "it is local to cpu 0";
    park::back_late_with_a_stale_permission: "the same, and the operation has returned",
        Stale on 1 at 0, "it is local to cpu 0";
    park::away_without_parking: "a CPU was on the empty table meanwhile, and its TLB was not emptied",
        Stale on 1 at 0, "it is local to cpu 0";
    park::switched_with_the_same_asid: "another address space has the same ASID",
        TtbrSwitch, "may hold entries of the tree";
    park::switched_with_global_pages: "another address space, its pages are global",
        TtbrSwitch, "may hold entries of the tree";
    park::switched_without_the_empty_table: "from one map to another directly",
        TtbrSwitch, "it has had no ISB since";
    park::switched_with_the_tlbi_before_the_isb: "the TLBI comes before the ISB of the empty table",
        TtbrSwitch, "after its ISB";
    park::table_written_through_a_hole: "a table is written through a page that is unmapped",
        Alias, "which does not translate";
    park::table_written_through_a_read_only_page: "a table is written through a page that is read-only",
        Alias, "which is read-only";
    park::table_written_below_the_half: "tables are written by an address below the half of the map",
        Alias on 0, "which does not translate";
    park::table_written_without_a_one_to_one_map: "a parked CPU has no 1:1 map at all",
        Alias on 0, "has no tables for that";
    park::table_not_in_the_one_to_one_map: "a table is not in the 1:1 map that a parked CPU writes through",
        Alias, "which does not translate";

    registers::size_of_another_map: "TCR says 48 bits, and the map in use has 39",
        Control on 0 at 0, "T1SZ is 0x10, and the tables need 0x19";
    registers::granule_as_in_the_other_half: "TG1 is encoded as TG0 is",
        Control at 0, "TG1 is 0x0, and the tables need 0x2";
    registers::too_few_physical_address_bits: "IPS is less than the map reaches",
        Control at 0, "the map reaches 0x8000000";
    registers::tcr_without_a_tlbi: "TCR changes off the map, and no TLBI follows",
        Control, "may hold what tcr_el1 said before";
    registers::tcr_with_the_tlbi_before_the_isb: "TCR changes, and the TLBI comes before the ISB",
        Control, "may hold what tcr_el1 said before";
    registers::tcr_without_an_isb: "TCR changes, and the CPU goes on without an ISB",
        NotInForce on 0, "wrote tcr_el1";
    registers::memory_type_in_use: "MAIR makes the type of a map in use another",
        Control at 0, "the map has type 1 here, which mair_el1 changes from 0xf0 to 0x04";
    registers::memory_type_without_a_tlbi: "MAIR changes off the map, and no TLBI follows",
        Control, "may hold what mair_el1 said before";
    registers::cpus_with_two_meanings_of_a_type: "two CPUs on one map have different values of MAIR",
        Control on 1, "mair_el1 of cpu 1 is 0x440044ffff, and of cpu 0, on the same map, 0x40044f0ff";
    registers::cpus_with_two_kinds_of_walks: "two CPUs on one map have walks of different attributes",
        Control on 1, "tcr_el1 of cpu 1 is";
    registers::asid_of_more_bits_than_tcr_says: "an ASID of 16 bits, and AS is 0",
        Sequence, "ASID 0x100";
    registers::back_without_an_isb: "a CPU comes back to the map without an ISB",
        NotInForce on 0, "wrote ttbr1_el1";
    registers::operation_without_an_isb: "an operation begins on a map that was loaded without an ISB",
        NotInForce on 0, "wrote ttbr1_el1";
    registers::table_written_without_an_isb: "a table is written through a map that was loaded without an ISB",
        NotInForce on 0, "wrote ttbr1_el1";

    power::on_without_a_tlbi: "after a reset, no TLBI before the MMU is on",
        Reset on 1, "its TLB may hold anything";
    power::on_without_the_dsb_of_the_tlbi: "after a reset, no DSB after the TLBI",
        Reset on 1, "its TLB may hold anything";
    power::on_with_the_tlbi_before_the_reset: "the TLBI comes before the reset",
        Reset on 1, "its TLB may hold anything";
    power::on_after_the_tlbi_of_another_cpu: "after a reset, the TLBI is that of another CPU",
        Reset on 1, "no TLBI VMALLE1 of its own";
    power::on_with_tcr_unknown: "after a reset TCR is not written",
        Reset on 1, "tcr_el1 is unknown";
    power::on_with_ttbr0_unknown: "after a reset TTBR0 is not written, and its walks are not disabled",
        Reset on 1, "ttbr0_el1 is unknown";
    power::on_without_an_isb_before: "TCR, MAIR and the TTBRs are written, and the MMU is on without an ISB",
        NotInForce on 1, "and turns translation on without an ISB";
    power::on_without_an_isb_after: "the MMU is on, and the CPU goes on without an ISB",
        NotInForce on 1, "wrote sctlr_el1";
    power::on_with_a_stale_entry: "a CPU was off while a page was protected, the old one in its TLB",
        Stale on 1 at 0x1000, "it is local to cpu 0";
    power::on_with_another_tree: "the MMU was off when TTBR1 changed, and the TLB was not emptied",
        TtbrSwitch on 0, "may hold entries of the tree";
    power::on_with_another_tree_and_tcr: "the MMU was off when all registers changed, and the TLB was not emptied",
        TtbrSwitch on 0, "may hold entries of the tree";
    power::freed_while_it_is_off: "a tree is given back while the MMU is off, and it is on again with that",
        Sequence, "no table page was taken there";
    power::reset_in_an_operation: "a CPU is reset in the midst of an operation",
        Sequence, "is reset in the midst of nothing";

    uncached::line_may_be_modified: "the MMU is off, and nothing cleans a line before it is stored to",
        Uncached on 1, "write it back over that";
    uncached::no_maintenance: "a table is filled with the MMU off, and published without DC IVAC",
        Uncached on 0 at 0, "lacks DC IVAC or CIVAC after the DSB";
    uncached::cleaned_alone: "the lines of such a table are cleaned and not invalidated",
        Uncached on 0 at 0, "lacks DC IVAC or CIVAC after the DSB";
    uncached::cleaned_as_code: "the lines of such a table are cleaned to the point of unification",
        Uncached on 0 at 0, "lacks DC IVAC or CIVAC after the DSB";
    uncached::without_the_last_line: "the last line of such a table is not invalidated",
        Uncached on 0 at 0, "lacks DC IVAC or CIVAC after the DSB";
    uncached::dsb_for_stores_before_it: "the DSB before DC IVAC is for stores alone",
        Uncached on 0 at 0, "lacks DC IVAC or CIVAC after the DSB";
    uncached::no_dsb_after_it: "no DSB after DC IVAC",
        Uncached on 0 at 0, "lacks a DSB after DC IVAC or CIVAC";
    uncached::live_table: "a page is mapped with the MMU off in a table in use, without DC CIVAC",
        Uncached on 1, "lacks DC IVAC or CIVAC after the DSB";
    uncached::own_tables: "a CPU writes its tables with the MMU off, and turns it on without DC IVAC",
        Uncached on 0, "lacks DC IVAC or CIVAC after the DSB";
    uncached::stored_through_a_cache_as_well: "a table is written with the MMU off, then by a CPU with caches",
        Uncached on 0, "through its cache";
    uncached::entry_replaced: "a page is unmapped with the MMU off",
        Sequence, "which is not modelled";

    common::empty_table_in_common: "a CPU leaves the map by the empty table with CnP",
        Common on 1 at 0, "with CnP for the same ASID";
    common::two_trees_in_common: "two CPUs have different trees with CnP",
        Common on 1 at 0, "with CnP for the same ASID";
    common::global_pages_with_two_asids: "two CPUs have different trees with CnP and two ASIDs, and global pages",
        Common on 1, "some of their pages are global";
    common::two_trees_of_one_vmid: "two CPUs have the trees of two guests with CnP, and one VMID",
        Common on 1, "for the same ASID";
    common::shared_with_a_weak_cpu: "a CPU comes back to a split block, which it has not in its TLB but another has",
        SizeConflict on 1 at 0, "cpu 1 may raise a TLB conflict abort";
    common::changed_without_a_tlbi: "CnP is set, and no TLBI follows",
        Control on 0 at 0, "may hold what ttbr1_el1 said before";
    common::with_another_tcr: "CPUs that share entries have different values of TCR",
        Control on 1 at 0, "tcr_el1 of cpu 1 is";

    power::on_after_the_tlbi_of_another_regime: "after a reset, the TLBI is for EL2",
        Reset on 1, "no TLBI VMALLE1 of its own";

    repaint::freed_before_all_have_left: "the old tree is given back while one CPU is on it",
        Freed on 1, "can be reached from the root";
    repaint::changed_before_all_have_left: "a page changes while one CPU is on the old tree",
        Stale on 1 at 0x3000, "cpu 1 is on the tree at";
    repaint::one_comes_back_on_the_old_tree: "one CPU comes back on the old tree",
        Stale on 1 at 0x3000, "cpu 1 is on the tree at";
    repaint::never_given_back: "the old tree is forgotten",
        Leaked, "of a tree that no CPU is on";
    repaint::given_back_but_for_a_table: "of the old tree a table is forgotten",
        Leaked, "of a tree that no CPU is on";
    repaint::without_the_last_change: "in the new tree a page is as it was",
        Translation at 0x3000, "it must be 0x8000003000, read-only";
    repaint::with_a_page_missing: "in the new tree a page is missing",
        InUse at 0x5000, "do not translate it";
    repaint::without_a_dsb: "the new tree is loaded before it is visible",
        Unfilled, "have had no DSB";
    repaint::with_the_block_in_the_tlb: "one CPU does not empty its TLB on the way",
        TtbrSwitch on 1, "may hold entries of the tree";
    repaint::in_place_under_a_cpu_that_may_abort: "the root stays, and a CPU that may abort is on it when its entry is stored",
        SizeConflict on 1 at 0, "cpu 1 may raise a TLB conflict abort";
    repaint::in_place_of_a_leaf_of_the_root: "the same where the root has a leaf",
        SizeConflict on 1 at 0, "cpu 1 may raise a TLB conflict abort";
    repaint::in_place_with_the_block_in_the_tlb: "the root stays, and one CPU does not empty its TLB",
        SizeConflict on 1 at 0, "a TLB may hold";
    repaint::in_place_released_before_the_dsb: "the root stays, and a CPU comes back before the DSB",
        Unfilled on 1, "have had no DSB";
    repaint::in_place_without_a_tlbi: "the root stays, and the old tables are given back without a TLBI",
        Freed on 0, "walk caches";
    repaint::in_place_before_the_tables_are_visible: "the root leads to tables that are not visible yet",
        Unfilled, "no DSB";

    access::of_a_page_that_was_unmapped: "a CPU reads the page that was unmapped, not the one after it",
        TranslationFault on 1 at 0, "the tables do not translate it";
    access::of_a_page_that_is_being_unmapped: "another CPU reads a page after the store that unmaps it",
        TranslationFault on 1 at 0, "the tables do not translate it";
    access::before_the_dsb_of_a_map: "another CPU reads a page before the DSB of the CPU that maps it",
        TranslationFault on 1 at 0x28000, "has had no DSB";
    access::while_parked: "a parked CPU reads the map that it has left",
        TranslationFault on 1 at 0, "the tables do not translate it";
    access::read_without_an_isb: "a page is mapped, and another CPU reads it without an ISB",
        Unsynchronised on 1 at 0x28000, "cpu 1 has had no ISB since";
    access::read_without_an_isb_or_ets2: "the same, and the CPU has no FEAT_ETS2",
        Unsynchronised on 1 at 0x28000, "it has no FEAT_ETS2";
    access::executed_without_an_isb: "a page is mapped, and another CPU executes it without an ISB",
        Unsynchronised on 1 at 0x28000, "FEAT_ETS2 does not order instruction fetches";
    access::mapped_below_a_new_table: "a page is mapped by way of a new table, and another CPU writes without an ISB",
        Unsynchronised on 1 at 0x20_0000, "cpu 1 has had no ISB since";
    access::write_to_a_read_only_page: "another CPU writes to a page that was protected",
        PermissionFault on 1 at 0, "it is not writable";
    access::write_to_a_clean_page: "a CPU that does not manage the dirty state writes to a writable-clean page",
        PermissionFault on 0 at 0x28000, "it is not writable";
    access::write_before_the_tlbi_is_complete: "a page becomes writable, and another CPU writes before the TLBI's DSB",
        PermissionFault on 1 at 0, "cpu 0 has executed no DSB ISH since";
    access::write_before_the_isb_of_the_tlbi: "a page becomes writable, and the CPU writes before its ISB",
        PermissionFault on 0 at 0, "cpu 0 has had no ISB since the DSB";
    access::write_to_a_run_that_becomes_read_only: "a CPU writes to a run of which one page is read-only already",
        PermissionFault on 1 at 0x5000, "run of 16, read-only";
    access::execution_of_data: "a CPU executes a page that is not executable",
        PermissionFault on 0 at 0x28000, "it is not executable at EL1";
    access::execution_of_what_a_user_writes: "EL1 executes a page that EL0 can write",
        PermissionFault on 0 at 0x28000, "it is not executable at EL1";
    access::execution_of_writable_memory_with_wxn: "with SCTLR_EL1.WXN a CPU executes what it can write",
        PermissionFault on 0 at 0, "SCTLR_EL1.WXN is 1";
    access::execution_of_a_line_without_ic_ivau: "code is executed by its virtual address without IC IVAU",
        Code on 0, "lack IC IVAU";
    access::access_flag_clear: "a CPU that does not set the access flag reads a page without it",
        TranslationFault on 0 at 0x28000, "its access flag is 0";
    access::tags_of_memory_without: "tags are read of memory that is not Tagged",
        Untagged on 0 at 0x28000, "its memory type is not Tagged";
    access::tags_on_a_cpu_without: "tags are read by a CPU without FEAT_MTE2",
        Untagged on 1 at 0, "cpu 1 has no allocation tags";
    access::tags_before_the_tlbi: "memory becomes Tagged, and another CPU reads tags before the TLBI",
        Untagged on 1 at 0, "no TLBI was issued";
    access::by_way_of_an_old_table: "a block replaces an empty table, and another CPU reads it before the TLBI",
        TranslationFault on 1 at 0x20_0000, "does not translate it";
    access::by_way_of_an_unseen_store: "a page is made valid in a table that a block replaces, and is read before the DSB",
        TranslationFault on 1 at 0x1ff000, "a store of cpu 1";
    access::by_way_of_a_table_that_is_used_again: "a page is read before the DSB of the table above it",
        TranslationFault on 0 at 0x1ff000, "a store of cpu 0";

    hardware_update::plain_store_over_a_page_without_access_flag: "a page without access flag changes by a plain store",
        LostUpdate on 1 at 0x28000, "the walker of cpu 1 may set its access flag";
    hardware_update::plain_store_over_a_clean_page: "a writable-clean page is unmapped by a plain store",
        LostUpdate on 1 at 0x28000, "the walker of cpu 1 may make it writable-dirty";
    hardware_update::plain_store_where_walkers_update: "a writable-clean page changes by a plain store, and one CPU has TCR.HD set",
        LostUpdate on 1 at 0x28000, "the walker of cpu 1 may make it writable-dirty";
    hardware_update::made_dirty_after_it_was_read: "a store is of what was read before a walker updated it",
        LostUpdate on 0 at 0x28000, "but meanwhile it is";
    hardware_update::failed_swap_not_repeated: "a compare and swap fails because a walker was first, and is not repeated",
        Promised at 0x28000, "it must be 0x8000028000, read-only";
    hardware_update::moved_without_access_flag: "a page moves in place, and a walker may set its access flag",
        BreakBeforeMake at 0x28000, "the output address changes";
    hardware_update::made_clean_without_a_tlbi: "a writable-dirty page becomes writable-clean without a TLBI",
        Stale on 0 at 0x28000, "its dirty state is lost";
    hardware_update::made_clean_and_left: "pages of a split block become writable-clean, and one is not left to a later TLBI",
        Stale at 0x2000, "its dirty state is lost";
    hardware_update::access_flag_by_a_cpu_without: "the walker of a CPU that does not do so sets the access flag",
        Sequence, "does not set the access flag";
    hardware_update::dirty_without_dbm: "a walker makes a page writable that has no DBM",
        Sequence, "has no DBM";
    hardware_update::split_of_a_block_without_access_flag: "a block without access flag is split by a plain store",
        LostUpdate on 0 at 0, "may set its access flag";
    hardware_update::split_of_a_clean_block: "a writable-clean block is split by a plain store",
        LostUpdate on 0 at 0, "may make it writable-dirty";
    hardware_update::update_of_a_hole: "a walker updates a hole",
        Sequence, "no valid leaf to update";

    write_execute::mapped: "text is mapped writable",
        WriteExecute at 0x28000, "writable, executable";
    write_execute::mapped_without_pxn: "data is mapped without PXN",
        WriteExecute at 0x28000, "writable, executable";
    write_execute::mapped_for_users: "memory that EL0 cannot write is mapped as if it could",
        WriteExecute at 0x28000, "writable, executable";
    write_execute::dirty_managed_text: "text is mapped with DBM",
        WriteExecute at 0x28000, "writable, executable";
    write_execute::text_made_writable: "text becomes writable and stays executable",
        WriteExecute at 0x28000, "writable, executable";
    write_execute::loaded: "a tree with writable text is announced and loaded",
        WriteExecute at 0, "writable, executable";

    order::mapped_past_a_walk_cache: "a page is mapped, and walk caches lead to a table without it",
        NotVisible on 0 at 0x28000, "does not translate it";
    order::mapped_below_an_unseen_table: "a page is mapped in a table that another CPU has linked without a DSB",
        NotVisible on 0 at 0x28000, "the store of cpu 0 has had no DSB";
    order::hole_becomes_part_of_a_block: "a block takes the place of a table with a hole, without an ISB",
        NotVisible on 0 at 0x1ff000, "cpu 0 has had no ISB since the DSB";
    order::freed_while_the_table_above_is_walked: "the TLBI for a table leaves the way to the one above it",
        Freed at 0, "table entries that lead to it stayed";
    order::freed_after_both_at_once: "the TLBIs for a table and for the one above it may act in any order",
        Freed at 0, "table entries that lead to it stayed";
    order::changed_after_it_was_moved: "a page is protected in a table that moved, before the TLBI",
        Freed at 0, "which translated other addresses";
    order::old_page_seen_in_the_old_table: "a page is protected without a DSB, then its table is replaced",
        Stale at 0, "writable";
    order::protected_by_asid_past_an_old_table: "a TLBI of one ASID leaves the way to a table that was replaced",
        Stale at 0, "may be cached with any ASID";
    order::linked_in_a_row_before_they_are_seen: "two tables are linked before another CPU's DSB",
        Unfilled at 0x2_0000_0000, "stores of cpu 1";
    order::page_dropped_before_the_way_to_it: "the TLBI for a page may act before the one for the way to its old table",
        Stale at 0, "so it could be fetched again";
    order::access_flag_set_without_an_isb: "a page has its access flag set without an ISB",
        NotVisible on 0, "no ISB on cpu 0 since the DSB";

    callers::returns_before_the_tlbi_of_another: "a page is read-only already, and who made it so has not invalidated it",
        Stale on 0 at 0x3000, "no TLBI was issued";
    callers::returns_before_the_dsb_of_another: "a page is read-only already, and its invalidation is not complete",
        Stale on 0 at 0x3000, "cpu 1 has executed no DSB ISH since";
    callers::merged_before_the_tlbi: "a table becomes a block, and another caller has yet to invalidate a page of it",
        Pending on 1 at 0x3000, "the range is merged by cpu 0";
    callers::merged_before_the_tlbi_of_a_table: "a block is made of blocks, and another caller has yet to invalidate a table",
        Pending on 1 at 0, "cpu 0 merges what is there";
    callers::run_formed_before_the_tlbi: "pages become a run, and another caller has yet to invalidate one of them",
        Pending on 1 at 0x3000, "the range is merged by cpu 0";
    callers::retyped_before_the_tlbi: "a hole becomes a device, and another caller has yet to invalidate what it unmapped",
        BreakBeforeMake at 0x3000, "the memory type changes";
    callers::freed_before_the_tlbi: "a table is given back, and another caller has yet to invalidate pages of it",
        Pending on 1 at 0x1000, "the range loses its table by cpu 0";
    callers::returns_before_what_was_left: "a page is read-only already, and its invalidation was left for later",
        Stale on 0 at 0x3000, "no TLBI was issued";
    callers::merged_before_what_was_left: "a table becomes a block before an invalidation that was left for later",
        Pending on 0 at 0x3000, "the range is merged by cpu 0";
    callers::run_formed_before_what_was_left: "pages become a run before an invalidation that was left for later",
        Pending on 0 at 0x3000, "the range is merged by cpu 1";
    callers::retyped_before_what_was_left: "an invalid page becomes a device's before an invalidation that was left for later",
        BreakBeforeMake at 0x3000, "the memory type changes";
    callers::freed_under_a_reader: "a table is given back before a reader has ended that began when it was live",
        UnderReader on 1, "cpu 1 reads since event";
    callers::freed_under_a_nested_reader: "a table is given back when a reader has ended the inner one of two sections",
        UnderReader on 1, "cpu 1 reads since event";
    callers::written_under_a_reader: "a table is used anew before a reader has ended",
        UnderReader on 1, "is written";
    callers::unlinked_while_parked_and_freed_under_a_reader: "a table that was unlinked while CPUs were parked is given back at once",
        UnderReader on 1, "is given back";
    callers::old_tree_freed_under_a_reader: "the old tree is given back after the switch, and a reader began before",
        UnderReader on 1, "is given back";
    callers::ends_what_it_never_began: "a CPU ends a section of reading twice",
        Sequence on 1, "never began to read";
    callers::reset_while_it_reads: "a CPU is reset while it reads",
        Sequence on 1, "is reset while it reads";
    callers::pinned_and_merged: "a table becomes a block, and one of its pages is pinned",
        StaysSplit on 0 at 0x3000, "one of 0x1000 bytes stays split";
    callers::pinned_and_made_a_run: "pages become a run, and one of them is pinned",
        StaysSplit on 0 at 0x3000, "makes a leaf of 0x10000 bytes";
    callers::pinned_and_merged_while_parked: "a table is broken and made a block while CPUs are parked, and it is pinned",
        StaysSplit on 0 at 0x3000, "makes a leaf of 0x200000 bytes";
    callers::pinned_after_a_repaint: "a page of a tree that has taken the place of the first is pinned, and merged",
        StaysSplit on 0 at 0x3000, "one of 0x1000 bytes stays split";

    code::with_barriers_of_its_own: "the DSBs are for the CPU that stores alone",
        Code, "lack DSB ISH";
    code::without_dc_cvau: "code is not cleaned",
        Code, "lack DC CVAU";
    code::without_dsb_before_ic_ivau: "no DSB before IC IVAU",
        Code, "lack IC IVAU";
    code::without_ic_ivau: "no IC IVAU",
        Code, "lack IC IVAU";
    code::without_dsb_after_ic_ivau: "no DSB after IC IVAU",
        Code, "lack DSB ISH after IC IVAU";
    code::without_isb_on_the_other_cpu: "no ISB on the CPU that did not store",
        Code on 1, "lack an ISB on this CPU";
    code::another_line_maintained: "the maintenance is of the next line",
        Code, "lack DC CVAU";
    code::another_instruction_of_a_stored_line: "an instruction is executed, and another in its line was stored",
        Code on 0, "lack DC CVAU";
}

#[test]
fn every_mutant_is_caught_and_made_right_is_not() {
    let start = Instant::now();
    let failures: Vec<String> = MUTANTS.iter().filter_map(|m| m.judge().err()).collect();
    println!("{} mutants, wrong and right: {:?}", MUTANTS.len(), start.elapsed());
    assert!(failures.is_empty(), "{} of {}:\n\n{}", failures.len(), MUTANTS.len(), failures.join("\n\n"));
}

#[test]
fn every_rule_has_a_mutant() {
    let caught: BTreeSet<Rule> = MUTANTS.iter().map(|m| m.rule).collect();
    assert_eq!(caught, Rule::ALL.iter().copied().collect());
    assert!(MUTANTS.len() >= 45, "{} mutants", MUTANTS.len());
}

impl Mutant {
    /// Why the model does not judge it as it should.
    fn judge(&self) -> Result<(), String> {
        let (name, wrong) = (self.name, self.wrong);
        (self.story)(false).play(true).map_err(|b| format!("{name}: made right, and caught:\n{b}"))?;
        let Err(breach) = (self.story)(true).play(self.rule == Rule::Leaked) else {
            return Err(format!("{name}: not caught: {wrong}"));
        };
        let expected = [
            (breach.rule == self.rule, format!("by {:?}", self.rule)),
            (self.cpu.is_none() || breach.cpu == self.cpu, format!("on {:?}", self.cpu)),
            (
                self.at.is_none() || breach.va.map(|va| va.0 & WITHIN_HALF) == self.at,
                format!("at {:x?}", self.at),
            ),
            (breach.to_string().contains(self.says), format!("as {:?}", self.says)),
        ];
        match expected.into_iter().find(|e| !e.0) {
            Some((_, what)) => Err(format!("{name}: {wrong}; it should be caught {what}:\n{breach}")),
            None => Ok(()),
        }
    }
}
