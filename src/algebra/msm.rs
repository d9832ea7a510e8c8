//! Multi-exponentiation.
use super::{CancelToken, Cancelled, Canonical, Curve, PointStore};

/// Σ scalars[index[i]] · points[i], with `index` the identity where it is None.
/// Points at infinity contribute nothing; points may repeat; zero scalars cost nothing, ones one addition.
pub fn msm<C: Curve>(
    _points: &PointStore<C>,
    _index: Option<&[u32]>,
    _scalars: &[Canonical],
    _cancel: &CancelToken,
) -> Result<C::Projective, Cancelled> {
    todo!()
}
