//! Long point vectors of a key: owned in memory, or left in a mapped file in that file's encoding
//! and decoded tile by tile where they are used.
use super::{Curve, PointEncoding, PointError, encoding};
use memmap2::Mmap;
use rayon::prelude::*;
use std::{ops::Range, sync::Arc};

/// `len` points, wherever they are.
pub enum PointStore<C: Curve> {
    /// In memory.
    Owned(Vec<C::Affine>),
    /// Bytes `offset .. offset + len * C::UNCOMPRESSED` of the mapping; made by [`PointStore::mapped`].
    Mapped {
        /// The file.
        map: Arc<Mmap>,
        /// Where in it, in bytes.
        offset: usize,
        /// How many points.
        len: usize,
        /// How they are written.
        encoding: PointEncoding,
    },
}

/// Consecutive points of a store as they lie there.
pub enum RawPoints<'a, C: Curve> {
    /// Decoded.
    Decoded(&'a [C::Affine]),
    /// In Zcash's uncompressed encoding.
    ZcashUncompressed(&'a [u8]),
    /// Little-endian Montgomery coordinates, which are a decoded point's memory.
    MontgomeryLe(&'a [u8]),
}

/// Points that one step of a validation takes.
const VALIDATION_TILE: usize = 256;

impl<C: Curve> PointStore<C> {
    /// None unless the range lies in the mapping (overflow included); nothing is read.
    pub fn mapped(map: Arc<Mmap>, offset: u64, len: u64, encoding: PointEncoding) -> Option<Self> {
        let end = len.checked_mul(C::UNCOMPRESSED as u64)?.checked_add(offset)?;
        if end > map.len() as u64 {
            return None;
        }
        Some(Self::Mapped { map, offset: offset.try_into().ok()?, len: len.try_into().ok()?, encoding })
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        match self {
            Self::Owned(points) => points.len(),
            Self::Mapped { len, .. } => *len,
        }
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Decodes point i, as [`PointStore::read`] does.
    ///
    /// # Panics
    /// When `i` is not below `len`.
    #[inline(always)]
    pub fn get(&self, i: usize) -> C::Affine {
        match self {
            Self::Owned(points) => points[i],
            Self::Mapped { map, offset, len, encoding } => {
                assert!(i < *len, "point {i} of {len}");
                let start = offset + i * C::UNCOMPRESSED;
                encoding::trusted::<C>(*encoding, &map[start..start + C::UNCOMPRESSED])
            }
        }
    }

    /// Decodes points `range` into `out` (cleared first). For a key that has been fully validated:
    /// the bytes are not checked again.
    ///
    /// # Panics
    /// When the range ends past `len`.
    pub fn read(&self, range: Range<usize>, out: &mut Vec<C::Affine>) {
        out.clear();
        match self {
            Self::Owned(points) => out.extend_from_slice(&points[range]),
            Self::Mapped { .. } => out.extend(range.map(|i| self.get(i))),
        }
    }

    /// Points `range` as they are stored.
    ///
    /// # Panics
    /// When the range ends past `len`.
    pub fn raw(&self, range: Range<usize>) -> RawPoints<'_, C> {
        match self {
            Self::Owned(points) => RawPoints::Decoded(&points[range]),
            Self::Mapped { map, offset, len, encoding } => {
                assert!(range.end <= *len, "points {range:?} of {len}");
                let bytes =
                    &map[offset + range.start * C::UNCOMPRESSED..offset + range.end * C::UNCOMPRESSED];
                match encoding {
                    PointEncoding::ZcashUncompressed => RawPoints::ZcashUncompressed(bytes),
                    PointEncoding::MontgomeryLe => RawPoints::MontgomeryLe(bytes),
                }
            }
        }
    }

    /// The encoded points `range` of a mapped store; nothing for an owned one.
    fn encoded(&self, range: Range<usize>) -> std::slice::ChunksExact<'_, u8> {
        let bytes: &[u8] = match self.raw(range) {
            RawPoints::Decoded(_) => &[],
            RawPoints::ZcashUncompressed(bytes) | RawPoints::MontgomeryLe(bytes) => bytes,
        };
        bytes.chunks_exact(C::UNCOMPRESSED)
    }

    /// Full validation, in parallel: encoding, curve, subgroup, and infinity unless allowed.
    /// The error carries the index of the first bad point.
    pub fn validate(&self, allow_infinity: bool) -> Result<(), (usize, PointError)> {
        let tiles = self.len().div_ceil(VALIDATION_TILE);
        let first_bad = (0..tiles).into_par_iter().find_map_first(|tile| {
            let start = tile * VALIDATION_TILE;
            let range = start..self.len().min(start + VALIDATION_TILE);
            let checked = |p: Result<C::Affine, PointError>| -> Result<(), PointError> {
                let p = p?;
                if C::is_infinity(&p) {
                    return if allow_infinity { Ok(()) } else { Err(PointError::Infinity) };
                }
                if C::in_subgroup(&p) { Ok(()) } else { Err(PointError::NotInSubgroup) }
            };
            let first_error = |results: &mut dyn Iterator<Item = Result<C::Affine, PointError>>| {
                results.enumerate().find_map(|(i, p)| checked(p).err().map(|e| (start + i, e)))
            };
            match self {
                Self::Owned(points) => first_error(
                    &mut points[range]
                        .iter()
                        .map(|p| if C::on_curve(p) { Ok(*p) } else { Err(PointError::NotOnCurve) }),
                ),
                Self::Mapped { encoding, .. } => {
                    let decode = match encoding {
                        PointEncoding::ZcashUncompressed => C::from_uncompressed,
                        PointEncoding::MontgomeryLe => C::from_montgomery_le,
                    };
                    first_error(&mut self.encoded(range).map(decode))
                }
            }
        });
        first_bad.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{G1, G2, testing};
    use std::io::Write;

    /// The points in a mapped file, after `offset` other bytes.
    fn mapped<C: Curve>(points: &[C::Affine], offset: usize, encoding: PointEncoding) -> PointStore<C> {
        let mut bytes = vec![0xff; offset + points.len() * C::UNCOMPRESSED];
        for (p, out) in points.iter().zip(bytes[offset..].chunks_exact_mut(C::UNCOMPRESSED)) {
            match encoding {
                PointEncoding::ZcashUncompressed => C::to_uncompressed(p, out),
                PointEncoding::MontgomeryLe => C::to_montgomery_le(p, out),
            }
        }
        PointStore::mapped(map(&bytes), offset as u64, points.len() as u64, encoding).unwrap()
    }

    fn map(bytes: &[u8]) -> Arc<Mmap> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        // SAFETY: nobody else has the file.
        Arc::new(unsafe { Mmap::map(&file).unwrap() })
    }

    const ENCODINGS: [PointEncoding; 2] = [PointEncoding::ZcashUncompressed, PointEncoding::MontgomeryLe];

    fn stores<C: Curve>(points: &[C::Affine]) -> Vec<PointStore<C>> {
        let mut stores: Vec<_> = ENCODINGS.iter().map(|encoding| mapped(points, 13, *encoding)).collect();
        stores.push(PointStore::Owned(points.to_vec()));
        stores
    }

    fn stores_return_their_points<C: Curve>() {
        let mut points = testing::points::<C>(40);
        points[7] = C::Affine::default();
        for store in stores::<C>(&points) {
            assert_eq!(store.len(), 40);
            let mut out = vec![C::generator()];
            for range in [0..0, 0..40, 5..9, 39..40, 40..40] {
                store.read(range.clone(), &mut out);
                assert_eq!(out, points[range]);
            }
            assert_eq!(store.validate(true), Ok(()));
            assert_eq!(store.validate(false), Err((7, PointError::Infinity)));
        }
        for store in stores::<C>(&[]) {
            assert!(store.is_empty());
            assert_eq!(store.validate(false), Ok(()));
        }
    }

    #[test]
    fn reading() {
        stores_return_their_points::<G1>();
        stores_return_their_points::<G2>();
    }

    #[test]
    fn the_first_bad_point_is_reported() {
        // (0, 2) is on the curve and has order 3.
        let outside = G1::decompress(&{
            let mut bytes = [0; 48];
            bytes[0] = 0x80;
            bytes
        })
        .unwrap();
        let good = testing::points::<G1>(3 * VALIDATION_TILE);
        let (x, y) = G1::coordinates(&good[0]);
        let off_curve = G1::from_coordinates(*y, *x);
        for (place, bad, error) in [
            (0, outside, PointError::NotInSubgroup),
            (VALIDATION_TILE - 1, off_curve, PointError::NotOnCurve),
            (VALIDATION_TILE, outside, PointError::NotInSubgroup),
            (3 * VALIDATION_TILE - 1, <G1 as Curve>::Affine::default(), PointError::Infinity),
        ] {
            let mut points = good.clone();
            points[3 * VALIDATION_TILE - 1] = outside;
            points[place] = bad;
            for store in stores::<G1>(&points) {
                assert_eq!(store.validate(false), Err((place, error)));
            }
        }
    }

    #[test]
    fn ranges_outside_the_mapping_are_refused() {
        let map = map(&[0; 1000]);
        for (offset, len, fits) in [
            (0, 10, true),
            (40, 10, true),
            (41, 10, false),
            (1000, 0, true),
            (1001, 0, false),
            (u64::MAX, 0, false),
            (0, u64::MAX, false),
            (u64::MAX, 1, false),
            (96, u64::MAX / 96, false),
            (0, u64::MAX / 96 + 2, false),
        ] {
            let store = PointStore::<G1>::mapped(map.clone(), offset, len, PointEncoding::MontgomeryLe);
            assert_eq!(store.is_some(), fits, "{len} points at {offset}");
        }
    }
}
