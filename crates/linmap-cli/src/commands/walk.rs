//! `linmap walk`: one translation, level by level; or, from memory, every mapping of a page.
//!
//! - `fields`: the fields of a descriptor.  `walked`: the result, and its document.  `report`: the walk for people.
//! - `mapped`: the mappings of a page.

mod fields;
mod mapped;
mod report;
mod walked;

use clap::Args;
use linmap::{Half, Pa, Va};

use super::names::{Names, SymbolsArgument};
use super::options::MapOptions;
use super::reading::{Failure, SOURCES, SourceArgument, concluded, open, refuse_unless_guest, regions, view};
use super::selection::parse_address;
use crate::map::descent::path;
use crate::map::image::Image;
use crate::map::mappings;
use crate::progress;
use crate::source::{Source, VmcoreInfo, Wanted, is_address};
use crate::status::Status;
use crate::terminal;
use mapped::Mapped;
use walked::Walked;

/// Translate one kernel address, level by level, with every field of each descriptor
///
/// With --pa, --region and --range say where mappings are looked for. Exit status: 0 it translates, or something maps the page; 1 not so; 2 error.
#[derive(Args)]
#[command(args_override_self = true, allow_missing_positional = true, after_long_help = SOURCES)]
pub(crate) struct Options {
    #[command(flatten)]
    source: SourceArgument,

    /// The address, in hex, or a symbol of the kernel, such as _stext or swapper_pg_dir+0x8
    #[arg(value_name = "VA", required_unless_present = "pa")]
    va: Option<String>,

    /// Show every mapping of a page of memory instead, by its physical address in hex
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pa: Option<u64>,

    #[command(flatten)]
    map: MapOptions,

    #[command(flatten)]
    symbols: SymbolsArgument,
}

/// Walks the tables and reports the result.
pub(crate) fn run(options: &Options) -> Status {
    match (options.pa, &options.va) {
        (Some(pa), _) => concluded("mappings", options.map.form.json, map_back(options, Pa(pa))),
        (None, Some(va)) => concluded("walk", options.map.form.json, walk(options, va)),
        // The parser refuses it.
        (None, None) => Status::Error,
    }
}

/// Shows every mapping of a page. A positional argument is then the SOURCE.
fn map_back(options: &Options, pa: Pa) -> Result<Status, Failure> {
    let opened = match (&options.va, options.source.given()) {
        (Some(va), Some(_)) => {
            let va = crate::printable::line(va);
            return Err(Failure::Wrong(format!(
                "`{va}` and --pa {pa}: either an address is walked, or a page's mappings"
            )));
        }
        (Some(source), None) => {
            let source = Source::parse(source.into()).map_err(|why| Failure::Wrong(why.to_string()))?;
            refuse_unless_guest(options.map.pausing, [&source])?;
            open(&source, Wanted::All, options.map.pausing)?
        }
        (None, _) => options.source.open(Wanted::All, options.map.pausing)?,
    };
    let view = view(&opened)?;
    if !view.has_addresses {
        let name = view.name();
        return Err(Failure::Wrong(format!(
            "{name}: a text dump has no output addresses, so it does not say what maps {pa}"
        )));
    }
    let image = Image::find(&view).map_err(Failure::walk(&view))?;
    let regions = regions(&view, image.as_ref());
    let parts = options.map.selection.parts(&view, &regions)?;
    let ranges: Vec<(Va, Va)> = parts.iter().map(|part| part.range).collect();
    progress::begin("looking for mappings");
    let found = mappings::of(&view, pa, &ranges).map_err(Failure::walk(&view))?;
    let mapped = Mapped::new(pa, found, &regions);
    if options.map.form.json {
        terminal::print_document(&mapped.document(&view))?;
    } else if options.map.form.csv {
        terminal::print(&mapped.csv())?;
    } else {
        terminal::print(&mapped.report(&view))?;
    }
    Ok(if mapped.is_mapped() { Status::Fine } else { Status::Findings })
}

