//! The two groups of BLS12-381 over blst.
use super::{BaseField, Fr, PointError, encoding};
use blst::{blst_fp, blst_fp2};
use rayon::prelude::*;

/// Affine point; all-zero coordinates are the point at infinity (blst's convention).
/// The in-memory form is x, y (G2: x.c0, x.c1, y.c0, y.c1), Montgomery with R = 2^384, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct G1Affine(pub(crate) blst::blst_p1_affine);

/// As [`G1Affine`], over Fp2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct G2Affine(pub(crate) blst::blst_p2_affine);

/// Jacobian coordinates: (X/Z², Y/Z³); Z = 0 is the point at infinity.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct G1Projective(pub(crate) blst::blst_p1);

/// As [`G1Projective`], over Fp2.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct G2Projective(pub(crate) blst::blst_p2);

/// The group of y² = x³ + 4 over Fp.
pub struct G1;
/// The group of y² = x³ + 4(u + 1) over Fp2.
pub struct G2;

/// One of the two groups.
///
/// Group operations are complete (equal points, opposite points, infinity) and take points on the curve, also
/// outside the subgroup, but for [`Self::mul`], whose point must be in it.
pub trait Curve: Sized + Send + Sync + 'static {
    /// "G1" or "G2", for messages.
    const NAME: &'static str;
    /// Bytes of an uncompressed point (96, 192); a compressed one takes half.
    const UNCOMPRESSED: usize;
    /// The coordinates' field.
    type Field: BaseField;
    /// (x, y), or infinity.
    type Affine: Copy + Clone + PartialEq + Eq + Default + Send + Sync + std::fmt::Debug + 'static;
    /// A point without its inversion; compares as a point.
    type Projective: Copy + Clone + PartialEq + Eq + Default + Send + Sync + std::fmt::Debug + 'static;

    /// The standard generator of the subgroup.
    fn generator() -> Self::Affine;
    /// All coordinates zero.
    fn is_infinity(p: &Self::Affine) -> bool;
    /// Satisfies the curve's equation (infinity is taken to).
    fn on_curve(p: &Self::Affine) -> bool;
    /// In the subgroup of order r (infinity is); for points on the curve.
    fn in_subgroup(p: &Self::Affine) -> bool;
    /// x and y; zeros for infinity.
    fn coordinates(p: &Self::Affine) -> (&Self::Field, &Self::Field);
    /// No checks.
    fn from_coordinates(x: Self::Field, y: Self::Field) -> Self::Affine;

    /// Zcash uncompressed encoding (big-endian, three flag bits). Checks flags, coordinates and that
    /// the point is on the curve; not the subgroup. Infinity is accepted.
    fn from_uncompressed(bytes: &[u8]) -> Result<Self::Affine, PointError> {
        encoding::from_uncompressed::<Self>(bytes)
    }
    /// Zcash uncompressed encoding.
    ///
    /// # Panics
    /// Unless `out` has `UNCOMPRESSED` bytes.
    fn to_uncompressed(p: &Self::Affine, out: &mut [u8]) {
        encoding::to_uncompressed::<Self>(p, out)
    }
    /// Zcash compressed encoding; checks everything, the subgroup too. Infinity is accepted.
    fn from_compressed(bytes: &[u8]) -> Result<Self::Affine, PointError> {
        encoding::from_compressed::<Self>(bytes)
    }
    /// Zcash compressed encoding.
    ///
    /// # Panics
    /// Unless `out` has `UNCOMPRESSED` / 2 bytes.
    fn to_compressed(p: &Self::Affine, out: &mut [u8]);
    /// The compressed encoding of a finite point whose flags and x have been checked: solves for y.
    fn decompress(bytes: &[u8]) -> Option<Self::Affine>;
    /// Little-endian Montgomery coordinates as snarkjs stores them; all zero is infinity. Checks
    /// coordinates and that the point is on the curve.
    fn from_montgomery_le(bytes: &[u8]) -> Result<Self::Affine, PointError> {
        encoding::from_montgomery_le::<Self>(bytes)
    }
    /// snarkjs' encoding.
    ///
    /// # Panics
    /// Unless `out` has `UNCOMPRESSED` bytes.
    fn to_montgomery_le(p: &Self::Affine, out: &mut [u8]) {
        encoding::to_montgomery_le::<Self>(p, out)
    }
    /// Coordinates as canonical big-endian integers, 48 bytes each: x, y (G2: x.c0, x.c1, y.c0, y.c1);
    /// zeros for infinity.
    fn coordinates_be(p: &Self::Affine) -> Vec<[u8; 48]> {
        encoding::coordinates_be::<Self>(p)
    }
    /// The reverse; checks coordinates and that the point is on the curve.
    fn from_coordinates_be(c: &[[u8; 48]]) -> Result<Self::Affine, PointError> {
        encoding::from_coordinates_be::<Self>(c)
    }

    /// Infinity.
    fn identity() -> Self::Projective {
        Self::Projective::default()
    }
    /// The same point with Z = 1 (or 0).
    fn to_projective(p: &Self::Affine) -> Self::Projective;
    /// The same point; one inversion.
    fn to_affine(p: &Self::Projective) -> Self::Affine;
    /// The same points, all at the price of a few inversions, in parallel.
    fn batch_to_affine(p: &[Self::Projective]) -> Vec<Self::Affine>;
    /// a + b.
    fn add(a: &Self::Projective, b: &Self::Projective) -> Self::Projective;
    /// a + b.
    fn add_affine(a: &Self::Projective, b: &Self::Affine) -> Self::Projective;
    /// 2a.
    fn double(a: &Self::Projective) -> Self::Projective;
    /// -a.
    fn neg(a: &Self::Affine) -> Self::Affine;
    /// s · a.
    fn mul(a: &Self::Projective, s: &Fr) -> Self::Projective;
}

