//! What a peer outside the library would do, for tests to send what the library itself never sends.
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};
use std::{
    io::{self, IoSlice},
    os::fd::{AsRawFd, OwnedFd, RawFd},
};
use tokio_seqpacket::UnixSeqpacket;

/// A library socket, and the raw other end.
pub fn half_raw_pair() -> (cuzk::proto::PacketSocket, OwnedFd) {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
    (UnixSeqpacket::try_from(ours).unwrap().into(), theirs)
}

/// Sends a packet without any of the library's checks.
pub fn send_raw(socket: &OwnedFd, bytes: &[u8], descriptors: &[RawFd]) -> io::Result<usize> {
    let control = [ControlMessage::ScmRights(descriptors)];
    let control = if descriptors.is_empty() { &[][..] } else { &control[..] };
    Ok(sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::empty(), None)?)
}
