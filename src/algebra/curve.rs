//! The two groups of BLS12-381 over blst, and the encodings of their points.
use super::Fr;

/// Affine point; all-zero coordinates are the point at infinity (blst's convention).
/// The in-memory form is x, y (G2: x.c0, x.c1, y.c0, y.c1), Montgomery with R = 2^384, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct G1Affine(pub(crate) blst::blst_p1_affine);
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct G2Affine(pub(crate) blst::blst_p2_affine);
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct G1Projective(pub(crate) blst::blst_p1);
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct G2Projective(pub(crate) blst::blst_p2);
pub struct G1;
pub struct G2;

/// Why bytes are not an acceptable point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    #[error("the encoding's flag bits are {found:#05b}, wanted {wanted:#05b}")]
    Flags { found: u8, wanted: u8 },
    #[error("a coordinate is not below the field's modulus")]
    NotCanonical,
    #[error("the point is not on the curve")]
    NotOnCurve,
    #[error("the point is not in the prime-order subgroup")]
    NotInSubgroup,
    #[error("the point is at infinity")]
    Infinity,
}

/// One of the two groups.
pub trait Curve: Sized + Send + Sync + 'static {
    /// "G1" or "G2", for messages.
    const NAME: &'static str;
    /// Bytes of an uncompressed point (96, 192); a compressed one takes half.
    const UNCOMPRESSED: usize;
    type Affine: Copy + Clone + PartialEq + Eq + Default + Send + Sync + std::fmt::Debug + 'static;
    type Projective: Copy + Clone + Send + Sync + 'static;
    fn generator() -> Self::Affine;
    fn is_infinity(p: &Self::Affine) -> bool;
    fn on_curve(p: &Self::Affine) -> bool;
    /// In the subgroup of order r (infinity is).
    fn in_subgroup(p: &Self::Affine) -> bool;
    /// Zcash uncompressed encoding (big-endian, three flag bits). Checks flags, coordinates and that
    /// the point is on the curve; not the subgroup.
    fn from_uncompressed(bytes: &[u8]) -> Result<Self::Affine, PointError>;
    fn to_uncompressed(p: &Self::Affine, out: &mut [u8]);
    /// Zcash compressed encoding; checks everything, the subgroup too.
    fn from_compressed(bytes: &[u8]) -> Result<Self::Affine, PointError>;
    fn to_compressed(p: &Self::Affine, out: &mut [u8]);
    /// Little-endian Montgomery coordinates as snarkjs stores them; all zero is infinity. Checks
    /// coordinates and that the point is on the curve.
    fn from_montgomery_le(bytes: &[u8]) -> Result<Self::Affine, PointError>;
    fn to_montgomery_le(p: &Self::Affine, out: &mut [u8]);
    /// Coordinates as canonical big-endian integers, 48 bytes each: x, y (G2: x.c0, x.c1, y.c0, y.c1).
    fn coordinates_be(p: &Self::Affine) -> Vec<[u8; 48]>;
    fn from_coordinates_be(c: &[[u8; 48]]) -> Result<Self::Affine, PointError>;
    fn identity() -> Self::Projective;
    fn to_projective(p: &Self::Affine) -> Self::Projective;
    fn to_affine(p: &Self::Projective) -> Self::Affine;
    fn batch_to_affine(p: &[Self::Projective]) -> Vec<Self::Affine>;
    fn add(a: &Self::Projective, b: &Self::Projective) -> Self::Projective;
    fn add_affine(a: &Self::Projective, b: &Self::Affine) -> Self::Projective;
    fn neg(a: &Self::Affine) -> Self::Affine;
    fn mul(a: &Self::Projective, s: &Fr) -> Self::Projective;
}

macro_rules! group {
    ($g:ident, $a:ident, $p:ident, $n:literal, $u:literal) => {
        impl Curve for $g {
            const NAME: &'static str = $n;
            const UNCOMPRESSED: usize = $u;
            type Affine = $a;
            type Projective = $p;
            fn generator() -> $a {
                todo!()
            }
            fn is_infinity(_p: &$a) -> bool {
                todo!()
            }
            fn on_curve(_p: &$a) -> bool {
                todo!()
            }
            fn in_subgroup(_p: &$a) -> bool {
                todo!()
            }
            fn from_uncompressed(_b: &[u8]) -> Result<$a, PointError> {
                todo!()
            }
            fn to_uncompressed(_p: &$a, _out: &mut [u8]) {
                todo!()
            }
            fn from_compressed(_b: &[u8]) -> Result<$a, PointError> {
                todo!()
            }
            fn to_compressed(_p: &$a, _out: &mut [u8]) {
                todo!()
            }
            fn from_montgomery_le(_b: &[u8]) -> Result<$a, PointError> {
                todo!()
            }
            fn to_montgomery_le(_p: &$a, _out: &mut [u8]) {
                todo!()
            }
            fn coordinates_be(_p: &$a) -> Vec<[u8; 48]> {
                todo!()
            }
            fn from_coordinates_be(_c: &[[u8; 48]]) -> Result<$a, PointError> {
                todo!()
            }
            fn identity() -> $p {
                todo!()
            }
            fn to_projective(_p: &$a) -> $p {
                todo!()
            }
            fn to_affine(_p: &$p) -> $a {
                todo!()
            }
            fn batch_to_affine(_p: &[$p]) -> Vec<$a> {
                todo!()
            }
            fn add(_a: &$p, _b: &$p) -> $p {
                todo!()
            }
            fn add_affine(_a: &$p, _b: &$a) -> $p {
                todo!()
            }
            fn neg(_a: &$a) -> $a {
                todo!()
            }
            fn mul(_a: &$p, _s: &Fr) -> $p {
                todo!()
            }
        }
    };
}
group!(G1, G1Affine, G1Projective, "G1", 96);
group!(G2, G2Affine, G2Projective, "G2", 192);
