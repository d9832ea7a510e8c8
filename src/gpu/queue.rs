//! Work in order on a device: launches, and copies to and from its memory. A stream of a device is one, and
//! so is the emulation in the tests; the prover is written for either.
use super::{DeviceSlice, GpuError, Launcher};

/// A launcher that moves memory too. Copies, fills and launches of one queue run in order.
pub trait Queue: Launcher {
    /// Copies `values` to the device; `values` are free for other use afterwards.
    ///
    /// # Safety
    /// `target` is valid, and nothing unordered with this queue uses it.
    unsafe fn upload<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]) -> Result<(), GpuError>;

    /// Copies from the device, after all work so far, and waits.
    ///
    /// # Safety
    /// `source` is valid and holds values of `T`; nothing unordered with this queue writes it.
    unsafe fn download<T: Copy>(&self, source: DeviceSlice<T>) -> Result<Vec<T>, GpuError>;

    /// Sets every byte.
    ///
    /// # Safety
    /// As for [`Self::upload`].
    unsafe fn fill<T>(&self, target: DeviceSlice<T>, byte: u8) -> Result<(), GpuError>;

    /// Waits for all work so far.
    fn finish(&self) -> Result<(), GpuError>;
}

#[cfg(feature = "cuda")]
impl Queue for super::driver::Stream {
    unsafe fn upload<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { Self::upload(self, target, values) }
    }

    unsafe fn download<T: Copy>(&self, source: DeviceSlice<T>) -> Result<Vec<T>, GpuError> {
        // SAFETY: the caller's promise.
        unsafe { Self::download(self, source) }
    }

    unsafe fn fill<T>(&self, target: DeviceSlice<T>, byte: u8) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { Self::fill(self, target, byte) }
    }

    fn finish(&self) -> Result<(), GpuError> {
        self.synchronize()
    }
}
