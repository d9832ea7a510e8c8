//! Real files and packets, changed a little in many ways, through the same checks as the fuzz targets. The
//! changes are the same in every run, and bounded.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]
#[path = "../../fuzz/checks.rs"]
mod checks;
#[path = "../../fuzz/samples.rs"]
mod samples;

use std::{fs, path::Path};

/// Places at which a sample is changed and cut.
const PLACES: usize = 150;

/// Runs a check on `bytes`, which it must accept, and on many changed forms of them.
fn damage(bytes: &[u8], check: impl Fn(&[u8]) -> bool) {
    assert!(check(bytes), "the sample is accepted as it is");
    assert!(!check(&[]), "nothing is nothing");
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

#[test]
fn packets() {
    samples::requests().iter().for_each(|bytes| damage(bytes, checks::request));
    samples::replies().iter().for_each(|bytes| damage(bytes, checks::reply));
}

#[test]
fn bellmans_files() {
    damage(&samples::params(), checks::params);
    damage(&samples::vk(), checks::vk);
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
    assert!(checks::zkey(&zkey));
    for at in (0..600).step_by(4) {
        let mut changed = zkey.clone();
        changed[at..at + 4].fill(0xff);
        checks::zkey(&changed);
        assert!(!checks::zkey(&zkey[..at * zkey.len() / 600]));
    }
}

#[test]
fn compiled_circuits() {
    samples::cuzk().iter().for_each(|bytes| damage(bytes, checks::cuzk));
}

#[test]
fn packed_witnesses() {
    damage(&samples::packed(), checks::packed);
}
