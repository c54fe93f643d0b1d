//! The linear map of a plan comes up, and free RAM goes to the frame source.

use core::fmt;
use core::ops::Range;

use kernel_plan::bootargs::BootArgs;
use kernel_plan::choice;
use kernel_plan::plan::{Plan, PlanError};
use kernel_plan::ranges::CAPACITY;
use kernel_plan::uart::Consoles;
use linmap::cpu::Features;
use linmap::error::{BuildError, CreateError};
use linmap::policy::Decision;
use linmap::{Combined, Geometry, Pa, Policy, Reserved, SharedSpace, Stats};

use crate::boot;
use crate::counters::{Counters, Window};
use crate::early::{self, Moment};
use crate::frames::{Frames, Together};
use crate::hardware::HARDWARE;
use crate::image::Image;
use crate::warning::warn;
use crate::{console, identity, parking};

unsafe extern "C" {
    fn mark_create_begin();
    fn mark_create_end();
}

/// The linear map, up.
pub(crate) struct Mapped {
    /// The upper half.
    pub(crate) space: &'static SharedSpace,
    /// The counts of the linear map.
    pub(crate) stats: Stats,
    /// The costs.
    pub(crate) costs: Costs,
    /// The table pages of the 1:1 map; none if there was no memory for one.
    pub(crate) identity_tables: u64,
}

/// The reason why there is no linear map.
#[derive(Debug)]
pub(crate) enum NotMapped {
    /// There is no room for its tables.
    Plan(PlanError),
    /// The library refused.
    Map(CreateError),
}

impl fmt::Display for NotMapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(e) => e.fmt(f),
            Self::Map(e) => write!(f, "the linear map cannot be made: {e}"),
        }
    }
}

impl From<PlanError> for NotMapped {
    fn from(e: PlanError) -> Self {
        Self::Plan(e)
    }
}

impl From<BuildError> for NotMapped {
    fn from(e: BuildError) -> Self {
        Self::Map(e.into())
    }
}

impl From<CreateError> for NotMapped {
    fn from(e: CreateError) -> Self {
        Self::Map(e)
    }
}

/// The costs of creation, in the order of its steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// The layout.
    pub(crate) layout: Window,
    /// The temporary 1:1 map, and the choice of the RAM in it.
    pub(crate) identity_build: Window,
    /// The switch to it and to the image's own map.
    pub(crate) switch: Window,
    /// The linear map.
    pub(crate) create: Window,
    /// Leaving the temporary 1:1 map, and giving its tables back.
    pub(crate) identity_discard: Window,
    /// The image's own map, which is no part of the linear map's creation.
    pub(crate) image_map: Window,
}

