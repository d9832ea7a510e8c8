//! A daemon's side of the protocol under a test's control: it keeps jobs and leases as the real one does,
//! fails when told to, and "proves" by giving back the witness that it received, as public inputs.
use cuzk::{
    algebra::Canonical,
    proto::{
        Accepted, CircuitInfo, ContentId, ErrorCode, IdempotencyKey, InstanceId, JobId, JobResult, KeyTier,
        Lease, PacketSocket, PartitionProof, PartitionState, Progress, ProtocolError, Reply, ReplyBody,
        Request, RequestBody, Submit, Welcome, WitnessSource, attached,
    },
    r1cs::{WitnessEncoding, decode_into},
    shm::{LeasedBuffer, ReceivedFd},
};
use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::{sync::watch, task::JoinHandle};
use tokio_seqpacket::UnixSeqpacketListener;

/// Public inputs and auxiliary variables of the only circuit, "small".
pub const INPUTS: u64 = 2;
pub const AUXILIARY: u64 = 5;
pub const VALUES: usize = 1 + (INPUTS + AUXILIARY) as usize;
const BYTES: u64 = 32 * VALUES as u64;

/// The daemon, its socket and its state, which outlives its crashes where it is told to.
pub struct Peer {
    pub path: PathBuf,
    pub world: Arc<World>,
    _directory: tempfile::TempDir,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    instance: u8,
    requests: usize,
    crash_at: Option<usize>,
    forgets: bool,
    jobs: HashMap<IdempotencyKey, JobState>,
    refusals: HashMap<&'static str, Vec<ProtocolError>>,
    leases_out: usize,
    most_leases: usize,
    log: Vec<String>,
}

struct JobState {
    id: JobId,
    witnesses: Vec<Option<Vec<[u8; 32]>>>,
}

pub struct World {
    state: Mutex<State>,
    /// Counts changes of any job, and crashes.
    changed: watch::Sender<u64>,
    crashed: watch::Sender<u64>,
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Crash instead of answering the request with this number, counted from 0; and forget all jobs, or not.
    pub fn crash_at(&self, request: usize, forgets: bool) {
        let mut state = self.state();
        state.crash_at = Some(state.requests + request);
        state.forgets = forgets;
    }

    /// Ends every connection, as a crash does.
    pub fn crash(&self) {
        self.state().crash();
        self.crashed.send_modify(|count| *count += 1);
    }

    pub fn crashed(&self) -> bool {
        self.state().instance > 0
    }

    /// The next request of this kind is refused so.
    pub fn refuse(&self, kind: &'static str, error: ProtocolError) {
        self.state().refusals.entry(kind).or_default().push(error);
    }

    /// The requests so far, by kind.
    pub fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    pub fn leases_out(&self) -> usize {
        self.state().leases_out
    }

    pub fn most_leases(&self) -> usize {
        self.state().most_leases
    }

    pub fn jobs(&self) -> usize {
        self.state().jobs.len()
    }
}

impl State {
    fn crash(&mut self) {
        self.instance += 1;
        self.crash_at = None;
        if self.forgets {
            self.jobs.clear();
        }
    }
}

impl Peer {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cuzk.sock");
        let world = Arc::new(World {
            state: Mutex::default(),
            changed: watch::channel(0).0,
            crashed: watch::channel(0).0,
        });
        let accepting = tokio::spawn(accept(listen(&path), Arc::clone(&world)));
        Self { path, world, _directory: directory, accepting }
    }

    /// Removes the socket: nobody can connect.
    pub fn vanish(&mut self) {
        self.accepting.abort();
        std::fs::remove_file(&self.path).unwrap();
        self.world.crash();
    }

    /// Comes back after [`Self::vanish`].
    pub fn reappear(&mut self) {
        self.accepting = tokio::spawn(accept(listen(&self.path), Arc::clone(&self.world)));
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accepting.abort();
        self.world.crash();
    }
}

fn listen(path: &Path) -> UnixSeqpacketListener {
    UnixSeqpacketListener::bind(path).unwrap()
}

async fn accept(mut listener: UnixSeqpacketListener, world: Arc<World>) {
    while let Ok(socket) = listener.accept().await {
        let mut crashed = world.crashed.subscribe();
        let connection = Arc::new(Connection {
            socket: socket.into(),
            world: Arc::clone(&world),
            leases: Mutex::default(),
        });
        tokio::spawn(async move {
            tokio::select! {
                () = Arc::clone(&connection).serve() => {}
                _ = crashed.changed() => {}
            }
            let held = connection.leases.lock().unwrap().len();
            connection.world.state().leases_out -= held;
        });
    }
}

