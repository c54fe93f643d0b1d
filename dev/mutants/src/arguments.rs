//! The arguments of the command.

use test_support::parsed;

/// The request to the command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// Its arguments.
    Help,
    /// A run.
    Run(Arguments),
}

/// The arguments of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Arguments {
    pub(crate) sample: usize,
    pub(crate) seed: u64,
    pub(crate) only: Option<String>,
    pub(crate) jobs: usize,
}

impl Asked {
    /// Reads the arguments.
    ///
    /// # Errors
    ///
    /// One has no meaning: says which, and what was expected.
    pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Arguments { sample: 300, seed: 1, only: None, jobs: 1 };
        while let Some(name) = given.next() {
            if name == "--help" || name == "-h" {
                return Ok(Self::Help);
            }
            if !["--sample", "--seed", "--only", "--jobs"].contains(&name.as_str()) {
                return Err(format!("there is no argument `{name}`"));
            }
            let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
            let expected = |what: &str| format!("{name} {value}: {what} was expected");
            let count = || {
                let count = value.parse().ok().filter(|&n| n > 0);
                count.ok_or_else(|| expected("a number from 1 on"))
            };
            match name.as_str() {
                "--sample" => arguments.sample = count()?,
                "--jobs" => arguments.jobs = count()?,
                "--seed" => {
                    arguments.seed = parsed(&value).ok_or_else(|| expected("a seed, as in 7 or 0x12ab,"))?;
                }
                _ => arguments.only = Some(value),
            }
        }
        Ok(Self::Run(arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<Asked, String> {
        Asked::parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn arguments_have_defaults() {
        let run = |sample, seed, only: Option<&str>, jobs| {
            Ok(Asked::Run(Arguments { sample, seed, only: only.map(str::to_owned), jobs }))
        };
        assert_eq!(asked(""), run(300, 1, None, 1));
        assert_eq!(asked("--seed 7 --sample 100"), run(100, 7, None, 1));
        assert_eq!(asked("--seed 0x12ab --only index_of"), run(300, 0x12ab, Some("index_of"), 1));
        assert_eq!(asked("--jobs 2"), run(300, 1, None, 2));
        assert_eq!(asked("--sample 2 --help"), Ok(Asked::Help));
    }

    #[test]
    fn what_has_no_meaning_is_named() {
        for (words, said) in [
            ("--sample 0", "--sample 0: a number from 1 on was expected"),
            ("--sample -1", "--sample -1: a number from 1 on was expected"),
            ("--jobs many", "--jobs many: a number from 1 on was expected"),
            ("--seed x", "--seed x: a seed, as in 7 or 0x12ab, was expected"),
            ("--seed", "--seed needs a value"),
            ("--all", "there is no argument `--all`"),
        ] {
            assert_eq!(asked(words), Err(said.to_owned()));
        }
    }
}
