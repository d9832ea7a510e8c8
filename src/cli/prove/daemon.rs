//! Proving through the daemon. Each witness goes from its file straight into a lease.
use super::{
    Prove,
    report::{Proved, ProvedPartition, StageTime},
};
use crate::{
    algebra::Canonical,
    cli::{Exit, Failure, Output, daemon},
    client::{Client, Job, JobOptions, Lease, Next, Witness},
    formats::iden3_wtns::Wtns,
    groth16::Proof,
    proto::{ContentId, JobResult, PartitionProof},
};
use indicatif::ProgressBar;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
};

/// Proves the witnesses as the partitions of one job.
pub fn prove(verb: &Prove, circuit: &str, socket: &Path, output: Output) -> Result<Proved, Failure> {
    let progress = output.spinner("waiting for the daemon");
    let patience = Duration::from_secs(verb.patience);
    let done = daemon::with_client(socket, patience, async |client| {
        let mut job = client.job(options(verb, circuit, &progress)?)?;
        let result = tokio::select! {
            result = run(&mut job, &verb.witness) => result?,
            () = interruption() => return Err(interrupted(&client, &job).await),
        };
        let public_inputs = if result.proofs.iter().any(untold) {
            let circuits = client.circuits().await?;
            circuits.into_iter().find(|c| c.name == circuit).map(|c| c.public_inputs)
        } else {
            None
        };
        Ok((result, public_inputs))
    });
    progress.finish_and_clear();
    let (result, public_inputs) = done?;
    let partitions = result.proofs.iter().zip(&verb.witness);
    let partitions = partitions.map(|(proof, path)| partition(proof, path, public_inputs));
    let partitions = partitions.collect::<Result<_, _>>()?;
    Ok(Proved {
        job: Some(result.job.to_string()),
        circuit: Some(result.circuit),
        circuit_id: result.circuit_id.to_string(),
        key_id: result.key_id.to_string(),
        backend: result.backend,
        build: result.build,
        partitions,
    })
}

fn options(verb: &Prove, circuit: &str, progress: &ProgressBar) -> Result<JobOptions, Failure> {
    let partitions = u32::try_from(verb.witness.len()).map_err(Failure::usage)?;
    let bar = progress.clone();
    let options = JobOptions::new(circuit).partitions(partitions).priority(verb.priority).on_progress(
        move |progress| {
            let (job, partition) = (progress.job, progress.partition);
            let what = if progress.stage.is_empty() { progress.state.name() } else { &progress.stage };
            bar.set_message(format!("job {job}, partition {partition}: {what}"));
        },
    );
    Ok(match &verb.idempotency_key {
        Some(key) => options.key(key.clone()),
        None => options,
    })
}

/// Makes each witness that the job asks for, until it is done.
async fn run(job: &mut Job, witnesses: &[PathBuf]) -> Result<JobResult, Failure> {
    loop {
        match job.advance().await? {
            Next::Fill { partition, lease } => {
                let path = witnesses
                    .get(partition as usize)
                    .ok_or_else(|| Failure::internal(format_args!("partition {partition} was asked for")))?;
                let path = path.clone();
                let lease = spawn_blocking(move || fill(lease, &path)).await.map_err(Failure::internal)??;
                job.submit(partition, Witness::canonical(lease)).await?;
            }
            Next::Done(result) => {
                // The result counts; where the daemon does not hear of it, its time to live ends there.
                let _heard = job.acknowledge().await;
                return Ok(result);
            }
        }
    }
}

/// Copies a witness file's values into the lease.
fn fill(mut lease: Lease, path: &Path) -> Result<Lease, Failure> {
    Wtns::open(path)?.write_into(&mut lease.region())?;
    Ok(lease)
}

/// The first signal that asks this process to end.
async fn interruption() {
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => drop(signal.recv().await),
            // Then the signal keeps its default effect.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = wait(SignalKind::interrupt()) => {}
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::hangup()) => {}
    }
}

/// Nobody waits for the job any more.
async fn interrupted(client: &Client, job: &Job) -> Failure {
    // A submission may be on its way: the daemon knows whether it has the job.
    let id = match job.id() {
        Some(id) => Some(id),
        None => client.find(job.key()).await.ok().flatten().map(|accepted| accepted.job),
    };
    let Some(id) = id else {
        return Failure::new(Exit::Interrupted, "interrupted", "interrupted; nothing was submitted");
    };
    let message = match client.cancel(id).await {
        Ok(()) => format!("interrupted; job {id} is cancelled"),
        Err(error) => format!("interrupted; job {id} goes on: {error}"),
    };
    Failure::new(Exit::Interrupted, "interrupted", message)
}

/// The hash of the public inputs, as the protocol defines it.
fn hash(inputs: &[Canonical]) -> ContentId {
    let mut hasher = blake3::Hasher::new();
    for input in inputs {
        hasher.update(&input.to_le_bytes());
    }
    ContentId(hasher.finalize().into())
}

/// Whether the public inputs are too many for the reply.
fn untold(proof: &PartitionProof) -> bool {
    proof.public_inputs.is_empty() && proof.public_inputs_hash != hash(&[])
}

fn violation(what: &str) -> Failure {
    Failure::internal(format_args!("the daemon broke the protocol: {what}"))
}

/// `public_inputs`: their number, where the reply could not carry them.
fn partition(
    proved: &PartitionProof,
    path: &Path,
    public_inputs: Option<u64>,
) -> Result<ProvedPartition, Failure> {
    let inputs = if untold(proved) {
        let number = public_inputs.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        Wtns::open(path)?.read(1..number.saturating_add(1))?
    } else {
        let inputs = proved.public_inputs.iter().map(Canonical::from_le_bytes).collect::<Option<_>>();
        inputs.ok_or_else(|| violation("a public input is not below the field's modulus"))?
    };
    if hash(&inputs) != proved.public_inputs_hash {
        return Err(violation("the public inputs do not have the hash that was proved"));
    }
    Ok(ProvedPartition {
        proof: Proof::from_bytes(&proved.proof).map_err(|e| violation(&e.to_string()))?,
        inputs,
        attempts: proved.attempts,
        timeline: proved
            .timeline
            .iter()
            .map(|s| StageTime { stage: s.stage.clone(), start: s.start, duration: s.duration })
            .collect(),
    })
}
