//! A peer that does not read, with a clock that leaps whenever nothing else can happen.
use super::*;
use crate::daemon::{
    budget::Budget,
    config::Config,
    instruments::Instruments,
    registry::{LoadSettings, Registry},
    scheduler::Scheduler,
    users::Users,
};
use crate::proto::Hello;

fn service() -> Arc<Service> {
    let (budget, users) = (Budget::new(1 << 20), Users::new(Config::default().limits));
    let registry = Registry::new(LoadSettings {
        budget: budget.clone(),
        state_dir: "/nonexistent".into(),
        threads: 1,
        headroom: Arc::new(|_, _| Ok(0)),
    });
    let scheduler = Scheduler::new(users.clone(), 0, Duration::ZERO);
    Arc::new(Service::new(
        registry,
        scheduler,
        budget,
        users,
        Vec::new(),
        Vec::new(),
        Arc::new(Instruments::new([])),
    ))
}

async fn send(peer: &PacketSocket, body: RequestBody) {
    peer.send(&Request { id: 1, body }.encode(), &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_leaves_its_replies_unread_is_cut_off() {
    let (peer, ours) = PacketSocket::pair().unwrap();
    let service = service();
    let began = time::Instant::now();
    let session = tokio::spawn(run(ours, 1, service.clone()));
    send(&peer, RequestBody::Hello(Hello { version: PROTOCOL_VERSION, client: "deaf".into() })).await;
    let request = Request { id: 1, body: RequestBody::Status }.encode();
    let flood = async { while peer.send(&request, &[]).await.is_ok() {} };
    let (ended, ()) = tokio::join!(session, flood);
    ended.unwrap();
    assert!(began.elapsed() >= WRITE_TIMEOUT);
    assert_eq!(Arc::strong_count(&service), 1, "nothing of the session is left");
}

#[tokio::test]
async fn the_end_of_the_peer_is_the_end_of_the_session() {
    let (peer, ours) = PacketSocket::pair().unwrap();
    let service = service();
    let session = tokio::spawn(run(ours, 1, service.clone()));
    send(&peer, RequestBody::Status).await;
    let refusal = Reply::decode(&peer.recv().await.unwrap().unwrap().bytes).unwrap();
    assert!(matches!(refusal.body, ReplyBody::Error(e) if e.code == ErrorCode::HelloExpected));
    drop(peer);
    session.await.unwrap();
    assert_eq!(service.scheduler.counters().refused, 1);
}
