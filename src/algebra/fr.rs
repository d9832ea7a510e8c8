//! The scalar field of BLS12-381: [`Fr`] in Montgomery form, [`Canonical`] as a plain integer.
//!
//! The prover's pipeline (evaluation, transforms, digits of an MSM) runs on `Canonical` values:
//! a Montgomery coefficient times a canonical value is a canonical product. The arithmetic is in Rust, so that
//! it is inlined into the loops of the transforms and the matrix rows.
use super::limbs;
use std::{
    fmt, io,
    ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign},
};

/// r, the order of the groups, little-endian limbs.
pub const MODULUS: [u64; 4] =
    [0xffff_ffff_0000_0001, 0x53bd_a402_fffe_5bfe, 0x3339_d808_09a1_d805, 0x73ed_a753_299d_7d48];
/// -1/r mod 2^64.
const NEGATIVE_INVERSE: u64 = 0xffff_fffe_ffff_ffff;
/// 2^256 mod r.
const R: [u64; 4] =
    [0x0000_0001_ffff_fffe, 0x5884_b7fa_0003_4802, 0x998c_4fef_ecbc_4ff5, 0x1824_b159_acc5_056f];
/// 2^512 mod r.
const R2: [u64; 4] =
    [0xc999_e990_f3f2_9c6d, 0x2b6c_edcb_8792_5c23, 0x05d3_1496_7254_398f, 0x0748_d9d9_9f59_ff11];
/// 2^768 mod r.
const R3: [u64; 4] =
    [0xc62c_1807_439b_73af, 0x1b3e_0d18_8cf0_6990, 0x73d1_3c71_c7b5_f418, 0x6e2a_5bb9_c8db_33e9];

/// sum + a · b, five limbs, which are enough.
#[inline(always)]
fn multiply_add(sum: &[u64; 5], a: &[u64; 4], b: u64) -> [u64; 5] {
    let products = a.map(|limb| u128::from(limb) * u128::from(b));
    let low = |i: usize| products[i] as u64;
    let high = |i: usize| (products[i] >> 64) as u64;
    let (sum, _) = limbs::add_carry(sum, &[low(0), low(1), low(2), low(3), 0]);
    limbs::add_carry(&sum, &[0, high(0), high(1), high(2), high(3)]).0
}

/// a · b / 2^256 mod r (Montgomery, "Modular multiplication without trial division", 1985), with one step of the
/// reduction after each limb of b. The running sum fits five limbs, as the top bit of r is clear.
#[inline(always)]
fn montgomery_product(a: &[u64; 4], b: &[u64; 4]) -> [u64; 4] {
    let mut sum = [0; 5];
    for limb in b {
        sum = multiply_add(&sum, a, *limb);
        let quotient = sum[0].wrapping_mul(NEGATIVE_INVERSE);
        let [_, s1, s2, s3, s4] = multiply_add(&sum, &MODULUS, quotient);
        sum = [s1, s2, s3, s4, 0];
    }
    limbs::reduce_once(&[sum[0], sum[1], sum[2], sum[3]], &MODULUS)
}

/// A field element in Montgomery form (R = 2^256).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Fr(pub(crate) blst::blst_fr);

/// An integer below r, little-endian limbs: a field element outside Montgomery form.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Canonical(pub(crate) [u64; 4]);

impl zeroize::DefaultIsZeroes for Fr {}
impl zeroize::DefaultIsZeroes for Canonical {}

impl Fr {
    /// 0.
    pub const ZERO: Self = Self::raw([0; 4]);
    /// 1.
    pub const ONE: Self = Self::raw(R);

    #[inline(always)]
    pub(crate) const fn raw(l: [u64; 4]) -> Self {
        Self(blst::blst_fr { l })
    }

    /// v as a field element.
    pub fn from_u64(v: u64) -> Self {
        Self::raw(montgomery_product(&[v, 0, 0, 0], &R2))
    }

