//! The client against a daemon that fails when told to.
use crate::peer::{AUXILIARY, INPUTS, Peer, VALUES};
use cuzk::{
    client::{Client, ClientError, JobEvent, JobOptions, Next, RetryPolicy, Witness, WitnessWriter},
    proto::{ErrorCode, IdempotencyKey, JobResult, PartitionState, ProtocolError, Retry},
    r1cs::{WitnessEncoding, WitnessError, WitnessSink},
    shm::OwnBuffer,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Many quick attempts; the deadline is only there to end a test that hangs.
const QUICK: RetryPolicy = RetryPolicy {
    first_delay: Duration::from_millis(1),
    longest_delay: Duration::from_millis(2),
    deadline: Duration::from_secs(60),
};

async fn connect(peer: &Peer) -> Client {
    Client::connect_with(&peer.path, "test 1.0", QUICK).await.unwrap()
}

/// The witness of a partition: 1, then values that differ everywhere.
fn value(partition: u32, index: usize) -> [u8; 32] {
    let mut value = [0; 32];
    match index {
        0 => value[0] = 1,
        _ => value[..2].copy_from_slice(&[100 + partition as u8, index as u8]),
    }
    value
}

fn write(partition: u32, region: &mut impl WitnessSink) -> Result<(), WitnessError> {
    let inputs = region.num_inputs();
    for index in 0..inputs {
        region.set_input(index, &value(partition, index))?;
    }
    for index in 0..region.num_aux() {
        region.set_aux(index, &value(partition, inputs + index))?;
    }
    Ok(())
}

fn fill(partition: u32, witness: &mut WitnessWriter<'_>) -> Result<(), WitnessError> {
    write(partition, witness)
}

/// The daemon has received each partition's witness, whole.
fn assert_whole(result: &JobResult, partitions: u32) {
    assert_eq!(result.proofs.len(), partitions as usize);
    for (partition, proof) in (0..).zip(&result.proofs) {
        let wanted: Vec<_> = (0..VALUES).map(|index| value(partition, index)).collect();
        assert_eq!(proof.public_inputs, wanted, "partition {partition}");
    }
}

#[tokio::test]
async fn a_statement_is_proved_in_one_call() {
    let peer = Peer::start();
    let client = connect(&peer).await;
    let result = client.prove("small", |region| fill(0, region)).await.unwrap();
    assert_whole(&result, 1);
    assert_eq!(peer.world.log()[..5], ["hello", "lease", "submit lease", "await", "acknowledge"]);
    assert_eq!(peer.world.jobs(), 0);
}

#[tokio::test]
async fn leases_are_few_and_serve_one_partition_after_another() {
    let peer = Peer::start();
    let client = connect(&peer).await;
    let states = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&states);
    let options = JobOptions::new("small").partitions(7).leases(2).on_progress(move |progress| {
        if progress.state == PartitionState::Proved {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let result = client.prove_job(options, fill).await.unwrap();
    assert_whole(&result, 7);
    assert!(peer.world.most_leases() <= 2, "{}", peer.world.most_leases());
    assert_eq!(states.load(Ordering::Relaxed), 7);
    // All go back, by themselves.
    while peer.world.leases_out() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn packed_witnesses_arrive_too() {
    let peer = Peer::start();
    let client = connect(&peer).await;
    let options = || JobOptions::new("small").partitions(2).packed();
    // They are of bits: the packed encoding has no room for seven whole values here.
    let bits = |partition: u32, witness: &mut WitnessWriter<'_>| {
        for index in 0..witness.num_inputs() {
            witness.set_input(index, &bit(1))?;
        }
        for index in 0..witness.num_aux() {
            witness.set_aux(index, &bit((partition as u8 + index as u8) % 2))?;
        }
        Ok::<_, WitnessError>(())
    };
    let result = client.prove_job(options(), bits).await.unwrap();
    for (partition, proof) in (0..).zip(&result.proofs) {
        let (inputs, aux) = proof.public_inputs.split_at(1 + INPUTS as usize);
        assert!(inputs.iter().all(|input| *input == bit(1)));
        for (index, value) in (0..).zip(aux) {
            assert_eq!(*value, bit((partition + index) % 2));
        }
    }
    let error = client.prove_job(options(), large).await.unwrap_err();
    assert!(matches!(error, ClientError::Witness(_)), "{error}");
}

fn bit(bit: u8) -> [u8; 32] {
    let mut value = [0; 32];
    value[0] = bit;
    value
}

/// A witness that is larger in the packed encoding.
fn large(_: u32, witness: &mut WitnessWriter<'_>) -> Result<(), WitnessError> {
    let value = |index: usize| if index == 0 { bit(1) } else { [0x55; 32] };
    for index in 0..witness.num_inputs() {
        witness.set_input(index, &value(index))?;
    }
    (0..witness.num_aux()).try_for_each(|index| witness.set_aux(index, &value(1)))
}

/// The daemon crashes at each request in turn, and comes back with its jobs or without them.
#[tokio::test]
async fn a_job_survives_a_crash_at_any_request() {
    for forgets in [false, true] {
        for partitions in [1, 3] {
            let mut request = 0;
            loop {
                let peer = Peer::start();
                let client = connect(&peer).await;
                peer.world.crash_at(request, forgets);
                let result = client.prove_partitions("small", partitions, fill).await.unwrap();
                assert_whole(&result, partitions);
                if !peer.world.crashed() {
                    break;
                }
                request += 1;
            }
            assert!(request >= 4, "lease, submit, await, acknowledge; {request} requests");
        }
    }
}

#[tokio::test]
async fn a_filled_lease_is_submitted_from_memory_after_a_restart() {
    let peer = Peer::start();
    let client = connect(&peer).await;
    let mut job = client.job(JobOptions::new("small")).unwrap();
    let Next::Fill { partition, mut lease } = job.advance().await.unwrap() else { panic!() };
    write(partition, &mut lease.region()).unwrap();
    peer.world.crash();
    job.submit(partition, Witness::canonical(lease)).await.unwrap();
    let Next::Done(result) = job.advance().await.unwrap() else { panic!() };
    assert_whole(&result, 1);
    assert!(peer.world.log().contains(&"submit memfd".into()), "{:?}", peer.world.log());
}

#[tokio::test]
async fn a_known_key_is_taken_up_where_it_stands() {
    let peer = Peer::start();
    let key = IdempotencyKey::new(b"sector 7").unwrap();
    let options = || JobOptions::new("small").partitions(3).key(key.clone());
    {
        let client = connect(&peer).await;
        let mut job = client.job(options()).unwrap();
        let Next::Fill { partition: 0, mut lease } = job.advance().await.unwrap() else { panic!() };
        write(0, &mut lease.region()).unwrap();
        job.submit(0, Witness::canonical(lease)).await.unwrap();
    }
    // Another process would do the same: only what is missing is asked for.
    let client = connect(&peer).await;
    assert_eq!(client.find(&key).await.unwrap().unwrap().missing, 2);
    let mut asked = Vec::new();
    let mut job = client.job(options()).unwrap();
    let result = loop {
        match job.advance().await.unwrap() {
            Next::Fill { partition, mut lease } => {
                asked.push(partition);
                write(partition, &mut lease.region()).unwrap();
                job.submit(partition, Witness::canonical(lease)).await.unwrap();
            }
            Next::Done(result) => break result,
        }
    };
    assert_eq!(asked, [1, 2]);
    assert_whole(&result, 3);
    // Once done, asking again gives the result again, and awaiting it does too.
    assert!(matches!(job.advance().await.unwrap(), Next::Done(again) if again == result));
    assert_eq!(client.await_job(result.job).await.unwrap(), result);
    job.acknowledge().await.unwrap();
    assert_eq!(client.find(&key).await.unwrap(), None);
}

#[tokio::test]
async fn a_memfd_of_the_callers_own_is_submitted() {
    let peer = Peer::start();
    let client = connect(&peer).await;
    let own = OwnBuffer::create(32 * VALUES as u64).unwrap();
    for index in 0..VALUES {
        own.write_at(&value(0, index), 32 * index as u64).unwrap();
    }
    let own = Arc::new(own.seal().unwrap());
    let mut job = client.job(JobOptions::new("small")).unwrap();
    job.submit(0, Witness::own(own, WitnessEncoding::Canonical, None)).await.unwrap();
    let Next::Done(result) = job.advance().await.unwrap() else { panic!() };
    assert_whole(&result, 1);
    assert!(!peer.world.log().contains(&"lease".into()));
}

#[tokio::test]
async fn a_job_that_is_called_lost_is_submitted_again() {
    let peer = Peer::start();
    let client = connect(&peer).await;
    let lost = || ProtocolError::new(ErrorCode::JobLost, "it is from before the daemon's start");
    peer.world.refuse("await", lost());
    let result = client.prove("small", |region| fill(0, region)).await.unwrap();
    assert_whole(&result, 1);
    let submits = peer.world.log().iter().filter(|kind| kind.starts_with("submit")).count();
    assert_eq!(submits, 2);
    // Whoever has nothing but the id is told; a daemon that restarts is waited for.
    peer.world.refuse("await", lost());
    assert_eq!(client.await_job(result.job).await.unwrap_err().code(), Some(ErrorCode::JobLost));
    let key = IdempotencyKey::new(b"kept").unwrap();
    let mut job = client.job(JobOptions::new("small").key(key)).unwrap();
    let Next::Fill { partition, mut lease } = job.advance().await.unwrap() else { panic!() };
    write(partition, &mut lease.region()).unwrap();
    job.submit(partition, Witness::canonical(lease)).await.unwrap();
    peer.world.refuse("await", ProtocolError::new(ErrorCode::Draining, "restarting"));
    assert_whole(&client.await_job(job.id().unwrap()).await.unwrap(), 1);
}

#[tokio::test]
async fn a_refusal_that_may_pass_is_waited_out_and_another_is_not() {
    let peer = Peer::start();
    let client = connect(&peer).await;
    for (kind, code) in [
        ("lease", ErrorCode::Draining),
        ("lease", ErrorCode::QuotaExceeded),
        ("submit lease", ErrorCode::Busy),
        ("submit lease", ErrorCode::Draining),
        ("await", ErrorCode::Draining),
    ] {
        peer.world.refuse(kind, ProtocolError::new(code, "not now"));
        let result = client.prove_partitions("small", 2, fill).await.unwrap();
        assert_whole(&result, 2);
    }
    for (kind, code) in [
        ("lease", ErrorCode::UnknownCircuit),
        ("submit lease", ErrorCode::CircuitChanged),
        ("await", ErrorCode::Unsatisfied),
    ] {
        peer.world.refuse(kind, ProtocolError::new(code, "no").with_index(5));
        let error = client.prove("small", |region| fill(0, region)).await.unwrap_err();
        assert!(matches!(&error, ClientError::Refused(e) if e.code == code && e.index == 5), "{error}");
    }
    peer.world.refuse("lease", ProtocolError::new(ErrorCode::Busy, "memory is short"));
    let error = client.lease("small", false).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Busy));
}

#[tokio::test]
async fn a_daemon_that_is_away_is_waited_for_and_one_that_stays_away_is_not() {
    let mut peer = Peer::start();
    let client = connect(&peer).await;
    peer.vanish();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.prove("small", |region| fill(0, region)).await }
    });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    peer.reappear();
    assert_whole(&waiting.await.unwrap().unwrap(), 1);
    let before = client.daemon().await.unwrap().instance;
    peer.world.crash();
    // The end of the connection is noticed by and by.
    while client.daemon().await.is_ok_and(|daemon| daemon.instance == before) {
        tokio::task::yield_now().await;
    }
    peer.vanish();
    let hasty = RetryPolicy { deadline: Duration::from_millis(20), ..QUICK };
    let error = Client::connect_with(&peer.path, "test 1.0", hasty).await.unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    peer.reappear();
    let client = Client::connect_with(&peer.path, "test 1.0", hasty).await.unwrap();
    peer.vanish();
    let error = client.prove("small", |region| fill(0, region)).await.unwrap_err();
    assert!(matches!(error, ClientError::GaveUp { .. }), "{error}");
}

