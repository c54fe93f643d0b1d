//! One pass over a linear map: its leaves, its memory, and invalid pages.

use std::ops::{ControlFlow, Range};

use linmap::{Entry, Geometry, Leaf, Level, Pa, Stats, Va};

use crate::linux::invalid::Pieces;
use crate::linux::regions;
use crate::map::descent::descend;
use crate::map::linear;
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
    /// Surveys the linear map; `image` is the kernel's memory, if it is known.
    pub(crate) fn of(view: &View<'_>, image: Option<&Range<Pa>>) -> Result<Self, WalkError> {
        let g = view.geometry;
        let (first, last) = linmap::linear_range(g);
        let mut surveyor = Surveyor::new(g, image.cloned());
        surveyor.survey.stats = Stats::ROOT;
        surveyor.survey.offset = linear::offset(view)?.unwrap_or(0);
        surveyor.walk(view, (first, last))?;
        // A kernel with 52 VA bits can use more than half of them; the tables on the way there count only if it does.
        let (_, end) = regions::linear(g);
        if end > last {
            let mut beyond = Surveyor::new(g, image.cloned());
            beyond.walk(view, (Va(last.0 + 1), end))?;
            if beyond.survey.first.is_some() {
                surveyor.walk(view, (Va(last.0 + 1), end))?;
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
        let _ = descend(&view.bounded(), self.geometry, view.root, range, |found| {
            match found.entry {
                Entry::Leaf(leaf) => self.leaf(found.va, found.level, leaf),
                entry => self.survey.stats.add_entry(found.level, entry),
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    #[inline]
    fn leaf(&mut self, va: Va, level: Level, leaf: Leaf) {
        let bytes = self.geometry.level_size(level);
        let survey = &mut self.survey;
        if survey.first.is_none() {
            survey.first = Some(va);
        }
        if !leaf.valid {
            survey.invalid.add(va.0, leaf.oa.0, bytes);
            return;
        }
        survey.stats.add_leaves(level, leaf.contiguous, 1);
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
            let is_image = leaf.oa < self.image.end && self.image.start < end;
            survey.large += if is_image { 0 } else { bytes };
        }
    }
}
