//! How the other CPUs are let in: one after the other, each judged before it touches the map.

use arrayvec::ArrayVec;
use kernel_plan::admit::{self, Needs, Refusal, Terms};
use linmap::{BbmPromise, Decision, Features, Hardware, Policy, Promise, Split};

use super::slot::{ADMITTED, Exchange, Orders};
use super::stacks::Stack;
use crate::cpu::State;
use crate::hardware::HARDWARE;
use crate::interrupts::comes_true;
use crate::{System, boot, cpu, identity, interrupts, note, psci, repaint, warn};

unsafe extern "C" {
    /// In `secondary.s`.
    fn secondary_start();
}

/// A CPU that does not run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// Its number.
    pub(crate) cpu: usize,
    /// Its MIDR_EL1, if it said so.
    pub(crate) midr: Option<u64>,
    pub(crate) why: Refusal,
}

/// A CPU that is not taken never to abort.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayAbort {
    pub(crate) cpu: usize,
    pub(crate) midr: u64,
    pub(crate) promise: BbmPromise,
}

/// What became of the CPUs other than the first.
#[derive(Debug, Default)]
pub(crate) struct Team {
    pub(crate) refused: ArrayVec<Refused, { cpu::MAX }>,
    /// The first of those let in which is not taken never to abort.
    pub(crate) may_abort: Option<MayAbort>,
    /// The pages that stacks take, and slots whose CPUs may still use them.
    pub(crate) pages: u64,
}

/// Starts all CPUs that may run, one after the other; then the decision is final.
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
            system.team.refused.push(Refused { cpu: index, midr, why });
        }
    }
    let boot = admit::claims(args.bbml2, 0, system.promise);
    let others = system.team.may_abort.is_none();
    system.decision = Decision::when_all_reported(boot, others, args.rodata, args.split);
}

/// Starts one CPU, hears what it is, and lets it in or turns it off. `midr` becomes what it says.
fn start(system: &mut System<'_>, index: usize, midr: &mut Option<u64>) -> Result<(), Refusal> {
    let frames = system.frames;
    let slot = Exchange::new(frames).ok_or(Refusal::NoMemory)?;
    let entry = system.image.pa(secondary_start as *const () as u64);
    // SAFETY: `secondary.s` runs at its physical address with the MMU off, and takes the address of a slot.
    if let Err(e) = unsafe { psci::cpu_on(cpu::mpidr(index), entry, slot.pa().0) } {
        slot.give_back(frames);
        return Err(Refusal::NotStarted(e));
    }
    let Some(features) = slot.report() else {
        // If it comes yet, it goes again.
        slot.refuse();
        system.team.pages += 1;
        return Err(Refusal::Silent);
    };
    *midr = Some(features.midr);
    let stack = match prepare(system, index, &features) {
        Ok(stack) => stack,
        Err(why) => {
            slot.refuse();
            if comes_true(|| psci::is_off(cpu::mpidr(index))) {
                slot.give_back(frames);
            } else {
                system.team.pages += 1;
            }
            return Err(why);
        }
    };
    // From the root that it is told until it answers as the others do, nobody parks CPUs or changes the root.
    let held = HARDWARE.lock();
    slot.order(orders(system, index, &features, &stack));
    let leaves = || cpu::is(index, State::Leaving);
    let gone = || leaves() && psci::is_off(cpu::mpidr(index));
    let settled = || cpu::is_running(index) || gone();
    if !comes_true(settled) {
        // It may be using the tables, so it can not be left alone: nothing that parks CPUs could rely on having parked
        // all. What it has left to do waits for nobody, so only its host delays it.
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
    Ok(())
}

/// Judges a CPU, and makes true what has to be before it uses the tables. Its stack.
fn prepare(system: &mut System<'_>, index: usize, cpu: &Features) -> Result<Stack, Refusal> {
    let promise = cpu.bbm_promise();
    let claims = admit::claims(system.args.bbml2, index, promise);
    let Terms { promise: promised, cache, leave_live: leaves } = admit::admit(&needs(system), cpu, claims)?;
    let stack = Stack::new(system, index).map_err(|_| Refusal::NoMemory)?;
    if leaves && let Err(why) = leave_live(system, promise, promised) {
        stack.give_back(system);
        return Err(why);
    }
    HARDWARE.promise_from_now_on(promised);
    // No code has been synchronised for the CPUs that run by then: that is for tasks, which begin when all are here.
    HARDWARE.sync_code_for(cache);
    if !claims {
        system.team.may_abort.get_or_insert(MayAbort { cpu: index, midr: cpu.midr, promise });
    }
    Ok(stack)
}

/// What the system relies on, as it is now.
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

/// Stops changing the size of live entries, for a CPU that might abort when they do: CPUs are parked instead from
/// the next operation on, or there is nothing left whose size could change.
fn leave_live(system: &mut System<'_>, cpu: BbmPromise, promised: Promise) -> Result<(), Refusal> {
    match system.args.split {
        Split::Park => {
            // Under the lock, so that no operation is half way.
            HARDWARE.with_promise(promised, || system.space.set_policy(Policy::Park));
            Ok(())
        }
        Split::Pages => repaint::repaint(system).map_err(|why| Refusal::MayAbort(cpu, why)),
    }
}

/// How a CPU gets from its physical address to Rust.
fn orders(system: &System<'_>, index: usize, cpu: &Features, stack: &Stack) -> Orders {
    let System { geometry, features, space, .. } = system;
    let ttbr1 = boot::ttbr(space.root(), geometry.oa_format());
    Orders {
        verdict: ADMITTED,
        conduit: u64::from(psci::is_smc()),
        tables: [identity::ttbr0(), ttbr1, boot::tcr_for(*geometry, cpu), boot::mair(features)],
        stack: [stack.top(*geometry).0, core::ptr::from_ref(cpu::of(index)) as u64],
    }
}
