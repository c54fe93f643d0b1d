//! Page tables as the commands see them.
//!
//! - `view`: one view of tables and saved dumps.  `rebuilt`: a saved dump as tables.
//! - `infer`: the geometry of a text dump.
//! - `descent`: every entry of a range, pages that Linux took away among them.
//! - `permissions`: the permissions that those leave.  `stretches`: the rows of a dump.
//! - `mappings`: from memory to addresses, and contradictions there.
//! - `image`: the place of the kernel.  `linear`: the distance of the linear map from its memory.

pub(crate) mod descent;
pub(crate) mod image;
pub(crate) mod infer;
pub(crate) mod linear;
pub(crate) mod mappings;
pub(crate) mod permissions;
pub(crate) mod rebuilt;
pub(crate) mod stretches;
pub(crate) mod view;
