//! Replies too long for a packet: the message lies in a sealed memfd, and the packet only says so.
use super::{MAX_ATTACHED_BYTES, MAX_PACKET_BYTES, Reply, ReplyBody, messages::DecodeError};
use crate::shm::{PageSize, Seals, memfd};
use std::{
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt,
    },
};

/// The packet that carries `reply`, and the descriptor to send with it where it does not fit one.
pub fn encode(reply: &Reply) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let message = reply.encode();
    if message.len() <= MAX_PACKET_BYTES {
        return Ok((message, None));
    }
    if message.len() > MAX_ATTACHED_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("the reply has {} bytes, wanted at most {MAX_ATTACHED_BYTES}", message.len()),
        ));
    }
    let mut file = File::from(memfd::create(c"cuzk-reply", PageSize::Base)?);
    file.write_all(&message)?;
    Seals::IMMUTABLE.and_no_more().add_to(&file)?;
    let packet = Reply { id: reply.id, body: ReplyBody::Attached(message.len() as u64) }.encode();
    Ok((packet, Some(file.into())))
}

/// Why an attached reply could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachedError {
    /// The descriptor is no memfd.
    #[error("the attached reply is no memfd: {0}")]
    NotMemfd(#[source] io::Error),
    /// The memfd could still change.
    #[error("the attached reply's memfd lacks the seals {missing}")]
    Seals {
        /// Seals that are not there.
        missing: Seals,
    },
    /// Longer than any reply.
    #[error("the attached reply has {found} bytes, wanted at most {MAX_ATTACHED_BYTES}")]
    TooLong {
        /// Bytes announced.
        found: u64,
    },
    /// The memfd holds less than was announced.
    #[error("the attached reply could not be read: {0}")]
    Io(#[from] io::Error),
    /// It is no valid reply.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Its id is not the packet's, or it is attached once more.
    #[error("the attached reply is not the one that its packet announces")]
    Mismatch,
}

/// The reply with this id in the first `bytes` of a descriptor that came with `attached`, read into
/// private memory after its seals are checked.
pub fn read(id: u64, bytes: u64, memfd: impl AsFd) -> Result<Reply, AttachedError> {
    let found = Seals::of(&memfd).map_err(AttachedError::NotMemfd)?;
    if let Some(missing) = found.missing_of(Seals::IMMUTABLE) {
        return Err(AttachedError::Seals { missing });
    }
    let length = usize::try_from(bytes)
        .ok()
        .filter(|length| *length <= MAX_ATTACHED_BYTES)
        .ok_or(AttachedError::TooLong { found: bytes })?;
    let mut message = vec![0; length];
    File::from(memfd.as_fd().try_clone_to_owned()?).read_exact_at(&mut message, 0)?;
    let reply = Reply::decode_attached(&message)?;
    if reply.id != id || matches!(reply.body, ReplyBody::Attached(_)) {
        return Err(AttachedError::Mismatch);
    }
    Ok(reply)
}
