//! Tables that others made are taken over while CPUs use them, and handed back when no walker reaches them: judged by the
//! model at every geometry.

use linmap::arch::Tlbi;
use linmap::error::BuildError;
use linmap::{
    Attributes, Dsb, Geometry, Granule, Half, Hardware, OaFormat, Pa, Policy, Region, SharedSpace, Tree, Va,
};
use linmap_model::{Core, Expected, Mapping, Model, OnCpu, Register, Rule, Setup};
use test_support::geometries;

/// The map of another kernel: the third of the largest leaves that a table of level 2 has, and some pages.
fn region(g: Geometry, half: Half) -> Region {
    let block = g.level_size(linmap::arch::Level::new(2));
    let (va, bytes) = (Va(g.base(half) + 2 * block), block + 5 * g.page_size());
    Region::new(va, Pa(2 * block), bytes, Attributes::RAM)
}

fn change(region: &Region) -> Expected {
    Expected::new(region.va, region.bytes, Some(Mapping::new(region.oa, region.attributes)))
}

/// Tables that walkers of all CPUs use and that no value of the library stands for.
fn others_tables(model: &Model, cpus: u8, half: Half) -> Pa {
    let (g, cpu) = (model.geometry(), model.cpu(0));
    let region = region(g, half);
    let tree = Tree::build(&cpu, g, half, region.runs(g)).expect("table pages");
    cpu.begins(tree.root(), "others", &[change(&region)]);
    cpu.dsb(Dsb::Ishst);
    cpu.done(true);
    let root = tree.into_root().into_pa();
    let register = if half == Half::Upper { Register::Ttbr1 } else { Register::Ttbr0 };
    for cpu in (0..cpus).map(|n| model.cpu(n)) {
        cpu.reports();
        cpu.loads(register, root);
    }
    root
}

/// The second page becomes read-only, and writable again.
fn changes_a_page(space: &SharedSpace, cpu: OnCpu<'_>, region: &Region) {
    let page = space.geometry().page_size();
    let (va, oa) = (Va(region.va.0 + page), Pa(region.oa.0 + page));
    for (change, attributes) in [
        (linmap::Change::READ_ONLY, region.attributes | Attributes::READ_ONLY),
        (linmap::Change::WRITABLE, region.attributes),
    ] {
        cpu.begins(space.root(), "protect", &[Expected::new(va, page, Some(Mapping::new(oa, attributes)))]);
        // SAFETY: the model judges what becomes of these addresses.
        unsafe { space.on(&cpu).protect(va, 1, change) }.expect("a page that is mapped");
        cpu.done(true);
    }
}

/// Adopted tables are counted exactly, change by every rule, and are as they were in the end.
#[test]
fn live_tables_are_taken_over_and_changed() {
    for g in geometries() {
        for half in [Half::Lower, Half::Upper] {
            let model = Model::new(&Setup::new(g, &[Core::STRONG; 2])).expect("a machine");
            let root = others_tables(&model, 2, half);
            let (cpu, region) = (model.cpu(1), region(g, half));
            // SAFETY: live tables of this machine, that nothing else uses from now on.
            let space = unsafe { SharedSpace::from_live(&cpu, g, half, root) }.expect("pages of that size");
            let counted = linmap::Stats::of_runs(g, region.runs(g));
            assert_eq!(space.on(&cpu).stats(), counted, "{g:?}");
            assert_eq!((space.root(), space.policy()), (root, Policy::Fixed));
            space.set_policy(Policy::Live);
            changes_a_page(&space, cpu, &region);
            space.on(&cpu).collapse(region.va, region.bytes / g.page_size()).expect("a range of the half");
            assert_eq!(space.on(&cpu).stats(), counted, "{g:?}");
            assert_eq!(model.in_use() as u64, counted.tables, "{g:?}");
            model.finish().unwrap_or_else(|breach| panic!("{g:?}\n{breach}"));
        }
    }
}

