//! Page tables as the commands see them.
//!
//! - `view`: one view of tables and saved dumps.  `rebuilt`: a saved dump as tables.
//! - `infer`: the geometry of a text dump.
//! - `descent`: every entry of a range, pages that Linux took away among them.  `runs`: many of them at once.
//! - `permissions`: the permissions that those leave.  `stretches`: the rows of a dump.
//! - `mappings`: from memory to addresses, and contradictions there.
//! - `sweep`: the ranges where two lists of rows differ.  `leaves`: the sizes of leaves, and their names.
//! - `image`: the place of the kernel.  `linear`: the distance of the linear map from its memory.
//! - `owners`: the other uses of memory, as far as tables tell.

pub(crate) mod descent;
pub(crate) mod image;
pub(crate) mod infer;
pub(crate) mod leaves;
pub(crate) mod linear;
pub(crate) mod mappings;
pub(crate) mod owners;
pub(crate) mod permissions;
pub(crate) mod rebuilt;
pub(crate) mod runs;
pub(crate) mod stretches;
pub(crate) mod sweep;
pub(crate) mod view;
