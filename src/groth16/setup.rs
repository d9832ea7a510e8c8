//! A trusted setup for tests: whoever runs it knows the trapdoor and can forge proofs.
//!
//! With trapdoor (τ, α, β, γ, δ) and uᵢ, vᵢ, wᵢ the columns of A, B, C as polynomials, the key is
//! bellman's: hᵢ = τⁱ·t(τ)/δ, lᵢ = (β·uᵢ + α·vᵢ + wᵢ)/δ, icᵢ the same over γ, aᵢ = uᵢ, bᵢ = vᵢ.
use super::{HBasis, KeyError, ProvingKey, Query, VerifyingKey, key};
use crate::{
    algebra::{Curve, Domain, Fr, G1, G1Affine, G2, G2Affine, PointStore, TwoAdicRoot, msm::runs::Runs},
    r1cs::{Circuit, Matrix},
};
use rayon::prelude::*;
use std::sync::Arc;

/// Makes a bellman-style key. Same circuit and seed, same key. INSECURE: the seed is the trapdoor.
///
/// Refuses circuits without C, and, as bellman does, circuits with an auxiliary variable that occurs
/// in no constraint.
pub fn insecure_setup(circuit: &Circuit, seed: [u8; 32]) -> Result<ProvingKey, KeyError> {
    let domain = domain(circuit)?;
    let trapdoor = Trapdoor::draw(&seed, &domain);
    let Columns { u, v, w } = Columns::at(circuit, &domain, trapdoor.tau)?;

    let combined = |i: usize| trapdoor.beta * u[i] + trapdoor.alpha * v[i] + w[i];
    let num_inputs = circuit.num_inputs();
    let ic: Vec<Fr> = (0..num_inputs).map(|i| combined(i) * trapdoor.gamma_inverse).collect();
    let l: Vec<Fr> =
        (num_inputs..circuit.num_variables()).map(|i| combined(i) * trapdoor.delta_inverse).collect();
    if let Some(index) = l.iter().position(|s| s.is_zero()) {
        return Err(KeyError::Unconstrained { index: index as u64 });
    }
    let h = powers(trapdoor.vanishing * trapdoor.delta_inverse, trapdoor.tau, domain.size() - 1);
    let (a_variables, b_variables) = (key::a_variables(circuit), key::b_variables(circuit));
    let pick = |values: &[Fr], variables: &[u32]| -> Vec<Fr> {
        variables.iter().map(|&i| values[i as usize]).collect()
    };
    let (a, b) = (pick(&u, &a_variables), pick(&v, &b_variables));

    let total = h.len() + l.len() + a.len() + b.len();
    let g1 = FixedBase::<G1>::new(total);
    let points = Points {
        ic: g1.finite("ic", &ic)?,
        h: g1.finite("h", &h)?,
        l: g1.finite("l", &l)?,
        a: g1.finite("a", &a)?,
        b_g1: g1.finite("b_g1", &b)?,
        b_g2: FixedBase::<G2>::new(b.len()).finite("b_g2", &b)?,
    };
    assemble(circuit, &seed, &domain, &trapdoor, [a_variables, b_variables], points)
}

/// The domain that the key of a circuit is made for.
pub(crate) fn domain(circuit: &Circuit) -> Result<Domain, KeyError> {
    let rows = circuit.num_rows() as u64;
    Domain::for_rows(rows, TwoAdicRoot::Seven).ok_or(KeyError::Rows { found: rows })
}

/// A key's vectors of points.
pub(crate) struct Points {
    pub(crate) ic: Vec<G1Affine>,
    pub(crate) h: Vec<G1Affine>,
    pub(crate) l: Vec<G1Affine>,
    pub(crate) a: Vec<G1Affine>,
    pub(crate) b_g1: Vec<G1Affine>,
    pub(crate) b_g2: Vec<G2Affine>,
}

