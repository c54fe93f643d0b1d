//! The findings about a linear map: its leaves, evidence of its kernel, an explanation, and the cost in large leaves.

use linmap::{Geometry, Layout, Leaves, Pa, Rodata, Stats, Va};

use super::gather;
use super::survey::Survey;
use crate::commands::reading::{Failure, regions};
use crate::linux::evidence::Evidence;
use crate::linux::explanation::{Explanation, explain};
use crate::map::image::Image;
use crate::map::view::View;
use crate::progress;

/// The findings about one map.
pub(crate) struct Findings {
    pub(crate) survey: Survey,
    pub(crate) evidence: Evidence,
    pub(crate) explanation: Explanation,
    /// The cost of the same memory in the largest leaves; unknown if it is too scattered.
    pub(crate) largest: Option<Stats>,
}

impl Findings {
    /// Finds everything about these addresses of the linear map.
    pub(crate) fn of(view: &View<'_>, range: (Va, Va)) -> Result<Self, Failure> {
        progress::begin("surveying the linear map");
        let walk = Failure::walk(view);
        let image = Image::find(view).map_err(&walk)?;
        let memory = image.as_ref().map(Image::memory);
        let survey = Survey::of(view, range, memory.as_ref()).map_err(&walk)?;
        if survey.first.is_none() {
            let (Va(first), Va(last)) =
                (range.0, range.1.min(linmap::layout::linear_range(view.geometry).1).max(range.0));
            let name = view.name();
            return Err(Failure::Wrong(format!(
                "{name}: no linear map: nothing is mapped from {first:#x} to {last:#x}"
            )));
        }
        let regions = regions(view, image.as_ref());
        let evidence = gather::evidence(view, &survey, image.as_ref(), &regions).map_err(&walk)?;
        let explanation = explain(&evidence);
        let largest = largest(view.geometry, &survey, image.as_ref().and_then(Image::constant));
        Ok(Self { survey, evidence, explanation, largest })
    }
}

/// Returns the cost of the same memory in the largest leaves, with the kernel's text and constants apart.
fn largest(geometry: Geometry, survey: &Survey, constant: Option<std::ops::Range<Pa>>) -> Option<Stats> {
    if survey.is_scattered {
        return None;
    }
    let of = |image: std::ops::Range<Pa>| {
        let mut memory = survey.memory.clone();
        let layout = Layout::new(geometry, &mut memory, &mut [], image, Rodata::Full).ok()?;
        (layout.dropped_bytes() == 0).then(|| Stats::of_runs(geometry, layout.runs(Leaves::Largest)))
    };
    // An image outside of the memory is left out.
    let nothing = Pa(0)..Pa(0);
    of(constant.unwrap_or(nothing.clone())).or_else(|| of(nothing))
}

#[cfg(test)]
mod tests;
