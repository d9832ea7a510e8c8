//! Peers that send what they should not, vanish, or do not listen. After each, the next job is served.
use crate::{
    circuits::{Chain, canonical},
    daemon::Daemon,
    peer::{Leased, Peer, assert_refused, connect_raw, cooked, error, submit},
    with_chain,
};
use cuzk::{
    proto::{
        AwaitRequest, ErrorCode, Hello, JobId, LeaseRequest, ReplyBody, Request, RequestBody, Submit,
        WitnessSource,
    },
    r1cs::WitnessEncoding,
    shm::{OwnBuffer, PageSize, Seals, memfd},
};
use nix::sys::socket::{ControlMessage, MsgFlags, send, sendmsg};
use std::{
    fs::File,
    io::{BufRead, BufReader, IoSlice},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    path::Path,
    process::{Command, Stdio},
};

async fn serves_the_next_job(daemon: &Daemon, chain: &Chain, key: &[u8]) {
    let mut peer = Peer::greet(&daemon.socket()).await;
    let leased = peer.lease("chain", true).await.unwrap();
    leased.write(&canonical(&chain.witness(5)));
    let job = peer.submit(leased.job(key, "chain")).await.unwrap().job;
    peer.wait(job).await.unwrap();
    assert!(matches!(peer.ask(RequestBody::Acknowledge(job)).await, ReplyBody::Acknowledged));
}

#[tokio::test]
async fn packets_that_are_no_requests() {
    let (builder, chain, _) = with_chain(10);
    let daemon = builder.start();
    let mut peer = Peer::connect(&daemon.socket()).await;
    assert_eq!(peer.refused(RequestBody::Circuits).await.code, ErrorCode::HelloExpected);
    let hello = |version| RequestBody::Hello(Hello { version, client: "peer".into() });
    for version in [0, 2, u32::MAX] {
        let refusal = peer.refused(hello(version)).await;
        assert_eq!(refusal.code, ErrorCode::UnsupportedVersion);
        assert!(refusal.message.contains(&version.to_string()), "{refusal}");
    }
    assert_eq!(peer.refused(RequestBody::Status).await.code, ErrorCode::HelloExpected);
    assert!(matches!(peer.ask(hello(1)).await, ReplyBody::Welcome(_)));

    let status = Request { id: 77, body: RequestBody::Status }.encode();
    let mut unknown = status.clone();
    // The discriminant follows the id: 8 bytes of segment table, 8 of the root pointer, 8 of the id.
    unknown[24..26].copy_from_slice(&999u16.to_le_bytes());
    let mut cut = status.clone();
    cut.truncate(20);
    for (packet, code) in [
        (vec![0], ErrorCode::Malformed),
        (vec![0xff; 64], ErrorCode::Malformed),
        (cut, ErrorCode::Malformed),
        (unknown, ErrorCode::UnsupportedRequest),
        (vec![7; 65536], ErrorCode::Malformed),
    ] {
        peer.socket.send(&packet, &[]).await.unwrap();
        assert_eq!(error(peer.receive().await.0.body).code, code);
    }
    // A packet longer than any may be is lost, the connection is not.
    let raw = connect_raw(&daemon.socket());
    let mut other = Peer::over(cooked(raw.try_clone().unwrap())).await;
    send(raw.as_raw_fd(), &vec![0; 70_000], MsgFlags::empty()).unwrap();
    assert_eq!(error(other.receive().await.0.body).code, ErrorCode::Malformed);
    assert!(other.status().await.counters.refused >= 8);
    // Nor is it by more descriptors than a packet may carry.
    let file = File::open("/dev/null").unwrap();
    let many = [file.as_raw_fd(); 17];
    let (bytes, control) = ([IoSlice::new(&status)], [ControlMessage::ScmRights(&many)]);
    sendmsg::<()>(raw.as_raw_fd(), &bytes, &control, MsgFlags::empty(), None).unwrap();
    let (reply, _) = other.receive().await;
    assert_eq!((reply.id, error(reply.body).code), (77, ErrorCode::TooManyDescriptors));
    serves_the_next_job(&daemon, &chain, b"k").await;
    daemon.stop();
}