impl Costs {
    /// Returns the steps with their names.
    pub(crate) const fn steps(&self) -> [(&'static str, &Window); 5] {
        [
            ("layout", &self.layout),
            ("identity_build", &self.identity_build),
            ("switch", &self.switch),
            ("create", &self.create),
            ("identity_discard", &self.identity_discard),
        ]
    }
}

/// Enters the chosen geometry, creates the linear map from free RAM, and takes the temporary 1:1 map down.
///
/// # Errors
///
/// There is no room for the tables, or the library refuses.
pub(crate) fn bring_up(
    (args, plan): (&BootArgs<'_>, &Plan<'_>),
    frames: &Frames,
    image: &Image,
    (geometry, features): (Geometry, &Features),
    consoles: &Consoles,
    decision: &Decision,
    (counters, layout): (&Counters, Window),
) -> Result<Mapped, NotMapped> {
    let last = plan.free.as_slice().last().map_or(Pa(0), |r| r.end);
    let reach = last.max(image.range().end).0;
    let Ok(lower) = choice::identity_geometry(geometry, reach) else {
        return Err(BuildError::OutOfRange { va: linmap::Va(reach) }.into());
    };
    // SAFETY: the image's own memory, set aside in image.ld; nothing else uses it.
    give(&image.pool(geometry.page_size()), |r| unsafe { frames.add(r) });
    let leaves = decision.leaves();
    let pages = Together::of(frames);
    let (reached, identity_build) = counters.window(&HARDWARE.cpu, || -> Result<_, NotMapped> {
        let enough = image_has_tables(plan, image, decision);
        let first_frames = if enough { Pa(0)..Pa(0) } else { plan.first_frames(leaves)? };
        let identity = boot::identity_tree(&pages, lower, image, &first_frames)?;
        Ok((first_frames, identity))
    });
    let (first_frames, identity) = reached?;
    let build = || boot::image_tree(frames, geometry, image, consoles);
    let (upper, image_map) = counters.window(&HARDWARE.cpu, build);
    let trees = (upper?, identity);
    let (booted, switch) = counters.window(&HARDWARE.cpu, || -> Result<_, NotMapped> {
        let booted = boot::enter(frames, &HARDWARE.cpu, image, features, trees, consoles)?;
        // SAFETY: free RAM, which `enter` has mapped 1:1.
        give(&first_frames, |r| unsafe { frames.add(r) });
        Ok(booted)
    });
    let booted = booted?;
    // SAFETY: `enter` has just mapped both as device memory, for good: the console of the description, and a page
    // that is not RAM.
    unsafe {
        console::may_fall_back_to(booted.fallback_console);
        match booted.named_console {
            Some((kind, registers)) => console::attach(kind, registers),
            None => console::fall_back(),
        }
    }

    // SAFETY: markers do nothing.
    unsafe { mark_create_begin() };
    // SAFETY: all live tables are of this frame source, and locked through `HARDWARE` alone.
    let platform = unsafe { Combined::new(frames, &HARDWARE) };
    // SAFETY: the plan's RAM is RAM in the device tree; the image's own map has it as normal memory, too, and nothing
    // depends on the free part of it. Text and constants are read-only, unless rodata=off asks for it.
    let create = || unsafe { booted.space.on(&platform).create(&plan.layout, leaves) };
    let (created, create) = counters.window(&HARDWARE.cpu, create);
    // SAFETY: as above.
    unsafe { mark_create_end() };
    let stats = created?;
    // From the first moment on a leaf can be split.
    booted.space.set_policy(decision.policy);

    let boot::Booted { space, empty, .. } = booted;
    let space: &'static SharedSpace = space;
    let ((), identity_discard) = counters.window(&HARDWARE.cpu, || {
        // SAFETY: the linear map reaches all free RAM, the first frames included, and maps it writable, as it does
        // the image's pool if it reaches that; else its pages are still reached through the image's own map.
        unsafe { frames.reach_ram_at(plan.layout.offset(), !is_reached(plan, &image.range())) };
        boot::leave_identity(empty, &pages, &HARDWARE.cpu);
    });
    let make_identity = || identity::make(plan, frames, image, lower);
    // Where a split takes a parking, now; otherwise of what is left.
    let identity_tables = (decision.policy == Policy::Park).then(make_identity).and_then(Result::ok);
    parking::start(image, geometry, space.root());
    // SAFETY: as above.
    let platform = unsafe { Combined::new(frames, &HARDWARE) };
    if let Ok(reserved) = Reserved::take(&platform, space.most_tables()) {
        early::split(Moment::Created, (args, plan), space, &reserved);
    }
    give_the_rest(plan, frames, &first_frames);
    // SAFETY: the entry code's tables are no longer in any TTBR, and the TLB has been cleared.
    give(&image.boot_tables(geometry.page_size()), |r| unsafe { frames.add(r) });
    // SAFETY: nothing is between constants and data; it is writable, in the image's own map and in the linear map.
    give(&image.tail(geometry.page_size()), |r| unsafe { frames.add(r) });
    if is_reached(plan, &image.range()) {
        // SAFETY: the stack is elsewhere, and the linear map has this memory writable, where it is reached from now on.
        give(&image.spared(geometry.page_size()), |r| unsafe { frames.add(r) });
    }
    let identity_tables = identity_tables.or_else(|| make_identity().ok()).unwrap_or(0);
    let costs = Costs { layout, image_map, identity_build, switch, create, identity_discard };
    Ok(Mapped { space, stats, costs, identity_tables })
}

/// Returns true if the image's own pages suffice for the tables of the linear map, and for a split before more are there. Then
/// no RAM has to be reached before the linear map exists. Where a split takes a parking, the 1:1 map for it is made of what the
/// first frames leave.
fn image_has_tables(plan: &Plan<'_>, image: &Image, decision: &Decision) -> bool {
    /// The most tables of the image's map and of the temporary one, and some for a split.
    const OTHERS: u64 = 24 + 16;
    let (page, pool) = (plan.layout.geometry().page_size(), image.pool(plan.layout.geometry().page_size()));
    let (needed, free) = (plan.layout.most_tables(decision.leaves()), plan.free.longest());
    // What `linmap plan` refuses is refused here as well.
    let fits = |bytes: u64, range: &Range<Pa>| bytes <= range.end.0 - range.start.0;
    decision.policy != Policy::Park && fits((needed + OTHERS) * page, &pool) && fits(needed * page, &free)
}

/// Gives free RAM to the frame source, without the first frames, which were given before.
fn give_the_rest(plan: &Plan<'_>, frames: &Frames, first_frames: &Range<Pa>) {
    let mut rest = plan.free.clone();
    warn_of_lost(rest.remove_or_lose(first_frames));
    for range in rest.as_slice() {
        // SAFETY: free RAM that the linear map reaches, and that is nobody's yet.
        give(range, |r| unsafe { frames.add(r) });
    }
}

/// Returns true if the linear map has all of a range.
fn is_reached(plan: &Plan<'_>, range: &Range<Pa>) -> bool {
    let (layout, within) = (&plan.layout, |r: &Range<Pa>| r.start <= range.start && range.end <= r.end);
    within(layout.mapped()) && layout.ram().iter().any(within)
}

fn give(range: &Range<Pa>, add: impl FnOnce(&Range<Pa>) -> Option<Range<Pa>>) {
    warn_of_lost(add(range));
}

/// Warns of free memory that is not used.
pub(crate) fn warn_of_lost(lost: Option<Range<Pa>>) {
    if let Some(lost) = lost {
        warn(format_args!(
            "free memory {lost:?} is not used: the shortest of more than {CAPACITY} separate ranges"
        ));
    }
}
