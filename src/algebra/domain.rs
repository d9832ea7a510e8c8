//! Evaluation domains: the 2^k-th roots of unity and the transforms over them and their odd coset.
use super::{CancelToken, Cancelled, Canonical, Fr};
use rayon::prelude::*;

/// Which primitive 2^32-th root of unity generates all smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwoAdicRoot {
    /// 7^((r-1)/2^32): bellman, bellperson, arkworks, blstrs.
    Seven,
    /// 5^((r-1)/2^32): snarkjs (ffjavascript takes the least non-residue).
    Five,
}

/// r - 1 = 2^32 · odd.
const TWO_ADICITY: u32 = 32;
/// (r - 1) / 2^32.
const ODD_PART: [u64; 4] =
    [0xfffe_5bfe_ffff_ffff, 0x09a1_d805_53bd_a402, 0x299d_7d48_3339_d808, 0x0000_0000_73ed_a753];

impl TwoAdicRoot {
    /// The primitive 2^log_order-th root of unity; None above the field's two-adicity, 32.
    pub fn of_order(self, log_order: u32) -> Option<Fr> {
        let generator = match self {
            Self::Seven => 7,
            Self::Five => 5,
        };
        let squarings = TWO_ADICITY.checked_sub(log_order)?;
        let root = Fr::from_u64(generator).pow(&ODD_PART);
        Some((0..squarings).fold(root, |w, _| w.square()))
    }
}

/// The domain of size 2^log_size.
#[derive(Clone, Debug)]
pub struct Domain {
    log_size: u32,
    root: TwoAdicRoot,
    /// w, of order 2^log_size.
    generator: Fr,
    /// Of order 2^(log_size + 1).
    coset_shift: Fr,
}

/// Elements that one task takes between looks at the cancellation.
const TASK: usize = 1 << 12;
/// Elements of the bit reversal between looks at the cancellation.
const SWAPS: usize = 1 << 20;

impl Domain {
    /// The largest log_size: the odd coset takes a root of twice the domain's order.
    pub const MAX_LOG_SIZE: u32 = TWO_ADICITY - 1;

    /// None above [`Self::MAX_LOG_SIZE`].
    pub fn new(log_size: u32, root: TwoAdicRoot) -> Option<Self> {
        let coset_shift = root.of_order(log_size.checked_add(1)?)?;
        Some(Self { log_size, root, generator: coset_shift.square(), coset_shift })
    }

    /// The smallest domain with at least `rows` points; None above 2^31.
    pub fn for_rows(rows: u64, root: TwoAdicRoot) -> Option<Self> {
        Self::new(rows.max(1).checked_next_power_of_two()?.trailing_zeros(), root)
    }

    /// log2 of the number of points.
    pub fn log_size(&self) -> u32 {
        self.log_size
    }

    /// Where its generator comes from.
    pub fn root(&self) -> TwoAdicRoot {
        self.root
    }

    /// The number of points, m.
    pub fn size(&self) -> usize {
        1 << self.log_size
    }

    /// w, the primitive root of unity whose powers are the domain's points.
    pub fn generator(&self) -> Fr {
        self.generator
    }

    /// The odd coset's shift: a primitive 2m-th root of unity, the square root of w that the same
    /// two-adic root generates.
    pub fn coset_shift(&self) -> Fr {
        self.coset_shift
    }

    /// Coefficients → values at w^0, w^1, … (in place, natural order both). `v` has `size()` elements.
    pub fn fft(&self, v: &mut [Canonical], cancel: &CancelToken) -> Result<(), Cancelled> {
        self.transform(v, self.generator, cancel)
    }

    /// Values at w^0, w^1, … → coefficients.
    pub fn ifft(&self, v: &mut [Canonical], cancel: &CancelToken) -> Result<(), Cancelled> {
        self.transform(v, inverse_of_root(self.generator, self.log_size), cancel)?;
        self.scale_by_powers(v, self.size_inverse(), Fr::ONE, cancel)
    }

    /// Coefficients → values on the odd coset, at shift · w^0, shift · w^1, …
    pub fn coset_fft(&self, v: &mut [Canonical], cancel: &CancelToken) -> Result<(), Cancelled> {
        self.scale_by_powers(v, Fr::ONE, self.coset_shift, cancel)?;
        self.fft(v, cancel)
    }

