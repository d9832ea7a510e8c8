//! One device as a backend: its arena with the circuits on it, the witness's way there, and what to make of
//! its failures. Two partitions or more are in its hands at a time: one is on the device, behind a [`Gate`]; the pages
//! of the next one's witness are locked meanwhile, and the last one's sums assembled.
use super::gate::Gate;
use crate::algebra::Canonical;
use crate::daemon::{
    backend::{Backend, BackendError, Claim, DeviceUse, ProofRequest},
    pages::HeldPages,
    witness::{MappedPages, ReadError, Witness},
};
use crate::gpu::{
    DeviceSlice, GpuError, PageLocks,
    device::DeviceInfo,
    msm_plan::MsmDevice,
    prover::{
        ContentIds, DeviceError, DeviceProver, KnownAnswer, KnownAnswerError, LOADING_BYTES, LoadPlan,
        ProofJob, STAGING_BYTES, Upload,
    },
};
use crate::groth16::{Proof, ProvingKey, Stage, timeline::StageRunner};
use crate::proto::ContentId;
use crate::r1cs::Circuit;
use crate::units::about_bytes;
use std::{
    any::Any,
    collections::HashMap,
    ptr::NonNull,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// A device's memory, to be used by one backend.
pub struct Arena {
    /// The memory.
    pub memory: DeviceSlice<u8>,
    /// Keeps it.
    pub owner: Box<dyn Any + Send + Sync>,
}

/// A device that has given the known answer.
pub struct DeviceBackend<Q: PageLocks> {
    name: String,
    why: String,
    info: DeviceInfo,
    capacity: u64,
    slots: usize,
    queue: Arc<Q>,
    /// Decides who is next to lock `on_device`.
    gate: Gate,
    on_device: Mutex<OnDevice<Q>>,
    /// What status shows, and the scheduler asks, also while a proof is made.
    shown: Mutex<Shown>,
    /// Its own end, once it is lost.
    lost: OnceLock<DeviceError>,
    /// Whether it has been logged that a witness cannot be copied by the device itself.
    staged_once: AtomicBool,
    /// Dropped after what uses it.
    _arena: Box<dyn Any + Send + Sync>,
}

#[derive(Default)]
struct Shown {
    used: DeviceUse,
    loaded: Vec<ContentIds>,
}

struct OnDevice<Q: PageLocks> {
    prover: DeviceProver<Arc<Q>>,
    /// Names of the circuits that have been proved.
    names: HashMap<ContentIds, String>,
    /// Locked as long as `staging` is there.
    _staging_lock: Option<Q::Lock>,
    staging: Box<[u8]>,
}

/// "cuda:" and as much of the UUID as names it among others.
pub fn name(info: &DeviceInfo) -> String {
    let digits = info.uuid.strip_prefix("GPU-").unwrap_or(&info.uuid);
    format!("cuda:GPU-{}", digits.get(..8).unwrap_or(digits))
}

impl<Q: PageLocks + Send + Sync> DeviceBackend<Q> {
    /// A backend that proves on `queue`'s device, in `arena`, once it has given the known answer; it takes on so
    /// many partitions at once.
    ///
    /// # Errors
    /// Why it has not.
    ///
    /// # Safety
    /// The arena is valid memory of the queue's device, as long as its owner lives, and nobody else's.
    pub unsafe fn new(
        queue: Q,
        arena: Arena,
        info: &DeviceInfo,
        known: &KnownAnswer,
        slots: usize,
    ) -> Result<Self, KnownAnswerError> {
        let queue = Arc::new(queue);
        let Arena { memory, owner } = arena;
        let mut staging = vec![0; STAGING_BYTES].into_boxed_slice();
        let address = NonNull::from(&mut *staging).cast();
        // SAFETY: the memory stays where it is as long as the lock, which is dropped before it. Not locked, it
        // serves as well, only slower.
        let staging_lock = unsafe { queue.lock_pages(address, staging.len()) }.ok();
        // SAFETY: the caller's promise.
        let mut prover = unsafe { DeviceProver::new(queue.clone(), memory, info.multiprocessors) };
        known.check(&mut prover)?;
        prover.clear();
        let capacity = prover.capacity();
        let (device, memory) = (info.to_string(), about_bytes(capacity));
        Ok(Self {
            name: name(info),
            why: format!("{device} gave the known answer; {memory} of its memory"),
            info: info.clone(),
            capacity,
            slots,
            queue,
            gate: Gate::default(),
            on_device: Mutex::new(OnDevice {
                prover,
                names: HashMap::new(),
                _staging_lock: staging_lock,
                staging,
            }),
            shown: Mutex::new(Shown {
                used: DeviceUse { device, memory: capacity, ..DeviceUse::default() },
                ..Shown::default()
            }),
            lost: OnceLock::new(),
            staged_once: AtomicBool::new(false),
            _arena: owner,
        })
    }

    fn on_device(&self) -> MutexGuard<'_, OnDevice<Q>> {
        // A panic in a proof leaves the list of circuits as it was, or longer by one that is loaded.
        self.on_device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        // Set by single assignments.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mapping of a witness that the device can copy by itself.
    fn locked_pages<'a>(&self, witness: &'a Witness) -> Option<MappedPages<'a>> {
        let pages = witness.mapped_pages()?;
        let lock = || {
            // SAFETY: the mapping's owner drops the lock before it unmaps.
            match unsafe { self.queue.lock_pages(pages.base, pages.bytes) } {
                Ok(lock) => Some(HeldPages::new(pages.bytes as u64, lock)),
                Err(error) => {
                    self.note_staging(&error);
                    None
                }
            }
        };
        pages.lock.is_held(lock).then_some(pages)
    }

    fn note_staging(&self, error: &GpuError) {
        if !self.staged_once.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "{}: witnesses are copied on the host first, as their pages cannot be locked: {error}",
                self.name
            );
        }
    }

    fn make(&self, request: ProofRequest<'_>) -> Result<(Proof, Vec<Canonical>), BackendError> {
        let ProofRequest {
            name,
            circuit,
            circuit_id,
            key,
            witness,
            priority,
            randomness,
            cancel,
            timeline,
            on_stage,
        } = request;
        let began = Instant::now();
        on_stage(Stage::Pin);
        let pages = self.locked_pages(witness);
        timeline.record(Stage::Pin, began);
        let began = Instant::now();
        on_stage(Stage::Slot);
        let turn = self.gate.enter(priority, cancel).map_err(ReadError::from)?;
        timeline.record(Stage::Slot, began);
        if let Some(error) = self.lost.get() {
            return Err(BackendError::Lost(error.clone()));
        }
        let (made, randomness) = {
            let mut on_device = self.on_device();
            let OnDevice { prover, names, staging, .. } = &mut *on_device;
            let ids = ContentIds { circuit: circuit_id.0, key: key.id };
            let mut job = ProofJob {
                circuit,
                key,
                encoding: witness.encoding(),
                witness,
                upload: pages.map_or_else(|| Upload::Staged(staging), |pages| Upload::Direct(pages.base)),
                randomness,
                cancel,
                timeline: &mut *timeline,
                on_stage: &mut |stage| on_stage(stage),
            };
            // SAFETY: the ids are those of circuit and key; the witness's mapping outlives the call.
            let made = unsafe { prover.sums(ids, &mut job) };
            let randomness = job.randomness;
            if made.is_ok() {
                // What is left is quickly done, and the device is free for whoever wants it.
                cancel.settle();
            }
            names.insert(ids, name.to_owned());
            names.retain(|ids, _| prover.loaded().any(|loaded| loaded == *ids));
            self.show(prover, names);
            (made.map_err(|error| self.judge(prover, error)), randomness)
        };
        drop(turn);
        let (sums, inputs) = made?;
        let mut stages = StageRunner { cancel, timeline, on_stage: &mut |stage| on_stage(stage) };
        let proof = sums.assemble(key, &randomness, &mut stages).map_err(ReadError::from)?;
        Ok((proof, inputs))
    }

    /// Notes what is on the device. The scheduler asks for it under its own lock: nothing is waited for here.
    fn show(&self, prover: &DeviceProver<Arc<Q>>, names: &HashMap<ContentIds, String>) {
        let mut shown = self.shown();
        shown.used.circuits = prover.loaded().filter_map(|ids| names.get(&ids).cloned()).collect();
        shown.used.memory_kept = prover.resident_bytes();
        shown.loaded.clear();
        shown.loaded.extend(prover.loaded());
    }

    /// What a failure is to the daemon. The driver fails every call of a device that is lost: so this asks.
    fn judge(&self, prover: &DeviceProver<Arc<Q>>, error: DeviceError) -> BackendError {
        match error {
            DeviceError::Cancelled(cancelled) => ReadError::Cancelled(cancelled).into(),
            DeviceError::Witness(error) => ReadError::Invalid(error).into(),
            DeviceError::Gpu(_) if prover.queue().finish().is_err() => {
                BackendError::Lost(self.lost.get_or_init(|| error).clone())
            }
            other => BackendError::Device(other),
        }
    }
}

