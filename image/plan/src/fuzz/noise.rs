//! Random boots: strange machines, damaged trees, properties with any value.

use std::vec::Vec;
use std::{format, vec};

use linmap::Pa;
use linmap::cpu::Features;
use proptest::sample::Index;
use test_support::prelude::*;

use super::boot::{End, GIB, Setting, VIRT, boot};
use super::trees::{Reserved, behind_buses, set, tree};

/// An address or a size: near a boundary, round, or any.
fn number() -> impl Strategy<Value = u64> {
    let boundary = (0u32..64, -2i64..=2).prop_map(|(bit, by)| (1u64 << bit).wrapping_add_signed(by));
    let near = (0u64..8 * 512).prop_map(|n| n << 21);
    let pages = (0u64..4 << 20).prop_map(|n| n << 12);
    prop_oneof![4 => near, 3 => pages, 2 => boundary, 1 => any::<u64>()]
}

fn ranges(most: usize) -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((number(), number()), 0..most)
}

/// RAM that makes sense mostly, and sometimes does not.
fn ram() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let usual = (1u64..64).prop_map(|n| vec![(GIB, n * GIB / 4)]);
    let many = (1u64..300, 1u64..6)
        .prop_map(|(n, pages)| (0..n).map(|i| (GIB + i * 0x10_0000, pages * 0x2_0000 - 0x800)).collect());
    (prop_oneof![6 => usual, 1 => many, 1 => Just(Vec::new())], ranges(6))
        .prop_map(|(first, more)| [first, more].concat())
}

fn reservations() -> impl Strategy<Value = Vec<Reserved>> {
    let few = prop::collection::vec((number(), number(), any::<bool>()), 0..8);
    let many = (1u64..200, any::<bool>())
        .prop_map(|(n, no_map)| (0..n).map(|i| (GIB + i * 0x3000 + 0x700, 0x1100, no_map)).collect());
    prop_oneof![6 => few, 1 => many]
}

fn bootargs() -> impl Strategy<Value = Vec<u8>> {
    let size = "(0x)?[0-9]{1,4}[KMGTkmgt]?(@(0x)?[0-9a-f]{1,9}[MG]?)?";
    let word = prop_oneof![
        3 => "pagesize=(4k|16k|64k|8k|4K)",
        3 => "va_bits=[0-9]{2}",
        2 => "rodata=(full|on|noalias|off|no)",
        1 => "split=(pages|park|x)",
        1 => "root=(stays|moves|x)",
        1 => "bbml2=(auto|off|boot-cpu|[0-9]{1,12})",
        1 => "cpus=[0-9]{1,12}",
        2 => "run=(dump|bench|dump,selftest)",
        4 => size.prop_map(|size| format!("crashkernel={size}")),
        1 => ".{0,12}",
    ];
    let words = prop::collection::vec(word, 0..6).prop_map(|w| w.join(" ").into_bytes());
    let noise = prop::collection::vec(any::<u8>(), 0..4096);
    prop_oneof![12 => words, 1 => noise]
}

