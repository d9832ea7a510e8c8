//! Where everything that a proof needs lies in one arena, decided before anything is allocated.
//!
//! Resident, from the arena's start: the roots of unity, the matrices, the indices of filtered queries and
//! as many of the key's points as fit. Above them, proof after proof: the witness; a, b and c, of which the
//! quotient outlives the others; then the working memory of one sum after the other, which takes the best
//! window width for what is free. Points that are not resident come in pieces, proof after proof.
//!
//! Where that does not fit even without any point, the plan is a lean one: the matrices come in pieces too, and
//! the witness leaves after the evaluation, for c, and comes again for the sums.
use super::shape::{MatrixShape, ProofShape, QueryShape};
use crate::{
    algebra::{Canonical, Fr, G1, G2},
    gpu::{
        GpuError,
        msm_plan::{MsmDevice, MsmPlan, MsmSize},
        ntt::RootTable,
        plan::{Planner, Slot},
        points::DeviceCurve,
        spmv::{LongRow, Segment, piece_rows},
    },
    groth16::HBasis,
    r1cs::packed,
};

/// Encoded points that are copied and decoded at a time while a key is loaded.
pub(super) const LOAD_POINTS: u64 = 1 << 19;
/// Points that come at a time where they are not resident, at most.
const STREAM_POINTS: u64 = 1 << 22;
/// A sum leaves one value for each bit of a scalar and its sign, the last window's bits rounded up.
const MAX_RESULTS: u64 = 255 + 24;

/// Where a matrix lies; in a lean plan, one piece of it after the other, but all segments and long rows.
#[derive(Clone, Copy)]
pub(super) struct MatrixSlots {
    pub offsets: Slot,
    pub columns: Slot,
    pub indices: Slot,
    pub segments: Slot,
    pub long_rows: Slot,
}

/// Where a query's points are while they are added.
#[derive(Clone, Copy)]
pub(super) enum Points {
    Resident(Slot),
    /// At most `at_once` at a time, by way of `encoded` where they have to be decoded.
    Streamed {
        points: Slot,
        encoded: Option<Slot>,
        at_once: u64,
    },
}

/// The sum over a query.
pub(super) struct QueryPlan<C> {
    /// Indices of a filtered query's variables.
    pub variables: Option<Slot>,
    /// None: the query is empty.
    pub sum: Option<SumPlan<C>>,
}

/// Where a sum is computed.
pub(super) struct SumPlan<C> {
    pub points: Points,
    pub msm: MsmPlan<C>,
    pub working: Slot,
    pub results: Slot,
}

/// What lasts, what comes anew for each proof, and what is scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// On the device from loading on.
    Resident,
    /// Copied to the device in pieces, for each proof.
    Streamed,
    /// On the device for a part of a proof.
    Transient,
}

/// A part of the plan, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it is.
    pub name: &'static str,
    /// Its size, all of it.
    pub bytes: u64,
    /// How long it is on the device.
    pub residence: Residence,
}

/// The memory of all proofs of one circuit under one key on one device.
pub struct ProofPlan {
    pub(super) shape: ProofShape,
    pub(super) roots: Slot,
    pub(super) coefficients: Slot,
    pub(super) matrices: [MatrixSlots; 2],
    /// During the evaluation: the sums of A's and B's segments.
    pub(super) segment_sums: [Slot; 2],
    /// One index, of a bad value or point.
    pub(super) bad: Slot,
    /// While the key is loaded.
    pub(super) staging: Slot,
    pub(super) z: Slot,
    /// A packed witness, until it is unpacked.
    pub(super) packed: Slot,
    /// a, b and c; in a lean plan c takes the place of z.
    pub(super) evaluations: [Slot; 3],
    /// In a lean plan: z and the packed witness for the second time.
    pub(super) again: Option<[Slot; 2]>,
    pub(super) h: QueryPlan<G1>,
    pub(super) l: QueryPlan<G1>,
    pub(super) a: QueryPlan<G1>,
    pub(super) b_g1: QueryPlan<G1>,
    pub(super) b_g2: QueryPlan<G2>,
    resident: u64,
    peak: u64,
    pieces: Vec<Piece>,
}

