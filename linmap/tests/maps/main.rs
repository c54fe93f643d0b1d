//! Maps in host memory: what is built, read, changed, checked and printed. One program, since each that uses the library
//! compiles its operations anew.

mod aliases;
mod between_holds;
mod changes;
mod changing_allocator;
mod check;
mod collapsed;
mod copy;
mod dirty_memory;
mod entry;
mod exhaustion;
mod extremes;
mod fewest;
mod given_offset;
mod hidden;
mod hostile;
mod hotplug;
mod kept_bits;
mod layout;
mod live_sizes;
mod memory_types;
mod no_lock_for_pages;
mod offset_memory;
mod one_table_a_level;
mod output_addresses;
mod page_size;
mod peers;
mod policy;
mod raw;
mod reference_dumps;
mod repaint;
mod repaint_holds;
mod restricted;
mod shared_root;
mod with_readers;
mod work;
