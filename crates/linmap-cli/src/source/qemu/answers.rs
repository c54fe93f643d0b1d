//! Pure: parses the answers of QEMU's monitor.

use std::path::PathBuf;

use super::super::memory::Piece;

/// RAM, as the guest and QEMU see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::source) struct Ram {
    /// Its first physical address.
    pub(in crate::source) pa: u64,
    /// Its size in bytes.
    pub(in crate::source) bytes: u64,
    /// The memory region that it is part of; the name of its backend.
    pub(super) region: String,
    /// Its offset in the region.
    pub(super) offset: u64,
}

/// The address that a gdbstub listens at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Listening {
    /// Nowhere: there is none.
    Nowhere,
    /// A TCP address.
    Tcp(String),
    /// A socket.
    Unix(PathBuf),
    /// It has a connection.
    Busy,
}

/// Returns the RAM in the answer to `info mtree -f`: that in the view of the address space `memory`.
pub(in crate::source) fn ram(answer: &str) -> Vec<Ram> {
    let mut views = answer.split("FlatView #");
    let view = views.find(|view| view.lines().any(|line| line.trim().starts_with("AS \"memory\",")));
    view.unwrap_or_default().lines().filter_map(ram_line).collect()
}

/// Parses `0000000040000000-000000013fffffff (prio 0, ram): mach-virt.ram @0000000000000000 KVM`.
fn ram_line(line: &str) -> Option<Ram> {
    let (range, rest) = line.trim().split_once(' ')?;
    let (kind, name) = rest.strip_prefix("(prio ")?.split_once("): ")?;
    if !kind.ends_with(", ram") {
        return None;
    }
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (first, last) = range.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let bytes = last.checked_sub(first)?.checked_add(1)?;
    let name = name.strip_suffix(" KVM").unwrap_or(name);
    let (region, offset) = name.rsplit_once(" @").unwrap_or((name, "0"));
    Some(Ram { pa: first, bytes, region: region.to_owned(), offset: number(offset)? })
}

/// Returns the address of the gdbstub in the answer to `info chardev`.
pub(super) fn gdbstub(answer: &str) -> Listening {
    let line = answer.lines().find_map(|line| line.strip_prefix("gdb: filename="));
    let Some(device) = line else { return Listening::Nowhere };
    let Some(device) = device.strip_prefix("disconnected:") else { return Listening::Busy };
    let device = device.split(',').next().unwrap_or(device);
    if let Some(path) = device.strip_prefix("unix:") {
        return Listening::Unix(path.into());
    }
    let address = device.strip_prefix("tcp:").and_then(|address| address.rsplit_once(':'));
    match address {
        // It listens on all addresses.
        Some(("0.0.0.0", port)) => Listening::Tcp(format!("127.0.0.1:{port}")),
        Some(("[::]" | "::", port)) => Listening::Tcp(format!("[::1]:{port}")),
        Some((host, port)) => Listening::Tcp(format!("{host}:{port}")),
        None => Listening::Nowhere,
    }
}

/// Returns the address in the answer to `gpa2hva`: `Host virtual address for 0x40000000 (mem) is 0x7f57ebe00000`.
pub(super) fn host_address(answer: &str) -> Option<u64> {
    u64::from_str_radix(answer.trim().rsplit_once(" is 0x")?.1, 16).ok()
}

/// Returns true if the answer to `info status` says that the guest runs.
pub(super) fn is_running(answer: &str) -> bool {
    answer.contains("VM status: running")
}

/// Returns QEMU's version from the answer to `info version`: `7.2.22Debian 1:7.2...`.
pub(in crate::source) fn version(answer: &str) -> Option<String> {
    let number = answer.trim().split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    (!number.is_empty()).then(|| number.to_owned())
}

/// Returns the paths of the CPUs in the answer to `info qom-tree`, whose lines are indented by two for each level.
pub(in crate::source) fn cpu_paths(answer: &str) -> Vec<String> {
    let mut path: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for line in answer.lines() {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let Some((name, kind)) = line.trim().split_once(" (") else { continue };
        path.truncate(depth);
        path.push(name.trim_start_matches('/'));
        if kind.ends_with("-arm-cpu)") {
            found.push(format!("/{}", path.join("/").trim_start_matches('/')));
        }
    }
    found
}

/// Returns a string property, in JSON as `qom-get` prints it.
pub(super) fn text_property(answer: &str) -> Option<String> {
    serde_json::from_str(answer.trim()).ok()
}

/// Returns a number property.
pub(in crate::source) fn number_property(answer: &str) -> Option<u64> {
    serde_json::from_str(answer.trim()).ok()
}

/// Returns true if the answer to `info memdev` has a shared backend of this name.
pub(super) fn is_shared(answer: &str, backend: &str) -> bool {
    let mut backends = answer.split("memory backend: ");
    let about = backends.find(|about| about.lines().next().map(str::trim) == Some(backend));
    about.is_some_and(|about| about.lines().any(|line| line.trim() == "share: true"))
}

