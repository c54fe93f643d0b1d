//! Documents in variables that are in memory: whole ones, torn ones, and firmware that refuses.

use std::collections::BTreeMap;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use super::variables::Limits;
use super::*;
use test_support::prelude::*;

const NOT_FOUND: u64 = 1 << 63 | 14;
const FULL: u64 = 1 << 63 | 9;
const NO_POWER: u64 = 1 << 63 | 7;
const WRITE_PROTECTED: u64 = 1 << 63 | 8;

/// The firmware of a server: 8 KiB a variable, as EDK2 has by default.
const SERVER: Limits = Limits { free: 200_000, one: 8192 };

/// Variables that stay when power goes, which it does after so many changes.
#[derive(Clone)]
struct Store {
    there: BTreeMap<u32, Vec<u8>>,
    limits: Limits,
    changes: usize,
    /// The bytes that really fit, which firmware may not know.
    fits: usize,
}

impl Store {
    fn new(limits: Limits) -> Self {
        Self { there: BTreeMap::new(), limits, changes: usize::MAX, fits: usize::MAX }
    }

    fn change(&mut self) -> Result<(), u64> {
        self.changes = self.changes.checked_sub(1).ok_or(NO_POWER)?;
        Ok(())
    }
}

impl Variables for Store {
    fn limits(&mut self) -> Result<Limits, u64> {
        Ok(self.limits)
    }

    fn size(&mut self, number: u32) -> Result<Option<usize>, u64> {
        Ok(self.there.get(&number).map(Vec::len))
    }

    fn read(&mut self, number: u32, room: &mut [u8]) -> Result<(), u64> {
        let bytes = self.there.get(&number).ok_or(NOT_FOUND)?;
        assert_eq!(bytes.len(), room.len());
        room.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self, number: u32, bytes: &[u8]) -> Result<(), u64> {
        assert!(bytes.len() as u64 <= self.limits.one);
        self.change()?;
        let taken: usize = self.there.values().map(Vec::len).sum();
        if taken + bytes.len() > self.fits {
            return Err(FULL);
        }
        self.there.insert(number, bytes.to_vec());
        Ok(())
    }

    fn remove(&mut self, number: u32) -> Result<(), u64> {
        self.change()?;
        self.there.remove(&number).map(drop).ok_or(NOT_FOUND)
    }
}

/// Files that are never written twice.
#[derive(Default)]
struct Files {
    there: BTreeMap<u32, Vec<u8>>,
    protected: bool,
}

impl Volume for Files {
    fn write_new(&mut self, number: u32, bytes: &[u8]) -> Result<bool, u64> {
        if self.there.contains_key(&number) {
            return Ok(false);
        }
        if self.protected {
            return Err(WRITE_PROTECTED);
        }
        self.there.insert(number, bytes.to_vec());
        Ok(true)
    }
}

fn work() -> Vec<u8> {
    vec![0xa5; WORK]
}

