//! Several circuits on one device: each keeps its resident part of the arena, and all share the memory that
//! a proof works in, at the arena's end. One that does not fit beside the others makes those leave that
//! were used least recently; alone on the device, it streams what does not fit at all.
use super::{
    load::{LoadPlan, Loaded, part},
    plan::ProofPlan,
    prove::{DeviceError, ProofJob},
    shape::ProofShape,
    tables::{LEAST_POINTS, Tables},
};
use crate::{
    algebra::{CancelToken, Canonical},
    gpu::{DeviceSlice, GpuError, msm_plan::MsmDevice, plan::ALIGNMENT, queue::Queue},
    groth16::{Proof, ProvingKey, Stage, Sums},
    r1cs::Circuit,
};
use std::time::Instant;

/// A circuit and its key by their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentIds {
    /// BLAKE3 of the circuit.
    pub circuit: [u8; 32],
    /// The key's id.
    pub key: [u8; 32],
}

/// A circuit in the arena.
struct Resident {
    ids: ContentIds,
    at: u64,
    loaded: Loaded,
    /// The prover's count of uses when this one was last used.
    used: u64,
}

impl Resident {
    fn end(&self) -> u64 {
        self.at + self.loaded.plan.resident_bytes()
    }
}

/// Bytes of the arena that a plan's proofs work in.
fn work_bytes(plan: &ProofPlan) -> u64 {
    plan.num_bytes() - plan.resident_bytes()
}

/// A device's queue and arena, with the circuits that are loaded.
pub struct DeviceProver<Q> {
    queue: Q,
    arena: DeviceSlice<u8>,
    multiprocessors: u32,
    /// By their place.
    residents: Vec<Resident>,
    uses: u64,
    /// Queries of fewer points keep no multiples.
    least_points: u64,
    /// Multiples have been in the way: there are none any more.
    crowded: bool,
}

impl<Q: Queue> DeviceProver<Q> {
    /// A prover with nothing loaded; `multiprocessors` are the device's.
    ///
    /// # Safety
    /// `arena` is valid, and no one but this uses it, as long as the result lives.
    pub unsafe fn new(queue: Q, arena: DeviceSlice<u8>, multiprocessors: u32) -> Self {
        let whole = arena.len() - arena.len() % ALIGNMENT as usize;
        let arena = arena.slice(0..whole).unwrap_or(DeviceSlice::empty());
        let (residents, least_points) = (Vec::new(), LEAST_POINTS);
        Self { queue, arena, multiprocessors, residents, uses: 0, least_points, crowded: false }
    }

    /// Keeps multiples of queries from so many points on, instead of the number from which on they pay.
    pub fn with_multiples_from(mut self, points: u64) -> Self {
        self.least_points = points;
        self
    }

    /// The queue.
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// Bytes of the arena.
    pub fn capacity(&self) -> u64 {
        self.arena.len() as u64
    }

    /// Bytes of the arena that circuits and keys keep.
    pub fn resident_bytes(&self) -> u64 {
        self.residents.iter().map(|resident| resident.loaded.plan.resident_bytes()).sum()
    }

    /// What is loaded.
    pub fn loaded(&self) -> impl Iterator<Item = ContentIds> {
        self.residents.iter().map(|resident| resident.ids)
    }

    /// Proves; loads circuit and key before, if they are not here. See [`Loaded::prove`].
    ///
    /// # Errors
    /// [`DeviceError`].
    ///
    /// # Safety
    /// As for [`Loaded::prove`]; `ids` are those of the job's circuit and key.
    pub unsafe fn prove(
        &mut self,
        ids: ContentIds,
        mut job: ProofJob<'_>,
    ) -> Result<(Proof, Vec<Canonical>), DeviceError> {
        // SAFETY: the caller's promise.
        let (sums, inputs) = unsafe { self.sums(ids, &mut job) }?;
        Ok((job.assemble(sums)?, inputs))
    }

    /// The device's part of a proof; loads circuit and key before, if they are not here. See [`Loaded::sums`].
    ///
    /// # Errors
    /// [`DeviceError`].
    ///
    /// # Safety
    /// As for [`Self::prove`].
    pub unsafe fn sums(
        &mut self,
        ids: ContentIds,
        job: &mut ProofJob<'_>,
    ) -> Result<(Sums, Vec<Canonical>), DeviceError> {
        self.uses += 1;
        let index = match self.residents.iter().position(|resident| resident.ids == ids) {
            Some(index) => index,
            None => {
                (job.on_stage)(Stage::Key);
                let began = Instant::now();
                // SAFETY: the caller's promise.
                let index = unsafe { self.load(ids, job.circuit, job.key, job.cancel) }?;
                job.timeline.record(Stage::Key, began);
                index
            }
        };
        self.residents[index].used = self.uses;
        // SAFETY: the circuit was loaded by this queue; the rest is the caller's promise.
        unsafe { self.residents[index].loaded.sums(&self.queue, job) }
    }

