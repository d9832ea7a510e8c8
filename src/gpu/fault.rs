//! Faults for tests: a queue that works like another one, up to the result that it is told to spoil. Only builds
//! with the feature `fault-injection` have it, and no package is built so.
use crate::gpu::{DeviceSlice, GpuError, Grid, Launcher, PageLocks, Queue, field};
use std::{
    ffi::c_void,
    ptr::NonNull,
    str::FromStr,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

/// A point of G1 with three coordinates of 48 bytes, or of G2 with twice that.
const POINT_BYTES: [usize; 2] = [144, 288];

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A bit of a sum of points flips.
    FlippedLimb,
    /// The driver has no memory, once.
    OutOfMemory,
    /// A kernel reads where there is no memory.
    IllegalAccess,
    /// Every call fails from then on.
    Lost,
}

/// A fault, and when: with the `at`-th result of a sum over points that is copied from the device, from 1 on. A
/// proof has five, in the order h, l, a, b in G1, b in G2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    /// What.
    pub fault: Fault,
    /// When.
    pub at: u32,
}

/// "FAULT@N", with one of `flipped-limb`, `out-of-memory`, `illegal-access`, `lost`.
impl FromStr for Injection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("found {text:?}, wanted FAULT@N, such as \"flipped-limb@6\"");
        let (fault, at) = text.split_once('@').ok_or_else(wanted)?;
        let fault = match fault {
            "flipped-limb" => Fault::FlippedLimb,
            "out-of-memory" => Fault::OutOfMemory,
            "illegal-access" => Fault::IllegalAccess,
            "lost" => Fault::Lost,
            _ => return Err(wanted()),
        };
        Ok(Self { fault, at: at.parse().ok().filter(|at| *at > 0).ok_or_else(wanted)? })
    }
}

/// A queue with a fault to come, or with none.
pub struct Faulty<Q> {
    queue: Q,
    injection: Option<Injection>,
    sums: AtomicU32,
    lost: AtomicBool,
}

fn failure(code: u32, name: &str) -> GpuError {
    let (name, meaning) = (name.to_owned(), "injected".to_owned());
    GpuError::Driver { call: "an injected fault", name, code, meaning, file: file!(), line: line!() }
}

impl<Q: Queue> Faulty<Q> {
    /// A queue that works like `queue` until the fault's turn comes.
    pub fn new(queue: Q, injection: Option<Injection>) -> Self {
        Self { queue, injection, sums: AtomicU32::new(0), lost: AtomicBool::new(false) }
    }

    fn check(&self) -> Result<(), GpuError> {
        if self.lost.load(Ordering::Relaxed) { Err(failure(719, "CUDA_ERROR_LAUNCH_FAILED")) } else { Ok(()) }
    }

    /// The fault whose turn it is with a result of this size.
    fn due(&self, value_bytes: usize) -> Option<Fault> {
        let Injection { fault, at } = self.injection?;
        if !POINT_BYTES.contains(&value_bytes) {
            return None;
        }
        (self.sums.fetch_add(1, Ordering::Relaxed) + 1 == at).then_some(fault)
    }

    /// Launches a kernel that reads and writes at addresses that nothing is mapped at.
    fn access_illegally(&self) -> Result<(), GpuError> {
        const NOWHERE: u64 = 1 << 12;
        // SAFETY: not met on purpose. A device ends the kernel, and no memory is changed.
        unsafe {
            let values = DeviceSlice::from_raw(NOWHERE, 1);
            field::check(&self.queue, values, DeviceSlice::from_raw(NOWHERE, 1))
        }
    }
}

/// Flips the lowest bit of the first point's x that is not at infinity (its z is not 0).
fn flip<T>(values: &mut [T]) {
    let words = size_of::<T>() / size_of::<u64>();
    for value in values {
        let value: *mut u64 = std::ptr::from_mut(value).cast();
        // SAFETY: a point is that many words, whichever they are.
        let finite = (2 * words / 3..words).any(|word| unsafe { value.add(word).read() } != 0);
        if finite {
            // SAFETY: as above.
            unsafe { value.write(value.read() ^ 1) };
            return;
        }
    }
}

impl<Q: Queue> Launcher for Faulty<Q> {
    unsafe fn launch_raw(
        &self,
        kernel: &'static str,
        grid: Grid,
        args: *const c_void,
        args_bytes: usize,
    ) -> Result<(), GpuError> {
        self.check()?;
        // SAFETY: the caller's promise.
        unsafe { self.queue.launch_raw(kernel, grid, args, args_bytes) }
    }
}

impl<Q: Queue> Queue for Faulty<Q> {
    unsafe fn upload<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]) -> Result<(), GpuError> {
        self.check()?;
        // SAFETY: the caller's promise.
        unsafe { self.queue.upload(target, values) }
    }

    unsafe fn upload_from(&self, target: DeviceSlice<u8>, source: NonNull<u8>) -> Result<(), GpuError> {
        self.check()?;
        // SAFETY: the caller's promise.
        unsafe { self.queue.upload_from(target, source) }
    }

    unsafe fn download<T: Copy>(&self, source: DeviceSlice<T>) -> Result<Vec<T>, GpuError> {
        let fault = self.due(size_of::<T>());
        match fault {
            Some(Fault::OutOfMemory) => return Err(failure(2, "CUDA_ERROR_OUT_OF_MEMORY")),
            Some(Fault::IllegalAccess) => self.access_illegally()?,
            Some(Fault::Lost) => self.lost.store(true, Ordering::Relaxed),
            Some(Fault::FlippedLimb) | None => {}
        }
        self.check()?;
        // SAFETY: the caller's promise.
        let mut values = unsafe { self.queue.download(source) }?;
        if fault == Some(Fault::FlippedLimb) {
            flip(&mut values);
        }
        Ok(values)
    }

    unsafe fn fill<T>(&self, target: DeviceSlice<T>, byte: u8) -> Result<(), GpuError> {
        self.check()?;
        // SAFETY: the caller's promise.
        unsafe { self.queue.fill(target, byte) }
    }

    fn finish(&self) -> Result<(), GpuError> {
        self.check()?;
        self.queue.finish()
    }
}

impl<Q: PageLocks> PageLocks for Faulty<Q> {
    type Lock = Q::Lock;

    unsafe fn lock_pages(&self, address: NonNull<u8>, bytes: usize) -> Result<Self::Lock, GpuError> {
        self.check()?;
        // SAFETY: the caller's promise.
        unsafe { self.queue.lock_pages(address, bytes) }
    }
}
