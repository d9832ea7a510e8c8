//! The demonstration that `make demo` runs: Zcash's Sapling circuits, with the parameters of their real
//! ceremony, proved through a daemon and verified by a Zcash node's own rules.
//!
//! Everything lies in a temporary directory. The daemon is started as a child, stopped with SIGTERM, and has
//! to end well; whatever goes wrong makes this program fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "a program for developers: a panic is the report"
)]
#[path = "../tests/support/sapling.rs"]
mod sapling;

use anyhow::{Context, Result, bail, ensure};
use bellman::Circuit as Synthesize;
use bls12_381::Scalar;
use cuzk::{
    catalog::{CircuitDefinition, Material},
    client::{RetryPolicy, blocking::Client},
    proto::JobResult,
    r1cs::{
        self,
        recorder::{record_bellman, write_bellman_witness},
    },
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use sapling_crypto::circuit::{OutputParameters, SpendParameters};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    thread::sleep,
    time::{Duration, Instant},
};

/// How long the daemon may take to load both circuits, or to stop.
const PATIENCE: Duration = Duration::from_secs(600);

fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let home = Home::new(directory.path())?;

    heading("Circuits");
    let (spend_bytes, output_bytes) = wagyu_zcash_parameters::load_sapling_parameters();
    home.add("sapling-spend", sapling::blank_spend(), &spend_bytes)?;
    home.add("sapling-output", sapling::blank_output(), &output_bytes)?;

    heading("Daemon");
    let mut daemon = Daemon::start(&home)?;
    let client = daemon.connect(&home)?;
    println!("{} listens at {}", client.daemon()?.build, home.socket().display());
    daemon.wait_until_loaded(&client)?;

    let mut rng = rand::rng();
    // The files are the ceremony's, unchanged: their hash is checked where they are published.
    let parameters = SpendParameters::read(&spend_bytes[..], false)?;
    let (circuit, check) = sapling::spend(&parameters, &mut rng);
    heading("Spend: a note of a tree with 2^32 places is spent, and nobody learns which");
    prove(&client, "sapling-spend", circuit, &check)?;

    let parameters = OutputParameters::read(&output_bytes[..], false)?;
    let (circuit, check) = sapling::output(&parameters, &mut rng);
    heading("Output: a note is made, and nobody learns for whom or how much");
    prove(&client, "sapling-output", circuit, &check)?;

    heading("Stop");
    drop(client);
    let status = daemon.stop()?;
    ensure!(status.success(), "the daemon ended with {status}");
    println!("SIGTERM; the daemon ended with {status}");
    println!("\nBoth proofs were made by the daemon and verified by bellman's verifier.");
    Ok(())
}

fn heading(text: &str) {
    println!("\n== {text}");
}

fn seconds(duration: Duration) -> String {
    format!("{:.3} s", duration.as_secs_f64())
}

/// A circuit's witness goes straight into the daemon's memory, its proof comes back, and is checked here.
fn prove(
    client: &Client,
    name: &str,
    circuit: impl Synthesize<Scalar>,
    check: &sapling::Check,
) -> Result<()> {
    let began = Instant::now();
    let mut synthesis = Duration::ZERO;
    let result = client.prove(name, |region| {
        let began = Instant::now();
        let written = write_bellman_witness(circuit, region);
        synthesis = began.elapsed();
        written
    })?;
    let elapsed = began.elapsed();
    report(&result, synthesis, elapsed)?;

    let proof = result.proofs[0].proof;
    let mut spoilt = proof;
    spoilt[191] ^= 1;
    ensure!(check(&proof), "bellman's verifier refuses the proof of {name}");
    ensure!(!check(&spoilt), "bellman's verifier accepts a spoilt proof of {name}");
    println!("verified, by sapling-crypto's consensus rules and bellman's verifier");
    Ok(())
}

fn report(result: &JobResult, synthesis: Duration, elapsed: Duration) -> Result<()> {
    let [proved] = &result.proofs[..] else {
        bail!("the job has {} proofs, wanted 1", result.proofs.len());
    };
    println!("proved by {} in {}, from witness to proof:", result.backend, seconds(elapsed));
    println!("  {:<12} {:>9}   (here, into the lease)", "synthesise", seconds(synthesis));
    for span in &proved.timeline {
        println!("  {:<12} {:>9}   at {}", span.stage, seconds(span.duration), seconds(span.start));
    }
    println!("public inputs: {}, with BLAKE3 {}", proved.public_inputs.len(), proved.public_inputs_hash);
    println!("proof, {} bytes:", proved.proof.len());
    for line in proved.proof.chunks(48) {
        println!("  {}", line.iter().map(|b| format!("{b:02x}")).collect::<String>());
    }
    Ok(())
}

