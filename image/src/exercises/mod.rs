//! Exercises: what the image does for `run=`. Some test what only a CPU shows, some count what changes cost, some end
//! the run.
//!
//! The table of `kernel_plan::tasks` has their names; [`run`] has a line for each of it.

mod area_holds;
mod bench;
mod buffer;
mod churn;
mod contend;
mod copies;
mod costs;
mod counted;
mod cpus;
mod crash;
mod early;
mod endings;
mod hidden;
mod holds;
mod hot_costs;
mod hotplug;
mod interrupts;
mod kprobes;
mod late;
mod local;
mod measure;
mod meter;
mod micro;
mod modes;
mod modules;
mod pagealloc;
mod par;
mod planned;
mod protection;
mod realm;
mod retype;
mod scratch;
mod selftest;
mod singles;
mod stress;
mod tally;
mod together;
mod traffic;
mod updates;
mod vmalloc80;
mod walks;
mod watched;

use kernel_plan::tasks::Task;

use crate::report;
use crate::system::System;

/// Does a task. Returns true if all went well.
pub(crate) fn run(system: &System<'_>, task: Task) -> bool {
    match task {
        Task::Bench => bench::run(system),
        Task::Contend => contend::run(system),
        Task::Cpus => cpus::run(system),
        Task::Crash => crash::run(system),
        Task::Dump => report::dump(system),
        Task::Early => early::run(system),
        Task::Hidden => hidden::run(system),
        Task::Hotplug => hotplug::run(system),
        Task::Interrupts => interrupts::run(),
        Task::Kprobes => kprobes::run(system),
        Task::Late(milliseconds) => late::run(system, milliseconds),
        Task::Local => local::run(system),
        Task::Measure(effort) => measure::run(system, effort),
        Task::Micro => micro::run(system),
        Task::Modes => modes::run(system),
        Task::Modules => modules::run(system),
        Task::Pagealloc => pagealloc::run(system),
        Task::Protection => protection::run(system),
        Task::Realm => realm::run(system),
        Task::Retype => retype::run(system),
        Task::Selftest => selftest::run(system),
        Task::Stress(parameters) => stress::run(system, parameters),
        Task::Together => together::run(system),
        Task::Traffic => traffic::run(system),
        Task::Updates => updates::run(system),
        Task::Vmalloc80 => vmalloc80::run(system),
        Task::Fail => endings::fail(),
        Task::Fault => endings::fault(),
        Task::FaultAll => endings::fault_all(),
        Task::Hang => endings::hang(),
        Task::Overflow => endings::overflow(),
        Task::OverflowLast => endings::overflow_last(),
        Task::Panic => endings::panic(),
    }
}