/// A 1:1 map that is changed, left by its CPU, handed back and discarded, with the TLBI and without.
fn handed_back(g: Geometry, with_tlbi: bool) -> Result<(), Rule> {
    let model = Model::new(&Setup::new(g, &[Core::STRONG])).expect("a machine").quietly();
    let root = others_tables(&model, 1, Half::Lower);
    let (cpu, region) = (model.cpu(0), region(g, Half::Lower));
    // SAFETY: as above.
    let space = unsafe { SharedSpace::from_live(&cpu, g, Half::Lower, root) }.expect("pages of that size");
    space.set_policy(Policy::Live);
    changes_a_page(&space, cpu, &region);
    let stats = space.on(&cpu).stats();
    let empty = cpu.empty_table();
    cpu.loads(Register::Ttbr0, empty);
    if with_tlbi {
        cpu.tlbi(Tlbi::All, g);
    }
    cpu.dsb(Dsb::Ish);
    cpu.isb();
    // SAFETY: no walker is in the tables; what TLBs hold of them the model judges.
    let tree = unsafe { space.into_tree(&cpu) };
    if with_tlbi {
        assert_eq!((tree.stats(), tree.root(), tree.write_execute()), (stats, root, None), "{g:?}");
    }
    tree.discard(&cpu);
    if with_tlbi {
        assert_eq!(model.in_use(), 1, "{g:?}: the empty table alone");
    }
    model.finish().map_err(|breach| breach.rule)
}

#[test]
fn tables_are_handed_back_when_no_tlb_leads_to_them() {
    for g in geometries() {
        assert_eq!(handed_back(g, true), Ok(()), "{g:?}");
        assert_eq!(handed_back(g, false), Err(Rule::Freed), "{g:?}");
    }
}

/// A tree that was handed back is live once more, in another address space.
#[test]
fn what_was_handed_back_can_be_live_again() {
    for g in geometries() {
        let model = Model::new(&Setup::new(g, &[Core::STRONG])).expect("a machine");
        let cpu = model.cpu(0);
        let region = region(g, Half::Upper);
        let tree = Tree::build(&cpu, g, Half::Upper, region.runs(g)).expect("table pages");
        let stats = tree.stats();
        cpu.dsb(Dsb::Ishst);
        // SAFETY: no CPU has ever used these tables.
        let again = unsafe { SharedSpace::adopt(tree).into_tree(&cpu) };
        let space = SharedSpace::adopt(again);
        cpu.announces(space.root(), region.runs(g));
        cpu.reports();
        cpu.loads(Register::Ttbr1, space.root());
        assert_eq!(space.on(&cpu).stats(), stats, "{g:?}");
        model.finish().unwrap_or_else(|breach| panic!("{g:?}\n{breach}"));
    }
}

/// Pages that are writable and executable are known as such when they are handed back, so that no graft takes them.
#[test]
fn writable_and_executable_pages_are_not_forgotten() {
    let g = geometries()[0];
    let model = Model::new(&Setup::new(g, &[Core::STRONG])).expect("a machine");
    let cpu = model.cpu(0);
    let both = Attributes::RAM.difference(Attributes::PXN);
    let region = Region { attributes: both, ..region(g, Half::Upper) };
    let tree = Tree::build(&cpu, g, Half::Upper, region.runs(g)).expect("table pages");
    cpu.dsb(Dsb::Ishst);
    // SAFETY: no CPU has ever used these tables.
    let again = unsafe { SharedSpace::adopt(tree).into_tree(&cpu) };
    assert_eq!(again.write_execute(), Some(region.va));
    again.discard(&cpu);
    assert_eq!(model.in_use(), 0);
}

#[test]
fn a_memory_with_other_pages_is_refused() {
    let [four, other] =
        [Granule::K4, Granule::K64].map(|granule| Geometry::new(granule, 48, OaFormat::Bits48));
    let (Ok(four), Ok(other)) = (four, other) else { return };
    let model = Model::new(&Setup::new(four, &[Core::STRONG])).expect("a machine");
    let root = others_tables(&model, 1, Half::Upper);
    // SAFETY: refused before anything is read.
    let refused = unsafe { SharedSpace::from_live(&model.cpu(0), other, Half::Upper, root) };
    let (memory, tables) = (four.page_size(), other.page_size());
    assert_eq!(refused.map(drop), Err(BuildError::PageSize { memory, tables }));
    model.finish().unwrap_or_else(|breach| panic!("{breach}"));
}
