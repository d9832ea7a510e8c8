//! Damaged `.zkey`s.
use super::{Scratch, assert_refused, bad_points, small, with};
use cuzk::{
    algebra::{Curve, Fr, G1, G1Affine, G2, G2Affine, PointError},
    formats::{Defect, FormatError, validated::validate_key, zkey},
    groth16::ProvingKey,
    r1cs::{Circuit, Matrix},
};
use std::path::Path;

const HEADER: &str = "section 2 (Groth16 header)";
const COEFFICIENTS: &str = "section 4 (coefficients)";
const NAMES: [&str; 9] = [
    "section 1 (protocol)",
    HEADER,
    "section 3 (IC)",
    COEFFICIENTS,
    "section 5 (A)",
    "section 6 (B1)",
    "section 7 (B2)",
    "section 8 (C)",
    "section 9 (H)",
];
/// Offsets in the header section.
const VARIABLES: usize = 4 + 48 + 4 + 32;
const POINTS: usize = VARIABLES + 12;

fn le<C: Curve>(point: &C::Affine) -> Vec<u8> {
    let mut out = vec![0; C::UNCOMPRESSED];
    C::to_montgomery_le(point, &mut out);
    out
}

fn record(matrix: u32, row: usize, variable: u32, value: Fr) -> Vec<u8> {
    let r = Fr::from_wide_le_bytes(&{
        let mut bytes = [0; 64];
        bytes[32] = 1;
        bytes
    });
    // The Montgomery form of v·R is v·R².
    let limbs = (value * r).montgomery_limbs();
    let head = [matrix, row as u32, variable].map(u32::to_le_bytes);
    head.into_iter().flatten().chain(limbs.into_iter().flat_map(u64::to_le_bytes)).collect()
}

fn records(circuit: &Circuit) -> Vec<Vec<u8>> {
    let of = |matrix: &Matrix, which: u32| -> Vec<Vec<u8>> {
        let rows = (0..matrix.rows()).flat_map(|row| matrix.row(row).map(move |(i, c)| (row, i, c)));
        rows.map(|(row, i, c)| record(which, row, i, circuit.coefficients()[c as usize])).collect()
    };
    [of(circuit.a(), 0), of(circuit.b(), 1)].concat()
}

fn section4(records: &[Vec<u8>]) -> Vec<u8> {
    [&(records.len() as u32).to_le_bytes()[..], &records.concat()].concat()
}

/// The sections of a zkey of the small circuit. Its long queries are copies of the generators and of
/// infinity: this is about the file.
fn sections(circuit: &Circuit, key: &ProvingKey) -> Vec<(u32, Vec<u8>)> {
    let vk = &key.vk;
    let (g1, g2) = (G1::generator(), G2::generator());
    let numbers = [circuit.num_variables() as u32, circuit.num_inputs() as u32 - 1, 8];
    let r = [0xffff_ffff_0000_0001u64, 0x53bd_a402_fffe_5bfe, 0x3339_d808_09a1_d805, 0x73ed_a753_299d_7d48];
    let header = [
        48u32.to_le_bytes().to_vec(),
        q().to_vec(),
        32u32.to_le_bytes().to_vec(),
        r.into_iter().flat_map(u64::to_le_bytes).collect(),
        numbers.into_iter().flat_map(u32::to_le_bytes).collect(),
        le::<G1>(&vk.alpha_g1),
        le::<G1>(&key.beta_g1),
        le::<G2>(&vk.beta_g2),
        le::<G2>(&vk.gamma_g2),
        le::<G1>(&key.delta_g1),
        le::<G2>(&vk.delta_g2),
    ]
    .concat();
    let n = circuit.num_variables();
    let g1s = |len: usize| le::<G1>(&g1).repeat(len);
    let with_infinity = |size: usize, rest: Vec<u8>| [vec![0; size], rest].concat();
    vec![
        (1, 1u32.to_le_bytes().to_vec()),
        (2, header),
        (3, vk.ic.iter().flat_map(|p: &G1Affine| le::<G1>(p)).collect()),
        (4, section4(&records(circuit))),
        (5, with_infinity(96, g1s(n - 1))),
        (6, with_infinity(96, g1s(n - 1))),
        (7, with_infinity(192, le::<G2>(&g2).repeat(n - 1))),
        (8, with_infinity(96, g1s(circuit.num_aux() - 1))),
        (9, g1s(8)),
        (10, b"contributions".to_vec()),
    ]
}