/// The daemon's files.
struct Home(PathBuf);

impl Home {
    fn new(directory: &Path) -> Result<Self> {
        let home = Self(directory.to_owned());
        fs::create_dir(home.0.join("circuits"))?;
        fs::create_dir(home.0.join("state"))?;
        let path = |name: &str| home.0.join(name).display().to_string();
        let mut config = toml::Table::new();
        for (key, file) in [("socket", "cuzk.sock"), ("circuits_dir", "circuits"), ("state_dir", "state")] {
            config.insert(key.into(), path(file).into());
        }
        fs::write(home.config(), config.to_string())?;
        Ok(home)
    }

    fn config(&self) -> PathBuf {
        self.0.join("cuzk.toml")
    }

    fn socket(&self) -> PathBuf {
        self.0.join("cuzk.sock")
    }

    /// Records a circuit from its blank form, writes it and its key to files, and defines its name.
    fn add(&self, name: &str, blank: impl Synthesize<Scalar>, key: &[u8]) -> Result<()> {
        let began = Instant::now();
        let circuit = record_bellman(blank)?;
        let recorded = began.elapsed();
        let definition = CircuitDefinition {
            key: self.0.join(format!("{name}.params")),
            circuit: Some(self.0.join(format!("{name}.cuzk"))),
            preload: true,
        };
        fs::write(&definition.key, key)?;
        if let Some(path) = &definition.circuit {
            r1cs::file::write(&circuit, path)?;
        }
        let Material { circuit, .. } = Material::from_definition(&definition)?;
        definition.write(&self.0.join("circuits"), name, false)?;
        println!(
            "{name}: {} constraints, {} public inputs, {} auxiliary variables; recorded in {}; key of {:.1} MB",
            circuit.num_constraints(),
            circuit.num_inputs() - 1,
            circuit.num_aux(),
            seconds(recorded),
            key.len() as f64 / 1e6,
        );
        Ok(())
    }
}

/// A running daemon; killed when dropped, lest a failure leaves it behind.
struct Daemon(Child);

impl Daemon {
    fn start(home: &Home) -> Result<Self> {
        // target/debug/examples/sapling stands one directory below target/debug/cuzk-daemon.
        let here = std::env::current_exe()?;
        let program = here.ancestors().nth(2).context("this program has no directory")?.join("cuzk-daemon");
        let started = Command::new(&program).arg("--config").arg(home.config()).spawn();
        Ok(Self(started.with_context(|| format!("{}: build it with `make demo`", program.display()))?))
    }

    fn check_alive(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            Some(status) => bail!("the daemon ended with {status}"),
            None => Ok(()),
        }
    }

    fn connect(&mut self, home: &Home) -> Result<Client> {
        let began = Instant::now();
        loop {
            self.check_alive()?;
            match Client::connect_with(home.socket(), "sapling example", RetryPolicy::NEVER) {
                Ok(client) => return Ok(client),
                Err(error) if began.elapsed() > PATIENCE => return Err(error.into()),
                Err(_not_yet) => sleep(Duration::from_millis(20)),
            }
        }
    }

    /// The keys' points are all checked before the first use of a key.
    fn wait_until_loaded(&mut self, client: &Client) -> Result<()> {
        let began = Instant::now();
        loop {
            self.check_alive()?;
            let circuits = client.circuits()?;
            if let Some(bad) = circuits.iter().find(|c| !c.problem.is_empty()) {
                bail!("{}: {}", bad.name, bad.problem);
            }
            if !circuits.is_empty() && circuits.iter().all(|c| c.circuit_id.is_some()) {
                println!(
                    "{} circuits loaded, keys validated, in {}",
                    circuits.len(),
                    seconds(began.elapsed())
                );
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "the circuits are not loaded after {}", seconds(PATIENCE));
            sleep(Duration::from_millis(50));
        }
    }

    fn stop(mut self) -> Result<ExitStatus> {
        kill(Pid::from_raw(i32::try_from(self.0.id())?), Signal::SIGTERM)?;
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            ensure!(began.elapsed() < PATIENCE, "the daemon goes on {} after SIGTERM", seconds(PATIENCE));
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // It is our own child, so its id is its own still; it may end by itself meanwhile.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
