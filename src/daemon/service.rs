//! What all connections share: circuits, jobs, memory, the users' accounts, and the daemon's own state.
use super::backend::Backend;
use super::budget::Budget;
use super::registry::Registry;
use super::scheduler::{Phase, Scheduler};
use super::users::Users;
use crate::proto::{BackendStatus, DaemonState, InstanceId, MemoryStatus, Status};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// The daemon as its connections see it.
pub struct Service {
    /// The circuits.
    pub registry: Registry,
    /// The jobs.
    pub scheduler: Scheduler,
    /// The memory.
    pub budget: Budget,
    /// The users' accounts.
    pub users: Users,
    /// What proves, one worker each.
    pub backends: Vec<Arc<dyn Backend>>,
    /// This start of the daemon.
    pub instance: InstanceId,
    started: Instant,
    ready: AtomicBool,
    message: Mutex<String>,
}

impl Service {
    /// A service that is not ready yet.
    pub fn new(
        registry: Registry,
        scheduler: Scheduler,
        budget: Budget,
        users: Users,
        backends: Vec<Arc<dyn Backend>>,
    ) -> Self {
        Self {
            registry,
            scheduler,
            budget,
            users,
            backends,
            instance: InstanceId::generate(),
            started: Instant::now(),
            ready: AtomicBool::new(false),
            message: Mutex::default(),
        }
    }

    /// The circuits that are loaded at the start are hot, or are known to be bad.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// The line that tells people how the daemon is.
    pub fn set_message(&self, message: &str) {
        *self.message.lock().unwrap_or_else(PoisonError::into_inner) = message.to_owned();
    }

    /// Everything about the daemon, as it is now.
    pub fn status(&self) -> Status {
        let state = match self.scheduler.phase() {
            Phase::Open if self.ready.load(Ordering::Acquire) => DaemonState::Ready,
            Phase::Open => DaemonState::Loading,
            Phase::Draining | Phase::Stopped => DaemonState::Draining,
        };
        let backends = self.backends.iter().zip(self.scheduler.busy()).map(|(backend, busy)| BackendStatus {
            name: backend.name().to_owned(),
            why: backend.why().to_owned(),
            running: busy.into(),
        });
        let usage = self.budget.usage();
        let (jobs, omitted_jobs) = self.scheduler.statuses();
        Status {
            build: crate::BUILD_ID.to_owned(),
            pid: std::process::id(),
            uptime: self.started.elapsed(),
            state,
            backends: backends.collect(),
            memory: MemoryStatus {
                total: usage.total,
                used: usage.used(),
                leases: usage.leases,
                keys: usage.keys,
                circuits: usage.circuits,
                working: usage.working,
                waiting: u32::try_from(usage.waiting).unwrap_or(u32::MAX),
            },
            circuits: self.registry.infos(),
            jobs,
            omitted_jobs,
            counters: self.scheduler.counters(),
            connections: self.users.connections(),
            message: self.message.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
