//! The kernels and the prover on a device: the properties that hold on the emulation, larger sizes, and real
//! circuits. Needs a machine with an NVIDIA device; without one every test fails. `make gpu-test` runs it here,
//! `scripts/gpu-bundle` takes it to another machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]
#[path = "../kernels/properties.rs"]
mod properties;
mod sapling;

use cuzk::{
    algebra::TwoAdicRoot,
    gpu::{
        DeviceSlice, GpuError, Grid, Launcher, Queue,
        arena::{Arena, Region},
        device::{DeviceInfo, devices, find},
        driver::{Context, Stream},
        ntt::Coset,
        plan::{Planner, Slot},
    },
};
use properties::Backend;
use std::{
    cell::RefCell,
    ffi::c_void,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

fn device() -> DeviceInfo {
    let all = devices().expect("these tests need an NVIDIA driver");
    all.into_iter().next().expect("these tests need an NVIDIA device")
}

fn context() -> Arc<Context> {
    static CONTEXT: OnceLock<Arc<Context>> = OnceLock::new();
    CONTEXT.get_or_init(|| Context::open(&device()).unwrap()).clone()
}

/// Most of the device's memory, allocated once, for one test after the other.
fn arena() -> Arc<Arena> {
    static ARENA: OnceLock<Arc<Arena>> = OnceLock::new();
    let allocate = || {
        let (free, _) = context().memory().unwrap();
        Arena::new(&context(), free / 10 * 9).unwrap()
    };
    ARENA.get_or_init(allocate).clone()
}

/// A stream with an arena for the whole of one test. One is in use at a time: tests wait for their turn, so that
/// each has the memory and the host's processors to itself.
struct Device {
    stream: Arc<Stream>,
    arena: Arc<Arena>,
    planner: RefCell<Planner>,
    regions: RefCell<Vec<(Slot, Region)>>,
    /// Memory is filled with a pattern as it is allocated.
    fills: bool,
    _exclusive: MutexGuard<'static, ()>,
}

impl Device {
    fn new() -> Self {
        Self::over(arena, true)
    }

    /// With memory as the driver gives it, so that a checker of uninitialised reads sees what the prover does.
    fn untouched(bytes: u64) -> Self {
        Self::over(|| Arena::new(&context(), bytes).unwrap(), false)
    }

    fn over(arena: impl FnOnce() -> Arc<Arena>, fills: bool) -> Self {
        static EXCLUSIVE: Mutex<()> = Mutex::new(());
        // A test that failed has left its regions free.
        let exclusive = EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            stream: Stream::new(&context()).unwrap(),
            arena: arena(),
            planner: RefCell::default(),
            regions: RefCell::default(),
            fills,
            _exclusive: exclusive,
        }
    }
}

impl Launcher for Device {
    unsafe fn launch_raw(
        &self,
        kernel: &'static str,
        grid: Grid,
        args: *const c_void,
        args_bytes: usize,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { self.stream.launch_raw(kernel, grid, args, args_bytes) }
    }
}

impl Backend for Device {
    fn alloc<T: Copy>(&self, len: usize) -> DeviceSlice<T> {
        let slot = self.planner.borrow_mut().claim::<T>("a test's buffer", len as u64).unwrap();
        let region = self.arena.claim(slot, &self.stream).unwrap();
        let slice = region.slice(len).unwrap();
        self.regions.borrow_mut().push((slot, region));
        if self.fills {
            // SAFETY: a slice of the region.
            unsafe { self.stream.fill(slice, 0xa5) }.unwrap();
        }
        slice
    }

    fn write<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]) {
        // SAFETY: a slice that `alloc` gave.
        unsafe { self.stream.upload(target, values) }.unwrap();
    }

    fn read<T: Copy>(&self, source: DeviceSlice<T>) -> Vec<T> {
        // SAFETY: a slice that `alloc` gave.
        unsafe { self.stream.download(source) }.unwrap()
    }

    fn scope<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = self.regions.borrow().len();
        let result = work();
        for (slot, _) in self.regions.borrow_mut().drain(before..) {
            self.planner.borrow_mut().release(slot);
        }
        result
    }
}

impl Queue for Device {
    unsafe fn upload<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { self.stream.upload(target, values) }
    }

    unsafe fn upload_from(&self, target: DeviceSlice<u8>, source: NonNull<u8>) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { self.stream.upload_from(target, source) }
    }

    unsafe fn download<T: Copy>(&self, source: DeviceSlice<T>) -> Result<Vec<T>, GpuError> {
        // SAFETY: the caller's promise.
        unsafe { self.stream.download(source) }
    }

    unsafe fn fill<T>(&self, target: DeviceSlice<T>, byte: u8) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { self.stream.fill(target, byte) }
    }

    fn finish(&self) -> Result<(), GpuError> {
        self.stream.synchronize()
    }
}

