//! Small real inputs of each kind that no fixture holds: the test `damage` changes them a little, and the
//! fuzz targets start from them. Each is accepted as it is.
use crate::checks::{self, circuits, written};
use cuzk::{
    algebra::{Canonical, Fr},
    formats::bellman,
    groth16::{ProvingKey, setup::insecure_setup},
    proto::{
        Accepted, AwaitRequest, BackendState, BackendStatus, CircuitInfo, ContentId, Counters,
        CurrentPartition, DaemonState, ErrorCode, Hello, IdempotencyKey, IdleTimes, InstanceId, JobId,
        JobResult, JobStatus, KeyTier, Lease, LeaseRequest, MemoryStatus, PartitionProof, PartitionState,
        PartitionStatus, Priority, Progress, ProtocolError, QueueStatus, Reply, ReplyBody, Request,
        RequestBody, Span, StageBuffers, Status, Submit, TraceRequest, Welcome, WitnessSource,
    },
    r1cs::{Circuit, CircuitBuilder, WitnessEncoding, file},
};
use std::time::Duration;

const JOB: JobId = JobId([7; 16]);
const ID: ContentId = ContentId([3; 32]);

fn key() -> IdempotencyKey {
    IdempotencyKey::new(b"key").expect("3 bytes are a key")
}

/// A packet of each request.
pub fn requests() -> Vec<Vec<u8>> {
    let submit = |witness| {
        RequestBody::Submit(Submit {
            key: key(),
            circuit: "spend".into(),
            circuit_id: Some(ID),
            partition: 1,
            partitions: 2,
            priority: Priority::High,
            encoding: WitnessEncoding::Packed,
            witness,
            length: 64,
            deadline: Some(Duration::from_millis(9)),
        })
    };
    let bodies = [
        RequestBody::Hello(Hello { version: 1, client: "test".into() }),
        RequestBody::Circuits,
        RequestBody::Lease(LeaseRequest::new("spend", true)),
        RequestBody::Release(3),
        submit(WitnessSource::Memfd { offset: 4096 }),
        submit(WitnessSource::Lease(3)),
        RequestBody::Await(AwaitRequest { job: JOB, progress: true }),
        RequestBody::Acknowledge(JOB),
        RequestBody::Cancel(JOB),
        RequestBody::Status,
        RequestBody::Metrics,
        RequestBody::Trace(TraceRequest { job: Some(JOB), last: 0 }),
        RequestBody::Find(key()),
    ];
    bodies.into_iter().map(|body| Request { id: 7, body }.encode()).collect()
}

