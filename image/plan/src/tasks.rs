//! The tasks that `run=` can name: one table, from which the image runs them and the command offers them.

use core::fmt;

use crate::measure::Effort;

/// A task as it is offered.
#[derive(Clone, Copy, Debug)]
pub struct TaskInfo {
    /// Its name.
    pub name: &'static str,
    /// The parameters that may follow its name.
    pub parameters: &'static str,
    /// A line that says what it does.
    pub does: &'static str,
    /// It changes the linear map, so it needs RAM that is set aside for that.
    pub changes_the_map: bool,
    /// The task with the default for each parameter.
    pub task: Task,
}

/// Makes [`Task`] and [`TASKS`] of one line for each task.
macro_rules! tasks {
    ($($name:literal, $task:ident $(($type:ty = $default:expr))?, $parameters:literal, $changes:expr, $does:literal;)*) => {
        /// Something to do once the system is up.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Task {
            $(
                #[doc = concat!("`", $name, $parameters, "`: ", $does, ".")]
                $task $(($type))?,
            )*
        }

        /// All tasks; those that go wrong on purpose are the last.
        pub const TASKS: &[TaskInfo] = &[
            $(TaskInfo {
                name: $name,
                parameters: $parameters,
                does: $does,
                changes_the_map: $changes,
                task: Task::$task $(($default))?,
            },)*
        ];
    };
}

/// The task leaves the linear map alone.
const READS: bool = false;
/// The task changes the linear map.
const CHANGES: bool = true;

tasks! {
    "bench", Bench, "", CHANGES, "counts what changes of permissions cost";
    "contend", Contend, "", READS, "has CPUs change pages side by side, and counts who finds a lock held and for how long";
    "cpus", Cpus, "", READS, "has all CPUs work and change the map";
    "crash", Crash, "", READS, "seals, opens, loads and shrinks the crash kernel's memory";
    "dump", Dump, "", READS, "prints the linear map as it is in the tables";
    "early", Early, "", CHANGES, "splits a leaf at each moment of the boot at which a kernel may have to";
    "hidden", Hidden, "", READS, "tries to reach the image's data through the linear map";
    "hotplug", Hotplug, "", CHANGES, "removes RAM from the map and adds it again, while all CPUs look";
    "interrupts", Interrupts, "", READS, "tries timers, and CPUs that interrupt each other";
    "kprobes", Kprobes, "", READS, "probes functions while all CPUs call them";
    "late", Late(u64 = 10), "[:MS]", CHANGES,
        "has CPUs not come to be parked or held, and waits for them for MS milliseconds";
    "local", Local, "", CHANGES, "makes the linear map not global while all CPUs use it";
    "measure", Measure(Effort = Effort::Auto), "[:EFFORT]", CHANGES,
        "times work over RAM in pages and in large leaves, in turns; EFFORT is quick or full";
    "micro", Micro, "", READS, "counts single uses of page tables";
    "modes", Modes, "", CHANGES, "tries on each CPU what mode and policy say";
    "modules", Modules, "", READS, "loads and unloads code";
    "pagealloc", Pagealloc, "", CHANGES, "takes pages out of the map and puts them back, one, many, and on all CPUs";
    "protection", Protection, "", READS, "tries what each kind of memory permits";
    "realm", Realm, "", READS, "shares memory by a bit of its address, as a realm does";
    "retype", Retype, "", READS, "changes the type of memory while other CPUs use what is beside it";
    "selftest", Selftest, "", CHANGES, "changes the map and probes it";
    "stress", Stress(Stress = Stress::DEFAULT), "[:OPERATIONS[:SEED]]", CHANGES,
        "has all CPUs change the map at random, beside a model of it";
    "together", Together, "", CHANGES, "splits and collapses leaves that other CPUs use";
    "traffic", Traffic, "", CHANGES,
        "has each other CPU change a page of its own before each window that a later task counts";
    "updates", Updates, "", READS, "tries what walkers write into the tables, and that no leaf of the map lets them";
    "vmalloc80", Vmalloc80, "", READS, "has most of RAM read-only for a while, by another address";
    "fail", Fail, "", READS, "fails";
    "fault", Fault, "", READS, "reads where nothing is mapped";
    "fault-all", FaultAll, "", READS, "the same on all CPUs at once";
    "hang", Hang, "", READS, "does nothing for ever";
    "overflow", Overflow, "", READS, "runs out of stack";
    "overflow-last", OverflowLast, "", READS, "the same on the last CPU";
    "panic", Panic, "", READS, "panics";
}

/// The parameters of `run=stress`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stress {
    /// The operations that all CPUs do together.
    pub operations: u64,
    /// The seed that decides about each operation; without it, another one at each boot.
    pub seed: Option<u64>,
}

impl Stress {
    /// As many operations as take about a second, from another seed at each boot.
    pub const DEFAULT: Self = Self { operations: 5000, seed: None };

