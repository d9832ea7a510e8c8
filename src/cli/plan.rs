//! `cuzk plan`: every byte that a circuit's proofs take, before anything runs.
use super::{Exit, Failure, Output, circuit::open, failure::Outcome};
use crate::{
    catalog::{check_name, definition, key_bytes},
    gpu::{
        GpuError,
        msm_plan::MsmDevice,
        prover::{DeviceError, LOADING_BYTES, LoadPlan, ProofPlan, Residence, STAGING_BYTES},
    },
    groth16::{CpuProver, ProvingKey},
    r1cs::Circuit,
    shm::LeasedBuffer,
    units::{UnitError, about_bytes, parse_bytes},
};
use clap::Args;
use serde_json::{Value, json};
use std::{fmt::Write, num::NonZeroUsize, path::PathBuf, thread};

/// Show what the proofs of a circuit take of the host's memory and of a device's, piece by piece.
#[derive(Args, Debug)]
pub struct Plan {
    /// A circuit that the daemon knows, or a file: a definition (.toml), a .zkey, or a circuit with --key.
    circuit: String,
    /// The proving key, where the file holds a circuit alone.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Where the daemon's circuits are defined.
    #[arg(long, value_name = "DIR", default_value = definition::DEFAULT_DIRECTORY)]
    dir: PathBuf,
    /// Plan for a device with so much memory to prove in, such as 16GiB. Without it, the CPU proves.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes as fn(&str) -> Result<u64, UnitError>)]
    vram: Option<u64>,
    /// The device's multiprocessors: working memory grows with them.
    #[arg(long, value_name = "N", default_value_t = 132, requires = "vram", value_parser = clap::value_parser!(u32).range(1..=1024))]
    multiprocessors: u32,
    /// Refuse what takes more of the host's memory, such as 128GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes as fn(&str) -> Result<u64, UnitError>)]
    memory: Option<u64>,
    /// Threads of the CPU prover; as many as there are processors unless told otherwise.
    #[arg(long, value_name = "N", conflicts_with = "vram", value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
}

/// Runs the verb.
///
/// # Errors
/// Files that cannot be used, and what does not fit.
pub fn run(verb: &Plan, output: Output) -> Outcome {
    let file = match PathBuf::from(&verb.circuit) {
        file if file.exists() || check_name(&verb.circuit).is_err() => file,
        _ => definition::path_of(&verb.dir, &verb.circuit),
    };
    let (circuit, key) = open(&file, verb.key.as_deref())?;
    let key = key.ok_or_else(|| {
        Failure::usage(format_args!("{} holds a circuit alone: --key names its key", file.display()))
    })?;
    let host = host(verb, &circuit, &key)?;
    let device = verb.vram.map(|memory| device(verb, memory, &circuit, &key)).transpose()?;
    let document = json!({ "circuit": verb.circuit, "host": host, "device": device });
    output.answer(&document, || text(&document))?;
    Ok(Exit::Ok)
}

/// What one proof takes of the host, from one lease.
fn host(verb: &Plan, circuit: &Circuit, key: &ProvingKey) -> Result<Value, Failure> {
    let z = 32 * circuit.num_variables() as u64;
    let working = match verb.vram {
        // A witness that is to blame for a bad proof is read once more.
        Some(_) => z + STAGING_BYTES as u64 + LOADING_BYTES,
        None => {
            let processors = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
            CpuProver::working_bytes(circuit, key, verb.threads.map_or_else(processors, usize::from))
        }
    };
    let lease = LeasedBuffer::max_size(z).ok_or_else(|| {
        Failure::new(Exit::No, "memory", format_args!("circuit {}: no lease has {z} bytes", verb.circuit))
    })?;
    let pieces = [
        ("proving key", key_bytes(key), "mapped"),
        ("circuit", circuit.num_bytes(), "resident"),
        ("witness, in whole pages", lease, "leased"),
        ("working memory of a proof", working, "transient"),
    ];
    let bytes = pieces.iter().fold(0u64, |sum, (_, bytes, _)| sum.saturating_add(*bytes));
    if let Some(memory) = verb.memory.filter(|&memory| memory < bytes) {
        let found = format_args!(
            "circuit {}: a proof takes {bytes} bytes of host memory, --memory is {memory}",
            verb.circuit
        );
        return Err(Failure::new(Exit::No, "memory", found));
    }
    let pieces = pieces.map(|(name, bytes, tier)| json!({ "name": name, "bytes": bytes, "tier": tier }));
    Ok(json!({ "memory": verb.memory, "bytes": bytes, "pieces": pieces }))
}

/// What the circuit and a proof take of a device.
fn device(verb: &Plan, memory: u64, circuit: &Circuit, key: &ProvingKey) -> Result<Value, Failure> {
    let device = MsmDevice { memory, multiprocessors: verb.multiprocessors };
    let planned = LoadPlan::new(circuit, key, device).and_then(|plan| plan.fastest(device));
    let planned = planned.map_err(|error| {
        let message = format_args!("circuit {}: {error}", verb.circuit);
        match &error {
            DeviceError::Gpu(GpuError::OutOfMemory { .. }) => Failure::new(Exit::No, "memory", message),
            // No device can take so much of anything, or the key is another circuit's.
            DeviceError::Gpu(GpuError::TooLarge { .. }) | DeviceError::Key(_) => {
                Failure::new(Exit::No, "mismatch", message)
            }
            _ => Failure::internal(message),
        }
    })?;
    let plan: &ProofPlan = planned.plan();
    let tier = |residence| match residence {
        Residence::Resident => "resident",
        Residence::Streamed => "streamed",
        Residence::Transient => "transient",
    };
    let pieces = plan.pieces().iter().filter(|piece| piece.bytes > 0);
    let pieces = pieces
        .map(|piece| json!({ "name": piece.name, "bytes": piece.bytes, "tier": tier(piece.residence) }));
    Ok(json!({
        "memory": memory,
        "multiprocessors": verb.multiprocessors,
        "bytes": plan.num_bytes(),
        "resident_bytes": plan.resident_bytes(),
        "streamed_bytes": plan.streamed_bytes(),
        "pieces": pieces.collect::<Vec<_>>(),
    }))
}

/// The same document for people.
fn text(document: &Value) -> String {
    let mut out = String::new();
    let mut line = |name: &str, bytes: &Value, what: &str| {
        // Writing to a String cannot fail.
        let bytes = bytes.as_u64().unwrap_or(0);
        let _ = writeln!(out, "{name:<34} {:>10}  {bytes:>14} B  {what}", about_bytes(bytes));
    };
    for part in ["host", "device"] {
        let Some(pieces) = document[part]["pieces"].as_array() else { continue };
        line(part, &document[part]["bytes"], if part == "host" { "in all" } else { "at its peak" });
        for piece in pieces {
            let word = |field: &str| piece[field].as_str().unwrap_or_default();
            line(&format!("  {}", word("name")), &piece["bytes"], word("tier"));
        }
    }
    out
}
