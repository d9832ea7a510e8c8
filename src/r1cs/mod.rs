//! Rank-1 constraint systems: compiled circuits, recorded from Rust or read from files, and the
//! writers that put witnesses into memory.
//!
//! `witness` and the witness recorders need no prover; the rest does.
#[cfg(feature = "prover")]
pub mod circuit;
#[cfg(feature = "prover")]
pub mod file;
#[cfg(feature = "prover")]
pub mod matrix;
#[cfg(any(feature = "bellman", feature = "bellpepper"))]
pub mod recorder;
pub mod witness;

#[cfg(feature = "prover")]
pub use circuit::{Circuit, CircuitBuilder, Density};
#[cfg(feature = "prover")]
pub use matrix::Matrix;
pub use witness::{WitnessEncoding, WitnessError, WitnessRegion};
