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

/// `count` different points of the subgroup, none at infinity, and their discrete logarithms to the generator.
pub(crate) fn multiples<C: Curve>(count: usize) -> (Vec<C::Affine>, Vec<Fr>) {
    let generator = C::to_projective(&C::generator());
    let difference = Fr::from_u64(0x9e37_79b9_7f4a_7c15);
    let step = C::to_affine(&C::mul(&generator, &difference));
    let (mut point, mut logarithm) = (generator, Fr::ONE);
    let (points, logarithms): (Vec<_>, _) = (0..count)
        .map(|_| {
            point = C::add_affine(&point, &step);
            logarithm += difference;
            (point, logarithm)
        })
        .unzip();
    (C::batch_to_affine(&points), logarithms)
}

/// As [`multiples`], the points alone.
pub(crate) fn points<C: Curve>(count: usize) -> Vec<C::Affine> {
    multiples::<C>(count).0
}