#[tokio::test]
async fn descriptors_where_none_or_others_belong() {
    let (builder, chain, _) = with_chain(10);
    let daemon = builder.start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let file = File::open("/dev/null").unwrap();
    let id = peer.send(RequestBody::Status, &[file.as_fd()]).await;
    assert_eq!(error(peer.reply_to(id).await.0).code, ErrorCode::DescriptorUnexpected);
    let many: Vec<BorrowedFd<'_>> = (0..16).map(|_| file.as_fd()).collect();
    let own = submit(b"k", "chain", 32 * 12, WitnessSource::Memfd { offset: 0 });
    let id = peer.send(RequestBody::Submit(own.clone()), &many).await;
    assert_eq!(error(peer.reply_to(id).await.0).code, ErrorCode::DescriptorUnexpected);
    assert_refused(peer.submit(own).await, ErrorCode::DescriptorMissing, &["memfd"]);
    let open = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count();
    assert!(open < 40, "{open} descriptors are open: those of refused packets are to be closed");
    serves_the_next_job(&daemon, &chain, b"next").await;
    daemon.stop();
}

/// A memfd with this content and these seals.
fn memory(bytes: &[u8], seals: Option<Seals>) -> OwnedFd {
    let file = File::from(memfd::create(c"test", PageSize::Base).unwrap());
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).unwrap();
    if let Some(seals) = seals {
        seals.add_to(&file).unwrap();
    }
    file.into()
}

#[tokio::test]
async fn memory_that_is_no_witness() {
    let (builder, chain, _) = with_chain(10);
    let daemon = builder.start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let good = canonical(&chain.witness(5));
    let length = good.len() as u64;
    let sparse = {
        let file = File::from(memfd::create(c"sparse", PageSize::Base).unwrap());
        file.set_len(1 << 40).unwrap();
        Seals::IMMUTABLE.add_to(&file).unwrap();
        OwnedFd::from(file)
    };
    let (pipe, _writer) = nix::unistd::pipe().unwrap();
    let sealed = || memory(&good, Some(Seals::IMMUTABLE));
    for (name, descriptor, offset, length, code) in [
        ("a file", tempfile::tempfile().unwrap().into(), 0, length, ErrorCode::NotMemfd),
        ("a pipe", pipe, 0, length, ErrorCode::NotMemfd),
        ("no seals", memory(&good, None), 0, length, ErrorCode::SealMissing),
        ("writable", memory(&good, Some(Seals::FIXED_SIZE)), 0, length, ErrorCode::SealMissing),
        ("short", memory(&good[..64], Some(Seals::IMMUTABLE)), 0, length, ErrorCode::WitnessShort),
        ("sparse and huge", sparse, 0, length, ErrorCode::WitnessOversized),
        ("unaligned", sealed(), 1, length, ErrorCode::OffsetInvalid),
        ("past the end", sealed(), 4096, length, ErrorCode::OffsetInvalid),
        ("overflow", sealed(), u64::MAX - 4095, length, ErrorCode::OffsetInvalid),
        ("a value short", sealed(), 0, length - 32, ErrorCode::WitnessLength),
        ("nothing", sealed(), 0, 0, ErrorCode::WitnessLength),
        ("all there is", sealed(), 0, u64::MAX, ErrorCode::WitnessLength),
    ] {
        let job = submit(name.as_bytes(), "chain", length, WitnessSource::Memfd { offset });
        let refusal = peer.submit_own(job, &descriptor).await.expect_err(name);
        assert_eq!(refusal.code, code, "{name}: {refusal}");
        serves_the_next_job(&daemon, &chain, name.as_bytes()).await;
    }
    let status = peer.status_until(|s| s.memory.leases == 0).await;
    assert!(status.jobs.is_empty());
    daemon.stop();
}

