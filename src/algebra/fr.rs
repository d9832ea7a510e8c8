//! The scalar field of BLS12-381: [`Fr`] in Montgomery form, [`Canonical`] as a plain integer.
//!
//! The prover's pipeline (evaluation, transforms, digits of an MSM) runs on `Canonical` values:
//! a Montgomery coefficient times a canonical value is a canonical product.
use std::ops::{Add, Mul, Neg, Sub};

/// r, little-endian limbs.
pub const MODULUS: [u64; 4] =
    [0xffff_ffff_0000_0001, 0x53bd_a402_fffe_5bfe, 0x3339_d808_09a1_d805, 0x73ed_a753_299d_7d48];

/// A field element in Montgomery form (R = 2^256).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Fr(pub(crate) blst::blst_fr);

/// An integer below r, little-endian limbs: a field element outside Montgomery form.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Canonical(pub(crate) [u64; 4]);

impl Fr {
    pub const ZERO: Self = Self(blst::blst_fr { l: [0; 4] });
    pub const ONE: Self = Self(blst::blst_fr { l: [0; 4] }); // to be filled in
    pub fn from_u64(_v: u64) -> Self {
        todo!()
    }
    pub fn from_canonical(_c: Canonical) -> Self {
        todo!()
    }
    pub fn to_canonical(self) -> Canonical {
        todo!()
    }
    /// None when the integer is not below r.
    pub fn from_le_bytes(_b: &[u8; 32]) -> Option<Self> {
        todo!()
    }
    pub fn to_le_bytes(self) -> [u8; 32] {
        todo!()
    }
    /// Limbs of value * 2^256 mod r. None when not below r.
    pub fn from_montgomery_limbs(_l: [u64; 4]) -> Option<Self> {
        todo!()
    }
    pub fn montgomery_limbs(self) -> [u64; 4] {
        self.0.l
    }
    pub fn is_zero(self) -> bool {
        self.0.l == [0; 4]
    }
    pub fn square(self) -> Self {
        todo!()
    }
    pub fn pow(self, _e: &[u64]) -> Self {
        todo!()
    }
    /// None for zero.
    pub fn inverse(self) -> Option<Self> {
        todo!()
    }
    /// Uniform, from the operating system.
    pub fn random() -> std::io::Result<Self> {
        todo!()
    }
    /// 64 bytes, little-endian, reduced mod r (uniform for uniform input).
    pub fn from_wide_le_bytes(_b: &[u8; 64]) -> Self {
        todo!()
    }
}
impl Canonical {
    pub const ZERO: Self = Self([0; 4]);
    pub const ONE: Self = Self([1, 0, 0, 0]);
    /// None when not below r.
    pub fn new(_limbs: [u64; 4]) -> Option<Self> {
        todo!()
    }
    pub fn from_le_bytes(_b: &[u8; 32]) -> Option<Self> {
        todo!()
    }
    pub fn limbs(self) -> [u64; 4] {
        self.0
    }
    pub fn to_le_bytes(self) -> [u8; 32] {
        todo!()
    }
}
impl std::fmt::Debug for Fr {
    fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        todo!()
    }
}
impl std::fmt::Debug for Canonical {
    fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        todo!()
    }
}
impl Add for Fr {
    type Output = Self;
    fn add(self, _o: Self) -> Self {
        todo!()
    }
}
impl Sub for Fr {
    type Output = Self;
    fn sub(self, _o: Self) -> Self {
        todo!()
    }
}
impl Mul for Fr {
    type Output = Self;
    fn mul(self, _o: Self) -> Self {
        todo!()
    }
}
impl Neg for Fr {
    type Output = Self;
    fn neg(self) -> Self {
        todo!()
    }
}
/// Montgomery × canonical = canonical.
impl Mul<Canonical> for Fr {
    type Output = Canonical;
    fn mul(self, _o: Canonical) -> Canonical {
        todo!()
    }
}
impl Add for Canonical {
    type Output = Self;
    fn add(self, _o: Self) -> Self {
        todo!()
    }
}
impl Sub for Canonical {
    type Output = Self;
    fn sub(self, _o: Self) -> Self {
        todo!()
    }
}
