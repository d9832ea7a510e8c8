//! Jobs outlive the daemon where the service manager keeps descriptors for it: what is taken back, what is refused, and
//! what leaves the store. (tests/packages does it under a real systemd.)
use crate::circuits::{Chain, canonical};
use crate::manager::Manager;
use crate::peer::{Leased, Peer, assert_refused, submit};
use crate::with_chain;
use cuzk::{
    algebra::Canonical,
    groth16::{PreparedVerifyingKey, Proof, VerifyingKey},
    proto::{
        Accepted, ErrorCode, IdempotencyKey, JobId, JobResult, PartitionState, ReplyBody, RequestBody, Retry,
        Submit, WitnessSource,
    },
    shm::OwnBuffer,
};
use std::time::Duration;

/// Squarings whose proof takes long enough to be met in its midst.
const LONG: usize = 12_000;
const SHORT: usize = 20;
const ROOM: usize = 100;

fn assert_proves(key: &VerifyingKey, chain: &Chain, result: &JobResult, starts: &[u64]) {
    assert_eq!(result.proofs.len(), starts.len());
    for (proof, start) in result.proofs.iter().zip(starts) {
        let inputs = &chain.witness(*start)[1..3];
        let prepared = PreparedVerifyingKey::new(key);
        prepared.verify(&Proof::from_bytes(&proof.proof).unwrap(), inputs).unwrap();
        assert_eq!(
            proof.public_inputs,
            inputs.iter().map(|i| Canonical::to_le_bytes(*i)).collect::<Vec<_>>()
        );
    }
}

/// A lease that holds the witness which begins so.
async fn filled(peer: &mut Peer, chain: &Chain, start: u64) -> Leased {
    let leased = peer.lease("chain", true).await.unwrap();
    leased.write(&canonical(&chain.witness(start)));
    leased
}

async fn submitted(peer: &mut Peer, chain: &Chain, key: &[u8], start: u64) -> (Accepted, Leased) {
    let leased = filled(peer, chain, start).await;
    (peer.submit(leased.job(key, "chain")).await.unwrap(), leased)
}

async fn found(peer: &mut Peer, key: &[u8]) -> Accepted {
    match peer.ask(RequestBody::Find(IdempotencyKey::new(key).unwrap())).await {
        ReplyBody::Accepted(accepted) => accepted,
        other => panic!("{other:?}"),
    }
}

/// Waits until the first partition of the job is being proved.
async fn until_running(peer: &mut Peer, job: JobId) {
    peer.status_until(|status| {
        status.jobs.iter().any(|it| it.job == job && it.partitions[0].state == PartitionState::Running)
    })
    .await;
}

fn until_empty(manager: &mut Manager) {
    manager.until(|manager| manager.stored("").is_empty());
}

#[tokio::test]
async fn jobs_go_on_after_a_crash_and_after_a_stop() {
    let (builder, chain, key) = with_chain(2000);
    let mut manager = Manager::start(builder, ROOM);
    let mut jobs = Vec::new();
    for round in 0..3u64 {
        let mut peer = Peer::greet(&manager.socket()).await;
        for i in 0..4 {
            let (start, name) = (10 * round + i, [round as u8, i as u8]);
            jobs.push((submitted(&mut peer, &chain, &name, start).await.0.job, name, start));
        }
        // Its owner goes, and gives the leases back; its jobs stay, and the memory with them.
        drop(peer);
        if round == 1 {
            manager.stop()
        } else {
            manager.kill()
        }
        manager.launch();
    }
    let mut peer = Peer::greet(&manager.socket()).await;
    for (job, name, start) in &jobs {
        assert_eq!(found(&mut peer, name).await.job, *job);
        assert_proves(&key, &chain, &peer.wait(*job).await.unwrap(), &[*start]);
    }
    let all = jobs.len();
    manager.until(|manager| manager.stored("cuzk-w").is_empty() && manager.stored("cuzk-j").len() == all);
    // Results wait over another crash, and what is acknowledged does not come back.
    for (job, ..) in &jobs[..6] {
        assert!(matches!(peer.ask(RequestBody::Acknowledge(*job)).await, ReplyBody::Acknowledged));
    }
    manager.kill();
    manager.launch();
    let mut peer = Peer::greet(&manager.socket()).await;
    assert_refused(peer.wait(jobs[0].0).await, ErrorCode::JobLost, &[]);
    for (job, _, start) in &jobs[6..] {
        assert_proves(&key, &chain, &peer.wait(*job).await.unwrap(), &[*start]);
        assert!(matches!(peer.ask(RequestBody::Acknowledge(*job)).await, ReplyBody::Acknowledged));
    }
    until_empty(&mut manager);
}