#[tokio::test]
async fn submits_that_contradict_something() {
    let (builder, chain, _) = with_chain(10);
    let daemon = builder.start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let leased = peer.lease("chain", true).await.unwrap();
    leased.write(&canonical(&chain.witness(5)));
    let good = leased.job(b"k", "chain");
    let other_lease = WitnessSource::Lease(leased.lease.id + 1);
    let wrong_id = Some(cuzk::proto::ContentId([9; 32]));
    for (name, job, code) in [
        ("circuit", Submit { circuit: "other".into(), ..good.clone() }, ErrorCode::UnknownCircuit),
        ("id", Submit { circuit_id: wrong_id, ..good.clone() }, ErrorCode::CircuitChanged),
        ("lease", Submit { witness: other_lease, ..good.clone() }, ErrorCode::UnknownLease),
        ("length", Submit { length: good.length - 1, ..good.clone() }, ErrorCode::WitnessLength),
        ("partition", Submit { partition: 1, ..good.clone() }, ErrorCode::PartitionInvalid),
        ("partitions", Submit { partitions: 0, ..good.clone() }, ErrorCode::PartitionInvalid),
        ("too many", Submit { partitions: 1025, ..good.clone() }, ErrorCode::PartitionInvalid),
    ] {
        let refusal = peer.submit(job).await.expect_err(name);
        assert_eq!(refusal.code, code, "{name}: {refusal}");
    }
    // Another circuit's lease, too small for this one.
    let (definition, _) = Chain { length: 300 }.write(daemon.dir(), "long");
    daemon.define("long", &definition);
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    let mut daemon = daemon;
    daemon.wait_for("READY=1");
    let job = submit(b"l", "long", 32 * 302, WitnessSource::Lease(leased.lease.id));
    assert_refused(peer.submit(job).await, ErrorCode::WitnessShort, &["384 bytes", "9664"]);

    let id = good.circuit_id.or(Some(leased.lease.circuit_id));
    let accepted = peer.submit(Submit { circuit_id: id, ..good.clone() }).await.unwrap();
    let conflict = Submit { partitions: 2, ..good };
    assert_refused(peer.submit(conflict).await, ErrorCode::KeyConflict, &["number of partitions 1, found 2"]);
    peer.wait(accepted.job).await.unwrap();
    let absent = JobId([1; 16]);
    assert_refused(peer.wait(absent).await, ErrorCode::UnknownJob, &[&absent.to_string()]);
    for body in [RequestBody::Cancel(absent), RequestBody::Acknowledge(absent)] {
        assert_eq!(peer.refused(body).await.code, ErrorCode::UnknownJob);
    }
    assert_eq!(peer.refused(RequestBody::Release(99)).await.code, ErrorCode::UnknownLease);
    daemon.stop();
}

#[tokio::test]
async fn witnesses_of_every_bad_kind() {
    let (builder, chain, _) = with_chain(10);
    let daemon = builder.start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let leased = peer.lease("chain", true).await.unwrap();
    let bytes = leased.lease.bytes as usize;
    let modulus: Vec<u8> = cuzk::algebra::fr::MODULUS.iter().flat_map(|l| l.to_le_bytes()).collect();
    let mut last = canonical(&chain.witness(5));
    last[bytes - 32..].copy_from_slice(&modulus);
    for (name, witness, encoding, code) in [
        ("zeros", vec![0; bytes], WitnessEncoding::Canonical, ErrorCode::FirstNotOne),
        ("all ones", vec![0xff; bytes], WitnessEncoding::Canonical, ErrorCode::NotCanonical),
        ("r", last, WitnessEncoding::Canonical, ErrorCode::NotCanonical),
        ("Montgomery above r", vec![0xff; bytes], WitnessEncoding::Montgomery, ErrorCode::NotCanonical),
        ("Montgomery zeros", vec![0; bytes], WitnessEncoding::Montgomery, ErrorCode::FirstNotOne),
        (
            "canonical as Montgomery",
            canonical(&chain.witness(5)),
            WitnessEncoding::Montgomery,
            ErrorCode::FirstNotOne,
        ),
    ] {
        leased.write(&witness);
        let job = peer.submit(Submit { encoding, ..leased.job(name.as_bytes(), "chain") }).await.unwrap().job;
        let failure = peer.wait(job).await.expect_err(name);
        assert_eq!(failure.code, code, "{name}: {failure}");
    }
    serves_the_next_job(&daemon, &chain, b"next").await;
    daemon.stop();
}