/// A line of `/proc/PID/maps`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    /// The inode of its file; 0 if it has none.
    pub(super) inode: u64,
    /// True if stores go to the file.
    pub(super) shared: bool,
    /// The path of its file, which may have been deleted.
    pub(super) path: String,
}

/// Parses all lines that are mappings.
pub(super) fn mappings(maps: &str) -> Vec<Mapping> {
    maps.lines().filter_map(mapping).collect()
}

/// Parses `7f57ebe00000-7f58ebe00000 rw-s 00000000 00:1a 12345   /dev/shm/guest`.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let shared = words.next()?.ends_with('s');
    let offset = number(words.next()?)?;
    let inode = words.nth(1)?.parse().ok()?;
    let path = words.next().unwrap_or_default().trim().to_owned();
    Some(Mapping { start: number(start)?, end: number(end)?, offset, inode, shared, path })
}

impl Mapping {
    /// Returns RAM that lies in this mapping, from a host address on, as a piece of the mapped file.
    pub(super) fn piece(&self, ram: &Ram, host: u64) -> Option<Piece> {
        let end = host.checked_add(ram.bytes)?;
        let inside = self.shared && self.inode != 0 && self.start <= host && end <= self.end;
        let offset = inside.then(|| self.offset.checked_add(host - self.start)).flatten()?;
        Some(Piece { pa: ram.pa, bytes: ram.bytes, stored: ram.bytes, offset })
    }
}