/// A query, as far as the choice of the resident ones goes.
#[derive(Clone, Copy)]
struct Candidate {
    name: &'static str,
    shape: QueryShape,
    point_bytes: u64,
}

impl Candidate {
    fn bytes(&self) -> u64 {
        self.shape.points.saturating_mul(self.point_bytes)
    }
}

const QUERIES: usize = 5;

fn candidates(shape: &ProofShape) -> [Candidate; QUERIES] {
    let g1 = size_of::<<G1 as crate::algebra::Curve>::Affine>() as u64;
    let g2 = size_of::<<G2 as crate::algebra::Curve>::Affine>() as u64;
    [
        Candidate { name: "points of h", shape: shape.h, point_bytes: g1 },
        Candidate { name: "points of l", shape: shape.l, point_bytes: g1 },
        Candidate { name: "points of a", shape: shape.a, point_bytes: g1 },
        Candidate { name: "points of b in G1", shape: shape.b_g1, point_bytes: g1 },
        Candidate { name: "points of b in G2", shape: shape.b_g2, point_bytes: g2 },
    ]
}

impl ProofPlan {
    /// The plan that keeps most of the key on the device, in an arena of `device.memory` bytes at most.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] with the least that is needed where nothing of the key can stay and the
    /// rest does not fit.
    pub fn new(shape: &ProofShape, device: MsmDevice) -> Result<Self, GpuError> {
        let candidates = candidates(shape);
        let resident_bytes = |set: u32| -> u64 {
            let inside = candidates.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
            inside.fold(0, |sum, (_, candidate)| sum.saturating_add(candidate.bytes()))
        };
        let mut sets: Vec<u32> = (0..1 << QUERIES).collect();
        sets.sort_by_key(|&set| std::cmp::Reverse(resident_bytes(set)));
        // The last one is the empty set or, where queries are empty, as good as it.
        let mut refusal = None;
        for lean in [false, true] {
            for &set in &sets {
                match Self::with(shape, device, &candidates, set, lean) {
                    Ok(plan) => return Ok(plan),
                    Err(error @ GpuError::OutOfMemory { .. }) => refusal = Some(error),
                    Err(error) => return Err(error),
                }
            }
        }
        let (found, wanted) = (device.memory, u64::MAX);
        Err(refusal.unwrap_or(GpuError::OutOfMemory { what: "a proof".into(), found, wanted }))
    }