/// How far a client comes before it is gone.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Step {
    Connected,
    Greeted,
    AsksForLease,
    HasLease,
    HasWritten,
    Submits,
    Submitted,
    Awaits,
}

const STEPS: [Step; 8] = [
    Step::Connected,
    Step::Greeted,
    Step::AsksForLease,
    Step::HasLease,
    Step::HasWritten,
    Step::Submits,
    Step::Submitted,
    Step::Awaits,
];

/// The circuit of the clients that go.
const GOING: usize = 200;

/// Comes as far as `step`.
async fn advance(socket: &Path, step: Step, key: &[u8]) -> (Peer, Option<Leased>) {
    if step == Step::Connected {
        return (Peer::connect(socket).await, None);
    }
    let mut peer = Peer::greet(socket).await;
    if step == Step::AsksForLease {
        peer.send(RequestBody::Lease(LeaseRequest::new("chain", true)), &[]).await;
    }
    if step <= Step::AsksForLease {
        return (peer, None);
    }
    let leased = peer.lease("chain", true).await.unwrap();
    if step >= Step::HasWritten {
        leased.write(&canonical(&Chain { length: GOING }.witness(5)));
    }
    if step == Step::Submits {
        peer.send(RequestBody::Submit(leased.job(key, "chain")), &[]).await;
    }
    if step >= Step::Submitted {
        let job = peer.submit(leased.job(key, "chain")).await.unwrap().job;
        if step == Step::Awaits {
            peer.send(RequestBody::Await(AwaitRequest { job, progress: true }), &[]).await;
        }
    }
    (peer, Some(leased))
}

/// Where [`the_client_to_be_killed`] goes, and how far: the socket, and the index of a step.
const CLIENT: [&str; 2] = ["CUZK_TEST_CLIENT_SOCKET", "CUZK_TEST_CLIENT_STEP"];
/// What it says when it is there.
const THERE: &str = "the client is there";

/// A process that is started by `clients_that_are_gone_at_any_step_leave_nothing` alone.
#[tokio::test]
#[ignore = "it is the client of another test"]
async fn the_client_to_be_killed() {
    let [Ok(socket), Ok(step)] = CLIENT.map(std::env::var) else { return };
    let step = STEPS[step.parse::<usize>().unwrap()];
    let _held = advance(Path::new(&socket), step, format!("{step:?}").as_bytes()).await;
    println!("{THERE}");
    std::future::pending().await
}

