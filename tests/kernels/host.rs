//! The kernels on the host: `cuda/host` compiled with the C++ compiler of this machine (`CXX`, else `c++`)
//! into a shared library, which stands in for a device.
use crate::properties::Backend;
use cuzk::gpu::{DeviceSlice, GpuError, Grid, Launcher, PageLocks, Queue};
use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char, c_int, c_void},
    path::{Path, PathBuf},
    process::Command,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

type LaunchFn =
    unsafe extern "C" fn(*const c_char, *const c_void, usize, u32, u32, u32, usize, c_int) -> *const c_char;

/// Compiles the kernels and loads them, once.
fn library() -> LaunchFn {
    static LIBRARY: OnceLock<LaunchFn> = OnceLock::new();
    *LIBRARY.get_or_init(|| {
        let path = compile();
        let path = CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: a valid path to a library without initialisers of its own.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "loading {path:?}");
        // SAFETY: an open library and a valid name.
        let symbol = unsafe { libc::dlsym(handle, c"cuzk_host_launch".as_ptr()) };
        assert!(!symbol.is_null(), "the library has no cuzk_host_launch");
        // SAFETY: the function's type in `cuda/host/kernels.cpp`; the library stays loaded.
        unsafe { std::mem::transmute::<*mut c_void, LaunchFn>(symbol) }
    })
}

fn compile() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("cuda/host");
    // One file a process: tests may run at the same time as another build's.
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kernels-{}.so", std::process::id()));
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let output = Command::new(&compiler)
        .args([
            "-std=c++17",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unknown-pragmas",
            "-shared",
            "-fPIC",
        ])
        // Fibers jump between stacks, which fortified longjmp takes for an error.
        .args(["-U_FORTIFY_SOURCE", "-o"])
        .arg(&library)
        .args([sources.join("kernels.cpp"), sources.join("block.cpp")])
        .output()
        .unwrap_or_else(|e| panic!("running the C++ compiler {compiler:?}: {e}"));
    assert!(output.status.success(), "compiling the kernels: {}", String::from_utf8_lossy(&output.stderr));
    library
}

/// The emulated device. One is in use at a time: the emulation has one set of registers, so to speak.
pub struct Host {
    launch: LaunchFn,
    /// Threads of a block run from the last to the first.
    descending: bool,
    memory: RefCell<Vec<Vec<u128>>>,
    _exclusive: MutexGuard<'static, ()>,
}

impl Host {
    pub fn new(descending: bool) -> Self {
        let launch = library();
        Self { launch, descending, memory: RefCell::default(), _exclusive: exclusively() }
    }
}

/// Waits until no other test uses the emulation.
fn exclusively() -> MutexGuard<'static, ()> {
    static EXCLUSIVE: Mutex<()> = Mutex::new(());
    // A test that failed left nothing behind.
    EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a kernel.
///
/// # Safety
/// As for [`Launcher::launch_raw`].
unsafe fn run(
    launch: LaunchFn,
    kernel: &'static str,
    grid: Grid,
    (args, args_bytes): (*const c_void, usize),
    descending: bool,
) -> Result<(), GpuError> {
    let name = CString::new(kernel).unwrap();
    let (x, y) = grid.blocks;
    let shared = grid.shared_bytes as usize;
    // SAFETY: the library checks name and size; the caller answers for the arguments.
    let refused =
        unsafe { launch(name.as_ptr(), args, args_bytes, x, y, grid.threads, shared, descending.into()) };
    if refused.is_null() {
        return Ok(());
    }
    // SAFETY: a string literal of the library.
    let reason = unsafe { CStr::from_ptr(refused) }.to_string_lossy().into_owned();
    Err(GpuError::Kernel { kernel: kernel.into(), reason })
}

impl Launcher for Host {
    unsafe fn launch_raw(
        &self,
        kernel: &'static str,
        grid: Grid,
        args: *const c_void,
        args_bytes: usize,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { run(self.launch, kernel, grid, (args, args_bytes), self.descending) }
    }
}

impl Backend for Host {
    fn alloc<T: Copy>(&self, len: usize) -> DeviceSlice<T> {
        let words = (len * size_of::<T>()).div_ceil(16).max(1);
        let block = vec![u128::from_ne_bytes([0xa5; 16]); words];
        let address = block.as_ptr() as u64;
        self.memory.borrow_mut().push(block);
        // SAFETY: the block lives, unmoved, as long as `self`, and is aligned to 16 bytes.
        unsafe { DeviceSlice::from_raw(address, len) }
    }

