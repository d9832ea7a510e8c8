//! The buckets of all windows: filled tile by tile, then summed by weight.
use super::{
    digits::Recoding,
    runs::{Reciprocals, Runs, add, denominator},
    tile::Tile,
};
use crate::algebra::{CancelToken, Cancelled, Curve};
use rayon::prelude::*;

/// Buckets `1 … 2^(c-1)` of each window, lowest window first.
pub(super) struct Buckets<C: Curve> {
    sums: Vec<C::Affine>,
    recoding: Recoding,
}

/// Addends that one task sums: their points fit a core's second-level cache, and are enough to make the
/// inversions that they share cheap.
const fn task_addends<C: Curve>() -> usize {
    (1 << 18) / C::UNCOMPRESSED
}

/// Neighbouring buckets for one task, or a part of a bucket too large for one.
enum Task<'a, C: Curve> {
    Whole { first: usize, sums: &'a mut [C::Affine] },
    Part { bucket: usize, addends: std::ops::Range<usize> },
}

impl<C: Curve> Buckets<C> {
    pub(super) fn new(recoding: Recoding) -> Self {
        Self { sums: vec![C::Affine::default(); recoding.windows() * recoding.buckets()], recoding }
    }

    /// Adds every point of the tile to its buckets.
    pub(super) fn add(&mut self, tile: &Tile<C>, cancel: &CancelToken) -> Result<(), Cancelled> {
        let parts = self
            .tasks(tile)
            .into_par_iter()
            .map_init(Runs::<C>::new, |runs, task| {
                cancel.check()?;
                runs.clear();
                match task {
                    Task::Whole { first, sums } => {
                        add_whole(tile, first, sums, runs);
                        Ok(None)
                    }
                    Task::Part { bucket, addends } => {
                        runs.push_run(tile.signed_points(addends));
                        Ok(runs.sum().first().map(|sum| (bucket, *sum)))
                    }
                }
            })
            .filter_map(Result::transpose)
            .collect::<Result<Vec<_>, Cancelled>>()?;

        // Parts of the same bucket are neighbours.
        let mut runs = Runs::<C>::new();
        let groups = || parts.chunk_by(|(one, _), (other, _)| one == other);
        for group in groups() {
            let sum = self.sums[group[0].0];
            runs.push_run(std::iter::once(sum).chain(group.iter().map(|(_, part)| *part)));
        }
        for (group, sum) in groups().zip(runs.sum()) {
            self.sums[group[0].0] = *sum;
        }
        Ok(())
    }

    /// The tile's work in tasks of at most [`task_addends`] each.
    fn tasks(&mut self, tile: &Tile<C>) -> Vec<Task<'_, C>> {
        let size = task_addends::<C>();
        let mut tasks = Vec::new();
        let buckets = self.sums.len();
        let (mut rest, mut first) = (self.sums.as_mut_slice(), 0);
        while first < buckets {
            let addends = tile.bucket(first);
            let end = tile.bucket_at(addends.start + size);
            let taken = if end > first {
                end - first
            } else {
                for start in addends.clone().step_by(size) {
                    tasks.push(Task::Part { bucket: first, addends: start..addends.end.min(start + size) });
                }
                1
            };
            let (sums, others) = rest.split_at_mut(taken);
            if end > first {
                tasks.push(Task::Whole { first, sums });
            }
            (rest, first) = (others, first + taken);
        }
        tasks
    }

    /// Σ over windows w and digits d of 2^(cw) · d · bucket.
    pub(super) fn total(self, cancel: &CancelToken) -> Result<C::Projective, Cancelled> {
        let windows = weighted_sums::<C>(&self.sums, self.recoding.windows(), cancel)?;
        Ok(windows.iter().rev().fold(C::identity(), |total, window| {
            let shifted = (0..self.recoding.bits()).fold(total, |total, _| C::double(&total));
            C::add(&shifted, window)
        }))
    }
}

