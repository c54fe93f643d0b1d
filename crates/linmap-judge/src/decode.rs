//! A64 instructions that say something about translation (C5.5, C5.3 and C6.2 of the manual).

use linmap_model::{Barrier, Register, Tlb};

/// An instruction that concerns the observer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// A TLBI, with the number of the register that it takes; 31 is zero.
    Tlbi(Tlb, u8),
    /// A DSB.
    Dsb(Barrier),
    /// Earlier stores of the CPU come before later ones: a DMB, or a store with release semantics.
    Release,
    /// A context synchronisation.
    Isb,
    /// An exception return.
    Return,
    /// The CPU waits for an interrupt.
    Idle,
    /// A register that says how the CPU translates is written from a general one.
    Msr(Register, u8),
    /// A call of firmware, of a hypervisor or of semihosting: HVC, SMC and HLT #0xf000.
    Call,
    /// The first instruction of a vector: an exception was taken. It is known by its place alone.
    Entry,
    /// A block of cache-line size, with the address in a register, becomes zero: DC ZVA, DC GZVA and STZGM.
    Zero(u8),
    /// Bytes are stored by one of three instructions of MOPS: as many as the second register has from the address in the first one on,
    /// or, where it is negative, before that address.
    Fill(u8, u8),
}

impl Instruction {
    /// Decodes an instruction, if it concerns the observer.
    pub fn decode(word: u32) -> Option<Self> {
        let rt = (word & 31) as u8;
        match word {
            // The options that are reserved are those of SY.
            _ if word & 0xffff_f0ff == 0xd503_30df => Some(Self::Isb),
            // ERET, ERETAA, ERETAB.
            0xd69f_03e0 | 0xd69f_0bff | 0xd69f_0fff => Some(Self::Return),
            0xd503_207f => Some(Self::Idle),
            _ if word & !31 == 0xd503_1020 => Some(Self::Idle),
            _ if matches!(word & 0xffe0_001f, 0xd400_0002 | 0xd400_0003) => Some(Self::Call),
            0xd45e_0000 => Some(Self::Call),
            _ if word & 0xffff_f0ff == 0xd503_309f => dsb(word >> 8 & 15).map(Self::Dsb),
            _ if word & 0xffff_f3ff == 0xd503_323f => Some(Self::Dsb(
                [Barrier::Oshnxs, Barrier::Nshnxs, Barrier::Ishnxs, Barrier::Synxs]
                    [(word >> 10 & 3) as usize],
            )),
            // A DMB of loads alone does not order stores, nor does one of this CPU alone for others.
            _ if word & 0xffff_f0ff == 0xd503_30bf => {
                let kind = word >> 8 & 15;
                (kind & 3 != 1 && kind & 12 != 4).then_some(Self::Release)
            }
            _ if word & 0xfff8_0000 == 0xd508_0000 => system(word, rt),
            _ if word & 0xfff8_0000 == 0xd518_0000 => register(word, rt),
            _ if word & 0xffff_fc00 == 0xd920_0000 => Some(Self::Zero((word >> 5 & 31) as u8)),
            _ if word & 0xfb20_0c00 == 0x1900_0400 => copy_or_set(word, rt),
            _ => is_release(word).then_some(Self::Release),
        }
    }
}

/// Returns true if a callback may tell what an instruction stores: for loads and stores (C4.1), and for stores of SVE and SME.
pub const fn may_store(word: u32) -> bool {
    word >> 25u32 & 0b101 == 0b100 || matches!(word >> 25u32, 0b111_0010 | 0b111_0000 | 0b101_0000)
}

/// Returns the DSB with a CRm; those of loads alone order nothing that concerns tables.
fn dsb(crm: u32) -> Option<Barrier> {
    Some(match crm {
        1 | 5 | 9 | 13 | 0 | 4 => return None,
        2 => Barrier::Oshst,
        3 => Barrier::Osh,
        6 => Barrier::Nshst,
        7 => Barrier::Nsh,
        10 => Barrier::Ishst,
        11 => Barrier::Ish,
        14 => Barrier::St,
        // What is reserved is SY.
        _ => Barrier::Sy,
    })
}

/// op1, CRn, CRm and op2 of a system instruction.
const fn fields(word: u32) -> (u32, u32, u32, u32) {
    (word >> 16 & 7, word >> 12 & 15, word >> 8 & 15, word >> 5 & 7)
}

