//! A map, callers on several CPUs that change and read it at once, and what must come of it: what comes of
//! the same operations one after another, in the order in which they got the lock.

use std::ops::ControlFlow::Continue;
use std::sync::{Mutex, MutexGuard, PoisonError};

use linmap::{
    AddressSpace, Attributes, Dsb, Geometry, Granule, Half, Hardware, Leaves, OaFormat, Pa, Platform, Policy,
    Region, Stats, Tree, Va,
};
use linmap_model::{Core, CpuId, Model, Register, Setup};
use shuttle::thread;

use crate::flat::{self, Flat, Mapped, Walked, kept};
use crate::operation::{Circumstances, Operation, Prediction, Refused, What};
use crate::system::{Cpu, Lock, System, Watch};

/// Two blocks, then a contiguous run and four pages.
pub(crate) const BLOCK: u64 = 0;
pub(crate) const NEXT_BLOCK: u64 = 512;
pub(crate) const RUN: u64 = 1024;
pub(crate) const PAGES: u64 = 1040;
/// Behind them nothing is mapped, in the same table at first.
pub(crate) const HOLE: u64 = 1044;
/// The end of enough blocks that a repaint copies them in more than one piece.
const MANY: u64 = 2048;
const MANY_END: u64 = MANY + 34 * 512;

/// A vmalloc-like area, and its pages: pages of the blocks, not in a row.
pub(crate) const AREA: u64 = 1056;
const AREA_OF: [(u64, u64); 4] = [(BLOCK + 3, 1), (BLOCK + 9, 1), (BLOCK + 4, 1), (NEXT_BLOCK - 1, 2)];
/// The offset from a physical address to its address in the linear map.
pub(crate) const OFFSET: u64 = BASE.wrapping_sub(RAM);

const RAM: u64 = 0x8000_0000;
const LINEAR: u64 = 0xffff_ff80_0000_0000;
const BASE: u64 = LINEAR + 0x4000_0000;
const PAGE: u64 = 4096;

/// The next step of a caller.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Step {
    Does(Operation),
    /// It walks all of the map.
    Visits,
    /// It asks what the map is made of.
    Asks,
}

/// The moment at which an operation is announced to the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Announced {
    /// Around the call, so that calls overlap. No page is in two of them.
    ForTheCall,
    /// Around the hold of the lock: when it is dropped all is done, invalidations included.
    ForTheLock,
}

/// Callers, and where they meet.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) lock: Lock,
    pub(crate) policy: Policy,
    pub(crate) announced: Announced,
    /// True if fault handlers interrupt the callers at any place.
    pub(crate) faults: bool,
    /// True if there are many more blocks.
    pub(crate) many: bool,
    /// True if there is an area with pages of the first two blocks.
    pub(crate) area: bool,
    /// The steps before the callers begin.
    pub(crate) before: Vec<Operation>,
    /// The steps of each CPU, from the first CPU on.
    pub(crate) callers: Vec<Vec<Step>>,
}

/// An operation on pages counted from the first block on.
pub(crate) const fn on(page: u64, pages: u64, what: What) -> Operation {
    Operation { what, va: BASE + page * PAGE, pages }
}

/// All of the linear map becomes pages.
pub(crate) const REPAINT: Step =
    Step::Does(Operation { what: What::Repaint(None), va: LINEAR, pages: 256 << 18 });

/// Returns an operation as a step.
pub(crate) const fn does(page: u64, pages: u64, what: What) -> Step {
    Step::Does(on(page, pages, what))
}

impl Scene {
    /// Callers of one step each.
    pub(crate) fn new(announced: Announced, steps: &[Step]) -> Self {
        let callers = steps.iter().map(|&step| vec![step]).collect();
        Self {
            lock: Lock::Excludes,
            policy: Policy::Live,
            announced,
            faults: false,
            many: false,
            area: false,
            before: Vec::new(),
            callers,
        }
    }

    pub(crate) fn after(self, before: &[Operation]) -> Self {
        Self { before: before.to_vec(), ..self }
    }

    fn repaints(&self) -> usize {
        self.callers.iter().flatten().filter(|&&step| step == REPAINT).count()
    }

    /// Runs it once: what `shuttle` has run again and again.
    pub(crate) fn run(&self) {
        let g = Geometry::new(Granule::K4, 39, OaFormat::Bits48).expect("a geometry");
        let core = if self.policy == Policy::Park { Core::WEAK } else { Core::STRONG };
        // One CPU more looks on.
        let setup = Setup {
            tables: if self.many { 96 } else { 64 },
            linear_offset: self.area.then_some(OFFSET),
            ..Setup::new(g, &vec![core; self.callers.len() + 1])
        };
        let model = Model::new(&setup).expect("a machine");
        let run = Run::new(self, &model, g);
        thread::scope(|scope| {
            for (n, steps) in self.callers.iter().enumerate().skip(1) {
                let run = &run;
                scope.spawn(move || run.calls(n as CpuId, steps));
            }
            run.calls(0, &self.callers[0]);
        });
        run.quiet();
        assert_eq!(run.space.count(&model.cpu(0), run.all()), run.serial().stats, "the count");
        model.finish().unwrap_or_else(|breach| panic!("{breach}"));
    }
}

