//! What `run=` can name. One table, for the image that does it and for the command that offers it. Pure.

use core::fmt;

use crate::stress::Asked;

/// Something to do once the system is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// `bench`
    Bench,
    /// `cpus`
    Cpus,
    /// `crash`
    Crash,
    /// `dump`
    Dump,
    /// `interrupts`
    Interrupts,
    /// `kprobes`
    Kprobes,
    /// `late[:MS]`: for so many milliseconds CPUs are waited for.
    Late(u64),
    /// `micro`
    Micro,
    /// `modes`
    Modes,
    /// `modules`
    Modules,
    /// `protection`
    Protection,
    /// `selftest`
    Selftest,
    /// `stress[:OPERATIONS[:SEED]]`
    Stress(Asked),
    /// `together`
    Together,
    /// `vmalloc80`
    Vmalloc80,
    /// `fail`
    Fail,
    /// `fault`
    Fault,
    /// `fault-all`
    FaultAll,
    /// `hang`
    Hang,
    /// `overflow`
    Overflow,
    /// `overflow-last`
    OverflowLast,
    /// `panic`
    Panic,
}

/// A task as it is offered.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// What it is called.
    pub name: &'static str,
    /// What may follow its name.
    pub parameters: &'static str,
    /// What it does, in a line.
    pub does: &'static str,
    /// The task, where nothing follows its name.
    pub task: Task,
}

const fn offer(name: &'static str, task: Task, does: &'static str) -> Offer {
    Offer { name, parameters: "", does, task }
}

/// For so many milliseconds `run=late` waits for a CPU, unless told otherwise.
const LATE: u64 = 10;
const STRESS: Task = Task::Stress(Asked { operations: Asked::OPERATIONS, seed: None });

/// All tasks; those that go wrong on purpose are the last.
pub const OFFERS: [Offer; 22] = [
    offer("bench", Task::Bench, "counts what changes of permissions cost"),
    offer("cpus", Task::Cpus, "has all CPUs work and change the map"),
    offer("crash", Task::Crash, "seals, opens, loads and shrinks the crash kernel's memory"),
    offer("dump", Task::Dump, "prints the linear map as it is in the tables"),
    offer("interrupts", Task::Interrupts, "tries timers, and CPUs that interrupt each other"),
    offer("kprobes", Task::Kprobes, "probes functions while all CPUs call them"),
    Offer {
        parameters: "[:MS]",
        ..offer(
            "late",
            Task::Late(LATE),
            "has CPUs not come to be parked or held, and waits for them for MS milliseconds",
        )
    },
    offer("micro", Task::Micro, "counts single uses of page tables"),
    offer("modes", Task::Modes, "tries on each CPU what mode and policy say"),
    offer("modules", Task::Modules, "loads and unloads code"),
    offer("protection", Task::Protection, "tries what each kind of memory permits"),
    offer("selftest", Task::Selftest, "changes the map and probes it"),
    Offer {
        parameters: "[:OPERATIONS[:SEED]]",
        ..offer("stress", STRESS, "has all CPUs change the map at random, beside a model of it")
    },
    offer("together", Task::Together, "splits and collapses leaves that other CPUs use"),
    offer("vmalloc80", Task::Vmalloc80, "has most of RAM read-only for a while, by another address"),
    offer("fail", Task::Fail, "fails"),
    offer("fault", Task::Fault, "reads where nothing is mapped"),
    offer("fault-all", Task::FaultAll, "the same on all CPUs at once"),
    offer("hang", Task::Hang, "does nothing for ever"),
    offer("overflow", Task::Overflow, "runs out of stack"),
    offer("overflow-last", Task::OverflowLast, "the same on the last CPU"),
    offer("panic", Task::Panic, "panics"),
];

