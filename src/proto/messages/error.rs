//! Failures on the wire: a stable code, a sentence, and whether to retry.
use super::wire::{self, DecodeError, DecodeProblem, wire_enum};
use crate::{
    proto::{DescriptorError, cuzk_capnp},
    shm::Refusal,
};
use std::time::Duration;

wire_enum! {
    /// What failed; the schema says when each is sent.
    ErrorCode, "code" {
        /// A fault of the daemon's own.
        Internal = "internal",
        /// The packet is no valid message, or a field is outside what the schema allows.
        Malformed = "malformed",
        /// `hello` named a protocol version that the daemon does not speak.
        UnsupportedVersion = "unsupportedVersion",
        /// Something came before `hello`.
        HelloExpected = "helloExpected",
        /// A request that this version does not know.
        UnsupportedRequest = "unsupportedRequest",
        /// More descriptors than a packet may carry.
        TooManyDescriptors = "tooManyDescriptors",
        /// The kernel truncated the control data: descriptors were lost.
        ControlTruncated = "controlTruncated",
        /// The request wants a descriptor and came without.
        DescriptorMissing = "descriptorMissing",
        /// The request came with descriptors that it has no use for.
        DescriptorUnexpected = "descriptorUnexpected",
        /// The peer may not do this.
        PermissionDenied = "permissionDenied",
        /// A limit for one user is reached.
        QuotaExceeded = "quotaExceeded",
        /// Memory is short just now, or the queue is long.
        Busy = "busy",
        /// The daemon is stopping.
        Draining = "draining",
        /// No circuit of that name is configured.
        UnknownCircuit = "unknownCircuit",
        /// The circuit is configured, but it or its key could not be loaded.
        CircuitUnavailable = "circuitUnavailable",
        /// The witness was made for another circuit than the daemon has under that name.
        CircuitChanged = "circuitChanged",
        /// Needs more memory than the budget has in all.
        NeverFits = "neverFits",
        /// No such lease on this connection.
        UnknownLease = "unknownLease",
        /// The lease holds the witness of a partition that is still being proved.
        LeaseInUse = "leaseInUse",
        /// The descriptor is no memfd.
        NotMemfd = "notMemfd",
        /// The memfd lacks a seal.
        SealMissing = "sealMissing",
        /// The memfd or the length is smaller than the witness must be.
        WitnessShort = "witnessShort",
        /// The memfd is far larger than the witness needs.
        WitnessOversized = "witnessOversized",
        /// The offset is unaligned, overflows or passes the end.
        OffsetInvalid = "offsetInvalid",
        /// The length is not the one that the circuit wants.
        WitnessLength = "witnessLength",
        /// A value of the witness is not below the field's modulus.
        NotCanonical = "notCanonical",
        /// The witness does not begin with 1.
        FirstNotOne = "firstNotOne",
        /// The packed witness is malformed.
        PackedInvalid = "packedInvalid",
        /// The witness does not satisfy the circuit.
        Unsatisfied = "unsatisfied",
        /// The proof did not verify, twice, and the witness is not known to be at fault.
        SelfCheckFailed = "selfCheckFailed",
        /// The idempotency key names a job with another circuit, number of partitions or priority.
        KeyConflict = "keyConflict",
        /// The partition's index or number is out of range.
        PartitionInvalid = "partitionInvalid",
        /// No job has that id or key.
        UnknownJob = "unknownJob",
        /// The job was cancelled.
        JobCancelled = "jobCancelled",
        /// A device ran out of memory in the middle of a proof.
        DeviceMemory = "deviceMemory",
        /// The job was not done in the time that its owner gave it.
        DeadlineExceeded = "deadlineExceeded",
        /// The job is from before the daemon's start, which was not handed it: submit it again.
        JobLost = "jobLost",
        /// The daemon died each time it proved a partition of the job.
        DaemonDied = "daemonDied",
    }
}

