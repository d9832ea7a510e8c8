//! Circuits by name. Each has a definition file; its key and circuit are loaded at the start or with the
//! first use, each in a thread of its own, so that one that takes minutes keeps no other from being served.
//! A circuit that cannot be loaded is reported as such and disturbs nobody. While requests wait for memory,
//! circuits that nobody uses make room, and are loaded again with their next use.
mod loading;

use super::budget::{Budget, Demand};
use super::slow::drop_slowly;
use crate::catalog::{CircuitDefinition, DefinitionError};
use crate::proto::{CircuitInfo, ContentId, ErrorCode, KeyTier, ProtocolError};
use crate::{
    groth16::ProvingKey,
    r1cs::{Circuit, WitnessEncoding, packed},
};
use loading::Files;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::sleep};

pub use loading::LoadedCircuit;
pub(crate) use loading::describe;

/// Bytes of working memory that must be set aside for a circuit, whatever proves it; or why it cannot be proved.
pub type Headroom = dyn Fn(&Circuit, &ProvingKey) -> Result<u64, String> + Send + Sync;

/// How long making room waits for a circuit to become idle before it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What loading needs.
pub struct LoadSettings {
    /// Pays for keys, circuits and headroom.
    pub budget: Budget,
    /// Where validated keys are remembered.
    pub state_dir: PathBuf,
    /// Threads that validate a key.
    pub threads: usize,
    /// What proving takes.
    pub headroom: Arc<Headroom>,
}

/// How far a circuit is.
#[derive(Clone)]
enum State {
    NotLoaded,
    /// Points of the key that are validated, and points in all (0 before that begins).
    Loading(u64, u64),
    Hot(Arc<LoadedCircuit>),
    Failed(String),
}

/// One configured circuit.
struct Entry {
    name: String,
    /// The definition, and what its files were when it was read; or why there is none.
    source: Result<(CircuitDefinition, Files), String>,
    state: watch::Sender<State>,
    /// The registry's count of uses when this one was last used.
    used: AtomicU64,
}

impl Entry {
    fn new(name: String, source: Result<(CircuitDefinition, Files), String>) -> Self {
        let state = match &source {
            Ok(_) => State::NotLoaded,
            Err(problem) => State::Failed(problem.clone()),
        };
        Self { name, source, state: watch::Sender::new(state), used: AtomicU64::new(0) }
    }

    /// Whether the circuit is to be loaded at the start.
    fn preloads(&self) -> bool {
        matches!(&self.source, Ok((definition, _)) if definition.preload)
    }

    /// Lets go of the circuit if it is loaded and nobody uses it.
    fn evict(&self) -> bool {
        let mut evicted = None;
        self.state.send_if_modified(|state| {
            // Whoever takes a circuit clones it out of the state, which is locked here.
            let idle = matches!(state, State::Hot(loaded) if Arc::strong_count(loaded) == 1);
            if idle {
                evicted = Some(std::mem::replace(state, State::NotLoaded));
            }
            idle
        });
        let evicts = evicted.is_some();
        drop_slowly(evicted);
        evicts
    }

    fn info(&self) -> CircuitInfo {
        let mut info = CircuitInfo {
            name: self.name.clone(),
            circuit_id: None,
            key_id: None,
            public_inputs: 0,
            auxiliary: 0,
            constraints: 0,
            domain_log2: 0,
            tier: KeyTier::NotLoaded,
            problem: String::new(),
            references: 0,
            key_bytes: 0,
            circuit_bytes: 0,
        };
        match &*self.state.borrow() {
            State::NotLoaded => {}
            State::Loading(..) => info.tier = KeyTier::Loading,
            State::Failed(problem) => {
                info.tier = KeyTier::Failed;
                info.problem = problem.clone();
            }
            State::Hot(loaded) => {
                let circuit = &loaded.circuit;
                info.circuit_id = Some(loaded.circuit_id);
                info.key_id = Some(ContentId(loaded.key.id));
                info.public_inputs = circuit.num_inputs() as u64 - 1;
                info.auxiliary = circuit.num_aux() as u64;
                info.constraints = circuit.num_constraints() as u64;
                info.domain_log2 = loaded.domain_log2;
                info.tier = KeyTier::Host;
                // One of the holds is the registry's own.
                info.references = u32::try_from(Arc::strong_count(loaded) - 1).unwrap_or(u32::MAX);
                info.key_bytes = loaded.reservation.demand().keys;
                info.circuit_bytes = loaded.reservation.demand().circuits;
            }
        }
        info
    }
}

/// What a reading of the definitions changed, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// New circuits.
    pub added: Vec<String>,
    /// Circuits whose definition or files are others than before, or that could not be loaded before.
    pub changed: Vec<String>,
    /// Circuits that are gone.
    pub dropped: Vec<String>,
}