#[tokio::test]
async fn a_lease_and_a_memfd_serve_one_job_after_another() {
    let (builder, chain, key) = with_chain(SHORT);
    let mut manager = Manager::start(builder, ROOM);
    let mut peer = Peer::greet(&manager.socket()).await;
    let leased = peer.lease("chain", true).await.unwrap();
    for start in 0..20u64 {
        leased.write(&canonical(&chain.witness(start)));
        let job = peer.submit(leased.job(&start.to_le_bytes(), "chain")).await.unwrap().job;
        assert_proves(&key, &chain, &peer.wait(job).await.unwrap(), &[start]);
    }
    // One memfd in two jobs at once is in the store once, and for as long as either needs it.
    let bytes = canonical(&chain.witness(99));
    let own = OwnBuffer::create(bytes.len() as u64).unwrap();
    own.write_at(&bytes, 0).unwrap();
    let own = own.seal().unwrap();
    let mut jobs = Vec::new();
    for name in [b"one", b"two"] {
        let request = submit(name, "chain", bytes.len() as u64, WitnessSource::Memfd { offset: 0 });
        jobs.push(peer.submit_own(request, own.memfd()).await.unwrap().job);
    }
    manager.kill();
    manager.launch();
    let mut peer = Peer::greet(&manager.socket()).await;
    for job in jobs {
        assert_proves(&key, &chain, &peer.wait(job).await.unwrap(), &[99]);
    }
    manager.until(|manager| manager.stored("cuzk-w").is_empty());
}

#[tokio::test]
async fn partitions_are_where_they_were() {
    let (builder, chain, key) = with_chain(SHORT);
    let mut manager = Manager::start(builder, ROOM);
    let mut peer = Peer::greet(&manager.socket()).await;
    let mut leases = Vec::new();
    let mut job = None;
    for (partition, start) in [(0, 5u64), (2, 7)] {
        let leased = filled(&mut peer, &chain, start).await;
        let request = Submit { partition, partitions: 3, ..leased.job(b"k", "chain") };
        job = Some(peer.submit(request).await.unwrap().job);
        leases.push(leased);
    }
    let job = job.unwrap();
    let proved = |status: &cuzk::proto::Status| {
        status.jobs[0].partitions.iter().filter(|it| it.state == PartitionState::Proved).count() == 2
    };
    peer.status_until(proved).await;
    manager.until(|manager| manager.stored("cuzk-w").is_empty() && manager.stored("cuzk-j").len() == 1);
    manager.kill();
    manager.launch();
    let mut peer = Peer::greet(&manager.socket()).await;
    let status = peer.status().await;
    let states: Vec<_> = status.jobs[0].partitions.iter().map(|it| it.state).collect();
    assert_eq!(states, [PartitionState::Proved, PartitionState::Missing, PartitionState::Proved]);
    assert_eq!(found(&mut peer, b"k").await, Accepted { job, missing: 1 });
    let leased = filled(&mut peer, &chain, 6).await;
    let request = Submit { partition: 1, partitions: 3, ..leased.job(b"k", "chain") };
    assert_eq!(peer.submit(request).await.unwrap(), Accepted { job, missing: 0 });
    assert_proves(&key, &chain, &peer.wait(job).await.unwrap(), &[5, 6, 7]);
}

#[tokio::test]
async fn a_cancelled_job_does_not_come_back_to_life() {
    let (builder, chain, _) = with_chain(LONG);
    let mut manager = Manager::start(builder, ROOM);
    let mut peer = Peer::greet(&manager.socket()).await;
    let (running, _lease) = submitted(&mut peer, &chain, b"running", 1).await;
    let (queued, _other) = submitted(&mut peer, &chain, b"queued", 2).await;
    until_running(&mut peer, running.job).await;
    for job in [running.job, queued.job] {
        assert!(matches!(peer.ask(RequestBody::Cancel(job)).await, ReplyBody::Cancelled));
    }
    manager.kill();
    manager.launch();
    let mut peer = Peer::greet(&manager.socket()).await;
    for job in [running.job, queued.job] {
        assert_refused(peer.wait(job).await, ErrorCode::JobCancelled, &[]);
        assert!(matches!(peer.ask(RequestBody::Acknowledge(job)).await, ReplyBody::Acknowledged));
    }
    until_empty(&mut manager);
}

