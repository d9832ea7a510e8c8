//! What the tests of this layer share: scalars and points that are the same in every run.
use super::{Canonical, Curve, Fr};

/// `count` scalars, uniform below r, from a seed.
pub(crate) fn scalars(count: usize, seed: u64) -> Vec<Canonical> {
    let mut reader = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    (0..count)
        .map(|_| {
            let mut wide = [0; 64];
            reader.fill(&mut wide);
            Fr::from_wide_le_bytes(&wide).to_canonical()
        })
        .collect()
}

/// `count` different points of the subgroup, none at infinity.
pub(crate) fn points<C: Curve>(count: usize) -> Vec<C::Affine> {
    let step =
        C::to_affine(&C::mul(&C::to_projective(&C::generator()), &Fr::from_u64(0x9e37_79b9_7f4a_7c15)));
    let mut next = C::to_projective(&C::generator());
    let points: Vec<_> = (0..count)
        .map(|_| {
            next = C::add_affine(&next, &step);
            next
        })
        .collect();
    C::batch_to_affine(&points)
}