/// Whether the device has memory for a case; one that is left out is named.
fn has_room(case: &str, bytes: u64) -> bool {
    let has = bytes <= arena().capacity();
    if !has {
        eprintln!(
            "LEFT OUT: {case} needs {bytes} bytes of device memory, the tests have {}",
            arena().capacity()
        );
    }
    has
}

#[test]
fn field_arithmetic() {
    properties::arithmetic(&Device::new());
}

#[test]
fn conversions() {
    properties::conversions(&Device::new());
}

#[test]
fn evaluations_of_rows_of_every_length() {
    properties::evaluations(&Device::new());
}

#[test]
fn transforms_of_every_size() {
    let device = Device::new();
    for root in [TwoAdicRoot::Seven, TwoAdicRoot::Five] {
        let roots = properties::roots(&device, root);
        for log_size in 1..=20 {
            let kinds = if log_size <= 14 { 6 } else { 1 };
            device.scope(|| properties::transforms(&device, roots, root, log_size, kinds));
        }
    }
}

#[test]
fn large_transforms() {
    let device = Device::new();
    let root = TwoAdicRoot::Seven;
    let roots = properties::roots(&device, root);
    for log_size in 21..=24 {
        for coset in [Coset::Domain, Coset::Odd] {
            device.scope(|| properties::interpolation(&device, roots, root, log_size, coset));
        }
    }
    for (log_size, coset) in [(26, Coset::Domain), (28, Coset::Odd)] {
        if has_room(&format!("a transform of 2^{log_size}"), 65 << log_size) {
            device.scope(|| properties::monomials(&device, roots, root, log_size, coset));
        }
    }
}

#[test]
fn quotients_in_both_bases() {
    let device = Device::new();
    for (root, sizes) in
        [(TwoAdicRoot::Seven, 1..=18), (TwoAdicRoot::Seven, 21..=21), (TwoAdicRoot::Five, 1..=16)]
    {
        let roots = properties::roots(&device, root);
        for log_size in sizes {
            device.scope(|| properties::quotients(&device, roots, root, log_size));
        }
    }
}

#[test]
fn devices_are_found_by_their_names() {
    let device = device();
    assert_eq!(find(&device.uuid).unwrap(), device);
    assert_eq!(find(&device.pci).unwrap(), device);
    let error = find("GPU-00000000-dead").unwrap_err().to_string();
    assert!(error.contains("no device GPU-00000000-dead") && error.contains(&device.uuid), "{error}");
}

#[test]
fn an_arena_larger_than_the_device_is_refused_with_the_figures() {
    let context = context();
    let wanted = context.info().memory * 2;
    match Arena::new(&context, wanted).err() {
        Some(GpuError::OutOfMemory { found, wanted: w, .. }) => assert!(found < w && w == wanted),
        other => panic!("{other:?}"),
    }
    // The context is not the worse for it.
    properties::arithmetic(&Device::new());
}

#[test]
fn regions_wait_for_their_bytes_and_the_peak_is_the_plan_s() {
    let context = context();
    let (first, second) = (Stream::new(&context).unwrap(), Stream::new(&context).unwrap());
    let len = 1 << 26;
    let mut plan = Planner::new();
    let a = plan.claim::<u8>("a", len).unwrap();
    plan.release(a);
    let b = plan.claim::<u8>("b", len).unwrap();
    let arena = Arena::new(&context, plan.peak()).unwrap();
    let region = arena.claim(a, &first).unwrap();
    assert!(matches!(arena.claim(b, &second), Err(GpuError::Overlap { .. })));
    for i in 0..200 {
        // SAFETY: a slice of the region.
        unsafe { first.fill(region.slice::<u8>(len as usize).unwrap(), i) }.unwrap();
    }
    drop(region);
    // Another stream in the same bytes: ordered after the first one's work.
    let region = arena.claim(b, &second).unwrap();
    let slice = region.slice::<u8>(len as usize).unwrap();
    // SAFETY: a slice of the region.
    let values = unsafe {
        second.fill(slice, 0x5a).unwrap();
        second.download(slice).unwrap()
    };
    assert!(values.iter().all(|&v| v == 0x5a));
    first.synchronize().unwrap();
    // SAFETY: as above.
    assert!(unsafe { second.download(slice) }.unwrap().iter().all(|&v| v == 0x5a));
    arena.check_peak(plan.peak()).unwrap();
    assert!(arena.check_peak(plan.peak() + 1).is_err());
}

#[path = "../kernels/sums.rs"]
mod sums;

use cuzk::{
    algebra::{G1, G2},
    gpu::{msm_plan::MsmDevice, msm_sort::Windows, points::DeviceCurve},
};

