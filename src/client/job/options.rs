//! What a job is to be.
use crate::proto::{IdempotencyKey, Priority, Progress};
use std::{fmt, time::Duration};

/// What the caller wants to do with each event.
type OnProgress = Box<dyn FnMut(&Progress) + Send>;

/// What to prove, and how.
pub struct JobOptions {
    pub(super) circuit: String,
    pub(super) partitions: u32,
    pub(super) priority: Priority,
    pub(super) key: Option<IdempotencyKey>,
    pub(super) leases: usize,
    pub(super) deadline: Option<Duration>,
    pub(in crate::client) packed: bool,
    on_progress: Option<OnProgress>,
}

impl JobOptions {
    /// One partition of a circuit, with normal priority and a key that no other job has.
    pub fn new(circuit: impl Into<String>) -> Self {
        Self {
            circuit: circuit.into(),
            partitions: 1,
            priority: Priority::Normal,
            key: None,
            leases: 2,
            deadline: None,
            packed: false,
            on_progress: None,
        }
    }

    /// This many partitions, hence proofs: 1 to 1024.
    pub fn partitions(self, partitions: u32) -> Self {
        Self { partitions, ..self }
    }

    /// This urgent.
    pub fn priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// The job's name: where the daemon knows it already, only what it lacks is asked for.
    pub fn key(self, key: IdempotencyKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// The most leases to hold at a time, at least one. The default of two lets one witness be made while
    /// another is proved.
    pub fn leases(self, leases: usize) -> Self {
        Self { leases: leases.max(1), ..self }
    }

    /// The result is of no use after this long from the acceptance of the first partition: the job then fails
    /// with [`ErrorCode::DeadlineExceeded`](crate::proto::ErrorCode::DeadlineExceeded).
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Hands witnesses over in the packed encoding, made for circuits of bits, instead of 32 bytes a value.
    /// It concerns [`Client::prove_job`](crate::client::Client::prove_job), which writes them.
    pub fn packed(self) -> Self {
        Self { packed: true, ..self }
    }

    /// Tells each change of a partition's state.
    pub fn on_progress(self, on_progress: impl FnMut(&Progress) + Send + 'static) -> Self {
        Self { on_progress: Some(Box::new(on_progress)), ..self }
    }

    pub(super) fn tell(&mut self, progress: &Progress) {
        if let Some(on_progress) = &mut self.on_progress {
            on_progress(progress);
        }
    }
}

impl fmt::Debug for JobOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobOptions")
            .field("circuit", &self.circuit)
            .field("partitions", &self.partitions)
            .field("priority", &self.priority)
            .field("key", &self.key)
            .field("leases", &self.leases)
            .field("deadline", &self.deadline)
            .field("packed", &self.packed)
            .finish_non_exhaustive()
    }
}
