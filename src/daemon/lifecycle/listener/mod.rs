//! The listening socket: inherited from the service manager, or bound by the daemon itself.
//!
//! A socket of our own is guarded by a lock file beside it (`PATH.lock`), which also records which socket was made:
//! only that one is ever removed, never what somebody else has put there. The socket is made under
//! another name (`PATH.new`) and renamed once it has its permissions and listens.
use crate::daemon::store::names::Kind;
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, Flock, FlockArg, RenameFlags, renameat2},
    sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen, socket,
        sockopt,
    },
};
use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Seek, Write},
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

/// Connections that may wait to be accepted, also while a restart goes on.
const BACKLOG: i32 = 128;

/// Why there is no socket to listen at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another instance has the lock.
    #[error("another cuzk-daemon{} already serves {}", owner(*pid), path.display())]
    Locked {
        /// The socket's path.
        path: PathBuf,
        /// The other's process id, where it is known.
        pid: Option<u32>,
    },
    /// Somebody serves the path without the lock.
    #[error("{} is served by another process", path.display())]
    Served {
        /// The socket's path.
        path: PathBuf,
    },
    /// Something stands there that this daemon has not made.
    #[error("{} is {found}, wanted nothing, or a socket that an earlier cuzk-daemon has left", path.display())]
    Foreign {
        /// The socket's path.
        path: PathBuf,
        /// What stands there.
        found: &'static str,
    },
    /// The service manager hands over something else.
    #[error("the service manager passes {found}, wanted one listening SOCK_SEQPACKET socket")]
    Activation {
        /// What it passes.
        found: String,
    },
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path at fault.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn owner(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

impl ListenError {
    /// Whether the path is taken, so that a new attempt would fail again.
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Served { .. } | Self::Foreign { .. })
    }
}

fn at<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> ListenError {
    move |error| ListenError::Io { path: path.to_owned(), source: error.into() }
}

/// What the service manager passes.
#[derive(Default)]
pub struct Inherited {
    /// The socket, if it passes one.
    pub socket: Option<OwnedFd>,
    /// What the process before has had it keep, by name.
    pub stored: Vec<(String, OwnedFd)>,
}

/// Takes what the service manager passes.
///
/// # Errors
/// [`ListenError::Activation`] where it passes something else than one listening socket and what was stored.
pub fn inherited() -> Result<Inherited, ListenError> {
    let refused = |found: String| ListenError::Activation { found };
    let descriptors = sd_notify::listen_fds_with_names().map_err(|e| refused(e.to_string()))?;
    let (mut stored, mut others) = (Vec::new(), Vec::new());
    for (descriptor, name) in descriptors {
        // SAFETY: the service manager's protocol gives this descriptor to this process, and nothing else
        // in it has asked for it: this function is called once, before anything opens a file.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        match Kind::of(&name) {
            Some(_) => stored.push((name, descriptor)),
            None => others.push(descriptor),
        }
    }
    let count = others.len();
    let socket = match (others.pop(), count) {
        (None, _) => None,
        (Some(socket), 1) => {
            check_listening(&socket).map_err(refused)?;
            Some(socket)
        }
        (Some(_), _) => return Err(refused(format!("{count} descriptors beside what was stored"))),
    };
    Ok(Inherited { socket, stored })
}

/// Whether this is a listening Unix socket of packets.
fn check_listening(socket: &OwnedFd) -> Result<(), String> {
    let not_a_socket = |error: Errno| format!("a descriptor that is no socket ({})", error.desc());
    let kind = getsockopt(socket, sockopt::SockType).map_err(not_a_socket)?;
    if kind != SockType::SeqPacket {
        return Err(format!("a socket of type {kind:?}"));
    }
    if !getsockopt(socket, sockopt::AcceptConn).map_err(not_a_socket)? {
        return Err("a socket that does not listen".into());
    }
    let flags = nix::fcntl::fcntl(socket.as_fd(), nix::fcntl::FcntlArg::F_GETFL).map_err(not_a_socket)?;
    let flags = nix::fcntl::OFlag::from_bits_retain(flags) | nix::fcntl::OFlag::O_NONBLOCK;
    nix::fcntl::fcntl(socket.as_fd(), nix::fcntl::FcntlArg::F_SETFL(flags)).map_err(not_a_socket)?;
    Ok(())
}

/// Device and inode of a file: which one it is, whatever its name.
type Identity = (u64, u64);