/// This device with at most so many bytes for a sum's working memory.
fn msm_device(memory: u64) -> MsmDevice {
    MsmDevice { memory: memory.min(arena().capacity() / 4), multiprocessors: device().multiprocessors }
}

fn fields_and_points<C: DeviceCurve>() {
    let device = Device::new();
    sums::field_arithmetic::<C>(&device);
    sums::curve_arithmetic::<C>(&device);
    sums::decoding::<C>(&device);
    for count in [1, 33, 5000, 100_000] {
        device.scope(|| sums::multiples::<C>(&device, msm_device(0).multiprocessors, count));
    }
}

fn sums_of<C: DeviceCurve>() {
    let device = Device::new();
    let small = [0, 1, 2, 31, 32, 33, 1000, 4095, 4096, 4097, 16_383, 16_384, 16_385];
    sums::sums::<C>(&device, msm_device(1 << 30), &small);
    sums::unusual_points::<C>(&device, msm_device(1 << 30), 1000);
    sums::unusual_points::<C>(&device, msm_device(1 << 30), 100_000);
    sums::indexed::<C>(&device, msm_device(1 << 30), 100_000);
    sums::in_pieces::<C>(&device, msm_device(4 << 30), 50_000);
    let windows = [Windows { width: 16, tables: 2 }, Windows { width: 19, tables: 14 }];
    sums::with_multiples::<C>(&device, msm_device(2 << 30), 30_000, &windows);
}

fn large_sums_of<C: DeviceCurve>() {
    let device = Device::new();
    for (log_count, kinds) in [(18, 11), (20, 11), (22, 3), (24, 11)] {
        let bytes = (size_of::<C::Affine>() as u64 + 32) << log_count;
        if has_room(&format!("a sum over 2^{log_count} points of {}", C::NAME), 4 * bytes) {
            sums::large_sums::<C>(&device, msm_device(16 << 30), log_count, kinds);
        }
    }
}

#[test]
fn fields_and_points_of_g1() {
    fields_and_points::<G1>();
}

#[test]
fn fields_and_points_of_g2() {
    fields_and_points::<G2>();
}

#[test]
fn sums_over_g1() {
    sums_of::<G1>();
}

#[test]
fn sums_over_g2() {
    sums_of::<G2>();
}

#[test]
fn large_sums_over_g1() {
    large_sums_of::<G1>();
}

#[test]
fn large_sums_over_g2() {
    large_sums_of::<G2>();
}

#[path = "../kernels/proofs.rs"]
mod proofs;
#[path = "../kernels/unpacking.rs"]
mod unpacking;

#[test]
fn packed_witnesses_are_unpacked() {
    unpacking::unpacking(&Device::new(), &[0, 1, 2, 3, 4]);
}

/// An arena of `memory` bytes, which several cases have one after the other.
fn size(memory: usize) -> proofs::Size {
    proofs::Size { memory, multiprocessors: device().multiprocessors }
}

#[test]
fn proofs_of_circuits_around_powers_of_two() {
    proofs::circuits(&Device::new(), size(1 << 28), &[2, 5, 10, 14]);
}

#[test]
fn proofs_of_uniform_witnesses() {
    proofs::witnesses(&Device::new(), size(1 << 28), 1000);
}

#[test]
fn witnesses_come_from_a_mapping_or_piece_by_piece() {
    proofs::uploads(&Device::new(), size(1 << 28));
}

#[test]
fn circuits_share_an_arena() {
    proofs::several_circuits(&Device::new(), device().multiprocessors, 400);
}

#[test]
fn proofs_with_multiples_of_the_key_s_points() {
    proofs::multiples(&Device::new(), size(1 << 30), 20_000);
}

#[test]
fn multiples_make_no_circuit_leave() {
    // As for a device of one multiprocessor: the memory in which multiples are made is less than a circuit's.
    proofs::multiples_make_nobody_leave(&Device::new(), 1, 20_000);
}

#[test]
fn the_known_answer_is_given() {
    proofs::known_answer(&Device::new(), size(1 << 28), 1100);
}

#[test]
fn proofs_in_less_and_less_memory() {
    // Large enough for a key in pieces to take less than a resident one.
    proofs::less_and_less_memory(&Device::new(), size(4 << 30), 300_000);
}

#[test]
fn bad_witnesses_are_refused() {
    proofs::refusals(&Device::new(), size(1 << 28));
}

#[test]
fn witnesses_are_wiped() {
    proofs::wiping(&Device::new(), size(1 << 28));
}

#[test]
fn a_hundred_proofs_under_a_key_of_snarkjs_are_identical() {
    proofs::circom(&Device::new(), size(1 << 29), 100);
}

/// What `compute-sanitizer` looks at, too: every kernel of a proof, in little memory.
#[test]
fn a_proof_in_memory_as_it_comes() {
    let device = Device::untouched(64 << 20);
    proofs::circom(&device, size(48 << 20), 1);
}
