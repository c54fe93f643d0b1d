//! Device trees, node by node: texts, numbers, status, ranges of addresses.
//!
//! The tree is not trusted: what does not make sense is named and left out.

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::standard::NodeStandard;
use dtoolkit::{Node, Property};

use crate::note::{Defect, Note, Subject};

/// Returns the size in bytes that the header at the start of a device tree gives the whole of it; none if it is no
/// header of one.
///
/// The magic and the size are the first two big-endian words.
pub fn total_size(header: [u8; 8]) -> Option<usize> {
    let [a, b, c, d, size @ ..] = header;
    ([a, b, c, d] == [0xd0, 0x0d, 0xfe, 0xed]).then_some(u32::from_be_bytes(size) as usize)
}

/// Returns true if a tree describes no machine, but at most what a loader has chosen. Firmware with ACPI may have such a
/// one. A tree that cannot be read may describe anything.
pub fn is_empty(dtb: &[u8]) -> bool {
    Fdt::new(dtb).is_ok_and(|tree| tree.root().children().all(|node| node.name() == "chosen"))
}

/// Returns a property that is one string.
pub(crate) fn text<'a>(node: FdtNode<'a>, name: &str) -> Option<&'a str> {
    node.properties().find(|p| p.name() == name)?.value_as::<&str>().ok()
}

/// Returns the bytes of a property up to its first NUL.
pub(crate) fn bytes<'a>(node: FdtNode<'a>, name: &str) -> Option<&'a [u8]> {
    let value = node.properties().find(|p| p.name() == name)?.value_as::<&[u8]>().ok()?;
    value.split(|byte| *byte == 0).next()
}

/// Returns true if a node's status says that it can be used; otherwise notes its status.
pub(crate) fn in_use(node: FdtNode<'_>, subject: Subject, note: &mut dyn FnMut(Note<'_>)) -> bool {
    let disabled = text(node, "status").filter(|s| !matches!(*s, "okay" | "ok"));
    if let Some(status) = disabled {
        note(Note::Node { subject, name: node.name(), defect: Defect::Status(status) });
    }
    disabled.is_none()
}

/// Returns the bytes of an address and of a size of a node's children.
pub(crate) fn cells(node: FdtNode<'_>) -> (usize, usize) {
    let cells = node.address_space();
    ((cells.address_cells as usize).saturating_mul(4), (cells.size_cells as usize).saturating_mul(4))
}

/// Calls `each` with address and size for every valid range of a node's `reg`, and notes the others.
pub(crate) fn each_reg(
    node: FdtNode<'_>,
    (address, size): (usize, usize),
    subject: Subject,
    note: &mut dyn FnMut(Note<'_>),
    mut each: impl FnMut(u64, u64, &mut dyn FnMut(Note<'_>)),
) {
    let name = node.name();
    let wrong = |defect| Note::Node { subject, name, defect };
    let Some(reg) = node.property("reg") else {
        return note(wrong(Defect::NoReg));
    };
    let length = address.saturating_add(size);
    if address == 0 || size == 0 {
        return note(wrong(Defect::NoCells));
    }
    let ranges = reg.value().chunks_exact(length);
    let rest = ranges.remainder().len();
    for range in ranges {
        let (start, size) = range.split_at(address);
        match (number(start), number(size)) {
            (_, Some(0)) => note(wrong(Defect::EmptyRange)),
            (Some(start), Some(size)) => each(start, size, note),
            _ => note(wrong(Defect::TooWide)),
        }
    }
    if rest != 0 {
        note(wrong(Defect::CutShort { rest, length }));
    }
}

/// Reads a big-endian number; none if it has more than 64 bits.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    let (high, low) = bytes.split_at(bytes.len().saturating_sub(8));
    high.iter().all(|b| *b == 0).then(|| low.iter().fold(0, |n, b| n << 8u32 | u64::from(*b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::model::{DeviceTree, DeviceTreeNode};

    #[test]
    fn a_tree_with_boot_arguments_alone_describes_nothing() {
        let mut tree = DeviceTree::new();
        assert!(is_empty(&tree.to_dtb()));
        tree.root.add_child(DeviceTreeNode::new("chosen").unwrap());
        assert!(is_empty(&tree.to_dtb()));
        tree.root.add_child(DeviceTreeNode::new("cpus").unwrap());
        assert!(!is_empty(&tree.to_dtb()) && !is_empty(&[0; 64]));
    }
}
