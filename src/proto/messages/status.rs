//! What the daemon is doing.
use super::{
    CircuitInfo, JobId, PartitionState, Priority,
    wire::{self, DecodeProblem, wire_enum},
};
use crate::proto::{MAX_PARTITIONS, cuzk_capnp};
use std::time::Duration;

wire_enum! {
    /// The daemon's own state.
    DaemonState, "state" {
        /// Circuits are being loaded.
        Loading = "loading",
        /// Serving.
        Ready = "ready",
        /// Stopping: finishes what runs, admits nothing.
        Draining = "draining",
    }
}

wire_enum! {
    /// Whether a prover proves.
    BackendState, "state" {
        /// It does.
        Ready = "ready",
        /// It could not be used at the start, or did not give the known answer.
        Quarantined = "quarantined",
        /// Its device failed for good.
        Lost = "lost",
    }
}

/// The daemon at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The daemon's build id.
    pub build: String,
    /// Its process id.
    pub pid: u32,
    /// Time since its start, in whole milliseconds.
    pub uptime: Duration,
    /// Loading, ready or draining.
    pub state: DaemonState,
    /// Its provers.
    pub backends: Vec<BackendStatus>,
    /// Its memory budget.
    pub memory: MemoryStatus,
    /// Its circuits.
    pub circuits: Vec<CircuitInfo>,
    /// The jobs it knows: unfinished ones, oldest first, then finished ones, newest first.
    pub jobs: Vec<JobStatus>,
    /// Jobs that are left out there, where there are very many.
    pub omitted_jobs: u32,
    /// Totals since its start.
    pub counters: Counters,
    /// Open connections.
    pub connections: u32,
    /// The last line told to the service manager, e.g. why a reload was refused.
    pub message: String,
}

/// One prover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendStatus {
    /// `cpu`, or `cuda:` and the first digits of the device's UUID.
    pub name: String,
    /// Why this one and no other; for one that does not prove: why not.
    pub why: String,
    /// Partitions that it is proving.
    pub running: u32,
    /// Whether it proves.
    pub state: BackendState,
    /// Its proofs that did not verify and were made again.
    pub retries: u64,
    /// Model, UUID and PCI address of its device; empty for the CPU.
    pub device: String,
    /// Bytes of the device's memory that are taken.
    pub memory: u64,
    /// Those of them that circuits and keys keep.
    pub memory_kept: u64,
    /// Names of the circuits on the device.
    pub circuits: Vec<String>,
}

/// The memory budget, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatus {
    /// All that may be used.
    pub total: u64,
    /// All that is used.
    pub used: u64,
    /// Used by witnesses.
    pub leases: u64,
    /// Used by keys.
    pub keys: u64,
    /// Used by compiled circuits.
    pub circuits: u64,
    /// Used by provers' own vectors.
    pub working: u64,
    /// Requests that wait for memory.
    pub waiting: u32,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// Its id.
    pub job: JobId,
    /// The user who submitted it.
    pub uid: u32,
    /// The circuit's name.
    pub circuit: String,
    /// Its urgency.
    pub priority: Priority,
    /// Time since its first partition was submitted, in whole milliseconds.
    pub age: Duration,
    /// Its partitions, in order.
    pub partitions: Vec<PartitionStatus>,
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionStatus {
    /// How far it is.
    pub state: PartitionState,
    /// The prover's stage while running, otherwise empty.
    pub stage: String,
}

/// Totals since the daemon's start, in partitions but for `refused`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accepted.
    pub submitted: u64,
    /// Proved.
    pub proved: u64,
    /// Failed.
    pub failed: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Proofs that did not verify and were made again.
    pub self_check_retries: u64,
    /// Requests answered with an error.
    pub refused: u64,
}

