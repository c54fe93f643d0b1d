//! A map on a machine, and beside it what it must be: each operation is announced, done and judged.

use std::mem::MaybeUninit;
use std::ops::ControlFlow::Continue;

use linmap::arch::{Entry, LeafSize, Level, TableAttributes, TableLimits};
use linmap::error::ChangeError;
use linmap::{
    Attributes, Geometry, Half, Hardware, Leaves, Pa, Platform, Policy, Promise, Region, Remaking,
    SharedSpace, Space, Stats, Tree, Va,
};
use linmap_model::{Core, Expected, Mapping, Model, OnCpu, Register, Setup};
use test_support::with_locks;

use crate::flat::{Flat, Mapped, Seen, Walked, changes, fitting, kept};
use crate::many_locks::ManyLocks;
use crate::operation::{Circumstances, Operation, Prediction, Refused, What};
use crate::remade;

/// A map that CPUs use.
pub(crate) struct World<'m> {
    model: &'m Model,
    pub(crate) g: Geometry,
    pub(crate) space: SharedSpace,
    pub(crate) half: Half,
    cores: u8,
    /// The number of locks of callers: 1, 8 or 64.
    locks: usize,
    /// The map that it must be.
    pub(crate) flat: Flat,
    /// The leaves and tables of the last walk.
    pub(crate) walked: Walked,
    /// The number of table pages that are taken for other things than the map.
    besides: usize,
    parkable: bool,
    write_execute: bool,
    /// True if new tables may have restrictions.
    restricted: bool,
    /// The address of the root if that is to stay.
    fixed_root: Option<Pa>,
    /// The number of table pages, and the number that the next operation can take.
    tables: usize,
    frames: Option<usize>,
    /// The form of the map in which operations are done, as far as it has them.
    form: Form,
    /// The operations so far, printed if the test fails.
    pub(crate) history: Vec<String>,
}

/// A form of a map. All of them have the same tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Callers with up to 64 locks share it.
    Shared,
    /// Callers with one lock share it.
    OneLock,
    /// It has one caller at a time.
    Alone,
}

/// The machine of a world.
pub(crate) struct Machine {
    pub(crate) model: Model,
    cores: u8,
    tables: usize,
}

impl Machine {
    pub(crate) fn new(g: Geometry, cores: &[Core], tables: usize, tables_at: u64) -> Self {
        Self::with_linear_map(g, cores, tables, tables_at, None)
    }

    /// The same with a linear map, in which pages that are read-only elsewhere must be read-only.
    pub(crate) fn with_linear_map(
        g: Geometry,
        cores: &[Core],
        tables: usize,
        tables_at: u64,
        linear_offset: Option<u64>,
    ) -> Self {
        Self::of(&Setup { tables, tables_at, linear_offset, ..Setup::new(g, cores) })
    }

    /// The same by its description.
    pub(crate) fn of(setup: &Setup) -> Self {
        let model = Model::new(setup).expect("a machine");
        Self { model, cores: setup.cores.len() as u8, tables: setup.tables }
    }
}

/// Returns true if the step of a remake failed.
fn is_step(result: Result<(), Refused>) -> bool {
    matches!(result, Err(Refused::Step { .. }))
}

/// Returns the map of some regions.
pub(crate) fn flat_of(regions: &[Region], g: Geometry) -> Flat {
    let mut flat = Flat::default();
    for r in regions.iter().filter(|r| r.bytes != 0) {
        let to = kept(Mapped { pa: r.oa.0, attributes: r.attributes, valid: true }, g);
        flat.push((r.va.0, r.va.0 + (r.bytes - 1), to));
    }
    flat
}

impl<'m> World<'m> {
    /// Maps some regions in a half that all CPUs use.
    pub(crate) fn new(machine: &'m Machine, half: Half, regions: &[Region]) -> Self {
        Self::created_on(&machine.model.cpu(0), machine, half, regions)
    }

