//! A64 instructions: those that are written at run time, and those that can be executed at another address.

/// NOP.
pub const NOP: u32 = 0xd503_201f;
/// RET.
pub const RET: u32 = 0xd65f_03c0;

/// UDF #0: permanently undefined.
pub const UDF: u32 = 0;

/// BRK with an immediate.
pub const fn brk(immediate: u16) -> u32 {
    0xd420_0000 | (immediate as u32) << 5
}

/// MOVZ Xd, #immediate, LSL #0.
pub const fn movz(register: u32, immediate: u16) -> u32 {
    0xd280_0000 | (immediate as u32) << 5 | register
}

/// ADD Xd, Xn, Xm.
pub const fn add(register: u32, first: u32, second: u32) -> u32 {
    0x8b00_0000 | second << 16 | first << 5 | register
}

/// Returns true for an instruction that does the same at any address, continues at the next one, and cannot fault: NOP
/// and data processing, except for addresses relative to the PC.
pub const fn is_movable(instruction: u32) -> bool {
    // Arm ARM C4.1: op0 is bits 28:25.
    match instruction >> 25 & 0xf {
        // Immediate; ADR and ADRP have 0b00 in bits 25:24 of it.
        0b1000 | 0b1001 => instruction >> 24 & 0b11 != 0,
        // Register.
        0b0101 | 0b1101 => true,
        _ => instruction == NOP,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_it_says() {
        // As an assembler encodes them.
        assert_eq!([brk(4), movz(1, 0x1234), add(0, 0, 1)], [0xd420_0080, 0xd282_4681, 0x8b01_0000]);
    }

    #[test]
    fn what_depends_on_its_place_or_leaves_it_stays() {
        for (what, instruction) in [
            ("adr x0, .", 0x1000_0000),
            ("adrp x0, .", 0x9000_0000),
            ("b .", 0x1400_0000),
            ("bl .", 0x9400_0000),
            ("b.eq .", 0x5400_0000),
            ("cbz x0, .", 0xb400_0000),
            ("tbz x0, #0, .", 0x3600_0000),
            ("br x0", 0xd61f_0000),
            ("ret", RET),
            ("brk #0", brk(0)),
            ("svc #0", 0xd400_0001),
            ("ldr x0, .", 0x5800_0000),
            ("ldr x0, [x0]", 0xf940_0000),
            ("stp x29, x30, [sp, #-16]!", 0xa9bf_7bfd),
            ("ldxr x0, [x0]", 0xc85f_7c00),
            ("msr daifset, #2", 0xd503_42df),
            ("mrs x0, daif", 0xd53b_4220),
            ("wfi", 0xd503_207f),
            ("eret", 0xd69f_03e0),
            ("udf #0", UDF),
        ] {
            assert!(!is_movable(instruction), "{what}");
        }
    }

    #[test]
    fn what_computes_goes_anywhere() {
        for (what, instruction) in [
            ("nop", NOP),
            ("add x1, x0, x0, lsl #1", 0x8b00_0401),
            ("add x0, x1, #7", 0x9100_1c20),
            ("movz x1, #0x1234", movz(1, 0x1234)),
            ("and x0, x0, #1", 0x9240_0000),
            ("ubfx x0, x0, #4, #4", 0xd344_1c00),
            ("madd x0, x1, x2, x3", 0x9b02_0c20),
            ("csel x0, x1, x2, eq", 0x9a82_0020),
            ("udiv x0, x0, x1", 0x9ac1_0800),
        ] {
            assert!(is_movable(instruction), "{what}");
        }
    }
}
