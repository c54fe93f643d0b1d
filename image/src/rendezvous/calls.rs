//! A model of calls: every interleaving of two CPUs that call and of one that answers, from its interrupt handler and
//! from a wait that the handler interrupts, one load or store a step. A caller may give up at any moment.
//!
//! The steps are those of `parking::call`, in its order. These must hold:
//!
//! - when a caller says that the CPU has answered, the CPU has looked since the call;
//! - from every state, all can reach their end without giving up again: each call that is not given up is answered.

extern crate std;

use std::collections::HashMap;
use std::string::String;
use std::vec::Vec;
use std::{format, println, vec};

use super::has_answered;

/// The place of a CPU that calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Caller {
    /// It is about to take a number.
    Ask,
    /// Wrong rules: it has read the last number.
    Read(u8),
    /// It has taken this number, and is about to interrupt the other CPU.
    Send(u8),
    /// It looks for the answer to this number.
    Look(u8),
    Done,
}

/// The place of the CPU that answers, and that of its handler; numbers are what it has read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Look,
    Compare(u8),
    Answer(u8),
    Done,
}

const CALLERS: usize = 2;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct System {
    called: u8,
    here: u8,
    callers: [Caller; CALLERS],
    /// The CPU has looked since this caller took its number.
    looked: [bool; CALLERS],
    /// A caller has said that the CPU has answered, and it has not looked since.
    breach: bool,
    /// The looks of a wait that are still to come; none is left in the end.
    looks: u8,
    wait: At,
    handler: Option<At>,
    sent: bool,
}

/// The rules, and the wrong ones.
#[derive(Clone, Copy)]
struct Rules {
    has_answered: fn(u64, u64) -> bool,
    numbers_are_taken_at_once: bool,
    number_before_interrupt: bool,
    no_answer_goes_back: bool,
    gives_up: bool,
}

const RIGHT: Rules = Rules {
    has_answered,
    numbers_are_taken_at_once: true,
    number_before_interrupt: true,
    no_answer_goes_back: true,
    gives_up: true,
};

impl System {
    fn start() -> Self {
        Self {
            called: 0,
            here: 0,
            callers: [Caller::Ask; CALLERS],
            looked: [false; CALLERS],
            breach: false,
            looks: 2,
            wait: At::Look,
            handler: None,
            sent: false,
        }
    }

    /// Returns true if all are done.
    fn is_end(&self) -> bool {
        let answered = self.wait == At::Done && self.handler.is_none() && !self.sent;
        answered && self.callers.iter().all(|caller| *caller == Caller::Done)
    }

    /// Takes a number: from here on the CPU must look again.
    fn take(&mut self, n: usize, number: u8, rules: &Rules) {
        self.called = self.called.max(number);
        self.looked[n] = false;
        self.callers[n] =
            if rules.number_before_interrupt { Caller::Send(number) } else { Caller::Look(number) };
    }

    /// Returns all states that one step of a caller leads to.
    fn caller_steps(&self, n: usize, rules: &Rules, out: &mut Vec<Self>) {
        let mut next = self.clone();
        match self.callers[n] {
            Caller::Ask if !rules.number_before_interrupt && !self.sent => {
                // It interrupts first, and takes its number when it likes.
                next.sent = true;
                next.callers[n] = Caller::Read(self.called);
            }
            Caller::Ask if rules.numbers_are_taken_at_once => next.take(n, self.called + 1, rules),
            Caller::Ask => next.callers[n] = Caller::Read(self.called),
            Caller::Read(_) if rules.numbers_are_taken_at_once => next.take(n, self.called + 1, rules),
            Caller::Read(number) => next.take(n, number + 1, rules),
            Caller::Send(number) => {
                next.sent = true;
                next.callers[n] = Caller::Look(number);
            }
            Caller::Look(number) => {
                if rules.gives_up {
                    let mut gave_up = self.clone();
                    gave_up.callers[n] = Caller::Done;
                    out.push(gave_up);
                }
                if !(rules.has_answered)(self.here.into(), number.into()) {
                    return;
                }
                next.breach = !self.looked[n];
                next.callers[n] = Caller::Done;
            }
            Caller::Done => return,
        }
        out.push(next);
    }

    /// Returns all states that one step of the CPU that answers leads to: of its handler, or of its wait.
    fn cpu_steps(&self, rules: &Rules, out: &mut Vec<Self>) {
        if self.sent && self.handler.is_none() {
            let mut next = self.clone();
            (next.sent, next.handler) = (false, Some(At::Look));
            out.push(next);
        }
        let mut next = self.clone();
        let to = match self.handler.unwrap_or(self.wait) {
            At::Look => {
                next.looked = [true; CALLERS];
                At::Compare(self.called)
            }
            At::Compare(number) if self.here < number => At::Answer(number),
            At::Answer(number) => {
                next.here = if rules.no_answer_goes_back { self.here.max(number) } else { number };
                At::Done
            }
            At::Compare(_) => At::Done,
            At::Done => return,
        };
        match (self.handler, to) {
            (Some(_), At::Done) => next.handler = None,
            (Some(_), to) => next.handler = Some(to),
            (None, At::Done) if self.looks > 1 => (next.looks, next.wait) = (self.looks - 1, At::Look),
            (None, to) => next.wait = to,
        }
        out.push(next);
    }
}

/// Explores all states. Returns their number, or a condition that does not hold and the state.
fn search(rules: &Rules) -> Result<usize, String> {
    let start = System::start();
    let mut numbers = HashMap::from([(start.clone(), 0)]);
    let (mut states, mut before) = (vec![start], vec![Vec::new()]);
    let (mut at, mut steps) = (0, Vec::new());
    while at < states.len() {
        let state = states[at].clone();
        if state.breach {
            return Err(format!("an answer to no call: {state:?}"));
        }
        (0..CALLERS).for_each(|n| state.caller_steps(n, rules, &mut steps));
        state.cpu_steps(rules, &mut steps);
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

/// With callers that give up, and with callers that wait for ever.
fn judge(rules: &Rules) -> Result<usize, String> {
    Ok(search(rules)? + search(&Rules { gives_up: false, ..*rules })?)
}

#[test]
fn each_call_is_answered_after_it_was_made() {
    let states = judge(&RIGHT).expect("the rules hold");
    println!("{states} states");
    assert!(states > 1000, "{states}");
}

#[test]
fn wrong_rules_are_found() {
    const NONE: &str = "an answer to no call";
    const EVER: &str = "for ever";
    let wrong: [(&str, &str, Rules); 5] = [
        (
            "what was said to the last one counts for this one",
            NONE,
            Rules { has_answered: |said, number| said != 0 && said + 1 >= number, ..RIGHT },
        ),
        ("two callers have one number", NONE, Rules { numbers_are_taken_at_once: false, ..RIGHT }),
        (
            "the answer to a later one is none",
            EVER,
            Rules { has_answered: |said, number| said == number, ..RIGHT },
        ),
        ("an interrupt before the number", EVER, Rules { number_before_interrupt: false, ..RIGHT }),
        ("an answer goes back", EVER, Rules { no_answer_goes_back: false, ..RIGHT }),
    ];
    for (what, breach, rules) in wrong {
        let found = judge(&rules).expect_err(what);
        println!("{what}: {found}");
        assert!(found.starts_with(breach), "{what}: {found}");
    }
}
