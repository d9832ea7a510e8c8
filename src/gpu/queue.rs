//! Work in order on a device: launches, and copies to and from its memory. A stream of a device is one, and
//! so is the emulation in the tests; the prover is written for either.
use super::{DeviceSlice, GpuError, Grid, Launcher};
use std::{ffi::c_void, ops::Deref, ptr::NonNull};

/// A launcher that moves memory too. Copies, fills and launches of one queue run in order.
pub trait Queue: Launcher {
    /// Copies `values` to the device; `values` are free for other use afterwards.
    ///
    /// # Safety
    /// `target` is valid, and nothing unordered with this queue uses it.
    unsafe fn upload<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]) -> Result<(), GpuError>;

    /// Copies `target.len()` bytes to the device, without waiting. Another process may write to them
    /// meanwhile: then any bytes arrive.
    ///
    /// # Safety
    /// As for [`Self::upload`]; the bytes from `source` on stay mapped until [`Self::finish`] returns.
    unsafe fn upload_from(&self, target: DeviceSlice<u8>, source: NonNull<u8>) -> Result<(), GpuError>;

    /// Copies from the device, after all work so far, and waits.
    ///
    /// # Safety
    /// `source` is valid and holds values of `T`; nothing unordered with this queue writes it.
    unsafe fn download<T: Copy>(&self, source: DeviceSlice<T>) -> Result<Vec<T>, GpuError>;

    /// Copies from the device to a vector's end, after all work so far, and waits. Memory that the vector has
    /// reserved is written in place.
    ///
    /// # Safety
    /// As for [`Self::download`].
    unsafe fn append<T: Copy>(&self, source: DeviceSlice<T>, target: &mut Vec<T>) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        target.extend(unsafe { self.download(source) }?);
        Ok(())
    }

    /// Sets every byte.
    ///
    /// # Safety
    /// As for [`Self::upload`].
    unsafe fn fill<T>(&self, target: DeviceSlice<T>, byte: u8) -> Result<(), GpuError>;

    /// Waits for all work so far. Fails, and does so ever after, once the device is lost.
    fn finish(&self) -> Result<(), GpuError>;
}

/// A queue of a device that can copy from host memory by itself, once its pages are locked.
pub trait PageLocks: Queue {
    /// Locks pages until it is dropped.
    type Lock: Send + Sync + 'static;

    /// Locks the `bytes` bytes from `address` on, of a mapping that may be read-only.
    ///
    /// # Errors
    /// The system refuses: [`GpuError::Driver`].
    ///
    /// # Safety
    /// The range is mapped for as long as the result lives.
    unsafe fn lock_pages(&self, address: NonNull<u8>, bytes: usize) -> Result<Self::Lock, GpuError>;
}

/// Whatever points to a queue is one.
impl<P: Deref<Target: Launcher>> Launcher for P {
    unsafe fn launch_raw(
        &self,
        kernel: &'static str,
        grid: Grid,
        args: *const c_void,
        args_bytes: usize,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { P::Target::launch_raw(self, kernel, grid, args, args_bytes) }
    }
}

impl<P: Deref<Target: Queue>> Queue for P {
    unsafe fn upload<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { P::Target::upload(self, target, values) }
    }

    unsafe fn upload_from(&self, target: DeviceSlice<u8>, source: NonNull<u8>) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { P::Target::upload_from(self, target, source) }
    }

    unsafe fn download<T: Copy>(&self, source: DeviceSlice<T>) -> Result<Vec<T>, GpuError> {
        // SAFETY: the caller's promise.
        unsafe { P::Target::download(self, source) }
    }

    unsafe fn append<T: Copy>(&self, source: DeviceSlice<T>, target: &mut Vec<T>) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { P::Target::append(self, source, target) }
    }

    unsafe fn fill<T>(&self, target: DeviceSlice<T>, byte: u8) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { P::Target::fill(self, target, byte) }
    }

    fn finish(&self) -> Result<(), GpuError> {
        P::Target::finish(self)
    }
}

impl<P: Deref<Target: PageLocks>> PageLocks for P {
    type Lock = <P::Target as PageLocks>::Lock;

    unsafe fn lock_pages(&self, address: NonNull<u8>, bytes: usize) -> Result<Self::Lock, GpuError> {
        // SAFETY: the caller's promise.
        unsafe { P::Target::lock_pages(self, address, bytes) }
    }
}

#[cfg(feature = "cuda")]
impl Queue for super::driver::Stream {
    unsafe fn upload<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { Self::upload(self, target, values) }
    }

    unsafe fn upload_from(&self, target: DeviceSlice<u8>, source: NonNull<u8>) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { self.copy_to_device(target, source.as_ptr()) }
    }

    unsafe fn download<T: Copy>(&self, source: DeviceSlice<T>) -> Result<Vec<T>, GpuError> {
        // SAFETY: the caller's promise.
        unsafe { Self::download(self, source) }
    }

    unsafe fn append<T: Copy>(&self, source: DeviceSlice<T>, target: &mut Vec<T>) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { Self::append(self, source, target) }
    }

    unsafe fn fill<T>(&self, target: DeviceSlice<T>, byte: u8) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { Self::fill(self, target, byte) }
    }

    fn finish(&self) -> Result<(), GpuError> {
        self.synchronize()
    }
}

#[cfg(feature = "cuda")]
impl PageLocks for super::driver::Stream {
    type Lock = super::driver::PinnedMapping;

    unsafe fn lock_pages(&self, address: NonNull<u8>, bytes: usize) -> Result<Self::Lock, GpuError> {
        // SAFETY: the caller's promise.
        unsafe { Self::Lock::new(self.context(), address.as_ptr().cast(), bytes, true) }
    }
}