/// The guard of a socket that this process has bound: removes it when dropped, if it is still there.
pub struct Guard {
    path: PathBuf,
    identity: Identity,
    _lock: Flock<File>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if matches!(identity(&self.path), Ok(Some((found, _))) if found == self.identity) {
            // What is left behind is recognised and removed by the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds a socket at `path` with these permission bits. The guard must outlive the listening.
///
/// # Errors
/// [`ListenError`]; whatever stands at the path is then as it was.
pub fn bound(path: &Path, mode: u32) -> Result<(OwnedFd, Guard), ListenError> {
    let mut lock = lock(path)?;
    clear(path, recorded(&mut lock))?;
    let temporary = with_suffix(path, ".new");
    // The name is guarded by the lock: what stands there is what an interrupted start has left.
    match fs::remove_file(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(at(&temporary)(e)),
        _ => {}
    }
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(at(path))?;
    let address = UnixAddr::new(&temporary).map_err(at(&temporary))?;
    bind(socket.as_raw_fd(), &address).map_err(at(&temporary))?;
    // Until it listens, nobody can connect, whatever the permissions are.
    fs::set_permissions(&temporary, Permissions::from_mode(mode)).map_err(at(&temporary))?;
    let backlog = Backlog::new(BACKLOG).map_err(at(path))?;
    listen(&socket, backlog).map_err(at(path))?;
    let metadata = fs::symlink_metadata(&temporary).map_err(at(&temporary))?;
    let identity = (metadata.dev(), metadata.ino());
    record(&mut lock, identity).map_err(at(&with_suffix(path, ".lock")))?;
    match renameat2(AT_FDCWD, &temporary, AT_FDCWD, path, RenameFlags::RENAME_NOREPLACE) {
        Ok(()) => Ok((socket, Guard { path: path.to_owned(), identity, _lock: lock })),
        Err(error) => {
            // Somebody was faster; our own name is to be left clean.
            let _ = fs::remove_file(&temporary);
            match error {
                Errno::EEXIST => Err(ListenError::Foreign { path: path.to_owned(), found: "taken" }),
                other => Err(at(path)(other)),
            }
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

/// Takes the lock beside the socket, or says who has it.
fn lock(path: &Path) -> Result<Flock<File>, ListenError> {
    let lock = with_suffix(path, ".lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.custom_flags(libc::O_NOFOLLOW).open(&lock).map_err(at(&lock))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(locked) => Ok(locked),
        Err((mut file, Errno::EWOULDBLOCK)) => {
            let mut text = String::new();
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.split(' ').next()?.parse().ok());
            Err(ListenError::Locked { path: path.to_owned(), pid })
        }
        Err((_, error)) => Err(at(&lock)(error)),
    }
}

/// The lock file's record: process, device and inode.
fn record(lock: &mut File, (device, inode): Identity) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{} {device} {inode}", std::process::id())
}

/// The socket that the last instance recorded; None where there was none, or the record is not whole.
fn recorded(lock: &mut File) -> Option<Identity> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.read_to_string(&mut text).ok()?;
    let numbers: Vec<u64> =
        text.strip_suffix('\n')?.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    match numbers[..] {
        [_, device, inode] => Some((device, inode)),
        _ => None,
    }
}

/// What stands at a path: which file, and whether it is a socket.
fn identity(path: &Path) -> io::Result<Option<(Identity, bool)>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(((found.dev(), found.ino()), found.file_type().is_socket()))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Removes the dead socket that an earlier instance has left, and nothing else.
fn clear(path: &Path, ours: Option<Identity>) -> Result<(), ListenError> {
    let Some((found, is_socket)) = identity(path).map_err(at(path))? else { return Ok(()) };
    let foreign = |found| Err(ListenError::Foreign { path: path.to_owned(), found });
    if !is_socket {
        return foreign("no socket");
    }
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(at(path))?;
    match connect(probe.as_raw_fd(), &UnixAddr::new(path).map_err(at(path))?) {
        Err(Errno::ECONNREFUSED) if ours == Some(found) => fs::remove_file(path).map_err(at(path)),
        Err(Errno::ECONNREFUSED) => foreign("a socket that nobody serves"),
        Err(Errno::EPROTOTYPE) => foreign("a socket of another type"),
        // A full queue is somebody's, too.
        Ok(()) | Err(Errno::EAGAIN) => Err(ListenError::Served { path: path.to_owned() }),
        Err(error) => Err(at(path)(error)),
    }
}

#[cfg(test)]
mod tests;
