//! How partitions come into the table: at once, by way of the store, or back from it.
use super::{
    Arrival, Begun, JobTable, Known, Place, Release, circuit_changed,
    job::{Job, Partition},
    unknown_job,
};
use crate::daemon::store::{Admitted, Record, StoredWitness, Story};
use crate::daemon::users::Charge;
use crate::proto::{Accepted, ContentId, ErrorCode, JobId, ProtocolError, Submit};
use std::{io, time::Instant};

impl<C: Clone, W: Release> JobTable<C, W> {
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
            Known::Arriving(_) => Ok(Err(Begun::Arriving)),
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
        self.backlog.push(job.rank(now), (id, partition), job.is_suspect(partition));
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

    fn refuse<T>(&mut self, mut witness: W, answer: T) -> T {
        witness.release();
        self.discarded.1.push(witness);
        answer
    }
}
