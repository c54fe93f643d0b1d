//! Tests of the naive model itself: each rule, kept and broken.

use linmap_model::{Barrier::*, Core, Event, Rule, Tlb::*};

use crate::descriptor::{BLOCK, CONTIGUOUS, DIRTY_MANAGED, PAGE, READ_ONLY, VALID};
use crate::places::{
    AS_BLOCK, BASE, CHILD, L2, Layout, as_page, begin, change, done, dsb, fill, isb, kept, link, page_at,
    tlbi, tlbi_all, tlbi_block, write,
};
use crate::{Case, agree};

const STRONG: Core = Core::STRONG;
const WEAK: Core = Core::WEAK;
const OTHER: u64 = CHILD + PAGE;

/// All rules that the first wrong event breaks, and its number; or that all are right.
fn judge(cores: &[Core], layout: Layout, events: &[Event]) -> Option<(usize, Vec<Rule>)> {
    let mut case = Case::new(cores, layout, layout == Layout::Run, 0);
    case.events = events.to_vec();
    let (verdict, judged) = case.naive();
    assert!(verdict.is_some() || judged == events.len(), "event {judged} is out of scope");
    assert!(agree(&verdict, &case.machine(judged)), "{}", case.report());
    verdict.map(|(at, broken)| (at, broken.into_iter().collect()))
}

#[track_caller]
pub(crate) fn right(cores: &[Core], layout: Layout, events: &[Event]) {
    assert_eq!(judge(cores, layout, events), None);
}

#[track_caller]
pub(crate) fn wrong(cores: &[Core], layout: Layout, events: &[Event], at: usize, rules: &[Rule]) {
    assert_eq!(judge(cores, layout, events), Some((at, rules.to_vec())));
}

/// Returns the sequence without one event.
pub(crate) fn without(events: &[Event], at: usize) -> Vec<Event> {
    let mut rest = events.to_vec();
    rest.remove(at);
    rest
}

/// Returns the sequence with another event in one place.
pub(crate) fn with(events: &[Event], at: usize, event: Event) -> Vec<Event> {
    let mut other = events.to_vec();
    other[at] = event;
    other
}

/// A page becomes read-only.
fn protect() -> [Event; 7] {
    let new = as_page(0) | READ_ONLY;
    [
        begin(0, "protect", vec![change(BASE, PAGE, new, 3)]),
        write(0, CHILD, 0, new),
        dsb(0, Ishst),
        tlbi(0, Vaale1is, BASE, 3),
        dsb(0, Ish),
        isb(0),
        done(0),
    ]
}

#[test]
fn permissions() {
    let events = protect();
    for cores in [&[STRONG, STRONG][..], &[WEAK, WEAK], &[WEAK]] {
        right(cores, Layout::Pages, &events);
        // Without either DSB, the TLBI, or the ISB: CPU 0 itself may use the old entry.
        for at in [3, 4, 5] {
            wrong(cores, Layout::Pages, &without(&events, at), 5, &[Rule::Stale]);
        }
        wrong(cores, Layout::Pages, &without(&events, 2), 5, &[Rule::Stale]);
    }
    let two = [WEAK, WEAK];
    let stale = |event, at| wrong(&two, Layout::Pages, &with(&events, at, event), 6, &[Rule::Stale]);
    // Another address, another level, another granule's level, another CPU's TLB, another barrier.
    stale(tlbi(0, Vaale1is, BASE + PAGE, 3), 3);
    stale(tlbi(0, Vaale1is, BASE, 2), 3);
    stale(Event::Tlbi { cpu: 0, op: Vaale1is, operand: (0b1111 << 44) | (BASE >> 12 & ((1 << 44) - 1)) }, 3);
    stale(tlbi(0, Vaale1, BASE, 3), 3);
    stale(dsb(0, Ishst), 4);
    stale(dsb(0, Nsh), 4);
    stale(dsb(1, Ish), 4);
    stale(isb(1), 5);
    // No hint, a reserved one, or one operation for everything.
    for event in [tlbi(0, Vae1is, BASE, 0), tlbi_all(0, Vmalle1is)] {
        right(&two, Layout::Pages, &with(&events, 3, event));
    }
    let reserved =
        Event::Tlbi { cpu: 0, op: Vaale1is, operand: (0b0100 << 44) | (BASE >> 12 & ((1 << 44) - 1)) };
    right(&two, Layout::Pages, &with(&events, 3, reserved));
    // Alone, local invalidation will do.
    let local = with(&with(&events, 3, tlbi(0, Vaale1, BASE, 3)), 4, dsb(0, Nsh));
    right(&[WEAK], Layout::Pages, &local);
}

