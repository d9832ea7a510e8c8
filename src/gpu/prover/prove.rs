//! One proof: witness, evaluation, quotient and sums on the device; assembly on the host.
use super::{
    load::{Loaded, Residents, copy_points, part},
    plan::{MatrixSlots, Points, QueryPlan},
    shape::{ProofShape, ShapeError},
};
use crate::{
    algebra::{CancelToken, Cancelled, Canonical, Curve, Fr, G1, PointStore},
    gpu::{
        DeviceSlice, GpuError, field,
        msm::{Chunk, Msm},
        ntt::Transform,
        plan::Slot,
        points::DeviceCurve,
        queue::Queue,
        quotient::{self, Buffers},
        space::Space,
        spmv::{self, DeviceMatrix, RowPiece},
        unpack,
    },
    groth16::{
        HBasis, KeyError, Proof, ProvingKey, Randomness, Stage, Sums, Timeline, timeline::StageRunner,
    },
    r1cs::{Circuit, Matrix, WitnessBytes, WitnessEncoding, WitnessError},
};
use std::{ptr::NonNull, time::Instant};
use zeroize::Zeroize;

/// Pieces of a witness are multiples of this, as launches address what was copied.
const VALUE_BYTES: usize = size_of::<Canonical>();

/// How a witness reaches the device.
pub enum Upload<'a> {
    /// The device copies it from here, where its bytes are mapped; best from pages that are locked.
    Direct(NonNull<u8>),
    /// Through this memory of the process's own, as much at a time; it is wiped.
    Staged(&'a mut [u8]),
}

/// A proof to be made.
pub struct ProofJob<'a> {
    /// The circuit that was loaded.
    pub circuit: &'a Circuit,
    /// The key that was loaded.
    pub key: &'a ProvingKey,
    /// The witness's encoding.
    pub encoding: WitnessEncoding,
    /// The witness, which is read once, or twice where memory is scarce.
    pub witness: &'a dyn WitnessBytes,
    /// Its way to the device.
    pub upload: Upload<'a>,
    /// Blinding.
    pub randomness: Randomness,
    /// Looked at between bounded pieces of work.
    pub cancel: &'a CancelToken,
    /// Takes the stages' times.
    pub timeline: &'a mut Timeline,
    /// Is told when a stage begins.
    pub on_stage: &'a mut dyn FnMut(Stage),
}

/// Why a device has no proof.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The caller raised the token.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The witness is not what its encoding demands.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// The key is not one of the circuit.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key has a point that is none.
    #[error("{query} point {index} of the key is not a valid encoding")]
    Point {
        /// The query's name in bellman's format.
        query: &'static str,
        /// The point.
        index: u64,
    },
    /// The device, or its memory.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl From<ShapeError> for DeviceError {
    fn from(error: ShapeError) -> Self {
        match error {
            ShapeError::Key(error) => Self::Key(error),
            ShapeError::Gpu(error) => Self::Gpu(error),
        }
    }
}

impl Loaded {
    /// Proves, and returns with the proof the public inputs, without ONE, that it was made for. Whatever
    /// of the witness was on the device is wiped.
    ///
    /// # Errors
    /// [`DeviceError`].
    ///
    /// # Safety
    /// `queue` is the one that loaded; circuit and key are the ones that were loaded; the witness's bytes are
    /// mapped where [`Upload::Direct`] says.
    pub unsafe fn prove<Q: Queue>(
        &self,
        queue: &Q,
        mut job: ProofJob<'_>,
    ) -> Result<(Proof, Vec<Canonical>), DeviceError> {
        // SAFETY: the caller's promise.
        let (sums, inputs) = unsafe { self.sums(queue, &mut job) }?;
        Ok((job.assemble(sums)?, inputs))
    }

    /// The device's part of a proof: its sums, with the public inputs that they are of. Whatever of the witness
    /// was on the device is wiped.
    ///
    /// # Errors
    /// [`DeviceError`].
    ///
    /// # Safety
    /// As for [`Self::prove`].
    pub unsafe fn sums<Q: Queue>(
        &self,
        queue: &Q,
        job: &mut ProofJob<'_>,
    ) -> Result<(Sums, Vec<Canonical>), DeviceError> {
        // SAFETY: the caller's promise.
        let sums = unsafe { self.run(queue, job) };
        (job.on_stage)(Stage::Wipe);
        let began = Instant::now();
        // SAFETY: as above.
        let wiped = unsafe { self.wipe(queue) };
        job.timeline.record(Stage::Wipe, began);
        let sums = sums?;
        wiped?;
        Ok(sums)
    }

