//! Where everything that a proof needs lies in one arena, decided before anything is allocated.
//!
//! Resident, from the arena's start: the roots of unity, the matrices, the indices of filtered queries and
//! as many of the key's points as fit, with multiples of them where there is room for that too. Above them, proof after proof: the witness; a, b and c, of which the
//! quotient outlives the others; then the working memory of one sum after the other, which takes the best
//! window width for what is free. Points that are not resident come in pieces, proof after proof.
//!
//! Where that does not fit even without any point, the plan is a lean one: the matrices come in pieces too, and
//! the witness leaves after the evaluation, for c, and comes again for the sums.
use super::{
    layout::Layout,
    shape::{ProofShape, QueryShape},
    tables::{LEAST_POINTS, Tables},
};
use crate::{
    algebra::{Fr, G1, G2},
    gpu::{
        GpuError,
        msm_plan::{MsmDevice, MsmPlan},
        ntt::RootTable,
        plan::{Planner, Slot},
        points::multiples_scratch_bytes,
    },
};

/// Encoded points that are copied and decoded at a time while a key is loaded.
pub(super) const LOAD_POINTS: u64 = 1 << 19;

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
    /// With their multiples, one table after the other.
    Resident(Slot),
    /// At most `at_once` at a time, by way of `encoded` where they have to be decoded.
    Streamed { points: Slot, encoded: Option<Slot>, at_once: u64 },
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

/// The name of a plan's [`Piece`] that is multiples of a query's points.
pub const MULTIPLES: &str = "multiples of the points";

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
    /// While multiples are made.
    pub(super) scratch: Slot,
    pub(super) tables: Tables,
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
pub(super) struct Candidate {
    pub name: &'static str,
    pub shape: QueryShape,
    point_bytes: u64,
}

impl Candidate {
    pub fn bytes(&self) -> u64 {
        self.shape.points.saturating_mul(self.point_bytes)
    }
}

/// A key's vectors of points that are summed.
pub(super) const QUERIES: usize = 5;

/// What a plan is like beside the choice of resident queries.
#[derive(Clone, Copy)]
struct Form {
    /// The matrices come in pieces.
    lean: bool,
    tables: Tables,
}

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
                match Self::with(shape, device, &candidates, set, Form { lean, tables: Tables::NONE }) {
                    Ok(plan) => return Ok(plan),
                    Err(error @ GpuError::OutOfMemory { .. }) => refusal = Some(error),
                    Err(error) => return Err(error),
                }
            }
        }
        let (found, wanted) = (device.memory, u64::MAX);
        Err(refusal.unwrap_or(GpuError::OutOfMemory { what: "a proof".into(), found, wanted }))
    }

    /// The plan that keeps the whole key on the device, and these multiples.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] where it does not fit.
    pub fn with_tables(shape: &ProofShape, device: MsmDevice, tables: Tables) -> Result<Self, GpuError> {
        let all = (1 << QUERIES) - 1;
        Self::with(shape, device, &candidates(shape), all, Form { lean: false, tables })
    }

    /// [`Self::new`], and where that leaves memory, with multiples.
    ///
    /// # Errors
    /// As there.
    pub fn fastest(shape: &ProofShape, device: MsmDevice) -> Result<Self, GpuError> {
        let plain = Self::new(shape, device)?;
        let tables = Tables::choose(&plain, device, LEAST_POINTS)?;
        if tables.is_none() { Ok(plain) } else { Self::with_tables(shape, device, tables) }
    }

    /// The plan with the queries of `set` resident.
    fn with(
        shape: &ProofShape,
        device: MsmDevice,
        candidates: &[Candidate; QUERIES],
        set: u32,
        Form { lean, tables }: Form,
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
            resident[i] = Some(layout.points(candidate, tables.0[i])?);
            if candidate.shape.encoded {
                staged = staged.max(candidate.shape.points.min(LOAD_POINTS) * candidate.point_bytes);
            }
        }
        let resident_bytes = layout.end;
        let staging = layout.transient::<u8>("points while the key is loaded", staged)?;
        let scratch_bytes =
            if tables.is_none() { 0 } else { multiples_scratch_bytes(device.multiprocessors) };
        let scratch = layout.transient::<u8>("scratch memory of multiples", scratch_bytes)?;
        layout.check("multiples of the key's points")?;
        layout.release(scratch, resident_bytes);
        layout.release(staging, resident_bytes);

        let vectors = match entries {
            Some(entries) => layout.vectors(shape, entries)?,
            None => layout.lean_vectors(shape)?,
        };
        let h = layout.query::<G1>(&candidates[0], variables[0], resident[0], tables.0[0])?;
        layout.release(vectors.quotient, vectors.below_quotient);
        let again = match lean {
            true => Some(layout.witness(shape)?),
            false => None,
        };
        let l = layout.query::<G1>(&candidates[1], variables[1], resident[1], tables.0[1])?;
        let a = layout.query::<G1>(&candidates[2], variables[2], resident[2], tables.0[2])?;
        let b_g1 = layout.query::<G1>(&candidates[3], variables[3], resident[3], tables.0[3])?;
        let b_g2 = layout.query::<G2>(&candidates[4], variables[4], resident[4], tables.0[4])?;
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
            scratch,
            tables,
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

    /// Bytes of the arena that loading the key takes, without multiples.
    pub(super) fn loading_bytes(&self) -> u64 {
        self.resident + self.staging.num_bytes()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::prover::shape::{
        MatrixShape,
        samples::{matrix, porep, query},
    };

    const GIB: u64 = 1 << 30;

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
    fn a_plan_s_bytes_are_enough_to_plan_it() {
        for (rows, log_domain, encoded) in [(20, 5, true), (400, 9, false)] {
            let query = |points, filtered| QueryShape { points, encoded, filtered };
            let some = query(rows * 3 / 4, true);
            let shape = ProofShape {
                inputs: 3,
                variables: rows,
                log_domain,
                matrices: [0, 1].map(|i| MatrixShape {
                    segments: 5,
                    long_rows: 1,
                    ..matrix(rows, (3 - i) * rows)
                }),
                h: query((1 << log_domain) - 1, false),
                l: query(rows - 3, false),
                a: some,
                b_g1: some,
                b_g2: some,
                ..porep()
            };
            let plan = |memory| ProofPlan::new(&shape, MsmDevice { memory, multiprocessors: 132 });
            let mut bytes = plan(GIB).unwrap().num_bytes();
            while let Ok(less) = plan(bytes - 256) {
                bytes = less.num_bytes();
                let again = plan(bytes).unwrap_or_else(|error| panic!("{rows}, {bytes}: {error}"));
                assert!(again.num_bytes() <= bytes);
            }
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
