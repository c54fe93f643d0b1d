//! The document of a run: printed while it is measured, and written to docs/benchmarks after a run of all parts.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, io};

use crate::counters;
use crate::host::LIBRARIES;

/// The versions that cargo chose.
const LOCK: &str = include_str!("../../../Cargo.lock");

/// Markdown and its plots.
#[derive(Default)]
pub(crate) struct Document {
    text: String,
    plots: Vec<(String, String)>,
    targets: Vec<Vec<String>>,
}

impl Document {
    /// Adds the introduction: what was measured, and how.
    pub(crate) fn begin(&mut self) {
        self.add("# Maps in host memory\n");
        self.add(&format!("Written by `make bench` (`cargo run --release -p bench`) with {}.\n", versions()));
        self.add(
            "Thread CPU time of one process. All libraries make, change and read the same map in the same table pages, \
             which were written before. Before each sample, memset of the same tables is measured, a page at a time. \
             Figures are ratios of the two: the median, and in brackets the range of the middle eight of ten. So no \
             quiet machine is needed. Microseconds are medians on the machine of the run.\n",
        );
        self.add(if counters::are_there() {
            "Cycles, instructions and cache misses are those of linmap outside of the kernel, by the CPU's counters, for one \
             map or one look-up.\n"
        } else {
            "This machine offers no counters of cycles, instructions and cache misses, so the tables have times alone.\n"
        });
        self.add(
            "All maps have the same size and the same addresses. After the first sample of each kind the leaves in the \
             tables are counted without the library and compared with the plan. `page_table_multiarch` and `x86_64` write \
             tables of the machine that they are built for; `aarch64-paging` writes arm64 tables.\n",
        );
    }

    /// Adds a paragraph, a heading or a table.
    pub(crate) fn add(&mut self, text: &str) {
        println!("{text}");
        self.text += text;
        self.text.push('\n');
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Adds a plot: a file `host-NAME.svg`, and a reference to it.
    pub(crate) fn plot(&mut self, name: &str, title: &str, svg: String) {
        self.text += &format!("![{title}](host-{name}.svg)\n\n");
        self.plots.push((format!("host-{name}.svg"), svg));
    }

    /// Adds a row to the table of limits.
    pub(crate) fn target(&mut self, cells: [String; 5]) {
        self.targets.push(cells.to_vec());
    }

    /// Adds the table of limits, if there are any.
    pub(crate) fn targets(&mut self) {
        if self.targets.is_empty() {
            return;
        }
        let header = [
            "64 GiB",
            "at most",
            "linmap divided by memset",
            "memset divided by its median",
            "best of the others",
        ];
        let table = crate::report::table(&header, &std::mem::take(&mut self.targets));
        self.add("## Limits\n");
        self.add(&table);
    }

    /// Writes the document and its plots. Returns the document's path.
    pub(crate) fn write(&self) -> io::Result<PathBuf> {
        let folder = repository().join("docs/benchmarks");
        fs::create_dir_all(&folder)?;
        for (name, svg) in &self.plots {
            fs::write(folder.join(name), svg)?;
        }
        let path = folder.join("host.md");
        fs::write(&path, self.text.trim_end().to_owned() + "\n")?;
        Ok(path)
    }
}

/// Returns the versions of the compiler and of the libraries.
fn versions() -> String {
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc.ok().and_then(|out| String::from_utf8(out.stdout).ok()).unwrap_or_default();
    let mut all = vec![rustc.trim().to_owned()];
    all.extend(LIBRARIES.iter().filter_map(|(name, _)| Some(format!("`{name}` {}", locked(name)?))));
    format!("{} on {}", all.join(", "), env::consts::ARCH)
}

/// Returns the version of a library in this build.
fn locked(name: &str) -> Option<&'static str> {
    let package = format!("name = \"{name}\"\nversion = \"");
    LOCK.split_once(&package)?.1.split('"').next()
}

/// Returns the repository's directory: from cargo, or the current one.
pub(crate) fn repository() -> PathBuf {
    crate::repository::root().unwrap_or_else(|_| ".".into())
}
