//! llvm-mca: the cycles that a core takes for a loop, by LLVM's model of it.

use std::io::Write;
use std::process::{Command, Stdio};

/// The oldest LLVM that knows all cores.
const OLDEST: u32 = 19;
/// The newest that is looked for by its number.
const NEWEST: u32 = 29;
/// Iterations of a loop: so many that its beginning and end do not show.
const ITERATIONS: u32 = 1000;

/// LLVM's programs.
pub(super) struct Llvm {
    /// The end of their names, such as `-19`.
    suffix: String,
}

impl Llvm {
    /// Finds the oldest LLVM that is new enough.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(super) fn find() -> Result<Self, String> {
        let suffixes = (OLDEST..=NEWEST).map(|version| format!("-{version}")).chain([String::new()]);
        let versions = suffixes.filter_map(|suffix| {
            let llvm = Self { suffix };
            let output = Command::new(llvm.mca()).arg("--version").output().ok()?;
            Some((version(&String::from_utf8_lossy(&output.stdout))?, llvm))
        });
        let mut found = None;
        for (version, llvm) in versions {
            if version >= OLDEST {
                return Ok(llvm);
            }
            found = Some(version);
        }
        Err(refusal(found))
    }

    fn mca(&self) -> String {
        format!("llvm-mca{}", self.suffix)
    }

    pub(super) fn objdump(&self) -> String {
        format!("llvm-objdump{}", self.suffix)
    }
}

fn refusal(found: Option<u32>) -> String {
    let what = found.map_or("there is no llvm-mca".to_owned(), |version| {
        format!("llvm-mca {version} is too old: it has no model of Neoverse V2, and prints numbers of another core all the same")
    });
    format!("{what}; {OLDEST} or newer is needed, which Debian 12 and 13 have as llvm-19")
}

/// Reads the major version from what `--version` prints.
fn version(text: &str) -> Option<u32> {
    let number = text.split("LLVM version ").nth(1)?;
    number.split('.').next()?.parse().ok()
}

/// Returns the cycles that a core takes for an iteration of a loop.
///
/// # Errors
///
/// llvm-mca does not know the core or an instruction.
pub(super) fn cycles(llvm: &Llvm, body: &[String], core: &str) -> Result<f64, String> {
    let name = llvm.mca();
    let mut command = Command::new(&name);
    command.args(["-mtriple=aarch64", &format!("-mcpu={core}"), &format!("-iterations={ITERATIONS}")]);
    command.args(["-instruction-info=0", "-resource-pressure=0"]);
    let mut running = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{name}: {e}"))?;
    let text = format!("loop:\n{}\n", body.join("\n"));
    // It reads all of it before it prints.
    let written = running.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
    let output = running.wait_with_output().map_err(|e| format!("{name}: {e}"))?;
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let is_known = !errors.contains("not a recognized processor");
    match total(&said).filter(|_| output.status.success() && is_known && matches!(written, Some(Ok(())))) {
        Some(total) => Ok(total as f64 / f64::from(ITERATIONS)),
        None => Err(format!("{name} -mcpu={core}: {}\n{text}", errors.trim_end())),
    }
}

/// Reads the cycles of all iterations.
fn total(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix("Total Cycles:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("Debian LLVM version 19.1.7\n  Optimized build.\n"), Some(19));
        assert_eq!(version("LLVM (http://llvm.org/):\n  LLVM version 14.0.6"), Some(14));
        assert_eq!(version("something else"), None);
    }

    #[test]
    fn an_old_one_is_refused_with_the_reason() {
        assert!(refusal(Some(14)).contains("llvm-mca 14 is too old"));
        assert!(refusal(None).starts_with("there is no llvm-mca; 19 or newer"));
    }

    #[test]
    fn cycles_are_those_of_all_iterations() {
        let said = "Iterations:        1000\nInstructions:      3000\nTotal Cycles:      2003\n";
        assert_eq!(total(said), Some(2003));
        assert_eq!(total("Iterations: 1"), None);
    }
}
