//! The real daemon on a real device, over its socket: Zcash's Sapling Spend, circuits that share the device, and
//! faults of the device. Needs a machine with an NVIDIA device; without one every test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]
#[path = "../support/circuits.rs"]
mod circuits;
#[path = "../support/daemon.rs"]
mod daemon;
#[path = "../support/peer.rs"]
mod peer;
#[path = "../support/sapling.rs"]
#[allow(dead_code)]
mod sapling;

use circuits::{Chain, canonical};
use cuzk::{
    client::blocking::Client,
    proto::{BackendState, BackendStatus, ErrorCode, JobResult, KeyTier, ProtocolError, WitnessSource},
    r1cs::{
        file,
        recorder::{record_bellman, write_bellman_witness},
    },
    shm::OwnBuffer,
};
use daemon::{Builder, Daemon};
use peer::{Peer, assert_refused, submit};
use rand::{SeedableRng, rngs::StdRng};
use sapling_crypto::circuit::SpendParameters;
use std::process::ExitStatus;

/// The known answer has five results of sums, and so has every proof: this is the third of the first proof.
const IN_THE_FIRST_PROOF: u32 = 5 + 3;

const CHAIN: Chain = Chain { length: 3000 };

/// A daemon that has to prove on devices, in so much of their memory, with the circuit "chain". Tests run at the
/// same time: none takes all.
fn on_devices(memory: &str) -> Builder {
    let builder = Builder::new().config("prover.backend = 'cuda'");
    let builder = builder.config(&format!("prover.device_memory = '{memory}'"));
    let (definition, _) = CHAIN.write(builder.dir(), "chain");
    builder.circuit("chain", &definition)
}

/// The same with a fault of the device.
fn with_fault(builder: Builder, fault: &str) -> Daemon {
    let mut command = builder.command();
    command.arg("--fault").arg(fault);
    builder.spawn_command(command)
}

/// A proof of the chain's, from a lease.
async fn prove_chain(peer: &mut Peer, key: &[u8]) -> Result<JobResult, ProtocolError> {
    let leased = peer.lease("chain", true).await.unwrap();
    leased.write(&canonical(&CHAIN.witness(5)));
    let job = peer.submit(leased.job(key, "chain")).await.unwrap().job;
    peer.wait(job).await
}

/// The status of the only prover.
async fn device(peer: &mut Peer) -> BackendStatus {
    let backends = peer.status().await.backends;
    let [device] = &backends[..] else { panic!("{backends:?}") };
    device.clone()
}

fn assert_on_device(name: &str) {
    assert!(name.starts_with("cuda:GPU-"), "{name}");
}

#[test]
fn sapling_spends_are_proved_on_the_device_as_zcash_verifies_them() {
    let (spend_bytes, _) = wagyu_zcash_parameters::load_sapling_parameters();
    let builder = on_devices("4GiB");
    let at = |name: &str| builder.dir().join(name);
    std::fs::write(at("spend.params"), &spend_bytes).unwrap();
    file::write(&record_bellman(sapling::blank_spend()).unwrap(), &at("spend.cuzk")).unwrap();
    let (key, circuit) = (at("spend.params"), at("spend.cuzk"));
    let definition = format!("key = '{}'\ncircuit = '{}'\n", key.display(), circuit.display());
    let daemon = builder.circuit("spend", &definition).start();

    let client = Client::connect(daemon.socket(), "test").unwrap();
    let parameters = SpendParameters::read(&spend_bytes[..], false).unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    for round in 0..3 {
        let (circuit, check) = sapling::spend(&parameters, &mut rng);
        let result = client.prove("spend", |region| write_bellman_witness(circuit, region)).unwrap();
        assert!(check(&result.proofs[0].proof), "round {round}");
        assert_eq!(result.proofs[0].attempts, 1);
        assert_on_device(&result.backend);
        for span in &result.proofs[0].timeline {
            println!("round {round}: {} {:?}", span.stage, span.duration);
        }
    }
    let status = client.status().unwrap();
    let device = &status.backends[0];
    println!("{device:?}");
    assert_eq!(
        (device.state, device.retries, &device.circuits[..]),
        (BackendState::Ready, 0, &["spend".into()][..])
    );
    assert!(0 < device.memory_kept && device.memory_kept < device.memory);
    assert!(device.device.contains("(GPU-") && device.why.contains("known answer"));
    assert!(!daemon.log().contains("copied on the host"), "{}", daemon.log());
    drop(client);
    daemon.stop();
}

#[tokio::test]
async fn a_sealed_memfd_is_copied_by_the_device() {
    let daemon = on_devices("4GiB").start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let witness = canonical(&CHAIN.witness(3));
    let own = OwnBuffer::create(witness.len() as u64).unwrap();
    own.write_at(&witness, 0).unwrap();
    let own = own.seal().unwrap();
    let request = submit(b"own", "chain", own.length(), WitnessSource::Memfd { offset: 0 });
    let job = peer.submit_own(request, own.memfd()).await.unwrap().job;
    assert_on_device(&peer.wait(job).await.unwrap().backend);
    assert!(!daemon.log().contains("copied on the host"), "{}", daemon.log());
    daemon.stop();
}

