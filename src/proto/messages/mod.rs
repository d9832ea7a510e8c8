//! The messages as plain types, one file a subject, and their encoding.
//!
//! A message on the wire is a segment table for one segment, then the segment. Decoding copies it into
//! aligned private memory, bounds what a reader may traverse by the message's own size (so no pointer
//! can make a small message look large), and checks every field against the schema's limits. It
//! never panics and allocates in proportion to the bytes received.
mod circuit;
mod error;
mod ids;
mod job;
mod reply;
mod request;
mod status;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

pub use circuit::{CircuitInfo, KeyTier, Lease, LeaseRequest};
pub use error::{ErrorCode, ProtocolError, Retry};
pub use ids::{ContentId, IdempotencyKey, InstanceId, InvalidId, JobId};
pub use job::{
    Accepted, AwaitRequest, JobResult, PartitionProof, PartitionState, Priority, Progress, Span, Submit,
    WitnessSource,
};
pub use reply::{Reply, ReplyBody, Welcome};
pub use request::{Hello, Request, RequestBody, TraceRequest};
pub use status::{
    BackendState, BackendStatus, Counters, CurrentPartition, DaemonState, IdleTimes, JobStatus, MemoryStatus,
    PartitionStatus, QueueStatus, StageBuffers, Status,
};
pub use wire::{DecodeError, DecodeProblem};
