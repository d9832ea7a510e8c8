//! The CPU backend: blst and rayon, in a pool of threads of its own.
use super::backend::{Backend, BackendError, Claim, ProofRequest};
use super::witness::PrivateWitness;
use crate::groth16::{CpuProver, ProvingKey, Stage};
use crate::r1cs::Circuit;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::time::Instant;

/// What a multi-exponentiation takes at most for each point of a tile, for its buckets, and for each thread.
/// Ample: what a proof takes beyond it, the budget does not know.
const TILE_POINTS: u64 = (1 << 17) + (1 << 12);
const BYTES_PER_POINT: u64 = 640;
const BUCKET_BYTES_PER_POINT: u64 = 400;
const MAX_BUCKET_BYTES: u64 = 100 << 20;
const BYTES_PER_THREAD: u64 = 1 << 20;

/// The CPU as a prover.
pub struct CpuBackend {
    pool: ThreadPool,
    why: String,
}

impl CpuBackend {
    /// A prover with so many threads; `why` says why it is the CPU that proves.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn new(threads: usize, why: impl Into<String>) -> Result<Self, ThreadPoolBuildError> {
        let pool =
            ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("prove-{i}")).build()?;
        Ok(Self { pool, why: why.into() })
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &str {
        "cpu"
    }

    fn why(&self) -> &str {
        &self.why
    }

    /// z, and a, b, c on the domain, 32 bytes a value; and what the transforms' roots or, later, the
    /// multi-exponentiations take.
    fn working_bytes(&self, circuit: &Circuit, key: &ProvingKey) -> u64 {
        let variables = circuit.num_variables() as u64;
        let domain = key.domain(circuit).map_or(0, |domain| domain.size() as u64);
        let points = variables.max(domain);
        let values = 32 * (variables + 3 * domain);
        let tile = BYTES_PER_POINT * points.min(TILE_POINTS);
        let buckets = (BUCKET_BYTES_PER_POINT * points).min(MAX_BUCKET_BYTES);
        values + (16 * domain).max(tile + buckets) + BYTES_PER_THREAD * self.pool.current_num_threads() as u64
    }

    fn prove(&self, request: ProofRequest<'_>) -> Result<Claim, BackendError> {
        let ProofRequest { circuit, key, witness, randomness, cancel, timeline, on_stage, .. } = request;
        self.pool.install(|| {
            on_stage(Stage::Copy);
            let began = Instant::now();
            let z = PrivateWitness::read(witness, circuit, cancel)?;
            timeline.record(Stage::Copy, began);
            let mut on_stage = |stage| on_stage(stage);
            let proof =
                CpuProver::prove(circuit, key, z.values(), randomness, cancel, timeline, &mut on_stage)?;
            Ok(Claim { proof, inputs: z.values()[1..circuit.num_inputs()].to_vec() })
        })
    }
}