#[tokio::test]
async fn what_kills_the_daemon_again_and_again_is_not_tried_again() {
    let (builder, chain, key) = with_chain(LONG);
    let mut manager = Manager::start(builder.config("stop_timeout = '10ms'"), ROOM);
    let mut peer = Peer::greet(&manager.socket()).await;
    let (poison, _lease) = submitted(&mut peer, &chain, b"poison", 1).await;
    let (innocent, _other) = submitted(&mut peer, &chain, b"innocent", 2).await;
    for _ in 0..5 {
        until_running(&mut peer, poison.job).await;
        manager.kill();
        manager.launch();
        peer = Peer::greet(&manager.socket()).await;
    }
    assert_refused(peer.wait(poison.job).await, ErrorCode::DaemonDied, &["5 times", "partition 0"]);
    assert_proves(&key, &chain, &peer.wait(innocent.job).await.unwrap(), &[2]);
    assert!(manager.log().contains("are proved alone"), "{}", manager.log());
    // A stop is no death.
    let (stopped, _third) = submitted(&mut peer, &chain, b"stopped", 3).await;
    for _ in 0..4 {
        until_running(&mut peer, stopped.job).await;
        manager.stop();
        manager.launch();
        peer = Peer::greet(&manager.socket()).await;
    }
    assert_proves(&key, &chain, &peer.wait(stopped.job).await.unwrap(), &[3]);
}

#[tokio::test]
async fn what_is_not_understood_is_refused_by_name() {
    let (builder, chain, key) = with_chain(LONG);
    let mut manager = Manager::start(builder, ROOM);
    let mut peer = Peer::greet(&manager.socket()).await;
    let mut jobs = Vec::new();
    for (name, start) in [(b"good", 1), (b"late", 2), (b"torn", 3), (b"gone", 4)] {
        let before = manager.stored("cuzk-");
        let (accepted, leased) = submitted(&mut peer, &chain, name, start).await;
        let new = |prefix: &str| {
            let mut names = manager.stored(prefix);
            names.retain(|it| !before.contains(it));
            names.swap_remove(0)
        };
        jobs.push((accepted.job, new("cuzk-j"), new("cuzk-w"), leased));
    }
    manager.kill();
    // Written by another version; damaged; and a witness that is not there.
    manager.damage(&jobs[1].1, &[9], 8);
    manager.damage(&jobs[2].1, b"x", 200);
    manager.lose(&jobs[3].2);
    manager.launch();
    let mut peer = Peer::greet(&manager.socket()).await;
    let log = manager.log();
    let refused = |job: &str, why: &str| {
        log.lines().any(|line| line.contains(&format!("the record {job} ")) && line.contains(why))
    };
    assert!(refused(&jobs[1].1, "format 9, wanted 1"), "{log}");
    assert!(refused(&jobs[2].1, "damaged"), "{log}");
    for (job, ..) in &jobs[1..3] {
        let refusal = peer.wait(*job).await.unwrap_err();
        assert_eq!((refusal.code, refusal.retry), (ErrorCode::JobLost, Retry::Later));
        assert!(refusal.message.contains(&job.to_string()), "{refusal}");
    }
    assert_eq!(found(&mut peer, b"gone").await, Accepted { job: jobs[3].0, missing: 1 });
    let leased = filled(&mut peer, &chain, 4).await;
    assert_eq!(peer.submit(leased.job(b"gone", "chain")).await.unwrap().job, jobs[3].0);
    for (at, start) in [(0, 1), (3, 4)] {
        assert_proves(&key, &chain, &peer.wait(jobs[at].0).await.unwrap(), &[start]);
    }
    manager.until(|manager| manager.stored("cuzk-w").is_empty() && manager.stored("cuzk-j").len() == 2);
}

