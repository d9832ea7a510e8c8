//! One job: its partitions, each in one of six states, and the verdict that ends it.
use super::{Discarded, Ended, Release, Task, Verdict};
use crate::algebra::CancelToken;
use crate::daemon::queue::Rank;
use crate::daemon::store::{Admitted, Record, Story};
use crate::daemon::users::{Charge, Countable};
use crate::proto::{
    Accepted, ContentId, ErrorCode, IdempotencyKey, JobId, JobResult, JobStatus, PartitionProof,
    PartitionState, PartitionStatus, Priority, ProtocolError, Submit,
};
use std::{mem, sync::Arc, time::Instant};
use tokio::sync::watch;

/// A partition that a worker has.
pub(super) struct Running {
    pub(super) cancel: CancelToken,
    pub(super) stage: &'static str,
    /// Bytes of its witness.
    pub(super) bytes: u64,
}

/// One partition.
pub(super) enum Partition<W> {
    Missing,
    /// On its way into the store: its submitter has not been answered.
    Arriving,
    /// In the store, from where it is still to be taken: its circuit or memory is waited for.
    Stored,
    /// The witness, and when it came.
    Queued(Box<(W, Instant)>),
    Running(Running),
    /// The proof, until it is part of the verdict.
    Proved(Option<Box<PartitionProof>>),
    Failed,
    Cancelled,
}

impl<W> Partition<W> {
    pub(super) fn state(&self) -> PartitionState {
        match self {
            Self::Missing => PartitionState::Missing,
            Self::Arriving | Self::Stored | Self::Queued(_) => PartitionState::Queued,
            Self::Running(..) => PartitionState::Running,
            Self::Proved(_) => PartitionState::Proved,
            Self::Failed => PartitionState::Failed,
            Self::Cancelled => PartitionState::Cancelled,
        }
    }

    /// The prover's stage; empty unless running.
    pub(super) fn stage(&self) -> &'static str {
        if let Self::Running(running) = self { running.stage } else { "" }
    }
}

pub(super) struct Job<C, W> {
    pub(super) id: JobId,
    pub(super) uid: u32,
    pub(super) key: IdempotencyKey,
    pub(super) priority: Priority,
    circuit_name: String,
    pub(super) circuit_id: ContentId,
    pub(super) key_id: ContentId,
    /// Kept until no partition needs it any more.
    pub(super) circuit: Option<C>,
    pub(super) partitions: Vec<Partition<W>>,
    pub(super) verdict: Option<Verdict>,
    /// Until when its result is of any use.
    pub(super) deadline: Option<Instant>,
    /// Backends that have proved partitions.
    backends: Vec<String>,
    /// Partitions that ran when the daemon died, more than once.
    suspects: Vec<u32>,
    /// What of it outlives the process, where there is a store.
    pub(super) record: Option<Record>,
    created: Instant,
    pub(super) touched: Instant,
    pub(super) changed: watch::Sender<()>,
    charge: Charge,
}

impl<C: Clone, W: Release> Job<C, W> {
    pub(super) fn new(
        uid: u32,
        submit: &Submit,
        circuit: C,
        (circuit_id, key_id): (ContentId, ContentId),
        charge: Charge,
        now: Instant,
    ) -> Self {
        Self {
            id: JobId::generate(),
            uid,
            key: submit.key.clone(),
            priority: submit.priority,
            circuit_name: submit.circuit.clone(),
            circuit_id,
            key_id,
            circuit: Some(circuit),
            partitions: (0..submit.partitions).map(|_| Partition::Missing).collect(),
            verdict: None,
            deadline: submit.deadline.and_then(|after| now.checked_add(after)),
            backends: Vec::new(),
            suspects: Vec::new(),
            record: None,
            created: now,
            touched: now,
            changed: watch::Sender::new(()),
            charge,
        }
    }