struct Connection {
    socket: PacketSocket,
    world: Arc<World>,
    leases: Mutex<HashMap<u64, LeasedBuffer>>,
}

impl Connection {
    async fn serve(self: Arc<Self>) {
        while let Ok(Some(packet)) = self.socket.recv().await {
            let request = Request::decode(&packet.bytes).unwrap();
            let kind = kind(&request.body);
            let refusal = {
                let mut state = self.world.state();
                if state.crash_at == Some(state.requests) {
                    state.crash();
                    drop(state);
                    self.world.crashed.send_modify(|count| *count += 1);
                    return;
                }
                state.requests += 1;
                state.log.push(kind.into());
                state.refusals.get_mut(kind).and_then(Vec::pop)
            };
            if let Some(error) = refusal {
                self.reply(request.id, ReplyBody::Error(error)).await;
                continue;
            }
            self.answer(request, packet.descriptors.unwrap()).await;
        }
    }

    async fn reply(&self, id: u64, body: ReplyBody) {
        let (packet, memfd) = attached::encode(&Reply { id, body }).unwrap();
        let descriptors: Vec<_> = memfd.iter().map(|memfd| memfd.as_fd()).collect();
        let _peer_may_be_gone = self.socket.send(&packet, &descriptors).await;
    }

    async fn answer(self: &Arc<Self>, request: Request, descriptors: Vec<OwnedFd>) {
        let id = request.id;
        let body = match request.body {
            RequestBody::Hello(hello) => {
                let instance = InstanceId([self.world.state().instance; 16]);
                ReplyBody::Welcome(Welcome { version: hello.version, build: "scripted".into(), instance })
            }
            RequestBody::Circuits => ReplyBody::Circuits(many_circuits()),
            RequestBody::Lease(_) => {
                let lease = LeasedBuffer::create(BYTES).unwrap();
                let terms = Lease {
                    id,
                    bytes: BYTES,
                    public_inputs: INPUTS,
                    auxiliary: AUXILIARY,
                    circuit_id: ContentId([9; 32]),
                };
                let packet = Reply { id, body: ReplyBody::Lease(terms) }.encode();
                {
                    let mut state = self.world.state();
                    state.leases_out += 1;
                    state.most_leases = state.most_leases.max(state.leases_out);
                }
                let _peer_may_be_gone = self.socket.send(&packet, &[lease.memfd()]).await;
                self.leases.lock().unwrap().insert(id, lease);
                return;
            }
            RequestBody::Release(lease) => {
                if let Some(lease) = self.leases.lock().unwrap().remove(&lease) {
                    lease.reclaim().unwrap();
                    self.world.state().leases_out -= 1;
                }
                ReplyBody::Released
            }
            RequestBody::Submit(submit) => self.submit(submit, descriptors),
            RequestBody::Find(key) => match self.world.state().jobs.get(&key) {
                Some(job) => ReplyBody::Accepted(job.accepted()),
                None => unknown_job(),
            },
            RequestBody::Await(request) => {
                tokio::spawn(Arc::clone(self).follow(id, request.job));
                return;
            }
            RequestBody::Acknowledge(job) => {
                self.world.state().jobs.retain(|_, known| known.id != job);
                ReplyBody::Acknowledged
            }
            RequestBody::Cancel(_) => ReplyBody::Cancelled,
            RequestBody::Status | RequestBody::Metrics | RequestBody::Trace(_) => unknown_job(),
            RequestBody::Abandon(_) => ReplyBody::Abandoned,
        };
        self.reply(id, body).await;
    }

    fn submit(&self, submit: Submit, mut descriptors: Vec<OwnedFd>) -> ReplyBody {
        let mut bytes = vec![0; submit.length as usize];
        match submit.witness {
            WitnessSource::Lease(lease) => match self.leases.lock().unwrap().get(&lease) {
                Some(lease) => lease.read_at(&mut bytes, 0).unwrap(),
                None => {
                    return ReplyBody::Error(ProtocolError::new(ErrorCode::UnknownLease, "no such lease"));
                }
            },
            WitnessSource::Memfd { offset } => {
                let memfd = ReceivedFd::from(descriptors.pop().unwrap());
                let witness = memfd.check(offset, submit.length).unwrap().map().unwrap();
                witness.read_at(&mut bytes, 0).unwrap();
            }
        }
        let values = match submit.encoding {
            WitnessEncoding::Packed => unpacked(&bytes),
            _ => bytes.as_chunks::<32>().0.to_vec(),
        };
        let mut state = self.world.state();
        let fresh = JobId([state.requests as u8; 16]);
        let job = state
            .jobs
            .entry(submit.key)
            .or_insert_with(|| JobState { id: fresh, witnesses: vec![None; submit.partitions as usize] });
        job.witnesses[submit.partition as usize] = Some(values);
        let accepted = job.accepted();
        drop(state);
        self.world.changed.send_modify(|count| *count += 1);
        ReplyBody::Accepted(accepted)
    }

