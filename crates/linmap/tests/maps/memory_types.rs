//! A map by a MAIR_EL1 that is not Linux's: what is built says the caller's indices, and a dump has the caller's names.

use linmap::arch::Mair;
use linmap::host::HostMemory;
use linmap::read::MarkedRange;
use linmap::{Geometry, Granule, Half, Layout, Leaves, MemoryType, OaFormat, Pa, Rodata, SharedSpace, Tree};

#[test]
fn a_dump_names_what_the_value_says() {
    // Device, write-through, write-back, and something without a name.
    let mair = Mair(0x77_ff_bb_04);
    for granule in Granule::ALL {
        let Ok(g) = Geometry::new(granule, 48, OaFormat::Bits48) else { continue };
        let mut ram = [Pa(0)..Pa(64 * g.page_size())];
        let image = Pa(16 * g.page_size())..Pa(17 * g.page_size());
        let layout = Layout::new(g, &mut ram, &mut [], image, Rodata::Full).expect("a layout");
        for (of_ram, of_image, names) in [
            (2, 1, ["MEM/NORMAL", "MEM/NORMAL-WT", "MEM/NORMAL"]),
            (0, 2, ["DEVICE/nGnRE", "MEM/NORMAL", "DEVICE/nGnRE"]),
            (3, 2, ["UXN", "MEM/NORMAL", "UXN"]),
        ] {
            let memory = HostMemory::new(g, 8);
            let layout = layout.clone().with_memory_types(MemoryType::new(of_ram), MemoryType::new(of_image));
            let tree = Tree::build(&memory, g, Half::Upper, layout.runs(Leaves::Pages)).expect("a tree");
            let (space, platform) = (SharedSpace::adopt(tree), memory.platform());
            let (region, mut text) = (MarkedRange::linear_map(g), String::new());
            space
                .on(&platform)
                .read(|reader| reader.dump_with(region, &|of| mair.name(of), &mut text))
                .expect("memory");
            let last_words: Vec<&str> = text
                .lines()
                .filter(|l| l.contains("AF"))
                .filter_map(|l| l.split_whitespace().last())
                .collect();
            assert_eq!(last_words, names, "{text}");
        }
    }
}
