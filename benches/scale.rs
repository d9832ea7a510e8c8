//! Proofs at full scale on a device: makes, on the machine itself, circuits of the shapes of Filecoin's, keys
//! for them and witnesses, proves from a sealed memfd, verifies, and prints times by step and peaks of memory.
//!
//! `cargo bench --features cuda --bench scale -- [--shape porep|window] [--log 20,22] [--memory 16,8] …`; the shapes
//! at their full size have log 27. Needs an NVIDIA device; a key of full size takes 44 or 57 GiB of host memory.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "a program for developers: a panic is the report"
)]
#[path = "../tests/support/synthetic.rs"]
mod synthetic;

use clap::{Parser, ValueEnum};
use cuzk::{
    algebra::{CancelToken, Canonical, Fr},
    gpu::{
        DeviceSlice, PageLocks,
        arena::{Arena, Region},
        device::devices,
        driver::{Context, Stream},
        msm_plan::MsmDevice,
        plan::Planner,
        prover::{LoadPlan, Loaded, MULTIPLES, ProofJob, Upload},
        setup,
    },
    groth16::{CpuProver, PreparedVerifyingKey, Proof, ProvingKey, Randomness, Timeline},
    r1cs::{Circuit, WitnessBytes, WitnessEncoding},
    shm::{MappedWitness, OwnBuffer, ReceivedFd},
};
use std::{
    error::Error,
    io,
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::Instant,
};
use synthetic::{POREP_32G, Shape, Synthetic, WINDOW_POST_32G};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const GIB: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShapeName {
    Porep,
    Window,
}

impl ShapeName {
    fn shape(self) -> Shape {
        match self {
            Self::Porep => POREP_32G,
            Self::Window => WINDOW_POST_32G,
        }
    }
}

#[derive(Parser)]
struct Arguments {
    /// Shapes.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ShapeName::Porep, ShapeName::Window])]
    shape: Vec<ShapeName>,
    /// log2 of the domains' sizes.
    #[arg(long, value_delimiter = ',', default_values_t = [20, 22])]
    log: Vec<u32>,
    /// Arenas in GiB, beside one of all the device's memory.
    #[arg(long, value_delimiter = ',')]
    memory: Vec<u64>,
    /// Proofs in each arena.
    #[arg(long, default_value_t = 3)]
    proofs: u32,
    /// Compare with the CPU's proof up to this size.
    #[arg(long, default_value_t = 0)]
    cpu: u32,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Tells what happened, and when.
fn say(text: impl std::fmt::Display) {
    static START: OnceLock<Instant> = OnceLock::new();
    println!("[{:8.2}] {text}", START.get_or_init(Instant::now).elapsed().as_secs_f64());
}

/// Seconds that `work` takes, which are told.
fn timed<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let result = work()?;
    say(format_args!("{what}: {:.3} s", start.elapsed().as_secs_f64()));
    Ok(result)
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB as f64
}

/// A field of a file of /proc, given there in kB, in GiB.
fn host(file: &str, field: &str) -> Result<f64> {
    let text = std::fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()).ok_or("no such field")?.parse()?;
    Ok(gib(kib << 10))
}

fn say_host_memory(when: &str) -> Result<()> {
    let process = |field| host("/proc/self/status", field);
    say(format_args!(
        "host memory {when}: resident {:.2} GiB (of it shared {:.2}), peak {:.2}; machine: available {:.2} of {:.2}",
        process("VmRSS")?,
        process("RssShmem")?,
        process("VmHWM")?,
        host("/proc/meminfo", "MemAvailable")?,
        host("/proc/meminfo", "MemTotal")?,
    ));
    Ok(())
}

struct Device {
    context: Arc<Context>,
    stream: Arc<Stream>,
    multiprocessors: u32,
    /// Bytes of its memory in use before there is an arena.
    idle: u64,
}

impl Device {
    fn open() -> Result<Self> {
        let info = devices()?.into_iter().next().ok_or("there is no NVIDIA device")?;
        let context = Context::open(&info)?;
        let stream = Stream::new(&context)?;
        let (free, total) = context.memory()?;
        say(format_args!(
            "{}, {} multiprocessors, {:.2} of {:.2} GiB free",
            info.name,
            info.multiprocessors,
            gib(free),
            gib(total)
        ));
        Ok(Self { context, stream, multiprocessors: info.multiprocessors, idle: total - free })
    }

    fn used(&self) -> Result<u64> {
        let (free, total) = self.context.memory()?;
        Ok(total - free)
    }

