//! QEMU's virt machine: where its RAM is, and where QEMU puts a kernel image and a device tree.

use std::ops::Range;

use linmap::Pa;

/// Where RAM starts.
pub(crate) const RAM_START: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// All RAM of a machine with so much of it.
pub(crate) fn ram(bytes: u64) -> Range<Pa> {
    Pa(RAM_START)..Pa(RAM_START + bytes)
}

/// Where an image starts that may lie anywhere: QEMU keeps a boot loader of its own below.
pub(crate) const IMAGE_START: u64 = RAM_START + 2 * MIB;

/// Where the device tree is: in the midst of small RAM, above 128 MiB in larger, and never in the image.
pub(crate) fn device_tree(ram_bytes: u64, image: &Range<Pa>) -> Range<Pa> {
    let wanted = RAM_START + (ram_bytes / 2).min(128 * MIB);
    let start = wanted.max(image.end.0).next_multiple_of(2 * MIB);
    Pa(start)..Pa(start + MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_keeps_out_of_the_image() {
        let image = Pa(IMAGE_START)..Pa(IMAGE_START + 3 * MIB);
        assert_eq!(device_tree(8 * MIB, &image).start, Pa(RAM_START + 6 * MIB));
        assert_eq!(device_tree(64 * MIB, &image).start, Pa(RAM_START + 32 * MIB));
        assert_eq!(device_tree(12 << 30, &image).start, Pa(RAM_START + 128 * MIB));
    }
}
