//! The CPU prover: from a circuit, a key and a witness to a proof, stage by stage.
//!
//! For a satisfied witness c = a∘b on the domain, so C is never evaluated. With A·B = u + xᵐ·v,
//! deg u, deg v < m, the quotient of A·B − C by xᵐ − 1 is v: xᵐ is 1 on the domain, where A·B
//! interpolates to u + v, and −1 on the odd coset, where it interpolates to u − v. A witness that
//! does not satisfy the circuit yields a proof that does not verify.
use super::{HBasis, KeyError, Proof, ProvingKey, Stage, Timeline};
use crate::{
    algebra::{
        CancelToken, Cancelled, Canonical, Curve, Domain, Fr, G1, G1Projective, G2, G2Projective,
        fr::MODULUS, msm,
    },
    r1cs::Circuit,
};
use rayon::prelude::*;
use std::time::Instant;
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

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProveError {
    /// The caller raised the token.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The witness is not one of this circuit.
    #[error("the witness has {found} values, wanted {wanted}")]
    Length {
        /// Values given.
        found: u64,
        /// The circuit's variables.
        wanted: u64,
    },
    /// The witness's first value must be ONE.
    #[error("the witness begins with a value other than 1")]
    FirstNotOne,
    /// The key is not one of this circuit.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// The prover that runs on this machine's cores, within the current rayon pool.
pub struct CpuProver;

impl CpuProver {
    /// Proves that `z` = (1, public inputs, auxiliary) satisfies the circuit.
    ///
    /// `on_stage` is told when each stage begins (progress); spans go into `timeline`. Beside key,
    /// circuit and z it takes three vectors of m field elements (m: the domain's size) until `MsmH`
    /// ends, and less afterwards.
    pub fn prove(
        circuit: &Circuit,
        key: &ProvingKey,
        z: &[Canonical],
        randomness: Randomness,
        cancel: &CancelToken,
        timeline: &mut Timeline,
        on_stage: &mut dyn FnMut(Stage),
    ) -> Result<Proof, ProveError> {
        let (found, wanted) = (z.len() as u64, circuit.num_variables() as u64);
        if found != wanted {
            return Err(ProveError::Length { found, wanted });
        }
        if z.first() != Some(&Canonical::ONE) {
            return Err(ProveError::FirstNotOne);
        }
        key.check_shape(circuit)?;
        let domain = key.domain(circuit)?;
        let aux = &z[circuit.num_inputs()..];
        let mut stages = Stages { cancel, timeline, on_stage };

        let evaluations = stages.run(Stage::Evaluate, || evaluate(circuit, &domain, z, cancel))?;
        let h = stages.run(Stage::Quotient, || quotient(&domain, key.h_basis, evaluations, cancel))?;
        let h = stages.run(Stage::MsmH, || msm(&key.h, None, &h[..key.h.len()], cancel))?;
        let l = stages.run(Stage::MsmL, || msm(&key.l, None, aux, cancel))?;
        let a = stages.run(Stage::MsmA, || query(&key.a, z, cancel))?;
        let b_g1 = stages.run(Stage::MsmB1, || query(&key.b_g1, z, cancel))?;
        let b_g2 = stages.run(Stage::MsmB2, || query(&key.b_g2, z, cancel))?;
        stages.run(Stage::Assemble, || {
            let h_and_l = G1::add(&h, &l);
            Ok(Sums { h_and_l, a, b_g1, b_g2 }.blind(key, &randomness))
        })
    }
}

/// The caller's hooks around each stage.
struct Stages<'a> {
    cancel: &'a CancelToken,
    timeline: &'a mut Timeline,
    on_stage: &'a mut dyn FnMut(Stage),
}

impl Stages<'_> {
    fn run<T>(&mut self, stage: Stage, work: impl FnOnce() -> Result<T, Cancelled>) -> Result<T, ProveError> {
        self.cancel.check()?;
        (self.on_stage)(stage);
        let began = Instant::now();
        let result = work()?;
        self.timeline.record(stage, began);
        Ok(result)
    }
}

/// Values on the domain, row by row.
struct Evaluations {
    a: Vec<Canonical>,
    b: Vec<Canonical>,
    c: Vec<Canonical>,
}

/// a = A·z, b = B·z, c = a∘b, padded with zeros to the domain.
fn evaluate(
    circuit: &Circuit,
    domain: &Domain,
    z: &[Canonical],
    cancel: &CancelToken,
) -> Result<Evaluations, Cancelled> {
    let zeros = || vec![Canonical::ZERO; domain.size()];
    let (mut a, mut b, mut c) = (zeros(), zeros(), zeros());
    circuit.a().evaluate(circuit.coefficients(), z, &mut a, cancel)?;
    circuit.b().evaluate(circuit.coefficients(), z, &mut b, cancel)?;
    c.par_iter_mut().zip(&a).zip(&b).for_each(|((c, a), b)| *c = product(a, b));
    Ok(Evaluations { a, b, c })
}

/// The scalars of the key's h points. See the top of this file for u and v.
fn quotient(
    domain: &Domain,
    basis: HBasis,
    evaluations: Evaluations,
    cancel: &CancelToken,
) -> Result<Vec<Canonical>, Cancelled> {
    let Evaluations { mut a, mut b, mut c } = evaluations;
    // A·B on the odd coset.
    for v in [&mut a, &mut b] {
        domain.ifft(v, cancel)?;
        domain.coset_fft(v, cancel)?;
    }
    a.par_iter_mut().zip(&b).for_each(|(a, b)| *a = product(a, b));
    drop(b);
    // C = u + v, in coefficients.
    domain.ifft(&mut c, cancel)?;
    match basis {
        HBasis::Monomial => {
            // A·B = u − v, in coefficients; half the difference is v.
            domain.coset_ifft(&mut a, cancel)?;
            let half = Fr::from_canonical(HALF);
            a.par_iter_mut().zip(&c).for_each(|(a, c)| *a = half * (*c - *a));
        }
        HBasis::CosetLagrange => {
            // A·B − C on the odd coset, which is −2v there.
            domain.coset_fft(&mut c, cancel)?;
            a.par_iter_mut().zip(&c).for_each(|(a, c)| *a = *a - *c);
        }
    }
    Ok(a)
}

fn product(a: &Canonical, b: &Canonical) -> Canonical {
    Fr::from_canonical(*a) * *b
}

/// 1/2 = (r − 1)/2 + 1.
const HALF: Canonical = {
    let [l0, l1, l2, l3] = MODULUS;
    Canonical([(l0 >> 1 | l1 << 63) + 1, l1 >> 1 | l2 << 63, l2 >> 1 | l3 << 63, l3 >> 1])
};

/// Σ z[variable of i] · point i.
fn query<C: Curve>(
    query: &super::Query<C>,
    z: &[Canonical],
    cancel: &CancelToken,
) -> Result<C::Projective, Cancelled> {
    msm(query.points(), query.variables().map(|v| &v[..]), z, cancel)
}

/// The sums over the key's queries.
struct Sums {
    h_and_l: G1Projective,
    a: G1Projective,
    b_g1: G1Projective,
    b_g2: G2Projective,
}

impl Sums {
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
