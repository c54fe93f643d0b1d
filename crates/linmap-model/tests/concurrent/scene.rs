//! A map, callers on several CPUs that change and read it at once, and what must come of it: what comes of the same
//! operations one after another, in the order in which they took effect (`serial.rs`).

use std::ops::ControlFlow::Continue;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use linmap::arch::{Descriptor, Entry, Leaf};
use linmap::error::ChangeError;
use linmap::{
    Attributes, Geometry, Granule, Half, Hardware, Leaves, OaFormat, Pa, Platform, Policy, Region,
    SharedSpace, Slot, Stats, Tree, Va,
};
use linmap_model::{Core, CpuId, Model, Register, Setup};
use shuttle::thread;
use test_support::with_locks;

use crate::cut;
use crate::flat::{Flat, Mapped, Walked, kept};
use crate::operation::{Circumstances, Operation, Prediction, Refused, What};
use crate::serial::{Foretells, Serial, Tell, keeps_translations, overlap};
use crate::system::{Cpu, HOLD, Kind, System, Watch};

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

/// The border of the first two gigabytes, and sixteen gigabytes that are one run.
pub(crate) const BORDER: u64 = 1 << 18;
pub(crate) const GIGABYTES: u64 = 15 << 18;

/// A vmalloc-like area, and its pages: pages of the blocks, not in a row.
pub(crate) const AREA: u64 = 1056;
const AREA_OF: [(u64, u64); 4] = [(BLOCK + 3, 1), (BLOCK + 9, 1), (BLOCK + 4, 1), (NEXT_BLOCK - 1, 2)];
/// The offset from a physical address to its address in the linear map.
pub(crate) const OFFSET: u64 = BASE.wrapping_sub(RAM);

const RAM: u64 = 0x8000_0000;
const LINEAR: u64 = 0xffff_ff80_0000_0000;
const BASE: u64 = LINEAR + 0x4000_0000;
const PAGE: u64 = 4096;
/// All that is ever mapped below entries of the root that translate a gigabyte each.
const ALL: (u64, u64) = (BASE, LINEAR + (32 << 30) - 1);
/// The addresses of another entry of the root, where each of them translates 512 gigabytes. Nothing is mapped there at first.
const FAR: u64 = LINEAR - (512 << 30);

/// The next step of a caller.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Step {
    Does(Operation),
    /// It walks all of the map.
    Visits,
    /// It asks what the map is made of.
    Asks,
    /// It has some pages split that nobody may merge, for a while.
    Pins(u64, u64),
}

/// Callers, and where they meet.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) kind: Kind,
    pub(crate) policy: Policy,
    /// The number of locks: 64 are one for each gigabyte; or 8, or one for all.
    pub(crate) locks: usize,
    /// True if callers wait for long operations of others, and are not told that these are busy.
    pub(crate) waits: bool,
    /// True if no CPU answers when it is called.
    pub(crate) silent: bool,
    /// True if fault handlers interrupt the callers at any place.
    pub(crate) faults: bool,
    /// True if there are many more blocks.
    pub(crate) many: bool,
    /// True if the root stays where it is.
    pub(crate) fixed: bool,
    /// True if there is an area with pages of the first two blocks.
    pub(crate) area: bool,
    /// True if the map goes on in other gigabytes.
    pub(crate) wide: bool,
    /// True if an entry of the root translates 512 gigabytes, which have a lock each, and not one.
    pub(crate) upper: bool,
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

/// Returns an operation on the first pages of a gigabyte below an entry of the root that is a hole at first.
pub(crate) const fn far(gigabyte: u64, pages: u64, what: What) -> Operation {
    Operation { what, va: FAR + (gigabyte << 30), pages }
}

/// All that is below this entry becomes pages.
pub(crate) const REPAINT_FAR: Step = Step::Does(far(0, 512 << 18, What::Repaint(None)));

impl Scene {
    /// Callers of one step each.
    pub(crate) fn new(steps: &[Step]) -> Self {
        let callers = steps.iter().map(|&step| vec![step]).collect();
        Self {
            kind: Kind::Right,
            policy: Policy::Live,
            locks: 64,
            waits: true,
            silent: false,
            faults: false,
            many: false,
            fixed: false,
            area: false,
            wide: false,
            upper: false,
            before: Vec::new(),
            callers,
        }
    }

    pub(crate) fn after(self, before: &[Operation]) -> Self {
        Self { before: before.to_vec(), ..self }
    }

    fn repaints(&self) -> usize {
        self.callers.iter().flatten().filter(|&&step| step == REPAINT || step == REPAINT_FAR).count()
    }

