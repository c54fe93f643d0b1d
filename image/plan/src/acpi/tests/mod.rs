//! Tests: QEMU's own tables, tables made for one thing each, and damaged ones.

mod build;
mod find;
mod noise;
mod parts;
