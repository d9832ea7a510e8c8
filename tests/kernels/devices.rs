//! A device as the daemon's backend, on the emulation: the known answer, the way of a witness, and faults.
use crate::{
    fault::{Fault, Faulty, Injection},
    host::HostQueue,
    proofs::{Case, circuits::canonical},
};
use cuzk::{
    algebra::CancelToken,
    daemon::{
        backend::{Backend, BackendError, Claim, ProofRequest},
        budget::{Budget, Demand},
        config::Config,
        devices::{Arena, DeviceBackend},
        instruments::Activity,
        lease::Lease,
        users::{Countable, Users},
        witness::Witness,
    },
    gpu::{
        GpuError,
        device::DeviceInfo,
        prover::{DeviceError, KnownAnswer, KnownAnswerError},
    },
    groth16::Timeline,
    proto::{ContentId, Priority},
    r1cs::WitnessEncoding,
    shm::LeaseMapping,
};
use std::{
    sync::{Arc, LazyLock},
    time::Instant,
};

/// Room for the roots of unity, 17 MB, and for small circuits.
const ARENA: usize = 24 << 20;
/// The known answer has five results, and so has every proof.
const FIRST_PROOF: u32 = 6;

static KNOWN: LazyLock<KnownAnswer> = LazyLock::new(|| KnownAnswer::new(8).unwrap());

type Emulated = DeviceBackend<Faulty<HostQueue>>;

fn info() -> DeviceInfo {
    DeviceInfo {
        index: 0,
        name: "emulated".into(),
        uuid: "GPU-6f0a1b2c-3d4e-5f60-7182-93a4b5c6d7e8".into(),
        pci: "0000:00:00.0".into(),
        capability: (0, 0),
        multiprocessors: 1,
        memory: ARENA as u64,
        shared_bytes_per_block: 1 << 16,
    }
}

fn open(queue: HostQueue, bytes: usize, fault: Option<(Fault, u32)>) -> Result<Emulated, KnownAnswerError> {
    let memory = queue.alloc(bytes);
    let queue = Faulty::new(queue, fault.map(|(fault, at)| Injection { fault, at }));
    let arena = Arena { memory, owner: Box::new(()) };
    // SAFETY: the queue keeps the memory, which is this backend's alone.
    unsafe { DeviceBackend::new(queue, arena, &info(), &KNOWN, 2) }
}

/// A lease with the case's witness.
fn lease(case: &Case) -> (Arc<Lease>, usize) {
    let witness = canonical(&case.z);
    let (budget, users) = (Budget::new(1 << 20), Users::new(Config::default().limits));
    let demand = Demand { leases: 1 << 16, ..Demand::default() };
    let reservation = budget.try_reserve(demand).unwrap().unwrap();
    let charge = users.charge(1, Countable::Buffer(1 << 16)).unwrap();
    let length = witness.len();
    let lease = Lease::create(
        1,
        length as u64,
        Arc::new(()),
        reservation,
        charge,
        (Instant::now(), &Activity::new([])),
    )
    .unwrap();
    let memfd = lease.buffer().memfd().try_clone_to_owned().unwrap();
    LeaseMapping::new(memfd, length as u64).unwrap().write_at(&witness, 0).unwrap();
    (lease, length)
}

fn prove(
    backend: &Emulated,
    case: &Case,
    (lease, length): &(Arc<Lease>, usize),
) -> Result<Claim, BackendError> {
    let witness = Witness::leased(lease.use_it().unwrap(), WitnessEncoding::Canonical, *length as u64);
    backend.prove(ProofRequest {
        name: "case",
        circuit: &case.circuit,
        circuit_id: ContentId(case.circuit.id()),
        key: &case.key,
        witness: &witness,
        priority: Priority::Normal,
        randomness: crate::proofs::fixed(),
        cancel: &CancelToken::new(),
        timeline: &mut Timeline::new(),
        on_stage: &mut |_| {},
    })
}

