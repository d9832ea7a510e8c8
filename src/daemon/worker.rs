//! The thread that takes partitions from the scheduler, has a backend prove them, and verifies every proof
//! before it can leave: only a [`VerifiedProof`] becomes a result. A proof that does not verify is tried once
//! more, unless the witness itself is at fault. Whatever panics is that partition's failure, not the daemon's.
use super::backend::{Backend, BackendError, Claim, ProofRequest};
use super::budget::Budget;
use super::instruments::{End, Instruments, Past};
use super::jobs::Outcome;
use super::registry::{LoadedCircuit, describe};
use super::scheduler::{Phase, Scheduler, Task};
use super::witness::{PrivateWitness, ReadError, Witness};
use crate::algebra::{CancelToken, Cancelled, Canonical};
use crate::gpu::prover::DeviceError;
use crate::groth16::{ProveError, Randomness, Stage, Timeline, VerifiedProof, VerifyError};
use crate::proto::{ContentId, ErrorCode, MAX_INLINE_INPUT_BYTES, PartitionProof, ProtocolError, Span};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::Instant,
};

/// Proofs that are made for a partition before its failure is its job's.
const ATTEMPTS: u32 = 2;

/// One worker.
pub struct Worker {
    /// Its number.
    pub index: usize,
    /// Where its work comes from.
    pub scheduler: Scheduler,
    /// What proves.
    pub backend: Arc<dyn Backend>,
    /// The backend's number among the provers, and this worker's among the backend's.
    pub place: (usize, usize),
    /// Where the time is told.
    pub instruments: Arc<Instruments>,
    /// Where the backend's working memory comes from.
    pub budget: Budget,
}

/// Why a partition has no proof.
enum Failure {
    Cancelled,
    Typed(ProtocolError),
    /// The device is lost.
    Lost(String),
}

impl From<ProtocolError> for Failure {
    fn from(error: ProtocolError) -> Self {
        Self::Typed(error)
    }
}

fn internal(message: impl Into<String>) -> ProtocolError {
    ProtocolError::new(ErrorCode::Internal, message)
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Cancelled(_) => Self::Cancelled,
            ReadError::Invalid(invalid) => Self::Typed(ProtocolError::from(&invalid)),
        }
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Witness(error) => error.into(),
            BackendError::Prove(ProveError::Cancelled(_)) => Self::Cancelled,
            BackendError::Prove(error) => Self::Typed(internal(format!("the prover failed: {error}"))),
            BackendError::Device(DeviceError::Gpu(error)) if error.is_out_of_memory() => {
                Self::Typed(ProtocolError::new(ErrorCode::DeviceMemory, error.to_string()))
            }
            BackendError::Device(error) => Self::Typed(internal(format!("the device failed: {error}"))),
            BackendError::Lost(error) => Self::Lost(error.to_string()),
        }
    }
}

