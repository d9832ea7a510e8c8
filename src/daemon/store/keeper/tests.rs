//! The keeper against a manager that the test plays: what is in the store, whether it is full, silent or none.
use super::*;
use crate::daemon::store::names;
use crate::shm::{PageSize, memfd};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};
use std::{
    collections::BTreeMap,
    io::IoSliceMut,
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::net::UnixDatagram,
    },
};

const PATIENCE: Duration = Duration::from_secs(30);

/// The manager's store, by name, with what is stored.
#[derive(Default)]
struct Store {
    kept: BTreeMap<String, Vec<OwnedFd>>,
    most: usize,
    /// The most that were there at once, probes included.
    peak: usize,
    barriers: usize,
    deaf: bool,
}

struct Bench {
    _dir: tempfile::TempDir,
    keeper: Keeper,
    store: Arc<Mutex<Store>>,
}

fn listen(socket: &UnixDatagram, store: &Mutex<Store>) {
    let mut ignored = Vec::new();
    loop {
        let (mut buffer, mut control) = ([0; 4096], nix::cmsg_space!([i32; 4]));
        let mut text = [IoSliceMut::new(&mut buffer)];
        let message =
            recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut text, Some(&mut control), MsgFlags::empty())
                .unwrap();
        let rights = message.cmsgs().unwrap().flat_map(|control| match control {
            ControlMessageOwned::ScmRights(descriptors) => descriptors,
            _ => Vec::new(),
        });
        // SAFETY: the kernel has just made these for this process.
        let descriptors: Vec<_> = rights.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect();
        let length = message.bytes;
        let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
        let mut store = store.lock().unwrap();
        if store.deaf {
            ignored.extend(descriptors);
            continue;
        }
        let name = text.lines().find_map(|line| line.strip_prefix("FDNAME=")).unwrap_or("stored");
        let count = store.kept.values().map(Vec::len).sum::<usize>();
        if text.starts_with("FDSTORE=1") && count < store.most {
            store.peak = store.peak.max(count + 1);
            store.kept.entry(name.to_owned()).or_default().extend(descriptors);
        } else if text.starts_with("FDSTOREREMOVE=1") {
            store.kept.remove(name);
        } else if text == "BARRIER=1" {
            store.barriers += 1;
        }
    }
}

impl Bench {
    fn new(most: usize, kept: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        let store = Arc::new(Mutex::new(Store { most, ..Store::default() }));
        let ear = store.clone();
        thread::spawn(move || listen(&socket, &ear));
        let manager = ServiceManager::at(dir.path().join("notify").as_os_str()).unwrap();
        let manager = manager.with_patience(Duration::from_millis(300));
        let keeper = Keeper::start(manager, kept.iter().map(|name| (*name).to_owned())).unwrap();
        Self { _dir: dir, keeper, store }
    }

    /// What is stored, but for a probe that has done its work.
    fn names(&self) -> Vec<String> {
        let store = self.store.lock().unwrap();
        store.kept.keys().filter(|name| *name != names::PROBE).cloned().collect()
    }

