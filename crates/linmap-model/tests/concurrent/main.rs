//! Callers on several CPUs at once, in all orders where these are few, in many otherwise: no rule is broken,
//! nothing is lost, and no caller waits for ever.
//!
//! Where a test fails, `shuttle` prints the schedule, which `shuttle::replay` repeats, and the scene is printed
//! that it was of; `LINMAP_SEED` repeats the schedules of that scene. `LINMAP_ORDERS=10` tries thirty times as many.

// One description of what operations do serves these tests too, which use a part of it.
#[allow(dead_code)]
#[path = "../live/aliased.rs"]
mod aliased;
mod cut;
#[allow(dead_code)]
#[path = "../live/flat.rs"]
mod flat;
#[allow(dead_code)]
#[path = "../live/operation.rs"]
mod operation;
#[allow(dead_code)]
#[path = "../live/remade.rs"]
mod remade;
mod scene;
mod serial;
mod system;

use std::panic::{AssertUnwindSafe, catch_unwind};

use linmap::{Attributes, Change, ChangeFlags, Policy};
use shuttle::rand::Rng;
use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};
use test_support::{Rows, number};

use aliased::Set;
use operation::{List, Operation, What};
use scene::{
    AREA, BLOCK, BORDER, GIGABYTES, HOLE, NEXT_BLOCK, OFFSET, PAGES, REPAINT, REPAINT_FAR, RUN, Scene, Step,
    does, far, on,
};
use system::Kind;

const READ_ONLY: What = What::Protect(Change::READ_ONLY);
const WRITABLE: What = What::Protect(Change::WRITABLE);
const EXECUTABLE: What = What::Protect(Change::EXECUTABLE);
const INVALID: What = What::SetValid(false);
const MAP: What = What::Map(0xa000_0000, Attributes::RAM);
const SPLIT: Step = does(BLOCK, 512, What::SplitToPages);
const COLLAPSE: Step = does(BLOCK, 512, What::Collapse);
/// A block in pages.
const IN_PAGES: [Operation; 1] = [on(BLOCK, 512, What::SplitToPages)];

/// The operations of callers, many of them on the same pages.
const STEPS: [Step; 13] = [
    does(BLOCK + 3, 5, READ_ONLY),
    does(BLOCK + 5, 20, WRITABLE),
    does(BLOCK + 4, 2, EXECUTABLE),
    does(BLOCK + 5, 2, What::Unmap),
    does(BLOCK + 3, 600, INVALID),
    does(BLOCK + 7, 600, What::SetValid(true)),
    SPLIT,
    COLLAPSE,
    does(RUN + 3, HOLE - RUN, MAP),
    does(RUN, HOLE - RUN, What::Unmap),
    does(PAGES, 7, MAP),
    Step::Visits,
    Step::Asks,
];

/// A change of the area, and of its aliases.
const fn sets(page: u64, pages: u64, set: Set) -> Step {
    does(AREA + page, pages, What::Aliased(set, OFFSET))
}

/// The operations on the area, or on the blocks that have its memory.
const AREA_STEPS: [Step; 11] = [
    sets(0, 5, Set::ReadOnly),
    sets(0, 2, Set::ReadOnly),
    sets(1, 3, Set::Writable),
    sets(2, 3, Set::Writable),
    sets(1, 1, Set::Code),
    does(AREA, 5, What::Protect(Change::NOT_EXECUTABLE)),
    does(AREA + 2, 2, INVALID),
    does(BLOCK + 4, 1, INVALID),
    does(BLOCK + 3, 3, READ_ONLY),
    SPLIT,
    COLLAPSE,
];

/// Tries schedules until the scheduler has no more, and says how many there were.
fn schedules(scheduler: impl Scheduler + 'static, run: impl Fn() + Send + Sync + 'static) -> usize {
    let mut config = Config::new();
    // What a breach has to say takes room; and who runs for so long runs for ever.
    (config.stack_size, config.max_steps) = (1 << 18, MaxSteps::FailAfter(100_000));
    Runner::new(scheduler, config).run(run)
}

/// The number of orders for a test that asks for `tries`: a fifth of `tries`; with `LINMAP_ORDERS=N`, N times `tries`.
fn drawn(tries: usize) -> usize {
    number("LINMAP_ORDERS").map_or(tries.div_ceil(5), |times| tries * times as usize)
}

