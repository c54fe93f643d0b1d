//! The command line of `linmap judge`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::names::hexadecimal;

/// Run an arm64 kernel under QEMU, unmodified, and judge each change of its page tables
///
/// A plugin shows QEMU's stores, barriers, TLBIs and register writes at EL1 to a model of the MMU. What is wrong by the manual is a
/// breach; an invalidation that missed what it was probably for, or did not come, is a suspect; what kernels do on purpose is a hint.
/// EL2 and EL3 are passed over. Exit status: 0 no breach, 1 a breach, 2 the guest could not be judged.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// Functions of the kernel: an ELF file, System.map or /proc/kallsyms [default: the file of -kernel, if it is ELF, or those that Linux has in its memory]
    #[arg(long, value_name = "FILE")]
    pub(crate) symbols: Option<PathBuf>,

    /// End the guest when its console has shown this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) until: Option<String>,

    /// End the guest after this many seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: Option<u32>,

    /// Exit with status 1 for a suspect, too
    #[arg(long)]
    pub(crate) strict: bool,

    /// Do not count the findings of this file: a rule, a function and the reason on each line
    #[arg(long, value_name = "FILE")]
    pub(crate) allow: Option<PathBuf>,

    /// Write all events to this file: --replay judges them again
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,

    /// Judge the events of this file instead of a guest
    #[arg(long, value_name = "FILE", conflicts_with_all = ["machine", "until", "seconds", "log", "stop", "quiet", "dry_run", "check", "hide", "localise", "shift"])]
    pub(crate) replay: Option<PathBuf>,

    /// End the replay after this event, and show what the tables and TLBs have at its address
    #[arg(long, value_name = "N", requires = "replay")]
    pub(crate) at: Option<usize>,

    /// Pause the machine at the first breach, for a debugger and for `linmap dump`
    #[arg(long)]
    pub(crate) stop: bool,

    /// Do not show the guest's console
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Print one JSON document; the console goes to stderr
    #[arg(long)]
    pub(crate) json: bool,

    /// Print what is added to QEMU's command line, and end
    #[arg(long, conflicts_with = "json")]
    pub(crate) dry_run: bool,

    /// Say what is there and what is missing, and end
    #[arg(long, conflicts_with = "json")]
    pub(crate) check: bool,

    /// Do not tell the judge of the TLBIs, DSBs or ISBs of the kernel, of one function, or at one address, while the guest runs unchanged
    #[arg(long, value_name = "tlbi|dsb|isb[:FUNCTION|:0xADDRESS]", help_heading = "Sensitivity")]
    pub(crate) hide: Option<String>,

    /// Tell the judge of TLBIs of all CPUs as of those of one
    #[arg(long, help_heading = "Sensitivity")]
    pub(crate) localise: bool,

    /// Tell the judge of TLBIs by address as of those of the 64K beside
    #[arg(long, help_heading = "Sensitivity")]
    pub(crate) shift: bool,

    /// Make a folder with a qemu-system-aarch64 that judges, for build systems that start QEMU themselves
    #[arg(long, value_name = "DIR", conflicts_with_all = ["machine", "until", "seconds", "strict", "allow", "log", "replay", "stop", "quiet", "json", "dry_run", "check", "hide", "localise", "shift", "report"], help_heading = "Build systems")]
    pub(crate) env: Option<PathBuf>,

    /// Sum up what the runs of --env DIR have left; exit with status 1 for a breach, with 2 if one was not judged
    #[arg(long, value_name = "DIR", conflicts_with_all = ["machine", "until", "seconds", "log", "replay", "stop", "quiet", "dry_run", "check", "hide", "localise", "shift"], help_heading = "Build systems")]
    pub(crate) report: Option<PathBuf>,

    /// Print the report as annotations of GitHub's workflows
    #[arg(long, requires = "report", conflicts_with = "json", help_heading = "Build systems")]
    pub(crate) github: bool,

    /// Become QEMU, judged, for a folder of --env
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) wrapped: Option<PathBuf>,

    /// QEMU: 10.0 or newer
    #[arg(long, value_name = "PROGRAM", default_value = "qemu-system-aarch64")]
    pub(crate) qemu: PathBuf,

    /// Directory of the plugins [default: beside this command, then lib/linmap beside its directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) plugins: Option<PathBuf>,

    /// Physical address of the first byte of RAM, in hexadecimal
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "0x40000000")]
    pub(crate) ram_base: u64,

    /// Command line of QEMU, after `--`
    #[arg(last = true, value_name = "QEMU ARGUMENTS", allow_hyphen_values = true)]
    pub(crate) machine: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  linmap judge --until 'login:' -- -M virt -cpu max -smp 2 -m 1G -kernel Image -append console=ttyAMA0 -nographic
  linmap judge --quiet --symbols vmlinux --seconds 60 -- -M virt -cpu max -m 1G -kernel Image -nographic
  linmap judge --replay events.jsonl --symbols vmlinux --at 61";

fn address(text: &str) -> Result<u64, String> {
    hexadecimal(text).ok_or_else(|| "not a hexadecimal number".into())
}
