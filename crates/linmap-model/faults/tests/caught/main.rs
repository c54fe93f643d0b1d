//! The library with one mistake at a time: each is caught, by the rule that it breaks.
//!
//! The model's own tests break the rules in sequences written by hand (`crates/linmap-model/tests/mutants`); here the library
//! breaks them.

extern crate model as linmap_model;

#[allow(dead_code)]
#[path = "../../../tests/live/aliased.rs"]
mod aliased;
mod fault;
mod faulty;
#[allow(dead_code)] // used by the model's own tests
#[path = "../../../tests/live/flat.rs"]
mod flat;
mod interrupted;
#[path = "../../../tests/live/many_locks.rs"]
mod many_locks;
#[allow(dead_code)]
#[path = "../../../tests/live/operation.rs"]
mod operation;
#[allow(dead_code)]
#[path = "../../../tests/live/remade.rs"]
mod remade;
mod scene;
#[path = "../../../tests/live/watched.rs"]
mod watched;
#[allow(dead_code)]
#[path = "../../../tests/live/world.rs"]
mod world;

use linmap::mistakes::Patch;
use linmap::{Attributes, Change, MemoryType, Policy};
use linmap_model::observed::Finding;
use linmap_model::{Core, Rule};
use test_support::is_as_stored;

use aliased::Set;
use fault::{Fault, How};
use operation::What;
use remade::Remade;
use scene::Scene;
use watched::{findings, is_no_breach};

const READ_ONLY: What = What::Protect(Change::READ_ONLY);
const WRITABLE: What = What::Protect(Change::WRITABLE);
const VALID: What = What::SetValid(true);
const INVALID: What = What::SetValid(false);
const MAP: What = What::Map(1 << 41, Attributes::RAM);
/// Some pages of the map, mapped a second time.
const MAP_TWICE: What = What::Map((1 << 40) + 599 * 4096, Attributes::RAM);
/// Some pages of the map's run, and pages of the map that become a run where they are mapped a second time.
const MAP_PART_OF_RUN: What = What::Map((1 << 40) + (scene::RUN + 4) * 4096, Attributes::RAM);
const MAP_AS_RUN: What = What::Map((1 << 40) + 528 * 4096, Attributes::RAM);
const ALIASED_RO: What = What::Aliased(Set::ReadOnly, scene::OFFSET);
const ALIASED_ROX: What = What::Aliased(Set::Code, scene::OFFSET);
const ALIASED_RW: What = What::Aliased(Set::Writable, scene::OFFSET);

const NOT_CACHEABLE: Remade = Remade { to_type: Some(MemoryType::NORMAL_NC), ..Remade::NONE };
const REMAKE: What = What::Remake(NOT_CACHEABLE);
const REMAKE_BOTH: What = What::Remake(Remade { linear: Some(scene::OFFSET), ..NOT_CACHEABLE });
/// The bit by which memory is shared.
const SHARE: What = What::Remake(Remade { bits: (1 << 47, 0), ..Remade::NONE });

/// Another CPU that needs each batch of invalidations repeated.
const REPEATS: Core = Core { repeat_tlbi: true, ..Core::STRONG };
const NO_RANGES: Core = Core { range_tlbi: false, ..Core::STRONG };