/// A client process that has come as far as the step is killed.
fn kill_at(socket: &Path, step: usize) {
    let mut client = Command::new(std::env::current_exe().unwrap())
        .args(["hostile::the_client_to_be_killed", "--exact", "--ignored", "--nocapture"])
        .env(CLIENT[0], socket)
        .env(CLIENT[1], step.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(THERE)), "{:?}", STEPS[step]);
    client.kill().unwrap();
    assert_eq!(client.wait().unwrap().signal(), Some(libc::SIGKILL));
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_are_gone_at_any_step_leave_nothing() {
    let (builder, chain, _) = with_chain(GOING);
    let daemon = builder.start();
    let mut observer = Peer::greet(&daemon.socket()).await;
    let held = |memory: cuzk::proto::MemoryStatus| {
        // What the process takes, and the most that was used, is not given back.
        cuzk::proto::MemoryStatus { peak: 0, resident: 0, peak_resident: 0, ..memory }
    };
    let before = held(observer.status().await.memory);
    for ((index, step), killed) in STEPS.into_iter().enumerate().flat_map(|s| [(s, false), (s, true)]) {
        if killed {
            let socket = daemon.socket();
            tokio::task::spawn_blocking(move || kill_at(&socket, index)).await.unwrap();
        } else {
            advance(&daemon.socket(), step, format!("{step:?}").as_bytes()).await;
        }
        // A job that was accepted is brought to its end and is there to be asked for; everything else is gone.
        let status = observer
            .status_until(|s| {
                let done =
                    |j: &cuzk::proto::JobStatus| j.partitions[0].state == cuzk::proto::PartitionState::Proved;
                s.connections == 1 && held(s.memory) == before && s.jobs.iter().all(done)
            })
            .await;
        if step >= Step::Submitted {
            assert_eq!(status.jobs.len(), 1, "{step:?}");
        }
        for job in status.jobs {
            assert_eq!(observer.wait(job.job).await.unwrap().proofs.len(), 1);
            assert!(matches!(observer.ask(RequestBody::Acknowledge(job.job)).await, ReplyBody::Acknowledged));
        }
        serves_the_next_job(&daemon, &chain, b"next").await;
    }
    daemon.stop();
}

/// The budget never calls memory free that somebody still holds.
#[tokio::test]
async fn memory_that_was_given_back_is_free_though_its_holder_maps_it() {
    let (builder, chain, _) = with_chain(GOING);
    let daemon = builder.start();
    let mut observer = Peer::greet(&daemon.socket()).await;
    let witness = canonical(&chain.witness(5));
    let empty = |leased: &Leased| {
        let mut bytes = vec![1; witness.len()];
        leased.mapping.read_at(&mut bytes, 0).unwrap();
        bytes.iter().all(|byte| *byte == 0)
    };
    // Given back, while its partition is under way and after.
    let mut peer = Peer::greet(&daemon.socket()).await;
    for early in [true, false] {
        let leased = peer.lease("chain", true).await.unwrap();
        leased.write(&witness);
        let job = peer.submit(leased.job(&[early.into()], "chain")).await.unwrap().job;
        if !early {
            peer.wait(job).await.unwrap();
        }
        assert!(matches!(peer.ask(RequestBody::Release(leased.lease.id)).await, ReplyBody::Released));
        assert_eq!(peer.wait(job).await.unwrap().proofs.len(), 1);
        observer.status_until(|s| s.memory.leases == 0).await;
        assert!(empty(&leased));
    }
    // Its connection has ended.
    let leased = peer.lease("chain", true).await.unwrap();
    leased.write(&witness);
    assert!(!empty(&leased));
    drop(peer);
    observer.status_until(|s| s.memory.leases == 0).await;
    assert!(empty(&leased));
    daemon.stop();
}

#[tokio::test]
async fn a_peer_that_does_not_read_stalls_nobody() {
    let (builder, chain, _) = with_chain(10);
    let daemon = builder.start();
    let deaf = Peer::greet(&daemon.socket()).await;
    // It sends until the daemon has stopped reading: its replies have nowhere to go.
    let request = Request { id: 1, body: RequestBody::Status }.encode();
    let second = std::time::Duration::from_secs(1);
    while let Ok(sent) = tokio::time::timeout(second, deaf.socket.send(&request, &[])).await {
        sent.unwrap();
    }
    serves_the_next_job(&daemon, &chain, b"k").await;
    let mut peer = Peer::greet(&daemon.socket()).await;
    assert_eq!(peer.status().await.connections, 2);
    drop(deaf);
    peer.status_until(|s| s.connections == 1).await;
    daemon.stop();
}

