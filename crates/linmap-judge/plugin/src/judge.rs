//! The plugin of `linmap judge`: shows what a guest does at EL1 to a [`Watcher`].
//!
//! Its arguments: `ram=FILE`, the file that is the guest's RAM; `base=ADDRESS`, the physical address of its first byte; `out=FILE`, where
//! the document goes when QEMU ends; `log=FILE`, where all events go; `stop=FILE`, where the document goes at the first breach, at which all
//! CPUs wait a moment; `often=on` writes the document of the run so far each second, for a QEMU that may be killed; `parent=on` ends QEMU
//! with the process that started it; `never-aborts=on` for CPUs that never raise a TLB conflict abort; and those of [`Told`].

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_uint, c_void};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use linmap::{Geometry, Granule, OaFormat};
use linmap_judge::decode::{Instruction, may_store};
use linmap_judge::outcome;
use linmap_judge::ram::Ram;
use linmap_judge::told::Told;
use linmap_judge::watcher::{Store, Wanted, Watcher};
use linmap_model::Core;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::qemu::{
    Info, NO_REGISTERS, Opaque, READS_REGISTERS, STORES, physical, qemu_plugin_insn_vaddr,
    qemu_plugin_mem_size_shift, qemu_plugin_register_vcpu_insn_exec_cb, qemu_plugin_register_vcpu_mem_cb,
    qemu_plugin_tb_get_insn, qemu_plugin_tb_n_insns, word,
};
use crate::registers::{self, Lower};

/// Its name in messages.
pub(crate) const NAME: &str = "judge";

/// The plugin's work, once QEMU has given it arguments.
struct Plugin {
    watcher: Watcher,
    out: PathBuf,
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

thread_local! {
    /// True while the CPU of this thread runs a program in AArch32: from its return to EL0 until the next return.
    static IN_AARCH32: Cell<bool> = const { Cell::new(false) };
}

/// An instruction that concerns the observer, where it stands.
struct Site {
    pc: u64,
    what: Instruction,
}

/// Begins to observe, as the plugin's arguments say.
pub(crate) fn begin(info: &Info, arguments: &[String]) -> Result<(), String> {
    drop(PLUGIN.set(info.prepare(arguments)?));
    if arguments.iter().any(|argument| argument == "often=on") {
        thread::spawn(write_often);
    }
    Ok(())
}

impl Info {
    /// Reads the plugin's arguments.
    fn prepare(&self, arguments: &[String]) -> Result<Plugin, String> {
        let named: HashMap<&str, &str> = arguments.iter().filter_map(|a| a.split_once('=')).collect();
        let get = |name: &str| named.get(name).copied().ok_or_else(|| format!("the plugin needs {name}="));
        let base = get("base")?;
        let base = u64::from_str_radix(base.trim_start_matches("0x"), 16)
            .map_err(|_| format!("base={base} is no hexadecimal number"))?;
        let ram = Ram::open(Path::new(get("ram")?), base).map_err(|why| format!("the guest's RAM: {why}"))?;
        let core = if named.get("never-aborts") == Some(&"on") { Core::STRONG } else { Core::WEAK };
        let geometry = Geometry::new(Granule::K4, 48, OaFormat::Bits48).map_err(|why| why.to_string())?;
        let cores = vec![core; usize::try_from(self.max_vcpus).unwrap_or_default()];
        let mut told = Told::default();
        for (name, value) in named.iter().filter(|(name, _)| ["hide", "localise", "shift"].contains(name)) {
            told.argument(name, value)?;
        }
        let file = |name: &str| named.get(name).map(PathBuf::from);
        let wanted = Wanted { told, log: file("log"), stop: file("stop") };
        if named.get("parent") == Some(&"on") {
            // At SIGTERM QEMU ends as at the command's own request.
            let ends = set_parent_process_death_signal(Some(Signal::TERM));
            ends.map_err(|why| format!("QEMU would outlive the command: {why}"))?;
        }
        let watcher = Watcher::new(ram, &cores, geometry, wanted)?;
        Ok(Plugin { watcher, out: get("out")?.into() })
    }
}

/// Asks QEMU for callbacks where a block does something that concerns the observer. A block is of one exception level: that of the
/// CPU that needs it.
pub(crate) fn instrument(block: *mut Opaque) {
    let Some(Plugin { watcher, .. }) = PLUGIN.get() else { return };
    // SAFETY: QEMU calls with a block that it translates, which has an instruction.
    let first = unsafe { qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(block, 0)) };
    // In AArch32 QEMU shows the registers of AArch64 as they were. The vectors, by which the CPU comes back, are in the upper half.
    let is_a32 = IN_AARCH32.get() && first >> 32u32 == 0;
    let level = registers::current_level().filter(|_| !is_a32);
    watcher.counts.blocks[level.map_or(4, usize::from)].fetch_add(1, Relaxed);
    if level != Some(1) {
        return;
    }
    // SAFETY: QEMU calls with a block that it translates, whose instructions may be asked for meanwhile.
    for at in 0..unsafe { qemu_plugin_tb_n_insns(block) } {
        // SAFETY: `at` is below the number of instructions.
        let instruction = unsafe { qemu_plugin_tb_get_insn(block, at) };
        // SAFETY: it is an instruction of the block.
        let pc = unsafe { qemu_plugin_insn_vaddr(instruction) };
        // SAFETY: as above.
        let Some(word) = (unsafe { word(instruction) }) else { continue };
        let entry = (at == 0 && watcher.is_vector(pc)).then_some(Instruction::Entry);
        for what in entry.into_iter().chain(Instruction::decode(word)) {
            let needs_none = matches!(what, Instruction::Release | Instruction::Entry);
            let flags = if needs_none { NO_REGISTERS } else { READS_REGISTERS };
            let site = std::ptr::from_ref(site(pc, word, what)).cast_mut().cast();
            // SAFETY: it is an instruction of the block. The site lives for ever.
            unsafe { qemu_plugin_register_vcpu_insn_exec_cb(instruction, executed, flags, site) };
        }
        if may_store(word) {
            let place = std::ptr::without_provenance_mut(pc as usize);
            // SAFETY: it is an instruction of the block. The callback takes the place as a number.
            unsafe {
                qemu_plugin_register_vcpu_mem_cb(instruction, accessed, NO_REGISTERS, STORES, place);
            }
        }
    }
}

