//! Kernel launches as data: where memory lies on a device, the shape of a grid, and whoever can launch.
use super::GpuError;
use crate::algebra::{Canonical, Fr};
use std::{ffi::c_void, marker::PhantomData};

/// `len` values of type `T` in a device's memory: an address without a lifetime, like a device pointer in
/// CUDA. Whoever holds the memory it came from says how long it is good for.
pub struct DeviceSlice<T> {
    address: u64,
    len: usize,
    _values: PhantomData<*mut T>,
}

impl<T> Clone for DeviceSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for DeviceSlice<T> {}
// SAFETY: an address and a length; nothing is dereferenced on the host.
unsafe impl<T: Send> Send for DeviceSlice<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for DeviceSlice<T> {}

impl<T> DeviceSlice<T> {
    /// # Safety
    /// `address` is the start of `len` values of `T` in device memory, aligned for 16-byte accesses, for
    /// as long as launches use the slice.
    pub unsafe fn from_raw(address: u64, len: usize) -> Self {
        Self { address, len, _values: PhantomData }
    }

    /// Nothing, at address 0.
    pub fn empty() -> Self {
        Self { address: 0, len: 0, _values: PhantomData }
    }

    /// The device address, as kernels take it.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size in bytes.
    pub fn num_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Values `range`; None where it leaves the slice.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Option<Self> {
        (range.start <= range.end && range.end <= self.len).then(|| Self {
            address: self.address + (range.start * size_of::<T>()) as u64,
            len: range.end - range.start,
            _values: PhantomData,
        })
    }
}

/// A launch's blocks and what each block has. Blocks have one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks along x and y.
    pub blocks: (u32, u32),
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
}

impl Grid {
    /// One thread per item of `items`, `rows` times along y.
    pub fn covering(items: u64, threads: u32, rows: u32) -> Result<Self, GpuError> {
        let blocks = u32::try_from(items.div_ceil(threads.into())).map_err(|_| GpuError::TooLarge {
            what: "items of a launch",
            found: items,
            wanted: u32::MAX.into(),
        })?;
        Ok(Self { blocks: (blocks, rows), threads, shared_bytes: 0 })
    }
}

/// The single argument of a kernel, as it lies in the kernel's parameter space.
///
/// # Safety
/// Implementors are `repr(C)`, hold only integers, and mirror the kernel's parameter field by field.
pub unsafe trait KernelArgs: Copy {}

/// Whoever can launch kernels, one after the other: a stream of a device, or the host emulation in tests.
pub trait Launcher {
    /// Launches `kernel` with the `args_bytes` bytes at `args` as its one parameter. Launches of one
    /// launcher run in order; this does not wait for them.
    ///
    /// # Safety
    /// The kernel exists and takes such a parameter, and all memory that it names is valid, and not in use
    /// by anything unordered with this launcher, until the launch has run.
    unsafe fn launch_raw(
        &self,
        kernel: &'static str,
        grid: Grid,
        args: *const c_void,
        args_bytes: usize,
    ) -> Result<(), GpuError>;
}

/// Launches `kernel` with `args`; an empty grid is no launch.
///
/// # Safety
/// As for [`Launcher::launch_raw`].
pub(super) unsafe fn launch<A: KernelArgs>(
    launcher: &impl Launcher,
    kernel: &'static str,
    grid: Grid,
    args: &A,
) -> Result<(), GpuError> {
    if grid.blocks.0 == 0 || grid.blocks.1 == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise; `args` is alive during the call.
    unsafe { launcher.launch_raw(kernel, grid, std::ptr::from_ref(args).cast(), size_of::<A>()) }
}

/// A field element among a kernel's arguments (in 16-byte accesses, hence the alignment).
#[derive(Clone, Copy, Default)]
#[repr(C, align(16))]
pub(super) struct FrArg([u64; 4]);

impl FrArg {
    /// In Montgomery form.
    pub(super) fn montgomery(value: Fr) -> Self {
        Self(value.montgomery_limbs())
    }

    /// base^(2^k), in Montgomery form, for all k below N.
    pub(super) fn squares<const N: usize>(base: Fr) -> [Self; N] {
        let mut power = base;
        std::array::from_fn(|_| {
            let arg = Self::montgomery(power);
            power = power.square();
            arg
        })
    }

    /// The constant k with (a · b / R) · k / R = a · b · factor, for canonical a, b: factor · R², R = 2^256.
    pub(super) fn product_scale(factor: Fr) -> Self {
        let Some(r_times_factor) = Canonical::new(factor.montgomery_limbs()) else {
            // Montgomery limbs of an element are below r, as `Canonical::new` asks.
            return Self::default();
        };
        Self::montgomery(Fr::from_canonical(r_times_factor))
    }
}
