//! A second model, naive on purpose, judges random sequences as [`linmap_model::Machine`] does.
//!
//! The machine reasons about what a TLB may hold at most. This one explores what TLBs do: every fill,
//! every invalidation, in every order, on a few addresses; and reads descriptors bit by bit. It names all
//! rules that an event breaks; the machine must name one of them, at the same event.

mod by_hand;
mod decode;
mod descriptor;
mod memory;
mod model;
mod mutate;
mod operations;
mod places;
mod promise;
mod rules;
mod tlb;
mod unlinked;
mod zero_bits;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use linmap::{Geometry, Granule, OaFormat};
use linmap_model::{Core, Event, Machine, Rule, Setup};
use test_support::{Random, case, each, number, seeds};

use descriptor::{BLOCK, CONTIGUOUS, PAGE};
use model::{Broken, Naive};
use operations::Author;
use places::{BASE, L2, Layout};

/// A sequence, and where it happens.
#[derive(Clone, Debug)]
struct Case {
    cores: Vec<Core>,
    watched: Vec<u64>,
    prologue: Vec<Event>,
    events: Vec<Event>,
}

/// The event that breaks a rule, counted from the end of the prologue, and the rules.
type Verdict<T> = Option<(usize, T)>;

impl Case {
    fn new(cores: &[Core], layout: Layout, wide: bool, asid: u64) -> Self {
        let prologue = places::prologue(layout, cores.len() as u8, asid);
        Self { cores: cores.to_vec(), watched: places::watched(wide), prologue, events: Vec::new() }
    }

    /// The addresses that the naive model watches: all of a run, where one member says that there is a run.
    fn watched_and_runs(&self) -> Vec<u64> {
        let runs = self.events.iter().filter_map(|event| match *event {
            Event::Write { table, index, value, count, .. } if value & CONTIGUOUS != 0 => {
                let slots = index & !15..(index + count).next_multiple_of(16).min(512);
                let size = if table == L2 { BLOCK } else { PAGE };
                Some(slots.map(move |slot| BASE + slot as u64 * size))
            }
            _ => None,
        });
        let all: BTreeSet<u64> = runs.flatten().chain(self.watched.iter().copied()).collect();
        all.into_iter().collect()
    }

    /// The naive verdict, and how many events it is about: it ends before one that is out of scope.
    fn naive(&self) -> (Verdict<Broken>, usize) {
        let mut model = Naive::new(&self.cores, &self.watched_and_runs(), &self.prologue);
        for (number, event) in self.events.iter().enumerate() {
            match model.step(event) {
                Err(_) => return (None, number),
                Ok(broken) if !broken.is_empty() => return (Some((number, broken)), number + 1),
                Ok(_) => {}
            }
        }
        (None, self.events.len())
    }

    /// The machine's verdict on the first `events`.
    fn machine(&self, events: usize) -> Verdict<Rule> {
        let geometry = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
        // A few table pages are enough.
        // Attributes are random.
        let setup = Setup { tables: 16, allow_write_execute: true, ..Setup::new(geometry, &self.cores) };
        let mut machine = Machine::new(&setup).unwrap();
        for event in &self.prologue {
            machine.step(event.clone()).unwrap_or_else(|breach| panic!("the prologue:\n{breach}"));
        }
        let mut judged = self.events[..events].iter().enumerate();
        judged.find_map(|(number, event)| Some((number, machine.step(event.clone()).err()?.rule)))
    }

    fn agrees(&self) -> bool {
        let (naive, events) = self.naive();
        agree(&naive, &self.machine(events))
    }

    /// A shorter case in which the models disagree in the same way.
    fn shrunk(&self) -> Self {
        let (mut small, kind) = (self.clone(), self.kind());
        while let Some(smaller) = (0..small.events.len()).rev().find_map(|at| {
            let mut case = small.clone();
            case.events.remove(at);
            (!case.agrees() && case.kind() == kind).then_some(case)
        }) {
            small = smaller;
        }
        small
    }

