//! Multi-exponentiation on the device. See `cuda/msm.cu` for the method.
//!
//! A sum runs over groups of bucket sets; within a group, chunks of points are sorted and added into the
//! buckets, and at the end the buckets are reduced to a few sums for the host. Nothing waits for the
//! device: all launches follow from the plan.
use super::{
    DeviceSlice, GpuError, Grid, Launcher,
    launch::{KernelArgs, launch},
    msm_plan::{ADD_THREADS, MsmPlan},
    msm_sort::{self, Scalars, SortBuffers},
    plan::Slot,
    points::DeviceCurve,
};
use crate::algebra::Canonical;
use std::ops::Range;

const PAIR_THREADS: u32 = 256;
const PAIR_SLOTS: u64 = 8;
const BIT_THREADS: u32 = 128;

/// Mirrors `msm::PairsArgs`.
#[derive(Clone, Copy)]
#[repr(C)]
struct PairsArgs {
    starts: u64,
    values: u64,
    from: u64,
    to: u64,
    done: u64,
    left: u64,
    right: u64,
    target: u64,
    pairs: u64,
    buckets: u32,
    round: u32,
}
// SAFETY: integers in C layout, as in the kernels.
unsafe impl KernelArgs for PairsArgs {}

/// Mirrors `msm::AddArgs`.
#[derive(Clone, Copy)]
#[repr(C)]
struct AddArgs {
    left: u64,
    right: u64,
    target: u64,
    pairs: u64,
    from: u64,
    to: u64,
    done: u64,
    products: u64,
    batch: u32,
    spread: u32,
}
// SAFETY: as above.
unsafe impl KernelArgs for AddArgs {}

/// Mirrors `msm::MergeArgs`.
#[derive(Clone, Copy)]
#[repr(C)]
struct MergeArgs {
    starts: u64,
    left: u64,
    right: u64,
    target: u64,
    pairs: u64,
    buckets: u32,
    _padding: u32,
}
// SAFETY: as above.
unsafe impl KernelArgs for MergeArgs {}

/// Mirrors `msm::FoldArgs`.
#[derive(Clone, Copy)]
#[repr(C)]
struct FoldArgs {
    left: u64,
    right: u64,
    target: u64,
    pairs: u64,
    sets: u32,
    lists: u32,
    length: u32,
    folded: u32,
}
// SAFETY: as above.
unsafe impl KernelArgs for FoldArgs {}

/// Mirrors `msm::BitsArgs`.
#[derive(Clone, Copy)]
#[repr(C)]
struct BitsArgs {
    from: u64,
    to: u64,
    lists: u32,
    length: u32,
    log_length: u32,
    folded: u32,
}
// SAFETY: as above.
unsafe impl KernelArgs for BitsArgs {}

/// A chunk of points and their scalars, in device memory.
pub struct Chunk<C: DeviceCurve> {
    /// The points; with precomputed multiples, table t's begin `table_stride · t` points further on.
    pub points: DeviceSlice<C::Affine>,
    /// Points from one table to the next; of no meaning with one table.
    pub table_stride: u32,
    /// Canonical values.
    pub scalars: DeviceSlice<Canonical>,
    /// The scalar of each point; None: its own number.
    pub index: Option<DeviceSlice<u32>>,
}

/// A sum in its working memory, on its way.
pub struct Msm<'a, C: DeviceCurve, L> {
    plan: &'a MsmPlan<C>,
    launcher: &'a L,
    memory: DeviceSlice<u8>,
}

impl<'a, C: DeviceCurve, L: Launcher> Msm<'a, C, L> {
    /// # Safety
    /// `memory` is valid and this sum's alone until its launches have run.
    pub unsafe fn new(
        plan: &'a MsmPlan<C>,
        launcher: &'a L,
        memory: DeviceSlice<u8>,
    ) -> Result<Self, GpuError> {
        let (found, wanted) = (memory.len() as u64, plan.num_bytes());
        if found < wanted {
            return Err(GpuError::OutOfMemory { what: format!("a sum over {}", C::NAME), found, wanted });
        }
        Ok(Self { plan, launcher, memory })
    }

    fn place<T>(&self, slot: Slot) -> DeviceSlice<T> {
        let address = self.memory.address() + slot.offset();
        // SAFETY: the slot lies in the memory, which is at least the plan's size.
        unsafe { DeviceSlice::from_raw(address, slot.num_bytes() as usize / size_of::<T>()) }
    }

