//! A model of rendezvous: every interleaving of a CPU that parks others and of those that it parks, one load or store a
//! step, with parkings that are called off at any moment. It tries four parkings of one other CPU, and two of two.
//!
//! The steps are those of `parking`, in its order, and the conditions are the rules in `rendezvous`. These must hold:
//!
//! - when tables are stored to, each other CPU is off the upper half;
//! - a CPU in the upper half has the root that is in force;
//! - from every state, all can reach their end: the last parking, which is not called off, is done.
//!
//! Memory is sequentially consistent; the comment of `parking` says why that is so for the accesses that matter.

extern crate std;

use std::collections::HashMap;
use std::string::String;
use std::vec::Vec;
use std::{format, println, vec};

use super::{has_come, is_asked, is_over};

/// The place of a CPU that answers; numbers are what it has read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// Doing something else.
    Work,
    /// It has read the number of the last parking.
    Looked(u8),
    /// It has seen that it is asked, and not yet masked interrupts; wrong rules answer this number.
    Asked(u8),
    /// Interrupts are masked; it looks again.
    Masked,
    Relooked(u8),
    /// It leaves the upper half, then answers. (Wrong rules: the other way round.)
    Leave(u8),
    Say(u8),
    /// It looks for the end of the parking. (Wrong rules have loaded this root.)
    Wait(u8, u8),
    /// It waits for an event.
    Sleep(u8, u8),
    /// It loads the root.
    Load(u8),
    /// It continues with this root.
    Return(u8, u8),
    /// It announces that it is back.
    Back(u8),
}

/// Another CPU: its place, and that of its interrupt handler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Cpu {
    at: At,
    handler: Option<At>,
    /// The root that it translates by; none if it is off the upper half.
    root: Option<u8>,
    /// An interrupt is pending.
    sent: bool,
    /// The event register.
    event: bool,
    away: u8,
    back: u8,
}

/// The changes of a CPU in one step.
#[derive(Clone, Copy)]
enum Effect {
    None,
    Root(Option<u8>),
    Away(u8),
    Back(u8),
    Awake,
}

impl Effect {
    fn on(self, cpu: &mut Cpu) {
        match self {
            Self::None => {}
            Self::Root(root) => cpu.root = root,
            Self::Away(number) => cpu.away = number,
            Self::Back(number) => cpu.back = number,
            Self::Awake => cpu.event = false,
        }
    }
}

/// The place of the CPU that parks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Asker {
    Ask,
    Send,
    /// It reads the answer of this CPU.
    Look(usize),
    Store,
    Switch,
    Over,
    Wake,
    CallOff,
    WakeAfterCallOff,
    /// It waits until this CPU is back, as a measurement does.
    AllBack(usize),
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct System<const OTHERS: usize> {
    asked: u8,
    over: u8,
    root: u8,
    asker: Asker,
    /// The parkings that are still to be asked for. All but the last may be called off.
    left: u8,
    cpus: [Cpu; OTHERS],
}

/// The rules, and the wrong ones.
#[derive(Clone, Copy)]
struct Rules {
    is_asked: fn(u64, u64) -> bool,
    has_come: fn(u64, u64) -> bool,
    is_over: fn(u64, u64) -> bool,
    masks_before_it_decides: bool,
    leaves_before_it_says_so: bool,
    waits_before_it_loads: bool,
    number_is_new: bool,
    waits_for_all: bool,
    root_before_over: bool,
    call_off_is_over: bool,
    call_off_wakes: bool,
}

const RIGHT: Rules = Rules {
    is_asked,
    has_come,
    is_over,
    masks_before_it_decides: true,
    leaves_before_it_says_so: true,
    waits_before_it_loads: true,
    number_is_new: true,
    waits_for_all: true,
    root_before_over: true,
    call_off_is_over: true,
    call_off_wakes: true,
};

impl<const OTHERS: usize> System<OTHERS> {
    fn start(parkings: u8) -> Self {
        let cpu =
            Cpu { at: At::Work, handler: None, root: Some(0), sent: false, event: false, away: 0, back: 0 };
        Self { asked: 0, over: 0, root: 0, asker: Asker::Ask, left: parkings, cpus: [cpu; OTHERS] }
    }

    /// Returns true if all are done and back at work.
    fn is_end(&self) -> bool {
        let at_work = |c: &Cpu| c.at == At::Work && c.handler.is_none() && !c.sent;
        self.asker == Asker::Done && self.cpus.iter().all(at_work)
    }

