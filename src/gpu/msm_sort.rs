//! Digits of scalars and the lists of points by bucket: the first part of a multi-exponentiation. See
//! `cuda/msm_sort.cu`.
use super::{
    DeviceSlice, GpuError, Grid, Launcher,
    launch::{KernelArgs, launch},
};
use crate::algebra::Canonical;

const THREADS: u32 = 256;
const SCAN_TILE: u64 = 8 * THREADS as u64;
const SCAN_THREADS: u32 = 1024;
/// Bits of a scalar after the choice between s and r − s, with one more for the last digit's sign.
const SCALAR_BITS: u32 = 255;

/// How scalars split into windows, and windows into bucket sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    /// Bits of a window.
    pub width: u32,
    /// Vectors of points: the points themselves, and precomputed multiples.
    pub tables: u32,
}

impl Windows {
    /// Windows of a scalar.
    pub fn count(&self) -> u32 {
        SCALAR_BITS.div_ceil(self.width)
    }

    /// Bucket sets: table t holds the points times 2^(width · sets · t).
    pub fn sets(&self) -> u32 {
        self.count().div_ceil(self.tables)
    }

    /// Buckets of a set.
    pub fn buckets(&self) -> u32 {
        1 << (self.width - 1)
    }

    /// Σ 2^(width−1) over all windows but the last, as the kernel wants it.
    fn half(&self) -> [u32; 8] {
        let mut half = [0; 8];
        for window in 0..self.count() - 1 {
            let bit = window * self.width + self.width - 1;
            half[bit as usize / 32] |= 1 << (bit % 32);
        }
        half
    }
}

/// Scratch and result memory of one sort.
#[derive(Clone, Copy)]
pub(super) struct SortBuffers {
    /// An entry for each point and row.
    pub keys: DeviceSlice<u32>,
    pub ranks: DeviceSlice<u32>,
    pub values: DeviceSlice<u32>,
    /// One for each bucket; all zero before.
    pub counts: DeviceSlice<u32>,
    /// One for each bucket and one more.
    pub starts: DeviceSlice<u32>,
    /// [`scan_tiles`].
    pub tiles: DeviceSlice<u32>,
}

/// Partial sums that the prefix sums over `buckets` take.
pub(super) fn scan_tiles(buckets: u64) -> u64 {
    buckets.div_ceil(SCAN_TILE)
}

/// Mirrors `msm_sort::ClearArgs`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ClearArgs {
    words: u64,
    count: u64,
}
// SAFETY: integers in C layout, as in the kernels.
unsafe impl KernelArgs for ClearArgs {}

/// Mirrors `msm_sort::DigitsArgs`.
#[derive(Clone, Copy)]
#[repr(C)]
struct DigitsArgs {
    scalars: u64,
    index: u64,
    keys: u64,
    ranks: u64,
    counts: u64,
    half: [u32; 8],
    count: u32,
    width: u32,
    windows: u32,
    sets: u32,
    first_set: u32,
    set_count: u32,
    rows: u32,
    _padding: u32,
}
// SAFETY: as above.
unsafe impl KernelArgs for DigitsArgs {}

/// Mirrors `msm_sort::ScanArgs`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ScanArgs {
    counts: u64,
    starts: u64,
    tiles: u64,
    buckets: u32,
    tile_count: u32,
}
// SAFETY: as above.
unsafe impl KernelArgs for ScanArgs {}

/// Mirrors `msm_sort::ScatterArgs`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ScatterArgs {
    keys: u64,
    ranks: u64,
    starts: u64,
    values: u64,
    count: u32,
    set_count: u32,
    table_stride: u32,
    _padding: u32,
}
// SAFETY: as above.
unsafe impl KernelArgs for ScatterArgs {}

/// Fills memory with zeros.
///
/// # Safety
/// The memory is valid until the launch has run; its length is a multiple of 16 bytes.
pub(super) unsafe fn clear<T>(launcher: &impl Launcher, memory: DeviceSlice<T>) -> Result<(), GpuError> {
    let count = memory.num_bytes() as u64 / 16;
    let args = ClearArgs { words: memory.address(), count };
    // SAFETY: the caller's promise.
    unsafe { launch(launcher, "cuzk_msm_clear", Grid::covering(count, THREADS, 1)?, &args) }
}

/// Which scalars meet which points.
#[derive(Clone, Copy)]
pub(super) struct Scalars {
    pub scalars: DeviceSlice<Canonical>,
    /// The scalar of each point; None: its own number.
    pub index: Option<DeviceSlice<u32>>,
    pub count: u32,
    /// Points from one table to the next.
    pub table_stride: u32,
}

/// Sorts the points by bucket, for bucket sets `first_set..first_set + set_count`.
///
/// # Safety
/// All memory is valid until the launches have run, and as long as `SortBuffers` says for the count, the
/// windows and the sets; indices are below the scalars' number.
pub(super) unsafe fn sort(
    launcher: &impl Launcher,
    windows: Windows,
    (first_set, set_count): (u32, u32),
    scalars: Scalars,
    buffers: SortBuffers,
) -> Result<(), GpuError> {
    let rows = windows.tables * set_count;
    let buckets = set_count * windows.buckets();
    let digits = DigitsArgs {
        scalars: scalars.scalars.address(),
        index: scalars.index.map_or(0, |index| index.address()),
        keys: buffers.keys.address(),
        ranks: buffers.ranks.address(),
        counts: buffers.counts.address(),
        half: windows.half(),
        count: scalars.count,
        width: windows.width,
        windows: windows.count(),
        sets: windows.sets(),
        first_set,
        set_count,
        rows,
        _padding: 0,
    };
    let tile_count = scan_tiles(buckets.into()) as u32;
    let scan = ScanArgs {
        counts: buffers.counts.address(),
        starts: buffers.starts.address(),
        tiles: buffers.tiles.address(),
        buckets,
        tile_count,
    };
    let scatter = ScatterArgs {
        keys: buffers.keys.address(),
        ranks: buffers.ranks.address(),
        starts: buffers.starts.address(),
        values: buffers.values.address(),
        count: scalars.count,
        set_count,
        table_stride: scalars.table_stride,
        _padding: 0,
    };
    let tiles = Grid { blocks: (tile_count, 1), threads: THREADS, shared_bytes: 0 };
    let one = Grid { blocks: (1, 1), threads: SCAN_THREADS, shared_bytes: 0 };
    // SAFETY: the caller's promise.
    unsafe {
        launch(launcher, "cuzk_msm_digits", Grid::covering(scalars.count.into(), THREADS, 1)?, &digits)?;
        launch(launcher, "cuzk_msm_scan_tiles", tiles, &scan)?;
        launch(launcher, "cuzk_msm_scan_totals", one, &scan)?;
        launch(launcher, "cuzk_msm_scan_starts", tiles, &scan)?;
        launch(launcher, "cuzk_msm_scatter", Grid::covering(scalars.count.into(), THREADS, rows)?, &scatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_a_scalar() {
        for (width, tables, count, sets) in
            [(17, 1, 15, 15), (16, 1, 16, 16), (20, 13, 13, 1), (20, 5, 13, 3), (3, 1, 85, 85)]
        {
            let windows = Windows { width, tables };
            assert_eq!((windows.count(), windows.sets()), (count, sets));
        }
        assert_eq!(
            Windows { width: 16, tables: 1 }.half(),
            [
                0x8000_8000,
                0x8000_8000,
                0x8000_8000,
                0x8000_8000,
                0x8000_8000,
                0x8000_8000,
                0x8000_8000,
                0x8000
            ]
        );
    }
}
