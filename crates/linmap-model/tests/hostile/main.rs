//! Logs from outside may hold any event with any value. Each gets an answer, and the same one when it is replayed.

mod events;

use linmap::arch::{Descriptor, Level};
use linmap::{Geometry, Granule, Half, OaFormat, Pa, Va};
use linmap_model::{Barrier, Breach, Core, Event, Expected, Machine, ReplayError, Rule, Setup, replay};
use test_support::Random;

use crate::events::Events;

/// The cases, and the events of each: a number of steps, whatever the time.
const CASES: u64 = 150;
const EVENTS: usize = 80;

#[test]
fn every_log_gets_the_same_answer_again() {
    let setups = events::setups();
    let (mut accepted, mut refused) = (0, 0);
    test_support::each(CASES, |seed| {
        let mut random = Random::new(seed);
        let setup = &setups[random.index(setups.len())];
        let mut log = Log::new(setup);
        let mut events = Events { random, setup };
        for _ in 0..EVENTS {
            if log.takes(events.next()) { accepted += 1 } else { refused += 1 }
        }
        log.ends();
    });
    if !test_support::is_one() {
        // Logs that end at once, or never, are no test.
        assert!(accepted > CASES && refused > CASES, "{accepted} accepted, {refused} refused");
    }
}

/// Four tables, each of which leads to the next from all of its slots: a walk would have 512 to the fourth leaves.
#[test]
fn a_few_tables_are_not_a_map_without_end() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    let setup = Setup::new(g, &[Core::STRONG]);
    let mut machine = Machine::new(&setup).unwrap();
    let table = |number: u64| Pa(setup.tables_at + number * g.page_size());
    for number in 0..4 {
        machine.step(Event::Alloc { cpu: 0, table: table(number).0 }).unwrap();
        let value = if number == 3 { 2 } else { Descriptor::table(table(number + 1), g).0 };
        machine.step(filled(table(number).0, g.entries(Level::PAGE), value)).unwrap();
    }
    let name = "announce".to_owned();
    let hole = Expected::new(Va(g.base(Half::Upper)), 1 << g.va_bits(), None);
    machine.step(Event::Begin { cpu: 0, root: table(0).0, name, changes: vec![hole] }).unwrap();
    let done = machine.step(Event::Done { cpu: 0, ok: true });
    assert!(done.is_err_and(|breach| breach.rule == Rule::Sequence));
}

fn filled(table: u64, count: usize, value: u64) -> Event {
    Event::Write { cpu: 0, table, index: 0, value, count, step: 0, was: None }
}

/// The events that a machine has taken without a breach.
struct Log<'a> {
    setup: &'a Setup,
    machine: Machine,
    events: Vec<Event>,
    /// The lines of the same log.
    lines: String,
}

impl<'a> Log<'a> {
    /// Starts with some empty tables.
    fn new(setup: &'a Setup) -> Self {
        let lines = setup.to_json() + "\n";
        let mut log = Self { setup, machine: Machine::new(setup).unwrap(), events: Vec::new(), lines };
        let page = setup.geometry.page_size();
        for number in 0..4 {
            let table = setup.tables_at + number * page;
            assert!(log.takes(Event::Alloc { cpu: 0, table }));
            assert!(log.takes(filled(table, (page / 8) as usize, 0)));
        }
        assert!(log.takes(Event::Dsb { cpu: 0, kind: Barrier::Ish }));
        log
    }

    /// Takes an event. Returns false, and is as it was, if that breaks a rule.
    fn takes(&mut self, event: Event) -> bool {
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event, "{line}");
        let number = self.events.len();
        let Err(breach) = self.machine.step(event.clone()) else {
            assert_eq!((self.machine.verdict(), self.machine.events()), (Ok(()), number + 1), "{event}");
            self.events.push(event);
            self.lines += &(line + "\n");
            return true;
        };
        assert_eq!(breach.at, number, "{breach}");
        assert!(breach.events.last().is_some_and(|last| *last == (number, event)), "{breach}");
        assert!(breach.to_string().contains(breach.rule.section()));
        self.stays(&breach);
        self.replays(&line, &breach);
        self.again();
        false
    }

    /// Whatever follows, a machine stays with its breach.
    fn stays(&mut self, breach: &Breach) {
        let same =
            |verdict: Result<(), Box<Breach>>| assert_eq!(verdict.as_ref().map_err(|b| &**b), Err(breach));
        same(self.machine.verdict());
        same(self.machine.finish());
        same(self.machine.step(Event::Isb { cpu: 0 }));
        same(self.machine.verdict());
    }

    /// The log with one more line is refused there, for the same reason.
    fn replays(&self, line: &str, expected: &Breach) {
        let log = format!("{}{line}\n", self.lines);
        match replay(log.as_bytes()) {
            Err(ReplayError::Breach { line, breach, later: 0 }) => {
                assert_eq!((line, &*breach), (self.events.len() + 2, expected));
            }
            other => panic!("replayed, it is {other:?} and not\n{expected}"),
        }
    }

    /// A new machine takes the same events.
    fn again(&mut self) {
        self.machine = Machine::new(self.setup).unwrap();
        for event in &self.events {
            self.machine.step(event.clone()).unwrap_or_else(|breach| panic!("accepted before:\n{breach}"));
        }
    }

    /// The machine at rest is right or not, which changes nothing, and a replay says the same.
    fn ends(self) {
        let ended = self.machine.finish();
        assert_eq!(self.machine.finish(), ended);
        assert_eq!(self.machine.verdict(), Ok(()));
        match (replay(self.lines.as_bytes()), ended) {
            (Ok(events), Ok(())) => assert_eq!(events, self.events.len()),
            (Err(ReplayError::Breach { line, breach, later: 0 }), Err(expected)) => {
                assert_eq!((line, breach), (self.events.len() + 1, expected));
            }
            (replayed, ended) => panic!("at rest it is {ended:?}, and replayed {replayed:?}"),
        }
    }
}