/// Makes a document that packs badly, so that it takes several pieces.
fn document(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn stored(document: &[u8], limits: Limits) -> (Store, Stored) {
    let mut variables = Store::new(limits);
    let stored = store(&mut variables, document, &mut work()).expect("there is room");
    assert_eq!(variables.there.len(), stored.pieces as usize);
    (variables, stored)
}

#[test]
fn a_document_becomes_the_next_file() {
    let text = "{\"measure\":{\"cells\":{\"loads\":{\"ns\":[1,2,3]}}}},\n".repeat(2000);
    let (mut variables, stored) = stored(text.as_bytes(), SERVER);
    assert!(stored.packed < text.len() / 10, "{stored:?}");
    let mut files = Files { there: (1..=2).map(|n| (n, vec![])).collect(), protected: false };
    assert_eq!(collect(&mut variables, &mut files, &mut work()), Ok(Outcome::Written(3)));
    assert_eq!(
        (&files.there[&3][..], &files.there[&1][..], files.there.len()),
        (text.as_bytes(), &b""[..], 3)
    );
    assert!(variables.there.is_empty());
    assert_eq!(collect(&mut variables, &mut files, &mut work()), Ok(Outcome::Nothing));
}

/// Power may go after any change of the variables: what is found then is nothing, the document, or torn, and once it
/// has been looked for, nothing is left.
#[test]
fn power_that_goes_leaves_no_part_of_a_document() {
    let document = document(50_000);
    let pieces = stored(&document, SERVER).1.pieces as usize;
    assert!(pieces > 5);
    for changes in 0..=pieces {
        let mut variables = Store { changes, ..Store::new(SERVER) };
        let result = store(&mut variables, &document, &mut work());
        assert_eq!(result.is_ok(), changes == pieces);
        if let Err(refused) = result {
            assert_eq!(refused, NotStored::Refused { status: NO_POWER, removed: changes == 0 });
        }
        variables.changes = usize::MAX;
        let mut files = Files::default();
        let outcome = collect(&mut variables, &mut files, &mut work()).expect("the firmware does all");
        match changes {
            0 => assert_eq!(outcome, Outcome::Nothing),
            all if all == pieces => assert_eq!(outcome, Outcome::Written(1)),
            found => {
                let (found, of) = (found as u32, pieces as u32);
                assert_eq!(outcome, Outcome::Removed(Torn::Missing { found, of }));
            }
        }
        assert_eq!(files.there.values().next().is_some_and(|file| *file == document), changes == pieces);
        assert!(variables.there.is_empty());
    }
    // While they are removed, too.
    for changes in 0..pieces {
        let (mut variables, _) = stored(&document, SERVER);
        variables.changes = changes;
        let mut files = Files::default();
        let first = collect(&mut variables, &mut files, &mut work());
        assert_eq!(first, Err(NotCollected::NotRemoved(NO_POWER)));
        assert_eq!(files.there[&1], document);
        variables.changes = usize::MAX;
        let again = collect(&mut variables, &mut files, &mut work()).expect("the firmware does all");
        assert_eq!(again == Outcome::Written(2), changes == 0, "{again:?}");
        assert!(variables.there.is_empty());
    }
}

#[test]
fn a_full_store_has_nothing_of_it() {
    let document = document(50_000);
    let refused = |limits| {
        let mut variables = Store::new(limits);
        let refused = store(&mut variables, &document, &mut work()).expect_err("no room");
        assert!(variables.there.is_empty());
        refused.to_string()
    };
    let said = refused(Limits { free: 100_000, ..SERVER });
    assert!(said.starts_with("it takes 51") && said.contains("half of the 100000 that are free"), "{said}");
    for limits in
        [Limits { one: 300, ..SERVER }, Limits { one: 0, free: 0 }, Limits { one: 1000, free: 100_000 }]
    {
        assert!(refused(limits).starts_with("it takes "));
    }
    // Firmware that claims more room than it has.
    for fits in [0, 8000, 40_000] {
        let mut variables = Store { fits, ..Store::new(SERVER) };
        let refused = store(&mut variables, &document, &mut work());
        assert_eq!(refused, Err(NotStored::Refused { status: FULL, removed: true }));
        assert!(variables.there.is_empty());
    }
}

#[test]
fn an_earlier_document_stays() {
    let (mut variables, _) = stored(b"one", SERVER);
    assert_eq!(store(&mut variables, b"two", &mut work()), Err(NotStored::Earlier));
    let mut files = Files { protected: true, ..Files::default() };
    let unwritable = collect(&mut variables, &mut files, &mut work());
    assert_eq!(unwritable, Err(NotCollected::Unwritable(WRITE_PROTECTED)));
    files.there = (1..=MOST_FILES).map(|number| (number, Vec::new())).collect();
    assert_eq!(collect(&mut variables, &mut files, &mut work()), Err(NotCollected::TooManyFiles));
    files = Files::default();
    assert_eq!(collect(&mut variables, &mut files, &mut work()), Ok(Outcome::Written(1)));
    assert_eq!(files.there[&1], b"one");
}

#[test]
fn a_document_of_no_length_or_too_long_is_refused() {
    let all = vec![b' '; MOST + 1];
    let mut variables = Store::new(SERVER);
    assert_eq!(store(&mut variables, &all, &mut work()), Err(NotStored::Length(MOST + 1)));
    assert_eq!(store(&mut variables, b"", &mut work()), Err(NotStored::Length(0)));
    assert!(store(&mut variables, &all[1..], &mut work()).is_ok());
    let worst = document(MOST);
    let mut variables = Store::new(Limits { free: 1 << 30, one: 1 << 20 });
    assert!(store(&mut variables, &worst, &mut work()).is_ok());
    assert_eq!(find(&mut variables, &mut work()), Ok(Found::Whole(&worst)));
    assert_eq!(store(&mut Store::new(SERVER), b"x", &mut [0; 100]), Err(NotStored::NotPacked));
}

proptest! {
    /// Any document comes back through any firmware that has room for it.
    #[test]
    fn any_document_comes_back(
        bytes in prop::collection::vec(any::<u8>(), 1..5000), one in 0..9000u64, free in 0..40_000u64,
    ) {
        let mut variables = Store::new(Limits { free, one });
        match store(&mut variables, &bytes, &mut work()) {
            Ok(_) => {
                let taken: usize = variables.there.values().map(Vec::len).sum();
                prop_assert!(taken as u64 <= free / 2);
                let mut room = work();
                prop_assert_eq!(find(&mut variables, &mut room), Ok(Found::Whole(&bytes)));
            }
            Err(_) => prop_assert!(variables.there.is_empty()),
        }
    }

    /// Variables that somebody has changed are torn, or still the document.
    #[test]
    fn damage_is_found(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..8u8), 1..4),
        cut in prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>())),
    ) {
        let text = document(3000);
        let (mut variables, stored) = stored(&text, Limits { free: 100_000, one: 1000 });
        for (piece, at, bit) in changes {
            let piece = variables.there.get_mut(&(piece.index(stored.pieces as usize) as u32)).expect("a piece");
            let at = at.index(piece.len());
            piece[at] ^= 1 << bit;
        }
        if let Some((piece, bytes)) = cut {
            let piece = variables.there.get_mut(&(piece.index(stored.pieces as usize) as u32)).expect("a piece");
            piece.truncate(bytes.index(piece.len()));
        }
        match find(&mut variables, &mut work()) {
            Ok(Found::Whole(document)) => prop_assert_eq!(document, text),
            Ok(Found::Torn(torn)) => prop_assert!(!torn.to_string().is_empty()),
            other => prop_assert!(false, "{:?}", other),
        }
        // None of them stays.
        let mut files = Files::default();
        prop_assert!(collect(&mut variables, &mut files, &mut work()).is_ok());
        prop_assert!(variables.there.is_empty());
    }

    /// Noise never panics and is no document.
    #[test]
    fn noise(all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..4)) {
        let mut variables = Store::new(SERVER);
        variables.there = (0..).zip(all).collect();
        prop_assert!(matches!(find(&mut variables, &mut work()), Ok(Found::Torn(_))));
    }
}