    /// An arena, all of it.
    fn arena(&self, bytes: u64) -> Result<(Region, DeviceSlice<u8>)> {
        let slot = Planner::new().claim::<u8>("all", bytes)?;
        let region = Arena::new(&self.context, slot.num_bytes())?.claim(slot, &self.stream)?;
        let memory = region.slice(bytes as usize)?;
        Ok((region, memory))
    }

    fn setup(&self, circuit: &Circuit) -> Result<ProvingKey> {
        let bytes = setup::num_bytes(circuit, self.multiprocessors)?;
        say(format_args!("setup: {:.2} GiB on the device", gib(bytes)));
        let (_region, memory) = self.arena(bytes)?;
        let mut step: Option<(&str, Instant)> = None;
        let mut begin = |name: Option<&'static str>| {
            if let Some((name, start)) = step.take() {
                say(format_args!("  {name}: {:.3} s", start.elapsed().as_secs_f64()));
            }
            step = name.map(|name| (name, Instant::now()));
        };
        // SAFETY: the arena is this setup's alone.
        let key = unsafe {
            setup::insecure_setup(
                &*self.stream,
                memory,
                self.multiprocessors,
                circuit,
                [9; 32],
                &mut |name| {
                    begin(Some(name));
                },
            )
        }?;
        begin(None);
        Ok(key)
    }
}

/// A client's witness as the daemon has it.
struct Witness(MappedWitness);

impl WitnessBytes for Witness {
    fn length(&self) -> usize {
        self.0.length() as usize
    }
    fn copy(&self, offset: usize, into: &mut [u8]) -> io::Result<()> {
        self.0.read_at(into, offset as u64)
    }
}

impl Witness {
    fn new(synthetic: &Synthetic) -> Result<Self> {
        let buffer = OwnBuffer::create(synthetic.witness_bytes() as u64)?;
        // SAFETY: the buffer's own memory, which only this thread knows.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(buffer.base().as_ptr(), synthetic.witness_bytes()) };
        synthetic.write_witness(3, bytes);
        let memfd = buffer.seal()?;
        let length = memfd.length();
        let received = ReceivedFd::from(memfd.memfd().try_clone_to_owned()?);
        Ok(Self(received.check(0, length)?.map()?))
    }
}

/// A case of this benchmark, in host memory.
struct Case {
    circuit: Circuit,
    key: ProvingKey,
    verifier: PreparedVerifyingKey,
    witness: Witness,
}

impl Case {
    fn new(device: &Device, shape: Shape) -> Result<Self> {
        let synthetic = Synthetic::new(shape).ok_or("no circuit has that shape")?;
        let circuit = timed("circuit", || Ok(synthetic.circuit()?))?;
        say(format_args!(
            "  {} rows, {} inputs, {} auxiliary values; {} and {} of the variables in A and B; {}, {} and {} \
             entries; {:.2} GiB",
            circuit.num_rows(),
            circuit.num_inputs(),
            circuit.num_aux(),
            circuit.a_density().count(),
            circuit.b_density().count(),
            circuit.a().entries(),
            circuit.b().entries(),
            circuit.c().map_or(0, |c| c.entries()),
            gib(circuit.num_bytes())
        ));
        let key = timed("setup", || device.setup(&circuit))?;
        let points = key.h.len() + key.l.len() + key.a.points().len() + key.b_g1.points().len();
        let bytes = 96 * points as u64 + 192 * key.b_g2.points().len() as u64;
        say(format_args!(
            "  key: h {}, l {}, a {}, b {} points, {:.2} GiB",
            key.h.len(),
            key.l.len(),
            key.a.points().len(),
            key.b_g1.points().len(),
            gib(bytes)
        ));
        let witness = timed("witness", || Witness::new(&synthetic))?;
        say_host_memory("with circuit, key and witness")?;
        let verifier = PreparedVerifyingKey::new(&key.vk);
        Ok(Self { circuit, key, verifier, witness })
    }

    /// The CPU's proof, where that is wanted.
    fn cpu_proof(&self) -> Result<Proof> {
        let mut bytes = vec![0; self.witness.length()];
        self.witness.copy(0, &mut bytes)?;
        let z: Vec<Canonical> = synthetic::values(&bytes).ok_or("a witness that is not canonical")?;
        let (never, mut timeline) = (CancelToken::new(), Timeline::new());
        let randomness = fixed();
        Ok(CpuProver::prove(&self.circuit, &self.key, &z, randomness, &never, &mut timeline, &mut |_| {})?)
    }

