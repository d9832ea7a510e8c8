//! The pairing check: e(a, b) = e(α, β) · e(Σ xᵢ·icᵢ, γ) · e(c, δ), in one multi-pairing with one
//! final exponentiation. Only this file can make a [`VerifiedProof`].
use super::{Proof, VerifyingKey};
use crate::algebra::{CancelToken, Cancelled, Canonical, Curve, G1, G1Affine, G2, G2Affine, PointStore, msm};
use blst::blst_fp12;

/// A proof that the verifier has accepted, for public inputs that the caller named: only such a proof
/// may leave the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedProof(Proof);

impl VerifiedProof {
    /// The accepted proof.
    pub fn proof(&self) -> &Proof {
        &self.0
    }
}

/// A verifying key with e(α, β) computed and γ, δ negated.
pub struct PreparedVerifyingKey {
    alpha_beta: blst_fp12,
    minus_gamma: G2Affine,
    minus_delta: G2Affine,
    /// The point of ONE; every usable key has it.
    ic_one: Option<G1Affine>,
    /// The points of the other inputs.
    ic: PointStore<G1>,
}

/// Why a proof was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The caller's inputs do not belong to this key.
    #[error("{found} public inputs, the verifying key wants {wanted}")]
    Inputs {
        /// The number of public inputs, without ONE.
        found: usize,
        /// The number that the key has points for, without ONE.
        wanted: usize,
    },
    /// A point of the proof is outside the prime-order subgroup.
    #[error("the proof's {element} is not in the prime-order subgroup")]
    Subgroup {
        /// 'a', 'b' or 'c'.
        element: char,
    },
    /// The pairing equation does not hold.
    #[error("the proof does not verify")]
    Rejected,
    /// The key has no point for ONE: nothing verifies under it.
    #[error("the verifying key has 0 input points, wanted at least 1")]
    EmptyKey,
}

impl PreparedVerifyingKey {
    /// Computes e(α, β). The key's points are in their subgroups: the readers check them.
    pub fn new(vk: &VerifyingKey) -> Self {
        Self {
            alpha_beta: pairing_product(&[(vk.alpha_g1, vk.beta_g2)]),
            minus_gamma: G2::neg(&vk.gamma_g2),
            minus_delta: G2::neg(&vk.delta_g2),
            ic_one: vk.ic.first().copied(),
            ic: PointStore::Owned(vk.ic.iter().skip(1).copied().collect()),
        }
    }

    /// The number of public inputs, without ONE.
    pub fn num_inputs(&self) -> usize {
        self.ic.len()
    }

    /// e(α, β) as 12 canonical big-endian integers in tower order: `Fp12 = Fp6[w]`, `Fp6 = Fp2[v]`,
    /// w² = v, v³ = 1 + u, `Fp2 = Fp[u]`; the coefficient of the lowest power first on each level.
    pub fn alpha_beta_coordinates(&self) -> [[u8; 48]; 12] {
        // blst writes the six Fp2 in the order of powers of w, where v = w².
        let bytes = self.alpha_beta.to_bendian();
        let coordinates = bytes.as_chunks::<48>().0;
        std::array::from_fn(|i| {
            let (of_w, of_v, of_u) = (i / 6, i / 2 % 3, i % 2);
            coordinates[2 * (2 * of_v + of_w) + of_u]
        })
    }

    /// Checks the proof for `inputs` (without ONE). The proof's points must be in their subgroups; a
    /// point at infinity contributes 1 to the product, as in bellman.
    pub fn verify(&self, proof: &Proof, inputs: &[Canonical]) -> Result<VerifiedProof, VerifyError> {
        let ic_one = self.ic_one.ok_or(VerifyError::EmptyKey)?;
        let (found, wanted) = (inputs.len(), self.num_inputs());
        if found != wanted {
            return Err(VerifyError::Inputs { found, wanted });
        }
        for (element, inside) in [
            ('a', acceptable::<G1>(&proof.a)),
            ('b', acceptable::<G2>(&proof.b)),
            ('c', acceptable::<G1>(&proof.c)),
        ] {
            if !inside {
                return Err(VerifyError::Subgroup { element });
            }
        }
        // Nobody holds this token, so nobody raises it.
        let sum =
            msm(&self.ic, None, inputs, &CancelToken::new()).map_err(|Cancelled| VerifyError::Rejected)?;
        let input_point = G1::to_affine(&G1::add_affine(&sum, &ic_one));
        let product = pairing_product(&[
            (proof.a, proof.b),
            (input_point, self.minus_gamma),
            (proof.c, self.minus_delta),
        ]);
        if product == self.alpha_beta { Ok(VerifiedProof(*proof)) } else { Err(VerifyError::Rejected) }
    }
}

fn acceptable<C: Curve>(p: &C::Affine) -> bool {
    C::on_curve(p) && C::in_subgroup(p)
}

