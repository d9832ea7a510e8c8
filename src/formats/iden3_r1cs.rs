//! iden3 `.r1cs`, version 1: the circuits that circom writes.
//!
//! All little-endian. Section 1: the field, then u32 wires, public outputs, public inputs, private
//! inputs, u64 labels, u32 constraints. Section 2: for each constraint the linear combinations A, B and C,
//! each a u32 number of terms and then u32 wire, 32-byte value. Section 3: a u64 label for each wire.
//! Sections 4 and 5: custom gates. (iden3 "R1CS binary format",
//! <https://github.com/iden3/r1csfile/blob/master/doc/r1cs_bin_format.md>.)
//!
//! Wires are ONE, outputs, public inputs, then the private ones: z as everywhere here.
use super::{
    FormatError,
    binfile::BinFile,
    bytes::{Reader, hex},
    error::Defect,
    files,
};
use crate::{
    algebra::Fr,
    r1cs::{Circuit, CircuitBuilder, CircuitError},
};
use std::path::Path;

const HEADER: &str = "header";
/// Bytes of a term: wire and value.
const TERM_BYTES: u64 = 36;
/// Bytes of a constraint without terms: three counts.
const EMPTY_CONSTRAINT_BYTES: u64 = 12;

/// Reads a circuit. Repeated wires are summed, zeros dropped, and the input rows appended that snarkjs
/// appends too. The label map may be missing; then there are no more wires than bytes of constraints.
///
/// # Errors
/// [`FormatError`]: another field than BLS12-381's, custom gates (which Groth16 does not know), or content
/// that contradicts the format or itself.
pub fn read(path: &Path) -> Result<Circuit, FormatError> {
    let map = files::map(path)?;
    parse(&map).map_err(|e| e.in_file(path))
}

/// The same for a file's bytes.
pub fn parse(bytes: &[u8]) -> Result<Circuit, FormatError> {
    let file = BinFile::parse(bytes, b"r1cs", 1)?;
    let header = Header::read(file.section(1, HEADER)?)?;
    refuse_custom_gates(&file)?;
    let constraints = file.section(2, "constraints")?;
    // Each wire is paid for by bytes of the file before memory is taken for it: here 8, there the 36 of
    // a term that mentions it, of which one is enough.
    match file.optional_section(3, "wire to label map")? {
        Some(mut labels) => {
            labels.take_items(header.wires.into(), 8)?;
            labels.finish()?;
        }
        None if u64::from(header.wires) > constraints.remaining().max(1) => {
            let (what, found) = ("the number of wires, without a label map,", header.wires.into());
            let defect = Defect::Index { what, found, limit: constraints.remaining().max(1) + 1 };
            return Err(FormatError::malformed(HEADER, header.wires_offset, defect));
        }
        None => (),
    }
    read_constraints(constraints, &header)
}

struct Header {
    wires: u32,
    wires_offset: u64,
    /// ONE, outputs and public inputs.
    public: u32,
    constraints: u32,
}

impl Header {
    fn read(mut reader: Reader<'_>) -> Result<Self, FormatError> {
        reader.expect_scalar_modulus()?;
        let wires_offset = reader.offset();
        let wires = reader.u32_le()?;
        let mut named: u64 = 1;
        let mut public = 1;
        for is_public in [true, true, false] {
            let count = u64::from(reader.u32_le()?);
            named += count;
            public += if is_public { count } else { 0 };
        }
        let _labels = reader.u64_le()?;
        let constraints = reader.u32_le()?;
        reader.finish()?;
        match u32::try_from(public) {
            Ok(public) if named <= wires.into() => Ok(Self { wires, wires_offset, public, constraints }),
            _ => {
                let what = "the number of ONE, outputs and inputs";
                let defect = Defect::Index { what, found: named, limit: u64::from(wires) + 1 };
                Err(FormatError::malformed(HEADER, wires_offset, defect))
            }
        }
    }
}

/// Section 4 lists the custom gates' templates: u32 count, then each name (ending with a zero byte) and
/// its parameters. Section 5 applies them.
fn refuse_custom_gates(file: &BinFile<'_>) -> Result<(), FormatError> {
    for (kind, section) in [(4, "custom gates list"), (5, "custom gates application")] {
        let Some(mut reader) = file.optional_section(kind, section)? else { continue };
        let offset = reader.offset();
        let count = reader.u32_le()?;
        if count == 0 {
            reader.finish()?;
            continue;
        }
        let rest = reader.take(reader.remaining())?;
        let name = rest.split(|b| *b == 0).next().unwrap_or_default();
        let found = match kind {
            4 => {
                format!("{count}, the first named {:?}", String::from_utf8_lossy(&name[..name.len().min(64)]))
            }
            _ => count.to_string(),
        };
        let (what, wanted) = ("the number of custom gates", "0: Groth16 has none".to_owned());
        return Err(FormatError::malformed(section, offset, Defect::Value { what, found, wanted }));
    }
    Ok(())
}

