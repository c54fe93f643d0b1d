//! Tables for tests, with right checksums, and memory that has them.

use std::vec::Vec;

use linmap::Pa;
use zerocopy::{FromZeros, IntoBytes};

use crate::acpi::layout::{
    Dbg2, Dbg2Device, Gas, GicIts, Gicc, Gicd, Gicr, Gtdt, Header, Madt, Rsdp1, Rsdp2, Spcr, Srat,
    SratMemory, Structure,
};

/// The tables of QEMU's virt machine with three CPUs and a GICv3, one after the other.
pub(super) const VIRT: &[u8] = include_bytes!("../../../tests/data/virt.acpi");

/// Returns a header without length and checksum.
fn header(signature: &[u8; 4]) -> Header {
    Header {
        signature: *signature,
        length: 0.into(),
        revision: 1,
        checksum: 0,
        oem: *b"linmap",
        oem_table: *b"test    ",
        oem_revision: 1.into(),
        creator: *b"test",
        creator_revision: 1.into(),
    }
}

/// Sets length and checksum of a table.
pub(super) fn seal(mut table: Vec<u8>) -> Vec<u8> {
    let length = table.len() as u32;
    table[4..8].copy_from_slice(&length.to_le_bytes());
    table[9] = 0;
    table[9] = table.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
    table
}

fn table(fixed: &[u8], parts: &[Vec<u8>]) -> Vec<u8> {
    seal([fixed, &parts.concat()].concat())
}

pub(super) fn fadt(arm_boot: u16) -> Vec<u8> {
    let mut all = header(b"FACP").as_bytes().to_vec();
    all.resize(276, 0);
    all[129..131].copy_from_slice(&arm_boot.to_le_bytes());
    seal(all)
}

pub(super) fn madt(parts: &[Vec<u8>]) -> Vec<u8> {
    let fixed = Madt { header: header(b"APIC"), local_controller: 0.into(), flags: 0.into() };
    table(fixed.as_bytes(), parts)
}

fn start<T>(kind: u8) -> Structure {
    Structure { kind, length: size_of::<T>() as u8 }
}

/// A CPU of a GICC structure.
#[derive(Clone, Copy)]
pub(super) struct Cpu {
    pub(super) mpidr: u64,
    pub(super) flags: u32,
    pub(super) cpu_interface: u64,
    pub(super) redistributor: u64,
}

/// An enabled CPU without registers.
pub(super) const fn cpu(mpidr: u64) -> Cpu {
    Cpu { mpidr, flags: 1, cpu_interface: 0, redistributor: 0 }
}

pub(super) fn gicc(uid: u32, cpu: Cpu) -> Vec<u8> {
    let Cpu { mpidr, flags, cpu_interface, redistributor } = cpu;
    let mut gicc = Gicc::new_zeroed();
    gicc.start = start::<Gicc>(0xb);
    (gicc.uid, gicc.flags, gicc.mpidr) = (uid.into(), flags.into(), mpidr.into());
    (gicc.cpu_interface, gicc.redistributor) = (cpu_interface.into(), redistributor.into());
    gicc.as_bytes().to_vec()
}

pub(super) fn gicd(base: u64, version: u8) -> Vec<u8> {
    let start = start::<Gicd>(0xc);
    let (base, zero) = (base.into(), 0.into());
    let gicd = Gicd { start, reserved: 0.into(), id: zero, base, first: zero, version, reserved_2: [0; 3] };
    gicd.as_bytes().to_vec()
}

pub(super) fn its(id: u32, base: u64) -> Vec<u8> {
    let start = start::<GicIts>(0xf);
    let its = GicIts { start, reserved: 0.into(), id: id.into(), base: base.into(), reserved_2: 0.into() };
    its.as_bytes().to_vec()
}

pub(super) fn gicr(base: u64, length: u32) -> Vec<u8> {
    let start = start::<Gicr>(0xe);
    let gicr = Gicr { start, reserved: 0.into(), base: base.into(), length: length.into() };
    gicr.as_bytes().to_vec()
}

pub(super) fn gtdt(virtual_timer: u32) -> Vec<u8> {
    let mut gtdt = Gtdt::new_zeroed();
    (gtdt.header, gtdt.virtual_timer) = (header(b"GTDT"), virtual_timer.into());
    table(gtdt.as_bytes(), &[])
}