/// Whole milliseconds: what does not fit 64 bits is no uptime.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Status {
    pub(super) fn write(&self, mut to: cuzk_capnp::status::Builder<'_>) {
        to.set_build(&self.build[..]);
        to.set_pid(self.pid);
        to.set_uptime_ms(milliseconds(self.uptime));
        to.set_state(self.state.to_wire());
        to.set_connections(self.connections);
        to.set_message(&self.message[..]);
        to.set_omitted_jobs(self.omitted_jobs);
        let mut backends = to.reborrow().init_backends(wire::count(&self.backends));
        for (backend, index) in self.backends.iter().zip(0..) {
            let mut to = backends.reborrow().get(index);
            to.set_name(&backend.name[..]);
            to.set_why(&backend.why[..]);
            to.set_running(backend.running);
            to.set_state(backend.state.to_wire());
            to.set_retries(backend.retries);
            to.set_device(&backend.device[..]);
            to.set_memory_bytes(backend.memory);
            to.set_memory_kept(backend.memory_kept);
            let mut circuits = to.init_circuits(wire::count(&backend.circuits));
            for (circuit, index) in backend.circuits.iter().zip(0..) {
                circuits.set(index, &circuit[..]);
            }
        }
        self.memory.write(to.reborrow().init_memory());
        CircuitInfo::write_list(&self.circuits, to.reborrow().init_circuits(wire::count(&self.circuits)));
        let mut jobs = to.reborrow().init_jobs(wire::count(&self.jobs));
        for (job, index) in self.jobs.iter().zip(0..) {
            job.write(jobs.reborrow().get(index));
        }
        self.counters.write(to.init_counters());
    }

    pub(super) fn read(
        from: cuzk_capnp::status::Reader<'_>,
        max_entries: u32,
    ) -> Result<Self, DecodeProblem> {
        let list = from.get_backends()?;
        let mut backends = Vec::with_capacity(wire::entries("backends", list.len(), max_entries)?);
        for backend in list {
            let list = backend.get_circuits()?;
            let mut circuits = Vec::with_capacity(wire::entries("circuits", list.len(), max_entries)?);
            for circuit in list {
                circuits.push(wire::text("circuits", circuit)?);
            }
            backends.push(BackendStatus {
                name: wire::text("name", backend.get_name())?,
                why: wire::text("why", backend.get_why())?,
                running: backend.get_running(),
                state: BackendState::from_wire(backend.get_state())?,
                retries: backend.get_retries(),
                device: wire::text("device", backend.get_device())?,
                memory: backend.get_memory_bytes(),
                memory_kept: backend.get_memory_kept(),
                circuits,
            });
        }
        let list = from.get_jobs()?;
        let mut jobs = Vec::with_capacity(wire::entries("jobs", list.len(), max_entries)?);
        for job in list {
            jobs.push(JobStatus::read(job, max_entries)?);
        }
        Ok(Self {
            build: wire::text("build", from.get_build())?,
            pid: from.get_pid(),
            uptime: Duration::from_millis(from.get_uptime_ms()),
            state: DaemonState::from_wire(from.get_state())?,
            backends,
            memory: MemoryStatus::read(from.get_memory()?),
            circuits: CircuitInfo::read_list(from.get_circuits()?, max_entries)?,
            jobs,
            omitted_jobs: from.get_omitted_jobs(),
            counters: Counters::read(from.get_counters()?),
            connections: from.get_connections(),
            message: wire::text("message", from.get_message())?,
        })
    }
}

impl MemoryStatus {
    fn write(&self, mut to: cuzk_capnp::memory_status::Builder<'_>) {
        to.set_total_bytes(self.total);
        to.set_used_bytes(self.used);
        to.set_leases(self.leases);
        to.set_keys(self.keys);
        to.set_circuits(self.circuits);
        to.set_working(self.working);
        to.set_waiting(self.waiting);
    }

    fn read(from: cuzk_capnp::memory_status::Reader<'_>) -> Self {
        Self {
            total: from.get_total_bytes(),
            used: from.get_used_bytes(),
            leases: from.get_leases(),
            keys: from.get_keys(),
            circuits: from.get_circuits(),
            working: from.get_working(),
            waiting: from.get_waiting(),
        }
    }
}

impl JobStatus {
    fn write(&self, mut to: cuzk_capnp::job_status::Builder<'_>) {
        to.set_job(&self.job.0);
        to.set_uid(self.uid);
        to.set_circuit(&self.circuit[..]);
        to.set_priority(self.priority.to_wire());
        to.set_age_ms(milliseconds(self.age));
        let mut partitions = to.init_partitions(wire::count(&self.partitions));
        for (partition, index) in self.partitions.iter().zip(0..) {
            let mut to = partitions.reborrow().get(index);
            to.set_state(partition.state.to_wire());
            to.set_stage(&partition.stage[..]);
        }
    }

    fn read(from: cuzk_capnp::job_status::Reader<'_>, max_entries: u32) -> Result<Self, DecodeProblem> {
        let list = from.get_partitions()?;
        let max = MAX_PARTITIONS.min(max_entries);
        let mut partitions = Vec::with_capacity(wire::entries("partitions", list.len(), max)?);
        for partition in list {
            partitions.push(PartitionStatus {
                state: PartitionState::from_wire(partition.get_state())?,
                stage: wire::text("stage", partition.get_stage())?,
            });
        }
        Ok(Self {
            job: JobId::read("job", from.get_job())?,
            uid: from.get_uid(),
            circuit: wire::name("circuit", from.get_circuit())?,
            priority: Priority::from_wire(from.get_priority())?,
            age: Duration::from_millis(from.get_age_ms()),
            partitions,
        })
    }
}

impl Counters {
    fn write(&self, mut to: cuzk_capnp::counters::Builder<'_>) {
        to.set_submitted(self.submitted);
        to.set_proved(self.proved);
        to.set_failed(self.failed);
        to.set_cancelled(self.cancelled);
        to.set_self_check_retries(self.self_check_retries);
        to.set_refused(self.refused);
    }

    fn read(from: cuzk_capnp::counters::Reader<'_>) -> Self {
        Self {
            submitted: from.get_submitted(),
            proved: from.get_proved(),
            failed: from.get_failed(),
            cancelled: from.get_cancelled(),
            self_check_retries: from.get_self_check_retries(),
            refused: from.get_refused(),
        }
    }
}
