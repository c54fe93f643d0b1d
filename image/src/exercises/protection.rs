//! Permissions to read, write and execute, tried at one address of each kind of memory.

use linmap::{Pa, Rodata, Va};

use crate::console::say;
use crate::image::boot_stack_guard;
use crate::probe::{Fault, try_execute, try_read, try_write};
use crate::system::System;

/// One address and what should succeed there.
struct Case {
    what: &'static str,
    va: Va,
    /// Read, write, execute.
    allowed: [bool; 3],
    /// It is mapped, so that refusals are permission faults.
    mapped: bool,
}

unsafe extern "C" {
    /// A function that only returns.
    fn mark_create_begin();
}

/// Constants, one of which is read.
static CONSTANT: u64 = 0x6c69_6e6d_6170;
/// Data, some of which is written.
static DATA: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(7);

/// Tries all of them. Returns true if each was right.
pub(super) fn run(system: &System<'_>) -> bool {
    let (mut tried, mut wrong) = (0i32, 0);
    for case in cases(system).into_iter().flatten() {
        tried += 1i32;
        wrong += u32::from(!try_case(&case));
    }
    let ok = wrong == 0;
    say!("protection: {tried} kinds of memory tried, {wrong} wrong\n");
    say!("linmap: {{\"tests\":{{\"protection\":{{\"ok\":{ok},\"tried\":{tried},\"wrong\":{wrong}}}}}}}");
    ok
}

fn cases(system: &System<'_>) -> [Option<Case>; 9] {
    let case = |what, va, allowed, mapped| Some(Case { what, va: Va(va), allowed, mapped });
    let image = &system.image;
    let alias = |va: u64| image.pa(va).0.wrapping_add(system.memory.layout.offset());
    let has_alias = !system.memory.alias.is_empty();
    let rodata_is_off = system.args.rodata == Rodata::Off;
    let text = mark_create_begin as *const () as u64;
    let (constant, data) = (&raw const CONSTANT as u64, &raw const DATA as u64);
    let free = system.memory.layout.va(Pa(system.memory.free.longest().end.0.saturating_sub(8)));
    let (_, last) = linmap::layout::linear_range(system.geometry);
    [
        case("kernel text", text, [true, false, true], true),
        case("kernel constants", constant, [true, false, false], true),
        case("kernel data", data, [true, true, false], true),
        case("linear alias of text", alias(text), [true, rodata_is_off, false], true).filter(|_| has_alias),
        case("linear alias of constants", alias(constant), [true, rodata_is_off, false], true)
            .filter(|_| has_alias),
        free.and_then(|va| case("free RAM", va.0, [true, true, false], true)),
        case("after the linear map", last.0 & !7, [false; 3], false),
        case("guard below the stack", boot_stack_guard(system.geometry.page_size()).0, [false; 3], false),
        case("lower half", 0x40_0000, [false; 3], false),
    ]
}

fn try_case(case: &Case) -> bool {
    let read = try_read(case.va);
    // SAFETY: the value written is the one read; other CPUs have no job, so nothing changes it meanwhile.
    let write = unsafe { try_write(case.va, read.unwrap_or(0)) };
    // SAFETY: where execution is allowed there is a function that does nothing; elsewhere it faults.
    let execute = unsafe { try_execute(case.va) };
    let results = [read.map(|_| ()), write, execute];
    let as_it_should = |(result, allowed): (&Result<(), Fault>, bool)| match result {
        Ok(()) => allowed,
        Err(Fault::Permission(_)) => !allowed && case.mapped,
        Err(Fault::Translation(_)) => !allowed && !case.mapped,
        Err(Fault::Other(_)) => false,
    };
    let ok = results.iter().zip(case.allowed).all(as_it_should);
    say!(
        "  {:<26} {:#018x}  {} {} {}  {}",
        case.what,
        case.va.0,
        shown("read", &results[0]),
        shown("write", &results[1]),
        shown("execute", &results[2]),
        if ok { "" } else { "WRONG" }
    );
    ok
}

/// Displays a result in a few columns: `write` or `-`.
fn shown(what: &'static str, result: &Result<(), Fault>) -> &'static str {
    match (result, what) {
        (Ok(()), what) => what,
        (Err(_), "read") => "-   ",
        (Err(_), "write") => "-    ",
        (Err(_), _) => "-      ",
    }
}
