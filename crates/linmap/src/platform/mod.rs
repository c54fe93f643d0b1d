//! The interface to a platform: table pages, CPU primitives, and the promises of its CPUs.

#[cfg(target_arch = "aarch64")]
pub mod arm64;
pub(crate) mod atomic;
mod bulk;
mod cache;
mod combined;
mod eights;
mod entry_update;
mod extensions;
mod features;
mod hardware;
#[cfg(feature = "std")]
pub mod host;
mod memory;
mod midr;
mod offset_memory;
mod promise;
mod readers;
mod reason;
mod registers;
mod sharing;
mod slots;
mod with_readers;

pub use cache::CacheType;
pub use combined::{Combined, Platform};
pub use entry_update::EntryUpdate;
pub use extensions::{HardwareUpdates, Tcr2, Unsupported};
pub use features::Features;
pub(crate) use hardware::leave_to_hardware;
pub use hardware::{CannotPark, Dsb, Hardware, Promise};
pub(crate) use memory::leave_to_memory;
pub use memory::{Access, Frame, Memory, Slot};
pub use midr::{BbmPromise, Midr, RepeatedTlbi};
pub use offset_memory::{OffsetMemory, Unshared};
pub use readers::{Readers, Section};
pub use reason::Reason;
pub use registers::{Registers, RegistersError};
pub use sharing::Sharing;
pub(crate) use sharing::{HOLD, all_locks, leave_to_sharing, with_locks, with_more_locks};
pub(crate) use slots::{Slots, SlotsMut};
pub use with_readers::WithReaders;