    /// Loads circuit and key, which are not here. Returns their index.
    ///
    /// # Safety
    /// `ids` are those of circuit and key.
    unsafe fn load(
        &mut self,
        ids: ContentIds,
        circuit: &Circuit,
        key: &ProvingKey,
        cancel: &CancelToken,
    ) -> Result<usize, DeviceError> {
        // Alone it must fit: if not, nothing leaves for it.
        let alone = LoadPlan::new(circuit, key, self.device(self.capacity()))?;
        let mut tables = match self.crowded {
            true => Tables::NONE,
            false => Tables::choose(alone.plan(), self.device(self.capacity()), self.least_points)?,
        };
        let (at, plan) = loop {
            match self.place(&alone.plan().shape, tables)? {
                Some(place) => break place,
                None if !tables.is_none() => tables = Tables::NONE,
                None => self.evict(),
            }
        };
        let floor = self.floor().max(at + plan.resident_bytes());
        self.share(self.capacity() - floor)?;
        let resident = self.part(at, plan.resident_bytes())?;
        let work = work_bytes(&plan);
        let work = self.part(self.capacity() - work, work)?;
        let planned = alone.with(plan);
        // SAFETY: the place is free, and no proof is under way; the plan is the circuit's and the key's.
        let loaded =
            unsafe { Loaded::planned(&self.queue, planned, (resident, work), circuit, key, cancel) }?;
        let index = self.residents.partition_point(|resident| resident.at < at);
        self.residents.insert(index, Resident { ids, at, loaded, used: self.uses });
        Ok(index)
    }

    /// Lets go of everything that is loaded.
    pub fn clear(&mut self) {
        self.residents.clear();
        self.crowded = false;
    }

    fn device(&self, memory: u64) -> MsmDevice {
        MsmDevice { memory, multiprocessors: self.multiprocessors }
    }

    fn part(&self, at: u64, bytes: u64) -> Result<DeviceSlice<u8>, GpuError> {
        part(self.arena, at as usize..(at + bytes) as usize)
    }

    /// A place for a circuit, with the plan that fits there; None while others have to leave. Beside others a
    /// circuit and its key are resident as a whole or not at all.
    fn place(&self, shape: &ProofShape, tables: Tables) -> Result<Option<(u64, ProofPlan)>, GpuError> {
        let floor = self.floor();
        let above = self.capacity() - floor;
        let mut at = 0;
        for resident in &self.residents {
            let gap = resident.at - at;
            if let Some(plan) = self.fitting(shape, gap + above, tables)?
                && plan.resident_bytes() <= gap
                && work_bytes(&plan) <= above
            {
                return Ok(Some((at, plan)));
            }
            at = resident.end();
        }
        if self.residents.is_empty() {
            let plan = match tables.is_none() {
                true => Some(ProofPlan::new(shape, self.device(self.capacity()))?),
                false => self.fitting(shape, self.capacity(), tables)?,
            };
            return Ok(plan.map(|plan| (0, plan)));
        }
        let Some(plan) = self.fitting(shape, above, tables)? else { return Ok(None) };
        let work = above - plan.resident_bytes();
        for resident in &self.residents {
            if self.sharing(resident, work)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some((floor, plan)))
    }

    /// Where the last circuit ends.
    fn floor(&self) -> u64 {
        self.residents.last().map_or(0, Resident::end)
    }

    /// The plan of a circuit that is loaded for so much memory to work in, if it has one.
    fn sharing(&self, resident: &Resident, work: u64) -> Result<Option<ProofPlan>, GpuError> {
        let plan = &resident.loaded.plan;
        let kept = plan.resident_bytes();
        let other = self.fitting(&plan.shape, kept + work, plan.tables)?;
        Ok(other.filter(|other| other.resident_bytes() == kept && work_bytes(other) <= work))
    }

    /// Plans the proofs of all circuits that are loaded anew, for so much memory to work in. What is resident
    /// stays where it is: all plans of a circuit that keep its whole key lay it out alike.
    fn share(&mut self, work: u64) -> Result<(), GpuError> {
        let mut plans = Vec::with_capacity(self.residents.len());
        for resident in &self.residents {
            plans.push(self.sharing(resident, work)?);
        }
        let capacity = self.capacity();
        for (resident, plan) in self.residents.iter_mut().zip(plans) {
            let Some(plan) = plan else { continue };
            let used = work_bytes(&plan);
            let work = part(self.arena, (capacity - used) as usize..capacity as usize)?;
            resident.loaded.replan(plan, work);
        }
        Ok(())
    }

    /// The plan for so much memory that keeps the whole key on the device, if there is one.
    fn fitting(
        &self,
        shape: &ProofShape,
        memory: u64,
        tables: Tables,
    ) -> Result<Option<ProofPlan>, GpuError> {
        match ProofPlan::with_tables(shape, self.device(memory), tables) {
            Ok(plan) => Ok(Some(plan)),
            Err(GpuError::OutOfMemory { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets go of the multiples, with the circuits that have any; or else of the circuit that was used least
    /// recently.
    fn evict(&mut self) {
        let loaded = self.residents.len();
        self.residents.retain(|resident| resident.loaded.plan.tables.is_none());
        if self.residents.len() < loaded {
            self.crowded = true;
            return;
        }
        let oldest = self.residents.iter().enumerate().min_by_key(|(_, resident)| resident.used);
        if let Some((index, _)) = oldest {
            self.residents.remove(index);
        }
    }
}