/// q, from the negative of 1 in a point's coordinates: y of −G is q − y of G.
fn q() -> [u8; 48] {
    let g = G1::generator();
    let (y, minus_y) = (G1::coordinates_be(&g)[1], G1::coordinates_be(&G1::neg(&g))[1]);
    let mut out = [0; 48];
    let mut carry = 0;
    for (i, (a, b)) in y.iter().zip(&minus_y).rev().enumerate() {
        carry += u32::from(*a) + u32::from(*b);
        out[i] = carry as u8;
        carry >>= 8;
    }
    out
}

fn file(sections: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = b"zkey\x01\0\0\0".to_vec();
    out.extend((sections.len() as u32).to_le_bytes());
    for (kind, bytes) in sections {
        out.extend(kind.to_le_bytes());
        out.extend((bytes.len() as u64).to_le_bytes());
        out.extend(bytes);
    }
    out
}

/// Where the section's bytes begin.
fn start(sections: &[(u32, Vec<u8>)], kind: u32) -> usize {
    let before = sections.iter().take_while(|s| s.0 != kind);
    12 + before.map(|s| 12 + s.1.len()).sum::<usize>() + 12
}

struct Zkey {
    circuit: Circuit,
    sections: Vec<(u32, Vec<u8>)>,
    scratch: Scratch,
}

impl Zkey {
    fn new() -> Self {
        let (circuit, key) = small();
        let sections = sections(&circuit, &key);
        Self { circuit, sections, scratch: Scratch::new("small.zkey") }
    }

    fn open(&self, path: &Path) -> Result<(ProvingKey, Circuit), FormatError> {
        let (key, circuit) = zkey::open(path)?;
        validate_key(&key, None, &|_, _| {})?;
        Ok((key, circuit))
    }

    /// The refusal of the file with one section replaced.
    #[track_caller]
    fn refuses(&self, damage: &str, kind: u32, new: Vec<u8>, section: &str, within: usize, defect: Defect) {
        let mut sections = self.sections.clone();
        sections.iter_mut().find(|s| s.0 == kind).unwrap().1 = new;
        let offset = start(&self.sections, kind) + within;
        assert_refused(damage, self.open(self.scratch.holding(&file(&sections))), section, offset, defect);
    }

    fn section(&self, kind: u32) -> &[u8] {
        &self.sections.iter().find(|s| s.0 == kind).unwrap().1
    }
}

#[test]
fn sections_in_any_order_make_the_circuit_and_the_key() {
    let zkey = Zkey::new();
    let mut reversed = zkey.sections.clone();
    reversed.reverse();
    for sections in [&zkey.sections, &reversed] {
        let (key, circuit) = zkey.open(zkey.scratch.holding(&file(sections))).unwrap();
        key.check_circuit(&circuit).unwrap();
        assert_eq!(records(&circuit), records(&zkey.circuit));
        assert_eq!(circuit.num_inputs(), zkey.circuit.num_inputs());
        assert_eq!(circuit.num_aux(), zkey.circuit.num_aux());
        assert_eq!(circuit.num_constraints(), zkey.circuit.num_constraints());
        assert!(circuit.c().is_none());
    }
}

#[test]
fn every_cut() {
    let zkey = Zkey::new();
    let bytes = file(&zkey.sections);
    for cut in 0..bytes.len() {
        let error = zkey::open(zkey.scratch.holding(&bytes[..cut])).err().unwrap();
        let (section, offset, defect) = error.place().unwrap();
        let Defect::Truncated { found, wanted } = *defect else { panic!("cut at {cut}: {error}") };
        assert_eq!(section, if cut < 12 { "file header" } else { "section table" }, "cut at {cut}: {error}");
        assert_eq!(offset + found, cut as u64, "{error}");
        assert!(offset + wanted <= bytes.len() as u64, "{error}");
    }
}

