//! A proof that is known beforehand: a device that does not make it, byte for byte, makes none.
use super::{
    prove::{DeviceError, ProofJob, Upload},
    resident::{ContentIds, DeviceProver},
};
use crate::{
    algebra::{CancelToken, Canonical, Fr},
    gpu::queue::Queue,
    groth16::{
        CpuProver, KeyError, PreparedVerifyingKey, Proof, ProveError, ProvingKey, Randomness, Timeline,
        VerifyError, setup::insecure_setup,
    },
    r1cs::{Circuit, CircuitBuilder, CircuitError, WitnessEncoding},
};

/// ONE and a public input.
const INPUTS: usize = 2;
/// Bytes of the witness that are on their way to the device at a time.
const STAGING: usize = 1 << 12;

/// A circuit, its key and witness, and the proof that the CPU makes of them, which verifies.
pub struct KnownAnswer {
    circuit: Circuit,
    key: ProvingKey,
    witness: Vec<u8>,
    proof: Proof,
}

/// Why a device has not given the known answer, or why there is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnownAnswerError {
    /// The built-in circuit is none.
    #[error("the circuit of the known answer: {0}")]
    Circuit(#[from] CircuitError),
    /// Its key cannot be made.
    #[error("the key of the known answer: {0}")]
    Key(#[from] KeyError),
    /// The CPU has no proof.
    #[error("the CPU does not make the known answer: {0}")]
    Prove(#[from] ProveError),
    /// The CPU's proof does not verify.
    #[error("the CPU's known answer does not verify: {0}")]
    Verify(#[from] VerifyError),
    /// The device has no proof.
    #[error("it does not make the known answer: {0}")]
    Device(#[from] DeviceError),
    /// The device has another proof.
    #[error("its proof is not the known answer: found {}…, wanted {}…", start(found), start(wanted))]
    Differs {
        /// The device's proof.
        found: Box<Proof>,
        /// The CPU's.
        wanted: Box<Proof>,
    },
}

/// The first bytes of a proof, in hexadecimal.
fn start(proof: &Proof) -> String {
    proof.to_bytes().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Public, as everything here: nothing is hidden by this proof.
fn randomness() -> Randomness {
    Randomness::fixed_for_tests(Fr::from_u64(0x5eed), -Fr::from_u64(0xb11d))
}

impl KnownAnswer {
    /// Of a circuit of about `rows` constraints (4 at least): bits, small and whole values, and rows from
    /// one entry to one for each variable.
    ///
    /// # Errors
    /// [`KnownAnswerError`], if something is wrong with this build.
    pub fn new(rows: usize) -> Result<Self, KnownAnswerError> {
        let (circuit, z) = circuit(rows.max(4))?;
        let key = insecure_setup(&circuit, *b"the known answer is no secret at")?;
        let (never, mut timeline) = (CancelToken::new(), Timeline::new());
        let proof = CpuProver::prove(&circuit, &key, &z, randomness(), &never, &mut timeline, &mut |_| {})?;
        PreparedVerifyingKey::new(&key.vk).verify(&proof, &z[1..INPUTS])?;
        let witness = z.iter().flat_map(|value| value.to_le_bytes()).collect();
        Ok(Self { circuit, key, witness, proof })
    }

    /// Has a device make the proof, and compares.
    ///
    /// # Errors
    /// [`KnownAnswerError::Device`] and [`KnownAnswerError::Differs`].
    pub fn check<Q: Queue>(&self, prover: &mut DeviceProver<Q>) -> Result<(), KnownAnswerError> {
        let ids = ContentIds { circuit: self.circuit.id(), key: self.key.id };
        let job = ProofJob {
            circuit: &self.circuit,
            key: &self.key,
            encoding: WitnessEncoding::Canonical,
            witness: &&self.witness[..],
            upload: Upload::Staged(&mut [0; STAGING]),
            randomness: randomness(),
            cancel: &CancelToken::new(),
            timeline: &mut Timeline::new(),
            on_stage: &mut |_| {},
        };
        // SAFETY: the ids are of this circuit and key; nothing is copied from a mapping.
        let (found, _) = unsafe { prover.prove(ids, job) }?;
        if found != self.proof {
            let (found, wanted) = (Box::new(found), Box::new(self.proof));
            return Err(KnownAnswerError::Differs { found, wanted });
        }
        Ok(())
    }
}

/// The circuit and its assignment. Each row but the last has a variable of its own.
fn circuit(rows: usize) -> Result<(Circuit, Vec<Canonical>), CircuitError> {
    let one = Fr::ONE;
    let mut builder = CircuitBuilder::new(INPUTS, rows);
    let mut z = vec![one, Fr::from_u64(0x00c0_ffee_0000_0001)];
    let evaluate = |z: &[Fr], row: &[(u32, Fr)]| {
        row.iter().fold(Fr::ZERO, |sum, (variable, coefficient)| sum + *coefficient * z[*variable as usize])
    };
    for row in 0..rows {
        let new = z.len() as u32;
        let small = Fr::from_u64(row as u64 + 2);
        match row % 4 {
            // A bit.
            0 => {
                z.push(if row % 8 == 0 { one } else { Fr::ZERO });
                builder.constraint(&[(new, one)], &[(0, one), (new, -one)], &[])?;
            }
            // A small constant.
            1 => {
                z.push(small);
                builder.constraint(&[(0, small)], &[(0, one)], &[(new, one)])?;
            }
            // A product of earlier variables, and a square: soon they are as large as the field.
            kind => {
                let a = [(1, small), (new - 1, one)];
                let b = if kind == 2 { [(0, one), (new - 3, small)] } else { a };
                z.push(evaluate(&z, &a) * evaluate(&z, &b));
                builder.constraint(&a, &b, &[(new, one)])?;
            }
        }
    }
    // One row of everything.
    let all: Vec<_> = (0..z.len() as u32).map(|variable| (variable, one)).collect();
    builder.constraint(&all, &[(0, one)], &[(0, evaluate(&z, &all))])?;
    Ok((builder.finish()?, z.into_iter().map(Fr::to_canonical).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_answer_is_one_and_always_the_same() {
        for rows in [0, 5, 16, 1100] {
            let (circuit, z) = circuit(rows.max(4)).unwrap();
            assert_eq!(circuit.first_unsatisfied(&z, &CancelToken::new()), Ok(None));
            let [one, other] = [(); 2].map(|()| KnownAnswer::new(rows).unwrap());
            assert!(one.proof == other.proof && one.witness == other.witness && one.key.id == other.key.id);
        }
        let (_, z) = circuit(1100).unwrap();
        let whole = z.iter().filter(|value| value.limbs()[3] != 0).count();
        let bits = z.iter().filter(|value| value.limbs()[0] < 2 && value.limbs()[1..] == [0; 3]).count();
        assert!(whole > 400 && bits > 200, "{whole}, {bits}");
    }
}
