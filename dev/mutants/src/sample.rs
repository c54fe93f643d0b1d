//! Which mutants are judged: a sample, or those whose names contain a text.

use test_support::Random;

use crate::error::Error;
use crate::mutant::Mutant;

/// Draws mutants. A larger sample by the same seed begins with the smaller one.
pub(crate) fn sample(population: &[Mutant], count: usize, seed: u64) -> Vec<&Mutant> {
    let mut all: Vec<_> = population.iter().collect();
    let mut random = Random::new(seed);
    let count = count.min(all.len());
    for n in 0..count {
        let drawn = n + random.index(all.len() - n);
        all.swap(n, drawn);
    }
    all.truncate(count);
    all
}

/// Returns the mutants whose names contain a text.
///
/// # Errors
///
/// There is none.
pub(crate) fn named<'m>(population: &'m [Mutant], text: &str) -> Result<Vec<&'m Mutant>, Error> {
    let all: Vec<_> = population.iter().filter(|mutant| mutant.name.contains(text)).collect();
    if all.is_empty() { Err(Error::NoSuch { text: text.to_owned(), of: population.len() }) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn population() -> Vec<Mutant> {
        (0..500).map(|n| Mutant::named(&format!("a.rs:{n}:1: replace < with <= in f{n}"))).collect()
    }

    fn names(population: &[Mutant], count: usize, seed: u64) -> Vec<&str> {
        sample(population, count, seed).iter().map(|mutant| mutant.name.as_str()).collect()
    }

    #[test]
    fn a_seed_draws_the_same_again() {
        let all = population();
        let first = names(&all, 40, 1);
        assert_eq!(first, names(&population(), 40, 1));
        assert_eq!(first, names(&all, 100, 1)[..40]);
        let other: HashSet<_> = names(&all, 40, 2).into_iter().collect();
        assert!(first.iter().filter(|name| other.contains(*name)).count() < 20);
    }

    /// No mutant is drawn twice.
    #[test]
    fn a_sample_is_as_large_as_asked() {
        let all = population();
        for (count, size) in [(1, 1), (300, 300), (500, 500), (501, 500)] {
            let drawn: HashSet<_> = names(&all, count, 7).into_iter().collect();
            assert_eq!(drawn.len(), size);
        }
        assert!(names(&[], 300, 1).is_empty());
    }

    #[test]
    fn a_name_that_no_mutant_has_is_an_error() {
        let all = population();
        assert_eq!(named(&all, "in f77").unwrap().len(), 1);
        let error = named(&all, "in g").unwrap_err().to_string();
        assert_eq!(error, "none of 500 mutants has `in g` in its name; cargo mutants --list has all names");
    }
}
