//! The scalars of a key's h points, from the values of A·z and B·z on the domain, on the device.
//!
//! With A·B = u + xᵐ·v, deg u, deg v < m, the quotient of A·B − C by xᵐ − 1 is v. For a satisfied witness
//! C = a∘b on the domain, where A·B interpolates to u + v; on the odd coset it interpolates to u − v. (The
//! same as `groth16::prover`, in six transforms.) Products, the scaling by 1/m and the last difference ride
//! on the transforms' passes.
use super::{
    DeviceSlice, GpuError, Launcher,
    launch::FrArg,
    ntt::{Coset, Transform},
};
use crate::{
    algebra::{Canonical, Fr},
    groth16::HBasis,
};

/// The three vectors that the computation works in, each of the domain's size.
#[derive(Clone, Copy)]
pub struct Buffers {
    /// A·z on the domain; overwritten.
    pub a: DeviceSlice<Canonical>,
    /// B·z on the domain; overwritten.
    pub b: DeviceSlice<Canonical>,
    /// Anything; overwritten.
    pub c: DeviceSlice<Canonical>,
}

/// Computes the scalars of h in the key's basis and returns the one of the buffers that holds them, in
/// natural order: m − 1 coefficients and a zero, or m values on the odd coset.
///
/// # Safety
/// The buffers, which do not overlap, and the transform's roots are valid until the launches have run.
pub unsafe fn quotient(
    launcher: &impl Launcher,
    transform: &Transform,
    basis: HBasis,
    buffers: Buffers,
) -> Result<DeviceSlice<Canonical>, GpuError> {
    let Buffers { a, b, c } = buffers;
    for vector in [a, b, c] {
        transform.check(vector)?;
    }
    let per_size = transform.size_inverse();
    // 1/2, twice the size's inverse times half the size.
    let half = Fr::from_u64(2).inverse().unwrap_or_default();
    match basis {
        HBasis::Monomial => {
            // SAFETY: the caller's promise; all vectors have the transform's size.
            unsafe {
                // (u + v) / 2 in c. No transform divides by m by itself: the products do it for all.
                inverse_of_product(launcher, transform, buffers, c, per_size * half)?;
                to_odd_coset(launcher, transform, &[a, b])?;
                // (u − v) / 2, taken from it. Here a and b are m times too large.
                let factor = per_size * per_size * per_size * half;
                last_difference(launcher, transform, buffers, factor)?;
            }
            Ok(b)
        }
        HBasis::CosetLagrange => {
            // SAFETY: the caller's promise; all vectors have the transform's size.
            unsafe {
                inverse_of_product(launcher, transform, buffers, c, per_size)?;
                to_odd_coset(launcher, transform, &[a, b])?;
                // C on the odd coset, taken from A·B as the last pass stores it.
                for i in (0..transform.num_passes()).rev() {
                    let mut pass = transform.pass(i, Coset::Odd, &[c]);
                    if i == 0 {
                        (pass.left, pass.right) = (a.address(), b.address());
                        pass.product_scale = FrArg::product_scale(per_size * per_size);
                    }
                    transform.launch_forward(launcher, &pass, 1)?;
                }
            }
            Ok(c)
        }
    }
}

/// The inverse transform of factor · a∘b into `target`, in bit-reversed order and m times too large.
///
/// # Safety
/// As for [`quotient`].
unsafe fn inverse_of_product(
    launcher: &impl Launcher,
    transform: &Transform,
    buffers: Buffers,
    target: DeviceSlice<Canonical>,
    factor: Fr,
) -> Result<(), GpuError> {
    for i in 0..transform.num_passes() {
        let mut pass = transform.pass(i, Coset::Domain, &[target]);
        if i == 0 {
            (pass.source[0], pass.right) = (buffers.a.address(), buffers.b.address());
            pass.product_scale = FrArg::product_scale(factor);
        }
        // SAFETY: the caller's promise.
        unsafe { transform.launch_inverse(launcher, &pass, 1)? };
    }
    Ok(())
}

/// From values on the domain to m times the values on the odd coset, in place.
///
/// # Safety
/// As for [`quotient`].
unsafe fn to_odd_coset(
    launcher: &impl Launcher,
    transform: &Transform,
    vectors: &[DeviceSlice<Canonical>; 2],
) -> Result<(), GpuError> {
    let last = transform.num_passes() - 1;
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..last {
            transform.launch_inverse(launcher, &transform.pass(i, Coset::Domain, vectors), 2)?;
        }
        transform.launch_middle(launcher, &transform.pass(last, Coset::Odd, vectors), 2)?;
        for i in (0..last).rev() {
            transform.launch_forward(launcher, &transform.pass(i, Coset::Odd, vectors), 2)?;
        }
    }
    Ok(())
}

/// b = c − the inverse transform, from the odd coset, of factor · a∘b; b in natural order, c in
/// bit-reversed order.
///
/// # Safety
/// As for [`quotient`].
unsafe fn last_difference(
    launcher: &impl Launcher,
    transform: &Transform,
    buffers: Buffers,
    factor: Fr,
) -> Result<(), GpuError> {
    let Buffers { a, b, c } = buffers;
    let last = transform.num_passes() - 1;
    for i in 0..=last {
        let mut pass = transform.pass(i, Coset::Odd, &[a]);
        if i == 0 {
            pass.right = b.address();
            pass.product_scale = FrArg::product_scale(factor);
        }
        if i == last {
            // b is read by pass 0 only: where that is this pass, one block reads all before it writes.
            pass.target[0] = b.address();
            pass.natural = 1;
            pass.minuend = c.address();
        }
        // SAFETY: the caller's promise.
        unsafe { transform.launch_inverse(launcher, &pass, 1)? };
    }
    Ok(())
}
