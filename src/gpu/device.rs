//! The devices of this machine, by what identifies them across restarts: UUID and PCI address.
use super::GpuError;
#[cfg(feature = "cuda")]
use super::driver::{cuda, initialise};
#[cfg(feature = "cuda")]
use cudarc::driver::{result, sys};
use std::fmt;

/// What the driver says of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The driver's number, which may change from start to start.
    pub index: u32,
    /// The model.
    pub name: String,
    /// "GPU-" and the UUID, as `nvidia-smi -L` prints it.
    pub uuid: String,
    /// domain:bus:device.function, in hexadecimal.
    pub pci: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Shared memory that one block can have, in bytes.
    pub shared_bytes_per_block: u32,
}

impl DeviceInfo {
    /// Whether `name` is this device's UUID or PCI address; letter case, the prefix "GPU-" and a PCI domain
    /// of zero are optional, and so is an incomplete UUID's end from its eighth digit on.
    pub fn is_named(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let pci = self.pci.to_ascii_lowercase();
        let uuid = self.uuid.to_ascii_lowercase();
        let digits = uuid.trim_start_matches("gpu-");
        let wanted = name.trim_start_matches("gpu-");
        name == pci
            || pci.split_once(':').is_some_and(|(domain, rest)| {
                domain.bytes().all(|b| b == b'0')
                    && (name == rest || name.trim_start_matches("0000:") == rest)
            })
            || (wanted.len() >= 8 && digits.starts_with(wanted))
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} at {})", self.name, self.uuid, self.pci)
    }
}

/// All devices, in the driver's order; none where the driver has no device.
///
/// # Errors
/// [`GpuError::NotBuilt`] without feature `cuda`, [`GpuError::NoDriver`], [`GpuError::DriverTooOld`].
#[cfg(feature = "cuda")]
pub fn devices() -> Result<Vec<DeviceInfo>, GpuError> {
    match initialise() {
        Err(GpuError::Driver { code, .. }) if code == sys::CUresult::CUDA_ERROR_NO_DEVICE as u32 => {
            return Ok(Vec::new());
        }
        other => other?,
    }
    (0..cuda!(result::device::get_count())?).map(describe).collect()
}

/// All devices: [`GpuError::NotBuilt`], as this build has no feature `cuda`.
#[cfg(not(feature = "cuda"))]
pub fn devices() -> Result<Vec<DeviceInfo>, GpuError> {
    Err(GpuError::NotBuilt)
}

/// The device with this UUID or PCI address.
pub fn find(name: &str) -> Result<DeviceInfo, GpuError> {
    let all = devices()?;
    match all.iter().find(|device| device.is_named(name)) {
        Some(device) => Ok(device.clone()),
        None => {
            let names: Vec<String> = all.iter().map(|d| format!("{} at {}", d.uuid, d.pci)).collect();
            Err(GpuError::NoSuchDevice { wanted: name.into(), found: names.join(", ") })
        }
    }
}

#[cfg(feature = "cuda")]
fn describe(index: i32) -> Result<DeviceInfo, GpuError> {
    use fmt::Write as _;
    use sys::CUdevice_attribute as Attribute;
    let device = cuda!(result::device::get(index))?;
    let attribute = |which| {
        // SAFETY: a device of this machine.
        let value = cuda!(unsafe { result::device::get_attribute(device, which) })?;
        Ok(value as u32)
    };
    let uuid = cuda!(result::device::get_uuid(device))?;
    let mut text = String::from("GPU-");
    for (i, byte) in uuid.bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{:02x}", *byte as u8);
    }
    let domain = attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
    let bus = attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
    let slot = attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
    Ok(DeviceInfo {
        index: index as u32,
        name: cuda!(result::device::get_name(device))?,
        uuid: text,
        pci: format!("{domain:04x}:{bus:02x}:{slot:02x}.0"),
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        // SAFETY: a device of this machine.
        memory: cuda!(unsafe { result::device::total_mem(device) })? as u64,
        shared_bytes_per_block: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_answer_to_uuid_and_pci_address() {
        let device = DeviceInfo {
            index: 0,
            name: "NVIDIA H200".into(),
            uuid: "GPU-6f0a1b2c-3d4e-5f60-7182-93a4b5c6d7e8".into(),
            pci: "0000:1a:00.0".into(),
            capability: (9, 0),
            multiprocessors: 132,
            memory: 1 << 37,
            shared_bytes_per_block: 232_448,
        };
        for name in [
            "GPU-6f0a1b2c-3d4e-5f60-7182-93a4b5c6d7e8",
            "6F0A1B2C-3d4e-5f60-7182-93a4b5c6d7e8",
            "GPU-6f0a1b2c",
            "0000:1a:00.0",
            "1A:00.0",
        ] {
            assert!(device.is_named(name), "{name}");
        }
        for name in ["", "GPU-", "GPU-6f0a1b2", "0", "1a:00.1", "0001:1a:00.0", "GPU-6f0a1b2d"] {
            assert!(!device.is_named(name), "{name}");
        }
    }
}
