//! `--env DIR`: a folder with a `qemu-system-aarch64` that judges, for build systems that start QEMU themselves.
//!
//! The program is a script, which calls this command with `--wrapped`. That becomes QEMU: the process, its streams, its exit status and its
//! signals are those that the build system expects. What it leaves in the folder is read by `--report`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::failure::Failure;
use super::files::{MEMORY, make_ram};
use super::machine::{Machine, in_argument};
use super::options::Options;
use super::plugin;
use crate::status::Status;
use crate::terminal;

/// The program's name in the folder.
const PROGRAM: &str = "qemu-system-aarch64";
/// The end of the names of the two files of a run: what was started, and the plugin's document.
pub(crate) const STARTED: &str = ".run.json";
pub(crate) const JUDGED: &str = ".judged.json";

/// Makes the folder.
pub(crate) fn make(directory: &Path, options: &Options) -> Result<Status, Failure> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| Failure::File { path, error }
    };
    let qemu = in_path(&options.qemu, &std::env::var_os("PATH").unwrap_or_default(), directory);
    plugin::find(plugin::version(&qemu)?, options.plugins.as_deref())?;
    fs::create_dir_all(directory).map_err(failed(directory))?;
    let directory = directory.canonicalize().map_err(failed(directory))?;
    let this = std::env::current_exe().map_err(failed(Path::new("this program")))?;
    let mut words: Vec<OsString> =
        vec![this.into(), "judge".into(), "--wrapped".into(), directory.clone().into()];
    words.extend(["--qemu".into(), qemu.into()]);
    words.extend(["--ram-base".into(), format!("{:#x}", options.ram_base).into()]);
    if let Some(plugins) = &options.plugins {
        words.extend(["--plugins".into(), plugins.canonicalize().map_err(failed(plugins))?.into()]);
    }
    if let Some(symbols) = &options.symbols {
        words.extend(["--symbols".into(), symbols.canonicalize().map_err(failed(symbols))?.into()]);
    }
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let program = directory.join(PROGRAM);
    fs::write(&program, format!("#!/bin/sh\nexec {} -- \"$@\"\n", quoted.join(" ")))
        .map_err(failed(&program))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(failed(&program))?;
    let folder = directory.display();
    let text = format!(
        "{folder}/{PROGRAM} judges what it runs:\n  \
         PATH={folder}:$PATH, or QEMU_BIN_PATH={folder} for Zephyr\n  \
         linmap judge --report {folder}    sums up what was found\n"
    );
    terminal::print(&text).map_err(Failure::Output)?;
    Ok(Status::Fine)
}

/// Replaces this process with QEMU and the plugin. A machine that cannot be judged runs without it, and the report says why.
pub(crate) fn become_qemu(directory: &Path, options: &Options) -> Result<Status, Failure> {
    let mut arguments = options.machine.clone();
    if !asks_only(&arguments) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Sorted by time; two runs at once have two processes.
        let name = format!("{:012}-{}", since.as_millis(), std::process::id());
        let added = added(directory, &name, options);
        let told = |arguments: &[OsString]| -> Vec<String> {
            arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect()
        };
        let run = json!({
            "arguments": told(&options.machine),
            "directory": std::env::current_dir().unwrap_or_default(),
            "symbols": options.symbols,
            "not_judged": added.as_ref().err().map(ToString::to_string),
        });
        let file = directory.join(name + STARTED);
        fs::write(&file, format!("{run:#}\n")).map_err(|error| Failure::File { path: file, error })?;
        arguments.extend(added.unwrap_or_default());
    }
    let error = Command::new(&options.qemu).args(arguments).exec();
    Err(Failure::NoQemu { program: options.qemu.display().to_string(), error })
}

/// Returns the arguments by which a run is judged.
fn added(directory: &Path, name: &str, options: &Options) -> Result<Vec<OsString>, Failure> {
    let plugin = plugin::find(plugin::version(&options.qemu)?, options.plugins.as_deref())?;
    let machine = Machine::read(&options.machine, options.ram_base)?;
    let ram = Path::new(MEMORY).join(format!("linmap-judge-{name}"));
    make_ram(&ram, &machine)?;
    // Nobody is there to remove it afterwards. Build systems kill QEMU when a test has passed.
    let more = format!(",unlink={},often=on", in_argument(&ram));
    Ok(machine.added(&plugin, &ram, &directory.join(format!("{name}{JUDGED}")), &more))
}

/// Returns true if QEMU is only asked for its version, for help, or for a list.
fn asks_only(arguments: &[OsString]) -> bool {
    let asks = |argument: &OsString| {
        let text = argument.to_string_lossy();
        matches!(&*text, "-version" | "--version" | "-h" | "-help" | "--help")
            || text.split(',').any(|word| matches!(word, "help" | "?"))
    };
    arguments.is_empty() || arguments.iter().any(asks)
}

/// Returns a program's path. A name is looked up in `paths`, but not in the folder that is made: its program would start itself.
fn in_path(program: &Path, paths: &OsStr, made: &Path) -> PathBuf {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if program.components().count() > 1 {
        return whole(program);
    }
    let others = std::env::split_paths(paths).filter(|path| whole(path) != whole(made));
    others.map(|path| path.join(program)).find(|path| path.is_file()).unwrap_or_else(|| program.to_owned())
}

/// Returns a word as a shell has it.
fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_no_runs() {
        let of = |line: &str| asks_only(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        for line in ["", "--version", "-machine help", "-cpu help -M virt", "-device virtio-net,help", "-M ?"]
        {
            assert!(of(line), "{line}");
        }
        for line in ["-M virt -kernel helper", "-append help=1 -M virt"] {
            assert!(!of(line), "{line}");
        }
    }

    #[test]
    fn the_program_does_not_start_itself() -> std::io::Result<()> {
        let [made, system] = [tempfile::tempdir()?, tempfile::tempdir()?];
        for directory in [&made, &system] {
            fs::write(directory.path().join(PROGRAM), "")?;
        }
        let paths = std::env::join_paths([made.path(), system.path()]).map_err(std::io::Error::other)?;
        assert_eq!(in_path(Path::new(PROGRAM), &paths, made.path()), system.path().join(PROGRAM));
        Ok(())
    }

    #[test]
    fn words_are_quoted() {
        assert_eq!(quoted(OsStr::new("a b")), "'a b'");
        assert_eq!(quoted(OsStr::new("it's")), r"'it'\''s'");
    }
}
