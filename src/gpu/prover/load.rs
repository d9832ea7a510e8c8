//! A circuit and its key on their way to a device, in bounded pieces. Points go as they are stored and are
//! decoded there.
use super::{
    plan::{LOAD_POINTS, MatrixSlots, Points, ProofPlan, QueryPlan},
    prove::DeviceError,
    shape::ProofShape,
};
use crate::{
    algebra::{CancelToken, Fr, PointStore, RawPoints},
    gpu::{
        DeviceSlice, GpuError,
        msm_plan::{MsmDevice, MsmPlan},
        ntt::{RootTable, Roots},
        plan::Slot,
        points::{self, DeviceCurve},
        queue::Queue,
        space::Space,
        spmv::{self, DeviceMatrix, LongRow, LongRows, RowPiece, Segment},
    },
    groth16::{ProvingKey, Query},
    r1cs::{Circuit, Matrix},
};
use std::ops::Range;

/// What a circuit and its key take on a device, before anything is copied.
pub struct LoadPlan {
    plan: ProofPlan,
    long: [LongRows; 2],
}

impl LoadPlan {
    /// Plans for a device.
    ///
    /// # Errors
    /// The key is not the circuit's, or they do not fit: [`DeviceError::Key`], [`DeviceError::Gpu`].
    pub fn new(circuit: &Circuit, key: &ProvingKey, device: MsmDevice) -> Result<Self, DeviceError> {
        let long = [LongRows::of(circuit.a())?, LongRows::of(circuit.b())?];
        let shape = ProofShape::of(circuit, &long, key)?;
        Ok(Self { plan: ProofPlan::new(&shape, device)?, long })
    }

    /// The same with multiples of the key's points, where a device has memory for them: see
    /// [`ProofPlan::fastest`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn fastest(self, device: MsmDevice) -> Result<Self, DeviceError> {
        let plan = ProofPlan::fastest(self.plan.shape(), device)?;
        Ok(self.with(plan))
    }

    /// The same circuit and key with another plan for them.
    pub fn with(self, plan: ProofPlan) -> Self {
        Self { plan, ..self }
    }

    /// The plan.
    pub fn plan(&self) -> &ProofPlan {
        &self.plan
    }
}

/// A circuit and its key in a device's memory.
pub struct Loaded {
    pub(super) plan: ProofPlan,
    resident: DeviceSlice<u8>,
    pub(super) work: DeviceSlice<u8>,
    /// Pieces of A and of B, where the plan is a lean one.
    pub(super) pieces: [Vec<RowPiece>; 2],
    load_peak: u64,
}

impl Loaded {
    /// Copies a circuit and its key to an arena, as many of the key's points as fit; `multiprocessors` are
    /// the device's. What is resident lies at the arena's start. Content is taken as it is, but for the
    /// encoding of points: keys are validated elsewhere.
    ///
    /// # Errors
    /// [`DeviceError`]; one that does not fit is refused before anything is copied.
    ///
    /// # Safety
    /// `memory` is valid, and no one but `queue` uses it, as long as the result lives.
    pub unsafe fn new<Q: Queue>(
        queue: &Q,
        memory: DeviceSlice<u8>,
        multiprocessors: u32,
        circuit: &Circuit,
        key: &ProvingKey,
        cancel: &CancelToken,
    ) -> Result<Self, DeviceError> {
        let device = MsmDevice { memory: memory.len() as u64, multiprocessors };
        let planned = LoadPlan::new(circuit, key, device)?;
        let resident = planned.plan.resident_bytes() as usize;
        let parts = (part(memory, 0..resident)?, part(memory, resident..memory.len())?);
        // SAFETY: the caller's promise.
        unsafe { Self::planned(queue, planned, parts, circuit, key, cancel) }
    }

    /// Copies a circuit and its key as planned: what lasts to the first part of memory, which is as long as
    /// the plan's resident part; proofs work in the second, which holds the rest of the plan.
    ///
    /// # Errors
    /// As [`Self::new`].
    ///
    /// # Safety
    /// The first part is valid, and no one but this proves with it, as long as the result lives; so is the
    /// second, which others may use between the calls on `queue`. The plan is the circuit's and the key's.
    pub unsafe fn planned<Q: Queue>(
        queue: &Q,
        planned: LoadPlan,
        (resident, work): (DeviceSlice<u8>, DeviceSlice<u8>),
        circuit: &Circuit,
        key: &ProvingKey,
        cancel: &CancelToken,
    ) -> Result<Self, DeviceError> {
        let LoadPlan { plan, long } = planned;
        let mut loader = Loader { queue, plan: &plan, space: Space::new(resident, work), cancel };
        // SAFETY: the caller's promise.
        let load_peak = unsafe { loader.run(circuit, &long, key) }?;
        let pieces = match plan.again {
            None => Default::default(),
            Some(_) => [spmv::pieces(circuit.a(), &long[0]), spmv::pieces(circuit.b(), &long[1])],
        };
        Ok(Self { plan, resident, work, pieces, load_peak })
    }

    /// The plan.
    pub fn plan(&self) -> &ProofPlan {
        &self.plan
    }

