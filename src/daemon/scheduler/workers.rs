//! The workers, as the scheduler sees them: what each proves, whether it is alive, and which one makes way for more urgent
//! work.
use super::Task;
use crate::algebra::CancelToken;
use crate::groth16::Stage;
use crate::proto::{CurrentPartition, JobId, Priority};
use std::{
    cmp::Reverse,
    time::{Duration, Instant},
};

/// What a worker does.
enum Doing {
    /// Waits. True: work was waiting already at the last look.
    Idle(bool),
    /// Proves.
    Busy(Box<Busy>),
    /// Nothing any more: its device is lost.
    Lost,
}

/// A partition that a worker proves.
struct Busy {
    cancel: CancelToken,
    /// The token's looks at the last look at the worker.
    looks: Option<u64>,
    priority: Priority,
    job: JobId,
    partition: u32,
    circuit: String,
    begun: Instant,
    /// The last stage that was told.
    stage: Option<Stage>,
}

struct Worker {
    doing: Doing,
    /// Proofs that did not verify and were made again.
    retries: u64,
}

/// A worker as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// What it proves.
    pub current: Option<CurrentPartition>,
    /// Whether its device is lost.
    pub lost: bool,
    /// Proofs that did not verify and were made again.
    pub retries: u64,
}

/// A worker that makes no progress.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stalled {
    /// It has not looked at its token since the last heartbeat.
    #[error("worker {worker} has made no progress with its proof")]
    Busy {
        /// Which one, from 0.
        worker: usize,
    },
    /// It has not taken work that was there at the last heartbeat.
    #[error("worker {worker} does not take the work that waits")]
    Idle {
        /// Which one, from 0.
        worker: usize,
    },
}

/// All workers.
pub(super) struct Workers {
    all: Vec<Worker>,
    service: ServiceTime,
}

impl Workers {
    pub(super) fn new(number: usize) -> Self {
        let all = (0..number).map(|_| Worker { doing: Doing::Idle(false), retries: 0 }).collect();
        Self { all, service: ServiceTime::default() }
    }

    /// A worker begins with a partition.
    pub(super) fn begin(&mut self, worker: usize, task: &Task) {
        self.all[worker].doing = Doing::Busy(Box::new(Busy {
            cancel: task.cancel.clone(),
            looks: None,
            priority: task.priority,
            job: task.job,
            partition: task.partition,
            circuit: task.circuit.name.clone(),
            begun: task.begun,
            stage: None,
        }));
    }

    /// The partition that a worker proves has reached this stage.
    pub(super) fn stage(&mut self, worker: usize, stage: Stage) {
        if let Doing::Busy(busy) = &mut self.all[worker].doing {
            busy.stage = Some(stage);
        }
    }

    /// A worker has no partition any more.
    pub(super) fn end(&mut self, worker: usize) {
        self.all[worker].doing = Doing::Idle(false);
    }

    /// A worker has no partition any more, whose time was that of a proof.
    pub(super) fn end_proved(&mut self, worker: usize) {
        if let Doing::Busy(busy) = &self.all[worker].doing {
            self.service.add(busy.begun.elapsed());
        }
        self.end(worker);
    }

    /// A worker's device is lost.
    pub(super) fn lose(&mut self, worker: usize) {
        self.all[worker].doing = Doing::Lost;
    }

    /// A worker's proof did not verify, and is made again.
    pub(super) fn count_retry(&mut self, worker: usize) {
        self.all[worker].retries += 1;
    }

    /// Tells all to stop.
    pub(super) fn cancel_all(&self) {
        for worker in &self.all {
            if let Doing::Busy(busy) = &worker.doing {
                busy.cancel.cancel();
            }
        }
    }

    /// Has a worker make way for a critical partition that no idle one can take, nor one that is about to be: the
    /// least urgent, and of those one that only waits for its device before one that is on it.
    pub(super) fn make_way(&self, priority: Priority) {
        let is_free = |worker: &Worker| match &worker.doing {
            Doing::Idle(_) => true,
            Doing::Busy(busy) => busy.cancel.is_settled(),
            Doing::Lost => false,
        };
        if priority != Priority::Critical || self.all.iter().any(is_free) {
            return;
        }
        let busy = self.all.iter().filter_map(|worker| match &worker.doing {
            Doing::Busy(busy) if busy.priority < priority && !busy.cancel.is_preempted() => Some(busy),
            _ => None,
        });
        let waits = |busy: &Busy| matches!(busy.stage, None | Some(Stage::Pin | Stage::Slot));
        if let Some(busy) = busy.min_by_key(|busy| (busy.priority, !waits(busy), Reverse(busy.begun))) {
            busy.cancel.preempt();
        }
    }

    /// When it is worth asking again, with so many partitions waiting.
    pub(super) fn retry_hint(&self, waiting: usize) -> Duration {
        self.service.hint(waiting)
    }

    pub(super) fn views(&self) -> Vec<WorkerView> {
        let current = |doing: &Doing| match doing {
            Doing::Busy(busy) => Some(CurrentPartition {
                job: busy.job,
                partition: busy.partition,
                circuit: busy.circuit.clone(),
                stage: busy.stage.map_or("", Stage::name).to_owned(),
                running: busy.begun.elapsed(),
            }),
            Doing::Idle(_) | Doing::Lost => None,
        };
        let view = |worker: &Worker| WorkerView {
            current: current(&worker.doing),
            lost: matches!(worker.doing, Doing::Lost),
            retries: worker.retries,
        };
        self.all.iter().map(view).collect()
    }

    /// Whether every worker has made progress since the last call; `waits`: there is work for an idle one.
    pub(super) fn heartbeat(&mut self, waits: bool) -> Result<(), Stalled> {
        let mut stalled = Ok(());
        for (worker, state) in self.all.iter_mut().enumerate() {
            match &mut state.doing {
                Doing::Lost => {}
                Doing::Idle(waited) => {
                    if waits && *waited && stalled.is_ok() {
                        stalled = Err(Stalled::Idle { worker });
                    }
                    *waited = waits;
                }
                Doing::Busy(busy) => {
                    let looks = busy.cancel.looks();
                    if busy.looks == Some(looks) && stalled.is_ok() {
                        stalled = Err(Stalled::Busy { worker });
                    }
                    busy.looks = Some(looks);
                }
            }
        }
        stalled
    }
}

/// How long a worker has a partition, lately: an average in which each one counts for an eighth.
#[derive(Default)]
struct ServiceTime(Option<Duration>);

impl ServiceTime {
    fn add(&mut self, time: Duration) {
        self.0 = Some(self.0.map_or(time, |average| (average * 7 + time) / 8));
    }

    fn hint(&self, waiting: usize) -> Duration {
        let each = self.0.unwrap_or(Duration::from_secs(1));
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX).max(1);
        each.saturating_mul(waiting).clamp(Duration::from_millis(100), Duration::from_secs(60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_follows_the_time_that_proofs_take() {
        let mut service = ServiceTime::default();
        assert_eq!(service.hint(0), Duration::from_secs(1), "nothing is known yet");
        service.add(Duration::from_millis(400));
        assert_eq!(service.hint(5), Duration::from_secs(2));
        service.add(Duration::from_millis(1200));
        assert_eq!(service.hint(1), Duration::from_millis(500));
        assert_eq!((service.hint(1 << 40), ServiceTime(Some(Duration::ZERO)).hint(3)).0.as_secs(), 60);
        assert_eq!(ServiceTime(Some(Duration::ZERO)).hint(3), Duration::from_millis(100));
    }
}
