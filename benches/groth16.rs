//! Whole proofs, from a circuit's values to the proof, against bellman (crate groth16) and ark-groth16,
//! under one key each and in interleaved runs of one process. Every proof is verified.
//!
//! `cargo bench --bench groth16 [-- NAME…]` runs the circuits whose names contain a NAME. For each
//! prover it prints the medians of CPU time (all threads) and wall time and the peak of resident memory
//! above what was resident before, and for ours the ratios with the bars that they must not pass.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "a program for developers: a panic is the report"
)]
#[path = "../tests/support/arkworks.rs"]
mod ark;
#[path = "../tests/support/mimc.rs"]
mod mimc;
#[path = "../tests/support/sapling.rs"]
mod statements;

use ark_bls12_381::{Bls12_381, Fr as ArkFr};
use ark_ff::PrimeField;
use ark_groth16::Groth16;
use ark_snark::SNARK;
use ark_std::rand::{SeedableRng as _, rngs::StdRng as ArkRng};
use bls12_381::{Bls12, Scalar};
use cuzk::{
    algebra::{CancelToken, Canonical},
    formats::bellman::open_params,
    groth16::{CpuProver, PreparedVerifyingKey, Proof, ProvingKey, Randomness, Timeline},
    r1cs::{
        Circuit, WitnessRegion,
        recorder::{record_bellman, write_bellman_witness},
    },
};
use nix::sys::resource::{UsageWho, getrusage};
use rand::{SeedableRng as _, rngs::StdRng};
use sapling_crypto::circuit::SpendParameters;
use std::time::{Duration, Instant};

/// What one run of a prover took.
#[derive(Clone, Copy)]
struct Cost {
    cpu: Duration,
    wall: Duration,
    /// Peak of resident bytes above those before.
    memory: u64,
}

/// User and system time of all threads so far.
fn cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("getrusage of oneself");
    [usage.user_time(), usage.system_time()]
        .into_iter()
        .map(|t| Duration::from_secs(t.tv_sec() as u64) + Duration::from_micros(t.tv_usec() as u64))
        .sum()
}

/// A field of /proc/self/status, in bytes.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field of status");
    let kib: u64 = line.trim_matches(|c: char| !c.is_ascii_digit()).parse().expect("a number of KiB");
    kib * 1024
}

fn measured<T>(run: impl FnOnce() -> T) -> (T, Cost) {
    // What an earlier run has freed must not count as resident before this one.
    // SAFETY: it only returns free memory to the system; there is no precondition.
    unsafe { libc::malloc_trim(0) };
    // "5" resets the peak to what is resident now.
    std::fs::write("/proc/self/clear_refs", "5").expect("/proc is mounted");
    let before = memory("VmRSS:");
    let (cpu, wall) = (cpu_time(), Instant::now());
    let result = run();
    let cost =
        Cost { wall: wall.elapsed(), cpu: cpu_time() - cpu, memory: memory("VmHWM:").saturating_sub(before) };
    (result, cost)
}

fn median(costs: &[Cost]) -> Cost {
    fn middle<T: Ord + Copy>(costs: &[Cost], of: impl Fn(&Cost) -> T) -> T {
        let mut values: Vec<T> = costs.iter().map(of).collect();
        values.sort();
        values[values.len() / 2]
    }
    Cost {
        cpu: middle(costs, |c| c.cpu),
        wall: middle(costs, |c| c.wall),
        memory: middle(costs, |c| c.memory),
    }
}

fn report(name: &str, peer: &str, bar: f64, theirs: &[Cost], ours: &[Cost]) {
    let (theirs, ours) = (median(theirs), median(ours));
    let line = |prover: &str, cost: Cost| {
        println!(
            "{name:<16} {prover:<12} {:>8.3} s CPU {:>8.3} s wall {:>7.1} MiB",
            cost.cpu.as_secs_f64(),
            cost.wall.as_secs_f64(),
            cost.memory as f64 / f64::from(1 << 20),
        );
    };
    line(peer, theirs);
    line("cuzk", ours);
    let ratios = [("CPU", ours.cpu, theirs.cpu), ("wall", ours.wall, theirs.wall)];
    for (what, ours, theirs) in ratios {
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        let verdict = if ratio <= bar { "met" } else { "MISSED" };
        println!("{name:<16} {what:<12} {ratio:>8.3} of {peer}'s; bar {bar}: {verdict}");
    }
}

/// Our side of every comparison.
struct Ours {
    circuit: Circuit,
    key: ProvingKey,
    verifier: PreparedVerifyingKey,
}

impl Ours {
    fn new(blank: impl bellman::Circuit<Scalar>, params: &[u8]) -> Self {
        let circuit = record_bellman(blank).expect("a circuit");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("params");
        std::fs::write(&path, params).expect("room for the parameters");
        let key = open_params(&path, &circuit).expect("parameters of the circuit");
        let verifier = PreparedVerifyingKey::new(&key.vk);
        Self { circuit, key, verifier }
    }

