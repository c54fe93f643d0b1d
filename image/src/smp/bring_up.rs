//! The other CPUs come up, one after the other. Each is judged before it touches the map.

use core::arch::global_asm;

use kernel_plan::admit::{self, Needs, Refusal, Terms};
use kernel_plan::cpus::{AFFINITY, Start};
use linmap::cpu::{BbmPromise, Features, Registers};
use linmap::policy::{Decision, SplitFallback};
use linmap::{Hardware, Policy, Promise};

use super::slot::{self, ADMITTED, Exchange, Orders};
use super::spin_table;
use super::stacks::Stack;
use super::team::{MayAbort, RefusedCpu};
use crate::clock::comes_true;
use crate::cpu::State;
use crate::early::{self, Moment};
use crate::hardware::{self, HARDWARE};
use crate::system::System;
use crate::translation;
use crate::warning::{note, warn};
use crate::{cpu, identity, interrupts, psci, repaint};

global_asm!(
    include_str!("secondary.s"),
    sctlr_off = const Registers::SCTLR_OFF,
    sctlr_on = const Registers::SCTLR_ON,
    cpu_off = const psci::CPU_OFF,
    arrived = const slot::ARRIVED,
    features = const slot::FEATURES,
    orders = const slot::ORDERS,
    verdict = const slot::VERDICT,
    affinity = const AFFINITY,
    conduit = const slot::CONDUIT,
    by_smc = const slot::BY_SMC,
    asleep = const slot::ASLEEP,
    tables = const slot::TABLES,
    stack = const slot::STACK,
    admitted = const slot::ADMITTED,
);

unsafe extern "C" {
    /// In `secondary.s`.
    fn secondary_start();
}

/// Starts all CPUs that may run, one after the other. Then the decision is final.
pub(crate) fn bring_up(system: &mut System<'_>) {
    let args = system.args;
    let mut order = system.machine.cpus.order(cpu::mpidr(0), args.cpus, &mut note);
    if order.len() > 1 && !interrupts::is_started(0) {
        warn(format_args!("the other CPUs are not started: without interrupts nothing wakes them"));
        order.truncate(1);
    }
    if order.len() > 1 && identity::ttbr0() == 0 {
        return warn(format_args!("the other CPUs are not started: there is no memory for a 1:1 map"));
    }
    for (index, mpidr) in order.iter().enumerate().skip(1) {
        cpu::set_mpidr(index, *mpidr);
        let mut midr = None;
        if let Err(why) = start(system, index, &mut midr) {
            system.team.refused.push(RefusedCpu { cpu: index, midr, why });
        }
    }
    let boot = admit::claims(args.bbml2, 0, system.promise);
    let others = system.team.may_abort.is_none();
    system.decision = Decision::when_all_reported(boot, others, args.rodata, args.split);
}

/// Starts one CPU, reads its report, and lets it in or turns it off. Sets `midr` if it reports.
fn start(system: &mut System<'_>, index: usize, midr: &mut Option<u64>) -> Result<(), Refusal> {
    let frames = system.frames;
    let way = system.machine.cpus.start(cpu::mpidr(index));
    let slot = Exchange::new(frames, way == Start::Psci).ok_or(Refusal::NoMemory)?;
    if let Err(why) = set_off(system, index, way, &slot) {
        slot.give_back(frames);
        return Err(why);
    }
    let Some(features) = slot.report() else {
        // If it comes later, it finds that it is refused.
        slot.refuse();
        system.team.pages += 1;
        return Err(Refusal::Silent);
    };
    *midr = Some(features.midr);
    split(system, Moment::Reported);
    let stack = match prepare(system, index, &features) {
        Ok(stack) => stack,
        Err(why) => {
            slot.refuse();
            if comes_true(|| slot.has_left(cpu::mpidr(index))) {
                slot.give_back(frames);
            } else {
                system.team.pages += 1;
            }
            return Err(why);
        }
    };
    split(system, Moment::Judged);
    // From when it is told the root until it answers as the others do, no CPU parks others or changes the root.
    let held = hardware::lock_all();
    slot.order(Orders { conduit: slot.conduit(), ..orders(system, index, &features, &stack) });
    let leaves = || cpu::is(index, State::Leaving);
    let gone = || leaves() && slot.has_left(cpu::mpidr(index));
    let settled = || cpu::is_running(index) || gone();
    if !comes_true(settled) {
        // It may be using the tables, so wait for it: parking could not rely on having parked all. It waits for nothing
        // itself, so only its host delays it.
        warn(format_args!("CPU {index} was let in, and is waited for until it runs or is off"));
        while !settled() {
            cpu::relax();
        }
    }
    drop(held);
    slot.give_back(frames);
    if leaves() {
        stack.give_back(system);
        return Err(Refusal::NoInterrupts);
    }
    system.team.pages += stack.pages();
    split(system, Moment::In);
    Ok(())
}