/// Returns registers at an address of a space: their width in bits, and the code of their accesses.
pub(super) fn gas(space: u8, bits: u8, access: u8, address: u64) -> Gas {
    Gas { space, bits, offset: 0, access, address: address.into() }
}

pub(super) fn spcr(kind: u8, registers: Gas) -> Vec<u8> {
    table(Spcr { header: header(b"SPCR"), kind, reserved: [0; 3], registers }.as_bytes(), &[])
}

/// Makes a DBG2 of ports: type, subtype, registers.
pub(super) fn dbg2(ports: &[(u16, u16, Gas)]) -> Vec<u8> {
    let fixed = Dbg2 { header: header(b"DBG2"), devices: 44.into(), count: (ports.len() as u32).into() };
    let device = |(port, kind, gas): &(u16, u16, Gas)| {
        let mut device = Dbg2Device::new_zeroed();
        (device.length, device.addresses, device.registers) = (34.into(), 1, 22.into());
        (device.port, device.kind) = ((*port).into(), (*kind).into());
        [device.as_bytes(), gas.as_bytes()].concat()
    };
    table(fixed.as_bytes(), &ports.iter().map(device).collect::<Vec<_>>())
}

/// Makes an SRAT of ranges: node, start, size, flags.
pub(super) fn srat(ranges: &[(u32, u64, u64, u32)]) -> Vec<u8> {
    let fixed = Srat { header: header(b"SRAT"), reserved: 1.into(), reserved_2: 0.into() };
    let range = |(node, start_at, size, flags): &(u32, u64, u64, u32)| {
        let mut memory = SratMemory::new_zeroed();
        memory.start = start::<SratMemory>(1);
        (memory.domain, memory.flags) = ((*node).into(), (*flags).into());
        (memory.base, memory.length) = ((*start_at).into(), (*size).into());
        memory.as_bytes().to_vec()
    };
    table(fixed.as_bytes(), &ranges.iter().map(range).collect::<Vec<_>>())
}

/// Memory from an address on.
pub(super) struct Firmware {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl Firmware {
    /// Returns bytes of it.
    pub(super) fn read(&self, at: Pa, bytes: usize) -> Option<&[u8]> {
        let from = usize::try_from(at.0.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(bytes)?)
    }

    /// Lays out an RSDP at the start, then an RSDT, an XSDT and these tables. The RSDT may be left out.
    pub(super) fn with(tables: &[Vec<u8>], has_rsdt: bool) -> Self {
        let (start, rsdt, xsdt) = (0x7000_0003, 0x40usize, 0x200usize);
        let mut bytes = std::vec![0; 0x400];
        let addresses: Vec<u64> = tables
            .iter()
            .map(|table| {
                let at = start + bytes.len() as u64;
                bytes.extend(table);
                at
            })
            .collect();
        let narrow: Vec<u8> = addresses.iter().flat_map(|at| (*at as u32).to_le_bytes()).collect();
        let wide: Vec<u8> = addresses.iter().flat_map(|at| at.to_le_bytes()).collect();
        for (at, name, list) in [(rsdt, b"RSDT", narrow), (xsdt, b"XSDT", wide)] {
            let root = table(header(name).as_bytes(), &[list]);
            bytes[at..at + root.len()].copy_from_slice(&root);
        }
        let rsdt = if has_rsdt { start as u32 + rsdt as u32 } else { 0 };
        bytes[..36].copy_from_slice(&rsdp(rsdt, start + xsdt as u64));
        Self { start, bytes }
    }
}

/// Makes an RSDP of revision 2.
pub(super) fn rsdp(rsdt: u32, xsdt: u64) -> Vec<u8> {
    let first =
        Rsdp1 { signature: *b"RSD PTR ", checksum: 0, oem: *b"linmap", revision: 2, rsdt: rsdt.into() };
    let all = Rsdp2 { first, length: 36.into(), xsdt: xsdt.into(), checksum: 0, reserved: [0; 3] };
    let mut bytes = all.as_bytes().to_vec();
    for (at, end) in [(8, 20), (32, 36)] {
        bytes[at] = bytes[..end].iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
    }
    bytes
}
