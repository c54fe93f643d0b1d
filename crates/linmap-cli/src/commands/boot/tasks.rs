//! The values of `--run`: the kernel's own table of tasks, as help and as a check before boot.

use kernel_plan::tasks::{Refusal, TASKS, Task};

use crate::choices::Offering;

/// The least similarity (Jaro) at which another name is suggested.
const ALIKE: f64 = 0.7;

/// Returns the help of `--run`.
pub(crate) fn help() -> String {
    let called = |n: usize| format!("{}{}", TASKS[n].name, TASKS[n].parameters);
    let width = (0..TASKS.len()).map(|n| called(n).len()).max().unwrap_or_default();
    let lines = (0..TASKS.len()).map(|n| format!("\n  {:width$}  {}", called(n), TASKS[n].does));
    format!(
        "Tasks to run after boot, separated by commas, or '' for none; those from `fail` on go wrong on \
         purpose\n{}",
        lines.collect::<String>()
    )
}

/// Returns the parser of one task of the list.
pub(crate) fn parser() -> Offering {
    Offering { names: || TASKS.iter().map(|offer| offer.name).collect(), parse: task }
}

/// Returns one task of the list as it was written, if the kernel knows it; an empty one is no task.
fn task(text: &str) -> Result<String, String> {
    match Task::parse(text) {
        _ if text.is_empty() => Ok(String::new()),
        Ok(_) => Ok(text.to_owned()),
        Err(why) => Err(format!("{}{why}", meant(why))),
    }
}

/// Suggests the name that was probably meant.
fn meant(why: Refusal<'_>) -> String {
    let Refusal::Unknown(text) = why else { return String::new() };
    let name = text.split(':').next().unwrap_or_default();
    let alike = |offer: &&str| strsim::jaro(offer, name);
    let nearest = TASKS.iter().map(|offer| offer.name).max_by(|a, b| alike(a).total_cmp(&alike(b)));
    let nearest = nearest.filter(|offer| alike(offer) > ALIKE);
    nearest.map(|offer| format!("did you mean {offer}? ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_knows_passes_as_it_is() {
        for text in ["", "dump", "stress::7", "stress:5:6", "late:20", "overflow-last"] {
            assert_eq!(task(text), Ok(text.to_owned()));
        }
    }

    #[test]
    fn what_may_have_been_meant_is_said() {
        for (text, said) in [
            ("selftset", "did you mean selftest? there is no task selftset; there are bench, "),
            ("stresss:5", "did you mean stress? there is no task stresss:5; there are"),
            ("kprobe", "did you mean kprobes? "),
            ("bogus", "there is no task bogus; there are bench, contend, cpus, "),
            ("dump rodata=off", "did you mean dump? there is no task dump rodata=off; "),
            ("stress:many", "stress takes two numbers"),
            ("dump:3", "dump takes no numbers"),
        ] {
            let error = task(text).expect_err(text);
            assert!(error.starts_with(said), "{text}: {error}");
        }
    }

    #[test]
    fn help_has_all_of_them() {
        let help = help();
        for offer in TASKS {
            assert!(help.contains(offer.does) && help.contains(&format!("\n  {}", offer.name)), "{help}");
        }
    }
}