    /// The proof and the public inputs, from the circuit's values, as the peers' provers start.
    fn prove(
        &self,
        instance: impl bellman::Circuit<Scalar>,
        timeline: &mut Timeline,
    ) -> (Proof, Vec<Canonical>) {
        let mut memory = vec![0; 32 * self.circuit.num_variables()];
        let (inputs, aux) = (self.circuit.num_inputs(), self.circuit.num_aux());
        let mut region = WitnessRegion::from_slice(&mut memory, inputs, aux).expect("memory of this size");
        write_bellman_witness(instance, &mut region).expect("the circuit's witness");
        let z: Vec<Canonical> = memory
            .as_chunks::<32>()
            .0
            .iter()
            .map(|v| Canonical::from_le_bytes(v).expect("a field element"))
            .collect();
        drop(memory);
        let randomness = Randomness::from_os().expect("randomness");
        let proof = CpuProver::prove(
            &self.circuit,
            &self.key,
            &z,
            randomness,
            &CancelToken::new(),
            timeline,
            &mut |_| {},
        );
        (proof.expect("a proof"), z[1..inputs].to_vec())
    }

    fn measured(&self, name: &str, instance: impl bellman::Circuit<Scalar>) -> (Proof, Vec<Canonical>, Cost) {
        let mut timeline = Timeline::new();
        let ((proof, inputs), cost) = measured(|| self.prove(instance, &mut timeline));
        self.verifier.verify(&proof, &inputs).expect("our verifier accepts");
        let stages: Vec<String> = timeline
            .spans
            .iter()
            .map(|span| format!("{} {:.0}", span.stage.name(), span.duration.as_secs_f64() * 1e3))
            .collect();
        println!("{name:<16} ms: {}", stages.join(", "));
        (proof, inputs, cost)
    }
}

fn sapling_spend(runs: usize) {
    let (bytes, _) = wagyu_zcash_parameters::load_sapling_parameters();
    let theirs = groth16::Parameters::<Bls12>::read(&bytes[..], false).expect("the ceremony's parameters");
    let zcash = SpendParameters::read(&bytes[..], false).expect("the ceremony's parameters");
    let ours = Ours::new(statements::blank_spend(), &bytes);
    drop(bytes);
    let rng = &mut StdRng::seed_from_u64(1);
    let (mut their_costs, mut our_costs) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let (instance, check) = statements::spend(&zcash, rng);
        let (proof, cost) =
            measured(|| groth16::create_random_proof(instance.clone(), &theirs, &mut *rng).expect("a proof"));
        their_costs.push(cost);
        let mut bytes = Vec::new();
        proof.write(&mut bytes).expect("writing to a vector");
        assert!(check(bytes[..].try_into().expect("192 bytes")), "a Zcash node accepts bellman's proof");
        let (proof, _, cost) = ours.measured("Sapling Spend", instance);
        our_costs.push(cost);
        assert!(check(&proof.to_bytes()), "a Zcash node accepts our proof");
    }
    report("Sapling Spend", "bellman", 0.45, &their_costs, &our_costs);
}

/// A chain of 2^log constraints.
fn mimc_chain(name: &str, log: u32, runs: usize) {
    let blank = mimc::Mimc { start: None, rounds: 1 << (log - 1) };
    let rng = &mut ArkRng::seed_from_u64(2);
    let (theirs, their_vk) = Groth16::<Bls12_381>::circuit_specific_setup(blank.clone(), rng)
        .expect("a key of arkworks' own setup");
    let ours = Ours::new(blank.clone(), &ark::params(&theirs));
    let (mut their_costs, mut our_costs) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let instance = mimc::Mimc { start: Some(run as u64), ..blank };
        let (their_proof, cost) =
            measured(|| Groth16::<Bls12_381>::prove(&theirs, instance.clone(), rng).expect("a proof"));
        their_costs.push(cost);
        let (our_proof, inputs, cost) = ours.measured(name, instance);
        our_costs.push(cost);
        let their_inputs: Vec<ArkFr> =
            inputs.iter().map(|v| ArkFr::from_le_bytes_mod_order(&v.to_le_bytes())).collect();
        for proof in [their_proof, ark::proof(&our_proof.to_bytes())] {
            assert!(Groth16::<Bls12_381>::verify(&their_vk, &their_inputs, &proof).expect("a check"));
        }
    }
    report(name, "ark-groth16", 0.7, &their_costs, &our_costs);
}

fn main() {
    // Cargo passes --bench.
    let names: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|n| name.contains(n.as_str()));
    println!("{} threads", rayon::current_num_threads());
    if wanted("Sapling Spend") {
        sapling_spend(5);
    }
    for (name, log, runs) in [("MiMC 2^16", 16, 5), ("MiMC 2^18", 18, 3)] {
        if wanted(name) {
            mimc_chain(name, log, runs);
        }
    }
}