#[test]
fn sections_that_are_missing_doubled_short_or_long() {
    let zkey = Zkey::new();
    let end = file(&zkey.sections).len();
    for (name, kind) in NAMES.into_iter().zip(1..) {
        let whole = zkey.section(kind).to_vec();
        let without: Vec<_> = zkey.sections.iter().filter(|s| s.0 != kind).cloned().collect();
        let result = zkey.open(zkey.scratch.holding(&file(&without)));
        assert_refused(&format!("{name} missing"), result, name, end - 12 - whole.len(), Defect::Missing);

        let doubled = [&zkey.sections[..], &[(kind, whole.clone())]].concat();
        let result = zkey.open(zkey.scratch.holding(&file(&doubled)));
        let first = start(&zkey.sections, kind) as u64;
        assert_refused(&format!("{name} doubled"), result, name, end + 12, Defect::Duplicate { first });

        let longer = [&whole[..], &[0]].concat();
        let defect = Defect::Trailing { found: 1 };
        zkey.refuses(&format!("{name} longer"), kind, longer, name, whole.len(), defect);

        let (at, wanted) = match kind {
            1 => (0, 4),
            // The last read is that of delta2.
            2 => (whole.len() - 192, 192),
            4 => (4, whole.len() - 4),
            _ => (0, whole.len()),
        };
        let cut = whole.len().max(at + 1) - 1;
        let defect = Defect::Truncated { found: (cut - at) as u64, wanted: wanted as u64 };
        zkey.refuses(&format!("{name} shorter"), kind, whole[..cut].to_vec(), name, at, defect);
    }
}

#[test]
fn file_header() {
    let zkey = Zkey::new();
    let bytes = file(&zkey.sections);
    let value =
        |what, found: &str, wanted: &str| Defect::Value { what, found: found.into(), wanted: wanted.into() };
    let open = |bytes: Vec<u8>| zkey::open(zkey.scratch.holding(&bytes));
    let defect = value("the file's magic", "wtns", "zkey");
    assert_refused("magic", open(with(&bytes, 0, b"wtns")), "file header", 0, defect);
    let defect = Defect::Count { what: "the format version", found: 2, wanted: 1 };
    assert_refused("version", open(with(&bytes, 4, &[2])), "file header", 4, defect);
    let (section, defect) = ("section table", Defect::Trailing { found: 25 });
    assert_refused("count", open(with(&bytes, 8, &[9])), section, bytes.len() - 25, defect);
    let defect = Defect::Truncated { found: bytes.len() as u64 - 24, wanted: u64::MAX };
    assert_refused("length", open(with(&bytes, 16, &[0xff; 8])), "section table", 24, defect);
}

