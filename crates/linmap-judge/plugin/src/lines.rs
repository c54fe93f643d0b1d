//! The plugin of `make counts`: counts the lines of memory that the image uses between its marks.
//!
//! Its argument: `out=FILE`, where the counts go when QEMU ends.

use std::ffi::{c_uint, c_void};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::between::{Between, Kind};
use crate::qemu::{
    ACCESSES, Info, NO_REGISTERS, Opaque, physical, qemu_plugin_insn_vaddr, qemu_plugin_mem_is_store,
    qemu_plugin_mem_size_shift, qemu_plugin_register_vcpu_insn_exec_cb, qemu_plugin_register_vcpu_mem_cb,
    qemu_plugin_tb_get_insn, qemu_plugin_tb_n_insns, word,
};

/// Its name in messages.
pub(crate) const NAME: &str = "lines";

static OUT: OnceLock<PathBuf> = OnceLock::new();
static BETWEEN: LazyLock<Mutex<Between>> = LazyLock::new(Mutex::default);
/// A CPU is between two marks, so loads and code count.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// Begins to count.
pub(crate) fn begin(_: &Info, arguments: &[String]) -> Result<(), String> {
    let out = arguments.iter().find_map(|argument| argument.strip_prefix("out="));
    drop(OUT.set(out.ok_or("the plugin needs out=")?.into()));
    Ok(())
}

fn between() -> MutexGuard<'static, Between> {
    BETWEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks QEMU for callbacks: at the first instruction of each line and after each mark, at what is counted, and at each access.
pub(crate) fn instrument(block: *mut Opaque) {
    let mut line = None;
    // SAFETY: QEMU calls with a block that it translates, whose instructions may be asked for meanwhile.
    for at in 0..unsafe { qemu_plugin_tb_n_insns(block) } {
        // SAFETY: `at` is below the number of instructions.
        let instruction = unsafe { qemu_plugin_tb_get_insn(block, at) };
        // SAFETY: it is an instruction of the block.
        let pc = unsafe { qemu_plugin_insn_vaddr(instruction) };
        // SAFETY: as above.
        let Some(word) = (unsafe { word(instruction) }) else { continue };
        let kind = Kind::of(word);
        let is_mark = matches!(kind, Kind::Begin | Kind::End);
        if !is_mark && line != Some(pc >> 6u32) {
            let place = std::ptr::without_provenance_mut(pc as usize);
            // SAFETY: as above. The callback takes the place as a number.
            unsafe { qemu_plugin_register_vcpu_insn_exec_cb(instruction, fetched, NO_REGISTERS, place) };
        }
        line = (!is_mark).then_some(pc >> 6u32);
        // SAFETY: as above. The first callback takes the instruction as a number, the second one no data.
        unsafe {
            if kind != Kind::Other {
                let word = std::ptr::without_provenance_mut(word as usize);
                qemu_plugin_register_vcpu_insn_exec_cb(instruction, executed, NO_REGISTERS, word);
            }
            qemu_plugin_register_vcpu_mem_cb(
                instruction,
                accessed,
                NO_REGISTERS,
                ACCESSES,
                std::ptr::null_mut(),
            );
        }
    }
}

/// An instruction is executed that is counted, or is a mark.
extern "C" fn executed(cpu: c_uint, word: *mut c_void) {
    let kind = Kind::of(word.addr() as u32);
    if COUNTS.load(Relaxed) || kind == Kind::Begin {
        let mut between = between();
        between.executes(cpu, kind);
        COUNTS.store(between.is_counting(), Relaxed);
    }
}

/// The first instruction of a line in its block is executed.
extern "C" fn fetched(cpu: c_uint, pc: *mut c_void) {
    if COUNTS.load(Relaxed) {
        between().fetches(cpu, pc.addr() as u64);
    }
}

/// An access was made. Stores count before a mark as well: they are those of another CPU.
extern "C" fn accessed(cpu: c_uint, access: u32, va: u64, _: *mut c_void) {
    // SAFETY: QEMU calls after this access.
    let is_store = unsafe { qemu_plugin_mem_is_store(access) };
    if !is_store && !COUNTS.load(Relaxed) {
        return;
    }
    // SAFETY: as above.
    let Some(pa) = (unsafe { physical(access, va) }) else { return };
    // SAFETY: as above.
    let bytes = 1 << unsafe { qemu_plugin_mem_size_shift(access) };
    between().accesses(cpu, pa, bytes, is_store);
}

/// QEMU ends: the counts are written down.
pub(crate) fn finish() {
    let document = between().document();
    let Some(out) = OUT.get() else { return };
    if let Err(why) = fs::write(out, document) {
        let _ = writeln!(std::io::stderr(), "linmap {NAME}: {}: {why}", out.display());
    }
}
