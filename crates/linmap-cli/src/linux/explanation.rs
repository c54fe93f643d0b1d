//! The explanation of a linear map: why it is in pages, what else is known of it, and remedies.

use super::cause::{Cause, Statement, causes, facts};
use super::evidence::Evidence;
use super::remedy::{Remedy, remedies};

/// The explanation of how a linear map is mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Explanation {
    /// Everything that keeps it in pages, with the reason; empty for a map in large leaves.
    pub(crate) causes: Vec<(Cause, Statement)>,
    /// Facts that were seen.
    pub(crate) facts: Vec<Statement>,
    /// Remedies, and their costs.
    pub(crate) remedies: Vec<Remedy>,
}

/// Explains the evidence.
pub(crate) fn explain(e: &Evidence) -> Explanation {
    let explanation = Explanation { facts: facts(e), ..Explanation::default() };
    if e.bytes == 0 || !e.in_pages() {
        return explanation;
    }
    let causes = causes(e);
    let kinds: Vec<_> = causes.iter().map(|(cause, _)| *cause).collect();
    Explanation { remedies: remedies(e, &kinds), causes, ..explanation }
}

#[cfg(test)]
mod tests;
