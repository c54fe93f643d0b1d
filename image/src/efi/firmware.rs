//! The firmware's services, as the stub uses them: text, tables, a file, memory, the way out.

use core::ffi::c_void;
use core::fmt::{self, Write};
use core::ptr::{self, NonNull};

use kernel_plan::efi::exit::{BootServices, Taken};
use kernel_plan::efi::handover::Span;
use uefi_raw::protocol::file_system::SimpleFileSystemProtocol;
use uefi_raw::protocol::loaded_image::LoadedImageProtocol;
use uefi_raw::table::boot::{self, AllocateType, MemoryType};
use uefi_raw::table::system::SystemTable;
use uefi_raw::{Guid, Handle, Status};

use super::files::File;

/// The firmware, until boot services are left.
pub(super) struct Firmware {
    image: Handle,
    table: NonNull<SystemTable>,
}

impl Firmware {
    /// Returns the firmware that called an application with these arguments.
    ///
    /// # Safety
    ///
    /// They are what the firmware gave, and boot services have not been left.
    pub(super) const unsafe fn new(image: Handle, table: NonNull<SystemTable>) -> Self {
        Self { image, table }
    }

    fn table(&self) -> &SystemTable {
        // SAFETY: `new`'s caller promises a system table; it stays for ever.
        unsafe { self.table.as_ref() }
    }

    fn boot(&self) -> &boot::BootServices {
        // SAFETY: the table has them until they are left, which consumes the value.
        unsafe { &*self.table().boot_services }
    }

    /// Returns a protocol of a handle.
    fn protocol<T>(&self, handle: Handle, guid: &Guid) -> Option<NonNull<T>> {
        let mut found: *mut c_void = ptr::null_mut();
        // SAFETY: a handle of the firmware, and places of this function.
        let status = unsafe { (self.boot().handle_protocol)(handle, guid, &raw mut found) };
        (status == Status::SUCCESS).then_some(())?;
        NonNull::new(found.cast())
    }

    /// Returns the address of a table of the firmware's list.
    pub(super) fn configuration(&self, guid: &Guid) -> Option<u64> {
        let (first, count) =
            (self.table().configuration_table, self.table().number_of_configuration_table_entries);
        if first.is_null() {
            return None;
        }
        // SAFETY: the firmware says that so many are there.
        let all = unsafe { core::slice::from_raw_parts(first, count) };
        let table = all.iter().find(|entry| entry.vendor_guid == *guid)?.vendor_table;
        (!table.is_null()).then_some(table as u64)
    }

    fn loaded_image(&self) -> Option<&LoadedImageProtocol> {
        // SAFETY: the protocol of the image that runs stays as long as it does.
        self.protocol(self.image, &LoadedImageProtocol::GUID).map(|found| unsafe { found.as_ref() })
    }

    /// Returns the options that the image was called with.
    pub(super) fn load_options(&self) -> &[u8] {
        let options = self.loaded_image().map(|image| (image.load_options, image.load_options_size));
        match options {
            // SAFETY: the firmware says that so many bytes are there.
            Some((start, bytes)) if !start.is_null() => unsafe {
                core::slice::from_raw_parts(start.cast(), bytes as usize)
            },
            _ => &[],
        }
    }

    /// Returns the root directory of the volume that the image is from.
    fn volume(&self) -> Option<File> {
        let device = self.loaded_image()?.device_handle;
        let volume =
            self.protocol::<SimpleFileSystemProtocol>(device, &SimpleFileSystemProtocol::GUID)?.as_ptr();
        let mut root = ptr::null_mut();
        // SAFETY: a protocol of the firmware, and a place of this function.
        let opened = unsafe { ((*volume).open_volume)(volume, &raw mut root) };
        (opened == Status::SUCCESS).then_some(())?;
        // SAFETY: the firmware has just opened it, for nobody else.
        NonNull::new(root).map(|root| unsafe { File::new(root) })
    }

    /// Reads a file of the volume that the image is from. Returns none if there is no such file or volume, or if it has more
    /// bytes than there is room for.
    pub(super) fn read_file<'a>(&self, path: &str, room: &'a mut [u8]) -> Option<&'a [u8]> {
        self.volume()?.open(path)?.read(room)
    }

    /// Takes pages for so many bytes below a physical address. They are never given back.
    pub(super) fn allocate(&self, bytes: u64, below: u64) -> Result<u64, u64> {
        let (mut at, pages) = (below - 1, bytes.div_ceil(4096) as usize);
        let services = self.boot();
        // SAFETY: nothing but a place of this function.
        let status = unsafe {
            (services.allocate_pages)(AllocateType::MAX_ADDRESS, MemoryType::LOADER_DATA, pages, &raw mut at)
        };
        if status == Status::SUCCESS { Ok(at) } else { Err(status.0 as u64) }
    }

    /// Ends the application with an error.
    pub(super) fn give_up(&self) -> ! {
        // SAFETY: the image that runs; nothing of it is needed any more.
        _ = unsafe { (self.boot().exit)(self.image, Status::ABORTED, 0, ptr::null_mut()) };
        loop {
            aarch64_cpu::asm::wfi();
        }
    }
}

impl BootServices for Firmware {
    fn memory_map(&mut self, room: Span) -> Result<Taken, u64> {
        let (mut bytes, mut key, mut descriptor_bytes, mut version) = (room.bytes as usize, 0, 0, 0);
        let map = ptr::with_exposed_provenance_mut(room.address as usize);
        // SAFETY: the stub's own memory, or no bytes of any; places of this function.
        let status = unsafe {
            (self.boot().get_memory_map)(
                &raw mut bytes,
                map,
                &raw mut key,
                &raw mut descriptor_bytes,
                &raw mut version,
            )
        };
        let taken = Taken { bytes: bytes as u64, descriptor_bytes: descriptor_bytes as u64, key };
        // With no room, the bytes that it takes are what is wanted.
        if status == Status::SUCCESS || room.bytes == 0 && status == Status::BUFFER_TOO_SMALL {
            return Ok(taken);
        }
        Err(status.0 as u64)
    }

    fn exit(&mut self, key: usize) -> Result<(), u64> {
        // SAFETY: the image that runs. If that succeeds, `exit::leave` calls nothing more, nor does the stub.
        let status = unsafe { (self.boot().exit_boot_services)(self.image, key) };
        if status == Status::SUCCESS { Ok(()) } else { Err(status.0 as u64) }
    }
}

/// Text goes to the firmware's console; what is not ASCII as `?`.
impl Write for Firmware {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let console = self.table().stdout;
        if console.is_null() {
            return Err(fmt::Error);
        }
        let mut line = [0u16; 4];
        for c in text.chars() {
            let units: &[u16] = match c {
                '\n' => &[13, 10],
                c if c.is_ascii() => &[c as u16],
                _ => &[63],
            };
            line.fill(0);
            line[..units.len()].copy_from_slice(units);
            // SAFETY: the firmware's console, and a text with a NUL at its end.
            _ = unsafe { ((*console).output_string)(console, line.as_ptr()) };
        }
        Ok(())
    }
}