    /// Both verdicts, without their places.
    fn kind(&self) -> String {
        let (naive, judged) = self.naive();
        format!("{:?} {:?}", naive.map(|v| v.1), self.machine(judged).map(|v| v.1))
    }

    /// Both verdicts, below the events.
    fn report(&self) -> String {
        let (naive, judged) = self.naive();
        let mut text = String::new();
        for core in &self.cores {
            writeln!(text, "{core:?}").unwrap();
        }
        for (number, event) in self.prologue.iter().enumerate() {
            writeln!(text, "{:6}{number:>6}  {event}", "").unwrap();
        }
        for (number, event) in self.events[..judged].iter().enumerate() {
            write!(text, "{number:>4}{:>4}  {event}", number + self.prologue.len()).unwrap();
            if let Event::Write { was: Some(was), .. } = event {
                write!(text, ", which was {was:#018x}").unwrap();
            }
            if let Event::Begin { changes, .. } = event {
                changes.iter().for_each(|c| write!(text, "\n{:14}  to {:x?}", "", c.to).unwrap());
            }
            text.push('\n');
        }
        writeln!(text, "naive    {naive:?}").unwrap();
        writeln!(text, "machine  {:?}", self.machine(judged)).unwrap();
        text
    }
}

/// The machine must name a rule that the naive model names, at the same event. It may stop before, because of what
/// callers owe each other while nothing is wrong yet.
fn agree(naive: &Verdict<Broken>, machine: &Verdict<Rule>) -> bool {
    match (naive, machine) {
        (naive, Some((number, Rule::Pending))) => naive.as_ref().is_none_or(|(at, _)| number <= at),
        (None, None) => true,
        (Some((at, broken)), Some((number, rule))) => at == number && broken.contains(rule),
        _ => false,
    }
}

/// A random case.
fn random_case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let kinds = [Core::STRONG, Core::STRONG, Core::WEAK];
    let first = random.of(&kinds);
    let second = if random.one_in(4) { random.of(&kinds) } else { first };
    let ttl = !random.one_in(8);
    let repeat_tlbi = random.one_in(8);
    let mut cores = [first, second].map(|core| Core { ttl, repeat_tlbi, ..core });
    if random.one_in(8) {
        cores[random.index(2)].range_tlbi = false;
    }
    let cores = &cores[..1 + random.index(2)];

    let run = random.one_in(8);
    let other = [Layout::Hole, Layout::Block, Layout::Block, Layout::Pages, Layout::Pages, Layout::Holed];
    let layout = if run { Layout::Run } else { random.of(&other) };
    let wide = run || random.one_in(16);
    let asid = random.of(&[0, 0, 3]);
    let mut case = Case::new(cores, layout, wide, asid);

    if random.one_in(8) {
        let length = 2 + random.index(10);
        case.events =
            (0..length).map(|_| mutate::anything(&mut random, &case.watched, cores.len())).collect();
        return case;
    }
    let operations = 1 + random.index(3);
    let careless = random.one_in(16);
    let mut author = Author::new(&mut random, layout, &case.watched, asid).on(cores, careless);
    let authored: Vec<_> = (0..operations).map(|_| author.operation()).collect();
    case.events = mutate::joined(&mut random, authored, true);
    for _ in 0..random.of(&[0, 1, 1, 1, 2, 2]) {
        mutate::mutate(&mut random, &mut case.events, &case.watched, cores.len());
    }
    case
}

