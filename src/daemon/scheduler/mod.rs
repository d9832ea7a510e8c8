//! Between those who submit and those who prove: the job table behind one lock, with workers that wait
//! for its next partition. It also knows when the daemon is draining, and whether its workers are alive.
mod workers;

use super::jobs::{Arrival, Begun, Ended, JobTable, Known, Outcome, Release, Task as JobTask, View};
use super::registry::LoadedCircuit;
use super::slow::drop_slowly;
use super::store::{Admitted, Record, StoredWitness, Story};
use super::users::{Charge, Countable, Users};
use super::witness::Witness;
use crate::groth16::Stage;
use crate::proto::{
    Accepted, Counters, ErrorCode, IdempotencyKey, InstanceId, JobId, JobStatus, MAX_INLINE_INPUT_BYTES,
    PartitionProof, PartitionState, ProtocolError, QueueStatus, Submit,
};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::watch;
use workers::Workers;

pub use workers::{Stalled, WorkerView};

/// Partitions in a status reply. Even one job each is far less than a reply may have (see the test).
const STATUS_PARTITIONS: usize = 1 << 16;

type Table = JobTable<Arc<LoadedCircuit>, Witness>;
/// A partition for a worker.
pub type Task = JobTask<Arc<LoadedCircuit>, Witness>;
/// What is known of a submitted partition.
pub type KnownPartition = Known<Arc<LoadedCircuit>>;

/// Whether work is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Work is taken and done.
    Open,
    /// Nothing is begun; what runs may end.
    Draining,
    /// What runs is told to stop.
    Stopped,
}

/// The scheduler; clones share it.
#[derive(Clone)]
pub struct Scheduler(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Work has come, or the phase has changed.
    wake: Condvar,
    phase: watch::Sender<Phase>,
    /// Partitions that run.
    running: watch::Sender<usize>,
    /// The first device that was lost, and how.
    lost: watch::Sender<Option<String>>,
    users: Users,
    instance: InstanceId,
    /// How long a partition may be overtaken by one whose circuit a worker prefers.
    patience: Duration,
}

struct State {
    jobs: Table,
    workers: Workers,
}

/// Bytes that a partition's proof takes while it waits for its owner: the proof, the spans of two attempts,
/// and the inputs, which are left out where they do not fit a packet.
pub(super) fn proof_bytes(inputs: usize) -> u64 {
    const PROOF_AND_SPANS: u64 = 4096;
    let inputs = 32 * inputs as u64;
    PROOF_AND_SPANS + if inputs <= MAX_INLINE_INPUT_BYTES as u64 { inputs } else { 0 }
}

impl Release for Witness {
    fn release(&mut self) {
        Witness::release(self);
    }

    fn num_bytes(&self) -> u64 {
        Witness::num_bytes(self)
    }
}

fn draining() -> ProtocolError {
    ProtocolError::new(ErrorCode::Draining, "the daemon is restarting: reconnect and try again")
}

impl Scheduler {
    /// Without jobs, for so many workers.
    pub fn new(users: Users, workers: usize, patience: Duration) -> Self {
        let workers = Workers::new(workers);
        Self(Arc::new(Inner {
            state: Mutex::new(State { jobs: JobTable::new(), workers }),
            wake: Condvar::new(),
            phase: watch::Sender::new(Phase::Open),
            running: watch::Sender::new(0),
            lost: watch::Sender::new(None),
            users,
            instance: InstanceId::generate(),
            patience,
        }))
    }

    /// This start of the daemon.
    pub fn instance(&self) -> InstanceId {
        self.0.instance
    }