/// Makes a CPU come to `secondary.s`, with its slot.
fn set_off(system: &System<'_>, index: usize, way: Start, slot: &Exchange) -> Result<(), Refusal> {
    let mpidr = cpu::mpidr(index);
    let entry = system.image.pa(secondary_start as *const () as u64);
    match way {
        // SAFETY: the description has the address for this CPU, a multiple of 8; what a loader waits at is not free RAM.
        Start::SpinTable(at) => unsafe { spin_table::release(system, at, mpidr, slot.pa()) },
        // SAFETY: `secondary.s` runs at its physical address with the MMU off, and takes the address of a slot.
        Start::Psci | Start::Unknown => unsafe {
            psci::cpu_on(mpidr, entry, slot.pa().0).map_err(Refusal::NotStarted)
        },
    }
}

/// A leaf can be split at any moment.
fn split(system: &System<'_>, moment: Moment) {
    early::split(moment, (system.args, system.memory), system.space, &system.platform());
}

/// Judges a CPU, and does what its terms ask for before it uses the tables. Returns its stack.
fn prepare(system: &mut System<'_>, index: usize, cpu: &Features) -> Result<Stack, Refusal> {
    let promise = cpu.bbm_promise();
    let claims = admit::claims(system.args.bbml2, index, promise);
    let Terms { promise: promised, cache, leave_live: leaves } = admit::admit(&needs(system), cpu, claims)?;
    let stack = Stack::new(system, index).map_err(|_| Refusal::NoMemory)?;
    if leaves && let Err(why) = leave_live(system, promise, promised) {
        stack.give_back(system);
        return Err(why);
    }
    hardware::promise_from_now_on(promised);
    // No code has been synchronised for the CPUs that run: only tasks do that, which begin when all are in.
    HARDWARE.sync_code_for(cache);
    if !claims {
        system.team.may_abort.get_or_insert(MayAbort { cpu: index, midr: cpu.midr, promise });
    }
    Ok(stack)
}

/// Returns what the system relies on now.
fn needs(system: &System<'_>) -> Needs {
    Needs {
        geometry: system.geometry,
        pa_bits: 64 - (system.highest.0.saturating_sub(1)).leading_zeros(),
        tags: system.features.has_tags(),
        resizes_live: system.space.policy() == Policy::Live,
        promise: HARDWARE.promise(),
        cache: HARDWARE.cache(),
    }
}

/// Stops changing the size of live entries, for a CPU that might abort when they do. From the next operation on, CPUs
/// are parked instead, or all is in pages.
fn leave_live(system: &mut System<'_>, cpu: BbmPromise, promised: Promise) -> Result<(), Refusal> {
    match system.args.split {
        SplitFallback::Park => {
            // Under all locks, so that no operation is under way.
            hardware::with_promise(promised, || system.space.set_policy(Policy::Park));
            Ok(())
        }
        SplitFallback::Pages => repaint::repaint(system).map_err(|why| Refusal::MayAbort(cpu, why)),
    }
}

/// Returns what a CPU needs to get from its physical address to Rust.
fn orders(system: &System<'_>, index: usize, cpu: &Features, stack: &Stack) -> Orders {
    let System { geometry, features, space, .. } = system;
    let ttbr1 = Registers::ttbr(space.root(), geometry.oa_format());
    Orders {
        verdict: ADMITTED,
        conduit: 0,
        tables: [identity::ttbr0(), ttbr1, translation::tcr_for(*geometry, cpu), translation::mair(features)],
        stack: [stack.top(*geometry).0, core::ptr::from_ref(cpu::of(index)) as u64],
    }
}
