//! Provers that fail in every way: what is verified leaves, nothing else does, and the next job is served.
use crate::{
    circuits::canonical,
    inside::{Inside, Manner},
    peer::{Leased, Peer, assert_refused},
};
use cuzk::{
    daemon::lifecycle::{Control, RunError},
    proto::{
        Accepted, AwaitRequest, BackendState, DaemonState, ErrorCode, JobId, PartitionState, ReplyBody,
        RequestBody, Retry, Submit,
    },
};
use std::time::Duration;

/// Submits a good witness as a job of one partition.
async fn submit(inside: &Inside, peer: &mut Peer, key: &[u8]) -> (Accepted, Leased) {
    let leased = peer.lease("chain", true).await.unwrap();
    leased.write(&canonical(&inside.chain.witness(5)));
    let accepted = peer.submit(leased.job(key, "chain")).await.unwrap();
    (accepted, leased)
}

async fn begin_wait(peer: &mut Peer, job: JobId) -> u64 {
    peer.send(RequestBody::Await(AwaitRequest { job, progress: false }), &[]).await
}

async fn state(peer: &mut Peer, job: JobId) -> Option<PartitionState> {
    peer.status().await.jobs.iter().find(|j| j.job == job).map(|j| j.partitions[0].state)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spoilt_proof_is_made_again_once() {
    let inside = Inside::start(Manner::Spoils(1), "", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let (accepted, _leased) = submit(&inside, &mut peer, b"k").await;
    let result = peer.wait(accepted.job).await.unwrap();
    assert_eq!((result.proofs[0].attempts, &result.backend[..]), (2, "test"));
    let counters = peer.status().await.counters;
    assert_eq!((counters.self_check_retries, counters.proved, counters.failed), (1, 1, 0));
    assert_eq!(inside.backend.entered(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_that_is_spoilt_twice_does_not_leave() {
    let inside = Inside::start(Manner::Spoils(2), "", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let (accepted, leased) = submit(&inside, &mut peer, b"k").await;
    assert_refused(peer.wait(accepted.job).await, ErrorCode::SelfCheckFailed, &["chain"]);
    let counters = peer.status().await.counters;
    assert_eq!((counters.self_check_retries, counters.proved, counters.failed), (1, 0, 1));
    // The third proof is good, in the same lease.
    let accepted = peer.submit(leased.job(b"next", "chain")).await.unwrap();
    assert_eq!(peer.wait(accepted.job).await.unwrap().proofs[0].attempts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_one_jobs_failure() {
    let inside = Inside::start(Manner::Panics, "", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let (accepted, leased) = submit(&inside, &mut peer, b"k").await;
    assert_refused(peer.wait(accepted.job).await, ErrorCode::Internal, &["panicked", "for a test"]);
    let status = peer.status().await;
    assert_eq!((status.counters.failed, status.memory.working), (1, 0));
    let accepted = peer.submit(leased.job(b"next", "chain")).await.unwrap();
    peer.wait(accepted.job).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_device_ends_the_daemon_once_the_others_have_proved() {
    let inside = Inside::start_with(Manner::Gated, &[Manner::Lost], "", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let (first, _first_lease) = submit(&inside, &mut peer, b"first").await;
    let (second, _second_lease) = submit(&inside, &mut peer, b"second").await;
    inside.until(|i| i.backend.entered() + i.others[0].entered() == 2).await;
    let (queued, _third_lease) = submit(&inside, &mut peer, b"queued").await;
    let mut waiting = Vec::new();
    for job in [first.job, second.job, queued.job] {
        waiting.push(begin_wait(&mut peer, job).await);
    }

    inside.others[0].open();
    // What was on the device, and what waits, is for the next daemon.
    for _ in 0..2 {
        let (reply, _) = peer.receive().await;
        waiting.retain(|id| *id != reply.id);
        let told = crate::peer::error(reply.body);
        assert_eq!((told.code, told.retry), (ErrorCode::Draining, Retry::Reconnect));
    }
    let status = peer.status().await;
    assert_eq!(status.state, DaemonState::Draining);
    assert!(status.message.starts_with("a device is lost"), "{}", status.message);
    let states: Vec<_> = status.backends.iter().map(|backend| backend.state).collect();
    assert_eq!(states, [BackendState::Ready, BackendState::Lost]);
    assert_eq!((status.counters.failed, status.counters.cancelled), (0, 0));

    // What another device proves is proved, and handed over.
    inside.backend.open();
    let (reply, _) = peer.receive().await;
    assert_eq!([reply.id], waiting[..]);
    assert!(matches!(reply.body, ReplyBody::Result(_)), "{reply:?}");
    assert!(peer.is_closed().await);
    let end = inside.end().await.unwrap_err();
    assert!(matches!(&end, RunError::DeviceLost(lost) if lost.starts_with("test: ")), "{end}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_stops_what_runs_and_frees_its_lease() {
    let inside = Inside::start(Manner::Gated, "", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let (running, leased) = submit(&inside, &mut peer, b"running").await;
    inside.until(|i| i.backend.entered() == 1).await;
    let (queued, second) = submit(&inside, &mut peer, b"queued").await;
    assert_eq!(state(&mut peer, running.job).await, Some(PartitionState::Running));
    assert_eq!(state(&mut peer, queued.job).await, Some(PartitionState::Queued));
    assert!(peer.status().await.memory.working > 0, "status is answered while a proof is made");

    // Both leases are in use, and stay what they are.
    for lease in [&leased, &second] {
        let refused = peer.submit(lease.job(b"other", "chain")).await;
        assert_refused(refused, ErrorCode::LeaseInUse, &[&format!("lease {}", lease.lease.id)]);
    }
    assert_eq!(peer.submit(leased.job(b"running", "chain")).await.unwrap(), running, "twice is once");

    // One that is given back while it is in use goes when its partition is done with it.
    let both = peer.status().await.memory.leases;
    assert!(matches!(peer.ask(RequestBody::Release(second.lease.id)).await, ReplyBody::Released));
    assert_eq!(peer.refused(RequestBody::Release(second.lease.id)).await.code, ErrorCode::UnknownLease);
    assert_eq!(peer.status().await.memory.leases, both);
    assert!(matches!(peer.ask(RequestBody::Cancel(queued.job)).await, ReplyBody::Cancelled));
    peer.status_until(|status| status.memory.leases < both).await;
    assert!(matches!(peer.ask(RequestBody::Cancel(running.job)).await, ReplyBody::Cancelled));
    assert_refused(peer.wait(running.job).await, ErrorCode::JobCancelled, &[]);
    peer.status_until(|s| s.jobs.iter().all(|j| j.partitions[0].state == PartitionState::Cancelled)).await;
    assert!(matches!(peer.ask(RequestBody::Release(leased.lease.id)).await, ReplyBody::Released));
    let status = peer.status().await;
    assert_eq!((status.memory.leases, status.memory.working, status.counters.cancelled), (0, 0, 2));

    inside.backend.open();
    let (next, _lease) = submit(&inside, &mut peer, b"next").await;
    peer.wait(next.job).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn urgent_work_goes_first() {
    use cuzk::proto::Priority::*;
    let inside = Inside::start(Manner::Gated, "", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let (first, _lease) = submit(&inside, &mut peer, b"first").await;
    inside.until(|i| i.backend.entered() == 1).await;
    let mut waiting = vec![(first.job, begin_wait(&mut peer, first.job).await)];
    for (key, priority) in [(b"l", Low), (b"n", Normal), (b"h", High), (b"c", Critical)] {
        let mut other = Peer::greet(&inside.socket()).await;
        let leased = other.lease("chain", true).await.unwrap();
        leased.write(&canonical(&inside.chain.witness(5)));
        let job = other.submit(Submit { priority, ..leased.job(key, "chain") }).await.unwrap().job;
        waiting.push((job, begin_wait(&mut peer, job).await));
    }
    inside.backend.open();
    let mut order = Vec::new();
    for _ in 0..waiting.len() {
        let (reply, _) = peer.receive().await;
        assert!(matches!(reply.body, ReplyBody::Result(_)), "{reply:?}");
        order.push(waiting.iter().position(|(_, id)| *id == reply.id).unwrap());
    }
    assert_eq!(order, [0, 4, 3, 2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_lets_running_partitions_end_and_refuses_the_rest() {
    let inside = Inside::start(Manner::Gated, "", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let (running, leased) = submit(&inside, &mut peer, b"running").await;
    inside.until(|i| i.backend.entered() == 1).await;
    let (queued, _second) = submit(&inside, &mut peer, b"queued").await;
    let first = begin_wait(&mut peer, running.job).await;
    let second = begin_wait(&mut peer, queued.job).await;

    inside.control(Control::Stop).await;
    let (reply, _) = peer.receive().await;
    assert_eq!(reply.id, second);
    let told = crate::peer::error(reply.body);
    assert_eq!((told.code, told.retry), (ErrorCode::Draining, Retry::Reconnect));
    assert_eq!(peer.status().await.state, DaemonState::Draining);
    assert_refused(peer.lease("chain", true).await, ErrorCode::Draining, &["restarting"]);
    assert_refused(peer.submit(leased.job(b"new", "chain")).await, ErrorCode::Draining, &[]);
    assert_eq!(peer.submit(leased.job(b"running", "chain")).await.unwrap(), running, "it is here");

    inside.backend.open();
    let (reply, _) = peer.receive().await;
    assert_eq!(reply.id, first);
    assert!(matches!(reply.body, ReplyBody::Result(_)), "{reply:?}");
    assert!(peer.is_closed().await);
    assert_eq!(inside.notes.count("Stopping"), 1);
    assert_eq!(inside.backend.entered(), 1, "the queued partition was not begun");
    inside.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_stop_ends_at_once() {
    let inside = Inside::start(Manner::Gated, "stop_timeout = '1h'", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let (running, _lease) = submit(&inside, &mut peer, b"running").await;
    inside.until(|i| i.backend.entered() == 1).await;
    let id = begin_wait(&mut peer, running.job).await;
    inside.control(Control::Stop).await;
    inside.until(|i| i.notes.count("Stopping") == 1).await;
    inside.control(Control::Reload).await;
    assert_eq!(state(&mut peer, running.job).await, Some(PartitionState::Running));
    inside.control(Control::Stop).await;
    let (body, _) = peer.reply_to(id).await;
    assert_eq!(crate::peer::error(body).code, ErrorCode::Draining);
    inside.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stop_timeout_bounds_the_stop_even_of_a_hung_prover() {
    let inside = Inside::start(Manner::Hangs, "stop_timeout = '50ms'", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let (_running, _lease) = submit(&inside, &mut peer, b"running").await;
    inside.until(|i| i.backend.entered() == 1).await;
    let backend = inside.backend.clone();
    inside.control(Control::Stop).await;
    inside.ended().await;
    backend.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watchdog_is_fed_by_progress_only() {
    let allowed = Duration::from_millis(100);
    for (manner, fed) in [(Manner::Gated, true), (Manner::Hangs, false)] {
        let inside = Inside::start(manner, "", Some(allowed)).await;
        inside.until(|i| i.notes.count("Watchdog") >= 3).await;
        let mut peer = Peer::greet(&inside.socket()).await;
        let (accepted, _lease) = submit(&inside, &mut peer, b"k").await;
        inside.until(|i| i.backend.entered() == 1).await;
        let entered = inside.notes.count("Watchdog");
        if fed {
            inside.until(|i| i.notes.count("Watchdog") >= entered + 5).await;
        } else {
            // Two looks at the hung worker tell; from then on, silence. How soon is not what is tested.
            inside.falls_silent(5 * allowed).await;
        }
        let after = inside.notes.count("Watchdog");
        // The connections are alive all the time: they are no sign of life.
        assert_eq!(peer.status().await.state, DaemonState::Ready);
        inside.backend.open();
        peer.wait(accepted.job).await.unwrap();
        inside.until(|i| i.notes.count("Watchdog") > after).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_expire() {
    let inside = Inside::start(Manner::Honest, "result_ttl = '1ms'", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let leased = peer.lease("chain", true).await.unwrap();
    leased.write(&canonical(&inside.chain.witness(5)));
    // The second partition never comes.
    let incomplete = Submit { partitions: 2, ..leased.job(b"incomplete", "chain") };
    let job = peer.submit(incomplete).await.unwrap().job;
    let id = begin_wait(&mut peer, job).await;
    let (body, _) = peer.reply_to(id).await;
    assert_eq!(crate::peer::error(body).code, ErrorCode::UnknownJob);
    peer.status_until(|s| s.jobs.is_empty()).await;
}