/// Any orders.
fn at_random(cases: &mut Rows, tries: usize, run: impl Fn() + Send + Sync + 'static) {
    cases.row(|seed| schedules(RandomScheduler::new_from_seed(seed, drawn(tries)), run));
}

/// Orders that differ in where the callers overtake each other.
fn overtaking(cases: &mut Rows, tries: usize, run: impl Fn() + Send + Sync + 'static) {
    cases.row(|seed| schedules(PctScheduler::new_from_seed(seed, 3, drawn(tries)), run));
}

/// Orders of one scene.
fn some(cases: &mut Rows, scene: Scene, tries: usize) {
    overtaking(cases, tries, move || scene.run());
}

/// All orders, or where these are more, so many and then some of all.
fn all(cases: &mut Rows, scene: &Scene) {
    const MOST: usize = 48;
    cases.row(|seed| {
        let (each, scene) = (scene.clone(), scene.clone());
        if schedules(DfsScheduler::new(Some(MOST), false), move || each.run()) == MOST {
            schedules(PctScheduler::new_from_seed(seed, 3, MOST / 2), move || scene.run());
        }
    });
}

/// Different pages of one leaf, run or table: each caller is judged when it has returned, while the other is somewhere
/// on its way.
#[test]
fn neighbours() {
    let mut cases = Rows::new();
    let far = does(BLOCK + 9, 1, INVALID);
    let rows = [
        ([does(BLOCK + 3, 2, READ_ONLY), far], &[][..]),
        ([does(BLOCK + 16, 16, READ_ONLY), does(BLOCK + 112, 16, What::Unmap)], &[]),
        ([does(BLOCK, 512, READ_ONLY), does(NEXT_BLOCK + 9, 1, READ_ONLY)], &[]),
        ([does(RUN + 1, 2, READ_ONLY), does(RUN + 8, 3, INVALID)], &[]),
        ([does(RUN + 5, 14, INVALID), does(HOLE, 9, MAP)], &[]),
        ([SPLIT, SPLIT], &[]),
        ([SPLIT, far], &[]),
        ([does(BLOCK + 3, 2, READ_ONLY), does(BLOCK + 100, 7, What::Unmap)], &[]),
        ([does(RUN, HOLE - RUN, What::Unmap), does(HOLE, 9, MAP)], &[]),
        ([COLLAPSE, far], &IN_PAGES),
        ([COLLAPSE, Step::Visits], &IN_PAGES),
    ];
    for (pair, before) in rows {
        for policy in [Policy::Live, Policy::Park] {
            all(&mut cases, &Scene { policy, ..Scene::new(&pair).after(before) });
        }
    }
}

/// Pages of a leaf that a long change cuts, and that are not in its range.
#[test]
fn neighbours_of_a_long_change() {
    let mut cases = Rows::new();
    for others in [(BLOCK + 1, 1), (NEXT_BLOCK + 200, 7)] {
        for what in [READ_ONLY, INVALID, What::Unmap] {
            for long in [READ_ONLY, INVALID, What::Unmap, What::Change(Change::READ_ONLY, ChangeFlags::LATER)]
            {
                let pair = [does(BLOCK + 3, 600, long), does(others.0, others.1, what)];
                all(&mut cases, &Scene::new(&pair));
            }
        }
    }
}

/// Changes whose invalidations are left to a flush.
const PENDING: [Step; 6] = [
    does(BLOCK + 3, 1, What::SetPageValid(false)),
    later(BLOCK + 3, 2, Change::READ_ONLY),
    later(BLOCK + 4, 20, Change::INVALID),
    later(BLOCK, 512, Change::READ_ONLY),
    later(BLOCK + 3, 600, Change::INVALID),
    later(RUN + 3, 5, Change::READ_ONLY),
];

/// Others that meet them.
const MEETS: [Step; 11] = [
    does(BLOCK + 3, 1, What::SetPageValid(true)),
    does(BLOCK, 512, What::Flush),
    does(BLOCK + 4, 1, What::Flush),
    does(BLOCK + 3, 5, READ_ONLY),
    does(BLOCK + 4, 1, INVALID),
    does(BLOCK + 3, 5, What::Unmap),
    does(BLOCK, 1024, What::Unmap),
    does(BLOCK + 4, 600, WRITABLE),
    does(RUN, HOLE - RUN, READ_ONLY),
    SPLIT,
    COLLAPSE,
];