#[tokio::test]
async fn a_flipped_limb_is_found_and_the_proof_made_again_once() {
    let mut daemon = with_fault(on_devices("4GiB"), &format!("flipped-limb@{IN_THE_FIRST_PROOF}"));
    daemon.wait_for("READY=1");
    let mut peer = Peer::greet(&daemon.socket()).await;
    let result = prove_chain(&mut peer, b"first").await.unwrap();
    assert_eq!(result.proofs[0].attempts, 2);
    assert_on_device(&result.backend);
    assert_eq!(prove_chain(&mut peer, b"second").await.unwrap().proofs[0].attempts, 1);
    let counters = peer.status().await.counters;
    assert_eq!((counters.self_check_retries, counters.proved, counters.failed), (1, 2, 0));
    assert_eq!(device(&mut peer).await.retries, 1);
    daemon.stop();
}

#[tokio::test]
async fn a_device_without_memory_fails_one_job() {
    let mut daemon = with_fault(on_devices("4GiB"), &format!("out-of-memory@{IN_THE_FIRST_PROOF}"));
    daemon.wait_for("READY=1");
    let mut peer = Peer::greet(&daemon.socket()).await;
    assert_refused(prove_chain(&mut peer, b"first").await, ErrorCode::DeviceMemory, &["OUT_OF_MEMORY"]);
    assert_on_device(&prove_chain(&mut peer, b"second").await.unwrap().backend);
    daemon.stop();
}

/// The daemon's end after its device is lost in the first proof, and what the owner of the job is told.
async fn lost(fault: &str) -> (ExitStatus, ProtocolError, String) {
    let mut daemon = with_fault(on_devices("4GiB"), &format!("{fault}@{IN_THE_FIRST_PROOF}"));
    daemon.wait_for("READY=1");
    let mut peer = Peer::greet(&daemon.socket()).await;
    let told = prove_chain(&mut peer, b"first").await.expect_err("no proof");
    let status = daemon.wait();
    assert!(
        daemon.told().iter().any(|line| line.starts_with("STATUS=a device is lost")),
        "{:?}",
        daemon.told()
    );
    (status, told, daemon.log())
}

#[tokio::test]
async fn an_illegal_access_ends_the_daemon_and_the_job_is_the_next_one_s() {
    for fault in ["illegal-access", "lost"] {
        let (status, told, log) = lost(fault).await;
        assert_eq!((status.code(), told.code), (Some(1), ErrorCode::Draining), "{fault}: {log}");
        assert!(log.contains("is lost in partition 0"), "{fault}: {log}");
    }
}

#[tokio::test]
async fn a_device_that_gives_another_answer_is_quarantined() {
    let mut daemon = with_fault(on_devices("4GiB"), "flipped-limb@1");
    assert_eq!(daemon.wait().code(), Some(1));
    let log = daemon.log();
    assert!(log.contains("is quarantined: ") && log.contains("not the known answer"), "{log}");

    let settings = "prover.cpu_fallback = true\nprover.device_memory = '4GiB'";
    let builder = Builder::new().config(settings);
    let (definition, _) = CHAIN.write(builder.dir(), "chain");
    let mut daemon = with_fault(builder.circuit("chain", &definition), "flipped-limb@1");
    daemon.wait_for("READY=1");
    let mut peer = Peer::greet(&daemon.socket()).await;
    assert_eq!(prove_chain(&mut peer, b"key").await.unwrap().backend, "cpu");
    let backends = peer.status().await.backends;
    assert_eq!((backends[0].state, backends[1].state), (BackendState::Ready, BackendState::Quarantined));
    assert_on_device(&backends[1].name);
    assert!(backends[0].why.contains("cpu_fallback") && backends[1].why.contains("not the known answer"));
    daemon.stop();
}

#[tokio::test]
async fn the_device_s_memory_is_capped_and_what_cannot_fit_is_refused_by_the_figures() {
    let large = Chain { length: 200_000 };
    for memory in ["40MiB", "8GiB"] {
        let builder = on_devices(memory);
        let (definition, _) = large.write(builder.dir(), "large");
        let daemon = builder.circuit("large", &definition).start();
        let mut peer = Peer::greet(&daemon.socket()).await;
        let bytes = cuzk::units::parse_bytes(memory).unwrap();
        assert_eq!(device(&mut peer).await.memory, bytes);
        assert_on_device(&prove_chain(&mut peer, b"key").await.unwrap().backend);
        let circuits = peer.status().await.circuits;
        let circuit = circuits.iter().find(|circuit| circuit.name == "large").unwrap();
        if memory == "8GiB" {
            assert_eq!((circuit.tier, &circuit.problem[..]), (KeyTier::Host, ""));
        } else {
            // Its values on the domain alone take 25 MB, and the roots of unity 17 MB.
            assert_eq!(circuit.tier, KeyTier::Failed);
            assert!(circuit.problem.contains(&format!("the device has {bytes}")), "{}", circuit.problem);
        }
        daemon.stop();
    }
    let mut daemon = on_devices("1TiB").spawn();
    assert_eq!(daemon.wait().code(), Some(1));
    assert!(daemon.log().contains("needs 1099511627776 bytes"), "{}", daemon.log());
}
