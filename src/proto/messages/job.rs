//! Jobs: the submission of their partitions, their progress and their proofs.
use super::{
    ContentId, IdempotencyKey, JobId,
    wire::{self, DecodeProblem, wire_enum},
};
use crate::{
    proto::{MAX_INLINE_INPUT_BYTES, MAX_PARTITIONS, PROTOCOL_VERSION, cuzk_capnp},
    r1cs::WitnessEncoding,
};
use std::time::Duration;

wire_enum! {
    /// How urgent a job is.
    #[derive(PartialOrd, Ord, Default)]
    Priority, "priority" {
        /// When nothing else is to be done.
        Low = "low",
        /// The usual.
        #[default]
        Normal = "normal",
        /// Before the usual.
        High = "high",
        /// Before all others, e.g. a WinningPoSt.
        Critical = "critical",
    }
}

wire_enum! {
    /// How far a partition is.
    PartitionState, "state" {
        /// Not submitted yet.
        Missing = "missing",
        /// Waiting for a prover.
        Queued = "queued",
        /// Being proved.
        Running = "running",
        /// Proved and verified.
        Proved = "proved",
        /// Failed for good.
        Failed = "failed",
        /// Cancelled.
        Cancelled = "cancelled",
    }
}

/// One partition of a job; the first one with a key makes the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submit {
    /// Names the job.
    pub key: IdempotencyKey,
    /// The circuit's name.
    pub circuit: String,
    /// The circuit that the witness was made for; None: whatever the daemon has.
    pub circuit_id: Option<ContentId>,
    /// Index of the partition, from 0.
    pub partition: u32,
    /// Partitions of the job.
    pub partitions: u32,
    /// Urgency of the job.
    pub priority: Priority,
    /// How the witness is encoded.
    pub encoding: WitnessEncoding,
    /// Where the witness is.
    pub witness: WitnessSource,
    /// Bytes of the encoded witness.
    pub length: u64,
    /// How long after its first partition is accepted the job's result is of any use, in whole milliseconds;
    /// None: for ever. The partition that is accepted first says it for all.
    pub deadline: Option<Duration>,
}

/// Where a submitted witness is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WitnessSource {
    /// In the lease with this id.
    Lease(u64),
    /// In the memfd that comes with the request, from this offset on (a multiple of the page size).
    Memfd {
        /// Where it begins.
        offset: u64,
    },
}

fn encoding_to_wire(encoding: WitnessEncoding) -> cuzk_capnp::WitnessEncoding {
    match encoding {
        WitnessEncoding::Canonical => cuzk_capnp::WitnessEncoding::Canonical,
        WitnessEncoding::Montgomery => cuzk_capnp::WitnessEncoding::Montgomery,
        WitnessEncoding::Packed => cuzk_capnp::WitnessEncoding::Packed,
    }
}

fn encoding_from_wire(
    encoding: Result<cuzk_capnp::WitnessEncoding, capnp::NotInSchema>,
) -> Result<WitnessEncoding, DecodeProblem> {
    match encoding {
        Ok(cuzk_capnp::WitnessEncoding::Canonical) => Ok(WitnessEncoding::Canonical),
        Ok(cuzk_capnp::WitnessEncoding::Montgomery) => Ok(WitnessEncoding::Montgomery),
        Ok(cuzk_capnp::WitnessEncoding::Packed) => Ok(WitnessEncoding::Packed),
        Err(capnp::NotInSchema(found)) => Err(DecodeProblem::UnknownValue { field: "encoding", found }),
    }
}

impl Submit {
    pub(super) fn write(&self, mut to: cuzk_capnp::submit::Builder<'_>) {
        to.set_key(self.key.as_bytes());
        to.set_circuit(&self.circuit[..]);
        to.set_circuit_id(ContentId::bytes_or_empty(&self.circuit_id));
        to.set_partition(self.partition);
        to.set_partitions(self.partitions);
        to.set_priority(self.priority.to_wire());
        to.set_encoding(encoding_to_wire(self.encoding));
        to.set_length(self.length);
        to.set_deadline_ms(wire::deadline_ms(self.deadline));
        let mut witness = to.init_witness();
        match self.witness {
            WitnessSource::Lease(lease) => witness.set_lease(lease),
            WitnessSource::Memfd { offset } => witness.init_memfd().set_offset(offset),
        }
    }