const fn later(page: u64, pages: u64, change: Change) -> Step {
    does(page, pages, What::Change(change, ChangeFlags::LATER))
}

/// Every third page, from the last on.
const fn list(page: u64, pages: u64, flags: ChangeFlags) -> Step {
    let list = List { stride: 3, reverse: true, twice: false };
    does(page, pages, What::ChangePages(Change::READ_ONLY, flags, list))
}

/// Some of these steps by each of three callers.
fn any_of_these(cases: &mut Rows, scene: &Scene, steps: &'static [Step], tries: usize) {
    let scene = scene.clone();
    let run = move || {
        let mut random = shuttle::rand::thread_rng();
        let mut some = || (0..3).map(|_| steps[random.gen_range(0..steps.len())]).collect();
        let callers = vec![some(), some(), some()];
        Scene { callers, ..scene.clone() }.run();
    };
    at_random(cases, tries, run.clone());
    overtaking(cases, tries, run);
}

/// Who meets pending invalidations returns without an old translation of its range.
#[test]
fn pending_invalidations() {
    const ALL: [Step; 15] = {
        let mut all = [COLLAPSE; 15];
        let mut n = 0;
        while n < 15 {
            all[n] = if n < 5 { PENDING[n] } else { MEETS[n - 5] };
            n += 1;
        }
        all
    };
    let mut cases = Rows::new();
    for policy in [Policy::Live, Policy::Park] {
        let scene = Scene { policy, ..Scene::new(&[]) };
        for before in [&[][..], &IN_PAGES] {
            for (n, one) in PENDING.iter().enumerate() {
                for other in MEETS.iter().chain(&PENDING[n..]) {
                    let scene = Scene { policy, ..Scene::new(&[*one, *other]) };
                    some(&mut cases, scene.after(before), 15);
                }
            }
        }
        any_of_these(&mut cases, &scene, &ALL, 200);
    }
}

/// The same for lists of pages, as many as change at one moment: those of several groups have no place in an order of callers.
#[test]
fn pending_lists() {
    const STEPS: [Step; 9] = [
        list(BLOCK + 1, 5, ChangeFlags::LATER),
        list(BLOCK + 1, 16, ChangeFlags::LATER),
        list(BLOCK + 1, 16, ChangeFlags::empty()),
        list(BLOCK + 2, 6, ChangeFlags::SKIP_HOLES),
        MEETS[0],
        MEETS[1],
        MEETS[2],
        MEETS[3],
        MEETS[4],
    ];
    let mut cases = Rows::new();
    for policy in [Policy::Live, Policy::Park] {
        for before in [&[][..], &IN_PAGES] {
            let scene = Scene { policy, ..Scene::new(&[]) }.after(before);
            any_of_these(&mut cases, &scene, &STEPS, 150);
        }
    }
}

/// The same in several gigabytes, each with a lock of its own.
#[test]
fn pending_in_several_gigabytes() {
    const STEPS: [Step; 12] = [
        later(BORDER - 3, 6, Change::READ_ONLY),
        later(BORDER - 512, 1024, Change::INVALID),
        later(BORDER + 1, 1, Change::READ_ONLY),
        later(GIGABYTES, 16 << 18, Change::READ_ONLY),
        does(BORDER - 3, 6, What::Flush),
        does(BORDER, 1, What::Flush),
        does(BORDER - 1, 1, READ_ONLY),
        does(BORDER + 1, 2, INVALID),
        does(BORDER - 512, 512, What::Unmap),
        does(BORDER - 512, 512, What::Collapse),
        in_gigabyte(3, 5, 1, READ_ONLY),
        in_gigabyte(9, 0, 1 << 18, What::Flush),
    ];
    let mut cases = Rows::new();
    for policy in [Policy::Live, Policy::Park] {
        for one in &STEPS[..4] {
            for other in STEPS {
                some(&mut cases, Scene { policy, wide: true, ..Scene::new(&[*one, other]) }, 10);
            }
        }
        any_of_these(&mut cases, &Scene { policy, wide: true, ..Scene::new(&[]) }, &STEPS, 150);
    }
}