#[test]
fn operands() {
    let unmasked = Event::Tlbi { cpu: 0, op: Vaale1is, operand: BASE >> 12 };
    wrong(&[WEAK], Layout::Pages, &with(&protect(), 3, unmasked), 3, &[Rule::TlbiOperand]);
    let no_hints = Core { ttl: false, ..WEAK };
    wrong(&[no_hints], Layout::Pages, &protect(), 3, &[Rule::TlbiOperand]);
}

/// A block becomes a table.
fn split() -> [Event; 8] {
    [
        begin(0, "split", vec![]),
        Event::Alloc { cpu: 0, table: OTHER },
        fill(0, OTHER, as_page(0), 512, PAGE),
        dsb(0, Ishst),
        write(0, L2, 0, link(OTHER)),
        dsb(0, Ishst),
        isb(0),
        done(0),
    ]
}

#[test]
fn splitting() {
    let events = split();
    right(&[STRONG, STRONG], Layout::Block, &events);
    wrong(&[STRONG, WEAK], Layout::Block, &events, 4, &[Rule::SizeConflict]);
    wrong(&[STRONG, STRONG], Layout::Block, &without(&events, 3), 3, &[Rule::Unfilled]);
    wrong(&[STRONG, STRONG], Layout::Block, &with(&events, 3, dsb(1, Ishst)), 4, &[Rule::Unfilled]);
    let elsewhere = fill(0, OTHER, as_page(0) + BLOCK, 512, PAGE);
    let rules = [Rule::BreakBeforeMake, Rule::Translation];
    wrong(&[STRONG, STRONG], Layout::Block, &with(&events, 2, elsewhere), 4, &rules);
    let reserved = fill(0, OTHER, as_page(0) & !2, 512, PAGE);
    let rules = [Rule::InUse, Rule::Reserved];
    wrong(&[STRONG, STRONG], Layout::Block, &with(&events, 2, reserved), 4, &rules);
}

#[test]
fn collapsing() {
    let events = [
        begin(0, "collapse", vec![]),
        write(0, L2, 0, AS_BLOCK),
        dsb(0, Ishst),
        tlbi(0, Vaae1is, page_at(7), 3),
        dsb(0, Ish),
        isb(0),
        Event::Free { cpu: 0, table: CHILD },
        done(0),
    ];
    right(&[STRONG, STRONG], Layout::Pages, &events);
    wrong(&[STRONG, WEAK], Layout::Pages, &events, 1, &[Rule::SizeConflict]);
    // Walk caches stay without a TLBI, with one for leaves, with a hint at blocks, with any ASID's.
    let two = [STRONG, STRONG];
    wrong(&two, Layout::Pages, &without(&events, 3), 5, &[Rule::Freed]);
    for event in [tlbi(0, Vaale1is, BASE, 3), tlbi(0, Vaae1is, BASE, 2), tlbi(0, Vae1is, BASE, 3)] {
        wrong(&two, Layout::Pages, &with(&events, 3, event), 6, &[Rule::Freed]);
    }
    // Nor may the page be written, or freed before it is out of use.
    wrong(&two, Layout::Pages, &with(&events, 3, fill(0, CHILD, 0, 512, 0)), 3, &[Rule::Freed]);
    wrong(&two, Layout::Pages, &[Event::Free { cpu: 0, table: CHILD }], 0, &[Rule::Freed]);
}

