//! Real files and packets, changed a little in many ways, through the same checks as the fuzz targets. The
//! changes are the same in every run, and bounded.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]
#[path = "../../fuzz/checks.rs"]
mod checks;

use cuzk::{
    algebra::{Canonical, Fr},
    formats::bellman::write_params,
    groth16::setup::insecure_setup,
    proto::{
        ContentId, ErrorCode, Hello, IdempotencyKey, Priority, ProtocolError, Reply, ReplyBody, Request,
        RequestBody, Submit, WitnessSource,
    },
    r1cs::{WitnessEncoding, file},
};
use std::{fs, path::Path};

/// Places at which a sample is changed and cut.
const PLACES: usize = 150;

/// Runs a check on `bytes` as they are and in many changed forms.
fn damage(bytes: &[u8], check: impl Fn(&[u8])) {
    check(bytes);
    check(&[]);
    // Headers and tables lie at the start: every place there, and places all over the rest.
    let step = (bytes.len() / PLACES).max(1);
    let places = (0..bytes.len().min(PLACES)).chain((0..bytes.len()).step_by(step));
    for at in places {
        check(&bytes[..at]);
        let mut changed = bytes.to_vec();
        for bit in [0, 3, 7] {
            changed[at] ^= 1 << bit;
            check(&changed);
            changed[at] ^= 1 << bit;
        }
        for (length, fill) in [(4, 0xff), (8, 0xff), (8, 0), (32, 0xff)] {
            let end = bytes.len().min(at + length);
            changed[at..end].fill(fill);
            check(&changed);
            changed[at..end].copy_from_slice(&bytes[at..end]);
        }
    }
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/circom").join(name)).unwrap()
}

/// What `write` puts into a file.
fn written(write: impl FnOnce(&Path)) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    write(&path);
    fs::read(path).unwrap()
}

#[test]
fn packets() {
    let submit = Submit {
        key: IdempotencyKey::new(b"key").unwrap(),
        circuit: "spend".into(),
        circuit_id: Some(ContentId([3; 32])),
        partition: 1,
        partitions: 2,
        priority: Priority::High,
        encoding: WitnessEncoding::Packed,
        witness: WitnessSource::Memfd { offset: 4096 },
        length: 64,
    };
    for body in [
        RequestBody::Hello(Hello { version: 1, client: "test".into() }),
        RequestBody::Submit(submit),
        RequestBody::Find(IdempotencyKey::new(b"key").unwrap()),
        RequestBody::Status,
        RequestBody::Abandon(3),
    ] {
        damage(&Request { id: 7, body }.encode(), checks::request);
    }
    for body in [
        ReplyBody::Error(ProtocolError::new(ErrorCode::Busy, "later")),
        ReplyBody::Circuits(Vec::new()),
        ReplyBody::Released,
        ReplyBody::Abandoned,
    ] {
        damage(&Reply { id: 7, body }.encode(), checks::reply);
    }
}

#[test]
fn bellmans_files() {
    let key = insecure_setup(&checks::square(), [7; 32]).unwrap();
    damage(&written(|path| write_params(&key, path).unwrap()), checks::params);
    damage(&cuzk::formats::bellman::write_vk(&key.vk).unwrap(), checks::vk);
}

#[test]
fn iden3s_files() {
    damage(&fixture("merkle.r1cs"), checks::r1cs);
    damage(&fixture("merkle.wtns"), checks::wtns);
}

#[test]
fn snarkjs_files() {
    for name in ["merkle.proof.json", "merkle.verification_key.json", "merkle.public.json"] {
        damage(&fixture(name), checks::json);
    }
    // Valid keys are checked point by point: fewer forms of it.
    let zkey = fixture("merkle.zkey");
    for at in (0..600).step_by(4) {
        let mut changed = zkey.clone();
        changed[at..at + 4].fill(0xff);
        checks::zkey(&changed);
        checks::zkey(&zkey[..at * zkey.len() / 600]);
    }
}

#[test]
fn compiled_circuits() {
    damage(&written(|path| file::write(&checks::square(), path).unwrap()), checks::cuzk);
}

#[test]
fn packed_witnesses() {
    let (inputs, aux) = checks::PACKED;
    let value = |i: usize| match i % 7 {
        0 => Fr::from_u64(1).to_canonical(),
        1 | 2 => Canonical::ZERO,
        3 => Fr::from_u64(i as u64).to_canonical(),
        _ => (Fr::from_u64(i as u64 + 3) * Fr::from_u64(u64::MAX) * Fr::from_u64(u64::MAX)).to_canonical(),
    };
    let z: Vec<_> = (0..inputs + aux).map(value).collect();
    damage(&checks::circuits::packed(&z, inputs), checks::packed);
}