/// Aliases or the area have pending invalidations when both change.
#[test]
fn areas_with_pending_invalidations() {
    const STEPS: [Step; 9] = [
        later(BLOCK + 4, 1, Change::READ_ONLY),
        later(BLOCK, 512, Change::READ_ONLY),
        later(BLOCK + 3, 600, Change::READ_ONLY),
        later(AREA, 5, Change::INVALID),
        sets(0, 5, Set::ReadOnly),
        sets(0, 2, Set::ReadOnly),
        sets(1, 1, Set::Code),
        sets(2, 3, Set::Writable),
        does(BLOCK, 600, What::Flush),
    ];
    let mut cases = Rows::new();
    for policy in [Policy::Live, Policy::Park] {
        for one in &STEPS[..4] {
            for other in STEPS {
                some(&mut cases, Scene { policy, area: true, ..Scene::new(&[*one, other]) }, 10);
            }
        }
        any_of_these(&mut cases, &Scene { policy, area: true, ..Scene::new(&[]) }, &STEPS, 100);
    }
}

/// The same pages: a caller is judged before the other one stores there.
#[test]
fn the_same_pages() {
    let mut cases = Rows::new();
    let pairs = [
        [does(BLOCK + 3, 5, READ_ONLY), does(BLOCK + 4, 20, EXECUTABLE)],
        [does(BLOCK + 3, 5, INVALID), does(BLOCK + 4, 20, READ_ONLY)],
        [does(BLOCK + 3, 5, What::Unmap), does(BLOCK + 4, 20, READ_ONLY)],
        [does(RUN + 3, 5, READ_ONLY), does(RUN, 16, EXECUTABLE)],
        [does(HOLE, 9, MAP), does(HOLE + 8, 9, MAP)],
        [does(HOLE, 9, MAP), does(HOLE, 9, READ_ONLY)],
        [does(RUN, HOLE - RUN, What::Unmap), does(HOLE, 9, MAP)],
        [does(BLOCK + 3, 5, READ_ONLY), Step::Asks],
        [SPLIT, does(BLOCK + 9, 1, READ_ONLY)],
        [SPLIT, Step::Asks],
    ];
    for pair in &pairs {
        for policy in [Policy::Live, Policy::Park] {
            all(&mut cases, &Scene { policy, ..Scene::new(pair) });
        }
    }
}

/// Any two steps, readers too.
#[test]
fn any_two_steps() {
    let mut cases = Rows::new();
    for (i, &one) in STEPS.iter().enumerate() {
        for &other in &STEPS[i..] {
            for policy in [Policy::Live, Policy::Park] {
                for before in [&[][..], &IN_PAGES] {
                    some(&mut cases, Scene { policy, ..Scene::new(&[one, other]).after(before) }, 15);
                }
            }
        }
    }
}

/// Three callers, three steps each, whatever they are.
#[test]
fn three_callers() {
    let mut cases = Rows::new();
    for policy in [Policy::Live, Policy::Park] {
        let run = move || {
            let mut random = shuttle::rand::thread_rng();
            let mut steps = || (0..3).map(|_| STEPS[random.gen_range(0..STEPS.len())]).collect();
            let callers = vec![steps(), steps(), steps()];
            Scene { policy, callers, ..Scene::new(&[]) }.run();
        };
        at_random(&mut cases, 300, run);
        overtaking(&mut cases, 300, run);
    }
}

/// Leaves are split while three or four CPUs are parked, or have not answered yet.
#[test]
fn more_callers_are_parked() {
    let mut cases = Rows::new();
    let steps = [
        does(BLOCK + 3, 2, READ_ONLY),
        does(NEXT_BLOCK + 9, 1, INVALID),
        does(RUN + 1, 2, READ_ONLY),
        does(BLOCK + 100, 7, What::Unmap),
    ];
    for callers in 2..=steps.len() {
        let scene = Scene { policy: Policy::Park, ..Scene::new(&steps[..callers]) };
        some(&mut cases, scene.clone(), 150);
        at_random(&mut cases, 100, move || scene.run());
    }
}

/// A repaint, and what another does meanwhile: to what has been copied, to what has not, and afterwards.
#[test]
fn a_repaint_and_another_caller() {
    let mut cases = Rows::new();
    let long = [does(BLOCK, 1024, What::SplitToPages), list(BLOCK + 1, 40, ChangeFlags::empty())];
    for policy in [Policy::Live, Policy::Park] {
        // What they look at first may be in pages when they come to change it.
        for step in long {
            some(&mut cases, Scene { policy, ..Scene::new(&[step, REPAINT]) }, 100);
        }
        for step in STEPS {
            for (many, tries) in [(false, 20), (true, 10)] {
                some(&mut cases, Scene { policy, many, ..Scene::new(&[REPAINT, step]) }, tries);
            }
        }
        let far = does(BLOCK + 9, 1, INVALID);
        some(&mut cases, Scene { policy, many: true, ..Scene::new(&[REPAINT, far]) }, 50);
        some(&mut cases, Scene { policy, faults: true, ..Scene::new(&[far, REPAINT]) }, 20);
    }
}

