//! The fields that the curves' coordinates live in: Fp, and Fp2 = Fp[u]/(u² + 1), over blst, in Montgomery form
//! with R = 2^384.
use super::limbs;
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
    /// self = a · b. Results are written where they stay: blst writes word by word, and a copy in larger units
    /// just afterwards would wait for the store buffer.
    fn set_product(&mut self, a: &Self, b: &Self);
    /// self *= o.
    fn multiply_by(&mut self, o: &Self);
    /// self · o.
    #[inline(always)]
    fn mul(&self, o: &Self) -> Self {
        let mut product = Self::default();
        product.set_product(self, o);
        product
    }
    /// self².
    fn square(&self) -> Self;
    /// -self.
    #[inline(always)]
    fn neg(&self) -> Self {
        Self::default().sub(self)
    }
    /// `yes` if the condition holds, else `no`; without a branch.
    fn select(condition: bool, yes: &Self, no: &Self) -> Self;
    /// 1/self; zero for zero.
    fn inverse(&self) -> Self;
    /// Components in Fp: c0 (and c1).
    fn components(&self) -> &[blst_fp];
    /// The same, to write.
    fn components_mut(&mut self) -> &mut [blst_fp];
    /// Is it 0?
    fn is_zero(&self) -> bool;
    /// As `==`, inlined.
    fn equals(&self, o: &Self) -> bool;
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

/// The operations that blst has in assembly, for one of the fields.
macro_rules! by_blst {
    ($mul:ident, $sqr:ident, $inverse:ident) => {
        #[inline(always)]
        fn set_product(&mut self, a: &Self, b: &Self) {
            // SAFETY: all point to initialised elements.
            unsafe { blst::$mul(self, a, b) };
        }
        #[inline(always)]
        fn multiply_by(&mut self, o: &Self) {
            let place: *mut Self = self;
            // SAFETY: all point to initialised elements; blst allows the result in the place of an operand.
            unsafe { blst::$mul(place, place, o) };
        }
        #[inline(always)]
        fn square(&self) -> Self {
            let mut square = Self::default();
            // SAFETY: both point to initialised elements.
            unsafe { blst::$sqr(&mut square, self) };
            square
        }
        fn inverse(&self) -> Self {
            let mut inverse = Self::default();
            // SAFETY: both point to initialised elements.
            unsafe { blst::$inverse(&mut inverse, self) };
            inverse
        }
    };
}

impl BaseField for blst_fp {
    const DEGREE: usize = 1;
    #[inline(always)]
    fn one() -> Self {
        ONE
    }
    #[inline(always)]
    fn add(&self, o: &Self) -> Self {
        Self { l: limbs::add_mod(&self.l, &o.l, &MODULUS) }
    }
    #[inline(always)]
    fn sub(&self, o: &Self) -> Self {
        Self { l: limbs::sub_mod(&self.l, &o.l, &MODULUS) }
    }
    by_blst!(blst_fp_mul, blst_fp_sqr, blst_fp_eucl_inverse);
    #[inline(always)]
    fn select(condition: bool, yes: &Self, no: &Self) -> Self {
        Self { l: limbs::select(condition, &yes.l, &no.l) }
    }
    #[inline(always)]
    fn components(&self) -> &[blst_fp] {
        std::slice::from_ref(self)
    }
    #[inline(always)]
    fn components_mut(&mut self) -> &mut [blst_fp] {
        std::slice::from_mut(self)
    }
    #[inline(always)]
    fn is_zero(&self) -> bool {
        limbs::is_zero(&self.l)
    }
    #[inline(always)]
    fn equals(&self, o: &Self) -> bool {
        limbs::equal(&self.l, &o.l)
    }
}

impl BaseField for blst_fp2 {
    const DEGREE: usize = 2;
    #[inline(always)]
    fn one() -> Self {
        Self { fp: [ONE, blst_fp { l: [0; 6] }] }
    }
    #[inline(always)]
    fn add(&self, o: &Self) -> Self {
        Self { fp: [self.fp[0].add(&o.fp[0]), self.fp[1].add(&o.fp[1])] }
    }
    #[inline(always)]
    fn sub(&self, o: &Self) -> Self {
        Self { fp: [self.fp[0].sub(&o.fp[0]), self.fp[1].sub(&o.fp[1])] }
    }
    by_blst!(blst_fp2_mul, blst_fp2_sqr, blst_fp2_eucl_inverse);
    #[inline(always)]
    fn select(condition: bool, yes: &Self, no: &Self) -> Self {
        let component = |i: usize| blst_fp::select(condition, &yes.fp[i], &no.fp[i]);
        Self { fp: [component(0), component(1)] }
    }
    #[inline(always)]
    fn components(&self) -> &[blst_fp] {
        &self.fp
    }
    #[inline(always)]
    fn components_mut(&mut self) -> &mut [blst_fp] {
        &mut self.fp
    }
    #[inline(always)]
    fn is_zero(&self) -> bool {
        self.fp[0].is_zero() & self.fp[1].is_zero()
    }
    #[inline(always)]
    fn equals(&self, o: &Self) -> bool {
        self.fp[0].equals(&o.fp[0]) & self.fp[1].equals(&o.fp[1])
    }
}

/// Below p?
pub(super) fn below_modulus(limbs: &[u64; 6]) -> bool {
    limbs::less(limbs, &MODULUS)
}

/// The integer of 48 big-endian bytes.
pub(super) fn limbs_from_be(bytes: &[u8; 48]) -> [u64; 6] {
    let mut limbs = [0; 6];
    for (limb, b) in limbs.iter_mut().rev().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_be_bytes(*b);
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
