//! What must hold for any bytes that come from a peer or a file: no panic, no memory in proportion to
//! a length that is only claimed, and whatever is accepted means the same after it has been written again.
//!
//! One function per kind of input. The fuzz targets call them with what libFuzzer makes up, the test
//! `damage` with real files that were changed a little.
#[path = "../tests/support/circuits.rs"]
pub mod circuits;

use cuzk::{
    algebra::{Canonical, Fr},
    formats::{bellman, iden3_r1cs, iden3_wtns, snarkjs_json, validated::validate_key, zkey},
    proto::{Reply, Request},
    r1cs::{Circuit, CircuitBuilder, WitnessEncoding, decode_into, file},
};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::{
    fs::File,
    io::Write,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

/// Public inputs, ONE included, and auxiliary variables of the packed witnesses.
pub const PACKED: (usize, usize) = (3, 1300);

/// Bytes as a file, for readers that map one.
struct Memory(File);

impl Memory {
    fn new(bytes: &[u8]) -> Self {
        let mut file = File::from(memfd_create("fuzz", MFdFlags::MFD_CLOEXEC).expect("a memfd is to be had"));
        file.write_all(bytes).expect("it takes the bytes");
        Self(file)
    }

    fn path(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.0.as_raw_fd().to_string())
    }
}

/// The circuit of the `.params` in the corpus: x·x = y, y public.
pub fn square() -> Circuit {
    let mut builder = CircuitBuilder::new(2, 1);
    let [y, x] = [[(1, Fr::ONE)], [(2, Fr::ONE)]];
    builder.constraint(&x, &x, &y).expect("the variables are there");
    builder.finish().expect("the circuit is whole")
}

/// A request's packet.
pub fn request(bytes: &[u8]) {
    if let Ok(request) = Request::decode(bytes) {
        assert_eq!(Request::decode(&request.encode()).as_ref(), Ok(&request));
    }
}

/// A reply's packet.
pub fn reply(bytes: &[u8]) {
    if let Ok(reply) = Reply::decode(bytes) {
        assert_eq!(Reply::decode(&reply.encode()).as_ref(), Ok(&reply));
    }
}

/// bellman's parameters.
pub fn params(bytes: &[u8]) {
    let (file, circuit) = (Memory::new(bytes), square());
    let Ok(key) = bellman::open_params(&file.path(), &circuit) else { return };
    key.check_shape(&circuit).expect("the reader held it against the circuit");
    let _ = validate_key(&key, None, &|_, _| ());
}

/// bellman's verifying key.
pub fn vk(bytes: &[u8]) {
    if let Ok(vk) = bellman::read_vk(bytes) {
        let written = bellman::write_vk(&vk).expect("what was read is written");
        assert_eq!(bellman::read_vk(&written).expect("what was written is read"), vk);
    }
}

/// snarkjs' key.
pub fn zkey(bytes: &[u8]) {
    let file = Memory::new(bytes);
    let _ = zkey::open_vk(&file.path());
    if let Ok((key, circuit)) = zkey::open(&file.path()) {
        key.check_shape(&circuit).expect("key and circuit come from one file");
        let _ = validate_key(&key, None, &|_, _| ());
    }
}

/// iden3's circuit.
pub fn r1cs(bytes: &[u8]) {
    if let Ok(circuit) = iden3_r1cs::parse(bytes) {
        let z = vec![Canonical::ONE; circuit.num_variables()];
        circuit.first_unsatisfied(&z);
    }
}

/// iden3's witness.
pub fn wtns(bytes: &[u8]) {
    let file = Memory::new(bytes);
    if let Ok(values) = iden3_wtns::read(&file.path()) {
        assert_eq!(values.first(), Some(&Canonical::ONE));
    }
}

/// A compiled circuit.
pub fn cuzk(bytes: &[u8]) {
    let file = Memory::new(bytes);
    if let Ok(circuit) = file::open(&file.path()) {
        let z = vec![Canonical::ONE; circuit.num_variables()];
        circuit.first_unsatisfied(&z);
    }
}

/// A packed witness of `PACKED` variables.
pub fn packed(bytes: &[u8]) {
    let (inputs, aux) = PACKED;
    let mut z = vec![Canonical::ZERO; inputs + aux];
    if decode_into(WitnessEncoding::Packed, &bytes, inputs, &mut z).is_ok() {
        let written = circuits::packed(&z, inputs);
        let mut again = vec![Canonical::ZERO; z.len()];
        decode_into(WitnessEncoding::Packed, &&written[..], inputs, &mut again).expect("packed here");
        assert_eq!(again, z);
    }
}

/// snarkjs' proofs, verifying keys and public inputs.
pub fn json(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(proof) = snarkjs_json::proof_from_json(text) {
        let again = snarkjs_json::proof_from_json(&snarkjs_json::proof_to_json(&proof));
        assert_eq!(again.expect("what was written is read"), proof);
    }
    if let Ok(vk) = snarkjs_json::vk_from_json(text) {
        let again = snarkjs_json::vk_from_json(&snarkjs_json::vk_to_json(&vk));
        assert_eq!(again.expect("what was written is read"), vk);
    }
    if let Ok(public) = snarkjs_json::public_from_json(text) {
        let again = snarkjs_json::public_from_json(&snarkjs_json::public_to_json(&public));
        assert_eq!(again.expect("what was written is read"), public);
    }
}