wire_enum! {
    /// Whether the same request may succeed when it is made again.
    Retry, "retry" {
        /// It will fail again.
        Never = "never",
        /// It may succeed later.
        Later = "later",
        /// It may succeed on a new connection: the daemon is restarting.
        Reconnect = "reconnect",
    }
}

impl ErrorCode {
    /// Whether a failure with this code is worth another attempt.
    pub const fn retry(self) -> Retry {
        match self {
            Self::Busy | Self::QuotaExceeded | Self::LeaseInUse | Self::JobLost => Retry::Later,
            Self::Draining => Retry::Reconnect,
            _ => Retry::Never,
        }
    }
}

/// A failure as the protocol states it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProtocolError {
    /// What failed.
    pub code: ErrorCode,
    /// One sentence that names the thing, the value found and the value wanted.
    pub message: String,
    /// Whether to try again.
    pub retry: Retry,
    /// When to try again, at the earliest; whole milliseconds. Zero: no hint.
    pub retry_after: Duration,
    /// `NotCanonical`: the value's index in z. `Unsatisfied`: the first unsatisfied constraint. Otherwise 0.
    pub index: u64,
    /// The partition at fault, for failures that answer `await`.
    pub partition: u32,
    /// Partitions that wait for a prover, where that is why.
    pub queue_length: u32,
}

impl ProtocolError {
    /// A failure with its code's usual advice on retrying.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retry: code.retry(),
            retry_after: Duration::ZERO,
            index: 0,
            partition: 0,
            queue_length: 0,
        }
    }

    /// The same with the index of the value or constraint at fault.
    pub fn with_index(self, index: u64) -> Self {
        Self { index, ..self }
    }

    /// The same with the partition at fault.
    pub fn with_partition(self, partition: u32) -> Self {
        Self { partition, ..self }
    }

    /// The same with a hint when to retry.
    pub fn with_retry_after(self, retry_after: Duration) -> Self {
        Self { retry_after, ..self }
    }

    /// The same with the length of the queue.
    pub fn with_queue_length(self, queue_length: u32) -> Self {
        Self { queue_length, ..self }
    }

    pub(super) fn write(&self, mut to: cuzk_capnp::error::Builder<'_>) {
        to.set_code(self.code.to_wire());
        to.set_message(&self.message[..]);
        to.set_retry(self.retry.to_wire());
        to.set_retry_after_ms(u32::try_from(self.retry_after.as_millis()).unwrap_or(u32::MAX));
        to.set_index(self.index);
        to.set_partition(self.partition);
        to.set_queue_length(self.queue_length);
    }

    pub(super) fn read(from: cuzk_capnp::error::Reader<'_>) -> Result<Self, DecodeProblem> {
        Ok(Self {
            code: ErrorCode::from_wire(from.get_code())?,
            message: wire::text("message", from.get_message())?,
            retry: Retry::from_wire(from.get_retry())?,
            retry_after: Duration::from_millis(from.get_retry_after_ms().into()),
            index: from.get_index(),
            partition: from.get_partition(),
            queue_length: from.get_queue_length(),
        })
    }
}

impl From<DecodeError> for ProtocolError {
    fn from(error: DecodeError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<Refusal> for ProtocolError {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::NotMemfd { .. } => ErrorCode::NotMemfd,
            Refusal::SealMissing { .. } => ErrorCode::SealMissing,
            Refusal::Short { .. } => ErrorCode::WitnessShort,
            Refusal::Oversized { .. } => ErrorCode::WitnessOversized,
            Refusal::OffsetUnaligned { .. } | Refusal::PastEnd { .. } => ErrorCode::OffsetInvalid,
            Refusal::Io(_) => ErrorCode::Internal,
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<DescriptorError> for ProtocolError {
    fn from(error: DescriptorError) -> Self {
        let code = match error {
            DescriptorError::TooMany { .. } => ErrorCode::TooManyDescriptors,
            DescriptorError::Truncated => ErrorCode::ControlTruncated,
        };
        Self::new(code, error.to_string())
    }
}