/// The same where the root stays where it is, and is changed entry by entry.
#[test]
fn a_repaint_in_place_and_another_caller() {
    let mut cases = Rows::new();
    for policy in [Policy::Live, Policy::Park] {
        for step in STEPS {
            for (many, tries) in [(false, 10), (true, 5)] {
                some(&mut cases, Scene { policy, many, fixed: true, ..Scene::new(&[REPAINT, step]) }, tries);
            }
        }
        let far = does(BLOCK + 9, 1, INVALID);
        for many in [false, true] {
            let scene = Scene { policy, many, fixed: true, faults: true, ..Scene::new(&[far, REPAINT]) };
            some(&mut cases, scene, 20);
        }
    }
}

/// Two change areas that have memory in common, or leaves of the linear map, or what is theirs by another address.
#[test]
fn areas_with_the_same_memory() {
    let mut cases = Rows::new();
    for policy in [Policy::Live, Policy::Park] {
        for (i, &one) in AREA_STEPS[..5].iter().enumerate() {
            for &other in &AREA_STEPS[i..] {
                some(&mut cases, Scene { policy, area: true, ..Scene::new(&[one, other]) }, 25);
            }
            for other in [Step::Visits, Step::Asks] {
                let scene = Scene { policy, area: true, ..Scene::new(&[one, other]) };
                some(&mut cases, Scene { faults: true, ..scene }, 25);
            }
        }
        all(&mut cases, &Scene { policy, area: true, ..Scene::new(&AREA_STEPS[..2]) });
        // Pages of one leaf, and none in common.
        let apart = [sets(0, 1, Set::ReadOnly), sets(1, 1, Set::ReadOnly)];
        all(&mut cases, &Scene { policy, area: true, ..Scene::new(&apart) });
        let run = move || {
            let mut random = shuttle::rand::thread_rng();
            let mut steps = || (0..3).map(|_| AREA_STEPS[random.gen_range(0..AREA_STEPS.len())]).collect();
            let callers = vec![steps(), steps(), steps()];
            Scene { policy, area: true, callers, ..Scene::new(&[]) }.run();
        };
        overtaking(&mut cases, 150, run);
    }
}

/// A change of an area that takes several holds, beside others on its pages and aliases, and between these.
#[test]
fn long_areas() {
    let mut cases = Rows::new();
    let others = [
        does(BLOCK + 4, 1, INVALID),
        does(BLOCK + 9, 1, What::Unmap),
        does(BLOCK + 100, 2, What::Unmap),
        does(NEXT_BLOCK, 1, What::Unmap),
        does(NEXT_BLOCK + 1, 9, READ_ONLY),
        does(BLOCK + 3, 600, READ_ONLY),
        does(AREA + 1, 2, What::Unmap),
        does(AREA + 4, 1, INVALID),
        COLLAPSE,
        Step::Pins(BLOCK + 4, 2),
        Step::Visits,
    ];
    for long in [sets(0, 5, Set::ReadOnly), sets(0, 5, Set::Writable)] {
        for other in others {
            for before in [&[][..], &IN_PAGES] {
                for (waits, policy) in [(true, Policy::Live), (false, Policy::Live), (true, Policy::Park)] {
                    let scene = Scene { policy, waits, area: true, ..Scene::new(&[long, other]) };
                    some(&mut cases, scene.after(before), 20);
                }
            }
        }
        let one_lock = Scene { locks: 1, area: true, ..Scene::new(&[long, others[0]]) };
        some(&mut cases, one_lock.clone(), 20);
        some(
            &mut cases,
            Scene { waits: false, ..Scene { callers: vec![vec![long], vec![long]], ..one_lock } },
            20,
        );
    }
}

