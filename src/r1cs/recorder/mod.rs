//! Recorders that implement bellman's and bellpepper-core's `ConstraintSystem`: one for the circuit,
//! once per shape, and one for the witness, once per proof.
//!
//! The shape recorder never calls the closures that compute values, so it works on blank circuits.
//! The witness writer calls nothing else: `enforce` does nothing, and each value goes straight to where
//! it is wanted.
#[cfg(feature = "prover")]
mod shape;
mod values;

#[cfg(all(feature = "bellman", feature = "prover"))]
pub use shape::bellman::record_bellman;
#[cfg(all(feature = "bellpepper", feature = "prover"))]
pub use shape::bellpepper::record_bellpepper;
#[cfg(feature = "bellman")]
pub use values::bellman::write_bellman_witness;
#[cfg(feature = "bellpepper")]
pub use values::bellpepper::write_bellpepper_witness;

use super::WitnessError;

/// r in hexadecimal, as `PrimeField::MODULUS` states it.
const MODULUS_HEX: &str = "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001";

/// Why a circuit cannot be recorded, or its witness not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The circuit is over another field.
    #[error("the circuit's field has the modulus {found}, wanted BLS12-381's scalar field, {MODULUS_HEX}")]
    Field {
        /// `PrimeField::MODULUS` of the circuit's field.
        found: &'static str,
    },
    /// The field's implementation does not encode elements as bls12_381, blstrs and pasta do.
    #[error("the circuit's field does not encode its elements as 32 little-endian bytes below r")]
    Representation,
    /// The circuit's own synthesis failed.
    #[error("synthesis failed: {0}")]
    Synthesis(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What was recorded is no circuit.
    #[cfg(feature = "prover")]
    #[error(transparent)]
    Circuit(#[from] super::CircuitError),
    /// The values do not make the witness that was wanted.
    #[error(transparent)]
    Witness(#[from] WitnessError),
}

/// Checks that a field is BLS12-381's scalar field by its modulus in hexadecimal, and that its
/// implementation encodes 1 in 32 little-endian bytes.
fn check_field(modulus: &'static str, one: &[u8]) -> Result<(), RecordError> {
    if !modulus.trim_start_matches("0x").eq_ignore_ascii_case(MODULUS_HEX) {
        return Err(RecordError::Field { found: modulus });
    }
    if one == super::witness::ONE_BYTES { Ok(()) } else { Err(RecordError::Representation) }
}

/// The encoding of an element of a field that [`check_field`] accepts.
fn canonical_bytes(repr: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (byte, repr) in bytes.iter_mut().zip(repr) {
        *byte = *repr;
    }
    bytes
}
