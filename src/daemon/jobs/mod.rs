//! The table of jobs. A job is one circuit and 1 to N partitions that arrive one by one; it ends with a
//! verdict: the proofs of all partitions, or the first failure. It is kept until its owner acknowledges
//! it or its time to live ends, so that a lost reply can be asked for again, and the same idempotency
//! key (scoped to the uid) names the same job all that while.
//!
//! The table is plain state: whoever owns it locks it, and tells it the time. It does not look into circuits
//! (`C`) and witnesses (`W`), and never drops them itself, for that can take long: see
//! [`JobTable::take_discarded`].
mod admission;
mod backlog;
mod job;
mod views;

use crate::algebra::CancelToken;
use crate::proto::{
    Accepted, ContentId, Counters, ErrorCode, IdempotencyKey, JobId, JobResult, MAX_PARTITIONS,
    PartitionProof, PartitionState, Priority, ProtocolError, Submit,
};
use backlog::Backlog;
use job::{Job, Partition};
use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// How a job ended.
pub type Verdict = Result<Arc<JobResult>, ProtocolError>;

/// What a submitted partition already is to the table.
pub enum Known<C> {
    /// Its job is new.
    Nothing,
    /// Its job is there and misses it; the witness must be for this circuit (None: not loaded since the
    /// daemon's start).
    Job(Option<C>),
    /// It is on its way into the store; the channel tells when it is there, or is not to be.
    Arriving(watch::Receiver<()>),
    /// It has been submitted before.
    Partition(Accepted),
}

/// A place in a job for a partition whose witness is on its way into the store.
pub struct Place {
    /// The job.
    pub job: JobId,
    /// Index of the partition.
    pub partition: u32,
    /// The name of the job's journal, and the journal, to be stored beside the witness.
    pub journal: (String, OwnedFd),
}

/// What came of beginning with a partition.
pub enum Begun {
    /// It has a place, until it is confirmed or withdrawn.
    Place(Place),
    /// It is on its way already.
    Arriving,
    /// It has been submitted before.
    Known(Accepted),
}

/// A partition with its witness.
pub struct Arrival<'a, C, W> {
    /// The submitter.
    pub uid: u32,
    /// The request.
    pub submit: &'a Submit,
    /// The circuit that the witness has been checked against.
    pub circuit: C,
    /// Its id.
    pub circuit_id: ContentId,
    /// Its key's id.
    pub key_id: ContentId,
    /// The witness.
    pub witness: W,
}

/// A partition for a prover to work on.
pub struct Task<C, W> {
    /// Its job.
    pub job: JobId,
    /// Index of the partition.
    pub partition: u32,
    /// Who submitted it.
    pub uid: u32,
    /// How urgent it is.
    pub priority: Priority,
    /// What is to be proved.
    pub circuit: C,
    /// The witness.
    pub witness: W,
    /// When it was submitted.
    pub submitted: Instant,
    /// When it left the queue.
    pub begun: Instant,
    /// Raised when the result is no longer wanted.
    pub cancel: CancelToken,
}

/// How a running partition ended. It is made once a partition and consumed at once, so that its size does
/// not matter.
#[expect(clippy::large_enum_variant, reason = "never stored")]
pub enum Outcome {
    /// With a proof that has been verified.
    Proved(PartitionProof),
    /// With a failure, which is the whole job's.
    Failed(ProtocolError),
    /// Its token was raised.
    Cancelled,
}

/// A job as its owner sees it.
pub struct View {
    /// State and, while running, stage of each partition.
    pub partitions: Vec<(PartitionState, &'static str)>,
    /// How it ended.
    pub verdict: Option<Verdict>,
}

/// A witness as the table sees it.
pub trait Release {
    /// Gives the witness's memory back to its owner. What is left is dropped later.
    fn release(&mut self);

    /// Bytes of that memory.
    fn num_bytes(&self) -> u64;
}

/// What the table no longer needs, for its owner to drop where that may take long.
pub struct Discarded<C, W>(Vec<C>, Vec<W>);

impl<C, W> Discarded<C, W> {
    /// Whether there is nothing to drop.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty() && self.1.is_empty()
    }
}

/// A job that has just got its verdict, for the log.
#[derive(Debug)]
pub struct Ended {
    job: JobId,
    uid: u32,
    circuit: String,
    partitions: usize,
    age: Duration,
    failure: Option<ProtocolError>,
}

