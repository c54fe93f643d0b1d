//! Live changes on the model: every step keeps the rules of the architecture, every result is the one that
//! a flat list of ranges predicts, and every count is exact.

mod aliased;
mod areas;
mod exhaustion;
mod flat;
mod hotplug;
mod many_locks;
mod neighbours;
mod operation;
mod paced;
mod promises;
mod remade;
mod remakes;
mod restore;
mod sequences;
mod unmap_all;
mod watched;
mod world;
