//! What the commands make of tables before they say anything about them.
//!
//! - `view`: tables and saved dumps as one thing that can be walked.  `rebuilt`: a saved dump as tables.
//! - `infer`: the geometry that a text dump must have.
//! - `descent`: every entry of a range, with its raw descriptor and the restrictions above it.
//! - `permissions`: what those leave of a leaf's own.  `stretches`: equal neighbours as one.
//! - `image`: where the kernel lies.  `linear`: how far the linear map is from its memory.

pub(crate) mod descent;
pub(crate) mod image;
pub(crate) mod infer;
pub(crate) mod linear;
pub(crate) mod permissions;
pub(crate) mod rebuilt;
pub(crate) mod stretches;
pub(crate) mod view;
