//! A GICv2: memory-mapped registers, some of them banked, one for each CPU.
//!
//! It is used the same way with and without Security Extensions. Without them, interrupts are in group 0, which
//! GICC_CTLR signals as IRQs by default. With them, software in Non-secure state has those in group 1 and sees no
//! others, and the bit that enables them is the same.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use aarch64_cpu::asm::barrier;
use kernel::sgi::{sgir, sgir_self};

use super::registers::Registers;
use super::sgi::{Acknowledged, Sgi};
use crate::cpu;

const GICD_CTLR: u64 = 0x0;
const GICD_TYPER: u64 = 0x4;
const GICD_IGROUPR: u64 = 0x80;
const GICD_ISENABLER: u64 = 0x100;
const GICD_ICENABLER: u64 = 0x180;
const GICD_IPRIORITYR: u64 = 0x400;
const GICD_ITARGETSR: u64 = 0x800;
const GICD_SGIR: u64 = 0xf00;
const GICC_CTLR: u64 = 0x0;
const GICC_PMR: u64 = 0x4;
const GICC_BPR: u64 = 0x8;
const GICC_IAR: u64 = 0xc;
const GICC_EOIR: u64 = 0x10;

/// The priority of all interrupts, in each of the four fields of a register.
pub(super) const PRIORITIES: u32 = 0xa0a0_a0a0;

/// The CPU interface of each CPU, as a bit; 0 if it is unknown, or if there is only one CPU.
static INTERFACES: [AtomicU8; cpu::MAX] = [const { AtomicU8::new(0) }; cpu::MAX];

/// The controller.
pub(super) struct Gicv2 {
    distributor: Registers,
    cpu_interface: Registers,
}

impl Gicv2 {
    pub(super) const fn new(distributor: Registers, cpu_interface: Registers) -> Self {
        Self { distributor, cpu_interface }
    }

    /// Starts the distributor, without interrupts that all CPUs share.
    pub(super) fn start(&self) {
        let gicd = &self.distributor;
        gicd.write(GICD_CTLR, 0);
        disable_shared(gicd);
        gicd.write(GICD_CTLR, 1);
    }

    /// Starts the CPU interface of this CPU, with the SGIs and PPIs in a mask.
    pub(super) fn start_cpu(&self, enabled: u32) {
        let (gicd, gicc) = (&self.distributor, &self.cpu_interface);
        gicc.write(GICC_CTLR, 0);
        // These registers are banked. Without Security Extensions the first write has an effect.
        gicd.write(GICD_IGROUPR, 0);
        gicd.write(GICD_ICENABLER, u32::MAX);
        (0..32).step_by(4).for_each(|field| gicd.write(GICD_IPRIORITYR + field, PRIORITIES));
        gicd.write(GICD_ISENABLER, enabled);
        // The target of a CPU's own interrupts is that CPU.
        let interface = gicd.read(GICD_ITARGETSR) as u8;
        INTERFACES[cpu::this().index].store(interface, Relaxed);
        gicc.write(GICC_PMR, 0xff);
        gicc.write(GICC_BPR, 0);
        gicc.write(GICC_CTLR, 1);
    }

    /// Takes the pending interrupt of the highest priority. The register names the sender of an SGI as well.
    pub(super) fn acknowledge(&self) -> Acknowledged {
        let raw = self.cpu_interface.read(GICC_IAR);
        // The handler's reads come after this.
        barrier::dmb(barrier::ISHLD);
        Acknowledged { raw, intid: raw & 0x3ff }
    }

    /// Drops its priority and deactivates it.
    pub(super) fn end(&self, raw: u32) {
        self.cpu_interface.write(GICC_EOIR, raw);
    }

    /// Sends an SGI to CPUs with one write, and to this CPU with another: if it is the only one, its interface has no
    /// bit.
    pub(super) fn send(&self, cpus: impl Iterator<Item = usize>, sgi: Sgi) {
        let own = cpu::this().index;
        let mut interfaces = 0;
        for cpu in cpus {
            if cpu == own {
                self.distributor.write(GICD_SGIR, sgir_self(sgi as u32));
            } else {
                interfaces |= INTERFACES[cpu].load(Relaxed);
            }
        }
        if interfaces != 0 {
            self.distributor.write(GICD_SGIR, sgir(interfaces, sgi as u32));
        }
    }
}

/// Disables all interrupts of a distributor except those that each CPU has for itself.
pub(super) fn disable_shared(gicd: &Registers) {
    let registers = u64::from(gicd.read(GICD_TYPER) & 0x1f) + 1;
    (1..registers).for_each(|n| gicd.write(GICD_ICENABLER + 4 * n, u32::MAX));
}
