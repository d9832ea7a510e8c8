//! What the table shows: to the owner of a job, to whoever asks for the daemon's status, and to the scheduler.
use super::{
    JobTable, Release, View,
    job::{Job, Partition},
};
use crate::proto::{
    Accepted, Counters, ErrorCode, IdempotencyKey, JobId, JobStatus, Priority, ProtocolError, QueueStatus,
};
use std::{collections::BTreeMap, time::Instant};
use tokio::sync::watch;

impl<C: Clone, W: Release> JobTable<C, W> {
    /// What waits, by priority.
    pub fn queues(&self, now: Instant) -> Vec<QueueStatus> {
        self.backlog.statuses(now)
    }

    /// How many partitions wait for a prover.
    pub fn waiting(&self) -> usize {
        self.backlog.len()
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

    /// Whether there is such a job.
    pub fn has(&self, id: JobId) -> bool {
        self.jobs.contains_key(&id)
    }

    /// Jobs that have not ended, and results that wait for their owner.
    pub fn count(&self) -> (usize, usize) {
        let unfinished = self.jobs.values().filter(|job| job.verdict.is_none()).count();
        (unfinished, self.jobs.len() - unfinished)
    }
}
