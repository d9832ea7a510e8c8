//! Whole proofs of two shapes, from a witness in page-locked host memory to the proof, key and circuit resident, with multiples where the device
//! has memory for them: one like Filecoin's
//! PoRep (nearly all values are bits, B touches a quarter of the variables), one of full-width values.
//!
//! Keys are points without a trapdoor between them, so nothing can verify these proofs: what makes proofs right is
//! tested elsewhere, and here every run must give the same bytes.
use crate::{
    machine::{Machine, RUNS, hash, median, mostly_bits, scalars},
    table::{self, Figures},
};
use cuzk::{
    algebra::{CancelToken, Canonical, Fr, G1, G2, PointStore, TwoAdicRoot},
    gpu::{
        driver::PinnedMapping,
        msm_plan::MsmDevice,
        points::DeviceCurve,
        prover::{LoadPlan, Loaded, ProofJob, Upload},
    },
    groth16::{
        HBasis, ProvingKey, Query, Randomness, Stage, Timeline, VerifyingKey,
        key::{a_variables, b_variables},
    },
    r1cs::{Circuit, CircuitBuilder, WitnessEncoding},
};
use std::{collections::HashMap, error::Error, ptr::NonNull, time::Instant};

/// Public inputs, ONE included.
const INPUTS: usize = 30;

/// What proofs are made of.
struct Shape {
    name: &'static str,
    /// Of a thousand variables, how many A and B touch.
    density: [u64; 2],
    values: fn(usize) -> Vec<Canonical>,
    peer: Figures,
}

const SHAPES: [Shape; 2] = [
    Shape { name: "PoRep-like", density: [997, 254], values: mostly_bits, peer: table::PROOF_OF_BITS },
    Shape { name: "dense", density: [900, 500], values: scalars, peer: table::PROOF_DENSE },
];

impl Shape {
    /// As many constraints as auxiliary variables, 0.97 of the domain; A has 2.4 entries a row, B one.
    fn circuit(&self, log_size: u32) -> Result<Circuit, Box<dyn Error>> {
        let rows = (1usize << log_size) / 100 * 97;
        let mut builder = CircuitBuilder::new(INPUTS, rows);
        let variables = (INPUTS + rows) as u64;
        let touched = self.density.map(|d| variables * d / 1000);
        let coefficients: Vec<Fr> = (1..100).map(Fr::from_u64).chain([-Fr::ONE]).collect();
        let term = |column: u64, matrix: usize, seed: u64| {
            let choice = if seed.is_multiple_of(10) { 1 + seed / 10 % 99 } else { 0 };
            ((column % touched[matrix]) as u32, coefficients[choice as usize])
        };
        for row in 0..rows as u64 {
            let near = |k: u64| (row + variables - hash(4 * row + k) % 1000) % variables;
            let seed = hash(!row);
            let mut a = vec![term(row, 0, seed), term(near(1), 0, seed >> 8)];
            if row % 5 < 2 {
                a.push(term(near(2), 0, seed >> 16));
            }
            builder.constraint(&a, &[term(row, 1, seed >> 24)], &[])?;
        }
        Ok(builder.finish_without_c()?)
    }
}

/// A key of the circuit's shape.
fn key(machine: &Machine, circuit: &Circuit, log_size: u32) -> Result<ProvingKey, Box<dyn Error>> {
    fn points<C: DeviceCurve>(machine: &Machine, count: usize) -> Result<Vec<C::Affine>, Box<dyn Error>> {
        let mut buffers = machine.buffers();
        let (points, _) = buffers.points::<C>(count)?;
        // SAFETY: a slice of the arena, after the work that made it.
        Ok(unsafe { machine.stream.download(points)? })
    }
    let in_g1 = points::<G1>(machine, 1 << log_size)?;
    let (a, b) = (a_variables(circuit), b_variables(circuit));
    let some = |count: usize| PointStore::<G1>::Owned(in_g1[..count].to_vec());
    let (one, two) = (in_g1[0], points::<G2>(machine, 1)?[0]);
    Ok(ProvingKey {
        vk: VerifyingKey {
            alpha_g1: one,
            beta_g1: Some(one),
            beta_g2: two,
            gamma_g2: two,
            delta_g1: Some(one),
            delta_g2: two,
            ic: vec![one; INPUTS],
        },
        beta_g1: one,
        delta_g1: one,
        h: some((1 << log_size) - 1),
        h_basis: HBasis::Monomial,
        root: TwoAdicRoot::Seven,
        l: some(circuit.num_aux()),
        a: Query::filtered("a", some(a.len()), a.clone())?,
        b_g1: Query::filtered("b_g1", some(b.len()), b.clone())?,
        b_g2: Query::filtered("b_g2", PointStore::Owned(points::<G2>(machine, b.len())?), b.clone())?,
        id: [0; 32],
    })
}

