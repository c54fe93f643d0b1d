//! One pass over a linear map: its leaves, its memory, and invalid pages.

use std::ops::{ControlFlow, Range};

use linmap::arch::{Entry, Leaf, Level};
use linmap::read::Visited;
use linmap::{Geometry, Pa, Stats, Va};

use crate::linux::invalid::Pieces;
use crate::map::linear;
use crate::map::runs::descend_runs;
use crate::map::view::{View, WalkError};

/// More banks of RAM than any machine has.
const MAX_RANGES: usize = 1 << 20;

/// The result of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Valid leaves, and tables.
    pub(crate) stats: Stats,
    /// The first address with a leaf, valid or not.
    pub(crate) first: Option<Va>,
    /// VA minus PA of most leaves.
    pub(crate) offset: u64,
    /// The mapped memory, in order of its virtual addresses.
    pub(crate) memory: Vec<Range<Pa>>,
    /// True if there are more ranges than that.
    pub(crate) is_scattered: bool,
    /// Bytes in blocks and contiguous runs outside of the kernel image.
    pub(crate) large: u64,
    /// Invalid pages.
    pub(crate) invalid: Pieces,
}

impl Survey {
    /// Surveys these addresses of the linear map; `image` is the kernel's memory, if it is known.
    pub(crate) fn of(view: &View<'_>, range: (Va, Va), image: Option<&Range<Pa>>) -> Result<Self, WalkError> {
        let g = view.geometry;
        let (_, half) = linmap::layout::linear_range(g);
        let mut surveyor = Surveyor::new(g, image.cloned());
        surveyor.survey.stats = Stats::ROOT;
        surveyor.survey.offset = linear::offset(view)?.unwrap_or(0);
        if range.0 <= half {
            surveyor.walk(view, (range.0, range.1.min(half)))?;
        }
        // A kernel with 52 VA bits can use more than half of them; the tables on the way there count only if it does.
        if range.1 > half {
            let rest = (range.0.max(Va(half.0 + 1)), range.1);
            let mut beyond = Surveyor::new(g, image.cloned());
            beyond.walk(view, rest)?;
            if beyond.survey.first.is_some() {
                surveyor.walk(view, rest)?;
            }
        }
        Ok(surveyor.survey)
    }
}

struct Surveyor {
    geometry: Geometry,
    /// The image, extended to the boundaries of the largest leaf that its alias can have.
    image: Range<Pa>,
    survey: Survey,
}

impl Surveyor {
    fn new(geometry: Geometry, image: Option<Range<Pa>>) -> Self {
        Self { geometry, image: image.unwrap_or(Pa(0)..Pa(0)), survey: Survey::default() }
    }

    fn walk(&mut self, view: &View<'_>, range: (Va, Va)) -> Result<(), WalkError> {
        let _ = descend_runs(view, range, |found| {
            let Visited { va, level, entry, .. } = *found.first;
            match entry {
                Entry::Leaf(leaf) => self.leaves((va, level, leaf), found.count),
                entry => self.survey.stats.add_entry(level, entry),
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// Adds leaves that continue each other, by the first of them.
    #[inline]
    fn leaves(&mut self, (va, level, leaf): (Va, Level, Leaf), count: u64) {
        let bytes = self.geometry.level_size(level).saturating_mul(count);
        let survey = &mut self.survey;
        if survey.first.is_none() {
            survey.first = Some(va);
        }
        if !leaf.valid {
            survey.invalid.add(va.0, leaf.oa.0, bytes);
            return;
        }
        survey.stats.add_leaves(level, leaf.contiguous, count);
        let end = Pa(leaf.oa.0.saturating_add(bytes));
        if let Some(last) = survey.memory.last_mut()
            && last.end == leaf.oa
        {
            last.end = end;
        } else if survey.memory.len() < MAX_RANGES {
            survey.memory.push(leaf.oa..end);
        } else {
            survey.is_scattered = true;
        }
        if level != Level::PAGE || leaf.contiguous {
            let size = self.geometry.level_size(level);
            survey.large += bytes - size.saturating_mul(touched(&(leaf.oa..end), &self.image, size));
        }
    }
}

/// Returns how many leaves of a size, in a piece of memory that consists of them, have a byte of the image.
fn touched(piece: &Range<Pa>, image: &Range<Pa>, size: u64) -> u64 {
    let (start, end) = (image.start.max(piece.start).0, image.end.min(piece.end).0);
    if start >= end {
        return 0;
    }
    let number = |at: u64| (at - piece.start.0) / size;
    number(end - 1) - number(start) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_of_the_image_are_counted_whole() {
        let piece = Pa(100)..Pa(200);
        let of = |start, end| touched(&piece, &(Pa(start)..Pa(end)), 10);
        assert_eq!(
            [of(0, 100), of(0, 101), of(109, 111), of(110, 120), of(150, 900), of(200, 300)],
            [0, 1, 2, 1, 5, 0]
        );
        assert_eq!(of(0, 0), 0);
    }
}
