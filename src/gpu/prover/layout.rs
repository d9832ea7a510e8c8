//! The dry run of a proof's memory: claims its buffers in the order of their use, and ends the claims as the proof
//! will.
use super::{
    plan::{Candidate, MULTIPLES, Piece, Points, QueryPlan, Residence, SumPlan},
    shape::{MatrixShape, ProofShape, QueryShape},
};
use crate::{
    algebra::Canonical,
    gpu::{
        GpuError,
        msm_plan::{MsmDevice, MsmPlan, MsmSize},
        msm_sort::Windows,
        plan::{ALIGNMENT, Planner, Slot},
        points::DeviceCurve,
        spmv::{LongRow, Segment, piece_rows},
    },
    groth16::HBasis,
    r1cs::packed,
};

/// Points that come at a time where they are not resident, at most.
const STREAM_POINTS: u64 = 1 << 22;
/// A sum leaves one value for each bit of a scalar and its sign, the last window's bits rounded up.
const MAX_RESULTS: u64 = 255 + 24;

/// What the evaluation and the quotient work in.
pub(super) struct Vectors {
    /// z, and the packed witness.
    pub witness: [Slot; 2],
    /// a, b and c.
    pub evaluations: [Slot; 3],
    pub segment_sums: [Slot; 2],
    /// Ends of rows, columns and coefficients of each matrix, or of a piece of it.
    pub entries: [[Slot; 3]; 2],
    pub quotient: Slot,
    /// Where the claims below the quotient end.
    pub below_quotient: u64,
}

/// Bytes of a matrix without its long rows.
fn matrix_bytes(shape: &MatrixShape) -> u64 {
    let entries = shape.entries.saturating_mul(4 + shape.index_bytes);
    shape.rows.saturating_mul(shape.offset_bytes).saturating_add(entries)
}

/// The most bytes that a packed witness takes.
fn packed_bytes(shape: &ProofShape) -> Result<u64, GpuError> {
    let count = |n: u64| usize::try_from(n).ok();
    let most = count(shape.inputs)
        .zip(count(shape.variables - shape.inputs))
        .and_then(|(inputs, aux)| packed::max_bytes(inputs, aux));
    let (found, wanted) = (shape.variables, u64::MAX / 33);
    most.map(|bytes| bytes as u64).ok_or(GpuError::TooLarge { what: "variables", found, wanted })
}

/// The dry run.
pub(super) struct Layout {
    pub plan: Planner,
    /// All claims end here or before: from here on the arena is free.
    pub end: u64,
    pub device: MsmDevice,
    pub pieces: Vec<Piece>,
}

impl Layout {
    pub fn claim<T>(&mut self, name: &'static str, len: u64, residence: Residence) -> Result<Slot, GpuError> {
        let slot = self.plan.claim::<T>(name, len)?;
        self.end = self.end.max(slot.offset() + slot.num_bytes());
        self.pieces.push(Piece { name, bytes: slot.num_bytes(), residence });
        Ok(slot)
    }

    pub fn resident<T>(&mut self, name: &'static str, len: u64) -> Result<Slot, GpuError> {
        self.claim::<T>(name, len, Residence::Resident)
    }

    pub fn transient<T>(&mut self, name: &'static str, len: u64) -> Result<Slot, GpuError> {
        self.claim::<T>(name, len, Residence::Transient)
    }

    /// Ends a claim; `end` is where the remaining ones end.
    pub fn release(&mut self, slot: Slot, end: u64) {
        self.plan.release(slot);
        self.end = end;
    }

    /// Ends of rows, columns and coefficients of a matrix or of a piece of one.
    pub fn matrix(&mut self, shape: &MatrixShape, residence: Residence) -> Result<[Slot; 3], GpuError> {
        let product = |a: u64, b: u64| {
            let found = shape.entries;
            a.checked_mul(b).ok_or(GpuError::TooLarge {
                what: "entries of a matrix",
                found,
                wanted: i64::MAX as u64,
            })
        };
        let (ends, indices) =
            (product(shape.rows + 1, shape.offset_bytes)?, product(shape.entries, shape.index_bytes)?);
        Ok([
            self.claim::<u8>("ends of rows", ends, residence)?,
            self.claim::<u32>("columns of entries", shape.entries, residence)?,
            self.claim::<u8>("coefficients of entries", indices, residence)?,
        ])
    }

    /// Segments and long rows of a matrix.
    pub fn long_rows(&mut self, shape: &MatrixShape) -> Result<[Slot; 2], GpuError> {
        Ok([
            self.resident::<Segment>("segments of long rows", shape.segments)?,
            self.resident::<LongRow>("long rows", shape.long_rows)?,
        ])
    }