    /// Loads in an arena of at most so many bytes, proves and verifies.
    fn prove(&self, device: &Device, memory: u64, proofs: u32, cpu: Option<&Proof>) -> Result<()> {
        let never = CancelToken::new();
        let limits = MsmDevice { memory, multiprocessors: device.multiprocessors };
        let planned =
            timed("plan", || Ok(LoadPlan::new(&self.circuit, &self.key, limits)?.fastest(limits)?))?;
        let plan = planned.plan();
        let (bytes, resident, streamed) = (plan.num_bytes(), plan.resident_bytes(), plan.streamed_bytes());
        let multiples = plan.pieces().iter().filter(|piece| piece.name == MULTIPLES);
        say(format_args!(
            "  {:.2} GiB of {:.2}; resident {:.2}, of it multiples {:.2}; streamed for each proof {:.2}",
            gib(bytes),
            gib(memory),
            gib(resident),
            gib(multiples.map(|piece| piece.bytes).sum()),
            gib(streamed)
        ));
        let (_region, arena) = device.arena(bytes)?;
        let parts = (arena.slice(0..resident as usize), arena.slice(resident as usize..arena.len()));
        let parts = (parts.0.ok_or("the plan's parts")?, parts.1.ok_or("the plan's parts")?);
        let loaded = timed("load", || {
            // SAFETY: the arena is this circuit's alone.
            let loaded =
                unsafe { Loaded::planned(&*device.stream, planned, parts, &self.circuit, &self.key, &never) };
            Ok(loaded?)
        })?;
        let (base, length) = (self.witness.0.base(), self.witness.length());
        // SAFETY: the mapping outlives the lock.
        let _lock = timed("page locks", || Ok(unsafe { device.stream.lock_pages(base, length) }?))?;
        // The peak from here on.
        std::fs::write("/proc/self/clear_refs", "5")?;
        for _ in 0..proofs {
            let mut timeline = Timeline::new();
            let start = Instant::now();
            let job = ProofJob {
                circuit: &self.circuit,
                key: &self.key,
                encoding: WitnessEncoding::Canonical,
                witness: &self.witness,
                upload: Upload::Direct(base),
                randomness: fixed(),
                cancel: &never,
                timeline: &mut timeline,
                on_stage: &mut |_| {},
            };
            // SAFETY: the queue, circuit and key that were loaded; the witness is mapped there.
            let (proof, inputs) = unsafe { loaded.prove(&*device.stream, job) }?;
            let proved = start.elapsed();
            let start = Instant::now();
            self.verifier.verify(&proof, &inputs)?;
            let verified = start.elapsed();
            if cpu.is_some_and(|wanted| *wanted != proof) {
                return Err("the proof is not the CPU's".into());
            }
            let stages: Vec<String> = timeline
                .spans
                .iter()
                .map(|span| format!("{} {:.1}", span.stage.name(), span.duration.as_secs_f64() * 1e3))
                .collect();
            say(format_args!(
                "PROOF {:.1} ms, verified in {:.1}: {}",
                proved.as_secs_f64() * 1e3,
                verified.as_secs_f64() * 1e3,
                stages.join(", ")
            ));
        }
        say(format_args!(
            "device memory: planned {:.3} GiB, in use {:.3}, of it before the arena {:.3}",
            gib(bytes),
            gib(device.used()?),
            gib(device.idle)
        ));
        say_host_memory("while proving")
    }
}

fn fixed() -> Randomness {
    Randomness::fixed_for_tests(Fr::from_u64(0x1234_5678), Fr::from_u64(0x9abc_def0))
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments = Arguments::parse();
    let device = Device::open()?;
    let mut failed = 0;
    for shape in &arguments.shape {
        for &log in &arguments.log {
            say(format_args!("==== {shape:?} at 2^{log}"));
            let case = Case::new(&device, shape.shape().scaled(log))?;
            let cpu =
                (log <= arguments.cpu).then(|| timed("the CPU's proof", || case.cpu_proof())).transpose()?;
            let (free, _) = device.context.memory()?;
            // The driver keeps some for itself.
            let all = free.saturating_sub(GIB);
            for memory in [all].into_iter().chain(arguments.memory.iter().map(|gib| gib * GIB)) {
                say(format_args!("== an arena of at most {:.2} GiB", gib(memory)));
                if let Err(error) = case.prove(&device, memory, arguments.proofs, cpu.as_ref()) {
                    say(format_args!("FAILED: {error}"));
                    failed += 1;
                }
            }
        }
    }
    if failed > 0 { Err(format!("{failed} failed").into()) } else { Ok(()) }
}
