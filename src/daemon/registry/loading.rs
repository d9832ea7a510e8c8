//! Loading one circuit: its memory is reserved before its files are opened, the key validated once and
//! remembered, and the headroom that proving takes set aside before it counts as ready.
use super::LoadSettings;
use crate::catalog::{CircuitDefinition, Material};
use crate::daemon::budget::{Demand, Reservation};
use crate::formats::validated::validate_key;
use crate::proto::ContentId;
use crate::{
    groth16::{PreparedVerifyingKey, ProvingKey},
    r1cs::Circuit,
};
use std::{
    any::Any,
    fs, io,
    os::unix::fs::MetadataExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};
use tokio::sync::oneshot;

/// A circuit with its key, ready to prove with.
pub struct LoadedCircuit {
    /// Its configured name.
    pub name: String,
    /// The circuit.
    pub circuit: Circuit,
    /// BLAKE3 of the compiled circuit.
    pub circuit_id: ContentId,
    /// Its proving key.
    pub key: ProvingKey,
    /// Verifies its proofs.
    pub verifier: PreparedVerifyingKey,
    /// log2 of the evaluation domain's size.
    pub domain_log2: u32,
    /// The memory of all this, and of proving with it.
    pub(super) reservation: Reservation,
}

/// Which content two paths had when they were looked at: device, inode, size and time of the last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    key: Option<Stamp>,
    circuit: Option<Stamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        let changed = (found.ctime(), found.ctime_nsec());
        Some(Self { file: (found.dev(), found.ino()), size: found.len(), changed })
    }
}

impl Files {
    pub(super) fn of(definition: &CircuitDefinition) -> Self {
        Self { key: Stamp::of(&definition.key), circuit: definition.circuit.as_deref().and_then(Stamp::of) }
    }

    /// What the files will take in memory, as far as their sizes tell. A file that is not there takes
    /// nothing: opening it names the problem.
    fn demand(&self) -> Demand {
        let size = |stamp: &Option<Stamp>| stamp.as_ref().map_or(0, |s| s.size);
        let keys = size(&self.key);
        // A zkey holds its circuit, which takes less than half of it: 8 of an entry's 44 bytes, and two
        // row offsets for each domain element, which has a 96-byte point in H.
        let circuits = if self.circuit.is_some() { size(&self.circuit) } else { keys / 2 };
        Demand { keys, circuits, ..Demand::default() }
    }
}

/// What came of one attempt.
enum Attempt {
    Loaded(Box<LoadedCircuit>),
    /// There is no room for what the circuit turned out to demand.
    NoRoom(Demand),
}

/// Loads the circuit `name`; `progress` gets validated points and points in all. The error is a sentence.
pub(super) async fn load(
    settings: &LoadSettings,
    name: &str,
    definition: CircuitDefinition,
    files: Files,
    progress: impl Fn(u64, u64) + Send + Sync + 'static,
) -> Result<LoadedCircuit, String> {
    let progress: Arc<dyn Fn(u64, u64) + Send + Sync> = Arc::new(progress);
    let mut demand = files.demand();
    loop {
        let reservation = settings.budget.reserve(demand).await.map_err(|e| e.to_string())?;
        match attempt(settings, name, &definition, reservation, progress.clone()).await? {
            Attempt::Loaded(loaded) => return Ok(*loaded),
            // Its files are closed and its memory given back: it now waits in line for all it needs.
            Attempt::NoRoom(exact) => {
                demand = Demand {
                    keys: exact.keys.max(demand.keys),
                    circuits: exact.circuits.max(demand.circuits),
                    headroom: exact.headroom.max(demand.headroom),
                    ..exact
                };
            }
        }
    }
}

/// Runs one attempt in a thread of its own.
async fn attempt(
    settings: &LoadSettings,
    name: &str,
    definition: &CircuitDefinition,
    mut reservation: Reservation,
    progress: Arc<dyn Fn(u64, u64) + Send + Sync>,
) -> Result<Attempt, String> {
    let (sender, receiver) = oneshot::channel();
    let headroom = settings.headroom.clone();
    let (threads, state_dir) = (settings.threads, settings.state_dir.clone());
    let (name, definition) = (name.to_owned(), definition.clone());
    let work = move || {
        // A pool of its own, for the duration: the points of a large key must not queue before a proof's.
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("load-{i}"))
            .build()
            .map_err(|e| format!("the threads that load it cannot be started: {e}"))?;
        pool.install(|| {
            let material = Material::from_definition(&definition).map_err(|e| e.to_string())?;
            // The files may be others than those whose sizes were taken.
            let keys = material.key_bytes();
            let Material { circuit, key } = material;
            let exact = Demand {
                keys,
                circuits: circuit.num_bytes(),
                headroom: headroom(&circuit, &key)?,
                ..Demand::default()
            };
            if !reservation.try_resize(exact).map_err(|e| e.to_string())? {
                return Ok(Attempt::NoRoom(exact));
            }
            validate_key(&key, Some(&state_dir), &*progress)
                .map_err(|e| e.in_file(&definition.key).to_string())?;
            let domain = key.domain(&circuit).map_err(|e| e.to_string())?;
            Ok(Attempt::Loaded(Box::new(LoadedCircuit {
                name,
                circuit_id: ContentId(circuit.id()),
                verifier: PreparedVerifyingKey::new(&key.vk),
                domain_log2: domain.log_size(),
                circuit,
                key,
                reservation,
            })))
        })
    };
    let started = std::thread::Builder::new().name("load".into()).spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            Err(format!("loading it failed by a fault of the daemon: {}", describe(&*panic)))
        });
        // Nobody waits any more where the daemon is stopping.
        let _ = sender.send(outcome);
    });
    started.map_err(|e: io::Error| format!("the thread that loads it cannot be started: {e}"))?;
    receiver.await.map_err(|_| "the thread that loads it is gone".to_owned())?
}

/// What a panic said.
pub(crate) fn describe(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}
