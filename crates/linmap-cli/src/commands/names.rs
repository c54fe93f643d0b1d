//! Names of addresses, for the commands that show them: from a file, or from the kernel's own tables of symbols.

use std::path::PathBuf;

use clap::Args;
use linmap::Va;

use super::reading::Failure;
use crate::linux::kallsyms;
use crate::linux::symbols::Symbols;
use crate::map::view::View;
use crate::printable::line;
use crate::progress;

/// The most bytes of a file of symbols.
const MAX_BYTES: u64 = 256 << 20;

#[derive(Args)]
pub(crate) struct SymbolsArgument {
    /// Take symbols from System.map or a copy of /proc/kallsyms [default: the kernel's own, of a core or this machine]
    #[arg(long, value_name = "FILE")]
    symbols: Option<PathBuf>,
}

/// The symbols of a kernel, as far as there are any.
#[derive(Debug)]
pub(crate) struct Names {
    symbols: Symbols,
    /// Why there are none.
    pub(crate) missing: Option<String>,
}

impl SymbolsArgument {
    /// Refuses a file that would not be read, for this reason.
    pub(crate) fn refuse(&self, why: &str) -> Result<(), Failure> {
        match &self.symbols {
            Some(_) => Err(Failure::Wrong(format!("--symbols does not apply: {why}"))),
            None => Ok(()),
        }
    }

    /// Returns the symbols of the kernel. A file that was named must have them.
    pub(crate) fn names(&self, view: &View<'_>) -> Result<Names, Failure> {
        progress::begin("reading symbols");
        if let Some(path) = &self.symbols {
            let wrong =
                |why: String| Failure::Wrong(format!("--symbols `{}`: {why}", line(&path.to_string_lossy())));
            let about = std::fs::metadata(path).map_err(|why| wrong(why.to_string()))?;
            if about.len() > MAX_BYTES {
                return Err(wrong("it is larger than any file of symbols".to_owned()));
            }
            let text = std::fs::read(path).map_err(|why| wrong(why.to_string()))?;
            let symbols =
                Symbols::parse(&String::from_utf8_lossy(&text)).map_err(|why| wrong(why.to_string()))?;
            return Ok(Names { symbols: placed(symbols, view).map_err(wrong)?, missing: None });
        }
        let info = view.kernel.info.as_ref();
        let told = |name: &str| info?.symbol(name);
        let read =
            |va: u64, into: &mut [u8]| view.tables.is_some_and(|tables| tables.read_virtual(Va(va), into));
        Ok(match kallsyms::read(told, &read) {
            Ok(symbols) => Names { symbols, missing: None },
            Err(why) => Names::none(why),
        })
    }
}

/// Moves symbols to where this kernel is: with KASLR, System.map has other addresses.
fn placed(symbols: Symbols, view: &View<'_>) -> Result<Symbols, String> {
    let info = view.kernel.info.as_ref();
    let distance = |name: &str| Some(info?.symbol(name)?.wrapping_sub(symbols.address(name)?));
    match (distance("_stext"), distance("swapper_pg_dir")) {
        (Some(one), Some(other)) if one != other => {
            Err("it is of another kernel: _stext and swapper_pg_dir are another distance apart".to_owned())
        }
        (Some(by), _) | (None, Some(by)) if by != 0 => Ok(symbols.moved(by)),
        _ => Ok(symbols),
    }
}

impl Names {
    /// Returns no names, for this reason.
    pub(crate) fn none(why: impl ToString) -> Self {
        Self { symbols: Symbols::default(), missing: Some(why.to_string()) }
    }

    /// Returns the address of a symbol.
    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        self.symbols.address(name)
    }

    /// Returns the symbol that an address belongs to, fit for a terminal.
    pub(crate) fn name(&self, va: Va) -> Option<String> {
        self.symbols.name(va.0).map(|name| line(&name))
    }
}
