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

    /// e(α, β) as 12 canonical big-endian integers in tower order: Fp12 = Fp6[w], Fp6 = Fp2[v],
    /// w² = v, v³ = 1 + u, Fp2 = Fp[u]; the coefficient of the lowest power first on each level.
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
