//! What a run says: printed as it is measured, and written to docs/benchmarks when all of it was.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::host::LIBRARIES;

/// What cargo chose of each library.
const LOCK: &str = include_str!("../../Cargo.lock");

/// Markdown, and the plots beside it.
#[derive(Default)]
pub(crate) struct Document {
    text: String,
    plots: Vec<(String, String)>,
    targets: Vec<Vec<String>>,
}

impl Document {
    /// What all of it is about: how it was measured, and what.
    pub(crate) fn begin(&mut self) {
        self.add("# Maps in host memory\n");
        self.add(&format!(
            "Written by `make bench`, which is `cargo run --release -p bench`, with {}.\n",
            versions()
        ));
        self.add(
            "Thread CPU time of one process, in which all libraries make, change and read the same map in the same table \
             pages, which were written before. Each sample stands beside one of memset of the same tables, a page at a \
             time, and what is given is the ratio of these two neighbours in time: the median, and in brackets where \
             eight of ten lie. So it takes no quiet machine. Microseconds are medians, of the machine that it ran on.\n",
        );
        self.add(
            "All maps are of the same size, at the same addresses. After the first sample of each kind the leaves in the \
             tables are counted, by walking them without the library, and are those planned. `page_table_multiarch` and \
             `x86_64` write the tables of the machine that they are built for; `aarch64-paging` writes those of arm64.\n",
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

    /// Adds a plot, as a file of that name, and shows it here.
    pub(crate) fn plot(&mut self, name: &str, title: &str, svg: String) {
        self.text += &format!("![{title}](host-{name}.svg)\n\n");
        self.plots.push((format!("host-{name}.svg"), svg));
    }

    /// Adds a limit, what was measured, and the best that was known before.
    pub(crate) fn target(&mut self, cells: [String; 4]) {
        self.targets.push(cells.to_vec());
    }

    /// What was asked for, and what came of it.
    pub(crate) fn targets(&mut self) {
        if self.targets.is_empty() {
            return;
        }
        let header = ["64 GiB", "at most", "linmap divided by memset", "best of the others"];
        let table = crate::report::table(&header, &std::mem::take(&mut self.targets));
        self.add("## Limits\n");
        self.add(&table);
    }

    /// Writes all of it.
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

/// The compiler and the libraries.
fn versions() -> String {
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc.ok().and_then(|out| String::from_utf8(out.stdout).ok()).unwrap_or_default();
    let mut all = vec![rustc.trim().to_owned()];
    all.extend(LIBRARIES.iter().filter_map(|(name, _)| Some(format!("`{name}` {}", locked(name)?))));
    format!("{} on {}", all.join(", "), env::consts::ARCH)
}

/// The version of a library that this was built with.
fn locked(name: &str) -> Option<&'static str> {
    let package = format!("name = \"{name}\"\nversion = \"");
    LOCK.split_once(&package)?.1.split('"').next()
}

/// Where the sources are: cargo says so, and else it is here.
pub(crate) fn repository() -> PathBuf {
    let bench = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    bench.as_deref().and_then(Path::parent).map_or_else(|| ".".into(), Path::to_owned)
}
