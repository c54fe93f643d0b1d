//! The library's prediction, on the host, for the memory of a guest.

use std::ops::Range;

use linmap::host::HostMemory;
use linmap::layout::linear_range;
use linmap::read::MarkedRange;
use linmap::{Geometry, Half, Layout, Leaves, Pa, Rodata, SharedSpace, Stats, Tree};
use serde_json::{Value, json};

use crate::guest::Booted;

/// The start of RAM of QEMU's virt machine.
const RAM_START: u64 = 0x4000_0000;

/// The map to be; only the place of the image and its carve-outs are taken from the boot.
pub(crate) struct Prediction {
    pub(crate) geometry: Geometry,
    pub(crate) ram: Range<Pa>,
    pub(crate) image: Range<Pa>,
    pub(crate) carve_outs: Vec<Range<Pa>>,
    pub(crate) leaves: Leaves,
}

impl Prediction {
    /// Returns the prediction for a machine with this much RAM.
    pub(crate) fn new(geometry: Geometry, ram: u64, leaves: Leaves, booted: &Booted) -> Self {
        let ends = |v: &Value| address(&v[0])..address(&v[1]);
        let image = ends(booted.at("/memory/image"));
        let carve_outs = booted.at("/memory/carve_outs").as_array().expect("a list");
        let carve_outs = carve_outs.iter().map(ends).collect();
        let ram = Pa(RAM_START)..Pa(RAM_START + ram);
        assert!(ram.start < image.start && image.end < ram.end, "the image {image:?} is in RAM");
        Self { geometry, ram, image, carve_outs, leaves }
    }

    /// Fails unless the guest's report and its dump are exactly as predicted.
    pub(crate) fn check(&self, booted: &Booted, what: &str) {
        let (g, image) = (self.geometry, self.image.clone());
        let mut ram = [self.ram.clone()];
        let mut carve_outs = self.carve_outs.clone();
        let layout = Layout::new(g, &mut ram, &mut carve_outs, image, Rodata::Full).expect("a layout");
        let planned = Stats::of_runs(g, layout.runs(self.leaves));

        let memory = HostMemory::new(g, planned.tables as usize + 2);
        let empty = Tree::build(&memory, g, Half::Upper, std::iter::empty()).expect("a root");
        let space = SharedSpace::adopt(empty);
        // SAFETY: no CPU uses these tables.
        let made = unsafe { space.on(&memory.platform()).create(&layout, self.leaves) }.expect("a map");
        assert_eq!(made, planned, "{what}: the plan is what was built");

        let mut text = String::new();
        let dumped =
            space.on(&memory.platform()).read(|reader| reader.dump(MarkedRange::linear_map(g), &mut text));
        assert_eq!(dumped, Ok(made), "{what}: the dump is of what was built");
        assert_eq!(booted.dump(), text, "{what}: the guest's dump is the host's");
        assert_eq!(reported(booted), document(g, &made, layout.dropped_bytes()), "{what}");
    }
}

fn address(value: &Value) -> Pa {
    let digits = value.as_str().and_then(|t| t.strip_prefix("0x")).expect("an address");
    Pa(u64::from_str_radix(digits, 16).expect("hexadecimal"))
}

fn reported(booted: &Booted) -> Value {
    let keys = ["/page_size", "/va_bits", "/levels", "/linear"];
    keys.iter().map(|k| booted.at(k).clone()).collect()
}

/// Returns the part of the guest's document that follows from memory and geometry.
fn document(g: Geometry, stats: &Stats, dropped: u64) -> Value {
    let (start, last) = linear_range(g);
    let sizes = g.leaf_sizes();
    let leaves: Vec<Value> = sizes
        .iter()
        .filter(|s| stats.descriptors(**s) > 0)
        .map(|s| {
            let descriptors = stats.descriptors(*s);
            json!({"size": 1u64 << s.entry_shift, "contiguous": s.contiguous, "descriptors": descriptors})
        })
        .collect();
    json!([
        g.page_size(),
        g.va_bits(),
        g.levels(),
        {
            "start": format!("{start}"),
            "end": format!("{:#x}", last.0 + 1),
            "bytes": stats.bytes(g),
            "dropped_bytes": dropped,
            "leaves": leaves,
            "tables": stats.tables,
            "table_bytes": stats.table_bytes(g),
            "tlb_entries": stats.tlb_entries(g),
        }
    ])
}
