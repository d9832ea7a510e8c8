//! Jobs: proofs of all kinds of witnesses, idempotency, failures, cancelling.
use crate::{
    circuits::{canonical, montgomery, packed},
    peer::{Leased, Peer, assert_refused, submit},
    with_chain,
};
use cuzk::{
    algebra::Canonical,
    groth16::{PreparedVerifyingKey, Proof, VerifyingKey},
    proto::{
        ErrorCode, JobResult, PartitionProof, PartitionState, ReplyBody, RequestBody, Submit, WitnessSource,
    },
    r1cs::WitnessEncoding,
    shm::OwnBuffer,
};

/// Verifies as anybody can: from the bytes in the reply.
fn assert_proves(key: &VerifyingKey, proof: &PartitionProof, inputs: &[Canonical]) {
    let wanted: Vec<[u8; 32]> = inputs.iter().map(|i| i.to_le_bytes()).collect();
    assert_eq!(proof.public_inputs, wanted);
    assert_eq!(proof.public_inputs_hash.0, *blake3::hash(wanted.as_flattened()).as_bytes());
    let proof = Proof::from_bytes(&proof.proof).unwrap();
    PreparedVerifyingKey::new(key).verify(&proof, inputs).unwrap();
}

fn assert_result(result: &JobResult) {
    assert_eq!(
        (&result.circuit[..], &result.backend[..], &result.build[..]),
        ("chain", "cpu", cuzk::BUILD_ID)
    );
}

#[tokio::test]
async fn a_witness_in_a_lease_becomes_a_verified_proof() {
    let (builder, chain, key) = with_chain(20);
    let daemon = builder.start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let leased = peer.lease("chain", true).await.unwrap();
    assert_eq!((leased.lease.public_inputs, leased.lease.auxiliary, leased.lease.bytes), (2, 19, 32 * 22));
    let z = chain.witness(5);
    leased.write(&canonical(&z));
    let accepted = peer.submit(leased.job(b"first", "chain")).await.unwrap();
    assert_eq!(accepted.missing, 0);
    let (told, result) = peer.follow(accepted.job).await;
    let result = result.unwrap();
    assert_result(&result);
    assert_eq!(result.circuit_id, leased.lease.circuit_id);
    let [proof] = &result.proofs[..] else { panic!("{result:?}") };
    assert_eq!(proof.attempts, 1);
    assert_proves(&key, proof, &z[1..3]);
    let stages: Vec<&str> = proof.timeline.iter().map(|span| &span.stage[..]).collect();
    let wanted = [
        "queued", "copy", "evaluate", "quotient", "msm_h", "msm_l", "msm_a", "msm_b1", "msm_b2", "assemble",
        "verify",
    ];
    for stage in wanted {
        assert!(stages.contains(&stage), "{stages:?} lacks {stage}");
    }
    assert_eq!(told.last().unwrap().state, PartitionState::Proved);

    // The lease is free for the next witness, in another encoding.
    let z = chain.witness(6);
    leased.write(&montgomery(&z));
    let job = Submit { encoding: WitnessEncoding::Montgomery, ..leased.job(b"second", "chain") };
    let accepted = peer.submit(job).await.unwrap();
    assert_proves(&key, &peer.wait(accepted.job).await.unwrap().proofs[0], &z[1..3]);
    daemon.stop();
}

#[tokio::test]
async fn a_packed_witness_proves_the_same() {
    let (builder, _, key) = with_chain(300);
    let daemon = builder.start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    // It begins with a zero and small values; the others are whole.
    let z = crate::circuits::Chain { length: 300 }.witness(0);
    let bytes = packed(&z, 3);
    let own = OwnBuffer::create(bytes.len() as u64).unwrap();
    own.write_at(&bytes, 0).unwrap();
    let length = bytes.len() as u64;
    let job = submit(b"p", "chain", length, WitnessSource::Memfd { offset: 0 });
    let job = Submit { encoding: WitnessEncoding::Packed, ..job };
    let accepted = peer.submit_own(job.clone(), own.seal().unwrap().memfd()).await.unwrap();
    assert_proves(&key, &peer.wait(accepted.job).await.unwrap().proofs[0], &z[1..3]);

    for (key, at, code) in
        [(&b"magic"[..], 0, ErrorCode::PackedInvalid), (b"count", 16, ErrorCode::PackedInvalid)]
    {
        let mut spoilt = bytes.clone();
        spoilt[at] ^= 1;
        let own = OwnBuffer::create(length).unwrap();
        own.write_at(&spoilt, 0).unwrap();
        let job = Submit { key: cuzk::proto::IdempotencyKey::new(key).unwrap(), ..job.clone() };
        let accepted = peer.submit_own(job, own.seal().unwrap().memfd()).await.unwrap();
        assert_eq!(peer.wait(accepted.job).await.unwrap_err().code, code);
    }
    daemon.stop();
}

