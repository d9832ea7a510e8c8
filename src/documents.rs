//! What the daemon says of itself, as JSON: the same for scripts that ask the command line and for those that ask over
//! HTTP. `docs/command-line.md` lists the fields.
use crate::proto::{BackendStatus, CircuitInfo, JobStatus, PartitionStatus, Status};
use serde_json::{Map, Value, json};
use std::time::Duration;

fn milliseconds(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

fn microseconds(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

fn filled(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// A circuit's JSON.
pub fn circuit(circuit: &CircuitInfo) -> Value {
    let loaded = circuit.circuit_id.is_some();
    let known = |n: u64| loaded.then_some(n);
    json!({
        "name": circuit.name, "state": circuit.tier.name(),
        "problem": Some(&circuit.problem).filter(|p| !p.is_empty()),
        "circuit_id": circuit.circuit_id.map(|id| id.to_string()),
        "key_id": circuit.key_id.map(|id| id.to_string()),
        "constraints": known(circuit.constraints),
        "public_inputs": known(circuit.public_inputs),
        "auxiliary": known(circuit.auxiliary),
        "domain_log2": known(circuit.domain_log2.into()),
        "key_bytes": known(circuit.key_bytes), "circuit_bytes": known(circuit.circuit_bytes),
        "references": circuit.references,
    })
}

/// A prover's JSON.
fn backend(backend: &BackendStatus) -> Value {
    let idle: Map<_, _> = backend
        .idle
        .by_cause()
        .map(|(cause, time)| (format!("{cause}_us"), microseconds(time).into()))
        .into_iter()
        .collect();
    let current = backend.current.iter().map(|it| {
        json!({
            "job": it.job.to_string(), "partition": it.partition, "circuit": it.circuit,
            "stage": filled(&it.stage), "running_ms": milliseconds(it.running),
        })
    });
    json!({
        "name": backend.name, "why": backend.why, "running": backend.running, "state": backend.state.name(),
        "retries": backend.retries, "device": filled(&backend.device), "memory": backend.memory,
        "memory_kept": backend.memory_kept, "circuits": backend.circuits, "slots": backend.slots,
        "busy_us": microseconds(backend.busy), "idle": idle, "current": current.collect::<Vec<_>>(),
    })
}

/// A job's JSON.
fn job(job: &JobStatus) -> Value {
    let one = |it: &PartitionStatus| json!({ "state": it.state.name(), "stage": filled(&it.stage) });
    json!({
        "job": job.job.to_string(), "uid": job.uid, "circuit": job.circuit, "priority": job.priority.name(),
        "age_ms": milliseconds(job.age), "partitions": job.partitions.iter().map(one).collect::<Vec<_>>(),
    })
}

/// A status's JSON.
pub fn status(status: &Status) -> Value {
    let (memory, counters) = (&status.memory, &status.counters);
    let queues = status.queues.iter().map(|it| {
        json!({
            "priority": it.priority.name(), "partitions": it.partitions, "users": it.users,
            "oldest_ms": milliseconds(it.oldest),
        })
    });
    let buffers = status.buffers.iter();
    let buffers = buffers.map(|it| json!({ "stage": it.stage, "buffers": it.buffers, "bytes": it.bytes }));
    json!({
        "build": status.build, "pid": status.pid, "uptime_ms": milliseconds(status.uptime),
        "state": status.state.name(), "message": status.message, "connections": status.connections,
        "backends": status.backends.iter().map(backend).collect::<Vec<_>>(),
        "memory": {
            "total": memory.total, "used": memory.used, "available": memory.total.saturating_sub(memory.used),
            "peak": memory.peak, "leases": memory.leases, "keys": memory.keys, "circuits": memory.circuits,
            "working": memory.working, "waiting": memory.waiting, "locked": memory.locked,
            "resident": memory.resident, "peak_resident": memory.peak_resident,
        },
        "circuits": status.circuits.iter().map(circuit).collect::<Vec<_>>(),
        "queues": queues.collect::<Vec<_>>(), "buffers": buffers.collect::<Vec<_>>(),
        "jobs": status.jobs.iter().map(job).collect::<Vec<_>>(), "omitted_jobs": status.omitted_jobs,
        "counters": {
            "submitted": counters.submitted, "proved": counters.proved, "failed": counters.failed,
            "cancelled": counters.cancelled, "self_check_retries": counters.self_check_retries,
            "refused": counters.refused,
        },
    })
}
