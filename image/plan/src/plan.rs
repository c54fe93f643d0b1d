//! The plan of memory: what is mapped, what is in use, what is free.
//!
//! All of it comes from a boot loader and is not trusted. What makes no sense is reported. If something sane remains to
//! be done, it is done; otherwise the boot ends with a [`PlanError`].

use core::fmt;
use core::ops::Range;

use linmap::arch::Level;
use linmap::error::LayoutError;
use linmap::layout::ImageAlias;
use linmap::{Geometry, Layout, Leaves, Pa, Rodata, Stats};

use crate::bootargs::{BootArgs, Reservation};
use crate::note::{Loaded, Note, Obstacle};
use crate::ranges::{Lost, Ranges};
use crate::scratch::{Scratch, Wanted};

/// The input of a plan.
#[derive(Clone, Debug)]
pub struct Given<'a> {
    /// RAM, without the ranges that must not be mapped.
    pub ram: &'a Ranges,
    /// RAM that is mapped, but reserved.
    pub reserved: &'a Ranges,
    /// Memory that must not be mapped.
    pub no_map: &'a Ranges,
    /// The boot arguments.
    pub args: &'a BootArgs<'a>,
    /// The geometry of the linear map.
    pub geometry: Geometry,
    /// The bits of a physical address, 52 at most.
    pub pa_bits: u32,
    /// The kernel image.
    pub image: Range<Pa>,
    /// Its code and constants.
    pub read_only: Range<Pa>,
    /// Its data and bss.
    pub data: Range<Pa>,
    /// The device tree.
    pub tree: Range<Pa>,
}

/// Storage for the ranges of a plan.
#[derive(Clone, Debug, Default)]
pub struct Room {
    ram: Ranges,
    carve_outs: Ranges,
}

/// The plan of a machine's memory.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The layout of the linear map.
    pub layout: Layout<'a>,
    /// RAM in the linear map that is not in use, in whole pages; never address 0.
    pub free: Ranges,
    /// RAM set aside for tasks that change the map; empty if there are none.
    pub scratch: Scratch,
    /// The crash kernel's reservation.
    pub crash: Option<Range<Pa>>,
    /// The kernel image's code and constants, if the linear map reaches them; else empty.
    pub alias: Range<Pa>,
    /// RAM beyond the CPU's physical addresses, in bytes.
    pub beyond_bytes: u64,
}

/// The reason why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// The ranges make no linear map: there is not one whole page of RAM.
    Layout(LayoutError),
    /// All RAM is beyond the CPU's physical addresses.
    Beyond {
        /// The bytes of RAM.
        bytes: u64,
        /// The bits of a physical address.
        pa_bits: u32,
    },
    /// The device tree and the image share memory, so neither can be trusted.
    TreeInImage {
        /// The device tree.
        tree: Range<Pa>,
        /// The image.
        image: Range<Pa>,
    },
    /// Not one page is free.
    NothingFree {
        /// The bytes in the linear map.
        bytes: u64,
    },
    /// No free range has room for the tables.
    NoRoomForTables {
        /// The bytes of the tables.
        needed: u64,
        /// The longest free range.
        longest: Range<Pa>,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout(e) => e.fmt(f),
            Self::Beyond { bytes, pa_bits } => {
                write!(f, "no RAM: all {bytes:#x} bytes are beyond the {pa_bits}-bit addresses of this CPU")
            }
            Self::TreeInImage { tree, image } => write!(
                f,
                "the device tree at {tree:?} overlaps the kernel image at {image:?}: the loader must keep \
                 image_size bytes apart"
            ),
            Self::NothingFree { bytes } => write!(
                f,
                "the linear map cannot be made: out of table pages, as the kernel image, the device tree \
                 and reserved memory take all of {bytes:#x} bytes of RAM"
            ),
            Self::NoRoomForTables { needed, longest } => write!(
                f,
                "the linear map cannot be made: out of table pages, as it takes {needed:#x} bytes of them from one \
                 range, and the longest free one is {longest:?}"
            ),
        }
    }
}

impl core::error::Error for PlanError {}

/// A plan without the layout of the linear map, which is made of the lists that come with it.
#[derive(Clone, Debug)]
pub struct Draft {
    free: Ranges,
    scratch: Scratch,
    crash: Option<Range<Pa>>,
    alias: Range<Pa>,
    beyond_bytes: u64,
}

/// The lists that a layout of the linear map is made of.
#[derive(Debug)]
pub struct Lists<'a> {
    geometry: Geometry,
    ram: &'a mut [Range<Pa>],
    carve_outs: &'a mut [Range<Pa>],
    image: Range<Pa>,
    rodata: Rodata,
    data: (Range<Pa>, ImageAlias),
}

impl<'a> Lists<'a> {
    /// Lays the linear map out.
    ///
    /// # Errors
    ///
    /// The ranges make no linear map.
    #[inline]
    pub fn lay_out(self) -> Result<Layout<'a>, LayoutError> {
        let Self { geometry, ram, carve_outs, image, rodata, data: (data, alias) } = self;
        if data.is_empty() {
            return Layout::new(geometry, ram, carve_outs, image, rodata);
        }
        Layout::new(geometry, ram, carve_outs, image, rodata)?.with_data(data, alias)
    }
}