pub fn measure(machine: &Machine, log_size: u32) -> Result<(), Box<dyn Error>> {
    for shape in SHAPES {
        let circuit = shape.circuit(log_size)?;
        let key = key(machine, &circuit, log_size)?;
        let mut z = (shape.values)(circuit.num_variables());
        z[0] = Canonical::ONE;
        prove(machine, &shape, log_size, &circuit, &key, &z)?;
    }
    Ok(())
}

fn prove(
    machine: &Machine,
    shape: &Shape,
    log_size: u32,
    circuit: &Circuit,
    key: &ProvingKey,
    z: &[Canonical],
) -> Result<(), Box<dyn Error>> {
    let stream = &*machine.stream;
    let mut buffers = machine.buffers();
    let memory = buffers.alloc::<u8>("all", machine.arena.capacity() as usize / 256 * 256)?;
    let never = CancelToken::new();
    let limits = MsmDevice { memory: memory.len() as u64, multiprocessors: machine.info.multiprocessors };
    let planned = LoadPlan::new(circuit, key, limits)?.fastest(limits)?;
    let resident = planned.plan().resident_bytes() as usize;
    let parts = memory.slice(0..resident).zip(memory.slice(resident..memory.len()));
    let parts = parts.ok_or("a plan larger than the memory")?;
    // SAFETY: memory of the arena, which nothing else uses while it is lent.
    let loaded = unsafe { Loaded::planned(stream, planned, parts, circuit, key, &never)? };
    let witness: Vec<u8> = z.iter().flat_map(|value| value.to_le_bytes()).collect();
    // Page-locked, as the daemon's leases are.
    let source = NonNull::from(&witness[..]).cast::<u8>();
    // SAFETY: the vector outlives the result, declared after it, and does not grow.
    let _pinned =
        unsafe { PinnedMapping::new(stream.context(), source.as_ptr().cast(), witness.len(), false)? };
    let (mut whole, mut stages): (Vec<f64>, HashMap<Stage, Vec<f64>>) = Default::default();
    let mut first = None;
    for run in 0..RUNS + 2 {
        let mut timeline = Timeline::new();
        let job = ProofJob {
            circuit,
            key,
            encoding: WitnessEncoding::Canonical,
            witness: &&witness[..],
            upload: Upload::Direct(source),
            randomness: Randomness::fixed_for_tests(Fr::from_u64(5), Fr::from_u64(7)),
            cancel: &never,
            timeline: &mut timeline,
            on_stage: &mut |_| {},
        };
        let began = Instant::now();
        // SAFETY: the stream, the circuit and the key that were loaded.
        let (proof, _) = unsafe { loaded.prove(stream, job)? };
        let took = began.elapsed().as_secs_f64() * 1e3;
        if *first.get_or_insert(proof) != proof {
            return Err(format!("run {run} of one {} job gave another proof", shape.name).into());
        }
        if run >= 2 {
            whole.push(took);
            for span in timeline.spans {
                stages.entry(span.stage).or_default().push(span.duration.as_secs_f64() * 1e3);
            }
        }
    }
    let sum = |variables: Option<&[u32]>, g2: bool| {
        let scalar = |i: usize| variables.map_or(z[i], |variables| z[variables[i] as usize]);
        let count = variables.map_or(z.len(), <[u32]>::len);
        let ones = (0..count).filter(|&i| scalar(i) == Canonical::ONE).count();
        let zeros = (0..count).filter(|&i| scalar(i) == Canonical::ZERO).count();
        table::sum((count - ones - zeros) as f64, ones as f64, g2)
    };
    let entries = (circuit.a().entries() + circuit.b().entries()) as f64;
    let [a, b] = [key.a.variables(), key.b_g1.variables()].map(|query| query.map(|v| &**v));
    let size = f64::from(log_size).exp2();
    let mut total = 0.0;
    for (stage, floor) in [
        (Stage::Copy, table::bus(witness.len() as f64)),
        (Stage::Evaluate, table::memory(6.0 * entries + 104.0 * size).max(table::fr(entries))),
        (Stage::Quotient, 6.0 * table::transform(log_size)),
        (Stage::MsmH, table::sum(size, 0.0, false)),
        (Stage::MsmL, sum(None, false)),
        (Stage::MsmA, sum(a, false)),
        (Stage::MsmB1, sum(b, false)),
        (Stage::MsmB2, sum(b, true)),
        (Stage::Assemble, 0.0),
    ] {
        total += floor;
        let ms = median(stages.remove(&stage).unwrap_or_default());
        table::print_row(&format!("{} proof: {}", shape.name, stage.name()), log_size, ms, floor, &[]);
    }
    table::print_row(&format!("{} proof", shape.name), log_size, median(whole), total, shape.peer);
    Ok(())
}
