//! The kernel's own lists of what it has protected or taken away: modules, BPF programs, KFENCE's pool, a crash kernel, secret
//! memory. Pure: memory is read by a function of the caller.
//!
//! Symbols say where a list begins, and BTF where the members of a structure are. Without either there is no answer.
//!
//! - `per_cpu`: the areas of each CPU.  `pages`: what the array of struct page says of a page.

pub(crate) mod pages;
pub(crate) mod per_cpu;

use std::ops::Range;
use std::rc::Rc;

use super::btf::Btf;
use super::kallsyms::Read;

/// More entries than a list has.
const MAX_ENTRIES: usize = 1 << 16;
/// The bytes of a module's name.
const NAME: usize = 56;
/// The first word of a flattened device tree, and the largest one that Linux maps, in bytes.
const TREE: u32 = 0xd00d_feed;
const MAX_TREE: u32 = 2 << 20;
/// More bytes of BTF than a kernel has.
const MAX_BTF: u64 = 256 << 20;

/// A kernel whose structures can be read.
pub(crate) struct Structures<'a> {
    symbol: &'a dyn Fn(&str) -> Option<u64>,
    read: &'a Read<'a>,
    btf: Option<Rc<Btf>>,
}

impl<'a> Structures<'a> {
    /// Takes the kernel's types if they are known; otherwise reads them.
    pub(crate) fn new(
        symbol: &'a dyn Fn(&str) -> Option<u64>,
        read: &'a Read<'a>,
        types: Option<Rc<Btf>>,
    ) -> Self {
        let mut kernel = Self { symbol, read, btf: types };
        if kernel.btf.is_none() {
            kernel.btf = kernel.read_types().map(Rc::new);
        }
        kernel
    }

    /// Returns the types, by which the places of members are known.
    pub(crate) const fn types(&self) -> Option<&Rc<Btf>> {
        self.btf.as_ref()
    }

    fn read_types(&self) -> Option<Btf> {
        let (start, end) = ((self.symbol)("__start_BTF")?, (self.symbol)("__stop_BTF")?);
        let length = end.checked_sub(start).filter(|length| *length <= MAX_BTF)?;
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        (self.read)(start, &mut bytes).then_some(())?;
        Btf::parse(bytes)
    }

    fn word(&self, at: u64) -> Option<u64> {
        let mut word = [0; 8];
        (self.read)(at, &mut word).then(|| u64::from_le_bytes(word))
    }

    fn half(&self, at: u64) -> Option<u32> {
        let mut half = [0; 4];
        (self.read)(at, &mut half).then(|| u32::from_le_bytes(half))
    }

    fn offset(&self, name: &str, member: &str) -> Option<u64> {
        Some(self.btf.as_ref()?.member(name, member)?.offset)
    }

    /// Returns the address of a symbol.
    fn symbol(&self, name: &str) -> Option<u64> {
        (self.symbol)(name)
    }

    /// Returns the structures of a list whose head is a symbol; `link` is the offset of the list in each.
    fn list(&self, head: &str, link: u64) -> Vec<u64> {
        self.symbol(head).map_or_else(Vec::new, |head| self.list_at(head, link))
    }

    /// Returns the structures of a list by the address of its head.
    fn list_at(&self, head: u64, link: u64) -> Vec<u64> {
        let mut entries = Vec::new();
        let mut next = self.word(head);
        while let Some(entry) = next.filter(|entry| *entry != head && *entry != 0)
            && entries.len() < MAX_ENTRIES
        {
            entries.push(entry.wrapping_sub(link));
            next = self.word(entry);
        }
        entries
    }

