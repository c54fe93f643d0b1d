//! The exit of boot services: with the key of the newest memory map, again if firmware changes the map in between.

use core::fmt;

use super::handover::Span;

/// The most attempts.
pub const ATTEMPTS: usize = 8;

/// The services of firmware that an exit takes.
pub trait BootServices {
    /// Writes the memory map at the address of `room`, of at most so many bytes.
    ///
    /// # Errors
    ///
    /// Firmware refuses; the number is its status.
    fn memory_map(&mut self, room: Span) -> Result<Taken, u64>;

    /// Leaves boot services.
    ///
    /// # Errors
    ///
    /// Firmware refuses; the number is its status.
    fn exit(&mut self, key: usize) -> Result<(), u64>;
}

/// A memory map that firmware wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Its bytes.
    pub bytes: u64,
    /// The bytes from one descriptor to the next.
    pub descriptor_bytes: u64,
    /// The key that it has at this moment.
    pub key: usize,
}

/// Boot services cannot be left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoExit {
    /// Firmware gives no memory map of at most so many bytes: its status.
    NoMap {
        /// The room in bytes.
        room: u64,
        /// The status.
        status: u64,
    },
    /// Firmware claims more bytes than there is room for.
    TooLong(u64),
    /// The last of [`ATTEMPTS`] had this status.
    Refused(u64),
}

impl fmt::Display for NoExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMap { room, status } => {
                write!(f, "the firmware gives no memory map of at most {room:#x} bytes: status {status:#x}")
            }
            Self::TooLong(bytes) => write!(f, "the firmware claims a memory map of {bytes:#x} bytes"),
            Self::Refused(status) => {
                write!(f, "the firmware refuses {ATTEMPTS} times to leave boot services: status {status:#x}")
            }
        }
    }
}

/// Leaves boot services, and returns the memory map at the exit, which is at `room`.
///
/// # Errors
///
/// Firmware refuses. After the first attempt it may have stopped most of its services.
pub fn leave(firmware: &mut impl BootServices, room: Span) -> Result<Taken, NoExit> {
    let mut last = 0;
    for _ in 0..ATTEMPTS {
        let taken = firmware.memory_map(room).map_err(|status| NoExit::NoMap { room: room.bytes, status })?;
        if taken.bytes > room.bytes {
            return Err(NoExit::TooLong(taken.bytes));
        }
        match firmware.exit(taken.key) {
            Ok(()) => return Ok(taken),
            Err(status) => last = status,
        }
    }
    Err(NoExit::Refused(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: u64 = 1 << 63 | 2;
    const TOO_SMALL: u64 = 1 << 63 | 5;
    const ROOM: Span = Span { address: 0x1000, bytes: 4800 };

    /// Firmware whose map grows by a descriptor and changes its key before each of the first `changes` exits.
    struct Changing {
        changes: usize,
        key: usize,
        left: bool,
    }

    impl BootServices for Changing {
        fn memory_map(&mut self, room: Span) -> Result<Taken, u64> {
            assert!(!self.left);
            let bytes = 48 * (90 + self.key as u64);
            if bytes > room.bytes {
                Err(TOO_SMALL)
            } else {
                Ok(Taken { bytes, descriptor_bytes: 48, key: self.key })
            }
        }

        fn exit(&mut self, key: usize) -> Result<(), u64> {
            if self.changes > 0 {
                self.changes -= 1;
                self.key += 1;
            }
            self.left = key == self.key;
            if self.left { Ok(()) } else { Err(STALE) }
        }
    }

    fn exit(changes: usize) -> Result<Taken, NoExit> {
        leave(&mut Changing { changes, key: 0, left: false }, ROOM)
    }

    #[test]
    fn the_map_is_the_one_at_the_exit() {
        for changes in 0..ATTEMPTS {
            let bytes = 48 * (90 + changes as u64);
            assert_eq!(exit(changes), Ok(Taken { bytes, descriptor_bytes: 48, key: changes }));
        }
    }

    #[test]
    fn firmware_that_never_ends_is_given_up() {
        assert_eq!(exit(ATTEMPTS), Err(NoExit::Refused(STALE)));
    }

    #[test]
    fn a_map_without_room_is_an_error() {
        let small = Span { bytes: 4400, ..ROOM };
        let error = leave(&mut Changing { changes: 3, key: 0, left: false }, small);
        assert_eq!(error, Err(NoExit::NoMap { room: 4400, status: TOO_SMALL }));
    }

    #[test]
    fn a_length_beyond_the_room_is_not_believed() {
        struct Liar;
        impl BootServices for Liar {
            fn memory_map(&mut self, room: Span) -> Result<Taken, u64> {
                Ok(Taken { bytes: room.bytes + 1, descriptor_bytes: 48, key: 0 })
            }
            fn exit(&mut self, _: usize) -> Result<(), u64> {
                panic!("not with a map that is not there");
            }
        }
        assert_eq!(leave(&mut Liar, ROOM), Err(NoExit::TooLong(4801)));
    }
}