/// A walk cache that outlives its table fetches leaves that were invalidated.
#[test]
fn walk_caches_bring_leaves_back() {
    let events = [
        begin(0, "unmap", vec![change(BASE, BLOCK, 0, 2)]),
        write(0, L2, 0, 0),
        dsb(0, Ishst),
        tlbi_all(0, Vmalle1is),
        dsb(0, Ish),
        isb(0),
        done(0),
    ];
    right(&[WEAK, WEAK], Layout::Pages, &events);
    let mut singly = events[..3].to_vec();
    singly.push(tlbi_block(0, Rvaale1is, BASE));
    singly.extend_from_slice(&events[4..]);
    wrong(&[WEAK, WEAK], Layout::Pages, &singly, singly.len() - 1, &[Rule::Stale]);
    // With the walk cache's own, but in one batch, in whichever order it acts.
    singly.insert(3, tlbi(0, Vaae1is, page_at(9), 0));
    wrong(&[WEAK, WEAK], Layout::Pages, &singly, singly.len() - 1, &[Rule::Stale]);
    // And the walk cache's first, to the end.
    singly.insert(4, dsb(0, Ish));
    singly.insert(5, isb(0));
    right(&[WEAK, WEAK], Layout::Pages, &singly);
}

#[test]
fn use_and_translation() {
    let gone = [write(0, CHILD, 0, 0)];
    wrong(&[STRONG], Layout::Pages, &gone, 0, &[Rule::InUse]);
    let wider = [write(0, CHILD, 0, as_page(0) ^ READ_ONLY)];
    wrong(&[STRONG], Layout::Pages, &wider, 0, &[Rule::Translation]);
    let more = [write(0, CHILD, 1, as_page(1))];
    wrong(&[STRONG], Layout::Holed, &more, 0, &[Rule::Translation]);
    // What no operation mentions may be written as it is.
    right(&[STRONG], Layout::Pages, &[write(0, CHILD, 0, as_page(0))]);
    // Break-before-make in one operation: the page faults meanwhile.
    let moved = as_page(0) + 4 * BLOCK;
    let change = change(BASE, PAGE, moved, 3);
    wrong(
        &[WEAK],
        Layout::Pages,
        &[begin(0, "move", vec![change]), write(0, CHILD, 0, 0)],
        1,
        &[Rule::InUse],
    );
    let at_once = [begin(0, "move", vec![change]), write(0, CHILD, 0, moved)];
    wrong(&[STRONG], Layout::Pages, &at_once, 1, &[Rule::BreakBeforeMake]);
    let odd = [write(0, CHILD, 0, as_page(0) | READ_ONLY | DIRTY_MANAGED)];
    wrong(&[STRONG], Layout::Pages, &odd, 0, &[Rule::Translation, Rule::DirtyManaged]);
    let read =
        Event::Write { cpu: 0, table: CHILD, index: 0, value: as_page(0), count: 1, step: 0, was: Some(0) };
    wrong(&[STRONG], Layout::Pages, &[read], 0, &[Rule::LostUpdate]);
}

/// A refused operation has changed nothing, and no other CPU has made its announced changes.
#[test]
fn refused() {
    let new = as_page(0) | READ_ONLY;
    let events = [
        begin(0, "protect", vec![change(BASE, PAGE, new, 3)]),
        write(1, CHILD, 0, new),
        dsb(1, Ishst),
        tlbi(1, Vaale1is, BASE, 3),
        dsb(1, Ish),
        isb(1),
        done(0),
    ];
    right(&[STRONG, STRONG], Layout::Pages, &events);
    let (mut refused, rules) = (events, [Rule::Translation, Rule::Stale, Rule::Promised]);
    refused[6] = Event::Done { cpu: 0, ok: false };
    wrong(&[STRONG, STRONG], Layout::Pages, &refused, 6, &rules);
}

/// Two operations, the second of which makes what the first has broken.
#[test]
fn break_before_make() {
    let moved = as_page(0) + 4 * BLOCK;
    let events = [
        begin(0, "unmap", vec![change(BASE, PAGE, 0, 3)]),
        write(0, CHILD, 0, 0),
        dsb(0, Ishst),
        tlbi(0, Vaale1is, BASE, 3),
        dsb(0, Ish),
        isb(0),
        done(0),
        begin(0, "map", vec![change(BASE, PAGE, moved, 3)]),
        write(0, CHILD, 0, moved),
        dsb(0, Ishst),
        isb(0),
        done(0),
    ];
    right(&[WEAK, WEAK], Layout::Pages, &events);
    for at in [9, 10] {
        let broken = judge(&[WEAK, WEAK], Layout::Pages, &without(&events, at)).unwrap();
        assert!(broken.0 == 10 && broken.1.contains(&Rule::NotVisible), "{broken:?}");
    }
    let kept_only = with(&events, 1, write(0, CHILD, 0, kept(as_page(0))));
    wrong(&[WEAK, WEAK], Layout::Pages, &kept_only, 6, &[Rule::Promised]);
    // Without operations around: the old entry is there when the new one comes.
    let both =
        [begin(0, "move", vec![change(BASE, PAGE, moved, 3)]), write(0, CHILD, 1, as_page(1) & !VALID)];
    wrong(&[WEAK], Layout::Pages, &both, 1, &[Rule::InUse]);
}