    /// Returns the areas of each module.
    pub(crate) fn modules(&self) -> Vec<(String, Range<u64>)> {
        let (Some(link), Some(name)) = (self.offset("module", "list"), self.offset("module", "name")) else {
            return Vec::new();
        };
        let areas = self.module_areas();
        let mut modules = Vec::new();
        for module in self.list("modules", link) {
            let mut text = [0; NAME];
            if !(self.read)(module.wrapping_add(name), &mut text) {
                continue;
            }
            let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
            let text = String::from_utf8_lossy(text).into_owned();
            for (base, size) in &areas {
                let base = self.word(module.wrapping_add(*base)).filter(|base| *base != 0);
                let size = self.half(module.wrapping_add(*size)).filter(|size| *size != 0);
                if let (Some(base), Some(size)) = (base, size) {
                    modules.push((text.clone(), base..base.saturating_add(size.into())));
                }
            }
        }
        modules
    }

    /// Returns the offsets of the address and of the size of each area in a `struct module`: an array since Linux 6.4.
    fn module_areas(&self) -> Vec<(u64, u64)> {
        let Some(btf) = &self.btf else { return Vec::new() };
        let of = |name: &str| Some((btf.member(name, "base")?.offset, btf.member(name, "size")?.offset));
        if let Some(array) = btf.member("module", "mem") {
            let (Some((base, size)), Some(bytes)) = (of("module_memory"), btf.size("module_memory")) else {
                return Vec::new();
            };
            let count = btf.elements(array.kind).unwrap_or(0).min(64);
            return (0..count).map(|n| array.offset + n * bytes).map(|at| (at + base, at + size)).collect();
        }
        let layouts =
            ["core_layout", "init_layout"].into_iter().filter_map(|name| btf.member("module", name));
        let Some((base, size)) = of("module_layout") else { return Vec::new() };
        layouts.map(|layout| (layout.offset + base, layout.offset + size)).collect()
    }

    /// Returns the addresses of BPF's program packs.
    pub(crate) fn packs(&self) -> Vec<u64> {
        let places = self.offset("bpf_prog_pack", "list").zip(self.offset("bpf_prog_pack", "ptr"));
        let Some((link, pointer)) = places else { return Vec::new() };
        self.list("pack_list", link).iter().filter_map(|pack| self.word(pack.wrapping_add(pointer))).collect()
    }

    /// Returns the addresses of BPF programs and trampolines.
    pub(crate) fn programs(&self) -> Vec<Range<u64>> {
        let of = |member| self.offset("bpf_ksym", member);
        let (Some(link), Some(start), Some(end)) = (of("lnode"), of("start"), of("end")) else {
            return Vec::new();
        };
        let range = |program: &u64| {
            Some(self.word(program.wrapping_add(start))?..self.word(program.wrapping_add(end))?)
        };
        self.list("bpf_kallsyms", link).iter().filter_map(range).collect()
    }

    /// Returns the address of KFENCE's pool.
    pub(crate) fn kfence_pool(&self) -> Option<u64> {
        self.word((self.symbol)("__kfence_pool")?).filter(|pool| *pool != 0)
    }

    /// Returns the memory that is kept for crash kernels.
    pub(crate) fn crash_kernels(&self) -> Vec<Range<u64>> {
        // Start and end are the first two members of a resource in every release.
        let member = |name, else_at| self.offset("resource", name).unwrap_or(else_at);
        let (start, end) = (member("start", 0), member("end", 8));
        let area = |symbol: &str| {
            let at = (self.symbol)(symbol)?;
            let (start, last) = (self.word(at.wrapping_add(start))?, self.word(at.wrapping_add(end))?);
            (start < last).then(|| start..last.saturating_add(1))
        };
        ["crashk_res", "crashk_low_res"].into_iter().filter_map(area).collect()
    }