    /// Changes where proofs work, and in how much memory. The plan must keep as much resident.
    pub(super) fn replan(&mut self, plan: ProofPlan, work: DeviceSlice<u8>) {
        self.plan = plan;
        self.work = work;
    }

    /// What is resident, in the arena's ledger of a proof.
    pub(super) fn residents(&self) -> Result<Residents, GpuError> {
        let mut space = Space::new(self.resident, self.work);
        let plan = &self.plan;
        let roots = Roots::new(space.claim::<Fr>(plan.roots, RootTable::LEN as u64)?)?;
        let coefficients = space.claim::<Fr>(plan.coefficients, plan.shape.coefficients)?;
        let mut matrices = Vec::new();
        for (slots, shape) in plan.matrices.iter().zip(&plan.shape.matrices) {
            let mut matrix = DeviceMatrix {
                offsets: DeviceSlice::empty(),
                columns: DeviceSlice::empty(),
                indices: DeviceSlice::empty(),
                segments: space.claim(slots.segments, shape.segments)?,
                long_rows: space.claim(slots.long_rows, shape.long_rows)?,
                segment_sums: DeviceSlice::empty(),
                rows: shape.rows,
                first_entry: 0,
            };
            if plan.again.is_none() {
                matrix.offsets = space.claim(slots.offsets, (shape.rows + 1) * shape.offset_bytes)?;
                matrix.columns = space.claim(slots.columns, shape.entries)?;
                matrix.indices = space.claim(slots.indices, shape.entries * shape.index_bytes)?;
            }
            matrices.push(matrix);
        }
        let bad = space.claim(plan.bad, 1)?;
        for slot in resident_slots(&plan.h)
            .chain(resident_slots(&plan.l))
            .chain(resident_slots(&plan.a))
            .chain(resident_slots(&plan.b_g1))
            .chain(resident_slots(&plan.b_g2))
        {
            space.claim::<u8>(slot, 0)?;
        }
        Ok(Residents { space, roots, coefficients, matrices: [matrices[0], matrices[1]], bad })
    }

    /// Refuses a proof whose peak, with the loading's, was not the planned one.
    pub(super) fn check_peak(&self, space: &Space) -> Result<(), GpuError> {
        match space.peak().max(self.load_peak) {
            found if found == self.plan.num_bytes() => Ok(()),
            found => Err(GpuError::Peak { found, wanted: self.plan.num_bytes() }),
        }
    }
}

/// What [`Loaded::new`] has left in the arena.
pub(super) struct Residents {
    pub space: Space,
    pub roots: Roots,
    pub coefficients: DeviceSlice<Fr>,
    pub matrices: [DeviceMatrix; 2],
    pub bad: DeviceSlice<u64>,
}

fn resident_slots<C: DeviceCurve>(query: &QueryPlan<C>) -> impl Iterator<Item = Slot> {
    let points = query.sum.as_ref().and_then(|sum| match sum.points {
        Points::Resident(slot) => Some(slot),
        Points::Streamed { .. } => None,
    });
    query.variables.into_iter().chain(points)
}

struct Loader<'a, Q> {
    queue: &'a Q,
    plan: &'a ProofPlan,
    space: Space,
    cancel: &'a CancelToken,
}

