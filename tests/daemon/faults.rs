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
    assert_eq!(order, [4, 3, 0, 2, 1], "the critical one had the first one make way");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_critical_job_waits_for_one_step_behind_many() {
    let inside = Inside::start(Manner::Gated, "", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let mut normal = Vec::new();
    for key in 0..20u8 {
        normal.push(submit(&inside, &mut peer, &[b'n', key]).await);
        inside.until(|i| i.backend.entered() >= 1).await;
    }
    let status = peer.status().await;
    assert_eq!((status.queues[0].partitions, status.queues[0].users), (19, 1), "{:?}", status.queues);
    assert_eq!(status.backends[0].current[0].job, normal[0].0.job);
    let leased = peer.lease("chain", true).await.unwrap();
    leased.write(&canonical(&inside.chain.witness(5)));
    let urgent = Submit { priority: cuzk::proto::Priority::Critical, ..leased.job(b"urgent", "chain") };
    let urgent = peer.submit(urgent).await.unwrap().job;
    // Nothing is proved while the gate is shut: the first one has made way, and is told to its watchers as queued.
    peer.status_until(|s| s.backends[0].current.first().is_some_and(|it| it.job == urgent)).await;
    assert_eq!(inside.backend.entered(), 2);
    assert_eq!(state(&mut peer, normal[0].0.job).await, Some(PartitionState::Queued));
    inside.backend.open();
    peer.wait(urgent).await.unwrap();
    for (accepted, _) in &normal {
        let result = peer.wait(accepted.job).await.unwrap();
        assert_eq!(result.proofs[0].attempts, 1);
    }
    let status = peer.status().await;
    assert_eq!((status.counters.proved, status.counters.cancelled, status.counters.failed), (21, 0, 0));
    assert!(status.queues.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_misses_its_deadline_is_ended() {
    let inside = Inside::start(Manner::Gated, "", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let leased = peer.lease("chain", true).await.unwrap();
    leased.write(&canonical(&inside.chain.witness(5)));
    let deadline = Some(Duration::from_millis(50));
    let late = Submit { deadline, ..leased.job(b"late", "chain") };
    let late = peer.submit(late).await.unwrap().job;
    assert_refused(peer.wait(late).await, ErrorCode::DeadlineExceeded, &["deadline"]);
    // Its lease is free for the next one.
    peer.status_until(|s| s.backends[0].current.is_empty()).await;
    inside.backend.open();
    let next = Submit { deadline: Some(Duration::from_secs(600)), ..leased.job(b"next", "chain") };
    let next = peer.submit(next).await.unwrap().job;
    peer.wait(next).await.unwrap();
}

/// What a loopback address answers to a request.
async fn http(address: std::net::SocketAddr, request: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn http_tells_what_the_socket_tells() {
    // Free a moment ago, which is as good as it gets.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let inside = Inside::start(Manner::Honest, &format!("http = '{address}'"), None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let (accepted, _leased) = submit(&inside, &mut peer, b"k").await;
    peer.wait(accepted.job).await.unwrap();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    let metrics = http(address, &get("/metrics")).await;
    assert!(metrics.starts_with("HTTP/1.1 200") && metrics.ends_with("# EOF\n"), "{metrics}");
    assert!(metrics.contains("cuzk_partitions_total{event=\"proved\"} 1"), "{metrics}");
    let status = http(address, &get("/status")).await;
    let (head, body) = status.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("application/json"), "{head}");
    let status: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!((&status["state"], &status["counters"]["proved"]), (&"ready".into(), &1.into()));
    assert!(http(address, &get("/healthz")).await.contains("200 OK"));
    assert!(http(address, &get("/nothing")).await.starts_with("HTTP/1.1 404"));
    assert!(http(address, "POST /status HTTP/1.1\r\nHost: x\r\n\r\n").await.starts_with("HTTP/1.1 405"));
    assert!(http(address, "nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400"));
    let endless = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(15 << 10));
    assert!(http(address, &endless).await.starts_with("HTTP/1.1 4"));
    // One who says nothing is in nobody's way.
    let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
    assert!(http(address, &get("/healthz")).await.contains("200 OK"));
    inside.control(Control::Stop).await;
    inside.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_metrics_and_trace_tell_where_time_goes() {
    let inside = Inside::start(Manner::Gated, "", None).await;
    let mut peer = Peer::greet(&inside.socket()).await;
    let (running, leased) = submit(&inside, &mut peer, b"running").await;
    inside.until(|i| i.backend.entered() == 1).await;
    let (queued, _second) = submit(&inside, &mut peer, b"queued").await;
    let third = peer.lease("chain", true).await.unwrap();
    let status = peer.status().await;
    let buffers: Vec<_> = status.buffers.iter().map(|it| (&it.stage[..], it.buffers)).collect();
    assert!(buffers.contains(&("witness", 1)) && buffers.contains(&("queued", 1)), "{buffers:?}");
    assert_eq!(status.circuits[0].references, 6, "three leases, two jobs, one proof");
    assert!(status.memory.peak >= status.memory.used && status.memory.resident > 0, "{:?}", status.memory);
    inside.backend.open();
    peer.wait(running.job).await.unwrap();
    peer.wait(queued.job).await.unwrap();
    let before = peer.status().await.backends[0].clone();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let after = peer.status().await.backends[0].clone();
    assert!(after.idle.witness - before.idle.witness >= Duration::from_millis(20), "{after:?}");
    assert!(after.busy == before.busy && !after.busy.is_zero(), "{after:?}");
    drop((third, leased));

    let ReplyBody::Metrics(text) = peer.ask(RequestBody::Metrics).await else { panic!("metrics") };
    for line in [
        "cuzk_partitions_total{event=\"proved\"} 2",
        "cuzk_stage_seconds_count{circuit=\"chain\",stage=\"msm_h\"} 2",
        "cuzk_prover_idle_seconds_total{prover=\"test\",cause=\"witness\"} ",
        "cuzk_memory_used_bytes{consumer=\"keys\"} ",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let trace = |job, last| RequestBody::Trace(cuzk::proto::TraceRequest { job, last });
    let ReplyBody::Trace(one) = peer.ask(trace(Some(queued.job), 0)).await else { panic!("a trace") };
    for stage in ["lease", "witness", "queued", "evaluate", "msm_b2", "verify"] {
        assert_eq!(one.matches(&format!("\"name\":\"{stage}\"")).count(), 1, "{stage}: {one}");
    }
    assert!(one.contains(&queued.job.to_string()) && !one.contains(&running.job.to_string()));
    let ReplyBody::Trace(last) = peer.ask(trace(None, 1)).await else { panic!("a trace") };
    assert!(last.contains(&queued.job.to_string()) && !last.contains(&running.job.to_string()));
    let unknown = peer.refused(trace(Some(cuzk::proto::JobId([9; 16])), 0)).await;
    assert_eq!(unknown.code, ErrorCode::UnknownJob);
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
