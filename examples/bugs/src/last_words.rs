//! The end of a small kernel for QEMU's machine `virt`: last words on its console, by `end`, an exception or a panic, and the machine goes
//! off. `vectors` is for VBAR_EL1.

use core::arch::{asm, global_asm};
use core::fmt::{self, Write};

global_asm!(
    r#"
    .text
    .balign 2048
    .global vectors
vectors:                            // any exception ends the run
    .rept   16
    b       fault
    .balign 128
    .endr
"#
);

/// Where an exception ends the run.
#[unsafe(no_mangle)]
extern "C" fn fault() -> ! {
    let (esr, far, elr): (u64, u64, u64);
    // SAFETY: reading them has no side effect.
    unsafe {
        asm!("mrs {}, esr_el1", "mrs {}, far_el1", "mrs {}, elr_el1", out(reg) esr, out(reg) far, out(reg) elr);
    }
    end(format_args!("an exception: ESR {esr:#x}, FAR {far:#x}, ELR {elr:#x}"))
}

struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the data register of a PL011, as QEMU leaves it.
        text.bytes().for_each(|byte| unsafe { (0x900_0000 as *mut u32).write_volatile(byte.into()) });
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    end(format_args!("{info}"))
}

/// Prints the last words, and turns the machine off.
pub(crate) fn end(last_words: fmt::Arguments<'_>) -> ! {
    _ = writeln!(Console, "{last_words}");
    // SAFETY: PSCI's SYSTEM_OFF, which does not return.
    unsafe { asm!("hvc #0", in("x0") 0x8400_0008_u64, options(noreturn)) }
}
