//! `linmap judge`: runs an arm64 kernel under QEMU, unmodified, and judges each change of its tables.
//!
//! - `options`: the command line.  `machine`: the machine of a QEMU command line, and the arguments that are added.
//! - `plugin`: finds the plugin for a QEMU.  `guest`: QEMU from its start to its end.
//! - `names`: functions by address.  `kernel`: those that Linux has of itself.  `allow`: findings that are known.
//! - `report`: the findings for people.  `failure`: exit status 2.

mod allow;
mod failure;
mod guest;
mod kernel;
mod machine;
mod names;
mod options;
mod plugin;
mod report;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub(crate) use options::Options;
use rustix::fs::statvfs;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::boot::console::Sink;
use super::reading::schema;
use crate::size::Size;
use crate::status::Status;
use crate::terminal;
use allow::Allowed;
use failure::Failure;
use guest::{Ending, Guest};
use kernel::Own;
use machine::Machine;
use names::{Names, address};

/// Runs a guest and reports what was found.
pub(crate) fn run(options: &Options) -> Status {
    match judge(options) {
        Ok(status) => status,
        Err(failure) => {
            if options.json {
                let document =
                    json!({ "schema": schema("judge"), "ok": false, "error": failure.to_string() });
                // The run has failed, whether or not this is read.
                let _ = terminal::print_document(&document);
            }
            terminal::error(failure);
            Status::Error
        }
    }
}

fn judge(options: &Options) -> Result<Status, Failure> {
    let version = plugin::version(&options.qemu)?;
    let plugin = plugin::find(version, options.plugins.as_deref());
    if options.check {
        return check(options, version, plugin);
    }
    let (plugin, machine) = (plugin?, Machine::read(&options.machine, options.ram_base)?);
    let names = Names::read(options.symbols.as_deref(), machine.kernel.as_deref())?;
    let allowed = Allowed::read(options.allow.as_deref())?;
    let told = told(options, &names)?;
    if options.dry_run {
        let added = machine.added(&plugin, Path::new("RAM"), Path::new("DOCUMENT"), &told);
        let shown: Vec<String> = added.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        terminal::print(&format!("{}\n", shown.join(" "))).map_err(Failure::Output)?;
        return Ok(Status::Fine);
    }
    let files = Files::new(&machine)?;
    let added = machine.added(&plugin, &files.ram, &files.document(), &told);
    let console = match (options.quiet, options.json) {
        (true, _) => None,
        (_, true) => Some(Sink::Stderr),
        _ => Some(Sink::Stdout),
    };
    let guest = Guest {
        program: &options.qemu,
        arguments: options.machine.iter().cloned().chain(added).collect(),
        seconds: options.seconds,
        until: options.until.as_deref(),
        console,
    };
    let ended = guest.run()?;
    let document = files.read(&ended)?;
    if options.hide.is_some() && document["counts"]["hidden"].as_u64().is_none_or(|hidden| hidden == 0) {
        let why = "--hide has hidden nothing: the guest executed no such instruction there; a Linux that moves is booted with `nokaslr`";
        return Err(Failure::NotJudged(why.into()));
    }
    let names = names.in_guest(address(&document["vectors"]), || files.own(&machine));
    let mut document = names.named(document);
    allowed.apply(&mut document);
    let document = concluded(document, &ended, options.strict);
    if options.json {
        terminal::print_document(&document).map_err(Failure::Output)?;
    } else {
        terminal::print(&report::of(&document, &names)).map_err(Failure::Output)?;
    }
    Ok(if document["ok"] == true { Status::Fine } else { Status::Findings })
}

/// Returns more arguments of the plugin: the log, and those by which the judge is told of something else than the guest does.
fn told(options: &Options, names: &Names) -> Result<String, Failure> {
    let log = options.log.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    let mut told = log
        .map_or_else(String::new, |path| format!(",log={}", path.display().to_string().replace(',', ",,")));
    if let Some(hide) = &options.hide {
        let refused =
            |why: &str| Failure::Refused { option: "--hide".into(), value: hide.clone(), why: why.into() };
        let (kind, function) = hide.split_once(':').map_or((hide.as_str(), None), |(k, f)| (k, Some(f)));
        if !["tlbi", "dsb", "isb"].contains(&kind) {
            return Err(refused("it is tlbi, dsb or isb, and of one function with `:FUNCTION`"));
        }
        let range = match function {
            None => (0, u64::MAX),
            Some(name) => names.function(name).ok_or_else(|| refused("the symbols have no such function"))?,
        };
        told += &format!(",hide={kind}@{:x}-{:x}", range.0, range.1);
    }
    for (is_so, name) in [(options.localise, "localise"), (options.shift, "shift")] {
        if is_so {
            told += &format!(",{name}=on");
        }
    }
    Ok(told)
}

