//! The flow of work in a status: what waits in which queue, and what is done with the witness buffers in flight.
use crate::proto::{
    Priority, cuzk_capnp,
    messages::wire::{self, DecodeProblem},
};
use std::time::Duration;

/// The partitions of one priority that wait for a prover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// The priority.
    pub priority: Priority,
    /// How many partitions.
    pub partitions: u32,
    /// Of how many users.
    pub users: u32,
    /// How long the one that has waited longest has waited, in whole milliseconds.
    pub oldest: Duration,
}

impl QueueStatus {
    pub(super) fn write(&self, mut to: cuzk_capnp::queue_status::Builder<'_>) {
        to.set_priority(self.priority.to_wire());
        to.set_partitions(self.partitions);
        to.set_users(self.users);
        to.set_oldest_ms(wire::milliseconds(self.oldest));
    }

    pub(super) fn read(from: cuzk_capnp::queue_status::Reader<'_>) -> Result<Self, DecodeProblem> {
        Ok(Self {
            priority: Priority::from_wire(from.get_priority())?,
            partitions: from.get_partitions(),
            users: from.get_users(),
            oldest: Duration::from_millis(from.get_oldest_ms()),
        })
    }
}

/// Witness buffers with which the same is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageBuffers {
    /// `witness` (the client has it), `queued`, or the stage of the proof.
    pub stage: String,
    /// How many buffers.
    pub buffers: u32,
    /// Their bytes.
    pub bytes: u64,
}

impl StageBuffers {
    pub(super) fn write(&self, mut to: cuzk_capnp::stage_buffers::Builder<'_>) {
        to.set_stage(&self.stage[..]);
        to.set_buffers(self.buffers);
        to.set_bytes(self.bytes);
    }

    pub(super) fn read(from: cuzk_capnp::stage_buffers::Reader<'_>) -> Result<Self, DecodeProblem> {
        Ok(Self {
            stage: wire::text("stage", from.get_stage())?,
            buffers: from.get_buffers(),
            bytes: from.get_bytes(),
        })
    }
}