    pub(super) fn read(from: cuzk_capnp::submit::Reader<'_>) -> Result<Self, DecodeProblem> {
        use cuzk_capnp::submit::witness::Which;
        let witness = match from.get_witness().which() {
            Ok(Which::Lease(lease)) => WitnessSource::Lease(lease),
            Ok(Which::Memfd(range)) => WitnessSource::Memfd { offset: range?.get_offset() },
            Err(capnp::NotInSchema(found)) => {
                return Err(DecodeProblem::UnknownMessage { found, version: PROTOCOL_VERSION });
            }
        };
        Ok(Self {
            key: IdempotencyKey::read("key", from.get_key())?,
            circuit: wire::name("circuit", from.get_circuit())?,
            circuit_id: ContentId::read_optional("circuitId", from.get_circuit_id())?,
            partition: from.get_partition(),
            partitions: from.get_partitions(),
            priority: Priority::from_wire(from.get_priority())?,
            encoding: encoding_from_wire(from.get_encoding())?,
            witness,
            length: from.get_length(),
            deadline: wire::deadline(from.get_deadline_ms()),
        })
    }
}

/// The daemon has the partition, and holds it until its proof is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The job.
    pub job: JobId,
    /// Partitions still to be submitted.
    pub missing: u32,
}

impl Accepted {
    pub(super) fn write(&self, mut to: cuzk_capnp::accepted::Builder<'_>) {
        to.set_job(&self.job.0);
        to.set_missing(self.missing);
    }

    pub(super) fn read(from: cuzk_capnp::accepted::Reader<'_>) -> Result<Self, DecodeProblem> {
        Ok(Self { job: JobId::read("job", from.get_job())?, missing: from.get_missing() })
    }
}

/// Asks for a job's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwaitRequest {
    /// The job.
    pub job: JobId,
    /// Also tell each partition's state, now and when it changes.
    pub progress: bool,
}

impl AwaitRequest {
    pub(super) fn write(&self, mut to: cuzk_capnp::await_request::Builder<'_>) {
        to.set_job(&self.job.0);
        to.set_progress(self.progress);
    }

    pub(super) fn read(from: cuzk_capnp::await_request::Reader<'_>) -> Result<Self, DecodeProblem> {
        Ok(Self { job: JobId::read("job", from.get_job())?, progress: from.get_progress() })
    }
}

/// A partition's present state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The job.
    pub job: JobId,
    /// Index of the partition, from 0.
    pub partition: u32,
    /// How far it is.
    pub state: PartitionState,
    /// The prover's stage while running, otherwise empty; the schema lists them.
    pub stage: String,
}

impl Progress {
    pub(super) fn write(&self, mut to: cuzk_capnp::progress::Builder<'_>) {
        to.set_job(&self.job.0);
        to.set_partition(self.partition);
        to.set_state(self.state.to_wire());
        to.set_stage(&self.stage[..]);
    }

    pub(super) fn read(from: cuzk_capnp::progress::Reader<'_>) -> Result<Self, DecodeProblem> {
        Ok(Self {
            job: JobId::read("job", from.get_job())?,
            partition: from.get_partition(),
            state: PartitionState::from_wire(from.get_state())?,
            stage: wire::text("stage", from.get_stage())?,
        })
    }
}

/// A finished job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobResult {
    /// The job.
    pub job: JobId,
    /// The circuit's name.
    pub circuit: String,
    /// BLAKE3 of the compiled circuit.
    pub circuit_id: ContentId,
    /// BLAKE3 of the key file.
    pub key_id: ContentId,
    /// The daemon's build id.
    pub build: String,
    /// Which prover made the proofs, e.g. `cpu`.
    pub backend: String,
    /// One proof a partition, in their order.
    pub proofs: Vec<PartitionProof>,
}

