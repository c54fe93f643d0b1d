//! The boot arguments of a medium: refused here if the image would ignore one, as a machine may have no console to say so.

use kernel_plan::bootargs::BootArgs;
use kernel_plan::tasks::Task;

/// Returns what is wrong with boot arguments: each word that the image would ignore, and what would be right.
pub(super) fn wrong(line: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let arguments = BootArgs::parse(line, |ignored| wrong.push(ignored.to_string()));
    wrong.extend(arguments.tasks().filter_map(|task| Task::parse(task).err()).map(|why| why.to_string()));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_that_would_be_ignored_is_named() {
        for line in ["", "run=dump", "run=measure:quick,selftest pagesize=64k end=reset split=park"] {
            assert_eq!(wrong(line), Vec::<String>::new(), "{line}");
        }
        let said = wrong("run=mesure,measure:fast pages=64k end=rest");
        let starts = [
            "boot argument 'pages=64k' ignored: known are pagesize, ",
            "boot argument 'end=rest' ignored: end is off or reset",
            "there is no task mesure; there are bench, ",
            "measure is measure:quick or measure:full",
        ];
        assert_eq!(said.len(), starts.len(), "{said:?}");
        for (said, start) in said.iter().zip(starts) {
            assert!(said.starts_with(start), "{said}");
        }
    }
}