    /// Returns a condition that does not hold.
    fn breach(&self) -> Option<&'static str> {
        if self.asker == Asker::Store && self.cpus.iter().any(|c| c.root.is_some()) {
            return Some("tables change under a CPU");
        }
        let stale = |c: &Cpu| c.root.is_some_and(|root| root != self.root);
        self.cpus.iter().any(stale).then_some("a CPU goes on with another root")
    }

    fn wake(&mut self) {
        self.cpus.iter_mut().for_each(|c| c.event = true);
    }

    /// Returns all states that one step of the asking CPU leads to.
    fn asker_steps(&self, rules: &Rules, out: &mut Vec<Self>) {
        let mut next = self.clone();
        let number = self.asked;
        next.asker = match self.asker {
            Asker::Ask => {
                let reused = !rules.number_is_new && self.asked != 0;
                next.asked = if reused { self.asked } else { self.asked + 1 };
                next.over = if reused { self.asked - 1 } else { self.over };
                next.left -= 1;
                Asker::Send
            }
            Asker::Send => {
                next.cpus.iter_mut().for_each(|c| c.sent = true);
                Asker::Look(0)
            }
            Asker::Look(cpu) => {
                if self.left != 0 {
                    let mut called_off = self.clone();
                    called_off.asker = Asker::CallOff;
                    out.push(called_off);
                }
                let come = (rules.has_come)(self.cpus[cpu].away.into(), number.into());
                match cpu + 1 {
                    _ if !come => return,
                    next if next == OTHERS || !rules.waits_for_all => Asker::Store,
                    next => Asker::Look(next),
                }
            }
            Asker::Store if rules.root_before_over => Asker::Switch,
            Asker::Store => {
                next.over = number;
                Asker::Switch
            }
            Asker::Switch => {
                next.root += 1;
                Asker::Over
            }
            Asker::Over => {
                next.over = number;
                Asker::Wake
            }
            Asker::Wake => {
                next.wake();
                Asker::AllBack(0)
            }
            Asker::AllBack(cpu) => match cpu + 1 {
                _ if self.cpus[cpu].back < number => return,
                next if next == OTHERS => self.next_parking(),
                next => Asker::AllBack(next),
            },
            Asker::CallOff => {
                next.over = if rules.call_off_is_over { number } else { self.over };
                Asker::WakeAfterCallOff
            }
            Asker::WakeAfterCallOff => {
                if rules.call_off_wakes {
                    next.wake();
                }
                self.next_parking()
            }
            Asker::Done => return,
        };
        out.push(next);
    }

    const fn next_parking(&self) -> Asker {
        if self.left == 0 { Asker::Done } else { Asker::Ask }
    }

    /// Returns all states that one step of another CPU leads to.
    fn cpu_steps(&self, n: usize, rules: &Rules, out: &mut Vec<Self>) {
        let cpu = &self.cpus[n];
        let mut push = |change: &dyn Fn(&mut Cpu)| {
            let mut next = self.clone();
            change(&mut next.cpus[n]);
            out.push(next);
        };
        // Nothing masks interrupts before the handler does.
        let masked = !matches!(cpu.at, At::Work | At::Looked(_) | At::Asked(_));
        if cpu.sent && cpu.handler.is_none() && !masked {
            push(&|c| {
                c.sent = false;
                c.handler = Some(At::Masked);
            });
        }
        let at = cpu.handler.unwrap_or(cpu.at);
        if let Some((to, effect)) = self.answering(at, n, rules) {
            push(&|c| {
                effect.on(c);
                match &mut c.handler {
                    Some(_) if to == At::Work => c.handler = None,
                    Some(handler) => *handler = to,
                    None => c.at = to,
                }
            });
        }
    }

    /// Returns the places that a CPU can go to, each with the changes of its own data.
    fn answering(&self, at: At, n: usize, rules: &Rules) -> Option<(At, Effect)> {
        let asked = |number: u8| (rules.is_asked)(number.into(), self.over.into());
        let leaves_first = rules.leaves_before_it_says_so;
        let leave = |number| if leaves_first { At::Leave(number) } else { At::Say(number) };
        let wait = |number| if rules.waits_before_it_loads { At::Wait(number, 0) } else { At::Load(number) };
        let silent = |to| (to, Effect::None);
        Some(match at {
            At::Work => silent(At::Looked(self.asked)),
            At::Looked(number) => silent(if asked(number) { At::Asked(number) } else { At::Work }),
            At::Asked(_) if rules.masks_before_it_decides => silent(At::Masked),
            At::Asked(number) => silent(leave(number)),
            At::Masked => silent(At::Relooked(self.asked)),
            At::Relooked(number) => silent(if asked(number) { leave(number) } else { At::Work }),
            At::Leave(number) if leaves_first => (At::Say(number), Effect::Root(None)),
            At::Leave(number) => (wait(number), Effect::Root(None)),
            At::Say(number) if leaves_first => (wait(number), Effect::Away(number)),
            At::Say(number) => (At::Leave(number), Effect::Away(number)),
            At::Wait(number, root) if (rules.is_over)(self.over.into(), number.into()) => {
                silent(if rules.waits_before_it_loads { At::Load(number) } else { At::Return(number, root) })
            }
            At::Wait(number, root) => silent(At::Sleep(number, root)),
            At::Sleep(number, root) if self.cpus[n].event => (At::Wait(number, root), Effect::Awake),
            At::Sleep(..) => return None,
            At::Load(number) if rules.waits_before_it_loads => silent(At::Return(number, self.root)),
            At::Load(number) => silent(At::Wait(number, self.root)),
            At::Return(number, root) => (At::Back(number), Effect::Root(Some(root))),
            At::Back(number) => (At::Work, Effect::Back(number)),
        })
    }
}