    /// Returns true if a caller may claim a range. A table that another caller empties there stays.
    fn claims(&self) -> bool {
        let steps = || self.callers.iter().flatten();
        let claims =
            |o: &Operation| self.upper || o.pages > HOLD as u64 || matches!(o.what, What::Aliased(..));
        self.callers.len() > 1 && steps().any(|step| matches!(step, Step::Does(o) if claims(o)))
    }

    /// Returns the addresses of all that is ever mapped.
    const fn all(&self) -> (u64, u64) {
        if self.upper { (FAR, ALL.1) } else { ALL }
    }

    /// Runs it once: what `shuttle` has run again and again.
    pub(crate) fn run(&self) {
        with_locks!(self.locks, LOCKS in [1 8 64] => self.run_with::<LOCKS>());
    }

    fn run_with<const LOCKS: usize>(&self) {
        let va_bits = if self.upper { 48 } else { 39 };
        let g = Geometry::new(Granule::K4, va_bits, OaFormat::Bits48).expect("a geometry");
        let core = if self.policy == Policy::Park { Core::WEAK } else { Core::STRONG };
        // One CPU more looks on.
        let setup = Setup {
            tables: if self.many { 128 } else { 96 },
            linear_offset: self.area.then_some(OFFSET),
            ..Setup::new(g, &vec![core; self.callers.len() + 1])
        };
        let model = Model::new(&setup).expect("a machine");
        let run = Run::new(self, &model, g);
        let watch: &(dyn Watch<LOCKS> + Sync) = &run;
        thread::scope(|scope| {
            for (n, steps) in self.callers.iter().enumerate().skip(1) {
                let run = &run;
                scope.spawn(move || run.calls(&run.system.cpu(n as CpuId, watch), steps));
            }
            run.calls(&run.system.cpu(0, watch), &self.callers[0]);
        });
        run.quiet();
        model.finish().unwrap_or_else(|breach| panic!("{breach}"));
    }

    /// The regions of the map.
    fn regions(&self) -> Vec<Region> {
        let region = |page: u64, pages: u64, oa: u64| Region {
            va: Va(BASE + page * PAGE),
            oa: Pa(oa),
            bytes: pages * PAGE,
            attributes: Attributes::RAM,
            leaves: Leaves::Largest,
        };
        let mut regions = vec![region(BLOCK, RUN - BLOCK, RAM), region(RUN, HOLE - RUN, 0x9000_0000)];
        if self.area {
            let mut at = AREA;
            for (page, pages) in AREA_OF {
                regions.push(region(at, pages, RAM + page * PAGE));
                at += pages;
            }
        }
        if self.many {
            regions.push(region(MANY, MANY_END - MANY, 0x1_0000_0000));
        }
        if self.wide {
            // On both sides of the border of two gigabytes, and one that ends on the border.
            regions.push(region(BORDER - 512, 512, 0x2_0000_0000));
            regions.push(region(BORDER, 512 + 16, 0x2_4000_0000));
            regions.push(region(GIGABYTES, 16 << 18, 0x40_0000_0000));
        }
        regions
    }
}

/// A scene under way.
struct Run<'m> {
    scene: &'m Scene,
    system: System<'m>,
    model: &'m Model,
    space: SharedSpace,
    serial: Mutex<Serial>,
    /// By CPU: the counts when it took a lock last, while it asks for them; none if something was changing.
    counts: Mutex<Vec<Option<Stats>>>,
    /// The number of readers, for whom table pages may be kept, and of callers that pin and have some in hand.
    others: AtomicUsize,
    rules: Rules,
}

/// The rules for operations, in the circumstances of a scene.
struct Rules {
    g: Geometry,
    now: Circumstances,
}

impl Foretells for Rules {
    fn predict(&self, operation: &Operation, flat: &Flat) -> Prediction {
        operation.predict(flat, &Walked::default(), self.g, self.now)
    }

    fn ranges(&self, operation: &Operation, flat: &Flat) -> Vec<(u64, u64)> {
        operation.ranges(flat, self.g)
    }

    fn changes(&self, operation: &Operation, flat: &Flat) -> Vec<linmap_model::Expected> {
        operation.changes(flat, self.g)
    }
}

