//! How points are written in files and messages: Zcash's compressed and uncompressed encodings, snarkjs'
//! Montgomery form, plain coordinates. Nothing is trusted: flags, ranges and the curve's equation are checked.
use super::{
    BaseField, Curve,
    base_field::{below_modulus, fp_from_integer, fp_to_be, limbs_from_be},
    limbs,
};
use blst::blst_fp;

/// Why bytes are not an acceptable point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    /// Too short or too long for the encoding.
    #[error("the encoding has {found} bytes, wanted {wanted}")]
    Length {
        /// Bytes given.
        found: usize,
        /// Bytes of the encoding.
        wanted: usize,
    },
    /// The top three bits are not those of the encoding; given as an integer below 8.
    #[error("the encoding's flag bits are {found:#05b}, wanted {wanted:#05b}")]
    Flags {
        /// The bits given.
        found: u8,
        /// The bits of a finite point.
        wanted: u8,
    },
    /// Marked as infinity, with other bits set.
    #[error("the infinity flag is set, but not all other bits are zero")]
    InfinityNotZero,
    /// A coordinate ≥ p.
    #[error("a coordinate is not below the field's modulus")]
    NotCanonical,
    /// The coordinates do not satisfy the curve's equation (or no y does).
    #[error("the point is not on the curve")]
    NotOnCurve,
    /// On the curve, but of another order than r.
    #[error("the point is not in the prime-order subgroup")]
    NotInSubgroup,
    /// At infinity where the format forbids it.
    #[error("the point is at infinity")]
    Infinity,
}

/// How a file encodes its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointEncoding {
    /// bellman: big-endian canonical coordinates, flags in the first byte.
    ZcashUncompressed,
    /// snarkjs: little-endian Montgomery coordinates, infinity all zero.
    MontgomeryLe,
}

/// The three flag bits, at the top of the first byte.
const FLAG_BITS: u8 = 0b1110_0000;
const COMPRESSED: u8 = 0b100;
const INFINITY: u8 = 0b010;
/// With COMPRESSED: y is the larger of the two roots.
const LARGER_Y: u8 = 0b001;
/// Bytes of an Fp coordinate.
const COORDINATE: usize = 48;

/// Whether the encoding says infinity, after checking its length and flags.
fn check_flags(bytes: &[u8], wanted_length: usize, wanted: u8, optional: u8) -> Result<bool, PointError> {
    if bytes.len() != wanted_length || wanted_length == 0 {
        return Err(PointError::Length { found: bytes.len(), wanted: wanted_length });
    }
    let found = bytes[0] >> 5;
    if found == wanted | INFINITY {
        let zero = bytes[0] & !FLAG_BITS == 0 && bytes[1..].iter().all(|b| *b == 0);
        return if zero { Ok(true) } else { Err(PointError::InfinityNotZero) };
    }
    if found & !optional != wanted {
        return Err(PointError::Flags { found, wanted });
    }
    Ok(false)
}

/// The components of an element, filled by `component` in the order of the encoding (c1 first where
/// `reversed`).
fn field_element<F: BaseField>(
    reversed: bool,
    mut component: impl FnMut(usize) -> Result<blst_fp, PointError>,
) -> Result<F, PointError> {
    let mut element = F::default();
    for i in 0..F::DEGREE {
        let place = if reversed { F::DEGREE - 1 - i } else { i };
        element.components_mut()[place] = component(i)?;
    }
    Ok(element)
}

/// Both coordinates from the `2 * DEGREE` chunks of an encoding.
fn point<C: Curve>(
    reversed: bool,
    mut component: impl FnMut(usize) -> Result<blst_fp, PointError>,
) -> Result<C::Affine, PointError> {
    let degree = C::Field::DEGREE;
    let x = field_element(reversed, &mut component)?;
    let y = field_element(reversed, |i| component(degree + i))?;
    Ok(C::from_coordinates(x, y))
}

/// The components of both coordinates in the order of the encoding.
fn components<C: Curve>(p: &C::Affine, reversed: bool) -> Vec<blst_fp> {
    let (x, y) = C::coordinates(p);
    let mut out = Vec::with_capacity(2 * C::Field::DEGREE);
    for coordinate in [x, y] {
        let start = out.len();
        out.extend_from_slice(coordinate.components());
        if reversed {
            out[start..].reverse();
        }
    }
    out
}

fn canonical_be(bytes: &[u8; COORDINATE]) -> Result<blst_fp, PointError> {
    let limbs = limbs_from_be(bytes);
    if below_modulus(&limbs) { Ok(fp_from_integer(&limbs)) } else { Err(PointError::NotCanonical) }
}

