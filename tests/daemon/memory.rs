//! The memory budget as clients meet it: what never fits, who waits, and in which order.
use crate::{
    daemon::{Builder, Daemon},
    peer::{Peer, assert_refused, error, leased},
    with_chain,
};
use cuzk::proto::{ErrorCode, LeaseRequest, Priority, Reply, ReplyBody, RequestBody, Retry};

/// Large enough that a few witnesses fill the memory that circuit and prover leave.
const LENGTH: usize = 1000;
/// A lease's memory: 32 · 1,002 bytes in whole pages.
const LEASE: u64 = 32_768;

/// A daemon whose budget has room for so many leases and not a byte more.
async fn with_room_for(leases: u64) -> Daemon {
    // What circuit and headroom take is learnt from a daemon without a limit.
    let (builder, _, _) = with_chain(LENGTH);
    let daemon = builder.config("memory = '1GiB'").start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let memory = peer.status().await.memory;
    let taken = memory.keys + memory.circuits + headroom();
    daemon.stop();
    let (builder, _, _) = with_chain(LENGTH);
    builder.config(&format!("memory = '{}B'", taken + leases * LEASE)).start()
}

/// What the CPU prover sets aside for this circuit with the harness's two threads.
fn headroom() -> u64 {
    use cuzk::daemon::{backend::Backend, cpu::CpuBackend};
    let circuit = crate::circuits::Chain { length: LENGTH }.circuit();
    let key = cuzk::groth16::setup::insecure_setup(&circuit, [7; 32]).unwrap();
    CpuBackend::new(2, "to be asked").unwrap().working_bytes(&circuit, &key)
}

async fn ask(peer: &mut Peer) -> u64 {
    peer.send(RequestBody::Lease(LeaseRequest::new("chain", true)), &[]).await
}

#[tokio::test]
async fn leases_that_do_not_fit_wait_in_order() {
    let daemon = with_room_for(2).await;
    let mut holder = Peer::greet(&daemon.socket()).await;
    let mut held =
        vec![holder.lease("chain", false).await.unwrap(), holder.lease("chain", false).await.unwrap()];
    let refusal = holder.lease("chain", false).await.err().unwrap();
    assert_eq!((refusal.code, refusal.retry), (ErrorCode::Busy, Retry::Later));
    assert!(!refusal.retry_after.is_zero(), "{refusal}");

    let mut waiting = Vec::new();
    for n in 1..=4 {
        let mut peer = Peer::greet(&daemon.socket()).await;
        let id = ask(&mut peer).await;
        holder.status_until(|s| s.memory.waiting == n).await;
        waiting.push((peer, id));
    }
    // The second in line gives up its place with its connection.
    drop(waiting.remove(1));
    holder.status_until(|s| s.memory.waiting == 3).await;
    let mut served = Vec::new();
    for n in (0..3u32).rev() {
        match held.pop() {
            Some(lease) => {
                let released = holder.ask(RequestBody::Release(lease.lease.id)).await;
                assert!(matches!(released, ReplyBody::Released));
            }
            None => drop(served.remove(0)),
        }
        holder.status_until(|s| s.memory.waiting == n).await;
        let (mut peer, id) = waiting.remove(0);
        let (body, descriptors) = peer.reply_to(id).await;
        leased(body, descriptors).expect("the first in line is served");
        served.push(peer);
    }
    drop(served);
    holder.status_until(|s| s.memory.leases == 0 && s.memory.waiting == 0).await;
    daemon.stop();
}

#[tokio::test]
async fn an_urgent_request_is_served_before_those_that_came_earlier() {
    let daemon = with_room_for(1).await;
    let mut holder = Peer::greet(&daemon.socket()).await;
    let held = holder.lease("chain", false).await.unwrap();
    let mut waiting = Vec::new();
    // The first has its turn already, and waits for memory; what comes behind it is sorted.
    for (n, priority) in
        (1..).zip([Priority::Normal, Priority::Low, Priority::Normal, Priority::High, Priority::Critical])
    {
        let mut peer = Peer::greet(&daemon.socket()).await;
        let request = LeaseRequest { priority, ..LeaseRequest::new("chain", true) };
        let id = peer.send(RequestBody::Lease(request), &[]).await;
        holder.status_until(|s| s.memory.waiting == n).await;
        waiting.push((peer, id));
    }
    holder.ask(RequestBody::Release(held.lease.id)).await;
    for expected in [0, 4, 3, 2, 1] {
        let (peer, id) = &mut waiting[expected];
        let (body, descriptors) = peer.reply_to(*id).await;
        let lease = leased(body, descriptors).unwrap();
        let left = holder.status().await.memory.waiting;
        peer.ask(RequestBody::Release(lease.lease.id)).await;
        assert_eq!(left, [4, 0, 1, 2, 3][expected], "{expected}");
    }
    daemon.stop();
}

#[tokio::test]
async fn a_lease_that_never_fits_is_refused_with_the_figures() {
    let daemon = with_room_for(0).await;
    let mut peer = Peer::greet(&daemon.socket()).await;
    for wait in [true, false] {
        assert_refused(
            peer.lease("chain", wait).await,
            ErrorCode::NeverFits,
            &["circuit chain", "the budget has"],
        );
    }
    assert_eq!(peer.status().await.memory.leases, 0);
    daemon.stop();
}

