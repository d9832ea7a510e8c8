//! The CPU prover: from a circuit, a key and a witness to a proof, stage by stage.
//!
//! For a satisfied witness c = a∘b on the domain, so C is never evaluated. With A·B = u + xᵐ·v,
//! deg u, deg v < m, the quotient of A·B − C by xᵐ − 1 is v: xᵐ is 1 on the domain, where A·B
//! interpolates to u + v, and −1 on the odd coset, where it interpolates to u − v. A witness that
//! does not satisfy the circuit yields a proof that does not verify.
use super::{HBasis, KeyError, Proof, ProvingKey, Randomness, Stage, Sums, Timeline, timeline::StageRunner};
use crate::{
    algebra::{CancelToken, Cancelled, Canonical, Curve, Domain, Fr, G1, fr::MODULUS, msm},
    r1cs::Circuit,
};
use rayon::prelude::*;
use zeroize::Zeroize;

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

/// What a multi-exponentiation takes at most for each point of a tile, for its buckets, and for each thread.
/// Ample: what a proof takes beyond it, no budget knows.
const TILE_POINTS: u64 = (1 << 17) + (1 << 12);
const BYTES_PER_POINT: u64 = 640;
const BUCKET_BYTES_PER_POINT: u64 = 400;
const MAX_BUCKET_BYTES: u64 = 100 << 20;
const BYTES_PER_THREAD: u64 = 1 << 20;

/// The prover that runs on this machine's cores, within the current rayon pool.
pub struct CpuProver;

impl CpuProver {
    /// Bytes that a proof with so many threads takes beside the circuit and the key: z, and a, b, c on the domain, 32
    /// bytes a value; and what the transforms' roots or, later, the multi-exponentiations take.
    pub fn working_bytes(circuit: &Circuit, key: &ProvingKey, threads: usize) -> u64 {
        let variables = circuit.num_variables() as u64;
        let domain = key.domain(circuit).map_or(0, |domain| domain.size() as u64);
        let points = variables.max(domain);
        let values = 32 * (variables + 3 * domain);
        let tile = BYTES_PER_POINT * points.min(TILE_POINTS);
        let buckets = (BUCKET_BYTES_PER_POINT * points).min(MAX_BUCKET_BYTES);
        values + (16 * domain).max(tile + buckets) + BYTES_PER_THREAD * threads as u64
    }

    /// Proves that `z` = (1, public inputs, auxiliary) satisfies the circuit.
    ///
    /// `on_stage` is told when each stage begins (progress); spans go into `timeline`. Beside key,
    /// circuit and z it takes three and a half vectors of m field elements (m: the domain's size) until the
    /// quotient is there, one until `MsmH` ends, and none afterwards.
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
        let mut stages = StageRunner { cancel, timeline, on_stage };

        let evaluations = stages.run(Stage::Evaluate, || evaluate(circuit, &domain, z, cancel))?;
        let scalars = stages.run(Stage::Quotient, || quotient(&domain, key.h_basis, evaluations, cancel))?;
        let h = stages.run(Stage::MsmH, || msm(&key.h, None, &scalars[..key.h.len()], cancel))?;
        drop(scalars);
        let l = stages.run(Stage::MsmL, || msm(&key.l, None, aux, cancel))?;
        let a = stages.run(Stage::MsmA, || query(&key.a, z, cancel))?;
        let b_g1 = stages.run(Stage::MsmB1, || query(&key.b_g1, z, cancel))?;
        let b_g2 = stages.run(Stage::MsmB2, || query(&key.b_g2, z, cancel))?;
        let h_and_l = G1::add(&h, &l);
        Ok(Sums { h_and_l, a, b_g1, b_g2 }.assemble(key, &randomness, &mut stages)?)
    }
}

/// Values that follow from the witness, wiped when dropped: a secret as it is.
struct Secret(Vec<Canonical>);

impl Secret {
    fn zeros(len: usize) -> Self {
        Self(vec![Canonical::ZERO; len])
    }
}

impl std::ops::Deref for Secret {
    type Target = [Canonical];
    fn deref(&self) -> &[Canonical] {
        &self.0
    }
}

