//! The firmware's variables of one vendor, linmap: `linmap-0`, `linmap-1` and so on. They are read and written by runtime services,
//! before and after boot services are left.

use core::fmt::Write;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use arrayvec::ArrayString;
use kernel_plan::efi::stored::{Limits, Variables};
use uefi_raw::table::Revision;
use uefi_raw::table::runtime::{RuntimeServices, VariableAttributes};
use uefi_raw::{Guid, Status, guid};

/// The vendor.
const VENDOR: Guid = guid!("a0151388-7e36-41f6-8b4b-1f93aa5d233d");

/// Variables that stay when power goes, and that runtime services have.
const ATTRIBUTES: VariableAttributes = VariableAttributes::NON_VOLATILE
    .union(VariableAttributes::BOOTSERVICE_ACCESS)
    .union(VariableAttributes::RUNTIME_ACCESS);

/// Runtime services, as long as they can be called.
pub(crate) struct Services<'a> {
    table: NonNull<RuntimeServices>,
    mapped: PhantomData<&'a RuntimeServices>,
}

impl Services<'_> {
    /// Returns the services of the table at an address.
    ///
    /// # Safety
    ///
    /// The firmware says that they are there. While the value lives, the table and all that the firmware says they need are mapped
    /// 1:1 as it says, and nothing else calls them.
    pub(super) const unsafe fn at(table: NonNull<RuntimeServices>) -> Self {
        Self { table, mapped: PhantomData }
    }

    /// Returns the address of the table.
    pub(super) fn address(&self) -> u64 {
        self.table.as_ptr() as u64
    }

    fn table(&self) -> &RuntimeServices {
        // SAFETY: by the promise of `at`'s caller.
        unsafe { self.table.as_ref() }
    }

    /// Calls SetVariable. No bytes remove a variable.
    fn set(&self, number: u32, bytes: &[u8]) -> Result<(), u64> {
        let name = name(number);
        // SAFETY: the services may be called, by the promise of `at`'s caller; a name with a NUL, and places of the caller's.
        let status = unsafe {
            (self.table().set_variable)(name.as_ptr(), &VENDOR, ATTRIBUTES, bytes.len(), bytes.as_ptr())
        };
        success(status)
    }

    /// Calls GetVariable. Returns its status and the bytes of the variable.
    fn get(&self, number: u32, room: &mut [u8]) -> (Status, usize) {
        let (name, mut bytes) = (name(number), room.len());
        let place = if room.is_empty() { ptr::null_mut() } else { room.as_mut_ptr() };
        // SAFETY: as above; no more is written than there is room for.
        let status = unsafe {
            (self.table().get_variable)(name.as_ptr(), &VENDOR, ptr::null_mut(), &raw mut bytes, place)
        };
        (status, bytes)
    }
}

/// Returns the name of a variable, in UTF-16 with a NUL.
fn name(number: u32) -> [u16; 24] {
    let (mut text, mut name) = (ArrayString::<20>::new(), [0; 24]);
    // There is room for any number.
    _ = write!(text, "linmap-{number}");
    name.iter_mut().zip(text.bytes()).for_each(|(unit, byte)| *unit = byte.into());
    name
}

/// Returns an error with the firmware's status unless that is success.
pub(super) fn success(status: Status) -> Result<(), u64> {
    if status == Status::SUCCESS { Ok(()) } else { Err(status.0 as u64) }
}

impl Variables for Services<'_> {
    fn limits(&mut self) -> Result<Limits, u64> {
        // Older tables end before that.
        if self.table().header.revision < Revision::EFI_2_00 {
            return success(Status::UNSUPPORTED).map(|()| Limits { free: 0, one: 0 });
        }
        let (mut all, mut free, mut one) = (0, 0, 0);
        // SAFETY: as above.
        success(unsafe {
            (self.table().query_variable_info)(ATTRIBUTES, &raw mut all, &raw mut free, &raw mut one)
        })?;
        Ok(Limits { free, one })
    }

    fn size(&mut self, number: u32) -> Result<Option<usize>, u64> {
        match self.get(number, &mut []) {
            (Status::NOT_FOUND, _) => Ok(None),
            (Status::BUFFER_TOO_SMALL, bytes) => Ok(Some(bytes)),
            (status, _) => Err(status.0 as u64),
        }
    }

    fn read(&mut self, number: u32, room: &mut [u8]) -> Result<(), u64> {
        match self.get(number, room) {
            (Status::SUCCESS, bytes) if bytes == room.len() => Ok(()),
            (Status::SUCCESS, _) => Err(Status::BAD_BUFFER_SIZE.0 as u64),
            (status, _) => Err(status.0 as u64),
        }
    }

    fn write(&mut self, number: u32, bytes: &[u8]) -> Result<(), u64> {
        self.set(number, bytes)
    }

    fn remove(&mut self, number: u32) -> Result<(), u64> {
        self.set(number, &[])
    }
}