#[tokio::test]
async fn a_sealed_memfd_of_the_clients_own_becomes_a_proof() {
    let (builder, chain, key) = with_chain(500);
    let daemon = builder.start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let z = chain.witness(9);
    let bytes = canonical(&z);
    let own = OwnBuffer::create(bytes.len() as u64).unwrap();
    own.write_at(&bytes, 0).unwrap();
    let memfd = own.seal().unwrap();
    let job = submit(b"own", "chain", bytes.len() as u64, WitnessSource::Memfd { offset: 0 });
    let accepted = peer.submit_own(job.clone(), memfd.memfd()).await.unwrap();
    let result = peer.wait(accepted.job).await.unwrap();
    assert_proves(&key, &result.proofs[0], &z[1..3]);
    let status = peer.status_until(|s| s.memory.leases == 0).await;
    assert_eq!(status.counters.proved, 1);
    // Asked again without the memory: the same job.
    assert_eq!(peer.submit(job).await.unwrap(), accepted);
    daemon.stop();
}

#[tokio::test]
async fn a_job_of_many_partitions_returns_its_proofs_in_order() {
    let (builder, chain, key) = with_chain(10);
    let daemon = builder.start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    const N: u32 = 5;
    let leased: Vec<Leased> = {
        let mut leased = Vec::new();
        for _ in 0..N {
            leased.push(peer.lease("chain", true).await.unwrap());
        }
        leased
    };
    let mut job = None;
    for partition in (0..N).rev() {
        let lease = &leased[partition as usize];
        lease.write(&canonical(&chain.witness(partition.into())));
        let part = Submit { partition, partitions: N, ..lease.job(b"many", "chain") };
        let accepted = peer.submit(part.clone()).await.unwrap();
        assert_eq!(accepted.missing, partition);
        assert_eq!(peer.submit(part).await.unwrap(), accepted, "twice is once");
        assert_eq!(*job.get_or_insert(accepted.job), accepted.job);
    }
    let result = peer.wait(job.unwrap()).await.unwrap();
    assert_eq!(result.proofs.len(), N as usize);
    for (start, proof) in (0..).zip(&result.proofs) {
        assert_proves(&key, proof, &chain.witness(start)[1..3]);
    }
    assert_eq!(peer.status().await.counters.proved, u64::from(N));
    daemon.stop();
}

#[tokio::test]
async fn a_witness_at_fault_is_named() {
    let (builder, chain, _) = with_chain(20);
    let daemon = builder.start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let leased = peer.lease("chain", true).await.unwrap();
    let good = canonical(&chain.witness(5));

    // Constraint 7 makes x_8, which is value 10.
    let mut wrong = good.clone();
    wrong[32 * 10] ^= 1;
    leased.write(&wrong);
    let job = peer.submit(leased.job(b"wrong", "chain")).await.unwrap().job;
    let error = peer.wait(job).await.unwrap_err();
    assert_eq!((error.code, error.index, error.partition), (ErrorCode::Unsatisfied, 7, 0), "{error}");
    assert!(error.message.contains("constraint 7"), "{error}");

    let mut large = good.clone();
    large[32 * 4..32 * 5].fill(0xff);
    leased.write(&large);
    let job = peer.submit(leased.job(b"large", "chain")).await.unwrap().job;
    let error = peer.wait(job).await.unwrap_err();
    assert_eq!((error.code, error.index), (ErrorCode::NotCanonical, 4), "{error}");

    let mut two = good.clone();
    two[0] = 2;
    leased.write(&two);
    let job = peer.submit(leased.job(b"two", "chain")).await.unwrap().job;
    assert_eq!(peer.wait(job).await.unwrap_err().code, ErrorCode::FirstNotOne);

    // And then all is well again.
    leased.write(&good);
    let job = peer.submit(leased.job(b"good", "chain")).await.unwrap().job;
    peer.wait(job).await.unwrap();
    let counters = peer.status().await.counters;
    assert_eq!((counters.proved, counters.failed, counters.self_check_retries), (1, 3, 0));
    daemon.stop();
}

#[tokio::test]
async fn a_finished_job_is_kept_until_it_is_acknowledged() {
    let (builder, chain, _) = with_chain(10);
    let daemon = builder.start();
    let job = {
        let mut peer = Peer::greet(&daemon.socket()).await;
        let leased = peer.lease("chain", true).await.unwrap();
        leased.write(&canonical(&chain.witness(5)));
        peer.submit(leased.job(b"kept", "chain")).await.unwrap().job
    };
    // The connection is gone, with its lease and mapping; the job is not.
    let mut peer = Peer::greet(&daemon.socket()).await;
    let first = peer.wait(job).await.unwrap();
    let again = peer.wait(job).await.unwrap();
    assert_eq!(first, again);
    let found = peer.ask(RequestBody::Find(cuzk::proto::IdempotencyKey::new(b"kept").unwrap())).await;
    assert!(matches!(found, ReplyBody::Accepted(accepted) if accepted.job == job));
    assert!(matches!(peer.ask(RequestBody::Acknowledge(job)).await, ReplyBody::Acknowledged));
    assert_refused(peer.wait(job).await, ErrorCode::UnknownJob, &[&job.to_string()]);
    assert_eq!(peer.refused(RequestBody::Acknowledge(job)).await.code, ErrorCode::UnknownJob);
    let status = peer.status_until(|s| s.memory.leases == 0).await;
    assert!(status.jobs.is_empty());
    daemon.stop();
}
