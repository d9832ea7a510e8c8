//! From the first circuit to the last reply: [`run`] owns the daemon's life. It tells the service manager
//! when the preloaded circuits are hot, reloads, drains and stops, and lets the watchdog be fed only while
//! the workers make progress.
pub mod listener;
pub mod logging;
pub mod notify;
pub mod signals;

use super::backend::{Backend, Quarantined};
use super::budget::Budget;
use super::config::{Config, ConfigSource, Memory};
use super::host::{HostError, HostFiles};
use super::http;
use super::instruments::Instruments;
use super::registry::{LoadSettings, Progress, Registry};
use super::scheduler::{Scheduler, Stalled};
use super::server;
use super::service::Service;
use super::store::{
    Handover, Keeper,
    restore::{self, Found},
};
use super::users::Users;
use super::worker::Worker;
use crate::catalog::DefinitionError;
use crate::groth16::ProvingKey;
use crate::r1cs::Circuit;
use crate::units::about_bytes;
use notify::{Event, Notify};
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, sync::mpsc, time};
use tokio_seqpacket::UnixSeqpacketListener;

/// Between two looks at what takes time.
const TICK: Duration = Duration::from_secs(1);
/// How much longer a start or a reload may take each time it is seen to make progress.
const EXTENSION: Duration = Duration::from_secs(60);

/// What the daemon is told while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Read configuration and circuits again.
    Reload,
    /// Stop: the first time, running partitions may end; the second time, at once.
    Stop,
}

/// What a daemon is made of.
pub struct Setup {
    /// The configuration.
    pub config: Config,
    /// Where a reload reads it again.
    pub source: ConfigSource,
    /// What proves; one worker each.
    pub backends: Vec<Arc<dyn Backend>>,
    /// What does not prove, though it might have.
    pub quarantined: Vec<Quarantined>,
    /// The service manager.
    pub notify: Box<dyn Notify>,
    /// What the watchdog allows between two signs of life, where there is one.
    pub watchdog: Option<Duration>,
    /// What the service manager keeps for the next process, and has kept for this one.
    pub store: Handover,
    /// Sets the least severe level that is logged.
    pub set_log_level: Box<dyn Fn(tracing::Level) + Send + Sync>,
}