    /// Reads `OPERATIONS[:SEED]`; each may be empty.
    fn parse(text: &str) -> Option<Self> {
        let (operations, seed) = text.split_once(':').unwrap_or((text, ""));
        let number = |word: &str| if word.is_empty() { Ok(None) } else { word.parse().map(Some) };
        let operations = number(operations).ok()?.unwrap_or(Self::DEFAULT.operations);
        Some(Self { operations, seed: number(seed).ok()? })
    }
}

/// The reason why a text names no task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal<'a> {
    /// No task has this name.
    Unknown(&'a str),
    /// The task of this name takes other parameters: these.
    Parameters(&'a str, &'static str),
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "there is no task {}; {Known}", name.escape_debug()),
            Self::Parameters(name, "") => write!(f, "{name} takes no numbers"),
            Self::Parameters("stress", _) => f.write_str(
                "stress takes two numbers, both may be left out: stress:OPS:SEED, as in stress:100000:7",
            ),
            Self::Parameters(name @ "measure", _) => write!(f, "{name} is {name}:quick or {name}:full"),
            Self::Parameters(name, parameters) => write!(f, "{name} is {name}{parameters}, as in {name}:100"),
        }
    }
}

impl core::error::Error for Refusal<'_> {}

/// Displays the names of all tasks, as a sentence.
struct Known;

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there are")?;
        for (n, info) in TASKS.iter().enumerate() {
            let before = match n {
                0 => " ",
                n if n + 1 == TASKS.len() => " and ",
                _ => ", ",
            };
            write!(f, "{before}{}{}", info.name, info.parameters)?;
        }
        Ok(())
    }
}

impl TaskInfo {
    /// Returns the task that a text names, and its parameters with colons before them.
    ///
    /// # Errors
    ///
    /// No task has that name, or its parameters are others.
    pub fn parse(text: &str) -> Result<(&'static Self, Task), Refusal<'_>> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let info = TASKS.iter().find(|info| info.name == name).ok_or(Refusal::Unknown(text))?;
        let Some(rest) = rest else { return Ok((info, info.task)) };
        let given = match info.task {
            Task::Stress(_) => Stress::parse(rest).map(Task::Stress),
            Task::Measure(_) => Effort::parse(rest).map(Task::Measure),
            Task::Late(_) => rest.parse().ok().filter(|ms| *ms != 0).map(Task::Late),
            _ => None,
        };
        given.map(|task| (info, task)).ok_or(Refusal::Parameters(info.name, info.parameters))
    }
}

impl Task {
    /// Returns the task that a text names, with the parameters that follow its name.
    ///
    /// # Errors
    ///
    /// No task has that name, or its parameters are others.
    pub fn parse(text: &str) -> Result<Self, Refusal<'_>> {
        TaskInfo::parse(text).map(|(_, task)| task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::string::ToString;

    #[test]
    fn each_is_found_by_its_name() {
        for info in TASKS {
            assert_eq!(Task::parse(info.name), Ok(info.task));
            assert!(!info.does.is_empty() && info.name.bytes().all(|b| b != b',' && b != b':'));
        }
        let names: BTreeSet<_> = TASKS.iter().map(|info| info.name).collect();
        assert_eq!(names.len(), TASKS.len());
    }

    #[test]
    fn numbers_follow_where_there_may_be_some() {
        let stress = |operations, seed| Ok(Task::Stress(Stress { operations, seed }));
        assert_eq!(Task::parse("stress"), stress(Stress::DEFAULT.operations, None));
        assert_eq!(Task::parse("stress:"), stress(Stress::DEFAULT.operations, None));
        assert_eq!(Task::parse("stress:1000"), stress(1000, None));
        assert_eq!(Task::parse("stress:1000:7"), stress(1000, Some(7)));
        assert_eq!(Task::parse("stress::7"), stress(Stress::DEFAULT.operations, Some(7)));
        assert_eq!(Task::parse("stress:0:0"), stress(0, Some(0)));
        assert_eq!(Task::parse("late:250"), Ok(Task::Late(250)));
        let efforts = ["measure", "measure:quick", "measure:full"].map(Task::parse);
        assert_eq!(efforts, [Effort::Auto, Effort::Quick, Effort::Full].map(|e| Ok(Task::Measure(e))));
        for (text, why) in [
            ("stress:many", "stress takes two numbers"),
            ("stress:1:2:3", "stress takes two numbers"),
            ("stress:1:-2", "stress takes two numbers"),
            ("late:", "late is late[:MS]"),
            ("late:0", "late is late[:MS]"),
            ("late:1:2", "late is late[:MS]"),
            ("measure:", "measure is measure:quick or measure:full"),
            ("measure:auto", "measure is measure:quick or measure:full"),
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
            assert!(
                said.contains("; there are bench, contend, cpus, ") && !said.contains('\u{1b}'),
                "{said}"
            );
        }
    }

    #[test]
    fn scratch_memory_is_for_those_who_change_the_map() {
        let changing = TASKS.iter().filter(|info| info.changes_the_map).map(|info| info.name);
        assert!(changing.eq([
            "bench",
            "early",
            "hotplug",
            "late",
            "local",
            "measure",
            "modes",
            "pagealloc",
            "selftest",
            "stress",
            "together",
            "traffic"
        ]));
    }
}
