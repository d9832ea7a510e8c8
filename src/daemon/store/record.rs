//! What is kept of one job while it lives: its journal, and the witnesses of those partitions that are unfinished. The
//! job table tells it each step, before anybody else can learn of it; a witness leaves the store only
//! when the journal says what became of its partition.
//!
//! Nothing here waits for the service manager, so that all of it may happen under the table's lock.
use super::event::{Admitted, Event, StoredWitness, Timed};
use super::journal::Journal;
use super::keeper::Keeper;
use super::names;
use crate::proto::{JobResult, PartitionProof, ProtocolError};
use nix::time::{ClockId, clock_gettime};
use std::{collections::BTreeMap, io, os::fd::OwnedFd, time::Duration};

/// The time since the system was started; it goes on while the system sleeps.
pub fn since_boot() -> Duration {
    // The clock cannot fail on Linux.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

/// The record of one job.
pub struct Record {
    admitted: Admitted,
    journal: Journal,
    name: String,
    keeper: Keeper,
    /// Names of the witnesses of unfinished partitions.
    witnesses: BTreeMap<u32, String>,
    /// An entry is missing: what it was about must not leave the store.
    broken: bool,
}

impl Record {
    /// The record of a new job. It is not in the store yet.
    ///
    /// # Errors
    /// The system has no memory for a journal.
    pub fn new(admitted: Admitted, keeper: Keeper) -> io::Result<Self> {
        let journal = Journal::create()?;
        let name = names::of_journal(journal.memfd())?;
        let entry = Timed { at: since_boot(), event: Event::Admitted(admitted.clone()) };
        let mut record = Self { admitted, journal, name, keeper, witnesses: BTreeMap::new(), broken: false };
        record.journal.append(&entry.encode())?;
        Ok(record)
    }

    /// The record of a job that an earlier process has left, with the witnesses that are still in use.
    pub fn restored(
        admitted: Admitted,
        journal: Journal,
        name: String,
        keeper: Keeper,
        witnesses: BTreeMap<u32, String>,
    ) -> Self {
        keeper.take_up(&name);
        witnesses.values().for_each(|witness| keeper.take_up(witness));
        Self { admitted, journal, name, keeper, witnesses, broken: false }
    }

    /// The journal's name, and a descriptor to be kept under it.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn entry(&self) -> io::Result<(String, OwnedFd)> {
        Ok((self.name.clone(), self.journal.memfd().try_clone_to_owned()?))
    }

    /// The job as it was admitted.
    pub fn admitted(&self) -> &Admitted {
        &self.admitted
    }

    /// Writes an entry; whether it is there.
    fn note(&mut self, event: Event) -> bool {
        let job = self.admitted.job;
        if let Err(error) = self.journal.append(&Timed { at: since_boot(), event }.encode()) {
            if !self.broken {
                tracing::error!(JOB = %job, "job {job} would not survive a restart as it is now: {error}");
            }
            self.broken = true;
        }
        !self.broken
    }

    /// A partition's witness is in the store.
    pub fn submitted(&mut self, partition: u32, witness: StoredWitness) {
        self.witnesses.insert(partition, witness.name.clone());
        self.note(Event::Submitted(partition, witness));
    }

    /// A prover begins with a partition.
    pub fn began(&mut self, partition: u32) {
        self.note(Event::Began(partition));
    }

    /// A prover has given a partition back unproved, in good order: it is not to blame for what comes.
    pub fn returned(&mut self, partition: u32) {
        self.note(Event::Returned(partition));
    }

    /// A partition is proved, and its witness needed no more.
    pub fn proved(&mut self, partition: u32, proof: &PartitionProof, backend: &str) {
        let Admitted { job, circuit, circuit_id, key_id, .. } = &self.admitted;
        let result = JobResult {
            job: *job,
            circuit: circuit.clone(),
            circuit_id: *circuit_id,
            key_id: *key_id,
            build: crate::BUILD_ID.to_owned(),
            backend: backend.to_owned(),
            proofs: vec![proof.clone()],
        };
        if self.note(Event::Proved(partition, result))
            && let Some(witness) = self.witnesses.remove(&partition)
        {
            self.keeper.release(&witness);
        }
    }

    /// The job failed or was cancelled: no witness is needed any more.
    pub fn failed(&mut self, error: &ProtocolError) {
        if self.note(Event::Failed(error.clone())) {
            self.release_witnesses();
        }
    }

    /// The job is forgotten, and leaves the store.
    pub fn forgotten(mut self) {
        // Should the process end before the manager has let go of it: it is not to come back.
        self.note(Event::Forgotten);
        self.release_witnesses();
        self.keeper.forget(&self.name);
    }

    fn release_witnesses(&mut self) {
        for witness in std::mem::take(&mut self.witnesses).into_values() {
            self.keeper.release(&witness);
        }
    }
}
