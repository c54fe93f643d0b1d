//! The cycles of the library's bulk loops, by llvm-mca: those of cores that nobody has at hand.
//!
//! - `loops`: the innermost loops of the functions of a module, in the disassembly of the image.
//! - `mca`: what llvm-mca says of one.

mod loops;
mod mca;

use self::loops::{Loop, loops};
use self::mca::{Llvm, cycles};
use crate::counts::Machine;
use crate::report::table;

/// The modules whose functions are the library's loops over many entries: of tables that no walker reaches, and of live ones.
const MODULES: [&str; 2] = ["linmap::build::fill", "linmap::platform::bulk"];

/// The cores, by their names and as LLVM has them. AmpereOne is what its MIDR calls part 0xac3.
const CORES: [(&str, &str); 3] = [("N1", "neoverse-n1"), ("V2", "neoverse-v2"), ("AmpereOne", "ampere1")];

/// Prints the cycles of each loop of these modules, or of another that `args` names.
///
/// # Errors
///
/// There is no llvm-mca of 19 or newer, no image, no function of the module, or one without a loop.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let modules = match args {
        [] => MODULES.to_vec(),
        [module] if !module.starts_with('-') => vec![module.as_str()],
        _ => return Err(format!("expected a module or nothing, not \"{}\"", args.join(" "))),
    };
    let llvm = Llvm::find()?;
    let machine = Machine::new()?;
    let image = machine.elf()?;
    let image = image.to_str().filter(|_| image.exists());
    let image = image.ok_or("there is no image; `make image` builds it")?;
    let text = machine.says(&llvm.objdump(), &["-d", "-C", "--no-show-raw-insn", image])?;
    for module in modules {
        let found = loops(&text, module)?;
        println!("{module}\n\n{}", report(&found, |body, core| cycles(&llvm, body, core))?);
    }
    Ok(())
}

/// Returns a table of loops: bytes that one iteration loads or stores, and for each core cycles for it and for 8 bytes.
fn report(found: &[Loop], cycles: impl Fn(&[String], &str) -> Result<f64, String>) -> Result<String, String> {
    let mut rows = Vec::new();
    for each in found {
        let mut row = vec![each.name.clone(), each.body.len().to_string(), each.bytes.to_string()];
        for (_, core) in CORES {
            let cycles = cycles(&each.body, core)?;
            row.push(format!("{cycles:.1}"));
            row.push(match each.bytes {
                0 => String::new(),
                bytes => format!("{:.2}", cycles * 8.0f64 / bytes as f64),
            });
        }
        rows.push(row);
    }
    let columns = CORES.iter().flat_map(|(name, _)| [format!("{name}: cycles"), "per 8 bytes".to_owned()]);
    let header: Vec<String> =
        ["loop", "instructions", "bytes"].map(str::to_owned).into_iter().chain(columns).collect();
    Ok(table(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_for_an_iteration_and_for_eight_bytes() {
        let found =
            |bytes| [Loop { name: "fill".to_owned(), body: vec!["stp x0, x1, [x2]".to_owned()], bytes }];
        let cycles = |_: &[String], core: &str| Ok(if core == "neoverse-v2" { 2.0 } else { 4.0 });
        let text = report(&found(32), cycles).unwrap();
        let cells: Vec<&str> = text.lines().nth(2).expect("a row").split('|').map(str::trim).collect();
        assert_eq!(cells[1..10], ["fill", "1", "32", "4.0", "1.00", "2.0", "0.50", "4.0", "1.00"], "{text}");
        assert!(report(&found(0), |_, _| Err("no llvm-mca".to_owned())).is_err());
    }
}
