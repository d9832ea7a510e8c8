//! The fields that the curves' coordinates live in: Fp, and Fp2 = Fp[u]/(u² + 1), over blst, in Montgomery form
//! with R = 2^384.
use blst::{blst_fp, blst_fp2};

/// p, little-endian limbs.
const MODULUS: [u64; 6] = [
    0xb9fe_ffff_ffff_aaab,
    0x1eab_fffe_b153_ffff,
    0x6730_d2a0_f6b0_f624,
    0x6477_4b84_f385_12bf,
    0x4b1b_a7b6_434b_acd7,
    0x1a01_11ea_397f_e69a,
];

/// A coordinate's field.
pub trait BaseField: Copy + Eq + Default + Send + Sync + std::fmt::Debug + 'static {
    /// Coordinates over Fp: 1 or 2.
    const DEGREE: usize;
    /// 1.
    fn one() -> Self;
    /// self + o.
    fn add(&self, o: &Self) -> Self;
    /// self - o.
    fn sub(&self, o: &Self) -> Self;
    /// self · o.
    fn mul(&self, o: &Self) -> Self;
    /// self².
    fn square(&self) -> Self;
    /// -self.
    fn neg(&self) -> Self;
    /// 1/self; zero for zero.
    fn inverse(&self) -> Self;
    /// Components in Fp: c0 (and c1).
    fn components(&self) -> &[blst_fp];
    /// The same, to write.
    fn components_mut(&mut self) -> &mut [blst_fp];
    /// Is it 0?
    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

macro_rules! base_field {
    ($field:ty, $degree:literal, $one:expr, $components:expr, $components_mut:expr,
     $add:ident, $sub:ident, $mul:ident, $sqr:ident, $cneg:ident, $inverse:ident) => {
        impl BaseField for $field {
            const DEGREE: usize = $degree;
            #[inline(always)]
            fn one() -> Self {
                $one
            }
            #[inline(always)]
            fn add(&self, o: &Self) -> Self {
                let mut out = Self::default();
                // SAFETY: all pointers are to initialised elements of this type.
                unsafe { blst::$add(&mut out, self, o) };
                out
            }
            #[inline(always)]
            fn sub(&self, o: &Self) -> Self {
                let mut out = Self::default();
                // SAFETY: as above.
                unsafe { blst::$sub(&mut out, self, o) };
                out
            }
            #[inline(always)]
            fn mul(&self, o: &Self) -> Self {
                let mut out = Self::default();
                // SAFETY: as above.
                unsafe { blst::$mul(&mut out, self, o) };
                out
            }
            #[inline(always)]
            fn square(&self) -> Self {
                let mut out = Self::default();
                // SAFETY: as above.
                unsafe { blst::$sqr(&mut out, self) };
                out
            }
            #[inline(always)]
            fn neg(&self) -> Self {
                let mut out = Self::default();
                // SAFETY: as above.
                unsafe { blst::$cneg(&mut out, self, true) };
                out
            }
            fn inverse(&self) -> Self {
                let mut out = Self::default();
                // SAFETY: as above.
                unsafe { blst::$inverse(&mut out, self) };
                out
            }
            #[inline(always)]
            fn components(&self) -> &[blst_fp] {
                $components(self)
            }
            #[inline(always)]
            fn components_mut(&mut self) -> &mut [blst_fp] {
                $components_mut(self)
            }
        }
    };
}

/// 2^384 mod p.
const ONE: blst_fp = blst_fp {
    l: [
        0x7609_0000_0002_fffd,
        0xebf4_000b_c40c_0002,
        0x5f48_9857_53c7_58ba,
        0x77ce_5853_7052_5745,
        0x5c07_1a97_a256_ec6d,
        0x15f6_5ec3_fa80_e493,
    ],
};

base_field!(
    blst_fp,
    1,
    ONE,
    std::slice::from_ref,
    std::slice::from_mut,
    blst_fp_add,
    blst_fp_sub,
    blst_fp_mul,
    blst_fp_sqr,
    blst_fp_cneg,
    blst_fp_eucl_inverse
);
base_field!(
    blst_fp2,
    2,
    blst_fp2 { fp: [ONE, blst_fp { l: [0; 6] }] },
    fp2_components,
    fp2_components_mut,
    blst_fp2_add,
    blst_fp2_sub,
    blst_fp2_mul,
    blst_fp2_sqr,
    blst_fp2_cneg,
    blst_fp2_eucl_inverse
);

fn fp2_components(f: &blst_fp2) -> &[blst_fp] {
    &f.fp
}
fn fp2_components_mut(f: &mut blst_fp2) -> &mut [blst_fp] {
    &mut f.fp
}

/// Below p?
pub(super) fn below_modulus(limbs: &[u64; 6]) -> bool {
    limbs.iter().rev().lt(MODULUS.iter().rev())
}

/// The integer of 48 big-endian bytes.
pub(super) fn limbs_from_be(bytes: &[u8; 48]) -> [u64; 6] {
    let mut limbs = [0; 6];
    for (limb, b) in limbs.iter_mut().rev().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_be_bytes(*b);
    }
    limbs
}

/// The integer of 48 little-endian bytes.
pub(super) fn limbs_from_le(bytes: &[u8; 48]) -> [u64; 6] {
    let mut limbs = [0; 6];
    for (limb, b) in limbs.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_le_bytes(*b);
    }
    limbs
}

/// Montgomery form of an integer below 2^384, reduced mod p.
pub(super) fn fp_from_integer(limbs: &[u64; 6]) -> blst_fp {
    let mut out = blst_fp::default();
    // SAFETY: reads six limbs, writes one element.
    unsafe { blst::blst_fp_from_uint64(&mut out, limbs.as_ptr()) };
    out
}

/// The canonical integer, big-endian.
pub(super) fn fp_to_be(f: &blst_fp) -> [u8; 48] {
    let mut out = [0; 48];
    // SAFETY: writes 48 bytes.
    unsafe { blst::blst_bendian_from_fp(out.as_mut_ptr(), f) };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_neutral() {
        let mut two = [0; 6];
        two[0] = 2;
        let two = fp_from_integer(&two);
        assert_eq!(ONE.add(&ONE), two);
        assert_eq!(two.mul(&ONE), two);
        assert_eq!(two.inverse().mul(&two), ONE);
        let x = blst_fp2 { fp: [two, ONE] };
        assert_eq!(x.mul(&blst_fp2::one()), x);
        assert_eq!(x.inverse().mul(&x), blst_fp2::one());
        assert_eq!(x.add(&x.neg()), blst_fp2::default());
        assert_eq!(blst_fp::default().inverse(), blst_fp::default());
    }

    #[test]
    fn the_modulus_is_the_first_integer_refused() {
        let mut below = MODULUS;
        below[0] -= 1;
        assert!(below_modulus(&below));
        assert!(!below_modulus(&MODULUS));
        assert!(!below_modulus(&[u64::MAX; 6]));
        assert!(below_modulus(&[u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX, MODULUS[5] - 1]));
        // p - 1 = -1.
        assert_eq!(fp_from_integer(&below), ONE.neg());
    }
}
