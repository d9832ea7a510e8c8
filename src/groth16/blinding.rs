//! The end of every proof, whoever has computed its sums: blinding and the last additions.
use super::{Proof, ProvingKey, Stage, timeline::StageRunner};
use crate::algebra::{Cancelled, Curve, Fr, G1, G1Projective, G2, G2Projective};
use zeroize::Zeroize;

/// The blinding scalars r and s, wiped when dropped. `from_os` is the only constructor outside the
/// test interface.
pub struct Randomness {
    r: Fr,
    s: Fr,
}

impl Randomness {
    /// Uniform scalars from the operating system.
    pub fn from_os() -> std::io::Result<Self> {
        Ok(Self { r: Fr::random()?, s: Fr::random()? })
    }

    /// For tests that compare provers byte for byte; a proof with known r, s is not zero-knowledge.
    pub fn fixed_for_tests(r: Fr, s: Fr) -> Self {
        Self { r, s }
    }
}

impl Drop for Randomness {
    fn drop(&mut self) {
        self.r.0.l.zeroize();
        self.s.0.l.zeroize();
    }
}

/// The sums over the key's queries.
pub struct Sums {
    pub(crate) h_and_l: G1Projective,
    pub(crate) a: G1Projective,
    pub(crate) b_g1: G1Projective,
    pub(crate) b_g2: G2Projective,
}

impl Sums {
    /// The stage that makes the proof of the sums.
    pub(crate) fn assemble(
        &self,
        key: &ProvingKey,
        randomness: &Randomness,
        stages: &mut StageRunner<'_>,
    ) -> Result<Proof, Cancelled> {
        stages.run(Stage::Assemble, || Ok(self.blind(key, randomness)))
    }

    /// a = α + Σa + r·δ, b = β + Σb + s·δ, c = Σh + Σl + s·a + r·b₁ − r·s·δ.
    fn blind(&self, key: &ProvingKey, randomness: &Randomness) -> Proof {
        let Randomness { r, s } = randomness;
        let delta_g1 = G1::to_projective(&key.delta_g1);
        let delta_g2 = G2::to_projective(&key.vk.delta_g2);
        let a = G1::add(&G1::add_affine(&self.a, &key.vk.alpha_g1), &G1::mul(&delta_g1, r));
        let b = G2::add(&G2::add_affine(&self.b_g2, &key.vk.beta_g2), &G2::mul(&delta_g2, s));
        let b_g1 = G1::add_affine(&self.b_g1, &key.beta_g1);
        // r·b₁ with b₁ = β + Σb₁ + s·δ is r·(β + Σb₁) + r·s·δ: the last term cancels.
        let c = G1::add(&self.h_and_l, &G1::add(&G1::mul(&a, s), &G1::mul(&b_g1, r)));
        Proof { a: G1::to_affine(&a), b: G2::to_affine(&b), c: G1::to_affine(&c) }
    }
}
