//! The EFI stub: the firmware calls the image as an application, and it goes on as after any other boot.
//!
//! The firmware has put the image anywhere and relocated it, so that all of its code can run, at its physical addresses. The stub
//! makes a copy of it as it is in the file, at a multiple of 2 MiB, and behind it the area that it hands on; leaves boot services;
//! and continues in the entry code of the copy, with the MMU off.
//!
//! Nothing here uses what the kernel sets up: its console, its data for each CPU. No static of the image is written but one in
//! the .bss, as .data is copied.

mod files;
mod firmware;
mod handed;
mod tables;

use core::arch::{asm, global_asm};
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use aarch64_cpu::registers::{CNTPCT_EL0, CNTVCT_EL0, CurrentEL, Readable};
use kernel_plan::device_tree::total_size;
use kernel_plan::efi::command_line::{self, CommandLine};
use kernel_plan::efi::exit::{self, BootServices, NoExit};
use kernel_plan::efi::handover::{ALIGN, HEADER, Handover, MAGIC, MOST, Span};
use kernel_plan::efi::relocations::{BadRelocations, Relocations};
use kernel_plan::uart;
use uefi_raw::table::system::SystemTable;
use uefi_raw::{Guid, Handle, Status, guid};

use crate::json::Text;
use crate::virtual_addresses::KERNEL_VA;
use firmware::Firmware;
pub(crate) use handed::HandedOver;

global_asm!(include_str!("leave.s"));

unsafe extern "C" {
    static image_start: u8;
    static bss_start: u8;
    static image_end: u8;
    fn from_efi();
    fn leave_firmware(a: u64, b: u64, c: u64, d: u64, entry: u64, tree: u64, handover: u64) -> !;
}

/// The tables that firmware describes a machine by.
const DEVICE_TREE: Guid = guid!("b1b621d5-f19c-41a5-830b-d9152c69aae0");
const ACPI: Guid = guid!("8868e871-e4f1-11d3-bc22-0080c73c8881");

/// The file with a command line on the volume that the image is from: `\linmap\cmdline.txt`.
const COMMAND_LINE: &str = "\\linmap\\cmdline.txt";

/// The end of the addresses that the entry code maps.
const REACHED: u64 = 1 << 48;
/// The most bytes of a device tree.
const MOST_TREE: usize = 2 << 20;

/// The system table and the handle of the image, while the firmware's services are in use.
static TABLE: AtomicPtr<SystemTable> = AtomicPtr::new(ptr::null_mut());
static IMAGE: AtomicPtr<core::ffi::c_void> = AtomicPtr::new(ptr::null_mut());

/// The reason why the image cannot go on from EFI.
enum NotLeft {
    /// There is neither a device tree nor ACPI.
    NoDescription,
    /// At the address of the device tree is none, or one that is too long.
    BadTree(u64),
    /// The memory map takes more room than there can be for it.
    MapTooLong(u64),
    /// There is no memory: bytes and status.
    NoMemory(u64, u64),
    /// The copy cannot be made.
    Relocations(BadRelocations),
    /// Boot services go on.
    NoExit(NoExit),
}

impl fmt::Display for NotLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDescription => {
                f.write_str("the firmware describes the machine neither by a device tree nor by ACPI 2.0 tables that can be read")
            }
            Self::BadTree(at) => write!(f, "the firmware's device tree at {at:#x} is none of at most 2 MiB"),
            Self::MapTooLong(bytes) => write!(f, "the firmware's memory map has {bytes:#x} bytes, too many"),
            Self::NoMemory(bytes, status) => {
                write!(f, "the firmware has no {bytes:#x} bytes of memory in one piece: status {status:#x}")
            }
            Self::Relocations(e) => e.fmt(f),
            Self::NoExit(e) => e.fmt(f),
        }
    }
}

/// The firmware calls it with the handle of the image and its system table. It returns only with an error.
#[unsafe(no_mangle)]
extern "C" fn efi_entry(image: Handle, table: *mut SystemTable) -> Status {
    let entered_at = count();
    let Some(table) = NonNull::new(table) else { return Status::INVALID_PARAMETER };
    IMAGE.store(image, Relaxed);
    TABLE.store(table.as_ptr(), Relaxed);
    // SAFETY: the arguments of the firmware's call.
    let mut firmware = unsafe { Firmware::new(image, table) };
    let Err(why) = go_on(&mut firmware, entered_at);
    report(&mut firmware, format_args!("{why}"));
    Status::LOAD_ERROR
}

