//! The image as UEFI firmware starts it: its size, and the instructions from the firmware's call to the live map.

use serde_json::Value;

use crate::report;

/// QEMU with AAVMF at EL2, counting; the script that runs it is that of the tests.
const BOOT: &str = "boot --count --json --cpus 1 --ram 12G --machine acpi=off,virtualization=on \
                    --qemu crates/linmap-cli/tests/image/efi-qemu";
/// The second figure.
const LIVE: &str = "from the firmware's call to the live map of 12 GiB, one CPU, QEMU with AAVMF at EL2";
/// QEMU counts an instruction as a nanosecond.
const NANOSECONDS: u64 = 1_000_000_000;

/// Returns a table of these figures; `linmap` runs the command, and `bytes` is the size of the file.
///
/// # Errors
///
/// The command fails, which it does without firmware, or its document lacks a number.
pub(super) fn table(linmap: impl Fn(&str) -> Result<String, String>, bytes: u64) -> Result<String, String> {
    let text = linmap(BOOT).map_err(|e| format!("{e} (AAVMF is in the package qemu-efi-aarch64)"))?;
    let document: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let number = |key: &str| document["efi"][key].as_u64().filter(|number| *number > 0);
    let (Some(ticks), Some(frequency)) = (number("ticks"), number("frequency")) else {
        return Err("the document of a boot by firmware lacks its time".to_owned());
    };
    let instructions = (ticks * (NANOSECONDS / frequency)) as f64 / 1e6f64;
    let rows = [
        vec!["bytes of the file, debug information left out".to_owned(), report::thousands(bytes)],
        vec![LIVE.to_owned(), format!("{instructions:.1} million instructions")],
    ];
    Ok(report::table(&["figure", "value"], &rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_instructions() {
        let boot = |efi: &str| Ok(format!("{{\"efi\": {efi}}}"));
        let table =
            table(|_| boot("{\"ticks\": 250000, \"frequency\": 62500000}"), 1_458_688).expect("a table");
        assert!(table.contains("1,458,688") && table.contains("4.0 million"), "{table}");
        assert!(super::table(|_| boot("{}"), 1).is_err());
    }
}
