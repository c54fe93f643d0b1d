//! Tables of noise: every command ends within a second and without a panic.

use linmap::Pa;
use linmap::arch::Descriptor;
use test_support::Random;

use crate::core::{Core, RAM, TABLES, debian};
use crate::run::linmap;

/// Random words for tables.
pub(crate) struct Noise(Random);

impl Noise {
    /// Returns the generator of a seed, with numbers far from those of the next seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// Returns a word that can be a table, a leaf, or neither.
    fn word(&mut self, tables: u64) -> u64 {
        let (word, table) = (self.next(), TABLES + self.next() % tables * 4096);
        match self.next() % 4 {
            0 => Descriptor::table(Pa(table), debian().geometry).0,
            1 => word & 0xfff0_0000_0000_0fff | RAM | 0x403,
            2 => word,
            _ => 0,
        }
    }
}

#[test]
fn every_command_survives_damaged_tables() {
    let mut rounds = test_support::Rows::new();
    for round in 0..12 {
        rounds.row(|seed| survives(round, seed));
    }
}

/// Later rounds do more damage: in the last ones only the way to the root is left.
fn survives(round: u32, seed: u64) {
    let mut noise = Noise::of(seed);
    let kernel = debian();
    let mut tables = kernel.tables();
    let pages: Vec<Pa> = tables.pages.keys().copied().collect();
    for _ in 0..1 << round {
        let page = pages[noise.next() as usize % pages.len()];
        let index = noise.next() as usize % 512;
        let kept = page == tables.root && index >= 256;
        let word = noise.word(pages.len() as u64);
        if !kept {
            tables.pages.get_mut(&page).expect("a table")[index] = word;
        }
    }
    let core = Core::new(&tables, kernel.ram, Some(&kernel.info()));
    let path = core.path();
    let path = path.to_str().expect("a path in UTF-8");
    let lines: [&[&str]; 9] = [
        &["dump", path],
        &["dump", path, "--json"],
        &["dump", path, "--csv"],
        &["stat", path],
        &["stat", path, "--who"],
        &["map", path, "--by", "owner", "--csv"],
        &["check", path],
        &["walk", path, "0xffff000000000000"],
        &["diff", path, path],
    ];
    for line in lines {
        let ran = linmap(line);
        assert!(ran.0.status.code().is_some_and(|code| code <= 2), "{line:?}: {}", ran.stderr());
        assert!(!ran.stderr().contains("panicked"), "{line:?}: {}", ran.stderr());
    }
}
