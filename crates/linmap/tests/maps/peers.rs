//! Changes of a live leaf without break-before-make: linmap's answer compared with that of aarch64-paging, which
//! others wrote from the same manual.
//!
//! linmap lets more change in place, by exactly the differences listed here, each with the rule of the Arm
//! ARM that decides for it. What linmap refuses, aarch64-paging refuses too: size, memory type, shareability,
//! nG to global, and all of these even where AF is clear. No TLB holds such a leaf unless hardware manages AF
//! (D8.5.1.2, RGQLZ; D8.17, IWZCBG), but descriptors do not say whether it does.

use aarch64_paging::descriptor::{El1Attributes, PagingAttributes};
use linmap::arch::{Descriptor, Leaf, Level, Transition};
use linmap::{Attributes, Geometry, Granule, MemoryType, OaFormat, Pa};
use test_support::Random;

const CONTIGUOUS: u64 = 1 << 52;
/// nT, of blocks only: in a page it is an address bit.
const NT: u64 = 1 << 16;
/// Bit 63 is for software; bits 62:59 are ignored.
const UNUSED: u64 = 0b11111 << 59;
/// The fields that can make a change need break-before-make, to linmap or to aarch64-paging.
const DECISIVE: u64 = Attributes::MEMORY_TYPE
    .union(Attributes::USER)
    .union(Attributes::INNER_SHAREABLE)
    .union(Attributes::NOT_GLOBAL)
    .union(Attributes::GUARDED)
    .bits()
    | CONTIGUOUS;
/// AP\[2\], AF, DBM, PXN, UXN and software's bits, which both let change.
const FREE: u64 = Attributes::all().bits() & !DECISIVE;

/// The permissions of EL1 among them. Of the others a random choice is tried with each.
const FREED: u64 = Attributes::READ_ONLY.union(Attributes::PXN).bits();

/// A change that linmap makes in place and aarch64-paging does not.
struct Difference {
    what: &'static str,
    /// Returns true if it is among the differences between two leaves.
    changes: fn(u64, u64) -> bool,
}

/// Of all changes to a leaf that keeps its address, D8.17.1 (RWHZWS) requires break-before-make for memory
/// type, shareability, cacheability, size, and nG to global. None of these is among them.
const DIFFERENCES: [Difference; 5] = [
    // A permission (D8.4.1.2.1, RRNGJG), as AP[2] is.
    Difference { what: "AP[1]", changes: |old, new| (old ^ new) & Attributes::USER.bits() != 0 },
    // A condition on the instructions that branches lead to (D8.4.5.3, IJRBGR and RLJHCL).
    Difference { what: "GP", changes: |old, new| (old ^ new) & Attributes::GUARDED.bits() != 0 },
    // Tagged is neither memory type nor cacheability (D8.6.1, IFVLFZ), and accesses that differ in it are not
    // mismatched (B2.11). In all else MAIR makes the two indices alike.
    Difference {
        what: "Normal and Normal-Tagged",
        changes: |old, new| {
            let types = [old, new].map(|bits| Attributes::from_bits_retain(bits).memory_type());
            types == [MemoryType::NORMAL, MemoryType::NORMAL_TAGGED]
                || types == [MemoryType::NORMAL_TAGGED, MemoryType::NORMAL]
        },
    },
    // Hardware does not look at them (D8.3.1.2, table D8-52) in the Non-secure EL1&0 regime, unless the kernel
    // turns on PBHA (D8.7.2, RPFZRK), overlays or, for bit 59, a fourth bit of AttrIndx (D8.6.1).
    Difference { what: "bits 63:59", changes: |old, new| (old ^ new) & UNUSED != 0 },
    // A means to change sizes without break-before-make (D8.17.2, RKFLJB; D8.7.3, IXPRKH), and no size itself.
    Difference { what: "nT", changes: |old, new| (old ^ new) & NT != 0 },
];

/// Compares the two on pairs of valid leaves at a level: any choice of the bits `paired` before, any after,
/// and any choice of the bits `changed` reversed. All else is random on either side.
///
/// Counts for each difference the pairs that differ by no other.
fn compare(level: i8, paired: u64, changed: u64, alone: &mut [u64; DIFFERENCES.len()]) {
    let geometry = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    let level = Level::new(level);
    let attributes = Attributes::empty();
    let leaf = Leaf { oa: Pa(0x40_4000_0000), attributes, contiguous: false, valid: true };
    let leaf = Descriptor::leaf(leaf, geometry, level).0;
    let others = (DECISIVE | FREE) & !paired & !changed;

    let mut random = Random::new(1);
    for before in choices(paired) {
        for after in choices(paired) {
            for change in choices(changed) {
                let kept = leaf | random.bits() & changed;
                let old = kept | before | random.bits() & others;
                let new = (kept ^ change) | after | random.bits() & others;

                let transition = Descriptor(old).transition(Descriptor(new), geometry, level);
                let here = match transition {
                    Transition::Same | Transition::Fresh | Transition::Tlbi => true,
                    Transition::Resize | Transition::BreakBeforeMake => false,
                };
                let [peer_old, peer_new] =
                    [old, new].map(|bits| El1Attributes::from_bits_retain(bits as usize));
                let there = El1Attributes::is_bbm_safe(peer_old, peer_new);

                let mut differences = (0..DIFFERENCES.len()).filter(|&i| (DIFFERENCES[i].changes)(old, new));
                let first = differences.next();
                assert!(
                    there == (here && first.is_none()),
                    "{level:?}, {old:#x} to {new:#x}: linmap says {transition:?}, aarch64-paging that it is {}in \
                     place, and the list {}",
                    if there { "" } else { "not " },
                    first.map_or("that they agree", |i| DIFFERENCES[i].what),
                );
                if let (true, Some(i), None) = (here, first, differences.next()) {
                    alone[i] += 1;
                }
            }
        }
    }
}

/// Every choice of the bits of a mask.
fn choices(mask: u64) -> impl Iterator<Item = u64> {
    (0..1 << mask.count_ones()).scan(0_u64, move |next, _: u64| {
        let choice = *next;
        *next = choice.wrapping_sub(mask) & mask;
        Some(choice)
    })
}

#[test]
fn aarch64_paging_agrees_but_for_what_is_listed() {
    let mut alone = [0; DIFFERENCES.len()];
    for level in 1..=3 {
        compare(level, DECISIVE, FREED, &mut alone);
        compare(
            level,
            if level < 3 { UNUSED | NT } else { UNUSED },
            DECISIVE & !Attributes::MEMORY_TYPE.bits(),
            &mut alone,
        );
    }
    for (difference, alone) in DIFFERENCES.iter().zip(alone) {
        println!("{}: {alone}", difference.what);
        assert!(alone > 0, "{}: no difference after all", difference.what);
    }
}
