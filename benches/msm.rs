//! Multi-exponentiation on the device by size: median time of the whole sum, and the share of each kernel. Every
//! sum is compared with the one that the points' logarithms give. Prints tables. Needs a machine with an
//! NVIDIA device.
use cuzk::{
    algebra::{Canonical, Fr, G1, G2},
    gpu::{
        DeviceSlice, GpuError, Grid, Launcher,
        arena::{Arena, Region},
        device::devices,
        driver::{Context, Event, Stream},
        msm::{Chunk, Msm},
        msm_plan::{MsmDevice, MsmPlan, MsmSize},
        plan::Planner,
        points::{DeviceCurve, multiples, multiples_scratch_bytes},
    },
};
use rayon::prelude::*;
use std::{cell::RefCell, collections::BTreeMap, error::Error, ffi::c_void, sync::Arc};

/// Runs after one to warm up.
const RUNS: usize = 5;
/// Points that the host computes; the device doubles their number until there are enough.
const LOG_SEEDS: u32 = 12;
const DOUBLINGS: u32 = 64;

/// A stream that notes the time of every launch.
struct Timed<'a> {
    stream: &'a Stream,
    launches: RefCell<Vec<(&'static str, Event, Event)>>,
}

impl Launcher for Timed<'_> {
    unsafe fn launch_raw(
        &self,
        kernel: &'static str,
        grid: Grid,
        args: *const c_void,
        args_bytes: usize,
    ) -> Result<(), GpuError> {
        let start = self.stream.record()?;
        // SAFETY: the caller's promise.
        unsafe { self.stream.launch_raw(kernel, grid, args, args_bytes)? };
        self.launches.borrow_mut().push((kernel, start, self.stream.record()?));
        Ok(())
    }
}

struct Bench {
    stream: Arc<Stream>,
    arena: Arc<Arena>,
    multiprocessors: u32,
    memory: u64,
}

/// Buffers of one size.
struct Buffers<'a> {
    bench: &'a Bench,
    planner: Planner,
    regions: Vec<Region>,
}

impl Buffers<'_> {
    fn alloc<T>(&mut self, name: &'static str, len: usize) -> Result<DeviceSlice<T>, GpuError> {
        let slot = self.planner.claim::<T>(name, len as u64)?;
        let region = self.bench.arena.claim(slot, &self.bench.stream)?;
        let slice = region.slice(len)?;
        self.regions.push(region);
        Ok(slice)
    }
}

