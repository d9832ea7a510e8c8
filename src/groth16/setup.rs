//! A trusted setup for tests: whoever runs it knows the trapdoor and can forge proofs.
use super::ProvingKey;
use crate::r1cs::Circuit;
/// Writes/returns a bellman-style key. Same seed, same key. INSECURE.
pub fn insecure_setup(_circuit: &Circuit, _seed: [u8; 32]) -> Result<ProvingKey, super::KeyError> {
    todo!()
}
