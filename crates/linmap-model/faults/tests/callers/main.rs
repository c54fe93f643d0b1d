//! The protocol of several callers with one mistake at a time: some schedule shows each of them.
//!
//! The scenes are those of the model's own tests (`crates/linmap-model/tests/concurrent`), with the library that has mistakes.

extern crate model as linmap_model;

#[allow(dead_code)] // used by the model's own tests
#[path = "../../../tests/live/aliased.rs"]
mod aliased;
#[path = "../../../tests/concurrent/cut.rs"]
mod cut;
#[allow(dead_code)]
#[path = "../../../tests/live/flat.rs"]
mod flat;
#[allow(dead_code)]
#[path = "../../../tests/live/operation.rs"]
mod operation;
#[allow(dead_code)]
#[path = "../../../tests/live/remade.rs"]
mod remade;
#[allow(dead_code)]
#[path = "../../../tests/concurrent/scene.rs"]
mod scene;
#[path = "../../../tests/concurrent/serial.rs"]
mod serial;
#[allow(dead_code)]
#[path = "../../../tests/concurrent/system.rs"]
mod system;

use std::panic::{AssertUnwindSafe, catch_unwind};

use linmap::error::ChangeError;
use linmap::host::HostMemory;
use linmap::mistakes::{Patch, switch_on};
use linmap::{
    Attributes, Change, ChangeFlags, Geometry, Granule, Half, OaFormat, Pa, Policy, Reserved, SharedSpace,
    Tree, Va,
};
use shuttle::scheduler::PctScheduler;
use shuttle::{Config, MaxSteps, Runner};

use aliased::Set;
use operation::{List, Operation, What};
use scene::{AREA, BLOCK, BORDER, HOLE, NEXT_BLOCK, OFFSET, Scene, Step, does, far, on};

const READ_ONLY: What = What::Protect(Change::READ_ONLY);
const INVALID: What = What::SetValid(false);
const MAP: What = What::Map(0xa000_0000, Attributes::RAM);
const COLLAPSE: Step = does(BLOCK, 512, What::Collapse);
const UNMAP: Step = does(BLOCK, 512, What::Unmap);
const IN_PAGES: [Operation; 1] = [on(BLOCK, 512, What::SplitToPages)];
const NEXT_BLOCK_IN_PAGES: [Operation; 1] = [on(NEXT_BLOCK, 512, What::SplitToPages)];

const BORDER_IN_PAGES: [Operation; 1] = [on(BORDER - 512, 1024, What::SplitToPages)];

/// Each mistake, two callers by whom it shows, and the beginning of what is said of it.
fn faults() -> Vec<(Patch, [Step; 2], &'static [Operation], &'static str)> {
    let across = does(BORDER - 3, 6, READ_ONLY);
    let long = does(BLOCK, 512, READ_ONLY);
    let apart = List { stride: 3, reverse: false, twice: false };
    let apart = does(BLOCK + 1, 12, What::ChangePages(Change::READ_ONLY, ChangeFlags::empty(), apart));
    let area = does(AREA, 5, What::Aliased(Set::ReadOnly, OFFSET));
    let one = does(BLOCK + 203, 1, INVALID);
    vec![
        (Patch::LocksInAnyOrder, [across, does(BORDER - 100, 200, INVALID)], &[], "deadlock"),
        (Patch::NoGrace, [COLLAPSE, Step::Visits], &IN_PAGES, "UnderReader"),
        (Patch::NoGraceForWhole, [UNMAP, Step::Visits], &IN_PAGES, "UnderReader"),
        (Patch::WholeRetiredEarly, [UNMAP, Step::Visits], &IN_PAGES, "Freed"),
        (Patch::CountLost, [one, Step::Asks], &IN_PAGES, "assertion `left == right` failed: the counts"),
        (
            Patch::LastGigabyteForgotten,
            [across, does(BORDER + 1, 1, INVALID)],
            &BORDER_IN_PAGES,
            "NotVisible",
        ),
        (Patch::TableUnagreed, [Step::Does(far(1, 3, MAP)), Step::Does(far(2, 2, MAP))], &[], "LostUpdate"),
        (Patch::TableNotAwaited, [Step::Does(far(1, 3, MAP)), Step::Does(far(2, 2, MAP))], &[], "NotVisible"),
        (Patch::ClaimAfterSurvey, [long, does(BLOCK + 100, 2, What::Unmap)], &IN_PAGES, "Translation"),
        (Patch::ClaimsAfterSurvey, [apart, does(BLOCK + 4, 1, What::Unmap)], &IN_PAGES, "Translation"),
        (Patch::AliasesNotClaimed, [area, does(BLOCK + 9, 1, What::Unmap)], &[], "NowhereWritable"),
        (Patch::SideNotFinished, [area, Step::Visits], &[], "WritableAlias"),
        (Patch::LooksBeforeLock, [does(BLOCK + 190, 40, READ_ONLY), one], &IN_PAGES, "Stale"),
        (Patch::ClaimsIgnored, [long, one], &IN_PAGES, "Promised"),
        (Patch::CollapsesClaimed, [long, COLLAPSE], &IN_PAGES, "Pending"),
        (Patch::MergesWhatStaysSplit, [Step::Pins(BLOCK, 512), COLLAPSE], &IN_PAGES, "StaysSplit"),
        (Patch::NoDsbBetweenHolds, [does(HOLE, 600, MAP), does(HOLE + 620, 3, MAP)], &[], "NotVisible"),
        (
            Patch::NoDsbAfterCut,
            [does(BLOCK + 200, 400, INVALID), does(BLOCK + 9, 1, INVALID)],
            &NEXT_BLOCK_IN_PAGES,
            "Stale",
        ),
    ]
}

