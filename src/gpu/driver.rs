//! The CUDA driver behind safe-to-hold handles: contexts, streams, events, memory. The driver's library is
//! loaded when the first device is looked for; a machine without it is told so, not failed.
//!
//! Every call is checked, and its error carries the call, file and line. Handles keep their context alive.
//! A context is made current by each call that needs it, so handles may move between threads.
use super::{
    DeviceSlice, GpuError, Grid, Launcher,
    device::DeviceInfo,
    kernels::{FATBINS, TOOLKIT, check_architecture},
};
use cudarc::driver::{
    result::{self, DriverError},
    sys,
};
use std::{
    collections::HashMap,
    ffi::{CString, c_void},
    sync::{Arc, Mutex, PoisonError},
};

/// The call's result, with the call itself, file and line in the error.
macro_rules! cuda {
    ($call:expr) => {
        ($call).map_err(|error| $crate::gpu::driver::error(error, stringify!($call), file!(), line!()))
    };
}
pub(super) use cuda;

pub(super) fn error(error: DriverError, call: &'static str, file: &'static str, line: u32) -> GpuError {
    let text = |s: Result<&std::ffi::CStr, DriverError>| match s {
        Ok(s) => s.to_string_lossy().into_owned(),
        Err(_) => "unknown".into(),
    };
    let (name, meaning) = (text(error.error_name()), text(error.error_string()));
    GpuError::Driver { call, name, code: error.0 as u32, meaning, file, line }
}

/// Loads the driver's library. Must succeed before any other call.
pub(super) fn initialise() -> Result<(), GpuError> {
    // SAFETY: tries to open libraries of the driver's names, nothing else.
    if !unsafe { sys::is_culib_present() } {
        return Err(GpuError::NoDriver);
    }
    cuda!(result::init())?;
    let mut version = 0;
    // SAFETY: writes one integer.
    cuda!(unsafe { sys::cuDriverGetVersion(&mut version) }.result())?;
    // Machine code of one toolkit runs on all drivers of its major version, and on later ones.
    let major = TOOLKIT.split('.').next().and_then(|m| m.parse().ok()).unwrap_or(0);
    if version / 1000 < major {
        let found = format!("{}.{}", version / 1000, version % 1000 / 10);
        return Err(GpuError::DriverTooOld { found, wanted: format!("{major}.0") });
    }
    Ok(())
}

/// A device's primary context with the kernels loaded.
pub struct Context {
    info: DeviceInfo,
    device: sys::CUdevice,
    context: sys::CUcontext,
    modules: Vec<sys::CUmodule>,
    /// Kernels by name, as they are first launched.
    kernels: Mutex<HashMap<&'static str, Kernel>>,
}

#[derive(Clone, Copy)]
struct Kernel(sys::CUfunction);
// SAFETY: a handle that the driver lets every thread use.
unsafe impl Send for Kernel {}
// SAFETY: contexts and modules are handles that the driver lets every thread use.
unsafe impl Send for Context {}
// SAFETY: as above; the map is behind a lock.
unsafe impl Sync for Context {}

impl Context {
    /// Opens a device, refusing one that the kernels were not compiled for.
    pub fn open(info: &DeviceInfo) -> Result<Arc<Self>, GpuError> {
        initialise()?;
        check_architecture(info)?;
        let device = cuda!(result::device::get(info.index as i32))?;
        // SAFETY: a device of this machine.
        let context = cuda!(unsafe { result::primary_ctx::retain(device) })?;
        let mut opened =
            Self { info: info.clone(), device, context, modules: Vec::new(), kernels: Mutex::default() };
        opened.bind()?;
        for (_, fatbin) in FATBINS {
            // SAFETY: a whole fat binary; it stays where it is.
            let module = cuda!(unsafe { result::module::load_data(fatbin.as_ptr().cast()) })?;
            opened.modules.push(module);
        }
        Ok(Arc::new(opened))
    }

    /// The device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// (free, total) bytes of the device's memory.
    pub fn memory(&self) -> Result<(u64, u64), GpuError> {
        self.bind()?;
        let (free, total) = cuda!(result::mem_get_info())?;
        Ok((free as u64, total as u64))
    }

    /// Makes this thread's driver calls go to this context.
    fn bind(&self) -> Result<(), GpuError> {
        // SAFETY: a context that is retained as long as `self`.
        cuda!(unsafe { result::ctx::set_current(self.context) })
    }