impl Ended {
    /// One line a job.
    pub fn log(&self) {
        let Self { job, uid, circuit, partitions, age, failure } = self;
        let (circuit, seconds) = (&circuit[..], age.as_secs_f64());
        match failure {
            None => tracing::info!(
                JOB = %job, CIRCUIT = circuit, UID = uid,
                "job {job} of user {uid}: {partitions} proofs of {circuit} after {seconds:.3} s"
            ),
            Some(failure) => tracing::info!(
                JOB = %job, CIRCUIT = circuit, UID = uid,
                "job {job} of user {uid}: {circuit} failed after {seconds:.3} s: {failure}"
            ),
        }
    }
}

/// All jobs.
pub struct JobTable<C, W> {
    jobs: HashMap<JobId, Job<C, W>>,
    keys: HashMap<(u32, IdempotencyKey), JobId>,
    backlog: Backlog,
    counters: Counters,
    discarded: Discarded<C, W>,
}

/// Why a witness that was checked against one circuit is none for a job.
pub fn circuit_changed(circuit: &str, job: JobId, wanted: ContentId, found: ContentId) -> ProtocolError {
    let message = format!("circuit {circuit} is {wanted} in job {job}, the witness was checked for {found}");
    ProtocolError::new(ErrorCode::CircuitChanged, message)
}

fn unknown_job(job: JobId) -> ProtocolError {
    ProtocolError::new(ErrorCode::UnknownJob, format!("there is no job {job} of this user"))
}

fn cancelled(job: JobId) -> ProtocolError {
    ProtocolError::new(ErrorCode::JobCancelled, format!("job {job} was cancelled"))
}

impl<C: Clone, W: Release> Default for JobTable<C, W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clone, W: Release> JobTable<C, W> {
    /// No jobs.
    pub fn new() -> Self {
        Self {
            jobs: HashMap::new(),
            keys: HashMap::new(),
            backlog: Backlog::default(),
            counters: Counters::default(),
            discarded: Discarded(Vec::new(), Vec::new()),
        }
    }

    /// What the table knows of a partition before its witness is looked at.
    ///
    /// # Errors
    /// `PartitionInvalid` and `KeyConflict` where the request contradicts itself or its job; the job's
    /// own failure where it has failed or was cancelled.
    pub fn lookup(&self, uid: u32, submit: &Submit) -> Result<Known<C>, ProtocolError> {
        let (partition, partitions) = (submit.partition, submit.partitions);
        let invalid = |message| Err(ProtocolError::new(ErrorCode::PartitionInvalid, message));
        if !(1..=MAX_PARTITIONS).contains(&partitions) {
            return invalid(format!("a job of {partitions} partitions, wanted 1 to {MAX_PARTITIONS}"));
        }
        if partition >= partitions {
            return invalid(format!("partition {partition} of {partitions}, wanted 0 to {}", partitions - 1));
        }
        let Some(job) = self.keys.get(&(uid, submit.key.clone())).and_then(|id| self.jobs.get(id)) else {
            return Ok(Known::Nothing);
        };
        job.check_same(submit)?;
        match job.partitions[partition as usize] {
            Partition::Missing => {}
            Partition::Arriving => return Ok(Known::Arriving(job.changed.subscribe())),
            _ => return Ok(Known::Partition(job.accepted())),
        }
        match &job.verdict {
            Some(Err(failure)) => Err(failure.clone()),
            None => Ok(Known::Job(job.circuit.clone())),
            // A job with a missing partition can only have failed.
            Some(Ok(_)) => Err(unknown_job(job.id)),
        }
    }

    /// Ends a job whose partition cannot be proved as it was left.
    pub fn fail(&mut self, id: JobId, partition: u32, failure: ProtocolError, now: Instant) -> Option<Ended> {
        let job = self.jobs.get_mut(&id).filter(|job| job.verdict.is_none())?;
        self.counters.failed += 1;
        if let Some(slot @ Partition::Stored) = job.partitions.get_mut(partition as usize) {
            *slot = Partition::Failed;
        }
        self.end(id, failure.with_partition(partition), now)
    }

