//! What is said to the service manager about descriptors. Its socket takes datagrams and answers none, so that two
//! pipes tell what became of them: the manager closes the one that comes with `BARRIER=1` when it has
//! done all that was said before, and keeps the one that is stored as a probe only if there was room for it,
//! and so for whatever was stored before it.
use super::names::PROBE;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{
        AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, sendmsg, setsockopt, socket,
        sockopt,
    },
    sys::time::{TimeVal, TimeValLike},
    unistd::pipe2,
};
use std::{
    env,
    ffi::OsStr,
    io::{self, IoSlice},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    time::Duration,
};

/// How long the manager may take to read one message, and to do what it was told: it may be reading all its units.
const PATIENCE: Duration = Duration::from_secs(30);

/// The service manager's socket (`NOTIFY_SOCKET`).
#[derive(Debug)]
pub struct ServiceManager {
    socket: OwnedFd,
    address: UnixAddr,
    patience: Duration,
}

/// What the manager made of the descriptors that it was to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It keeps them.
    Kept,
    /// Not all of them: there is no room, or there is no store.
    NoRoom,
    /// It does not say.
    Silent,
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe2(nix::fcntl::OFlag::O_CLOEXEC)?)
}

/// Whether nobody holds the other end any more, within this time.
fn is_let_go(reader: &OwnedFd, within: Duration) -> io::Result<bool> {
    let timeout = PollTimeout::try_from(within).unwrap_or(PollTimeout::MAX);
    let mut fds = [PollFd::new(reader.as_fd(), PollFlags::empty())];
    loop {
        match poll(&mut fds, timeout) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl ServiceManager {
    /// The manager that has started this process, where there is one.
    ///
    /// # Errors
    /// Its address is none, or there is no socket to be had.
    pub fn from_environment() -> io::Result<Option<Self>> {
        env::var_os("NOTIFY_SOCKET").map(|address| Self::at(&address)).transpose()
    }

    /// The manager at an address: a path, or `@` and a name that is in no file system.
    ///
    /// # Errors
    /// As above.
    pub fn at(address: &OsStr) -> io::Result<Self> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] => UnixAddr::new_abstract(name)?,
            _ => UnixAddr::new(Path::new(address))?,
        };
        let socket = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        let patience = TimeVal::seconds(i64::try_from(PATIENCE.as_secs()).unwrap_or(i64::MAX));
        setsockopt(&socket, sockopt::SendTimeout, &patience)?;
        Ok(Self { socket, address, patience: PATIENCE })
    }

    #[cfg(test)]
    pub(super) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    fn send(&self, text: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let descriptors: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let control = [ControlMessage::ScmRights(&descriptors)];
        let control = if descriptors.is_empty() { &[][..] } else { &control[..] };
        loop {
            let text = [IoSlice::new(text.as_bytes())];
            let fd = self.socket.as_raw_fd();
            match sendmsg(fd, &text, control, MsgFlags::MSG_NOSIGNAL, Some(&self.address)) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Has it keep a descriptor under this name.
    ///
    /// # Errors
    /// The message cannot be sent.
    pub fn keep(&self, name: &str, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        // FDPOLL=0: it is not to look at what the descriptor does; a memfd does nothing.
        self.send(&format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0"), &[descriptor])
    }

    /// Has it let go of what it keeps under this name.
    ///
    /// # Errors
    /// The message cannot be sent.
    pub fn let_go(&self, name: &str) -> io::Result<()> {
        self.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), &[])
    }

    /// Waits until it has done what it was told, and learns whether it keeps all that it was to keep since it
    /// was last told to let go of something.
    ///
    /// # Errors
    /// A message cannot be sent, or there are no pipes to be had.
    pub fn settle(&self) -> io::Result<Answer> {
        let (probe, probed) = pipe()?;
        self.keep(PROBE, probed.as_fd())?;
        drop(probed);
        let (barrier, held) = pipe()?;
        self.send("BARRIER=1", &[held.as_fd()])?;
        drop(held);
        if !is_let_go(&barrier, self.patience)? {
            return Ok(Answer::Silent);
        }
        let refused = is_let_go(&probe, Duration::ZERO)?;
        if !refused {
            self.let_go(PROBE)?;
        }
        Ok(if refused { Answer::NoRoom } else { Answer::Kept })
    }
}
