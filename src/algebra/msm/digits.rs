//! Scalars as signed digits.
//!
//! A scalar s and r - s give opposite multiples, so the smaller of the two is taken, below 2^254. It is written
//! in base 2^c with digits from -2^(c-1) to 2^(c-1): half as many buckets as unsigned digits take. Adding
//! 2^(c-1) at every position but the top one makes the digits plain bit fields, each to be read alone.
use crate::algebra::{Canonical, limbs};

/// The bits of the largest magnitude.
pub(super) const MAGNITUDE_BITS: usize = 254;

/// The smaller of s and r - s, and whether it is r - s.
#[inline(always)]
pub(super) fn magnitude(s: Canonical) -> ([u64; 4], bool) {
    let (plain, negated) = (s.limbs(), (-s).limbs());
    let negate = limbs::less(&negated, &plain);
    (limbs::select(negate, &negated, &plain), negate)
}

/// Bits of an integer; 0 for 0.
#[inline(always)]
pub(super) fn bit_length(limbs: &[u64; 4]) -> usize {
    let top = limbs.iter().rposition(|limb| *limb != 0);
    top.map_or(0, |i| 64 * i + 64 - limbs[i].leading_zeros() as usize)
}

/// Digits of `bits` bits (c), `windows` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recoding {
    bits: u32,
    windows: usize,
    /// Σ 2^(c-1) 2^(cw) over all windows w but the top one.
    offset: [u64; 4],
}

/// The widest digits: bounds the memory of the buckets.
const MAX_BITS: u32 = 16;

impl Recoding {
    /// For magnitudes of at most `magnitude_bits` bits; the top digit then is not negative.
    fn new(bits: u32, magnitude_bits: usize) -> Self {
        let windows = (magnitude_bits + 1).div_ceil(bits as usize);
        let mut offset = [0; 4];
        for window in 0..windows - 1 {
            let bit = window * bits as usize + bits as usize - 1;
            offset[bit / 64] |= 1 << (bit % 64);
        }
        Self { bits, windows, offset }
    }

    /// The cheapest in additions for scalars of which `counts[l]` have a magnitude of l bits.
    pub(super) fn for_lengths(counts: &[u64; MAGNITUDE_BITS + 1]) -> Self {
        let longest = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
        let cost = |recoding: &Self| {
            let digits = |length: usize| (length + 1).div_ceil(recoding.bits as usize) as u64;
            let digit_additions: u64 = (1..).zip(&counts[1..]).map(|(l, count)| digits(l) * count).sum();
            // Two additions a bucket for its weighted sum.
            digit_additions + 2 * (recoding.windows * recoding.buckets()) as u64
        };
        let mut best = Self::new(2, longest);
        for bits in 3..=MAX_BITS {
            let next = Self::new(bits, longest);
            if cost(&next) < cost(&best) {
                best = next;
            }
        }
        best
    }

    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    pub(super) fn windows(&self) -> usize {
        self.windows
    }

    /// Buckets a window: one for each nonzero digit without its sign.
    pub(super) fn buckets(&self) -> usize {
        1 << (self.bits - 1)
    }

    /// The magnitude as one digit, where it is one: the lowest, all others being zero.
    #[inline(always)]
    pub(super) fn single_digit(&self, magnitude: &[u64; 4]) -> Option<u32> {
        let single = magnitude[1] | magnitude[2] | magnitude[3] == 0 && magnitude[0] <= self.buckets() as u64;
        single.then_some(magnitude[0] as u32)
    }

    /// The form that [`Self::digit`] reads. The sum is below 2^255.
    #[inline(always)]
    pub(super) fn shift(&self, magnitude: &[u64; 4]) -> [u64; 4] {
        limbs::add_carry(magnitude, &self.offset).0
    }

