//! Copies of live tables, which are made while others may change them.

use crate::build::{BuildError, OutOfFrames, Tree};
use crate::edit::call::Caller;
use crate::edit::guard::Guard;
use crate::edit::reader::Reader;
use crate::edit::reserve::Reserve;
use crate::format::Va;

/// Copies live tables as [`Live::copy`](crate::Live::copy) does. The copy is made in a section of the platform, of
/// pages that were taken before it: others may have added tables since they were counted, and then there are too few.
pub(crate) fn copy<G: Guard>(caller: Caller<'_, G>, range: (Va, Va)) -> Result<Tree, BuildError> {
    let (tables, platform) = (caller.tables(), caller.platform);
    let pages = Reserve::new(platform);
    let reader = Reader::new(tables, None, &pages);
    let of = || (tables.root(), tables.geometry(), tables.half());
    loop {
        let needed = G::read(platform, || Tree::tables_of_copy(&reader.live(), of(), range));
        pages.fill(needed).map_err(|OutOfFrames(taken)| BuildError::OutOfFrames { taken })?;
        let copied = G::read(platform, || Tree::copy_of(&pages, reader.live(), of(), range));
        if !matches!(copied, Err(BuildError::OutOfFrames { .. })) {
            return copied;
        }
    }
}
