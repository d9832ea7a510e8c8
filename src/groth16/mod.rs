//! Groth16 (Groth, "On the Size of Pairing-based Non-interactive Arguments", EUROCRYPT 2016) over
//! BLS12-381: keys, the CPU prover, the verifier and an insecure setup for tests.
pub mod blinding;
pub mod key;
pub mod proof;
pub mod prover;
pub mod setup;
pub mod timeline;
pub mod verifier;

pub use blinding::Randomness;
pub use blinding::Sums;
pub use key::{HBasis, KeyError, ProvingKey, Query, VerifyingKey};
pub use proof::{Proof, ProofError};
pub use prover::{CpuProver, ProveError};
pub use timeline::{Span, Stage, Timeline};
pub use verifier::{PreparedVerifyingKey, VerifiedProof, VerifyError};
