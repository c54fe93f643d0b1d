//! The firmware's power calls (PSCI), by the conduit that the device tree names.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use kernel::measure::emulation::VENDOR_UID;
use kernel_plan::admit::StartError;
use kernel_plan::machine::Conduit;
use linmap::Pa;
use smccc::psci::error::Error;
use smccc::psci::{self, AffinityState, LowestAffinityLevel};
use smccc::{Call, Hvc, Smc};

/// The conduit in use: 1 for SMC, 0 for HVC, the default.
static CONDUIT: AtomicU8 = AtomicU8::new(0);

/// CPU_OFF, for CPUs that are not let into Rust.
pub(crate) const CPU_OFF: u32 = psci::PSCI_CPU_OFF;

/// Calls the firmware by this conduit from now on.
pub(crate) fn use_conduit(conduit: Conduit) {
    CONDUIT.store(u8::from(conduit == Conduit::Smc), Relaxed);
}

/// Returns true if the firmware is called by SMC.
pub(crate) fn is_smc() -> bool {
    CONDUIT.load(Relaxed) != 0
}

/// Calls a function of PSCI by the conduit in use.
macro_rules! call {
    ($function:ident($($argument:expr),*)) => {
        if is_smc() { psci::$function::<Smc>($($argument),*) } else { psci::$function::<Hvc>($($argument),*) }
    };
}

/// Turns the machine off. Returns only if the firmware has no such call.
pub(crate) fn system_off() {
    _ = call!(system_off());
}

/// Resets the machine. Returns only if the firmware has no such call.
pub(crate) fn system_reset() {
    _ = call!(system_reset());
}

/// Starts a CPU at a physical address, with its MMU off and a number in x0.
///
/// # Errors
///
/// The firmware does not start it.
///
/// # Safety
///
/// At the address is code that a CPU can start at, and it may use the number.
pub(crate) unsafe fn cpu_on(mpidr: u64, entry: Pa, x0: u64) -> Result<(), StartError> {
    call!(cpu_on(mpidr, entry.0, x0)).map_err(|e| match e {
        Error::NotSupported => StartError::NotSupported,
        Error::InvalidParameters | Error::Disabled | Error::NotPresent => StartError::NoSuchCpu,
        Error::AlreadyOn | Error::OnPending => StartError::AlreadyOn,
        Error::Denied => StartError::Denied,
        Error::InvalidAddress => StartError::BadAddress,
        Error::InternalFailure => StartError::Failed,
        _ => StartError::Other,
    })
}

/// Asks the hypervisor who it is: the UID of its own services, as four words. None where it is not called by HVC, or where
/// PSCI does not say that the call may be made.
pub(crate) fn vendor_uid() -> Option<[u32; 4]> {
    /// The function that PSCI_FEATURES is asked about: if it is there, so is the SMC Calling Convention from 1.1 on.
    const SMCCC_VERSION: u32 = 0x8000_0000;
    let may_ask = !is_smc()
        && psci::version::<Hvc>().is_ok_and(|version| version.major >= 1)
        && psci::psci_features::<Hvc>(SMCCC_VERSION).is_ok();
    if !may_ask {
        return None;
    }
    let [a, b, c, d, ..] = Hvc::call32(VENDOR_UID, [0; 7]);
    Some([a, b, c, d])
}

/// Returns true if the firmware reports that a CPU is off.
pub(crate) fn is_off(mpidr: u64) -> bool {
    matches!(call!(affinity_info(mpidr, LowestAffinityLevel::All)), Ok(AffinityState::Off))
}
