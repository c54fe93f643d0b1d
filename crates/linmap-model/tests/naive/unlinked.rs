//! Tables that one CPU takes out of the tree while another stores into them, for the second model and the machine.

use linmap_model::{Barrier::*, Core, Event, Rule, Tlb::*};

use crate::by_hand::{right, with, without, wrong};
use crate::descriptor::{BLOCK, PAGE};
use crate::places::{
    AS_BLOCK, BASE, CHILD, L2, Layout, as_page, begin, change, done, dsb, fill, isb, link, page_at, tlbi,
    tlbi_all, tlbi_block, write,
};

const STRONG: Core = Core::STRONG;

/// Two pages are made valid in a table, and a block with the same pages takes the table's place. Once no walk comes to the
/// table any more, it is of no account whether the stores there are seen (D8.2.6.1 RSPVBD, D8.17 RRVJDB).
#[test]
fn made_valid_in_a_table_that_goes() {
    let pages = [1, 2].map(|slot| change(page_at(slot), PAGE, as_page(slot), 3)).to_vec();
    let events = [
        begin(0, "collapse", pages.clone()),
        write(1, CHILD, 1, as_page(1)),
        write(1, CHILD, 2, as_page(2)),
        write(0, L2, 0, AS_BLOCK),
        dsb(0, Ishst),
        tlbi(0, Vaae1is, page_at(3), 3),
        dsb(0, Ish),
        isb(0),
        Event::Free { cpu: 0, table: CHILD },
        done(0),
    ];
    let strong = [STRONG, STRONG];
    right(&strong, Layout::Holed, &events);
    let not_freed = without(&events, 8);
    right(&strong, Layout::Holed, &not_freed);
    // Until then a walk may find a hole, by the old entry above it or by a walk cache.
    for at in 4..8 {
        wrong(&strong, Layout::Holed, &without(&not_freed, at), 7, &[Rule::NotVisible]);
    }
    let leaf_only = with(&not_freed, 5, tlbi(0, Vaale1is, page_at(1), 3));
    wrong(&strong, Layout::Holed, &leaf_only, 8, &[Rule::NotVisible]);

    // The CPU that made them valid synchronises its own instruction fetches nonetheless (D8.17 IWZCBG).
    let mut both = with(&events, 0, begin(0, "collapse", vec![]));
    both.insert(0, begin(1, "map", pages));
    both.extend([dsb(1, Ishst), isb(1), done(1)]);
    right(&strong, Layout::Holed, &both);
    for at in [11, 12] {
        wrong(&strong, Layout::Holed, &without(&both, at), 12, &[Rule::NotVisible]);
    }
}

/// A page is unmapped in a table that another CPU unlinks. After the first CPU's DSB every walk that comes to the table
/// finds the hole (D8.2.6.1 RSPVBD), so the other's store need not be seen when the page is invalidated.
#[test]
fn unmapped_in_a_table_that_goes() {
    let rest = change(page_at(1), BLOCK - PAGE, 0, 3);
    let started = [
        begin(0, "unmap", vec![change(BASE, PAGE, 0, 3)]),
        begin(1, "unmap the rest", vec![rest]),
        write(0, CHILD, 0, 0),
        write(1, L2, 0, 0),
    ];
    let strong = [STRONG, STRONG];
    let ended = [dsb(0, Ishst), tlbi(0, Vale1is, BASE, 3), dsb(0, Ish), isb(0), done(0)];
    let events = [&started[..], &ended].concat();
    right(&strong, Layout::Pages, &events);
    for at in 4..7 {
        wrong(&strong, Layout::Pages, &without(&events, at), 7, &[Rule::Stale]);
    }

    // Or no walk comes to the table, and the DSB of the first CPU may be late, or never come.
    let gone = [dsb(1, Ishst), tlbi(1, Vaae1is, page_at(1), 3), dsb(1, Ish), isb(1)];
    let dropped = [tlbi(1, Vaale1is, BASE, 3), dsb(0, Ishst), dsb(1, Ish), isb(1), done(0)];
    let events = [&started[..], &gone, &dropped].concat();
    right(&strong, Layout::Pages, &events);
    right(&strong, Layout::Pages, &without(&events, 9));
    for at in [4, 5, 6] {
        wrong(&strong, Layout::Pages, &without(&events, at), 11, &[Rule::Stale]);
    }
    // While walks come there, what is invalidated before that DSB comes back.
    let first = [dsb(1, Ishst), tlbi(1, Vaale1is, BASE, 3), tlbi(1, Vaae1is, page_at(1), 3)];
    let last = [dsb(1, Ish), dsb(0, Ishst), isb(1), done(0)];
    let events = [&started[..], &first, &last].concat();
    wrong(&strong, Layout::Pages, &events, 10, &[Rule::Stale]);
}

