//! Which queries keep multiples of their points, beside the points, on a device with memory to spare: with
//! 2^(width · sets · t) times each point at hand, several windows of a scalar share one set of buckets, so that
//! windows can be wider and fewer buckets are cleared and summed. See [`MsmSize::multiples`].
use super::plan::{ProofPlan, QUERIES, QueryPlan};
use crate::gpu::{
    GpuError,
    msm_plan::{MsmDevice, MsmPlan, MsmSize},
    msm_sort::Windows,
    points::{DeviceCurve, multiples_scratch_bytes},
};

/// Fewer points than this keep no multiples: their sums wait for launches, not for additions.
pub(super) const LEAST_POINTS: u64 = 1 << 14;
/// Of a device's memory, multiples take at most one part in so many: a circuit is rarely alone, and 255
/// doublings of each point have to pay.
const SHARE: u64 = 4;
/// Bucket sets to choose from.
const SETS: [u32; 6] = [1, 2, 3, 4, 6, 8];
/// How much narrower and wider than without multiples a window may be.
const NARROWER: u32 = 2;
const WIDER: u32 = 4;

/// The windows of each query that keeps multiples: of h, l, a, b in G1, b in G2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tables(pub [Option<Windows>; QUERIES]);

/// A way to sum a query.
struct Choice {
    windows: Option<Windows>,
    /// Bytes of its multiples.
    bytes: u64,
    cost: f64,
}

impl Tables {
    /// No multiples.
    pub const NONE: Self = Self([None; QUERIES]);

    /// The multiples that save most for the memory they take, in what `plan`, which has none, leaves of the
    /// device; of queries with at least so many points. None where parts of the key are streamed.
    ///
    /// # Errors
    /// [`GpuError`], none that a plan without multiples has not.
    pub fn choose(plan: &ProofPlan, device: MsmDevice, least_points: u64) -> Result<Self, GpuError> {
        let spare = device.memory.saturating_sub(plan.num_bytes());
        // They are made while the key is loaded, in scratch memory beside it.
        let loading = plan.loading_bytes() + multiples_scratch_bytes(device.multiprocessors);
        let budget = spare.min(device.memory / SHARE).min(device.memory.saturating_sub(loading));
        if plan.streamed_bytes() > 0 || budget == 0 {
            return Ok(Self::NONE);
        }
        let device = MsmDevice { memory: spare - budget, ..device };
        let choices = [
            choices(&plan.h, device, least_points)?,
            choices(&plan.l, device, least_points)?,
            choices(&plan.a, device, least_points)?,
            choices(&plan.b_g1, device, least_points)?,
            choices(&plan.b_g2, device, least_points)?,
        ];
        let mut chosen = [0; QUERIES];
        let mut left = budget;
        // The best bargain first, until nothing better is to be had for what is left.
        while let Some((query, choice)) = best_bargain(&choices, chosen, left) {
            left -= choices[query][choice].bytes - choices[query][chosen[query]].bytes;
            chosen[query] = choice;
        }
        Ok(Self(std::array::from_fn(|query| choices[query][chosen[query]].windows)))
    }

