//! snarkjs `.zkey` for bls12-381: the key and matrices A and B, all that proving needs.
//!
//! An iden3 container ([`super::binfile`]) of version 1, all little-endian:
//!
//! | section | content |
//! |---|---|
//! | 1 | u32 protocol: 1, Groth16 |
//! | 2 | u32 48, q, u32 32, r, u32 variables, u32 public inputs, u32 domain size, alpha1, beta1, beta2, gamma2, delta1, delta2 |
//! | 3 | IC: public inputs + 1 points |
//! | 4 | u32 count, then (u32 matrix, u32 row, u32 variable, 32-byte value) with the input rows in A |
//! | 5, 6, 7 | A, B1, B2: a point per variable, infinity kept |
//! | 8 | C: a point per auxiliary variable |
//! | 9 | H: a point per element of the odd coset |
//! | 10 | contributions, not read |
//!
//! Points are affine in Montgomery form (R = 2³⁸⁴), infinity all zero. Values are v·R² with R = 2²⁵⁶.
//! snarkjs' domain comes from another root of unity than bellman's: [`TwoAdicRoot::Five`].
//! (<https://github.com/iden3/snarkjs>, `src/zkey_utils.js`.)
use super::{
    FormatError,
    binfile::BinFile,
    bytes::{Reader, hex},
    error::Defect,
    files, points,
};
use crate::{
    algebra::{Curve, Fr, G1, G1Affine, G2, G2Affine, PointEncoding, PointStore, TwoAdicRoot},
    groth16::{HBasis, ProvingKey, Query, VerifyingKey},
    r1cs::{Circuit, CircuitBuilder},
};
use memmap2::Mmap;
use rayon::prelude::*;
use std::{path::Path, sync::Arc};

/// Section names of h, l, a, b_g1, b_g2; also of [`super::validated`].
pub(super) const QUERIES: [&str; 5] =
    ["section 9 (H)", "section 8 (C)", "section 5 (A)", "section 6 (B1)", "section 7 (B2)"];
const ENCODING: PointEncoding = PointEncoding::MontgomeryLe;
const PROTOCOL: &str = "section 1 (protocol)";
const HEADER: &str = "section 2 (Groth16 header)";
const IC: &str = "section 3 (IC)";
const COEFFICIENTS: &str = "section 4 (coefficients)";

/// q, the modulus of the curve's base field, little-endian.
const BASE_MODULUS_LE: [u8; 48] = [
    0xab, 0xaa, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xb9, 0xff, 0xff, 0x53, 0xb1, 0xfe, 0xff, 0xab, 0x1e, 0x24,
    0xf6, 0xb0, 0xf6, 0xa0, 0xd2, 0x30, 0x67, 0xbf, 0x12, 0x85, 0xf3, 0x84, 0x4b, 0x77, 0x64, 0xd7, 0xac,
    0x4b, 0x43, 0xb6, 0xa7, 0x1b, 0x4b, 0x9a, 0xe6, 0x7f, 0x39, 0xea, 0x11, 0x01, 0x1a,
];

/// Maps the file and checks its structure, its numbers and the header's points; the long queries'
/// points are left to [`super::validated`].
pub fn open(path: &Path) -> Result<(ProvingKey, Circuit), FormatError> {
    let map = files::map(path)?;
    parse(&map).map_err(|e| e.in_file(path))
}

/// The verifying key in the file; reads no other section.
pub fn open_vk(path: &Path) -> Result<VerifyingKey, FormatError> {
    let map = files::map(path)?;
    let read = || {
        let file = container(&map)?;
        let header = Header::read(&file)?;
        read_vk(&file, &header)
    };
    read().map_err(|e| e.in_file(path))
}

/// The file's sections; that they are a Groth16 key's.
fn container(bytes: &[u8]) -> Result<BinFile<'_>, FormatError> {
    let file = BinFile::parse(bytes, b"zkey", 1)?;
    let mut protocol = file.section(1, PROTOCOL)?;
    protocol.expect_u32_le("the protocol", 1)?;
    protocol.finish()?;
    Ok(file)
}