    /// The plan with the queries of `set` resident, the matrices too unless it is lean.
    fn with(
        shape: &ProofShape,
        device: MsmDevice,
        candidates: &[Candidate; QUERIES],
        set: u32,
        lean: bool,
    ) -> Result<Self, GpuError> {
        let mut layout = Layout { plan: Planner::new(), end: 0, device, pieces: Vec::new() };
        let roots = layout.resident::<Fr>("roots of unity", RootTable::LEN as u64)?;
        let coefficients = layout.resident::<Fr>("coefficients", shape.coefficients)?;
        let [a, b] = &shape.matrices;
        let entries = match lean {
            true => None,
            false => Some([layout.matrix(a, Residence::Resident)?, layout.matrix(b, Residence::Resident)?]),
        };
        let long_rows = [layout.long_rows(a)?, layout.long_rows(b)?];
        let bad = layout.resident::<u64>("index of a bad value", 1)?;
        let mut variables = [None; QUERIES];
        for (slot, candidate) in variables.iter_mut().zip(candidates) {
            if candidate.shape.filtered {
                *slot = Some(layout.resident::<u32>("variables of a query", candidate.shape.points)?);
            }
        }
        let mut resident = [None; QUERIES];
        let mut staged = 0;
        for (i, candidate) in candidates.iter().enumerate() {
            let bytes = candidate.bytes();
            if set >> i & 1 == 0 {
                layout.pieces.push(Piece { name: candidate.name, bytes, residence: Residence::Streamed });
                continue;
            }
            resident[i] = Some(layout.resident::<u8>(candidate.name, bytes)?);
            if candidate.shape.encoded {
                staged = staged.max(candidate.shape.points.min(LOAD_POINTS) * candidate.point_bytes);
            }
        }
        let resident_bytes = layout.end;
        let staging = layout.transient::<u8>("points while the key is loaded", staged)?;
        layout.release(staging, resident_bytes);

        let vectors = match entries {
            Some(entries) => layout.vectors(shape, entries)?,
            None => layout.lean_vectors(shape)?,
        };
        let h = layout.query::<G1>(&candidates[0], variables[0], resident[0])?;
        layout.release(vectors.quotient, vectors.below_quotient);
        let again = match lean {
            true => Some(layout.witness(shape)?),
            false => None,
        };
        let l = layout.query::<G1>(&candidates[1], variables[1], resident[1])?;
        let a = layout.query::<G1>(&candidates[2], variables[2], resident[2])?;
        let b_g1 = layout.query::<G1>(&candidates[3], variables[3], resident[3])?;
        let b_g2 = layout.query::<G2>(&candidates[4], variables[4], resident[4])?;
        Ok(Self {
            shape: shape.clone(),
            roots,
            coefficients,
            matrices: [0, 1].map(|i| {
                let ([offsets, columns, indices], [segments, long_rows]) = (vectors.entries[i], long_rows[i]);
                MatrixSlots { offsets, columns, indices, segments, long_rows }
            }),
            segment_sums: vectors.segment_sums,
            bad,
            staging,
            z: vectors.witness[0],
            packed: vectors.witness[1],
            evaluations: vectors.evaluations,
            again,
            h,
            l,
            a,
            b_g1,
            b_g2,
            resident: resident_bytes,
            peak: layout.plan.peak(),
            pieces: layout.pieces,
        })
    }

    /// What it was made for.
    pub fn shape(&self) -> &ProofShape {
        &self.shape
    }

    /// Bytes of the arena that proofs take.
    pub fn num_bytes(&self) -> u64 {
        self.peak
    }

    /// Bytes that stay from proof to proof, at the arena's start.
    pub fn resident_bytes(&self) -> u64 {
        self.resident
    }

    /// Bytes that are copied to the device for each proof beside the witness.
    pub fn streamed_bytes(&self) -> u64 {
        let streamed = self.pieces.iter().filter(|piece| piece.residence == Residence::Streamed);
        streamed.map(|piece| piece.bytes).sum()
    }

    /// All parts, in the order of their first use.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

/// What the evaluation and the quotient work in.
struct Vectors {
    /// z, and the packed witness.
    witness: [Slot; 2],
    /// a, b and c.
    evaluations: [Slot; 3],
    segment_sums: [Slot; 2],
    /// Ends of rows, columns and coefficients of each matrix, or of a piece of it.
    entries: [[Slot; 3]; 2],
    quotient: Slot,
    /// Where the claims below the quotient end.
    below_quotient: u64,
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
struct Layout {
    plan: Planner,
    /// All claims end here or before: from here on the arena is free.
    end: u64,
    device: MsmDevice,
    pieces: Vec<Piece>,
}

impl Layout {
    fn claim<T>(&mut self, name: &'static str, len: u64, residence: Residence) -> Result<Slot, GpuError> {
        let slot = self.plan.claim::<T>(name, len)?;
        self.end = self.end.max(slot.offset() + slot.num_bytes());
        self.pieces.push(Piece { name, bytes: slot.num_bytes(), residence });
        Ok(slot)
    }

    fn resident<T>(&mut self, name: &'static str, len: u64) -> Result<Slot, GpuError> {
        self.claim::<T>(name, len, Residence::Resident)
    }

    fn transient<T>(&mut self, name: &'static str, len: u64) -> Result<Slot, GpuError> {
        self.claim::<T>(name, len, Residence::Transient)
    }

