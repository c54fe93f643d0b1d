//! The start by EFI, as far as it is decisions: what the stub hands on, the memory map of the firmware, texts.

pub mod handover;