/// Adds to buckets `first …`, whose sums are given, what the tile has for them.
fn add_whole<C: Curve>(tile: &Tile<C>, first: usize, sums: &mut [C::Affine], runs: &mut Runs<C>) {
    for (bucket, sum) in (first..).zip(sums.iter()) {
        let addends = tile.bucket(bucket);
        if !addends.is_empty() {
            let start = (!C::is_infinity(sum)).then_some(*sum);
            runs.push_run(start.into_iter().chain(tile.signed_points(addends)));
        }
    }
    let mut results = runs.sum().iter();
    for (bucket, sum) in (first..).zip(sums) {
        if !tile.bucket(bucket).is_empty()
            && let Some(result) = results.next()
        {
            *sum = *result;
        }
    }
}

/// Buckets that one lane adds up, one after the other.
const LANE: usize = 32;
/// Lanes that advance together, sharing their inversions.
const LANES: usize = 256;

/// For each of `windows` equal parts of `buckets`: Σ (i + 1) · bucket i.
///
/// With lanes of k buckets, bucket i = ks + j has the weight (j + 1) + ks: the first summand is summed by the
/// classical running total within the lane, the second by the same function over the lanes' plain sums.
fn weighted_sums<C: Curve>(
    buckets: &[C::Affine],
    windows: usize,
    cancel: &CancelToken,
) -> Result<Vec<C::Projective>, Cancelled> {
    let count = buckets.len() / windows;
    if count < 2 * LANE {
        return Ok(buckets.chunks(count).map(running_total::<C>).collect());
    }
    let lanes = count / LANE;
    let mut sums = vec![C::Affine::default(); windows * lanes];
    let mut totals = sums.clone();
    buckets
        .par_chunks(LANE * LANES)
        .zip(sums.par_chunks_mut(LANES).zip(totals.par_chunks_mut(LANES)))
        .try_for_each(|(buckets, (sums, totals))| {
            cancel.check()?;
            advance_lanes::<C>(buckets, sums, totals);
            Ok(())
        })?;
    // Lane s counts s times: the lanes from the second on have the weights 1, 2, …
    for sums in sums.chunks_mut(lanes) {
        sums.rotate_left(1);
        sums[lanes - 1] = C::Affine::default();
    }
    let outer = weighted_sums::<C>(&sums, windows, cancel)?;
    let mut runs = Runs::<C>::new();
    for totals in totals.chunks(lanes) {
        runs.push_run(totals.iter().copied());
    }
    Ok(outer
        .iter()
        .zip(runs.sum())
        .map(|(outer, inner)| {
            let outer = (0..LANE.trailing_zeros()).fold(*outer, |sum, _| C::double(&sum));
            C::add_affine(&outer, inner)
        })
        .collect())
}

/// Σ (i + 1) · bucket i.
fn running_total<C: Curve>(buckets: &[C::Affine]) -> C::Projective {
    let (mut sum, mut total) = (C::identity(), C::identity());
    for bucket in buckets.iter().rev() {
        sum = C::add_affine(&sum, bucket);
        total = C::add(&total, &sum);
    }
    total
}

/// For each lane of [`LANE`] buckets: their sum, and their sum with weights 1, 2, …
fn advance_lanes<C: Curve>(buckets: &[C::Affine], sums: &mut [C::Affine], totals: &mut [C::Affine]) {
    for (lane, sum) in sums.iter_mut().enumerate() {
        *sum = buckets[lane * LANE + LANE - 1];
    }
    let mut reciprocals = Reciprocals::new();
    let (mut for_sum, mut for_total) = Default::default();
    for step in (0..LANE).rev() {
        // The total takes the sum as it was after the last step, so that both can be done at once. The bucket of
        // step 0 is taken by the step before; the total then is one addition behind.
        let bucket =
            |lane: usize| if step > 0 { buckets[lane * LANE + step - 1] } else { C::Affine::default() };
        reciprocals.clear();
        for (lane, (sum, total)) in sums.iter().zip(totals.iter()).enumerate() {
            reciprocals.push(denominator::<C>(total, sum));
            reciprocals.push(denominator::<C>(sum, &bucket(lane)));
        }
        reciprocals.invert();
        for (lane, (sum, total)) in sums.iter_mut().zip(totals.iter_mut()).enumerate().rev() {
            reciprocals.pop(&mut for_sum);
            reciprocals.pop(&mut for_total);
            *total = add::<C>(total, sum, &for_total);
            *sum = add::<C>(sum, &bucket(lane), &for_sum);
        }
    }
}
