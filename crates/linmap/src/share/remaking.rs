//! A fault handler asks about an address without a lock: the leaf says that a remake has taken it out, and a claim that the
//! remake is under way.

use crate::edit::Reader;
use crate::format::{Span, Va};
use crate::platform::Platform;
use crate::share::map_state::MapState;

/// Why an address is invalid ([`SharedSpace::remaking`](crate::SharedSpace::remaking)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remaking {
    /// A remake is under way there, and its caller has yet to bring it back.
    UnderWay,
    /// The step of a remake failed there, which left it invalid.
    Failed,
}

/// Returns why an address is invalid, if a remake has taken it out.
pub(crate) fn remaking<P: Platform, const LOCKS: usize>(
    state: &MapState<LOCKS>,
    platform: &P,
    va: Va,
) -> Option<Remaking> {
    let look = || platform.read(|| Reader::without_version(&state.tables, platform).descriptor(va));
    let (found, claimed) = state.claims.beside(&state.attention, Span { first: va.0, last: va.0 }, look);
    let (_, level, entry) = found?;
    let said = if claimed { Remaking::UnderWay } else { Remaking::Failed };
    (state.tables.is_leaf(entry, level) && entry.is_taken_out()).then_some(said)
}
