//! RAM comes and goes on the model: what is removed is given to someone else at once, and nothing may lead to it then.

use linmap::error::ChangeError;
use linmap::{Attributes, Change, Geometry, Half, Hotplug, Layout, Pa, Policy, Promise, Region, Va};
use linmap_model::Core;
use test_support::{Random, Rows, geometries, some_geometries};

use crate::flat::{Mapped, changes, fewest, kept};
use crate::operation::{Operation, Refused, What};
use crate::sequences::any_cores;
use crate::unmap_all::walked;
use crate::world::{Machine, World, ram};

/// The first address of RAM: not where the table pages are.
const RAM: u64 = 4 << 30;

/// Adjacent ranges, as first address and bytes: of pages up to large leaves, but not in many tables.
fn ranges(g: Geometry, policy: Policy, random: &mut Random) -> Vec<(u64, u64)> {
    let sizes = g.new_leaf_sizes();
    let (mut at, mut ranges) = (RAM, Vec::new());
    for _ in 0..2 + random.below(3) {
        let size = random.of(&sizes).bytes().min(2 << 30);
        let mut bytes = g.page_size() * (1 + random.below(40));
        if policy != Policy::Pages {
            bytes += size * random.below(3);
            if random.one_in(2) {
                bytes = (at + bytes).next_multiple_of(size) - at;
            }
        }
        ranges.push((at, bytes));
        at += bytes;
    }
    ranges
}

/// The machine, its ranges of RAM, and which of them are there.
struct Slots<'m> {
    world: World<'m>,
    ranges: Vec<(u64, u64)>,
    there: Vec<bool>,
    live: bool,
}

impl Slots<'_> {
    /// The span of a range in the linear map.
    fn span(&self, n: usize) -> (u64, u64) {
        let first = self.world.g.base(Half::Upper) + self.ranges[n].0;
        (first, first + (self.ranges[n].1 - 1))
    }

    /// Adds or removes a range on some CPU, and judges it.
    fn turn(&mut self, n: usize, cpu: u8, expected: Result<(), ChangeError>) {
        let (world, (pa, bytes)) = (&self.world, self.ranges[n]);
        let (g, cpu, adds, span) = (world.g, world.cpu(cpu), !self.there[n], self.span(n));
        let to = Mapped { pa, attributes: Attributes::RAM, valid: true };
        let after = world
            .flat
            .clone()
            .with(span.0, span.1, |va, _| adds.then(|| kept(Mapped { pa: pa + (va - span.0), ..to }, g)));
        let after = if expected.is_ok() { after } else { world.flat.clone() };
        let mut of_one_page = [Pa(RAM)..Pa(RAM + g.page_size())];
        let layout = Layout::of_ram(g, &mut of_one_page).and_then(|layout| layout.at(g.base(Half::Upper)));
        let mut hotplug = Hotplug::new(world.space.on(&cpu), layout.as_ref().expect("RAM that is reached"));
        let announced = if expected.is_ok() { changes(&after, span) } else { Vec::new() };
        let memory = Pa(pa)..Pa(pa + bytes);
        let result = if adds {
            cpu.takes(memory.start, bytes);
            cpu.begins(world.space.root(), "hot-add", &announced);
            // SAFETY: tables of a model: no CPU uses the addresses.
            unsafe { hotplug.add(memory) }
        } else {
            cpu.begins(world.space.root(), "hot-remove", &announced);
            // SAFETY: as above.
            unsafe { hotplug.remove(memory) }
        };
        cpu.done(result.is_ok());
        assert_eq!(result, expected, "range {n} of {:x?}", self.ranges);
        if result.is_ok() {
            self.there[n] = adds;
            if !adds {
                cpu.gives(Pa(pa), bytes);
            }
        }
        let world = &mut self.world;
        world.walked = walked(world);
        world.flat = after;
        assert_eq!(world.walked.flat(g), world.flat);
        assert_eq!(world.space.on(&cpu).stats(), world.walked.stats());
        assert_eq!(world.walked.empty_table(g), None);
        if self.live {
            assert_eq!(world.walked.stats(), fewest(&world.flat, g), "as if it had been there at boot");
        }
    }

    /// The error of a removal where a leaf would have to change its size, and nobody permits that.
    fn refused(&self, n: usize) -> Option<ChangeError> {
        let (world, (first, last)) = (&self.world, self.span(n));
        let cut = world.walked.within(first, last, world.g).iter().map(|seen| seen.whole(world.g));
        let policy = world.space.policy();
        let whole = |&(start, end): &(u64, u64)| start < first || last < end;
        cut.filter(|_| !self.live)
            .find(whole)
            .map(|(start, _)| ChangeError::NeedsResize { va: Va(start), policy })
    }

    /// A page of a range is made special, and the range stays.
    fn special(&mut self, n: usize, random: &mut Random) {
        let (g, (first, _)) = (self.world.g, self.span(n));
        let page = random.below(self.ranges[n].1 / g.page_size());
        let va = first + page * g.page_size();
        let (to, back) =
            random.of(&[(Change::READ_ONLY, Change::WRITABLE), (Change::INVALID, Change::VALID)]);
        let change = |change| Operation { what: What::Protect(change), va, pages: 1 };
        if self.world.does(0, &change(to)).is_ok() {
            let leaf = self.world.walked.within(va, va, g)[0].whole(g).0;
            self.turn(n, 1, Err(ChangeError::NotRam { va: Va(va.max(leaf)) }));
            self.world.does(1, &change(back)).expect("it was possible before");
            _ = self.world.does(0, &Operation { what: What::Collapse, va, pages: 1 });
        }
    }
}

