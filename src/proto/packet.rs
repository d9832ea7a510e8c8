//! Packets: bytes and descriptors over a `SOCK_SEQPACKET` socket.
//!
//! Every descriptor that arrives is owned, and closed on exec, from the moment the kernel hands it over:
//! whatever refuses a packet also closes what came with it. The control buffer takes as many
//! descriptors as the kernel lets a peer send, so that a packet with too many is counted and refused
//! rather than cut. Control data can still be cut where this process runs out of descriptors.
use super::{MAX_DESCRIPTORS, MAX_PACKET_BYTES};
use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
};
use tokio_seqpacket::{
    UnixSeqpacket,
    ancillary::{AncillaryMessageWriter, OwnedAncillaryMessage},
};

/// The most descriptors that Linux lets one message carry (SCM_MAX_FD).
const KERNEL_MAX_DESCRIPTORS: usize = 253;
/// Room for that many, and for credentials should the listening socket have been set up to pass them.
const CONTROL_BYTES: usize = 16 + 4 * KERNEL_MAX_DESCRIPTORS + 256;

/// Control data, aligned for the kernel's headers.
#[repr(C, align(8))]
struct ControlBuffer([u8; CONTROL_BYTES]);

/// One packet as received.
#[derive(Debug)]
pub struct Packet {
    /// The message.
    pub bytes: Vec<u8>,
    /// What came with it. The bytes are whole even where the descriptors are refused: the refusal can
    /// name the request.
    pub descriptors: Result<Vec<OwnedFd>, DescriptorError>,
}

/// Descriptors that are refused; all that had arrived are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// More than a packet may carry.
    #[error("{found} descriptors came with the packet, wanted at most {MAX_DESCRIPTORS}")]
    TooMany {
        /// How many came.
        found: usize,
    },
    /// The kernel could not deliver all of them.
    #[error("the control data was truncated: descriptors were lost")]
    Truncated,
}

/// Nothing usable was received.
#[derive(Debug, thiserror::Error)]
pub enum RecvError {
    /// The packet was longer than [`MAX_PACKET_BYTES`] and is lost; the next one can be received.
    #[error("a packet is longer than {MAX_PACKET_BYTES} bytes")]
    TooLong,
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Who connected, by the kernel's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// The peer's effective user id.
    pub uid: u32,
    /// The peer's effective group id.
    pub gid: u32,
    /// The peer's process id, where it is visible from here.
    pub pid: Option<i32>,
}

/// A connected socket. Both ends may be used from several tasks at once.
#[derive(Debug)]
pub struct PacketSocket(UnixSeqpacket);

impl From<UnixSeqpacket> for PacketSocket {
    fn from(socket: UnixSeqpacket) -> Self {
        Self(socket)
    }
}

impl PacketSocket {
    /// Connects to a daemon.
    pub async fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self(UnixSeqpacket::connect(path).await?))
    }

    /// Two sockets connected to each other.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = UnixSeqpacket::pair()?;
        Ok((Self(a), Self(b)))
    }

    /// Who is at the other end.
    pub fn peer(&self) -> io::Result<PeerCredentials> {
        let peer = self.0.peer_cred()?;
        Ok(PeerCredentials { uid: peer.uid(), gid: peer.gid(), pid: peer.pid() })
    }

    /// Sends one packet; waits while the peer's queue is full.
    ///
    /// Fails with `InvalidInput` for a packet that is empty, too long, or has too many descriptors.
    pub async fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if bytes.is_empty() || bytes.len() > MAX_PACKET_BYTES || descriptors.len() > MAX_DESCRIPTORS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a packet of {} bytes and {} descriptors, wanted 1 to {MAX_PACKET_BYTES} and at most \
                     {MAX_DESCRIPTORS}",
                    bytes.len(),
                    descriptors.len()
                ),
            ));
        }
        let mut control = ControlBuffer([0; CONTROL_BYTES]);
        let mut ancillary = AncillaryMessageWriter::new(&mut control.0);
        if !descriptors.is_empty() {
            ancillary.add_fds(descriptors.iter().copied())?;
        }
        let sent = self.0.send_with_ancillary(bytes, &mut ancillary).await?;
        if sent != bytes.len() {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("{sent} of a packet's {} bytes were sent", bytes.len()),
            ));
        }
        Ok(())
    }

    /// Receives one packet; None when the peer has closed (or sent an empty packet, which cannot be told
    /// from that). Nothing is lost when the future is dropped before it is ready.
    pub async fn recv(&self) -> Result<Option<Packet>, RecvError> {
        let mut bytes = vec![0; MAX_PACKET_BYTES];
        let mut control = ControlBuffer([0; CONTROL_BYTES]);
        let (info, ancillary) = self.0.recv_with_ancillary(&mut bytes, &mut control.0).await?;
        let mut descriptors = Vec::new();
        for message in ancillary.into_messages() {
            if let OwnedAncillaryMessage::FileDescriptors(received) = message {
                descriptors.extend(received);
            }
        }
        if info.truncated() {
            return Err(RecvError::TooLong);
        }
        if info.bytes_read() == 0 {
            return Ok(None);
        }
        bytes.truncate(info.bytes_read());
        let descriptors = if info.ancillary_truncated() {
            Err(DescriptorError::Truncated)
        } else if descriptors.len() > MAX_DESCRIPTORS {
            Err(DescriptorError::TooMany { found: descriptors.len() })
        } else {
            Ok(descriptors)
        };
        Ok(Some(Packet { bytes, descriptors }))
    }
}