#[test]
fn protocol_and_header_numbers() {
    let zkey = Zkey::new();
    let count = |what, found, wanted| Defect::Count { what, found, wanted };
    let plonk = 2u32.to_le_bytes().to_vec();
    zkey.refuses("PLONK", 1, plonk, "section 1 (protocol)", 0, count("the protocol", 2, 1));

    let header = zkey.section(2).to_vec();
    let refuses = |damage: &str, at: usize, new: &[u8], defect| {
        zkey.refuses(damage, 2, with(&header, at, new), HEADER, at, defect);
    };
    let size = "a field element's size in bytes";
    refuses("n8q", 0, &[32], count(size, 32, 48));
    refuses("n8r", 52, &[48], count(size, 48, 32));
    // BN254's scalar field.
    let bn254 = "0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001";
    let little: Vec<u8> =
        (0..32).rev().map(|i| u8::from_str_radix(&bn254[2 + 2 * i..4 + 2 * i], 16).unwrap()).collect();
    refuses(
        "r of BN254",
        56,
        &little,
        Defect::Value {
            what: "the scalar field's modulus r",
            found: bn254.into(),
            wanted: "0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001".into(),
        },
    );
    let wanted =
        "0x1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab";
    refuses(
        "another q",
        4,
        &[0xaa],
        Defect::Value {
            what: "the base field's modulus q",
            found: wanted.replace("aaab", "aaaa"),
            wanted: wanted.into(),
        },
    );
    let (variables, what) = (zkey.circuit.num_variables() as u64, "the number of public inputs");
    for found in [variables, u32::MAX.into()] {
        let defect = Defect::Index { what, found, limit: variables };
        zkey.refuses(
            "public inputs",
            2,
            with(&header, VARIABLES + 4, &(found as u32).to_le_bytes()),
            HEADER,
            VARIABLES + 4,
            defect,
        );
    }
    // Larger counts want longer sections.
    let huge = with(&header, VARIABLES, &u32::MAX.to_le_bytes());
    let mut sections = zkey.sections.clone();
    sections[1].1 = huge;
    let result = zkey.open(zkey.scratch.holding(&file(&sections)));
    let wanted = (u64::from(u32::MAX) - 3) * 96;
    let defect = Defect::Truncated { found: 2 * 96, wanted };
    assert_refused("variables", result, "section 8 (C)", start(&zkey.sections, 8), defect);
    sections[1].1 = with(&header, VARIABLES + 8, &u32::MAX.to_le_bytes());
    let result = zkey.open(zkey.scratch.holding(&file(&sections)));
    let defect = Defect::Truncated { found: 8 * 96, wanted: u64::from(u32::MAX) * 96 };
    assert_refused("domain size", result, "section 9 (H)", start(&zkey.sections, 9), defect);
    // A domain that the rows do not have, with as many points.
    for (domain, points) in [(16u32, 16), (7, 7)] {
        let mut sections = zkey.sections.clone();
        sections[1].1 = with(&header, VARIABLES + 8, &domain.to_le_bytes());
        sections[8].1 = le::<G1>(&G1::generator()).repeat(points);
        let result = zkey.open(zkey.scratch.holding(&file(&sections)));
        let defect = count("the domain size", domain.into(), 8);
        assert_refused("domain", result, HEADER, start(&zkey.sections, 2) + VARIABLES + 8, defect);
    }
}

#[test]
fn bad_points_everywhere() {
    let zkey = Zkey::new();
    let (g1, g2) = (G1::UNCOMPRESSED, G2::UNCOMPRESSED);
    let n = zkey.circuit.num_variables();
    // Section, its number, offset of the point, its index, size, whether infinity is in order.
    let mut places: Vec<(&str, u32, usize, usize, usize, bool)> = Vec::new();
    let mut offset = POINTS;
    for size in [g1, g1, g2, g2, g1, g2] {
        places.push((HEADER, 2, offset, 0, size, false));
        offset += size;
    }
    for (kind, len, size, infinity) in [
        (3, 3, g1, false),
        (5, n, g1, true),
        (6, n, g1, true),
        (7, n, g2, true),
        (8, 2, g1, true),
        (9, 8, g1, false),
    ] {
        places.push((NAMES[kind as usize - 1], kind, (len - 1) * size, len - 1, size, infinity));
    }
    for (section, kind, offset, index, size, infinity_allowed) in places {
        let whole = zkey.section(kind);
        let bad = if size == g1 { damaged::<G1>() } else { damaged::<G2>() };
        for (damage, bytes, error) in bad {
            if infinity_allowed && error == PointError::Infinity {
                continue;
            }
            let group = if size == g1 { "G1" } else { "G2" };
            let defect = Defect::Point { group, index: index as u64, error };
            zkey.refuses(
                &format!("{section}: {damage}"),
                kind,
                with(whole, offset, &bytes),
                section,
                offset,
                defect,
            );
        }
    }
}

/// As `bad_points`, in snarkjs' encoding.
fn damaged<C: Curve>() -> Vec<(&'static str, Vec<u8>, PointError)> {
    let mut good = vec![0; C::UNCOMPRESSED];
    C::to_uncompressed(&C::generator(), &mut good);
    let mut out = Vec::new();
    for (damage, bytes, error) in bad_points::<C>(&good) {
        match error {
            PointError::NotInSubgroup => {
                out.push((damage, le::<C>(&C::from_uncompressed(&bytes).unwrap()), error))
            }
            PointError::Infinity => out.push((damage, vec![0; C::UNCOMPRESSED], error)),
            PointError::NotOnCurve if bytes.iter().any(|b| *b != 0) => {
                let mut bytes = le::<C>(&C::generator());
                bytes[48] ^= 1;
                out.push((damage, bytes, error));
            }
            PointError::NotCanonical => {
                let bytes = [&q()[..], &le::<C>(&C::generator())[48..]].concat();
                out.push(("a coordinate q", bytes, error));
            }
            // All zero is infinity here.
            _ => {}
        }
    }
    assert_eq!(out.len(), 4);
    out
}

