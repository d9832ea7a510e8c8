//! The files that verbs read and write: proofs, public inputs and verifying keys in either encoding.
//!
//! A job of several partitions has one file, too: its proofs' bytes one after the other, or a JSON
//! array of what a single proof's file holds.
use super::Failure;
use crate::{
    algebra::Canonical,
    files::{open_regular, place},
    formats::{self, FormatError, files::write_whole, snarkjs_json},
    groth16::{Proof, VerifyingKey},
};
use serde_json::Value;
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// The largest proof or public-input file that is read, in bytes.
const MAX_FILE: u64 = 256 << 20;
/// Bytes of a proof in the compressed encoding.
const PROOF_BYTES: usize = 192;

/// Refuses outputs that are one file, or that are an input: one would destroy the other. A device or a
/// FIFO may be named twice.
pub fn check_outputs<'a>(
    outputs: impl IntoIterator<Item = &'a PathBuf>,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<(), Failure> {
    // What has no place fails by its own name when it is opened.
    let regular = |path: &&PathBuf| path.metadata().map_or(true, |found| found.is_file());
    let mut taken: Vec<_> = inputs.into_iter().filter_map(|path| Some((place(path).ok()?, path))).collect();
    for path in outputs.into_iter().filter(regular) {
        let Ok(output) = place(path) else { continue };
        if let Some((_, other)) = taken.iter().find(|(place, _)| *place == output) {
            let (path, other) = (path.display(), other.display());
            return Err(Failure::usage(format_args!("{path}: the output would replace {other}")));
        }
        taken.push((output, path));
    }
    Ok(())
}

/// Reads a whole small file.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Failure::at(path))?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(Failure::at(path))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Failure::at(path)(format_args!("more than {MAX_FILE} bytes")));
    }
    Ok(bytes)
}

fn text(path: &Path) -> Result<String, Failure> {
    String::from_utf8(read(path)?).map_err(Failure::at(path))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_whole(path, |out| out.write_all(bytes).map_err(FormatError::io(path)))?;
    Ok(())
}

/// Whether a file is to be written as JSON, by its name.
fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"))
}

/// Writes one proof or several: snarkjs JSON to `*.json`, else 192 compressed bytes each.
pub fn write_proofs(path: &Path, proofs: &[Proof]) -> Result<(), Failure> {
    if is_json(path) {
        let each: Vec<String> = proofs.iter().map(snarkjs_json::proof_to_json).collect();
        write(path, one_or_array(&each).as_bytes())
    } else {
        let bytes: Vec<u8> = proofs.iter().flat_map(|proof| proof.to_bytes()).collect();
        write(path, &bytes)
    }
}

/// Reads one proof or several in either encoding, told apart by the first byte (no compressed point
/// begins like JSON).
pub fn read_proofs(path: &Path) -> Result<Vec<Proof>, Failure> {
    let bytes = read(path)?;
    if bytes.first().is_some_and(|b| b & 0x80 == 0) {
        let text = String::from_utf8(bytes).map_err(Failure::at(path))?;
        return match array(&text) {
            Some(each) => each.iter().map(|v| snarkjs_json::proof_from_json(&v.to_string())).collect(),
            None => snarkjs_json::proof_from_json(&text).map(|proof| vec![proof]),
        }
        .map_err(Failure::at(path));
    }
    let (proofs, rest) = bytes.as_chunks::<PROOF_BYTES>();
    if proofs.is_empty() || !rest.is_empty() {
        let found = bytes.len();
        return Err(Failure::at(path)(format_args!("{found} bytes, wanted {PROOF_BYTES} for each proof")));
    }
    let read =
        |(i, bytes)| Proof::from_bytes(bytes).map_err(|e| Failure::at(path)(format_args!("proof {i}: {e}")));
    proofs.iter().enumerate().map(read).collect()
}

/// Writes the public inputs (without ONE) of one proof or of several, as snarkjs JSON.
pub fn write_publics(path: &Path, publics: &[Vec<Canonical>]) -> Result<(), Failure> {
    let each: Vec<String> = publics.iter().map(|inputs| snarkjs_json::public_to_json(inputs)).collect();
    write(path, one_or_array(&each).as_bytes())
}

/// Reads the public inputs (without ONE) of one proof or of several.
pub fn read_publics(path: &Path) -> Result<Vec<Vec<Canonical>>, Failure> {
    let text = text(path)?;
    match array(&text) {
        Some(each) if each.first().is_some_and(Value::is_array) => {
            each.iter().map(|v| snarkjs_json::public_from_json(&v.to_string())).collect()
        }
        _ => snarkjs_json::public_from_json(&text).map(|inputs| vec![inputs]),
    }
    .map_err(Failure::at(path))
}

/// The elements of a JSON array, or None where the text is anything else.
fn array(text: &str) -> Option<Vec<Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Array(values)) => Some(values),
        _ => None,
    }
}

fn one_or_array(each: &[String]) -> String {
    match each {
        [one] => format!("{}\n", one.trim_end()),
        _ => format!("[\n{}\n]\n", each.iter().map(|e| e.trim_end()).collect::<Vec<_>>().join(",\n")),
    }
}

/// Reads a verifying key: snarkjs JSON, bellman's `.vk`, or what stands in a `.params` or `.zkey`.
pub fn read_vk(path: &Path) -> Result<VerifyingKey, Failure> {
    let mut start = Vec::new();
    open_regular(path).and_then(|f| f.take(4).read_to_end(&mut start)).map_err(Failure::at(path))?;
    match &start[..] {
        b"zkey" => Ok(formats::zkey::open_vk(path)?),
        // bellman's encoding begins with a coordinate, whose first byte is at most 0x1a, or with flags.
        [first, ..] if is_json(path) || matches!(first, b'{' | b' ') => {
            snarkjs_json::vk_from_json(&text(path)?).map_err(Failure::at(path))
        }
        _ => Ok(formats::bellman::open_vk(path)?),
    }
}

/// Writes a verifying key: snarkjs JSON to `*.json`, else bellman's encoding.
pub fn write_vk(path: &Path, vk: &VerifyingKey) -> Result<(), Failure> {
    if is_json(path) {
        write(path, snarkjs_json::vk_to_json(vk).as_bytes())
    } else {
        write(path, &formats::bellman::write_vk(vk).map_err(Failure::at(path))?)
    }
}