    /// The job of which an earlier process has left this record. Its circuit is not loaded yet.
    pub(super) fn restored(
        story: Story,
        record: Record,
        suspects: Vec<u32>,
        charge: Charge,
        (created, touched): (Instant, Instant),
    ) -> Self {
        let Story { admitted, partitions, backends, build, failure, .. } = story;
        let partitions = partitions.into_iter().map(|past| match (past.proof, past.witness) {
            (Some(proof), _) => Partition::Proved(Some(proof)),
            (None, Some(_)) => Partition::Stored,
            (None, None) if failure.is_some() => Partition::Cancelled,
            (None, None) => Partition::Missing,
        });
        let mut job = Self {
            id: admitted.job,
            uid: admitted.uid,
            key: admitted.key,
            priority: admitted.priority,
            circuit_name: admitted.circuit,
            circuit_id: admitted.circuit_id,
            key_id: admitted.key_id,
            circuit: None,
            partitions: partitions.collect(),
            verdict: None,
            deadline: admitted.deadline.and_then(|after| created.checked_add(after)),
            backends,
            suspects,
            record: Some(record),
            created,
            touched,
            changed: watch::Sender::new(()),
            charge,
        };
        match failure {
            Some(failure) => job.verdict = Some(Err(failure)),
            None => job.conclude(&build),
        }
        job
    }

    /// The job as a record tells it.
    pub(super) fn admitted(&self) -> Admitted {
        Admitted {
            job: self.id,
            uid: self.uid,
            key: self.key.clone(),
            circuit: self.circuit_name.clone(),
            circuit_id: self.circuit_id,
            key_id: self.key_id,
            partitions: self.partitions.len() as u32,
            priority: self.priority,
            deadline: self.deadline.map(|at| at.saturating_duration_since(self.created)),
            build: crate::BUILD_ID.to_owned(),
            result_bytes: if let Countable::Job(bytes) = self.charge.what() { bytes } else { 0 },
        }
    }

    /// Whether a partition is to be proved while nothing else is.
    pub(super) fn is_suspect(&self, partition: u32) -> bool {
        self.suspects.contains(&partition)
    }

    /// Whether a request with this job's key repeats what the first one said.
    pub(super) fn check_same(&self, submit: &Submit) -> Result<(), ProtocolError> {
        let conflict = |what, had: &dyn std::fmt::Display, found: &dyn std::fmt::Display| {
            let message =
                format!("this idempotency key names job {} with {what} {had}, found {found}", self.id);
            Err(ProtocolError::new(ErrorCode::KeyConflict, message))
        };
        if self.circuit_name != submit.circuit {
            return conflict("circuit", &self.circuit_name, &submit.circuit);
        }
        if let Some(id) = submit.circuit_id
            && id != self.circuit_id
        {
            return conflict("circuit id", &self.circuit_id, &id);
        }
        if self.partitions.len() != submit.partitions as usize {
            return conflict("number of partitions", &self.partitions.len(), &submit.partitions);
        }
        if self.priority != submit.priority {
            return conflict("priority", &self.priority, &submit.priority);
        }
        Ok(())
    }

    pub(super) fn accepted(&self) -> Accepted {
        let missing = self.partitions.iter().filter(|p| matches!(p, Partition::Missing)).count();
        Accepted { job: self.id, missing: missing as u32 }
    }

    /// Something happened: those who watch look again, and the time to live starts anew.
    pub(super) fn touch(&mut self, now: Instant) {
        self.touched = now;
        self.changed.send_replace(());
    }

    /// Whether a partition waits or runs.
    pub(super) fn is_active(&self) -> bool {
        self.partitions.iter().any(|p| {
            matches!(
                p,
                Partition::Arriving | Partition::Stored | Partition::Queued(_) | Partition::Running(..)
            )
        })
    }

    /// Whether nothing of it has ever come.
    pub(super) fn is_empty(&self) -> bool {
        self.verdict.is_none() && self.partitions.iter().all(|p| matches!(p, Partition::Missing))
    }

    /// Makes a queued partition a running one.
    pub(super) fn start(&mut self, partition: u32, now: Instant) -> Option<Task<C, W>> {
        let (circuit, slot) = (self.circuit.clone()?, self.partitions.get_mut(partition as usize)?);
        if !matches!(slot, Partition::Queued(_)) {
            return None;
        }
        let cancel = CancelToken::new();
        let Partition::Queued(queued) = mem::replace(slot, Partition::Missing) else { return None };
        let (witness, submitted) = *queued;
        *slot = Partition::Running(Running { cancel: cancel.clone(), stage: "", bytes: witness.num_bytes() });
        if let Some(record) = &mut self.record {
            record.began(partition);
        }
        self.touch(now);
        let (job, uid, priority) = (self.id, self.uid, self.priority);
        Some(Task { job, partition, uid, priority, circuit, witness, submitted, begun: now, cancel })
    }

