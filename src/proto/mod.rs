//! The protocol of `schema/cuzk.capnp`: packets with descriptors, and typed messages over the
//! generated code.
//!
//! The generated code stays private: everything else speaks the plain types of [`messages`], which a
//! decoder fills only after every limit of the schema has been checked.
pub mod attached;
pub mod messages;
pub mod packet;

pub use messages::{
    Accepted, AwaitRequest, BackendState, BackendStatus, CircuitInfo, ContentId, Counters, CurrentPartition,
    DaemonState, DecodeError, DecodeProblem, ErrorCode, Hello, IdempotencyKey, IdleTimes, InstanceId, JobId,
    JobResult, JobStatus, KeyTier, Lease, LeaseRequest, MemoryStatus, PartitionProof, PartitionState,
    PartitionStatus, Priority, Progress, ProtocolError, QueueStatus, Reply, ReplyBody, Request, RequestBody,
    Retry, Span, StageBuffers, Status, Submit, TraceRequest, Welcome, WitnessSource,
};
pub use packet::{DescriptorError, Packet, PacketSocket, PeerCredentials, RecvError};

/// Code generated from the schema.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub
)]
mod cuzk_capnp {
    include!(concat!(env!("OUT_DIR"), "/cuzk_capnp.rs"));
}

/// The protocol version that this build speaks.
pub const PROTOCOL_VERSION: u32 = cuzk_capnp::PROTOCOL_VERSION;
/// The longest packet, segment table included.
pub const MAX_PACKET_BYTES: usize = cuzk_capnp::MAX_PACKET_BYTES as usize;
/// The most descriptors that may accompany a packet.
pub const MAX_DESCRIPTORS: usize = cuzk_capnp::MAX_DESCRIPTORS as usize;
/// The longest reply that comes in a memfd.
pub const MAX_ATTACHED_BYTES: usize = cuzk_capnp::MAX_ATTACHED_BYTES as usize;
/// The longest name of a client or a circuit, in bytes.
pub const MAX_NAME_BYTES: usize = cuzk_capnp::MAX_NAME_BYTES as usize;
/// The longest idempotency key, in bytes.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = cuzk_capnp::MAX_IDEMPOTENCY_KEY_BYTES as usize;
/// The most partitions that a job may have.
pub const MAX_PARTITIONS: u32 = cuzk_capnp::MAX_PARTITIONS;
/// The most bytes of public inputs that a result repeats for one proof.
pub const MAX_INLINE_INPUT_BYTES: usize = cuzk_capnp::MAX_INLINE_INPUT_BYTES as usize;