/// Uniform values from a fixed seed.
fn random(count: usize) -> Vec<Canonical> {
    let value = |i: usize| {
        let mut wide = [0; 64];
        for (k, word) in wide.chunks_exact_mut(8).enumerate() {
            let mut x = ((i as u64) << 3 | k as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            word.copy_from_slice(&(x ^ x >> 31).to_le_bytes());
        }
        Fr::from_wide_le_bytes(&wide).to_canonical()
    };
    (0..count).into_par_iter().map(value).collect()
}

fn slice<T>(all: DeviceSlice<T>, range: std::ops::Range<usize>) -> Result<DeviceSlice<T>, GpuError> {
    let (found, wanted) = (all.len() as u64, range.end as u64);
    all.slice(range).ok_or(GpuError::Length { what: "a buffer", found, wanted })
}

/// 2^log_size points and their logarithms.
fn points<C: DeviceCurve>(
    bench: &Bench,
    buffers: &mut Buffers,
    log_size: u32,
) -> Result<(DeviceSlice<C::Affine>, Vec<Fr>), GpuError> {
    let generator = C::to_projective(&C::generator());
    let mut logs: Vec<Fr> = random(1 << LOG_SEEDS).into_iter().map(Fr::from_canonical).collect();
    let seeds: Vec<_> = logs.par_iter().map(|log| C::mul(&generator, log)).collect();
    let all = buffers.alloc("points", 1 << log_size)?;
    let scratch = buffers.alloc("scratch", multiples_scratch_bytes(bench.multiprocessors) as usize)?;
    // SAFETY: slices of the arena, in one stream.
    unsafe {
        bench.stream.upload(slice(all, 0..1 << LOG_SEEDS)?, &C::batch_to_affine(&seeds))?;
        for log in LOG_SEEDS..log_size {
            let (from, to) = (slice(all, 0..1 << log)?, slice(all, 1 << log..2 << log)?);
            multiples::<C>(&*bench.stream, bench.multiprocessors, from, to, DOUBLINGS, scratch)?;
        }
    }
    let mut factor = Fr::from_u64(2);
    for _ in 0..DOUBLINGS.ilog2() {
        factor = factor * factor;
    }
    for _ in LOG_SEEDS..log_size {
        let more: Vec<Fr> = logs.par_iter().map(|&log| log * factor).collect();
        logs.extend(more);
    }
    Ok((all, logs))
}

fn measure<C: DeviceCurve>(bench: &Bench, log_size: u32) -> Result<(), Box<dyn Error>> {
    let count = 1usize << log_size;
    let mut buffers = Buffers { bench, planner: Planner::new(), regions: Vec::new() };
    let (points, logs) = points::<C>(bench, &mut buffers, log_size)?;
    let scalars = buffers.alloc::<Canonical>("scalars", count)?;
    let size = MsmSize { points: count as u64, at_once: count as u64, multiples: None };
    let free = bench.memory - buffers.planner.peak();
    let plan = MsmPlan::<C>::new(size, MsmDevice { memory: free, multiprocessors: bench.multiprocessors })?;
    let memory = buffers.alloc::<u8>("working memory", plan.num_bytes() as usize)?;
    let results = buffers.alloc("results", plan.results())?;
    let full = random(count);
    let bits: Vec<Canonical> = (0..count)
        .map(|i| match i % 64 {
            0 => full[i],
            k if k % 2 == 0 => Canonical::ONE,
            _ => Canonical::ZERO,
        })
        .collect();
    for (name, values) in [("uniform", full), ("98 % bits", bits)] {
        // SAFETY: slices of the arena, in one stream.
        let times = unsafe {
            bench.stream.upload(scalars, &values)?;
            let all = Chunk { points, table_stride: 0, scalars, index: None };
            let mut times = Vec::new();
            for run in 0..=RUNS {
                let start = bench.stream.record()?;
                Msm::new(&plan, &*bench.stream, memory)?.run(&all, results)?;
                let end = bench.stream.record()?;
                end.synchronize()?;
                if run > 0 {
                    times.push(end.milliseconds_since(&start)?);
                }
            }
            times.sort_by(f32::total_cmp);
            times
        };
        // SAFETY: as above.
        let found = plan.combine(&unsafe { bench.stream.download(results)? })?;
        let log = values.par_iter().zip(&logs).map(|(&s, &l)| Fr::from_canonical(s) * l);
        let log = log.reduce(|| Fr::ZERO, |a, b| a + b);
        let wanted = C::mul(&C::to_projective(&C::generator()), &log);
        let right = if found == wanted { "right" } else { "WRONG" };
        let windows = plan.windows();
        println!(
            "{} 2^{log_size} {name:<10} {:>9.2} ms ({:.2} to {:.2})  {right}; {} windows of {} bits, {} groups, chunks of {}, {:.2} GB",
            C::NAME,
            times[RUNS / 2],
            times[0],
            times[RUNS - 1],
            windows.count(),
            windows.width,
            plan.groups().count(),
            plan.chunk(),
            plan.num_bytes() as f64 / 1e9,
        );
        // SAFETY: as above.
        unsafe {
            let timed = Timed { stream: &bench.stream, launches: RefCell::default() };
            let all = Chunk { points, table_stride: 0, scalars, index: None };
            Msm::new(&plan, &timed, memory)?.run(&all, results)?;
            bench.stream.synchronize()?;
            let mut shares: BTreeMap<&str, (u32, f32)> = BTreeMap::new();
            let mut rounds = Vec::new();
            for (kernel, start, end) in timed.launches.borrow().iter() {
                let ms = end.milliseconds_since(start)?;
                let share = shares.entry(kernel).or_default();
                *share = (share.0 + 1, share.1 + ms);
                if *kernel == C::KERNELS.add_name() {
                    rounds.push(format!("{ms:.2}"));
                }
            }
            let text: Vec<String> = shares
                .iter()
                .map(|(kernel, (n, ms))| format!("{} {n}x {ms:.2}", kernel.trim_start_matches("cuzk_msm_")))
                .collect();
            println!("    {}", text.join(", "));
            println!("    additions by launch: {}", rounds.join(" "));
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = devices()?.into_iter().next().ok_or("there is no NVIDIA device")?;
    println!("{} {}, {} multiprocessors", device.name, device.uuid, device.multiprocessors);
    let context = Context::open(&device)?;
    let memory = context.memory()?.0 / 10 * 9;
    let arena = Arena::new(&context, memory)?;
    let stream = Stream::new(&context)?;
    let bench = Bench { stream, arena, multiprocessors: device.multiprocessors, memory };
    for log_size in [16, 20, 22, 24] {
        measure::<G1>(&bench, log_size)?;
    }
    for log_size in [16, 20, 22, 24] {
        measure::<G2>(&bench, log_size)?;
    }
    Ok(())
}