/// SYS: TLBI and DC.
fn system(word: u32, rt: u8) -> Option<Instruction> {
    let (op1, crn, crm, op2) = fields(word);
    match (op1, crn, crm, op2) {
        (3, 7, 4, 1 | 4) => Some(Instruction::Zero(rt)),
        (0, 8 | 9, ..) => tlbi(crn == 9, crm, op2).map(|op| Instruction::Tlbi(op, rt)),
        // The only others that EL1 can execute are undefined without EL2.
        _ => None,
    }
}

/// Returns the TLBI of EL1 with an encoding.
fn tlbi(nxs: bool, crm: u32, op2: u32) -> Option<Tlb> {
    // The reach: this CPU, the inner shareable domain, the outer one.
    let (reach, is_range) = match crm {
        7 => (0, false),
        3 => (1, false),
        1 => (2, false),
        6 => (0, true),
        2 => (1, true),
        5 => (2, true),
        _ => return None,
    };
    let op = match (op2, is_range) {
        (0, false) => Tlb::Vmalle1,
        (1, false) => Tlb::Vae1,
        (2, false) => Tlb::Aside1,
        (3, false) => Tlb::Vaae1,
        (5, false) => Tlb::Vale1,
        (7, false) => Tlb::Vaale1,
        (1, true) => Tlb::Rvae1,
        (3, true) => Tlb::Rvaae1,
        (5, true) => Tlb::Rvale1,
        (7, true) => Tlb::Rvaale1,
        _ => return None,
    };
    Some(op.with(reach, nxs))
}

/// MSR of a register of EL1 that says how it translates.
fn register(word: u32, rt: u8) -> Option<Instruction> {
    Some(match fields(word) {
        (0, 2, 0, 0) => Instruction::Msr(Register::Ttbr0, rt),
        (0, 2, 0, 1) => Instruction::Msr(Register::Ttbr1, rt),
        (0, 2, 0, 2) => Instruction::Msr(Register::Tcr, rt),
        (0, 10, 2, 0) => Instruction::Msr(Register::Mair, rt),
        (0, 1, 0, 0) => Instruction::Msr(Register::Sctlr, rt),
        (0, 12, 0, 0) => Instruction::Msr(Register::Vbar, rt),
        _ => return None,
    })
}

/// CPY and SET: each of their three instructions stores some of what is left.
fn copy_or_set(word: u32, rd: u8) -> Option<Instruction> {
    let (rs, rn) = ((word >> 16u32 & 31) as u8, (word >> 5u32 & 31) as u8);
    let is_known = match word >> 22u32 & 3 {
        // SET: destination, bytes, value.
        3 => word >> 14u32 & 3 != 3,
        // CPY: destination, source, bytes.
        _ => rs != 31,
    };
    is_known.then_some(Instruction::Fill(rd, rn))
}

