//! `--env DIR`: a folder with a `qemu-system-aarch64` that judges, for build systems that start QEMU themselves.
//!
//! The program is a script, which calls this command with `--wrapped`. That becomes QEMU: the process, its streams, its exit status and its
//! signals are those that the build system expects. What it leaves in the folder is read by `--report`.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::failure::Failure;
use super::files::Ram;
use super::machine::{Machine, under_tcg};
use super::options::Options;
use super::plugin;
use crate::status::Status;
use crate::terminal;

/// The program's name in the folder.
const PROGRAM: &str = "qemu-system-aarch64";
/// The end of the names of the two files of a run: what was started, and the plugin's document.
pub(crate) const STARTED: &str = ".run.json";
pub(crate) const JUDGED: &str = ".judged.json";

/// The beginning of the program, by which it is known.
const SCRIPT: &str = "#!/bin/sh\n# Made by `linmap judge --env`.\n";

/// Makes the folder.
pub(crate) fn make(directory: &Path, options: &Options) -> Result<Status, Failure> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| Failure::File { path, error }
    };
    let qemu = in_path(&options.qemu, &std::env::var_os("PATH").unwrap_or_default());
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
    fs::write(&program, format!("{SCRIPT}exec {} -- \"$@\"\n", quoted.join(" ")))
        .map_err(failed(&program))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(failed(&program))?;
    let folder = quoted_if_needed(&directory);
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
    let mut command = Command::new(&options.qemu);
    if asks_only(&options.machine) {
        command.args(&options.machine);
    } else {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Sorted by time; two runs at once have two processes.
        let name = format!("{:012}-{}", since.as_millis(), std::process::id());
        let judged = judged(directory, &name, options);
        let told: Vec<_> = options.machine.iter().map(|argument| argument.to_string_lossy()).collect();
        let run = json!({
            "arguments": told,
            "directory": std::env::current_dir().unwrap_or_default(),
            "symbols": options.symbols,
            "not_judged": judged.as_ref().err().map(ToString::to_string),
        });
        let file = directory.join(name + STARTED);
        let known = fs::write(&file, format!("{run:#}\n"));
        // A run that the report does not know of is not judged.
        match (judged, known) {
            (Ok(arguments), Ok(())) => command.args(arguments),
            (_, known) => {
                if let Err(error) = known {
                    terminal::error(Failure::File { path: file, error });
                }
                command.args(&options.machine)
            }
        };
    }
    let error = command.exec();
    Err(Failure::NoQemu { program: options.qemu.display().to_string(), error })
}

/// Returns the arguments of a run that is judged.
fn judged(directory: &Path, name: &str, options: &Options) -> Result<Vec<OsString>, Failure> {
    let plugin = plugin::find(plugin::version(&options.qemu)?, options.plugins.as_deref())?;
    let mut arguments = under_tcg(&options.machine)?;
    let machine = Machine::read(&arguments, options.ram_base)?;
    let ram = Ram::new(&machine)?.kept();
    // Build systems kill QEMU when a test has passed.
    arguments.extend(machine.added(&plugin, &ram, &directory.join(format!("{name}{JUDGED}")), ",often=on"));
    Ok(arguments)
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

/// Returns a program's path. A name is looked up in `paths`, where a script of `--env` does not count: it would start itself.
fn in_path(program: &Path, paths: &OsStr) -> PathBuf {
    if program.components().count() > 1 {
        return program.canonicalize().unwrap_or_else(|_| program.to_owned());
    }
    let is_program = |path: &PathBuf| {
        let mode = path.metadata().ok().filter(fs::Metadata::is_file).map(|about| about.permissions().mode());
        mode.is_some_and(|mode| mode & 0o111 != 0) && !is_script(path)
    };
    let found = std::env::split_paths(paths).map(|path| path.join(program)).find(is_program);
    found.unwrap_or_else(|| program.to_owned())
}

/// Returns true if a file is a script that this command has made.
fn is_script(path: &Path) -> bool {
    let mut start = vec![0; SCRIPT.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == SCRIPT.as_bytes()
}

/// Returns a path as a shell has it.
fn quoted_if_needed(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    if is_plain { text } else { quoted(path.as_os_str()) }
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
        let folders = [tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?];
        let [made, other, system] = folders.each_ref().map(|folder| folder.path().join(PROGRAM));
        for (program, text, mode) in [
            (&made, format!("{SCRIPT}exec …\n"), 0o755),
            (&other, "no program".to_owned(), 0o644),
            (&system, "#!/bin/sh\n".to_owned(), 0o755),
        ] {
            fs::write(program, text)?;
            fs::set_permissions(program, fs::Permissions::from_mode(mode))?;
        }
        let paths = std::env::join_paths(folders.iter().map(tempfile::TempDir::path));
        assert_eq!(in_path(Path::new(PROGRAM), &paths.map_err(std::io::Error::other)?), system);
        Ok(())
    }

    #[test]
    fn words_are_quoted() {
        assert_eq!(quoted(OsStr::new("a b")), "'a b'");
        assert_eq!(quoted(OsStr::new("it's")), r"'it'\''s'");
    }
}