    /// Overwrites all of the plan's memory that is not resident.
    unsafe fn wipe<Q: Queue>(&self, queue: &Q) -> Result<(), GpuError> {
        let used = self.plan.num_bytes() - self.plan.resident_bytes();
        // SAFETY: the caller's promise.
        let filled = unsafe { queue.fill(part(self.work, 0..used as usize)?, 0) };
        // Whatever came of it: nothing may be under way when this returns.
        queue.finish().and(filled)
    }

    unsafe fn run<Q: Queue>(
        &self,
        queue: &Q,
        job: &mut ProofJob<'_>,
    ) -> Result<(Sums, Vec<Canonical>), DeviceError> {
        let ProofJob { circuit, key, encoding, witness, upload, cancel, timeline, on_stage, .. } = job;
        let (circuit, key, encoding, witness, cancel) = (*circuit, *key, *encoding, *witness, *cancel);
        key.check_shape(circuit)?;
        let plan = &self.plan;
        let shape = &plan.shape;
        let Residents { space, roots, coefficients, matrices, bad } = self.residents()?;
        let mut stages = StageRunner { cancel, timeline, on_stage };
        let mut work = Work { queue, space, bad, cancel };

        let mut source = Source { encoding, witness, upload, shape };
        // SAFETY: the caller's promise, here and below: the arena's memory is this proof's, and its parts
        // are as long as the plan made them, for this circuit and key.
        let (z, inputs) =
            stages.run(Stage::Copy, || unsafe { work.witness_at([plan.z, plan.packed], &mut source) })?;
        let domain = shape.domain();
        let [a, b, c] = plan.evaluations;
        let quotient_slot = match shape.h_basis {
            HBasis::Monomial => b,
            HBasis::CosetLagrange => c,
        };
        let a_values = work.space.claim::<Canonical>(a, domain)?;
        let b_values = work.space.claim::<Canonical>(b, domain)?;
        stages.run(Stage::Evaluate, || {
            let [mut of_a, mut of_b] = matrices;
            let [sums_a, sums_b] = plan.segment_sums;
            of_a.segment_sums = work.space.claim(sums_a, shape.matrices[0].segments)?;
            of_b.segment_sums = work.space.claim(sums_b, shape.matrices[1].segments)?;
            // SAFETY: as above.
            unsafe {
                match plan.again {
                    None => {
                        let values = [a_values, b_values];
                        spmv::evaluate(queue, [&of_a, &of_b], coefficients, z, values)?;
                    }
                    Some(_) => {
                        let rows = [(circuit.a(), of_a, a_values), (circuit.b(), of_b, b_values)];
                        for (i, (matrix, on_device, values)) in rows.into_iter().enumerate() {
                            let place = plan.matrices[i];
                            let pieces = Pieces { matrix, on_device, pieces: &self.pieces[i], place };
                            work.evaluate_pieces(&pieces, coefficients, z, values)?;
                        }
                    }
                }
            }
            work.space.release(sums_a);
            work.space.release(sums_b);
            queue.finish()?;
            Ok::<_, DeviceError>(())
        })?;
        if plan.again.is_some() {
            work.space.release(plan.z);
        }
        let c_values = work.space.claim::<Canonical>(c, domain)?;
        // On a domain of one point A·B − C is zero: there is no quotient.
        let h_scalars = match shape.log_domain {
            0 => None,
            log_domain => Some(stages.run(Stage::Quotient, || {
                let transform = Transform::new(roots, log_domain)?;
                let buffers = Buffers { a: a_values, b: b_values, c: c_values };
                // SAFETY: as above.
                let h = unsafe { quotient::quotient(queue, &transform, shape.h_basis, buffers) }?;
                queue.finish()?;
                Ok::<_, DeviceError>(h)
            })?),
        };
        for slot in [a, b, c].into_iter().filter(|slot| *slot != quotient_slot) {
            work.space.release(slot);
        }
        let h = match h_scalars {
            None => G1::identity(),
            Some(scalars) => stages.run(Stage::MsmH, || {
                let scalars = part(scalars, 0..key.h.len())?;
                // SAFETY: as above.
                unsafe { work.sum("h", &plan.h, &key.h, scalars) }
            })?,
        };
        work.space.release(quotient_slot);
        let z = match plan.again {
            None => z,
            Some(slots) => {
                // SAFETY: as above.
                let (z, again) =
                    stages.run(Stage::Copy, || unsafe { work.witness_at(slots, &mut source) })?;
                if again != inputs {
                    let reason = "its public inputs changed between two readings".into();
                    return Err(WitnessError::Unreadable { reason }.into());
                }
                z
            }
        };
        let l = stages.run(Stage::MsmL, || {
            let aux = part(z, circuit.num_inputs()..circuit.num_variables())?;
            // SAFETY: as above.
            unsafe { work.sum("l", &plan.l, &key.l, aux) }
        })?;
        // SAFETY: as above.
        let (a, b_g1, b_g2) = unsafe {
            (
                stages.run(Stage::MsmA, || work.sum("a", &plan.a, key.a.points(), z))?,
                stages.run(Stage::MsmB1, || work.sum("b_g1", &plan.b_g1, key.b_g1.points(), z))?,
                stages.run(Stage::MsmB2, || work.sum("b_g2", &plan.b_g2, key.b_g2.points(), z))?,
            )
        };
        self.check_peak(&work.space)?;
        Ok((Sums { h_and_l: G1::add(&h, &l), a, b_g1, b_g2 }, inputs))
    }
}