fn parse(map: &Arc<Mmap>) -> Result<(ProvingKey, Circuit), FormatError> {
    let file = container(map)?;
    let header = Header::read(&file)?;
    let vk = read_vk(&file, &header)?;

    let [h, l, a, b_g1, b_g2] = QUERIES;
    let variables = u64::from(header.variables);
    let h = take_points(map, file.section(9, h)?, header.domain_size.into())?;
    let l = take_points(map, file.section(8, l)?, variables - header.num_inputs())?;
    let a = take_points(map, file.section(5, a)?, variables)?;
    let b_g1 = take_points(map, file.section(6, b_g1)?, variables)?;
    let b_g2 = take_points(map, file.section(7, b_g2)?, variables)?;
    // Last: now as many rows as the domain has are paid for by bytes of the file.
    let circuit = read_circuit(file.section(4, COEFFICIENTS)?, &header)?;
    let key = ProvingKey {
        vk,
        beta_g1: header.beta_g1,
        delta_g1: header.delta_g1,
        h,
        h_basis: HBasis::CosetLagrange,
        root: TwoAdicRoot::Five,
        l,
        a: Query::full(a),
        b_g1: Query::full(b_g1),
        b_g2: Query::full(b_g2),
        id: files::content_id(map),
    };
    Ok((key, circuit))
}

struct Header {
    variables: u32,
    public: u32,
    domain_size: u32,
    domain_size_offset: u64,
    alpha_g1: G1Affine,
    beta_g1: G1Affine,
    beta_g2: G2Affine,
    gamma_g2: G2Affine,
    delta_g1: G1Affine,
    delta_g2: G2Affine,
}

impl Header {
    fn read(file: &BinFile<'_>) -> Result<Self, FormatError> {
        let mut reader = file.section(2, HEADER)?;
        reader.expect_modulus("the base field's modulus q", &BASE_MODULUS_LE)?;
        reader.expect_scalar_modulus()?;
        let variables_offset = reader.offset();
        let (variables, public) = (reader.u32_le()?, reader.u32_le()?);
        if public >= variables {
            let defect = Defect::Index {
                what: "the number of public inputs",
                found: public.into(),
                limit: variables.into(),
            };
            return Err(reader.error_at(variables_offset + 4, defect));
        }
        let domain_size_offset = reader.offset();
        let domain_size = reader.u32_le()?;
        let header = Self {
            variables,
            public,
            domain_size,
            domain_size_offset,
            alpha_g1: points::take_one::<G1>(&mut reader, ENCODING)?,
            beta_g1: points::take_one::<G1>(&mut reader, ENCODING)?,
            beta_g2: points::take_one::<G2>(&mut reader, ENCODING)?,
            gamma_g2: points::take_one::<G2>(&mut reader, ENCODING)?,
            delta_g1: points::take_one::<G1>(&mut reader, ENCODING)?,
            delta_g2: points::take_one::<G2>(&mut reader, ENCODING)?,
        };
        reader.finish()?;
        Ok(header)
    }

    /// Public inputs with ONE.
    fn num_inputs(&self) -> u64 {
        u64::from(self.public) + 1
    }
}

fn read_vk(file: &BinFile<'_>, header: &Header) -> Result<VerifyingKey, FormatError> {
    let mut reader = file.section(3, IC)?;
    let ic = points::take::<G1>(&mut reader, ENCODING, header.num_inputs())?;
    reader.finish()?;
    Ok(VerifyingKey {
        alpha_g1: header.alpha_g1,
        beta_g1: Some(header.beta_g1),
        beta_g2: header.beta_g2,
        gamma_g2: header.gamma_g2,
        delta_g1: Some(header.delta_g1),
        delta_g2: header.delta_g2,
        ic,
    })
}

/// Leaves a section's points where they are.
fn take_points<C: Curve>(
    map: &Arc<Mmap>,
    mut reader: Reader<'_>,
    count: u64,
) -> Result<PointStore<C>, FormatError> {
    let (start, found) = (reader.offset(), reader.remaining());
    let wanted = count * C::UNCOMPRESSED as u64;
    reader.take(wanted)?;
    let store = PointStore::mapped(map.clone(), start, count, ENCODING)
        .ok_or_else(|| reader.error_at(start, Defect::Truncated { found, wanted }))?;
    reader.finish()?;
    Ok(store)
}

/// One coefficient of A or B.
struct Record {
    /// 0 is A, 1 is B.
    matrix: u32,
    row: u32,
    variable: u32,
    value: Fr,
}

impl Record {
    const SIZE: usize = 44;