#[test]
fn the_machine_agrees_on_random_sequences() {
    let seeds = seeds(number("LINMAP_NAIVE_CASES").unwrap_or(12_000));
    let cases = seeds.clone().count() as u64;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let parts: Vec<_> = std::thread::scope(|scope| {
        let part = |part| {
            let seeds = seeds.clone().skip(part).step_by(threads);
            move || judge(seeds)
        };
        let parts: Vec<_> = (0..threads).map(|p| scope.spawn(part(p))).collect();
        parts.into_iter().map(|p| p.join().unwrap()).collect()
    });
    let (mut clean, mut counts, mut disagree) = (0, BTreeMap::new(), Vec::new());
    for (some, broken, seeds) in parts {
        clean += some;
        disagree.extend(seeds);
        broken.into_iter().for_each(|(rule, n)| *counts.entry(rule).or_insert(0) += n);
    }
    println!("{cases} sequences, {clean} without a breach; {counts:?}");
    disagree.sort_unstable();
    // The shortest of each kind.
    let mut shown = BTreeMap::<String, Vec<(u64, Case)>>::new();
    for &seed in disagree.iter().take(400) {
        let case = random_case(seed).shrunk();
        shown.entry(case.kind()).or_default().push((seed, case));
    }
    let shown: String = shown
        .values()
        .map(|cases| {
            let (seed, case) = cases.iter().min_by_key(|(_, case)| case.events.len()).unwrap();
            format!("\n{} times, as LINMAP_SEED={seed:#x}, shortened:\n{}", cases.len(), case.report())
        })
        .collect();
    assert!(disagree.is_empty(), "the models disagree on {} of {cases} sequences{shown}", disagree.len());

    // What is drawn, a few cases do not show.
    if cases < 10_000 {
        return;
    }
    assert!(clean * 5 >= cases, "only {clean} of {cases} sequences are right");
    for rule in IN_SCOPE {
        let n = counts.get(rule).copied().unwrap_or(0);
        assert!(n * 4000 >= cases, "{rule:?} is broken by only {n} of {cases} sequences");
    }
}

/// The rules that these sequences can break.
const IN_SCOPE: &[Rule] = &[
    Rule::Unfilled,
    Rule::SizeConflict,
    Rule::BreakBeforeMake,
    Rule::InUse,
    Rule::Translation,
    Rule::Stale,
    Rule::NotVisible,
    Rule::Freed,
    Rule::ContiguousRun,
    Rule::TlbiOperand,
    Rule::Promised,
    Rule::LostUpdate,
    Rule::Reserved,
    Rule::UnderReader,
];

/// Counts clean cases and the broken rules, and lists the cases on which the models disagree.
fn judge(seeds: impl Iterator<Item = u64>) -> (u64, BTreeMap<Rule, u64>, Vec<u64>) {
    let (mut clean, mut counts, mut disagree) = (0, BTreeMap::new(), Vec::new());
    for seed in seeds {
        let (naive, machine) = case(seed, || {
            let case = random_case(seed);
            let (naive, events) = case.naive();
            (naive, case.machine(events))
        });
        match &machine {
            None => clean += 1,
            Some((_, rule)) => *counts.entry(*rule).or_insert(0) += 1,
        }
        if !agree(&naive, &machine) {
            disagree.push(seed);
        }
    }
    (clean, counts, disagree)
}

/// Correct operations break nothing, so what is generated is not wrong before it is mutated.
#[test]
fn operations_are_right() {
    each(1000, |seed| {
        let mut random = Random::new(seed);
        let layouts = [Layout::Hole, Layout::Block, Layout::Pages, Layout::Holed, Layout::Run];
        let layout = random.of(&layouts);
        let core = random.of(&[Core::STRONG, Core::WEAK]);
        let cores = [core, Core { repeat_tlbi: random.one_in(4), ..core }];
        let mut case = Case::new(&cores, layout, layout == Layout::Run, 0);
        let mut author = Author::new(&mut random, layout, &case.watched, 0).on(&cores, false);
        let operations = (0..3).map(|_| author.operation()).collect();
        case.events = mutate::joined(&mut random, operations, false);
        let (naive, judged) = case.naive();
        assert!(naive.is_none() && judged == case.events.len(), "{}", case.report());
    });
}
