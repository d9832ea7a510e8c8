//! What the daemon remembers of partitions that have ended: the last ones, whoever's they were, for traces.
use crate::groth16::Span;
use crate::proto::JobId;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Partitions that are remembered: about 1 KiB each.
const REMEMBERED: usize = 4096;

/// How a partition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Proved and verified.
    Proved,
    /// Failed.
    Failed,
    /// Cancelled, told to make way, or on a device that was lost.
    Stopped,
}

impl End {
    /// As in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// A partition that has ended.
#[derive(Clone, Debug)]
pub struct Past {
    /// Its job.
    pub job: JobId,
    /// Its index.
    pub partition: u32,
    /// Its owner.
    pub uid: u32,
    /// The circuit's name.
    pub circuit: String,
    /// The prover's name, and the slot.
    pub prover: (String, usize),
    /// How it ended.
    pub end: End,
    /// What its spans are relative to, since the history began.
    pub start: Duration,
    /// What was done when.
    pub spans: Vec<Span>,
}

/// The last partitions.
pub struct History {
    began: Instant,
    past: Mutex<VecDeque<Past>>,
}

impl Default for History {
    fn default() -> Self {
        Self { began: Instant::now(), past: Mutex::default() }
    }
}

impl History {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Past>> {
        // The list changes in single steps: a poisoned one is still consistent.
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When something happened, since the history began.
    pub fn since(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.began)
    }

    /// Remembers a partition, and forgets the oldest where there are too many.
    pub fn push(&self, past: Past) {
        let mut all = self.lock();
        if all.len() >= REMEMBERED {
            all.pop_front();
        }
        all.push_back(past);
    }

    /// The last partitions, of one job or of any, oldest first; at most so many, 0 for no limit.
    pub fn last(&self, job: Option<JobId>, most: u32) -> Vec<Past> {
        let all = self.lock();
        let wanted = all.iter().rev().filter(|past| job.is_none_or(|job| past.job == job));
        let most = if most == 0 { usize::MAX } else { most as usize };
        let mut last: Vec<_> = wanted.take(most).cloned().collect();
        last.reverse();
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered() {
        let history = History::default();
        let jobs = [JobId([1; 16]), JobId([2; 16])];
        let total = REMEMBERED as u32 + 10;
        for partition in 0..total {
            history.push(Past {
                job: jobs[partition as usize % 2],
                partition,
                uid: 1,
                circuit: "spend".into(),
                prover: ("cpu".into(), 0),
                end: End::Proved,
                start: history.since(Instant::now()),
                spans: Vec::new(),
            });
        }
        let found = |job, most| history.last(job, most).iter().map(|p| p.partition).collect::<Vec<_>>();
        assert_eq!(found(None, 0), (10..total).collect::<Vec<_>>());
        assert_eq!(found(None, 2), [total - 2, total - 1]);
        assert_eq!(found(Some(jobs[1]), 2), [total - 3, total - 1]);
        assert!(found(Some(JobId([3; 16])), 0).is_empty());
    }
}