    /// Returns the device tree that the kernel booted with: its address, and that after it.
    pub(crate) fn device_tree(&self) -> Option<Range<u64>> {
        let start = self.word(self.symbol("initial_boot_params")?).filter(|start| *start != 0)?;
        let head = self.word(start)?.to_le_bytes();
        let (magic, size) = (head.first_chunk()?, head.last_chunk()?);
        let size = u32::from_be_bytes(*size);
        (u32::from_be_bytes(*magic) == TREE && size <= MAX_TREE)
            .then(|| start..start.saturating_add(size.into()))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::btf::tests::Writer;
    use super::*;
    use std::collections::BTreeMap;

    pub(super) const BTF: u64 = 0xffff_8000_8200_0000;
    /// Where the image has the first values of per-CPU variables.
    pub(super) const IMAGE: u64 = 0xffff_8000_8100_0000;

    /// Memory by words, and the types that it is of.
    pub(super) struct Machine {
        words: BTreeMap<u64, u64>,
        types: Vec<u8>,
    }

    impl Machine {
        pub(super) fn new(is_old: bool) -> Self {
            let mut writer = Writer::new();
            let area = writer.structure("module_memory", 24, &[("base", 1, 0), ("size", 1, 8)]);
            let layout = writer.structure("module_layout", 24, &[("base", 1, 8), ("size", 1, 16)]);
            let areas = writer.array(area, 2);
            let members = [("list", 1, 8), ("name", 1, 24)];
            let of_areas: &[(&str, u32, u32)] = if is_old {
                &[("core_layout", layout, 88), ("init_layout", layout, 112)]
            } else {
                &[("mem", areas, 88)]
            };
            writer.structure("module", 256, &[&members, of_areas].concat());
            writer.structure("bpf_prog_pack", 24, &[("list", 1, 0), ("ptr", 1, 16)]);
            writer.structure("bpf_ksym", 64, &[("start", 1, 0), ("end", 1, 8), ("lnode", 1, 32)]);
            let inner = writer.structure("", 16, &[("mapping", 1, 8), ("compound_head", 1, 0)]);
            writer.structure("page", 64, &[("flags", 1, 0), ("", inner, 8), ("_refcount", 1, 52)]);
            writer.structure("address_space", 64, &[("host", 1, 0), ("a_ops", 1, 40)]);
            writer.structure(
                "pcpu_chunk",
                128,
                &[("list", 1, 16), ("base_addr", 1, 64), ("nr_pages", 1, 100)],
            );
            Self { words: BTreeMap::new(), types: writer.finish() }
        }

        pub(super) fn put(&mut self, at: u64, words: &[u64]) {
            self.words.extend(words.iter().enumerate().map(|(index, word)| (at + index as u64 * 8, *word)));
        }

        pub(super) fn read(&self, at: u64, into: &mut [u8]) -> bool {
            if let Some(from) = at.checked_sub(BTF).filter(|from| *from < self.types.len() as u64) {
                into.copy_from_slice(&self.types[from as usize..from as usize + into.len()]);
                return true;
            }
            (at..).zip(into).all(|(at, byte)| {
                let word = self.words.get(&(at & !7));
                *byte = word.map_or(0, |word| word.to_le_bytes()[(at % 8) as usize]);
                word.is_some()
            })
        }

        pub(super) fn symbol(&self, name: &str) -> Option<u64> {
            Some(match name {
                "__start_BTF" => BTF,
                "__stop_BTF" => BTF + self.types.len() as u64,
                "modules" => 0x1000,
                "pack_list" => 0x2000,
                "bpf_kallsyms" => 0x3000,
                "crashk_res" => 0x4000,
                "__kfence_pool" => 0x5000,
                "secretmem_aops" => 0x6000,
                "__per_cpu_start" => IMAGE,
                "__per_cpu_end" => IMAGE + 0x2100,
                "__per_cpu_offset" => 0x8000,
                "nr_cpu_ids" => 0x8100,
                "pcpu_base_addr" => 0x8108,
                "pcpu_chunk_lists" => 0x8110,
                "pcpu_nr_slots" => 0x8118,
                "pcpu_reserved_chunk" => 0x8120,
                "_debug_pagealloc_enabled_early" => 0x8128,
                "initial_boot_params" => 0x8130,
                _ => return None,
            })
        }
    }

    fn module(machine: &mut Machine, is_old: bool, at: u64, next: u64, base: u64) {
        machine.put(at + 8, &[next, 0]);
        machine.put(at + 24, &[u64::from_le_bytes(*b"ext4\0\0\0\0"), 0, 0, 0, 0, 0, 0]);
        let shift = if is_old { 8 } else { 0 };
        machine.put(at + 88, &[0; 6]);
        machine.put(at + 88 + shift, &[base, 0x3000]);
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        for is_old in [false, true] {
            let mut machine = Machine::new(is_old);
            machine.put(0x1000, &[0x1_0008]);
            module(&mut machine, is_old, 0x1_0000, 0x2_0008, 0xa000_0000);
            module(&mut machine, is_old, 0x2_0000, 0x1000, 0xb000_0000);
            machine.put(0x2000, &[0x3_0000]);
            machine.put(0x3_0000, &[0x2000, 0, 0xc000_0000]);
            machine.put(0x3000, &[0x4_0020]);
            machine.put(0x4_0000, &[0xc000_0100, 0xc000_0200, 0, 0, 0x3000]);
            machine.put(0x4000, &[0x8000_0000, 0x8fff_ffff]);
            machine.put(0x5000, &[0xffff_0000_1000_0000]);
            let (symbol, read) =
                (|name: &str| machine.symbol(name), |at, into: &mut [u8]| machine.read(at, into));
            let kernel = Structures::new(&symbol, &read, None);
            assert!(kernel.types().is_some());
            let names = ["ext4".to_owned(), "ext4".to_owned()];
            let areas = [0xa000_0000..0xa000_3000, 0xb000_0000..0xb000_3000];
            assert_eq!(kernel.modules(), names.into_iter().zip(areas).collect::<Vec<_>>(), "{is_old}");
            assert_eq!(kernel.packs(), [0xc000_0000]);
            assert_eq!(kernel.programs().first(), Some(&(0xc000_0100..0xc000_0200)));
            assert_eq!(kernel.crash_kernels().first(), Some(&(0x8000_0000..0x9000_0000)));
            assert_eq!(kernel.kfence_pool(), Some(0xffff_0000_1000_0000));
        }
    }

    /// A list that goes in circles ends, and a kernel without symbols has nothing.
    #[test]
    fn a_damaged_kernel_has_an_end() {
        let mut machine = Machine::new(false);
        machine.put(0x2000, &[0x3_0000]);
        machine.put(0x3_0000, &[0x3_0000, 0, 0xc000_0000]);
        let (symbol, read) =
            (|name: &str| machine.symbol(name), |at, into: &mut [u8]| machine.read(at, into));
        assert_eq!(Structures::new(&symbol, &read, None).packs().len(), MAX_ENTRIES);
        let kernel = Structures::new(&|_| None, &read, None);
        assert!(
            kernel.modules().is_empty() && kernel.packs().is_empty() && kernel.crash_kernels().is_empty()
        );
        assert_eq!((kernel.kfence_pool(), kernel.device_tree()), (None, None));
        assert!(kernel.types().is_none());
    }

    #[test]
    fn a_device_tree_is_as_long_as_its_header_says() {
        let tree = |magic: u32, size: u32| {
            let mut machine = Machine::new(false);
            machine.put(0x8130, &[0xffff_fdff_fe20_0000]);
            let [magic, size] = [magic, size].map(|word| u64::from(word.swap_bytes()));
            machine.put(0xffff_fdff_fe20_0000, &[size << 32 | magic]);
            let (symbol, read) =
                (|name: &str| machine.symbol(name), |at, into: &mut [u8]| machine.read(at, into));
            Structures::new(&symbol, &read, None).device_tree()
        };
        assert_eq!(tree(TREE, 0x1_2345), Some(0xffff_fdff_fe20_0000..0xffff_fdff_fe21_2345));
        assert_eq!((tree(TREE + 1, 0x1_2345), tree(TREE, MAX_TREE + 1)), (None, None));
    }
}