/// Why a text is no task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal<'a> {
    /// Nothing is called that.
    Unknown(&'a str),
    /// There is a task of that name, and something else follows it than may.
    Parameters(&'a str, &'static str),
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "there is no task {}; {Known}", name.escape_debug()),
            Self::Parameters(name, "") => write!(f, "{name} takes no numbers"),
            Self::Parameters("stress", _) => crate::stress::NotUnderstood.fmt(f),
            Self::Parameters(name, parameters) => write!(f, "{name} is {name}{parameters}, as in {name}:100"),
        }
    }
}

impl core::error::Error for Refusal<'_> {}

/// The names of all tasks, as a sentence.
struct Known;

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there are")?;
        for (n, offer) in OFFERS.iter().enumerate() {
            let before = match n {
                0 => " ",
                n if n + 1 == OFFERS.len() => " and ",
                _ => ", ",
            };
            write!(f, "{before}{}{}", offer.name, offer.parameters)?;
        }
        Ok(())
    }
}

impl Task {
    /// The task of that name, and what follows it with colons.
    ///
    /// # Errors
    ///
    /// No task is called that, or what follows is not what it takes.
    pub fn parse(text: &str) -> Result<Self, Refusal<'_>> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let offer = OFFERS.iter().find(|offer| offer.name == name).ok_or(Refusal::Unknown(text))?;
        let Some(rest) = rest else { return Ok(offer.task) };
        let given = match offer.task {
            Self::Stress(_) => Asked::parse(text).ok().map(Self::Stress),
            Self::Late(_) => rest.parse().ok().filter(|ms| *ms != 0).map(Self::Late),
            _ => None,
        };
        given.ok_or(Refusal::Parameters(offer.name, offer.parameters))
    }

    /// Whether it changes the linear map, which takes RAM that is nobody's.
    pub const fn changes_the_map(self) -> bool {
        matches!(
            self,
            Self::Bench | Self::Late(_) | Self::Modes | Self::Selftest | Self::Stress(_) | Self::Together
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::collections::BTreeSet;
    use std::string::ToString;

    #[test]
    fn each_is_found_by_its_name() {
        for offer in OFFERS {
            assert_eq!(Task::parse(offer.name), Ok(offer.task));
            assert!(!offer.does.is_empty() && offer.name.bytes().all(|b| b != b',' && b != b':'));
        }
        let names: BTreeSet<_> = OFFERS.map(|offer| offer.name).into();
        assert_eq!(names.len(), OFFERS.len());
    }

    #[test]
    fn numbers_follow_where_there_may_be_some() {
        let stress = |operations, seed| Ok(Task::Stress(Asked { operations, seed }));
        assert_eq!(Task::parse("stress:1000:7"), stress(1000, Some(7)));
        assert_eq!(Task::parse("stress::7"), stress(Asked::OPERATIONS, Some(7)));
        assert_eq!(Task::parse("late:250"), Ok(Task::Late(250)));
        for (text, why) in [
            ("stress:many", "stress takes two numbers"),
            ("stress:1:2:3", "stress takes two numbers"),
            ("late:", "late is late[:MS]"),
            ("late:0", "late is late[:MS]"),
            ("late:1:2", "late is late[:MS]"),
            ("dump:1", "dump takes no numbers"),
            ("dump:", "dump takes no numbers"),
        ] {
            let said = Task::parse(text).map_err(|e| e.to_string());
            assert!(said.as_ref().is_err_and(|said| said.starts_with(why)), "{text}: {said:?}");
        }
    }

    #[test]
    fn what_is_unknown_is_answered_with_what_there_is() {
        for unknown in ["", "stressed", "Dump", "bogus:1", "\u{1b}[2J"] {
            let said = Task::parse(unknown).expect_err(unknown).to_string();
            assert!(said.ends_with("overflow, overflow-last and panic"), "{said}");
            assert!(said.contains("; there are bench, cpus, ") && !said.contains('\u{1b}'), "{said}");
        }
    }

    #[test]
    fn scratch_memory_is_for_those_who_change_the_map() {
        let changing = OFFERS.iter().filter(|offer| offer.task.changes_the_map()).map(|offer| offer.name);
        assert!(changing.eq(["bench", "late", "modes", "selftest", "stress", "together"]));
    }
}