fn read_constraints(mut reader: Reader<'_>, header: &Header) -> Result<Circuit, FormatError> {
    // Each constraint takes that many bytes at least: a count beyond them is not believed.
    let least = u64::from(header.constraints) * EMPTY_CONSTRAINT_BYTES;
    if least > reader.remaining() {
        return Err(reader.error(Defect::Truncated { found: reader.remaining(), wanted: least }));
    }
    let (inputs, wires) = (header.public as usize, header.wires as usize);
    let mut builder = CircuitBuilder::new(inputs, wires - inputs);
    let mut terms = [Vec::new(), Vec::new(), Vec::new()];
    let mut scalars = 0;
    let start = reader.offset();
    let no_circuit =
        |offset, error: CircuitError| FormatError::malformed("constraints", offset, error.into());
    for _ in 0..header.constraints {
        let offset = reader.offset();
        for terms in &mut terms {
            read_terms(&mut reader, header.wires, &mut scalars, terms)?;
        }
        let [a, b, c] = &terms;
        builder.constraint(a, b, c).map_err(|e| no_circuit(offset, e))?;
    }
    reader.finish()?;
    builder.finish().map_err(|e| no_circuit(start, e))
}

/// One linear combination; `scalars` counts the values so far.
fn read_terms(
    reader: &mut Reader<'_>,
    wires: u32,
    scalars: &mut u64,
    terms: &mut Vec<(u32, Fr)>,
) -> Result<(), FormatError> {
    terms.clear();
    let count = reader.u32_le()?;
    let base = reader.offset();
    let bytes = reader.take_items(count.into(), TERM_BYTES)?;
    for (i, term) in (0..).zip(bytes.as_chunks::<{ TERM_BYTES as usize }>().0) {
        let (wire, value) = term.split_at(4);
        let wire = wire.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
        let offset = base + i * TERM_BYTES;
        if wire >= wires {
            let defect = Defect::Index { what: "a term's wire", found: wire.into(), limit: wires.into() };
            return Err(reader.error_at(offset, defect));
        }
        let coefficient = <&[u8; 32]>::try_from(value).ok().and_then(Fr::from_le_bytes).ok_or_else(|| {
            reader.error_at(offset + 4, Defect::Scalar { index: *scalars + i, found: hex(value) })
        })?;
        terms.push((wire, coefficient));
    }
    *scalars += u64::from(count);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{CancelToken, Canonical, fr::MODULUS};

    const MERKLE: &[u8] = include_bytes!("../../tests/fixtures/circom/merkle.r1cs");

    fn modulus() -> Vec<u8> {
        MODULUS.iter().flat_map(|limb| limb.to_le_bytes()).collect()
    }

    fn value(v: u8) -> Vec<u8> {
        let mut bytes = vec![0; 32];
        bytes[0] = v;
        bytes
    }

    fn header([wires, outputs, inputs, private]: [u32; 4], constraints: u32) -> Vec<u8> {
        let mut out = 32u32.to_le_bytes().to_vec();
        out.extend(modulus());
        out.extend([wires, outputs, inputs, private].iter().flat_map(|n| n.to_le_bytes()));
        out.extend(9u64.to_le_bytes());
        out.extend(constraints.to_le_bytes());
        out
    }

    fn combination(terms: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let mut out = (terms.len() as u32).to_le_bytes().to_vec();
        for (wire, value) in terms {
            out.extend(wire.to_le_bytes());
            out.extend(value);
        }
        out
    }

    /// x · y = out: wires ONE, out, x (public), y (private).
    fn product() -> Vec<u8> {
        [2, 3, 1].map(|wire| combination(&[(wire, value(1))])).concat()
    }

    fn file(sections: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let mut out = b"r1cs\x01\0\0\0".to_vec();
        out.extend((sections.len() as u32).to_le_bytes());
        for (kind, bytes) in sections {
            out.extend(kind.to_le_bytes());
            out.extend((bytes.len() as u64).to_le_bytes());
            out.extend(bytes);
        }
        out
    }

    /// Section, offset and message of a refusal.
    fn refusal(bytes: &[u8]) -> (&'static str, u64, String) {
        let error = parse(bytes).err().unwrap();
        let (section, offset, defect) = error.place().unwrap();
        (section, offset, defect.to_string())
    }

    #[test]
    fn circom_circuits_are_read() {
        let circuit = parse(MERKLE).unwrap();
        assert_eq!((circuit.num_inputs(), circuit.num_variables()), (3, 1682));
        assert_eq!((circuit.num_constraints(), circuit.num_rows()), (1677, 1680));
        let witness = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/circom/merkle.wtns");
        let z = crate::formats::iden3_wtns::read(Path::new(witness)).unwrap();
        let unsatisfied = |z: &[Canonical]| circuit.first_unsatisfied(z, &CancelToken::new()).unwrap();
        assert_eq!(unsatisfied(&z), None);
        for changed in [1, 2, 40, z.len() - 1] {
            let mut wrong = z.clone();
            wrong[changed] = crate::algebra::Canonical::from_u64(1 << 40);
            assert!(unsatisfied(&wrong).is_some(), "{changed}");
        }
    }

    /// snarkjs keeps A and B (with the input rows) in the zkey, in an order of its own and without C.
    #[test]
    fn the_zkey_of_a_circuit_has_its_rows() {
        let zkey = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/circom/merkle.zkey");
        let (_, kept) = crate::formats::zkey::open(Path::new(zkey)).unwrap();
        let circuit = parse(MERKLE).unwrap();
        assert_eq!(kept.num_rows(), circuit.num_rows());
        let rows = |circuit: &Circuit, matrix: &crate::r1cs::Matrix| {
            let value = |i: u32| circuit.coefficients()[i as usize];
            let row = |i| matrix.row(i).map(|(column, index)| (column, value(index))).collect::<Vec<_>>();
            (0..circuit.num_rows()).map(row).collect::<Vec<_>>()
        };
        assert_eq!(rows(&kept, kept.a()), rows(&circuit, circuit.a()));
        assert_eq!(rows(&kept, kept.b()), rows(&circuit, circuit.b()));
    }

    #[test]
    fn sections_may_come_in_any_order_and_labels_may_be_missing() {
        let shape = header([4, 1, 1, 1], 1);
        let reference = parse(&file(&[(1, shape.clone()), (2, product())])).unwrap();
        assert_eq!((reference.num_inputs(), reference.num_aux()), (3, 1));
        let labels = (3, vec![7; 32]);
        let others = [
            file(&[(2, product()), (1, shape.clone())]),
            file(&[labels.clone(), (2, product()), (1, shape.clone())]),
            file(&[(1, shape.clone()), labels, (77, vec![1, 2]), (2, product())]),
            file(&[(1, shape.clone()), (2, product()), (4, vec![0; 4]), (5, vec![0; 4])]),
        ];
        for other in others {
            assert_eq!(parse(&other).unwrap().id(), reference.id());
        }
        let none = parse(&file(&[(1, header([1, 0, 0, 0], 0)), (2, vec![])])).unwrap();
        assert_eq!((none.num_variables(), none.num_constraints()), (1, 0));
    }

    #[test]
    fn every_cut_is_refused() {
        let small = file(&[(1, header([4, 1, 1, 1], 1)), (3, vec![0; 32]), (2, product())]);
        for bytes in [&small[..], MERKLE] {
            let step = bytes.len().div_ceil(400);
            for cut in (0..bytes.len()).step_by(step).chain(bytes.len() - 40..bytes.len()) {
                let (_, _, message) = refusal(&bytes[..cut]);
                assert!(message.contains("bytes are left, wanted"), "cut at {cut}: {message}");
            }
        }
        let longer = [&small[..], &[0]].concat();
        assert_eq!(refusal(&longer), ("section table", small.len() as u64, "1 bytes follow the end".into()));
    }

    /// Input rows take memory for each input, whether a constraint mentions it or not.
    #[test]
    fn wires_that_no_byte_pays_for_are_refused() {
        let what = |found: u32, limit| {
            let message =
                format!("the number of wires, without a label map, is {found}, wanted one below {limit}");
            (HEADER, 60, message)
        };
        let all_public = header([u32::MAX, u32::MAX - 1, 0, 0], 0);
        assert_eq!(refusal(&file(&[(1, all_public), (2, vec![])])), what(u32::MAX, 2));
        let of = |wires| file(&[(1, header([wires, 1, 1, 1], 1)), (2, product())]);
        assert_eq!(parse(&of(120)).unwrap().num_variables(), 120);
        assert_eq!(refusal(&of(121)), what(121, 121));
    }

    #[test]
    fn contradictions_are_refused_by_name() {
        let shape = || header([4, 1, 1, 1], 1);
        let with = |at: usize, new: &[u8]| {
            let mut changed = shape();
            changed[at..at + new.len()].copy_from_slice(new);
            file(&[(1, changed), (2, product())])
        };
        let constraints = |bytes: Vec<u8>| file(&[(2, bytes), (1, shape())]);
        let three = |a: &[(u32, Vec<u8>)]| [combination(a), combination(&[]), combination(&[])].concat();
        let gates = |kind, bytes: &[u8]| file(&[(1, shape()), (2, product()), (kind, bytes.to_vec())]);
        let surplus = [product(), vec![0; 3]].concat();
        let huge = [u32::MAX.to_le_bytes().to_vec(), vec![0; 90]].concat();
        let r = super::hex(&modulus());
        // Sections begin at byte 24; a second one after the header's 64 bytes at 100.
        let cases: Vec<(Vec<u8>, &str, u64, String)> = vec![
            (with(0, &[31]), "header", 24, "a field element's size in bytes is 31, wanted 32".into()),
            (with(4, &[2]), "header", 28, format!("is 0x{}02, wanted {r}", &r[2..64])),
            (with(36, &[2]), "header", 60, "of ONE, outputs and inputs is 4, wanted one below 3".into()),
            (with(40, &[0xff; 12]), "header", 60, "is 12884901886, wanted one below 5".into()),
            // Two constraints fit the least that they take, but the second one is not there.
            (with(60, &[2]), "constraints", 220, "0 bytes are left, wanted 4".into()),
            (with(60, &[0xff; 4]), "constraints", 100, "120 bytes are left, wanted 51539607540".into()),
            (with(60, &[0]), "constraints", 100, "120 bytes follow the end".into()),
            (constraints(surplus), "constraints", 144, "3 bytes follow the end".into()),
            (constraints(huge), "constraints", 28, "90 bytes are left, wanted 154618822620".into()),
            (
                constraints(three(&[(3, value(1)), (4, value(1))])),
                "constraints",
                64,
                "a term's wire is 4, wanted one below 4".into(),
            ),
            (
                constraints(three(&[(0, value(1)), (1, modulus())])),
                "constraints",
                68,
                format!("scalar 1 is {r}, wanted a value below the modulus r"),
            ),
            (file(&[(1, shape())]), "constraints", 88, "the section is missing".into()),
            (file(&[(2, product())]), "header", 144, "the section is missing".into()),
            (
                file(&[(1, shape()), (2, product()), (1, shape())]),
                "header",
                232,
                "the section appears again; it was first at byte 24".into(),
            ),
            (
                file(&[(1, shape()), (2, product()), (3, vec![0; 31])]),
                "wire to label map",
                232,
                "31 bytes are left, wanted 32".into(),
            ),
            (
                file(&[(1, shape()), (2, product()), (3, vec![0; 33])]),
                "wire to label map",
                264,
                "1 bytes follow the end".into(),
            ),
            (
                gates(4, b"\x02\0\0\0PlookUp\0\x01\0\0\0"),
                "custom gates list",
                232,
                "custom gates is 2, the first named \"PlookUp\", wanted 0".into(),
            ),
            (gates(5, &[3, 0, 0, 0]), "custom gates application", 232, "custom gates is 3, wanted 0".into()),
        ];
        for (bytes, section, offset, message) in cases {
            let (found_section, found_offset, found) = refusal(&bytes);
            assert_eq!((found_section, found_offset), (section, offset), "{found}");
            assert!(found.contains(&message), "{found:?}, wanted {message:?}");
        }
    }

    #[test]
    fn files_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.r1cs");
        assert!(matches!(read(&path), Err(FormatError::Io { .. })));
        std::fs::write(&path, MERKLE).unwrap();
        assert_eq!(read(&path).unwrap().id(), parse(MERKLE).unwrap().id());
        std::fs::write(&path, b"wtns").unwrap();
        let message = read(&path).err().unwrap().to_string();
        assert!(message.starts_with(&path.display().to_string()), "{message}");
    }
}
