//! Facts about physical pages, judged where translations come to lead to them: at each store into a live table, and
//! when a CPU loads a tree.

use super::{Finding, Machine};

impl Machine {
    /// Judges the translations of a range of a tree against all that is known of their pages.
    pub(super) fn pages_may_be_mapped(&self, root: u64, span: (u64, u64)) -> Result<(), Finding> {
        if self.physical.is_empty() || self.holders(root) == 0 {
            return Ok(());
        }
        let of_stage_2 = self.is_of_stage_2(root);
        self.in_tables(root, span, &mut |held| {
            self.is_not_given(held)?;
            if of_stage_2 {
                return Ok(());
            }
            self.is_nowhere_writable(held)?;
            self.has_one_type(held)
        })
    }
}