    /// Answers `await`: each partition's state, its changes, and the result once all are there.
    async fn follow(self: Arc<Self>, id: u64, job: JobId) {
        let mut changed = self.world.changed.subscribe();
        let mut crashed = self.world.crashed.subscribe();
        let mut told: Vec<Option<PartitionState>> = Vec::new();
        loop {
            changed.borrow_and_update();
            let states = self.world.state().jobs.values().find(|known| known.id == job).map(JobState::states);
            let Some(states) = states else { return self.reply(id, unknown_job()).await };
            told.resize(states.len(), None);
            for (partition, state) in states.iter().enumerate() {
                if told[partition].replace(*state) != Some(*state) {
                    let progress =
                        Progress { job, partition: partition as u32, state: *state, stage: String::new() };
                    self.reply(id, ReplyBody::Progress(progress)).await;
                }
            }
            if states.iter().all(|state| *state == PartitionState::Proved) {
                let result =
                    self.world.state().jobs.values().find(|known| known.id == job).map(JobState::result);
                let Some(result) = result else { continue };
                return self.reply(id, ReplyBody::Result(result)).await;
            }
            tokio::select! {
                _ = changed.changed() => {}
                _ = crashed.changed() => return,
            }
        }
    }
}

impl JobState {
    fn accepted(&self) -> Accepted {
        let missing = self.witnesses.iter().filter(|witness| witness.is_none()).count();
        Accepted { job: self.id, missing: missing as u32 }
    }

    fn states(&self) -> Vec<PartitionState> {
        let state = |there| if there { PartitionState::Proved } else { PartitionState::Missing };
        self.witnesses.iter().map(|witness| state(witness.is_some())).collect()
    }

    fn result(&self) -> JobResult {
        let proof = |witness: &Option<Vec<[u8; 32]>>| PartitionProof {
            proof: [0; 192],
            public_inputs_hash: ContentId([0; 32]),
            public_inputs: witness.clone().unwrap(),
            attempts: 1,
            timeline: Vec::new(),
        };
        JobResult {
            job: self.id,
            circuit: "small".into(),
            circuit_id: ContentId([9; 32]),
            key_id: ContentId([8; 32]),
            build: "scripted".into(),
            backend: "none".into(),
            proofs: self.witnesses.iter().map(proof).collect(),
        }
    }
}

/// z from the packed encoding.
fn unpacked(bytes: &[u8]) -> Vec<[u8; 32]> {
    let mut z = vec![Canonical::ZERO; VALUES];
    decode_into(WitnessEncoding::Packed, &bytes, 1 + INPUTS as usize, &mut z).unwrap();
    z.iter().map(|value| value.to_le_bytes()).collect()
}

fn unknown_job() -> ReplyBody {
    ReplyBody::Error(ProtocolError::new(ErrorCode::UnknownJob, "no such job"))
}

/// More than fit a packet.
fn many_circuits() -> Vec<CircuitInfo> {
    let circuit = |index: usize| CircuitInfo {
        name: format!("circuit-{index}"),
        circuit_id: None,
        key_id: None,
        public_inputs: INPUTS,
        auxiliary: AUXILIARY,
        constraints: 3,
        domain_log2: 4,
        tier: KeyTier::NotLoaded,
        problem: String::new(),
        references: 0,
        key_bytes: 0,
        circuit_bytes: 0,
    };
    (0..2000).map(circuit).collect()
}

fn kind(body: &RequestBody) -> &'static str {
    match body {
        RequestBody::Hello(_) => "hello",
        RequestBody::Circuits => "circuits",
        RequestBody::Lease(_) => "lease",
        RequestBody::Release(_) => "release",
        RequestBody::Submit(Submit { witness: WitnessSource::Lease(_), .. }) => "submit lease",
        RequestBody::Submit(_) => "submit memfd",
        RequestBody::Await(_) => "await",
        RequestBody::Acknowledge(_) => "acknowledge",
        RequestBody::Cancel(_) => "cancel",
        RequestBody::Status => "status",
        RequestBody::Find(_) => "find",
        RequestBody::Abandon(_) => "abandon",
        RequestBody::Metrics => "metrics",
        RequestBody::Trace(_) => "trace",
    }
}