impl Worker {
    /// Starts the thread. It ends when the scheduler drains.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(self) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new().name(format!("worker-{}", self.index)).spawn(move || {
            let prefers = |circuit: &LoadedCircuit| self.backend.has(circuit.circuit_id, &circuit.key);
            while let Some(task) = self.scheduler.next(self.index, prefers)
                && self.run(task)
            {}
        })
    }

    /// Whether the backend can go on.
    fn run(&self, task: Task) -> bool {
        let mut timeline = Timeline { start: task.submitted, spans: Vec::new() };
        if let Some((asked, granted)) = task.witness.waited() {
            timeline.start = asked;
            timeline.record_until(Stage::Lease, asked, granted);
            timeline.record_until(Stage::Witness, granted, task.submitted);
        }
        timeline.record_until(Stage::Queued, task.submitted, task.begun);
        let proved = catch_unwind(AssertUnwindSafe(|| self.prove(&task, &mut timeline)));
        self.at(None);
        self.remember(&task, timeline, &proved);
        let outcome = match proved {
            Ok(Err(Failure::Cancelled)) if task.cancel.is_preempted() => {
                self.scheduler.requeue(self.index, task);
                return true;
            }
            Ok(Ok(proof)) => Outcome::Proved(proof),
            Ok(Err(Failure::Cancelled)) => Outcome::Cancelled,
            Ok(Err(Failure::Typed(error))) => Outcome::Failed(error),
            Ok(Err(Failure::Lost(reason))) => {
                self.lose(task, reason);
                return false;
            }
            Err(panic) => Outcome::Failed(internal(format!("the prover panicked: {}", describe(&*panic)))),
        };
        let Task { job, partition, circuit, mut witness, .. } = task;
        if let Outcome::Proved(proof) = &outcome {
            // The proof outlives this process before the witness is given up.
            self.scheduler.note_proved(job, partition, proof, self.backend.name());
        }
        if self.scheduler.phase() != Phase::Stopped {
            witness.release();
        }
        // The lease is free before anybody can learn that the partition has ended.
        drop((witness, circuit));
        self.scheduler.complete(self.index, job, partition, outcome, self.backend.name());
        true
    }

    /// Ends the work of this worker for good, and that of the daemon: the partition is nobody's fault, and is
    /// handed back for the next daemon.
    fn lose(&self, task: Task, reason: String) {
        let Task { job, partition, circuit, witness, .. } = task;
        let backend = self.backend.name();
        tracing::error!(
            JOB = %job, BACKEND = backend,
            "{backend} is lost in partition {partition} of job {job}: {reason}"
        );
        drop((witness, circuit));
        self.scheduler.lose(self.index, job, partition, format!("{backend}: {reason}"));
    }

    /// Tells the stage that this worker is at.
    fn at(&self, stage: Option<Stage>) {
        let (prover, slot) = self.place;
        self.instruments.activity.stage(prover, slot, stage);
    }

    fn remember(
        &self,
        task: &Task,
        timeline: Timeline,
        proved: &thread::Result<Result<PartitionProof, Failure>>,
    ) {
        let end = match proved {
            Ok(Ok(_)) => End::Proved,
            // A lost device hands it back: it has not failed.
            Ok(Err(Failure::Cancelled | Failure::Lost(_))) => End::Stopped,
            _ => End::Failed,
        };
        self.instruments.ended(Past {
            job: task.job,
            partition: task.partition,
            uid: task.uid,
            circuit: task.circuit.name.clone(),
            prover: (self.backend.name().to_owned(), self.place.1),
            end,
            start: self.instruments.history.since(timeline.start),
            spans: timeline.spans,
        });
    }

    fn prove(&self, task: &Task, timeline: &mut Timeline) -> Result<PartitionProof, Failure> {
        let Task { circuit, witness, cancel, .. } = task;
        let working = self.backend.working_bytes(&circuit.circuit, &circuit.key);
        let _working = self.budget.draw(working).map_err(|e| internal(e.to_string()))?;
        for attempt in 1..=ATTEMPTS {
            let mut on_stage = |stage| {
                self.at(Some(stage));
                self.scheduler.stage(self.index, task.job, task.partition, stage);
            };
            let claim = self.backend.prove(ProofRequest {
                name: &circuit.name,
                circuit: &circuit.circuit,
                circuit_id: circuit.circuit_id,
                key: &circuit.key,
                witness,
                randomness: Randomness::from_os().map_err(|e| internal(format!("no randomness: {e}")))?,
                cancel,
                priority: task.priority,
                timeline: &mut *timeline,
                on_stage: &mut on_stage,
            })?;
            cancel.settle();
            cancel.check().map_err(|_| Failure::Cancelled)?;
            on_stage(Stage::Verify);
            let began = Instant::now();
            let checked = circuit.verifier.verify(&claim.proof, &claim.inputs);
            timeline.record(Stage::Verify, began);
            let rejected = match checked {
                Ok(verified) => return Ok(report(verified, &claim, attempt, timeline)),
                Err(rejected) => rejected,
            };
            self.explain(task, circuit, witness, cancel)?;
            self.note_rejection(task, attempt, &rejected);
        }
        let message = format!(
            "{ATTEMPTS} proofs of circuit {} did not verify, and the witness is not known to be at fault",
            circuit.name
        );
        Err(ProtocolError::new(ErrorCode::SelfCheckFailed, message).into())
    }

    /// Fails if the witness is what is wrong with a proof. That is known where the circuit's C is.
    fn explain(
        &self,
        task: &Task,
        circuit: &LoadedCircuit,
        witness: &Witness,
        cancel: &CancelToken,
    ) -> Result<(), Failure> {
        if circuit.circuit.c().is_none() {
            return Ok(());
        }
        // The backend's working memory, which is free again, holds what this takes.
        let z = PrivateWitness::read(witness, &circuit.circuit, cancel)?;
        let unsatisfied = circuit.circuit.first_unsatisfied(z.values(), cancel);
        let Some(row) = unsatisfied.map_err(|Cancelled| Failure::Cancelled)? else { return Ok(()) };
        let message = format!(
            "partition {}: the witness does not satisfy constraint {row} of circuit {}",
            task.partition, circuit.name
        );
        Err(ProtocolError::new(ErrorCode::Unsatisfied, message).with_index(row as u64).into())
    }

    fn note_rejection(&self, task: &Task, attempt: u32, rejected: &VerifyError) {
        let (job, partition, circuit) = (task.job, task.partition, &task.circuit.name);
        let backend = self.backend.name();
        tracing::error!(
            JOB = %job, CIRCUIT = &circuit[..], BACKEND = backend,
            "job {job}: proof {attempt} of partition {partition} failed its self-check: {rejected}"
        );
        if attempt < ATTEMPTS {
            self.scheduler.count_retry(self.index);
        }
    }
}

/// The result of a partition: nothing but a verified proof makes one.
fn report(verified: VerifiedProof, claim: &Claim, attempts: u32, timeline: &Timeline) -> PartitionProof {
    let inputs: Vec<[u8; 32]> = claim.inputs.iter().map(|input| Canonical::to_le_bytes(*input)).collect();
    let hash = blake3::hash(inputs.as_flattened());
    let spans = timeline.spans.iter().map(|span| Span {
        stage: span.stage.name().to_owned(),
        start: span.start,
        duration: span.duration,
    });
    PartitionProof {
        proof: verified.proof().to_bytes(),
        public_inputs_hash: ContentId(hash.into()),
        public_inputs: if 32 * inputs.len() <= MAX_INLINE_INPUT_BYTES { inputs } else { Vec::new() },
        attempts,
        timeline: spans.collect(),
    }
}