fn on_curve<C: Curve>(p: C::Affine) -> Result<C::Affine, PointError> {
    if C::on_curve(&p) { Ok(p) } else { Err(PointError::NotOnCurve) }
}

pub(super) fn from_uncompressed<C: Curve>(bytes: &[u8]) -> Result<C::Affine, PointError> {
    if check_flags(bytes, C::UNCOMPRESSED, 0, 0)? {
        return Ok(C::Affine::default());
    }
    let (chunks, _) = bytes.as_chunks::<COORDINATE>();
    let p = point::<C>(true, |i| canonical_be(&chunks[i]))?;
    // In memory (0, 0) stands for infinity; written without the flag it is just no point.
    if C::is_infinity(&p) {
        return Err(PointError::NotOnCurve);
    }
    on_curve::<C>(p)
}

fn from_uncompressed_trusted<C: Curve>(bytes: &[u8]) -> C::Affine {
    if bytes.first().is_none_or(|b| b >> 5 != 0) {
        return C::Affine::default();
    }
    let (chunks, _) = bytes.as_chunks::<COORDINATE>();
    point::<C>(true, |i| Ok(fp_from_integer(&limbs_from_be(&chunks[i])))).unwrap_or_default()
}

/// A point from bytes that have passed the checks for this encoding (a validated key): no checks, any result for
/// other bytes.
#[inline(always)]
pub(super) fn trusted<C: Curve>(encoding: PointEncoding, bytes: &[u8]) -> C::Affine {
    match encoding {
        PointEncoding::ZcashUncompressed => from_uncompressed_trusted::<C>(bytes),
        PointEncoding::MontgomeryLe => from_montgomery_le_trusted::<C>(bytes),
    }
}

pub(super) fn to_uncompressed<C: Curve>(p: &C::Affine, out: &mut [u8]) {
    assert_eq!(out.len(), C::UNCOMPRESSED, "bytes of an uncompressed point");
    for (chunk, component) in out.as_chunks_mut::<COORDINATE>().0.iter_mut().zip(components::<C>(p, true)) {
        *chunk = fp_to_be(&component);
    }
    if C::is_infinity(p) {
        out[0] = INFINITY << 5;
    }
}

pub(super) fn from_compressed<C: Curve>(bytes: &[u8]) -> Result<C::Affine, PointError> {
    if check_flags(bytes, C::UNCOMPRESSED / 2, COMPRESSED, LARGER_Y)? {
        return Ok(C::Affine::default());
    }
    for (i, chunk) in bytes.as_chunks::<COORDINATE>().0.iter().enumerate() {
        let mut chunk = *chunk;
        if i == 0 {
            chunk[0] &= !FLAG_BITS;
        }
        canonical_be(&chunk)?;
    }
    let p = C::decompress(bytes).ok_or(PointError::NotOnCurve)?;
    if C::in_subgroup(&p) { Ok(p) } else { Err(PointError::NotInSubgroup) }
}

pub(super) fn from_montgomery_le<C: Curve>(bytes: &[u8]) -> Result<C::Affine, PointError> {
    if bytes.len() != C::UNCOMPRESSED {
        return Err(PointError::Length { found: bytes.len(), wanted: C::UNCOMPRESSED });
    }
    let (chunks, _) = bytes.as_chunks::<COORDINATE>();
    on_curve::<C>(point::<C>(false, |i| {
        let l = limbs::from_le_bytes(&chunks[i]);
        if below_modulus(&l) { Ok(blst_fp { l }) } else { Err(PointError::NotCanonical) }
    })?)
}

fn from_montgomery_le_trusted<C: Curve>(bytes: &[u8]) -> C::Affine {
    let (chunks, _) = bytes.as_chunks::<COORDINATE>();
    point::<C>(false, |i| Ok(blst_fp { l: limbs::from_le_bytes(&chunks[i]) })).unwrap_or_default()
}

pub(super) fn to_montgomery_le<C: Curve>(p: &C::Affine, out: &mut [u8]) {
    assert_eq!(out.len(), C::UNCOMPRESSED, "bytes of an uncompressed point");
    let limbs = components::<C>(p, false).into_iter().flat_map(|component| component.l);
    for (chunk, limb) in out.as_chunks_mut::<8>().0.iter_mut().zip(limbs) {
        *chunk = limb.to_le_bytes();
    }
}

pub(super) fn coordinates_be<C: Curve>(p: &C::Affine) -> Vec<[u8; 48]> {
    components::<C>(p, false).iter().map(fp_to_be).collect()
}

