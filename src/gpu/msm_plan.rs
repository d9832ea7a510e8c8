//! What a multi-exponentiation does in which order and where its memory lies, decided before it runs: the
//! window width, how many bucket sets and points are handled together, and every buffer.
use super::{
    GpuError,
    msm_sort::{Windows, scan_tiles},
    plan::{Planner, Slot},
    points::DeviceCurve,
};
use std::marker::PhantomData;

/// Threads of a block of the kernel that adds pairs, and its blocks for each multiprocessor.
pub(super) const ADD_THREADS: u32 = 128;
const ADD_BLOCKS: u32 = 4;
/// Pairs that share an inversion, at most.
const BATCH: u64 = 128;
/// Elements of a list that `cuzk_msm_bits` sums, at most: longer ones are folded first.
const LIST: u32 = 1024;
/// Rounds of pairs, at most: entries are numbered in 31 bits.
const MAX_ROUNDS: u64 = 31;
/// Widths to choose from.
const WIDTHS: std::ops::RangeInclusive<u32> = 3..=24;
/// The kernels number entries and slots, and points times tables, in 31 bits.
const MAX_ENTRIES: u64 = 1 << 31;
/// Cost of an inversion, in products.
const INVERSION: f64 = 45.0;
/// Cost of an affine addition, memory traffic included, in products.
const ADDITION: f64 = 7.0;

/// Cost of adding an element to a sum in XYZZ coordinates, in products.
const BIT_ADDITION: f64 = 14.0;
/// Cost of a bucket that gets nothing, in products: it is cleared, counted, looked at in each round and folded.
/// On an H200, sums over bits took 1.8 ns a bucket in G1 and 3.4 in G2.
const BUCKET: f64 = 35.0;

/// What a plan is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsmSize {
    /// Points of the whole sum.
    pub points: u64,
    /// Points that come at a time, at most: fewer than `points` where they are streamed.
    pub at_once: u64,
    /// None: no precomputed multiples. Else their layout, which fixes the window width.
    pub multiples: Option<Windows>,
}

/// A device, as far as a plan depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsmDevice {
    /// Bytes for the working memory, at most.
    pub memory: u64,
    /// Its multiprocessors.
    pub multiprocessors: u32,
}

/// Places in the working memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub buckets: Slot,
    pub counts: Slot,
    pub starts: Slot,
    pub tiles: Slot,
    pub values: Slot,
    pub keys: Slot,
    pub ranks: Slot,
    pub left: Slot,
    pub right: Slot,
    pub target: Slot,
    pub even: Slot,
    pub odd: Slot,
    pub products: Slot,
}

/// The plan of one multi-exponentiation over group `C`.
pub struct MsmPlan<C> {
    pub(super) windows: Windows,
    /// Points handled together.
    pub(super) chunk: u32,
    /// Bucket sets handled together.
    pub(super) group: u32,
    /// Blocks that add pairs.
    pub(super) add_blocks: u32,
    pub(super) batch: u32,
    pub(super) multiprocessors: u32,
    pub(super) folds: u32,
    /// Whether a bucket may get points from more than one chunk.
    pub(super) merges: bool,
    pub(super) places: Places,
    bytes: u64,
    points: u64,
    cost: f64,
    _curve: PhantomData<C>,
}

impl<C: DeviceCurve> MsmPlan<C> {
    /// The fastest plan, by an estimate, that fits the device's memory.
    pub fn new(size: MsmSize, device: MsmDevice) -> Result<Self, GpuError> {
        let tables = size.multiples.map_or(1, |m| m.tables);
        let found = size.points.saturating_mul(tables.into());
        if found >= MAX_ENTRIES || size.at_once >= MAX_ENTRIES {
            return Err(GpuError::TooLarge {
                what: "points of a sum",
                found: found.max(size.at_once),
                wanted: MAX_ENTRIES - 1,
            });
        }
        let streamed = size.at_once < size.points;
        let mut best: Option<Self> = None;
        let mut least = u64::MAX;
        for width in WIDTHS.filter(|&w| size.multiples.is_none_or(|m| m.width == w)) {
            let windows = Windows { width, tables };
            let mut chunk = size.points.min(size.at_once).max(1);
            loop {
                // A streamed point comes once: all its bucket sets are handled together.
                let groups = if streamed { 1..=1 } else { 1..=windows.sets() };
                for divisor in groups {
                    let group = windows.sets().div_ceil(divisor);
                    if let Some(plan) = Self::with(size, device, windows, chunk, group)? {
                        least = least.min(plan.bytes);
                        let better = best.as_ref().is_none_or(|b| plan.cost < b.cost);
                        if plan.bytes <= device.memory && better {
                            best = Some(plan);
                        }
                    }
                }
                if chunk <= 1 << 12 {
                    break;
                }
                chunk = chunk.div_ceil(2);
            }
        }
        best.ok_or(GpuError::OutOfMemory {
            what: format!("a sum over {} points of {}", size.points, C::NAME),
            found: device.memory,
            wanted: least,
        })
    }