impl<'m> Run<'m> {
    fn new(scene: &'m Scene, model: &'m Model, g: Geometry) -> Self {
        let (cpu, callers) = (model.cpu(0), scene.callers.len());
        let regions = scene.regions();
        let runs = || regions.iter().flat_map(|r| r.runs(g));
        let space = SharedSpace::adopt(Tree::build(&cpu, g, Half::Upper, runs()).expect("frames enough"));
        space.set_policy(scene.policy);
        if scene.fixed {
            space.fix_root();
        }
        cpu.announces(space.root(), runs());
        cpu.loads(Register::Ttbr1, cpu.empty_table());
        for n in 0..callers {
            model.cpu(n as CpuId).reports();
            model.cpu(n as CpuId).loads(Register::Ttbr1, space.root());
        }
        let mut flat = Flat::default();
        for r in &regions {
            let to = kept(Mapped { pa: r.oa.0, attributes: r.attributes, valid: true }, g);
            flat.push((r.va.0, r.va.0 + (r.bytes - 1), to));
        }
        let now = Circumstances {
            half: Half::Upper,
            policy: space.policy(),
            promise: cpu.promise(),
            write_execute: false,
            parkable: true,
        };
        let rules = Rules { g, now };
        for operation in &scene.before {
            let prediction = rules.predict(operation, &flat);
            cpu.begins(space.root(), operation.name(), &rules.changes(operation, &prediction.flat));
            operation.run(&space, &cpu, &mut || {}).expect("what comes before works");
            cpu.done(true);
            flat = prediction.flat;
        }
        let system = System::new(model, scene.kind, callers, scene.waits, scene.silent);
        let serial = Mutex::new(Serial::new(flat, callers));
        let counts = Mutex::new(vec![None; callers]);
        let others = AtomicUsize::new(0);
        let run = Self { scene, system, model, space, serial, counts, others, rules };
        run.quiet();
        run
    }

    fn serial(&self) -> MutexGuard<'_, Serial> {
        self.serial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, Vec<Option<Stats>>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the model what is under way.
    fn tell(&self, tells: Vec<Tell>) {
        for tell in tells {
            match tell {
                Tell::Begins(n, name, changes) => {
                    self.model.cpu(n).begins(self.space.root(), name, &changes);
                }
                Tell::Done(n, ok) => self.model.cpu(n).done(ok),
            }
        }
    }

    /// Takes the steps of one CPU.
    fn calls<const LOCKS: usize>(&self, cpu: &Cpu<'_, LOCKS>, steps: &[Step]) {
        for step in steps {
            cpu.call_begins();
            match step {
                Step::Does(operation) => self.call(cpu, operation),
                Step::Visits => self.visits(cpu, self.scene.all()),
                &Step::Pins(page, pages) => self.pins(cpu, BASE + page * PAGE, pages),
                Step::Asks => {
                    let stats = self.space.on(cpu).stats();
                    let expected = self.counts()[usize::from(cpu.number())].take();
                    assert!(expected.is_none_or(|e| e == stats), "it is made of {expected:?}, not {stats:?}");
                }
            }
            cpu.call_returns();
        }
        cpu.leaves_tables();
    }

    fn call<const LOCKS: usize>(&self, cpu: &Cpu<'_, LOCKS>, operation: &Operation) {
        let n = usize::from(cpu.number());
        self.serial().calls(n, operation);
        if keeps_translations(operation) {
            // What stays is not named: others may change it meanwhile.
            cpu.on.begins(self.space.root(), operation.name(), &[]);
        }
        let result = operation.run(&self.space, cpu, &mut || {});
        let (results, tells) = self.serial().returns(n, result.is_ok(), &self.rules);
        self.tell(tells);
        assert!(
            results.contains(&result) || self.is_excused(operation, result),
            "{operation:x?}: {result:x?} and not {results:x?}"
        );
        if self.serial().is_alone(n) {
            self.quiet();
        }
    }

    /// Pins a range, and lifts the pin after a moment.
    fn pins<const LOCKS: usize>(&self, cpu: &Cpu<'_, LOCKS>, va: u64, pages: u64) {
        let pin = |pins: bool| {
            cpu.on.begins(self.space.root(), if pins { "pin" } else { "unpin" }, &[]);
            self.others.fetch_add(1, Relaxed);
            let done = if pins {
                self.space.on(cpu).pin(Va(va), pages)
            } else {
                self.space.on(cpu).unpin(Va(va), pages)
            };
            self.others.fetch_sub(1, Relaxed);
            cpu.on.done(done.is_ok());
            let parks = pins && self.scene.policy == Policy::Park;
            let is_busy = !self.scene.waits && matches!(done, Err(ChangeError::Busy { .. }));
            assert!(done.is_ok() || parks && done == Err(ChangeError::CannotPark) || is_busy, "{done:?}");
            done.is_ok()
        };
        if pin(true) {
            cpu.point();
            pin(false);
        }
    }

