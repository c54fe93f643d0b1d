//! The flat map: pieces are joined, cut, changed and removed.

use test_support::{Flat, Mapped, Random};

fn to(pa: u64) -> Mapped<u8> {
    Mapped { pa, attributes: 0, valid: true }
}

/// The mapping of one address.
fn at(flat: &Flat<u8>, va: u64) -> Option<Mapped<u8>> {
    let pieces = flat.within(va, va);
    assert_eq!((pieces.len(), pieces[0].0, pieces[0].1), (1, va, va));
    pieces[0].2
}

#[test]
fn a_range_is_cut_where_others_begin_and_end() {
    let mut flat = Flat::default();
    flat.push((10, 19, to(100)));
    flat.push((20, 29, to(110)));
    flat.push((30, 39, to(0)));
    assert_eq!(flat.pieces(), [(10, 29, to(100)), (30, 39, to(0))], "the first two are one");
    assert_eq!(
        flat.within(5, 45),
        [(5, 9, None), (10, 29, Some(to(100))), (30, 39, Some(to(0))), (40, 45, None)]
    );
    let cut = flat.with(15, 34, |_, _| None);
    assert_eq!(cut.pieces(), [(10, 14, to(100)), (35, 39, to(5))]);
    let back = cut.with(15, 29, |va, _| Some(to(va + 90))).with(30, 34, |va, _| Some(to(va - 30)));
    assert_eq!(back, flat, "nothing is left of the cut");
}

#[test]
fn the_first_and_the_last_address_can_be_mapped() {
    let all = Flat::default().with(0, u64::MAX, |_, _| Some(to(0)));
    assert_eq!(all.pieces(), [(0, u64::MAX, to(0))]);
    assert_eq!(all.with(0, u64::MAX, |_, _| None), Flat::default());
}

/// Changes at random, beside an array with one entry for each address.
#[test]
fn each_address_maps_to_what_it_was_given() {
    test_support::each(100, |seed| {
        let mut random = Random::new(seed);
        let (mut flat, mut array) = (Flat::default(), [None; 64]);
        for _ in 0..20 {
            let first = random.index(64);
            let last = first + random.index(64 - first);
            let new = (!random.one_in(3)).then(|| to(random.below(4)));
            flat = flat.with(first as u64, last as u64, |va, _| new.map(|m| m.at(va - first as u64)));
            for (n, entry) in array[first..=last].iter_mut().enumerate() {
                *entry = new.map(|m| m.at(n as u64));
            }
            for (va, expected) in array.iter().enumerate() {
                assert_eq!(at(&flat, va as u64), *expected, "{va} of {flat:?}");
            }
            let goes_on =
                |w: &[(u64, u64, Mapped<u8>)]| w[0].1 + 1 == w[1].0 && w[0].2.at(w[1].0 - w[0].0) == w[1].2;
            assert!(!flat.pieces().windows(2).any(goes_on), "{flat:?}");
        }
    });
}
