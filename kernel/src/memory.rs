//! RAM: what is mapped, what is spoken for, what is free, and how the linear map of it comes up.

use core::fmt;
use core::ops::Range;

use kernel::bootargs::{BootArgs, Reservation};
use kernel::choice;
use kernel::machine::Machine;
use kernel::ranges::{Full, Ranges};
use linmap::{AddressSpace, Decision, Error, Features, Geometry, Layout, LayoutError, Pa, Rodata, Stats};

use crate::boot::{self, Image};
use crate::counters::{Counters, Window};
use crate::frames::Frames;
use crate::{CPU, warn};

unsafe extern "C" {
    fn mark_create_begin();
    fn mark_create_end();
}

/// The plan of this machine's memory.
pub(crate) struct Memory<'a> {
    /// The linear map to be.
    pub(crate) layout: Layout<'a>,
    /// RAM that the linear map reaches and nobody has spoken for.
    pub(crate) free: Ranges,
    /// The crash kernel's reservation.
    pub(crate) crash: Option<Range<Pa>>,
    /// The kernel image's code and constants, if RAM holds them.
    pub(crate) alias: Range<Pa>,
    /// RAM beyond the CPU's physical addresses, in bytes.
    pub(crate) beyond_bytes: u64,
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum PlanError {
    Layout(LayoutError),
    /// More ranges than there is room for.
    Full,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout(e) => e.fmt(f),
            Self::Full => f.write_str("more separate ranges of reserved memory than this kernel can hold"),
        }
    }
}

impl From<LayoutError> for PlanError {
    fn from(e: LayoutError) -> Self {
        Self::Layout(e)
    }
}

impl From<Full> for PlanError {
    fn from(Full: Full) -> Self {
        Self::Full
    }
}

impl<'a> Memory<'a> {
    /// Plans; `ram` is the machine's, and becomes what is mapped.
    pub(crate) fn plan(
        machine: &Machine,
        args: &BootArgs<'_>,
        (geometry, pa_bits): (Geometry, u32),
        image: &Image,
        tree: &Range<Pa>,
        (ram, carve_outs): (&'a mut Ranges, &'a mut Ranges),
    ) -> Result<Self, PlanError> {
        let all = ram.bytes();
        ram.remove(&(Pa(1 << pa_bits)..Pa(u64::MAX)))?;
        let beyond_bytes = all - ram.bytes();
        let mapped = reach(geometry, ram)?;
        let mut free = ram.clone();
        free.remove(&(Pa(0)..mapped.start))?;
        free.remove(&(mapped.end..Pa(u64::MAX)))?;
        for reserved in machine.reserved.as_slice().iter().chain([&image.range(), tree]) {
            free.remove(reserved)?;
        }
        let crash = args.crashkernel.and_then(|r| crash_kernel(r, &free, geometry));
        if let Some(crash) = &crash {
            free.remove(crash)?;
            carve_outs.add(crash.clone())?;
        }
        let alias = image.read_only();
        let in_ram = ram.as_slice().iter().any(|r| r.start <= alias.start && alias.end <= r.end);
        let has_alias = in_ram && mapped.start <= alias.start && alias.end <= mapped.end;
        if !has_alias {
            let what = if in_ram { "beyond the linear map" } else { "not in the device tree's memory" };
            warn(format_args!("the kernel image at {:?} is {what}", image.range()));
        }
        let alias = if has_alias { alias } else { Pa(0)..Pa(0) };
        let (ram, carve_outs) = (ram.as_mut_slice(), carve_outs.as_mut_slice());
        let layout = Layout::new(geometry, ram, carve_outs, alias.clone(), args.rodata)?;
        Ok(Self { layout, free, crash, alias, beyond_bytes })
    }