/// A repaint copies what an area and its aliases become meanwhile.
#[test]
fn a_repaint_and_an_area() {
    let mut cases = Rows::new();
    for policy in [Policy::Live, Policy::Park] {
        for &step in &AREA_STEPS[..5] {
            for (many, tries) in [(false, 20), (true, 15)] {
                let scene = Scene { policy, many, area: true, ..Scene::new(&[REPAINT, step]) };
                some(&mut cases, scene, tries);
            }
        }
        let run = move || {
            let mut random = shuttle::rand::thread_rng();
            let mut steps = || (0..3).map(|_| AREA_STEPS[random.gen_range(0..AREA_STEPS.len())]).collect();
            let callers = vec![vec![REPAINT], steps(), steps()];
            Scene { policy, many: true, area: true, callers, ..Scene::new(&[]) }.run();
        };
        overtaking(&mut cases, 40, run);
    }
}

/// Of two repaints at once the second is refused; one after the other, both are done.
#[test]
fn two_repaints() {
    let mut cases = Rows::new();
    for many in [false, true] {
        let far = does(BLOCK + 9, 1, READ_ONLY);
        let scene = Scene { many, ..Scene::new(&[REPAINT, REPAINT, far]) };
        some(&mut cases, scene.clone(), 30);
        at_random(&mut cases, 20, move || scene.run());
    }
}

/// A repaint, and two that do three steps each, whatever they are.
#[test]
fn a_repaint_and_two_other_callers() {
    let mut cases = Rows::new();
    for policy in [Policy::Live, Policy::Park] {
        for many in [false, true] {
            let run = move || {
                let mut random = shuttle::rand::thread_rng();
                let mut steps = || (0..3).map(|_| STEPS[random.gen_range(0..STEPS.len())]).collect();
                let callers = vec![vec![REPAINT], steps(), steps()];
                Scene { policy, many, callers, ..Scene::new(&[]) }.run();
            };
            at_random(&mut cases, 50, run);
            overtaking(&mut cases, 50, run);
        }
    }
}

/// A fault handler that interrupts a caller, wherever it is, is never made to wait.
#[test]
fn faults_interrupt_callers() {
    let mut cases = Rows::new();
    for policy in [Policy::Live, Policy::Park] {
        for step in STEPS {
            some(&mut cases, Scene { policy, faults: true, ..Scene::new(&[step, SPLIT]) }, 50);
        }
    }
}

/// A page of a gigabyte of the run of sixteen.
const fn in_gigabyte(n: u64, page: u64, pages: u64, what: What) -> Step {
    does(GIGABYTES + (n << 18) + page, pages, what)
}

/// Both sides of a border, a range that ends on it, a run that is as large as sixteen gigabytes, and other gigabytes.
#[test]
fn other_gigabytes() {
    let mut cases = Rows::new();
    let across = does(BORDER - 3, 6, READ_ONLY);
    let pairs = [
        [across, does(BLOCK + 9, 1, INVALID)],
        [across, does(BORDER - 100, 2, INVALID)],
        [across, does(BORDER + 100, 2, INVALID)],
        [across, does(BORDER - 2, 1, EXECUTABLE)],
        [does(BORDER - 512, 512, READ_ONLY), does(BORDER, 512, INVALID)],
        [does(BORDER - 512, 512, What::Unmap), does(BORDER, 512, What::Unmap)],
        [does(BORDER - 512, 512, What::Unmap), across],
        [across, does(BORDER, 528, What::SplitToPages)],
        [in_gigabyte(3, 5, 1, READ_ONLY), in_gigabyte(9, 7, 1, INVALID)],
        [in_gigabyte(3, 5, 1, READ_ONLY), in_gigabyte(9, 0, 1 << 18, READ_ONLY)],
        [in_gigabyte(15, (1 << 18) - 1, 1, READ_ONLY), in_gigabyte(0, 0, 16 << 18, INVALID)],
        [in_gigabyte(7, (1 << 18) - 1, 2, INVALID), does(BORDER + 512, 16, READ_ONLY)],
        [in_gigabyte(7, 0, 1 << 18, What::Unmap), Step::Visits],
        [across, Step::Visits],
        [across, Step::Asks],
    ];
    for pair in &pairs {
        let scene = Scene { wide: true, ..Scene::new(pair) };
        all(&mut cases, &scene);
        some(&mut cases, Scene { policy: Policy::Park, ..scene.clone() }, 60);
        some(&mut cases, Scene { locks: 1, ..scene }, 10);
    }
}

