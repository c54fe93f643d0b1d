//! The outside world: boots images with the command, reads and writes files, asks programs for their versions.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::boots::{Boot, PageSize};
use super::choosing::{Image, Segments};
use super::counted::{Counted, Figures};
use super::lines;
use crate::repository;

/// RAM of the boots that measure how much RAM an image holds, in bytes.
const RAM: u64 = 1 << 30;
/// Seconds of the host that a boot may take. The host may be busy, so this is far more than a boot needs.
const TIMEOUT: &str = "3600";

/// The programs that the counts depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) qemu: String,
    pub(crate) rustc: String,
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.qemu, self.rustc)
    }
}

/// The repository and its builds.
pub(crate) struct Machine {
    /// The repository's directory.
    root: PathBuf,
    /// Cargo's target directory.
    target: PathBuf,
}

impl Machine {
    pub(crate) fn new() -> Result<Self, String> {
        let root = repository::root()?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Ok(Self { root, target })
    }

    /// Boots an image and returns its counts.
    pub(crate) fn boot(&self, boot: &Boot) -> Result<Counted, String> {
        let start = Instant::now();
        let counted = self.count(boot.fixed.then_some(boot.page_size), &boot.options())?;
        eprintln!("{boot:<24} {:>6.1} s", start.elapsed().as_secs_f64());
        Ok(counted)
    }

    /// Boots the image for page size `only`, or the one for all page sizes.
    fn count(&self, only: Option<PageSize>, options: &str) -> Result<Counted, String> {
        Ok(self.document(&mut self.command(only), options)?.1)
    }

    /// Returns the command that boots an image.
    fn command(&self, only: Option<PageSize>) -> Command {
        let mut command = Command::new(self.target.join("release/linmap"));
        command.args(["boot", "--count", "--json", "--timeout", TIMEOUT, "--image"]);
        command.arg(self.image_path(only));
        command
    }

    /// Runs it with more options, and returns its document, read.
    fn document(&self, command: &mut Command, options: &str) -> Result<(Value, Counted), String> {
        command.args(options.split_whitespace());
        let wrong = |what: String| format!("linmap boot {options}: {what}");
        let output = command.output().map_err(|e| wrong(format!("{}: {e}", self.target.display())))?;
        let read = serde_json::from_slice(&output.stdout).map_err(|e| format!("its document: {e}"));
        read.and_then(|document| Counted::read(&document).map(|counted| (document, counted))).map_err(|e| {
            let console = String::from_utf8_lossy(&output.stderr);
            wrong(format!("{e}\n{}", console.trim_end()))
        })
    }

    /// Builds the plugin that counts lines, for the QEMU that boots the image. The error is the reason why there is none.
    pub(crate) fn lines_plugin(&self) -> Result<PathBuf, String> {
        let said = self.says("dev/scripts/lines.sh", &[]);
        let why = |e: &str| e.rsplit_once(": ").map_or(e, |(_, why)| why).to_owned();
        said.map(PathBuf::from).map_err(|e| why(e.lines().last().unwrap_or_default()))
    }

    /// Boots the image under the plugin, and returns what it counted.
    pub(crate) fn lines(&self, plugin: &Path) -> Result<Figures, String> {
        let start = Instant::now();
        let out = self.target.join("lines.json");
        let mut command = self.command(None);
        command.arg("--qemu").arg(self.root.join("crates/linmap-judge/plugin/lines-qemu"));
        command.env("LINMAP_LINES_PLUGIN", plugin).env("LINMAP_LINES_OUT", &out);
        let (document, _) = self.document(&mut command, lines::OPTIONS)?;
        let text = fs::read_to_string(&out).map_err(|e| format!("{}: {e}", out.display()))?;
        let counted = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", out.display()))?;
        eprintln!("{:<24} {:>6.1} s", "lines of memory", start.elapsed().as_secs_f64());
        lines::figures(&document, &counted)
    }

    /// Measures an image, in its file and in memory.
    pub(crate) fn image(&self, only: Option<PageSize>) -> Result<Image, String> {
        let elf = match only {
            Some(size) => self.target.join(format!("fixed/fixed-{}.elf", size.name())),
            None => self.elf()?,
        };
        let file = self.image_path(only);
        let file = fs::metadata(&file).map_err(|e| format!("{}: {e}", file.display()))?.len();
        let elf = elf.to_str().ok_or("the target directory's name is not UTF-8")?;
        let sizes = self.says("cargo", &["run", "--quiet", "-p", "flatten", "--", "--sizes", elf])?;
        let segments = Segments::read(&sizes).map_err(|e| format!("{elf}: {e}"))?;
        let sizes = PageSize::ALL.into_iter().filter(|size| only.is_none_or(|only| only == *size));
        let held = sizes.map(|size| {
            let options = format!("--page-size {} --ram {RAM} --cpus 1", size.name());
            Ok((size, RAM - self.count(only, &options)?.free))
        });
        Ok(Image { segments, file, held: held.collect::<Result<_, String>>()? })
    }

    /// Returns the ELF file of the image for all page sizes.
    pub(crate) fn elf(&self) -> Result<PathBuf, String> {
        Ok(self.target.join(self.says("dev/scripts/kernel-target.sh", &[])?).join("image/kernel"))
    }

    fn image_path(&self, only: Option<PageSize>) -> PathBuf {
        match only {
            Some(size) => self.target.join(format!("fixed/fixed-{}.img", size.name())),
            None => self.target.join("linmap.img"),
        }
    }

    pub(crate) fn versions(&self) -> Result<Versions, String> {
        let qemu = self.says("qemu-system-aarch64", &["--version"])?;
        let rustc = self.says("dev/scripts/rust.sh", &["--kernel", "rustc", "--version"])?;
        let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
        Ok(Versions { qemu: first(qemu), rustc: first(rustc) })
    }

    pub(crate) fn read(&self, path: &Path) -> Result<String, String> {
        repository::read(&self.root, path)
    }

    pub(crate) fn write(&self, path: &Path, text: &str) -> Result<(), String> {
        repository::write(&self.root, path, text)
    }

    /// Returns what a program of the machine or the repository prints.
    pub(crate) fn says(&self, program: &str, args: &[&str]) -> Result<String, String> {
        let path = match program.contains('/') {
            true => self.root.join(program),
            false => program.into(),
        };
        let output = Command::new(path).args(args).current_dir(&self.root).output();
        let output = output.map_err(|e| format!("{program}: {e}"))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{program} {}: {}", args.join(" "), errors.trim_end()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }
}
