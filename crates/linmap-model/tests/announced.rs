//! A tree is announced before a CPU loads its root; one that is not is refused in words that say so.

use linmap::{Attributes, Dsb, Geometry, Granule, Half, Hardware, OaFormat, Pa, Region, Tree, Va};
use linmap_model::{Breach, Core, Model, Register, Rule, Setup};

/// A CPU loads a tree of some pages, in either half.
fn loads(g: Geometry, half: Half, announced: bool) -> Result<(), Box<Breach>> {
    let model = Model::new(&Setup::new(g, &[Core::WEAK])).expect("a machine").quietly();
    let cpu = model.cpu(0);
    let region = Region::new(Va(g.base(half)), Pa(0), 9 * g.page_size(), Attributes::RAM);
    let tree = Tree::build(&cpu, g, half, region.runs(g)).expect("table pages");
    if announced {
        cpu.announces(tree.root(), region.runs(g));
    } else {
        cpu.dsb(Dsb::Ishst);
    }
    let register = if half == Half::Upper { Register::Ttbr1 } else { Register::Ttbr0 };
    cpu.loads(register, tree.into_root().into_pa());
    model.finish()
}

#[test]
fn what_is_not_announced_is_refused_and_named() {
    for granule in Granule::ALL {
        let Ok(g) = Geometry::new(granule, 48, OaFormat::Bits48) else { continue };
        for half in [Half::Lower, Half::Upper] {
            loads(g, half, true).unwrap_or_else(|breach| panic!("{g:?}\n{breach}"));
            let breach = loads(g, half, false).expect_err("it was not announced");
            assert_eq!(breach.rule, Rule::Translation);
            assert!(breach.to_string().contains("OnCpu::announces"), "{breach}");
        }
    }
}
