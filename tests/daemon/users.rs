//! Two users: what is one's own, and what each may hold. Needs root, to be somebody else for a moment;
//! without it, the tests that need a second user say so and prove nothing.
use crate::{
    circuits::canonical,
    daemon::{Builder, Daemon},
    peer::{Peer, assert_refused, connect_raw, cooked, error},
    with_chain,
};
use cuzk::proto::{ErrorCode, IdempotencyKey, PacketSocket, ReplyBody, RequestBody};
use std::{fs::Permissions, os::unix::fs::PermissionsExt, path::Path};

const OTHER: u32 = 65534;

fn open_to_all(builder: Builder) -> Builder {
    std::fs::set_permissions(builder.dir(), Permissions::from_mode(0o755)).unwrap();
    builder.config("socket_mode = '0666'")
}

/// A socket connected by another user: the kernel notes who connects, and does not look again.
async fn connect_as_other(path: &Path) -> Option<PacketSocket> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: becoming another user needs root");
        return None;
    }
    let path = path.to_owned();
    let connected = std::thread::spawn(move || {
        // The raw call changes this thread alone, not the process as the C library's would.
        // SAFETY: it takes three numbers and touches no memory.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, -1, OTHER, -1) };
        assert_eq!(changed, 0);
        connect_raw(&path)
    });
    Some(cooked(connected.join().unwrap()))
}

async fn greet_as_other(daemon: &Daemon) -> Option<Peer> {
    let socket = connect_as_other(&daemon.socket()).await?;
    Some(Peer::over(socket).await)
}

#[tokio::test]
async fn jobs_leases_and_keys_are_their_owners() {
    let (builder, chain, _) = with_chain(10);
    let daemon = open_to_all(builder).start();
    let mut own = Peer::greet(&daemon.socket()).await;
    let Some(mut other) = greet_as_other(&daemon).await else { return };
    let leased = own.lease("chain", true).await.unwrap();
    leased.write(&canonical(&chain.witness(5)));
    let job = own.submit(leased.job(b"key", "chain")).await.unwrap().job;

    assert_refused(other.wait(job).await, ErrorCode::UnknownJob, &[]);
    for body in [
        RequestBody::Cancel(job),
        RequestBody::Acknowledge(job),
        RequestBody::Find(IdempotencyKey::new(b"key").unwrap()),
    ] {
        assert_eq!(other.refused(body).await.code, ErrorCode::UnknownJob);
    }
    assert_refused(other.submit(leased.job(b"theirs", "chain")).await, ErrorCode::UnknownLease, &[]);
    let theirs = other.lease("chain", true).await.unwrap();
    theirs.write(&canonical(&chain.witness(6)));
    let second = other.submit(theirs.job(b"key", "chain")).await.unwrap().job;
    assert_ne!(job, second, "the same key of another user is another job");
    assert_ne!(own.wait(job).await.unwrap().proofs, other.wait(second).await.unwrap().proofs);
    let status = own.status().await;
    let mut users: Vec<u32> = status.jobs.iter().map(|j| j.uid).collect();
    users.sort();
    assert_eq!(users, [nix::unistd::geteuid().as_raw(), OTHER]);
    daemon.stop();
}

#[tokio::test]
async fn one_users_limits_are_not_anothers() {
    let (builder, chain, _) = with_chain(10);
    let limits = "[limits]\nconnections_per_uid = 2\njobs_per_uid = 1\nleases_per_uid = 2\nconnections = 3";
    let daemon = open_to_all(builder).config(limits).start();
    let mut own = Peer::greet(&daemon.socket()).await;
    let _second = Peer::greet(&daemon.socket()).await;
    let mut third = Peer::connect(&daemon.socket()).await;
    let (refusal, _) = third.receive().await;
    let refusal = (refusal.id, error(refusal.body));
    assert_eq!((refusal.0, refusal.1.code), (0, ErrorCode::QuotaExceeded));
    assert!(refusal.1.message.contains("limits.connections_per_uid = 2"), "{}", refusal.1);
    assert!(third.is_closed().await);

    let first = own.lease("chain", true).await.unwrap();
    let second = own.lease("chain", true).await.unwrap();
    assert_refused(own.lease("chain", true).await, ErrorCode::QuotaExceeded, &["limits.leases_per_uid = 2"]);
    for leased in [&first, &second] {
        leased.write(&canonical(&chain.witness(5)));
    }
    let job = own.submit(first.job(b"one", "chain")).await.unwrap().job;
    own.wait(job).await.unwrap();
    let refused = own.submit(second.job(b"two", "chain")).await;
    let full = refused.clone().unwrap_err();
    assert!(!full.retry_after.is_zero() && full.queue_length == 0, "{full:?}");
    assert_refused(refused, ErrorCode::Busy, &["limits.jobs_per_uid = 1"]);

    if let Some(mut other) = greet_as_other(&daemon).await {
        let theirs = other.lease("chain", true).await.unwrap();
        theirs.write(&canonical(&chain.witness(5)));
        let job = other.submit(theirs.job(b"two", "chain")).await.unwrap().job;
        other.wait(job).await.unwrap();
        if let Some(socket) = connect_as_other(&daemon.socket()).await {
            let packet = socket.recv().await.unwrap().unwrap();
            let refusal = error(cuzk::proto::Reply::decode(&packet.bytes).unwrap().body);
            assert!(refusal.message.contains("limits.connections = 3"), "{refusal}");
        }
    }
    assert!(matches!(own.ask(RequestBody::Acknowledge(job)).await, ReplyBody::Acknowledged));
    let job = own.submit(second.job(b"two", "chain")).await.unwrap().job;
    own.wait(job).await.unwrap();
    daemon.stop();
}

/// The others of a user cannot be kept out by connections that say nothing.
#[tokio::test]
async fn a_connection_that_says_no_hello_is_closed() {
    let (builder, _, _) = with_chain(10);
    let daemon = builder.config("limits.connections = 1").start();
    let mut silent = Peer::connect(&daemon.socket()).await;
    assert!(silent.is_closed().await);
    Peer::greet(&daemon.socket()).await;
}