/// Each mistake, the rule that it breaks, and a scene in which that shows.
fn faults() -> Vec<(Fault, Rule, Scene)> {
    // Pages 0 to 511 of the map are a block, 1,024 pages follow, and a contiguous run.
    let live = Scene::new(&[Core::STRONG, Core::STRONG], Policy::Live);
    let weak = Scene::new(&[Core::STRONG, Core::WEAK], Policy::Live);
    let park = Scene::new(&[Core::STRONG, Core::WEAK], Policy::Park);
    let repeats = Scene::new(&[Core::STRONG, REPEATS], Policy::Live);
    let no_ranges = Scene::new(&[NO_RANGES, Core::STRONG], Policy::Live);
    let kept = live.after(INVALID, 600, 3);
    let split = live.after(READ_ONLY, 100, 1).after(WRITABLE, 100, 1);
    let a_page_of_a_block = live.does(READ_ONLY, 100, 1);
    let a_page = live.does(READ_ONLY, 600, 1);
    let pages = live.does(READ_ONLY, 600, 3);
    let parked = park.does(READ_ONLY, 100, 1);
    let a_table = live.does(What::Unmap, 512, 512);
    let twice = live.after(MAP_TWICE, scene::FREE, 3);
    let protects_area = twice.does(ALIASED_RO, scene::FREE, 3);
    let frees_area = twice.after(ALIASED_RO, scene::FREE, 3).does(ALIASED_RW, scene::FREE, 3);
    let alias_in_run = live.after(MAP_PART_OF_RUN, scene::FREE, 3).does(ALIASED_RO, scene::FREE, 3);
    // The area first: otherwise the barriers of the aliases' batch come in between.
    let area_is_run = live.after(MAP_AS_RUN, scene::FREE, 16).after(ALIASED_RO, scene::FREE, 16);
    let area_in_run = area_is_run.does(ALIASED_RW, scene::FREE + 4, 3);
    let area_of_weak = repeats.after(MAP_TWICE, scene::FREE, 3).does(ALIASED_RO, scene::FREE, 3);
    let remade = live.does(REMAKE, 600, 3);
    let both = twice.does(REMAKE_BOTH, scene::FREE, 3);
    vec![
        (Fault::RemadeNotInvalidated, Rule::Stale, remade.clone()),
        (Fault::RemadeNotInvalidated, Rule::Stale, live.does(REMAKE, 100, 1)),
        (Fault::RemadeInPlace, Rule::Promised, remade.clone()),
        (Fault::RemadeNotVisible, Rule::NotVisible, remade.clone()),
        (Fault::RemadeAsTheFirst, Rule::Promised, live.after(SHARE, 600, 1).does(SHARE, 600, 3)),
        (Fault::RemadeWithoutAliases, Rule::Promised, both.clone()),
        (Fault::RemadeAliasCached, Rule::Stale, both.clone()),
        (Fault::RemadeAliasLost, Rule::Promised, both),
        (
            Fault::RetypedInPlace,
            Rule::BreakBeforeMake,
            live.after(REMAKE, 600, 3).does(What::SetTagged(true), 600, 3),
        ),
        (Fault::NoTlbi, Rule::Stale, remade.clone()),
        (Fault::NoDsbAfterTlbi, Rule::Stale, remade.clone()),
        (Fault::NoDsbAfterStores, Rule::Stale, remade),
        (Fault::NoLock, Rule::LostUpdate, live.interrupted()),
        (Fault::LastPageLeftOut, Rule::Promised, pages.clone()),
        (Fault::StaysDirtyManaged, Rule::DirtyManaged, live.does(READ_ONLY, scene::DIRTY_MANAGED, 1)),
        (Fault::PromiseIgnored, Rule::SizeConflict, weak.does(READ_ONLY, 100, 1)),
        (Fault::PromiseIgnored, Rule::SizeConflict, weak.does(What::SplitToPages, 0, 512)),
        (Fault::NotParked, Rule::SizeConflict, parked),
        (Fault::NoDsbBeforePublishing, Rule::Unfilled, live.creation()),
        (Fault::NoDsbBeforePublishing, Rule::Unfilled, a_page_of_a_block.clone()),
        (Fault::NoDsbBeforePublishing, Rule::Unfilled, live.does(READ_ONLY, 511, 2)),
        (Fault::NoDsbBeforePublishing, Rule::Unfilled, live.does(What::SplitToPages, 0, 512)),
        (Fault::NoDsbBeforePublishing, Rule::Unfilled, live.does(MAP, scene::FREE, 3)),
        (Fault::NoDsbBeforePublishing, Rule::ContiguousRun, live.does(READ_ONLY, scene::RUN + 4, 1)),
        (Fault::NoDsbBeforePublishing, Rule::ContiguousRun, live.does(READ_ONLY, scene::RUN + 4, 3)),
        (Fault::NoDsbBeforePublishing, Rule::ContiguousRun, live.does(READ_ONLY, scene::RUN - 4, 6)),
        (Fault::NoDsbBeforePublishing, Rule::ContiguousRun, alias_in_run.clone()),
        (Fault::NoDsbBeforePublishing, Rule::ContiguousRun, area_in_run.clone()),
        (Fault::OtherAddress, Rule::BreakBeforeMake, a_page_of_a_block.clone()),
        (Fault::OtherMemoryType, Rule::BreakBeforeMake, a_page_of_a_block.clone()),
        (Fault::HoleInTable, Rule::InUse, a_page_of_a_block.clone()),
        (Fault::OtherPermission, Rule::Translation, a_page_of_a_block.clone()),
        (Fault::NoPageBit, Rule::Reserved, a_page_of_a_block),
        (Fault::RunNotDissolved, Rule::ContiguousRun, live.does(READ_ONLY, scene::RUN + 4, 1)),
        (Fault::RunNotDissolved, Rule::ContiguousRun, live.does(READ_ONLY, scene::RUN - 4, 6)),
        (Fault::RunNotDissolved, Rule::ContiguousRun, alias_in_run),
        (Fault::RunNotDissolved, Rule::ContiguousRun, area_in_run),
        (Fault::TakenForAlike, Rule::Translation, live.after(READ_ONLY, 601, 1).does(READ_ONLY, 600, 3)),
        (Fault::NoDsbAfterStores, Rule::NotVisible, kept.does(VALID, 600, 1)),
        (Fault::NoDsbAfterStores, Rule::NotVisible, kept.does(VALID, 600, 3)),
        (Fault::NoDsbAfterStores, Rule::NotVisible, live.does(MAP, scene::FREE, 3)),
        (Fault::NoDsbAfterStores, Rule::Stale, a_page.clone()),
        (Fault::NoTlbi, Rule::Stale, a_page.clone()),
        (Fault::NoTlbi, Rule::Stale, live.does(What::HotRemove(scene::OFFSET), 600, 3)),
        (Fault::NoDsbBeforePublishing, Rule::Unfilled, live.does(What::HotRemove(scene::OFFSET), 100, 3)),
        (
            Fault::SpecialRemoved,
            Rule::InUse,
            live.after(READ_ONLY, 601, 1).does(What::HotRemove(scene::OFFSET), 600, 3),
        ),
        (Fault::NoTlbi, Rule::Stale, pages.clone()),
        (Fault::NoTlbi, Rule::Freed, a_table.clone()),
        (Fault::TlbiOfOnePage, Rule::Stale, pages.clone()),
        (Fault::TlbiOfLeavesOnly, Rule::Freed, a_table.clone()),
        (Fault::TlbiOfLeavesOnly, Rule::Freed, split.does(What::Collapse, 0, 512)),
        // Stale pages that no access uses stay in the TLB until the block changes.
        (Fault::TlbiOfLargeEntries, Rule::Stale, split.does(What::Collapse, 0, 512).does(READ_ONLY, 0, 512)),
        (Fault::TlbiByRange, Rule::TlbiOperand, no_ranges.does(READ_ONLY, 600, 3)),
        (Fault::TlbiOperandTooWide, Rule::TlbiOperand, pages.clone()),
        (Fault::NoDsbAfterTlbi, Rule::Stale, a_page.clone()),
        (Fault::NoDsbAfterTlbi, Rule::Stale, pages.clone()),
        (Fault::NoDsbAfterTlbi, Rule::Freed, a_table.clone()),
        (Fault::NoRepeat, Rule::Stale, repeats.does(READ_ONLY, 600, 1)),
        (Fault::NoRepeat, Rule::Stale, repeats.does(READ_ONLY, 600, 3)),
        (Fault::NoRepeat, Rule::Freed, repeats.does(What::Unmap, 512, 512)),
        (Fault::NoIsb, Rule::NotVisible, kept.does(VALID, 600, 1)),
        (Fault::NoIsb, Rule::NotVisible, kept.does(VALID, 600, 3)),
        (Fault::NoIsb, Rule::Stale, a_page),
        (Fault::WholeNotInvalidated, Rule::Freed, a_table.clone()),
        (Fault::NotGivenBack, Rule::Leaked, a_table),
        (Fault::NotGivenBack, Rule::Leaked, split.does(What::Collapse, 0, 512)),
        (Fault::ChangeForgotten, Rule::Translation, live.overtaken(READ_ONLY, 600, 1)),
        (Fault::ChangeForgotten, Rule::Translation, live.overtaken(READ_ONLY, 100, 1)),
        (Fault::ChangeForgotten, Rule::Translation, live.overtaken(What::Unmap, 0, 600)),
        (Fault::ChangeForgotten, Rule::Translation, live.overtaken(INVALID, 0, 600)),
        (Fault::ChangeForgotten, Rule::InUse, live.overtaken(MAP, scene::FREE, 3)),
        (Fault::ChangeForgotten, Rule::InUse, kept.overtaken(VALID, 600, 1)),
        (Fault::ChangeForgotten, Rule::NowhereWritable, twice.overtaken(ALIASED_RO, scene::FREE, 3)),
        (Fault::AliasNotMarked, Rule::NowhereWritable, twice.overtaken(ALIASED_RO, scene::FREE, 3)),
        (Fault::AliasAfterArea, Rule::WritableAlias, protects_area.clone()),
        (Fault::AliasAfterArea, Rule::WritableAlias, frees_area.clone()),
        (Fault::AliasAfterArea, Rule::WritableAlias, twice.does(ALIASED_ROX, scene::FREE, 3)),
        (Fault::AliasForgotten, Rule::WritableAlias, protects_area.clone()),
        (Fault::AliasForgotten, Rule::Promised, frees_area.clone()),
        (Fault::AliasNotInvalidated, Rule::WritableAlias, protects_area.clone()),
        (Fault::NoTlbi, Rule::WritableAlias, protects_area.clone()),
        (Fault::NoTlbi, Rule::WritableAlias, frees_area),
        (Fault::TlbiOfOnePage, Rule::WritableAlias, protects_area.clone()),
        (Fault::NoDsbAfterStores, Rule::WritableAlias, protects_area.clone()),
        (Fault::NoDsbAfterTlbi, Rule::WritableAlias, protects_area),
        (Fault::NoRepeat, Rule::WritableAlias, area_of_weak),
        (Fault::NoDsbBeforeSwitch, Rule::Unfilled, live.repaints()),
        (Fault::GivenBackBeforeSwitch, Rule::Freed, live.repaints()),
        (Fault::OldTreeNotGivenBack, Rule::Leaked, park.repaints()),
    ]
}