fn setting() -> impl Strategy<Value = Setting> {
    // TGran4, TGran64, TGran16 and PARange as CPUs have them, with FEAT_LPA2 or without.
    let mmfr0 = (0u64..8, prop::sample::select(vec![0u64, 1, 15]), any::<bool>(), 0u64..3);
    let features = mmfr0.prop_map(|(pa, k4, no_64k, k16)| Features {
        mmfr0: pa | k4 << 28 | if no_64k { 15 << 24 } else { 0 } | k16 << 20,
        mmfr2: 1 << 16,
        ..Setting::usual().features
    });
    let usual = (0u64..64, 1u64..40, 0u64..40).prop_map(|(at, size, read_only)| {
        let start = GIB + (at << 21);
        let read_only = Pa(start)..Pa(start + (read_only.min(size) << 16));
        (Pa(start)..Pa(start + (size << 16)), read_only)
    });
    let odd = (number(), number(), number()).prop_map(|(start, size, read_only)| {
        let end = start.saturating_add(size);
        (Pa(start)..Pa(end), Pa(start)..Pa(start.saturating_add(read_only).min(end)))
    });
    let image = prop_oneof![4 => usual, 1 => odd];
    let tree_at = prop_oneof![3 => Just(GIB + GIB / 4), 1 => number().prop_map(|n| (n & !7).min(1 << 52))];
    (features, image, tree_at).prop_map(|(features, (image, read_only), tree_at)| Setting {
        features,
        image,
        read_only,
        tree_at,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    /// Well-made trees of strange machines.
    #[test]
    fn strange_machines(
        ram in ram(),
        reserved in reservations(),
        memreserve in ranges(5),
        line in bootargs(),
        setting in setting(),
    ) {
        boot(&tree(&ram, &reserved, &memreserve, &line).to_dtb(), &setting);
    }

    /// Usual machines, for which there is a plan whatever the boot arguments are.
    #[test]
    fn strange_arguments(line in bootargs(), gib in 1u64..32) {
        let dtb = tree(&[(GIB, gib * GIB)], &[], &[], &line).to_dtb();
        let (end, notes) = boot(&dtb, &Setting::usual());
        prop_assert!(matches!(end, End::Planned { .. }), "{end:?} {notes:?}");
    }

    /// QEMU's tree with bytes or whole words damaged.
    #[test]
    fn damaged_trees(
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..8),
        words in prop::collection::vec((any::<Index>(), prop_oneof![0u32..16, any::<u32>()]), 0..3),
        setting in setting(),
    ) {
        let mut dtb = VIRT.to_vec();
        for (at, value) in damage {
            let at = at.index(dtb.len());
            dtb[at] = value;
        }
        for (at, value) in words {
            let at = at.index(dtb.len() / 4) * 4;
            dtb[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        boot(&dtb, &setting);
    }

    /// Registers behind two buses whose properties have any value.
    #[test]
    fn damaged_buses(
        which in any::<Index>(),
        words in prop::collection::vec(prop_oneof![0u32..8, any::<u32>()], 0..16),
        rest in 0usize..4,
    ) {
        let properties = [
            ("/soc", "ranges"),
            ("/soc", "#address-cells"),
            ("/soc", "#size-cells"),
            ("/soc/bus", "ranges"),
            ("/soc/bus", "#address-cells"),
            ("/soc/bus", "#size-cells"),
            ("/soc/bus/pl011@9000000", "reg"),
            ("/soc/bus/intc@8000000", "reg"),
            ("/aliases", "serial0"),
            ("/chosen", "stdout-path"),
        ];
        let mut tree = tree(&[(GIB, GIB)], &[], &[], b"");
        behind_buses(&mut tree);
        let (path, name) = properties[which.index(properties.len())];
        let mut value: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        value.truncate(value.len().saturating_sub(rest));
        set(tree.find_node_mut(path).expect("a node"), name, &value);
        boot(&tree.to_dtb(), &Setting::usual());
    }

    /// Properties that the kernel reads, with any value.
    #[test]
    fn damaged_properties(which in any::<Index>(), value in prop::collection::vec(any::<u8>(), 0..40)) {
        let properties = [
            ("/memory@40000000", "reg"),
            ("/memory@40000000", "device_type"),
            ("/memory@40000000", "status"),
            ("/", "#address-cells"),
            ("/", "#size-cells"),
            ("/", "model"),
            ("/chosen", "stdout-path"),
            ("/pl011@9000000", "reg"),
            ("/reserved-memory", "#size-cells"),
            ("/reserved-memory/r@0", "reg"),
            ("/cpus", "#address-cells"),
            ("/cpus/cpu@1", "reg"),
            ("/cpus/cpu@1", "status"),
            ("/cpus/cpu@1", "enable-method"),
            ("/cpus/cpu@1", "device_type"),
            ("/intc@8000000", "reg"),
            ("/intc@8000000", "compatible"),
            ("/intc@8000000", "#interrupt-cells"),
            ("/intc@8000000", "#redistributor-regions"),
            ("/intc@8000000", "redistributor-stride"),
            ("/timer", "interrupts"),
            ("/timer", "compatible"),
        ];
        let (path, name) = properties[which.index(properties.len())];
        let mut tree = tree(&[(GIB, GIB)], &[(GIB, 4096, true)], &[], b"");
        if name.contains("redistributor") {
            set(tree.find_node_mut(path).expect("a node"), "compatible", b"arm,gic-v3\0");
        }
        set(tree.find_node_mut(path).expect("a node"), name, &value);
        // Cells count, so a small number is worth a try.
        let small = [0, 0, 0, value.first().copied().unwrap_or(0) % 8];
        boot(&tree.to_dtb(), &Setting::usual());
        set(tree.find_node_mut(path).expect("a node"), name, &small);
        boot(&tree.to_dtb(), &Setting::usual());
    }
}
