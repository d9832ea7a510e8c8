//! Rank-1 constraint systems: compiled circuits, recorded from Rust or read from files, and the
//! writers that put witnesses into memory.
//!
//! `witness`, `packed` and the witness writers of `recorder` need no prover; the rest does.
#[cfg(feature = "prover")]
pub mod builder;
#[cfg(feature = "prover")]
pub mod circuit;
#[cfg(feature = "prover")]
pub mod decode;
#[cfg(feature = "prover")]
pub mod density;
#[cfg(feature = "prover")]
pub mod file;
#[cfg(feature = "prover")]
pub(crate) mod identity;
#[cfg(feature = "prover")]
pub mod matrix;
pub mod packed;
#[cfg(any(feature = "bellman", feature = "bellpepper"))]
pub mod recorder;
#[cfg(feature = "prover")]
pub(crate) mod store;
#[cfg(test)]
#[cfg(feature = "prover")]
mod test_circuits;
pub mod witness;

#[cfg(feature = "prover")]
pub use builder::CircuitBuilder;
#[cfg(feature = "prover")]
pub use circuit::{Circuit, CircuitError};
#[cfg(feature = "prover")]
pub use decode::{WitnessBytes, decode_into};
#[cfg(feature = "prover")]
pub use density::Density;
#[cfg(feature = "prover")]
pub use matrix::Matrix;
pub use packed::PackedWriter;
pub use witness::{WitnessEncoding, WitnessError, WitnessRegion, WitnessSink};