impl std::ops::DerefMut for Secret {
    fn deref_mut(&mut self) -> &mut [Canonical] {
        &mut self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.par_chunks_mut(1 << 14).for_each(|values| values.iter_mut().for_each(|v| v.0.zeroize()));
    }
}

/// Values on the domain, row by row.
struct Evaluations {
    a: Secret,
    b: Secret,
    c: Secret,
}

/// a = A·z, b = B·z, c = a∘b, padded with zeros to the domain.
fn evaluate(
    circuit: &Circuit,
    domain: &Domain,
    z: &[Canonical],
    cancel: &CancelToken,
) -> Result<Evaluations, Cancelled> {
    let zeros = || Secret::zeros(domain.size());
    let (mut a, mut b, mut c) = (zeros(), zeros(), zeros());
    circuit.a().evaluate(circuit.coefficients(), z, &mut a, cancel)?;
    circuit.b().evaluate(circuit.coefficients(), z, &mut b, cancel)?;
    c.par_iter_mut().zip(&*a).zip(&*b).for_each(|((c, a), b)| *c = product(a, b));
    Ok(Evaluations { a, b, c })
}

/// The scalars of the key's h points. See the top of this file for u and v.
fn quotient(
    domain: &Domain,
    basis: HBasis,
    evaluations: Evaluations,
    cancel: &CancelToken,
) -> Result<Secret, Cancelled> {
    let Evaluations { mut a, mut b, mut c } = evaluations;
    // A·B on the odd coset.
    for v in [&mut a, &mut b] {
        domain.ifft(v, cancel)?;
        domain.coset_fft(v, cancel)?;
    }
    a.par_iter_mut().zip(&*b).for_each(|(a, b)| *a = product(a, b));
    drop(b);
    // C = u + v, in coefficients.
    domain.ifft(&mut c, cancel)?;
    match basis {
        HBasis::Monomial => {
            // A·B = u − v, in coefficients; half the difference is v.
            domain.coset_ifft(&mut a, cancel)?;
            let half = Fr::from_canonical(HALF);
            a.par_iter_mut().zip(&*c).for_each(|(a, c)| *a = half * (*c - *a));
        }
        HBasis::CosetLagrange => {
            // A·B − C on the odd coset, which is −2v there.
            domain.coset_fft(&mut c, cancel)?;
            a.par_iter_mut().zip(&*c).for_each(|(a, c)| *a = *a - *c);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        algebra::TwoAdicRoot,
        groth16::{PreparedVerifyingKey, Span, setup::insecure_setup},
        r1cs::CircuitBuilder,
    };

    fn random(len: usize) -> Vec<Canonical> {
        (0..len).map(|_| Fr::random().unwrap().to_canonical()).collect()
    }

    #[test]
    fn the_quotient_is_the_upper_half_of_the_product() {
        let cancel = &CancelToken::new();
        for (log, root) in
            [(0, TwoAdicRoot::Seven), (1, TwoAdicRoot::Five), (2, TwoAdicRoot::Seven), (5, TwoAdicRoot::Five)]
        {
            let domain = Domain::new(log, root).unwrap();
            let m = domain.size();
            let (a, b) = (random(m), random(m));
            // A·B by the schoolbook.
            let (mut ca, mut cb) = (a.clone(), b.clone());
            domain.ifft(&mut ca, cancel).unwrap();
            domain.ifft(&mut cb, cancel).unwrap();
            let mut ab = vec![Canonical::ZERO; 2 * m];
            for (i, x) in ca.iter().enumerate() {
                for (j, y) in cb.iter().enumerate() {
                    ab[i + j] += product(x, y);
                }
            }
            let v = ab[m..].to_vec();
            let mut on_coset: Vec<_> = v.iter().map(|v| Canonical::ZERO - *v - *v).collect();
            domain.coset_fft(&mut on_coset, cancel).unwrap();

            for (basis, wanted) in [(HBasis::Monomial, v), (HBasis::CosetLagrange, on_coset)] {
                let c = a.iter().zip(&b).map(|(a, b)| product(a, b)).collect();
                let [a, b, c] = [a.clone(), b.clone(), c].map(Secret);
                let evaluations = Evaluations { a, b, c };
                assert_eq!(
                    quotient(&domain, basis, evaluations, cancel).unwrap()[..],
                    wanted[..],
                    "{basis:?}, m = {m}"
                );
            }
        }
    }

    /// x·x = y, y public.
    fn square() -> (Circuit, ProvingKey, Vec<Canonical>) {
        let mut builder = CircuitBuilder::new(2, 1);
        let [y, x] = [[(1, Fr::ONE)], [(2, Fr::ONE)]];
        builder.constraint(&x, &x, &y).unwrap();
        let circuit = builder.finish().unwrap();
        let key = insecure_setup(&circuit, [0; 32]).unwrap();
        let z = [1, 49, 7].map(|v| Fr::from_u64(v).to_canonical()).to_vec();
        (circuit, key, z)
    }

    fn prove(
        circuit: &Circuit,
        key: &ProvingKey,
        z: &[Canonical],
        cancel: &CancelToken,
        timeline: &mut Timeline,
        on_stage: &mut dyn FnMut(Stage),
    ) -> Result<Proof, ProveError> {
        let randomness = Randomness::from_os().unwrap();
        CpuProver::prove(circuit, key, z, randomness, cancel, timeline, on_stage)
    }

    const STAGES: [Stage; 8] = [
        Stage::Evaluate,
        Stage::Quotient,
        Stage::MsmH,
        Stage::MsmL,
        Stage::MsmA,
        Stage::MsmB1,
        Stage::MsmB2,
        Stage::Assemble,
    ];

    #[test]
    fn stages_are_told_before_and_recorded_after() {
        let (circuit, key, z) = square();
        let (mut told, mut timeline) = (Vec::new(), Timeline::new());
        let proof =
            prove(&circuit, &key, &z, &CancelToken::new(), &mut timeline, &mut |stage| told.push(stage));
        PreparedVerifyingKey::new(&key.vk).verify(&proof.unwrap(), &z[1..2]).unwrap();
        assert_eq!(told, STAGES);
        assert_eq!(timeline.spans.iter().map(|span| span.stage).collect::<Vec<_>>(), STAGES);
        let ends = |span: &Span| span.start + span.duration;
        assert!(timeline.spans.windows(2).all(|pair| ends(&pair[0]) <= pair[1].start));
    }

    #[test]
    fn a_cancelled_proof_ends_in_its_stage() {
        let (circuit, key, z) = square();
        for (i, last) in STAGES.into_iter().enumerate() {
            let (cancel, mut told, mut timeline) = (CancelToken::new(), Vec::new(), Timeline::new());
            let result = prove(&circuit, &key, &z, &cancel, &mut timeline, &mut |stage| {
                told.push(stage);
                if stage == last {
                    cancel.cancel();
                }
            });
            // The last stage has nothing left to save.
            assert_eq!(result.is_ok(), last == Stage::Assemble, "{last:?}");
            assert_eq!(told, STAGES[..=i]);
        }
        let cancel = CancelToken::new();
        cancel.cancel();
        let mut told = 0;
        let result = prove(&circuit, &key, &z, &cancel, &mut Timeline::new(), &mut |_| told += 1);
        assert!(matches!(result, Err(ProveError::Cancelled(_))));
        assert_eq!(told, 0);
    }

    #[test]
    fn refuses_what_does_not_belong_together() {
        let (circuit, key, z) = square();
        let prove = |key: &ProvingKey, z: &[Canonical]| {
            prove(&circuit, key, z, &CancelToken::new(), &mut Timeline::new(), &mut |_| {})
        };
        for found in [0, 2, 4] {
            let z: Vec<_> = z.iter().copied().cycle().take(found).collect();
            let error = prove(&key, &z).unwrap_err();
            assert_eq!(error.to_string(), format!("the witness has {found} values, wanted 3"));
        }
        assert!(matches!(prove(&key, &[z[1], z[1], z[2]]), Err(ProveError::FirstNotOne)));
        let mut builder = CircuitBuilder::new(2, 2);
        builder.constraint(&[(2, Fr::ONE)], &[(3, Fr::ONE)], &[(1, Fr::ONE)]).unwrap();
        let other = insecure_setup(&builder.finish().unwrap(), [0; 32]).unwrap();
        let error = prove(&other, &z).unwrap_err();
        assert_eq!(error.to_string(), "the key has 2 l points, the circuit wants 1");
    }
}