impl Draft {
    /// Drafts a plan. Calls `note` for each thing that is left out or moved.
    ///
    /// # Errors
    ///
    /// There is no RAM to map or none is free, or the device tree overlaps the image.
    pub fn new<'a>(
        given: &Given<'_>,
        room: &'a mut Room,
        note: &mut dyn FnMut(Note<'_>),
    ) -> Result<(Self, Lists<'a>), PlanError> {
        let Given { ram: all, args, geometry, pa_bits, image, tree, .. } = given;
        if overlap(image, tree) {
            return Err(PlanError::TreeInImage { tree: tree.clone(), image: image.clone() });
        }
        let Room { ram, carve_outs } = room;
        *ram = (*all).clone();
        *carve_outs = Ranges::new();
        ram.keep(&(Pa(0)..Pa(1 << pa_bits)));
        let beyond_bytes = all.bytes() - ram.bytes();
        let reached = reached(*geometry, ram).map_err(|e| match e {
            LayoutError::NoRam if ram.bytes() == 0 && beyond_bytes != 0 => {
                PlanError::Beyond { bytes: beyond_bytes, pa_bits: *pa_bits }
            }
            e => PlanError::Layout(e),
        })?;

        let mut free = unspoken(given, &reached, note);
        let crash = args.crashkernel.and_then(|asked| crash_kernel(asked, given, (&reached, &free), note));
        if let Some(crash) = &crash {
            if let Some(lost) = free.remove_or_lose(crash) {
                note(Note::FreeRangeLost(lost));
            }
            // One range always has room.
            let _ = carve_outs.add(crash.clone());
        }
        if free.as_slice().is_empty() {
            return Err(PlanError::NothingFree { bytes: reached.bytes() });
        }
        let scratch = if args.has_changing_task() {
            let wanted = if args.measures() { Wanted::Most } else { Wanted::Leaves };
            Scratch::take(&mut free, &reached, *geometry, wanted)
        } else {
            Scratch::default()
        };
        let alias = alias(given, &reached, note);
        let lists = Lists {
            geometry: *geometry,
            ram: ram.as_mut_slice(),
            carve_outs: carve_outs.as_mut_slice(),
            image: alias.clone(),
            rodata: args.rodata,
            data: (data(given, &reached), args.data),
        };
        Ok((Self { free, scratch, crash, alias, beyond_bytes }, lists))
    }

    /// Completes the plan by the layout of its lists.
    pub fn with(self, layout: Layout<'_>) -> Plan<'_> {
        let Self { free, scratch, crash, alias, beyond_bytes } = self;
        Plan { layout, free, scratch, crash, alias, beyond_bytes }
    }
}

impl<'a> Plan<'a> {
    /// Makes a plan. Calls `note` for each thing that is left out or moved.
    ///
    /// # Errors
    ///
    /// As for [`Draft::new`].
    pub fn new(
        given: &Given<'_>,
        room: &'a mut Room,
        note: &mut dyn FnMut(Note<'_>),
    ) -> Result<Self, PlanError> {
        let (draft, lists) = Draft::new(given, room, note)?;
        Ok(draft.with(lists.lay_out().map_err(PlanError::Layout)?))
    }

    /// Returns the free RAM for the tables of the linear map: as much as they need, from one range.
    ///
    /// It is reached through a temporary 1:1 map, which needs a table for each block that is only partly in it. So the
    /// range is whole blocks if the longest free range has them.
    ///
    /// # Errors
    ///
    /// The longest range is shorter than the tables.
    pub fn first_frames(&self, leaves: Leaves) -> Result<Range<Pa>, PlanError> {
        let geometry = self.layout.geometry();
        // The root exists before.
        let tables = Stats::of_runs(geometry, self.layout.runs(leaves)).table_bytes(geometry);
        let needed = tables - geometry.page_size();
        let longest = self.free.longest();
        if longest.end.0 - longest.start.0 < needed {
            return Err(PlanError::NoRoomForTables { needed, longest });
        }
        let block = geometry.level_size(Level::new(2));
        let whole = || {
            let start = longest.start.0.checked_next_multiple_of(block)?;
            let end = start.checked_add(needed.checked_next_multiple_of(block)?)?;
            (end <= longest.end.0).then_some(Pa(start)..Pa(end))
        };
        Ok(whole().unwrap_or_else(|| longest.start..Pa(longest.start.0 + needed)))
    }
}

/// Returns the bytes of an image from its start on that are mapped read-only, of those that code and constants take: whole
/// pages, and at 4K whole runs of 64K, as a run that ends in between would be a leaf more in each map. The rest up to the data
/// is free RAM.
pub const fn read_only_bytes(code_and_constants: u64, page: u64) -> u64 {
    const RUN_OF_4K: u64 = 64 << 10;
    code_and_constants.next_multiple_of(if page < 16 << 10 { RUN_OF_4K } else { page })
}

/// Returns the whole pages of RAM in the linear map.
fn reached(geometry: Geometry, ram: &Ranges) -> Result<Ranges, LayoutError> {
    let mut copy = ram.clone();
    let mapped =
        Layout::new(geometry, copy.as_mut_slice(), &mut [], Pa(0)..Pa(0), Rodata::Off)?.mapped().clone();
    let mut reached = ram.clone();
    reached.keep_whole(geometry.page_size());
    reached.keep(&mapped);
    Ok(reached)
}

/// Returns the RAM in the linear map that is neither image nor device tree nor reserved. If there are too many ranges,
/// keeps the longest.
fn unspoken(given: &Given<'_>, reached: &Ranges, note: &mut dyn FnMut(Note<'_>)) -> Ranges {
    let page = given.geometry.page_size();
    // Address 0 ends the free list.
    let first_page = Pa(0)..Pa(page);
    let spoken_for = given.reserved.as_slice().iter().chain([&given.image, &given.tree, &first_page]);
    let (mut free, mut lost) = (Ranges::new(), Lost::default());
    for range in reached.without(spoken_for.map(|range| outward(range, page))) {
        lost.count(free.add_or_lose(range));
    }
    if lost != Lost::default() {
        note(Note::FreeMemoryLost(lost));
    }
    for (range, what) in [(&given.image, Loaded::Image), (&given.tree, Loaded::DeviceTree)] {
        if given.no_map.as_slice().iter().any(|r| overlap(r, range)) {
            note(Note::LoadedInNoMap(what, range.clone()));
        }
    }
    free
}

/// Returns code and constants of the image if the linear map has them; otherwise an empty range.
fn alias(given: &Given<'_>, reached: &Ranges, note: &mut dyn FnMut(Note<'_>)) -> Range<Pa> {
    let page = given.geometry.page_size();
    let range = outward(&given.read_only, page);
    if reached.covers(&range) {
        return given.read_only.clone();
    }
    let mut ram = given.ram.clone();
    ram.keep_whole(page);
    note(Note::ImageNotReached { image: given.image.clone(), is_ram: ram.covers(&range) });
    Pa(0)..Pa(0)
}