    /// Values on the odd coset → coefficients.
    pub fn coset_ifft(&self, v: &mut [Canonical], cancel: &CancelToken) -> Result<(), Cancelled> {
        self.transform(v, inverse_of_root(self.generator, self.log_size), cancel)?;
        let shift_inverse = inverse_of_root(self.coset_shift, self.log_size + 1);
        self.scale_by_powers(v, self.size_inverse(), shift_inverse, cancel)
    }

    /// Lagrange coefficients at tau (for the setup): L_0(tau), … with
    /// L_i(tau) = w^i (tau^m - 1) / (m (tau - w^i)).
    pub fn lagrange_at(&self, tau: Fr) -> Vec<Fr> {
        let vanishing = tau.pow(&[1 << self.log_size]) - Fr::ONE;
        let mut values = powers(self.generator, self.size());
        if vanishing.is_zero() {
            // tau is in the domain: one coefficient is 1.
            values.par_iter_mut().for_each(|v| *v = if *v == tau { Fr::ONE } else { Fr::ZERO });
            return values;
        }
        let factor = vanishing * self.size_inverse();
        values.par_chunks_mut(TASK).for_each(|chunk| {
            let mut denominators: Vec<Fr> = chunk.iter().map(|point| tau - *point).collect();
            Fr::batch_inverse(&mut denominators);
            for (value, inverse) in chunk.iter_mut().zip(denominators) {
                *value *= factor * inverse;
            }
        });
        values
    }

    /// 1/m.
    fn size_inverse(&self) -> Fr {
        Fr::from_u64(1 << self.log_size).inverse().unwrap_or_default()
    }

    /// v[i] *= factor · base^i.
    fn scale_by_powers(
        &self,
        v: &mut [Canonical],
        factor: Fr,
        base: Fr,
        cancel: &CancelToken,
    ) -> Result<(), Cancelled> {
        v.par_chunks_mut(TASK).enumerate().try_for_each(|(i, chunk)| {
            cancel.check()?;
            let mut power = factor * base.pow(&[(i * TASK) as u64]);
            for value in chunk {
                *value = power * *value;
                power *= base;
            }
            Ok(())
        })
    }

    fn transform(&self, v: &mut [Canonical], w: Fr, cancel: &CancelToken) -> Result<(), Cancelled> {
        assert_eq!(v.len(), self.size(), "elements of the domain");
        if self.log_size == 0 {
            return cancel.check();
        }
        for i in 0..v.len() {
            if i % SWAPS == 0 {
                cancel.check()?;
            }
            let j = i.reverse_bits() >> (usize::BITS - self.log_size);
            if i < j {
                v.swap(i, j);
            }
        }
        let twiddles = powers(w, self.size() / 2);
        for layer in 0..self.log_size {
            let half = 1usize << layer;
            let stride = self.size() / (2 * half);
            v.par_chunks_mut(2 * half).with_min_len(TASK.div_ceil(2 * half)).try_for_each(|block| {
                let (low, high) = block.split_at_mut(half);
                low.par_chunks_mut(TASK).zip(high.par_chunks_mut(TASK)).enumerate().try_for_each(
                    |(t, (low, high))| {
                        cancel.check()?;
                        for (i, (x, y)) in low.iter_mut().zip(high).enumerate() {
                            let product = twiddles[(t * TASK + i) * stride] * *y;
                            *y = *x - product;
                            *x += product;
                        }
                        Ok(())
                    },
                )
            })?;
        }
        Ok(())
    }
}

/// base^0, base^1, …, in parallel.
fn powers(base: Fr, count: usize) -> Vec<Fr> {
    let mut out = vec![Fr::ONE; count];
    out.par_chunks_mut(TASK).enumerate().for_each(|(i, chunk)| {
        let mut power = base.pow(&[(i * TASK) as u64]);
        for value in chunk {
            *value = power;
            power *= base;
        }
    });
    out
}

