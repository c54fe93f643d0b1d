//! 4 GiB, two CPUs, no KASLR: the leaves and tables of each kernel's linear map are known, by number.

use crate::guest::{Guest, Machine, PLAIN};
use crate::sources::read_by_all;

const G: u64 = 1 << 30;
const M2: u64 = 2 << 20;
const K4: u64 = 4096;

/// Leaf descriptors: size, contiguous or not, number.
type Leaves = &'static [(u64, bool, u64)];

fn expect(machine: Machine<'_>, leaves: Leaves, tables: u64, tlb_entries: u64) {
    let mut guest = Guest::boot(machine);
    let read = read_by_all(&mut guest, 3000);
    let linear = &read.stat["linear"];
    let found: Vec<_> = linear["leaves"].as_array().expect("leaves").iter().collect();
    let mut found: Vec<_> = found
        .into_iter()
        .map(|leaf| (leaf["size"].as_u64(), leaf["contiguous"].as_bool(), leaf["descriptors"].as_u64()))
        .collect();
    found.retain(|(_, _, count)| *count != Some(0));
    found.sort_unstable();
    let mut leaves: Vec<_> =
        leaves.iter().map(|(size, run, n)| (Some(*size), Some(*run), Some(*n))).collect();
    leaves.sort_unstable();
    assert_eq!(found, leaves, "{linear:#}");
    assert_eq!(
        (linear["tables"].as_u64(), linear["tlb_entries"].as_u64()),
        (Some(tables), Some(tlb_entries))
    );
}

#[test]
fn linux_6_1_in_pages() {
    let leaves: Leaves = &[(M2, false, 10), (K4, false, 1_043_456)];
    expect(Machine { kernel: "6.1", ..PLAIN }, leaves, 2044, 1_043_466);
}

#[test]
fn linux_6_1_in_large_leaves() {
    let leaves: Leaves =
        &[(G, false, 3), (M2, false, 14), (M2, true, 496), (K4, false, 592), (K4, true, 432)];
    expect(Machine { kernel: "6.1", arguments: "nokaslr rodata=on", ..PLAIN }, leaves, 5, 667);
}

#[test]
fn linux_6_12_in_pages_with_lpa2() {
    let leaves: Leaves = &[(M2, false, 14), (K4, false, 1_041_408)];
    expect(PLAIN, leaves, 2041, 1_041_422);
}