    fn read(mut reader: Reader<'_>, index: u64, header: &Header) -> Result<Self, FormatError> {
        let mut below = |what: &'static str, limit: u32| {
            let offset = reader.offset();
            let found = reader.u32_le()?;
            if found < limit {
                return Ok(found);
            }
            let (found, limit) = (found.into(), limit.into());
            Err(reader.error_at(offset, Defect::Index { what, found, limit }))
        };
        let matrix = below("the matrix", 2)?;
        let row = below("the row", header.domain_size)?;
        let variable = below("the variable", header.variables)?;
        let offset = reader.offset();
        let bytes: [u8; 32] = reader.array()?;
        let mut limbs = [0; 4];
        for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks().0) {
            *limb = u64::from_le_bytes(*bytes);
        }
        // What stands there is v·R²: the Montgomery form of v·R. The Montgomery form of 1/R is 1.
        let factors = (Fr::from_montgomery_limbs(limbs), Fr::from_montgomery_limbs([1, 0, 0, 0]));
        let (Some(value_r), Some(inverse_r)) = factors else {
            return Err(reader.error_at(offset, Defect::Scalar { index, found: hex(&bytes) }));
        };
        Ok(Self { matrix, row, variable, value: value_r * inverse_r })
    }
}

/// The first terms of a row for a message, however many there are.
fn print_terms(terms: &[(u32, Fr)]) -> String {
    const SHOWN: usize = 2;
    let print = |(variable, value): &(u32, Fr)| {
        format!("{} at variable {variable}", hex(&value.to_canonical().to_le_bytes()))
    };
    match terms.len() {
        0 => "0".to_owned(),
        1..=SHOWN => terms.iter().map(print).collect::<Vec<_>>().join(", "),
        len => format!("{} and {} more terms", print(&terms[0]), len - 1),
    }
}

/// The circuit of the records. Its own constraints end where the input rows begin, which is the only
/// trace of their number in the file.
fn read_circuit(mut reader: Reader<'_>, header: &Header) -> Result<Circuit, FormatError> {
    let count = u64::from(reader.u32_le()?);
    let first = reader.offset();
    let bytes = reader.take_items(count, Record::SIZE as u64)?;
    reader.clone().finish()?;
    let record = |index: u32| {
        let start = index as usize * Record::SIZE;
        let (bytes, offset) = (&bytes[start..start + Record::SIZE], first + start as u64);
        Record::read(Reader::new(COEFFICIENTS, bytes, offset), index.into(), header)
    };
    // Records by row: their order in the file is not specified.
    let mut order = Vec::with_capacity(bytes.len() / Record::SIZE);
    for index in 0..count as u32 {
        order.push((record(index)?.row, index));
    }
    order.par_sort_unstable();
    let rows = order.last().map_or(0, |(row, _)| u64::from(*row) + 1);
    let constraints = rows.checked_sub(header.num_inputs()).ok_or_else(|| {
        let (found, wanted) = (rows.to_string(), format!("at least {}, one per input", header.num_inputs()));
        reader.error_at(first, Defect::Value { what: "the number of rows", found, wanted })
    })?;
    let wanted = rows.next_power_of_two();
    if u64::from(header.domain_size) != wanted {
        let (what, found) = ("the domain size", header.domain_size.into());
        let defect = Defect::Count { what, found, wanted };
        return Err(FormatError::malformed(HEADER, header.domain_size_offset, defect));
    }

    let num_aux = (u64::from(header.variables) - header.num_inputs()) as usize;
    let mut builder = CircuitBuilder::new(header.num_inputs() as usize, num_aux);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let mut rest = &order[..];
    for row in 0..rows {
        let (of_row, later) = rest.split_at(rest.partition_point(|(r, _)| u64::from(*r) == row));
        rest = later;
        a.clear();
        b.clear();
        for (_, index) in of_row {
            let Record { matrix, variable, value, .. } = record(*index)?;
            if matrix == 0 { &mut a } else { &mut b }.push((variable, value));
        }
        if row < constraints {
            builder.constraint(&a, &b, &[]).map_err(|e| reader.error_at(first, e.into()))?;
        } else if a != [((row - constraints) as u32, Fr::ONE)] || !b.is_empty() {
            let place = of_row.first().map_or(first, |(_, i)| first + u64::from(*i) * Record::SIZE as u64);
            return Err(reader.error_at(
                place,
                Defect::Value {
                    what: "the row of a public input",
                    found: format!("row {row} with A = {}, B = {}", print_terms(&a), print_terms(&b)),
                    wanted: format!("A = 1 at variable {} alone, B = 0", row - constraints),
                },
            ));
        }
    }
    builder.finish_without_c().map_err(|e| reader.error_at(first, e.into()))
}