impl ProofJob<'_> {
    /// The proof of its sums, which no device needs to be waited for.
    pub(super) fn assemble(self, sums: Sums) -> Result<Proof, Cancelled> {
        let Self { key, randomness, cancel, timeline, on_stage, .. } = self;
        sums.assemble(key, &randomness, &mut StageRunner { cancel, timeline, on_stage })
    }
}

/// A witness to be copied.
struct Source<'a, 'm> {
    encoding: WitnessEncoding,
    witness: &'a dyn WitnessBytes,
    upload: &'a mut Upload<'m>,
    shape: &'a ProofShape,
}

/// A matrix on the host, of which the device has the long rows only.
struct Pieces<'a> {
    matrix: &'a Matrix,
    on_device: DeviceMatrix,
    pieces: &'a [RowPiece],
    place: MatrixSlots,
}

/// What the stages of one proof work with.
struct Work<'a, Q> {
    queue: &'a Q,
    space: Space,
    bad: DeviceSlice<u64>,
    cancel: &'a CancelToken,
}

impl<Q: Queue> Work<'_, Q> {
    /// Copies the witness to its place, by way of the other where it has to be unpacked. Returns it with the
    /// public inputs.
    ///
    /// # Safety
    /// The places are this proof's.
    unsafe fn witness_at(
        &mut self,
        [z_slot, packed_slot]: [Slot; 2],
        source: &mut Source<'_, '_>,
    ) -> Result<(DeviceSlice<Canonical>, Vec<Canonical>), DeviceError> {
        let z = self.space.claim::<Canonical>(z_slot, source.shape.variables)?;
        let packed = self.space.claim::<u8>(packed_slot, packed_slot.num_bytes())?;
        // SAFETY: the caller's promise.
        let inputs = unsafe { self.witness(source, packed, z) }?;
        self.space.release(packed_slot);
        Ok((z, inputs))
    }

    /// A matrix times z, whose pieces are copied to their place one after the other.
    ///
    /// # Safety
    /// As for [`spmv::evaluate`]; the memory is this proof's.
    unsafe fn evaluate_pieces(
        &mut self,
        all: &Pieces<'_>,
        coefficients: DeviceSlice<Fr>,
        z: DeviceSlice<Canonical>,
        values: DeviceSlice<Canonical>,
    ) -> Result<(), DeviceError> {
        let MatrixSlots { offsets, columns, indices, .. } = all.place;
        let offsets_at = self.space.claim::<u8>(offsets, offsets.num_bytes())?;
        let columns_at = self.space.claim::<u32>(columns, columns.num_bytes() / size_of::<u32>() as u64)?;
        let indices_at = self.space.claim::<u8>(indices, indices.num_bytes())?;
        let (ends, codes) = (all.matrix.offset_bytes(), all.matrix.index_bytes());
        let end_bytes = ends.len() / (all.matrix.rows() + 1);
        let code_bytes = codes.len().checked_div(all.matrix.columns().len()).unwrap_or_default();
        for piece in all.pieces {
            self.cancel.check()?;
            let rows = piece.rows.start as usize..piece.rows.end as usize;
            let entries = piece.entries.start as usize..piece.entries.end as usize;
            let ends = &ends[rows.start * end_bytes..(rows.end + 1) * end_bytes];
            let codes = &codes[entries.start * code_bytes..entries.end * code_bytes];
            let matrix = DeviceMatrix {
                offsets: part(offsets_at, 0..ends.len())?,
                columns: part(columns_at, 0..entries.len())?,
                indices: part(indices_at, 0..codes.len())?,
                segments: part(all.on_device.segments, piece.segments.clone())?,
                long_rows: part(all.on_device.long_rows, piece.long_rows.clone())?,
                segment_sums: all.on_device.segment_sums,
                rows: rows.len() as u64,
                first_entry: piece.entries.start,
            };
            // SAFETY: the caller's promise.
            unsafe {
                self.queue.upload(matrix.offsets, ends)?;
                self.queue.upload(matrix.columns, &all.matrix.columns()[entries])?;
                self.queue.upload(matrix.indices, codes)?;
                spmv::evaluate_piece(self.queue, &matrix, piece, coefficients, z, values)?;
            }
        }
        // SAFETY: as above.
        unsafe { self.queue.fill(part(values, all.matrix.rows()..values.len())?, 0) }?;
        for slot in [offsets, columns, indices] {
            self.space.release(slot);
        }
        Ok(())
    }

    /// Copies the witness to `z`, by way of `packed` where it has to be unpacked, checks it and makes it
    /// canonical. Returns the public inputs, as they are on the device.
    ///
    /// # Safety
    /// `z` and `packed` are this proof's.
    unsafe fn witness(
        &self,
        source: &mut Source<'_, '_>,
        packed: DeviceSlice<u8>,
        z: DeviceSlice<Canonical>,
    ) -> Result<Vec<Canonical>, DeviceError> {
        let Source { encoding, witness, ref mut upload, shape } = *source;
        let num_inputs = shape.inputs as usize;
        // SAFETY: the caller's promise, in all of the rest.
        unsafe {
            let fault = match encoding {
                WitnessEncoding::Packed => self.unpack(witness, upload, num_inputs, packed, z)?,
                WitnessEncoding::Canonical | WitnessEncoding::Montgomery => {
                    let (found, wanted) = (witness.length() as u64, z.num_bytes() as u64);
                    if found != wanted {
                        return Err(WitnessError::Length { found, wanted }.into());
                    }
                    self.copy(witness, upload, DeviceSlice::from_raw(z.address(), z.num_bytes()))?;
                    self.queue.upload(self.bad, &[u64::MAX])?;
                    field::check(self.queue, z, self.bad)?;
                    self.found_bad()?.map(|index| WitnessError::NotCanonical { index })
                }
            };
            if encoding == WitnessEncoding::Montgomery {
                field::from_montgomery(self.queue, z)?;
            }
            // The lowest index is told first, as by the host's decoder.
            let inputs = limbs(self.queue, part(z, 0..num_inputs)?)?;
            let first_is_lowest = match &fault {
                None => true,
                Some(WitnessError::NotCanonical { index }) => *index > 0,
                Some(_) => false,
            };
            if first_is_lowest && inputs.first() != Some(&Canonical::ONE.limbs()) {
                return Err(WitnessError::FirstNotOne.into());
            }
            if let Some(fault) = fault {
                return Err(fault.into());
            }
            let mut public = Vec::with_capacity(num_inputs);
            for (index, value) in inputs.into_iter().enumerate().skip(1) {
                let index = index as u64;
                public.push(Canonical::new(value).ok_or(WitnessError::NotCanonical { index })?);
            }
            Ok(public)
        }
    }

    /// Copies a packed witness and unpacks it to `z`; gives what is wrong with it.
    ///
    /// # Safety
    /// As for [`Self::witness`].
    unsafe fn unpack(
        &self,
        witness: &dyn WitnessBytes,
        upload: &mut Upload<'_>,
        num_inputs: usize,
        packed: DeviceSlice<u8>,
        z: DeviceSlice<Canonical>,
    ) -> Result<Option<WitnessError>, DeviceError> {
        if witness.length() > packed.len() {
            let (found, wanted) = (witness.length() as u64, packed.len() as u64);
            return Err(WitnessError::Length { found, wanted }.into());
        }
        let encoded = part(packed, 0..witness.length())?;
        // SAFETY: the caller's promise.
        unsafe {
            self.copy(witness, upload, encoded)?;
            Ok(unpack::unpack(self.queue, encoded, num_inputs, z, self.bad)?)
        }
    }

    /// What a check on the device has left as the least index of something bad.
    fn found_bad(&self) -> Result<Option<u64>, GpuError> {
        // SAFETY: the plan's place for one index, which is this proof's.
        let found = unsafe { self.queue.download(self.bad) }?;
        Ok(found.first().copied().filter(|&index| index != u64::MAX))
    }

    /// Copies all of a witness's bytes, which are as many as the target's.
    ///
    /// # Safety
    /// As for [`Self::witness`].
    unsafe fn copy(
        &self,
        witness: &dyn WitnessBytes,
        upload: &mut Upload<'_>,
        target: DeviceSlice<u8>,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe {
            match upload {
                Upload::Direct(source) => Ok(self.queue.upload_from(target, *source)?),
                Upload::Staged(memory) => {
                    let copied = self.copy_through(memory, witness, target);
                    memory.zeroize();
                    copied
                }
            }
        }
    }

    /// # Safety
    /// As for [`Self::witness`].
    unsafe fn copy_through(
        &self,
        memory: &mut [u8],
        witness: &dyn WitnessBytes,
        target: DeviceSlice<u8>,
    ) -> Result<(), DeviceError> {
        let at_once = memory.len() / VALUE_BYTES * VALUE_BYTES;
        if at_once == 0 {
            let (found, wanted) = (memory.len() as u64, VALUE_BYTES as u64);
            return Err(GpuError::Length { what: "memory for a witness on its way", found, wanted }.into());
        }
        for first in (0..target.len()).step_by(at_once) {
            self.cancel.check()?;
            let length = at_once.min(target.len() - first);
            let bytes = &mut memory[..length];
            let copied = witness.copy(first, bytes);
            copied.map_err(|error| WitnessError::Unreadable { reason: error.to_string() })?;
            // SAFETY: the caller's promise.
            unsafe { self.queue.upload(part(target, first..first + length)?, bytes) }?;
        }
        Ok(())
    }

    /// Σ scalar · point over a query; a filtered one picks its scalars.
    ///
    /// # Safety
    /// The plan is the store's, and its memory this proof's; variables are below the scalars' number.
    unsafe fn sum<C: DeviceCurve>(
        &mut self,
        name: &'static str,
        plan: &QueryPlan<C>,
        store: &PointStore<C>,
        scalars: DeviceSlice<Canonical>,
    ) -> Result<C::Projective, DeviceError> {
        let Some(sum) = &plan.sum else { return Ok(C::identity()) };
        let count = store.len();
        let results = self.space.claim::<C::Projective>(sum.results, sum.msm.results() as u64)?;
        let index = plan.variables.map(|slot| self.space.slice::<u32>(slot, count as u64)).transpose()?;
        let num_bytes = sum.msm.num_bytes();
        let mut claimed = vec![sum.results, sum.working];
        let (points, encoded, at_once) = match sum.points {
            Points::Resident(slot) => (self.space.slice(slot, count as u64)?, DeviceSlice::empty(), None),
            Points::Streamed { points, encoded, at_once } => {
                claimed.extend([points].into_iter().chain(encoded));
                let target = self.space.claim::<C::Affine>(points, at_once)?;
                let encoded = encoded
                    .map(|slot| self.space.claim::<u8>(slot, at_once * C::UNCOMPRESSED as u64))
                    .transpose()?;
                (target, encoded.unwrap_or(DeviceSlice::empty()), Some(at_once as usize))
            }
        };
        let working = self.space.claim::<u8>(sum.working, num_bytes)?;
        // SAFETY: the caller's promise; the memory is the plan's.
        let found = unsafe {
            let msm = Msm::new(&sum.msm, self.queue, working)?;
            match at_once {
                None => {
                    msm.run(&Chunk { points, table_stride: count as u32, scalars, index }, results)?;
                }
                Some(at_once) => {
                    for sets in sum.msm.groups() {
                        msm.begin(&sets)?;
                        let mut first = 0;
                        while first < count {
                            self.cancel.check()?;
                            let range = first..count.min(first + at_once);
                            first = range.end;
                            let points = part(points, 0..range.len())?;
                            copy_points(self.queue, name, store, range.clone(), points, encoded, self.bad)?;
                            let (scalars, index) = match index {
                                None => (part(scalars, range)?, None),
                                Some(index) => (scalars, Some(part(index, range)?)),
                            };
                            msm.add(&sets, &Chunk { points, table_stride: 0, scalars, index })?;
                        }
                        msm.finish(&sets, results)?;
                    }
                }
            }
            self.queue.download(results)?
        };
        for slot in claimed {
            self.space.release(slot);
        }
        Ok(sum.msm.combine(&found)?)
    }
}

/// z's first values as plain limbs, whether or not they are below r.
///
/// # Safety
/// As for [`Queue::download`].
unsafe fn limbs<Q: Queue>(queue: &Q, values: DeviceSlice<Canonical>) -> Result<Vec<[u64; 4]>, GpuError> {
    // SAFETY: the caller's promise; a value's memory is four limbs.
    unsafe { queue.download(DeviceSlice::<[u64; 4]>::from_raw(values.address(), values.len())) }
}