    /// The plan for given choices; None where its entries are too many to be numbered.
    fn with(
        size: MsmSize,
        device: MsmDevice,
        windows: Windows,
        chunk: u64,
        group: u32,
    ) -> Result<Option<Self>, GpuError> {
        let entries = chunk * u64::from(windows.tables * group);
        let buckets = u64::from(group) * u64::from(windows.buckets());
        if entries + 2 * buckets >= MAX_ENTRIES {
            return Ok(None);
        }
        let log_buckets = windows.width - 1;
        // After f folds a list has 2^(width - 2 - f) elements.
        let folds = (log_buckets - 1).saturating_sub(LIST.ilog2());
        let merges = chunk < size.points;
        let most_pairs = (entries / 2).max(if merges || folds > 0 { buckets } else { 0 });
        let blocks = (most_pairs * u64::from(C::LANES)).div_ceil(ADD_THREADS.into()).max(1);
        let add_blocks = blocks.min((device.multiprocessors * ADD_BLOCKS).into()) as u32;
        let threads = u64::from(add_blocks * ADD_THREADS);
        let adders = threads / u64::from(C::LANES);
        let batch = most_pairs.div_ceil(adders).clamp(1, BATCH);

        let mut plan = Planner::new();
        let held = buckets * if merges { 2 } else { 1 };
        let places = {
            let buckets_slot = plan.claim::<C::Affine>("buckets", held)?;
            // The counters of pairs follow the counts, so that one launch clears both.
            let counts = plan.claim::<u32>("bucket sizes", buckets.next_multiple_of(4) + 32)?;
            let starts = plan.claim::<u32>("bucket starts", buckets + 1)?;
            let tiles = plan.claim::<u32>("partial sums", scan_tiles(buckets))?;
            let values = plan.claim::<u32>("sorted points", entries)?;
            let keys = plan.claim::<u32>("digits", entries)?;
            let ranks = plan.claim::<u32>("ranks", entries)?;
            plan.release(keys);
            plan.release(ranks);
            Places {
                buckets: buckets_slot,
                counts,
                starts,
                tiles,
                values,
                keys,
                ranks,
                left: plan.claim::<u32>("left sides of pairs", most_pairs)?,
                right: plan.claim::<u32>("right sides of pairs", most_pairs)?,
                target: plan.claim::<u32>("targets of pairs", most_pairs)?,
                even: plan.claim::<C::Affine>("sums of even rounds", entries / 2 + buckets)?,
                odd: plan.claim::<C::Affine>("sums of odd rounds", entries / 4 + buckets)?,
                products: plan.claim::<[u32; 12]>("partial products", threads * batch)?,
            }
        };
        let chunks = size.points.div_ceil(chunk).max(1) as f64;
        let groups = windows.sets().div_ceil(group);
        // Without skew, a bucket has this many entries, and so many rounds do real work.
        let load = entries as f64 / buckets as f64;
        let rounds = (load + 3.0 * load.sqrt()).max(2.0).log2().ceil() + if merges { 1.0 } else { 0.0 };
        let additions = entries as f64 + if merges { buckets as f64 } else { 0.0 };
        let inversions = adders as f64 * (rounds + folds as f64 / chunks);
        let folding = if folds > 0 { 1.5 * buckets as f64 } else { 0.0 };
        let list = f64::from(1u32 << (log_buckets - 1 - folds));
        let bits = f64::from(group * windows.width) * list * BIT_ADDITION;
        let cost = f64::from(groups)
            * (chunks * (additions * ADDITION + buckets as f64 * BUCKET + inversions * INVERSION)
                + folding * ADDITION
                + bits);
        Ok(Some(Self {
            windows,
            chunk: chunk as u32,
            group,
            add_blocks,
            batch: batch as u32,
            multiprocessors: device.multiprocessors,
            folds,
            merges,
            places,
            bytes: plan.peak(),
            points: size.points,
            cost,
            _curve: PhantomData,
        }))
    }

    /// Bytes of working memory.
    pub fn num_bytes(&self) -> u64 {
        self.bytes
    }

    /// The windows; with precomputed multiples, as they were given.
    pub fn windows(&self) -> Windows {
        self.windows
    }

    /// What it costs with uniform scalars, by the estimate, in products.
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// Points handled together, at most.
    pub fn chunk(&self) -> u64 {
        self.chunk.into()
    }

    /// Points of the whole sum.
    pub fn points(&self) -> u64 {
        self.points
    }

    /// Bucket sets, a range for each group that is handled together.
    pub fn groups(&self) -> impl Iterator<Item = std::ops::Range<u32>> + use<C> {
        let (sets, group) = (self.windows.sets(), self.group);
        (0..sets).step_by(group as usize).map(move |first| first..sets.min(first + group))
    }

    /// Sums that a set leaves for the host: one for each bit of a bucket's number, and the sum of all.
    pub(super) fn results_of_set(&self) -> usize {
        self.windows.width as usize
    }

    /// Sums left for the host.
    pub fn results(&self) -> usize {
        self.windows.sets() as usize * self.results_of_set()
    }

    /// Rounds that add a chunk of `points`: a bucket gets at most one entry for each point and table.
    pub(super) fn rounds(&self, points: u32) -> u32 {
        let most = u64::from(points) * u64::from(self.windows.tables);
        let rounds = most.next_power_of_two().ilog2().max(1);
        debug_assert!(u64::from(rounds) <= MAX_ROUNDS);
        rounds
    }

    /// The sum, from what the device left. The last additions: one doubling and one or two additions for
    /// each bit of a scalar.
    pub fn combine(&self, results: &[C::Projective]) -> Result<C::Projective, GpuError> {
        if results.len() != self.results() {
            let (found, wanted) = (results.len() as u64, self.results() as u64);
            return Err(GpuError::Length { what: "the sums of a device", found, wanted });
        }
        let mut sum = C::identity();
        for set in results.chunks_exact(self.results_of_set()).rev() {
            // Bucket i stands for digit i + 1: bit q of i weighs 2^q, and the sum of all is added. A set has
            // one bit less than its window.
            let Some((all, bits)) = set.split_last() else { continue };
            sum = C::double(&sum);
            for bit in bits.iter().rev() {
                sum = C::add(&C::double(&sum), bit);
            }
            sum = C::add(&sum, all);
        }
        Ok(sum)
    }
}
