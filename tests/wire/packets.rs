//! Packets and their descriptors.
use crate::support::{half_raw_pair, send_raw};
use cuzk::{
    proto::{
        CircuitInfo, DescriptorError, ErrorCode, KeyTier, MAX_DESCRIPTORS, MAX_PACKET_BYTES, PacketSocket,
        ProtocolError, RecvError, Reply, ReplyBody, Request, RequestBody,
        attached::{self, AttachedError},
    },
    shm::{PageSize, Seals, memfd},
};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

#[tokio::test]
async fn a_packet_arrives_with_its_descriptors_closed_on_exec() {
    let (a, b) = PacketSocket::pair().unwrap();
    let mut file = tempfile::tempfile().unwrap();
    let request = Request { id: 5, body: RequestBody::Status }.encode();
    let (reader, writer) = io::pipe().unwrap();
    a.send(&request, &[file.as_fd(), writer.as_fd()]).await.unwrap();
    drop(writer);
    let packet = b.recv().await.unwrap().unwrap();
    assert_eq!(packet.bytes, request);
    let mut descriptors = packet.descriptors.unwrap();
    assert_eq!(descriptors.len(), 2);
    for descriptor in &descriptors {
        let flags = fcntl(descriptor, FcntlArg::F_GETFD).unwrap();
        assert!(FdFlag::from_bits_retain(flags).contains(FdFlag::FD_CLOEXEC));
    }
    // In order: the second is the pipe's end, and the last one.
    let mut pipe = File::from(descriptors.pop().unwrap());
    pipe.write_all(b"through").unwrap();
    drop(pipe);
    let mut text = String::new();
    let mut reader = reader;
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "through");
    file.write_all(b"x").unwrap();
    assert_eq!(File::from(descriptors.pop().unwrap()).metadata().unwrap().len(), 1);
}