#[tokio::test]
async fn a_full_store_is_told() {
    let (builder, chain, key) = with_chain(SHORT);
    // One more than three jobs that are done take, for whether there is room is tried.
    let mut manager = Manager::start(builder, 5);
    let mut peer = Peer::greet(&manager.socket()).await;
    let mut jobs = Vec::new();
    for start in 0..3u64 {
        let (accepted, _) = submitted(&mut peer, &chain, &[start as u8], start).await;
        peer.wait(accepted.job).await.unwrap();
        manager.until(|manager| manager.stored("cuzk-w").is_empty());
        jobs.push(accepted.job);
    }
    let leased = filled(&mut peer, &chain, 3).await;
    let refusal = peer.submit(leased.job(b"more", "chain")).await.unwrap_err();
    assert_eq!((refusal.code, refusal.retry), (ErrorCode::Busy, Retry::Later));
    assert!(refusal.message.contains("FileDescriptorStoreMax="), "{refusal}");
    assert!(refusal.retry_after > Duration::ZERO);
    // What was not accepted is not kept.
    manager.until(|manager| manager.stored("").len() == 3);
    assert!(matches!(peer.ask(RequestBody::Acknowledge(jobs[0])).await, ReplyBody::Acknowledged));
    let job = peer.submit(leased.job(b"more", "chain")).await.unwrap().job;
    assert_proves(&key, &chain, &peer.wait(job).await.unwrap(), &[3]);
}

#[tokio::test]
async fn without_a_store_a_lost_job_is_called_so() {
    let (builder, chain, _) = with_chain(LONG);
    let mut manager = Manager::start(builder, 0);
    let mut peer = Peer::greet(&manager.socket()).await;
    let (accepted, _lease) = submitted(&mut peer, &chain, b"k", 1).await;
    assert!(manager.stored("").is_empty());
    manager.kill();
    manager.launch();
    let mut peer = Peer::greet(&manager.socket()).await;
    assert_refused(peer.wait(accepted.job).await, ErrorCode::JobLost, &[&accepted.job.to_string()]);
    let never = JobId::generate();
    assert_refused(peer.wait(never).await, ErrorCode::UnknownJob, &[]);
}

#[tokio::test]
async fn a_circuit_that_was_changed_fails_its_jobs() {
    let (builder, chain, _) = with_chain(LONG);
    let mut manager = Manager::start(builder, ROOM);
    let mut peer = Peer::greet(&manager.socket()).await;
    let (accepted, _lease) = submitted(&mut peer, &chain, b"k", 1).await;
    manager.kill();
    let (definition, _) = Chain { length: LONG + 1 }.write(manager.dir(), "other");
    manager.define("chain", &definition);
    manager.launch();
    let mut peer = Peer::greet(&manager.socket()).await;
    assert_refused(peer.wait(accepted.job).await, ErrorCode::CircuitChanged, &["chain"]);
    manager.until(|manager| manager.stored("cuzk-w").is_empty());
}

#[tokio::test]
async fn memory_that_shrank_is_waited_for_or_said_to_be_too_small() {
    let (builder, chain, key) = with_chain(LONG);
    let mut manager = Manager::start(builder, ROOM);
    let mut peer = Peer::greet(&manager.socket()).await;
    let mut jobs = Vec::new();
    for start in 0..6u64 {
        jobs.push(submitted(&mut peer, &chain, &[start as u8], start).await.0.job);
    }
    let used = peer.status().await.memory;
    manager.kill();
    // Room for the circuit, for proving it, and for two witnesses.
    let lease = 32 * (LONG as u64 + 2);
    let fixed = used.keys + used.circuits + cuzk_working(&used);
    manager.configure(&format!("memory = '{}B'", fixed + 2 * lease + 8192));
    manager.launch();
    let mut peer = Peer::greet(&manager.socket()).await;
    assert!(peer.status().await.memory.leases <= 2 * lease + 8192);
    for (job, start) in jobs.iter().zip(0..) {
        assert_proves(&key, &chain, &peer.wait(*job).await.unwrap(), &[start]);
    }
}

/// What proving takes: a prover that works has drawn it.
fn cuzk_working(memory: &cuzk::proto::MemoryStatus) -> u64 {
    assert!(memory.working > 0);
    memory.working
}
