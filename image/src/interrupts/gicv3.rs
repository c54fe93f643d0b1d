//! A GICv3: a distributor for all CPUs, a redistributor for each, CPU interfaces in system registers.

use core::arch::asm;

use aarch64_cpu::asm::barrier;
use arrayvec::ArrayVec;
use kernel::sgi::{affinity, joined, sgi1r};
use kernel_plan::gic::REGIONS;
use linmap::arm64::Uses;

use super::error::Error;
use super::gicv2::{PRIORITIES, disable_shared};
use super::registers::Registers;
use super::sgi::{Acknowledged, Sgi};
use crate::cpu;

const GICD_CTLR: u64 = 0x0;
/// GICD_CTLR as in Non-secure state, or with one security state: group 1, at both places of its bit; affinity routing;
/// a write is still pending.
const ENABLE_GROUP_1: u32 = 0b11;
const AFFINITY_ROUTING: u32 = 1 << 4;
const DISTRIBUTOR_PENDING: u32 = 1 << 31;

const GICR_CTLR: u64 = 0x0;
const REDISTRIBUTOR_PENDING: u32 = 1 << 3;
const GICR_TYPER: u64 = 0x8;
const VIRTUAL_LPIS: u64 = 1 << 1;
const LAST: u64 = 1 << 4;
const GICR_WAKER: u64 = 0x14;
const PROCESSOR_SLEEP: u32 = 1 << 1;
const CHILDREN_ASLEEP: u32 = 1 << 2;
/// The frame of SGIs and PPIs, after the redistributor's own.
const SGI_FRAME: u64 = 0x1_0000;
const GICR_IGROUPR0: u64 = SGI_FRAME + 0x80;
const GICR_ISENABLER0: u64 = SGI_FRAME + 0x100;
const GICR_ICENABLER0: u64 = SGI_FRAME + 0x180;
const GICR_IPRIORITYR: u64 = SGI_FRAME + 0x400;
/// The bytes of two frames.
const FRAMES: u64 = 0x2_0000;

/// Reads a system register.
macro_rules! read_register {
    ($register:literal) => {{
        let value: u64;
        // SAFETY: registers of the CPU interface access no memory. Not `nomem`: reading one may acknowledge.
        unsafe { asm!(concat!("mrs {}, ", $register), out(reg) value, options(nostack, preserves_flags)) };
        value
    }};
}

/// Writes a system register.
macro_rules! write_register {
    ($register:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: registers of the CPU interface access no memory; handlers are ready before any is enabled.
        unsafe { asm!(concat!("msr ", $register, ", {}"), in(reg) value, options(nostack, preserves_flags)) };
    }};
}

/// The controller.
pub(super) struct Gicv3 {
    distributor: Registers,
    redistributors: ArrayVec<Registers, REGIONS>,
    stride: Option<u64>,
    /// GICR_TYPER.Last ends no region.
    joined: bool,
}

impl Gicv3 {
    pub(super) const fn new(
        distributor: Registers,
        redistributors: ArrayVec<Registers, REGIONS>,
        stride: Option<u64>,
        joined: bool,
    ) -> Self {
        Self { distributor, redistributors, stride, joined }
    }

    /// Starts the distributor, without interrupts that all CPUs share. Routing changes while nothing is enabled.
    ///
    /// # Errors
    ///
    /// A write has no effect.
    pub(super) fn start(&self) -> Result<(), Error> {
        self.control(0)?;
        self.control(AFFINITY_ROUTING)?;
        disable_shared(&self.distributor);
        self.control(AFFINITY_ROUTING | ENABLE_GROUP_1)
    }

    fn control(&self, value: u32) -> Result<(), Error> {
        self.distributor.write(GICD_CTLR, value);
        self.distributor.wait_clear(GICD_CTLR, DISTRIBUTOR_PENDING, "GICD_CTLR.RWP")
    }