/// Any three callers in several gigabytes, with readers.
#[test]
fn three_callers_in_other_gigabytes() {
    const WIDE: [Step; 9] = [
        does(BORDER - 3, 6, READ_ONLY),
        does(BORDER - 5, 4, INVALID),
        does(BORDER - 512, 512, WRITABLE),
        does(BORDER, 528, What::Unmap),
        does(BORDER, 40, MAP),
        in_gigabyte(0, 3, 1, READ_ONLY),
        in_gigabyte(15, 3, 1, INVALID),
        Step::Visits,
        Step::Asks,
    ];
    let mut cases = Rows::new();
    for policy in [Policy::Live, Policy::Park] {
        let run = move || {
            let mut random = shuttle::rand::thread_rng();
            let mut steps = || (0..2).map(|_| WIDE[random.gen_range(0..WIDE.len())]).collect();
            let callers = vec![steps(), steps(), steps()];
            let locks = [8, 64][random.gen_range(0..2)];
            Scene { policy, wide: true, callers, locks, ..Scene::new(&[]) }.run();
        };
        at_random(&mut cases, 150, run);
        overtaking(&mut cases, 250, run);
    }
}

/// Tables take the place of a hole that translates several gigabytes, under one lock that all agree on, while others map, look
/// and take tables away in gigabytes of the same hole.
#[test]
fn tables_in_the_same_hole() {
    const STEPS: [Operation; 8] = [
        far(1, 3, MAP),
        far(2, 2, MAP),
        far(1, 3, What::Unmap),
        far(2, 2, READ_ONLY),
        far(65, 1, MAP),
        // A leaf of a gigabyte, and pages on both sides of a border.
        far(3, 1 << 18, What::Map(1 << 30, Attributes::RAM)),
        Operation { va: far(2, 0, MAP).va - 4096, pages: 2, ..far(2, 2, MAP) },
        far(64, 40, MAP),
    ];
    const LEAF: usize = 5;
    let step = |n: usize| Step::Does(STEPS[n]);
    let mut cases = Rows::new();
    for policy in [Policy::Live, Policy::Park] {
        let scene = Scene { policy, upper: true, ..Scene::new(&[]) };
        for one in 0..STEPS.len() {
            for other in one..STEPS.len() {
                for before in [&[][..], &STEPS[..1]] {
                    let callers = vec![vec![step(one)], vec![step(other)]];
                    some(&mut cases, Scene { callers, ..scene.clone() }.after(before), 10);
                }
            }
            // A leaf of a gigabyte would take as many tables as the model has pages.
            if one != LEAF {
                let callers = vec![vec![REPAINT_FAR], vec![step(one), Step::Visits, step(2)]];
                some(&mut cases, Scene { callers, ..scene.clone() }, 30);
            }
        }
        // What is published at once is in several gigabytes, and more than a hold stores.
        let across = Operation { va: far(2, 0, MAP).va - 600 * 4096, pages: 1200, ..far(2, 2, MAP) };
        for other in [REPAINT_FAR, step(1), step(3), step(6)] {
            let callers = vec![vec![other], vec![Step::Does(across), Step::Visits]];
            some(&mut cases, Scene { callers, ..scene.clone() }, 60);
        }
        all(&mut cases, &Scene { callers: vec![vec![step(0)], vec![step(1)]], ..scene.clone() });
        let one_lock = Scene { locks: 1, callers: vec![vec![step(0)], vec![step(4)]], ..scene.clone() };
        some(&mut cases, one_lock, 20);
        let run = move || {
            let mut random = shuttle::rand::thread_rng();
            let mut steps = || (0..3).map(|_| Step::Does(STEPS[random.gen_range(0..STEPS.len())])).collect();
            let callers = vec![steps(), steps(), steps()];
            let locks = [8, 64][random.gen_range(0..2)];
            Scene { callers, locks, ..scene.clone() }.run();
        };
        overtaking(&mut cases, 150, run);
    }
}

