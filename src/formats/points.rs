//! The few points of a key that are read at once: decoded and fully validated.
use super::{FormatError, bytes::Reader, error::Defect};
use crate::algebra::{Curve, PointEncoding, PointError};
use rayon::prelude::*;

/// The next `count` points. Curve, subgroup and encoding are checked, infinity is refused; an error
/// names the first bad point.
pub fn take<C: Curve>(
    reader: &mut Reader<'_>,
    encoding: PointEncoding,
    count: u64,
) -> Result<Vec<C::Affine>, FormatError> {
    let first = reader.offset();
    let bytes = reader.take_items(count, C::UNCOMPRESSED as u64)?;
    let checked: Vec<_> =
        bytes.par_chunks_exact(C::UNCOMPRESSED).map(|bytes| validated::<C>(bytes, encoding)).collect();
    // In order, so that the first bad point is the one that is named.
    checked
        .into_iter()
        .zip(0..)
        .map(|(point, index)| {
            point.map_err(|error| {
                let offset = first + index * C::UNCOMPRESSED as u64;
                reader.error_at(offset, Defect::Point { group: C::NAME, index, error })
            })
        })
        .collect()
}

/// The next point: see [`take`].
pub fn take_one<C: Curve>(
    reader: &mut Reader<'_>,
    encoding: PointEncoding,
) -> Result<C::Affine, FormatError> {
    let offset = reader.offset();
    let bytes = reader.take(C::UNCOMPRESSED as u64)?;
    validated::<C>(bytes, encoding)
        .map_err(|error| reader.error_at(offset, Defect::Point { group: C::NAME, index: 0, error }))
}

fn validated<C: Curve>(bytes: &[u8], encoding: PointEncoding) -> Result<C::Affine, PointError> {
    let point = match encoding {
        PointEncoding::ZcashUncompressed => C::from_uncompressed(bytes)?,
        PointEncoding::MontgomeryLe => C::from_montgomery_le(bytes)?,
    };
    acceptable::<C>(point)
}

/// Refuses infinity and points outside the subgroup; `point` is on the curve.
pub fn acceptable<C: Curve>(point: C::Affine) -> Result<C::Affine, PointError> {
    if C::is_infinity(&point) {
        Err(PointError::Infinity)
    } else if C::in_subgroup(&point) {
        Ok(point)
    } else {
        Err(PointError::NotInSubgroup)
    }
}