    /// The same, with a platform on which CPU 0 creates the map.
    pub(crate) fn created_on(
        platform: &impl Platform,
        machine: &'m Machine,
        half: Half,
        regions: &[Region],
    ) -> Self {
        let Machine { model, cores, tables } = machine;
        let (g, cpu, cores, tables) = (model.geometry(), model.cpu(0), *cores, *tables);
        // Largest leaves are created in a root that CPUs use. Pages are there before: those that are created stay pages.
        let (now, later) = match regions.iter().all(|r| r.leaves == Leaves::Largest) {
            true => (&[][..], regions),
            false => (regions, &[][..]),
        };
        let runs = || now.iter().flat_map(|r| r.runs(g));
        let space = SharedSpace::adopt(Tree::build(platform, g, half, runs()).expect("frames enough"));
        cpu.announces(space.root(), runs());
        let register = if half == Half::Upper { Register::Ttbr1 } else { Register::Ttbr0 };
        // The table on which CPUs are parked.
        if half == Half::Upper {
            cpu.loads(register, cpu.empty_table());
        }
        for cpu in (0..cores).map(|n| model.cpu(n)) {
            cpu.reports();
            cpu.loads(register, space.root());
        }
        let flat = flat_of(regions, g);
        if !later.is_empty() {
            cpu.begins(space.root(), "create", &changes(&flat, (g.base(half), last_of(g, half))));
            // SAFETY: the model judges what becomes of these addresses.
            unsafe { space.on(platform).create_regions(later.iter().copied()) }.expect("an empty root");
            cpu.done(true);
        }
        let mut world = Self {
            model,
            g,
            space,
            half,
            cores,
            locks: 1,
            flat,
            walked: Walked::default(),
            besides: usize::from(half == Half::Upper),
            parkable: true,
            write_execute: false,
            restricted: false,
            fixed_root: None,
            tables,
            frames: None,
            form: Form::Shared,
            history: Vec::new(),
        };
        world.walked = world.walk(world.all());
        world.compare("creation");
        world
    }

