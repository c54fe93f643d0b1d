//! Splits at the moments of a boot at which a kernel may have to split a leaf, although it is not up yet: buffers of devices are
//! shared, the image's aliases change. At none of them is a split refused (`run=early`).
//!
//! At the first moment there is nothing yet that table pages could be taken from, so they were taken before.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kernel_plan::bootargs::BootArgs;
use kernel_plan::plan::Plan;
use linmap::error::ChangeError;
use linmap::{Change, Platform, Policy, SharedSpace, Va};

use crate::parking;
use crate::probe::{Fault, try_write};
use crate::warning::warn;

/// A moment of the boot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The linear map has just been created; free RAM has not been given to the source of table pages.
    Created,
    /// Another CPU has reported, and has not been judged.
    Reported,
    /// It has been judged, and is not in yet.
    Judged,
    /// It is in.
    In,
}

impl Moment {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Created, "created"),
        (Self::Reported, "reported"),
        (Self::Judged, "judged"),
        (Self::In, "in"),
    ];
}

/// The splits of each moment, and those of them that failed.
static SPLITS: [AtomicU64; Moment::ALL.len()] = [const { AtomicU64::new(0) }; Moment::ALL.len()];
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Returns the splits at a moment.
pub(crate) fn splits(moment: Moment) -> u64 {
    SPLITS[moment as usize].load(Relaxed)
}

/// Returns the number of splits that were refused or had no effect.
pub(crate) fn failed() -> u64 {
    FAILED.load(Relaxed)
}

/// Makes one page of a leaf read-only and writable again, if `run=` names the task, and returns to the leaf.
pub(crate) fn split<P: Platform>(
    moment: Moment,
    (args, plan): (&BootArgs<'_>, &Plan<'_>),
    space: &SharedSpace,
    platform: &P,
) {
    let start = plan.layout.va(plan.scratch.range.start);
    let wanted = args.tasks().any(|task| task == "early") && space.policy() != Policy::Fixed;
    let Some(start) = start.filter(|_| wanted) else { return };
    let page = Va(start.0 + space.geometry().page_size());
    match parking::again(|| read_only_for_a_moment(space, platform, page)) {
        Ok(true) => _ = SPLITS[moment as usize].fetch_add(1, Relaxed),
        Ok(false) => wrong(format_args!("the page is writable")),
        Err(e) => wrong(format_args!("{e}")),
    }
}

fn wrong(what: core::fmt::Arguments<'_>) {
    FAILED.fetch_add(1, Relaxed);
    warn(format_args!("run=early: a split during the boot: {what}"));
}

/// Returns true if the page could not be written meanwhile, and can be afterwards.
fn read_only_for_a_moment<P: Platform>(
    space: &SharedSpace,
    platform: &P,
    page: Va,
) -> Result<bool, ChangeError> {
    // SAFETY: memory without an owner; only code that expects a fault writes to it.
    let write = || unsafe { try_write(page, 1) };
    // SAFETY: as above.
    unsafe { space.on(platform).protect(page, 1, Change::READ_ONLY)? };
    let refused = matches!(write(), Err(Fault::Permission(_)));
    // SAFETY: as above.
    unsafe { space.on(platform).protect(page, 1, Change::WRITABLE)? };
    let writable = write().is_ok();
    space.on(platform).collapse(page, 1)?;
    Ok(refused && writable)
}
