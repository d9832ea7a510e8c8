//! The accept loop: every connection that a user may have becomes a session; one too many is told so.
use super::service::Service;
use super::session;
use super::users::Countable;
use crate::proto::{PacketSocket, ProtocolError, Reply, ReplyBody};
use std::{io, sync::Arc, time::Duration};
use tokio::{task::JoinSet, time};
use tokio_seqpacket::UnixSeqpacketListener;

/// How long accepting rests after a failure such as a lack of descriptors, which would repeat at once.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a refused connection may take to receive its refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long sessions may take to end once the daemon has stopped.
const FAREWELL: Duration = Duration::from_secs(3);

/// Accepts connections until the scheduler drains, and returns when the last session has ended after the stop.
pub async fn serve(mut listener: UnixSeqpacketListener, service: Arc<Service>) {
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(socket) => greet(PacketSocket::from(socket), &service, &mut sessions),
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    time::sleep(PAUSE).await;
                }
            },
            // Those who connect from now on wait in the socket's queue for the next instance, if there
            // is one to inherit it.
            _ = service.scheduler.closing() => break,
        }
        while sessions.try_join_next().is_some() {}
    }
    service.scheduler.stopped().await;
    // The listener is kept until here: what waits in its queue is not refused before it must be.
    let farewell = async { while sessions.join_next().await.is_some() {} };
    if time::timeout(FAREWELL, farewell).await.is_err() {
        tracing::warn!("{} connections are cut off: they do not take their last replies", sessions.len());
    }
}

fn greet(socket: PacketSocket, service: &Arc<Service>, sessions: &mut JoinSet<()>) {
    let charged = socket.peer().map(|peer| (peer.uid, service.users.charge(peer.uid, Countable::Connection)));
    match charged {
        Ok((uid, Ok(charge))) => {
            let service = service.clone();
            sessions.spawn(async move {
                session::run(socket, uid, service).await;
                drop(charge);
            });
        }
        Ok((_, Err(quota))) => {
            service.scheduler.count_refusal();
            sessions.spawn(async move {
                let refusal = Reply { id: 0, body: ReplyBody::Error(ProtocolError::from(quota)) };
                // Best effort: the peer may be gone, and will see the end of the connection in any case. Its
                // `hello` is taken, since a close with unread packets would hide the refusal behind a reset.
                let farewell =
                    async { (socket.send(&refusal.encode(), &[]).await, socket.recv().await.is_ok()) };
                let _: Result<(io::Result<()>, bool), _> = time::timeout(REFUSAL_TIMEOUT, farewell).await;
            });
        }
        Err(error) => tracing::warn!("a connection's user is unknown: {error}"),
    }
}
