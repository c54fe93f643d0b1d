//! Every command line that a document shows runs and exits with 0, or stands in `not_run.txt` with the reason.
//!
//! They run in a directory of their own, in the order of the documents, as a reader would type them. The programs, the image
//! and `bare-metal` are those that `make test` has built.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use book::{commands, documents};
use linmap::{
    Attributes, Change, Geometry, Granule, Half, Leaves, OaFormat, Pa, Policy, Region, SharedSpace, Tree, Va,
};
use linmap_model::{Core, Expected, Mapping, Model, Register, Setup};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All command lines, and where each stands first.
fn shown() -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for name in documents(&root()).expect("documents") {
        let text = fs::read_to_string(root().join(&name)).expect("a document");
        for command in commands(&text) {
            if found.iter().all(|(words, _)| *words != command.words) {
                found.push((command.words, format!("{}:{}", name.display(), command.line)));
            }
        }
    }
    found
}

/// The command lines that are not run, with the reasons.
fn not_run() -> BTreeMap<&'static str, &'static str> {
    let rows = include_str!("not_run.txt").lines().filter(|row| !row.starts_with('#') && !row.is_empty());
    rows.map(|row| row.rsplit_once(" | ").expect("a command | a reason"))
        .map(|(words, reason)| (words.trim(), reason))
        .collect()
}

/// Says in one text what is wrong with each of them.
fn none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The directory of the programs that `make test` has built, and the one above, which has the images.
fn built() -> (PathBuf, PathBuf) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a directory above");
    let test = std::env::current_exe().expect("this program");
    (test.parent().and_then(Path::parent).expect("a directory above").to_owned(), target.to_owned())
}

/// Writes the log of a page that is made read-only, as docs/model.md does.
fn log(file: fs::File) {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
    let model = Model::new(&Setup::new(g, &[Core::STRONG; 2])).expect("a machine");
    model.log_to(file).expect("room");
    let (cpu, va, pa) = (model.cpu(0), Va(g.base(Half::Upper)), Pa(0x4000_0000));
    let run = Region { va, oa: pa, bytes: 1 << 12, attributes: Attributes::RAM, leaves: Leaves::Pages };
    let tree = Tree::build(&cpu, g, Half::Upper, run.runs(g)).expect("pages enough");
    let space = SharedSpace::adopt(tree);
    space.set_policy(Policy::Live);
    cpu.announces(space.root(), run.runs(g));
    for number in 0..2 {
        model.cpu(number).reports();
        model.cpu(number).loads(Register::Ttbr1, space.root());
    }
    let read_only = Mapping::new(pa, Attributes::RAM | Attributes::READ_ONLY);
    cpu.begins(space.root(), "protect", &[Expected::new(va, 1 << 12, Some(read_only))]);
    // SAFETY: the memory is the model's.
    cpu.done(unsafe { space.on(&cpu).protect(va, 1, Change::READ_ONLY) }.is_ok());
    model.finish().expect("no breach");
}

/// A directory as the documents expect it: programs in `bin`, what was built in `target`, files with the names that they use.
fn reader() -> tempfile::TempDir {
    let reader = tempfile::tempdir().expect("a directory");
    let at = |name: &str| reader.path().join(name);
    for directory in ["bin", "target/release", "media/usb"] {
        fs::create_dir_all(at(directory)).expect("room");
    }
    let (programs, target) = built();
    let link = |from: PathBuf, to: &str| {
        assert!(from.is_file(), "{} is not there: `make test` builds it", from.display());
        symlink(from, at(to)).expect("room");
    };
    link(programs.join("linmap"), "bin/linmap");
    link(programs.join("linmap"), "target/release/linmap");
    link(programs.join("linmap-model"), "bin/linmap-model");
    for (image, names) in [
        ("linmap.img", &["target/linmap.img", "linmap.img", "signed.efi"][..]),
        ("bare-metal.elf", &["target/bare-metal.elf"]),
    ] {
        names.iter().for_each(|name| link(target.join(image), name));
    }
    ["LOG", "events.jsonl"].iter().for_each(|name| log(fs::File::create(at(name)).expect("room")));
    let measured = root().join("docs/machines/qemu-neoverse-n1.json");
    for name in ["console.log", "n1.log", "ampereone.log"] {
        link(measured.clone(), name);
    }
    reader
}