/// Returns an instruction that lives for ever; one that is translated anew is the same.
fn site(pc: u64, word: u32, what: Instruction) -> &'static Site {
    type Sites = HashMap<(u64, u32, bool), &'static Site>;
    static SITES: LazyLock<Mutex<Sites>> = LazyLock::new(Mutex::default);
    let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (pc, word, what == Instruction::Entry);
    sites.entry(key).or_insert_with(|| Box::leak(Box::new(Site { pc, what })))
}

/// An instruction is about to be executed.
extern "C" fn executed(cpu: c_uint, data: *mut c_void) {
    // SAFETY: `instrument` gave QEMU a site that lives for ever.
    let site = unsafe { &*data.cast::<Site>() };
    let Some(Plugin { watcher, .. }) = PLUGIN.get() else { return };
    let cpu = cpu as u8;
    if site.what == Instruction::Return {
        let to = registers::returns_to();
        IN_AARCH32.set(to == Some(Lower::AArch32));
        if to != Some(Lower::No) {
            return watcher.left(cpu, site.pc);
        }
    }
    watcher.instruction(cpu, site.pc, site.what, &mut registers::general);
}

/// A store was made.
extern "C" fn accessed(cpu: c_uint, access: u32, va: u64, data: *mut c_void) {
    let Some(Plugin { watcher, .. }) = PLUGIN.get() else { return };
    // SAFETY: QEMU calls after an access, whose address may be asked for meanwhile.
    let Some(pa) = (unsafe { physical(access, va) }) else { return };
    // SAFETY: as above.
    let bytes = 1 << unsafe { qemu_plugin_mem_size_shift(access) };
    watcher.store(Store { cpu: cpu as u8, pc: data.addr() as u64, va, pa, bytes });
}

/// Writes the document of the run so far each second, until QEMU ends.
fn write_often() {
    let goes_on = || PLUGIN.get().is_some_and(|Plugin { watcher, out, .. }| watcher.write_so_far(out));
    while goes_on() {
        thread::sleep(Duration::from_secs(1));
    }
}

/// QEMU ends: what was found is written down. Without a document the command says that nothing was judged.
pub(crate) fn finish() {
    let Some(Plugin { watcher, out, .. }) = PLUGIN.get() else { return };
    if let Err(why) = watcher.finish().and_then(|document| outcome::write(out, &document)) {
        let _ = writeln!(std::io::stderr(), "linmap {NAME}: {why}");
    }
}