/// How far the loading is, for the status line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Circuits that are ready.
    pub hot: usize,
    /// Circuits that are being loaded, with the part of their key that is validated, in percent.
    pub loading: Vec<(String, u64)>,
    /// Circuits that cannot be served.
    pub failed: Vec<String>,
}

/// All configured circuits; clones share them.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    settings: LoadSettings,
    entries: Mutex<BTreeMap<String, Arc<Entry>>>,
    uses: AtomicU64,
}

impl Registry {
    /// No circuits yet: see [`Registry::read`].
    pub fn new(settings: LoadSettings) -> Self {
        Self(Arc::new(Inner { settings, entries: Mutex::default(), uses: AtomicU64::new(0) }))
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Entry>>> {
        // The map changes in single steps: a poisoned one is still consistent.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the definitions in `directory`: adds new circuits, drops those that are gone, and starts those
    /// anew whose definition or files have changed or that could not be loaded. Whoever uses a
    /// circuit that goes keeps it to the end. Loads nothing.
    ///
    /// # Errors
    /// [`DefinitionError`] where the directory itself cannot be read; nothing changes then.
    pub fn read(&self, directory: &Path) -> Result<Changes, DefinitionError> {
        let found = CircuitDefinition::read_directory(directory)?;
        // A file system may be slow: the files are looked at before the lock is taken.
        let found = found.into_iter().map(|(name, definition)| {
            let source = definition.map_err(|e| e.to_string()).map(|d| {
                let files = Files::of(&d);
                (d, files)
            });
            (name, source)
        });
        let found: Vec<_> = found.collect();
        let mut changes = Changes::default();
        let mut entries = self.entries();
        let mut old = std::mem::take(&mut *entries);
        for (name, source) in found {
            let entry = match old.remove(&name) {
                Some(entry)
                    if entry.source == source && !matches!(*entry.state.borrow(), State::Failed(_)) =>
                {
                    entry
                }
                Some(_) => {
                    changes.changed.push(name.clone());
                    Arc::new(Entry::new(name.clone(), source))
                }
                None => {
                    changes.added.push(name.clone());
                    Arc::new(Entry::new(name.clone(), source))
                }
            };
            entries.insert(name, entry);
        }
        drop(entries);
        changes.dropped = old.into_keys().collect();
        Ok(changes)
    }

    /// Starts loading the circuits that are to be loaded at the start.
    pub fn preload(&self) {
        let entries: Vec<_> = self.entries().values().cloned().collect();
        for entry in entries {
            if entry.preloads() {
                self.start(&entry);
            }
        }
    }

    /// Makes room for ever: while requests wait for memory, lets go of circuits that nobody uses, one by
    /// one, those first that are not loaded at the start, the least recently used first.
    pub async fn make_room(&self) {
        loop {
            self.0.settings.budget.short().await;
            if !self.evict_one() {
                sleep(LOOK_AGAIN).await;
            }
        }
    }

    /// Lets go of the circuit whose turn it is, if there is one that nobody uses.
    pub fn evict_one(&self) -> bool {
        let mut entries: Vec<_> = self.entries().values().cloned().collect();
        entries.sort_by_key(|entry| (entry.preloads(), entry.used.load(Ordering::Relaxed)));
        let evicted = entries.iter().find(|entry| entry.evict());
        if let Some(entry) = evicted {
            let circuit = &entry.name[..];
            tracing::info!(CIRCUIT = circuit, "circuit {circuit} makes room: requests wait for memory");
        }
        evicted.is_some()
    }

    /// Waits until no circuit is being loaded.
    pub async fn settled(&self) {
        loop {
            let entries: Vec<_> = self.entries().values().cloned().collect();
            let loading = |entry: &&Arc<Entry>| matches!(*entry.state.borrow(), State::Loading(..));
            let Some(entry) = entries.iter().find(loading) else { return };
            let mut state = entry.state.subscribe();
            // The entry holds the sender: the wait cannot fail.
            let _ = state.wait_for(|state| !matches!(state, State::Loading(..))).await;
        }
    }

    /// A circuit, ready to prove; loads it first if need be.
    ///
    /// # Errors
    /// `UnknownCircuit` and `CircuitUnavailable`.
    pub async fn get(&self, name: &str) -> Result<Arc<LoadedCircuit>, ProtocolError> {
        let entry = self.entry(name)?;
        let mut state = entry.state.subscribe();
        loop {
            // Again after each change: it may have come and made room for another meanwhile.
            self.start(&entry);
            if let Some(ready) = ready(&entry, &state.borrow_and_update()) {
                return ready;
            }
            if state.changed().await.is_err() {
                return Err(ProtocolError::new(ErrorCode::Internal, "the circuit's entry is gone"));
            }
        }
    }

    /// A circuit if it is ready now; None starts its loading.
    ///
    /// # Errors
    /// As [`Registry::get`].
    pub fn try_get(&self, name: &str) -> Result<Option<Arc<LoadedCircuit>>, ProtocolError> {
        let entry = self.entry(name)?;
        self.start(&entry);
        ready(&entry, &entry.state.borrow()).transpose()
    }

    /// All circuits, by name.
    pub fn infos(&self) -> Vec<CircuitInfo> {
        let entries: Vec<_> = self.entries().values().cloned().collect();
        entries.iter().map(|entry| entry.info()).collect()
    }

    /// How far the loading is.
    pub fn progress(&self) -> Progress {
        let mut progress = Progress::default();
        for entry in self.entries().values() {
            match *entry.state.borrow() {
                State::NotLoaded => {}
                State::Loading(done, total) => {
                    let percent = (done.saturating_mul(100)).checked_div(total).unwrap_or(0);
                    progress.loading.push((entry.name.clone(), percent));
                }
                State::Hot(_) => progress.hot += 1,
                State::Failed(_) => progress.failed.push(entry.name.clone()),
            }
        }
        progress
    }

    fn entry(&self, name: &str) -> Result<Arc<Entry>, ProtocolError> {
        self.entries().get(name).cloned().ok_or_else(|| {
            ProtocolError::new(ErrorCode::UnknownCircuit, format!("there is no circuit named {name:?}"))
        })
    }

    /// Notes a use of a circuit, and starts loading it if it is not there.
    fn start(&self, entry: &Arc<Entry>) {
        entry.used.store(self.0.uses.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let Ok((definition, files)) = &entry.source else { return };
        let starts = entry.state.send_if_modified(|state| {
            let starts = matches!(state, State::NotLoaded);
            if starts {
                *state = State::Loading(0, 0);
            }
            starts
        });
        if starts {
            let (inner, entry) = (self.0.clone(), entry.clone());
            let (definition, files) = (definition.clone(), files.clone());
            tokio::spawn(async move {
                let progress = {
                    let state = entry.state.clone();
                    move |done, total| drop(state.send_replace(State::Loading(done, total)))
                };
                let began = std::time::Instant::now();
                let loaded = loading::load(&inner.settings, &entry.name, definition, files, progress).await;
                let state = match loaded {
                    Ok(loaded) => {
                        let (circuit, seconds) = (&entry.name[..], began.elapsed().as_secs_f64());
                        tracing::info!(CIRCUIT = circuit, "circuit {circuit} is ready after {seconds:.1} s");
                        State::Hot(Arc::new(loaded))
                    }
                    Err(problem) => {
                        let circuit = &entry.name[..];
                        tracing::error!(CIRCUIT = circuit, "circuit {circuit} cannot be served: {problem}");
                        State::Failed(problem)
                    }
                };
                entry.state.send_replace(state);
            });
        }
    }
}

/// The circuit or why it cannot be had; None while it is being loaded.
fn ready(entry: &Entry, state: &State) -> Option<Result<Arc<LoadedCircuit>, ProtocolError>> {
    match state {
        State::Hot(loaded) => Some(Ok(loaded.clone())),
        State::Failed(problem) => {
            let message = format!("circuit {} cannot be served: {problem}", entry.name);
            Some(Err(ProtocolError::new(ErrorCode::CircuitUnavailable, message)))
        }
        State::NotLoaded | State::Loading(..) => None,
    }
}

impl LoadedCircuit {
    /// Whether a witness of this length and encoding can be one of the circuit's.
    ///
    /// # Errors
    /// `WitnessLength`.
    pub fn check_length(&self, found: u64, encoding: WitnessEncoding) -> Result<(), ProtocolError> {
        let (name, circuit) = (&self.name, &self.circuit);
        let exact = 32 * circuit.num_variables() as u64;
        let (fits, wanted) = match encoding {
            WitnessEncoding::Canonical | WitnessEncoding::Montgomery => (found == exact, exact.to_string()),
            WitnessEncoding::Packed => {
                let most =
                    packed::max_bytes(circuit.num_inputs(), circuit.num_aux()).map_or(0, |most| most as u64);
                ((1..=most).contains(&found), format!("1 to {most}"))
            }
        };
        if fits {
            return Ok(());
        }
        let message = format!("the witness has {found} bytes, circuit {name} wants {wanted}");
        Err(ProtocolError::new(ErrorCode::WitnessLength, message))
    }

    /// What a witness buffer of `bytes` bytes for this circuit demands of the budget.
    pub fn lease_demand(&self, bytes: u64) -> Demand {
        let held = self.reservation.demand();
        Demand {
            leases: bytes,
            headroom: held.headroom,
            beside: held.keys.saturating_add(held.circuits),
            ..Demand::default()
        }
    }
}

#[cfg(test)]
mod tests;