    /// Where a partition that waits since then belongs in the queue.
    pub(super) fn rank(&self, since: Instant) -> Rank {
        Rank { priority: self.priority, uid: self.uid, since, deadline: self.deadline }
    }

    pub(super) fn stage(&mut self, partition: u32, stage: &'static str) {
        if let Some(Partition::Running(running)) = self.partitions.get_mut(partition as usize) {
            running.stage = stage;
            self.changed.send_replace(());
        }
    }

    /// Takes the proof of a running partition; the last one makes the verdict.
    pub(super) fn proved(&mut self, partition: u32, proof: PartitionProof, backend: &str) {
        self.partitions[partition as usize] = Partition::Proved(Some(Box::new(proof)));
        if !self.backends.iter().any(|b| b == backend) {
            self.backends.push(backend.to_owned());
        }
        self.conclude(crate::BUILD_ID);
    }

    /// Makes the verdict once every partition is proved, the last one by this build.
    fn conclude(&mut self, build: &str) {
        if !self.partitions.iter().all(|p| matches!(p, Partition::Proved(_))) {
            return;
        }
        let proofs = self.partitions.iter_mut().filter_map(|p| match p {
            Partition::Proved(proof) => proof.take().map(|proof| *proof),
            _ => None,
        });
        let proofs = proofs.collect();
        self.verdict = Some(Ok(Arc::new(JobResult {
            job: self.id,
            circuit: self.circuit_name.clone(),
            circuit_id: self.circuit_id,
            key_id: self.key_id,
            build: build.to_owned(),
            backend: self.backends.join(", "),
            proofs,
        })));
    }

    /// Ends the job: drops what is queued, stops what runs. Returns how many partitions it dropped.
    pub(super) fn end(&mut self, failure: ProtocolError, discarded: &mut Discarded<C, W>) -> u64 {
        if let Some(record) = &mut self.record {
            record.failed(&failure);
        }
        self.verdict = Some(Err(failure));
        let mut dropped = 0;
        for partition in &mut self.partitions {
            match partition {
                Partition::Queued(_) => {
                    if let Partition::Queued(queued) = mem::replace(partition, Partition::Cancelled) {
                        let (mut witness, _) = *queued;
                        witness.release();
                        discarded.1.push(witness);
                        dropped += 1;
                    }
                }
                // Whoever brings its witness is told, and drops it.
                Partition::Arriving | Partition::Stored => {
                    *partition = Partition::Cancelled;
                    dropped += 1;
                }
                Partition::Running(running) => running.cancel.cancel(),
                Partition::Proved(proof) => drop(proof.take()),
                Partition::Missing | Partition::Failed | Partition::Cancelled => {}
            }
        }
        self.retire_circuit(discarded);
        dropped
    }

    /// Lets go of the circuit once there is a verdict: a result waits without holding the key in memory.
    pub(super) fn retire_circuit(&mut self, discarded: &mut Discarded<C, W>) {
        if self.verdict.is_some() {
            discarded.0.extend(self.circuit.take());
        }
    }

    /// The account of a job that has a verdict.
    pub(super) fn ended(&self, now: Instant) -> Option<Ended> {
        let verdict = self.verdict.as_ref()?;
        Some(Ended {
            job: self.id,
            uid: self.uid,
            circuit: self.circuit_name.clone(),
            partitions: self.partitions.len(),
            age: now.saturating_duration_since(self.created),
            failure: verdict.as_ref().err().cloned(),
        })
    }

    pub(super) fn status(&self, now: Instant) -> JobStatus {
        let partitions = self.partitions.iter();
        JobStatus {
            job: self.id,
            uid: self.uid,
            circuit: self.circuit_name.clone(),
            priority: self.priority,
            age: now.saturating_duration_since(self.created),
            partitions: partitions
                .map(|p| PartitionStatus { state: p.state(), stage: p.stage().to_owned() })
                .collect(),
        }
    }
}
