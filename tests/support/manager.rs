//! A service manager with a store of descriptors, played by the test: it starts the daemon with its socket and all that is
//! stored, keeps and lets go of what it is told to, and stays when the daemon dies.
#![allow(dead_code)]
use crate::daemon::{Builder, binary};
use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::{
        signal::{Signal, kill},
        socket::{
            AddressFamily, Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, bind,
            listen, recvmsg, socket,
        },
    },
    unistd::Pid,
};
use std::{
    fs::{self, File},
    io::IoSliceMut,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::{fs::FileExt, net::UnixDatagram},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// How long anything may take before the test fails; nothing is expected to take that long.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the manager has.
#[derive(Default)]
struct Kept {
    store: Mutex<Vec<(String, OwnedFd)>>,
    /// The most that it keeps (FileDescriptorStoreMax=).
    most: AtomicUsize,
    /// Messages that are read, but nothing is done for them.
    deaf: AtomicBool,
    told: Mutex<Vec<String>>,
}

/// The manager, and the daemon while it runs.
pub struct Manager {
    builder: Builder,
    listening: OwnedFd,
    kept: Arc<Kept>,
    child: Option<Child>,
}

impl Manager {
    /// Starts the daemon, which is ready when this returns. The store has room for `most`.
    pub fn start(builder: Builder, most: usize) -> Self {
        let flags = SockFlag::SOCK_CLOEXEC;
        let listening = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        bind(listening.as_raw_fd(), &UnixAddr::new(&builder.dir().join("socket")).unwrap()).unwrap();
        listen(&listening, Backlog::new(16).unwrap()).unwrap();
        let notify = UnixDatagram::bind(builder.dir().join("notify")).unwrap();
        let kept = Arc::new(Kept { most: AtomicUsize::new(most), ..Kept::default() });
        let ear = Arc::clone(&kept);
        std::thread::spawn(move || ear.listen(&notify));
        let mut manager = Self { builder, listening, kept, child: None };
        manager.launch();
        manager
    }

    /// Starts the daemon with all that is stored, and waits until it is ready.
    pub fn launch(&mut self) {
        assert!(self.child.is_none());
        let (mut descriptors, mut names) =
            (vec![self.passed(&self.listening)], vec!["cuzk.socket".to_owned()]);
        for (name, descriptor) in &*self.kept.store.lock().unwrap() {
            descriptors.push(self.passed(descriptor));
            names.push(name.clone());
        }
        // A shell knows its own process id, and has other numbers for descriptors.
        let moves = (3..).zip(&descriptors).map(|(to, from)| {
            let from = from.as_raw_fd();
            // The others stay open in the daemon, too: to close one, bash would use a number that is wanted.
            format!("{to}<&{from}")
        });
        let moves = moves.collect::<Vec<_>>().join(" ");
        let script = format!(r#"exec {moves}; LISTEN_PID=$$ exec "$0" --config "$1""#);
        let mut command = Command::new("/bin/bash");
        command.args(["-c", &script]).arg(binary()).arg(self.builder.write_config());
        self.builder.arrange(&mut command);
        command.stdin(Stdio::null()).env("LISTEN_FDS", descriptors.len().to_string());
        command.env("LISTEN_FDNAMES", names.join(":"));
        self.kept.told.lock().unwrap().clear();
        self.child = Some(command.spawn().unwrap());
        drop(descriptors);
        self.until(|manager| manager.told("READY=1"));
    }

    /// A copy that a child inherits, out of the way of the numbers that it is to have there.
    fn passed(&self, descriptor: &OwnedFd) -> OwnedFd {
        let copy = fcntl(descriptor, FcntlArg::F_DUPFD(300)).unwrap();
        // SAFETY: the descriptor is new, and nobody else's.
        unsafe { OwnedFd::from_raw_fd(copy) }
    }

    /// Whether the daemon that runs has told this.
    pub fn told(&self, assignment: &str) -> bool {
        self.kept.told.lock().unwrap().iter().any(|line| line.starts_with(assignment))
    }

    /// Waits until something is so.
    pub fn until(&mut self, so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !so(self) {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().unwrap());
            assert!(ended.is_none() && Instant::now() < deadline, "{ended:?}; log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn end(&mut self, signal: Signal) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        child.wait().unwrap()
    }

    /// Kills the daemon.
    pub fn kill(&mut self) {
        assert!(!self.end(Signal::SIGKILL).success());
        self.settle();
    }

    /// Stops it in good order.
    pub fn stop(&mut self) {
        let status = self.end(Signal::SIGTERM);
        assert!(status.success(), "{status}; log:\n{}", self.log());
        self.settle();
    }

    /// What the daemon sent before it died has been read when this returns.
    fn settle(&self) {
        let (reader, writer) = std::io::pipe().unwrap();
        let message = nix::sys::socket::ControlMessage::ScmRights(&[writer.as_raw_fd()]);
        let address = UnixAddr::new(&self.builder.dir().join("notify")).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        let text = [std::io::IoSlice::new(b"BARRIER=1")];
        let flags = MsgFlags::empty();
        nix::sys::socket::sendmsg(sender.as_raw_fd(), &text, &[message], flags, Some(&address)).unwrap();
        drop(writer);
        assert_eq!(std::io::Read::read(&mut &reader, &mut [0]).unwrap(), 0);
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.builder.dir().join("socket")
    }

    /// The daemon's folder.
    pub fn dir(&self) -> &Path {
        self.builder.dir()
    }

    /// What the daemons have logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.builder.dir().join("log")).unwrap()
    }

    /// Adds settings that the next daemon starts with.
    pub fn configure(&mut self, settings: &str) {
        let builder = std::mem::take(&mut self.builder);
        self.builder = builder.config(settings);
    }

    /// Defines a circuit anew.
    pub fn define(&self, name: &str, definition: &str) {
        fs::write(self.dir().join(format!("circuits/{name}.toml")), definition).unwrap();
    }

    /// Names of what is stored, those that begin so.
    pub fn stored(&self, prefix: &str) -> Vec<String> {
        let store = self.kept.store.lock().unwrap();
        store.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(name, _)| name.clone()).collect()
    }

    /// Lets go of an entry of itself.
    pub fn lose(&self, name: &str) {
        self.kept.store.lock().unwrap().retain(|(kept, _)| kept != name);
    }

    /// Writes into what is stored.
    pub fn damage(&self, name: &str, bytes: &[u8], at: u64) {
        let store = self.kept.store.lock().unwrap();
        let (_, memfd) = store.iter().find(|(kept, _)| kept == name).unwrap();
        File::from(memfd.try_clone().unwrap()).write_all_at(bytes, at).unwrap();
    }

    /// From now on it reads what it is told, and does nothing.
    pub fn be_deaf(&self) {
        self.kept.deaf.store(true, Ordering::SeqCst);
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail if it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Kept {
    fn listen(&self, notify: &UnixDatagram) {
        // Held for ever: what is not closed holds up whoever waits for that.
        let mut ignored = Vec::new();
        loop {
            let mut buffer = [0; 8192];
            let mut control = nix::cmsg_space!([i32; 16]);
            let mut text = [IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let message =
                recvmsg::<UnixAddr>(notify.as_raw_fd(), &mut text, Some(&mut control), flags).unwrap();
            let descriptors = message.cmsgs().unwrap().flat_map(|control| match control {
                ControlMessageOwned::ScmRights(descriptors) => descriptors,
                _ => Vec::new(),
            });
            // SAFETY: the kernel has just made these for this process.
            let descriptors: Vec<_> = descriptors.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect();
            let length = message.bytes;
            let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
            if self.deaf.load(Ordering::SeqCst) {
                ignored.extend(descriptors);
                continue;
            }
            self.obey(&text, descriptors);
            self.told.lock().unwrap().extend(text.lines().map(String::from));
        }
    }

    fn obey(&self, text: &str, mut descriptors: Vec<OwnedFd>) {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let mut store = self.store.lock().unwrap();
        let name = value("FDNAME=").unwrap_or("stored");
        if value("FDSTORE=") == Some("1") {
            let inode = |fd: &OwnedFd| nix::sys::stat::fstat(fd).map(|it| (it.st_dev, it.st_ino)).unwrap();
            let fd = descriptors.pop().unwrap();
            // As systemd does: what is there already is not taken again, under no other name either.
            let known = store.iter().any(|(_, kept)| inode(kept) == inode(&fd));
            if !known && store.len() < self.most.load(Ordering::SeqCst) {
                store.push((name.to_owned(), fd));
            }
        }
        if value("FDSTOREREMOVE=") == Some("1") {
            store.retain(|(kept, _)| kept != name);
        }
    }
}
