//! What a device must do to prove: the interface between the worker, which owns a partition from queue to
//! verdict, and whatever computes the proof.
use super::witness::{ReadError, Witness};
use crate::algebra::{CancelToken, Canonical};
use crate::gpu::prover::DeviceError;
use crate::groth16::{Proof, ProveError, ProvingKey, Randomness, Stage, Timeline};
use crate::proto::{ContentId, Priority};
use crate::r1cs::Circuit;

/// One proof to be made.
pub struct ProofRequest<'a> {
    /// The circuit's name.
    pub name: &'a str,
    /// What is proved.
    pub circuit: &'a Circuit,
    /// BLAKE3 of it.
    pub circuit_id: ContentId,
    /// With which key.
    pub key: &'a ProvingKey,
    /// The witness in shared memory: untrusted, and to be read once.
    pub witness: &'a Witness,
    /// How urgent it is.
    pub priority: Priority,
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
    /// The device has no proof this time.
    #[error(transparent)]
    Device(DeviceError),
    /// The device is gone for good, and with it whatever this process had on it.
    #[error("the device is lost: {0}")]
    Lost(DeviceError),
}

/// What a backend has of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceUse {
    /// Model, UUID and PCI address.
    pub device: String,
    /// Bytes of its memory that are taken.
    pub memory: u64,
    /// Those of them that circuits and keys keep.
    pub memory_kept: u64,
    /// Names of the circuits that are on the device.
    pub circuits: Vec<String>,
}

/// A prover that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name, as it would be in results.
    pub name: String,
    /// Model, UUID and PCI address of the device.
    pub device: String,
    /// Why it is not used.
    pub why: String,
}

/// A prover on some device. Its workers call it, each with one proof at a time.
pub trait Backend: Send + Sync {
    /// Its name in results and status, e.g. "cpu".
    fn name(&self) -> &str;

    /// Why this backend and no other, for status.
    fn why(&self) -> &str;

    /// Bytes of host memory that a proof takes beside circuit, key and shared witness. They are set aside
    /// when the circuit is loaded and charged before the proof starts.
    fn working_bytes(&self, circuit: &Circuit, key: &ProvingKey) -> u64;

    /// How many partitions it takes on at once, one worker each.
    fn slots(&self) -> usize {
        1
    }

    /// Whether assembly and verification, which are always the host's work, take the prover's own time.
    fn is_host(&self) -> bool {
        false
    }

    /// Whether it proves with this circuit and key without loading them first.
    fn has(&self, _circuit_id: ContentId, _key: &ProvingKey) -> bool {
        true
    }

    /// What it has of a device, as it is now; None for the CPU.
    fn device_use(&self) -> Option<DeviceUse> {
        None
    }

    /// Whether it can prove with this circuit and key at all.
    ///
    /// # Errors
    /// A sentence with the figures.
    fn accepts(&self, _circuit: &Circuit, _key: &ProvingKey) -> Result<(), String> {
        Ok(())
    }

    /// Makes a proof. It may be wrong: the worker verifies it.
    ///
    /// # Errors
    /// [`BackendError`].
    fn prove(&self, request: ProofRequest<'_>) -> Result<Claim, BackendError>;
}
