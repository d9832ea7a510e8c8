//! What all connections share: circuits, jobs, memory, the users' accounts, and the daemon's own state.
use super::backend::{Backend, DeviceUse, Quarantined};
use super::budget::Budget;
use super::host::resident;
use super::instruments::{Instruments, metrics, trace};
use super::pages;
use super::registry::Registry;
use super::scheduler::{Phase, Scheduler};
use super::store::Keeper;
use super::turn::Turn;
use super::users::Users;
use crate::proto::{
    BackendState, BackendStatus, CircuitInfo, DaemonState, ErrorCode, IdleTimes, InstanceId, KeyTier,
    MemoryStatus, ProtocolError, StageBuffers, Status, TraceRequest,
};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

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
    /// Whose turn it is to wait for the memory of a witness buffer. Only that one
    /// holds a circuit while it waits: the others' circuits can make room for it.
    pub turn: Turn,
    /// What proves, one worker each.
    pub backends: Vec<Arc<dyn Backend>>,
    /// What does not prove, though it might have.
    pub quarantined: Vec<Quarantined>,
    /// Where time goes.
    pub instruments: Arc<Instruments>,
    /// This start of the daemon.
    pub instance: InstanceId,
    /// Keeps jobs for the next process, where there is a service manager.
    pub keeper: Option<Keeper>,
    /// Whether what the process before has left is taken up.
    restored: watch::Sender<bool>,
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
        quarantined: Vec<Quarantined>,
        instruments: Arc<Instruments>,
    ) -> Self {
        let instance = scheduler.instance();
        Self {
            registry,
            scheduler,
            budget,
            users,
            turn: Turn::default(),
            backends,
            quarantined,
            instruments,
            instance,
            keeper: None,
            restored: watch::Sender::new(true),
            started: Instant::now(),
            ready: AtomicBool::new(false),
            message: Mutex::default(),
        }
    }

    /// Jobs are kept from now on by `keeper`; what was left is not taken up before [`Self::set_restored`].
    pub fn set_keeper(&mut self, keeper: Keeper) {
        self.keeper = Some(keeper);
        self.restored.send_replace(false);
    }

    /// What the process before has left is taken up: new requests may have memory.
    pub fn set_restored(&self) {
        self.restored.send_replace(true);
    }

    /// Whether what the process before has left is taken up.
    pub fn is_restored(&self) -> bool {
        *self.restored.borrow()
    }

    /// Waits until it is.
    pub async fn restored(&self) {
        // The sender lives as long as this service.
        let _ = self.restored.subscribe().wait_for(|restored| *restored).await;
    }

    /// Jobs and results that are here.
    pub fn left(&self) -> usize {
        let (unfinished, finished) = self.scheduler.count();
        unfinished + finished
    }

    /// What becomes of so many jobs when the daemon stops, in a few words.
    pub fn at_a_stop(&self, jobs: usize) -> String {
        match &self.keeper {
            Some(keeper) => keeper.at_a_stop(jobs),
            None => format!("{jobs} jobs are dropped"),
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

    /// What proves, and what does not.
    fn provers(&self) -> Vec<BackendStatus> {
        let mut workers = self.scheduler.workers().into_iter();
        let spent = self.instruments.activity.spent();
        let proving = self.backends.iter().zip(spent).map(|(backend, spent)| {
            let DeviceUse { device, memory, memory_kept, circuits } =
                backend.device_use().unwrap_or_default();
            let workers: Vec<_> = workers.by_ref().take(backend.slots()).collect();
            let lost = workers.iter().any(|worker| worker.lost);
            let retries = workers.iter().map(|worker| worker.retries).sum();
            let slots = u32::try_from(workers.len()).unwrap_or(u32::MAX);
            let current: Vec<_> = workers.into_iter().filter_map(|worker| worker.current).collect();
            BackendStatus {
                name: backend.name().to_owned(),
                why: backend.why().to_owned(),
                running: u32::try_from(current.len()).unwrap_or(u32::MAX),
                state: if lost { BackendState::Lost } else { BackendState::Ready },
                retries,
                device,
                memory,
                memory_kept,
                circuits,
                slots,
                busy: spent.busy,
                idle: spent.idle,
                current,
            }
        });
        let quarantined = self.quarantined.iter().map(|it| BackendStatus {
            name: it.name.clone(),
            why: it.why.clone(),
            running: 0,
            state: BackendState::Quarantined,
            retries: 0,
            device: it.device.clone(),
            memory: 0,
            memory_kept: 0,
            circuits: Vec::new(),
            slots: 0,
            busy: Duration::ZERO,
            idle: IdleTimes::default(),
            current: Vec::new(),
        });
        proving.chain(quarantined).collect()
    }

    /// Whether it is ready.
    pub fn state(&self) -> DaemonState {
        match self.scheduler.phase() {
            Phase::Open if self.ready.load(Ordering::Acquire) => DaemonState::Ready,
            Phase::Open => DaemonState::Loading,
            Phase::Draining | Phase::Stopped => DaemonState::Draining,
        }
    }

    /// The circuits, and where their keys are.
    pub fn circuits(&self) -> Vec<CircuitInfo> {
        let on_devices: Vec<_> = self.backends.iter().filter_map(|it| it.device_use()).collect();
        let mut circuits = self.registry.infos();
        for circuit in circuits.iter_mut().filter(|circuit| circuit.tier == KeyTier::Host) {
            if on_devices.iter().any(|device| device.circuits.contains(&circuit.name)) {
                circuit.tier = KeyTier::Device;
            }
        }
        circuits
    }

    /// Everything about the daemon, as it is now.
    pub fn status(&self) -> Status {
        let usage = self.budget.usage();
        let (jobs, omitted_jobs) = self.scheduler.statuses();
        let (resident, peak_resident) = resident();
        let (writing, bytes) = self.instruments.activity.buffers();
        let written = (writing > 0).then_some(("witness", (writing, bytes)));
        let buffers = written.into_iter().chain(self.scheduler.buffers());
        Status {
            build: crate::BUILD_ID.to_owned(),
            pid: std::process::id(),
            uptime: self.started.elapsed(),
            state: self.state(),
            backends: self.provers(),
            memory: MemoryStatus {
                total: usage.total,
                used: usage.used(),
                leases: usage.leases,
                keys: usage.keys,
                circuits: usage.circuits,
                working: usage.working,
                waiting: u32::try_from(usage.waiting + self.turn.waiting()).unwrap_or(u32::MAX),
                peak: usage.peak,
                locked: pages::locked_bytes(),
                resident,
                peak_resident,
            },
            circuits: self.circuits(),
            jobs,
            omitted_jobs,
            counters: self.scheduler.counters(),
            connections: self.users.connections(),
            message: self.message.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            queues: self.scheduler.queues(),
            buffers: buffers
                .map(|(stage, (buffers, bytes))| StageBuffers { stage: stage.to_owned(), buffers, bytes })
                .collect(),
        }
    }

    /// The same for Prometheus, with the times of stages.
    ///
    /// # Errors
    /// `Internal`.
    pub fn metrics(&self) -> Result<String, ProtocolError> {
        metrics::text(self.status(), &self.instruments.stages)
            .map_err(|_| ProtocolError::new(ErrorCode::Internal, "the metrics could not be written"))
    }

    /// The trace of the last partitions.
    ///
    /// # Errors
    /// `UnknownJob`: a job of which no partition is remembered.
    pub fn trace(&self, request: TraceRequest) -> Result<String, ProtocolError> {
        let past = self.instruments.history.last(request.job, request.last);
        match request.job {
            Some(job) if past.is_empty() => {
                let message = format!("no partition of job {job} has ended, as far as the daemon remembers");
                Err(ProtocolError::new(ErrorCode::UnknownJob, message))
            }
            _ => Ok(trace::document(&past)),
        }
    }
}
