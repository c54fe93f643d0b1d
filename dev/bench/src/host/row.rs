//! Measures one operation with all libraries, in turns, as multiples of memset.

use super::case::sample;
use super::{Case, Pool};
use crate::clock::now;
use crate::counters::Cost;
use crate::libraries::{Lacks, Linmap, Multiarch, Paging};
use crate::samples::Samples;

#[cfg(target_arch = "x86_64")]
use crate::libraries::X86;

/// Measures a sample with one library.
type Sample = fn(&Pool, &Case, bool) -> Result<Cost, Lacks>;

/// The libraries for this machine, linmap first.
pub(crate) const LIBRARIES: &[(&str, Sample)] = &[
    ("linmap", sample::<Linmap>),
    ("aarch64-paging", sample::<Paging>),
    ("page_table_multiarch", sample::<Multiarch>),
    #[cfg(target_arch = "x86_64")]
    ("x86_64", sample::<X86>),
];

/// The least and the most rounds.
const ROUNDS: (usize, usize) = (5, 21);
/// No further round begins after this many nanoseconds.
const ENOUGH: i64 = 5_000_000_000;

/// Calls `one` for each round, with `true` for the first. Returns the number of rounds.
fn rounds(mut one: impl FnMut(bool)) -> usize {
    let (mut rounds, start) = (0, now());
    while rounds < ROUNDS.0 || rounds < ROUNDS.1 && now() - start < ENOUGH {
        one(rounds == 0);
        rounds += 1;
    }
    rounds
}

/// The measurements of one case.
pub(crate) struct Row {
    pub(crate) case: Case,
    pub(crate) rounds: usize,
    /// Nanoseconds for memset of the tables, a page at a time.
    pub(crate) memset: Samples,
    /// The events of linmap for one map, if this machine counts them.
    pub(crate) events: Option<[f64; 3]>,
    /// linmap, divided by a plain loop.
    pub(crate) to_ideal: Samples,
    /// Each library, divided by memset.
    pub(crate) to_memset: Vec<Result<Samples, Lacks>>,
}

/// Measures one case.
pub(crate) fn row(case: Case) -> Row {
    let pool = Pool::new(case.plan.geometry, case.pages());
    let memset = || {
        // Not measured: memset, like all other samples, starts from cleared tables.
        pool.memset(case.pages());
        mean(&case, || pool.memset(case.pages()))
    };
    let ideal = || mean(&case, || pool.ideal(case.pages(), case.ideal()));
    let mut ratios: Vec<Result<Vec<f64>, Lacks>> = LIBRARIES.iter().map(|_| Ok(Vec::new())).collect();
    let (mut memsets, mut to_ideal, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let rounds = rounds(|first| {
        for (library, (_, sample)) in LIBRARIES.iter().enumerate() {
            let Ok(ratios_so_far) = &mut ratios[library] else { continue };
            let beside = memset();
            let ideal = (library == 0).then(&ideal);
            match sample(&pool, &case, first) {
                Ok(cost) => {
                    memsets.push(beside);
                    ratios_so_far.push(cost.ns / beside);
                    to_ideal.extend(ideal.map(|ideal| cost.ns / ideal));
                    events.extend(ideal.and(cost.events));
                }
                Err(lacks) => ratios[library] = Err(lacks),
            }
        }
    });
    let to_memset = ratios.into_iter().map(|ratios| ratios.map(Samples::new)).collect();
    let (memset, to_ideal, events) = (Samples::new(memsets), Samples::new(to_ideal), medians(&events));
    Row { case, rounds, memset, events, to_ideal, to_memset }
}

/// The measurements of one case, with linmap as the unit.
pub(crate) struct Versus {
    /// Nanoseconds of linmap.
    pub(crate) ours: Samples,
    /// The events of linmap, if this machine counts them.
    pub(crate) events: Option<[f64; 3]>,
    /// Each of the others, divided by linmap.
    pub(crate) ratios: Vec<Result<Samples, Lacks>>,
}

/// Measures one case.
pub(crate) fn versus(case: Case) -> Versus {
    let pool = Pool::new(case.plan.geometry, case.pages());
    let (mut ours, mut events) = (Vec::new(), Vec::new());
    let mut ratios: Vec<Result<Vec<f64>, Lacks>> = LIBRARIES[1..].iter().map(|_| Ok(Vec::new())).collect();
    rounds(|first| {
        for (ratios, (_, library)) in ratios.iter_mut().zip(&LIBRARIES[1..]) {
            let Ok(so_far) = ratios else { continue };
            match library(&pool, &case, first) {
                Ok(cost) => {
                    let beside = LIBRARIES[0].1(&pool, &case, first).expect("linmap can do all");
                    so_far.push(cost.ns / beside.ns);
                    ours.push(beside.ns);
                    events.extend(beside.events);
                }
                Err(lacks) => *ratios = Err(lacks),
            }
        }
    });
    let ratios = ratios.into_iter().map(|ratios| ratios.map(Samples::new)).collect();
    Versus { ours: Samples::new(ours), events: medians(&events), ratios }
}

/// Returns the median of each event, or `None` if nothing was counted.
fn medians(samples: &[[f64; 3]]) -> Option<[f64; 3]> {
    let median = |event: usize| Samples::new(samples.iter().map(|events| events[event]).collect()).median();
    (!samples.is_empty()).then(|| std::array::from_fn(median))
}

/// Returns the mean time of one map, from samples of all maps made at once.
fn mean(case: &Case, all_at_once: impl Fn() -> f64) -> f64 {
    let total: f64 = (0..case.turns).map(|_| all_at_once()).sum();
    total / (case.turns * case.copies) as f64
}