macro_rules! group {
    (
        $group:ident, $affine:ident, $projective:ident, $name:literal, $uncompressed:literal, $field:ty,
        $raw_affine:ident, $raw:ident, $is_equal:ident, $generator:ident, $on_curve:ident, $in_subgroup:ident,
        $compress:ident, $uncompress:ident, $from_affine:ident, $to_affine:ident, $batch_to_affine:ident,
        $add:ident, $add_affine:ident, $double:ident, $mult:ident
    ) => {
        impl PartialEq for $projective {
            fn eq(&self, o: &Self) -> bool {
                // SAFETY: reads two initialised points.
                unsafe { blst::$is_equal(&self.0, &o.0) }
            }
        }
        impl Eq for $projective {}

        impl Curve for $group {
            const NAME: &'static str = $name;
            const UNCOMPRESSED: usize = $uncompressed;
            type Field = $field;
            type Affine = $affine;
            type Projective = $projective;

            fn generator() -> $affine {
                // SAFETY: points to a constant of blst's.
                $affine(unsafe { *blst::$generator() })
            }
            #[inline(always)]
            fn is_infinity(p: &$affine) -> bool {
                p.0.x.is_zero() && p.0.y.is_zero()
            }
            fn on_curve(p: &$affine) -> bool {
                // SAFETY: reads an initialised point.
                unsafe { blst::$on_curve(&p.0) }
            }
            fn in_subgroup(p: &$affine) -> bool {
                // SAFETY: reads an initialised point.
                unsafe { blst::$in_subgroup(&p.0) }
            }
            #[inline(always)]
            fn coordinates(p: &$affine) -> (&$field, &$field) {
                (&p.0.x, &p.0.y)
            }
            #[inline(always)]
            fn from_coordinates(x: $field, y: $field) -> $affine {
                $affine(blst::$raw_affine { x, y })
            }
            fn to_compressed(p: &$affine, out: &mut [u8]) {
                let mut bytes = [0; $uncompressed / 2];
                // SAFETY: writes as many bytes as the array has.
                unsafe { blst::$compress(bytes.as_mut_ptr(), &p.0) };
                out.copy_from_slice(&bytes);
            }
            fn decompress(bytes: &[u8]) -> Option<$affine> {
                let bytes: &[u8; $uncompressed / 2] = bytes.try_into().ok()?;
                let mut out = blst::$raw_affine::default();
                // SAFETY: reads as many bytes as the array has and writes one point.
                let found = unsafe { blst::$uncompress(&mut out, bytes.as_ptr()) };
                // A zero x is on the curve of G1, but blst tells at once that it is not in the subgroup.
                let on_curve =
                    matches!(found, blst::BLST_ERROR::BLST_SUCCESS | blst::BLST_ERROR::BLST_POINT_NOT_IN_GROUP);
                on_curve.then_some($affine(out))
            }
            fn to_projective(p: &$affine) -> $projective {
                let mut out = blst::$raw::default();
                // SAFETY: reads an initialised point and writes one.
                unsafe { blst::$from_affine(&mut out, &p.0) };
                $projective(out)
            }
            fn to_affine(p: &$projective) -> $affine {
                let mut out = blst::$raw_affine::default();
                // SAFETY: reads an initialised point and writes one.
                unsafe { blst::$to_affine(&mut out, &p.0) };
                $affine(out)
            }
            fn batch_to_affine(p: &[$projective]) -> Vec<$affine> {
                let mut out = vec![$affine::default(); p.len()];
                out.par_chunks_mut(BATCH_TO_AFFINE).zip(p.par_chunks(BATCH_TO_AFFINE)).for_each(|(out, p)| {
                    // A null second pointer says that the points are contiguous.
                    let points = [p.as_ptr().cast::<blst::$raw>(), std::ptr::null()];
                    // SAFETY: both slices have p.len() points, in blst's own layout (transparent wrappers),
                    // and p.len() is at least 1.
                    unsafe {
                        blst::$batch_to_affine(out.as_mut_ptr().cast::<blst::$raw_affine>(), points.as_ptr(), p.len())
                    };
                });
                out
            }
            fn add(a: &$projective, b: &$projective) -> $projective {
                let mut out = blst::$raw::default();
                // SAFETY: reads two initialised points and writes one.
                unsafe { blst::$add(&mut out, &a.0, &b.0) };
                $projective(out)
            }
            fn add_affine(a: &$projective, b: &$affine) -> $projective {
                let mut out = blst::$raw::default();
                // SAFETY: reads two initialised points and writes one.
                unsafe { blst::$add_affine(&mut out, &a.0, &b.0) };
                $projective(out)
            }
            fn double(a: &$projective) -> $projective {
                let mut out = blst::$raw::default();
                // SAFETY: reads an initialised point and writes one.
                unsafe { blst::$double(&mut out, &a.0) };
                $projective(out)
            }
            #[inline(always)]
            fn neg(a: &$affine) -> $affine {
                $affine(blst::$raw_affine { x: a.0.x, y: a.0.y.neg() })
            }
            fn mul(a: &$projective, s: &Fr) -> $projective {
                let scalar = zeroize::Zeroizing::new(s.to_le_bytes());
                let mut out = blst::$raw::default();
                // SAFETY: reads one initialised point and 32 bytes, and writes one point.
                unsafe { blst::$mult(&mut out, &a.0, scalar.as_ptr(), 255) };
                $projective(out)
            }
        }
    };
}

