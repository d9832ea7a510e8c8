//! What can go wrong between the host and a device.

/// A failure in planning for, or talking to, a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// A driver call failed.
    #[error("{call} failed: {name} ({code}): {meaning}, at {file}:{line}")]
    Driver {
        /// The call, as written.
        call: &'static str,
        /// The error's symbol.
        name: String,
        /// Its number.
        code: u32,
        /// The driver's explanation.
        meaning: String,
        /// Where the call stands.
        file: &'static str,
        /// Where the call stands.
        line: u32,
    },
    /// This build cannot use devices.
    #[error("this build has no CUDA (feature `cuda`)")]
    NotBuilt,
    /// There is no NVIDIA driver on this machine.
    #[error("the NVIDIA driver's library libcuda is not on this machine")]
    NoDriver,
    /// The driver is older than the toolkit that compiled the kernels.
    #[error("the NVIDIA driver supports CUDA {found}, wanted at least {wanted}")]
    DriverTooOld {
        /// Major.minor of the driver.
        found: String,
        /// Major.minor of the toolkit.
        wanted: String,
    },
    /// No device has that UUID or PCI address.
    #[error("no device {wanted}; there are: {found}")]
    NoSuchDevice {
        /// What was asked for.
        wanted: String,
        /// UUIDs and PCI addresses of the devices.
        found: String,
    },
    /// The kernels were not compiled for this device.
    #[error("device {device} ({name}) has architecture {found}, this build has kernels for {wanted}")]
    Architecture {
        /// The device's UUID.
        device: String,
        /// Its model.
        name: String,
        /// Its architecture.
        found: String,
        /// Architectures in this build.
        wanted: String,
    },
    /// The embedded kernels lack one, or the emulation does.
    #[error("no kernel {kernel}: {reason}")]
    Kernel {
        /// Its name.
        kernel: String,
        /// Why it could not be found or launched.
        reason: String,
    },
    /// More memory is wanted than there is.
    #[error("{what} needs {wanted} bytes, the device has {found} for it")]
    OutOfMemory {
        /// What for.
        what: String,
        /// Bytes at hand.
        found: u64,
        /// Bytes needed.
        wanted: u64,
    },
    /// Memory was claimed that is in use: a plan was not followed.
    #[error("{wanted} overlaps {found}, which is in use")]
    Overlap {
        /// The buffer in use.
        found: String,
        /// The buffer that was to be claimed.
        wanted: String,
    },
    /// The measured peak differs from the planned one.
    #[error("the arena's peak was {found} bytes, the plan says {wanted}")]
    Peak {
        /// Measured.
        found: u64,
        /// Planned.
        wanted: u64,
    },
    /// A vector does not have the length that the computation asks for.
    #[error("{what} has {found} values, wanted {wanted}")]
    Length {
        /// Which vector.
        what: &'static str,
        /// Values it has.
        found: u64,
        /// Values it must have.
        wanted: u64,
    },
    /// A size beyond what the kernels address.
    #[error("{what}: {found}, at most {wanted} are possible")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        found: u64,
        /// The limit.
        wanted: u64,
    },
}

/// The driver's number of CUDA_ERROR_OUT_OF_MEMORY.
const OUT_OF_MEMORY: u32 = 2;

impl GpuError {
    /// Whether memory was lacking, a plan's or the driver's own.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory { .. } | Self::Driver { code: OUT_OF_MEMORY, .. })
    }
}