/// A scene under way.
struct Run<'m> {
    scene: &'m Scene,
    system: System<'m>,
    model: &'m Model,
    g: Geometry,
    space: AddressSpace,
    serial: Mutex<Serial>,
}

/// The result of the operations one after another.
struct Serial {
    flat: Flat,
    /// The leaves and tables when no operation was under way last.
    stats: Stats,
    /// By CPU: what it is about to do, and what comes of it.
    about: Vec<Option<Operation>>,
    results: Vec<Result<(), Refused>>,
    /// By CPU: what there is to see for one that reads.
    seen: Vec<(Flat, Stats)>,
}

impl<'m> Run<'m> {
    fn new(scene: &'m Scene, model: &'m Model, g: Geometry) -> Self {
        let (cpu, callers) = (model.cpu(0), scene.callers.len());
        let tree = Tree::build(&cpu, g, Half::Upper, core::iter::empty()).expect("one page");
        let space = AddressSpace::adopt(tree);
        space.set_policy(scene.policy);
        cpu.dsb(Dsb::Ishst);
        cpu.loads(Register::Ttbr1, cpu.empty_table());
        for n in 0..callers {
            model.cpu(n as CpuId).reports();
            model.cpu(n as CpuId).loads(Register::Ttbr1, space.root());
        }
        let region = |page: u64, pages: u64, oa: u64| Region {
            va: Va(BASE + page * PAGE),
            oa: Pa(oa),
            bytes: pages * PAGE,
            attributes: Attributes::RAM,
            leaves: Leaves::Largest,
        };
        let mut regions = vec![region(BLOCK, RUN - BLOCK, RAM), region(RUN, HOLE - RUN, 0x9000_0000)];
        if scene.area {
            let mut at = AREA;
            for (page, pages) in AREA_OF {
                regions.push(region(at, pages, RAM + page * PAGE));
                at += pages;
            }
        }
        if scene.many {
            regions.push(region(MANY, MANY_END - MANY, 0x1_0000_0000));
        }
        let mut flat = Flat::default();
        for r in &regions {
            let to = kept(Mapped { pa: r.oa.0, attributes: r.attributes, valid: true }, g);
            flat.push((r.va.0, r.va.0 + (r.bytes - 1), to));
        }
        let serial = Serial {
            about: vec![None; callers],
            results: vec![Ok(()); callers],
            seen: vec![(Flat::default(), Stats::ROOT); callers],
            stats: Stats::ROOT,
            flat,
        };
        let system = System::new(model, scene.lock, callers);
        let run = Self { scene, system, model, g, space, serial: Mutex::new(serial) };
        let changes = flat::changes(&run.serial().flat, (BASE, BASE + MANY_END * PAGE - 1));
        cpu.begins(run.space.root(), "create", &changes);
        let runs = regions.iter().flat_map(|r| r.runs(g));
        let tree = Tree::build(&cpu, g, Half::Upper, runs).expect("frames enough");
        // SAFETY: the model judges what becomes of these addresses.
        unsafe { run.space.graft(&cpu, tree) }.expect("an empty root");
        cpu.done(true);
        for operation in &scene.before {
            let prediction = run.predict(operation);
            cpu.begins(run.space.root(), operation.name(), &run.changes(operation, &prediction));
            operation.run(&run.space, &cpu).expect("what comes before works");
            cpu.done(true);
            run.serial().flat = prediction.flat;
        }
        run.quiet();
        run
    }

    fn serial(&self) -> MutexGuard<'_, Serial> {
        self.serial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the steps of one CPU.
    fn calls(&self, n: CpuId, steps: &[Step]) {
        let (cpu, number) = (self.system.cpu(n, self), usize::from(n));
        for step in steps {
            match step {
                Step::Does(operation) => {
                    let result = self.call(&cpu, operation);
                    let refused = result == Err(Refused::UnderWay) && self.scene.repaints() > 1;
                    assert!(
                        refused || result == self.serial().results[number],
                        "{operation:x?}: {result:x?}"
                    );
                }
                Step::Visits => {
                    let walked = self.walk(&cpu);
                    assert_eq!(walked.flat(self.g), self.serial().seen[number].0, "what a walk saw");
                }
                Step::Asks => {
                    let stats = self.space.stats(&cpu);
                    assert_eq!(stats, self.serial().seen[number].1, "what it is made of");
                }
            }
        }
        cpu.leaves_tables();
    }

