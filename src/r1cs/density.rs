//! Which variables a matrix touches: the densities by which bellman's keys drop points at infinity.
use super::Matrix;
use rayon::prelude::*;
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

/// Bit per variable z_i: its column in the matrix has a nonzero entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Density {
    words: Vec<u64>,
    len: usize,
}

impl Density {
    /// Of all columns of a matrix, in parallel.
    pub(crate) fn of(matrix: &Matrix) -> Self {
        let words: Vec<AtomicU64> = (0..matrix.width.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        matrix.columns.par_iter().with_min_len(1 << 14).for_each(|&column| {
            let (word, bit) = (&words[column as usize / 64], 1 << (column % 64));
            // Most columns are met again and again: a read leaves the cache line shared.
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        });
        Self { words: words.into_iter().map(AtomicU64::into_inner).collect(), len: matrix.width }
    }

    /// Number of variables.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no variables at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether variable i has a nonzero entry; false from `len` on.
    pub fn get(&self, i: usize) -> bool {
        self.words.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
    }

    /// Number of variables with a nonzero entry.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Number of variables in `range` with a nonzero entry.
    pub fn count_in(&self, range: Range<usize>) -> usize {
        let range = range.start..range.end.min(self.len);
        if range.is_empty() {
            return 0;
        }
        let (first, last) = (range.start / 64, (range.end - 1) / 64);
        let masked = |word: usize| {
            let low = if word == first { u64::MAX << (range.start % 64) } else { u64::MAX };
            let high = if word == last { u64::MAX >> (63 - (range.end - 1) % 64) } else { u64::MAX };
            self.words[word] & low & high
        };
        (first..=last).map(|word| masked(word).count_ones() as usize).sum()
    }

    /// Indices of the set bits, ascending.
    pub fn indices(&self) -> Vec<u32> {
        let mut indices = Vec::with_capacity(self.count());
        for (i, &word) in self.words.iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                // Columns are u32, so is every index.
                indices.push((i * 64) as u32 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
        indices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn density(bits: &[bool]) -> Density {
        let mut words = vec![0; bits.len().div_ceil(64)];
        for (i, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
            words[i / 64] |= 1 << (i % 64);
        }
        Density { words, len: bits.len() }
    }

    proptest! {
        #[test]
        fn counts_and_indices_agree_with_the_bits(
            bits in prop::collection::vec(any::<bool>(), 0..300),
            a in 0usize..320,
            b in 0usize..320,
        ) {
            let density = density(&bits);
            prop_assert_eq!(density.len(), bits.len());
            prop_assert_eq!(density.is_empty(), bits.is_empty());
            prop_assert_eq!(density.count(), bits.iter().filter(|b| **b).count());
            let set: Vec<u32> = (0..bits.len() as u32).filter(|&i| bits[i as usize]).collect();
            prop_assert_eq!(density.indices(), set);
            let inside = (a..b).filter(|&i| bits.get(i) == Some(&true)).count();
            prop_assert_eq!(density.count_in(a..b), inside);
            prop_assert_eq!(density.get(a), bits.get(a) == Some(&true));
        }
    }
}
