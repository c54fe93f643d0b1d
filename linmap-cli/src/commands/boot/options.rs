//! What can be asked of `linmap boot`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use linmap::Granule;

use super::tasks;
use crate::kernel_options;
use crate::size::{Size, SizeError};

/// Boot the image under QEMU, show its console and what became of the linear map
///
/// Exit status: 0 the kernel finished and all was well, 1 it finished with a failed test,
/// 2 anything else.
#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    /// RAM of the machine, in bytes or with K, M, G, T; may exceed the host's
    #[arg(long, value_name = "SIZE", default_value = "12G", value_parser = ram, help_heading = "Machine")]
    pub(crate) ram: Size,

    /// Number of CPUs; the kernel uses 64 at the most
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Machine")]
    #[arg(value_parser = RangedU64ValueParser::<u16>::new().range(1..=512))]
    pub(crate) cpus: u16,

    /// CPU model with its properties; this MIDR is AmpereOne's
    #[arg(long, value_name = "MODEL", default_value = "max,midr=0xc00fac30", help_heading = "Machine")]
    pub(crate) cpu: String,

    /// More -M properties, such as virtualization=on,gic-version=2
    #[arg(long, value_name = "EXTRA", help_heading = "Machine")]
    pub(crate) machine: Option<String>,

    /// Size of a page
    #[arg(long, value_name = "SIZE", default_value = "4k", help_heading = "Kernel")]
    #[arg(value_parser = kernel_options::page_size(), ignore_case = true)]
    pub(crate) page_size: Granule,

    /// Bits of a virtual address, 36 to 52
    #[arg(long, value_name = "BITS", default_value_t = 48, help_heading = "Kernel")]
    #[arg(value_parser = RangedU64ValueParser::<u8>::new().range(36..=52))]
    pub(crate) va_bits: u8,

    /// What is kept read-only
    #[arg(long, value_name = "WHAT", default_value = "full", value_enum, help_heading = "Kernel")]
    pub(crate) rodata: Rodata,

    /// Which CPUs may claim to change block sizes without break-before-make: auto (those that are known never
    /// to abort), off (none), boot-cpu (only the one that boots), or only so many
    #[arg(long, value_name = "WHO", default_value = "auto", value_parser = bbml2, help_heading = "Kernel")]
    pub(crate) bbml2: String,

    /// What to do where live splits are impossible
    #[arg(long, value_name = "HOW", default_value = "pages", value_enum, help_heading = "Kernel")]
    pub(crate) split: Split,

    /// Memory to set aside for a crash kernel [default: none]
    #[arg(long, value_name = "SIZE[@OFFSET]", help_heading = "Kernel")]
    pub(crate) crashkernel: Option<Crashkernel>,

    /// What to run once booted, several with commas between them, or '' for nothing
    #[arg(long, value_name = "LIST", default_value = "dump", value_delimiter = ',', long_help = tasks::help())]
    #[arg(value_parser = tasks::task, help_heading = "Kernel")]
    pub(crate) run: Vec<String>,

    /// Text to put behind all other kernel arguments
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true, help_heading = "Kernel")]
    pub(crate) append: Option<String>,

    /// Image to boot [default: the one that `make image` built]
    #[arg(long, value_name = "PATH")]
    pub(crate) image: Option<PathBuf>,

    /// QEMU to boot it with
    #[arg(long, value_name = "PATH", default_value = "qemu-system-aarch64")]
    pub(crate) qemu: PathBuf,

    /// Seconds after which the run is given up
    #[arg(long, value_name = "S", default_value_t = 120)]
    #[arg(value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    pub(crate) timeout: u32,

    /// Count instructions exactly (one CPU at a time, slower)
    #[arg(long)]
    pub(crate) count: bool,

    /// Print one JSON document; the console goes to stderr
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Rodata {
    /// Read-only data, and its aliases in the linear map
    Full,
    /// Read-only data, but not its aliases
    #[value(alias = "noalias")]
    On,
    /// Nothing
    Off,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Split {
    /// Map everything with pages from the start
    Pages,
    /// Park the other CPUs while blocks are split
    Park,
}

/// The name of a choice, as both command lines spell it.
pub(crate) fn name_of(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// `SIZE[@OFFSET]`
#[derive(Clone, Copy)]
pub(crate) struct Crashkernel {
    size: Size,
    offset: Option<Size>,
}

impl FromStr for Crashkernel {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        Ok(match text.split_once('@') {
            Some((size, offset)) => Self { size: size.parse()?, offset: Some(offset.parse()?) },
            None => Self { size: text.parse()?, offset: None },
        })
    }
}

impl std::fmt::Display for Crashkernel {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.offset {
            Some(offset) => write!(out, "{}@{offset}", self.size),
            None => self.size.fmt(out),
        }
    }
}

/// QEMU rounds RAM up to this, but not the memory behind it, and then refuses the pair.
const RAM_UNIT: Size = Size(8 << 10);
/// What QEMU's machine needs for the image and a device tree behind it.
const LEAST_RAM: Size = Size(8 << 20);

fn ram(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: SizeError| error.to_string())?;
    if size.0 == 0 || !size.0.is_multiple_of(RAM_UNIT.0) {
        return Err(format!("RAM comes in multiples of {RAM_UNIT}, such as 12G"));
    }
    if size.0 < LEAST_RAM.0 {
        return Err(format!("the image and its device tree need {LEAST_RAM} of RAM"));
    }
    Ok(size)
}

/// Who claims never to abort, as both command lines spell it.
pub(crate) fn bbml2(who: &str) -> Result<String, String> {
    match who {
        "auto" | "off" | "boot-cpu" => Ok(who.to_owned()),
        _ => match who.parse::<u32>() {
            Ok(first) => Ok(first.to_string()),
            Err(_) => Err("auto, off, boot-cpu or a number of CPUs".to_owned()),
        },
    }
}