/// Between breaking and making no ISB is needed (D8.17.1 RDDMVT), but before the operation returns.
#[test]
fn synchronisation() {
    let events = [
        begin(0, "unmap", vec![change(BASE, BLOCK, 0, 2)]),
        write(0, L2, 0, 0),
        dsb(0, Ishst),
        tlbi_all(0, Vmalle1is),
        dsb(0, Ish),
        write(0, L2, 0, AS_BLOCK),
    ];
    right(&[WEAK, WEAK], Layout::Pages, &events);
    wrong(&[WEAK, WEAK], Layout::Pages, &with(&events, 5, done(0)), 5, &[Rule::Stale]);
    // Another CPU's invalidation is complete when this one works by the old entry no more.
    let two = [
        begin(1, "protect", vec![change(BASE, PAGE, as_page(0) | READ_ONLY, 3)]),
        write(1, CHILD, 0, as_page(0) | READ_ONLY),
        dsb(1, Ishst),
        tlbi_all(0, Vmalle1is),
        tlbi(1, Vaale1is, BASE, 0),
        dsb(0, Ish),
        dsb(1, Ish),
        isb(1),
        done(1),
    ];
    right(&[WEAK, WEAK], Layout::Pages, &two);
    wrong(&[WEAK, WEAK], Layout::Pages, &without(&two, 4), 7, &[Rule::Stale]);
    // Some CPUs need one more (CVE-2025-10263).
    let slow = [WEAK, Core { repeat_tlbi: true, ..WEAK }];
    let mut events = protect().to_vec();
    wrong(&slow, Layout::Pages, &events, 6, &[Rule::Stale]);
    events.insert(5, tlbi(0, Vale1is, 0, 0));
    events.insert(6, dsb(0, Ish));
    right(&slow, Layout::Pages, &events);
}

/// Of the CPUs that need the TLBI twice, one invalidates everything by itself between the two. The first CPU's pair
/// is complete nonetheless (D8.17.8 RWWQZZ), and alone the other's own is not, without its ISB.
#[test]
fn repeated_beside_another() {
    let slow = [Core { repeat_tlbi: true, ..STRONG }; 2];
    let mut events = protect().to_vec();
    let others = [tlbi_all(1, Vmalle1is), dsb(1, Ish), tlbi(0, Vale1is, 0, 0), dsb(0, Ish)];
    events.splice(5..5, others);
    right(&slow, Layout::Pages, &events);
    wrong(&slow, Layout::Pages, &without(&events, 7), 9, &[Rule::Stale]);
}

