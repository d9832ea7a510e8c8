//! The device that is measured, its memory, and how a step is timed.
use cuzk::{
    algebra::{Canonical, Fr},
    gpu::{
        DeviceSlice, GpuError,
        arena::{Arena, Region},
        device::{DeviceInfo, devices},
        driver::{Context, Stream},
        msm_plan::MsmDevice,
        plan::Planner,
        points::{DeviceCurve, multiples, multiples_scratch_bytes},
    },
};
use rayon::prelude::*;
use std::{error::Error, ops::Range, sync::Arc};

/// Timed runs of a step, after two to warm up.
pub const RUNS: usize = 7;
/// Points that the host computes; the device makes the others of them.
const SEEDS: usize = 1 << 12;
/// Each made point is 2^64 times an earlier one.
const DOUBLINGS: u32 = 64;

/// A stream over nine tenths of the first device's free memory.
pub struct Machine {
    pub info: DeviceInfo,
    pub stream: Arc<Stream>,
    pub arena: Arc<Arena>,
}

impl Machine {
    pub fn open() -> Result<Self, Box<dyn Error>> {
        let info = devices()?.into_iter().next().ok_or("there is no NVIDIA device")?;
        let context = Context::open(&info)?;
        let arena = Arena::new(&context, context.memory()?.0 / 10 * 9)?;
        Ok(Self { stream: Stream::new(&context)?, info, arena })
    }

    /// Buffers that are free again when they are dropped.
    pub fn buffers(&self) -> Buffers<'_> {
        Buffers { machine: self, planner: Planner::new(), regions: Vec::new() }
    }

    /// This device with `memory` bytes for a plan.
    pub fn device(&self, memory: u64) -> MsmDevice {
        MsmDevice { memory, multiprocessors: self.info.multiprocessors }
    }

    /// Median milliseconds of `step` on the device.
    pub fn time(&self, mut step: impl FnMut() -> Result<(), GpuError>) -> Result<f64, GpuError> {
        let mut times = Vec::new();
        for run in 0..RUNS + 2 {
            let start = self.stream.record()?;
            step()?;
            let end = self.stream.record()?;
            end.synchronize()?;
            if run >= 2 {
                times.push(end.milliseconds_since(&start)?.into());
            }
        }
        Ok(median(times))
    }
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Buffers of one measurement.
pub struct Buffers<'a> {
    machine: &'a Machine,
    planner: Planner,
    regions: Vec<Region>,
}

impl Buffers<'_> {
    pub fn alloc<T>(&mut self, name: &'static str, len: usize) -> Result<DeviceSlice<T>, GpuError> {
        let slot = self.planner.claim::<T>(name, len as u64)?;
        let region = self.machine.arena.claim(slot, &self.machine.stream)?;
        let slice = region.slice(len)?;
        self.regions.push(region);
        Ok(slice)
    }

    pub fn upload<T: Copy>(&mut self, name: &'static str, values: &[T]) -> Result<DeviceSlice<T>, GpuError> {
        let slice = self.alloc(name, values.len())?;
        // SAFETY: a slice of the arena that nothing else uses.
        unsafe { self.machine.stream.upload(slice, values) }?;
        Ok(slice)
    }

    /// Bytes that are left.
    pub fn free(&self) -> u64 {
        self.machine.arena.capacity() - self.planner.peak()
    }

    /// So many different points with random logarithms, and these.
    pub fn points<C: DeviceCurve>(
        &mut self,
        count: usize,
    ) -> Result<(DeviceSlice<C::Affine>, Vec<Fr>), GpuError> {
        let multiprocessors = self.machine.info.multiprocessors;
        let generator = C::to_projective(&C::generator());
        let mut logs: Vec<Fr> = scalars(SEEDS.min(count)).into_iter().map(Fr::from_canonical).collect();
        let seeds: Vec<_> = logs.par_iter().map(|log| C::mul(&generator, log)).collect();
        let all = self.alloc("points", count)?;
        let scratch = self.alloc("scratch", multiples_scratch_bytes(multiprocessors) as usize)?;
        let stream = &*self.machine.stream;
        // SAFETY: slices of the arena, in one stream.
        unsafe { stream.upload(part(all, 0..seeds.len())?, &C::batch_to_affine(&seeds)) }?;
        let factor = Fr::from_u64(2).pow(&[DOUBLINGS.into()]);
        while logs.len() < count {
            let (have, more) = (logs.len(), logs.len().min(count - logs.len()));
            let (from, to) = (part(all, 0..more)?, part(all, have..have + more)?);
            // SAFETY: as above.
            unsafe { multiples::<C>(stream, multiprocessors, from, to, DOUBLINGS, scratch) }?;
            let more: Vec<Fr> = logs[..more].par_iter().map(|&log| log * factor).collect();
            logs.extend(more);
        }
        Ok((all, logs))
    }
}

/// A part of a slice, which has to be long enough.
pub fn part<T>(all: DeviceSlice<T>, range: Range<usize>) -> Result<DeviceSlice<T>, GpuError> {
    let (found, wanted) = (all.len() as u64, range.end as u64);
    all.slice(range).ok_or(GpuError::Length { what: "a buffer", found, wanted })
}

/// Uniform values from a fixed seed (SplitMix64).
pub fn scalars(count: usize) -> Vec<Canonical> {
    let value = |i: usize| {
        let mut wide = [0; 64];
        for (k, word) in wide.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&hash((i as u64) << 3 | k as u64).to_le_bytes());
        }
        Fr::from_wide_le_bytes(&wide).to_canonical()
    };
    (0..count).into_par_iter().map(value).collect()
}

/// A random-looking number.
pub fn hash(i: u64) -> u64 {
    let mut x = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Of 64 values one whole, and 63 that are 0 or 1.
pub fn mostly_bits(count: usize) -> Vec<Canonical> {
    let whole = scalars(count);
    let value = |i: usize| match i % 64 {
        0 => whole[i],
        _ => Canonical::from_u64(hash(i as u64) & 1),
    };
    (0..count).into_par_iter().map(value).collect()
}