/// Says what is there and what is missing, a line each.
fn check(
    options: &Options,
    version: plugin::Version,
    plugin: Result<PathBuf, Failure>,
) -> Result<Status, Failure> {
    let mut text = format!("QEMU    {}, version {version}\n", options.qemu.display());
    let status = match plugin {
        Ok(path) => {
            text += &format!("plugin  {}\n", path.display());
            Status::Fine
        }
        Err(why) => {
            text += &format!("plugin  missing: {why}\n");
            Status::Error
        }
    };
    terminal::print(&text).map_err(Failure::Output)?;
    Ok(status)
}

/// Adds what the command knows of a run to the plugin's document.
fn concluded(mut document: Value, ended: &Ending, strict: bool) -> Value {
    let of = |grade: &str| {
        let found = document["findings"].as_array().into_iter().flatten();
        found.filter(|finding| finding["grade"] == grade && finding.get("allowed").is_none()).count()
    };
    let [breaches, suspects, hints] = ["breach", "suspect", "hint"].map(of);
    document["schema"] = schema("judge").into();
    document["ok"] = (breaches == 0 && !(strict && suspects != 0)).into();
    document["breaches"] = breaches.into();
    document["suspects"] = suspects.into();
    document["hints"] = hints.into();
    document["milliseconds"] = (ended.time.as_millis() as u64).into();
    document["ended_by"] = ended.why.to_string().into();
    document
}

/// The files of a run. They go with it.
struct Files {
    directory: TempDir,
    /// The guest's RAM. In a file system in memory: on a disk it takes minutes.
    ram: PathBuf,
    _ram: TempDir,
}

impl Files {
    fn new(machine: &Machine) -> Result<Self, Failure> {
        let failed = |path: &str| {
            let path = path.into();
            move |error| Failure::File { path, error }
        };
        let directory = TempDir::new().map_err(failed("a temporary directory"))?;
        let room =
            statvfs("/dev/shm").map_or(u64::MAX, |about| about.f_bavail.saturating_mul(about.f_frsize));
        if room < machine.ram.0 {
            return Err(Failure::NotJudged(format!(
                "the guest's RAM is a file in /dev/shm, which has {} left, and it needs {}",
                Size(room),
                machine.ram
            )));
        }
        let in_memory = TempDir::with_prefix_in("linmap-judge-", "/dev/shm").map_err(failed("/dev/shm"))?;
        let ram = in_memory.path().join("ram");
        let sized = File::create(&ram).and_then(|file| file.set_len(machine.ram.0));
        sized.map_err(failed("/dev/shm"))?;
        Ok(Self { directory, ram, _ram: in_memory })
    }

    /// The document that the plugin writes.
    fn document(&self) -> PathBuf {
        self.directory.path().join("judged.json")
    }

    /// Reads the functions that a Linux guest's memory has of itself.
    fn own(&self, machine: &Machine) -> Option<Own> {
        kernel::read(&File::open(&self.ram).ok()?, machine.base)
    }

    /// Reads the document of a run that has ended.
    fn read(&self, ended: &Ending) -> Result<Value, Failure> {
        let text = fs::read_to_string(self.document()).unwrap_or_default();
        let document: Value = serde_json::from_str(&text).unwrap_or_default();
        if document.is_null() {
            return Err(Failure::NotJudged(format!("QEMU left no document: {}", ended.why)));
        }
        if document["blocks"][1].as_u64().is_none_or(|blocks| blocks == 0) {
            return Err(Failure::NotJudged(format!("the guest executed nothing at EL1: {}", ended.why)));
        }
        Ok(document)
    }
}