    /// The witness, and beside it, until it is unpacked, the packed one.
    pub fn witness(&mut self, shape: &ProofShape) -> Result<[Slot; 2], GpuError> {
        let z = self.transient::<Canonical>("witness", shape.variables)?;
        let after = self.end;
        let packed = self.transient::<u8>("packed witness", packed_bytes(shape)?)?;
        self.check("the witness beside what is resident")?;
        self.release(packed, after);
        Ok([z, packed])
    }

    pub fn segment_sums(&mut self, shape: &ProofShape) -> Result<[Slot; 2], GpuError> {
        let mut sums =
            |matrix: &MatrixShape| self.transient::<Canonical>("sums of long rows", matrix.segments);
        let [a, b] = &shape.matrices;
        Ok([sums(a)?, sums(b)?])
    }

    /// Evaluation and quotient; the witness and the quotient stay.
    pub fn vectors(&mut self, shape: &ProofShape, entries: [[Slot; 3]; 2]) -> Result<Vectors, GpuError> {
        let witness = self.witness(shape)?;
        let below_quotient = self.end;
        // The quotient comes first: it stays when the other two go. It lies in c, or in b.
        let domain = shape.domain();
        let quotient = self.transient::<Canonical>("quotient", domain)?;
        let after_quotient = self.end;
        let second = self.transient::<Canonical>("values of the constraints", domain)?;
        let third = self.transient::<Canonical>("values of the constraints", domain)?;
        let evaluations = match shape.h_basis {
            HBasis::Monomial => [second, quotient, third],
            HBasis::CosetLagrange => [second, third, quotient],
        };
        let segment_sums = self.segment_sums(shape)?;
        self.check("the constraints' values beside what is resident")?;
        for slot in segment_sums.into_iter().chain([second, third]) {
            self.release(slot, after_quotient);
        }
        Ok(Vectors { witness, evaluations, segment_sums, entries, quotient, below_quotient })
    }

    /// The same with the matrices in pieces, and with c in the place of the witness; the quotient stays.
    pub fn lean_vectors(&mut self, shape: &ProofShape) -> Result<Vectors, GpuError> {
        let below_quotient = self.end;
        let domain = shape.domain();
        let values = "values of the constraints";
        // The quotient lies lowest: b, or the place of the witness. That one must have room for c, unless nothing
        // lies above it.
        let (a, b, z) = match shape.h_basis {
            HBasis::Monomial => {
                let b = self.transient::<Canonical>("quotient", domain)?;
                let a = self.transient::<Canonical>(values, domain)?;
                (a, b, self.transient::<Canonical>("witness", shape.variables)?)
            }
            HBasis::CosetLagrange => {
                let z = self.transient::<Canonical>("witness", shape.variables.max(domain))?;
                let a = self.transient::<Canonical>(values, domain)?;
                (a, self.transient::<Canonical>(values, domain)?, z)
            }
        };
        let after_all = self.end;
        // A packed witness may lie where a and b will be.
        self.plan.release(a);
        self.plan.release(b);
        let packed = self.transient::<u8>("packed witness", packed_bytes(shape)?)?;
        self.release(packed, after_all);
        self.plan.claim_again(a)?;
        self.plan.claim_again(b)?;
        let segment_sums = self.segment_sums(shape)?;
        let mut largest = shape.matrices[0];
        for matrix in &shape.matrices {
            self.pieces.push(Piece {
                name: "matrices",
                bytes: matrix_bytes(matrix),
                residence: Residence::Streamed,
            });
            largest.offset_bytes = largest.offset_bytes.max(matrix.offset_bytes);
            largest.index_bytes = largest.index_bytes.max(matrix.index_bytes);
            largest.piece_entries = largest.piece_entries.max(matrix.piece_entries);
            largest.rows = largest.rows.max(matrix.rows);
        }
        (largest.rows, largest.entries) = (piece_rows(largest.rows), largest.piece_entries);
        let piece = self.matrix(&largest, Residence::Transient)?;
        for slot in segment_sums.into_iter().chain(piece).chain([z]) {
            self.release(slot, after_all);
        }
        let c = self.transient::<Canonical>(values, domain)?;
        self.check("the constraints' values beside what is resident")?;
        let quotient = if shape.h_basis == HBasis::Monomial { b } else { c };
        let after_quotient = quotient.offset() + quotient.num_bytes();
        for slot in [a, b, c].into_iter().filter(|slot| *slot != quotient) {
            self.release(slot, after_quotient);
        }
        let bytes = z.num_bytes();
        self.pieces.push(Piece { name: "witness, once more", bytes, residence: Residence::Streamed });
        Ok(Vectors {
            witness: [z, packed],
            evaluations: [a, b, c],
            segment_sums,
            entries: [piece; 2],
            quotient,
            below_quotient,
        })
    }

