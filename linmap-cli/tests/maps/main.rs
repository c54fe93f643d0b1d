//! The commands that read a SOURCE, driven as a user drives them, on cores that are made up here: tables of
//! any size and kind, in files of which only the tables take room.

mod check;
mod core;
mod diff;
mod dump;
mod figures;
mod manual;
mod noise;
mod outlets;
mod pipes;
mod run;
mod saved;
mod schema;
mod stat;
mod tables;
mod walk;
mod wrong;
