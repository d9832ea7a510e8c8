//! bellman's and bellperson's `.params` (what Zcash and Filecoin publish) and `.vk`.
//!
//! No magic. The verifying key: alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2, then a
//! count and the ic points. The parameters go on with h, l, a, b_g1, b_g2, each a count and points.
//! Counts are u32, big-endian; points are in the uncompressed Zcash encoding (96 and 192 bytes) and
//! never at infinity. Zcash's files have a transcript after b_g2, which is not read.
//! (bellman `groth16::Parameters::write`, `groth16::VerifyingKey::write`.)
use super::{FormatError, bytes::Reader, error::Defect, files, points};
use crate::{
    algebra::{Curve, G1, G1Affine, G2, PointEncoding, PointError, PointStore, TwoAdicRoot},
    groth16::{HBasis, ProvingKey, Query, VerifyingKey, key},
    r1cs::Circuit,
};
use memmap2::Mmap;
use std::{io::Write, path::Path, sync::Arc};

/// Section names, also of [`super::validated`].
pub(super) const QUERIES: [&str; 5] = ["h", "l", "a", "b_g1", "b_g2"];
const ENCODING: PointEncoding = PointEncoding::ZcashUncompressed;

/// Maps the file and checks its structure; the circuit gives the densities. The verifying key is
/// validated, the long queries are not (see [`super::validated`]).
pub fn open_params(path: &Path, circuit: &Circuit) -> Result<ProvingKey, FormatError> {
    let map = files::map(path)?;
    parse_params(&map, circuit).map_err(|e| e.in_file(path))
}

/// The verifying key at the head of a `.params`, or a `.vk`. Fully validated.
pub fn open_vk(path: &Path) -> Result<VerifyingKey, FormatError> {
    read_vk(&files::map(path)?).map_err(|e| e.in_file(path))
}

/// As [`open_vk`], from bytes; what follows the key is ignored.
pub fn read_vk(bytes: &[u8]) -> Result<VerifyingKey, FormatError> {
    Ok(take_vk(&mut Reader::new("alpha_g1", bytes, 0), None)?.vk)
}

fn parse_params(map: &Arc<Mmap>, circuit: &Circuit) -> Result<ProvingKey, FormatError> {
    let mut reader = Reader::new("alpha_g1", map, 0);
    let head = take_vk(&mut reader, Some(circuit.num_inputs() as u64))?;
    let rows = circuit.num_rows() as u64;
    let h_len = rows.checked_next_power_of_two().map_or(u64::MAX, |m| m - 1);
    let (a_variables, b_variables) = (key::a_variables(circuit), key::b_variables(circuit));

    let h = take_query::<G1>(&mut reader, map, "h", h_len)?;
    let l = take_query::<G1>(&mut reader, map, "l", circuit.num_aux() as u64)?;
    let a = take_filtered::<G1>(&mut reader, map, "a", a_variables)?;
    let b_g1 = take_filtered::<G1>(&mut reader, map, "b_g1", b_variables.clone())?;
    let b_g2 = take_filtered::<G2>(&mut reader, map, "b_g2", b_variables)?;
    Ok(ProvingKey {
        vk: head.vk,
        beta_g1: head.beta_g1,
        delta_g1: head.delta_g1,
        h,
        h_basis: HBasis::Monomial,
        root: TwoAdicRoot::Seven,
        l,
        a,
        b_g1,
        b_g2,
        id: files::content_id(map),
    })
}

/// The verifying key, and what a prover needs of it.
struct Head {
    vk: VerifyingKey,
    beta_g1: G1Affine,
    delta_g1: G1Affine,
}

/// `num_inputs`: the number of ic points, where it is known.
fn take_vk(reader: &mut Reader<'_>, num_inputs: Option<u64>) -> Result<Head, FormatError> {
    let alpha_g1 = take_point::<G1>(reader, "alpha_g1")?;
    let beta_g1 = take_point::<G1>(reader, "beta_g1")?;
    let beta_g2 = take_point::<G2>(reader, "beta_g2")?;
    let gamma_g2 = take_point::<G2>(reader, "gamma_g2")?;
    let delta_g1 = take_point::<G1>(reader, "delta_g1")?;
    let delta_g2 = take_point::<G2>(reader, "delta_g2")?;
    reader.enter("ic");
    let count = take_count(reader, |found| num_inputs.unwrap_or(found.max(1)))?;
    let ic = points::take::<G1>(reader, ENCODING, count)?;
    let vk = VerifyingKey {
        alpha_g1,
        beta_g1: Some(beta_g1),
        beta_g2,
        gamma_g2,
        delta_g1: Some(delta_g1),
        delta_g2,
        ic,
    };
    Ok(Head { vk, beta_g1, delta_g1 })
}

fn take_point<C: Curve>(reader: &mut Reader<'_>, section: &'static str) -> Result<C::Affine, FormatError> {
    reader.enter(section);
    points::take_one::<C>(reader, ENCODING)
}

/// A count, which must be the one that is `wanted` where it was found.
fn take_count(reader: &mut Reader<'_>, wanted: impl FnOnce(u64) -> u64) -> Result<u64, FormatError> {
    let offset = reader.offset();
    let found = u64::from(reader.u32_be()?);
    let wanted = wanted(found);
    if found == wanted {
        return Ok(found);
    }
    Err(reader.error_at(offset, Defect::Count { what: "the number of points", found, wanted }))
}