/// The way to the table ends while the page's own TLBI waits for its DSB: whichever acts first, the other may be too late.
#[test]
fn invalidated_before_the_way_to_its_table() {
    let events = [
        begin(0, "unmap", vec![change(BASE, PAGE, 0, 3)]),
        begin(1, "unmap the rest", vec![change(page_at(1), BLOCK - PAGE, 0, 3)]),
        write(0, CHILD, 0, 0),
        write(1, L2, 0, 0),
        dsb(1, Ishst),
        tlbi(1, Vaae1is, page_at(1), 3),
        tlbi(0, Vaale1is, BASE, 3),
        dsb(1, Ish),
        isb(1),
        dsb(0, Ish),
        isb(0),
        done(0),
    ];
    let strong = [STRONG, STRONG];
    // A walk that comes to the table after the page's TLBI finds the old entry: its store has had no DSB by then.
    wrong(&strong, Layout::Pages, &events, 11, &[Rule::Stale]);
    let mut later = without(&events, 6);
    later.insert(8, tlbi(0, Vaale1is, BASE, 3));
    right(&strong, Layout::Pages, &later);
    let mut stored = events.to_vec();
    stored.insert(6, dsb(0, Ishst));
    right(&strong, Layout::Pages, &stored);
    // One that ends the way as well drops both at once.
    right(&strong, Layout::Pages, &with(&events, 6, tlbi(0, Vaae1is, BASE, 3)));
}

/// A walk that goes on from a table whose way has ended may read an old entry, but no TLB keeps that: it is in use until
/// the ISB of its CPU (D8.17.8 RBLDZX).
#[test]
fn invalidated_while_a_walk_is_under_way() {
    for (issuer, synchronises) in [(0, 0), (1, 0)] {
        let events = [
            begin(0, "unmap", vec![change(BASE, BLOCK, 0, 3)]),
            write(1, CHILD, 0, 0),
            write(0, L2, 0, 0),
            dsb(0, Ishst),
            tlbi(0, Vaae1is, page_at(1), 3),
            dsb(0, Ish),
            tlbi_block(issuer, Rvaale1is, BASE),
            dsb(issuer, Ish),
            isb(1),
            isb(synchronises),
            done(0),
        ];
        let strong = [STRONG, STRONG];
        right(&strong, Layout::Pages, &events);
        for at in [3, 4, 5, 9] {
            wrong(&strong, Layout::Pages, &without(&events, at), 9, &[Rule::Stale]);
        }
    }
}

/// A page that is used again has no stores of its former use, which a CPU would have to make visible.
#[test]
fn stored_into_a_table_that_was_given_back() {
    let events = [
        begin(1, "unmap", vec![change(BASE, PAGE, 0, 3)]),
        begin(0, "unmap the rest", vec![change(page_at(1), BLOCK - PAGE, 0, 3)]),
        write(1, CHILD, 0, 0),
        write(0, L2, 0, 0),
        dsb(0, Ishst),
        tlbi_all(0, Vmalle1is),
        dsb(0, Ish),
        isb(0),
        Event::Free { cpu: 0, table: CHILD },
        done(0),
        begin(0, "map", vec![change(page_at(1), PAGE, as_page(1), 3)]),
        Event::Alloc { cpu: 0, table: CHILD },
        fill(0, CHILD, 0, 512, 0),
        write(0, CHILD, 1, as_page(1)),
        dsb(0, Ishst),
        write(0, L2, 0, link(CHILD)),
        dsb(0, Ishst),
        isb(0),
        done(0),
        done(1),
    ];
    let strong = [STRONG, STRONG];
    right(&strong, Layout::Pages, &events);
    // In a table that walkers come to it is.
    let in_use = [
        begin(1, "unmap", vec![change(BASE, PAGE, 0, 3)]),
        write(1, CHILD, 0, 0),
        tlbi_all(0, Vmalle1is),
        dsb(0, Ish),
        isb(0),
        isb(1),
        done(1),
    ];
    wrong(&strong, Layout::Pages, &in_use, 6, &[Rule::Translation, Rule::Stale, Rule::NotVisible]);
}

/// An operation promises nothing of what its CPU stored before it began.
#[test]
fn stored_before_an_operation() {
    let events = [
        begin(0, "map", vec![change(page_at(1), PAGE, as_page(1), 3)]),
        write(1, CHILD, 1, as_page(1)),
        dsb(1, Ishst),
        begin(1, "split", vec![]),
        done(1),
    ];
    let strong = [STRONG, STRONG];
    right(&strong, Layout::Holed, &events);
    let mut within = events.to_vec();
    within.swap(1, 3);
    within.swap(2, 3);
    wrong(&strong, Layout::Holed, &within, 4, &[Rule::NotVisible]);
}