/// Returns the count that the virtual counter has once the kernel runs at EL1, where its offset is 0 if that was EL2.
fn count() -> u64 {
    // SAFETY: no memory is touched; the barrier keeps the read from being early.
    unsafe { asm!("isb", options(nostack, nomem, preserves_flags)) };
    if is_el2() { CNTPCT_EL0.get() } else { CNTVCT_EL0.get() }
}

fn is_el2() -> bool {
    CurrentEL.read(CurrentEL::EL) == 2
}

/// Prints why the image cannot go on, for people and for programs.
fn report(firmware: &mut Firmware, why: fmt::Arguments<'_>) {
    // Without a console there is nobody to tell.
    _ = write!(firmware, "\nlinmap cannot go on: {why}\n");
    _ = writeln!(firmware, "linmap: {{\"finished\":false,\"ok\":false,\"fault\":\"{}\"}}", Text(why));
}

/// Reports a panic if the firmware's services are in use, and ends the application.
pub(crate) fn report_panic(info: &PanicInfo<'_>) {
    let Some(table) = NonNull::new(TABLE.load(Relaxed)) else { return };
    // SAFETY: what the firmware called `efi_entry` with. The copy that leaves boot services has a .bss of its own.
    let mut firmware = unsafe { Firmware::new(IMAGE.load(Relaxed), table) };
    report(&mut firmware, format_args!("{info}"));
    firmware.give_up()
}

/// The parts of the memory that the stub takes, as physical addresses.
struct Place {
    image: u64,
    area: u64,
    line: Span,
    tree: Span,
    acpi: Span,
    map: Span,
}

impl Place {
    /// Lays out memory that begins at `start`, a multiple of [`ALIGN`], for so many bytes of each part.
    fn new(start: u64, image: u64, [line, tree, acpi, map]: [u64; 4]) -> Self {
        let area = start + image.next_multiple_of(ALIGN);
        let behind = |before: Span, bytes| Span {
            address: (before.address + before.bytes).next_multiple_of(8),
            bytes,
        };
        let line = behind(Span { address: area, bytes: HEADER as u64 }, line);
        let tree = behind(line, tree);
        let acpi = behind(tree, acpi);
        let map = behind(acpi, map);
        Self { image: start, area, line, tree, acpi, map }
    }

    fn end(&self) -> u64 {
        self.map.address + self.map.bytes
    }
}

/// Hands the machine over to a copy of the image.
fn go_on(firmware: &mut Firmware, entered_at: u64) -> Result<core::convert::Infallible, NotLeft> {
    let line = command_line(firmware);
    // On a machine without a serial port that is known, the only sign that the run has begun.
    _ = writeln!(firmware, "linmap starts with the boot arguments `{}`", line.as_str());
    let (tree, rsdp) = (firmware.configuration(&DEVICE_TREE), firmware.configuration(&ACPI));
    if tree.or(rsdp).is_none() {
        return Err(NotLeft::NoDescription);
    }
    let tree = tree.map_or(Ok(Span::default()), tree_at)?;
    let map = room_for_map(firmware)?;
    let (start, image) =
        ((&raw const image_start) as u64, &raw const image_end as u64 - &raw const image_start as u64);
    let line_bytes = line.as_str().len() as u64;
    let parts = [line_bytes, tree.bytes, rsdp.map_or(0, |_| tables::ROOM), map];
    let wanted = Place::new(0, image, parts);
    if wanted.end() - wanted.area > MOST {
        return Err(NotLeft::MapTooLong(map));
    }
    let bytes = wanted.end() + ALIGN;
    let at = firmware.allocate(bytes, REACHED).map_err(|status| NotLeft::NoMemory(bytes, status))?;
    let place = Place::new(at.next_multiple_of(ALIGN), image, parts);
    copy(
        &raw const image_start as u64,
        Span { address: place.image, bytes: (&raw const bss_start) as u64 - start },
    );
    restore(start, place.image).map_err(NotLeft::Relocations)?;
    copy(line.as_str().as_ptr() as u64, place.line);
    copy(tree.address, place.tree);
    let acpi = rsdp.map_or(Span::default(), |rsdp| tables::copy(firmware, rsdp, place.acpi, place.map));
    if tree.bytes == 0 && acpi.bytes == 0 {
        return Err(NotLeft::NoDescription);
    }
    // SAFETY: copies in the stub's own memory, which do not change.
    let [of_tree, of_acpi] = [place.tree, acpi].map(|part| unsafe { written(part) });
    if !uart::is_named(of_tree, of_acpi) {
        _ = writeln!(
            firmware,
            "warning: the firmware names no serial port that is known: the run goes on, and prints nothing"
        );
    }
    // The firmware's last line, so that the kernel's first one begins a line. Without a console there is nothing to end.
    _ = writeln!(firmware);
    let exit::Taken { bytes, descriptor_bytes, .. } =
        exit::leave(firmware, place.map).map_err(NotLeft::NoExit)?;
    let memory_map = Span { bytes, ..place.map };
    let handover = Handover {
        magic: MAGIC,
        bytes: memory_map.address + bytes - place.area,
        device_tree: place.tree,
        rsdp: rsdp.unwrap_or(0),
        acpi,
        memory_map,
        descriptor_bytes,
        command_line: place.line,
        entered_at,
    };
    let to: *mut Handover = ptr::with_exposed_provenance_mut(place.area as usize);
    let entry = place.image + (from_efi as *const () as u64 - start);
    let tree = if tree.bytes == 0 { 0 } else { place.tree.address };
    // SAFETY: the area is the stub's own, aligned and has room; what is at `entry` is the entry code, as a loader would have
    // left it, and nothing of the firmware's is used any more.
    unsafe {
        to.write(handover);
        leave_firmware(
            place.image,
            place.image + image,
            place.area,
            place.area + handover.bytes,
            entry,
            tree,
            place.area,
        )
    }
}