fn walk(options: &Options, asked: &str) -> Result<Status, Failure> {
    if let Some(mistaken) = mistaken(asked, options.source.given()) {
        return Err(Failure::Wrong(mistaken));
    }
    options.map.selection.refuse(
        "one address is translated; `linmap walk --pa` looks for mappings in a part of the addresses, and `linmap dump` prints one",
    )?;
    // The address of a symbol is known only after everything was read.
    let opened = options.source.open(Wanted::All, options.map.pausing)?;
    let view = view(&opened)?;
    let names = options.symbols.names(&view)?;
    let info = view.kernel.info.as_ref();
    let (va, symbol) = resolve(asked, info, &names, view.name()).map_err(Failure::Wrong)?;
    let symbol = symbol.or_else(|| names.name(va));
    let base = view.geometry.base(Half::Upper);
    if va.0 < base {
        let bits = view.geometry.va_bits();
        return Err(Failure::Wrong(format!(
            "{va} is no address of this kernel: with {bits} VA bits they start at {base:#x}"
        )));
    }
    if !view.knows((va, va)) {
        return Err(Failure::Wrong(view.not_saved(va)));
    }
    let image = Image::find(&view).map_err(Failure::walk(&view))?;
    let region = regions(&view, image.as_ref()).name_at(va);
    let path = path(&view.bounded(), view.geometry, view.root, va).map_err(Failure::walk(&view))?;
    let walked = Walked { va, symbol, region, path };
    if options.map.form.json {
        terminal::print_document(&walked.document(&view))?;
    } else if options.map.form.csv {
        terminal::print(&walked.csv(&view))?;
    } else {
        terminal::print(&report::of(&view, &walked))?;
    }
    Ok(if walked.translation().is_some() { Status::Fine } else { Status::Findings })
}

/// Returns a hint if there is a SOURCE in the place of the address: the two are swapped, or one is missing.
fn mistaken(va: &str, source: Option<&Source>) -> Option<String> {
    let other = source.map(ToString::to_string);
    let is_reversed = other.as_deref().is_some_and(is_address);
    let is_source = va.starts_with("qemu:") || va.starts_with("gdb:") || std::path::Path::new(va).exists();
    if is_address(va) || !(is_reversed || is_source && source.is_none()) {
        return None;
    }
    let text = crate::printable::line(va);
    Some(match other.filter(|_| is_reversed) {
        Some(address) => {
            format!("`{address}` is an address, and comes after the SOURCE: `linmap walk {text} {address}`")
        }
        None => {
            format!("`{text}` is a SOURCE, and there is no address: `linmap walk {text} 0xffff000040000000`")
        }
    })
}

/// Reads an address: `_stext`, `_stext+0x1000`, `0xffff800080010000`.
fn resolve(
    text: &str,
    info: Option<&VmcoreInfo>,
    names: &Names,
    source: &str,
) -> Result<(Va, Option<String>), String> {
    let (name, offset) = match text.split_once('+') {
        Some((name, offset)) => (name, parse_address(offset).map_err(|why| format!("`{text}`: {why}"))?),
        None => (text, 0),
    };
    if let Some(address) = info.and_then(|info| info.symbol(name)).or_else(|| names.address(name)) {
        return Ok((Va(address.wrapping_add(offset)), Some(text.to_owned())));
    }
    if let Ok(address) = parse_address(name) {
        return Ok((Va(address.wrapping_add(offset)), None));
    }
    let name = crate::printable::excerpt(name, 60);
    let Some(why) = &names.missing else {
        return Err(format!("`{name}` is neither a hexadecimal address nor a symbol of this kernel"));
    };
    let known: Vec<&str> = info.into_iter().flat_map(VmcoreInfo::symbols).map(|(name, _)| name).collect();
    Err(match known[..] {
        [] => format!(
            "`{name}` is no hexadecimal address, and {source} has no VMCOREINFO with symbols; --symbols names a file of them"
        ),
        _ => format!(
            "`{name}` is neither a hexadecimal address nor among the symbols of VMCOREINFO: {}; {why}, and --symbols \
             names a file of symbols",
            crate::printable::excerpt(&known.join(", "), 400)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_symbol_or_hexadecimal() {
        let info = VmcoreInfo::parse(
            b"OSRELEASE=6.1\nSYMBOL(_stext)=ffff800008010000\nSYMBOL(face)=ffff800008020000\n",
        );
        let none = Names::none("not told");
        let at = |text: &str| resolve(text, Some(&info), &none, "core").map(|(va, _)| va.0);
        assert_eq!(at("_stext"), Ok(0xffff_8000_0801_0000));
        assert_eq!(at("_stext+0x10"), Ok(0xffff_8000_0801_0010));
        // A symbol comes before a number.
        assert_eq!(at("face"), Ok(0xffff_8000_0802_0000));
        assert_eq!(at("cafe"), Ok(0xcafe));
        assert_eq!(at("0xffff000000000000+1000"), Ok(0xffff_0000_0000_1000));
        for wrong in ["", "_etext", "0x", "1 2", "_stext+", "_stext+x", "0x11111111111111111"] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
        assert!(at("_etext").unwrap_err().contains("_stext"));
        assert!(resolve("_stext", None, &none, "text").unwrap_err().contains("no VMCOREINFO"));
    }
}