/// Operations of more entries than a hold may have, beside others: these wait, or are told that it is busy.
#[test]
fn long_operations() {
    let mut cases = Rows::new();
    let long = [
        does(BLOCK, 512, READ_ONLY),
        does(BLOCK + 200, 400, INVALID),
        does(BLOCK + 100, 100, What::Unmap),
        does(RUN, HOLE - RUN, What::Unmap),
        does(HOLE, 100, MAP),
    ];
    let others = [
        does(BLOCK + 203, 2, EXECUTABLE),
        does(BLOCK + 150, 100, WRITABLE),
        does(HOLE + 200, 60, MAP),
        does(HOLE + 90, 3, MAP),
        COLLAPSE,
        Step::Visits,
        Step::Asks,
    ];
    for one in long {
        for other in long.into_iter().chain(others) {
            for waits in [true, false] {
                some(&mut cases, Scene { waits, ..Scene::new(&[one, other]).after(&IN_PAGES) }, 25);
            }
        }
        some(&mut cases, Scene { faults: true, ..Scene::new(&[one, others[0]]).after(&IN_PAGES) }, 4);
        some(&mut cases, Scene { locks: 1, ..Scene::new(&[one, others[1]]).after(&IN_PAGES) }, 8);
    }
}

/// An operation of many entries cuts a leaf at its start, and another caller changes the rest of that leaf after that hold.
#[test]
fn long_operations_cut_leaves() {
    let mut cases = Rows::new();
    let before = [on(NEXT_BLOCK, 512, What::SplitToPages)];
    for what in [READ_ONLY, INVALID, What::Unmap] {
        for other in [does(BLOCK + 9, 1, INVALID), does(BLOCK + 9, 2, What::Unmap), SPLIT, Step::Visits] {
            for policy in [Policy::Live, Policy::Park] {
                let scene = Scene { policy, ..Scene::new(&[does(BLOCK + 200, 400, what), other]) };
                some(&mut cases, scene.after(&before), 25);
            }
        }
    }
}

/// Pinned pages stay split when other callers collapse.
#[test]
fn pinned_pages() {
    let mut cases = Rows::new();
    for other in [COLLAPSE, SPLIT, does(BLOCK + 3, 5, READ_ONLY), Step::Pins(BLOCK + 100, 20), Step::Visits] {
        for before in [&[][..], &IN_PAGES] {
            for policy in [Policy::Live, Policy::Park] {
                let pins = Step::Pins(BLOCK + 5, 2);
                let callers = vec![vec![pins, COLLAPSE], vec![other, COLLAPSE]];
                some(&mut cases, Scene { policy, callers, ..Scene::new(&[]).after(before) }, 30);
            }
        }
    }
}

/// No CPU answers when it is called: nothing that takes a parking is done, and everything else is.
#[test]
fn cpus_that_do_not_answer() {
    let mut cases = Rows::new();
    let far = does(BLOCK + 9, 1, INVALID);
    for pair in [[SPLIT, far], [far, does(HOLE, 9, MAP)], [COLLAPSE, Step::Visits], [REPAINT, far]] {
        let scene = Scene { policy: Policy::Park, silent: true, ..Scene::new(&pair) };
        some(&mut cases, scene.clone(), 60);
        some(&mut cases, Scene { locks: 1, ..scene }, 20);
    }
}

/// These tests can fail: with a platform that breaks its promises, some schedule does.
#[test]
fn a_broken_platform_is_found() {
    let far = does(BLOCK + 9, 1, READ_ONLY);
    let across = does(BORDER - 3, 6, READ_ONLY);
    let rows = [
        (Kind::NoLock, [SPLIT, SPLIT], &[][..], "LostUpdate"),
        (Kind::NoGrace, [COLLAPSE, Step::Visits], &IN_PAGES, "UnderReader"),
        (Kind::LetsGoEarly, [COLLAPSE, far], &IN_PAGES, "Stale"),
        (Kind::Deaf, [SPLIT, far], &[], "deadlock"),
        (Kind::Turned, [across, does(BORDER - 100, 200, INVALID)], &[], "deadlock"),
        (Kind::ParksHolders, [SPLIT, does(BORDER + 600, 9, MAP)], &[], "Unfilled"),
    ];
    for (kind, pair, before, expected) in rows {
        let parks = matches!(kind, Kind::Deaf | Kind::ParksHolders);
        let policy = if parks { Policy::Park } else { Policy::Live };
        let scene = Scene { kind, policy, wide: true, ..Scene::new(&pair).after(before) };
        // A fixed seed: this shows that what is wrong is found, and finds nothing new.
        let scheduler = PctScheduler::new_from_seed(1, 3, 1000);
        let failed = catch_unwind(AssertUnwindSafe(|| schedules(scheduler, move || scene.run())));
        let why = failed.expect_err(expected);
        let why = why.downcast_ref::<String>().map_or("", String::as_str);
        assert!(why.starts_with(expected), "{kind:?} leads to {why}");
    }
}