/// Tries schedules of two callers. Returns what the first that fails says.
fn fails(pair: &[Step], before: &[Operation]) -> Option<String> {
    let area = pair.iter().any(|step| matches!(step, Step::Does(Operation { what: What::Aliased(..), .. })));
    let far = far(0, 0, MAP).va;
    let upper =
        pair.iter().any(|step| matches!(step, Step::Does(o) if (far..far + (1 << 39)).contains(&o.va)));
    let wide = !area && !upper;
    let scene = Scene { wide, upper, area, policy: Policy::Live, ..Scene::new(pair).after(before) };
    let mut config = Config::new();
    (config.stack_size, config.max_steps) = (1 << 18, MaxSteps::FailAfter(100_000));
    // A fixed seed that shows each mistake early: this shows that what is wrong is found, and finds nothing new.
    let runner = Runner::new(PctScheduler::new_from_seed(8, 3, 20_000), config);
    let failed = catch_unwind(AssertUnwindSafe(|| runner.run(move || scene.run()))).err()?;
    Some(failed.downcast_ref::<String>().cloned().unwrap_or_default())
}

/// One after the other: a mistake is switched on for the whole process.
#[test]
fn each_fault_shows_in_some_schedule() {
    let mut wrong = Vec::new();
    for (patch, pair, before, expected) in faults() {
        switch_on(Some(patch));
        let said = fails(&pair, before);
        switch_on(None);
        if !said.as_ref().is_some_and(|said| said.starts_with(expected)) {
            wrong.push(format!("{patch:?}: {}", said.unwrap_or_else(|| "no schedule fails".into())));
        }
    }
    assert!(fewer_tables() && wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// With fewer table pages than promised an operation that had taken them fails.
fn fewer_tables() -> bool {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
    let start = Va(g.base(Half::Upper));
    let protects = |patch| {
        let memory = HostMemory::new(g, 32);
        let platform = memory.platform();
        let tree = Tree::build(&platform, g, Half::Upper, core::iter::empty()).expect("one page");
        let space = SharedSpace::adopt(tree);
        space.set_policy(Policy::Live);
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&platform).map(start, 2 << 18, Pa(0), Attributes::RAM) }.expect("tables enough");
        switch_on(patch);
        let reserved = Reserved::take(&platform, space.most_tables()).expect("pages enough");
        let (va, pages) = (Va(start.0 + (1 << 20)), 1 << 18);
        // SAFETY: the same.
        let result = unsafe { space.on(&reserved).protect(va, pages, Change::READ_ONLY) };
        switch_on(None);
        result
    };
    protects(None).is_ok()
        && matches!(protects(Some(Patch::FewerTables)), Err(ChangeError::OutOfFrames { .. }))
}

#[test]
fn every_fault_of_callers_is_made() {
    for patch in Patch::OF_CALLERS {
        let made = faults().iter().any(|row| row.0 == *patch) || *patch == Patch::FewerTables;
        assert!(made, "{patch:?} is never made");
    }
}