    /// Whether no query keeps multiples.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

/// The query and the choice that save most for a byte, beside what is chosen.
fn best_bargain(
    choices: &[Vec<Choice>; QUERIES],
    chosen: [usize; QUERIES],
    left: u64,
) -> Option<(usize, usize)> {
    let mut best = None;
    let mut most = 0.0;
    for (query, choices) in choices.iter().enumerate() {
        let now = &choices[chosen[query]];
        for (i, other) in choices.iter().enumerate() {
            let Some(bytes) = other.bytes.checked_sub(now.bytes).filter(|&n| 0 < n && n <= left) else {
                continue;
            };
            let saved = (now.cost - other.cost) / bytes as f64;
            if saved > most {
                (best, most) = (Some((query, i)), saved);
            }
        }
    }
    best
}

/// What a query can do in the memory that its sum has without multiples, and `device.memory` more. The first
/// choice is to have none.
fn choices<C: DeviceCurve>(
    query: &QueryPlan<C>,
    device: MsmDevice,
    least_points: u64,
) -> Result<Vec<Choice>, GpuError> {
    let Some(sum) = &query.sum else { return Ok(vec![Choice { windows: None, bytes: 0, cost: 0.0 }]) };
    let points = sum.msm.points();
    let mut choices = vec![Choice { windows: None, bytes: 0, cost: sum.msm.cost() }];
    if points < least_points {
        return Ok(choices);
    }
    let device = MsmDevice { memory: device.memory.saturating_add(sum.msm.num_bytes()), ..device };
    let usual = sum.msm.windows().width;
    for width in usual.saturating_sub(NARROWER).max(3)..=(usual + WIDER).min(24) {
        let count = Windows { width, tables: 1 }.count();
        for tables in SETS.map(|sets| count.div_ceil(sets)).into_iter().filter(|&tables| tables > 1) {
            let windows = Windows { width, tables };
            let size = MsmSize { points, at_once: points, multiples: Some(windows) };
            let bytes = points
                .checked_mul(size_of::<C::Affine>() as u64)
                .and_then(|bytes| bytes.checked_mul(u64::from(tables) - 1));
            match (MsmPlan::<C>::new(size, device), bytes) {
                (Ok(plan), Some(bytes)) => {
                    choices.push(Choice { windows: Some(windows), bytes, cost: plan.cost() });
                }
                // Too many points and tables to be numbered, or no memory to sum them in.
                (Ok(_), None) | (Err(GpuError::TooLarge { .. } | GpuError::OutOfMemory { .. }), _) => {}
                (Err(error), _) => return Err(error),
            }
        }
    }
    Ok(choices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::prover::{
        ProofShape,
        plan::{MULTIPLES, Residence},
        shape::samples::{matrix, porep, query},
    };

    const GIB: u64 = 1 << 30;

    /// A circuit of 2^22 rows, otherwise like a PoRep.
    fn smaller() -> ProofShape {
        let rows = 1 << 22;
        ProofShape {
            variables: rows,
            log_domain: 22,
            matrices: [matrix(rows, 3 * rows), matrix(rows, rows)],
            h: query(rows - 1, false),
            l: query(rows - 328, false),
            a: query(rows - 4000, true),
            b_g1: query(rows / 4, true),
            b_g2: query(rows / 4, true),
            ..porep()
        }
    }

    fn device(memory: u64) -> MsmDevice {
        MsmDevice { memory, multiprocessors: 132 }
    }

    /// The plan, and bytes of multiples in it.
    fn fastest(shape: &ProofShape, memory: u64) -> (ProofPlan, u64) {
        let plan = ProofPlan::fastest(shape, device(memory)).unwrap();
        assert!(plan.num_bytes() <= memory);
        let resident = plan.pieces().iter().filter(|piece| piece.residence == Residence::Resident);
        let multiples = resident.filter(|piece| piece.name == MULTIPLES);
        let bytes = multiples.map(|piece| piece.bytes).sum();
        assert!(bytes <= memory / SHARE + 5 * 256);
        (plan, bytes)
    }

    #[test]
    fn a_large_device_sums_a_small_key_in_one_set_of_buckets() {
        let (plan, bytes) = fastest(&smaller(), 139 * GIB);
        assert!(bytes > 10 * GIB, "{bytes}");
        for sum in [&plan.h, &plan.l, &plan.a, &plan.b_g1] {
            assert_eq!(sum.sum.as_ref().unwrap().msm.windows().sets(), 1);
        }
        assert_eq!(plan.b_g2.sum.unwrap().msm.windows().sets(), 1);
    }

    #[test]
    fn less_memory_has_fewer_and_none_at_last() {
        let mut most = u64::MAX;
        for memory in [139, 40, 24, 12, 8].map(|n| n * GIB) {
            let (_, bytes) = fastest(&smaller(), memory);
            assert!(bytes <= most, "{memory}: {bytes}");
            most = bytes;
        }
        let plain = ProofPlan::new(&smaller(), device(139 * GIB)).unwrap().num_bytes();
        let (plan, bytes) = fastest(&smaller(), plain);
        assert!(bytes == 0 && plan.tables.is_none() && plan.streamed_bytes() == 0);
    }

    #[test]
    fn memory_without_room_to_make_them_has_none() {
        let (rows, some) = (1 << 16, query(1 << 16, true));
        let few = ProofShape {
            variables: rows,
            log_domain: 16,
            matrices: [matrix(rows, 3 * rows), matrix(rows, rows)],
            h: query(rows - 1, false),
            l: query(rows - 328, false),
            a: some,
            b_g1: some,
            b_g2: some,
            ..porep()
        };
        let plain = ProofPlan::new(&few, device(16 * GIB)).unwrap();
        let scratch = multiples_scratch_bytes(132);
        let enough = plain.num_bytes().max(plain.loading_bytes() + scratch);
        for memory in [plain.num_bytes(), enough, enough + 1000, enough + (1 << 20), 2 * enough] {
            let (plan, _) = fastest(&few, memory);
            assert_eq!(plan.streamed_bytes(), 0);
        }
        assert!(fastest(&few, 2 * enough).1 > 0);
    }

    #[test]
    fn the_largest_keys_are_planned_within_the_share_and_streamed_ones_without() {
        let (plan, _) = fastest(&porep(), 139 * GIB);
        assert_eq!(plan.streamed_bytes(), 0);
        let (plan, bytes) = fastest(&porep(), 48 * GIB);
        assert!(plan.streamed_bytes() > 0 && bytes == 0);
    }

    #[test]
    fn multiples_save_and_few_points_have_none() {
        let few = ProofShape { log_domain: 10, ..smaller() };
        let few = ProofShape {
            h: query(1000, false),
            l: query(LEAST_POINTS - 1, false),
            a: query(1 << 18, true),
            ..few
        };
        let plain = ProofPlan::new(&few, device(16 * GIB)).unwrap();
        let tables = Tables::choose(&plain, device(16 * GIB), LEAST_POINTS).unwrap();
        assert!(tables.0[..2] == [None, None] && tables.0[2].is_some(), "{tables:?}");
        let with = ProofPlan::with_tables(&few, device(16 * GIB), tables).unwrap();
        let cost = |plan: &ProofPlan| plan.a.sum.as_ref().unwrap().msm.cost();
        assert!(cost(&with) < cost(&plain));
    }
}
