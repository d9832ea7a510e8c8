//! Damaged `.params` and `.vk`.
use super::{Scratch, assert_refused, bad_points, small, with};
use cuzk::{
    algebra::{Curve, G1, G2},
    formats::{Defect, FormatError, bellman, validated::validate_key},
    groth16::ProvingKey,
    r1cs::Circuit,
};
use std::path::Path;

const G1_SIZE: usize = 96;
const G2_SIZE: usize = 192;
/// The verifying key's fixed points.
const HEAD: [(&str, usize); 6] = [
    ("alpha_g1", G1_SIZE),
    ("beta_g1", G1_SIZE),
    ("beta_g2", G2_SIZE),
    ("gamma_g2", G2_SIZE),
    ("delta_g1", G1_SIZE),
    ("delta_g2", G2_SIZE),
];
const HEAD_SIZE: usize = 3 * (G1_SIZE + G2_SIZE);

/// A section with a count: its name, the count's offset, the number of points and the size of one.
type Counted = (&'static str, usize, usize, usize);

fn counted(circuit: &Circuit) -> Vec<Counted> {
    let rows: usize = circuit.num_rows();
    let (a, b) = (circuit.a_density().count(), circuit.b_density().count());
    let lengths = [
        ("ic", circuit.num_inputs(), G1_SIZE),
        ("h", rows.next_power_of_two() - 1, G1_SIZE),
        ("l", circuit.num_aux(), G1_SIZE),
        ("a", a, G1_SIZE),
        ("b_g1", b, G1_SIZE),
        ("b_g2", b, G2_SIZE),
    ];
    let mut offset = HEAD_SIZE;
    let mut sections = Vec::new();
    for (name, len, size) in lengths {
        sections.push((name, offset, len, size));
        offset += 4 + len * size;
    }
    sections
}

struct Params {
    circuit: Circuit,
    bytes: Vec<u8>,
    scratch: Scratch,
}

impl Params {
    fn new() -> Self {
        let (circuit, key) = small();
        let scratch = Scratch::new("small.params");
        bellman::write_params(&key, &scratch.path).unwrap();
        let bytes = std::fs::read(&scratch.path).unwrap();
        Self { circuit, bytes, scratch }
    }

    /// Structure, then every point.
    fn open(&self, path: &Path) -> Result<ProvingKey, FormatError> {
        let key = bellman::open_params(path, &self.circuit)?;
        validate_key(&key, None, &|_, _| {})?;
        Ok(key)
    }
}

#[test]
fn what_was_written_is_read() {
    let params = Params::new();
    let (name, offset, len, size) = *counted(&params.circuit).last().unwrap();
    assert_eq!((name, offset + 4 + len * size), ("b_g2", params.bytes.len()));
    let key = params.open(params.scratch.holding(&params.bytes)).unwrap();
    key.check_circuit(&params.circuit).unwrap();
    assert_eq!(key.id, *blake3::hash(&params.bytes).as_bytes());
    let again = Scratch::new("again.params");
    bellman::write_params(&key, &again.path).unwrap();
    assert!(std::fs::read(&again.path).unwrap() == params.bytes);
    assert!(bellman::write_vk(&key.vk).unwrap()[..] == params.bytes[..HEAD_SIZE + 4 + 3 * G1_SIZE]);
    // A transcript after the key, as in Zcash's files, is nobody's business.
    let with_tail = [&params.bytes[..], b"transcript"].concat();
    params.open(params.scratch.holding(&with_tail)).unwrap();
}

#[test]
fn every_cut() {
    let params = Params::new();
    // Every read in order: section, offset, bytes.
    let mut reads = Vec::new();
    let mut offset = 0;
    for (name, size) in HEAD {
        reads.push((name, offset, size));
        offset += size;
    }
    for (name, offset, len, size) in counted(&params.circuit) {
        reads.extend([(name, offset, 4), (name, offset + 4, len * size)]);
    }
    for cut in 0..params.bytes.len() {
        let path = params.scratch.holding(&params.bytes[..cut]);
        let (name, offset, wanted) = *reads.iter().find(|(_, offset, size)| cut < offset + size).unwrap();
        let defect = Defect::Truncated { found: (cut - offset) as u64, wanted: wanted as u64 };
        let result = bellman::open_params(path, &params.circuit);
        assert_refused(&format!("cut at {cut}"), result, name, offset, defect.clone());
        if name == "ic" || HEAD.iter().any(|h| h.0 == name) {
            assert_refused(&format!("vk cut at {cut}"), bellman::open_vk(path), name, offset, defect);
        }
    }
}

#[test]
fn counts_that_are_not_the_circuits() {
    let params = Params::new();
    for (name, offset, len, _) in counted(&params.circuit) {
        for found in [0, len as u32 - 1, len as u32 + 1, u32::MAX] {
            let damaged = with(&params.bytes, offset, &found.to_be_bytes());
            let result = params.open(params.scratch.holding(&damaged));
            let defect =
                Defect::Count { what: "the number of points", found: found.into(), wanted: len as u64 };
            assert_refused(&format!("{name}: count {found}"), result, name, offset, defect);
        }
    }
}

#[test]
fn verifying_key_counts() {
    let params = Params::new();
    let damaged = with(&params.bytes, HEAD_SIZE, &u32::MAX.to_be_bytes());
    let left = (damaged.len() - HEAD_SIZE - 4) as u64;
    let defect = Defect::Truncated { found: left, wanted: u64::from(u32::MAX) * G1_SIZE as u64 };
    assert_refused("huge ic", bellman::read_vk(&damaged), "ic", HEAD_SIZE + 4, defect);
    let damaged = with(&params.bytes, HEAD_SIZE, &[0; 4]);
    let defect = Defect::Count { what: "the number of points", found: 0, wanted: 1 };
    assert_refused("empty ic", bellman::read_vk(&damaged), "ic", HEAD_SIZE, defect);
}

#[test]
fn bad_points_everywhere() {
    let params = Params::new();
    let mut places = Vec::new();
    let mut offset = 0;
    for (name, size) in HEAD {
        places.push((name, offset, 0, size));
        offset += size;
    }
    for (name, offset, len, size) in counted(&params.circuit) {
        places.extend([(name, offset + 4, 0, size), (name, offset + 4 + (len - 1) * size, len - 1, size)]);
    }
    for (name, offset, index, size) in places {
        let good = &params.bytes[offset..offset + size];
        let (group, bad) = match size {
            G1_SIZE => (G1::NAME, bad_points::<G1>(good)),
            _ => (G2::NAME, bad_points::<G2>(good)),
        };
        for (damage, bytes, error) in bad {
            let damaged = with(&params.bytes, offset, &bytes);
            let result = params.open(params.scratch.holding(&damaged));
            let defect = Defect::Point { group, index: index as u64, error };
            assert_refused(&format!("{name} point {index} {damage}"), result, name, offset, defect);
        }
    }
}

#[test]
fn a_key_of_another_circuit_or_form_is_not_taken() {
    let params = Params::new();
    let error = bellman::open_params(Path::new("/nonexistent/key.params"), &params.circuit).err().unwrap();
    assert!(matches!(&error, FormatError::Io { path, .. } if path.ends_with("key.params")), "{error}");
    let path = params.scratch.holding(&[]);
    let error = bellman::open_params(path, &params.circuit).err().unwrap();
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");

    let (mut vk, scratch) = (small().1.vk, Scratch::new("of-zkey.params"));
    vk.delta_g1 = None;
    assert_refused("no delta_g1", bellman::write_vk(&vk), "delta_g1", 0, Defect::Missing);
    let zkey = crate::support::fixture("circom/merkle.zkey");
    let (key, _) = cuzk::formats::zkey::open(&zkey).unwrap();
    let defect =
        Defect::Value { what: "the basis of h", found: "CosetLagrange".into(), wanted: "Monomial".into() };
    assert_refused("a zkey's h", bellman::write_params(&key, &scratch.path), "h", 0, defect);
    assert!(!scratch.path.exists());
}
