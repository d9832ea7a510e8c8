//! Arithmetic mod r on four little-endian 64-bit limbs, in Rust so that it is inlined into the loops of the
//! transforms and the matrix rows. Branch-free: operands and results are below r unless said otherwise.

/// r, the order of the groups, little-endian limbs.
pub const MODULUS: [u64; 4] =
    [0xffff_ffff_0000_0001, 0x53bd_a402_fffe_5bfe, 0x3339_d808_09a1_d805, 0x73ed_a753_299d_7d48];

/// -1/r mod 2^64.
const NEGATIVE_INVERSE: u64 = {
    // Newton: each step doubles the number of correct low bits, of which x = 1 has one.
    let mut x = 1u64;
    let mut step = 0;
    while step < 6 {
        x = x.wrapping_mul(2u64.wrapping_sub(MODULUS[0].wrapping_mul(x)));
        step += 1;
    }
    x.wrapping_neg()
};

/// 2^256 mod r.
pub(super) const R: [u64; 4] = power_of_two(256);
/// 2^512 mod r.
pub(super) const R2: [u64; 4] = power_of_two(512);
/// 2^768 mod r.
pub(super) const R3: [u64; 4] = power_of_two(768);

const fn power_of_two(exponent: u32) -> [u64; 4] {
    let mut x = [1, 0, 0, 0];
    let mut i = 0;
    while i < exponent {
        x = add(x, x);
        i += 1;
    }
    x
}

/// a + b · c + carry, low and high word; never overflows.
#[inline(always)]
const fn multiply_add(a: u64, b: u64, c: u64, carry: u64) -> (u64, u64) {
    let t = a as u128 + b as u128 * c as u128 + carry as u128;
    (t as u64, (t >> 64) as u64)
}

/// a + b + carry and the carry out.
#[inline(always)]
const fn add_carry(a: u64, b: u64, carry: u64) -> (u64, u64) {
    let t = a as u128 + b as u128 + carry as u128;
    (t as u64, (t >> 64) as u64)
}

/// a - b - borrow and the borrow out (0 or 1).
#[inline(always)]
const fn sub_borrow(a: u64, b: u64, borrow: u64) -> (u64, u64) {
    let (d, first) = a.overflowing_sub(b);
    let (d, second) = d.overflowing_sub(borrow);
    (d, (first | second) as u64)
}

/// a - b mod 2^256 and the borrow.
#[inline(always)]
const fn sub_limbs(a: [u64; 4], b: [u64; 4]) -> ([u64; 4], u64) {
    let (d0, borrow) = sub_borrow(a[0], b[0], 0);
    let (d1, borrow) = sub_borrow(a[1], b[1], borrow);
    let (d2, borrow) = sub_borrow(a[2], b[2], borrow);
    let (d3, borrow) = sub_borrow(a[3], b[3], borrow);
    ([d0, d1, d2, d3], borrow)
}

/// a - r if a ≥ r, else a, for any a: a value below 2r becomes one below r.
#[inline(always)]
const fn reduce_once(a: [u64; 4]) -> [u64; 4] {
    let (d, borrow) = sub_limbs(a, MODULUS);
    let keep = borrow.wrapping_neg();
    [
        d[0] ^ ((d[0] ^ a[0]) & keep),
        d[1] ^ ((d[1] ^ a[1]) & keep),
        d[2] ^ ((d[2] ^ a[2]) & keep),
        d[3] ^ ((d[3] ^ a[3]) & keep),
    ]
}

/// Any 256-bit integer mod r (2^256 < 3r).
pub(super) const fn reduce_any(a: [u64; 4]) -> [u64; 4] {
    reduce_once(reduce_once(a))
}

pub(super) const fn below_modulus(a: [u64; 4]) -> bool {
    sub_limbs(a, MODULUS).1 == 1
}

/// a + b mod r. The sum fits, as 2r < 2^256.
#[inline(always)]
pub(super) const fn add(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    let (s0, carry) = add_carry(a[0], b[0], 0);
    let (s1, carry) = add_carry(a[1], b[1], carry);
    let (s2, carry) = add_carry(a[2], b[2], carry);
    let (s3, _) = add_carry(a[3], b[3], carry);
    reduce_once([s0, s1, s2, s3])
}

/// a - b mod r.
#[inline(always)]
pub(super) const fn sub(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    let (d, borrow) = sub_limbs(a, b);
    let mask = borrow.wrapping_neg();
    let (s0, carry) = add_carry(d[0], MODULUS[0] & mask, 0);
    let (s1, carry) = add_carry(d[1], MODULUS[1] & mask, carry);
    let (s2, carry) = add_carry(d[2], MODULUS[2] & mask, carry);
    let (s3, _) = add_carry(d[3], MODULUS[3] & mask, carry);
    [s0, s1, s2, s3]
}

/// a · b / 2^256 mod r (Montgomery, CETC 1985; one reduction step after each limb of b). As the top bit of r
/// is clear, the running sum fits four limbs and a word: no carry out of it needs keeping.
#[inline(always)]
pub(super) const fn mul(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    let mut t = [0; 4];
    let mut i = 0;
    while i < 4 {
        let (t0, carry) = multiply_add(t[0], a[0], b[i], 0);
        let m = t0.wrapping_mul(NEGATIVE_INVERSE);
        let (_, reduced) = multiply_add(t0, m, MODULUS[0], 0);
        let (t1, carry) = multiply_add(t[1], a[1], b[i], carry);
        let (r0, reduced) = multiply_add(t1, m, MODULUS[1], reduced);
        let (t2, carry) = multiply_add(t[2], a[2], b[i], carry);
        let (r1, reduced) = multiply_add(t2, m, MODULUS[2], reduced);
        let (t3, carry) = multiply_add(t[3], a[3], b[i], carry);
        let (r2, reduced) = multiply_add(t3, m, MODULUS[3], reduced);
        t = [r0, r1, r2, carry + reduced];
        i += 1;
    }
    reduce_once(t)
}

/// The integer of 32 little-endian bytes.
pub(super) fn from_le_bytes(b: &[u8; 32]) -> [u64; 4] {
    let mut limbs = [0; 4];
    for (limb, bytes) in limbs.iter_mut().zip(b.as_chunks::<8>().0) {
        *limb = u64::from_le_bytes(*bytes);
    }
    limbs
}
