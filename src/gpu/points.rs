//! Points on the device: decoding a key's encoding, multiples, and the arithmetic of fields and curves
//! value by value. See `cuda/points.cu`.
use super::{
    DeviceSlice, GpuError, Grid, Launcher,
    launch::{KernelArgs, launch},
};
use crate::algebra::{Curve, G1, G2};

const THREADS: u32 = 128;
/// Points that share an inversion in `store_in_batches` of `cuda/batch_affine.cuh`.
pub(super) const BATCH: u32 = 64;
/// Blocks for each multiprocessor there.
const BLOCKS: u32 = 4;

/// A group whose points the kernels add. The device's memory form of `Affine` and `Projective` is the host's.
pub trait DeviceCurve: Curve {
    /// Threads that hold one coordinate together.
    const LANES: u32;
    /// Kernels of this group.
    const KERNELS: CurveKernels;
}

/// Names of a group's kernels.
pub struct CurveKernels {
    pub(super) pairs: &'static str,
    pub(super) add: &'static str,
    pub(super) bits: &'static str,
    pub(super) setup: &'static str,
    decode: &'static str,
    multiples: &'static str,
    field_arithmetic: &'static str,
    curve_arithmetic: &'static str,
}

impl CurveKernels {
    /// The kernel that takes most of a multi-exponentiation's time.
    pub fn add_name(&self) -> &'static str {
        self.add
    }
}

impl DeviceCurve for G1 {
    const LANES: u32 = 1;
    const KERNELS: CurveKernels = CurveKernels {
        pairs: "cuzk_msm_pairs_g1",
        add: "cuzk_msm_add_g1",
        bits: "cuzk_msm_bits_g1",
        setup: "cuzk_setup_multiples_g1",
        decode: "cuzk_points_decode_g1",
        multiples: "cuzk_points_multiples_g1",
        field_arithmetic: "cuzk_fp_arithmetic",
        curve_arithmetic: "cuzk_curve_arithmetic_g1",
    };
}

impl DeviceCurve for G2 {
    const LANES: u32 = 2;
    const KERNELS: CurveKernels = CurveKernels {
        pairs: "cuzk_msm_pairs_g2",
        add: "cuzk_msm_add_g2",
        bits: "cuzk_msm_bits_g2",
        setup: "cuzk_setup_multiples_g2",
        decode: "cuzk_points_decode_g2",
        multiples: "cuzk_points_multiples_g2",
        field_arithmetic: "cuzk_fp2_arithmetic",
        curve_arithmetic: "cuzk_curve_arithmetic_g2",
    };
}

/// Mirrors `points::DecodeArgs`.
#[derive(Clone, Copy)]
#[repr(C)]
struct DecodeArgs {
    encoded: u64,
    points: u64,
    bad: u64,
    count: u64,
}
// SAFETY: integers in C layout, as in the kernels.
unsafe impl KernelArgs for DecodeArgs {}

/// Decodes Zcash's uncompressed encoding. `bad`, which holds `u64::MAX` before, becomes the index of the first
/// point with wrong flags or a coordinate that is not below the modulus. That points are on the
/// curve is not checked.
///
/// # Safety
/// All memory named is valid until the launch has run; `encoded` is aligned to 16 bytes.
pub unsafe fn decode<C: DeviceCurve>(
    launcher: &impl Launcher,
    encoded: DeviceSlice<u8>,
    points: DeviceSlice<C::Affine>,
    bad: DeviceSlice<u64>,
) -> Result<(), GpuError> {
    let count = points.len() as u64;
    let (found, wanted) = (encoded.len() as u64, count * C::UNCOMPRESSED as u64);
    if found != wanted {
        return Err(GpuError::Length { what: "a vector of encoded points", found, wanted });
    }
    if bad.is_empty() {
        return Err(GpuError::Length { what: "the place for an index", found: 0, wanted: 1 });
    }
    let (encoded, points, bad) = (encoded.address(), points.address(), bad.address());
    let args = DecodeArgs { encoded, points, bad, count };
    // SAFETY: the caller's promise.
    unsafe { launch(launcher, C::KERNELS.decode, Grid::covering(count, THREADS, 1)?, &args) }
}

/// Mirrors `points::MultiplesArgs`.
#[derive(Clone, Copy)]
#[repr(C)]
struct MultiplesArgs {
    from: u64,
    to: u64,
    scratch: u64,
    count: u64,
    doublings: u32,
    batch: u32,
}
// SAFETY: integers in C layout, as in the kernels.
unsafe impl KernelArgs for MultiplesArgs {}

