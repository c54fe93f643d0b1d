//! The rules of the format one by one: level names, columns, sizes, what merges.

use linmap::Granule::{K4, K16, K64};
use linmap::OaFormat::{Bits48, Lpa2};

use crate::reference_dumps::tables::Tables;

/// UXN, PXN, AF, inner shareable, AttrIndx 1, page.
const PAGE: u64 = 0x0060_0000_0000_0707;
/// The same as a block.
const BLOCK: u64 = 0x0060_0000_0000_0705;

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const G: u64 = 1 << 30;

#[test]
fn five_levels_are_named_pgd_p4d_pud_pmd_pte() {
    let tables = Tables::new(K4, 52, Lpa2);
    tables.put(0, 3, 0x0060_0000_4000_0407);
    assert_eq!(
        tables.lines(),
        [
            "0xfff0000000000000-0xfff0000000001000           4K PTE       RW NX     AF            UXN    MEM/NORMAL-TAGGED",
            "0xfff0000000001000-0xfff0000000200000        2044K PTE",
            "0xfff0000000200000-0xfff0000040000000        1022M PMD",
            "0xfff0000040000000-0xfff0008000000000         511G PUD",
            "0xfff0008000000000-0xfff1000000000000      261632G P4D",
            "0xfff1000000000000-0xfff8000000000000        1792T PGD",
        ]
    );
}

#[test]
fn three_levels_are_named_pgd_pmd_pte() {
    let tables = Tables::new(K4, 39, Bits48);
    tables.put(0, 3, PAGE);
    tables.put(2 * M, 2, BLOCK);
    tables.put(G, 1, BLOCK);
    assert_eq!(
        tables.sizes(),
        [
            "4K PTE       RW NX SHD AF            UXN    MEM/NORMAL-TAGGED",
            "2044K PTE",
            "2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL-TAGGED",
            "1020M PMD",
            "1G PGD       RW NX SHD AF        BLK UXN    MEM/NORMAL-TAGGED",
            "254G PGD",
        ]
    );
}

#[test]
fn two_levels_have_holes_in_pgd_and_blocks_in_pmd() {
    let tables = Tables::new(K64, 42, Bits48);
    tables.put(0, 3, PAGE);
    tables.put(512 * M, 2, BLOCK);
    assert_eq!(
        tables.sizes(),
        [
            "64K PTE       RW NX SHD AF            UXN    MEM/NORMAL-TAGGED",
            "524224K PTE",
            "512M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL-TAGGED",
            "2047G PGD",
        ]
    );
}

#[test]
fn a_size_is_divided_while_that_is_exact() {
    let empty = [
        (Tables::new(K4, 48, Bits48), "128T PGD"),
        (Tables::new(K4, 52, Lpa2), "2P PGD"),
        (Tables::new(K16, 47, Bits48), "64T PGD"),
        (Tables::new(K16, 36, Bits48), "32G PGD"),
    ];
    for (tables, line) in empty {
        assert_eq!(tables.sizes(), [line]);
    }
    let tables = Tables::new(K4, 48, Bits48);
    tables.put(0, 1, BLOCK);
    assert_eq!(tables.sizes()[2], "130560G PGD");
}

/// With LPA2 bits 9:8 are an address: whatever they say, nothing is shown.
#[test]
fn shareability_is_blank_with_lpa2() {
    let tables = Tables::new(K16, 48, Lpa2);
    tables.put(0, 3, 0x0060_0000_4000_0407);
    tables.put(16 * K, 3, 0x0060_0000_4000_0707);
    assert_eq!(tables.sizes()[0], "32K PTE       RW NX     AF            UXN    MEM/NORMAL-TAGGED");
}

/// Only inner shareable is `SHD`; outer shareable (0b10) is not.
#[test]
fn shareable_means_inner() {
    let tables = Tables::new(K4, 48, Bits48);
    tables.put(0, 3, 0x0060_0000_4000_0607);
    assert_eq!(tables.sizes()[0], "4K PTE       RW NX     AF            UXN    MEM/NORMAL-TAGGED");
}

#[test]
fn every_column_has_its_place() {
    let tables = Tables::new(K4, 48, Bits48);
    // Nothing but the type; then everything at once: GP, UXN, PXN, contiguous, nG, AF, SH, AP, AttrIndx 0.
    tables.put(0, 3, 0x0000_0000_4000_0007);
    tables.put(4 * K, 3, 0x0074_0000_4000_0fc3);
    tables.put(2 * M, 2, 0x0074_0000_4000_0fc1);
    let lines = tables.sizes();
    assert_eq!(lines[0], "4K PTE       RW x                           MEM/NORMAL-TAGGED");
    assert_eq!(lines[1], "4K PTE   USR ro NX SHD AF NG CON     UXN GP MEM/NORMAL");
    assert_eq!(lines[3], "2M PMD   USR ro NX SHD AF NG CON BLK UXN GP MEM/NORMAL");
}

#[test]
fn memory_types_have_linux_names() {
    let names = [
        "UXN    MEM/NORMAL",
        "UXN    MEM/NORMAL-TAGGED",
        "UXN    MEM/NORMAL-NC",
        "UXN    DEVICE/nGnRnE",
        "UXN    DEVICE/nGnRE",
        "UXN   ",
    ];
    let tables = Tables::new(K4, 48, Bits48);
    for index in 0..6 {
        tables.put(index * 4 * K, 3, PAGE & !0x1c | index << 2);
    }
    for (line, name) in tables.sizes().iter().zip(names) {
        assert_eq!(line.split_at(37).1, name);
    }
}