/// Points per inversion.
const BATCH_TO_AFFINE: usize = 512;

group!(
    G1,
    G1Affine,
    G1Projective,
    "G1",
    96,
    blst_fp,
    blst_p1_affine,
    blst_p1,
    blst_p1_is_equal,
    blst_p1_affine_generator,
    blst_p1_affine_on_curve,
    blst_p1_affine_in_g1,
    blst_p1_affine_compress,
    blst_p1_uncompress,
    blst_p1_from_affine,
    blst_p1_to_affine,
    blst_p1s_to_affine,
    blst_p1_add_or_double,
    blst_p1_add_or_double_affine,
    blst_p1_double,
    blst_p1_mult
);
group!(
    G2,
    G2Affine,
    G2Projective,
    "G2",
    192,
    blst_fp2,
    blst_p2_affine,
    blst_p2,
    blst_p2_is_equal,
    blst_p2_affine_generator,
    blst_p2_affine_on_curve,
    blst_p2_affine_in_g2,
    blst_p2_affine_compress,
    blst_p2_uncompress,
    blst_p2_from_affine,
    blst_p2_to_affine,
    blst_p2s_to_affine,
    blst_p2_add_or_double,
    blst_p2_add_or_double_affine,
    blst_p2_double,
    blst_p2_mult
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::testing;

    fn operations<C: Curve>() {
        let (points, logarithms) = testing::multiples::<C>(4);
        let of = |s: Fr| C::mul(&C::to_projective(&C::generator()), &s);
        for (p, s) in points.iter().zip(&logarithms) {
            let projective = C::to_projective(p);
            assert_eq!(projective, of(*s));
            assert_eq!(C::to_affine(&projective), *p);
            assert!(C::on_curve(p) && C::in_subgroup(p) && !C::is_infinity(p));
            let opposite = C::neg(p);
            // Different, equal, opposite points, and infinity on either side.
            for (q, t) in points.iter().zip(&logarithms) {
                let wanted = of(*s + *t);
                assert_eq!(C::add(&projective, &C::to_projective(q)), wanted);
                assert_eq!(C::add_affine(&projective, q), wanted);
            }
            assert_eq!(C::double(&projective), of(*s + *s));
            assert_eq!(C::add(&projective, &C::to_projective(&opposite)), C::identity());
            assert_eq!(C::add_affine(&projective, &opposite), C::identity());
            assert_eq!(C::add(&projective, &C::identity()), projective);
            assert_eq!(C::add(&C::identity(), &projective), projective);
            assert_eq!(C::add_affine(&projective, &C::Affine::default()), projective);
            assert_eq!(C::add_affine(&C::identity(), p), projective);
            for factor in [Fr::ZERO, Fr::ONE, Fr::from_u64(2), -Fr::ONE, *s] {
                assert_eq!(C::mul(&projective, &factor), of(*s * factor));
            }
        }
        let infinity = C::Affine::default();
        assert!(C::is_infinity(&infinity) && C::on_curve(&infinity) && C::in_subgroup(&infinity));
        assert_eq!(C::neg(&infinity), infinity);
        assert_eq!(C::to_affine(&C::identity()), infinity);
        assert_eq!(C::to_projective(&infinity), C::identity());
        assert_eq!(C::double(&C::identity()), C::identity());
        assert_eq!(C::mul(&C::identity(), &-Fr::ONE), C::identity());
    }

    #[test]
    fn operations_are_complete() {
        operations::<G1>();
        operations::<G2>();
    }

    /// Around the sizes at which the batches change; every seventh point at infinity, some not normalised.
    fn batches<C: Curve>() {
        let points = testing::points::<C>(33);
        for count in [0, 1, 2, 7, 511, 512, 513, 1025] {
            let projective: Vec<_> = (0..count)
                .map(|i| match i % 7 {
                    6 => C::identity(),
                    3 => C::double(&C::to_projective(&points[i % 33])),
                    _ => C::to_projective(&points[i % 33]),
                })
                .collect();
            let wanted: Vec<_> = projective.iter().map(C::to_affine).collect();
            assert_eq!(C::batch_to_affine(&projective), wanted, "{count}");
        }
        assert_eq!(C::batch_to_affine(&[C::identity(); 600]), vec![C::Affine::default(); 600]);
    }

    #[test]
    fn batches_are_as_one_by_one() {
        batches::<G1>();
        batches::<G2>();
    }
}