impl<Q: PageLocks + Send + Sync> Backend for DeviceBackend<Q> {
    fn name(&self) -> &str {
        &self.name
    }

    fn why(&self) -> &str {
        &self.why
    }

    /// The worker looks for the constraint that a bad witness does not satisfy: 32 bytes a value.
    fn working_bytes(&self, circuit: &Circuit, _key: &ProvingKey) -> u64 {
        32 * circuit.num_variables() as u64 + STAGING_BYTES as u64 + LOADING_BYTES
    }

    fn device_use(&self) -> Option<DeviceUse> {
        Some(self.shown().used.clone())
    }

    fn slots(&self) -> usize {
        self.slots
    }

    fn has(&self, circuit_id: ContentId, key: &ProvingKey) -> bool {
        self.shown().loaded.contains(&ContentIds { circuit: circuit_id.0, key: key.id })
    }

    fn accepts(&self, circuit: &Circuit, key: &ProvingKey) -> Result<(), String> {
        let (memory, multiprocessors) = (self.capacity, self.info.multiprocessors);
        let planned = LoadPlan::new(circuit, key, MsmDevice { memory, multiprocessors });
        planned.map(drop).map_err(|error| error.to_string())
    }

    fn prove(&self, request: ProofRequest<'_>) -> Result<Claim, BackendError> {
        self.make(request).map(|(proof, inputs)| Claim { proof, inputs })
    }
}
