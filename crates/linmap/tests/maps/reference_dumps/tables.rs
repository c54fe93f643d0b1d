//! Tables with descriptors placed by hand, as 64-bit values, through stores to live slots.

use linmap::arch::{Descriptor, Entry, Level};
use linmap::host::HostMemory;
use linmap::read::MarkedRange;
use linmap::{Geometry, Granule, Half, Memory, OaFormat, Pa, SharedSpace, Slot, Tree};

use crate::dirty_memory::dirty_memory;
use crate::raw::{load, store};

/// A live map of the upper half, empty at first.
pub(crate) struct Tables {
    memory: HostMemory,
    space: SharedSpace,
}

impl Tables {
    pub(crate) fn new(granule: Granule, va_bits: u32, oa: OaFormat) -> Self {
        let g = Geometry::new(granule, va_bits, oa).unwrap();
        let memory = dirty_memory(g, 16);
        let empty = Tree::build(&memory, g, Half::Upper, std::iter::empty()).unwrap();
        Self { memory, space: SharedSpace::adopt(empty) }
    }

    /// Puts `bits` into the entry that a walk to `at`, counted from the start of the map, reads at `level`.
    pub(crate) fn put(&self, at: u64, level: i8, bits: u64) {
        let g = self.space.geometry();
        let (mut table, mut now) = (self.space.root(), g.root());
        while now < Level::new(level) {
            table = self.table_below(Slot { table, index: g.index(at, now) }, now);
            now = now.next();
        }
        store(&self.memory, Slot { table, index: g.index(at, now) }, Descriptor(bits));
    }

    /// The table that a slot points to, made if there is none.
    fn table_below(&self, slot: Slot, level: Level) -> Pa {
        let g = self.space.geometry();
        if let Entry::Table(table) = load(&self.memory, slot).decode(g, level) {
            return table;
        }
        let mut frame = self.memory.take().expect("few tables");
        self.memory.with_slots(&mut frame, Level::PAGE, |slots| slots.fill(0));
        let table = frame.into_pa();
        store(&self.memory, slot, Descriptor::table(table, g));
        table
    }

    /// The lines of the dump, without the marker lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut text = String::new();
        let region = MarkedRange::linear_map(self.space.geometry());
        self.space.on(&self.memory.platform()).read(|reader| reader.dump(region, &mut text)).unwrap();
        let lines: Vec<_> = text.lines().map(String::from).collect();
        let [first, inner @ .., last] = lines.as_slice() else { panic!("no lines") };
        assert_eq!(first, "---[ Linear Mapping start ]---");
        assert_eq!(last, "---[ Linear Mapping end ]---");
        inner.to_vec()
    }

    /// The lines from the size on, without the addresses and the spaces after them.
    pub(crate) fn sizes(&self) -> Vec<String> {
        self.lines().iter().map(|line| line[37..].trim_start().to_string()).collect()
    }
}