/// Bytes of scratch memory that multiples take, here and in the setup, on a device with that many multiprocessors.
pub fn multiples_scratch_bytes(multiprocessors: u32) -> u64 {
    u64::from(multiprocessors * BLOCKS) * u64::from(THREADS) * u64::from(BATCH) * 144
}

/// The grid that computes `count` points in batches: it has at most as many threads as the scratch memory
/// allows.
pub(super) fn batch_grid<C: DeviceCurve>(multiprocessors: u32, count: u64) -> Result<Grid, GpuError> {
    let mut grid = Grid::covering(count * u64::from(C::LANES), THREADS, 1)?;
    grid.blocks.0 = grid.blocks.0.min(multiprocessors * BLOCKS);
    Ok(grid)
}

/// `to[i] = 2^doublings · from[i]`.
///
/// # Safety
/// All memory named is valid until the launch has run; the slices do not overlap.
pub unsafe fn multiples<C: DeviceCurve>(
    launcher: &impl Launcher,
    multiprocessors: u32,
    from: DeviceSlice<C::Affine>,
    to: DeviceSlice<C::Affine>,
    doublings: u32,
    scratch: DeviceSlice<u8>,
) -> Result<(), GpuError> {
    let count = from.len() as u64;
    for (what, found, wanted) in [
        ("a vector of multiples", to.len() as u64, count),
        ("the scratch memory of multiples", scratch.len() as u64, multiples_scratch_bytes(multiprocessors)),
    ] {
        if found != wanted {
            return Err(GpuError::Length { what, found, wanted });
        }
    }
    let grid = batch_grid::<C>(multiprocessors, count)?;
    let (from, to, scratch) = (from.address(), to.address(), scratch.address());
    let args = MultiplesArgs { from, to, scratch, count, doublings, batch: BATCH };
    // SAFETY: the caller's promise; the grid has at most as many threads as the scratch memory allows.
    unsafe { launch(launcher, C::KERNELS.multiples, grid, &args) }
}

/// Mirrors `points::FieldArgs` and `points::CurveArgs`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ArithmeticArgs {
    left: u64,
    right: u64,
    out: u64,
    count: u64,
}
// SAFETY: integers in C layout, as in the kernels.
unsafe impl KernelArgs for ArithmeticArgs {}

fn arithmetic_grid<C: DeviceCurve>(left: usize, right: usize, out: (usize, usize)) -> Result<Grid, GpuError> {
    for (what, found, wanted) in [
        ("right operands", right, left),
        ("results", out.0, out.1 * left),
        ("operands beyond whole warps", left % 32, 0),
    ] {
        if found != wanted {
            return Err(GpuError::Length { what, found: found as u64, wanted: wanted as u64 });
        }
    }
    Grid::covering(left as u64 * u64::from(C::LANES), THREADS, 1)
}

/// Sums, differences, products, squares of `left` and inverses of `left` (of zero: zero), one vector
/// after the other in `out`, of coordinates in Montgomery form. The number of operands is a multiple of 32.
///
/// # Safety
/// All memory named is valid until the launch has run.
pub unsafe fn field_arithmetic<C: DeviceCurve>(
    launcher: &impl Launcher,
    left: DeviceSlice<C::Field>,
    right: DeviceSlice<C::Field>,
    out: DeviceSlice<C::Field>,
) -> Result<(), GpuError> {
    let grid = arithmetic_grid::<C>(left.len(), right.len(), (out.len(), 5))?;
    let count = left.len() as u64;
    let args = ArithmeticArgs { left: left.address(), right: right.address(), out: out.address(), count };
    // SAFETY: the caller's promise.
    unsafe { launch(launcher, C::KERNELS.field_arithmetic, grid, &args) }
}

/// l + r, 2(l + r), (l + r) + (r + l) and (l + r) + 2l, one vector after the other in `out`. The number of
/// operands is a multiple of 32.
///
/// # Safety
/// All memory named is valid until the launch has run.
pub unsafe fn curve_arithmetic<C: DeviceCurve>(
    launcher: &impl Launcher,
    left: DeviceSlice<C::Affine>,
    right: DeviceSlice<C::Affine>,
    out: DeviceSlice<C::Projective>,
) -> Result<(), GpuError> {
    let grid = arithmetic_grid::<C>(left.len(), right.len(), (out.len(), 4))?;
    let count = left.len() as u64;
    let args = ArithmeticArgs { left: left.address(), right: right.address(), out: out.address(), count };
    // SAFETY: the caller's promise.
    unsafe { launch(launcher, C::KERNELS.curve_arithmetic, grid, &args) }
}