/// Returns true for stores with release semantics: STLR, STLXR, STLXP, STLUR, and CAS, CASP and atomics with release.
fn is_release(word: u32) -> bool {
    let is = |mask: u32, value: u32| word & mask == value;
    // STLR and STLXR, STLXP; CAS and CASP, which load as well.
    is(0x3fe0_8000, 0x0880_8000)
        || is(0x3fc0_8000, 0x0800_8000) && (word >> 31 == 1 || word >> 21 & 1 == 0)
        || is(0x3fa0_8000, 0x08a0_8000)
        || is(0xbfa0_8000, 0x0820_8000)
        || is(0x3fe0_0c00, 0x1900_0000)
        // Atomics: bit 22 is release. Loads with acquire in the same space have bit 23 alone.
        || is(0x3f60_0c00, 0x3860_0000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_as_an_assembler_writes_them() {
        use Instruction::{Call, Dsb, Fill, Idle, Isb, Msr, Release, Return, Tlbi, Zero};
        let known = [
            (0xd503_3f9f, Dsb(Barrier::Sy)),
            (0xd503_3a9f, Dsb(Barrier::Ishst)),
            (0xd503_379f, Dsb(Barrier::Nsh)),
            (0xd503_329f, Dsb(Barrier::Oshst)),
            (0xd503_3e9f, Dsb(Barrier::St)),
            (0xd503_3a3f, Dsb(Barrier::Ishnxs)),
            (0xd503_3e3f, Dsb(Barrier::Synxs)),
            (0xd503_3bbf, Release), // dmb ish
            (0xd503_3abf, Release), // dmb ishst
            (0xd503_3fbf, Release), // dmb sy
            (0xd503_3fdf, Isb),
            (0xd503_3cdf, Isb), // isb #12
            (0xd69f_03e0, Return),
            (0xd69f_0bff, Return),
            (0xd503_207f, Idle),
            (0xd503_1023, Idle), // wfit x3
            (0xd400_0002, Call),
            (0xd400_00e3, Call),
            (0xd45e_0000, Call), // hlt #0xf000
            (0xd508_871f, Tlbi(Tlb::Vmalle1, 31)),
            (0xd508_831f, Tlbi(Tlb::Vmalle1is, 31)),
            (0xd508_811f, Tlbi(Tlb::Vmalle1os, 31)),
            (0xd508_8325, Tlbi(Tlb::Vae1is, 5)),
            (0xd508_87a6, Tlbi(Tlb::Vale1, 6)),
            (0xd508_81e7, Tlbi(Tlb::Vaale1os, 7)),
            (0xd508_8341, Tlbi(Tlb::Aside1is, 1)),
            (0xd508_8222, Tlbi(Tlb::Rvae1is, 2)),
            (0xd508_85e2, Tlbi(Tlb::Rvaale1os, 2)),
            (0xd508_86a9, Tlbi(Tlb::Rvale1, 9)),
            (0xd508_9325, Tlbi(Tlb::Vae1isnxs, 5)),
            (0xd518_2001, Msr(Register::Ttbr0, 1)),
            (0xd518_2022, Msr(Register::Ttbr1, 2)),
            (0xd518_2043, Msr(Register::Tcr, 3)),
            (0xd518_a204, Msr(Register::Mair, 4)),
            (0xd518_1005, Msr(Register::Sctlr, 5)),
            (0xd518_c006, Msr(Register::Vbar, 6)),
            (0xd50b_7420, Zero(0)),
            (0xd50b_7480, Zero(0)),
            (0xd920_003f, Zero(1)),    // stzgm xzr, [x1]
            (0xc89f_fc41, Release),    // stlr
            (0x089f_fc41, Release),    // stlrb
            (0xc803_fc41, Release),    // stlxr
            (0xc823_9041, Release),    // stlxp
            (0xc8a1_fc62, Release),    // casl
            (0x88e1_fc62, Release),    // casal
            (0x4820_fc82, Release),    // caspl
            (0xf861_0062, Release),    // ldaddl
            (0xf8e1_8062, Release),    // swpal
            (0xd900_8041, Release),    // stlur
            (0x19c2_0420, Fill(0, 1)), // setp
            (0x19c2_4420, Fill(0, 1)), // setm
            (0x19c2_8420, Fill(0, 1)), // sete
            (0x1901_0440, Fill(0, 2)), // cpyfp
            (0x1941_0440, Fill(0, 2)), // cpyfm
            (0x1d81_0440, Fill(0, 2)), // cpye
        ];
        for (word, instruction) in known {
            assert_eq!(Instruction::decode(word), Some(instruction), "{word:#x}");
        }
        let others = [
            0xd503_3d9f, // dsb ld
            0xd503_399f, // dsb ishld
            0xd503_39bf, // dmb ishld
            0xd503_37bf, // dmb nsh
            0xd503_30ff, // sb
            0xd503_205f, // wfe
            0xd50b_7460, // dc gva
            0xd50c_83df, // tlbi vmalls12e1is
            0xc803_7c41, // stxr
            0xc8a1_7c62, // cas
            0x4820_7c82, // casp
            0xf821_0062, // ldadd
            0xf8a1_0062, // ldadda
            0xc8df_fc41, // ldar
            0xc85f_fc41, // ldaxr
            0xf900_0041, // str
            0xa900_0861, // stp
            0x19c2_c420, // not allocated, beside setp
            0xf820_0441, // ldraa
            0xf8bf_c041, // ldapr
        ];
        for word in others {
            assert_eq!(Instruction::decode(word), None, "{word:#x}");
        }
    }

    #[test]
    fn stores_are_told_from_calculations() {
        let stores = [
            0xf900_0041, // str
            0xa900_0861, // stp
            0x4c9f_2c00, // st1 of four registers
            0xc803_7c41, // stxr
            0xf821_0062, // ldadd
            0xd960_1400, // stzg
            0xe5e0_e000, // st1d
            0xe581_a000, // st1d to addresses in a vector
            0xe580_4000, // str z0
            0xe0ff_0000, // st1d of za
            0xe120_0000, // str za
        ];
        assert!(stores.iter().all(|word| may_store(*word)));
        let others = [
            0x8b01_0000, // add
            0x9100_0400, // add of a constant
            0x1400_0000, // b
            0xd50b_7420, // dc zva
            0x4ee1_8400, // add of vectors
            0x1e61_2800, // fadd
            0x04e1_0000, // add of SVE
            0x6580_0000, // fadd of SVE
            0xa5e0_a020, // ld1d
        ];
        assert!(others.iter().all(|word| !may_store(*word)));
    }
}