#[test]
fn ram_comes_and_goes() {
    let mut rows = Rows::new();
    for g in some_geometries(3) {
        rows.row(|seed| at(g, &mut Random::new(seed)));
    }
}

fn at(g: Geometry, random: &mut Random) {
    let cores = any_cores(random);
    let policy = random.of(&[Policy::Live, Policy::Live, Policy::Park, Policy::Pages, Policy::Fixed]);
    let ranges = ranges(g, policy, random);
    let machine = Machine::new(g, &cores, 90, 0x1000_0000);
    let (first, bytes) = ranges[0];
    let region = ram(g.base(Half::Upper) + first, first, bytes);
    let regions = if policy == Policy::Pages {
        vec![Region { leaves: linmap::Leaves::Pages, ..region }]
    } else {
        vec![region]
    };
    let mut world = World::new(&machine, Half::Upper, &regions);
    world.set_policy(policy);
    let Promise { never_aborts, .. } = world.promise();
    let live = policy == Policy::Park || policy == Policy::Live && never_aborts;
    let there: Vec<bool> = (0..ranges.len()).map(|n| n == 0).collect();
    let cpu = world.cpu(0);
    ranges[1..].iter().for_each(|&(pa, bytes)| cpu.gives(Pa(pa), bytes));
    let mut slots = Slots { world, ranges, there, live };
    for _ in 0..12 {
        let n = random.index(slots.ranges.len());
        if slots.there[n] && random.one_in(3) {
            slots.special(n, random);
        }
        let refused = slots.refused(n).filter(|_| slots.there[n]);
        slots.turn(n, random.below(4) as u8, refused.map_or(Ok(()), Err));
    }
    slots.world.finish();
}

/// One CPU may abort: the leaves stay apart, and come and go on their own.
#[test]
fn where_nothing_merges() {
    let g = geometries()[8];
    let machine = Machine::new(g, &[Core::STRONG, Core::WEAK], 30, 0x1000_0000);
    let region = ram(g.base(Half::Upper) + RAM, RAM, 3 << 20);
    let mut world = World::new(&machine, Half::Upper, &[region]);
    world.set_policy(Policy::Live);
    world.cpu(0).gives(Pa(RAM + (3 << 20)), 1 << 20);
    let ranges = vec![(RAM, 3 << 20), (RAM + (3 << 20), 1 << 20)];
    let mut slots = Slots { world, ranges, there: vec![true, false], live: false };
    let boot = slots.world.walked.stats();
    for _ in 0..2 {
        slots.turn(1, 0, Ok(()));
        slots.turn(1, 1, Ok(()));
        assert_eq!(slots.world.walked.stats(), boot);
    }
}

/// A block that follows a page in the map, and does not follow it in memory: its address is wrong in bits that its descriptor
/// does not have.
#[test]
fn a_block_at_another_address_stays() {
    for g in some_geometries(3) {
        let machine = Machine::new(g, &[Core::STRONG], 30, 0x1000_0000);
        let (page, block) = (g.page_size(), g.level_size(linmap::arch::Level::new(2)));
        let at = g.base(Half::Upper) + 4 * block;
        let regions = [ram(at - page, 8 * block, page), ram(at, 8 * block, block)];
        let mut world = World::new(&machine, Half::Upper, &regions);
        world.set_policy(Policy::Live);
        let offset = (at - page).wrapping_sub(8 * block);
        let remove = |pages| Operation { what: What::HotRemove(offset), va: at - page, pages };
        let refused = Err(Refused::Change(ChangeError::NotRam { va: Va(at) }));
        assert_eq!(world.does(0, &remove(2)), refused);
        assert_eq!(world.does(0, &remove(1)), Ok(()));
        world.finish();
    }
}
