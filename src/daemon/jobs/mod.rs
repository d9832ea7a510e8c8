//! The table of jobs. A job is one circuit and 1 to N partitions that arrive one by one; it ends with a
//! verdict: the proofs of all partitions, or the first failure. It is kept until its owner acknowledges
//! it or its time to live ends, so that a lost reply can be asked for again, and the same idempotency
//! key (scoped to the uid) names the same job all that while.
//!
//! The table is plain state: whoever owns it locks it, and tells it the time. It does not look into circuits
//! (`C`) and witnesses (`W`), and never drops them itself, for that can take long: see
//! [`JobTable::take_discarded`].
mod job;

use super::queue::Queue;
use super::store::{Admitted, Record, StoredWitness, Story};
use super::users::Charge;
use crate::algebra::CancelToken;
use crate::proto::{
    Accepted, ContentId, Counters, ErrorCode, IdempotencyKey, JobId, JobResult, JobStatus, MAX_PARTITIONS,
    PartitionProof, PartitionState, Priority, ProtocolError, QueueStatus, Submit,
};
use job::{Job, Partition};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io,
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
    Arriving(watch::Receiver<()>),
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
    queue: Queue<(JobId, u32)>,
    /// Partitions that are proved while nothing else is, before all others: the daemon died over them more than once.
    suspects: VecDeque<(JobId, u32)>,
    /// Whether one of them runs.
    isolated: bool,
    running: usize,
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
            queue: Queue::default(),
            suspects: VecDeque::new(),
            isolated: false,
            running: 0,
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

    /// Takes a partition and queues it; makes its job if it is the first, which `charge` pays for.
    /// A partition that has meanwhile been submitted is answered like then, and its new witness dropped.
    ///
    /// # Errors
    /// As [`JobTable::lookup`], those of `charge`, and `CircuitChanged`.
    pub fn admit(
        &mut self,
        arrival: Arrival<'_, C, W>,
        charge: impl FnOnce() -> Result<Charge, ProtocolError>,
        now: Instant,
    ) -> Result<Accepted, ProtocolError> {
        let Arrival { uid, submit, circuit, circuit_id, key_id, witness } = arrival;
        let found = self.find_or_make(uid, submit, &circuit, (circuit_id, key_id), charge, now);
        let id = match found {
            Ok(Ok(id)) => id,
            Ok(Err(Begun::Known(accepted))) => return self.refuse(witness, Ok(accepted)),
            Ok(Err(_)) => {
                let arriving =
                    ProtocolError::new(ErrorCode::Busy, "the partition is on its way into the store");
                return self.refuse(witness, Err(arriving));
            }
            Err(refusal) => return self.refuse(witness, Err(refusal)),
        };
        if let Some(job) = self.jobs.get_mut(&id) {
            job.partitions[submit.partition as usize] = Partition::Arriving;
        }
        self.confirm(id, submit.partition, circuit, witness, None, now)
    }

    /// Makes a place for a partition whose witness goes into the store first; makes its job, with its record, if it
    /// is the first.
    ///
    /// # Errors
    /// As [`JobTable::admit`], and `Internal` where there is no memory for a record.
    pub fn begin(
        &mut self,
        arrival: &Arrival<'_, C, W>,
        charge: impl FnOnce() -> Result<Charge, ProtocolError>,
        record: impl FnOnce(Admitted) -> io::Result<Record>,
        now: Instant,
    ) -> Result<Begun, ProtocolError> {
        let Arrival { uid, submit, circuit, circuit_id, key_id, .. } = arrival;
        let ids = (*circuit_id, *key_id);
        let id = match self.find_or_make(*uid, submit, circuit, ids, charge, now)? {
            Ok(id) => id,
            Err(begun) => return Ok(begun),
        };
        let gone = || ProtocolError::new(ErrorCode::Internal, "the job's table entry is gone");
        let job = self.jobs.get_mut(&id).ok_or_else(gone)?;
        let journal = (|| match &job.record {
            Some(record) => record.entry(),
            None => job.record.insert(record(job.admitted())?).entry(),
        })();
        match journal {
            Ok(journal) => {
                job.partitions[submit.partition as usize] = Partition::Arriving;
                Ok(Begun::Place(Place { job: id, partition: submit.partition, journal }))
            }
            Err(error) => {
                if job.is_empty() {
                    self.forget(id);
                }
                let message = format!("the system has no memory for the job's record: {error}");
                Err(ProtocolError::new(ErrorCode::Internal, message))
            }
        }
    }

    /// The job in which this partition is missing, made if it is not there; or what the partition is already.
    fn find_or_make(
        &mut self,
        uid: u32,
        submit: &Submit,
        circuit: &C,
        (circuit_id, key_id): (ContentId, ContentId),
        charge: impl FnOnce() -> Result<Charge, ProtocolError>,
        now: Instant,
    ) -> Result<Result<JobId, Begun>, ProtocolError> {
        match self.lookup(uid, submit)? {
            Known::Nothing => {
                let job = Job::new(uid, submit, circuit.clone(), (circuit_id, key_id), charge()?, now);
                let id = job.id;
                self.keys.insert((uid, submit.key.clone()), id);
                self.jobs.insert(id, job);
                Ok(Ok(id))
            }
            Known::Partition(accepted) => Ok(Err(Begun::Known(accepted))),
            Known::Arriving(changed) => Ok(Err(Begun::Arriving(changed))),
            Known::Job(_) => {
                let id = self.keys.get(&(uid, submit.key.clone())).copied();
                let Some(job) = id.and_then(|id| self.jobs.get(&id)) else {
                    return Err(ProtocolError::new(ErrorCode::Internal, "the job's table entry is gone"));
                };
                if job.circuit.is_none() && job.key_id != key_id {
                    let message = format!(
                        "circuit {} has key {} in job {}, found {key_id}",
                        submit.circuit, job.key_id, job.id
                    );
                    return Err(ProtocolError::new(ErrorCode::CircuitChanged, message));
                }
                if job.circuit_id != circuit_id {
                    // The job is a later one of the same key, made after its circuit had been changed.
                    return Err(circuit_changed(&submit.circuit, job.id, job.circuit_id, circuit_id));
                }
                Ok(Ok(job.id))
            }
        }
    }

    /// Queues a partition that has a place, whose witness is in the store under the name in `stored` (None: it was
    /// there before, or there is no store).
    ///
    /// # Errors
    /// The job's own failure, or `UnknownJob`, where it has ended meanwhile; the witness is dropped.
    pub fn confirm(
        &mut self,
        id: JobId,
        partition: u32,
        circuit: C,
        witness: W,
        stored: Option<StoredWitness>,
        now: Instant,
    ) -> Result<Accepted, ProtocolError> {
        let Some(job) = self.jobs.get_mut(&id) else {
            self.discarded.0.push(circuit);
            return self.refuse(witness, Err(unknown_job(id)));
        };
        if let Some(Err(failure)) = &job.verdict {
            let failure = failure.clone();
            self.discarded.0.push(circuit);
            return self.refuse(witness, Err(failure));
        }
        if let (Some(record), Some(stored)) = (&mut job.record, stored) {
            record.submitted(partition, stored);
        }
        let unused = match &job.circuit {
            None => job.circuit.replace(circuit),
            Some(_) => Some(circuit),
        };
        self.discarded.0.extend(unused);
        job.partitions[partition as usize] = Partition::Queued(Box::new((witness, now)));
        job.touch(now);
        if job.is_suspect(partition) {
            self.suspects.push_back((id, partition));
        } else {
            self.queue.push(job.rank(now), (id, partition));
        }
        self.counters.submitted += 1;
        Ok(job.accepted())
    }

    /// Gives up the place of a partition that could not be stored, and the job with it if it has no other.
    pub fn withdraw(&mut self, id: JobId, partition: u32, now: Instant) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let slot = &mut job.partitions[partition as usize];
        if matches!(slot, Partition::Arriving) {
            *slot = Partition::Missing;
        }
        job.touch(now);
        if job.is_empty() {
            self.forget(id);
        }
    }

    /// Takes over a job that an earlier process has left. `suspects` are partitions to be proved alone. Gives the
    /// record back where the table has such a job already.
    pub fn restore(
        &mut self,
        story: Story,
        record: Record,
        suspects: Vec<u32>,
        charge: Charge,
        times: (Instant, Instant),
    ) -> Result<(), Box<Record>> {
        let (id, key) = (story.admitted.job, (story.admitted.uid, story.admitted.key.clone()));
        if self.jobs.contains_key(&id) || self.keys.contains_key(&key) {
            return Err(Box::new(record));
        }
        self.keys.insert(key, id);
        self.jobs.insert(id, Job::restored(story, record, suspects, charge, times));
        Ok(())
    }

    /// Ends a job whose partition cannot be proved as it was left.
    pub fn fail(&mut self, id: JobId, partition: u32, failure: ProtocolError, now: Instant) -> Option<Ended> {
        let job = self.jobs.get_mut(&id).filter(|job| job.verdict.is_none())?;
        self.counters.failed += 1;
        if let Some(slot @ Partition::Stored) = job.partitions.get_mut(partition as usize) {
            *slot = Partition::Failed;
        }
        self.counters.cancelled += job.end(failure.with_partition(partition), &mut self.discarded);
        self.queue.retain(job.priority, job.uid, |(queued, _)| *queued != id);
        self.suspects.retain(|(queued, _)| *queued != id);
        job.touch(now);
        job.ended(now)
    }

    /// Whether there is such a job.
    pub fn has(&self, id: JobId) -> bool {
        self.jobs.contains_key(&id)
    }

    /// Jobs that have not ended, and results that wait for their owner.
    pub fn count(&self) -> (usize, usize) {
        let unfinished = self.jobs.values().filter(|job| job.verdict.is_none()).count();
        (unfinished, self.jobs.len() - unfinished)
    }

    fn refuse<T>(&mut self, mut witness: W, answer: T) -> T {
        witness.release();
        self.discarded.1.push(witness);
        answer
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
        while let Some((id, partition)) = self.suspects.pop_front() {
            if let Some(task) = self.jobs.get_mut(&id).and_then(|job| job.start(partition, now)) {
                (self.isolated, self.running) = (true, self.running + 1);
                return Some(task);
            }
        }
        loop {
            let prefers = |(id, _): &(JobId, u32)| {
                self.jobs.get(id).and_then(|job| job.circuit.as_ref()).is_some_and(&prefers)
            };
            let (id, partition) = self.queue.pop(now, patience, prefers)?;
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            if let Some(task) = job.start(partition, now) {
                self.running += 1;
                return Some(task);
            }
        }
    }

    /// Puts a running partition that had to make way back into the queue, as the next of its priority.
    pub fn requeue(&mut self, task: Task<C, W>, now: Instant) {
        let Task { job: id, partition, circuit, mut witness, submitted, .. } = task;
        self.stopped_running();
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
        self.queue.push_front(job.rank(submitted), (id, partition));
    }

    /// Ends the jobs whose deadline has passed.
    pub fn end_overdue(&mut self, now: Instant) -> Vec<Ended> {
        let overdue = |job: &&mut Job<C, W>| {
            job.verdict.is_none() && job.deadline.is_some_and(|deadline| deadline <= now)
        };
        let mut ended = Vec::new();
        for job in self.jobs.values_mut().filter(overdue) {
            let message = format!("job {} was not done by its deadline", job.id);
            let failure = ProtocolError::new(ErrorCode::DeadlineExceeded, message);
            self.counters.cancelled += job.end(failure, &mut self.discarded);
            let id = job.id;
            self.queue.retain(job.priority, job.uid, |(queued, _)| *queued != id);
            self.suspects.retain(|(queued, _)| *queued != id);
            job.touch(now);
            ended.extend(job.ended(now));
        }
        ended
    }

    /// What waits, by priority.
    pub fn queues(&self, now: Instant) -> Vec<QueueStatus> {
        self.queue.statuses(now)
    }

    /// How many partitions wait for a prover.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.suspects.len()
    }

    /// The urgency of a job.
    pub fn priority(&self, id: JobId) -> Option<Priority> {
        self.jobs.get(&id).map(|job| job.priority)
    }

    /// Witness buffers of partitions that wait or run, with their bytes, by what is done with them.
    pub fn buffers(&self) -> BTreeMap<&'static str, (u32, u64)> {
        let mut buffers = BTreeMap::<_, (u32, u64)>::new();
        for partition in self.jobs.values().flat_map(|job| &job.partitions) {
            let (stage, bytes) = match partition {
                Partition::Queued(queued) => ("queued", queued.0.num_bytes()),
                Partition::Running(running) => (running.stage, running.bytes),
                _ => continue,
            };
            let (count, sum) = buffers.entry(stage).or_default();
            *count += 1;
            *sum += bytes;
        }
        buffers
    }

    /// Whether a partition waits that may be begun with now.
    pub fn has_work(&self) -> bool {
        let alone = self.running == 0;
        !self.isolated && if self.suspects.is_empty() { !self.queue.is_empty() } else { alone }
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

    fn stopped_running(&mut self) {
        self.running = self.running.saturating_sub(1);
        self.isolated &= self.running > 0;
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
        self.stopped_running();
        // A cancelled job can be acknowledged while its last step still runs.
        let Some(job) = self.jobs.get_mut(&job) else {
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
                self.counters.cancelled += job.end(failure.with_partition(partition), &mut self.discarded);
                let id = job.id;
                self.queue.retain(job.priority, job.uid, |(queued, _)| *queued != id);
                self.suspects.retain(|(queued, _)| *queued != id);
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
        self.stopped_running();
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
        let job = Self::owned(&mut self.jobs, uid, id)?;
        let had_ended = job.verdict.is_some();
        self.counters.cancelled += job.end(cancelled(id), &mut self.discarded);
        self.queue.retain(job.priority, job.uid, |(queued, _)| *queued != id);
        self.suspects.retain(|(queued, _)| *queued != id);
        job.touch(now);
        Ok(if had_ended { None } else { job.ended(now) })
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

    /// The job that an idempotency key names.
    ///
    /// # Errors
    /// `UnknownJob`.
    pub fn find(&self, uid: u32, key: &IdempotencyKey) -> Result<Accepted, ProtocolError> {
        let job = self.keys.get(&(uid, key.clone())).and_then(|id| self.jobs.get(id));
        job.map(Job::accepted).ok_or_else(|| {
            ProtocolError::new(ErrorCode::UnknownJob, "this idempotency key names no job of this user")
        })
    }

    /// A channel that tells of every change of the job, and ends with it.
    ///
    /// # Errors
    /// `UnknownJob`.
    pub fn watch(&mut self, uid: u32, id: JobId) -> Result<watch::Receiver<()>, ProtocolError> {
        Ok(Self::owned(&mut self.jobs, uid, id)?.changed.subscribe())
    }

    /// The job as it is now.
    ///
    /// # Errors
    /// `UnknownJob`.
    pub fn view(&mut self, uid: u32, id: JobId) -> Result<View, ProtocolError> {
        let job = Self::owned(&mut self.jobs, uid, id)?;
        let partitions = job.partitions.iter().map(|p| (p.state(), p.stage())).collect();
        Ok(View { partitions, verdict: job.verdict.clone() })
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

    /// Jobs with `most` partitions at most, and how many jobs are left out: unfinished ones, oldest first,
    /// then finished ones, newest first.
    pub fn statuses(&self, most: usize, now: Instant) -> (Vec<JobStatus>, u32) {
        let mut jobs: Vec<_> = self.jobs.values().collect();
        jobs.sort_by_key(|job| job.id.0);
        let (mut listed, finished): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| job.verdict.is_none());
        listed.extend(finished.into_iter().rev());
        let mut partitions = 0;
        let fit = listed.iter().take_while(|job| {
            partitions += job.partitions.len();
            partitions <= most
        });
        let fit = fit.count();
        let omitted = u32::try_from(listed.len() - fit).unwrap_or(u32::MAX);
        (listed[..fit].iter().map(|job| job.status(now)).collect(), omitted)
    }

    /// Counts since the start, in partitions (refusals in requests).
    pub fn counters(&self) -> Counters {
        self.counters
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
