//! Modular arithmetic on little-endian 64-bit limbs, in Rust so that it is inlined into the loops around it.
//!
//! Carries go through the processor's own add-with-carry, and corrections are selected, not branched to: their
//! conditions are as good as random. Operands and results are below the modulus unless said otherwise.
use std::{
    arch::x86_64::{_addcarry_u64, _subborrow_u64},
    hint::select_unpredictable,
};

/// a + b and the carry.
#[inline(always)]
pub(super) fn add_carry<const N: usize>(a: &[u64; N], b: &[u64; N]) -> ([u64; N], u8) {
    let mut sum = [0; N];
    let mut carry = 0;
    for i in 0..N {
        carry = _addcarry_u64(carry, a[i], b[i], &mut sum[i]);
    }
    (sum, carry)
}

/// a - b and the borrow.
#[inline(always)]
pub(super) fn sub_borrow<const N: usize>(a: &[u64; N], b: &[u64; N]) -> ([u64; N], u8) {
    let mut difference = [0; N];
    let mut borrow = 0;
    for i in 0..N {
        borrow = _subborrow_u64(borrow, a[i], b[i], &mut difference[i]);
    }
    (difference, borrow)
}

/// Is a below b?
#[inline(always)]
pub(super) fn less<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    sub_borrow(a, b).1 != 0
}

/// Is a zero?
#[inline(always)]
pub(super) fn is_zero<const N: usize>(a: &[u64; N]) -> bool {
    a.iter().fold(0, |all, limb| all | limb) == 0
}

/// Is a the same as b?
#[inline(always)]
pub(super) fn equal<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// `yes` if the condition holds, else `no`.
#[inline(always)]
pub(super) fn select<const N: usize>(condition: bool, yes: &[u64; N], no: &[u64; N]) -> [u64; N] {
    std::array::from_fn(|i| select_unpredictable(condition, yes[i], no[i]))
}

/// a - modulus if a is not below it, else a; for any a.
#[inline(always)]
pub(super) fn reduce_once<const N: usize>(a: &[u64; N], modulus: &[u64; N]) -> [u64; N] {
    let (reduced, borrow) = sub_borrow(a, modulus);
    select(borrow != 0, a, &reduced)
}

/// a + b mod modulus, whose top bit is clear.
#[inline(always)]
pub(super) fn add_mod<const N: usize>(a: &[u64; N], b: &[u64; N], modulus: &[u64; N]) -> [u64; N] {
    reduce_once(&add_carry(a, b).0, modulus)
}

/// a - b mod modulus.
#[inline(always)]
pub(super) fn sub_mod<const N: usize>(a: &[u64; N], b: &[u64; N], modulus: &[u64; N]) -> [u64; N] {
    let (difference, borrow) = sub_borrow(a, b);
    let mask = u64::from(borrow).wrapping_neg();
    add_carry(&difference, &modulus.map(|limb| limb & mask)).0
}

/// The integer of 8N little-endian bytes; fewer are taken as the lowest.
#[inline(always)]
pub(super) fn from_le_bytes<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut limbs = [0; N];
    for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_le_bytes(*bytes);
    }
    limbs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn integer(a: [u64; 2]) -> u128 {
        u128::from(a[0]) | u128::from(a[1]) << 64
    }

    fn any_limb() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(1), Just(u64::MAX), any::<u64>()]
    }

    fn any_limbs() -> impl Strategy<Value = [u64; 2]> {
        [any_limb(), any_limb()]
    }

    proptest! {
        #[test]
        fn limbs_are_integers(a in any_limbs(), b in any_limbs()) {
            let (x, y) = (integer(a), integer(b));
            let (sum, carry) = add_carry(&a, &b);
            prop_assert_eq!((integer(sum), carry != 0), x.overflowing_add(y));
            let (difference, borrow) = sub_borrow(&a, &b);
            prop_assert_eq!((integer(difference), borrow != 0), x.overflowing_sub(y));
            prop_assert_eq!(less(&a, &b), x < y);
            prop_assert_eq!(equal(&a, &b), x == y);
            prop_assert_eq!(is_zero(&a), x == 0);
            prop_assert_eq!(from_le_bytes::<2>(&x.to_le_bytes()), a);
        }

        #[test]
        fn modular(a in any_limbs(), b in any_limbs(), m in any_limbs()) {
            let m = [m[0] | 1, m[1] & (u64::MAX >> 1)];
            let modulus = integer(m);
            let reduce = |l| { let x = integer(l) % modulus; [x as u64, (x >> 64) as u64] };
            let (a, b) = (reduce(a), reduce(b));
            let (x, y) = (integer(a), integer(b));
            prop_assert_eq!(integer(add_mod(&a, &b, &m)), (x + y) % modulus);
            prop_assert_eq!(integer(sub_mod(&a, &b, &m)), (x + modulus - y) % modulus);
            prop_assert_eq!(reduce_once(&a, &m), a);
            prop_assert_eq!(reduce_once(&add_carry(&a, &m).0, &m), a);
        }
    }
}