    fn write<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]) {
        assert_eq!(target.len(), values.len());
        // SAFETY: memory that `alloc` gave.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), target.address() as *mut T, values.len()) }
    }

    fn read<T: Copy>(&self, source: DeviceSlice<T>) -> Vec<T> {
        // SAFETY: memory that `alloc` gave; no launch is running.
        (0..source.len()).map(|i| unsafe { (source.address() as *const T).add(i).read() }).collect()
    }

    fn scope<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = self.memory.borrow().len();
        let result = work();
        self.memory.borrow_mut().truncate(before);
        result
    }
}

impl Queue for Host {
    unsafe fn upload<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]) -> Result<(), GpuError> {
        self.write(target, values);
        Ok(())
    }

    unsafe fn upload_from(&self, target: DeviceSlice<u8>, source: NonNull<u8>) -> Result<(), GpuError> {
        // SAFETY: memory that `alloc` gave, and mapped bytes.
        unsafe { std::ptr::copy(source.as_ptr(), target.address() as *mut u8, target.len()) };
        Ok(())
    }

    unsafe fn download<T: Copy>(&self, source: DeviceSlice<T>) -> Result<Vec<T>, GpuError> {
        Ok(self.read(source))
    }

    unsafe fn fill<T>(&self, target: DeviceSlice<T>, byte: u8) -> Result<(), GpuError> {
        // SAFETY: memory that `alloc` gave.
        unsafe { std::ptr::write_bytes(target.address() as *mut u8, byte, target.num_bytes()) };
        Ok(())
    }

    fn finish(&self) -> Result<(), GpuError> {
        Ok(())
    }
}

/// The emulated device as a queue that threads may share: it has the emulation for a launch at a time.
pub struct HostQueue {
    launch: LaunchFn,
    memory: Mutex<Vec<Vec<u128>>>,
    /// One more owner for each lock on pages; None: it refuses to lock them.
    locks: Option<Arc<()>>,
    counted: Arc<()>,
}

impl HostQueue {
    /// Whether it locks pages, or refuses to.
    pub fn new(locks_pages: bool) -> Self {
        let counted = Arc::new(());
        let locks = locks_pages.then(|| counted.clone());
        Self { launch: library(), memory: Mutex::default(), locks, counted }
    }

    /// Its owners are the caller, twice this queue, and each lock on pages.
    pub fn locks(&self) -> Arc<()> {
        self.counted.clone()
    }

    /// Memory for as long as the queue lives.
    pub fn alloc(&self, bytes: usize) -> DeviceSlice<u8> {
        let block = vec![u128::from_ne_bytes([0xa5; 16]); bytes.div_ceil(16)];
        let address = block.as_ptr() as u64;
        self.memory.lock().unwrap().push(block);
        // SAFETY: the block lives, unmoved, as long as `self`, and is aligned to 16 bytes.
        unsafe { DeviceSlice::from_raw(address, bytes) }
    }
}

impl Launcher for HostQueue {
    unsafe fn launch_raw(
        &self,
        kernel: &'static str,
        grid: Grid,
        args: *const c_void,
        args_bytes: usize,
    ) -> Result<(), GpuError> {
        let _exclusive = exclusively();
        // SAFETY: the caller's promise.
        unsafe { run(self.launch, kernel, grid, (args, args_bytes), false) }
    }
}

impl Queue for HostQueue {
    unsafe fn upload<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]) -> Result<(), GpuError> {
        assert_eq!(target.len(), values.len());
        // SAFETY: memory that `alloc` gave.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), target.address() as *mut T, values.len()) };
        Ok(())
    }

    unsafe fn upload_from(&self, target: DeviceSlice<u8>, source: NonNull<u8>) -> Result<(), GpuError> {
        // SAFETY: memory that `alloc` gave, and mapped bytes.
        unsafe { std::ptr::copy(source.as_ptr(), target.address() as *mut u8, target.len()) };
        Ok(())
    }

    unsafe fn download<T: Copy>(&self, source: DeviceSlice<T>) -> Result<Vec<T>, GpuError> {
        // SAFETY: memory that `alloc` gave; no launch is running.
        Ok((0..source.len()).map(|i| unsafe { (source.address() as *const T).add(i).read() }).collect())
    }

    unsafe fn fill<T>(&self, target: DeviceSlice<T>, byte: u8) -> Result<(), GpuError> {
        // SAFETY: memory that `alloc` gave.
        unsafe { std::ptr::write_bytes(target.address() as *mut u8, byte, target.num_bytes()) };
        Ok(())
    }

    fn finish(&self) -> Result<(), GpuError> {
        Ok(())
    }
}

impl PageLocks for HostQueue {
    type Lock = Arc<()>;

    unsafe fn lock_pages(&self, _address: NonNull<u8>, bytes: usize) -> Result<Arc<()>, GpuError> {
        let refused = GpuError::TooLarge { what: "pages to lock", found: bytes as u64, wanted: 0 };
        self.locks.clone().ok_or(refused)
    }
}