fn assert_proved(made: Result<Claim, BackendError>, case: &Case) {
    let Claim { proof, inputs } = made.unwrap();
    assert!(proof == case.cpu_proof());
    assert_eq!(inputs, case.z[1..case.circuit.num_inputs()]);
}

#[test]
fn a_device_copies_a_witness_from_its_lease_whose_pages_are_locked_once() {
    let (case, queue) = (Case::random(2, 6, "random"), HostQueue::new(true));
    let locks = queue.locks();
    let backend = open(queue, ARENA, None).unwrap();
    assert_eq!(Arc::strong_count(&locks) - 3, 1, "staging memory");
    let used = backend.device_use().unwrap();
    assert_eq!((used.memory, used.memory_kept, used.circuits.len()), (ARENA as u64, 0, 0));
    let lease = lease(&case);
    for _ in 0..2 {
        assert_proved(prove(&backend, &case, &lease), &case);
        assert_eq!(Arc::strong_count(&locks) - 3, 2, "and the lease");
    }
    let used = backend.device_use().unwrap();
    assert_eq!(used.circuits, ["case"]);
    assert!(used.memory_kept > 0 && backend.why().contains("emulated (GPU-6f0a1b2c-"));
    drop(lease);
    assert_eq!(Arc::strong_count(&locks) - 3, 1);
}

#[test]
fn a_witness_whose_pages_cannot_be_locked_is_staged() {
    let (case, queue) = (Case::random(2, 6, "random"), HostQueue::new(false));
    let backend = open(queue, ARENA, None).unwrap();
    assert_proved(prove(&backend, &case, &lease(&case)), &case);
}

#[test]
fn a_device_that_gives_another_answer_is_not_used() {
    let refused = open(HostQueue::new(true), ARENA, Some((Fault::FlippedLimb, 1))).err().unwrap();
    assert!(matches!(refused, KnownAnswerError::Differs { .. }), "{refused}");
    let refused = open(HostQueue::new(true), 1 << 20, None).err().unwrap().to_string();
    assert!(refused.contains("has 1048576"), "{refused}");
}

#[test]
fn what_cannot_fit_is_refused_with_need_and_have() {
    let backend = open(HostQueue::new(true), 19 << 20, None).unwrap();
    let [small, large] = [6, 40_000].map(|rows| Case::random(2, rows, "zero"));
    assert_eq!(backend.accepts(&small.circuit, &small.key), Ok(()));
    let refused = backend.accepts(&large.circuit, &large.key).unwrap_err();
    assert!(refused.contains("needs ") && refused.contains(&(19 << 20).to_string()), "{refused}");
}

#[test]
fn no_memory_is_one_proofs_failure() {
    let case = Case::random(2, 6, "random");
    let backend = open(HostQueue::new(true), ARENA, Some((Fault::OutOfMemory, FIRST_PROOF))).unwrap();
    let lease = lease(&case);
    match prove(&backend, &case, &lease).err().unwrap() {
        BackendError::Device(DeviceError::Gpu(error)) => assert!(error.is_out_of_memory(), "{error}"),
        other => panic!("{other}"),
    }
    assert_proved(prove(&backend, &case, &lease), &case);
}

#[test]
fn a_flipped_limb_is_one_proofs_failure() {
    let case = Case::random(2, 6, "random");
    let backend = open(HostQueue::new(true), ARENA, Some((Fault::FlippedLimb, FIRST_PROOF + 2))).unwrap();
    let lease = lease(&case);
    assert!(prove(&backend, &case, &lease).unwrap().proof != case.cpu_proof());
    assert_proved(prove(&backend, &case, &lease), &case);
}

#[test]
fn a_lost_device_is_lost_for_good() {
    let case = Case::random(2, 6, "random");
    let backend = open(HostQueue::new(true), ARENA, Some((Fault::Lost, FIRST_PROOF))).unwrap();
    let lease = lease(&case);
    for _ in 0..2 {
        match prove(&backend, &case, &lease).err().unwrap() {
            BackendError::Lost(DeviceError::Gpu(GpuError::Driver { code: 719, .. })) => {}
            other => panic!("{other}"),
        }
    }
}