/// The key of these vectors; `variables` are those of a, and of b.
pub(crate) fn assemble(
    circuit: &Circuit,
    seed: &[u8; 32],
    domain: &Domain,
    trapdoor: &Trapdoor,
    variables: [Arc<[u32]>; 2],
    points: Points,
) -> Result<ProvingKey, KeyError> {
    let (g1, g2) = (FixedBase::<G1>::new(3), FixedBase::<G2>::new(3));
    let Trapdoor { alpha, beta, gamma, delta, .. } = *trapdoor;
    let [alpha_g1, beta_g1, delta_g1] = three(&g1, "alpha, beta, delta", [alpha, beta, delta])?;
    let [beta_g2, gamma_g2, delta_g2] = three(&g2, "beta, gamma, delta", [beta, gamma, delta])?;
    let vk = VerifyingKey {
        alpha_g1,
        beta_g1: Some(beta_g1),
        beta_g2,
        gamma_g2,
        delta_g1: Some(delta_g1),
        delta_g2,
        ic: points.ic,
    };
    let [a_variables, b_variables] = variables;
    Ok(ProvingKey {
        vk,
        beta_g1,
        delta_g1,
        h: PointStore::Owned(points.h),
        h_basis: HBasis::Monomial,
        root: domain.root(),
        l: PointStore::Owned(points.l),
        a: Query::filtered("a", PointStore::Owned(points.a), a_variables)?,
        b_g1: Query::filtered("b_g1", PointStore::Owned(points.b_g1), b_variables.clone())?,
        b_g2: Query::filtered("b_g2", PointStore::Owned(points.b_g2), b_variables)?,
        id: key_id(circuit, seed),
    })
}

fn key_id(circuit: &Circuit, seed: &[u8; 32]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("cuzk insecure setup 2026 key id");
    hasher.update(seed);
    hasher.update(&circuit.id());
    *hasher.finalize().as_bytes()
}

/// The toxic waste, with what is derived from it once.
pub(crate) struct Trapdoor {
    pub(crate) tau: Fr,
    pub(crate) alpha: Fr,
    pub(crate) beta: Fr,
    pub(crate) gamma: Fr,
    pub(crate) delta: Fr,
    pub(crate) gamma_inverse: Fr,
    pub(crate) delta_inverse: Fr,
    /// t(τ) = τᵐ − 1.
    pub(crate) vanishing: Fr,
}

impl Trapdoor {
    /// Draws from a BLAKE3 stream until γ, δ and t(τ) are invertible and α, β are not zero: at once,
    /// but for a chance of 2⁻²⁰⁰.
    pub(crate) fn draw(seed: &[u8; 32], domain: &Domain) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("cuzk insecure setup 2026 trapdoor");
        hasher.update(seed);
        let mut stream = hasher.finalize_xof();
        let mut scalar = || {
            let mut wide = [0; 64];
            stream.fill(&mut wide);
            Fr::from_wide_le_bytes(&wide)
        };
        loop {
            let [tau, alpha, beta, gamma, delta] = [(); 5].map(|()| scalar());
            let vanishing = tau.pow(&[domain.size() as u64]) - Fr::ONE;
            if vanishing.is_zero() || alpha.is_zero() || beta.is_zero() {
                continue;
            }
            if let (Some(gamma_inverse), Some(delta_inverse)) = (gamma.inverse(), delta.inverse()) {
                return Self { tau, alpha, beta, gamma, delta, gamma_inverse, delta_inverse, vanishing };
            }
        }
    }
}

/// uᵢ(τ), vᵢ(τ), wᵢ(τ) for every variable i.
struct Columns {
    u: Vec<Fr>,
    v: Vec<Fr>,
    w: Vec<Fr>,
}

impl Columns {
    fn at(circuit: &Circuit, domain: &Domain, tau: Fr) -> Result<Self, KeyError> {
        let c = circuit.c().ok_or(KeyError::NoC)?;
        let lagrange = domain.lagrange_at(tau);
        let column_sums = |matrix: &Matrix| {
            let mut sums = vec![Fr::ZERO; circuit.num_variables()];
            for (row, weight) in lagrange.iter().enumerate().take(matrix.rows()) {
                for (column, coefficient) in matrix.row(row) {
                    let sum = &mut sums[column as usize];
                    *sum += circuit.coefficients()[coefficient as usize] * *weight;
                }
            }
            sums
        };
        let (u, (v, w)) = rayon::join(
            || column_sums(circuit.a()),
            || rayon::join(|| column_sums(circuit.b()), || column_sums(c)),
        );
        Ok(Self { u, v, w })
    }
}

/// first, first·ratio, first·ratio², …
fn powers(first: Fr, ratio: Fr, len: usize) -> Vec<Fr> {
    std::iter::successors(Some(first), |p| Some(*p * ratio)).take(len).collect()
}

/// Three points as an array.
fn three<C: Curve>(
    base: &FixedBase<C>,
    query: &'static str,
    scalars: [Fr; 3],
) -> Result<[C::Affine; 3], KeyError> {
    let points = base.finite(query, &scalars)?;
    Ok([points[0], points[1], points[2]])
}

/// Multiples of the generator: `windows[k][d]` is d·2^(k·bits)·G.
pub(crate) struct FixedBase<C: Curve> {
    bits: u32,
    windows: Vec<Vec<C::Affine>>,
}

/// Scalars are below 2^255.
pub(crate) const SCALAR_BITS: u32 = 255;
/// Scalars that one task multiplies together, sharing their inversions.
const BATCH: usize = 256;