#[test]
fn runs() {
    let run = |event: fn(usize) -> Event| (0..16).map(event).collect::<Vec<_>>();
    let new = (0..16).map(|s| change(page_at(s), PAGE, as_page(s) | READ_ONLY, 3)).collect();
    let mut whole = vec![begin(0, "protect", new)];
    whole.extend(run(|s| write(0, CHILD, s, as_page(s) | CONTIGUOUS | READ_ONLY)));
    whole.push(dsb(0, Ishst));
    whole.extend(run(|s| tlbi(0, Vaale1is, page_at(s), 3)));
    whole.extend([dsb(0, Ish), isb(0), done(0)]);
    right(&[WEAK, WEAK], Layout::Run, &whole);
    // One TLBI for each member.
    let rules = [Rule::Stale, Rule::ContiguousRun];
    wrong(&[WEAK, WEAK], Layout::Run, &without(&whole, 22), whole.len() - 2, &rules);

    // One member alone: its mates may be cached in its place, and it in theirs.
    let part = [
        begin(0, "part", vec![change(BASE, PAGE, as_page(0) | READ_ONLY, 3)]),
        write(0, CHILD, 0, as_page(0) | READ_ONLY),
        dsb(0, Ishst),
        tlbi_all(0, Vmalle1is),
        dsb(0, Ish),
        isb(0),
        done(0),
    ];
    wrong(&[STRONG], Layout::Run, &part, 1, &[Rule::ContiguousRun]);
    wrong(&[WEAK], Layout::Run, &part, 1, &[Rule::SizeConflict, Rule::ContiguousRun]);
    // In a run that is dissolved, once walkers are sure to see that it is.
    let mut dissolved = vec![part[0].clone()];
    dissolved.extend(run(|s| write(0, CHILD, s, as_page(s))));
    dissolved.push(dsb(0, Ishst));
    dissolved.extend_from_slice(&part[1..]);
    right(&[STRONG, STRONG], Layout::Run, &dissolved);
    wrong(&[STRONG, STRONG], Layout::Run, &without(&dissolved, 17), 17, &[Rule::ContiguousRun]);
    // What is not valid is in no run (IPGVGZ).
    let mut hole = without(&dissolved, 17);
    hole[0] = begin(0, "part", vec![change(BASE, PAGE, 0, 3)]);
    hole[17] = write(0, CHILD, 0, 0);
    right(&[STRONG, STRONG], Layout::Run, &hole);

    // The contiguous bits of all of them, in place.
    let mut unfold = vec![begin(0, "unfold", vec![])];
    unfold.extend(run(|s| write(0, CHILD, s, as_page(s))));
    unfold.extend([dsb(0, Ishst), done(0)]);
    right(&[STRONG, STRONG], Layout::Run, &unfold);
    wrong(&[WEAK, WEAK], Layout::Run, &unfold, 1, &[Rule::SizeConflict]);
    wrong(&[STRONG], Layout::Run, &without(&unfold, 3), unfold.len() - 2, &[Rule::ContiguousRun]);
    // A member answers for the addresses of all from its store on.
    let among_holes = [
        begin(0, "map", vec![change(page_at(1), PAGE, as_page(1), 3)]),
        write(0, CHILD, 1, as_page(1) | CONTIGUOUS),
    ];
    wrong(&[STRONG], Layout::Holed, &among_holes, 1, &[Rule::ContiguousRun]);
    let other = as_page(2) & !(1 << 2);
    let beside = [
        begin(1, "unmap", vec![change(BASE, PAGE, 0, 3)]),
        begin(0, "pages", vec![change(page_at(2), PAGE, other, 3)]),
        write(0, CHILD, 2, other | CONTIGUOUS),
    ];
    wrong(&[STRONG, STRONG], Layout::Pages, &beside, 2, &[Rule::ContiguousRun]);
    // One that another CPU stores beside a page that has changed; or beside one that has gone, where it is wrong when
    // the operation returns.
    let far = |new| {
        [
            begin(0, "changes", vec![change(page_at(15), PAGE, new, 3)]),
            write(0, CHILD, 15, new),
            write(1, CHILD, 0, as_page(0) | CONTIGUOUS),
            dsb(1, Ishst),
            dsb(0, Ishst),
            tlbi_all(0, Vmalle1is),
            dsb(0, Ish),
            isb(0),
            done(0),
        ]
    };
    let strong = [STRONG, STRONG];
    wrong(&strong, Layout::Pages, &far(as_page(15) | READ_ONLY), 2, &[Rule::ContiguousRun]);
    wrong(&strong, Layout::Pages, &far(0), 8, &[Rule::Stale, Rule::ContiguousRun]);
    let elsewhere = [write(0, CHILD, 0, (as_page(0) | CONTIGUOUS) + 16 * PAGE)];
    let rules = [Rule::BreakBeforeMake, Rule::Translation, Rule::ContiguousRun];
    wrong(&[STRONG], Layout::Run, &elsewhere, 0, &rules);
}

/// Two tables, the second with the contents of the first.
fn replaced() -> Vec<Event> {
    vec![
        begin(0, "replace", vec![]),
        Event::Alloc { cpu: 0, table: OTHER },
        fill(0, OTHER, as_page(0), 512, PAGE),
        write(0, OTHER, 1, 0),
        write(0, OTHER, 2, kept(as_page(2))),
        dsb(0, Ishst),
        write(0, L2, 0, link(OTHER)),
        dsb(0, Ishst),
        tlbi(0, Vaae1is, BASE, 0),
        dsb(0, Ish),
        isb(0),
        done(0),
    ]
}

