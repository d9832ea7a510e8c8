//! The steps before the sums: the constraints' values, transforms, the quotient.
use crate::{
    machine::{Machine, hash, scalars},
    table,
};
use cuzk::{
    algebra::{Canonical, Fr, TwoAdicRoot},
    gpu::{
        DeviceSlice, GpuError,
        ntt::{Coset, RootTable, Roots, Transform},
        quotient::{Buffers, quotient},
        spmv::{DeviceMatrix, evaluate},
    },
    groth16::HBasis,
};
use rayon::prelude::*;
use std::error::Error;

/// Different coefficients; the first two stand for ±1 and are nine of ten.
const COEFFICIENTS: usize = 1 << 10;
/// Entries of A and of B in each eight rows, as in a circuit of hash functions.
const ENTRIES: [usize; 2] = [19, 8];

/// A matrix of the host: rows of nearly equal length, columns near the diagonal.
struct Synthetic {
    offsets: Vec<u32>,
    columns: Vec<u32>,
    indices: Vec<u16>,
}

impl Synthetic {
    fn new(rows: usize, eighths: usize) -> Self {
        let entries = rows / 8 * eighths;
        let column = |e: usize| ((e * 8 / eighths) as u32).saturating_sub((hash(e as u64) % 1000) as u32);
        let index = |e: usize| match hash(!(e as u64)) {
            h if h % 10 > 0 => (h >> 8) as u16 % 2,
            h => 2 + (h >> 8) as u16 % (COEFFICIENTS as u16 - 2),
        };
        Self {
            offsets: (0..=rows).map(|row| (row * eighths / 8) as u32).collect(),
            columns: (0..entries).into_par_iter().map(column).collect(),
            indices: (0..entries).into_par_iter().map(index).collect(),
        }
    }
}

pub fn measure(machine: &Machine, log_size: u32) -> Result<(), Box<dyn Error>> {
    let size = 1usize << log_size;
    let stream = &*machine.stream;
    let mut buffers = machine.buffers();
    let roots = Roots::new(buffers.upload("roots", &RootTable::compute(TwoAdicRoot::Seven))?)?;
    let values = scalars(size);
    let [a, b, c]: [DeviceSlice<Canonical>; 3] =
        [buffers.upload("a", &values)?, buffers.upload("b", &values)?, buffers.upload("c", &values)?];
    let transform = Transform::new(roots, log_size)?;

    // Offsets of 32 bits: beyond that a real circuit has wide ones, and the host would take minutes.
    if log_size <= 24 {
        let coefficients: Vec<Fr> = values[..COEFFICIENTS].iter().map(|v| Fr::from_canonical(*v)).collect();
        let coefficients = buffers.upload("coefficients", &coefficients)?;
        let mut entries = 0;
        let mut matrices = Vec::new();
        for eighths in ENTRIES {
            let matrix = Synthetic::new(size, eighths);
            entries += matrix.columns.len();
            let (offsets, indices) =
                (buffers.upload("offsets", &matrix.offsets)?, buffers.upload("indices", &matrix.indices)?);
            matrices.push(DeviceMatrix {
                // SAFETY: the same memory as bytes.
                offsets: unsafe { DeviceSlice::from_raw(offsets.address(), offsets.num_bytes()) },
                columns: buffers.upload("columns", &matrix.columns)?,
                // SAFETY: as above.
                indices: unsafe { DeviceSlice::from_raw(indices.address(), indices.num_bytes()) },
                segments: DeviceSlice::empty(),
                long_rows: DeviceSlice::empty(),
                segment_sums: DeviceSlice::empty(),
                rows: size as u64,
                first_entry: 0,
            });
        }
        let [in_a, in_b] = [&matrices[0], &matrices[1]];
        // SAFETY: slices of the arena, in one stream.
        let run = || unsafe { evaluate(stream, [in_a, in_b], coefficients, c, [a, b]) };
        // Entries, ends of rows, the witness and both results, once each.
        let bytes = 6.0 * entries as f64 + (8.0 + 96.0) * size as f64;
        let floor = table::memory(bytes).max(table::fr(entries as f64));
        table::print_row("values of the constraints", log_size, machine.time(run)?, floor, &[]);
    }
    for (name, coset) in [("domain", Coset::Domain), ("odd coset", Coset::Odd)] {
        // SAFETY: slices of the arena, in one stream.
        let forward = machine.time(|| unsafe { transform.forward(stream, coset, a, c) })?;
        // SAFETY: as above.
        let inverse = machine.time(|| unsafe { transform.inverse(stream, coset, a, c) })?;
        let floor = table::transform(log_size);
        table::print_row(&format!("forward transform, {name}"), log_size, forward, floor, table::SPPARK_NTT);
        table::print_row(&format!("inverse transform, {name}"), log_size, inverse, floor, table::SPPARK_NTT);
    }
    for (name, basis) in [("bellman", HBasis::Monomial), ("snarkjs", HBasis::CosetLagrange)] {
        let run = || -> Result<(), GpuError> {
            // SAFETY: as above.
            unsafe { quotient(stream, &transform, basis, Buffers { a, b, c }) }.map(drop)
        };
        let floor = 6.0 * table::transform(log_size);
        let step = format!("quotient for {name}'s keys");
        table::print_row(&step, log_size, machine.time(run)?, floor, table::SPPARK_QUOTIENT);
    }
    Ok(())
}
