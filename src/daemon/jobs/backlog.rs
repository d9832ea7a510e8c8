//! The partitions that wait for a prover: the queue, and before it those over which the daemon has died more than once,
//! which are proved while nothing else is.
use crate::daemon::queue::{Queue, Rank};
use crate::proto::{JobId, QueueStatus};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// A partition of a job.
type Entry = (JobId, u32);

/// What waits, and what keeps it from being begun with.
#[derive(Default)]
pub(super) struct Backlog {
    queue: Queue<Entry>,
    suspects: VecDeque<Entry>,
    /// Whether one of the suspects runs.
    isolated: bool,
    /// Partitions that run.
    running: usize,
}

impl Backlog {
    /// Adds a partition.
    pub(super) fn push(&mut self, rank: Rank, entry: Entry, is_suspect: bool) {
        if is_suspect {
            self.suspects.push_back(entry);
        } else {
            self.queue.push(rank, entry);
        }
    }

    /// Gives a partition back that had to make way: it is the next of its kind.
    pub(super) fn push_front(&mut self, rank: Rank, entry: Entry, is_suspect: bool) {
        if is_suspect {
            self.suspects.push_front(entry);
        } else {
            self.queue.push_front(rank, entry);
        }
    }

    /// Takes the partition whose turn it is: see [`Queue::pop`]. It runs once [`Self::began`] says so.
    pub(super) fn pop(
        &mut self,
        now: Instant,
        patience: Duration,
        prefers: impl Fn(&Entry) -> bool,
    ) -> Option<Entry> {
        self.suspects.pop_front().or_else(|| self.queue.pop(now, patience, prefers))
    }

    /// A partition runs from now on.
    pub(super) fn began(&mut self, is_suspect: bool) {
        self.running += 1;
        self.isolated |= is_suspect;
    }

    /// One runs no longer.
    pub(super) fn ended(&mut self) {
        self.running = self.running.saturating_sub(1);
        self.isolated &= self.running > 0;
    }

    /// Removes a job's partitions; `rank` is that of any of them.
    pub(super) fn remove(&mut self, job: JobId, rank: Rank) {
        self.queue.retain(rank.priority, rank.uid, |(queued, _)| *queued != job);
        self.suspects.retain(|(queued, _)| *queued != job);
    }

    /// Whether a partition waits that may be begun with now.
    pub(super) fn has_work(&self) -> bool {
        let alone = self.running == 0;
        !self.isolated && if self.suspects.is_empty() { !self.queue.is_empty() } else { alone }
    }

    /// How many partitions wait.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.suspects.len()
    }

    /// What waits, by priority.
    pub(super) fn statuses(&self, now: Instant) -> Vec<QueueStatus> {
        self.queue.statuses(now)
    }
}
