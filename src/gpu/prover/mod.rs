//! The prover on a device: the CPU prover's stages as launches on one queue.
//!
//! A circuit and its key are loaded once ([`Loaded`]), as a plan says; a proof copies the witness, and at
//! its end a few sums come back for the last additions and the blinding, which are the CPU prover's own.
//! A [`DeviceProver`] keeps several circuits on a device, and has to give a [`KnownAnswer`] first.
mod known_answer;
mod layout;
mod load;
mod plan;
mod prove;
mod resident;
mod shape;
mod tables;

pub use known_answer::{KnownAnswer, KnownAnswerError};
pub use load::{LoadPlan, Loaded};
pub use plan::{MULTIPLES, Piece, ProofPlan, Residence};
pub use prove::{DeviceError, ProofJob, Upload};
pub use resident::{ContentIds, DeviceProver};
pub use shape::{MatrixShape, ProofShape, QueryShape, ShapeError};
pub use tables::Tables;
