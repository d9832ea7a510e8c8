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

/// Host memory for a witness on its way where the device cannot copy it by itself.
pub const STAGING_BYTES: usize = 4 << 20;
/// Host memory for what is made while a circuit is loaded: the roots of unity and the list of long rows.
pub const LOADING_BYTES: u64 = 64 << 20;
