//! What a device must do to prove: the interface between the worker, which owns a partition from queue to
//! verdict, and whatever computes the proof.
use super::witness::{ReadError, Witness};
use crate::algebra::{CancelToken, Canonical};
use crate::groth16::{Proof, ProveError, ProvingKey, Randomness, Stage, Timeline};
use crate::r1cs::Circuit;

/// One proof to be made.
pub struct ProofRequest<'a> {
    /// What is proved.
    pub circuit: &'a Circuit,
    /// With which key.
    pub key: &'a ProvingKey,
    /// The witness in shared memory: untrusted, and to be read once.
    pub witness: &'a Witness,
    /// Blinding.
    pub randomness: Randomness,
    /// To be looked at between bounded pieces of work; the looks are the worker's heartbeat.
    pub cancel: &'a CancelToken,
    /// Takes the stages' times.
    pub timeline: &'a mut Timeline,
    /// Is told when a stage begins.
    pub on_stage: &'a mut (dyn FnMut(Stage) + Send),
}

/// A proof that nobody has verified yet.
pub struct Claim {
    /// The proof.
    pub proof: Proof,
    /// The public inputs that it was made for, as read from the witness, without ONE.
    pub inputs: Vec<Canonical>,
}

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The witness cannot be had, or the result is no longer wanted.
    #[error(transparent)]
    Witness(#[from] ReadError),
    /// The prover gave up.
    #[error(transparent)]
    Prove(#[from] ProveError),
}

/// A prover on some device. A worker thread calls it, one proof at a time.
pub trait Backend: Send + Sync {
    /// Its name in results and status, e.g. "cpu".
    fn name(&self) -> &str;

    /// Why this backend and no other, for status.
    fn why(&self) -> &str;

    /// Bytes of host memory that a proof takes beside circuit, key and shared witness. They are set aside
    /// when the circuit is loaded and charged before the proof starts.
    fn working_bytes(&self, circuit: &Circuit, key: &ProvingKey) -> u64;

    /// Makes a proof. It may be wrong: the worker verifies it.
    ///
    /// # Errors
    /// [`BackendError`].
    fn prove(&self, request: ProofRequest<'_>) -> Result<Claim, BackendError>;
}
