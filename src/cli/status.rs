//! `cuzk status`: what the daemon is doing.
use super::{
    Exit, Failure, Output, circuits, daemon,
    failure::Outcome,
    output::{bytes, table},
};
use crate::proto::{BackendState, BackendStatus, JobStatus, PartitionState, Status};
use clap::Args;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

/// Show what the daemon is doing: its circuits, jobs, memory and totals.
#[derive(Args, Debug)]
pub struct StatusArgs {}

/// Runs the verb.
///
/// # Errors
/// No daemon, or its refusal.
pub fn run(socket: &Path, output: Output) -> Outcome {
    let status = daemon::ask(socket)?.status().map_err(Failure::from)?;
    output.answer(&document(&status), || text(&status))?;
    Ok(Exit::Ok)
}

fn milliseconds(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

fn document(status: &Status) -> Value {
    let backends: Vec<_> = status
        .backends
        .iter()
        .map(|b| {
            json!({
                "name": b.name, "why": b.why, "running": b.running, "state": b.state.name(),
                "retries": b.retries, "device": Some(&b.device).filter(|d| !d.is_empty()),
                "memory": b.memory, "memory_kept": b.memory_kept, "circuits": b.circuits,
            })
        })
        .collect();
    let partitions = |job: &JobStatus| -> Vec<Value> {
        let one = |p: &crate::proto::PartitionStatus| json!({ "state": p.state.name(), "stage": Some(&p.stage).filter(|s| !s.is_empty()) });
        job.partitions.iter().map(one).collect()
    };
    let jobs: Vec<_> = status
        .jobs
        .iter()
        .map(|job| {
            json!({
                "job": job.job.to_string(), "uid": job.uid, "circuit": job.circuit,
                "priority": job.priority.name(), "age_ms": milliseconds(job.age),
                "partitions": partitions(job),
            })
        })
        .collect();
    let (memory, counters) = (&status.memory, &status.counters);
    json!({
        "build": status.build, "pid": status.pid, "uptime_ms": milliseconds(status.uptime),
        "state": status.state.name(), "message": status.message, "connections": status.connections,
        "backends": backends,
        "memory": {
            "total": memory.total, "used": memory.used, "leases": memory.leases, "keys": memory.keys,
            "circuits": memory.circuits, "working": memory.working, "waiting": memory.waiting,
        },
        "circuits": status.circuits.iter().map(circuits::document).collect::<Vec<_>>(),
        "jobs": jobs, "omitted_jobs": status.omitted_jobs,
        "counters": {
            "submitted": counters.submitted, "proved": counters.proved, "failed": counters.failed,
            "cancelled": counters.cancelled, "self_check_retries": counters.self_check_retries,
            "refused": counters.refused,
        },
    })
}

fn text(status: &Status) -> String {
    let (memory, counters) = (&status.memory, &status.counters);
    let mut lines = vec![format!(
        "{}, up {} s, pid {}, build {}, {} connections",
        status.state.name(),
        status.uptime.as_secs(),
        status.pid,
        status.build,
        status.connections,
    )];
    if !status.message.is_empty() {
        lines.push(status.message.clone());
    }
    for backend in &status.backends {
        lines.push(prover(backend));
    }
    lines.push(format!(
        "memory: {} of {} used: keys {}, circuits {}, witnesses {}, provers {}; {} waiting",
        bytes(memory.used),
        bytes(memory.total),
        bytes(memory.keys),
        bytes(memory.circuits),
        bytes(memory.leases),
        bytes(memory.working),
        memory.waiting,
    ));
    lines.push(format!(
        "partitions: {} submitted, {} proved, {} failed, {} cancelled; {} requests refused",
        counters.submitted, counters.proved, counters.failed, counters.cancelled, counters.refused,
    ));
    if !status.circuits.is_empty() {
        lines.push(String::new());
        lines.push(circuits::text(&status.circuits));
    }
    if !status.jobs.is_empty() {
        lines.push(String::new());
        lines.push(jobs(&status.jobs));
    }
    if status.omitted_jobs > 0 {
        lines.push(format!("and {} further jobs", status.omitted_jobs));
    }
    lines.join("\n")
}

/// One prover, in a line.
fn prover(backend: &BackendStatus) -> String {
    let mut parts = vec![match backend.state {
        BackendState::Ready => format!("proving {}", backend.running),
        other => other.name().to_owned(),
    }];
    if backend.retries > 0 {
        parts.push(format!("{} proofs made again", backend.retries));
    }
    if backend.memory > 0 {
        let circuits = match &backend.circuits[..] {
            [] => "no circuits".to_owned(),
            names => names.join(", "),
        };
        let (kept, all) = (bytes(backend.memory_kept), bytes(backend.memory));
        parts.push(format!("{kept} of {all} kept for {circuits}"));
    }
    format!("{}: {} ({})", backend.name, parts.join(", "), backend.why)
}

fn jobs(jobs: &[JobStatus]) -> String {
    let mut rows =
        vec![["JOB", "CIRCUIT", "PRIORITY", "UID", "AGE", "PARTITIONS"].map(String::from).to_vec()];
    for job in jobs {
        let states = PartitionState::ALL.iter().filter_map(|state| {
            let count = job.partitions.iter().filter(|p| p.state == *state).count();
            (count > 0).then(|| format!("{count} {}", state.name()))
        });
        rows.push(vec![
            job.job.to_string(),
            job.circuit.clone(),
            job.priority.name().to_owned(),
            job.uid.to_string(),
            format!("{} s", job.age.as_secs()),
            states.collect::<Vec<_>>().join(", "),
        ]);
    }
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provers_say_what_they_do_and_why_not() {
        let cpu = BackendStatus {
            name: "cpu".into(),
            why: "no driver".into(),
            running: 1,
            state: BackendState::Ready,
            retries: 0,
            device: String::new(),
            memory: 0,
            memory_kept: 0,
            circuits: Vec::new(),
        };
        assert_eq!(prover(&cpu), "cpu: proving 1 (no driver)");
        let device = BackendStatus {
            name: "cuda:GPU-6f0a1b2c".into(),
            retries: 2,
            memory: 16 << 30,
            memory_kept: 3 << 29,
            circuits: vec!["spend".into(), "output".into()],
            ..cpu
        };
        let line = prover(&device);
        assert_eq!(
            line,
            "cuda:GPU-6f0a1b2c: proving 1, 2 proofs made again, 1.5 GiB of 16.0 GiB kept for spend, output (no driver)"
        );
        let quarantined = BackendStatus { state: BackendState::Quarantined, memory: 0, retries: 0, ..device };
        assert_eq!(prover(&quarantined), "cuda:GPU-6f0a1b2c: quarantined (no driver)");
    }
}