    /// Returns true for a refusal that depends on what others do at that moment.
    fn is_excused(&self, operation: &Operation, result: Result<(), Refused>) -> bool {
        let several = self.scene.callers.len() > 1;
        match result {
            Err(Refused::UnderWay) => self.scene.repaints() > 1,
            Err(Refused::Change(ChangeError::Busy { .. })) => {
                let ranges = self.claimed(operation);
                let others = self.scene.callers.iter().flatten().filter(|step| match step {
                    Step::Does(o) => overlap(&ranges, &self.claimed(o)),
                    _ => false,
                });
                // It is one of them itself.
                !self.scene.waits && others.count() > 1
            }
            Err(Refused::Change(ChangeError::CannotPark)) => {
                let parks = self.scene.policy == Policy::Park || repaints(operation);
                parks && (self.scene.silent || several && self.scene.locks > 1)
            }
            _ => false,
        }
    }

    /// Returns the ranges that an operation may claim: with an area, all from its first alias to the last.
    fn claimed(&self, operation: &Operation) -> Vec<(u64, u64)> {
        let mut ranges = vec![(operation.va, operation.last(self.rules.g))];
        if matches!(operation.what, What::Aliased(..)) {
            ranges.push((BASE + BLOCK * PAGE, BASE + (NEXT_BLOCK + 1) * PAGE));
        }
        ranges
    }

    /// Walks a range, without a lock. Each entry is as it was at some moment meanwhile.
    fn visits<const LOCKS: usize>(&self, cpu: &Cpu<'_, LOCKS>, range: (u64, u64)) {
        let since = self.serial().oldest_in_sight();
        self.others.fetch_add(1, Relaxed);
        let walked = self.walk(cpu, range);
        self.others.fetch_sub(1, Relaxed);
        let never = self.serial().never_was(since, &walked.flat(self.rules.g), range);
        if self.scene.kind == Kind::Right {
            assert_eq!(never, None, "what a walk saw");
        }
    }

    fn walk(&self, platform: &impl Platform, range: (u64, u64)) -> Walked {
        let mut walked = Walked::default();
        let range = (Va(range.0), Va(range.1));
        let _ = self.space.on(platform).read(|reader| {
            reader.visit(range, |&linmap::read::Visited { va, level, entry, .. }| {
                // What stays split translates as it did.
                let entry = match entry {
                    Entry::Leaf(leaf) => {
                        Entry::Leaf(Leaf { attributes: leaf.attributes - Attributes::STAYS_SPLIT, ..leaf })
                    }
                    other => other,
                };
                walked.add(va, level, entry);
                Continue(())
            })
        });
        walked
    }

    /// No CPU is changing anything: tables and counts say what they must, and no table page is lost.
    fn quiet(&self) {
        let looks_on = self.system.looks_on();
        let walked = self.walk(&looks_on, self.scene.all());
        assert_eq!(walked.flat(self.rules.g), self.serial().flat, "the map");
        let stats = self.space.on(&looks_on).stats();
        assert_eq!(stats, walked.stats(), "the counts");
        let (first, last) = self.scene.all();
        assert_eq!(
            stats,
            self.space.on(&looks_on).read(|reader| reader.count((Va(first), Va(last)))),
            "what is counted"
        );
        if self.others.load(Relaxed) == 0 {
            // And the one on which CPUs are parked.
            assert_eq!(self.model.in_use() as u64, stats.tables + 1, "table pages in use");
        }
        if !self.scene.claims() {
            assert_eq!(walked.empty_table(self.rules.g), None, "a table without an entry");
        }
    }
}

impl<const LOCKS: usize> Watch<LOCKS> for Run<'_> {
    fn taken(&self, cpu: &Cpu<'_, LOCKS>) {
        let n = usize::from(cpu.number());
        if self.serial().calls_now(n) {
            return self.serial().takes(n, &self.rules);
        }
        let looks_on = self.system.looks_on();
        let counts = (!self.serial().is_changing()).then(|| self.walk(&looks_on, self.scene.all()).stats());
        self.counts()[n] = counts;
    }

    fn stores(&self, cpu: &Cpu<'_, LOCKS>, new: &[(Slot, Descriptor)]) {
        let cuts = new
            .iter()
            .all(|&(slot, new)| cut::keeps(self.rules.g, &|slot| self.system.read(slot), slot, new));
        let tells = self.serial().stores(usize::from(cpu.number()), cuts, &self.rules);
        self.tell(tells);
    }

    /// A fault handler looks up an address. It never waits.
    fn interrupts(&self, cpu: &Cpu<'_, LOCKS>) {
        if self.scene.faults {
            self.visits(cpu, (BASE, BASE + (PAGE - 1)));
        }
    }
}

/// Returns true if it takes the locks again and again.
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
