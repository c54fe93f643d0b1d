//! Published page-table bugs, each as the code of a small kernel that has it, beside the same code mended. Two CPUs of QEMU's `virt` run it;
//! a word that QEMU's loader writes says which.
//!
//!     make judge bare-metal
//!     linmap judge --plugins target/judge -- -M virt -cpu max -smp 2 -m 128M -nographic -kernel target/bugs.elf \
//!         -device loader,addr=0x47000000,data=1,data-len=8
//!
//! Words from 1 on: the bugs of [`BUGS`]. From 101 on: the same, mended.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]
#![no_std]
#![no_main]

mod asterinas_3672;
mod edk2_4418;
mod last_words;
mod linux_vmemmap;
mod machine;
mod osv_1117;
mod tgoskits_2008;
mod zephyr_115708;
mod zephyr_37600;
mod zephyr_98344;

use last_words::end;
use machine::{Granule, start};

/// A bug, and the same mended.
struct Bug {
    granule: Granule,
    wrong: fn(),
    right: fn(),
}

const fn bug(granule: Granule, wrong: fn(), right: fn()) -> Bug {
    Bug { granule, wrong, right }
}

const BUGS: [Bug; 8] = [
    bug(Granule::K4, zephyr_98344::wrong, zephyr_98344::right),
    bug(Granule::K16, zephyr_115708::wrong, zephyr_115708::right),
    bug(Granule::K4, zephyr_37600::wrong, zephyr_37600::right),
    bug(Granule::K4, tgoskits_2008::wrong, tgoskits_2008::right),
    bug(Granule::K4, osv_1117::wrong, osv_1117::right),
    bug(Granule::K4, asterinas_3672::wrong, asterinas_3672::right),
    bug(Granule::K4, edk2_4418::wrong, edk2_4418::right),
    bug(Granule::K4, linux_vmemmap::wrong, linux_vmemmap::right),
];

/// The place of the word that QEMU's loader writes.
const CHOICE: *const u64 = 0x4700_0000 as *const u64;

/// With the MMU off, on the first CPU.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    // SAFETY: it is RAM, and nothing else is there.
    let choice = unsafe { CHOICE.read_volatile() };
    let (is_right, number) = (choice > 100, choice % 100);
    let bug = (number as usize).checked_sub(1).and_then(|at| BUGS.get(at));
    let Some(bug) = bug else { end(format_args!("no bug {choice}: they are 1 to {}", BUGS.len())) };
    start(bug.granule);
    if is_right {
        (bug.right)();
    } else {
        (bug.wrong)();
    }
    machine::idle!();
    end(format_args!("{}", if is_right { "right" } else { "wrong" }))
}
