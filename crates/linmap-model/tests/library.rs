//! The library on the model, unchanged: at every geometry, in both halves, with frames running out.

use linmap::arch::Tlbi;
use linmap::error::{BuildError, CreateError};
use linmap::layout::Run;
use linmap::{
    Attributes, Dsb, Geometry, Granule, Half, Hardware, Layout, Leaves, Memory, OaFormat, Pa, Rodata,
    SharedSpace, Tree, Va,
};
use linmap_model::{Core, Expected, Mapping, Model, Register, Rule, Setup};
use test_support::geometries;

fn changes(runs: impl Iterator<Item = Run>, g: Geometry) -> Vec<Expected> {
    let change = |r: Run| {
        let bytes = r.descriptors << g.level_shift(r.level);
        Expected::new(r.va, bytes, Some(Mapping::new(r.oa, r.attributes)))
    };
    runs.map(change).collect()
}

/// 2.3 GiB with a hole and a carve-out, as the image would map it.
fn with_layout<T>(g: Geometry, use_it: impl FnOnce(&Layout<'_>) -> T) -> T {
    let mut ram = [Pa(0x4000_0000)..Pa(0xc000_0000), Pa(0xd000_0000)..Pa(0xe000_0000)];
    let mut carve_outs = [Pa(0x8000_0000)..Pa(0x8020_0000)];
    let image = Pa(0x4020_0000)..Pa(0x4023_0000);
    use_it(&Layout::new(g, &mut ram, &mut carve_outs, image, Rodata::Full).expect("a layout"))
}

/// Created in a live root that CPUs use already: no rule is broken, and the map is what was asked for.
#[test]
fn creation_keeps_every_rule_at_every_geometry() {
    for g in geometries() {
        for leaves in [Leaves::Largest, Leaves::Pages] {
            // 4K pages of the whole RAM take a thousand tables: the largest of all, once.
            if leaves == Leaves::Pages && g.granule() == Granule::K4 && g.va_bits() != 48 {
                continue;
            }
            let mut setup = Setup::new(g, &[Core::WEAK, Core::STRONG]);
            setup.tables = 1300;
            let model = Model::new(&setup).expect("a machine");
            let cpu = model.cpu(0);
            let tree = Tree::build(&cpu, g, Half::Upper, core::iter::empty()).expect("one page");
            let space = SharedSpace::adopt(tree);
            cpu.dsb(Dsb::Ishst);
            for n in 0..2 {
                model.cpu(n).reports();
                model.cpu(n).loads(Register::Ttbr1, space.root());
            }
            with_layout(g, |layout| {
                cpu.begins(space.root(), "create", &changes(layout.runs(leaves), g));
                // Without locks, too, which changes nothing of what CPUs see.
                let created = if g.va_bits() % 2 == 0 {
                    // SAFETY: the model judges what becomes of these addresses.
                    unsafe { space.on(&cpu).create(layout, leaves) }
                } else {
                    // SAFETY: as above.
                    unsafe { space.on(&cpu).create(layout, leaves) }
                };
                created.expect("frames enough");
                cpu.done(true);
            });
            model.finish().unwrap_or_else(|breach| panic!("{g:?}\n{breach}"));
        }
    }
}

/// A limit counts the pages that are held: one that is given back can be taken again.
#[test]
fn a_limit_counts_what_is_held() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    let model = Model::new(&Setup::new(g, &[Core::STRONG])).unwrap();
    let cpu = model.cpu(0);
    model.limit_frames(Some(1));
    for _ in 0..3 {
        let frame = cpu.take().expect("one page");
        assert!(cpu.take().is_none());
        cpu.give(frame);
    }
    model.finish().unwrap_or_else(|breach| panic!("{breach}"));
}

/// Table pages run out at every number: the live root stays empty, and no page is lost.
#[test]
fn creation_without_frames_changes_nothing() {
    let g = Geometry::new(Granule::K16, 48, OaFormat::Bits48).unwrap();
    let model = Model::new(&Setup::new(g, &[Core::STRONG])).unwrap();
    let cpu = model.cpu(0);
    let space = SharedSpace::adopt(Tree::build(&cpu, g, Half::Upper, core::iter::empty()).expect("one page"));
    cpu.dsb(Dsb::Ishst);
    cpu.loads(Register::Ttbr1, space.root());
    with_layout(g, |layout| {
        for frames in 0.. {
            model.limit_frames(Some(frames));
            cpu.begins(space.root(), "create", &changes(layout.runs(Leaves::Largest), g));
            // SAFETY: the model judges what becomes of these addresses.
            let created = unsafe { space.on(&cpu).create(layout, Leaves::Largest) };
            cpu.done(created.is_ok());
            match created {
                Ok(stats) => return assert_eq!(u64::try_from(frames).unwrap(), stats.tables),
                Err(error) => {
                    assert_eq!(error, CreateError::Build(BuildError::OutOfFrames { taken: frames as u64 }));
                }
            }
            assert_eq!(model.in_use(), 1, "the root alone");
        }
    });
    model.finish().unwrap_or_else(|breach| panic!("{breach}"));
}

/// A 1:1 map in the lower half comes and goes: its pages go back once no TLB can lead to them.
#[test]
fn a_temporary_map_is_taken_down() {
    let take_down = |with_tlbi: bool| {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
        let model = Model::new(&Setup::new(g, &[Core::WEAK])).unwrap().quietly();
        let cpu = model.cpu(0);
        let one_to_one = Run {
            va: Va(0x4000_0000),
            oa: Pa(0x4000_0000),
            attributes: Attributes::RAM,
            level: linmap::arch::Level::new(2),
            contiguous: false,
            descriptors: 16,
        };
        let tree = Tree::build(&cpu, g, Half::Lower, [one_to_one].into_iter()).unwrap();
        cpu.begins(tree.root(), "1:1", &changes([one_to_one].into_iter(), g));
        cpu.dsb(Dsb::Ishst);
        cpu.done(true);
        let root = tree.into_root();
        cpu.loads(Register::Ttbr0, root.pa());
        let empty = cpu.empty_table();
        cpu.loads(Register::Ttbr0, empty);
        if with_tlbi {
            cpu.tlbi(Tlbi::All, g);
        }
        cpu.dsb(Dsb::Ish);
        cpu.isb();
        // SAFETY: the tree is one that was just given up; what TLBs hold of it the model judges.
        unsafe { Tree::from_root(root, g, Half::Lower) }.discard(&cpu);
        model.finish()
    };
    take_down(true).unwrap_or_else(|breach| panic!("{breach}"));
    assert_eq!(take_down(false).unwrap_err().rule, Rule::Freed);
}