pub(super) fn from_coordinates_be<C: Curve>(c: &[[u8; 48]]) -> Result<C::Affine, PointError> {
    let wanted = 2 * C::Field::DEGREE;
    if c.len() != wanted {
        return Err(PointError::Length { found: c.len() * COORDINATE, wanted: wanted * COORDINATE });
    }
    on_curve::<C>(point::<C>(false, |i| canonical_be(&c[i]))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{Fr, G1, G1Affine, G2, G2Affine, testing};

    /// p, big-endian.
    const MODULUS: [u8; 48] = {
        let mut bytes = [0; 48];
        let limbs = [
            0x1a01_11ea_397f_e69au64,
            0x4b1b_a7b6_434b_acd7,
            0x6477_4b84_f385_12bf,
            0x6730_d2a0_f6b0_f624,
            0x1eab_fffe_b153_ffff,
            0xb9fe_ffff_ffff_aaab,
        ];
        let mut i = 0;
        while i < 48 {
            bytes[i] = (limbs[i / 8] >> (56 - 8 * (i % 8))) as u8;
            i += 1;
        }
        bytes
    };

    fn every_encoding_returns_the_point<C: Curve>() {
        let mut points = testing::points::<C>(9);
        points.push(C::Affine::default());
        points.push(C::neg(&C::generator()));
        for p in &points {
            let mut bytes = vec![0xaa; C::UNCOMPRESSED];
            C::to_uncompressed(p, &mut bytes);
            assert_eq!(C::from_uncompressed(&bytes), Ok(*p));
            assert_eq!(trusted::<C>(PointEncoding::ZcashUncompressed, &bytes), *p);
            C::to_montgomery_le(p, &mut bytes);
            assert_eq!(C::from_montgomery_le(&bytes), Ok(*p));
            assert_eq!(trusted::<C>(PointEncoding::MontgomeryLe, &bytes), *p);
            let compressed = &mut bytes[..C::UNCOMPRESSED / 2];
            C::to_compressed(p, compressed);
            assert_eq!(C::from_compressed(compressed), Ok(*p));
            assert_eq!(C::from_coordinates_be(&C::coordinates_be(p)), Ok(*p));
        }
    }

    #[test]
    fn round_trips() {
        every_encoding_returns_the_point::<G1>();
        every_encoding_returns_the_point::<G2>();
    }

    #[test]
    fn encodings_are_zcash_s() {
        let scalar = Fr::from_u64(0xdead_beef_0bad_cafe);
        let reference = bls12_381::Scalar::from(0xdead_beef_0bad_cafe);
        let p = G1::to_affine(&G1::mul(&G1::to_projective(&G1::generator()), &scalar));
        let q = G2::to_affine(&G2::mul(&G2::to_projective(&G2::generator()), &scalar));
        let (mut p_bytes, mut q_bytes) = ([0; 96], [0; 192]);
        for (p, q, p_reference, q_reference) in [
            (
                p,
                q,
                bls12_381::G1Affine::from(bls12_381::G1Affine::generator() * reference),
                bls12_381::G2Affine::from(bls12_381::G2Affine::generator() * reference),
            ),
            (
                G1Affine::default(),
                G2Affine::default(),
                bls12_381::G1Affine::identity(),
                bls12_381::G2Affine::identity(),
            ),
        ] {
            G1::to_uncompressed(&p, &mut p_bytes);
            assert_eq!(p_bytes, p_reference.to_uncompressed());
            G1::to_compressed(&p, &mut p_bytes[..48]);
            assert_eq!(p_bytes[..48], p_reference.to_compressed());
            G2::to_uncompressed(&q, &mut q_bytes);
            assert_eq!(q_bytes, q_reference.to_uncompressed());
            G2::to_compressed(&q, &mut q_bytes[..96]);
            assert_eq!(q_bytes[..96], q_reference.to_compressed());
        }
    }

    /// A point on the curve whose order is not r: the first x = 1, 2, … with a y.
    fn outside_subgroup<C: Curve>() -> C::Affine {
        (1..=255)
            .find_map(|x| {
                let mut bytes = vec![0; C::UNCOMPRESSED / 2];
                bytes[0] = COMPRESSED << 5;
                bytes[C::UNCOMPRESSED / 2 - 1] = x;
                C::decompress(&bytes).filter(|p| !C::in_subgroup(p))
            })
            .unwrap()
    }

    fn bad_encodings_are_named<C: Curve>() {
        let half = C::UNCOMPRESSED / 2;
        let uncompressed = |p: &C::Affine| {
            let mut bytes = vec![0; C::UNCOMPRESSED];
            C::to_uncompressed(p, &mut bytes);
            bytes
        };
        let compressed = |p: &C::Affine| {
            let mut bytes = vec![0; half];
            C::to_compressed(p, &mut bytes);
            bytes
        };
        let g = C::generator();

        // Lengths.
        for n in [0, 1, half, C::UNCOMPRESSED - 1, C::UNCOMPRESSED + 1] {
            let error = PointError::Length { found: n, wanted: C::UNCOMPRESSED };
            assert_eq!(C::from_uncompressed(&vec![0; n]), Err(error));
            assert_eq!(C::from_montgomery_le(&vec![0; n]), Err(error));
        }
        assert_eq!(
            C::from_compressed(&uncompressed(&g)),
            Err(PointError::Length { found: C::UNCOMPRESSED, wanted: half })
        );
        assert_eq!(
            C::from_coordinates_be(&[[0; 48]]),
            Err(PointError::Length { found: 48, wanted: C::UNCOMPRESSED })
        );

        // Flags.
        for flags in [0b001, 0b011, 0b100, 0b101, 0b110, 0b111] {
            let mut bytes = uncompressed(&g);
            bytes[0] |= flags << 5;
            assert_eq!(C::from_uncompressed(&bytes), Err(PointError::Flags { found: flags, wanted: 0 }));
        }
        for flags in [0b000, 0b001, 0b010, 0b011, 0b111] {
            let mut bytes = compressed(&g);
            bytes[0] = bytes[0] & !FLAG_BITS | flags << 5;
            assert_eq!(C::from_compressed(&bytes), Err(PointError::Flags { found: flags, wanted: 0b100 }));
        }

        // Infinity with other bits, and without its flag.
        for place in 0..C::UNCOMPRESSED {
            let mut bytes = uncompressed(&C::Affine::default());
            bytes[place] |= 1;
            assert_eq!(C::from_uncompressed(&bytes), Err(PointError::InfinityNotZero));
            let mut bytes = compressed(&C::Affine::default());
            bytes[place / 2] |= 1;
            assert_eq!(C::from_compressed(&bytes), Err(PointError::InfinityNotZero));
        }
        assert_eq!(C::from_uncompressed(&vec![0; C::UNCOMPRESSED]), Err(PointError::NotOnCurve));

        // Coordinates from p on, in each place.
        for start in (0..C::UNCOMPRESSED).step_by(48) {
            let mut bytes = uncompressed(&g);
            bytes[start..start + 48].copy_from_slice(&MODULUS);
            assert_eq!(C::from_uncompressed(&bytes), Err(PointError::NotCanonical));
            let mut coordinates = C::coordinates_be(&g);
            coordinates[start / 48] = MODULUS;
            assert_eq!(C::from_coordinates_be(&coordinates), Err(PointError::NotCanonical));
            let mut bytes = vec![0; C::UNCOMPRESSED];
            C::to_montgomery_le(&g, &mut bytes);
            bytes[start..start + 48].copy_from_slice(&MODULUS);
            bytes[start..start + 48].reverse();
            assert_eq!(C::from_montgomery_le(&bytes), Err(PointError::NotCanonical));
        }
        for start in (0..half).step_by(48) {
            let mut bytes = compressed(&g);
            let flags = bytes[0] & FLAG_BITS;
            bytes[start..start + 48].copy_from_slice(&MODULUS);
            bytes[0] |= flags;
            assert_eq!(C::from_compressed(&bytes), Err(PointError::NotCanonical));
        }

        // Off the curve.
        let mut bytes = uncompressed(&g);
        bytes[C::UNCOMPRESSED - 1] ^= 1;
        assert_eq!(C::from_uncompressed(&bytes), Err(PointError::NotOnCurve));
        C::to_montgomery_le(&g, &mut bytes);
        bytes[0] ^= 1;
        assert_eq!(C::from_montgomery_le(&bytes), Err(PointError::NotOnCurve));
        let mut coordinates = C::coordinates_be(&g);
        coordinates.reverse();
        assert_eq!(C::from_coordinates_be(&coordinates), Err(PointError::NotOnCurve));
        let no_root = (1..=255).find(|x| {
            let mut bytes = vec![0; half];
            bytes[0] = COMPRESSED << 5;
            bytes[half - 1] = *x;
            C::from_compressed(&bytes) == Err(PointError::NotOnCurve)
        });
        assert!(no_root.is_some());

        // Outside the subgroup: only the compressed encoding is checked for it.
        let outside = outside_subgroup::<C>();
        assert_eq!(C::from_uncompressed(&uncompressed(&outside)), Ok(outside));
        assert_eq!(C::from_compressed(&compressed(&outside)), Err(PointError::NotInSubgroup));
    }

    #[test]
    fn bad_encodings() {
        bad_encodings_are_named::<G1>();
        bad_encodings_are_named::<G2>();
    }

    #[test]
    fn zero_x_is_refused_for_its_order() {
        // (0, ±2) has order 3.
        let mut bytes = [0; 48];
        bytes[0] = COMPRESSED << 5;
        assert_eq!(G1::from_compressed(&bytes), Err(PointError::NotInSubgroup));
    }
}
