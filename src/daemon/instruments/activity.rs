//! Where each prover's time goes: busy, or idle for want of something. Workers tell the stage that they are at, waits and
//! buffers in clients' hands are counted by guards, and each such change settles the time since the last one.
use crate::groth16::Stage;
use crate::proto::IdleTimes;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// What may be waited for while a prover is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A request waits for memory.
    Memory,
    /// A request waits for a circuit to be loaded.
    Key,
}

/// What a prover's time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spending {
    Busy,
    NoWork,
    Witness,
    Memory,
    Key,
    Epilogue,
}

/// One prover.
struct Prover {
    /// Whether assembly and verification take its own time.
    is_host: bool,
    /// The stages that its workers are at.
    slots: Vec<Option<Stage>>,
    busy: Duration,
    idle: IdleTimes,
    since: Instant,
    now: Spending,
}

impl Prover {
    fn add(&mut self, now: Instant) {
        let spent = now.saturating_duration_since(self.since);
        self.since = now;
        *match self.now {
            Spending::Busy => &mut self.busy,
            Spending::NoWork => &mut self.idle.no_work,
            Spending::Witness => &mut self.idle.witness,
            Spending::Memory => &mut self.idle.memory,
            Spending::Key => &mut self.idle.key,
            Spending::Epilogue => &mut self.idle.epilogue,
        } += spent;
    }

    fn judge(&self, waits: &Waits) -> Spending {
        let stages = || self.slots.iter().flatten();
        let computes = |stage: &Stage| match stage {
            Stage::Lease | Stage::Witness | Stage::Queued | Stage::Pin | Stage::Slot | Stage::Key => false,
            Stage::Assemble | Stage::Verify => self.is_host,
            _ => true,
        };
        if stages().any(computes) {
            Spending::Busy
        } else if stages().any(|stage| *stage == Stage::Key) {
            Spending::Key
        } else if self.slots.iter().all(Option::is_some) {
            Spending::Epilogue
        } else if waits.memory > 0 {
            Spending::Memory
        } else if waits.keys > 0 {
            Spending::Key
        } else if waits.buffers > 0 {
            Spending::Witness
        } else {
            Spending::NoWork
        }
    }
}

#[derive(Default)]
struct Waits {
    memory: usize,
    keys: usize,
    buffers: u32,
    bytes: u64,
}

struct Books {
    provers: Vec<Prover>,
    waits: Waits,
}

impl Books {
    fn settle(&mut self) {
        let now = Instant::now();
        for prover in &mut self.provers {
            prover.add(now);
            prover.now = prover.judge(&self.waits);
        }
    }
}

/// The time of all provers; clones share it.
#[derive(Clone)]
pub struct Activity(Arc<Mutex<Books>>);

/// One prover's time since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// It computed or copied.
    pub busy: Duration,
    /// It did not.
    pub idle: IdleTimes,
}

/// One wait, until it is dropped.
pub struct Waiting(Activity, Wait);

/// A buffer in a client's hands, until it is dropped.
pub struct Writing(Activity, u64);

impl Activity {
    /// Of provers with so many slots each, of which some are the host itself.
    pub fn new(provers: impl IntoIterator<Item = (usize, bool)>) -> Self {
        let since = Instant::now();
        let prover = |(slots, is_host)| Prover {
            is_host,
            slots: vec![None; slots],
            busy: Duration::ZERO,
            idle: IdleTimes::default(),
            since,
            now: Spending::NoWork,
        };
        let provers = provers.into_iter().map(prover).collect();
        Self(Arc::new(Mutex::new(Books { provers, waits: Waits::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        // Books change in single steps: poisoned ones are still consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker is at this stage now; None: it is free.
    pub fn stage(&self, prover: usize, slot: usize, stage: Option<Stage>) {
        let mut books = self.lock();
        if let Some(slot) = books.provers.get_mut(prover).and_then(|prover| prover.slots.get_mut(slot)) {
            *slot = stage;
        }
        books.settle();
    }

    /// Something waits from now on.
    pub fn wait(&self, what: Wait) -> Waiting {
        let mut books = self.lock();
        *books.waits.of(what) += 1;
        books.settle();
        Waiting(self.clone(), what)
    }

    /// A client has a buffer of so many bytes from now on.
    pub fn write(&self, bytes: u64) -> Writing {
        let mut books = self.lock();
        books.waits.buffers += 1;
        books.waits.bytes += bytes;
        books.settle();
        Writing(self.clone(), bytes)
    }

    /// Buffers in clients' hands, and their bytes.
    pub fn buffers(&self) -> (u32, u64) {
        let books = self.lock();
        (books.waits.buffers, books.waits.bytes)
    }

    /// The time of each prover until now.
    pub fn spent(&self) -> Vec<Spent> {
        let mut books = self.lock();
        books.settle();
        books.provers.iter().map(|prover| Spent { busy: prover.busy, idle: prover.idle }).collect()
    }
}

impl Waits {
    fn of(&mut self, what: Wait) -> &mut usize {
        match what {
            Wait::Memory => &mut self.memory,
            Wait::Key => &mut self.keys,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut books = self.0.lock();
        *books.waits.of(self.1) -= 1;
        books.settle();
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut books = self.0.lock();
        books.waits.buffers -= 1;
        books.waits.bytes -= self.1;
        books.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    const STEP: Duration = Duration::from_millis(5);

    /// What grows while something is so: each cause at its time, and nothing is counted twice.
    #[test]
    fn each_moment_is_counted_once_and_by_its_cause() {
        let activity = Activity::new([(2, false)]);
        let began = Instant::now();
        let mut before = activity.spent()[0];
        let mut grown = |what: &str| {
            sleep(STEP);
            let after = activity.spent()[0];
            let mut causes: Vec<_> = after
                .idle
                .by_cause()
                .into_iter()
                .zip(before.idle.by_cause())
                .filter(|((_, after), (_, before))| *after - *before >= STEP)
                .map(|((cause, _), _)| cause)
                .collect();
            if after.busy - before.busy >= STEP {
                causes.push("busy");
            }
            before = after;
            assert_eq!(causes, [what]);
        };
        grown("no_work");
        let buffer = activity.write(4096);
        assert_eq!(activity.buffers(), (1, 4096));
        grown("witness");
        let key = activity.wait(Wait::Key);
        grown("key");
        let memory = activity.wait(Wait::Memory);
        grown("memory");
        activity.stage(0, 0, Some(Stage::Verify));
        grown("memory");
        activity.stage(0, 1, Some(Stage::Pin));
        grown("epilogue");
        activity.stage(0, 1, Some(Stage::Key));
        grown("key");
        activity.stage(0, 1, Some(Stage::MsmH));
        grown("busy");
        drop((memory, key, buffer));
        activity.stage(0, 0, None);
        activity.stage(0, 1, None);
        grown("no_work");
        let (spent, elapsed) = (activity.spent()[0], began.elapsed());
        let sum = spent.busy + spent.idle.total();
        assert!(sum <= elapsed + STEP && sum >= 9 * STEP, "{sum:?} of {elapsed:?}");
    }

    #[test]
    fn the_host_verifies_in_its_own_time() {
        let activity = Activity::new([(1, true), (1, false)]);
        activity.stage(0, 0, Some(Stage::Verify));
        activity.stage(1, 0, Some(Stage::Verify));
        sleep(STEP);
        let spent = activity.spent();
        assert!(spent[0].busy >= STEP && spent[0].idle.epilogue.is_zero(), "{spent:?}");
        assert!(spent[1].busy.is_zero() && spent[1].idle.epilogue >= STEP, "{spent:?}");
    }
}
