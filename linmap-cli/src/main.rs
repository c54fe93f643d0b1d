//! The `linmap` command.
fn main() {}
