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
        spmv::{DeviceMatrix, evaluate},
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

/// A matrix with an eighth of `eighths` entries a row, all in rows of 1 to 4, nine of ten coefficients ±1,
/// columns near the diagonal: what a circuit of hash functions looks like.
struct Synthetic {
    eighths: usize,
    offsets: DeviceSlice<u32>,
    columns: DeviceSlice<u32>,
    indices: DeviceSlice<u16>,
}

impl Synthetic {
    const ROWS: usize = 1 << 24;

    /// Entries of the first `rows` rows, which come in groups of eight.
    fn entries(eighths: usize, rows: usize) -> usize {
        rows / 8 * eighths
    }

    fn upload(bench: &mut Bench, eighths: usize) -> Result<Self, GpuError> {
        let entries = Self::entries(eighths, Self::ROWS);
        let offsets: Vec<u32> = (0..=Self::ROWS).map(|row| (row * eighths / 8) as u32).collect();
        let mut state = 1u64;
        let mut random = move |below: u32| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32 % below
        };
        let columns: Vec<u32> =
            (0..entries).map(|e| ((e * 8 / eighths) as u32).saturating_sub(random(1000))).collect();
        let indices: Vec<u16> = (0..entries)
            .map(|_| if random(10) > 0 { random(2) as u16 } else { 2 + random(1000) as u16 })
            .collect();
        let uploaded = Self {
            eighths,
            offsets: bench.alloc("offsets", offsets.len())?,
            columns: bench.alloc("columns", entries)?,
            indices: bench.alloc("indices", entries)?,
        };
        // SAFETY: slices of the arena.
        unsafe {
            bench.stream.upload(uploaded.offsets, &offsets)?;
            bench.stream.upload(uploaded.columns, &columns)?;
            bench.stream.upload(uploaded.indices, &indices)?;
        }
        Ok(uploaded)
    }

    /// Its first `rows` rows.
    fn rows(&self, rows: usize) -> Result<DeviceMatrix, &'static str> {
        let entries = Self::entries(self.eighths, rows);
        // SAFETY: the same memory as bytes.
        let bytes = |address, len| unsafe { DeviceSlice::from_raw(address, len) };
        Ok(DeviceMatrix {
            offsets: bytes(self.offsets.address(), 4 * (rows + 1)),
            columns: self.columns.slice(0..entries).ok_or("too few columns")?,
            indices: bytes(self.indices.address(), 2 * entries),
            segments: DeviceSlice::empty(),
            long_rows: DeviceSlice::empty(),
            segment_sums: DeviceSlice::empty(),
            rows: rows as u64,
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = devices()?.into_iter().next().ok_or("there is no NVIDIA device")?;
    println!("{} {}, {} multiprocessors", device.name, device.uuid, device.multiprocessors);
    let context = Context::open(&device)?;
    // Three vectors of the largest size, the roots, and two matrices.
    let largest = (20..=27).rev().find(|l| (96u64 << l) + (1 << 30) < device.memory).unwrap_or(20);
    let arena = Arena::new(&context, (96 << largest) + (1 << 30))?;
    let stream = Stream::new(&context)?;
    let mut bench = Bench { stream, arena, planner: Planner::new(), regions: Vec::new() };
    let table = bench.alloc("roots", RootTable::LEN)?;
    // SAFETY: a slice of the arena.
    unsafe { bench.stream.upload(table, &RootTable::compute(TwoAdicRoot::Seven))? };
    let roots = Roots::new(table)?;
    let vectors: [DeviceSlice<Canonical>; 3] =
        [bench.alloc("a", 1 << largest)?, bench.alloc("b", 1 << largest)?, bench.alloc("c", 1 << largest)?];
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
    let matrices = [Synthetic::upload(&mut bench, 19)?, Synthetic::upload(&mut bench, 8)?];
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
            let ms = bench.time(|| field::arithmetic(&*bench.stream, &operands))?;
            row("sum, difference, product", ms, nf, nf * 160.0);
            if n <= Synthetic::ROWS {
                let [in_a, in_b] = [matrices[0].rows(n)?, matrices[1].rows(n)?];
                let entries = (in_a.columns.len() + in_b.columns.len()) as f64;
                let coefficients = table.slice(0..1 << 10).ok_or("too short")?;
                let ms = bench.time(|| evaluate(&*bench.stream, [&in_a, &in_b], coefficients, c, [a, b]))?;
                row("constraints", ms, entries, entries * 38.0 + nf * 72.0);
            }
            for (name, coset) in [("domain", Coset::Domain), ("odd coset", Coset::Odd)] {
                let ms = bench.time(|| transform.forward(&*bench.stream, coset, a, b))?;
                row(&format!("forward transform, {name}"), ms, half, nf * 64.0 * passes);
                let ms = bench.time(|| transform.inverse(&*bench.stream, coset, a, b))?;
                row(&format!("inverse transform, {name}"), ms, half, nf * 64.0 * passes);
            }
            for basis in [HBasis::Monomial, HBasis::CosetLagrange] {
                let buffers = Buffers { a, b, c };
                let ms = bench.time(|| quotient(&*bench.stream, &transform, basis, buffers).map(drop))?;
                row(&format!("quotient, {basis:?}"), ms, 6.0 * half, nf * 64.0 * 6.0 * passes);
            }
        }
    }
    Ok(())
}