    /// What is said of a job that is not there to whoever waits for it: one from before this start may have been lost.
    fn or_lost(&self, job: JobId, error: ProtocolError) -> ProtocolError {
        if error.code != ErrorCode::UnknownJob || !job.is_before(self.0.instance) {
            return error;
        }
        let message = format!(
            "job {job} is from before the daemon's start, and there is no such job of this user any more: submit it \
             again, if it has not been acknowledged and has not expired"
        );
        ProtocolError::new(ErrorCode::JobLost, message)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The table's methods leave it consistent wherever they could panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on the table, then drops what it has discarded where that disturbs nobody.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = work(&mut state);
        let discarded = state.jobs.take_discarded();
        drop(state);
        if !discarded.is_empty() {
            drop_slowly(discarded);
        }
        result
    }

    /// Whether work is taken.
    pub fn phase(&self) -> Phase {
        *self.0.phase.borrow()
    }

    /// Refuses once no work is taken any more.
    ///
    /// # Errors
    /// `Draining`.
    pub fn check_open(&self) -> Result<(), ProtocolError> {
        if self.phase() == Phase::Open { Ok(()) } else { Err(draining()) }
    }

    /// Waits for the end of the open phase, and is the error that ends what waits meanwhile.
    pub async fn closing(&self) -> ProtocolError {
        // The sender lives as long as this scheduler.
        let _ = self.0.phase.subscribe().wait_for(|phase| *phase != Phase::Open).await;
        draining()
    }

    /// Waits for the stop.
    pub async fn stopped(&self) {
        let _ = self.0.phase.subscribe().wait_for(|phase| *phase == Phase::Stopped).await;
    }

    /// What is known of a partition before its witness is looked at.
    ///
    /// # Errors
    /// As [`JobTable::lookup`], and `Draining`.
    pub fn lookup(&self, uid: u32, submit: &Submit) -> Result<KnownPartition, ProtocolError> {
        let known = self.lock().jobs.lookup(uid, submit)?;
        if !matches!(known, Known::Partition(_)) {
            self.check_open()?;
        }
        Ok(known)
    }

    /// Takes a partition and queues it.
    ///
    /// # Errors
    /// As [`JobTable::admit`], and `Draining`.
    pub fn admit(
        &self,
        arrival: Arrival<'_, Arc<LoadedCircuit>, Witness>,
    ) -> Result<Accepted, ProtocolError> {
        let priority = arrival.submit.priority;
        let accepted = self.with(|state| {
            self.check_open()?;
            let charge = self.job_charge(&arrival, state);
            let accepted = state.jobs.admit(arrival, charge, Instant::now())?;
            state.workers.make_way(priority);
            Ok::<_, ProtocolError>(accepted)
        })?;
        self.0.wake.notify_one();
        Ok(accepted)
    }

