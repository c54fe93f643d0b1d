//! A made-up guest: memory with a kernel's tables, two CPUs, and a state, running or halted. Like QEMU up to 7.2, it
//! stops when its gdbstub is connected to, reports that if it ran, and runs again only when told to.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use linmap::{Attributes, Pa};

use crate::core::{Kernel, RAM};

const PAGE: u64 = 4096;
/// The addresses of VMCOREINFO and of the boot loader's tree.
const INFO: u64 = RAM + 0x310_0000;
const TREE: u64 = RAM + 0x800_0000;
/// The fixmap's address of the tree, in the layout of these kernels.
const FIXED: u64 = 0xffff_fbff_fdc0_0000;
/// The address of a copy of the root table.
const COPY: u64 = RAM + 0x320_0000;
/// A page of the kernel's data with the pointer to the text.
const POINTER: u64 = RAM + 0x20_0000 + 0x40_0000 + 0x5000;

/// The behaviour of its gdbstub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// The delay before each answer.
    pub(crate) delay: Duration,
    /// After so many answers about memory it gives no more of them.
    pub(crate) most_reads: usize,
    /// True if it reports that its target stopped on connection.
    pub(crate) tells: bool,
    /// True if QEMU's monitor is behind it.
    pub(crate) monitor: bool,
    /// MIDR_EL1 of each CPU, if it is shown.
    pub(crate) midrs: Option<[u64; 2]>,
    /// True if its root is copied, and used there from its second halt on, as if another kernel had been started.
    pub(crate) moves: bool,
}

/// The behaviour of QEMU 7.2.
pub(crate) const QEMU: Habits = Habits {
    delay: Duration::ZERO,
    most_reads: usize::MAX,
    tells: true,
    monitor: true,
    midrs: None,
    moves: false,
};

pub(crate) struct Guest {
    pub(crate) habits: Habits,
    pub(crate) root: Pa,
    pub(crate) ram: u64,
    /// The number of tables.
    pub(crate) tables: usize,
    memory: BTreeMap<u64, Vec<u8>>,
    /// The file that has its RAM, if that is shared.
    shared: Option<(PathBuf, File)>,
    state: Mutex<State>,
    /// A message for each question about memory that is not answered.
    stuck: (Mutex<Sender<()>>, Mutex<Receiver<()>>),
}

struct State {
    running: bool,
    since: Instant,
    longest: Duration,
    halts: u64,
    /// Character devices, by name.
    devices: BTreeMap<String, String>,
}

impl Guest {
    /// Returns a kernel's memory, with tables and the other parts of a running kernel.
    pub(crate) fn new(kernel: Kernel, habits: Habits) -> Self {
        let mut tables = kernel.tables();
        let root = tables.root;
        let tree = tree("console=ttyAMA0 rodata=full");
        // 1 MiB, as QEMU makes it: read-only here, and writable in the linear map.
        tables.map(FIXED, TREE, 3, 256, Attributes::KERNEL_RODATA, false);
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let mut memory: BTreeMap<u64, Vec<u8>> =
            tables.pages.iter().map(|(table, page)| (table.0, words(page))).collect();
        memory.insert(INFO, kernel.info().into_bytes());
        memory.insert(POINTER, words(&[0, kernel.linear(INFO)]));
        for (page, bytes) in tree.chunks(PAGE as usize).enumerate() {
            memory.insert(TREE + page as u64 * PAGE, bytes.to_vec());
        }
        memory.insert(COPY, memory[&root.0].clone());
        for page in memory.values_mut() {
            page.resize(PAGE as usize, 0);
        }
        let state = State {
            running: true,
            since: Instant::now(),
            longest: Duration::ZERO,
            halts: 0,
            devices: BTreeMap::from([("serial0".to_owned(), "null".to_owned())]),
        };
        let (sender, receiver) = channel();
        let stuck = (Mutex::new(sender), Mutex::new(receiver));
        Self {
            habits,
            root,
            ram: kernel.ram,
            tables: tables.pages.len(),
            memory,
            shared: None,
            state: Mutex::new(state),
            stuck,
        }
    }

    /// The same, with its RAM in a shared file.
    pub(crate) fn shared(kernel: Kernel, habits: Habits, path: &Path) -> Self {
        let guest = Self::new(kernel, habits);
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(path).expect("a file");
        file.set_len(guest.ram).expect("a sparse file");
        for (pa, bytes) in &guest.memory {
            file.write_all_at(bytes, pa - RAM).expect("room");
        }
        Self { shared: Some((path.to_owned(), file)), ..guest }
    }

    /// Changes a word of its shared RAM, if it runs.
    pub(crate) fn store(&self, pa: u64, word: u64) -> bool {
        let (_, file) = self.shared.as_ref().expect("shared RAM");
        self.state(|state| {
            if state.running {
                file.write_all_at(&word.to_le_bytes(), pa - RAM).expect("room");
            }
            state.running
        })
    }