impl<Q: Queue> Loader<'_, Q> {
    /// Returns the peak.
    ///
    /// # Safety
    /// The arena is this loader's alone.
    unsafe fn run(
        &mut self,
        circuit: &Circuit,
        long: &[LongRows; 2],
        key: &ProvingKey,
    ) -> Result<u64, DeviceError> {
        let plan = self.plan;
        // SAFETY: the caller's promise, here and below.
        unsafe {
            self.copy(plan.roots, &RootTable::compute(key.root))?;
            self.copy(plan.coefficients, circuit.coefficients())?;
            for ((slots, matrix), long) in plan.matrices.iter().zip([circuit.a(), circuit.b()]).zip(long) {
                self.matrix(slots, matrix, long)?;
            }
            let bad = self.space.claim(plan.bad, 1)?;
            self.queue.upload(bad, &[u64::MAX])?;
            self.points("h", &plan.h, &key.h, bad)?;
            self.points("l", &plan.l, &key.l, bad)?;
            self.query("a", &plan.a, &key.a, bad)?;
            self.query("b_g1", &plan.b_g1, &key.b_g1, bad)?;
            self.query("b_g2", &plan.b_g2, &key.b_g2, bad)?;
            self.queue.finish()?;
        }
        Ok(self.space.peak())
    }

    /// # Safety
    /// As for [`Self::run`].
    unsafe fn copy<T: Copy>(&mut self, slot: Slot, values: &[T]) -> Result<(), DeviceError> {
        self.cancel.check()?;
        let target = self.space.claim::<T>(slot, values.len() as u64)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { self.queue.upload(target, values) }?)
    }

    /// # Safety
    /// As for [`Self::run`].
    unsafe fn matrix(
        &mut self,
        slots: &MatrixSlots,
        matrix: &Matrix,
        long: &LongRows,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe {
            if self.plan.again.is_none() {
                self.copy::<u8>(slots.offsets, matrix.offset_bytes())?;
                self.copy::<u32>(slots.columns, matrix.columns())?;
                self.copy::<u8>(slots.indices, matrix.index_bytes())?;
            }
            self.copy::<Segment>(slots.segments, &long.segments)?;
            self.copy::<LongRow>(slots.long_rows, &long.rows)
        }
    }

    /// # Safety
    /// As for [`Self::run`].
    unsafe fn query<C: DeviceCurve>(
        &mut self,
        name: &'static str,
        plan: &QueryPlan<C>,
        query: &Query<C>,
        bad: DeviceSlice<u64>,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe {
            if let (Some(slot), Some(variables)) = (plan.variables, query.variables()) {
                self.copy::<u32>(slot, variables)?;
            }
            self.points(name, plan, query.points(), bad)
        }
    }

    /// # Safety
    /// As for [`Self::run`].
    unsafe fn points<C: DeviceCurve>(
        &mut self,
        name: &'static str,
        plan: &QueryPlan<C>,
        store: &PointStore<C>,
        bad: DeviceSlice<u64>,
    ) -> Result<(), DeviceError> {
        let Some(sum) = &plan.sum else { return Ok(()) };
        let Points::Resident(slot) = sum.points else { return Ok(()) };
        let count = store.len();
        let tables = sum.msm.windows().tables;
        let all = self.space.claim::<C::Affine>(slot, count as u64 * u64::from(tables))?;
        let staging = self.plan.staging;
        let staging_bytes = staging.num_bytes();
        let encoded = self.space.claim::<u8>(staging, staging_bytes)?;
        let mut first = 0;
        while first < count {
            self.cancel.check()?;
            let range = first..count.min(first + LOAD_POINTS as usize);
            first = range.end;
            // SAFETY: the caller's promise.
            unsafe { copy_points(self.queue, name, store, range.clone(), part(all, range)?, encoded, bad) }?;
        }
        self.space.release(staging);
        // SAFETY: the caller's promise.
        unsafe { self.multiples(all, count, &sum.msm) }
    }

    /// Behind the first table, which is there, makes the others: each point times 2^(width · sets), and again.
    ///
    /// # Safety
    /// As for [`Self::run`].
    unsafe fn multiples<C: DeviceCurve>(
        &mut self,
        all: DeviceSlice<C::Affine>,
        count: usize,
        msm: &MsmPlan<C>,
    ) -> Result<(), DeviceError> {
        let windows = msm.windows();
        if windows.tables == 1 {
            return Ok(());
        }
        let scratch_bytes = points::multiples_scratch_bytes(msm.multiprocessors);
        let scratch = self.space.claim::<u8>(self.plan.scratch, scratch_bytes)?;
        let doublings = windows.width * windows.sets();
        let at_once = count.min(LOAD_POINTS as usize);
        for first in (count..all.len()).step_by(at_once) {
            self.cancel.check()?;
            // A piece may reach into the next table: what it doubles is one table back, and there already.
            let to = first..all.len().min(first + at_once);
            let from = part(all, to.start - count..to.end - count)?;
            let to = part(all, to)?;
            // SAFETY: the caller's promise.
            unsafe { points::multiples::<C>(self.queue, msm.multiprocessors, from, to, doublings, scratch) }?;
            self.queue.finish()?;
        }
        self.space.release(self.plan.scratch);
        Ok(())
    }
}

/// A part of a slice that is long enough.
pub(super) fn part<T>(slice: DeviceSlice<T>, range: Range<usize>) -> Result<DeviceSlice<T>, GpuError> {
    let (found, wanted) = (slice.len() as u64, range.end as u64);
    slice.slice(range).ok_or(GpuError::Length { what: "a vector on the device", found, wanted })
}

/// Copies points `range` of a store to `target`; where they have to be decoded, by way of `encoded`.
///
/// # Safety
/// All memory named is valid, and nothing unordered with `queue` uses it.
pub(super) unsafe fn copy_points<C: DeviceCurve, Q: Queue>(
    queue: &Q,
    query: &'static str,
    store: &PointStore<C>,
    range: Range<usize>,
    target: DeviceSlice<C::Affine>,
    encoded: DeviceSlice<u8>,
    bad: DeviceSlice<u64>,
) -> Result<(), DeviceError> {
    let first = range.start as u64;
    // SAFETY: the caller's promise; a point's bytes in its own form are its memory.
    unsafe {
        match store.raw(range) {
            RawPoints::Decoded(points) => queue.upload(target, points)?,
            RawPoints::MontgomeryLe(bytes) => {
                queue.upload(DeviceSlice::<u8>::from_raw(target.address(), target.num_bytes()), bytes)?
            }
            RawPoints::ZcashUncompressed(bytes) => {
                let encoded = part(encoded, 0..bytes.len())?;
                queue.upload(encoded, bytes)?;
                points::decode::<C>(queue, encoded, target, bad)?;
                let found = queue.download(bad)?;
                if let Some(&index) = found.first().filter(|&&index| index != u64::MAX) {
                    return Err(DeviceError::Point { query, index: first + index });
                }
            }
        }
    }
    Ok(())
}
