//! Multi-exponentiation: Pippenger's bucket method with signed digits and batched affine additions.
//!
//! Points are taken tile by tile. A tile's digits are sorted by bucket, window by window; then the sorted list is
//! cut into tasks of equal size at the borders of buckets (a crowded bucket is cut too), each of which sums its
//! buckets by trees of affine additions. No scalar distribution makes a long chain of dependent additions: ones
//! all go to one bucket and cost one addition each, zeros none. At the end the buckets are summed by weight.
//!
//! Memory beside the arguments: at most `TILE` points with their scalars and digits, and 16 windows of 2^15
//! buckets (50 MiB in G1, 100 MiB in G2), or fewer and narrower ones.
mod buckets;
mod digits;
pub(crate) mod runs;
mod tile;

use super::{CancelToken, Cancelled, Canonical, Curve, PointStore};
use buckets::Buckets;
use digits::{MAGNITUDE_BITS, Recoding, bit_length, magnitude};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use tile::{Scalars, Tile};

/// Points with nonzero scalars in a tile; one chunk more at most.
const TILE: usize = 1 << 17;
/// Points that one task classifies.
const CHUNK: usize = 1 << 12;

/// `Σ scalars[index[i]] · points[i]`, with `index` the identity where it is None.
/// Points at infinity contribute nothing; points may repeat; zero scalars cost nothing, ones one addition.
///
/// # Panics
/// When an index, or without them the number of points, exceeds the number of scalars.
pub fn msm<C: Curve>(
    points: &PointStore<C>,
    index: Option<&[u32]>,
    scalars: &[Canonical],
    cancel: &CancelToken,
) -> Result<C::Projective, Cancelled> {
    msm_by_tiles(points, &Scalars { index, values: scalars }, TILE, CHUNK, cancel)
}

fn msm_by_tiles<C: Curve>(
    points: &PointStore<C>,
    scalars: &Scalars<'_>,
    tile: usize,
    chunk: usize,
    cancel: &CancelToken,
) -> Result<C::Projective, Cancelled> {
    let chunks: Vec<_> =
        (0..points.len()).step_by(chunk).map(|start| start..points.len().min(start + chunk)).collect();
    let lengths = [const { AtomicU64::new(0) }; MAGNITUDE_BITS + 1];
    let nonzeros = chunks
        .par_iter()
        .map(|chunk| {
            cancel.check()?;
            let mut counts = [0; MAGNITUDE_BITS + 1];
            chunk.clone().for_each(|i| counts[bit_length(&magnitude(scalars.get(i)).0)] += 1);
            lengths.iter().zip(counts).for_each(|(sum, count)| _ = sum.fetch_add(count, Ordering::Relaxed));
            Ok(chunk.len() - counts[0] as usize)
        })
        .collect::<Result<Vec<_>, Cancelled>>()?;
    let recoding = Recoding::for_lengths(&lengths.map(AtomicU64::into_inner));
    let mut buckets = Buckets::<C>::new(recoding);
    let mut pending = Vec::new();
    let mut in_tile = 0;
    for chunk in chunks.into_iter().zip(nonzeros) {
        in_tile += chunk.1;
        pending.push(chunk);
        if in_tile >= tile {
            buckets.add(&Tile::new(points, scalars, &pending, &recoding, cancel)?, cancel)?;
            pending.clear();
            in_tile = 0;
        }
    }
    if in_tile > 0 {
        buckets.add(&Tile::new(points, scalars, &pending, &recoding, cancel)?, cancel)?;
    }
    buckets.total(cancel)
}

#[cfg(test)]
mod tests;
