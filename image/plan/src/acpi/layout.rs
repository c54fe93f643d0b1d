//! The tables as they lie in memory, as far as they are used: the ACPI specification, chapter 5; SPCR and DBG2 as
//! Microsoft publishes them. Numbers are little-endian, and nothing is aligned.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Defines structures without padding.
macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
        #[repr(C)]
        pub(super) struct $name { $(pub(super) $field: $type,)* }
    )*};
}

layouts! {
    /// Root System Description Pointer, as in ACPI 1.0.
    Rsdp1 { signature: [u8; 8], checksum: u8, oem: [u8; 6], revision: u8, rsdt: U32, }
    /// The whole of it, from revision 2 on.
    Rsdp2 { first: Rsdp1, length: U32, xsdt: U64, checksum: u8, reserved: [u8; 3], }
    /// The header of every table.
    Header {
        signature: [u8; 4], length: U32, revision: u8, checksum: u8, oem: [u8; 6], oem_table: [u8; 8],
        oem_revision: U32, creator: [u8; 4], creator_revision: U32,
    }
    /// Fixed ACPI Description Table.
    Fadt { header: Header, before_arm: [u8; 93], arm_boot: U16, }
    /// Multiple APIC Description Table; structures follow.
    Madt { header: Header, local_controller: U32, flags: U32, }
    /// The first bytes of a structure.
    Structure { kind: u8, length: u8, }
    /// A CPU and its interface to the interrupt controller.
    Gicc {
        start: Structure, reserved: U16, number: U32, uid: U32, flags: U32, parking_version: U32, performance: U32,
        parked: U64, cpu_interface: U64, virtual_interface: U64, virtual_control: U64, maintenance: U32,
        redistributor: U64, mpidr: U64,
    }
    /// A distributor.
    Gicd { start: Structure, reserved: U16, id: U32, base: U64, first: U32, version: u8, reserved_2: [u8; 3], }
    /// A range of redistributors.
    Gicr { start: Structure, reserved: U16, base: U64, length: U32, }
    /// An interrupt translation service.
    GicIts { start: Structure, reserved: U16, id: U32, base: U64, reserved_2: U32, }
    /// Generic Timer Description Table.
    Gtdt {
        header: Header, counter: U64, reserved: U32, secure: U32, secure_flags: U32, physical: U32,
        physical_flags: U32, virtual_timer: U32, virtual_flags: U32,
    }
    /// Generic Address Structure.
    Gas { space: u8, bits: u8, offset: u8, access: u8, address: U64, }
    /// Serial Port Console Redirection table.
    Spcr { header: Header, kind: u8, reserved: [u8; 3], registers: Gas, }
    /// Debug Port table 2; devices follow at an offset.
    Dbg2 { header: Header, devices: U32, count: U32, }
    /// A device of it.
    Dbg2Device {
        revision: u8, length: U16, addresses: u8, name_length: U16, name: U16, oem_length: U16, oem: U16, port: U16,
        kind: U16, reserved: U16, registers: U16, sizes: U16,
    }
    /// System Resource Affinity Table; structures follow.
    Srat { header: Header, reserved: U32, reserved_2: U64, }
    /// A range of memory and its proximity domain.
    SratMemory {
        start: Structure, domain: U32, reserved: U16, base: U64, length: U64, reserved_2: U32, flags: U32,
        reserved_3: U64,
    }
}