/// A packet of each reply.
pub fn replies() -> Vec<Vec<u8>> {
    let circuit = CircuitInfo {
        name: "spend".into(),
        circuit_id: Some(ID),
        key_id: None,
        public_inputs: 7,
        auxiliary: 98_642,
        constraints: 98_777,
        domain_log2: 17,
        tier: KeyTier::Host,
        problem: String::new(),
        references: 2,
        key_bytes: 1 << 30,
        circuit_bytes: 1 << 20,
    };
    let proof = PartitionProof {
        proof: [5; 192],
        public_inputs_hash: ID,
        public_inputs: vec![[1; 32], [2; 32]],
        attempts: 1,
        timeline: vec![Span {
            stage: "msm_h".into(),
            start: Duration::from_nanos(5),
            duration: Duration::from_nanos(9),
        }],
    };
    let status = Status {
        build: "0.1.0".into(),
        pid: 1,
        uptime: Duration::from_millis(5),
        state: DaemonState::Ready,
        backends: vec![BackendStatus {
            name: "cuda:GPU-6f0a1b2c".into(),
            why: "it gave the known answer".into(),
            running: 1,
            state: BackendState::Ready,
            retries: 0,
            device: "NVIDIA H200".into(),
            memory: 1 << 37,
            memory_kept: 1 << 30,
            circuits: vec!["spend".into()],
            slots: 2,
            busy: Duration::from_nanos(77),
            idle: IdleTimes::default(),
            current: vec![CurrentPartition {
                job: JOB,
                partition: 0,
                circuit: "spend".into(),
                stage: "msm_h".into(),
                running: Duration::from_millis(2),
            }],
        }],
        memory: MemoryStatus::default(),
        circuits: vec![circuit.clone()],
        jobs: vec![JobStatus {
            job: JOB,
            uid: 1000,
            circuit: "spend".into(),
            priority: Priority::Normal,
            age: Duration::from_millis(3),
            partitions: vec![PartitionStatus { state: PartitionState::Running, stage: "msm_h".into() }],
        }],
        omitted_jobs: 0,
        counters: Counters::default(),
        connections: 1,
        message: "serving".into(),
        queues: vec![QueueStatus {
            priority: Priority::Normal,
            partitions: 3,
            users: 1,
            oldest: Duration::from_millis(4),
        }],
        buffers: vec![StageBuffers { stage: "witness".into(), buffers: 1, bytes: 4096 }],
    };
    let bodies = [
        ReplyBody::Error(ProtocolError::new(ErrorCode::Busy, "later")),
        ReplyBody::Welcome(Welcome { version: 1, build: "0.1.0".into(), instance: InstanceId([9; 16]) }),
        ReplyBody::Circuits(Vec::new()),
        ReplyBody::Circuits(vec![circuit]),
        ReplyBody::Lease(Lease { id: 3, bytes: 4096, public_inputs: 7, auxiliary: 98_642, circuit_id: ID }),
        ReplyBody::Released,
        ReplyBody::Accepted(Accepted { job: JOB, missing: 1 }),
        ReplyBody::Progress(Progress {
            job: JOB,
            partition: 0,
            state: PartitionState::Running,
            stage: "msm_h".into(),
        }),
        ReplyBody::Result(JobResult {
            job: JOB,
            circuit: "spend".into(),
            circuit_id: ID,
            key_id: ID,
            build: "0.1.0".into(),
            backend: "cpu".into(),
            proofs: vec![proof],
        }),
        ReplyBody::Acknowledged,
        ReplyBody::Cancelled,
        ReplyBody::Status(status),
        ReplyBody::Attached(1 << 20),
        ReplyBody::Metrics("cuzk_up 1\n".into()),
        ReplyBody::Trace("[]".into()),
    ];
    bodies.into_iter().map(|body| Reply { id: 7, body }.encode()).collect()
}

fn proving_key() -> ProvingKey {
    insecure_setup(&checks::square(), [7; 32]).expect("the circuit has a key")
}

/// bellman's parameters of `checks::square`.
pub fn params() -> Vec<u8> {
    written(|path| bellman::write_params(&proving_key(), path).expect("it is bellman's form"))
}

/// The verifying key inside.
pub fn vk() -> Vec<u8> {
    bellman::write_vk(&proving_key().vk).expect("it has all points")
}

/// Compiled circuits: `checks::square`, and one with coefficients and without C.
pub fn cuzk() -> Vec<Vec<u8>> {
    let without_c = || {
        let mut builder = CircuitBuilder::new(1, 2);
        builder.constraint(&[(1, Fr::from_u64(5)), (2, Fr::ONE)], &[(2, Fr::from_u64(6))], &[])?;
        builder.finish_without_c()
    };
    let compiled =
        |circuit: &Circuit| written(|path| file::write(circuit, path).expect("a circuit is written"));
    vec![compiled(&checks::square()), compiled(&without_c().expect("the variables are there"))]
}

/// A packed witness of values of all lengths.
pub fn packed() -> Vec<u8> {
    let (inputs, aux) = checks::PACKED;
    let value = |i: usize| match i % 7 {
        0 => Canonical::ONE,
        1 | 2 => Canonical::ZERO,
        3 => Canonical::from_u64(i as u64),
        _ => (Fr::from_u64(i as u64 + 3) * Fr::from_u64(u64::MAX) * Fr::from_u64(u64::MAX)).to_canonical(),
    };
    let z: Vec<_> = (0..inputs + aux).map(value).collect();
    circuits::packed(&z, inputs)
}
