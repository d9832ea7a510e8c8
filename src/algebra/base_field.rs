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
    #[inline(always)]
    fn neg(&self) -> Self {
        Self::default().sub(self)
    }
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

/// The result that a function of blst's writes.
macro_rules! written_by {
    ($function:ident($($argument:expr),*)) => {{
        let mut out = std::mem::MaybeUninit::uninit();
        // SAFETY: the arguments point to initialised elements, and the function writes all of `out`.
        unsafe {
            blst::$function(out.as_mut_ptr(), $($argument),*);
            out.assume_init()
        }
    }};
}

impl BaseField for blst_fp {
    const DEGREE: usize = 1;
    #[inline(always)]
    fn one() -> Self {
        ONE
    }
    #[inline(always)]
    fn add(&self, o: &Self) -> Self {
        Self { l: add(&self.l, &o.l) }
    }
    #[inline(always)]
    fn sub(&self, o: &Self) -> Self {
        Self { l: sub(&self.l, &o.l) }
    }
    #[inline(always)]
    fn mul(&self, o: &Self) -> Self {
        written_by!(blst_fp_mul(self, o))
    }
    #[inline(always)]
    fn square(&self) -> Self {
        written_by!(blst_fp_sqr(self))
    }
    fn inverse(&self) -> Self {
        written_by!(blst_fp_eucl_inverse(self))
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
        self.l.iter().fold(0, |all, limb| all | limb) == 0
    }
    #[inline(always)]
    fn equals(&self, o: &Self) -> bool {
        self.l.iter().zip(&o.l).fold(0, |all, (a, b)| all | (a ^ b)) == 0
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
    #[inline(always)]
    fn mul(&self, o: &Self) -> Self {
        written_by!(blst_fp2_mul(self, o))
    }
    #[inline(always)]
    fn square(&self) -> Self {
        written_by!(blst_fp2_sqr(self))
    }
    fn inverse(&self) -> Self {
        written_by!(blst_fp2_eucl_inverse(self))
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

/// a - b and the borrow (0 or 1).
#[inline(always)]
fn sub_limbs(a: &[u64; 6], b: &[u64; 6]) -> ([u64; 6], u64) {
    let mut borrow = false;
    let difference = std::array::from_fn(|i| {
        let (d, first) = a[i].overflowing_sub(b[i]);
        let (d, second) = d.overflowing_sub(u64::from(borrow));
        borrow = first | second;
        d
    });
    (difference, u64::from(borrow))
}

/// a + b mod 2^384.
#[inline(always)]
fn add_limbs(a: &[u64; 6], b: &[u64; 6]) -> [u64; 6] {
    let mut carry = false;
    std::array::from_fn(|i| {
        let (s, first) = a[i].overflowing_add(b[i]);
        let (s, second) = s.overflowing_add(u64::from(carry));
        carry = first | second;
        s
    })
}

/// a - b mod p, without a branch.
#[inline(always)]
fn sub(a: &[u64; 6], b: &[u64; 6]) -> [u64; 6] {
    let (difference, borrow) = sub_limbs(a, b);
    let mask = borrow.wrapping_neg();
    add_limbs(&difference, &MODULUS.map(|limb| limb & mask))
}

/// a + b mod p, without a branch. The sum fits, as 2p < 2^384.
#[inline(always)]
fn add(a: &[u64; 6], b: &[u64; 6]) -> [u64; 6] {
    let sum = add_limbs(a, b);
    let (reduced, borrow) = sub_limbs(&sum, &MODULUS);
    let keep = borrow.wrapping_neg();
    std::array::from_fn(|i| reduced[i] ^ ((reduced[i] ^ sum[i]) & keep))
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