impl<C: Curve> FixedBase<C> {
    /// A table for about `uses` multiplications.
    fn new(uses: usize) -> Self {
        // A window costs 2^bits additions to fill and saves `uses` ones: balance, within the cache.
        Self::with_bits((uses.max(1).ilog2() * 2 / 3).clamp(4, 10))
    }

    /// A table of windows of so many bits.
    pub(crate) fn with_bits(bits: u32) -> Self {
        let mut windows = Vec::new();
        let mut base = C::to_projective(&C::generator());
        for _ in 0..SCALAR_BITS.div_ceil(bits) {
            let mut multiple = C::identity();
            let mut window = Vec::with_capacity(1 << bits);
            for _ in 0..1u32 << bits {
                window.push(multiple);
                multiple = C::add(&multiple, &base);
            }
            windows.push(C::batch_to_affine(&window));
            base = multiple;
        }
        Self { bits, windows }
    }

    /// The table, one window after the other.
    pub(crate) fn table(&self) -> Vec<C::Affine> {
        self.windows.concat()
    }

    /// Every scalar's multiple, in parallel; none may be at infinity.
    fn finite(&self, query: &'static str, scalars: &[Fr]) -> Result<Vec<C::Affine>, KeyError> {
        if let Some(index) = scalars.iter().position(|s| s.is_zero()) {
            return Err(KeyError::Infinity { query, index: index as u64 });
        }
        let mut out = vec![C::Affine::default(); scalars.len()];
        let tasks = out.par_chunks_mut(BATCH).zip(scalars.par_chunks(BATCH));
        tasks.for_each_init(Runs::<C>::new, |runs, (out, scalars)| {
            runs.clear();
            for scalar in scalars {
                let limbs = scalar.to_canonical().limbs();
                // A digit of zero adds infinity.
                let digits = (0u32..).map(|k| digit(&limbs, k * self.bits, self.bits));
                runs.push_run(self.windows.iter().zip(digits).map(|(window, digit)| window[digit]));
            }
            out.copy_from_slice(runs.sum());
        });
        Ok(out)
    }
}

/// `bits` (below 64) bits of a 256-bit integer from bit `from` on.
fn digit(limbs: &[u64; 4], from: u32, bits: u32) -> usize {
    let (limb, shift) = ((from / 64) as usize, from % 64);
    let low = limbs[limb] >> shift;
    let high = if shift == 0 { 0 } else { limbs.get(limb + 1).map_or(0, |next| next << (64 - shift)) };
    ((low | high) & ((1 << bits) - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::Canonical;

    fn multiples<C: Curve>() {
        let mut scalars = vec![Fr::ONE, -Fr::ONE, Fr::from_u64(2), Fr::from_u64(u64::MAX)];
        scalars.extend((0..2 * BATCH).map(|i| Fr::from_u64(i as u64 + 1)));
        scalars.extend((0..9).map(|_| Fr::random().unwrap()));
        let generator = C::to_projective(&C::generator());
        let wanted: Vec<C::Affine> = scalars.iter().map(|s| C::to_affine(&C::mul(&generator, s))).collect();
        for uses in [0, 1, 100, 1 << 20] {
            let base = FixedBase::<C>::new(uses);
            assert_eq!(base.finite("h", &scalars), Ok(wanted.clone()), "{uses} uses: {} bits", base.bits);
            assert_eq!(base.finite("h", &[]), Ok(vec![]));
        }
        let zero = FixedBase::<C>::new(1).finite("h", &[Fr::ONE, Fr::ZERO]);
        assert_eq!(zero, Err(KeyError::Infinity { query: "h", index: 1 }));
    }

    #[test]
    fn fixed_base_multiples_are_multiples() {
        multiples::<G1>();
        multiples::<G2>();
    }

    #[test]
    fn digits_make_the_number() {
        let limbs = (-Fr::ONE).to_canonical().limbs();
        for bits in 1..=16 {
            let base = Fr::from_u64(1 << bits);
            let digits = (0..SCALAR_BITS.div_ceil(bits)).rev().map(|k| digit(&limbs, k * bits, bits));
            let value = digits.fold(Fr::ZERO, |sum, d| sum * base + Fr::from_u64(d as u64));
            assert_eq!(value.to_canonical(), Canonical::ZERO - Canonical::ONE, "{bits} bits");
        }
    }

    #[test]
    fn powers_begin_with_the_first() {
        let n = Fr::from_u64;
        assert_eq!(powers(n(3), n(2), 4), [n(3), n(6), n(12), n(24)]);
        assert_eq!(powers(n(3), n(2), 0), []);
    }
}