/// Runs a command line in the directory of a reader; the error has what it printed.
fn run(words: &str, reader: &Path) -> Result<(), String> {
    // The stick is mounted here, and a program of this workspace is there already.
    let words = words
        .replace("/media/usb", "media/usb")
        .replace("cargo run -p linmap-model --features cli --", "linmap-model");
    let path = format!("{}:{}", reader.join("bin").display(), std::env::var("PATH").expect("a PATH"));
    // QEMU's CPU time stays below an hour even on a busy host.
    let mut shell = Command::new("sh");
    shell.args(["-ec", &format!("ulimit -t 3600; {words}")]).current_dir(reader).env("PATH", path);
    let output = shell.stdin(Stdio::null()).output().expect("a shell");
    let printed = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "`{words}` ends with {}:\n{}{}",
        output.status,
        printed(&output.stdout),
        printed(&output.stderr)
    ))
}

#[test]
fn each_command_line_runs() {
    let (not_run, reader) = (not_run(), reader());
    let mut faults = Vec::new();
    for (words, place) in shown() {
        if not_run.contains_key(words.as_str()) {
            continue;
        }
        faults.extend(run(&words, reader.path()).err().map(|error| format!("{place}: {error}")));
    }
    none(&faults);
}

#[test]
fn what_is_not_run_is_shown() {
    let shown: Vec<_> = shown().into_iter().map(|(words, _)| words).collect();
    let stale = not_run().into_keys().filter(|words| shown.iter().all(|other| other != words));
    none(&stale.map(|words| format!("no document shows `{words}`")).collect::<Vec<_>>());
}

#[test]
fn what_ci_runs_stands_there() {
    let steps = fs::read_to_string(root().join(".ci/run")).expect("the steps of CI");
    let rows = not_run().into_iter().filter_map(|(words, why)| Some((words, why.strip_prefix(".ci/run")?)));
    let stale = rows.filter(|(words, by)| !steps.contains(by.split('`').nth(1).unwrap_or(words)));
    none(&stale.map(|(words, _)| format!("`{words}` is not in .ci/run")).collect::<Vec<_>>());
}

#[test]
fn what_make_is_asked_for_is_there() {
    let ours = not_run()
        .into_iter()
        .filter(|(words, why)| words.starts_with("make ") && *why != "in the source of Linux");
    let wrong = ours.filter(|(words, _)| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &words.replacen("make", "make -n", 1)]).current_dir(root());
        // A test that make has started is no part of its work.
        let output = shell.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").output().expect("a shell");
        !output.status.success()
    });
    none(
        &wrong.map(|(words, _)| format!("`{words}` is nothing that the Makefile knows")).collect::<Vec<_>>(),
    );
}

#[test]
fn what_the_text_asks_make_for_is_there() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    let is_target = |name: &str| makefile.lines().any(|line| line.split(':').next() == Some(name));
    let mut faults = Vec::new();
    for name in documents(&root()).expect("documents") {
        let text = fs::read_to_string(root().join(&name)).expect("a document");
        for (_, rest) in text.match_indices("`make ").map(|(at, found)| text[at..].split_at(found.len())) {
            let target = rest.split([' ', '`']).next().unwrap_or("");
            if !is_target(target) {
                faults.push(format!("{}: `make {target}`", name.display()));
            }
        }
    }
    none(&faults);
}

/// True if this line of a code block begins with a program of the project, or one that builds and boots it.
fn is_command(line: &str) -> bool {
    let programs = [
        "make ",
        "cargo ",
        "linmap ",
        "linmap-model ",
        "sudo ",
        "dev/scripts/",
        "target/release/",
        "qemu-system-",
    ];
    let mut after = programs.iter().filter_map(|program| line.strip_prefix(program));
    after.any(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '-'))
}

#[test]
fn command_lines_stand_in_blocks_of_shell() {
    let mut faults = Vec::new();
    for name in documents(&root()).expect("documents") {
        let text = fs::read_to_string(root().join(&name)).expect("a document");
        let in_shell: Vec<_> = commands(&text).into_iter().map(|command| command.line).collect();
        let mut fence = None;
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(language) = line.strip_prefix("```") {
                fence = if fence.is_some() { None } else { Some(language) };
            } else if fence.is_some() && !in_shell.contains(&number) && is_command(line) {
                faults.push(format!(
                    "{}:{number}: `{line}` is no command line, since its block is not `sh`",
                    name.display()
                ));
            }
        }
    }
    none(&faults);
}