/// Explores all states. Returns their number, or a condition that does not hold and the state.
fn search<const OTHERS: usize>(rules: &Rules, parkings: u8) -> Result<usize, String> {
    let start = System::<OTHERS>::start(parkings);
    let mut numbers = HashMap::from([(start.clone(), 0)]);
    let (mut states, mut before) = (vec![start], vec![Vec::new()]);
    let (mut at, mut steps) = (0, Vec::new());
    while at < states.len() {
        let state = states[at].clone();
        if let Some(breach) = state.breach() {
            return Err(format!("{breach}: {state:?}"));
        }
        state.asker_steps(rules, &mut steps);
        (0..OTHERS).for_each(|cpu| state.cpu_steps(cpu, rules, &mut steps));
        for next in steps.drain(..) {
            let number = *numbers.entry(next).or_insert_with_key(|next| {
                states.push(next.clone());
                before.push(Vec::new());
                states.len() - 1
            });
            before[number].push(at);
        }
        at += 1;
    }
    // Backwards from the ends.
    let mut left: Vec<usize> = (0..states.len()).filter(|n| states[*n].is_end()).collect();
    let mut reaches = vec![false; states.len()];
    while let Some(number) = left.pop() {
        if !std::mem::replace(&mut reaches[number], true) {
            left.extend(&before[number]);
        }
    }
    match reaches.iter().position(|reaches| !reaches) {
        Some(stuck) => Err(format!("for ever: {:?}", states[stuck])),
        None => Ok(states.len()),
    }
}

/// Four parkings of one CPU, and two of two.
fn judge(rules: &Rules) -> Result<usize, String> {
    Ok(search::<1>(rules, 4)? + search::<2>(rules, 2)?)
}

#[test]
fn whatever_the_order_nothing_is_corrupted_or_blocked() {
    let states = judge(&RIGHT).expect("the rules hold");
    println!("{states} states");
    assert!(states > 10_000, "{states}");
}

/// A CPU answers no number that was not asked for, so none is later than the one that is waited for.
#[test]
fn at_least_the_number_is_the_number() {
    judge(&Rules { has_come: |said, number| said >= number, ..RIGHT }).expect("the same");
}

#[test]
fn wrong_rules_are_found() {
    const UNDER: &str = "tables change under a CPU";
    const ROOT: &str = "a CPU goes on with another root";
    const EVER: &str = "for ever";
    let wrong: [(&str, &str, Rules); 11] = [
        (
            "what was said of the last one counts for this one",
            UNDER,
            Rules { has_come: |said, number| said != 0 && said + 1 >= number, ..RIGHT },
        ),
        ("a number is used again", UNDER, Rules { number_is_new: false, ..RIGHT }),
        ("one of two is waited for", UNDER, Rules { waits_for_all: false, ..RIGHT }),
        (
            "a CPU says that it is away, then leaves",
            UNDER,
            Rules { leaves_before_it_says_so: false, ..RIGHT },
        ),
        ("it is over before the root is there", ROOT, Rules { root_before_over: false, ..RIGHT }),
        ("a CPU loads the root, then waits", ROOT, Rules { waits_before_it_loads: false, ..RIGHT }),
        (
            "a CPU waits for its own number to be over",
            EVER,
            Rules { is_over: |over, number| over == number, ..RIGHT },
        ),
        ("who calls off does not say so", EVER, Rules { call_off_is_over: false, ..RIGHT }),
        ("calling off wakes no CPU", EVER, Rules { call_off_wakes: false, ..RIGHT }),
        (
            "an interrupt between the decision and the answer",
            EVER,
            Rules { masks_before_it_decides: false, ..RIGHT },
        ),
        ("no CPU is ever asked", EVER, Rules { is_asked: |_, _| false, ..RIGHT }),
    ];
    for (what, breach, rules) in wrong {
        let found = judge(&rules).expect_err(what);
        println!("{what}: {found}");
        assert!(found.starts_with(breach), "{what}: {found}");
    }
}