/// Why the daemon cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The memory budget cannot be found.
    #[error("the memory budget cannot be found: {0}")]
    Host(#[from] HostError),
    /// The circuits' directory cannot be read.
    #[error("circuits_dir: {0}")]
    Circuits(#[from] DefinitionError),
    /// The directory for what outlives a restart cannot be made.
    #[error("state_dir: {}: {source}", path.display())]
    State {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The address for HTTP cannot be listened at.
    #[error("http: {address}: {source}")]
    Http {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("a worker's thread cannot be started: {0}")]
    Worker(#[source] io::Error),
}

/// Why the daemon ends without having been told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A device failed for good; only a new process can use it again.
    #[error("a device is lost: {0}")]
    DeviceLost(String),
}

/// Serves `listener` until told to stop; the last sender of `controls` going away is a stop, too.
///
/// # Errors
/// [`RunError::Start`], before anything is served; [`RunError::DeviceLost`], after what other devices
/// were proving has ended.
pub async fn run(
    listener: UnixSeqpacketListener,
    setup: Setup,
    controls: mpsc::Receiver<Control>,
) -> Result<(), RunError> {
    // What cannot be had is told before anything is begun.
    let http = match setup.config.http {
        None => None,
        Some(address) => match TcpListener::bind(address).await {
            Ok(listener) => Some(listener),
            Err(source) => return Err(StartError::Http { address, source }.into()),
        },
    };
    let Setup { config, source, backends, quarantined, notify, watchdog, store, set_log_level } = setup;
    let mut service = assemble(&config, &backends, quarantined)?;
    let changes = service.registry.read(&config.circuits_dir).map_err(StartError::from)?;
    // Only now: a start that the configuration forbids leaves the store as it is.
    let left = take_over(&mut service, store)?;
    let service = Arc::new(service);
    tracing::info!("circuits: {}", names(&changes.added));
    let mut workers = Vec::new();
    let places = backends.iter().enumerate().flat_map(|(prover, backend)| {
        (0..backend.slots()).map(move |slot| (backend.clone(), (prover, slot)))
    });
    for (index, (backend, place)) in places.enumerate() {
        let (scheduler, budget) = (service.scheduler.clone(), service.budget.clone());
        let instruments = service.instruments.clone();
        let worker = Worker { index, scheduler, backend, place, instruments, budget };
        workers.push(worker.start().map_err(StartError::Worker)?);
    }
    service.registry.preload();
    let resumed = tokio::spawn(restore::resume(service.clone(), left));
    let room = tokio::spawn({
        let registry = service.registry.clone();
        async move { registry.make_room().await }
    });
    let server = tokio::spawn(server::serve(listener, service.clone()));
    let watchers = http.map(|http| tokio::spawn(http::serve(http, service.clone())));
    let mut life = Life {
        config,
        source,
        service,
        notify,
        set_log_level,
        loading: None,
        noted: Vec::new(),
        stalled: None,
    };
    life.live(controls, watchdog).await;
    let lost = life.service.scheduler.lost();
    room.abort();
    if let Some(watchers) = watchers {
        watchers.abort();
    }
    resumed.abort();
    // A worker that is stuck in a backend does not keep the daemon from ending.
    drop(workers);
    let _ended = server.await;
    match lost {
        None => Ok(()),
        Some(lost) => Err(RunError::DeviceLost(lost)),
    }
}

fn assemble(
    config: &Config,
    backends: &[Arc<dyn Backend>],
    quarantined: Vec<Quarantined>,
) -> Result<Service, StartError> {
    let total = match config.memory {
        Memory::Bytes(bytes) => bytes,
        Memory::Auto => HostFiles::default().budget(config.memory_margin)?,
    };
    tracing::info!("memory budget: {}", about_bytes(total));
    let failed = |source| StartError::State { path: config.state_dir.clone(), source };
    std::fs::create_dir_all(&config.state_dir).map_err(failed)?;
    let budget = Budget::new(total);
    let users = Users::new(config.limits.clone());
    let provers = backends.to_vec();
    let headroom = move |circuit: &Circuit, key: &ProvingKey| {
        let mut sum = 0u64;
        for prover in &provers {
            prover.accepts(circuit, key).map_err(|why| format!("{}: {why}", prover.name()))?;
            let each = prover.working_bytes(circuit, key);
            sum = sum.saturating_add(each.saturating_mul(prover.slots() as u64));
        }
        Ok(sum)
    };
    let registry = Registry::new(LoadSettings {
        budget: budget.clone(),
        state_dir: config.state_dir.clone(),
        threads: config.threads,
        headroom: Arc::new(headroom),
    });
    let workers = backends.iter().map(|backend| backend.slots()).sum();
    let scheduler = Scheduler::new(users.clone(), workers, config.prover.patience);
    let slots = backends.iter().map(|backend| (backend.slots(), backend.is_host()));
    let instruments = Arc::new(Instruments::new(slots));
    Ok(Service::new(registry, scheduler, budget, users, backends.to_vec(), quarantined, instruments))
}

/// Takes over what the process before has left, and has a keeper keep what comes.
fn take_over(service: &mut Service, store: Handover) -> Result<Vec<restore::Left>, StartError> {
    let Handover { manager, entries } = store;
    let Some(manager) = manager else { return Ok(Vec::new()) };
    let kept = entries.iter().map(|(name, _)| name.clone());
    let keeper = Keeper::start(manager, kept).map_err(StartError::Worker)?;
    let count = entries.len();
    let found = restore::take_over(&service.scheduler, &service.users, &keeper, entries);
    if count > 0 {
        let Found { unfinished, finished, refused, .. } = found;
        tracing::info!(
            "taken back from the service manager: {unfinished} jobs that go on, {finished} that wait for their \
             owners; refused: {refused}"
        );
    }
    service.set_keeper(keeper);
    Ok(found.left)
}

fn names(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

struct Life {
    config: Config,
    source: ConfigSource,
    service: Arc<Service>,
    notify: Box<dyn Notify>,
    set_log_level: Box<dyn Fn(tracing::Level) + Send + Sync>,
    /// The last progress that was told; None while nothing is being loaded that READY=1 waits for.
    loading: Option<Progress>,
    /// What the reading of the configuration has to say, for the status line.
    noted: Vec<String>,
    /// The last stall that was told.
    stalled: Option<Stalled>,
}

impl Life {
    async fn live(&mut self, mut controls: mpsc::Receiver<Control>, watchdog: Option<Duration>) {
        self.loading = Some(Progress::default());
        let registry = self.service.registry.clone();
        let scheduler = self.service.scheduler.clone();
        let mut ticks = time::interval(TICK);
        // A stall is seen at the second look, which must come early enough for the watchdog to act.
        let mut beats = time::interval(watchdog.map_or(TICK, |allowed| allowed / 2));
        // Two beats at once, after a delay, would take a worker that had no time for one that hangs.
        beats.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                control = controls.recv() => match control {
                    Some(Control::Reload) => self.reload(),
                    Some(Control::Stop) | None => break,
                },
                () = scheduler.losing() => break,
                () = registry.settled(), if self.loading.is_some() => self.loaded(),
                _ = ticks.tick() => self.tick(),
                _ = beats.tick(), if watchdog.is_some() => self.beat(),
            }
        }
        self.begin_stop();
        let mut budget = pin!(time::sleep(self.config.stop_timeout));
        loop {
            tokio::select! {
                () = scheduler.idle() => break,
                () = &mut budget => {
                    tracing::warn!("running partitions are cut off: stop_timeout is over");
                    break;
                }
                control = controls.recv() => match control {
                    // A reload now would be for nothing.
                    Some(Control::Reload) => {}
                    Some(Control::Stop) | None => {
                        tracing::warn!("running partitions are cut off: told to stop at once");
                        break;
                    }
                },
                _ = beats.tick(), if watchdog.is_some() => self.beat(),
            }
        }
        scheduler.stop();
        if let left @ 1.. = self.service.left() {
            let message = format!("stopped: {}", self.service.at_a_stop(left));
            tracing::info!("{message}");
            self.notify.notify(&[Event::Status(&message)]);
        }
    }

    fn loaded(&mut self) {
        self.loading = None;
        self.service.set_ready();
        let message = self.summary();
        tracing::info!("ready: {message}");
        self.service.set_message(&message);
        self.notify.notify(&[Event::Ready, Event::Status(&message)]);
    }

    /// How the daemon is, in a line.
    fn summary(&self) -> String {
        let Progress { hot, failed, .. } = self.service.registry.progress();
        let mut parts = self.noted.clone();
        parts.push(format!("circuits ready: {hot}"));
        if !failed.is_empty() {
            parts.push(format!("not served: {}", failed.join(", ")));
        }
        parts.join("; ")
    }

    fn tick(&mut self) {
        self.service.scheduler.expire(self.config.result_ttl);
        let Some(told) = &self.loading else { return };
        let progress = self.service.registry.progress();
        if progress != *told {
            let mut parts = vec![format!("circuits ready: {}", progress.hot)];
            parts.extend(
                progress.loading.iter().map(|(name, percent)| format!("loading {name}: {percent} %")),
            );
            let message = parts.join("; ");
            self.service.set_message(&message);
            self.notify.notify(&[Event::ExtendTimeout(EXTENSION), Event::Status(&message)]);
            self.loading = Some(progress);
        }
    }

    fn beat(&mut self) {
        match self.service.scheduler.heartbeat() {
            Ok(()) => {
                self.stalled = None;
                self.notify.notify(&[Event::Watchdog]);
            }
            Err(stalled) => {
                if self.stalled.as_ref() != Some(&stalled) {
                    tracing::error!("{stalled}: the watchdog is not told that all is well");
                }
                self.stalled = Some(stalled);
            }
        }
    }

    /// Takes a new configuration whole or not at all.
    fn reload(&mut self) {
        self.notify.notify(&[Event::Reloading]);
        match self.source.load().map_err(|e| e.to_string()).and_then(|new| self.take(&new)) {
            Ok(()) => {
                self.service.registry.preload();
                self.loading = Some(Progress::default());
            }
            Err(problem) => {
                tracing::error!("reload refused, the old configuration stays: {problem}");
                let message = format!("reload refused: {}", problem.replace('\n', "; "));
                self.service.set_message(&message);
                self.notify.notify(&[Event::Ready, Event::Status(&message)]);
            }
        }
    }

    fn take(&mut self, new: &Config) -> Result<(), String> {
        let later = self.config.needs_restart(new);
        let merged = self.config.reloaded(new);
        let changes =
            self.service.registry.read(&merged.circuits_dir).map_err(|e| format!("circuits_dir: {e}"))?;
        self.service.users.set_limits(merged.limits.clone());
        (self.set_log_level)(merged.log);
        self.config = merged;
        tracing::info!(
            "reloaded; circuits added: {}; changed: {}; dropped: {}",
            names(&changes.added),
            names(&changes.changed),
            names(&changes.dropped)
        );
        self.noted.clear();
        if !later.is_empty() {
            let note = format!("these settings take effect with a restart: {}", later.join(", "));
            tracing::warn!("{note}");
            self.noted.push(note);
        }
        Ok(())
    }

    fn begin_stop(&self) {
        self.service.scheduler.drain();
        let mut message = match self.service.scheduler.lost() {
            None => "stopping: waiting for running partitions".to_owned(),
            Some(lost) => format!("a device is lost, waiting for what others prove: {lost}"),
        };
        if let left @ 1.. = self.service.left() {
            message += "; ";
            message += &self.service.at_a_stop(left);
        }
        tracing::info!("{message}");
        self.service.set_message(&message);
        self.notify.notify(&[Event::Stopping, Event::Status(&message)]);
    }
}

/// Makes the directory's problems part of a check of the configuration: every circuit definition that
/// cannot be used, in a line each.
pub fn definition_problems(circuits_dir: &Path) -> Vec<String> {
    match crate::catalog::CircuitDefinition::read_directory(circuits_dir) {
        Ok(definitions) => definitions.into_values().filter_map(|d| d.err().map(|e| e.to_string())).collect(),
        Err(error) => vec![format!("circuits_dir: {error}")],
    }
}
