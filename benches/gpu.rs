//! The device's steps by size: median time, and the floor that the memory's and the multiplier's rates set.
//! Prints one table. Needs a machine with an NVIDIA device.
use cuzk::{
    algebra::{Canonical, Fr, TwoAdicRoot},
    gpu::{
        DeviceSlice, GpuError,
        arena::{Arena, Region},
        device::devices,
        driver::{Context, Stream},
        field::{self, Operands},
        ntt::{Coset, RootTable, Roots, Transform},
        plan::Planner,
        quotient::{Buffers, quotient},
    },
    groth16::HBasis,
};
use std::sync::Arc;

/// Runs of a step after two to warm up.
const RUNS: usize = 9;

struct Bench {
    stream: Arc<Stream>,
    arena: Arc<Arena>,
    planner: Planner,
    regions: Vec<Region>,
}

impl Bench {
    fn alloc<T>(&mut self, name: &'static str, len: usize) -> Result<DeviceSlice<T>, GpuError> {
        let region = self.arena.claim(self.planner.claim::<T>(name, len as u64)?, &self.stream)?;
        let slice = region.slice(len)?;
        self.regions.push(region);
        Ok(slice)
    }

    /// Median milliseconds of `step`.
    fn time(&self, mut step: impl FnMut() -> Result<(), GpuError>) -> Result<f32, GpuError> {
        let mut times = Vec::new();
        for run in 0..RUNS + 2 {
            let start = self.stream.record()?;
            step()?;
            let end = self.stream.record()?;
            end.synchronize()?;
            if run >= 2 {
                times.push(end.milliseconds_since(&start)?);
            }
        }
        times.sort_by(f32::total_cmp);
        Ok(times[RUNS / 2])
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = devices()?.into_iter().next().ok_or("there is no NVIDIA device")?;
    println!("{} {}, {} multiprocessors", device.name, device.uuid, device.multiprocessors);
    let context = Context::open(&device)?;
    // Three vectors of the largest size, and the roots.
    let largest = (20..=27).rev().find(|l| (96u64 << l) + (1 << 28) < device.memory).unwrap_or(20);
    let arena = Arena::new(&context, (96 << largest) + (1 << 28))?;
    let stream = Stream::new(&context)?;
    let mut bench = Bench { stream, arena, planner: Planner::new(), regions: Vec::new() };
    let table = bench.alloc("roots", RootTable::LEN)?;
    // SAFETY: a slice of the arena.
    unsafe { bench.stream.upload(table, &RootTable::compute(TwoAdicRoot::Seven))? };
    let roots = Roots::new(table)?;
    let vectors: [DeviceSlice<Canonical>; 3] = [
        bench.alloc("a", 1 << largest)?,
        bench.alloc("b", 1 << largest)?,
        bench.alloc("c", 1 << largest)?,
    ];
    // Full-width values everywhere.
    let chunk: Vec<Canonical> = std::iter::successors(Some(Fr::from_u64(3)), |x| Some(*x * *x + Fr::ONE))
        .map(Fr::to_canonical)
        .take(1 << 16)
        .collect();
    for vector in vectors {
        for i in 0..(1usize << largest) >> 16 {
            let part = vector.slice(i << 16..(i + 1) << 16).ok_or("a chunk beyond its vector")?;
            // SAFETY: a slice of the arena.
            unsafe { bench.stream.upload(part, &chunk)? };
        }
    }
    println!("{:<34} {:>6} {:>10} {:>10} {:>8}", "step", "size", "ms", "G/s", "TB/s");
    for log_size in [16, 18, 20, 22, 24, 26, 27].into_iter().filter(|&l| l <= largest) {
        let n = 1usize << log_size;
        let [a, b, c] = vectors.map(|v| v.slice(0..n));
        let (a, b, c) = (a.ok_or("too short")?, b.ok_or("too short")?, c.ok_or("too short")?);
        let transform = Transform::new(roots, log_size)?;
        let row = |name: &str, ms: f32, products: f64, bytes: f64| {
            println!(
                "{name:<34} {:>6} {ms:>10.4} {:>10.2} {:>8.3}",
                format!("2^{log_size}"),
                products / f64::from(ms) / 1e6,
                bytes / f64::from(ms) / 1e9
            );
        };
        let (nf, half) = (n as f64, (n as f64) * f64::from(log_size) / 2.0);
        let passes = f64::from(log_size.div_ceil(9));
        let operands = Operands { left: a, right: b, sum: c, difference: c, product: c };
        // SAFETY: slices of the arena, in one stream.
        unsafe {
            let ms = bench.time(|| field::arithmetic(&bench.stream, &operands))?;
            row("sum, difference, product", ms, nf, nf * 160.0);
            for (name, coset) in [("domain", Coset::Domain), ("odd coset", Coset::Odd)] {
                let ms = bench.time(|| transform.forward(&bench.stream, coset, a, b))?;
                row(&format!("forward transform, {name}"), ms, half, nf * 64.0 * passes);
                let ms = bench.time(|| transform.inverse(&bench.stream, coset, a, b))?;
                row(&format!("inverse transform, {name}"), ms, half, nf * 64.0 * passes);
            }
            for basis in [HBasis::Monomial, HBasis::CosetLagrange] {
                let buffers = Buffers { a, b, c };
                let ms = bench.time(|| quotient(&bench.stream, &transform, basis, buffers).map(drop))?;
                row(&format!("quotient, {basis:?}"), ms, 6.0 * half, nf * 64.0 * 6.0 * passes);
            }
        }
    }
    Ok(())
}