    /// Digit `window` of a shifted magnitude.
    #[inline(always)]
    pub(super) fn digit(&self, shifted: &[u64; 4], window: usize) -> i32 {
        let bit = window * self.bits as usize;
        let (limb, shift) = (bit / 64, (bit % 64) as u32);
        let low = shifted[limb] >> shift;
        let high = if limb < 3 { (shifted[limb + 1] << 1) << (63 - shift) } else { 0 };
        let top = window + 1 == self.windows;
        let field = (low | high) & ((1 << self.bits) - 1);
        field as i32 - if top { 0 } else { self.buckets() as i32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{Fr, testing};

    /// r - 1 over 2: the largest magnitude.
    fn largest() -> Canonical {
        (-Fr::ONE * Fr::from_u64(2).inverse().unwrap()).to_canonical()
    }

    fn edges() -> Vec<Canonical> {
        let half = largest();
        let mut scalars = vec![Canonical::ZERO, Canonical::ONE, half, half + Canonical::ONE, -Canonical::ONE];
        for bit in 0..254 {
            let power = Fr::from_u64(2).pow(&[bit]).to_canonical();
            scalars.extend([power, -power, power - Canonical::ONE, power + Canonical::ONE]);
        }
        scalars.extend(testing::scalars(100, 3));
        scalars
    }

    #[test]
    fn magnitudes() {
        for s in edges() {
            let (limbs, negative) = magnitude(s);
            assert!(bit_length(&limbs) <= MAGNITUDE_BITS);
            let m = Canonical::new(limbs).unwrap();
            assert_eq!(if negative { -m } else { m }, s);
            assert!(m == Canonical::ZERO || m.limbs().iter().rev().lt((-m).limbs().iter().rev()));
        }
        assert_eq!(magnitude(-Canonical::ONE), ([1, 0, 0, 0], true));
        assert_eq!(magnitude(Canonical::ZERO), ([0; 4], false));
        assert_eq!(magnitude(largest()), (largest().limbs(), false));
    }

    #[test]
    fn bit_lengths() {
        assert_eq!(bit_length(&[0; 4]), 0);
        assert_eq!(bit_length(&[1, 0, 0, 0]), 1);
        assert_eq!(bit_length(&[0, 1, 0, 0]), 65);
        assert_eq!(bit_length(&[u64::MAX; 4]), 256);
        assert_eq!(bit_length(&largest().limbs()), MAGNITUDE_BITS);
    }

    #[test]
    fn digits_make_up_the_magnitude() {
        for bits in 2..=MAX_BITS {
            for s in edges() {
                let (limbs, _) = magnitude(s);
                for length in [bit_length(&limbs).max(1), MAGNITUDE_BITS] {
                    let recoding = Recoding::new(bits, length);
                    let shifted = recoding.shift(&limbs);
                    let base = Fr::from_u64(1 << bits);
                    let mut sum = Fr::ZERO;
                    for window in (0..recoding.windows()).rev() {
                        let digit = recoding.digit(&shifted, window);
                        assert!(digit.unsigned_abs() as usize <= recoding.buckets(), "{bits} bits, {s:?}");
                        let magnitude = Fr::from_u64(u64::from(digit.unsigned_abs()));
                        sum = sum * base + if digit < 0 { -magnitude } else { magnitude };
                    }
                    assert_eq!(sum.to_canonical(), Canonical::new(limbs).unwrap(), "{bits} bits");
                    if let Some(digit) = recoding.single_digit(&limbs) {
                        assert_eq!(sum, Fr::from_u64(u64::from(digit)));
                    }
                }
            }
        }
    }

    #[test]
    fn widths_follow_the_scalars() {
        let mut counts = [0; MAGNITUDE_BITS + 1];
        assert_eq!(Recoding::for_lengths(&counts).windows(), 1);
        counts[1] = 1 << 20;
        assert_eq!(Recoding::for_lengths(&counts).windows(), 1);
        let mut previous = 0;
        for log_count in 0..30 {
            counts[MAGNITUDE_BITS] = 1 << log_count;
            let recoding = Recoding::for_lengths(&counts);
            assert!(recoding.bits() >= previous && recoding.bits() <= MAX_BITS);
            assert_eq!(recoding.windows(), 255usize.div_ceil(recoding.bits() as usize));
            previous = recoding.bits();
        }
        assert_eq!(previous, MAX_BITS);
    }
}