#[tokio::test]
async fn the_callers_failure_is_the_jobs_and_the_lease_goes_back() {
    let peer = Peer::start();
    let client = connect(&peer).await;
    let error = client.prove("small", |_| Err("the sector is gone")).await.unwrap_err();
    assert_eq!(error.to_string(), "the witness could not be made: the sector is gone");
    while peer.world.leases_out() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_lease_that_nobody_waits_for_goes_back() {
    let peer = Peer::start();
    let client = connect(&peer).await;
    // The request is sent, and its maker gone, before the reply can come.
    {
        let lease = client.lease("small", true);
        tokio::pin!(lease);
        let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(lease.as_mut().poll(cx)));
        assert!(poll.await.is_pending());
    }
    let lease = client.lease("small", true).await.unwrap();
    assert_eq!((lease.public_inputs(), lease.auxiliary()), (INPUTS, AUXILIARY));
    while peer.world.leases_out() != 1 {
        tokio::task::yield_now().await;
    }
    drop(lease);
    while peer.world.leases_out() != 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn long_replies_and_followed_jobs_arrive() {
    let peer = Peer::start();
    let client = connect(&peer).await;
    assert_eq!(client.circuits().await.unwrap().len(), 2000);
    let mut job = client.job(JobOptions::new("small").partitions(2)).unwrap();
    let Next::Fill { partition, mut lease } = job.advance().await.unwrap() else { panic!() };
    write(partition, &mut lease.region()).unwrap();
    job.submit(partition, Witness::canonical(lease)).await.unwrap();
    let mut watch = client.watch(job.id().unwrap()).await.unwrap();
    let Some(Ok(JobEvent::Progress(first))) = watch.event().await else { panic!() };
    assert_eq!((first.partition, first.state), (0, PartitionState::Proved));
    let Some(Ok(JobEvent::Progress(second))) = watch.event().await else { panic!() };
    assert_eq!((second.partition, second.state), (1, PartitionState::Missing));
    client.cancel(job.id().unwrap()).await.unwrap();
    peer.world.crash();
    assert!(matches!(watch.event().await, Some(Err(ClientError::Disconnected { .. }))));
    assert!(watch.event().await.is_none());
}

#[tokio::test]
async fn refusals_of_the_protocol_itself_reach_the_caller() {
    let peer = Peer::start();
    let version = ProtocolError::new(ErrorCode::UnsupportedVersion, "version 1, wanted 2");
    peer.world.refuse("hello", version.clone());
    let error = Client::connect(&peer.path, "test 1.0").await.unwrap_err();
    assert!(matches!(error, ClientError::Refused(e) if e == version && e.retry == Retry::Never));
    let client = connect(&peer).await;
    for partitions in [0, 1025] {
        let error = client.prove_partitions("small", partitions, fill).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::PartitionInvalid));
    }
    let mut job = client.job(JobOptions::new("small")).unwrap();
    let lease = client.lease("small", true).await.unwrap();
    let error = job.submit(1, Witness::canonical(lease)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::PartitionInvalid));
}

#[test]
fn the_blocking_face_does_the_same() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let peer = runtime.block_on(async { Peer::start() });
    let client = cuzk::client::blocking::Client::connect_with(&peer.path, "test 1.0", QUICK).unwrap();
    assert_eq!(client.daemon().unwrap().build, "scripted");
    // The closure may borrow.
    let mut calls = 0;
    let result = client
        .prove("small", |region| {
            calls += 1;
            fill(0, region)
        })
        .unwrap();
    assert_whole(&result, 1);
    assert_eq!(calls, 1);
    peer.world.crash_at(5, true);
    assert_whole(&client.prove_partitions("small", 3, fill).unwrap(), 3);
    assert!(peer.world.crashed());
    assert_eq!(client.circuits().unwrap().len(), 2000);
    assert_eq!(client.find(&IdempotencyKey::unique()).unwrap(), None);
}
