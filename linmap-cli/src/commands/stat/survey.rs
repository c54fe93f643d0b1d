//! One pass over a linear map: what it is made of, where its memory is, and what is conspicuous.

use std::ops::{ControlFlow, Range};

use linmap::{Entry, Geometry, Leaf, Level, Pa, Stats, Va};

use crate::linux::evidence::Pool;
use crate::linux::regions;
use crate::map::descent::descend;
use crate::map::linear;
use crate::map::view::{View, WalkError};

/// More banks of RAM than any machine has.
const MOST_RANGES: usize = 1 << 20;

/// What one pass finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Leaves and tables.
    pub(crate) stats: Stats,
    /// The first address that is mapped.
    pub(crate) first: Option<Va>,
    /// VA less PA, as most leaves have it.
    pub(crate) offset: u64,
    /// The memory that is mapped, in order of its virtual addresses; valid or not.
    pub(crate) memory: Vec<Range<Pa>>,
    /// Whether there are more ranges than that.
    pub(crate) is_scattered: bool,
    /// Bytes in blocks and contiguous runs that map nothing of the kernel's image.
    pub(crate) large: u64,
    /// Pages that are kept but not valid, outside of `kfence`: so many, in so many pieces.
    pub(crate) invalid: (u64, u64),
    /// The longest stretch of pages of which no two neighbours are valid.
    pub(crate) kfence: Option<Pool>,
}

impl Survey {
    /// Looks at the linear map; `image` is the kernel's memory, if that is known.
    pub(crate) fn of(view: &View<'_>, image: Option<&Range<Pa>>) -> Result<Self, WalkError> {
        let g = view.geometry;
        let (first, last) = linmap::linear_range(g);
        let mut surveyor = Surveyor::new(g, image.cloned());
        surveyor.survey.stats = Stats::ROOT;
        surveyor.survey.offset = linear::offset(view)?.unwrap_or(0);
        surveyor.walk(view, (first, last))?;
        // A kernel of 52 VA bits may use more than half of them; the tables on the way there count only if
        // it does.
        let (_, end) = regions::linear(g);
        if end > last {
            let mut beyond = Surveyor::new(g, image.cloned());
            beyond.walk(view, (Va(last.0 + 1), end))?;
            if beyond.survey.first.is_some() {
                surveyor.walk(view, (Va(last.0 + 1), end))?;
            }
        }
        Ok(surveyor.finished())
    }
}

struct Surveyor {
    geometry: Geometry,
    /// The image, to the borders of the largest leaf that its alias may have.
    image: Range<Pa>,
    survey: Survey,
    sparse: Sparse,
}

impl Surveyor {
    fn new(geometry: Geometry, image: Option<Range<Pa>>) -> Self {
        Self {
            geometry,
            image: image.unwrap_or(Pa(0)..Pa(0)),
            survey: Survey::default(),
            sparse: Sparse::default(),
        }
    }

    fn walk(&mut self, view: &View<'_>, range: (Va, Va)) -> Result<(), WalkError> {
        let _ = descend(&view.bounded(), self.geometry, view.root, range, |found| {
            self.survey.stats.add_entry(found.level, found.entry);
            if let Entry::Leaf(leaf) = found.entry {
                self.leaf(found.va, found.level, leaf);
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
        let end = Pa(leaf.oa.0.saturating_add(bytes));
        if let Some(last) = survey.memory.last_mut()
            && last.end == leaf.oa
        {
            last.end = end;
        } else if survey.memory.len() < MOST_RANGES {
            survey.memory.push(leaf.oa..end);
        } else {
            survey.is_scattered = true;
        }
        if level != Level::PAGE || leaf.contiguous {
            let is_image = leaf.oa < self.image.end && self.image.start < end;
            survey.large += if is_image { 0 } else { bytes };
        }
        if !leaf.valid || self.sparse.is_open() {
            let page = self.geometry.page_size();
            self.sparse.leaf(survey, (va, leaf, bytes / page), page);
        }
    }

    fn finished(mut self) -> Survey {
        self.sparse.close(&mut self.survey, self.geometry.page_size());
        // The pages of the pool were counted with all the others.
        self.survey.invalid.0 -= self.sparse.in_pool;
        self.survey.invalid.1 -= self.sparse.pieces_in_pool;
        self.survey
    }
}

/// A stretch of pages of which no two neighbours are valid. KFENCE's pool is one: each page that may be
/// handed out is between two that never are.
#[derive(Default)]
struct Sparse {
    open: Option<Stretch>,
    /// What of the pages that are not valid is in the pool.
    in_pool: u64,
    pieces_in_pool: u64,
}

struct Stretch {
    start: (Va, Pa),
    next: u64,
    pages: u64,
    invalid: u64,
    /// How often a page that is not valid follows one that is.
    pieces: u64,
    last_is_valid: bool,
}

/// A pool has at least so many pages that are never valid.
const LEAST_GUARDS: u64 = 16;

impl Sparse {
    const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    #[cold]
    fn leaf(&mut self, survey: &mut Survey, (va, leaf, pages): (Va, Leaf, u64), page: u64) {
        let is_page = pages == 1;
        if let Some(open) = &self.open
            && (!is_page || open.next != va.0 || leaf.valid && open.last_is_valid)
        {
            self.close(survey, page);
        }
        if !is_page {
            let (invalid, pieces) = &mut survey.invalid;
            *invalid += if leaf.valid { 0 } else { pages };
            *pieces += u64::from(!leaf.valid);
            return;
        }
        if self.open.is_none() && !leaf.valid {
            let start = (va, leaf.oa);
            self.open =
                Some(Stretch { start, next: va.0, pages: 0, invalid: 0, pieces: 0, last_is_valid: true });
        }
        let Some(open) = &mut self.open else { return };
        open.next = va.0.wrapping_add(page);
        open.pages += 1;
        if !leaf.valid {
            open.invalid += 1;
            survey.invalid.0 += 1;
            if open.last_is_valid {
                open.pieces += 1;
                survey.invalid.1 += 1;
            }
        }
        open.last_is_valid = leaf.valid;
    }

    fn close(&mut self, survey: &mut Survey, page: u64) {
        let Some(stretch) = self.open.take() else { return };
        let pages = stretch.pages - u64::from(stretch.last_is_valid);
        let valid = pages - stretch.invalid;
        // Where all free pages are taken away valid ones are rare, or neighbours.
        let is_pool = stretch.invalid >= LEAST_GUARDS && valid * 16 >= pages;
        if is_pool && survey.kfence.is_none_or(|pool| pool.bytes < pages * page) {
            let (Va(va), Pa(pa)) = stretch.start;
            survey.kfence = Some(Pool { va, pa, bytes: pages * page });
            (self.in_pool, self.pieces_in_pool) = (stretch.invalid, stretch.pieces);
        }
    }
}
