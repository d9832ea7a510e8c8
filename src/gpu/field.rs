//! Kernels over vectors of field elements: see `cuda/field.cu`.
use super::{
    DeviceSlice, GpuError, Grid, Launcher,
    launch::{KernelArgs, launch},
};
use crate::algebra::Canonical;

const THREADS: u32 = 256;

/// Mirrors `field::Check`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Check {
    values: u64,
    length: u64,
    first: u64,
}
// SAFETY: integers in C layout, as in the kernel.
unsafe impl KernelArgs for Check {}

/// Mirrors `field::FromMontgomery`.
#[derive(Clone, Copy)]
#[repr(C)]
struct FromMontgomery {
    values: u64,
    length: u64,
}
// SAFETY: integers in C layout, as in the kernel.
unsafe impl KernelArgs for FromMontgomery {}

/// Mirrors `field::Arithmetic`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Arithmetic {
    left: u64,
    right: u64,
    sum: u64,
    difference: u64,
    product: u64,
    length: u64,
}
// SAFETY: integers in C layout, as in the kernel.
unsafe impl KernelArgs for Arithmetic {}

/// Lowers `first`, one u64 that the caller has set to u64::MAX, to the least index of a value in `values`
/// that is not below r.
///
/// # Safety
/// Both slices are valid until the launch has run.
pub unsafe fn check(
    launcher: &impl Launcher,
    values: DeviceSlice<Canonical>,
    first: DeviceSlice<u64>,
) -> Result<(), GpuError> {
    if first.len() != 1 {
        return Err(GpuError::Length { what: "the check's result", found: first.len() as u64, wanted: 1 });
    }
    let length = values.len() as u64;
    let args = Check { values: values.address(), length, first: first.address() };
    // SAFETY: the caller's promise, and the lengths are the slices'.
    unsafe { launch(launcher, "cuzk_fr_check", Grid::covering(length, THREADS, 1)?, &args) }
}

/// Turns values in Montgomery form (R = 2^256) into canonical ones, in place. A value that is not below r
/// counts as its residue.
///
/// # Safety
/// `values` is valid until the launch has run.
pub unsafe fn from_montgomery(
    launcher: &impl Launcher,
    values: DeviceSlice<Canonical>,
) -> Result<(), GpuError> {
    let length = values.len() as u64;
    let args = FromMontgomery { values: values.address(), length };
    // SAFETY: the caller's promise, and the length is the slice's.
    unsafe { launch(launcher, "cuzk_fr_from_montgomery", Grid::covering(length, THREADS, 1)?, &args) }
}

/// Vectors of [`arithmetic`], all of one length.
#[derive(Clone, Copy)]
pub struct Operands {
    /// First operand of each operation.
    pub left: DeviceSlice<Canonical>,
    /// Second operand.
    pub right: DeviceSlice<Canonical>,
    /// left + right.
    pub sum: DeviceSlice<Canonical>,
    /// left − right.
    pub difference: DeviceSlice<Canonical>,
    /// left · right / 2^256.
    pub product: DeviceSlice<Canonical>,
}

/// The device's arithmetic by itself, for tests that compare it with the host's.
///
/// # Safety
/// All slices are valid until the launch has run; the results overlap nothing.
pub unsafe fn arithmetic(launcher: &impl Launcher, operands: &Operands) -> Result<(), GpuError> {
    let length = operands.left.len() as u64;
    for (what, slice) in [
        ("the right operand", operands.right),
        ("the sum", operands.sum),
        ("the difference", operands.difference),
        ("the product", operands.product),
    ] {
        let found = slice.len() as u64;
        if found != length {
            return Err(GpuError::Length { what, found, wanted: length });
        }
    }
    let args = Arithmetic {
        left: operands.left.address(),
        right: operands.right.address(),
        sum: operands.sum.address(),
        difference: operands.difference.address(),
        product: operands.product.address(),
        length,
    };
    // SAFETY: the caller's promise, and all slices have the length.
    unsafe { launch(launcher, "cuzk_fr_arithmetic", Grid::covering(length, THREADS, 1)?, &args) }
}
