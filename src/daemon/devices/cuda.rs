//! Opening an NVIDIA device: its context with the kernels, one queue, and an arena of nearly all its memory.
use super::{Arena, DeviceBackend, Opened};
use crate::daemon::config::Prover;
use crate::gpu::{
    DeviceSlice, GpuError,
    device::DeviceInfo,
    driver::{Context, DeviceMemory, Stream},
    prover::KnownAnswer,
};
use std::sync::Arc;

/// What is left to the driver, and to others on the device, where the configuration names no size.
const MARGIN: u64 = 512 << 20;

/// Opens a device and has it give the known answer; takes as many bytes as configured, or nearly all that
/// are free.
pub(super) fn open(info: &DeviceInfo, config: &Prover, known: &KnownAnswer) -> Opened {
    let context = Context::open(info)?;
    let (free, _) = context.memory()?;
    let bytes = match (config.device_memory, free.checked_sub(MARGIN)) {
        (Some(bytes), _) => bytes,
        (None, Some(bytes)) if bytes > 0 => bytes,
        (None, _) => {
            let what = "an arena beside what others have taken".into();
            return Err(GpuError::OutOfMemory { what, found: free, wanted: MARGIN + 1 }.into());
        }
    };
    let memory = DeviceMemory::new(&context, bytes)?;
    let queue = Stream::new(&context)?;
    #[cfg(feature = "fault-injection")]
    let queue = crate::gpu::fault::Faulty::new(queue, config.fault);
    // SAFETY: the device's memory, which the arena's owner keeps.
    let arena = unsafe { DeviceSlice::from_raw(memory.address(), memory.num_bytes() as usize) };
    let arena = Arena { memory: arena, owner: Box::new(memory) };
    // SAFETY: as above; it is this backend's alone.
    Ok(Arc::new(unsafe { DeviceBackend::new(queue, arena, info, known, config.slots) }?))
}