/// A kept leaf: `F`, and `NG` because that bit marks it; a block is not told from a page.
#[test]
fn an_invalid_leaf_shows_f_and_ng_and_never_blk() {
    let tables = Tables::new(K4, 48, Bits48);
    tables.put(0, 3, 0x0060_0000_4000_0f06);
    tables.put(2 * M, 2, 0x0070_0000_4000_0f04);
    tables.put(G, 1, 0x0060_0000_4000_0f84);
    let lines = tables.sizes();
    assert_eq!(lines[0], "4K PTE F     RW NX SHD AF NG         UXN    MEM/NORMAL-TAGGED");
    assert_eq!(lines[2], "2M PMD F     RW NX SHD AF NG CON     UXN    MEM/NORMAL-TAGGED");
    assert_eq!(lines[4], "1G PUD F     ro NX SHD AF NG         UXN    MEM/NORMAL-TAGGED");
}

/// Not valid and not marked as present: as a page it is printed as it is, without `NG`. Elsewhere it is a hole.
#[test]
fn an_invalid_page_without_the_mark_shows_f_alone() {
    let tables = Tables::new(K4, 48, Bits48);
    tables.put(0, 3, 0x0060_0000_4000_0706);
    // An address without anything that is printed: Linux shows a hole.
    tables.put(4 * K, 3, 0x4000_0000);
    // No block can be at this level, so that no leaf can have been kept there.
    tables.put(512 * G, 0, 0x0060_0000_4000_0f04);
    let lines = tables.sizes();
    assert_eq!(lines[0], "4K PTE F     RW NX SHD AF            UXN    MEM/NORMAL-TAGGED");
    assert_eq!(lines[1..], ["2044K PTE", "1022M PMD", "511G PUD", "130560G PGD"]);
}

/// Valid, but no leaf at this level: a block at level 0 without LPA2, and a "block" at the last level.
#[test]
fn what_the_architecture_reserves_says_so() {
    let tables = Tables::new(K4, 48, Bits48);
    tables.put(0, 3, BLOCK);
    tables.put(4 * K, 3, BLOCK | (4 * K));
    tables.put(512 * G, 0, BLOCK);
    let lines = tables.sizes();
    assert_eq!(lines[0], "8K PTE RESERVED");
    assert_eq!(lines[4], "512G PGD RESERVED");
}

#[test]
fn output_addresses_are_not_compared() {
    let tables = Tables::new(K4, 48, Bits48);
    tables.put(0, 3, PAGE | 0x4000_0000);
    tables.put(4 * K, 3, PAGE | 0x9_0000_0000);
    tables.put(8 * K, 3, PAGE | 0x1000);
    assert_eq!(tables.sizes()[0], "12K PTE       RW NX SHD AF            UXN    MEM/NORMAL-TAGGED");
}

/// Entries of one kind are one line across the ends of tables.
#[test]
fn lines_cross_tables() {
    let tables = Tables::new(K4, 48, Bits48);
    tables.put(2 * M - 4 * K, 3, PAGE);
    tables.put(2 * M, 3, PAGE);
    let lines = tables.sizes();
    assert_eq!(
        lines[..3],
        ["2044K PTE", "8K PTE       RW NX SHD AF            UXN    MEM/NORMAL-TAGGED", "2044K PTE"]
    );
}

/// Equal fields at two levels are two lines; so are two holes.
#[test]
fn levels_do_not_merge() {
    let tables = Tables::new(K4, 48, Bits48);
    for page in 0..512 {
        // Bit 1, inverted where a kept leaf was not global, does not show: bit 11 is printed as it is.
        tables.put(page * 4 * K, 3, 0x0060_0000_0000_0f04 | (page & 1) << 1);
    }
    tables.put(2 * M, 2, 0x0060_0000_0000_0f04);
    let lines = tables.sizes();
    let kept = "F     RW NX SHD AF NG         UXN    MEM/NORMAL-TAGGED";
    assert_eq!(lines[..2], [format!("2M PTE {kept}"), format!("2M PMD {kept}")]);
    assert_eq!(lines[2..], ["1020M PMD", "511G PUD", "130560G PGD"]);
}

/// Linux compares the bits of its columns, both of shareability, and no others: neither those of
/// software nor DBM split a line.
#[test]
fn only_the_bits_of_the_columns_split_a_line() {
    let compared = [0, 2, 3, 4, 6, 7, 8, 9, 10, 11, 50, 52, 53, 54];
    for bit in (0..64).filter(|&b| b != 1) {
        let tables = Tables::new(K4, 48, Bits48);
        // The bit of nG also marks a kept leaf, so that without `valid` it is still a leaf.
        tables.put(0, 3, PAGE | 0x800);
        tables.put(4 * K, 3, (PAGE | 0x800) ^ 1 << bit);
        let merged = tables.sizes()[0].starts_with("8K");
        assert_eq!(merged, !compared.contains(&bit), "bit {bit}");
    }
}
