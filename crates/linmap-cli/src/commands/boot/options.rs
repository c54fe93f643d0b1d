//! The options of `linmap boot`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use linmap::Granule;
use linmap::layout::ImageAlias;

use super::tasks;
use crate::kernel_options::{KernelOptions, data, page_size, text};
use crate::size::{Size, SizeError};

/// Boot the image under QEMU, show its console and a summary of the linear map
///
/// Exit status: 0 the kernel finished and all was well, 1 it finished with a failed test,
/// 2 anything else.
#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    /// RAM of the machine, in bytes or with K, M, G, T; may exceed the host's
    #[arg(long, value_name = "SIZE", default_value = "12G", value_parser = ram, help_heading = "Machine")]
    pub(crate) ram: Size,

    /// Number of CPUs; the kernel uses 512 at the most
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
    #[arg(value_parser = page_size(), ignore_case = true)]
    pub(crate) page_size: Granule,

    #[command(flatten)]
    pub(crate) kernel: KernelOptions,

    /// Tasks to run after boot, separated by commas, or '' for none
    #[arg(long, value_name = "LIST", default_value = "dump", value_delimiter = ',', long_help = tasks::help())]
    #[arg(value_parser = tasks::parser(), hide_possible_values = true, help_heading = "Kernel")]
    pub(crate) run: Vec<String>,

    /// The image's data and bss in the linear map
    #[arg(long, value_name = "HOW", default_value = "rw", value_parser = data(), help_heading = "Kernel")]
    pub(crate) data: ImageAlias,

    /// The image's code and constants in the linear map
    #[arg(long, value_name = "HOW", default_value = "ro", value_parser = text(), help_heading = "Kernel")]
    pub(crate) text: ImageAlias,

    /// Kernel arguments to append
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true, help_heading = "Kernel")]
    pub(crate) append: Option<String>,

    /// Image to boot [default: the one that `make image` built]
    #[arg(long, value_name = "PATH")]
    pub(crate) image: Option<PathBuf>,

    /// QEMU to boot it with
    #[arg(long, value_name = "PATH", default_value = "qemu-system-aarch64")]
    pub(crate) qemu: PathBuf,

    /// Seconds after which the run is stopped
    #[arg(long, value_name = "S", default_value_t = 120)]
    #[arg(value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    pub(crate) timeout: u32,

    /// Seconds without any CPU time of QEMU's after which the run is stopped
    #[arg(long, value_name = "S", default_value_t = 600)]
    #[arg(value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    pub(crate) idle: u32,

    /// Count instructions exactly (one CPU at a time, slower)
    #[arg(long)]
    pub(crate) count: bool,

    /// Print one JSON document; the console goes to stderr
    #[arg(long)]
    pub(crate) json: bool,
}

/// QEMU rounds RAM up to a multiple of this, but not its memory backend, and then refuses the pair.
const RAM_UNIT: Size = Size(8 << 10);
/// The RAM that the image and the device tree after it need.
const MIN_RAM: Size = Size(8 << 20);

fn ram(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: SizeError| error.to_string())?;
    if size.0 == 0 || !size.0.is_multiple_of(RAM_UNIT.0) {
        return Err(format!("RAM comes in multiples of {RAM_UNIT}, such as 12G"));
    }
    if size.0 < MIN_RAM.0 {
        return Err(format!("the image and its device tree need {MIN_RAM} of RAM"));
    }
    Ok(size)
}
