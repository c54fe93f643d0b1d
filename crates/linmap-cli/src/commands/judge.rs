//! `linmap judge`: runs an arm64 kernel under QEMU, unmodified, and judges each change of its tables.
//!
//! - `options`: the command line.  `machine`: the machine of a QEMU command line, and the arguments that are added.
//! - `plugin`: finds the plugin for a QEMU.  `guest`: QEMU from its start to its end.  `replay`: a saved log instead.
//! - `names`: functions by address.  `lines`: lines of their sources.  `kernel`: functions that Linux has of itself.
//! - `answer`: what the command adds to a document.  `allow`: findings that are known.  `report`: the findings for people.
//! - `env`: a QEMU that judges, for build systems.  `summary`: what its runs have left.
//! - `files`: the guest's RAM and the plugin's document.  `failure`: exit status 2.

mod allow;
mod answer;
mod env;
mod failure;
mod files;
mod guest;
mod kernel;
mod lines;
mod machine;
mod names;
mod options;
mod plugin;
mod replay;
mod report;
mod summary;

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

pub(crate) use options::Options;
use serde_json::{Value, json};

use super::boot::console::Sink;
use super::reading::schema;
use crate::status::Status;
use crate::terminal;
use answer::Answer;
use failure::Failure;
use files::{Files, read};
use guest::{Guest, Stop};
use machine::{Machine, in_argument, opened, under_tcg};
use names::{Names, address, hexadecimal};

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
    if let Some(directory) = &options.env {
        return env::make(directory, options);
    }
    if let Some(directory) = &options.report {
        return summary::sum_up(directory, options);
    }
    if let Some(directory) = &options.wrapped {
        return env::become_qemu(directory, options);
    }
    let answer = Answer::new(options)?;
    if let Some(log) = &options.replay {
        return replay::judge(log, options, &answer);
    }
    let version = plugin::version(&options.qemu);
    if options.check {
        return check(options, version);
    }
    let plugin = plugin::find(version?, options.plugins.as_deref())?;
    let mut arguments = under_tcg(&options.machine)?;
    let machine = Machine::read(&arguments, options.ram_base)?;
    let names = Names::read(options.symbols.as_deref(), machine.kernel.as_deref())?;
    let mut told = told(options, &names)?;
    if options.dry_run {
        let added = machine.added(&plugin, Path::new("RAM"), Path::new("DOCUMENT"), &told);
        let shown: Vec<String> = added.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        // What is not TCG is taken out of the arguments.
        terminal::print(&format!("{}\n", shown.join(" "))).map_err(Failure::Output)?;
        return Ok(Status::Fine);
    }
    let files = Files::new(&machine)?;
    let (stopped, monitor) = (files.path("stopped.json"), files.path("monitor"));
    if options.stop {
        told += &format!(",stop={}", in_argument(&stopped));
    }
    told += ",parent=on";
    arguments.extend(machine.added(&plugin, &files.ram.path(), &files.document(), &told));
    if options.stop {
        arguments.extend(opened(&monitor, &files.path("gdb")));
    }
    let console = match (options.quiet, options.json) {
        (true, _) => None,
        (_, true) => Some(Sink::Stderr),
        _ => Some(Sink::Stdout),
    };
    // The functions are those of the moment of the breach.
    let names = RefCell::new(Some(names));
    let conclude = |document: Value, ended: &str, time: Duration| -> Result<Status, Failure> {
        let names = names.take().unwrap_or_default();
        let names = names.in_guest(address(&document["vectors"]), || files.own(&machine));
        answer.give(document, &names, ended, time)
    };
    let paused = || -> Result<Status, Failure> {
        let status = conclude(read(&stopped), "a breach", Duration::ZERO)?;
        let path = |name: &str| files.path(name).display().to_string();
        terminal::note(format!(
            "the machine is paused until it is ended by Ctrl-C: \
             `gdb-multiarch -ex 'target remote {}'` and `linmap dump qemu:{}` look at it",
            path("gdb"),
            path("monitor")
        ));
        Ok(status)
    };
    let guest = Guest {
        program: &options.qemu,
        arguments,
        seconds: options.seconds,
        until: options.until.as_deref(),
        console,
        stop: options.stop.then_some(Stop { at: &stopped, monitor: &monitor, paused: &paused }),
    };
    let ended = guest.run()?;
    if let Some(status) = ended.paused {
        return Ok(status);
    }
    let document = files.read(&ended)?;
    if options.hide.is_some() && document["counts"]["hidden"].as_u64().is_none_or(|hidden| hidden == 0) {
        let why = "--hide has hidden nothing: the guest executed no such instruction there; a Linux that moves is booted with `nokaslr`";
        return Err(Failure::NotJudged(why.into()));
    }
    conclude(document, &ended.why.to_string(), ended.time)
}

/// Returns more arguments of the plugin: the log, and those by which the judge is told of something else than the guest does.
fn told(options: &Options, names: &Names) -> Result<String, Failure> {
    let log = options.log.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    let mut told = log.map_or_else(String::new, |path| format!(",log={}", in_argument(&path)));
    if let Some(hide) = &options.hide {
        let refused =
            |why: &str| Failure::Refused { option: "--hide".into(), value: hide.clone(), why: why.into() };
        let (kind, function) = hide.split_once(':').map_or((hide.as_str(), None), |(k, f)| (k, Some(f)));
        if !["tlbi", "dsb", "isb"].contains(&kind) {
            return Err(refused(
                "it is tlbi, dsb or isb, of one function with `:FUNCTION`, at one address with `:0xADDRESS`",
            ));
        }
        let one = function.filter(|name| name.starts_with("0x")).and_then(hexadecimal);
        let range = match (one, function) {
            (Some(at), _) => (at, at.saturating_add(4)),
            (None, None) => (0, u64::MAX),
            (None, Some(name)) => {
                names.function(name).ok_or_else(|| refused("the symbols have no such function"))?
            }
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
fn check(options: &Options, version: Result<plugin::Version, Failure>) -> Result<Status, Failure> {
    let known = version.as_ref().ok().copied();
    let qemu = version.map(|version| format!("{}, version {version}", options.qemu.display()));
    // Without a QEMU those for any.
    let plugins = known.map_or_else(plugin::all, |version| vec![version]).into_iter().map(|version| {
        let found = plugin::find(version, options.plugins.as_deref());
        ("plugin", found.map(|path| path.display().to_string()))
    });
    let (mut text, mut status) = (String::new(), Status::Fine);
    for (name, found) in [("QEMU", qemu)].into_iter().chain(plugins) {
        let said = found.unwrap_or_else(|why| {
            status = Status::Error;
            format!("missing: {why}")
        });
        text += &format!("{name:<7} {said}\n");
    }
    terminal::print(&text).map_err(Failure::Output)?;
    Ok(status)
}