#[tokio::test]
async fn a_circuit_that_never_fits_is_reported() {
    let (builder, _, _) = with_chain(LENGTH);
    let daemon = builder.config("memory = '1MiB'").start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    assert_refused(
        peer.lease("chain", true).await,
        ErrorCode::CircuitUnavailable,
        &["the budget has 1.00 MiB"],
    );
    daemon.stop();
}

#[tokio::test]
async fn those_who_wait_are_told_when_the_daemon_stops() {
    let mut daemon = with_room_for(1).await;
    let mut holder = Peer::greet(&daemon.socket()).await;
    let _held = holder.lease("chain", true).await.unwrap();
    let id = ask(&mut holder).await;
    let mut other = Peer::greet(&daemon.socket()).await;
    other.status_until(|s| s.memory.waiting == 1).await;
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    let (Reply { id: answered, body }, _) = holder.receive().await;
    assert_eq!(answered, id);
    let told = error(body);
    assert_eq!((told.code, told.retry), (ErrorCode::Draining, Retry::Reconnect));
    assert!(daemon.wait().success());
}

#[tokio::test]
async fn auto_is_what_the_host_allows() {
    let daemon = Builder::new().start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let wanted = cuzk::daemon::host::HostFiles::default().budget(1 << 30).unwrap();
    let total = peer.status().await.memory.total;
    assert_eq!(total, wanted);
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let kib: u64 = meminfo.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(total > 0 && total <= kib * 1024 - (1 << 30), "{total} of {kib} KiB");
    daemon.stop();
}

/// Two circuits that are loaded, and two requests that each fit only without the other's circuit.
#[tokio::test]
async fn requests_that_wait_do_not_hold_their_circuits() {
    let two = || {
        let (builder, chain, _) = with_chain(LENGTH);
        let (definition, _) = chain.write(builder.dir(), "other");
        builder.circuit("other", &definition)
    };
    let daemon = two().config("memory = '1GiB'").start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let memory = peer.status().await.memory;
    let taken = memory.keys + memory.circuits + headroom();
    daemon.stop();
    let daemon = two().config(&format!("memory = '{}B'", taken + LEASE / 2)).start();
    let mut first = Peer::greet(&daemon.socket()).await;
    let mut second = Peer::greet(&daemon.socket()).await;
    for _ in 0..5 {
        let wants = |circuit: &str| RequestBody::Lease(LeaseRequest::new(circuit, true));
        let ids = (first.send(wants("chain"), &[]).await, second.send(wants("other"), &[]).await);
        // Both are asked; each is served once the other has given its lease back.
        let serve = async |peer: &mut Peer, id: u64| {
            let (body, descriptors) = peer.reply_to(id).await;
            let lease = leased(body, descriptors).expect("its turn comes");
            let released = peer.ask(RequestBody::Release(lease.lease.id)).await;
            assert!(matches!(released, ReplyBody::Released));
        };
        tokio::join!(serve(&mut first, ids.0), serve(&mut second, ids.1));
    }
}

/// A blocking client gives a lease back when it is dropped, not with its next call.
#[tokio::test]
async fn a_dropped_lease_of_a_blocking_client_comes_back_at_once() {
    let daemon = with_room_for(1).await;
    let socket = daemon.socket();
    let (dropped, wait) = std::sync::mpsc::sync_channel(1);
    let (end, ended) = std::sync::mpsc::sync_channel::<()>(1);
    let client = std::thread::spawn(move || {
        let client = cuzk::client::blocking::Client::connect(socket, "test").unwrap();
        drop(client.lease("chain", true).unwrap());
        dropped.send(()).unwrap();
        // Alive, without a call.
        let _ = ended.recv();
    });
    tokio::task::spawn_blocking(move || wait.recv()).await.unwrap().unwrap();
    let mut peer = Peer::greet(&daemon.socket()).await;
    peer.status_until(|s| s.memory.leases == 0).await;
    drop(end);
    client.join().unwrap();
}

/// A wait that its owner has given up ends in the daemon too, and frees its place among the connection's requests.
#[tokio::test]
async fn a_request_that_nobody_waits_for_is_abandoned() {
    let daemon = with_room_for(1).await;
    daemon.set_config(&format!("{}limits.requests_per_connection = 1\n", daemon.config()));
    let mut daemon = daemon;
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    daemon.wait_for("READY=1");
    let mut observer = Peer::greet(&daemon.socket()).await;
    let client = cuzk::client::Client::connect(daemon.socket(), "test").await.unwrap();
    let held = client.lease("chain", true).await.unwrap();
    for _ in 0..3 {
        {
            let mut waits = std::pin::pin!(client.lease("chain", true));
            tokio::select! {
                lease = &mut waits => panic!("{lease:?}"),
                _ = observer.status_until(|s| s.memory.waiting == 1) => {}
            }
        }
        observer.status_until(|s| s.memory.waiting == 0).await;
    }
    drop(held);
    client.lease("chain", true).await.unwrap();
}