/// Π e(p, q), the pairs with infinity left out: blst's Miller loop does not know infinity.
fn pairing_product(pairs: &[(G1Affine, G2Affine)]) -> blst_fp12 {
    let (ps, qs): (Vec<_>, Vec<_>) = pairs
        .iter()
        .filter(|(p, q)| !G1::is_infinity(p) && !G2::is_infinity(q))
        .map(|(p, q)| (&raw const p.0, &raw const q.0))
        .unzip();
    if ps.is_empty() {
        return blst_fp12::default();
    }
    let mut miller = blst_fp12::default();
    // SAFETY: both arrays hold ps.len() > 0 pointers to points that `pairs` keeps alive.
    unsafe { blst::blst_miller_loop_n(&mut miller, qs.as_ptr(), ps.as_ptr(), ps.len()) };
    miller.final_exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::Fr;

    fn g1(s: Fr) -> G1Affine {
        G1::to_affine(&G1::mul(&G1::to_projective(&G1::generator()), &s))
    }

    fn g2(s: Fr) -> G2Affine {
        G2::to_affine(&G2::mul(&G2::to_projective(&G2::generator()), &s))
    }

    /// A key whose discrete logarithms are known: α, β, γ, δ = 2, 3, 5, 7 and ic = 11, 13, 17.
    fn key() -> VerifyingKey {
        let n = Fr::from_u64;
        VerifyingKey {
            alpha_g1: g1(n(2)),
            beta_g1: None,
            beta_g2: g2(n(3)),
            gamma_g2: g2(n(5)),
            delta_g1: None,
            delta_g2: g2(n(7)),
            ic: vec![g1(n(11)), g1(n(13)), g1(n(17))],
        }
    }

    /// α·β + γ·Σ ic for inputs x, y.
    fn right_side(x: u64, y: u64) -> Fr {
        Fr::from_u64(2 * 3 + 5 * (11 + 13 * x + 17 * y))
    }

    fn inputs(x: u64, y: u64) -> [Canonical; 2] {
        [x, y].map(|v| Fr::from_u64(v).to_canonical())
    }

    /// The proof with these a and b that is right for the inputs.
    fn forged(a: Fr, b: Fr, x: u64, y: u64) -> Proof {
        let c = (a * b - right_side(x, y)) * Fr::from_u64(7).inverse().unwrap();
        Proof { a: g1(a), b: g2(b), c: g1(c) }
    }

    #[test]
    fn holds_exactly_for_the_right_inputs() {
        let verifier = PreparedVerifyingKey::new(&key());
        let (a, b) = (Fr::random().unwrap(), Fr::random().unwrap());
        let proof = forged(a, b, 4, 9);
        assert_eq!(verifier.verify(&proof, &inputs(4, 9)), Ok(VerifiedProof(proof)));
        assert_eq!(verifier.verify(&proof, &inputs(9, 4)), Err(VerifyError::Rejected));
        for wrong in [
            Proof { a: proof.c, c: proof.a, ..proof },
            Proof { a: G1::neg(&proof.a), ..proof },
            Proof { b: G2::neg(&proof.b), ..proof },
            Proof { c: G1::neg(&proof.c), ..proof },
        ] {
            assert_eq!(verifier.verify(&wrong, &inputs(4, 9)), Err(VerifyError::Rejected));
        }
        let both = Proof { a: G1::neg(&proof.a), b: G2::neg(&proof.b), c: proof.c };
        assert!(verifier.verify(&both, &inputs(4, 9)).is_ok(), "e(-a, -b) = e(a, b)");
    }

    #[test]
    fn infinity_counts_as_in_the_equation() {
        let verifier = PreparedVerifyingKey::new(&key());
        for (a, b) in [(Fr::ZERO, Fr::ONE), (Fr::ONE, Fr::ZERO), (Fr::ZERO, Fr::ZERO)] {
            assert!(verifier.verify(&forged(a, b, 1, 2), &inputs(1, 2)).is_ok());
            assert!(verifier.verify(&forged(a, b, 1, 2), &inputs(1, 3)).is_err());
        }
        // c at infinity, when a·b is the right side itself.
        let proof = forged(right_side(1, 2), Fr::ONE, 1, 2);
        assert!(G1::is_infinity(&proof.c));
        assert!(verifier.verify(&proof, &inputs(1, 2)).is_ok());
        let (a, b, c) = (G1Affine::default(), G2Affine::default(), G1Affine::default());
        assert_eq!(verifier.verify(&Proof { a, b, c }, &inputs(1, 2)), Err(VerifyError::Rejected));
        // The inputs' point at infinity: 11 + 13·x + 17·y = 0.
        let x = -(Fr::from_u64(11 + 17) * Fr::from_u64(13).inverse().unwrap());
        let c = (Fr::from_u64(100) - Fr::from_u64(6)) * Fr::from_u64(7).inverse().unwrap();
        let proof = Proof { a: g1(Fr::from_u64(100)), b: g2(Fr::ONE), c: g1(c) };
        assert!(verifier.verify(&proof, &[x.to_canonical(), Canonical::ONE]).is_ok());
    }

    #[test]
    fn numbers_of_inputs() {
        let mut key = key();
        let proof = forged(Fr::ONE, Fr::ONE, 1, 2);
        let verifier = PreparedVerifyingKey::new(&key);
        assert_eq!(verifier.num_inputs(), 2);
        for found in [0, 1, 3] {
            let refused = verifier.verify(&proof, &vec![Canonical::ONE; found]);
            assert_eq!(refused, Err(VerifyError::Inputs { found, wanted: 2 }));
        }
        key.ic.clear();
        assert_eq!(PreparedVerifyingKey::new(&key).verify(&proof, &[]), Err(VerifyError::EmptyKey));
    }

    #[test]
    fn a_point_outside_the_subgroup_is_refused_even_where_the_equation_holds() {
        let verifier = PreparedVerifyingKey::new(&key());
        let proof = forged(Fr::from_u64(8), Fr::from_u64(9), 1, 2);
        // (0, 2) has order 3: its pairing with anything is 1 after the final exponentiation.
        let mut coordinates = [[0; 48]; 2];
        coordinates[1][47] = 2;
        let order_3 = G1::from_coordinates_be(&coordinates).unwrap();
        for element in ['a', 'c'] {
            let mut proof = proof;
            let place = if element == 'a' { &mut proof.a } else { &mut proof.c };
            *place = G1::to_affine(&G1::add_affine(&G1::to_projective(place), &order_3));
            assert_eq!(verifier.verify(&proof, &inputs(1, 2)), Err(VerifyError::Subgroup { element }));
        }
    }
}
