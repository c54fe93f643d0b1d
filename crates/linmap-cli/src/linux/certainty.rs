//! How a conclusion is known.

/// The basis of a conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// It was seen.
    Known,
    /// It follows from facts that were seen and from the usual behaviour of kernels.
    Inferred,
}

impl Certainty {
    /// Returns the word in documents.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Inferred => "inferred",
        }
    }
}
