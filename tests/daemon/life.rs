//! The daemon's own life: start, second instance, reload, stop.
use crate::{daemon::Builder, with_chain};

#[tokio::test]
async fn ready_means_that_the_circuits_are_hot() {
    let (builder, _, _) = with_chain(10);
    let daemon = builder.circuit("broken", "key = '/nonexistent'").start();
    let mut peer = crate::peer::Peer::greet(&daemon.socket()).await;
    let status = peer.status().await;
    let tiers: Vec<_> = status.circuits.iter().map(|c| (&c.name[..], c.tier)).collect();
    use cuzk::proto::KeyTier::*;
    assert_eq!(tiers, [("broken", Failed), ("chain", Host)]);
    assert!(daemon.told().iter().any(|l| l.starts_with("STATUS=") && l.contains("not served: broken")));
    daemon.stop();
}

#[test]
fn it_stops_with_zero_and_takes_its_socket_away() {
    let mut daemon = Builder::new().start();
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(daemon.wait().success());
    assert!(daemon.told().iter().any(|l| l == "STOPPING=1"));
    assert!(!daemon.socket().exists());
}
