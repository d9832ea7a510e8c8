//! Proving in this process.
use super::{
    Prove,
    report::{Proved, ProvedPartition, StageTime},
};
use crate::{
    algebra::{CancelToken, Canonical},
    catalog::Material,
    cli::{Exit, Failure, Output, circuit::validate, output::hex},
    formats::iden3_wtns::Wtns,
    groth16::{
        CpuProver, PreparedVerifyingKey, Randomness, Stage, Timeline, VerifiedProof, verifier::VerifyError,
    },
    r1cs::Circuit,
};
use std::{path::Path, time::Instant};

/// Proves each witness with the key in the file `key`.
pub fn prove(verb: &Prove, key: &Path, output: Output) -> Result<Proved, Failure> {
    let prover = Local::open(verb, key, output)?;
    let mut partitions = Vec::with_capacity(verb.witness.len());
    for path in &verb.witness {
        partitions.push(prover.partition(path, output)?);
    }
    Ok(Proved {
        job: None,
        circuit: None,
        circuit_id: hex(&prover.material.circuit.id()),
        key_id: hex(&prover.material.key.id),
        backend: "cpu".into(),
        build: crate::BUILD_ID.into(),
        partitions,
    })
}

struct Local {
    material: Material,
    verifier: PreparedVerifyingKey,
}

impl Local {
    fn open(verb: &Prove, key: &Path, output: Output) -> Result<Self, Failure> {
        let material = Material::open(key, verb.circuit_file.as_deref())?;
        validate(&material.key, key, verb.validated.as_deref(), output)?;
        let verifier = PreparedVerifyingKey::new(&material.key.vk);
        Ok(Self { material, verifier })
    }

    fn partition(&self, path: &Path, output: Output) -> Result<ProvedPartition, Failure> {
        let Material { circuit, key } = &self.material;
        let z = Wtns::open(path)?.read_whole(circuit.num_variables())?;
        let randomness = Randomness::from_os().map_err(Failure::internal)?;
        let mut timeline = Timeline::new();
        let progress = output.spinner("proving");
        let mut on_stage = |stage: Stage| progress.set_message(stage.name());
        let proof =
            CpuProver::prove(circuit, key, &z, randomness, &CancelToken::new(), &mut timeline, &mut on_stage)
                .map_err(Failure::internal)?;
        let inputs = z[1..circuit.num_inputs()].to_vec();
        let began = Instant::now();
        on_stage(Stage::Verify);
        let verified = self.verifier.verify(&proof, &inputs);
        timeline.record(Stage::Verify, began);
        progress.finish_and_clear();
        let verified: VerifiedProof = verified.map_err(|error| explain(&error, circuit, &z, path))?;
        Ok(ProvedPartition {
            proof: *verified.proof(),
            inputs,
            attempts: 1,
            timeline: timeline.spans.iter().map(StageTime::from).collect(),
        })
    }
}

/// Why a proof that was just made does not verify: most likely the witness is no witness.
fn explain(error: &VerifyError, circuit: &Circuit, z: &[Canonical], path: &Path) -> Failure {
    let path = path.display();
    match circuit.first_unsatisfied(z, &CancelToken::new()) {
        Err(cancelled) => Failure::internal(cancelled),
        Ok(Some(row)) => {
            Failure::new(Exit::No, "unsatisfied", format_args!("{path}: constraint {row} is not satisfied"))
        }
        Ok(None) if circuit.c().is_none() => Failure::new(
            Exit::No,
            "unsatisfied",
            format_args!(
                "{path}: the proof does not verify, so the witness does not satisfy the circuit; with --circuit-file and its .r1cs the constraint is named"
            ),
        ),
        Ok(None) => Failure::internal(format_args!("{path}: the witness satisfies the circuit, but {error}")),
    }
}