    fn kernel(&self, name: &'static str) -> Result<Kernel, GpuError> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernels.get(name) {
            return Ok(*kernel);
        }
        let kernel = self.find_kernel(name)?;
        kernels.insert(name, kernel);
        Ok(kernel)
    }

    fn find_kernel(&self, name: &'static str) -> Result<Kernel, GpuError> {
        let missing = |reason: &str| GpuError::Kernel { kernel: name.into(), reason: reason.into() };
        let symbol = CString::new(name).map_err(|_| missing("the name has a zero byte"))?;
        for &module in &self.modules {
            // SAFETY: a loaded module.
            match unsafe { result::module::get_function(module, symbol.clone()) } {
                Ok(function) => {
                    self.allow_shared_memory(function)?;
                    return Ok(Kernel(function));
                }
                Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND)) => {}
                Err(error) => return cuda!(Err(error)),
            }
        }
        Err(missing("it is not embedded"))
    }

    /// Lets a kernel have as much dynamic shared memory as the device has for a block.
    fn allow_shared_memory(&self, function: sys::CUfunction) -> Result<(), GpuError> {
        use sys::CUfunction_attribute as Attribute;
        // SAFETY: a function of a loaded module.
        let fixed = cuda!(unsafe {
            result::function::get_function_attribute(function, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        })?;
        let most = self.info.shared_bytes_per_block as i32 - fixed;
        // SAFETY: as above.
        cuda!(unsafe {
            result::function::set_function_attribute(
                function,
                Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                most,
            )
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Errors: the process has lost the device, and nothing here depends on it any more.
        let _ = self.bind();
        for &module in &self.modules {
            // SAFETY: loaded by `open`; all streams are gone, as they hold the context.
            let _ = unsafe { result::module::unload(module) };
        }
        // SAFETY: retained by `open`.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// Work in order. Launches and copies of different streams are unordered, but for events.
pub struct Stream {
    context: Arc<Context>,
    stream: sys::CUstream,
}
// SAFETY: a handle that the driver lets every thread use.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream, unordered with all others.
    pub fn new(context: &Arc<Context>) -> Result<Arc<Self>, GpuError> {
        context.bind()?;
        let stream = cuda!(result::stream::create(result::stream::StreamKind::NonBlocking))?;
        Ok(Arc::new(Self { context: context.clone(), stream }))
    }

    /// Its context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Waits for all work so far.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.context.bind()?;
        // SAFETY: a live stream.
        cuda!(unsafe { result::stream::synchronize(self.stream) })
    }

    /// Marks the end of all work so far.
    pub fn record(&self) -> Result<Event, GpuError> {
        let event = Event::new(&self.context)?;
        // SAFETY: a live event and stream of one context.
        cuda!(unsafe { result::event::record(event.event, self.stream) })?;
        Ok(event)
    }

    /// Lets later work wait for an event.
    pub fn wait(&self, event: &Event) -> Result<(), GpuError> {
        self.context.bind()?;
        // SAFETY: a live event and stream.
        cuda!(unsafe {
            result::stream::wait_event(
                self.stream,
                event.event,
                sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT,
            )
        })
    }

    /// Copies to the device, and waits.
    ///
    /// # Safety
    /// `target` is valid and nothing unordered with this stream uses it.
    pub unsafe fn upload<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]) -> Result<(), GpuError> {
        let (found, wanted) = (values.len() as u64, target.len() as u64);
        if found != wanted {
            return Err(GpuError::Length { what: "a vector to copy", found, wanted });
        }
        // SAFETY: the caller's promise; `values` is alive until the copy is over, as this waits.
        unsafe { self.copy_to_device(target, values.as_ptr()) }?;
        self.synchronize()
    }

    /// Copies to the device without waiting.
    ///
    /// # Safety
    /// As for [`Self::upload`], and `source` is readable for the slice's length until the copy is over.
    pub unsafe fn copy_to_device<T: Copy>(
        &self,
        target: DeviceSlice<T>,
        source: *const T,
    ) -> Result<(), GpuError> {
        if target.is_empty() {
            return Ok(());
        }
        self.context.bind()?;
        cuda!(
            // SAFETY: the caller's promise.
            unsafe {
                sys::cuMemcpyHtoDAsync_v2(target.address(), source.cast(), target.num_bytes(), self.stream)
            }
            .result()
        )
    }

    /// Copies from the device, after all work so far, and waits.
    ///
    /// # Safety
    /// `source` is valid and holds values of `T`; nothing unordered with this stream writes it.
    pub unsafe fn download<T: Copy>(&self, source: DeviceSlice<T>) -> Result<Vec<T>, GpuError> {
        let mut values = Vec::with_capacity(source.len());
        // SAFETY: the caller's promise.
        unsafe { self.append(source, &mut values) }?;
        Ok(values)
    }

    /// Copies from the device to a vector's end, after all work so far, and waits.
    ///
    /// # Safety
    /// As for [`Self::download`].
    pub unsafe fn append<T: Copy>(
        &self,
        source: DeviceSlice<T>,
        target: &mut Vec<T>,
    ) -> Result<(), GpuError> {
        if source.is_empty() {
            return Ok(());
        }
        target.reserve(source.len());
        self.context.bind()?;
        cuda!(
            // SAFETY: the vector has so many places beyond its length.
            unsafe {
                sys::cuMemcpyDtoHAsync_v2(
                    target.spare_capacity_mut().as_mut_ptr() as *mut c_void,
                    source.address(),
                    source.num_bytes(),
                    self.stream,
                )
            }
            .result()
        )?;
        self.synchronize()?;
        // SAFETY: the copy has written them all.
        unsafe { target.set_len(target.len() + source.len()) };
        Ok(())
    }

    /// Sets every byte.
    ///
    /// # Safety
    /// As for [`Self::upload`].
    pub unsafe fn fill<T>(&self, target: DeviceSlice<T>, byte: u8) -> Result<(), GpuError> {
        if target.is_empty() {
            return Ok(());
        }
        self.context.bind()?;
        // SAFETY: the caller's promise.
        cuda!(unsafe { result::memset_d8_async(target.address(), byte, target.num_bytes(), self.stream) })
    }
}