    /// What a job takes of its owner's limits, once it is known that it is a new one. One too many is told how many
    /// partitions wait, and when it is worth coming again.
    fn job_charge<'a>(
        &'a self,
        arrival: &Arrival<'_, Arc<LoadedCircuit>, Witness>,
        state: &State,
    ) -> impl FnOnce() -> Result<Charge, ProtocolError> + use<'a> {
        let (uid, inputs) = (arrival.uid, arrival.circuit.circuit.num_inputs());
        let what = Countable::Job(proof_bytes(inputs) * u64::from(arrival.submit.partitions));
        let waiting = state.jobs.waiting();
        let retry_after = state.workers.retry_hint(waiting);
        move || {
            self.0.users.charge(uid, what).map_err(|limit| {
                ProtocolError::new(ErrorCode::Busy, limit.to_string())
                    .with_queue_length(u32::try_from(waiting).unwrap_or(u32::MAX))
                    .with_retry_after(retry_after)
            })
        }
    }

    /// Makes a place for a partition whose witness goes into the store first: see [`JobTable::begin`].
    ///
    /// # Errors
    /// As [`JobTable::begin`], and `Draining`.
    pub fn begin(
        &self,
        arrival: &Arrival<'_, Arc<LoadedCircuit>, Witness>,
        record: impl FnOnce(Admitted) -> io::Result<Record>,
    ) -> Result<Begun, ProtocolError> {
        self.with(|state| {
            self.check_open()?;
            let charge = self.job_charge(arrival, state);
            state.jobs.begin(arrival, charge, record, Instant::now())
        })
    }

    /// Queues a partition that has a place: see [`JobTable::confirm`].
    ///
    /// # Errors
    /// As [`JobTable::confirm`].
    pub fn confirm(
        &self,
        job: JobId,
        partition: u32,
        circuit: Arc<LoadedCircuit>,
        witness: Witness,
        stored: Option<StoredWitness>,
    ) -> Result<Accepted, ProtocolError> {
        let accepted = self.with(|state| {
            let accepted = state.jobs.confirm(job, partition, circuit, witness, stored, Instant::now())?;
            if let Some(priority) = state.jobs.priority(job) {
                state.workers.make_way(priority);
            }
            Ok::<_, ProtocolError>(accepted)
        })?;
        self.0.wake.notify_one();
        Ok(accepted)
    }

    /// Gives up a partition's place: see [`JobTable::withdraw`].
    pub fn withdraw(&self, job: JobId, partition: u32) {
        self.with(|state| state.jobs.withdraw(job, partition, Instant::now()));
    }

    /// Takes over a job that an earlier process has left: see [`JobTable::restore`].
    ///
    /// # Errors
    /// The record, where the job is here already.
    pub fn restore(
        &self,
        story: Story,
        record: Record,
        suspects: Vec<u32>,
        charge: Charge,
        times: (Instant, Instant),
    ) -> Result<(), Box<Record>> {
        self.lock().jobs.restore(story, record, suspects, charge, times)
    }

    /// Ends a job whose partition cannot be proved as it was left: see [`JobTable::fail`].
    pub fn fail(&self, job: JobId, partition: u32, failure: ProtocolError) {
        if let Some(ended) = self.with(|state| state.jobs.fail(job, partition, failure, Instant::now())) {
            ended.log();
        }
    }

    /// Whether the job is forgotten.
    pub fn is_gone(&self, job: JobId) -> bool {
        !self.lock().jobs.has(job)
    }

    /// Jobs that have not ended, and results that wait for their owner.
    pub fn count(&self) -> (usize, usize) {
        self.lock().jobs.count()
    }

    /// Notes that a partition is proved, before its witness is dropped: see [`JobTable::note_proved`].
    pub fn note_proved(&self, job: JobId, partition: u32, proof: &PartitionProof, backend: &str) {
        self.lock().jobs.note_proved(job, partition, proof, backend);
    }

    /// The next partition for a worker; waits for one. Of those of one priority a circuit that `prefers` is for goes first,
    /// for a while. None: the daemon is draining, the worker may end.
    pub fn next(&self, worker: usize, prefers: impl Fn(&LoadedCircuit) -> bool) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if self.phase() != Phase::Open {
                return None;
            }
            let prefers = |circuit: &Arc<LoadedCircuit>| prefers(circuit);
            if let Some(task) = state.jobs.next(Instant::now(), self.0.patience, prefers) {
                state.workers.begin(worker, &task);
                self.0.running.send_modify(|n| *n += 1);
                return Some(task);
            }
            state = self.0.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes the stage that the partition which a worker runs has reached.
    pub fn stage(&self, worker: usize, job: JobId, partition: u32, stage: Stage) {
        let mut state = self.lock();
        state.workers.stage(worker, stage);
        state.jobs.stage(job, partition, stage.name());
    }

    /// Puts the partition that a worker ran, and that had to make way, back into the queue.
    pub fn requeue(&self, worker: usize, task: Task) {
        self.with(|state| {
            state.workers.end(worker);
            state.jobs.requeue(task, Instant::now());
        });
        self.0.wake.notify_all();
        self.0.running.send_modify(|n| *n -= 1);
    }

    /// Ends the partition that a worker runs, whose witness has been dropped.
    pub fn complete(&self, worker: usize, job: JobId, partition: u32, outcome: Outcome, backend: &str) {
        let ended = self.with(|state| {
            match &outcome {
                Outcome::Proved(_) => state.workers.end_proved(worker),
                Outcome::Failed(_) | Outcome::Cancelled => state.workers.end(worker),
            }
            state.jobs.complete(job, partition, outcome, backend, Instant::now())
        });
        // Others may have waited for this one to end alone, or to be alone themselves.
        self.0.wake.notify_all();
        self.0.running.send_modify(|n| *n -= 1);
        if let Some(ended) = ended {
            ended.log();
        }
    }

    /// The worker's device is lost: it does nothing any more, and the daemon drains. The partition that it
    /// ran, whose witness has been dropped, is handed back.
    pub fn lose(&self, worker: usize, job: JobId, partition: u32, reason: String) {
        // First of all: whoever looks at the partition from now on is told that this daemon will not prove it.
        self.drain();
        self.with(|state| {
            state.workers.lose(worker);
            state.jobs.hand_back(job, partition, Instant::now());
        });
        self.0.lost.send_if_modified(|lost| lost.replace(reason.clone()).is_none());
        self.0.running.send_modify(|n| *n -= 1);
    }

    /// The device that was lost, and how.
    pub fn lost(&self) -> Option<String> {
        self.0.lost.borrow().clone()
    }

    /// Waits until a device is lost.
    pub async fn losing(&self) {
        // The sender lives as long as this scheduler.
        let _ = self.0.lost.subscribe().wait_for(Option::is_some).await;
    }

    /// Counts a worker's proof that failed its self-check and is tried again.
    pub fn count_retry(&self, worker: usize) {
        let mut state = self.lock();
        state.jobs.count_retry();
        state.workers.count_retry(worker);
    }

    /// Counts a refused request.
    pub fn count_refusal(&self) {
        self.lock().jobs.count_refusal();
    }

    /// Cancels a job: see [`JobTable::cancel`].
    ///
    /// # Errors
    /// `UnknownJob`.
    pub fn cancel(&self, uid: u32, job: JobId) -> Result<(), ProtocolError> {
        if let Some(ended) = self.with(|state| state.jobs.cancel(uid, job, Instant::now()))? {
            ended.log();
        }
        Ok(())
    }

    /// Forgets a job that has ended: see [`JobTable::acknowledge`].
    ///
    /// # Errors
    /// `UnknownJob`, `Busy`.
    pub fn acknowledge(&self, uid: u32, job: JobId) -> Result<(), ProtocolError> {
        self.with(|state| state.jobs.acknowledge(uid, job))
    }

    /// The job that an idempotency key names.
    ///
    /// # Errors
    /// `UnknownJob`.
    pub fn find(&self, uid: u32, key: &IdempotencyKey) -> Result<Accepted, ProtocolError> {
        self.lock().jobs.find(uid, key)
    }

    /// A channel that tells of every change of a job.
    ///
    /// # Errors
    /// `UnknownJob`, `JobLost`.
    pub fn watch(&self, uid: u32, job: JobId) -> Result<watch::Receiver<()>, ProtocolError> {
        self.lock().jobs.watch(uid, job).map_err(|e| self.or_lost(job, e))
    }

    /// A job as it is now.
    ///
    /// # Errors
    /// `UnknownJob`, `JobLost`; `Draining` where this daemon will not bring it to an end any more.
    pub fn view(&self, uid: u32, job: JobId) -> Result<View, ProtocolError> {
        let view = self.lock().jobs.view(uid, job).map_err(|e| self.or_lost(job, e))?;
        let goes_on = |(state, _): &(PartitionState, _)| {
            matches!(state, PartitionState::Running | PartitionState::Proved)
        };
        let hopeless = match self.phase() {
            Phase::Open => false,
            Phase::Draining => !view.partitions.iter().all(goes_on),
            Phase::Stopped => true,
        };
        if view.verdict.is_none() && hopeless { Err(draining()) } else { Ok(view) }
    }

    /// The jobs, and how many are left out: see [`JobTable::statuses`].
    pub fn statuses(&self) -> (Vec<JobStatus>, u32) {
        self.lock().jobs.statuses(STATUS_PARTITIONS, Instant::now())
    }

    /// Counts since the start.
    pub fn counters(&self) -> Counters {
        self.lock().jobs.counters()
    }

    /// What each worker does.
    pub fn workers(&self) -> Vec<WorkerView> {
        self.lock().workers.views()
    }

    /// Forgets what nobody has asked for within `ttl`, and ends what has missed its deadline.
    pub fn expire(&self, ttl: Duration) {
        let overdue = self.with(|state| {
            state.jobs.expire(Instant::now(), ttl);
            state.jobs.end_overdue(Instant::now())
        });
        overdue.iter().for_each(Ended::log);
    }

    /// What waits, by priority.
    pub fn queues(&self) -> Vec<QueueStatus> {
        self.lock().jobs.queues(Instant::now())
    }

    /// Witness buffers of partitions that wait or run, with their bytes, by what is done with them.
    pub fn buffers(&self) -> BTreeMap<&'static str, (u32, u64)> {
        self.lock().jobs.buffers()
    }

    /// Begins nothing any more. Whoever waits for what will not be done here is told.
    pub fn drain(&self) {
        self.enter(Phase::Draining);
    }

    /// Tells what runs to stop.
    pub fn stop(&self) {
        self.enter(Phase::Stopped);
        let mut state = self.lock();
        state.jobs.note_stop();
        state.workers.cancel_all();
    }

    fn enter(&self, phase: Phase) {
        let mut state = self.lock();
        self.0.phase.send_if_modified(|current| {
            let later = phase > *current;
            *current = phase.max(*current);
            later
        });
        state.jobs.wake_watchers();
        drop(state);
        self.0.wake.notify_all();
    }

    /// Waits until nothing runs.
    pub async fn idle(&self) {
        let _ = self.0.running.subscribe().wait_for(|n| *n == 0).await;
    }

    /// The heartbeat: whether every worker has made progress since the last call.
    ///
    /// # Errors
    /// [`Stalled`] names the first that has not.
    pub fn heartbeat(&self) -> Result<(), Stalled> {
        let mut state = self.lock();
        let waits = state.jobs.has_work() && self.phase() == Phase::Open;
        state.workers.heartbeat(waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{
        Counters, DaemonState, MemoryStatus, PartitionStatus, Priority, Reply, ReplyBody, Status, attached,
    };

    #[test]
    fn the_longest_status_can_be_sent_and_read() {
        let job = |_| JobStatus {
            job: JobId::generate(),
            uid: u32::MAX,
            circuit: "c".repeat(crate::catalog::definition::MAX_NAME),
            priority: Priority::Critical,
            age: Duration::from_millis(1),
            partitions: vec![PartitionStatus { state: PartitionState::Running, stage: "evaluate".into() }],
        };
        let status = Status {
            build: String::new(),
            pid: 1,
            uptime: Duration::ZERO,
            state: DaemonState::Ready,
            backends: Vec::new(),
            memory: MemoryStatus::default(),
            circuits: Vec::new(),
            jobs: (0..STATUS_PARTITIONS).map(job).collect(),
            omitted_jobs: 0,
            counters: Counters::default(),
            connections: 1,
            message: String::new(),
            queues: Vec::new(),
            buffers: Vec::new(),
        };
        let reply = Reply { id: 1, body: ReplyBody::Status(status) };
        let (packet, memfd) = attached::encode(&reply).unwrap();
        let ReplyBody::Attached(bytes) = Reply::decode(&packet).unwrap().body else { panic!("it is long") };
        assert_eq!(attached::read(1, bytes, memfd.unwrap()).unwrap(), reply);
    }
}