/// The rules that the library cannot break, and why.
const NOT_ITS_OWN: &[(Rule, &str)] = &[
    (Rule::Parked, "the platform is told what to store, and runs nothing of the library meanwhile"),
    (Rule::Alias, "the platform chooses the address by which a table is reached"),
    (Rule::TtbrSwitch, "the platform writes TTBR, and takes CPUs off the map"),
    (Rule::Control, "the platform writes the registers that say what tables mean"),
    (Rule::NotInForce, "the same"),
    (Rule::Uncached, "the library writes tables with the MMU on"),
    (Rule::Reset, "the platform turns the MMU on"),
    (Rule::Common, "the platform writes TTBR, and says with it that entries are common"),
    (Rule::Unreported, "the platform asks CPUs what they are before they use the map"),
    (Rule::Code, "the library stores no instructions"),
    (Rule::WriteExecute, "the library refuses such a change, and its own tests ask for it"),
    (Rule::TranslationFault, "about the addresses that a CPU uses, which is the caller's part"),
    (Rule::PermissionFault, "the same"),
    (Rule::Untagged, "the same"),
    (Rule::Unsynchronised, "about another CPU, on which the caller has the ISB executed"),
    (Rule::MismatchedAttributes, "the caller chooses the memory type of a page"),
    (Rule::Given, "the caller gives pages away, after an operation that is judged when it returns"),
    (Rule::UnderReader, "it takes several callers at once (`tests/callers`)"),
    (Rule::StaysSplit, "the same"),
    (Rule::Pending, "the same"),
    (Rule::Sequence, "about the events that a test makes up, not about tables"),
];