    /// Ends a job with a failure, whatever its state. Tells of it unless it had ended before.
    fn end(&mut self, id: JobId, failure: ProtocolError, now: Instant) -> Option<Ended> {
        let job = self.jobs.get_mut(&id)?;
        let had_ended = job.verdict.is_some();
        self.counters.cancelled += job.end(failure, &mut self.discarded);
        self.backlog.remove(id, job.rank(now));
        job.touch(now);
        if had_ended { None } else { job.ended(now) }
    }

    /// The partition whose turn it is, now running; or one of the same priority whose circuit is preferred, unless
    /// the first has waited for as long as patience allows.
    pub fn next(
        &mut self,
        now: Instant,
        patience: Duration,
        prefers: impl Fn(&C) -> bool,
    ) -> Option<Task<C, W>> {
        if !self.has_work() {
            return None;
        }
        loop {
            let prefers = |(id, _): &(JobId, u32)| {
                self.jobs.get(id).and_then(|job| job.circuit.as_ref()).is_some_and(&prefers)
            };
            let (id, partition) = self.backlog.pop(now, patience, prefers)?;
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            if let Some(task) = job.start(partition, now) {
                self.backlog.began(job.is_suspect(partition));
                return Some(task);
            }
        }
    }

    /// Puts a running partition that had to make way back into the queue, as the next of its priority.
    pub fn requeue(&mut self, task: Task<C, W>, now: Instant) {
        let Task { job: id, partition, circuit, mut witness, submitted, .. } = task;
        self.backlog.ended();
        self.discarded.0.push(circuit);
        let job = self.jobs.get_mut(&id).filter(|job| job.verdict.is_none());
        let Some(job) = job else {
            // Its job has ended meanwhile.
            witness.release();
            self.discarded.1.push(witness);
            self.counters.cancelled += 1;
            if let Some(job) = self.jobs.get_mut(&id) {
                job.partitions[partition as usize] = Partition::Cancelled;
                job.touch(now);
            }
            return;
        };
        if let Some(record) = &mut job.record {
            record.returned(partition);
        }
        job.partitions[partition as usize] = Partition::Queued(Box::new((witness, submitted)));
        job.touch(now);
        self.backlog.push_front(job.rank(submitted), (id, partition), job.is_suspect(partition));
    }

    /// Ends the jobs whose deadline has passed.
    pub fn end_overdue(&mut self, now: Instant) -> Vec<Ended> {
        let overdue =
            |job: &&Job<C, W>| job.verdict.is_none() && job.deadline.is_some_and(|deadline| deadline <= now);
        let overdue: Vec<_> = self.jobs.values().filter(overdue).map(|job| job.id).collect();
        let missed = |id| {
            let message = format!("job {id} was not done by its deadline");
            self.end(id, ProtocolError::new(ErrorCode::DeadlineExceeded, message), now)
        };
        overdue.into_iter().filter_map(missed).collect()
    }

    /// Whether a partition waits that may be begun with now.
    pub fn has_work(&self) -> bool {
        self.backlog.has_work()
    }

    /// Notes that a running partition is proved, before its witness is dropped and anybody can learn of it.
    pub fn note_proved(&mut self, job: JobId, partition: u32, proof: &PartitionProof, backend: &str) {
        if let Some(Job { record: Some(record), verdict: None, .. }) = self.jobs.get_mut(&job) {
            record.proved(partition, proof, backend);
        }
    }

    /// Notes that what runs is not to blame for the end of the process, which is an orderly one.
    pub fn note_stop(&mut self) {
        for job in self.jobs.values_mut() {
            let Some(record) = &mut job.record else { continue };
            for (partition, _) in
                (0..).zip(&job.partitions).filter(|(_, p)| matches!(p, Partition::Running(..)))
            {
                record.returned(partition);
            }
        }
    }

