//! A linear map in host memory: laid out, built, counted and printed.

use linmap::host::HostMemory;
use linmap::{Geometry, Granule, Half, Layout, Leaves, OaFormat, Pa, Rodata, SharedSpace, Tree};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let geometry = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
    let memory = HostMemory::new(geometry, 64);

    // 12 GiB of RAM; the kernel's text and constants are at 0x4021_0000.
    let mut ram = [Pa(0x4000_0000)..Pa(0x3_4000_0000)];
    let image = Pa(0x4021_0000)..Pa(0x4025_0000);
    let layout = Layout::new(geometry, &mut ram, &mut [], image, Rodata::Full)?;

    // An empty live address space, into which the map is built.
    let empty = Tree::build(&memory, geometry, Half::Upper, core::iter::empty())?;
    let space = SharedSpace::adopt(empty);
    let platform = memory.platform();
    let mut live = space.on(&platform);
    // SAFETY: no CPU uses these tables.
    let stats = unsafe { live.create(&layout, Leaves::Largest)? };
    assert_eq!(stats, live.read(|reader| reader.count(linmap::layout::linear_range(geometry))));

    let mut text = String::new();
    live.read(|reader| reader.dump(linmap::read::MarkedRange::linear_map(geometry), &mut text))?;
    println!("{text}{} table pages, {} TLB entries", stats.tables, stats.tlb_entries(geometry));
    Ok(())
}
