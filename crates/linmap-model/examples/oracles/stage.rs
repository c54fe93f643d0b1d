//! A machine with a small map that all CPUs use, on which the library carries out operations: the log of each run.

use linmap::arch::{LeafSize, Level};
use linmap::layout::Run;
use linmap::{Attributes, Geometry, Granule, Half, OaFormat, Pa, Policy, SharedSpace, Tree, Va};
use linmap_model::{Core, Event, Expected, Mapping, Model, OnCpu, Register, Setup, read_log};
use test_support::Log;

/// The first address of physical memory that is mapped.
const RAM: Pa = Pa(1 << 36);
/// The number of blocks of the linear map, and of pages of the area.
const BLOCKS: u64 = 4;
pub(crate) const PAGES: u64 = 64;

/// The machine of a scene.
#[derive(Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) granule: Granule,
    pub(crate) va_bits: u32,
    pub(crate) format: OaFormat,
    pub(crate) cores: &'static [Core],
    /// True if the area's pages must be read-only in the linear map where they are read-only.
    pub(crate) aliased: bool,
}

impl Machine {
    pub(crate) const fn new(granule: Granule, va_bits: u32) -> Self {
        Self { granule, va_bits, format: OaFormat::Bits48, cores: &[Core::STRONG; 2], aliased: false }
    }
}

/// A map in use: a linear map of four blocks, and 64 pages of its memory once more in an area elsewhere.
pub(crate) struct Stage<'m> {
    pub(crate) cpu: OnCpu<'m>,
    pub(crate) g: Geometry,
    pub(crate) space: SharedSpace,
}

impl Stage<'_> {
    /// The first address of the linear map.
    pub(crate) fn linear(&self) -> Va {
        Va(self.g.base(Half::Upper))
    }

    /// The first address of the area.
    pub(crate) fn area(&self) -> Va {
        Va(self.g.base(Half::Upper) + (1 << (self.g.va_bits() - 1)))
    }

    /// The first address of a part of the area that has no tables.
    pub(crate) fn empty(&self) -> Va {
        Va(self.area().0 + 3 * self.g.level_size(Level::new(2)))
    }

    pub(crate) fn block(&self) -> u64 {
        self.g.level_size(Level::new(2))
    }

    /// The offset from a physical address to its address in the linear map.
    pub(crate) fn offset(&self) -> u64 {
        self.linear().0.wrapping_sub(RAM.0)
    }

    /// Carries out an operation that changes ranges of so many bytes to memory with these attributes, or to holes.
    pub(crate) fn does<E>(
        &self,
        name: &str,
        changes: &[(Va, u64, Option<Attributes>)],
        run: impl FnOnce() -> Result<(), E>,
    ) {
        let change = |&(va, bytes, attributes): &(Va, u64, Option<Attributes>)| {
            Expected::new(va, bytes, attributes.map(|a| Mapping::new(self.pa(va), a)))
        };
        let changes: Vec<_> = changes.iter().map(change).collect();
        self.cpu.begins(self.space.root(), name, &changes);
        self.cpu.done(run().is_ok());
    }

    /// The memory behind an address.
    pub(crate) fn pa(&self, va: Va) -> Pa {
        let first = if va.0 < self.area().0 { self.linear() } else { self.area() };
        Pa(RAM.0 + (va.0 - first.0))
    }

    fn runs(g: Geometry) -> [Run; 2] {
        let (base, half) = (g.base(Half::Upper), 1 << (g.va_bits() - 1));
        let size = |level| LeafSize { level, contiguous: false, ..g.leaf_sizes()[0] };
        let [block, page] = [Level::new(2), Level::PAGE].map(|level| {
            g.leaf_sizes().iter().copied().find(|s| s.level == level && !s.contiguous).unwrap_or(size(level))
        });
        [
            Run::new(Va(base), RAM, block, BLOCKS, Attributes::RAM),
            Run::new(Va(base + half), RAM, page, PAGES, Attributes::RAM),
        ]
    }
}

/// Returns the machine and the events of a run of the library. A broken rule panics.
pub(crate) fn run(machine: &Machine, policy: Policy, work: impl FnOnce(&Stage<'_>)) -> (Setup, Vec<Event>) {
    let g = Geometry::new(machine.granule, machine.va_bits, machine.format).expect("a geometry that exists");
    let mut setup = Setup { tables: 64, ..Setup::new(g, machine.cores) };
    if machine.aliased {
        setup.linear_offset = Some(g.base(Half::Upper).wrapping_sub(RAM.0));
    }
    let model = Model::new(&setup).expect("a machine");
    let log = Log::default();
    model.log_to(log.clone()).expect("memory takes any log");
    let cpu = model.cpu(0);
    let runs = Stage::runs(g);
    let tree = Tree::build(&cpu, g, Half::Upper, runs.into_iter()).expect("enough table pages");
    cpu.announces(tree.root(), runs);
    let space = SharedSpace::adopt(tree);
    space.set_policy(policy);
    // The table on which CPUs are parked.
    if policy == Policy::Park {
        cpu.empty_table();
    }
    for n in 0..machine.cores.len() as u8 {
        model.cpu(n).reports();
        model.cpu(n).loads(Register::Ttbr1, space.root());
    }
    work(&Stage { cpu, g, space });
    model.finish().unwrap_or_else(|breach| panic!("{breach}"));
    let log = log.take();
    read_log(&*log).expect("what the model wrote")
}