    fn call(&self, cpu: &Cpu<'_>, operation: &Operation) -> Result<(), Refused> {
        let announced = self.scene.announced == Announced::ForTheCall;
        if announced {
            let prediction = self.predict(operation);
            let changes = match operation.what {
                // What stays is not named: others may change it meanwhile.
                What::SplitToPages | What::Collapse | What::Repaint(_) => Vec::new(),
                _ => self.changes(operation, &prediction),
            };
            cpu.on.begins(self.space.root(), operation.name(), &changes);
        }
        self.serial().about[usize::from(cpu.number())] = Some(*operation);
        let result = operation.run(&self.space, cpu);
        if announced {
            // The other gets on in between.
            cpu.point();
            cpu.on.done(result.is_ok());
        }
        if repaints(operation) {
            self.serial().about[usize::from(cpu.number())] = None;
            self.quiet();
        }
        result
    }

    /// Predicts an operation on the map as it is now.
    fn predict(&self, operation: &Operation) -> Prediction {
        let now = Circumstances {
            half: Half::Upper,
            policy: self.space.policy(),
            promise: self.model.cpu(0).promise(),
            write_execute: false,
            parkable: true,
        };
        operation.predict(&self.serial().flat, &Walked::default(), self.g, now)
    }

    fn changes(&self, operation: &Operation, prediction: &Prediction) -> Vec<linmap_model::Expected> {
        match prediction.result {
            Ok(()) if repaints(operation) => Vec::new(),
            Ok(()) => operation.changes(&prediction.flat, self.g),
            Err(_) => Vec::new(),
        }
    }

    fn walk(&self, platform: &impl Platform) -> Walked {
        let mut walked = Walked::default();
        let _ = self.space.visit(platform, self.all(), |&linmap::Visited { va, level, entry, .. }| {
            walked.add(va, level, entry);
            Continue(())
        });
        walked
    }

    /// All that is ever mapped.
    fn all(&self) -> (Va, Va) {
        (Va(BASE), Va(BASE + MANY_END * PAGE - 1))
    }

    /// No CPU is changing anything: tables and counts say what they must, and no table page is lost.
    fn quiet(&self) {
        let looks_on = self.model.cpu(self.scene.callers.len() as CpuId);
        let walked = self.walk(&looks_on);
        assert_eq!(walked.flat(self.g), self.serial().flat, "the map");
        let stats = self.space.stats(&looks_on);
        // A repaint has a second tree, and tables of the old one may be counted until they are given back.
        if !self.serial().about.iter().flatten().any(repaints) {
            assert_eq!(stats, walked.stats(), "the counts");
            // And the one on which CPUs are parked.
            assert_eq!(self.model.in_use() as u64, stats.tables + 1, "table pages in use");
        }
        assert_eq!(walked.empty_table(self.g), None, "a table without an entry");
        self.serial().stats = stats;
    }
}

impl Watch for Run<'_> {
    fn taken(&self, cpu: &Cpu<'_>) {
        let n = usize::from(cpu.number());
        let Some(operation) = self.serial().about[n] else {
            let mut serial = self.serial();
            serial.seen[n] = (serial.flat.clone(), serial.stats);
            return;
        };
        let prediction = self.predict(&operation);
        if self.scene.announced == Announced::ForTheLock {
            let changes = self.changes(&operation, &prediction);
            cpu.on.begins(self.space.root(), operation.name(), &changes);
        }
        let mut serial = self.serial();
        (serial.flat, serial.results[n]) = (prediction.flat, prediction.result);
    }

    fn leaves(&self, cpu: &Cpu<'_>) {
        let n = usize::from(cpu.number());
        let Some(operation) = self.serial().about[n].take() else { return };
        if repaints(&operation) {
            // It takes the lock again.
            self.serial().about[n] = Some(operation);
        }
        if self.scene.announced == Announced::ForTheLock {
            let done = self.serial().results[n].is_ok();
            cpu.on.done(done);
        }
        self.quiet();
    }

    /// A fault handler looks up an address. It never waits, and does without an answer where its own CPU
    /// has the lock.
    fn interrupts(&self, cpu: &Cpu<'_>) {
        if !self.scene.faults {
            return;
        }
        let (first, last) = (BASE, BASE + (PAGE - 1));
        let (mut walked, mut wanted) = (Walked::default(), Vec::new());
        if cpu.has_lock() {
            return;
        }
        _ = self.space.visit(cpu, (Va(first), Va(last)), |&linmap::Visited { va, level, entry, .. }| {
            walked.add(va, level, entry);
            wanted = self.serial().flat.within(first, last);
            Continue(())
        });
        if self.scene.lock == Lock::Excludes {
            assert!(walked.flat(self.g).within(first, last) == wanted, "a wrong answer");
        }
    }
}

/// Returns true if it takes the lock more than once.
const fn repaints(operation: &Operation) -> bool {
    matches!(operation.what, What::Repaint(_))
}

/// Prints the scene if the test fails; `shuttle` prints the schedule.
impl Drop for Run<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:x?}", self.scene);
        }
    }
}
