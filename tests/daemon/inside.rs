//! The daemon inside the test's own process, with a backend that does what the test wants: wait at a gate,
//! spoil proofs, panic, hang. Everything else is the real thing.
use crate::circuits::Chain;
use cuzk::{
    daemon::{
        backend::{Backend, BackendError, Claim, ProofRequest},
        config::ConfigSource,
        cpu::CpuBackend,
        lifecycle::{
            self, Control, RunError, Setup,
            notify::{Event, Notify},
        },
    },
    gpu::GpuError,
    groth16::ProvingKey,
    r1cs::Circuit,
};
use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_seqpacket::UnixSeqpacketListener;

/// What the backend does with each proof.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Proves.
    Honest,
    /// Waits until the gate opens, looking at its token.
    Gated,
    /// Spoils the first so many proofs.
    Spoils(u32),
    /// Panics at the first proof.
    Panics,
    /// Never returns before the gate opens, and does not look at its token.
    Hangs,
    /// Waits like `Gated`, and loses its device then.
    Lost,
}

/// The backend under test.
pub struct TestBackend {
    cpu: CpuBackend,
    manner: Manner,
    entered: AtomicU32,
    open: Mutex<bool>,
    opened: Condvar,
}

impl TestBackend {
    /// A backend of this manner.
    pub fn new(manner: Manner) -> Arc<Self> {
        let cpu = CpuBackend::new(2, "a test wants it").unwrap();
        let (open, opened) = (Mutex::new(false), Condvar::new());
        Arc::new(Self { cpu, manner, entered: AtomicU32::new(0), open, opened })
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    /// Proofs that were begun.
    pub fn entered(&self) -> u32 {
        self.entered.load(Ordering::SeqCst)
    }

    fn wait(&self, mut look: impl FnMut() -> bool) {
        let mut open = self.open.lock().unwrap();
        while !*open && look() {
            open = self.opened.wait_timeout(open, Duration::from_millis(2)).unwrap().0;
        }
    }
}

impl Backend for TestBackend {
    fn name(&self) -> &str {
        "test"
    }

    fn why(&self) -> &str {
        self.cpu.why()
    }

    fn working_bytes(&self, circuit: &Circuit, key: &ProvingKey) -> u64 {
        self.cpu.working_bytes(circuit, key)
    }

    fn prove(&self, request: ProofRequest<'_>) -> Result<Claim, BackendError> {
        let before = self.entered.fetch_add(1, Ordering::SeqCst);
        let cancel = request.cancel.clone();
        match self.manner {
            Manner::Gated | Manner::Lost => self.wait(|| cancel.check().is_ok()),
            Manner::Hangs => self.wait(|| true),
            Manner::Panics if before == 0 => panic!("for a test"),
            _ => {}
        }
        if self.manner == Manner::Lost {
            return Err(BackendError::Lost(GpuError::NoDriver.into()));
        }
        let mut claim = self.cpu.prove(request)?;
        if matches!(self.manner, Manner::Spoils(n) if before < n) {
            std::mem::swap(&mut claim.proof.a, &mut claim.proof.c);
        }
        Ok(claim)
    }
}

/// What the service manager was told, as events in text.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notify for Notes {
    fn notify(&self, events: &[Event<'_>]) {
        self.0.lock().unwrap().extend(events.iter().map(|event| format!("{event:?}")));
    }
}

impl Notes {
    /// How often an event was told.
    pub fn count(&self, event: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|e| e.starts_with(event)).count()
    }
}

/// A daemon in this process.
pub struct Inside {
    pub dir: tempfile::TempDir,
    pub chain: Chain,
    pub backend: Arc<TestBackend>,
    /// Of other manners, where the test wants them.
    pub others: Vec<Arc<TestBackend>>,
    pub notes: Notes,
    controls: mpsc::Sender<Control>,
    task: JoinHandle<Result<(), RunError>>,
}

impl Inside {
    /// Starts it with the circuit "chain" and these settings; it is ready when this returns.
    pub async fn start(manner: Manner, settings: &str, watchdog: Option<Duration>) -> Self {
        Self::start_with(manner, &[], settings, watchdog).await
    }

    /// The same with several backends.
    pub async fn start_with(
        manner: Manner,
        others: &[Manner],
        settings: &str,
        watchdog: Option<Duration>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("circuits")).unwrap();
        let chain = Chain { length: 20 };
        let (definition, _) = chain.write(dir.path(), "chain");
        fs::write(at("circuits/chain.toml"), definition).unwrap();
        let text = format!(
            "state_dir = '{}'\ncircuits_dir = '{}'\nthreads = 2\n{settings}",
            at("state").display(),
            at("circuits").display()
        );
        fs::write(at("cuzk.toml"), text).unwrap();
        let source = ConfigSource::new(Some(at("cuzk.toml")));
        let (backend, notes) = (TestBackend::new(manner), Notes::default());
        let others: Vec<_> = others.iter().map(|manner| TestBackend::new(*manner)).collect();
        let backends = [&backend].into_iter().chain(&others);
        let backends = backends.map(|backend| backend.clone() as Arc<dyn Backend>).collect();
        let setup = Setup {
            config: source.load().unwrap(),
            source,
            backends,
            quarantined: Vec::new(),
            notify: Box::new(notes.clone()),
            watchdog,
            store: Default::default(),
            set_log_level: Box::new(|_| {}),
        };
        let listener = UnixSeqpacketListener::bind(at("socket")).unwrap();
        let (controls, receiver) = mpsc::channel(4);
        let task = tokio::spawn(lifecycle::run(listener, setup, receiver));
        let inside = Self { dir, chain, backend, others, notes, controls, task };
        inside.until(|inside| inside.notes.count("Ready") > 0).await;
        inside
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// Waits until something is so.
    pub async fn until(&self, so: impl Fn(&Self) -> bool) {
        let wait = async {
            while !so(self) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), wait).await.expect("in time");
    }

    /// Waits until the watchdog has not been fed for so long.
    pub async fn falls_silent(&self, silence: Duration) {
        let wait = async {
            loop {
                let before = self.notes.count("Watchdog");
                tokio::time::sleep(silence).await;
                if self.notes.count("Watchdog") == before {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(120), wait).await.expect("in time");
    }

    pub async fn control(&self, control: Control) {
        self.controls.send(control).await.unwrap();
    }

    /// Waits for its end.
    pub async fn ended(self) {
        self.end().await.unwrap();
    }

    /// The same, however it ends.
    pub async fn end(self) -> Result<(), RunError> {
        tokio::time::timeout(Duration::from_secs(120), self.task).await.expect("in time").unwrap()
    }
}