#[tokio::test]
async fn requests_beyond_the_limit_are_refused() {
    let (builder, chain, _) = with_chain(10);
    let daemon = builder.config("limits.requests_per_connection = 2").start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let leased = peer.lease("chain", true).await.unwrap();
    leased.write(&canonical(&chain.witness(5)));
    let half = Submit { partitions: 2, ..leased.job(b"half", "chain") };
    let job = peer.submit(half).await.unwrap().job;
    let waits = RequestBody::Await(AwaitRequest { job, progress: false });
    let (first, second) = (peer.send(waits.clone(), &[]).await, peer.send(waits.clone(), &[]).await);
    let refusal = peer.refused(waits.clone()).await;
    assert_eq!(refusal.code, ErrorCode::QuotaExceeded);
    assert!(refusal.message.contains("limits.requests_per_connection = 2"), "{refusal}");
    // Requests that are answered at once are not among those that wait.
    assert_eq!(peer.status().await.connections, 1);
    // Nor are those that were abandoned, and their replies do not come.
    for abandoned in [first, second, 999] {
        assert!(matches!(peer.ask(RequestBody::Abandon(abandoned)).await, ReplyBody::Abandoned));
    }
    let lease = RequestBody::Lease(LeaseRequest::new("chain", true));
    let (third, fourth) = (peer.send(waits.clone(), &[]).await, peer.send(lease, &[]).await);
    assert!(matches!(peer.reply_to(fourth).await.0, ReplyBody::Lease(_)));
    assert!(matches!(peer.ask(RequestBody::Cancel(job)).await, ReplyBody::Cancelled));
    assert_eq!(error(peer.reply_to(third).await.0).code, ErrorCode::JobCancelled);
    daemon.stop();
}

#[tokio::test]
async fn witnesses_that_change_while_they_are_read_spoil_only_their_own_proof() {
    let (builder, chain, _) = with_chain(2000);
    let daemon = builder.start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let leased = std::sync::Arc::new(peer.lease("chain", true).await.unwrap());
    let (good, bad) = (canonical(&chain.witness(5)), vec![0xff; leased.lease.bytes as usize]);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let scribbler = {
        let (leased, stop, good) = (leased.clone(), stop.clone(), good.clone());
        std::thread::spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                leased.write(&bad);
                leased.write(&good);
            }
        })
    };
    for round in 0..5u8 {
        let job = peer.submit(leased.job(&[round], "chain")).await.unwrap().job;
        // Whatever comes, it is typed, and a proof is a verified one.
        if let Err(failure) = peer.wait(job).await {
            let codes = [
                ErrorCode::NotCanonical,
                ErrorCode::FirstNotOne,
                ErrorCode::Unsatisfied,
                ErrorCode::SelfCheckFailed,
            ];
            assert!(codes.contains(&failure.code), "{failure}");
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    scribbler.join().unwrap();
    serves_the_next_job(&daemon, &chain, b"next").await;
    daemon.stop();
}

#[tokio::test]
async fn an_own_memfd_is_charged_and_given_back() {
    let (builder, chain, _) = with_chain(10);
    let daemon = builder.config("limits.leases_per_uid = 1\nlimits.bytes_per_uid = '4KiB'").start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let bytes = canonical(&chain.witness(5));
    for key in [b"a", b"b"] {
        let own = OwnBuffer::create(bytes.len() as u64).unwrap();
        own.write_at(&bytes, 0).unwrap();
        let job = submit(key, "chain", bytes.len() as u64, WitnessSource::Memfd { offset: 0 });
        let job = peer.submit_own(job, own.seal().unwrap().memfd()).await.unwrap().job;
        peer.wait(job).await.unwrap();
    }
    let _lease = peer.lease("chain", true).await.unwrap();
    let own = OwnBuffer::create(bytes.len() as u64).unwrap();
    own.write_at(&bytes, 0).unwrap();
    let job = submit(b"c", "chain", bytes.len() as u64, WitnessSource::Memfd { offset: 0 });
    let refused = peer.submit_own(job, own.seal().unwrap().memfd()).await;
    assert_refused(refused, ErrorCode::QuotaExceeded, &["limits.leases_per_uid = 1"]);
    daemon.stop();
}