    fn until(&self, so: impl Fn(&Store) -> bool) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while !so(&self.store.lock().unwrap()) {
            assert!(std::time::Instant::now() < deadline, "not in time: {:?}", self.names());
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn memory() -> (String, OwnedFd) {
    let memfd = memfd::create(c"cuzk-test", PageSize::Base).unwrap();
    (names::of_witness(&memfd).unwrap(), memfd)
}

fn again((name, memfd): &(String, OwnedFd)) -> (String, OwnedFd) {
    (name.clone(), memfd.try_clone().unwrap())
}

#[tokio::test]
async fn what_is_used_is_stored_and_what_is_not_leaves() {
    let bench = Bench::new(100, &[]);
    assert!(bench.keeper.is_there().await);
    let (one, other) = (memory(), memory());
    bench.keeper.keep([again(&one), again(&other)]).await.unwrap().unwrap();
    let mut both = vec![one.0.clone(), other.0.clone()];
    both.sort();
    assert_eq!(bench.names(), both);
    // A second use is no second entry, and the first to end does not end the other.
    bench.keeper.keep([again(&one)]).await.unwrap().unwrap();
    assert!(bench.store.lock().unwrap().kept.values().all(|kept| kept.len() == 1));
    assert_eq!(bench.names().len(), 2);
    bench.keeper.release(&one.0);
    bench.keeper.forget(&other.0);
    bench.until(|store| store.kept.keys().eq([&one.0]));
    assert!(bench.names().iter().eq([&one.0]));
    bench.keeper.release(&one.0);
    bench.until(|store| store.kept.is_empty());
    // Released and used again at once: it is there whenever that is promised.
    for _ in 0..200 {
        bench.keeper.keep([again(&one)]).await.unwrap().unwrap();
        assert!(bench.names().iter().eq([&one.0]), "{:?}", bench.names());
        bench.keeper.release(&one.0);
    }
    bench.keeper.release("cuzk-w-unknown");
}

#[tokio::test]
async fn many_wait_together() {
    let bench = Bench::new(1000, &[]);
    assert!(bench.keeper.is_there().await);
    let waiting: Vec<_> = {
        // While the manager is held up, all of them come.
        let _held = bench.store.lock().unwrap();
        (0..200).map(|_| bench.keeper.keep([memory()])).collect()
    };
    for told in waiting {
        told.await.unwrap().unwrap();
    }
    let store = bench.store.lock().unwrap();
    assert_eq!(store.kept.keys().filter(|name| *name != names::PROBE).count(), 200);
    assert!(store.barriers <= 4, "{} barriers", store.barriers);
}

#[tokio::test]
async fn what_does_not_fit_is_told_and_what_fits_is_kept() {
    let bench = Bench::new(4, &[]);
    assert!(bench.keeper.is_there().await);
    let waiting: Vec<_> = {
        let _held = bench.store.lock().unwrap();
        (0..6).map(|_| bench.keeper.keep([memory()])).collect()
    };
    let mut kept = 0;
    for told in waiting {
        match told.await.unwrap() {
            Ok(()) => kept += 1,
            Err(error) => {
                assert!(matches!(error, StoreError::Full { .. }), "{error}");
                let refusal = ProtocolError::from(error);
                assert_eq!((refusal.code, refusal.retry_after), (ErrorCode::Busy, RETRY_AFTER));
            }
        }
    }
    // The last place is for the probe that finds it free.
    assert_eq!(kept, 3);
    bench.until(|store| store.kept.len() == 3);
}

#[tokio::test]
async fn names_beyond_what_the_environment_takes_are_refused() {
    let bench = Bench::new(usize::MAX, &[]);
    assert!(bench.keeper.is_there().await);
    let long = |number: usize| (format!("cuzk-w{number:0200}"), memory().1);
    let most = MAX_NAMES_BYTES / (long(0).0.len() + 1);
    bench.keeper.keep((0..most).map(long)).await.unwrap().unwrap();
    let refused = bench.keeper.keep([long(most)]).await.unwrap();
    assert_eq!(refused, Err(StoreError::Full { entries: most, more: 1 }));
}

#[tokio::test]
async fn a_manager_without_a_store_is_found_out() {
    let bench = Bench::new(0, &[]);
    assert!(!bench.keeper.is_there().await);
    assert!(matches!(bench.keeper.offer(), Offer::None(why) if why.contains("FileDescriptorStoreMax=")));
    assert_eq!(bench.keeper.at_a_stop(3), "3 jobs are dropped");
}

#[tokio::test]
async fn a_manager_that_falls_silent_is_told() {
    let bench = Bench::new(10, &[]);
    assert!(bench.keeper.is_there().await);
    bench.store.lock().unwrap().deaf = true;
    let error = bench.keeper.keep([memory()]).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
    bench.store.lock().unwrap().deaf = false;
    let entry = memory();
    bench.keeper.keep([again(&entry)]).await.unwrap().unwrap();
    bench.until(|store| store.kept.keys().eq([&entry.0]));
}

#[tokio::test]
async fn what_was_handed_over_stays_only_if_it_is_taken_up() {
    let bench = Bench::new(10, &["cuzk-j1.1", "cuzk-w1.2", names::PROBE]);
    // Something was handed over: there is no question whether there is a store.
    assert_eq!(bench.keeper.offer(), Offer::There);
    {
        let mut store = bench.store.lock().unwrap();
        for name in ["cuzk-j1.1", "cuzk-w1.2", names::PROBE] {
            store.kept.insert(name.into(), vec![memory().1]);
        }
    }
    bench.keeper.take_up("cuzk-j1.1");
    bench.keeper.forget_unused();
    bench.until(|store| store.kept.len() == 1);
    assert_eq!(bench.names(), ["cuzk-j1.1"]);
    bench.keeper.release("cuzk-j1.1");
    bench.until(|store| store.kept.is_empty());
}