impl Launcher for Stream {
    unsafe fn launch_raw(
        &self,
        kernel: &'static str,
        grid: Grid,
        args: *const c_void,
        _args_bytes: usize,
    ) -> Result<(), GpuError> {
        let Kernel(function) = self.context.kernel(kernel)?;
        self.context.bind()?;
        let mut parameters = [args.cast_mut()];
        let (x, y) = grid.blocks;
        // SAFETY: the caller's promise: the kernel takes one parameter, which the driver copies.
        cuda!(unsafe {
            result::launch_kernel(
                function,
                (x, y, 1),
                (grid.threads, 1, 1),
                grid.shared_bytes,
                self.stream,
                &mut parameters,
            )
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.context.bind();
        // SAFETY: created by `new`; work in it goes on, the driver frees it afterwards.
        let _ = unsafe { result::stream::destroy(self.stream) };
    }
}

/// A moment in a stream, with its time.
pub struct Event {
    context: Arc<Context>,
    event: sys::CUevent,
}
// SAFETY: a handle that the driver lets every thread use.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    fn new(context: &Arc<Context>) -> Result<Self, GpuError> {
        context.bind()?;
        let event = cuda!(result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT))?;
        Ok(Self { context: context.clone(), event })
    }

    /// Waits until the work before it is over.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.context.bind()?;
        // SAFETY: a live event.
        cuda!(unsafe { result::event::synchronize(self.event) })
    }

    /// Whether the work before it is over; false too where the device has failed.
    pub fn is_over(&self) -> bool {
        // SAFETY: a live event.
        self.context.bind().is_ok() && unsafe { result::event::query(self.event) }.is_ok()
    }

    /// Milliseconds from `earlier` to here, once both are over.
    pub fn milliseconds_since(&self, earlier: &Event) -> Result<f32, GpuError> {
        self.context.bind()?;
        // SAFETY: live events.
        cuda!(unsafe { result::event::elapsed(earlier.event, self.event) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.context.bind();
        // SAFETY: created by `new`.
        let _ = unsafe { result::event::destroy(self.event) };
    }
}

/// Device memory, freed when dropped; whoever uses it sees to it that this comes last.
pub struct DeviceMemory {
    context: Arc<Context>,
    address: sys::CUdeviceptr,
    bytes: u64,
}

impl DeviceMemory {
    /// `bytes` > 0 bytes of undefined content.
    pub fn new(context: &Arc<Context>, bytes: u64) -> Result<Self, GpuError> {
        context.bind()?;
        // SAFETY: a size above 0, which fits: this is a 64-bit machine.
        match unsafe { result::malloc_sync(bytes as usize) } {
            Ok(address) => Ok(Self { context: context.clone(), address, bytes }),
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                let (found, _) = context.memory()?;
                let what = format!("the arena on {}", context.info.uuid);
                Err(GpuError::OutOfMemory { what, found, wanted: bytes })
            }
            Err(error) => cuda!(Err(error)),
        }
    }

    /// Its start, aligned to 256 bytes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size.
    pub fn num_bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let _ = self.context.bind();
        // SAFETY: allocated by `new`. Waits for the device.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

/// Host memory that the device copies from directly: page-locked for as long as this lives.
pub struct PinnedMapping {
    context: Arc<Context>,
    address: *mut c_void,
}
// SAFETY: an address; nothing is dereferenced.
unsafe impl Send for PinnedMapping {}
// SAFETY: as above.
unsafe impl Sync for PinnedMapping {}

impl PinnedMapping {
    /// Pins `bytes` bytes at `address`, of a mapping that may be read-only.
    ///
    /// # Safety
    /// The range is mapped for as long as the result lives.
    pub unsafe fn new(
        context: &Arc<Context>,
        address: *mut c_void,
        bytes: usize,
        read_only: bool,
    ) -> Result<Self, GpuError> {
        context.bind()?;
        let mut flags = sys::CU_MEMHOSTREGISTER_PORTABLE;
        if read_only {
            flags |= sys::CU_MEMHOSTREGISTER_READ_ONLY;
        }
        // SAFETY: the caller's promise.
        cuda!(unsafe { sys::cuMemHostRegister_v2(address, bytes, flags) }.result())?;
        Ok(Self { context: context.clone(), address })
    }
}

impl Drop for PinnedMapping {
    fn drop(&mut self) {
        let _ = self.context.bind();
        // SAFETY: registered by `new`.
        let _ = unsafe { sys::cuMemHostUnregister(self.address) };
    }
}
