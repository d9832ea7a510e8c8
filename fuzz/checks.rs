//! What must hold for any bytes that come from a peer or a file: no panic, no memory in proportion to
//! a length that is only claimed, and whatever is accepted means the same after it has been written again.
//!
//! One function per kind of input; each says whether the bytes were accepted. The fuzz targets call them with
//! what libFuzzer makes up, the test `damage` with real inputs that were changed a little.
#[path = "../tests/support/circuits.rs"]
pub mod circuits;

use cuzk::{
    algebra::{CancelToken, Canonical, Fr},
    formats::{bellman, iden3_r1cs, iden3_wtns, snarkjs_json, validated::validate_key, zkey},
    proto::{Reply, Request},
    r1cs::{Circuit, CircuitBuilder, WitnessEncoding, decode_into, file},
};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    thread,
};

/// Public inputs, ONE included, and auxiliary variables of the packed witnesses.
pub const PACKED: (usize, usize) = (3, 1300);

/// A path to an open file.
fn path_of(file: &impl AsRawFd) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}

/// Bytes as a file, for readers that map one.
struct Memory(File);

impl Memory {
    fn new(bytes: &[u8]) -> Self {
        let mut file = File::from(memfd_create("fuzz", MFdFlags::MFD_CLOEXEC).expect("a memfd is to be had"));
        file.write_all(bytes).expect("it takes the bytes");
        Self(file)
    }

    fn path(&self) -> PathBuf {
        path_of(&self.0)
    }
}

/// What `write` writes to the path that it gets, a pipe's.
pub fn written(write: impl FnOnce(&Path)) -> Vec<u8> {
    let (mut reader, writer) = io::pipe().expect("a pipe is to be had");
    thread::scope(|scope| {
        let bytes = scope.spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map(|_| bytes)
        });
        write(&path_of(&writer));
        drop(writer);
        bytes.join().expect("reading does not panic").expect("a pipe is readable")
    })
}

/// The circuit of the `.params` samples: x·x = y, y public.
pub fn square() -> Circuit {
    let mut builder = CircuitBuilder::new(2, 1);
    let [y, x] = [[(1, Fr::ONE)], [(2, Fr::ONE)]];
    builder.constraint(&x, &x, &y).expect("the variables are there");
    builder.finish().expect("the circuit is whole")
}

/// A request's packet.
pub fn request(bytes: &[u8]) -> bool {
    let Ok(request) = Request::decode(bytes) else { return false };
    assert_eq!(Request::decode(&request.encode()).as_ref(), Ok(&request));
    true
}

/// A reply's packet.
pub fn reply(bytes: &[u8]) -> bool {
    let Ok(reply) = Reply::decode(bytes) else { return false };
    assert_eq!(Reply::decode(&reply.encode()).as_ref(), Ok(&reply));
    true
}

/// bellman's parameters.
pub fn params(bytes: &[u8]) -> bool {
    let (file, circuit) = (Memory::new(bytes), square());
    let Ok(key) = bellman::open_params(&file.path(), &circuit) else { return false };
    key.check_shape(&circuit).expect("the reader held it against the circuit");
    if validate_key(&key, None, &|_, _| ()).is_err() {
        return false;
    }
    let again = written(|path| bellman::write_params(&key, path).expect("what was read is written"));
    assert!(bytes.starts_with(&again), "what follows the key is not read, the key is the same");
    true
}

/// bellman's verifying key.
pub fn vk(bytes: &[u8]) -> bool {
    let Ok(vk) = bellman::read_vk(bytes) else { return false };
    let again = bellman::write_vk(&vk).expect("what was read is written");
    assert!(bytes.starts_with(&again), "what follows the key is not read, the key is the same");
    true
}

/// snarkjs' key.
pub fn zkey(bytes: &[u8]) -> bool {
    let file = Memory::new(bytes);
    let vk = zkey::open_vk(&file.path());
    let Ok((key, circuit)) = zkey::open(&file.path()) else { return false };
    assert_eq!(vk.expect("it is part of the key"), key.vk);
    key.check_shape(&circuit).expect("key and circuit come from one file");
    compiled(&circuit);
    validate_key(&key, None, &|_, _| ()).is_ok()
}

/// iden3's circuit.
pub fn r1cs(bytes: &[u8]) -> bool {
    let Ok(circuit) = iden3_r1cs::parse(bytes) else { return false };
    compiled(&circuit);
    true
}

/// iden3's witness.
pub fn wtns(bytes: &[u8]) -> bool {
    let file = Memory::new(bytes);
    let Ok(z) = iden3_wtns::read(&file.path()) else { return false };
    assert_eq!(z.first(), Some(&Canonical::ONE));
    let again = Memory::new(&written(|path| iden3_wtns::write(&z, path).expect("what was read is written")));
    assert_eq!(iden3_wtns::read(&again.path()).expect("what was written is read"), z);
    true
}

/// A compiled circuit.
pub fn cuzk(bytes: &[u8]) -> bool {
    let file = Memory::new(bytes);
    let Ok(circuit) = file::open(&file.path()) else { return false };
    assert_eq!(compiled(&circuit), bytes, "equal circuits are equal files");
    true
}

/// The bytes of a circuit's compiled file, which holds the same circuit; both evaluate.
fn compiled(circuit: &Circuit) -> Vec<u8> {
    let bytes = written(|path| file::write(circuit, path).expect("a circuit is written"));
    let file = Memory::new(&bytes);
    let opened = file::open(&file.path()).expect("what was written is read");
    assert_eq!(opened.id(), circuit.id());
    // A variable that no row mentions takes no byte of the file, but 32 of z.
    if circuit.num_variables() <= 1 << 20 {
        let z = vec![Canonical::ONE; circuit.num_variables()];
        let cancel = CancelToken::new();
        assert_eq!(opened.first_unsatisfied(&z, &cancel), circuit.first_unsatisfied(&z, &cancel));
    }
    bytes
}

/// A packed witness of `PACKED` variables.
pub fn packed(bytes: &[u8]) -> bool {
    let (inputs, aux) = PACKED;
    let mut z = vec![Canonical::ZERO; inputs + aux];
    if decode_into(WitnessEncoding::Packed, &bytes, inputs, &mut z).is_err() {
        return false;
    }
    let again = circuits::packed(&z, inputs);
    let mut decoded = vec![Canonical::ZERO; z.len()];
    decode_into(WitnessEncoding::Packed, &&again[..], inputs, &mut decoded).expect("packed here");
    assert_eq!(decoded, z);
    true
}

/// snarkjs' proofs, verifying keys and public inputs.
pub fn json(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let proof = snarkjs_json::proof_from_json(text);
    if let Ok(proof) = &proof {
        let again = snarkjs_json::proof_from_json(&snarkjs_json::proof_to_json(proof));
        assert_eq!(&again.expect("what was written is read"), proof);
    }
    let vk = snarkjs_json::vk_from_json(text);
    if let Ok(vk) = &vk {
        let again = snarkjs_json::vk_from_json(&snarkjs_json::vk_to_json(vk));
        assert_eq!(&again.expect("what was written is read"), vk);
    }
    let public = snarkjs_json::public_from_json(text);
    if let Ok(public) = &public {
        let again = snarkjs_json::public_from_json(&snarkjs_json::public_to_json(public));
        assert_eq!(&again.expect("what was written is read"), public);
    }
    proof.is_ok() || vk.is_ok() || public.is_ok()
}
