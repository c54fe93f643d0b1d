//! QEMU's virt machine: its RAM, and where QEMU puts a kernel image and a device tree.

use std::ops::Range;

use linmap::Pa;

/// The start of RAM.
pub(crate) const RAM_START: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Returns the range of so much RAM.
pub(crate) fn ram(bytes: u64) -> Range<Pa> {
    Pa(RAM_START)..Pa(RAM_START + bytes)
}

/// The start of an image that can lie anywhere: QEMU keeps a boot loader of its own below.
pub(crate) const IMAGE_START: u64 = RAM_START + 2 * MIB;

/// Returns the range of the device tree: in the middle of small RAM, 128 MiB into larger RAM, and never in the image.
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