#[tokio::test]
async fn the_longest_packet_passes_and_a_longer_one_is_refused() {
    let (socket, raw) = half_raw_pair();
    let longest = vec![7; MAX_PACKET_BYTES];
    send_raw(&raw, &longest, &[]).unwrap();
    send_raw(&raw, &vec![7; MAX_PACKET_BYTES + 1], &[]).unwrap();
    send_raw(&raw, b"next", &[]).unwrap();
    assert_eq!(socket.recv().await.unwrap().unwrap().bytes, longest);
    assert!(matches!(socket.recv().await, Err(RecvError::TooLong)));
    assert_eq!(socket.recv().await.unwrap().unwrap().bytes, b"next");
    let error = socket.send(&vec![7; MAX_PACKET_BYTES + 1], &[]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(socket.send(&[], &[]).await.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

/// The read end of a pipe sees the end of the file once every copy of the write end is closed: proof that
/// refused descriptors are closed, whatever other tests open meanwhile.
fn assert_closed(mut reader: io::PipeReader) {
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

#[tokio::test]
async fn too_many_descriptors_are_refused_and_closed() {
    for count in [MAX_DESCRIPTORS + 1, 253] {
        let (socket, raw) = half_raw_pair();
        let (reader, writer) = io::pipe().unwrap();
        send_raw(&raw, b"many", &vec![writer.as_raw_fd(); count]).unwrap();
        drop(writer);
        let packet = socket.recv().await.unwrap().unwrap();
        assert_eq!(packet.bytes, b"many");
        let error = packet.descriptors.unwrap_err();
        assert_eq!(error, DescriptorError::TooMany { found: count });
        assert_eq!(ProtocolError::from(error).code, ErrorCode::TooManyDescriptors);
        assert_closed(reader);
    }
    let (a, b) = PacketSocket::pair().unwrap();
    let file = tempfile::tempfile().unwrap();
    a.send(b"most", &[file.as_fd(); MAX_DESCRIPTORS]).await.unwrap();
    assert_eq!(b.recv().await.unwrap().unwrap().descriptors.unwrap().len(), MAX_DESCRIPTORS);
    let error = a.send(b"more", &[file.as_fd(); MAX_DESCRIPTORS + 1]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[tokio::test]
async fn descriptors_of_a_long_packet_are_closed() {
    let (socket, raw) = half_raw_pair();
    let (reader, writer) = io::pipe().unwrap();
    send_raw(&raw, &vec![7; MAX_PACKET_BYTES + 1], &[writer.as_raw_fd()]).unwrap();
    drop(writer);
    assert!(matches!(socket.recv().await, Err(RecvError::TooLong)));
    assert_closed(reader);
}

#[tokio::test]
async fn a_closed_connection_ends_and_an_empty_packet_ends_it_too() {
    let (socket, raw) = half_raw_pair();
    send_raw(&raw, b"last", &[]).unwrap();
    drop(raw);
    assert_eq!(socket.recv().await.unwrap().unwrap().bytes, b"last");
    assert!(socket.recv().await.unwrap().is_none());
    let (socket, raw) = half_raw_pair();
    let (reader, writer) = io::pipe().unwrap();
    send_raw(&raw, b"", &[writer.as_raw_fd()]).unwrap();
    drop(writer);
    assert!(socket.recv().await.unwrap().is_none());
    assert_closed(reader);
}

#[tokio::test]
async fn a_peer_is_known_by_its_credentials() {
    let (a, _b) = PacketSocket::pair().unwrap();
    let peer = a.peer().unwrap();
    assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
    assert_eq!(peer.gid, nix::unistd::getegid().as_raw());
    assert_eq!(peer.pid, Some(nix::unistd::getpid().as_raw()));
}

/// A reply of about `circuits` times 150 bytes.
fn long_reply(circuits: usize) -> Reply {
    let circuit = |index: usize| CircuitInfo {
        name: format!("circuit-{index}"),
        circuit_id: None,
        key_id: None,
        public_inputs: 1,
        auxiliary: 2,
        constraints: 3,
        domain_log2: 4,
        tier: KeyTier::Failed,
        problem: "the key file /var/lib/cuzk/none does not exist".into(),
        references: 0,
        key_bytes: 0,
        circuit_bytes: 0,
    };
    Reply { id: 77, body: ReplyBody::Circuits((0..circuits).map(circuit).collect()) }
}

#[tokio::test]
async fn a_long_reply_comes_in_a_sealed_memfd() {
    let (a, b) = PacketSocket::pair().unwrap();
    let reply = long_reply(2000);
    let (packet, memfd) = attached::encode(&reply).unwrap();
    a.send(&packet, &[memfd.as_ref().unwrap().as_fd()]).await.unwrap();
    let received = b.recv().await.unwrap().unwrap();
    let announced = Reply::decode(&received.bytes).unwrap();
    let ReplyBody::Attached(bytes) = announced.body else { panic!("{announced:?}") };
    let memfd = received.descriptors.unwrap().pop().unwrap();
    assert_eq!(attached::read(announced.id, bytes, &memfd).unwrap(), reply);
    // A short one comes in the packet.
    let (packet, memfd) = attached::encode(&long_reply(10)).unwrap();
    assert!(memfd.is_none());
    assert_eq!(Reply::decode(&packet).unwrap(), long_reply(10));
}

fn memfd_with(bytes: &[u8]) -> OwnedFd {
    let mut file = File::from(memfd::create(c"cuzk-test", PageSize::Base).unwrap());
    file.write_all(bytes).unwrap();
    file.into()
}

#[test]
fn an_attached_reply_is_checked_before_it_is_believed() {
    let message = long_reply(2000).encode();
    let length = message.len() as u64;
    let open = memfd_with(&message);
    let error = attached::read(77, length, &open).unwrap_err();
    assert!(matches!(error, AttachedError::Seals { missing } if missing == Seals::IMMUTABLE), "{error}");
    Seals::IMMUTABLE.add_to(&open).unwrap();
    assert!(attached::read(77, length, &open).is_ok());
    assert!(matches!(attached::read(78, length, &open), Err(AttachedError::Mismatch)));
    assert!(matches!(attached::read(77, length + 1, &open), Err(AttachedError::Io(_))));
    assert!(matches!(attached::read(77, length - 8, &open), Err(AttachedError::Decode(_))));
    assert!(matches!(attached::read(77, u64::MAX, &open), Err(AttachedError::TooLong { .. })));
    let file = tempfile::tempfile().unwrap();
    assert!(matches!(attached::read(77, length, &file), Err(AttachedError::NotMemfd(_))));
    let nested = memfd_with(&Reply { id: 77, body: ReplyBody::Attached(64) }.encode());
    Seals::IMMUTABLE.add_to(&nested).unwrap();
    let nested_length = File::from(nested.try_clone().unwrap()).metadata().unwrap().len();
    assert!(matches!(attached::read(77, nested_length, &nested), Err(AttachedError::Mismatch)));
}
