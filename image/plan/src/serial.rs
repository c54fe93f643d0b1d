//! Serial ports: their kind, and how a device tree describes them.

use core::ops::Range;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use linmap::Pa;

use crate::bus::Place;
use crate::device_tree::number;
use crate::note::{Note, Subject};

/// The kind of a serial port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An Arm PL011.
    Pl011,
    /// The Generic UART of the Base System Architecture: the registers of a PL011 that send, at the same places.
    Generic,
    /// A 16550, or another port with its registers for sending.
    Ns16550 {
        /// A register has the address of the first plus its number shifted left by this, 0 to 2.
        shift: u8,
        /// The accesses.
        width: Width,
    },
}

/// The width of accesses to registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// Bytes.
    Byte,
    /// Words of 32 bits.
    Word,
}

/// A serial port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uart {
    /// The kind.
    pub kind: Kind,
    /// The first register.
    pub registers: Pa,
}

/// The bytes of a PL011's registers.
pub const PL011_BYTES: u64 = 0x1000;

impl Uart {
    /// Makes a PL011.
    pub const fn pl011(registers: Pa) -> Self {
        Self { kind: Kind::Pl011, registers }
    }

    /// Returns the range of all registers; none if it would end beyond all addresses.
    pub fn range(&self) -> Option<Range<Pa>> {
        let bytes = match self.kind {
            Kind::Pl011 | Kind::Generic => PL011_BYTES,
            Kind::Ns16550 { shift, .. } => 8 << shift,
        };
        Some(self.registers..Pa(self.registers.0.checked_add(bytes)?))
    }

    /// Returns true if each register is aligned for its accesses, and if they are in one page or fill pages.
    pub fn is_aligned(&self) -> bool {
        let at = self.registers.0;
        match self.kind {
            Kind::Pl011 | Kind::Generic => at.is_multiple_of(4),
            Kind::Ns16550 { shift, width } => {
                let access = if width == Width::Word { 4 } else { 1 };
                at.is_multiple_of(access) && (at & 0xfff) + (8 << shift) <= 0x1000
            }
        }
    }

    /// Reads the node at a path, which may have options after a colon, or begin with an alias. None if it is no port of a
    /// known kind.
    pub(crate) fn read(tree: Fdt<'_>, path: &str, note: &mut dyn FnMut(Note<'_>)) -> Option<Self> {
        let place = Place::find(tree, path.split(':').next()?)?;
        let kind = kind(place.node)?;
        let mut first = None;
        place.registers(Subject::Console, note, |range| _ = first.get_or_insert(range.start));
        let offset = match kind {
            Kind::Ns16550 { .. } => value(place.node, "reg-offset").unwrap_or(0),
            Kind::Pl011 | Kind::Generic => 0,
        };
        Some(Self { kind, registers: Pa(first?.0.checked_add(offset)?) })
    }
}

/// Ports with the registers of a 16550. Some have a FIFO of another size, or none, which does not matter for sending.
const LIKE_16550: [&str; 5] = ["ns16550a", "ns16550", "ns16450", "ns8250", "snps,dw-apb-uart"];

/// The second port of a Raspberry Pi: the registers that send are those of a 16550, each a word.
const BCM2835_AUX: &str = "brcm,bcm2835-aux-uart";

/// Returns the kind of port that a node describes.
fn kind(node: FdtNode<'_>) -> Option<Kind> {
    let is = |name: &str| node.compatible().is_some_and(|mut all| all.any(|own| own == name));
    if is("arm,pl011") {
        return Some(Kind::Pl011);
    }
    if is("arm,sbsa-uart") {
        return Some(Kind::Generic);
    }
    if is(BCM2835_AUX) {
        return Some(Kind::Ns16550 { shift: 2, width: Width::Word });
    }
    if !LIKE_16550.into_iter().any(is) {
        return None;
    }
    let width = match value(node, "reg-io-width") {
        None | Some(1) => Width::Byte,
        Some(4) => Width::Word,
        Some(_) => return None,
    };
    let shift = value(node, "reg-shift").unwrap_or(0);
    ns16550(shift, width)
}

/// Makes the kind of a 16550, if its registers can be so far apart.
pub(crate) fn ns16550(shift: u64, width: Width) -> Option<Kind> {
    let fits = shift <= 2 && (width == Width::Byte || shift == 2);
    fits.then_some(Kind::Ns16550 { shift: shift as u8, width })
}

/// Returns a property that is one number.
fn value(node: FdtNode<'_>, name: &str) -> Option<u64> {
    number(node.property(name)?.value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};

    /// Returns the port of a node with these properties, at 0x1000.
    fn port(compatible: &[u8], more: &[(&str, u32)]) -> Option<Uart> {
        let mut node = DeviceTreeNode::new("serial@1000").unwrap();
        let mut add = |name, value: &[u8]| {
            node.add_property(DeviceTreeProperty::new(name, value).unwrap());
        };
        add("compatible", compatible);
        add("reg", &[0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 1, 0]);
        more.iter().for_each(|(name, value)| add(name, &value.to_be_bytes()));
        let mut tree = DeviceTree::new();
        tree.root.add_child(node);
        Uart::read(Fdt::new(&tree.to_dtb()).unwrap(), "/serial@1000:115200n8", &mut |note| panic!("{note}"))
    }

    const BYTES: Kind = Kind::Ns16550 { shift: 0, width: Width::Byte };
    const WORDS: Kind = Kind::Ns16550 { shift: 2, width: Width::Word };

    #[test]
    fn ports_are_known_by_what_they_are_compatible_with() {
        let at = |kind, registers| Some(Uart { kind, registers: Pa(registers) });
        for (compatible, more, expected) in [
            (&b"arm,pl011\0arm,primecell\0"[..], &[][..], at(Kind::Pl011, 0x1000)),
            (b"arm,sbsa-uart\0", &[], at(Kind::Generic, 0x1000)),
            (b"ns16550a\0", &[], at(BYTES, 0x1000)),
            (b"x\0ns16550a\0", &[("reg-offset", 0x40)], at(BYTES, 0x1040)),
            (b"snps,dw-apb-uart\0", &[("reg-shift", 2), ("reg-io-width", 4)], at(WORDS, 0x1000)),
            (b"ns16550\0", &[("reg-shift", 2)], at(Kind::Ns16550 { shift: 2, width: Width::Byte }, 0x1000)),
            (b"brcm,bcm2835-aux-uart\0", &[], at(WORDS, 0x1000)),
            (b"ns16550a\0", &[("reg-io-width", 2)], None),
            (b"ns16550a\0", &[("reg-io-width", 4)], None),
            (b"ns16550a\0", &[("reg-shift", 3)], None),
            (b"xlnx,xuartps\0", &[], None),
        ] {
            assert_eq!(port(compatible, more), expected, "{compatible:?} {more:?}");
        }
    }

    #[test]
    fn registers_are_aligned_and_in_one_page() {
        let aligned = |kind, at| Uart { kind, registers: Pa(at) }.is_aligned();
        assert!(aligned(Kind::Pl011, 0x1004) && !aligned(Kind::Generic, 0x1002));
        assert!(aligned(BYTES, 0x1ff8) && aligned(BYTES, 0x1001) && !aligned(BYTES, 0x1ff9));
        assert!(aligned(WORDS, 0x1fe0) && !aligned(WORDS, 0x1fe4) && !aligned(WORDS, 0x1002));
        assert_eq!(Uart { kind: WORDS, registers: Pa(0x40) }.range(), Some(Pa(0x40)..Pa(0x60)));
        assert_eq!(Uart::pl011(Pa(u64::MAX - 0xffe)).range(), None);
    }
}
