//! A map and a few operations on it, of which some are done with a fault.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use linmap::mistakes::switch_on;
use linmap::{Attributes, Geometry, Granule, Half, Leaves, OaFormat, Pa, Policy, Region, Va};
use linmap_model::{Core, Rule};
use test_support::Log;

use crate::fault::{Fault, How};
use crate::faulty::Faulty;
use crate::interrupted::{interrupted, overtaken};
use crate::operation::{Operation, What};
use crate::watched::log_of;
use crate::world::{Machine, World, ram};

/// The first page of the map's contiguous run.
pub(crate) const RUN: u64 = 3 * 512;
/// Pages that hardware may make writable.
pub(crate) const DIRTY_MANAGED: u64 = 4 * 512;
/// Pages without a mapping and without a table. A repaint is told of changes there apart from those of the pages before.
pub(crate) const FREE: u64 = 9 * 512;
/// The first page of so many blocks that a repaint copies them in more than one piece.
const MANY: u64 = 16 * 512;

/// The first page of the map, and what is to be added to a physical address to find it in the map.
const START: u64 = 0xffff_0010_0000_0000;
pub(crate) const OFFSET: u64 = START - (1 << 40);

#[derive(Clone, Debug)]
pub(crate) struct Scene {
    cores: Vec<Core>,
    policy: Policy,
    /// The operations that are always done right.
    before: Vec<Operation>,
    /// The operations with the mistake.
    then: Vec<Operation>,
    part: Part,
}

/// The part of the scene with the mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// The creation of the map.
    Creation,
    /// The operations, one after the other.
    Operations,
    /// The operations, the first of which others interrupt.
    Interrupted,
    /// The operations, the first of which is a repaint that lets the other in between.
    Overtaken,
}

fn geometry() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry")
}

/// An operation on some pages of the map.
fn operation(what: What, first: u64, pages: u64) -> Operation {
    Operation { what, va: START + first * geometry().page_size(), pages }
}

/// A block of 2M, 1,024 pages, a run of 16, some pages that hardware may make writable, and 40 blocks.
fn regions() -> Vec<Region> {
    let region = |first: u64, pages: u64, leaves: Leaves, more: Attributes| {
        let Operation { va, pages, .. } = operation(What::Unmap, first, pages);
        let region = ram(va, (1 << 40) + first * geometry().page_size(), pages * geometry().page_size());
        Region { leaves, attributes: region.attributes | more, ..region }
    };
    let none = Attributes::empty();
    vec![
        region(0, 512, Leaves::Largest, none),
        region(512, 1024, Leaves::Pages, none),
        region(RUN, 16, Leaves::Largest, none),
        region(DIRTY_MANAGED, 8, Leaves::Pages, Attributes::DIRTY_MANAGED),
        region(MANY, 40 * 512, Leaves::Largest, none),
    ]
}

impl Scene {
    /// The map on these CPUs, the first of which does it all.
    pub(crate) fn new(cores: &[Core], policy: Policy) -> Self {
        Self { cores: cores.to_vec(), policy, before: Vec::new(), then: Vec::new(), part: Part::Operations }
    }

    pub(crate) fn after(&self, what: What, first: u64, pages: u64) -> Self {
        let mut scene = self.clone();
        scene.before.push(operation(what, first, pages));
        scene
    }

    pub(crate) fn does(&self, what: What, first: u64, pages: u64) -> Self {
        let mut scene = self.clone();
        scene.then.push(operation(what, first, pages));
        scene
    }

    /// The map is created with the fault.
    pub(crate) fn creation(&self) -> Self {
        Self { part: Part::Creation, ..self.clone() }
    }

    /// Two CPUs change pages of one block, the second one when the first has read and not yet stored.
    pub(crate) fn interrupted(&self) -> Self {
        let both = self.does(crate::READ_ONLY, 100, 1).does(crate::READ_ONLY, 200, 1);
        Self { part: Part::Interrupted, ..both }
    }

    /// The linear map is brought into pages.
    pub(crate) fn repaints(&self) -> Self {
        let mut scene = self.clone();
        scene.then.push(Operation::repaint(geometry(), Half::Upper));
        scene
    }

    /// The map is repainted, and another CPU does an operation when a part has been copied.
    pub(crate) fn overtaken(&self, what: What, first: u64, pages: u64) -> Self {
        Self { part: Part::Overtaken, ..self.repaints().does(what, first, pages) }
    }

    /// Plays the scene with a mistake, or with none. Returns the rule that was broken as an error, and the log, which ends there.
    pub(crate) fn judged(&self, fault: Option<Fault>) -> (Result<(), Rule>, Log) {
        let machine = Machine::with_linear_map(geometry(), &self.cores, 128, 0x1000_0000, Some(OFFSET));
        let log = log_of(&machine.model);
        let played = catch_unwind(AssertUnwindSafe(|| self.play(&machine, fault)));
        switch_on(None);
        let verdict = match (machine.model.verdict().and_then(|()| machine.model.finish()), played) {
            (Err(breach), _) => Err(breach.rule),
            (Ok(()), Ok(())) => Ok(()),
            // Noticed by the test and not by the model.
            (Ok(()), Err(panic)) => resume_unwind(panic),
        };
        (verdict, log)
    }

    fn play(&self, machine: &Machine, fault: Option<Fault>) {
        let cpu = machine.model.cpu(0);
        let created_with = fault.filter(|_| self.part == Part::Creation);
        let creator = Faulty::new(cpu, created_with, Pa(0));
        let mut regions = regions();
        if self.part == Part::Creation {
            // Regions in pages are there before CPUs use the root (`World::created_on`).
            regions.retain(|region| region.leaves == Leaves::Largest);
        }
        let mut world = World::created_on(&creator, machine, Half::Upper, &regions);
        world.set_policy(self.policy);
        for operation in &self.before {
            world.does(0, operation).expect("no reason not to");
        }
        let platform = Faulty::new(cpu, fault, world.space.root());
        if let Some(How::InTheText(patch)) = fault.map(Fault::how) {
            switch_on(Some(patch));
        }
        match (self.part, &self.then[..]) {
            (Part::Interrupted, _) => return interrupted(&world, &platform, &self.then),
            (Part::Overtaken, [repaint, operation]) => {
                return overtaken(&world, &platform, repaint, operation);
            }
            _ => {}
        }
        for operation in &self.then {
            // A refusal is what was predicted, or else it has panicked.
            let _ = world.does_on(&platform, cpu, operation);
        }
        world.finish();
    }
}

/// True for an address by which a scene's map has the memory of an area as well.
pub(crate) fn is_alias(va: Va) -> bool {
    va.0 < operation(What::Unmap, FREE, 1).va
}