    /// Notes the stage that a running partition has reached.
    pub fn stage(&mut self, job: JobId, partition: u32, stage: &'static str) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.stage(partition, stage);
        }
    }

    /// Ends a running partition. Its witness must have been dropped, for its owner may now use the memory again.
    /// Tells whether that has ended the job.
    pub fn complete(
        &mut self,
        job: JobId,
        partition: u32,
        outcome: Outcome,
        backend: &str,
        now: Instant,
    ) -> Option<Ended> {
        self.backlog.ended();
        // A cancelled job can be acknowledged while its last step still runs.
        let id = job;
        let Some(job) = self.jobs.get_mut(&id) else {
            self.counters.cancelled += 1;
            return None;
        };
        let had_ended = job.verdict.is_some();
        match outcome {
            Outcome::Proved(proof) if job.verdict.is_none() => {
                self.counters.proved += 1;
                job.proved(partition, proof, backend);
            }
            Outcome::Failed(failure) if job.verdict.is_none() => {
                self.counters.failed += 1;
                job.partitions[partition as usize] = Partition::Failed;
                return self.end(id, failure.with_partition(partition), now);
            }
            _ => {
                self.counters.cancelled += 1;
                job.partitions[partition as usize] = Partition::Cancelled;
            }
        }
        job.retire_circuit(&mut self.discarded);
        job.touch(now);
        if had_ended { None } else { job.ended(now) }
    }

    /// Takes a running partition back, for its prover is gone: it is in the store, or its owner may submit
    /// it again as if it had never come. Its witness must have been dropped.
    pub fn hand_back(&mut self, job: JobId, partition: u32, now: Instant) {
        self.backlog.ended();
        let Some(job) = self.jobs.get_mut(&job) else { return };
        job.partitions[partition as usize] = match (&job.verdict, &job.record) {
            (Some(_), _) => Partition::Cancelled,
            (None, Some(_)) => Partition::Stored,
            (None, None) => Partition::Missing,
        };
        job.touch(now);
    }

    /// Counts a proof that failed its self-check and is tried again.
    pub fn count_retry(&mut self) {
        self.counters.self_check_retries += 1;
    }

    /// Counts a refused request.
    pub fn count_refusal(&mut self) {
        self.counters.refused += 1;
    }

    /// Cancels a job, whatever its state: queued partitions are dropped, running ones told to stop, and
    /// a result that was there already is dropped, so that "cancelled" is true whatever it raced with.
    /// Tells whether that has ended the job.
    ///
    /// # Errors
    /// `UnknownJob`.
    pub fn cancel(&mut self, uid: u32, id: JobId, now: Instant) -> Result<Option<Ended>, ProtocolError> {
        Self::owned(&mut self.jobs, uid, id)?;
        Ok(self.end(id, cancelled(id), now))
    }

    /// Forgets a job that has ended.
    ///
    /// # Errors
    /// `UnknownJob`; `Busy` while there is no verdict.
    pub fn acknowledge(&mut self, uid: u32, id: JobId) -> Result<(), ProtocolError> {
        let job = Self::owned(&mut self.jobs, uid, id)?;
        if job.verdict.is_none() {
            let message = format!("job {id} has not ended: await or cancel it first");
            return Err(ProtocolError::new(ErrorCode::Busy, message));
        }
        self.forget(id);
        Ok(())
    }

    /// Wakes whoever watches a job.
    pub fn wake_watchers(&mut self) {
        self.jobs.values().for_each(|job| job.changed.send_replace(()));
    }

    /// Forgets jobs that nothing has happened to for `ttl` and of which no partition waits or runs:
    /// results that nobody acknowledged, and jobs whose missing partitions never came.
    pub fn expire(&mut self, now: Instant, ttl: Duration) {
        let old = |job: &Job<C, W>| now.saturating_duration_since(job.touched) >= ttl && !job.is_active();
        let expired: Vec<_> = self.jobs.values().filter(|job| old(job)).map(|job| job.id).collect();
        for id in expired {
            self.forget(id);
        }
    }

    /// Circuits and witnesses that are no longer needed. To be dropped without the table's lock.
    #[must_use]
    pub fn take_discarded(&mut self) -> Discarded<C, W> {
        std::mem::replace(&mut self.discarded, Discarded(Vec::new(), Vec::new()))
    }

    fn owned(
        jobs: &mut HashMap<JobId, Job<C, W>>,
        uid: u32,
        id: JobId,
    ) -> Result<&mut Job<C, W>, ProtocolError> {
        jobs.get_mut(&id).filter(|job| job.uid == uid).ok_or_else(|| unknown_job(id))
    }

    fn forget(&mut self, id: JobId) {
        if let Some(job) = self.jobs.remove(&id) {
            self.keys.remove(&(job.uid, job.key.clone()));
            self.discarded.0.extend(job.circuit);
            if let Some(record) = job.record {
                record.forgotten();
            }
        }
    }
}

#[cfg(test)]
mod tests;