    /// The whole sum over resident points, into `results` (`MsmPlan::results` of them).
    ///
    /// # Safety
    /// All memory that `all` names is valid until the launches have run; indices are below the scalars'
    /// number; tables lie in memory as `all` says.
    pub unsafe fn run(&self, all: &Chunk<C>, results: DeviceSlice<C::Projective>) -> Result<(), GpuError> {
        for sets in self.plan.groups() {
            // SAFETY: the caller's promise.
            unsafe {
                self.begin(&sets)?;
                self.add(&sets, all)?;
                self.finish(&sets, results)?;
            }
        }
        Ok(())
    }

    /// Empties the buckets of a group.
    ///
    /// # Safety
    /// As for [`Self::new`].
    pub unsafe fn begin(&self, sets: &Range<u32>) -> Result<(), GpuError> {
        let buckets = sets.len() * self.plan.windows.buckets() as usize;
        let all = self.place::<C::Affine>(self.plan.places.buckets);
        // SAFETY: the place has that many buckets at least.
        unsafe { msm_sort::clear(self.launcher, DeviceSlice::<C::Affine>::from_raw(all.address(), buckets)) }
    }

    /// Adds points to the buckets of a group, in chunks of the plan's size.
    ///
    /// # Safety
    /// As for [`Self::run`].
    pub unsafe fn add(&self, sets: &Range<u32>, all: &Chunk<C>) -> Result<(), GpuError> {
        let count = all.points.len();
        let scalars = all.index.map_or(all.scalars.len(), |index| index.len());
        if scalars < count {
            let (found, wanted) = (scalars as u64, count as u64);
            return Err(GpuError::Length { what: "scalars of a sum", found, wanted });
        }
        let mut first = 0;
        while first < count {
            let range = first..count.min(first + self.plan.chunk as usize);
            first = range.end;
            let lacks = |found: usize| GpuError::Length {
                what: "points or scalars of a sum",
                found: found as u64,
                wanted: count as u64,
            };
            let points = all.points.slice(range.clone()).ok_or_else(|| lacks(all.points.len()))?;
            let (scalars, index) = match all.index {
                None => (all.scalars.slice(range).ok_or_else(|| lacks(all.scalars.len()))?, None),
                Some(index) => (all.scalars, Some(index.slice(range).ok_or_else(|| lacks(index.len()))?)),
            };
            let chunk = Chunk { points, table_stride: all.table_stride, scalars, index };
            // SAFETY: the caller's promise.
            unsafe { self.add_chunk(sets, &chunk)? };
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Self::run`]; at most `plan.chunk` points.
    unsafe fn add_chunk(&self, sets: &Range<u32>, chunk: &Chunk<C>) -> Result<(), GpuError> {
        let places = &self.plan.places;
        let count = chunk.points.len() as u32;
        let set_count = sets.len() as u32;
        let buckets = set_count * self.plan.windows.buckets();
        let counts = self.place::<u32>(places.counts);
        let starts = self.place::<u32>(places.starts);
        let buffers = SortBuffers {
            keys: self.place(places.keys),
            ranks: self.place(places.ranks),
            values: self.place(places.values),
            counts,
            starts,
            tiles: self.place(places.tiles),
        };
        let scalars =
            Scalars { scalars: chunk.scalars, index: chunk.index, count, table_stride: chunk.table_stride };
        // SAFETY: places are as long as the plan made them, for at most `chunk` points and `group` sets.
        unsafe {
            msm_sort::clear(self.launcher, counts)?;
            msm_sort::sort(self.launcher, self.plan.windows, (sets.start, set_count), scalars, buffers)?;
        }
        let entries = u64::from(count) * u64::from(self.plan.windows.tables * set_count);
        let done = self.place::<C::Affine>(places.buckets).address();
        // Where other chunks come, a chunk's sums go behind the buckets and are merged.
        let fresh =
            done + if self.plan.merges { u64::from(buckets) * size_of::<C::Affine>() as u64 } else { 0 };
        let mut from = chunk.points.address();
        for round in 0..self.plan.rounds(count) {
            let to = if round % 2 == 0 { places.even } else { places.odd };
            let to = self.place::<C::Affine>(to).address();
            let slots = (entries >> (round + 1)) + u64::from(buckets);
            let args = PairsArgs {
                starts: starts.address(),
                values: self.place::<u32>(places.values).address(),
                from,
                to,
                done: fresh,
                left: self.place::<u32>(places.left).address(),
                right: self.place::<u32>(places.right).address(),
                target: self.place::<u32>(places.target).address(),
                pairs: self.pair_counter(round),
                buckets,
                round,
            };
            let grid = Grid::covering(slots.div_ceil(PAIR_SLOTS), PAIR_THREADS, 1)?;
            // SAFETY: the caller's promise; see above.
            unsafe {
                launch(self.launcher, C::KERNELS.pairs, grid, &args)?;
                // A bucket with a pair in this round has more than 2^round points, and at most one pair for
                // each 2^round + 1 of them.
                self.add_pairs(round, entries / ((1 << round) + 1), from, to, fresh)?;
            }
            from = to;
        }
        if self.plan.merges {
            let counter = self.plan.rounds(count);
            let args = MergeArgs {
                starts: starts.address(),
                left: self.place::<u32>(places.left).address(),
                right: self.place::<u32>(places.right).address(),
                target: self.place::<u32>(places.target).address(),
                pairs: self.pair_counter(counter),
                buckets,
                _padding: 0,
            };
            // SAFETY: as above.
            unsafe {
                launch(
                    self.launcher,
                    "cuzk_msm_merge",
                    Grid::covering(buckets.into(), PAIR_THREADS, 1)?,
                    &args,
                )?;
                self.add_pairs(counter, buckets.into(), done, done, done)?;
            }
        }
        Ok(())
    }

    /// Address of the count of a round's pairs.
    fn pair_counter(&self, round: u32) -> u64 {
        let counts = self.place::<u32>(self.plan.places.counts);
        let end = counts.address() + counts.num_bytes() as u64;
        end - 4 * u64::from(32 - round)
    }

    /// Adds the pairs that the last launch listed, at most `most`.
    unsafe fn add_pairs(
        &self,
        counter: u32,
        most: u64,
        from: u64,
        to: u64,
        done: u64,
    ) -> Result<(), GpuError> {
        let places = &self.plan.places;
        let args = AddArgs {
            left: self.place::<u32>(places.left).address(),
            right: self.place::<u32>(places.right).address(),
            target: self.place::<u32>(places.target).address(),
            pairs: self.pair_counter(counter),
            from,
            to,
            done,
            products: self.place::<u8>(places.products).address(),
            batch: self.plan.batch,
            spread: self.plan.multiprocessors,
        };
        let mut grid = Grid::covering(most * u64::from(C::LANES), ADD_THREADS, 1)?;
        grid.blocks.0 = grid.blocks.0.min(self.plan.add_blocks);
        // SAFETY: the caller's promise.
        unsafe { launch(self.launcher, C::KERNELS.add, grid, &args) }
    }

    /// Reduces the buckets of a group to its part of `results`.
    ///
    /// # Safety
    /// As for [`Self::run`].
    pub unsafe fn finish(
        &self,
        sets: &Range<u32>,
        results: DeviceSlice<C::Projective>,
    ) -> Result<(), GpuError> {
        let places = &self.plan.places;
        if results.len() != self.plan.results() {
            let (found, wanted) = (results.len() as u64, self.plan.results() as u64);
            return Err(GpuError::Length { what: "the place for the sums of a device", found, wanted });
        }
        let set_count = sets.len() as u32;
        let mut from = self.place::<C::Affine>(places.buckets).address();
        let mut length = self.plan.windows.buckets() / 2;
        let mut lists = 2;
        for fold in 0..self.plan.folds {
            let to = if fold % 2 == 0 { places.even } else { places.odd };
            let to = self.place::<C::Affine>(to).address();
            let pairs = set_count * (length + (lists - 1) * (length / 2));
            let args = FoldArgs {
                left: self.place::<u32>(places.left).address(),
                right: self.place::<u32>(places.right).address(),
                target: self.place::<u32>(places.target).address(),
                pairs: self.pair_counter(0),
                sets: set_count,
                lists,
                length,
                folded: (fold > 0).into(),
            };
            // SAFETY: a fold's pairs and results are fewer than the buckets, for which there is room.
            unsafe {
                launch(
                    self.launcher,
                    "cuzk_msm_fold",
                    Grid::covering(pairs.into(), PAIR_THREADS, 1)?,
                    &args,
                )?;
                self.add_pairs(0, pairs.into(), from, to, to)?;
            }
            from = to;
            length /= 2;
            lists += 1;
        }
        let first = sets.start as usize * self.plan.results_of_set();
        let args = BitsArgs {
            from,
            to: results.address() + (first * size_of::<C::Projective>()) as u64,
            lists,
            length,
            log_length: length.ilog2(),
            folded: (self.plan.folds > 0).into(),
        };
        let grid = Grid {
            blocks: (self.plan.results_of_set() as u32, set_count),
            threads: BIT_THREADS,
            shared_bytes: BIT_THREADS * 96,
        };
        // SAFETY: the caller's promise; `results` has the plan's length.
        unsafe { launch(self.launcher, C::KERNELS.bits, grid, &args) }
    }
}
