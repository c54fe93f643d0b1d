//! Seeds: the same in each run, asked for, or drawn.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::{Once, OnceLock};

/// The request in `LINMAP_SEED`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    /// One case.
    One(u64),
    /// All cases, from this seed on.
    From(u64),
}

/// The first seed of a run that asks for none.
const FIRST: u64 = 0x1_0000;

/// The bits in which the seeds of a table's rows differ, so that a seed names its row.
const ROW: u64 = 0xffff;

/// Returns the seeds of `count` cases, the same in each run; or those that `LINMAP_SEED` asks for.
pub fn seeds(count: u64) -> impl Iterator<Item = u64> + Clone {
    let (first, count) = match asked() {
        Asked::One(seed) => (seed, 1),
        Asked::From(first) => (first, count),
    };
    (0..count).map(move |number| first.wrapping_add(number))
}

/// Tries `count` cases, each with its seed.
pub fn each(count: u64, mut run: impl FnMut(u64)) {
    seeds(count).for_each(|seed| case(seed, || run(seed)));
}

/// Tries a case. If it panics, the seed is printed first.
pub fn case<R>(seed: u64, run: impl FnOnce() -> R) -> R {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Not by `eprintln!`, whose output is held until the test has ended: this test may abort.
            if let Some(seed) = CASE.take() {
                let test = std::thread::current();
                say(&format!(
                    "{}: LINMAP_SEED={seed:#018x} repeats this case",
                    test.name().unwrap_or("a test")
                ));
            }
            before(info);
        }));
    });
    let outer = CASE.replace(Some(seed));
    let result = run();
    CASE.set(outer);
    result
}

thread_local! {
    /// The seed of the case that this thread tries.
    static CASE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Different cases of one test, like the rows of a table. Each has a seed, which names its row.
#[derive(Default)]
pub struct Rows {
    next: u64,
}

impl Rows {
    /// Starts with the first row.
    #[must_use]
    pub const fn new() -> Self {
        Self { next: 0 }
    }

    /// Tries the next row, unless `LINMAP_SEED` asks for another one.
    ///
    /// # Panics
    ///
    /// There are more than 65,536 rows.
    pub fn row<R>(&mut self, run: impl FnOnce(u64) -> R) -> Option<R> {
        let row = self.next;
        self.next += 1;
        assert!(row <= ROW, "more than {} rows", ROW + 1);
        match asked() {
            Asked::One(seed) => (seed & ROW == row).then(|| case(seed, || run(seed))),
            Asked::From(first) => {
                let seed = first & !ROW | row;
                Some(case(seed, || run(seed)))
            }
        }
    }
}

/// Returns true if `LINMAP_SEED` asks for one case: then properties of many cases together may not hold.
pub fn is_one() -> bool {
    matches!(asked(), Asked::One(_))
}

/// Returns the number in an environment variable.
///
/// # Panics
///
/// The variable is not a number.
pub fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        parsed(&value)
            .unwrap_or_else(|| panic!("{name}={value}: a number was expected, as in 100000 or 0x7")),
    )
}

/// Returns a number below `end`, which is the same for all cases and rows of a run, and where one of them is repeated.
pub(crate) fn drawn(end: usize) -> usize {
    let (Asked::One(seed) | Asked::From(seed)) = asked();
    (seed / (ROW + 1)) as usize % end
}

fn asked() -> Asked {
    static ASKED: OnceLock<Asked> = OnceLock::new();
    *ASKED.get_or_init(|| {
        let asked = match std::env::var("LINMAP_SEED") {
            // The system's random numbers, as the standard library hands them out.
            Ok(value) if value == "fresh" => Asked::From(RandomState::new().hash_one("linmap") & !ROW),
            Ok(value) => match (value.strip_suffix(".."), parsed(&value)) {
                (Some(first), _) => parsed(first).map(Asked::From),
                (None, seed) => seed.map(Asked::One),
            }
            .unwrap_or_else(|| {
                panic!("LINMAP_SEED={value}: a seed was expected, as in 0x12ab, or 0x12ab.., or fresh")
            }),
            Err(_) => Asked::From(FIRST),
        };
        match asked {
            Asked::One(seed) => say(&format!("random cases: only LINMAP_SEED={seed:#018x}")),
            Asked::From(first) => say(&format!("random cases: LINMAP_SEED={first:#018x}.. repeats this run")),
        }
        asked
    })
}

/// Returns the number that a text says: decimal, or hexadecimal after `0x`.
pub fn parsed(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Writes a line that is seen at once, even if the test aborts.
fn say(line: &str) {
    // Without a reader the test goes on.
    _ = writeln!(std::io::stderr(), "{line}");
}
