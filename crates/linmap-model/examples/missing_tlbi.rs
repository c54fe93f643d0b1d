//! A page of a live kernel becomes read-only, and the author forgot the TLBI.
//!
//! `cargo run -p linmap-model --example missing_tlbi`

use linmap::arch::{Descriptor, Entry, Leaf, Level, Scope, Tlbi};
use linmap::layout::Run;
use linmap::{
    Attributes, Dsb, Geometry, Granule, Half, Hardware, Memory, OaFormat, Pa, SharedSpace, Slot, Tree, Va,
};
use linmap_model::{Breach, Core, Expected, Mapping, Model, OnCpu, Register, Setup};

/// The code under test: makes the page at `va`, which `slot` maps, read-only.
fn make_read_only(cpu: OnCpu<'_>, g: Geometry, va: Va, slot: Slot, with_tlbi: bool) {
    // SAFETY: the slot is one of a live table of this machine, and no CPU writes to the page.
    unsafe {
        let Entry::Leaf(leaf) = cpu.load(slot).decode(g, Level::PAGE) else { return };
        let leaf = Leaf { attributes: leaf.attributes | Attributes::READ_ONLY, ..leaf };
        cpu.store(slot, Descriptor::leaf(leaf, g, Level::PAGE));
    }
    cpu.dsb(Dsb::Ishst);
    if with_tlbi {
        cpu.tlbi(Tlbi::Page(va, Scope::LastLevel), g);
    }
    cpu.dsb(Dsb::Ish);
    cpu.isb();
}

/// Sixteen pages on a machine of two CPUs; the fourth becomes read-only.
fn run(with_tlbi: bool) -> Result<(), Box<Breach>> {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry that exists");
    let model = Model::new(&Setup::new(g, &[Core::WEAK; 2])).expect("two CPUs").quietly();
    let cpu = model.cpu(0);

    let base = Va(g.base(Half::Upper));
    let pages = Run {
        va: base,
        oa: Pa(0x4000_0000),
        attributes: Attributes::RAM,
        level: Level::PAGE,
        contiguous: false,
        descriptors: 16,
    };
    let tree = Tree::build(&cpu, g, Half::Upper, [pages].into_iter()).expect("enough table pages");
    let root = tree.root();
    cpu.announces(root, [pages]);
    let space = SharedSpace::adopt(tree);
    for n in 0..2 {
        model.cpu(n).reports();
        model.cpu(n).loads(Register::Ttbr1, space.root());
    }

    let page = Va(base.0 + (3 << 12));
    let read_only = Mapping::new(Pa(0x4000_3000), Attributes::RAM | Attributes::READ_ONLY);
    cpu.begins(root, "make_read_only", &[Expected::new(page, 1 << 12, Some(read_only))]);
    let mut table = root;
    let mut level = g.root();
    while level != Level::PAGE {
        // SAFETY: a live table of this machine.
        let entry = unsafe { cpu.load(Slot { table, index: g.index(page.0, level) }) }.decode(g, level);
        let Entry::Table(child) = entry else { break };
        (table, level) = (child, level.next());
    }
    make_read_only(cpu, g, page, Slot { table, index: 3 }, with_tlbi);
    cpu.done(true);
    model.finish()
}

fn main() {
    match run(true) {
        Ok(()) => println!("with the TLBI: no rule is broken\n"),
        Err(breach) => println!("with the TLBI:\n{breach}"),
    }
    match run(false) {
        Ok(()) => println!("without: no rule is broken"),
        Err(breach) => println!("without:\n\n{breach}"),
    }
}