    /// Enters the chosen geometry, creates the linear map from free RAM, and takes down what was
    /// needed to get there.
    pub(crate) fn bring_up(
        &self,
        frames: &Frames,
        image: &Image,
        (geometry, features): (Geometry, &Features),
        uart: Pa,
        decision: &Decision,
        counters: &Counters,
    ) -> Result<(AddressSpace, Stats, Window), Error> {
        let page = geometry.page_size();
        let window = self.free.longest();
        let window = Pa(window.start.0.next_multiple_of(page))..Pa(window.end.0 & !(page - 1));
        if window.is_empty() {
            return Err(Error::OutOfFrames { taken: 0 });
        }
        let reach = window.end.max(image.range().end).0;
        let Ok(lower) = choice::identity_geometry(geometry, reach) else {
            return Err(Error::OutOfRange { va: linmap::Va(reach) });
        };
        // SAFETY: the image's own memory, set aside in image.ld; nothing else uses it.
        give(&image.pool(), |r| unsafe { frames.add(r) });
        let mut booted = boot::enter(frames, &CPU, image, (geometry, lower), features, &window, uart)?;
        // SAFETY: `enter` has just mapped the console there as device memory, for good.
        unsafe { crate::console::attach(booted.uart) };

        // SAFETY: free RAM, which `enter` has mapped 1:1.
        give(&window, |r| unsafe { frames.add(r) });
        // SAFETY: markers do nothing.
        unsafe { mark_create_begin() };
        let leaves = decision.leaves();
        let (created, create) =
            counters.window(&CPU, || linmap::create(&mut booted.space, frames, &CPU, &self.layout, leaves));
        // SAFETY: as above.
        unsafe { mark_create_end() };
        let stats = created?;

        // SAFETY: the linear map reaches all free RAM, so all that was taken from the window, and
        // maps it writable; pages of the image are still reached through the image's own map.
        unsafe { frames.reach_ram_at(self.layout.offset()) };
        let space = booted.leave_identity(frames, &CPU);
        for range in self.free.as_slice().iter().filter(|r| **r != self.free.longest()) {
            // SAFETY: free RAM, apart from the window, which the linear map reaches.
            give(range, |r| unsafe { frames.add(r) });
        }
        // SAFETY: the entry code's tables are no longer in any TTBR, and the TLB has been cleared.
        give(&image.boot_tables(), |r| unsafe { frames.add(r) });
        Ok((space, stats, create))
    }
}

/// What the linear map of this RAM reaches.
fn reach(geometry: Geometry, ram: &Ranges) -> Result<Range<Pa>, LayoutError> {
    let mut ram = ram.clone();
    let layout = Layout::new(geometry, ram.as_mut_slice(), &mut [], Pa(0)..Pa(0), Rodata::Off)?;
    Ok(layout.mapped().clone())
}

fn give(range: &Range<Pa>, add: impl FnOnce(&Range<Pa>) -> Result<(), Full>) {
    if add(range).is_err() {
        warn(format_args!("free memory {range:?} is not used: too many separate ranges"));
    }
}

/// Where the crash kernel goes: as asked, or at the top of the longest free range; 2 MiB aligned.
fn crash_kernel(asked: Reservation, free: &Ranges, geometry: Geometry) -> Option<Range<Pa>> {
    let align = geometry.page_size().max(2 << 20);
    let size = asked.size.checked_next_multiple_of(align).unwrap_or(u64::MAX);
    let range = match asked.at {
        Some(at) => Pa(at & !(align - 1))..Pa((at & !(align - 1)).saturating_add(size)),
        None => {
            let end = free.longest().end.0 & !(align - 1);
            Pa(end.saturating_sub(size))..Pa(end)
        }
    };
    let whole = range.end.0 - range.start.0 == size;
    if whole && free.as_slice().iter().any(|r| r.start <= range.start && range.end <= r.end) {
        return Some(range);
    }
    warn(format_args!(
        "crashkernel: {size:#x} bytes at {range:?} are not free; the longest free range is {:?}",
        free.longest()
    ));
    None
}