impl JobResult {
    pub(super) fn write(&self, mut to: cuzk_capnp::job_result::Builder<'_>) {
        to.set_job(&self.job.0);
        to.set_circuit(&self.circuit[..]);
        to.set_circuit_id(&self.circuit_id.0);
        to.set_key_id(&self.key_id.0);
        to.set_build(&self.build[..]);
        to.set_backend(&self.backend[..]);
        let mut proofs = to.init_proofs(wire::count(&self.proofs));
        for (proof, index) in self.proofs.iter().zip(0..) {
            proof.write(proofs.reborrow().get(index));
        }
    }

    pub(super) fn read(
        from: cuzk_capnp::job_result::Reader<'_>,
        max_entries: u32,
    ) -> Result<Self, DecodeProblem> {
        let list = from.get_proofs()?;
        let mut proofs =
            Vec::with_capacity(wire::entries("proofs", list.len(), MAX_PARTITIONS.min(max_entries))?);
        for proof in list {
            proofs.push(PartitionProof::read(proof, max_entries)?);
        }
        Ok(Self {
            job: JobId::read("job", from.get_job())?,
            circuit: wire::name("circuit", from.get_circuit())?,
            circuit_id: ContentId::read("circuitId", from.get_circuit_id())?,
            key_id: ContentId::read("keyId", from.get_key_id())?,
            build: wire::text("build", from.get_build())?,
            backend: wire::text("backend", from.get_backend())?,
            proofs,
        })
    }
}

/// One partition's proof, verified by the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionProof {
    /// a ‖ b ‖ c in bellman's compressed encoding: 48 + 96 + 48 bytes.
    pub proof: [u8; 192],
    /// BLAKE3 of the public inputs, 32-byte little-endian each, without the leading 1.
    pub public_inputs_hash: ContentId,
    /// The inputs themselves, 32-byte little-endian each. Empty where there are none, or where they exceed
    /// [`MAX_INLINE_INPUT_BYTES`].
    pub public_inputs: Vec<[u8; 32]>,
    /// 1, or 2 after a failed self-check.
    pub attempts: u32,
    /// Where the time went.
    pub timeline: Vec<Span>,
}

impl PartitionProof {
    fn write(&self, mut to: cuzk_capnp::partition_proof::Builder<'_>) {
        to.set_proof(&self.proof);
        to.set_public_inputs_hash(&self.public_inputs_hash.0);
        to.set_public_inputs(self.public_inputs.as_flattened());
        to.set_attempts(self.attempts);
        let mut timeline = to.init_timeline(wire::count(&self.timeline));
        for (span, index) in self.timeline.iter().zip(0..) {
            let mut to = timeline.reborrow().get(index);
            to.set_stage(&span.stage[..]);
            to.set_start_ns(nanoseconds(span.start));
            to.set_duration_ns(nanoseconds(span.duration));
        }
    }

    fn read(from: cuzk_capnp::partition_proof::Reader<'_>, max_entries: u32) -> Result<Self, DecodeProblem> {
        let inputs = from.get_public_inputs()?;
        let (public_inputs, rest) = inputs.as_chunks::<32>();
        if inputs.len() > MAX_INLINE_INPUT_BYTES || !rest.is_empty() {
            return Err(DecodeProblem::FieldLength {
                field: "publicInputs",
                found: inputs.len(),
                wanted: "a multiple of 32, at most 32768",
            });
        }
        let list = from.get_timeline()?;
        let mut timeline = Vec::with_capacity(wire::entries("timeline", list.len(), max_entries)?);
        for span in list {
            timeline.push(Span {
                stage: wire::text("stage", span.get_stage())?,
                start: Duration::from_nanos(span.get_start_ns()),
                duration: Duration::from_nanos(span.get_duration_ns()),
            });
        }
        Ok(Self {
            proof: wire::fixed("proof", from.get_proof(), "192")?,
            public_inputs_hash: ContentId::read("publicInputsHash", from.get_public_inputs_hash())?,
            public_inputs: public_inputs.to_vec(),
            attempts: from.get_attempts(),
            timeline,
        })
    }
}

/// A stretch of a partition's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The stage's name; the schema lists them.
    pub stage: String,
    /// From the partition's submission to the stage's start.
    pub start: Duration,
    /// How long the stage took.
    pub duration: Duration,
}

/// 2^64 ns are 584 years: what does not fit is not a duration of a job.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