    pub(crate) fn cpu(&self, n: u8) -> OnCpu<'m> {
        self.model.cpu(n % self.cores)
    }

    pub(crate) fn promise(&self) -> Promise {
        self.cpu(0).promise()
    }

    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.history.push(format!("policy {policy}"));
        self.space.set_policy(policy);
    }

    /// From here on callers have so many locks: 1, 8 or 64.
    pub(crate) fn set_locks(&mut self, locks: usize) {
        self.history.push(format!("locks {locks}"));
        self.locks = locks;
    }

    /// From here on operations are those of this form.
    pub(crate) fn set_form(&mut self, form: Form) {
        self.history.push(format!("form: {form:?}"));
        self.form = form;
    }

    /// The tables as an exclusive space.
    pub(crate) fn alone(&self) -> Space {
        // SAFETY: nothing else uses the tables until the operation on it is done.
        let space = unsafe { Space::from_live(&self.cpu(0), self.g, self.half, self.space.root()) };
        let space = space.expect("pages of that size");
        space.set_policy(self.space.policy());
        space.allow_write_execute(self.write_execute);
        space.set_table_attributes(self.space.table_attributes());
        space
    }

    /// The tables as a space of callers with one lock.
    fn with_one_lock<'s>(&self, place: &'s mut MaybeUninit<SharedSpace<1>>) -> &'s SharedSpace<1> {
        let (cpu, root) = (self.cpu(0), self.space.root());
        // SAFETY: nothing else uses the tables until the operation on it is done.
        let space = unsafe { SharedSpace::from_live_in(place, &cpu, (self.g, self.half), root) };
        let space = space.expect("pages of that size");
        space.set_policy(self.space.policy());
        space.allow_write_execute(self.write_execute);
        space.set_table_attributes(self.space.table_attributes());
        if self.fixed_root.is_some() {
            space.fix_root();
        }
        space
    }

    /// Counts what an operation on an exclusive space has left.
    pub(crate) fn count_anew(&mut self) {
        self.count_anew_below(self.space.root(), self.space.policy());
    }

    /// Counts what an operation on another space has left below its root.
    fn count_anew_below(&mut self, root: Pa, policy: Policy) {
        let attributes = self.space.table_attributes();
        // SAFETY: the tables are those of the value that this one replaces.
        let space = unsafe { SharedSpace::from_live(&self.cpu(0), self.g, self.half, root) };
        self.space = space.expect("pages of that size");
        self.space.set_policy(policy);
        self.space.allow_write_execute(self.write_execute);
        self.space.set_table_attributes(attributes);
        if self.fixed_root.is_some() {
            self.space.fix_root();
        }
    }

    /// Lets the root stay where it is.
    pub(crate) fn fix_root(&mut self) {
        self.history.push("the root stays".into());
        self.space.fix_root();
        self.fixed_root = Some(self.space.root());
    }

    /// Allows memory that can be written and executed, on a machine that does not forbid it.
    pub(crate) fn allow_write_execute(&mut self, allow: bool) {
        let allow = allow && self.model.setup().allow_write_execute;
        self.history.push(format!("allow write and execute: {allow}"));
        self.space.allow_write_execute(allow);
        self.write_execute = allow;
    }

    pub(crate) fn refuse_parking(&mut self, refuse: bool) {
        self.history.push(format!("refuse parking: {refuse}"));
        self.model.refuse_parking(refuse);
        self.parkable = !refuse;
    }

    /// Lets the next operation take so many table pages.
    pub(crate) fn limit_frames(&mut self, left: usize) {
        self.history.push(format!("limit frames: {left}"));
        self.model.limit_frames(Some(left));
        self.frames = Some(left);
    }

    /// All of the half.
    pub(crate) fn all(&self) -> (Va, Va) {
        (Va(self.g.base(self.half)), Va(last_of(self.g, self.half)))
    }

    /// Gives new tables restrictions.
    pub(crate) fn restrict_tables(&mut self, tables: TableAttributes) {
        self.history.push(format!("new tables have {tables:?}"));
        self.space.set_table_attributes(tables);
        self.restricted = true;
    }

    /// Returns what tables remove from leaves, where that is the same: the first and last address, and the restrictions.
    fn limits(&self, (first, last): (u64, u64)) -> Vec<(u64, u64, TableLimits)> {
        let mut limits: Vec<(u64, u64, TableLimits)> = Vec::new();
        let _ = self.space.on(&self.cpu(0)).read(|reader| {
            reader.visit((Va(first), Va(last)), |seen| {
                let end = (seen.va.0 + (self.g.level_size(seen.level) - 1)).min(last);
                match limits.last_mut() {
                    _ if matches!(seen.entry, Entry::Table(_)) => {}
                    Some(before) if before.2 == seen.limits => before.1 = end,
                    _ => limits.push((seen.va.0.max(first), end, seen.limits)),
                }
                Continue(())
            })
        });
        limits
    }

    /// Returns announcements of leaves as what a walker makes of them. The tables above them now are what can remove
    /// something: new ones remove nothing.
    fn effective(&self, changes: Vec<Expected>) -> Vec<Expected> {
        let each = |change: Expected| {
            let Some(to) = change.to.filter(|_| self.restricted) else { return vec![change] };
            let parts = self.limits((change.va, change.va + (change.bytes - 1))).into_iter();
            let part = |(va, last, limits): (u64, u64, TableLimits)| {
                let attributes = limits.restrict(Attributes::from_bits_retain(to.attributes)).bits();
                let to = Mapping { pa: to.pa + (va - change.va), attributes, ..to };
                Expected { va, bytes: last - va + 1, to: Some(to), ..change }
            };
            parts.map(part).collect()
        };
        changes.into_iter().flat_map(each).collect()
    }

    /// Returns the permissions of a leaf with what the tables above it remove.
    pub(crate) fn permissions(&self, seen: &Seen) -> Attributes {
        let limits = self.limits((seen.va, seen.va)).first().map_or(TableLimits::empty(), |l| l.2);
        limits.restrict(seen.leaf.attributes)
    }

    fn walk(&self, range: (Va, Va)) -> Walked {
        let mut walked = Walked::default();
        let each = |visited: &linmap::read::Visited| {
            walked.add(visited.va, visited.level, visited.entry);
            Continue(())
        };
        let _ = self.space.on(&self.cpu(0)).read(|reader| reader.visit(range, each));
        walked
    }

    pub(crate) fn predict(&self, operation: &Operation) -> Prediction {
        let now = Circumstances {
            half: self.half,
            policy: self.space.policy(),
            promise: self.promise(),
            write_execute: self.write_execute,
            parkable: self.parkable,
        };
        operation.predict(&self.flat, &self.walked, self.g, now)
    }

    /// Does an operation, and judges it.
    pub(crate) fn does(&mut self, n: u8, operation: &Operation) -> Result<(), Refused> {
        let cpu = self.cpu(n);
        with_locks!(self.locks, LOCKS in [1 8 64] => {
            self.does_on(&ManyLocks::<LOCKS>::new(cpu), cpu, operation)
        })
    }

    /// The same, with a platform on which the CPU does it.
    pub(crate) fn does_on(
        &mut self,
        platform: &impl Platform,
        cpu: OnCpu<'_>,
        operation: &Operation,
    ) -> Result<(), Refused> {
        let before = matches!(operation.what, What::Repaint(_)).then(|| self.walked.leaves.clone());
        self.history.push(format!("cpu {} {:x?}", cpu.number(), operation));
        let form = match self.form {
            _ if self.space.has_pending() => Form::Shared,
            Form::Alone if !operation.is_of_both_forms() => Form::Shared,
            form => form,
        };
        // What a space for one operation leaves for later is invalidated at once.
        let announced = if form == Form::Shared { *operation } else { operation.at_once() };
        let prediction = self.predict(operation);
        let changes = match prediction.result {
            Ok(()) | Err(Refused::Step { .. }) if self.is_remade(operation, &prediction) => {
                let ranges = operation.ranges(&self.flat, self.g);
                let out = remade::without(&self.flat, &ranges);
                ranges.into_iter().flat_map(|range| changes(&out, range)).collect()
            }
            Ok(()) if operation.pages != 0 => {
                let changes = announced.changes(&prediction.flat, self.g).into_iter();
                // What is pending stays pending where translations are not its business.
                let leaves = matches!(operation.what, What::Collapse | What::Repaint(_));
                let left = leaves && self.space.has_pending();
                changes.map(|change| if left { change.invalidated_later() } else { change }).collect()
            }
            _ => Vec::new(),
        };
        let frames = self.tables - self.model.in_use();
        let frames = self.frames.take().map_or(frames, |left| left.min(frames));
        cpu.begins(self.space.root(), operation.name(), &self.effective(changes));
        let events = self.model.events();
        let mut steps = 0;
        let mut step = || {
            steps += 1;
            self.out(cpu, operation, &prediction, form);
        };
        let (mut place, mut after) = (MaybeUninit::uninit(), (self.space.root(), self.space.policy()));
        let result = match form {
            Form::Shared => operation.run(&self.space, platform, &mut step),
            // The CPU's own lock is the one.
            Form::OneLock => {
                let space = self.with_one_lock(&mut place);
                let result = operation.run_at_once(space, &cpu, &mut step);
                after = (space.root(), space.policy());
                result
            }
            // No lock is held, which the platform would miss.
            Form::Alone => operation.run_alone(&mut self.alone(), &cpu, &mut step),
        };
        // A DSB and an ISB, or nothing: then there was no store.
        let stored = self.model.events() - events > if result.is_ok() { 2 } else { 0 };
        cpu.done(result.is_ok());
        assert_eq!(steps > 0, result.is_ok() && self.is_remade(operation, &prediction) || is_step(result));
        self.model.limit_frames(None);
        self.history.push(format!("  {result:x?}"));
        if form != Form::Shared {
            self.count_anew_below(after.0, after.1);
        }
        if stored {
            self.renew(operation, result);
        }
        match result {
            // Some of its leaves may have been cut by then.
            Err(Refused::Change(ChangeError::OutOfFrames { .. }))
                if matches!(operation.what, What::ChangePages(..)) && prediction.is_about_sizes() => {}
            Err(Refused::Change(ChangeError::NeedsResize { policy, .. }))
                if matches!(operation.what, What::ChangePages(..)) =>
            {
                let is = |wanted| matches!(wanted, Err(Refused::Change(ChangeError::NeedsResize { policy: p, .. })) if p == policy);
                assert!(is(prediction.result), "{result:?}, and not {:?}", prediction.result);
            }
            // How many it takes is judged elsewhere.
            Err(Refused::Change(ChangeError::OutOfFrames { taken }))
                if matches!(
                    prediction.result,
                    Ok(()) | Err(Refused::Step { .. } | Refused::Change(ChangeError::CannotPark))
                ) =>
            {
                // What was cut for an area stays so.
                assert!(
                    taken == frames as u64 || matches!(operation.what, What::Aliased(..) | What::Remake(_))
                );
            }
            // Nothing may have been left to collapse that is in use.
            Err(Refused::Change(ChangeError::CannotPark)) if operation.what == What::Collapse => {
                assert!(!self.parkable && self.space.policy() == Policy::Park);
            }
            _ => assert_eq!(result, prediction.result),
        }
        if result.is_ok() || is_step(result) {
            self.flat = prediction.flat;
        }
        self.compare(operation.name());
        if result.is_ok() && operation.pages != 0 {
            self.afterwards(operation);
        }
        if let (What::Repaint(keep), Some(before), Ok(())) = (operation.what, before, result) {
            self.repainted(operation, &before, keep);
        }
        result
    }

    /// Returns true if a remake takes its range out.
    fn is_remade(&self, operation: &Operation, prediction: &Prediction) -> bool {
        let goes = prediction.flat != self.flat || is_step(prediction.result);
        matches!(operation.what, What::Remake(_)) && operation.pages != 0 && goes
    }

    /// The step of a remake: all of it is out, and no TLB has it. Then it comes back, or stays so.
    fn out(&self, cpu: OnCpu<'_>, operation: &Operation, prediction: &Prediction, form: Form) {
        let ranges = operation.ranges(&self.flat, self.g);
        cpu.done(true);
        for &(first, last) in &ranges {
            for va in [first, last] {
                // This space does not know of the claims of another.
                let said = if form == Form::Shared { Remaking::UnderWay } else { Remaking::Failed };
                assert_eq!(self.space.on(&cpu).remaking(Va(va)), Some(said), "at {va:#x}");
            }
        }
        let back = ranges.into_iter().flat_map(|range| changes(&prediction.flat, range)).collect();
        let back = if prediction.result.is_ok() { back } else { Vec::new() };
        cpu.begins(self.space.root(), "remake: back", &self.effective(back));
    }

    /// Looks at what an operation may have changed: the leaves that it had a part of, and where they
    /// collapse, all that could be in one leaf with its range. A refusal changes nothing.
    fn renew(&mut self, operation: &Operation, result: Result<(), Refused>) {
        let g = self.g;
        if let Err(error) = result.or_else(|error| if is_step(Err(error)) { Ok(()) } else { Err(error) }) {
            let now = self.walk(self.all());
            // What was cut stays cut: by a list of pages, and where table pages run out or CPUs stop parking between the holds of
            // an area's change.
            let half_way = match operation.what {
                What::Aliased(..) | What::Remake(_) => matches!(
                    error,
                    Refused::Change(ChangeError::CannotPark | ChangeError::OutOfFrames { .. })
                ),
                What::ChangePages(..) => matches!(
                    error,
                    Refused::Change(
                        ChangeError::OutOfFrames { .. }
                            | ChangeError::CannotPark
                            | ChangeError::NeedsResize { .. }
                    )
                ),
                _ => false,
            };
            assert!(
                operation.what == What::Collapse || half_way || now == self.walked,
                "{operation:?} is refused, {error:?}, and the map is another"
            );
            self.walked = now;
            return;
        }
        for range in operation.ranges(&self.flat, g) {
            self.renew_range(operation, range);
        }
    }

    fn renew_range(&mut self, operation: &Operation, (mut first, mut last): (u64, u64)) {
        let g = self.g;
        if operation.what == What::Collapse {
            let largest = g.new_leaf_sizes()[0].bytes() - 1;
            (first, last) = (first & !largest, last | largest);
        }
        for seen in self.walked.within(first, last, g) {
            let whole = seen.whole(g);
            (first, last) = (first.min(whole.0), last.max(whole.1));
        }
        let now = self.walk((Va(first), Va(last)));
        self.walked.renew((first, last), now, g);
    }

    /// All of the map is what it is known for.
    pub(crate) fn rest(&self) {
        assert_eq!(self.walk(self.all()), self.walked, "a change outside of the range");
    }

    /// The tables say what they must, and so do the counts.
    fn compare(&self, what: &str) {
        assert_eq!(self.walked.flat(self.g), self.flat, "after {what}");
        let stats = self.walked.stats();
        assert_eq!(self.space.on(&self.cpu(0)).stats(), stats, "counts after {what}");
        let tables = self.model.in_use() - self.besides;
        assert_eq!(tables as u64, stats.tables, "table pages in use after {what}");
        assert_eq!(self.walked.empty_table(self.g), None, "a table without an entry after {what}");
        assert!(self.fixed_root.is_none_or(|root| root == self.space.root()), "another root after {what}");
        let largest = self.g.new_leaf_sizes()[0].bytes();
        let beyond =
            self.walked.leaves.iter().find(|seen| seen.whole(self.g).1 - seen.whole(self.g).0 >= largest);
        assert_eq!(beyond, None, "a leaf beyond the limit after {what}");
    }

    /// The sizes that an operation promises.
    fn afterwards(&self, operation: &Operation) {
        let (first, last) = (operation.va, operation.last(self.g));
        let leaves = self.walked.within(first, last, self.g);
        let live = match self.space.policy() {
            Policy::Live => self.promise().never_aborts,
            Policy::Park => true,
            Policy::Pages | Policy::Fixed => false,
        };
        match operation.what {
            What::SplitToPages => {
                let page = |s: &Seen| s.level == Level::PAGE && !s.leaf.contiguous;
                assert!(leaves.iter().all(page), "not in pages");
            }
            What::Map(..) if self.space.policy() == Policy::Pages => {
                let page = |s: &Seen| s.level == Level::PAGE && !s.leaf.contiguous;
                assert!(leaves.iter().all(page), "not in pages");
            }
            // What is pending stays as it is.
            // A table with restrictions may have to stay.
            What::Collapse if live && !self.restricted && !self.space.has_pending() => {
                // Only valid leaves collapse, and none that stays split.
                let merges =
                    |seen: &&Seen| seen.leaf.valid && !seen.leaf.attributes.contains(Attributes::STAYS_SPLIT);
                for seen in leaves.iter().filter(merges) {
                    let size = self.largest_near(seen.va, (first, last));
                    let is = (seen.level, seen.leaf.contiguous);
                    assert_eq!(is, (size.level, size.contiguous), "the size at {:#x}", seen.va);
                }
            }
            _ => {}
        }
    }

    /// Leaves of the range that keep their size are those that were there, and all others pages.
    fn repainted(&self, operation: &Operation, before: &[Seen], keep: Option<(u64, u64)>) {
        let (g, first, last) = (self.g, operation.va, operation.last(self.g));
        let keeps = |seen: &&Seen| {
            let (start, end) = seen.whole(g);
            keep.is_some_and(|k| k.0 <= start && end <= k.1)
        };
        let page = |s: &Seen| s.level == Level::PAGE && !s.leaf.contiguous;
        let inside = |s: &&Seen| first <= s.va && s.va <= last;
        let kept: Vec<&Seen> = before.iter().filter(inside).filter(keeps).collect();
        let now = self.walked.leaves.iter().filter(inside);
        let (large, pages): (Vec<&Seen>, Vec<&Seen>) =
            now.partition(|s| kept.binary_search_by_key(&s.va, |k| k.va).is_ok());
        assert_eq!(large, kept, "leaves that keep their size");
        assert!(pages.iter().all(|s| page(s)), "not in pages");
        let outside = |s: &&Seen| !inside(s);
        assert!(before.iter().filter(outside).eq(self.walked.leaves.iter().filter(outside)), "outside of it");
        assert_eq!(self.space.policy(), Policy::Pages);
    }

    /// Returns the number of table pages that are left.
    pub(crate) fn free(&self) -> u64 {
        (self.tables - self.model.in_use()) as u64
    }

    /// Returns the number of table pages that a repaint of a range takes if no leaf keeps its size.
    pub(crate) fn repaint_takes(&self, first: u64, last: u64) -> u64 {
        let g = self.g;
        let pieces = self.flat.within(first, last).into_iter().filter_map(|(a, b, to)| Some((a, b, to?)));
        let runs = pieces.flat_map(|(a, b, _)| {
            let (va, oa, bytes) = (Va(a), Pa(0), b - a + 1);
            Region { va, oa, bytes, attributes: Attributes::RAM, leaves: Leaves::Pages }.runs(g)
        });
        Stats::of_runs(g, runs).tables
    }

    /// The largest leaf that an address could be in if only tables with a part of a range collapse.
    fn largest_near(&self, va: u64, (first, last): (u64, u64)) -> LeafSize {
        let g = self.g;
        let apart = |seen: &Seen| {
            let table = (1 << (g.level_shift(seen.level) + g.index_bits())) - 1;
            seen.va | table < first || last < seen.va & !table
        };
        let possible = |size: &LeafSize| {
            let span = (va & !(size.bytes() - 1), va | (size.bytes() - 1));
            let leaves = self.walked.within(span.0, span.1, g);
            !leaves.iter().any(|seen| seen.level > size.level && apart(seen))
        };
        fitting(&self.flat, va, g).into_iter().find(possible).expect("it is mapped")
    }

    /// The library's own count, and the machine at rest.
    pub(crate) fn finish(&self) {
        self.rest();
        assert_eq!(self.space.on(&self.cpu(0)).read(|reader| reader.count(self.all())), self.walked.stats());
        self.model.finish().unwrap_or_else(|breach| panic!("{breach}"));
    }
}

/// Prints the operations if the test fails.
impl Drop for World<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}, {:?}; map at first or now: {:x?}", self.g, self.half, self.flat);
            self.history.iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// The last address of a half.
pub(crate) fn last_of(g: Geometry, half: Half) -> u64 {
    g.base(half) + ((1 << g.va_bits()) - 1)
}

/// RAM at `va`, in the largest leaves.
pub(crate) fn ram(va: u64, oa: u64, bytes: u64) -> Region {
    let attributes = Attributes::RAM;
    Region { va: Va(va), oa: Pa(oa), bytes, attributes, leaves: Leaves::Largest }
}
