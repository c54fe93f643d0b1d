//! The plugin of `make counts`: counts the lines of memory that the image uses between its marks.
//!
//! Its argument: `out=FILE`, where the counts go when QEMU ends.

use std::ffi::{c_uint, c_void};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::between::{Between, Kind};
use crate::qemu::{
    ACCESSES, Info, NO_REGISTERS, Opaque, physical, qemu_plugin_insn_vaddr, qemu_plugin_mem_is_store,
    qemu_plugin_mem_size_shift, qemu_plugin_register_vcpu_insn_exec_cb, qemu_plugin_register_vcpu_mem_cb,
    qemu_plugin_tb_get_insn, qemu_plugin_tb_n_insns, word,
};

/// Its name in messages.
pub(crate) const NAME: &str = "lines";

static OUT: OnceLock<PathBuf> = OnceLock::new();
static BETWEEN: Mutex<Option<Between>> = Mutex::new(None);
/// A CPU is between two marks, so loads and code count.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// Begins to count.
pub(crate) fn begin(_: &Info, arguments: &[String]) -> Result<(), String> {
    let out = arguments.iter().find_map(|argument| argument.strip_prefix("out="));
    drop(OUT.set(out.ok_or("the plugin needs out=")?.into()));
    Ok(())
}

fn between() -> MutexGuard<'static, Option<Between>> {
    BETWEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with(does: impl FnOnce(&mut Between)) {
    does(between().get_or_insert_with(Between::default));
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
        let kind = unsafe { word(instruction) }.map_or(Kind::Other, Kind::of);
        let is_mark = matches!(kind, Kind::Begin | Kind::End);
        if !is_mark && line != Some(pc >> 6u32) {
            let place = std::ptr::without_provenance_mut(pc as usize);
            // SAFETY: as above. The callback takes the place as a number.
            unsafe { qemu_plugin_register_vcpu_insn_exec_cb(instruction, fetched, NO_REGISTERS, place) };
        }
        line = (!is_mark).then_some(pc >> 6u32);
        let counted: Option<extern "C" fn(c_uint, *mut c_void)> = match kind {
            Kind::Begin => Some(begins),
            Kind::End => Some(ends),
            Kind::Atomic => Some(atomic),
            Kind::Dmb => Some(dmb),
            Kind::Other => None,
        };
        let none = std::ptr::null_mut();
        // SAFETY: as above. The callbacks take no data.
        unsafe {
            if let Some(counted) = counted {
                qemu_plugin_register_vcpu_insn_exec_cb(instruction, counted, NO_REGISTERS, none);
            }
            qemu_plugin_register_vcpu_mem_cb(instruction, accessed, NO_REGISTERS, ACCESSES, none);
        }
    }
}

fn executes(cpu: c_uint, kind: Kind) {
    with(|between| {
        between.executes(cpu, kind);
        COUNTS.store(between.is_counting(), Relaxed);
    });
}

extern "C" fn begins(cpu: c_uint, _: *mut c_void) {
    executes(cpu, Kind::Begin);
}

extern "C" fn ends(cpu: c_uint, _: *mut c_void) {
    executes(cpu, Kind::End);
}

extern "C" fn atomic(cpu: c_uint, _: *mut c_void) {
    if COUNTS.load(Relaxed) {
        executes(cpu, Kind::Atomic);
    }
}

extern "C" fn dmb(cpu: c_uint, _: *mut c_void) {
    if COUNTS.load(Relaxed) {
        executes(cpu, Kind::Dmb);
    }
}

/// The first instruction of a line in its block is executed.
extern "C" fn fetched(cpu: c_uint, pc: *mut c_void) {
    if COUNTS.load(Relaxed) {
        with(|between| between.fetches(cpu, pc.addr() as u64));
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
    with(|between| between.accesses(cpu, pa, bytes, is_store));
}

/// QEMU ends: the counts are written down.
pub(crate) fn finish() {
    let document = between().get_or_insert_with(Between::default).document();
    let Some(out) = OUT.get() else { return };
    if let Err(why) = fs::write(out, document) {
        let _ = writeln!(std::io::stderr(), "linmap {NAME}: {}: {why}", out.display());
    }
}