/// Returns data and bss of the image if the linear map has them and their alias is not as all RAM; otherwise an empty
/// range. That the map does not reach the image has been noted.
fn data(given: &Given<'_>, reached: &Ranges) -> Range<Pa> {
    let range = outward(&given.data, given.geometry.page_size());
    let apart = given.args.data != ImageAlias::Writable && reached.covers(&range);
    if apart { range } else { Pa(0)..Pa(0) }
}

/// Returns the place of the crash kernel: as asked, or at the top of the longest free range; 2 MiB aligned.
fn crash_kernel(
    asked: Reservation,
    given: &Given<'_>,
    (reached, free): (&Ranges, &Ranges),
    note: &mut dyn FnMut(Note<'_>),
) -> Option<Range<Pa>> {
    let align = given.geometry.page_size().max(2 << 20u32);
    let mut blocks = free.clone();
    blocks.keep_whole(align);
    let roomiest = blocks.longest();
    let size = asked.size.checked_next_multiple_of(align).unwrap_or(u64::MAX);
    let start = match asked.at {
        Some(at) => at & !(align - 1),
        None => roomiest.end.0.saturating_sub(size),
    };
    let range = Pa(start)..Pa(start.saturating_add(size));
    if range.end.0 - range.start.0 != size || !blocks.covers(&range) {
        let obstacle = if asked.at.is_some() { obstacle(&range, given, reached) } else { Obstacle::NotFree };
        note(Note::CrashKernelRefused { range, size, obstacle, longest: roomiest });
        return None;
    }
    if free.bytes() == size {
        note(Note::CrashKernelTakesAll { size });
        return None;
    }
    if size != asked.size || asked.at.is_some_and(|at| at != start) {
        note(Note::CrashKernelMoved { align, range: range.clone() });
    }
    Some(range)
}

/// Returns what keeps a range from being free.
fn obstacle(range: &Range<Pa>, given: &Given<'_>, reached: &Ranges) -> Obstacle {
    if !reached.covers(range) {
        Obstacle::NotReached
    } else if overlap(range, &given.image) {
        Obstacle::Image
    } else if overlap(range, &given.tree) {
        Obstacle::DeviceTree
    } else if given.reserved.as_slice().iter().any(|r| overlap(range, r)) {
        Obstacle::Reserved
    } else {
        Obstacle::NotFree
    }
}

/// Returns a range with its ends moved outward to multiples of `size`, or to the last multiple.
fn outward(range: &Range<Pa>, size: u64) -> Range<Pa> {
    let down = |address: u64| Pa(address & !(size - 1));
    if range.is_empty() {
        Pa(0)..Pa(0)
    } else {
        down(range.start.0)..down(range.end.0.saturating_add(size - 1))
    }
}

fn overlap(a: &Range<Pa>, b: &Range<Pa>) -> bool {
    !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end
}