    /// Into Montgomery form.
    #[inline]
    pub fn from_canonical(c: Canonical) -> Self {
        Self::raw(montgomery_product(&c.0, &R2))
    }

    /// Out of Montgomery form.
    #[inline]
    pub fn to_canonical(self) -> Canonical {
        Canonical(montgomery_product(&self.0.l, &[1, 0, 0, 0]))
    }

    /// None when the integer is not below r.
    pub fn from_le_bytes(b: &[u8; 32]) -> Option<Self> {
        Canonical::from_le_bytes(b).map(Self::from_canonical)
    }

    /// The canonical integer, little-endian.
    pub fn to_le_bytes(self) -> [u8; 32] {
        self.to_canonical().to_le_bytes()
    }

    /// Limbs of value · 2^256 mod r. None when not below r.
    pub fn from_montgomery_limbs(l: [u64; 4]) -> Option<Self> {
        limbs::less(&l, &MODULUS).then_some(Self::raw(l))
    }

    /// Limbs of value · 2^256 mod r.
    pub fn montgomery_limbs(self) -> [u64; 4] {
        self.0.l
    }

    /// Is it 0?
    pub fn is_zero(self) -> bool {
        limbs::is_zero(&self.0.l)
    }

    /// self².
    #[inline]
    pub fn square(self) -> Self {
        self * self
    }

    /// `exponent` in little-endian limbs. Not constant-time in the exponent.
    pub fn pow(self, exponent: &[u64]) -> Self {
        let mut result = Self::ONE;
        for limb in exponent.iter().rev() {
            for bit in (0..64).rev() {
                result = result.square();
                if limb >> bit & 1 == 1 {
                    result *= self;
                }
            }
        }
        result
    }

    /// None for zero.
    pub fn inverse(self) -> Option<Self> {
        if self.is_zero() {
            return None;
        }
        let mut out = blst::blst_fr::default();
        // SAFETY: both point to initialised field elements.
        unsafe { blst::blst_fr_eucl_inverse(&mut out, &self.0) };
        Some(Self(out))
    }

    /// Replaces every nonzero element by its inverse and leaves zeros: one inversion for all.
    pub fn batch_inverse(values: &mut [Self]) {
        let mut product = Self::ONE;
        let mut prefixes = Vec::with_capacity(values.len());
        for v in values.iter().filter(|v| !v.is_zero()) {
            prefixes.push(product);
            product *= *v;
        }
        // A product of nonzero elements is not zero.
        let mut inverse = product.inverse().unwrap_or_default();
        for v in values.iter_mut().filter(|v| !v.is_zero()).rev() {
            if let Some(prefix) = prefixes.pop() {
                let inverted = inverse * prefix;
                inverse *= *v;
                *v = inverted;
            }
        }
    }

    /// Uniform, from the operating system.
    pub fn random() -> io::Result<Self> {
        let mut wide = zeroize::Zeroizing::new([0u8; 64]);
        getrandom::fill(wide.as_mut())?;
        Ok(Self::from_wide_le_bytes(&wide))
    }

    /// 64 bytes, little-endian, reduced mod r (uniform for uniform input).
    pub fn from_wide_le_bytes(b: &[u8; 64]) -> Self {
        let mut halves = [[0; 4]; 2];
        for (half, bytes) in halves.iter_mut().zip(b.as_chunks::<32>().0) {
            // 2^256 is below 3r.
            let once = limbs::reduce_once(&limbs::from_le_bytes(bytes), &MODULUS);
            *half = limbs::reduce_once(&once, &MODULUS);
        }
        Self::raw(montgomery_product(&halves[0], &R2)) + Self::raw(montgomery_product(&halves[1], &R3))
    }
}

impl Canonical {
    /// 0.
    pub const ZERO: Self = Self([0; 4]);
    /// 1.
    pub const ONE: Self = Self([1, 0, 0, 0]);