/// 1/w for w of order 2^log_order.
fn inverse_of_root(w: Fr, log_order: u32) -> Fr {
    w.pow(&[(1u64 << log_order) - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::testing;

    /// Σ coefficients[j] x^j.
    fn evaluate(coefficients: &[Canonical], x: Fr) -> Canonical {
        coefficients.iter().rev().fold(Canonical::ZERO, |sum, c| x * sum + *c)
    }

    const ROOTS: [TwoAdicRoot; 2] = [TwoAdicRoot::Seven, TwoAdicRoot::Five];

    #[test]
    fn the_roots_are_the_published_ones() {
        let hex = |root: TwoAdicRoot| format!("{:?}", root.of_order(32).unwrap());
        assert_eq!(
            hex(TwoAdicRoot::Seven),
            "0x16a2a19edfe81f20d09b681922c813b4b63683508c2280b93829971f439f0d2b"
        );
        assert_eq!(
            hex(TwoAdicRoot::Five),
            "0x0212d79e5b416b6f0fd56dc8d168d6c0c4024ff270b3e0941b788f500b912f1f"
        );
        for root in ROOTS {
            assert_eq!(root.of_order(0), Some(Fr::ONE));
            assert_eq!(root.of_order(1), Some(-Fr::ONE));
            assert_eq!(root.of_order(33), None);
        }
    }

    #[test]
    fn sizes() {
        for (rows, log_size) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1 << 31, 31)] {
            let domain = Domain::for_rows(rows, TwoAdicRoot::Seven).unwrap();
            assert_eq!(domain.log_size(), log_size, "{rows} rows");
            assert_eq!(domain.coset_shift().pow(&[1 << log_size]), -Fr::ONE);
            assert_eq!(domain.coset_shift().square(), domain.generator());
        }
        for rows in [(1 << 31) + 1, 1 << 32, u64::MAX] {
            assert!(Domain::for_rows(rows, TwoAdicRoot::Seven).is_none(), "{rows} rows");
        }
        assert!(Domain::new(u32::MAX, TwoAdicRoot::Five).is_none());
    }

    #[test]
    fn transforms_are_evaluations() {
        let cancel = CancelToken::new();
        for root in ROOTS {
            for log_size in 0..=12 {
                let domain = Domain::new(log_size, root).unwrap();
                let coefficients = testing::scalars(domain.size(), u64::from(log_size));
                let (mut values, mut coset_values) = (coefficients.clone(), coefficients.clone());
                domain.fft(&mut values, &cancel).unwrap();
                domain.coset_fft(&mut coset_values, &cancel).unwrap();
                for i in (0..domain.size()).step_by(domain.size().div_ceil(64)) {
                    let point = domain.generator().pow(&[i as u64]);
                    assert_eq!(values[i], evaluate(&coefficients, point), "{root:?} 2^{log_size} w^{i}");
                    let point = point * domain.coset_shift();
                    assert_eq!(
                        coset_values[i],
                        evaluate(&coefficients, point),
                        "{root:?} 2^{log_size} coset {i}"
                    );
                }
                domain.ifft(&mut values, &cancel).unwrap();
                assert!(values == coefficients, "{root:?} 2^{log_size}: ifft undoes fft");
                domain.coset_ifft(&mut coset_values, &cancel).unwrap();
                assert!(coset_values == coefficients, "{root:?} 2^{log_size}: coset_ifft undoes coset_fft");
            }
        }
    }

    #[test]
    fn lagrange_coefficients_interpolate() {
        let cancel = CancelToken::new();
        for log_size in [0, 1, 2, 5, 10] {
            let domain = Domain::new(log_size, TwoAdicRoot::Seven).unwrap();
            let coefficients = testing::scalars(domain.size(), 7);
            let mut values = coefficients.clone();
            domain.fft(&mut values, &cancel).unwrap();
            let in_domain = domain.generator().pow(&[3]);
            for tau in [Fr::from_u64(0x1234_5678), Fr::ZERO, domain.coset_shift(), in_domain] {
                let lagrange = domain.lagrange_at(tau);
                let sum = lagrange.iter().zip(&values).fold(Canonical::ZERO, |sum, (l, v)| sum + *l * *v);
                assert_eq!(sum, evaluate(&coefficients, tau), "2^{log_size} at {tau:?}");
            }
        }
    }

    #[test]
    fn a_raised_token_stops_the_transform() {
        let cancel = CancelToken::new();
        cancel.cancel();
        let domain = Domain::new(4, TwoAdicRoot::Seven).unwrap();
        let mut v = vec![Canonical::ONE; 16];
        assert_eq!(domain.fft(&mut v, &cancel), Err(Cancelled));
        assert_eq!(domain.coset_ifft(&mut v, &cancel), Err(Cancelled));
    }
}
