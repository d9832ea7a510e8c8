//! Malformed keys and JSON: each table names a damage and the section, offset, found and wanted that
//! the refusal must name.
mod json;
mod params;
mod remembered;
mod zkey;

use bls12_381::{G1Affine, G2Affine};
use cuzk::{
    algebra::{Curve, Fr, PointError},
    formats::{Defect, FormatError},
    groth16::{ProvingKey, setup::insecure_setup},
    r1cs::{Circuit, CircuitBuilder},
};
use std::path::PathBuf;

/// x₁·x₂ = y with two public inputs, and its key: small enough to be cut everywhere.
fn small() -> (Circuit, ProvingKey) {
    let mut builder = CircuitBuilder::new(3, 2);
    let term = |i| [(i, Fr::from_u64(u64::from(i) + 1))];
    builder.constraint(&term(3), &term(4), &term(1)).unwrap();
    builder.constraint(&term(4), &term(0), &term(2)).unwrap();
    let circuit = builder.finish().unwrap();
    let key = insecure_setup(&circuit, [3; 32]).unwrap();
    (circuit, key)
}

/// A temporary file that is rewritten with damaged content again and again.
struct Scratch {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Scratch {
    fn new(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        Self { _directory: directory, path }
    }

    fn holding(&self, bytes: &[u8]) -> &std::path::Path {
        std::fs::write(&self.path, bytes).unwrap();
        &self.path
    }
}

/// Asserts the place and the defect of a refusal.
#[track_caller]
fn assert_refused<T>(
    damage: &str,
    result: Result<T, FormatError>,
    section: &str,
    offset: usize,
    defect: Defect,
) {
    let error = result.err().unwrap_or_else(|| panic!("{damage}: accepted"));
    let (found_section, found_offset, found) = error.place().unwrap_or_else(|| panic!("{damage}: {error}"));
    assert_eq!((found_section, found_offset, found), (section, offset as u64, &defect), "{damage}: {error}");
}

/// Replaces bytes at an offset.
fn with(bytes: &[u8], offset: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[offset..offset + new.len()].copy_from_slice(new);
    bytes
}

/// A curve point outside the subgroup, in the uncompressed Zcash encoding. The cofactors are large, so
/// almost every point found by its x is one.
fn outside_subgroup<C: Curve>() -> Vec<u8> {
    for x in 1u8.. {
        let mut compressed = vec![0; C::UNCOMPRESSED / 2];
        compressed[0] = 0x80;
        *compressed.last_mut().unwrap() = x;
        let point = if C::NAME == "G1" {
            let point = G1Affine::from_compressed_unchecked(compressed[..].try_into().unwrap());
            point
                .into_option()
                .filter(|p| !bool::from(p.is_torsion_free()))
                .map(|p| p.to_uncompressed().to_vec())
        } else {
            let point = G2Affine::from_compressed_unchecked(compressed[..].try_into().unwrap());
            point
                .into_option()
                .filter(|p| !bool::from(p.is_torsion_free()))
                .map(|p| p.to_uncompressed().to_vec())
        };
        if let Some(bytes) = point {
            return bytes;
        }
    }
    unreachable!("half of all x are those of points");
}

/// Encodings that are no acceptable points, from a good one, in the uncompressed Zcash encoding.
fn bad_points<C: Curve>(good: &[u8]) -> Vec<(&'static str, Vec<u8>, PointError)> {
    let mut off_curve = good.to_vec();
    *off_curve.last_mut().unwrap() ^= 1;
    let mut infinity = vec![0; C::UNCOMPRESSED];
    infinity[0] = 0x40;
    let mut large = good.to_vec();
    large[..48].fill(0xff);
    large[0] = 0x1f;
    vec![
        ("off the curve", off_curve, PointError::NotOnCurve),
        ("zero without the flag of infinity", vec![0; C::UNCOMPRESSED], PointError::NotOnCurve),
        ("outside the subgroup", outside_subgroup::<C>(), PointError::NotInSubgroup),
        ("at infinity", infinity, PointError::Infinity),
        ("a coordinate above the modulus", large, PointError::NotCanonical),
    ]
}