    /// Ends a claim; `end` is where the remaining ones end.
    fn release(&mut self, slot: Slot, end: u64) {
        self.plan.release(slot);
        self.end = end;
    }

    /// Ends of rows, columns and coefficients of a matrix or of a piece of one.
    fn matrix(&mut self, shape: &MatrixShape, residence: Residence) -> Result<[Slot; 3], GpuError> {
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
    fn long_rows(&mut self, shape: &MatrixShape) -> Result<[Slot; 2], GpuError> {
        Ok([
            self.resident::<Segment>("segments of long rows", shape.segments)?,
            self.resident::<LongRow>("long rows", shape.long_rows)?,
        ])
    }

    /// The witness, and beside it, until it is unpacked, the packed one.
    fn witness(&mut self, shape: &ProofShape) -> Result<[Slot; 2], GpuError> {
        let z = self.transient::<Canonical>("witness", shape.variables)?;
        let after = self.end;
        let packed = self.transient::<u8>("packed witness", packed_bytes(shape)?)?;
        self.check("the witness beside what is resident")?;
        self.release(packed, after);
        Ok([z, packed])
    }

    fn segment_sums(&mut self, shape: &ProofShape) -> Result<[Slot; 2], GpuError> {
        let mut sums =
            |matrix: &MatrixShape| self.transient::<Canonical>("sums of long rows", matrix.segments);
        let [a, b] = &shape.matrices;
        Ok([sums(a)?, sums(b)?])
    }

    /// Evaluation and quotient; the witness and the quotient stay.
    fn vectors(&mut self, shape: &ProofShape, entries: [[Slot; 3]; 2]) -> Result<Vectors, GpuError> {
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
    fn lean_vectors(&mut self, shape: &ProofShape) -> Result<Vectors, GpuError> {
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
    fn check(&self, what: &str) -> Result<(), GpuError> {
        let (found, wanted) = (self.device.memory, self.plan.peak());
        if wanted > found {
            return Err(GpuError::OutOfMemory { what: what.into(), found, wanted });
        }
        Ok(())
    }

    /// One sum, in all the memory that is free, which is free again afterwards.
    fn query<C: DeviceCurve>(
        &mut self,
        candidate: &Candidate,
        variables: Option<Slot>,
        resident: Option<Slot>,
    ) -> Result<QueryPlan<C>, GpuError> {
        let shape = candidate.shape;
        if shape.points == 0 {
            return Ok(QueryPlan { variables, sum: None });
        }
        let before = self.end;
        let results = self.transient::<C::Projective>("results of a sum", MAX_RESULTS)?;
        let (points, at_once) = match resident {
            Some(slot) => (Points::Resident(slot), shape.points),
            None => self.stream::<C>(shape)?,
        };
        let free = self.device.memory.saturating_sub(self.end);
        let size = MsmSize { points: shape.points, at_once, multiples: None };
        let msm = match MsmPlan::<C>::new(size, MsmDevice { memory: free, ..self.device }) {
            Ok(plan) => plan,
            Err(GpuError::OutOfMemory { what, wanted, .. }) => {
                let (found, wanted) = (self.device.memory, wanted.saturating_add(self.end));
                return Err(GpuError::OutOfMemory { what, found, wanted });
            }
            Err(error) => return Err(error),
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

    /// Memory for points that are not resident: a quarter of what is free, at most.
    fn stream<C: DeviceCurve>(&mut self, shape: QueryShape) -> Result<(Points, u64), GpuError> {
        let free = self.device.memory.saturating_sub(self.end);
        let copies = if shape.encoded { 2 } else { 1 };
        let fitting = free / 4 / (copies * size_of::<C::Affine>() as u64);
        let at_once = shape.points.min(STREAM_POINTS).min(fitting.max(1));
        let points = self.transient::<C::Affine>("points on their way", at_once)?;
        let encoded = match shape.encoded {
            true => Some(self.transient::<C::Affine>("encoded points on their way", at_once)?),
            false => None,
        };
        Ok((Points::Streamed { points, encoded, at_once }, at_once))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn query(points: u64, filtered: bool) -> QueryShape {
        QueryShape { points, encoded: true, filtered }
    }

    fn matrix(rows: u64, entries: u64) -> MatrixShape {
        let piece_entries = entries.div_ceil(50);
        MatrixShape {
            rows,
            entries,
            offset_bytes: 4,
            index_bytes: 2,
            long_rows: 1000,
            segments: 5000,
            piece_entries,
        }
    }

    /// Filecoin's PoRep over 32 GiB sectors: 130,278,869 constraints.
    fn porep() -> ProofShape {
        ProofShape {
            inputs: 328,
            variables: 328 + 130_169_893,
            log_domain: 27,
            h_basis: HBasis::Monomial,
            coefficients: 2466,
            matrices: [matrix(130_278_869, 309_000_000), matrix(130_278_541, 130_000_000)],
            h: query((1 << 27) - 1, false),
            l: query(130_169_893, false),
            a: query(129_753_292 + 328, true),
            b_g1: query(33_112_282, true),
            b_g2: query(33_112_282, true),
        }
    }

    fn plan(shape: &ProofShape, memory: u64) -> Result<ProofPlan, GpuError> {
        ProofPlan::new(shape, MsmDevice { memory, multiprocessors: 132 })
    }

    #[test]
    fn a_large_device_keeps_the_whole_key() {
        let plan = plan(&porep(), 139 * GIB).unwrap();
        assert_eq!(plan.streamed_bytes(), 0);
        // The key's 44 GiB, the matrices' 3.5 GiB, the indices of a and b.
        assert!((47 * GIB..50 * GIB).contains(&plan.resident_bytes()), "{}", plan.resident_bytes());
        assert!(plan.num_bytes() <= 139 * GIB);
        let resident: u64 =
            plan.pieces().iter().filter(|p| p.residence == Residence::Resident).map(|p| p.bytes).sum();
        assert_eq!(resident, plan.resident_bytes());
    }

    #[test]
    fn smaller_devices_stream_more_of_it_until_none_fits() {
        let mut streamed = 0;
        for memory in [80, 48, 32, 24, 16, 14].map(|n| n * GIB) {
            let plan = plan(&porep(), memory).unwrap();
            assert!(plan.num_bytes() <= memory);
            assert!(plan.streamed_bytes() >= streamed, "{memory}");
            streamed = plan.streamed_bytes();
        }
        // The key, the matrices and the witness once more.
        assert!(streamed > 50 * GIB);
        // Three vectors of 4 GiB are the least.
        match plan(&porep(), 12 * GIB).err() {
            Some(GpuError::OutOfMemory { found, wanted, .. }) => {
                assert!(found == 12 * GIB && (12 * GIB..14 * GIB).contains(&wanted), "{wanted}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_largest_domain_is_planned_without_overflow() {
        let mut shape = porep();
        shape.log_domain = 28;
        shape.h.points = (1 << 28) - 1;
        shape.matrices[0] = MatrixShape { entries: 5 << 32, offset_bytes: 8, ..shape.matrices[0] };
        let large = plan(&shape, 1 << 50).unwrap();
        assert!(large.resident_bytes() > 6 * (5 << 32));
        shape.matrices[0].entries = u64::MAX / 3;
        assert!(matches!(plan(&shape, 1 << 50).err(), Some(GpuError::TooLarge { .. })));
    }

    #[test]
    fn empty_queries_are_no_sums() {
        let empty = query(0, true);
        let shape = ProofShape {
            inputs: 1,
            variables: 1,
            log_domain: 0,
            coefficients: 2,
            matrices: [matrix(1, 1), MatrixShape { offset_bytes: 4, ..matrix(0, 0) }],
            h: query(0, false),
            l: query(0, false),
            a: query(1, true),
            b_g1: empty,
            b_g2: empty,
            ..porep()
        };
        let plan = plan(&shape, GIB).unwrap();
        assert!(plan.h.sum.is_none() && plan.b_g2.sum.is_none() && plan.a.sum.is_some());
    }
}