/// A page is mapped, and walk caches must not lead to a table without it.
#[test]
fn mapped_past_walk_caches() {
    let mut events = replaced();
    events.extend([
        begin(0, "map", vec![change(page_at(1), PAGE, as_page(1), 3)]),
        write(0, OTHER, 1, as_page(1)),
        dsb(0, Ishst),
        isb(0),
        done(0),
    ]);
    let strong = [STRONG, STRONG];
    right(&strong, Layout::Holed, &events);
    wrong(&strong, Layout::Holed, &without(&events, 8), 15, &[Rule::NotVisible]);
    wrong(&strong, Layout::Holed, &without(&events, 9), 15, &[Rule::NotVisible]);
    // By another CPU, before the first one's DSB.
    let other = [
        tlbi(1, Vaae1is, BASE, 0),
        dsb(1, Ish),
        begin(1, "map", vec![change(page_at(1), PAGE, as_page(1), 3)]),
        write(1, OTHER, 1, as_page(1)),
        dsb(1, Ishst),
        isb(1),
        done(1),
    ];
    let mut events = replaced();
    events.splice(8.., other);
    right(&strong, Layout::Holed, &events);
    wrong(&strong, Layout::Holed, &without(&events, 7), 13, &[Rule::InUse, Rule::NotVisible]);
}

/// A block maps what was a hole in the table that it replaces.
#[test]
fn collapsed_with_a_hole() {
    let third = Event::Begin {
        cpu: 0,
        root: crate::places::ROOT,
        name: "map".into(),
        changes: vec![change(page_at(1), PAGE, as_page(1), 3), change(page_at(2), PAGE, as_page(2), 3)],
    };
    let events = [
        third,
        write(0, L2, 0, AS_BLOCK),
        dsb(0, Ishst),
        tlbi_all(0, Vmalle1is),
        dsb(0, Ish),
        isb(0),
        done(0),
    ];
    right(&[STRONG, STRONG], Layout::Holed, &events);
    for at in 2..6 {
        wrong(&[STRONG, STRONG], Layout::Holed, &without(&events, at), 5, &[Rule::NotVisible]);
    }
}

/// A table that moves to other addresses is changed there, by an operation of another CPU that began before.
#[test]
fn changed_after_it_was_moved() {
    let second = BASE + BLOCK;
    let read_only = as_page(0) | READ_ONLY;
    let events = [
        begin(0, "unmap", vec![change(second, BLOCK, 0, 2)]),
        write(0, L2, 1, 0),
        dsb(0, Ishst),
        tlbi(0, Vaae1is, second, 0),
        dsb(0, Ish),
        isb(0),
        done(0),
        begin(0, "move", vec![change(BASE, BLOCK, 0, 2), change(second + PAGE, BLOCK - PAGE, as_page(1), 3)]),
        begin(1, "map", vec![change(second, PAGE, read_only, 3)]),
        write(0, CHILD, 0, 0),
        write(0, L2, 0, 0),
        dsb(0, Ishst),
        tlbi_all(0, Vmalle1is),
        dsb(0, Ish),
        isb(0),
        write(0, L2, 1, link(CHILD)),
        write(1, CHILD, 0, read_only),
    ];
    right(&[STRONG, STRONG], Layout::Pages, &events);
    let rules = [Rule::Freed];
    wrong(&[STRONG, STRONG], Layout::Pages, &without(&events, 12), 15, &rules);
}

/// A page is unmapped by another CPU, and a walk of the first one may still go on from the table that it replaced.
#[test]
fn unmapped_while_a_walk_goes_on() {
    let mut events = replaced();
    events.truncate(11);
    events.extend([
        begin(1, "unmap", vec![change(BASE, PAGE, 0, 3)]),
        write(1, OTHER, 0, 0),
        dsb(1, Ishst),
        tlbi(1, Vaale1is, BASE, 0),
        dsb(1, Ish),
        isb(1),
        done(1),
    ]);
    let strong = [STRONG, STRONG];
    right(&strong, Layout::Holed, &events);
    wrong(&strong, Layout::Holed, &without(&events, 10), 16, &[Rule::Stale]);
    // An invalidation of the table's address stops it.
    let every_level = with(&without(&events, 10), 13, tlbi(1, Vaae1is, BASE, 0));
    right(&strong, Layout::Holed, &every_level);
}
