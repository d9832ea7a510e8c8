//! `cuzk status`: what the daemon is doing.
use super::{
    Exit, Failure, Output, circuits, daemon,
    failure::Outcome,
    output::{bytes, table},
};
use crate::documents;
use crate::proto::{BackendState, BackendStatus, JobStatus, PartitionState, Status};
use clap::Args;
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
    output.answer(&documents::status(&status), || text(&status))?;
    Ok(Exit::Ok)
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
        lines.extend(spent(backend));
        for it in &backend.current {
            let (job, partition, circuit, stage) = (it.job, it.partition, &it.circuit, &it.stage);
            let seconds = it.running.as_secs_f64();
            lines.push(format!("  {job}/{partition} of {circuit}: {stage}, for {seconds:.1} s"));
        }
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
        "  {} at most; {} locked for devices; resident {}, {} at most",
        bytes(memory.peak),
        bytes(memory.locked),
        bytes(memory.resident),
        bytes(memory.peak_resident),
    ));
    for queue in &status.queues {
        lines.push(format!(
            "queue {}: {} partitions of {} users, the oldest for {:.1} s",
            queue.priority.name(),
            queue.partitions,
            queue.users,
            queue.oldest.as_secs_f64(),
        ));
    }
    let buffers: Vec<_> = status
        .buffers
        .iter()
        .map(|it| format!("{} {} ({})", it.buffers, it.stage, bytes(it.bytes)))
        .collect();
    if !buffers.is_empty() {
        lines.push(format!("witness buffers: {}", buffers.join(", ")));
    }
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

/// Where a prover's time has gone, in a line; None for one that does not prove.
fn spent(backend: &BackendStatus) -> Option<String> {
    let all = (backend.busy + backend.idle.total()).as_secs_f64();
    if all == 0.0 {
        return None;
    }
    let share = |time: Duration| format!("{:.1} %", 100.0 * time.as_secs_f64() / all);
    let idle = backend.idle.by_cause().into_iter().filter(|(_, time)| !time.is_zero());
    let idle: Vec<_> =
        idle.map(|(cause, time)| format!("{} {}", cause.replace('_', " "), share(time))).collect();
    Some(format!("  busy {} of the time; idle: {}", share(backend.busy), idle.join(", ")))
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
    use crate::proto::IdleTimes;

    fn cpu() -> BackendStatus {
        BackendStatus {
            name: "cpu".into(),
            why: "no driver".into(),
            running: 1,
            state: BackendState::Ready,
            retries: 0,
            device: String::new(),
            memory: 0,
            memory_kept: 0,
            circuits: Vec::new(),
            slots: 1,
            busy: Duration::ZERO,
            idle: IdleTimes::default(),
            current: Vec::new(),
        }
    }

    #[test]
    fn time_is_told_by_its_causes() {
        assert_eq!(spent(&cpu()), None);
        let idle = IdleTimes { witness: Duration::from_secs(1), ..IdleTimes::default() };
        let cpu = BackendStatus { busy: Duration::from_secs(3), idle, ..cpu() };
        assert_eq!(spent(&cpu).as_deref(), Some("  busy 75.0 % of the time; idle: witness 25.0 %"));
    }

    #[test]
    fn provers_say_what_they_do_and_why_not() {
        assert_eq!(prover(&cpu()), "cpu: proving 1 (no driver)");
        let device = BackendStatus {
            name: "cuda:GPU-6f0a1b2c".into(),
            retries: 2,
            memory: 16 << 30,
            memory_kept: 3 << 29,
            circuits: vec!["spend".into(), "output".into()],
            ..cpu()
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
