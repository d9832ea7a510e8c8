//! Multi-exponentiation.
use super::{CancelToken, Cancelled, Canonical, Curve, PointStore};
use rayon::prelude::*;

/// Σ scalars[index[i]] · points[i], with `index` the identity where it is None.
/// Points at infinity contribute nothing; points may repeat; zero scalars cost nothing, ones one addition.
///
/// # Panics
/// When an index, or without them the number of points, exceeds the number of scalars.
pub fn msm<C: Curve>(
    points: &PointStore<C>,
    index: Option<&[u32]>,
    scalars: &[Canonical],
    cancel: &CancelToken,
) -> Result<C::Projective, Cancelled> {
    const WINDOW: usize = 12;
    const TILE: usize = 1 << 14;
    let tiles = (0..points.len().div_ceil(TILE)).into_par_iter().map(|tile| {
        cancel.check()?;
        let range = tile * TILE..points.len().min((tile + 1) * TILE);
        let scalar = |i: usize| match index {
            Some(index) => scalars[index[i] as usize].limbs(),
            None => scalars[i].limbs(),
        };
        let mut tile_points = Vec::new();
        points.read(range.clone(), &mut tile_points);
        let mut total = C::identity();
        for window in (0..255usize.div_ceil(WINDOW)).rev() {
            for _ in 0..WINDOW {
                total = C::double(&total);
            }
            let mut buckets = vec![C::identity(); (1 << WINDOW) - 1];
            for (i, point) in range.clone().zip(&tile_points) {
                let limbs = scalar(i);
                let (limb, shift) = (window * WINDOW / 64, window * WINDOW % 64);
                let high = limbs.get(limb + 1).map_or(0, |l| l.unbounded_shl(64 - shift as u32));
                let digit = (limbs[limb] >> shift | high) as usize & ((1 << WINDOW) - 1);
                if digit > 0 {
                    buckets[digit - 1] = C::add_affine(&buckets[digit - 1], point);
                }
            }
            let (mut running, mut sum) = (C::identity(), C::identity());
            for bucket in buckets.iter().rev() {
                running = C::add(&running, bucket);
                sum = C::add(&sum, &running);
            }
            total = C::add(&total, &sum);
        }
        Ok(total)
    });
    tiles.try_reduce(C::identity, |a, b| Ok(C::add(&a, &b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{Fr, G1, G2, testing};

    fn naive<C: Curve>(points: &[C::Affine], scalars: &[Canonical]) -> C::Projective {
        points.iter().zip(scalars).fold(C::identity(), |sum, (p, s)| {
            C::add(&sum, &C::mul(&C::to_projective(p), &Fr::from_canonical(*s)))
        })
    }

    fn random<C: Curve>() {
        for n in [0, 1, 2, 33, 500] {
            let (points, scalars) = (testing::points::<C>(n), testing::scalars(n, 1));
            let wanted = naive::<C>(&points, &scalars);
            assert_eq!(msm(&PointStore::<C>::Owned(points), None, &scalars, &CancelToken::new()), Ok(wanted));
        }
    }

    #[test]
    fn agrees_with_double_and_add() {
        random::<G1>();
        random::<G2>();
    }
}
