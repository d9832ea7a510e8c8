//! The CPU backend: blst and rayon, in a pool of threads of its own.
use super::backend::{Backend, BackendError, Claim, ProofRequest};
use super::witness::PrivateWitness;
use crate::groth16::{CpuProver, ProvingKey, Stage};
use crate::r1cs::Circuit;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::time::Instant;

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

    fn is_host(&self) -> bool {
        true
    }

    fn working_bytes(&self, circuit: &Circuit, key: &ProvingKey) -> u64 {
        CpuProver::working_bytes(circuit, key, self.pool.current_num_threads())
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
