//! A caller of operations.

use crate::edit::cover::Cover;
use crate::edit::editor::Editor;
use crate::edit::guard::Guard;
use crate::edit::reserve::Reserve;
use crate::edit::tables::Tables;
use crate::plan::Policy;

/// A caller of operations: the platform, and whose the tables are.
pub(crate) struct Caller<'a, G: Guard> {
    pub(crate) platform: &'a G::Platform,
    pub(crate) owner: G::Owner,
}

impl<G: Guard> Clone for Caller<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G: Guard> Copy for Caller<'_, G> {}

impl<'a, G: Guard> Caller<'a, G> {
    /// Returns what is known of the tables.
    #[inline(always)]
    pub(crate) fn tables(&self) -> &Tables {
        G::tables_of(&self.owner)
    }

    /// Returns the view of tables for a hold with this cover, which does not ask for the policy.
    #[inline(always)]
    pub(crate) fn editor(&self, cover: Cover, reserve: &'a Reserve<'a, G::Platform>) -> Editor<'a, G> {
        let (guard, geometry) = (G::new(self.owner).with(cover), self.tables().geometry());
        let policy = Policy::Fixed;
        Editor { platform: self.platform, geometry, guard, reserve, policy, answered: false }
    }
}