    /// Starts the redistributor and the CPU interface of this CPU, with the SGIs and PPIs in a mask.
    ///
    /// # Errors
    ///
    /// It lacks one of them, or the redistributor does not wake.
    pub(super) fn start_cpu(&self, enabled: u32) -> Result<(), Error> {
        let mpidr = cpu::own_mpidr();
        let gicr = self.redistributor(mpidr).ok_or(Error::NoRedistributor { mpidr })?;
        gicr.write(GICR_WAKER, gicr.read(GICR_WAKER) & !PROCESSOR_SLEEP);
        gicr.wait_clear(GICR_WAKER, CHILDREN_ASLEEP, "GICR_WAKER.ChildrenAsleep")?;
        gicr.write(GICR_ICENABLER0, u32::MAX);
        gicr.wait_clear(GICR_CTLR, REDISTRIBUTOR_PENDING, "GICR_CTLR.RWP")?;
        gicr.write(GICR_IGROUPR0, u32::MAX);
        (0..32).step_by(4).for_each(|field| gicr.write(GICR_IPRIORITYR + field, PRIORITIES));
        gicr.write(GICR_ISENABLER0, enabled);
        start_interface()
    }

    /// Returns the redistributor of a CPU.
    fn redistributor(&self, mpidr: u64) -> Option<Registers> {
        for region in &self.redistributors {
            let mut offset = 0;
            while offset + FRAMES <= region.bytes() {
                let typer = region.read64(offset + GICR_TYPER);
                if (typer >> 32u32) as u32 == affinity(mpidr) {
                    return Some(region.after(offset));
                }
                if typer & LAST != 0 && !self.joined {
                    break;
                }
                let frames = if typer & VIRTUAL_LPIS == 0 { FRAMES } else { 2 * FRAMES };
                offset = offset.checked_add(self.stride.unwrap_or(frames))?;
            }
        }
        None
    }

    /// The barriers of [`acknowledge`](Self::acknowledge) and [`end`](Self::end).
    pub(super) const HANDLING: Uses = Uses { tlbi: 0, dsb: 1, isb: 1 };

    /// Takes the pending interrupt of the highest priority.
    pub(super) fn acknowledge() -> Acknowledged {
        let raw = read_register!("s3_0_c12_c12_0") as u32; // ICC_IAR1_EL1
        // The handler's work comes after this.
        barrier::dsb(barrier::SY);
        Acknowledged { raw, intid: raw & 0xff_ffff }
    }

    /// Drops its priority and deactivates it.
    pub(super) fn end(raw: u32) {
        write_register!("s3_0_c12_c12_1", raw.into()); // ICC_EOIR1_EL1
        barrier::isb(barrier::SY);
    }

    /// Sends an SGI to CPUs, with one write for neighbours.
    pub(super) fn send(cpus: impl Iterator<Item = usize>, sgi: Sgi) {
        let mut waiting = None;
        for value in cpus.map(|cpu| sgi1r(cpu::mpidr(cpu), sgi as u32)) {
            waiting = match waiting.map(|waiting| (waiting, joined(waiting, value))) {
                None => Some(value),
                Some((_, Some(both))) => Some(both),
                Some((waiting, None)) => {
                    generate(waiting);
                    Some(value)
                }
            };
        }
        if let Some(waiting) = waiting {
            generate(waiting);
        }
    }
}

fn generate(value: u64) {
    write_register!("s3_0_c12_c11_5", value); // ICC_SGI1R_EL1
}

/// Starts the CPU interface of this CPU.
fn start_interface() -> Result<(), Error> {
    // ID_AA64PFR0_EL1.GIC
    if read_register!("id_aa64pfr0_el1") >> 24u32 & 0xf == 0 {
        return Err(Error::NoSystemRegisters);
    }
    // ICC_SRE_EL1.SRE
    write_register!("s3_0_c12_c12_5", read_register!("s3_0_c12_c12_5") | 1);
    barrier::isb(barrier::SY);
    if read_register!("s3_0_c12_c12_5") & 1 == 0 {
        return Err(Error::NoSystemRegisters);
    }
    write_register!("s3_0_c4_c6_0", 0xff); // ICC_PMR_EL1
    write_register!("s3_0_c12_c12_3", 0); // ICC_BPR1_EL1
    // ICC_CTLR_EL1.EOImode: ending an interrupt deactivates it.
    write_register!("s3_0_c12_c12_4", read_register!("s3_0_c12_c12_4") & !0b10);
    write_register!("s3_0_c12_c12_7", 1); // ICC_IGRPEN1_EL1
    barrier::isb(barrier::SY);
    Ok(())
}