    /// None when not below r.
    pub fn new(limbs: [u64; 4]) -> Option<Self> {
        limbs::less(&limbs, &MODULUS).then_some(Self(limbs))
    }

    /// v, which is below r.
    pub const fn from_u64(v: u64) -> Self {
        Self([v, 0, 0, 0])
    }

    /// None when not below r.
    pub fn from_le_bytes(b: &[u8; 32]) -> Option<Self> {
        Self::new(limbs::from_le_bytes(b))
    }

    /// Little-endian limbs.
    pub fn limbs(self) -> [u64; 4] {
        self.0
    }

    /// Is it 0?
    pub fn is_zero(self) -> bool {
        limbs::is_zero(&self.0)
    }

    /// 32 bytes, little-endian.
    pub fn to_le_bytes(self) -> [u8; 32] {
        let mut out = [0; 32];
        for (chunk, limb) in out.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&limb.to_le_bytes());
        }
        out
    }
}

/// The canonical integer in hexadecimal.
impl fmt::Debug for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0;
        write!(f, "0x{d:016x}{c:016x}{b:016x}{a:016x}")
    }
}

/// The canonical integer in hexadecimal.
impl fmt::Debug for Fr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_canonical(), f)
    }
}

impl Add for Fr {
    type Output = Self;
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Self::raw(limbs::add_mod(&self.0.l, &o.0.l, &MODULUS))
    }
}

impl Sub for Fr {
    type Output = Self;
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        Self::raw(limbs::sub_mod(&self.0.l, &o.0.l, &MODULUS))
    }
}

impl Mul for Fr {
    type Output = Self;
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        Self::raw(montgomery_product(&self.0.l, &o.0.l))
    }
}

impl Neg for Fr {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self::ZERO - self
    }
}

/// Montgomery × canonical = canonical.
impl Mul<Canonical> for Fr {
    type Output = Canonical;
    #[inline(always)]
    fn mul(self, o: Canonical) -> Canonical {
        Canonical(montgomery_product(&self.0.l, &o.0))
    }
}

impl Add for Canonical {
    type Output = Self;
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Self(limbs::add_mod(&self.0, &o.0, &MODULUS))
    }
}

impl Sub for Canonical {
    type Output = Self;
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        Self(limbs::sub_mod(&self.0, &o.0, &MODULUS))
    }
}

impl Neg for Canonical {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self::ZERO - self
    }
}

impl AddAssign for Fr {
    #[inline(always)]
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}

impl SubAssign for Fr {
    #[inline(always)]
    fn sub_assign(&mut self, o: Self) {
        *self = *self - o;
    }
}

impl MulAssign for Fr {
    #[inline(always)]
    fn mul_assign(&mut self, o: Self) {
        *self = *self * o;
    }
}

impl AddAssign for Canonical {
    #[inline(always)]
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_ff::{BigInteger, Field, PrimeField};
    use proptest::prelude::*;

    type Reference = ark_bls12_381::Fr;

    fn reference(x: Fr) -> Reference {
        Reference::from_le_bytes_mod_order(&x.to_le_bytes())
    }

    fn same(x: Fr, r: Reference) -> bool {
        x.to_le_bytes().as_slice() == r.into_bigint().to_bytes_le()
    }

    fn any_fr() -> impl Strategy<Value = Fr> {
        let edge = prop::sample::select(vec![
            Fr::ZERO,
            Fr::ONE,
            -Fr::ONE,
            Fr::from_u64(u64::MAX),
            // Montgomery limbs at the edges.
            Fr::raw([1, 0, 0, 0]),
            Fr::raw([MODULUS[0] - 1, MODULUS[1], MODULUS[2], MODULUS[3]]),
            Fr::raw([u64::MAX, u64::MAX, u64::MAX, MODULUS[3] - 1]),
        ]);
        let wide = (any::<[u8; 32]>(), any::<[u8; 32]>()).prop_map(|(a, b)| {
            let mut w = [0; 64];
            w[..32].copy_from_slice(&a);
            w[32..].copy_from_slice(&b);
            Fr::from_wide_le_bytes(&w)
        });
        prop_oneof![1 => edge, 3 => wide]
    }

