//! The prover on a device: the CPU prover's stages as launches on one queue.
//!
//! A circuit and its key are loaded once ([`Loaded`]), as a plan says; a proof copies the witness, and at
//! its end a few sums come back for the last additions and the blinding, which are the CPU prover's own.
mod load;
mod plan;
mod prove;
mod shape;

pub use load::Loaded;
pub use plan::{Piece, ProofPlan, Residence};
pub use prove::{DeviceError, ProofJob};
pub use shape::{MatrixShape, ProofShape, QueryShape, ShapeError};