/// The grades of the faults for who does not know what is announced. A log ends where the model stops.
const GRADES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/caught/watched.txt");

/// One after the other: a patch is switched on for the whole process.
#[test]
fn each_fault_is_caught_by_its_rule() {
    let mut grades =
        String::from("# The grade and the rule without announcements; the rule with them; the fault.\n");
    for (fault, rule, scene) in faults() {
        let (verdict, log) = scene.judged(None);
        assert_eq!(verdict, Ok(()), "without a fault, where {fault:?} would be: {scene:?}");
        is_no_breach(&log);
        let (verdict, log) = scene.judged(Some(fault));
        assert_eq!(verdict, Err(rule), "{fault:?}: {scene:?}");
        let seen = |first: &Finding| format!("{}, {:?}", first.grade, first.rule);
        let seen = findings(&log).first().map_or_else(|| "only with announcements".to_owned(), seen);
        grades += &format!("{seen:<28} {:<18} {fault:?}\n", format!("{rule:?}"));
    }
    is_as_stored(GRADES, &grades);
}

#[test]
fn every_fault_is_made_and_every_rule_is_broken() {
    let faults = faults();
    for fault in Fault::ALL {
        assert!(faults.iter().any(|row| row.0 == *fault), "{fault:?} is never made");
    }
    for patch in Patch::ALL.iter().filter(|p| ![Patch::OF_CALLERS, Patch::OF_EXAMPLE].concat().contains(p)) {
        let made = Fault::ALL.iter().filter(|fault| fault.how() == How::InTheText(*patch)).count();
        assert_eq!(made, 1, "faults that are made by the patch {patch:?}");
    }
    for rule in Rule::ALL {
        let broken = faults.iter().any(|row| row.1 == *rule);
        let excused = NOT_ITS_OWN.iter().any(|row| row.0 == *rule);
        assert!(broken != excused, "{rule:?}: broken {broken}, excused {excused}");
    }
}
