//! The options that describe a kernel, as values of the code that decides.

use clap::builder::TypedValueParser;
use linmap::Granule;

use crate::choices::{choice, one_of};

/// Returns clap's parser of a page size.
pub(crate) fn page_size() -> impl TypedValueParser<Value = Granule> {
    one_of(
        [(Granule::K4, "4k"), (Granule::K16, "16k"), (Granule::K64, "64k")]
            .map(|(g, name)| choice(g, name, "")),
    )
}