/// Leaves the points where they are.
fn take_query<C: Curve>(
    reader: &mut Reader<'_>,
    map: &Arc<Mmap>,
    section: &'static str,
    wanted: u64,
) -> Result<PointStore<C>, FormatError> {
    reader.enter(section);
    let found = take_count(reader, |_| wanted)?;
    let first = reader.offset();
    let left = reader.remaining();
    reader.take_items(found, C::UNCOMPRESSED as u64)?;
    PointStore::mapped(map.clone(), first, found, ENCODING).ok_or_else(|| {
        let wanted = found.saturating_mul(C::UNCOMPRESSED as u64);
        reader.error_at(first, Defect::Truncated { found: left, wanted })
    })
}

fn take_filtered<C: Curve>(
    reader: &mut Reader<'_>,
    map: &Arc<Mmap>,
    section: &'static str,
    variables: Arc<[u32]>,
) -> Result<Query<C>, FormatError> {
    let offset = reader.offset();
    let points = take_query(reader, map, section, variables.len() as u64)?;
    Query::filtered(section, points, variables).map_err(|e| reader.error_at(offset, Defect::Key(e)))
}

/// Writes a key in bellman's form; the file is whole or not there. Only keys of that form can be
/// written: h in the monomial basis, no point at infinity.
pub fn write_params(key: &ProvingKey, path: &Path) -> Result<(), FormatError> {
    if key.h_basis != HBasis::Monomial {
        let (found, wanted) = (format!("{:?}", key.h_basis), format!("{:?}", HBasis::Monomial));
        let defect = Defect::Value { what: "the basis of h", found, wanted };
        return Err(FormatError::malformed("h", 0, defect).in_file(path));
    }
    let vk = VerifyingKey { beta_g1: Some(key.beta_g1), delta_g1: Some(key.delta_g1), ..key.vk.clone() };
    let head = write_vk(&vk).map_err(|e| e.in_file(path))?;
    files::write_whole(path, |out| {
        let [h, l, a, b_g1, b_g2] = QUERIES;
        let mut writer = QueryWriter { out, path, offset: 0 };
        writer.put(&head)?;
        writer.query(h, &key.h)?;
        writer.query(l, &key.l)?;
        writer.query(a, key.a.points())?;
        writer.query(b_g1, key.b_g1.points())?;
        writer.query(b_g2, key.b_g2.points())
    })
}

/// The `.vk` form. bellman's has beta and delta in G1, which a key that came from snarkjs JSON lacks.
pub fn write_vk(vk: &VerifyingKey) -> Result<Vec<u8>, FormatError> {
    let missing = |section| FormatError::malformed(section, 0, Defect::Missing);
    let beta_g1 = vk.beta_g1.ok_or_else(|| missing("beta_g1"))?;
    let delta_g1 = vk.delta_g1.ok_or_else(|| missing("delta_g1"))?;
    let mut out = Vec::new();
    put_point::<G1>(&mut out, &vk.alpha_g1);
    put_point::<G1>(&mut out, &beta_g1);
    put_point::<G2>(&mut out, &vk.beta_g2);
    put_point::<G2>(&mut out, &vk.gamma_g2);
    put_point::<G1>(&mut out, &delta_g1);
    put_point::<G2>(&mut out, &vk.delta_g2);
    out.extend(count_be("ic", vk.ic.len())?);
    vk.ic.iter().for_each(|p| put_point::<G1>(&mut out, p));
    Ok(out)
}

fn put_point<C: Curve>(out: &mut Vec<u8>, point: &C::Affine) {
    let start = out.len();
    out.resize(start + C::UNCOMPRESSED, 0);
    C::to_uncompressed(point, &mut out[start..]);
}

fn count_be(section: &'static str, len: usize) -> Result<[u8; 4], FormatError> {
    u32::try_from(len).map(u32::to_be_bytes).map_err(|_| {
        let (found, limit) = (len as u64, 1 << 32);
        FormatError::malformed(section, 0, Defect::Index { what: "the number of points", found, limit })
    })
}

struct QueryWriter<'a> {
    out: &'a mut dyn Write,
    path: &'a Path,
    offset: u64,
}

/// Points that are in memory at a time.
const TILE: usize = 1 << 14;

impl QueryWriter<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        self.offset += bytes.len() as u64;
        self.out.write_all(bytes).map_err(FormatError::io(self.path))
    }

    fn query<C: Curve>(&mut self, section: &'static str, points: &PointStore<C>) -> Result<(), FormatError> {
        self.put(&count_be(section, points.len())?)?;
        let (mut tile, mut bytes) = (Vec::new(), Vec::new());
        for start in (0..points.len()).step_by(TILE) {
            points.read(start..points.len().min(start + TILE), &mut tile);
            bytes.clear();
            for (point, index) in tile.iter().zip(start as u64..) {
                if C::is_infinity(point) {
                    let offset = self.offset + bytes.len() as u64;
                    let defect = Defect::Point { group: C::NAME, index, error: PointError::Infinity };
                    return Err(FormatError::malformed(section, offset, defect).in_file(self.path));
                }
                put_point::<C>(&mut bytes, point);
            }
            self.put(&bytes)?;
        }
        Ok(())
    }
}