/// Returns the command line: of the file on the image's volume, then of the load options.
fn command_line(firmware: &mut Firmware) -> CommandLine {
    let mut line = CommandLine::default();
    let mut room = [0; command_line::MOST + 1];
    let read = firmware.read_file(COMMAND_LINE, &mut room);
    if read.is_some_and(|bytes| line.add_file(bytes).is_err()) {
        _ = writeln!(firmware, "warning: \\linmap\\cmdline.txt is no text; not used");
    }
    if line.add_load_options(firmware.load_options()).is_err() {
        _ = writeln!(firmware, "warning: the load options are no text; not used");
    }
    line
}

/// Returns the device tree at an address.
fn tree_at(address: u64) -> Result<Span, NotLeft> {
    let header: *const [u8; 8] = ptr::with_exposed_provenance(address as usize);
    // SAFETY: the firmware says that a device tree is there.
    match total_size(unsafe { header.read_unaligned() }) {
        Some(bytes @ ..=MOST_TREE) => Ok(Span { address, bytes: bytes as u64 }),
        _ => Err(NotLeft::BadTree(address)),
    }
}

/// Returns the room for the memory map in bytes: twice what it takes now, as the stub's own memory is still to come.
fn room_for_map(firmware: &mut Firmware) -> Result<u64, NotLeft> {
    let no_map = |status| NotLeft::NoExit(NoExit::NoMap { room: 0, status });
    let taken = firmware.memory_map(Span::default()).map_err(no_map)?;
    let spare = taken.descriptor_bytes.saturating_mul(64);
    let room = taken.bytes.saturating_mul(2).saturating_add(spare);
    if room > MOST { Err(NotLeft::MapTooLong(room)) } else { Ok(room.next_multiple_of(8)) }
}

/// Copies memory to a place of the stub's.
fn copy(from: u64, to: Span) {
    let from: *const u8 = ptr::with_exposed_provenance(from as usize);
    // SAFETY: the image, a text of this program, or the firmware's device tree, whose length has been read; and memory that was
    // allocated for it.
    unsafe {
        from.copy_to_nonoverlapping(ptr::with_exposed_provenance_mut(to.address as usize), to.bytes as usize);
    };
}

/// Returns a part of the stub's memory; none if it is empty.
///
/// # Safety
///
/// It has been written, and does not change.
unsafe fn written(part: Span) -> Option<&'static [u8]> {
    let start: *const u8 = ptr::with_exposed_provenance(part.address as usize);
    // SAFETY: the caller's promise.
    (part.bytes != 0).then(|| unsafe { core::slice::from_raw_parts(start, part.bytes as usize) })
}

/// Makes the copy of the image what it is in the file: words that hold addresses hold the linked ones again.
fn restore(start: u64, copy: u64) -> Result<(), BadRelocations> {
    let loaded: *const u8 = ptr::with_exposed_provenance(start as usize);
    // SAFETY: the header page of the image, and the table behind the image, which its section has room for.
    let table = unsafe {
        let (at, bytes) = Relocations::place(core::slice::from_raw_parts(loaded, 4096))?;
        core::slice::from_raw_parts(loaded.add(at as usize), bytes as usize)
    };
    Relocations::new(table).each(&raw const bss_start as u64 - start, |at| {
        let word: *mut u64 = ptr::with_exposed_provenance_mut((copy + at) as usize);
        // SAFETY: in the copy, which ends at the .bss.
        unsafe { word.write_unaligned(word.read_unaligned().wrapping_sub(start).wrapping_add(KERNEL_VA)) };
    })
}