    proptest! {
        #[test]
        fn agrees_with_another_implementation(a in any_fr(), b in any_fr(), e in any::<[u64; 2]>()) {
            let (ra, rb) = (reference(a), reference(b));
            prop_assert!(same(a + b, ra + rb));
            prop_assert!(same(a - b, ra - rb));
            prop_assert!(same(a * b, ra * rb));
            prop_assert!(same(-a, -ra));
            prop_assert!(same(a.square(), ra * ra));
            prop_assert!(same(a.pow(&e), ra.pow(e)));
            prop_assert_eq!(a.inverse().is_none(), a.is_zero());
            if let Some(inverse) = a.inverse() {
                prop_assert_eq!(inverse * a, Fr::ONE);
            }
        }

        #[test]
        fn canonical_arithmetic_is_the_field_s(a in any_fr(), b in any_fr()) {
            let (ca, cb) = (a.to_canonical(), b.to_canonical());
            prop_assert_eq!(a * cb, (a * b).to_canonical());
            prop_assert_eq!(ca + cb, (a + b).to_canonical());
            prop_assert_eq!(ca - cb, (a - b).to_canonical());
            prop_assert_eq!(-ca, (-a).to_canonical());
            prop_assert_eq!(Fr::from_canonical(ca), a);
            prop_assert_eq!(Fr::from_le_bytes(&a.to_le_bytes()), Some(a));
            prop_assert_eq!(Fr::from_montgomery_limbs(a.montgomery_limbs()), Some(a));
        }

        #[test]
        fn wide_bytes_are_reduced(low in any::<[u8; 32]>(), high in any::<[u8; 32]>()) {
            let wide = [low, high].concat();
            let found = Fr::from_wide_le_bytes(wide.as_slice().try_into().unwrap());
            prop_assert!(same(found, Reference::from_le_bytes_mod_order(&wide)));
        }

        #[test]
        fn batch_inverse_inverts_all(values in prop::collection::vec(any_fr(), 0..40)) {
            let mut inverted = values.clone();
            Fr::batch_inverse(&mut inverted);
            for (v, i) in values.iter().zip(inverted) {
                prop_assert_eq!(v.inverse().unwrap_or_default(), i);
            }
        }
    }

    #[test]
    fn all_ones_reduce() {
        let wide = [0xff; 64];
        assert!(same(Fr::from_wide_le_bytes(&wide), Reference::from_le_bytes_mod_order(&wide)));
    }

    #[test]
    fn integers_from_r_on_are_refused() {
        let mut largest = MODULUS;
        largest[0] -= 1;
        let bytes = |l: [u64; 4]| Canonical(l).to_le_bytes();
        assert_eq!(Canonical::new(largest), Some(Canonical(largest)));
        assert_eq!(Fr::from_le_bytes(&bytes(largest)), Some(-Fr::ONE));
        for l in [MODULUS, [MODULUS[0] + 1, MODULUS[1], MODULUS[2], MODULUS[3]], [u64::MAX; 4]] {
            assert_eq!(Canonical::new(l), None);
            assert_eq!(Canonical::from_le_bytes(&bytes(l)), None);
            assert_eq!(Fr::from_le_bytes(&bytes(l)), None);
            assert_eq!(Fr::from_montgomery_limbs(l), None);
        }
    }

    #[test]
    fn debug_prints_the_integer() {
        assert_eq!(format!("{:?}", Fr::from_u64(255)), format!("0x{}ff", "0".repeat(62)));
    }

    #[test]
    fn random_elements_differ() {
        assert_ne!(Fr::random().unwrap(), Fr::random().unwrap());
    }
}