/// Returns MIDR_EL1 of each CPU of a QEMU whose monitor answers commands for people.
pub(in crate::source) fn midrs(ask: &mut dyn FnMut(&str) -> Option<String>) -> Vec<u64> {
    let paths = ask("info qom-tree").map(|tree| cpu_paths(&tree)).unwrap_or_default();
    let midr = |path: String| number_property(&ask(&format!("qom-get {path} midr"))?);
    paths.into_iter().filter_map(midr).filter(|midr| *midr != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    const MTREE: &str = "FlatView #0\n AS \"I/O\", root: io\n  0-f (prio 0, ram): no\n\nFlatView #1\n AS \"memory\", root: system
 Root memory region: system
  0000000000000000-0000000003ffffff (prio 0, romd): virt.flash0
  0000000009000000-0000000009000fff (prio 0, i/o): pl011
  0000000040000000-00000000bfffffff (prio 0, ram): mem KVM
  0000000100000000-000000013fffffff (prio 0, ram): my mem @0000000080000000 KVM
";
    const MAPS: &str =
        "7f0000000000-7f0100000000 rw-s 00001000 00:1a 4711                       /dev/shm/a b (deleted)
7f0100000000-7f0200000000 rw-p 00000000 00:00 0
";

    #[test]
    fn ram_is_what_the_view_of_memory_calls_so() {
        let ram = |pa, bytes, region: &str, offset| Ram { pa, bytes, region: region.into(), offset };
        assert_eq!(
            super::ram(MTREE),
            [ram(0x4000_0000, 2 << 30, "mem", 0), ram(0x1_0000_0000, 1 << 30, "my mem", 2 << 30)]
        );
        assert_eq!(super::ram("nothing of the sort"), []);
    }

    #[test]
    fn a_stub_listens_somewhere_or_is_busy() {
        let of = |device: &str| gdbstub(&format!("serial0: filename=null\ngdb: filename={device}\n"));
        let tcp = |address: &str| Listening::Tcp(address.into());
        assert_eq!(of("disconnected:tcp:127.0.0.1:7701,server=on"), tcp("127.0.0.1:7701"));
        assert_eq!(of("disconnected:tcp:0.0.0.0:1234,server=on"), tcp("127.0.0.1:1234"));
        assert_eq!(of("disconnected:tcp:[::]:1234,server=on"), tcp("[::1]:1234"));
        assert_eq!(of("disconnected:unix:/run/g,server=on"), Listening::Unix("/run/g".into()));
        assert_eq!(of("tcp:127.0.0.1:7701,server=on <-> 127.0.0.1:5000"), Listening::Busy);
        assert_eq!(gdbstub("serial0: filename=null"), Listening::Nowhere);
    }

    #[test]
    fn a_shared_mapping_is_a_piece_of_its_file() {
        let maps = mappings(MAPS);
        assert_eq!(maps[0].path, "/dev/shm/a b (deleted)");
        let ram = Ram { pa: 0x4000_0000, bytes: 0x1000, region: "mem".into(), offset: 0 };
        let piece = |index: usize, host| maps[index].piece(&ram, host).map(|piece| piece.offset);
        assert_eq!(piece(0, 0x7f00_0000_2000), Some(0x3000));
        assert_eq!(piece(0, 0x7f00_ffff_f001), None);
        assert_eq!(piece(1, 0x7f01_0000_0000), None);
    }

    #[test]
    fn small_answers() {
        let hva = "Host virtual address for 0x40000000 (mem) is 0x7f57ebe00000\n";
        assert_eq!(host_address(hva), Some(0x7f57_ebe0_0000));
        assert_eq!(host_address("No memory is mapped at address 0x0"), None);
        assert!(is_running("VM status: running\n") && !is_running("VM status: paused\n"));
        assert_eq!(version("7.2.22Debian 1:7.2+dfsg-7\n").as_deref(), Some("7.2.22"));
        let tree = "/machine (virt-7.2-machine)\n  /unattached (container)\n    /device[0] (max-arm-cpu)\n      /x (irq)\n    /device[1] (max-arm-cpu)\n";
        assert_eq!(cpu_paths(tree), ["/machine/unattached/device[0]", "/machine/unattached/device[1]"]);
        assert_eq!(number_property("984336\n"), Some(984336));
        assert_eq!(text_property("\"/dev/shm/a\"\n").as_deref(), Some("/dev/shm/a"));
        let memdev = "memory backend: a\n  size:  1\n  share: false\nmemory backend: b\n  share: true\n";
        assert_eq!(
            [is_shared(memdev, "a"), is_shared(memdev, "b"), is_shared(memdev, "c")],
            [false, true, false]
        );
    }

    proptest! {
        #[test]
        fn ram_and_mappings_read_back(
            all in prop::collection::vec((any::<u64>(), 1..1u64 << 40, any::<u64>(), "[a-z][a-z. ]{0,8}[a-z]"), 0..5), shared: bool,
        ) {
            let ram_of = |(pa, bytes, offset, region): &(u64, u64, u64, String)| {
                Ram { pa: pa >> 1, bytes: *bytes, region: region.clone(), offset: *offset }
            };
            let lines = all.iter().map(ram_of).map(|Ram { pa, bytes, region, offset }| {
                format!("  {pa:016x}-{:016x} (prio 0, ram): {region} @{offset:016x} KVM\n", pa + (bytes - 1))
            });
            let answer = format!("FlatView #0\n AS \"memory\", root: system\n{}", lines.collect::<String>());
            prop_assert_eq!(ram(&answer), all.iter().map(ram_of).collect::<Vec<_>>());
            let mapping_of = |(start, bytes, offset, path): &(u64, u64, u64, String)| {
                let (start, end) = (start >> 1, (start >> 1) + bytes);
                Mapping { start, end, offset: *offset, inode: *bytes, shared, path: format!("/{path}") }
            };
            let lines = all.iter().map(mapping_of).map(|m| {
                let kind = if shared { 's' } else { 'p' };
                format!("{:x}-{:x} rw-{kind} {:08x} 00:1a {}      {}\n", m.start, m.end, m.offset, m.inode, m.path)
            });
            prop_assert_eq!(mappings(&lines.collect::<String>()), all.iter().map(mapping_of).collect::<Vec<_>>());
        }

        /// Of an answer with a wrong byte, other lines are read as before.
        #[test]
        fn one_wrong_byte_costs_at_most_its_lines(at: prop::sample::Index, byte: u8) {
            for whole in [MTREE, MAPS] {
                let mut damaged = whole.as_bytes().to_vec();
                let at = at.index(damaged.len());
                damaged[at] = byte;
                let text = String::from_utf8_lossy(&damaged);
                prop_assert!(mappings(&text).len() + 2 >= mappings(whole).len());
                for piece in ram(&text) {
                    prop_assert!(piece.bytes > 0 && piece.pa.checked_add(piece.bytes - 1).is_some());
                    prop_assert!(text.contains(&piece.region));
                }
                // The last line stays, if the byte is above it.
                let last = whole.trim_end().rfind('\n').expect("two lines");
                if at < last {
                    prop_assert_eq!(mappings(&text).pop(), mappings(whole).pop());
                }
            }
        }

        #[test]
        fn single_values_read_back(number: u64, text: String, dotted in "[0-9]{1,2}(\\.[0-9]{1,2}){0,2}") {
            prop_assert_eq!(host_address(&format!("at 0x40000000 (mem) is {number:#x}\r\n")), Some(number));
            prop_assert_eq!(number_property(&format!("{number}\n")), Some(number));
            prop_assert_eq!(text_property(&serde_json::json!(text).to_string()), Some(text.clone()));
            prop_assert_eq!(version(&format!("{dotted}Debian 1:{number}")), Some(dotted));
            // Text at random is no answer.
            let found = (ram(&text), mappings(&text), cpu_paths(&text), gdbstub(&text), host_address(&text));
            prop_assert_eq!(found, (Vec::new(), Vec::new(), Vec::new(), Listening::Nowhere, None));
            prop_assert!(!is_shared(&text, "a") && !is_running(&text));
        }
    }
}
