//! What may stand at the socket's path, what is removed, and what never is.
use super::*;
use std::os::unix::net::{UnixDatagram, UnixListener};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("s")
    }

    fn connects(&self) -> bool {
        let probe = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        connect(probe.as_raw_fd(), &UnixAddr::new(&self.path()).unwrap()).is_ok()
    }

    fn refusal(&self) -> ListenError {
        bound(&self.path(), 0o600).map(|_| ()).unwrap_err()
    }

    /// What is in the folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn it_listens_with_its_permissions_and_leaves_with_its_guard() {
    for mode in [0o600, 0o660, 0o666] {
        let place = Place::new();
        let (socket, guard) = bound(&place.path(), mode).unwrap();
        assert_eq!(fs::metadata(place.path()).unwrap().mode() & 0o777, mode);
        assert_eq!(place.names(), ["s", "s.lock"]);
        assert!(place.connects());
        assert_eq!(check_listening(&socket), Ok(()));
        drop(guard);
        assert_eq!(place.names(), ["s.lock"]);
        drop(socket);
        bound(&place.path(), mode).unwrap();
    }
}

#[test]
fn a_second_one_is_refused_and_the_first_goes_on() {
    let place = Place::new();
    let (_socket, _guard) = bound(&place.path(), 0o600).unwrap();
    let refusal = place.refusal();
    let pid = std::process::id();
    assert!(matches!(refusal, ListenError::Locked { pid: Some(p), .. } if p == pid), "{refusal}");
    assert!(refusal.is_taken());
    assert!(place.connects());
}

#[test]
fn somebody_who_serves_without_the_lock_is_left_alone() {
    let place = Place::new();
    let theirs = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(theirs.as_raw_fd(), &UnixAddr::new(&place.path()).unwrap()).unwrap();
    listen(&theirs, Backlog::new(1).unwrap()).unwrap();
    for _ in 0..3 {
        // The last of these attempts finds the queue full.
        assert!(matches!(place.refusal(), ListenError::Served { .. }));
    }
    assert!(place.path().exists());
}

#[test]
fn the_socket_of_a_killed_instance_is_replaced() {
    let place = Place::new();
    let (socket, guard) = bound(&place.path(), 0o600).unwrap();
    // A crash leaves the file, the same one, and takes the listening and the lock away.
    let kept = place.0.path().join("kept");
    fs::hard_link(place.path(), &kept).unwrap();
    drop((socket, guard));
    fs::rename(&kept, place.path()).unwrap();
    fs::write(with_suffix(&place.path(), ".new"), "left by a start that was interrupted").unwrap();
    assert!(!place.connects());
    let (_socket, _guard) = bound(&place.path(), 0o600).unwrap();
    assert!(place.connects());
    assert_eq!(place.names(), ["s", "s.lock"]);
}

#[test]
fn what_is_not_ours_is_never_removed() {
    for (put, found) in [
        ((|p| fs::write(p, "precious").unwrap()) as fn(&Path), "no socket"),
        (|p| fs::create_dir(p).unwrap(), "no socket"),
        (|p| std::os::unix::fs::symlink("/dev/null", p).unwrap(), "no socket"),
        (|p| drop(UnixListener::bind(p).unwrap()), "a socket that nobody serves"),
        (|p| std::mem::forget(UnixListener::bind(p).unwrap()), "a socket of another type"),
        (|p| std::mem::forget(UnixDatagram::bind(p).unwrap()), "a socket of another type"),
    ] {
        let place = Place::new();
        put(&place.path());
        let before = fs::symlink_metadata(place.path()).unwrap().ino();
        let refusal = place.refusal();
        assert!(matches!(&refusal, ListenError::Foreign { found: f, .. } if *f == found), "{refusal}");
        assert!(refusal.is_taken());
        assert_eq!(fs::symlink_metadata(place.path()).unwrap().ino(), before);
        assert_eq!(place.names(), ["s", "s.lock"]);
    }
}

#[test]
fn what_took_our_place_meanwhile_stays_when_we_go() {
    let place = Place::new();
    let (_socket, guard) = bound(&place.path(), 0o600).unwrap();
    fs::remove_file(place.path()).unwrap();
    fs::write(place.path(), "precious").unwrap();
    drop(guard);
    assert_eq!(fs::read(place.path()).unwrap(), b"precious");
}

#[test]
fn a_record_that_is_not_whole_claims_nothing() {
    let place = Place::new();
    for text in ["", "1 2", "1 2 3", "1 2 x\n", "1 2 3 4\n", "\n"] {
        fs::write(with_suffix(&place.path(), ".lock"), text).unwrap();
        assert_eq!(recorded(&mut File::open(with_suffix(&place.path(), ".lock")).unwrap()), None, "{text:?}");
    }
    fs::write(with_suffix(&place.path(), ".lock"), "1 2 3\n").unwrap();
    assert_eq!(recorded(&mut File::open(with_suffix(&place.path(), ".lock")).unwrap()), Some((2, 3)));
}

#[test]
fn a_lock_that_is_a_link_is_refused() {
    let place = Place::new();
    std::os::unix::fs::symlink("/dev/null", with_suffix(&place.path(), ".lock")).unwrap();
    let refusal = place.refusal();
    assert!(matches!(&refusal, ListenError::Io { path, .. } if path.ends_with("s.lock")), "{refusal}");
}

#[test]
fn inherited_descriptors_are_looked_at() {
    let place = Place::new();
    let new = |kind| socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let stream = new(SockType::Stream);
    assert!(check_listening(&stream).unwrap_err().contains("type Stream"));
    let packets = new(SockType::SeqPacket);
    assert!(check_listening(&packets).unwrap_err().contains("does not listen"));
    bind(packets.as_raw_fd(), &UnixAddr::new(&place.path()).unwrap()).unwrap();
    listen(&packets, Backlog::new(1).unwrap()).unwrap();
    assert_eq!(check_listening(&packets), Ok(()));
    let flags = nix::fcntl::fcntl(&packets, nix::fcntl::FcntlArg::F_GETFL).unwrap();
    assert!(nix::fcntl::OFlag::from_bits_retain(flags).contains(nix::fcntl::OFlag::O_NONBLOCK));
    let file = OwnedFd::from(File::open("/dev/null").unwrap());
    assert!(check_listening(&file).unwrap_err().contains("no socket"));
}