#[test]
fn coefficients() {
    let zkey = Zkey::new();
    let good = records(&zkey.circuit);
    let refuses = |damage: &str, records: Vec<Vec<u8>>, within: usize, defect| {
        zkey.refuses(damage, 4, section4(&records), COEFFICIENTS, within, defect);
    };
    let changed = |index: usize, at: usize, new: &[u8]| {
        let mut records = good.clone();
        records[index] = with(&records[index], at, new);
        records
    };
    let index = |what, found, limit| Defect::Index { what, found, limit };
    let second = 4 + 44;
    refuses("matrix C", changed(1, 0, &[2]), second, index("the matrix", 2, 2));
    refuses("row", changed(1, 4, &[8]), second + 4, index("the row", 8, 8));
    let n = zkey.circuit.num_variables() as u64;
    refuses("variable", changed(1, 8, &[n as u8]), second + 8, index("the variable", n, n));
    let r = zkey.section(2)[56..88].to_vec();
    let hex = "0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001";
    refuses("value r", changed(1, 12, &r), second + 12, Defect::Scalar { index: 1, found: hex.into() });

    let mut count = zkey.section(4).to_vec();
    count[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let defect = Defect::Truncated { found: count.len() as u64 - 4, wanted: u64::from(u32::MAX) * 44 };
    zkey.refuses("count", 4, count, COEFFICIENTS, 4, defect);
    let (found, wanted) = ("0".to_owned(), "at least 3, one per input".to_owned());
    refuses("no records", vec![], 4, Defect::Value { what: "the number of rows", found, wanted });

    // The input rows are A's rows 2, 3, 4: one doubled, one of another variable, one in B.
    let row = zkey.circuit.num_constraints() as u32 + 1;
    let at = good.iter().position(|r| r[..8] == [0u32.to_le_bytes(), row.to_le_bytes()].concat()).unwrap();
    let in_b = [&good[..], &[record(1, row as usize, 0, Fr::ONE)]].concat();
    let crowd = vec![record(0, row as usize, 1, Fr::ONE); 1000];
    for (damage, records, place) in [
        ("among a thousand", [&good[..], &crowd].concat(), at),
        ("doubled", changed(at, 12, &record(0, 0, 0, Fr::from_u64(2))[12..]), at),
        ("of another variable", changed(at, 8, &[0]), at),
        ("in B", in_b, at),
        ("missing", [&good[..at], &good[at + 1..]].concat(), usize::MAX),
    ] {
        let mut sections = zkey.sections.clone();
        sections[3].1 = section4(&records);
        let error = zkey.open(zkey.scratch.holding(&file(&sections))).err().unwrap();
        let (section, offset, defect) = error.place().unwrap();
        let within = if place == usize::MAX { 4 } else { 4 + 44 * place };
        assert_eq!(
            (section, offset),
            (COEFFICIENTS, (start(&sections, 4) + within) as u64),
            "{damage}: {error}"
        );
        let Defect::Value { what, found, wanted } = defect else { panic!("{damage}: {error}") };
        assert_eq!(*what, "the row of a public input", "{damage}");
        assert!(found.starts_with(&format!("row {row} with A = ")) && found.len() < 300, "{found}");
        assert_eq!(*wanted, format!("A = 1 at variable {} alone, B = 0", row - 2));
    }
}

#[test]
fn types_agree() {
    // Keeps the helper honest: the generators in the file's encoding are read back.
    let bytes = le::<G2>(&G2::generator());
    assert_eq!(G2::from_montgomery_le(&bytes), Ok::<G2Affine, _>(G2::generator()));
}