    fn state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().expect("nobody panicked"))
    }

    /// Stops it. Returns true if it ran.
    pub(crate) fn stop(&self) -> bool {
        self.state(|state| {
            state.since = Instant::now();
            state.halts += u64::from(state.running);
            std::mem::replace(&mut state.running, false)
        })
    }

    pub(crate) fn go_on(&self) {
        self.state(|state| {
            if !state.running {
                state.longest = state.longest.max(state.since.elapsed());
                state.running = true;
            }
        });
    }

    pub(crate) fn runs(&self) -> bool {
        self.state(|state| state.running)
    }

    /// Returns the longest time for which it was halted.
    pub(crate) fn longest_halt(&self) -> Duration {
        self.state(|state| state.longest)
    }

    /// Returns how often it was halted.
    pub(crate) fn halts(&self) -> u64 {
        self.state(|state| state.halts)
    }

    /// Returns the root that its registers name now.
    pub(crate) fn root_now(&self) -> u64 {
        if self.habits.moves && self.halts() >= 2 { COPY } else { self.root.0 }
    }

    /// Returns the names of its character devices, except those from its start.
    pub(crate) fn marks(&self) -> Vec<String> {
        self.state(|state| state.devices.keys().filter(|name| name.starts_with("linmap")).cloned().collect())
    }

    /// Returns the bytes at an address, or `None` beyond its RAM.
    pub(crate) fn read(&self, pa: u64, bytes: usize) -> Option<Vec<u8>> {
        if pa < RAM || pa + bytes as u64 > RAM + self.ram {
            return None;
        }
        let byte =
            |at: u64| self.memory.get(&(at & !(PAGE - 1))).map_or(0, |page| page[(at % PAGE) as usize]);
        Some((pa..pa + bytes as u64).map(byte).collect())
    }

    /// Reports that a question gets no answer.
    pub(crate) fn is_stuck(&self) {
        let _ = self.stuck.0.lock().expect("nobody panicked").send(());
    }

    /// Waits until a question gets no answer.
    pub(crate) fn wait_until_stuck(&self) {
        let waited = self.stuck.1.lock().expect("nobody panicked").recv_timeout(Duration::from_secs(300));
        waited.expect("nobody waits for an answer");
    }

    /// Returns the answer of QEMU's monitor to a command for people, for some commands.
    pub(crate) fn monitor(&self, command: &str) -> String {
        let (what, more) = command.split_once(' ').unwrap_or((command, ""));
        match (what, more) {
            ("info", "status") => {
                format!("VM status: {}\r\n", if self.runs() { "running" } else { "paused" })
            }
            ("info", "version") => "7.2.22Debian\r\n".to_owned(),
            ("info", "mtree -f") => format!(
                "FlatView #0\r\n AS \"memory\", root: system\r\n  {RAM:016x}-{:016x} (prio 0, ram): mem\r\n",
                RAM + self.ram - 1
            ),
            ("info", "qom-tree") => {
                "/machine (virt-machine)\r\n  /cpu[0] (max-arm-cpu)\r\n  /cpu[1] (max-arm-cpu)\r\n".to_owned()
            }
            ("info", "chardev") => self.state(|state| {
                state.devices.iter().map(|(name, file)| format!("{name}: filename={file}\r\n")).collect()
            }),
            ("info", "memdev") if self.shared.is_some() => {
                "memory backend: mem\r\n  size:  1\r\n  share: true\r\n".to_owned()
            }
            ("qom-get", "/objects/mem mem-path") if self.shared.is_some() => {
                let path = self.shared.as_ref().map(|shared| shared.0.display().to_string());
                format!("{:?}\r\n", path.unwrap_or_default())
            }
            ("qom-get", _) => "4208931888\r\n".to_owned(),
            ("chardev-add", device) => {
                let name = device.strip_prefix("null,id=").expect("a null device with a name");
                self.state(|state| state.devices.insert(name.to_owned(), "null".to_owned()));
                String::new()
            }
            ("chardev-remove", name) => {
                self.state(|state| state.devices.remove(name));
                String::new()
            }
            ("cont", _) => {
                self.go_on();
                String::new()
            }
            _ => format!("unknown command: '{command}'\r\n"),
        }
    }

    /// Adds or removes a device.
    pub(crate) fn device(&self, name: &str, file: Option<String>) {
        self.state(|state| match file {
            Some(file) => state.devices.insert(name.to_owned(), file),
            None => state.devices.remove(name),
        });
    }
}

/// Returns a device tree with boot arguments, of 1 MiB by its header.
fn tree(arguments: &str) -> Vec<u8> {
    let mut tree = DeviceTree::new();
    let mut chosen = DeviceTreeNode::new("chosen").expect("a name");
    let bytes = format!("{arguments}\0").into_bytes();
    chosen.add_property(DeviceTreeProperty::new("bootargs", bytes).expect("a name"));
    tree.root.add_child(chosen);
    let mut bytes = tree.to_dtb();
    bytes[4..8].copy_from_slice(&(1_u32 << 20).to_be_bytes());
    bytes
}