    /// Refuses a plan that has left the arena.
    pub fn check(&self, what: &str) -> Result<(), GpuError> {
        let (found, wanted) = (self.device.memory, self.plan.peak());
        if wanted > found {
            return Err(GpuError::OutOfMemory { what: what.into(), found, wanted });
        }
        Ok(())
    }

    /// A query's points, and behind them their multiples.
    pub fn points(&mut self, candidate: &Candidate, windows: Option<Windows>) -> Result<Slot, GpuError> {
        let (points, tables) = (candidate.bytes(), windows.map_or(1, |windows| windows.tables));
        let slot = self.plan.claim::<u8>(candidate.name, points.saturating_mul(tables.into()))?;
        self.end = self.end.max(slot.offset() + slot.num_bytes());
        let residence = Residence::Resident;
        if tables == 1 {
            self.pieces.push(Piece { name: candidate.name, bytes: slot.num_bytes(), residence });
        } else {
            let bytes = slot.num_bytes() - points;
            self.pieces.push(Piece { name: candidate.name, bytes: points, residence });
            self.pieces.push(Piece { name: MULTIPLES, bytes, residence });
        }
        Ok(slot)
    }

    /// One sum, in all the memory that is free, which is free again afterwards.
    pub fn query<C: DeviceCurve>(
        &mut self,
        candidate: &Candidate,
        variables: Option<Slot>,
        resident: Option<Slot>,
        multiples: Option<Windows>,
    ) -> Result<QueryPlan<C>, GpuError> {
        let shape = candidate.shape;
        if shape.points == 0 {
            return Ok(QueryPlan { variables, sum: None });
        }
        let before = self.end;
        let results = self.transient::<C::Projective>("results of a sum", MAX_RESULTS)?;
        let (points, msm) = match resident {
            Some(slot) => (Points::Resident(slot), self.sum::<C>(shape.points, shape.points, 0, multiples)?),
            None => {
                let (at_once, msm) = self.streamed_sum::<C>(shape)?;
                let points = self.transient::<C::Affine>("points on their way", at_once)?;
                let encoded = match shape.encoded {
                    true => Some(self.transient::<C::Affine>("encoded points on their way", at_once)?),
                    false => None,
                };
                (Points::Streamed { points, encoded, at_once }, msm)
            }
        };
        let working = self.transient::<u8>("working memory of a sum", msm.num_bytes())?;
        self.check(candidate.name)?;
        let streamed = match points {
            Points::Resident(_) => [None, None],
            Points::Streamed { points, encoded, .. } => [Some(points), encoded],
        };
        for slot in [Some(results), Some(working)].into_iter().chain(streamed).flatten() {
            self.release(slot, before);
        }
        Ok(QueryPlan { variables, sum: Some(SumPlan { points, msm, working, results }) })
    }

    /// The plan of a sum in what is free beside `beside` bytes.
    fn sum<C: DeviceCurve>(
        &self,
        points: u64,
        at_once: u64,
        beside: u64,
        multiples: Option<Windows>,
    ) -> Result<MsmPlan<C>, GpuError> {
        let end = self.end.saturating_add(beside);
        let memory = self.device.memory.saturating_sub(end);
        let size = MsmSize { points, at_once, multiples };
        MsmPlan::new(size, MsmDevice { memory, ..self.device }).map_err(|error| match error {
            GpuError::OutOfMemory { what, wanted, .. } => {
                let (found, wanted) = (self.device.memory, wanted.saturating_add(end));
                GpuError::OutOfMemory { what, found, wanted }
            }
            error => error,
        })
    }

    /// The sum of points that are not resident, and how many come at a time: those that a quarter of what is free
    /// holds or, where that leaves no memory for the sum, all. Few points take less when they come together: no chunk's
    /// sums have to be merged with another's.
    fn streamed_sum<C: DeviceCurve>(&self, shape: QueryShape) -> Result<(u64, MsmPlan<C>), GpuError> {
        let copies = if shape.encoded { 2 } else { 1 };
        let bytes = |points: u64| {
            copies * points.saturating_mul(size_of::<C::Affine>() as u64).next_multiple_of(ALIGNMENT)
        };
        let most = shape.points.min(STREAM_POINTS);
        let free = self.device.memory.saturating_sub(self.end);
        let quarter = free / 4 / (copies * size_of::<C::Affine>() as u64);
        let usual = most.min(quarter.max(1));
        let try_with =
            |at_once| self.sum(shape.points, at_once, bytes(at_once), None).map(|msm| (at_once, msm));
        match try_with(usual) {
            Err(GpuError::OutOfMemory { what, found, wanted }) => match try_with(most) {
                Err(GpuError::OutOfMemory { wanted: other, .. }) => {
                    Err(GpuError::OutOfMemory { what, found, wanted: wanted.min(other) })
                }
                other => other,
            },
            other => other,
        }
    }
}
