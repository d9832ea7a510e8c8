//! iden3 `.wtns`, version 2: the values of all wires, ONE first, then outputs, public inputs and private
//! signals; the order of z.
//!
//! Section 1: u32 size of a field element, the modulus r, u32 number of values. Section 2: the values,
//! 32-byte little-endian integers below r. (snarkjs, `wtns_utils.js`.)
use super::{
    FormatError,
    binfile::BinFile,
    bytes::{Reader, hex},
    error::Defect,
    files,
};
use crate::{
    algebra::{Canonical, fr},
    r1cs::{
        WitnessError, WitnessRegion,
        witness::{ONE_BYTES, VALUE_BYTES},
    },
};
use memmap2::Mmap;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

const MAGIC: &[u8; 4] = b"wtns";
const VERSION: u32 = 2;
const HEADER: &str = "section 1 (header)";
const VALUES: &str = "section 2 (values)";

/// A mapped witness file whose structure has been checked; each value is when it is read.
pub struct Wtns {
    path: PathBuf,
    map: Arc<Mmap>,
    structure: Structure,
}

/// What a file's bytes hold, and where.
#[derive(Clone, Copy)]
struct Structure {
    /// Where the number of values stands.
    number_offset: usize,
    /// Where the first value begins.
    offset: usize,
    /// Number of values, at least 1.
    len: usize,
}

impl Wtns {
    /// Maps the file and checks its structure.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        let map = files::map(path)?;
        let structure = parse(&map).map_err(|e| e.in_file(path))?;
        Ok(Self { path: path.to_owned(), map, structure })
    }

    /// Number of values, ONE included.
    pub fn num_values(&self) -> usize {
        self.structure.len
    }

    /// The values, in order.
    fn values(&self) -> &[[u8; VALUE_BYTES]] {
        self.map[self.structure.offset..].as_chunks().0.split_at(self.structure.len).0
    }

    /// Writes the whole witness into `region`, value by value from the file's pages, each checked.
    ///
    /// # Errors
    /// [`FormatError`] at the number of values where it is not the region's; at the first value that is
    /// not below r, or that is the first and not 1.
    pub fn write_into(&self, region: &mut WitnessRegion<'_>) -> Result<(), FormatError> {
        let num_inputs = region.num_inputs();
        let wanted = num_inputs as u64 + region.num_aux() as u64;
        if self.num_values() as u64 != wanted {
            return Err(self.wrong_number(wanted));
        }
        for (i, value) in self.values().iter().enumerate() {
            let written = match i.checked_sub(num_inputs) {
                None => region.set_input(i, value),
                Some(i) => region.set_aux(i, value),
            };
            written.map_err(|error| self.refused(i, value, &error))?;
        }
        Ok(())
    }

    /// Values `range` as integers.
    ///
    /// # Errors
    /// [`FormatError`] at the number of values where the range ends beyond it, else at the first value of
    /// the range that is not below r.
    pub fn read(&self, range: std::ops::Range<usize>) -> Result<Vec<Canonical>, FormatError> {
        let read = |(i, value): (usize, &[u8; VALUE_BYTES])| {
            let index = range.start + i;
            let not_canonical =
                || self.refused(index, value, &WitnessError::NotCanonical { index: index as u64 });
            Canonical::from_le_bytes(value).ok_or_else(not_canonical)
        };
        let values = self.values().get(range.clone()).ok_or_else(|| self.wrong_number(range.end as u64))?;
        values.iter().enumerate().map(read).collect()
    }

    /// Another number of values than is wanted.
    fn wrong_number(&self, wanted: u64) -> FormatError {
        let defect = Defect::Count { what: "the number of values", found: self.num_values() as u64, wanted };
        FormatError::malformed(HEADER, self.structure.number_offset as u64, defect).in_file(&self.path)
    }

    /// The whole witness of a circuit with so many variables; every value is below r, and the first is 1.
    ///
    /// # Errors
    /// As [`Self::write_into`].
    pub fn read_whole(&self, num_variables: usize) -> Result<Vec<Canonical>, FormatError> {
        if self.num_values() != num_variables {
            return Err(self.wrong_number(num_variables as u64));
        }
        match self.values().first() {
            Some(value) if *value != ONE_BYTES => Err(self.refused(0, value, &WitnessError::FirstNotOne)),
            _ => self.read(0..num_variables),
        }
    }

    /// A value that no witness has at its place.
    fn refused(&self, index: usize, value: &[u8; VALUE_BYTES], error: &WitnessError) -> FormatError {
        let offset = (self.structure.offset + index * VALUE_BYTES) as u64;
        let defect = match error {
            WitnessError::NotCanonical { .. } => Defect::Scalar { index: index as u64, found: hex(value) },
            _ => Defect::Value { what: "value 0", found: hex(value), wanted: hex(&ONE_BYTES) },
        };
        FormatError::malformed(VALUES, offset, defect).in_file(&self.path)
    }
}

/// Checks everything but the values.
fn parse(bytes: &[u8]) -> Result<Structure, FormatError> {
    let file = BinFile::parse(bytes, MAGIC, VERSION)?;
    let mut header = file.section(1, HEADER)?;
    header.expect_scalar_modulus()?;
    let place = header.offset();
    let count = header.u32_le()?;
    if count == 0 {
        let (found, wanted) = ("0".to_owned(), "at least 1 (ONE)".to_owned());
        let defect = Defect::Value { what: "the number of values", found, wanted };
        return Err(FormatError::malformed(HEADER, place, defect));
    }
    header.finish()?;
    let mut values: Reader<'_> = file.section(2, VALUES)?;
    let offset = values.offset();
    values.take_items(count.into(), VALUE_BYTES as u64)?;
    values.finish()?;
    // Offsets of mapped bytes, and a count of 32 bytes each: they fit.
    Ok(Structure { number_offset: place as usize, offset: offset as usize, len: count as usize })
}

/// Reads a whole witness of any number of values; every value is below r, and the first is 1.
///
/// # Errors
/// [`FormatError`] at the first thing that is wrong.
pub fn read(path: &Path) -> Result<Vec<Canonical>, FormatError> {
    let file = Wtns::open(path)?;
    file.read_whole(file.num_values())
}

/// Writes a witness; the file is whole or not there.
///
/// # Errors
/// More values than 32 bits count, or the operating system's refusal.
pub fn write(z: &[Canonical], path: &Path) -> Result<(), FormatError> {
    let too_many = || {
        let (found, limit) = (z.len() as u64, 1 << 32);
        let defect = Defect::Index { what: "the number of values", found, limit };
        FormatError::malformed(HEADER, 0, defect).in_file(path)
    };
    let count = u32::try_from(z.len()).map_err(|_| too_many())?;
    files::write_whole(path, |out| {
        let mut header = (VALUE_BYTES as u32).to_le_bytes().to_vec();
        header.extend(fr::MODULUS.iter().flat_map(|limb| limb.to_le_bytes()));
        header.extend(count.to_le_bytes());
        let mut start = MAGIC.to_vec();
        start.extend([VERSION, 2].iter().flat_map(|n| n.to_le_bytes()));
        start.extend(1u32.to_le_bytes());
        start.extend((header.len() as u64).to_le_bytes());
        start.extend(header);
        start.extend(2u32.to_le_bytes());
        start.extend((u64::from(count) * VALUE_BYTES as u64).to_le_bytes());
        let mut put = |bytes: &[u8]| out.write_all(bytes).map_err(FormatError::io(path));
        put(&start)?;
        z.iter().try_for_each(|value| put(&value.to_le_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn fixture() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/circom/merkle.wtns")
    }

    /// 12 bytes of file header, 12 of the first section's; the field size and r.
    const NUMBER_OFFSET: u64 = 12 + 12 + 4 + 32;

    fn refusal(bytes: &[u8]) -> (String, u64, Defect) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.wtns");
        fs::write(&path, bytes).unwrap();
        let error = read(&path).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{}: ", path.display())), "{error}");
        let (section, offset, defect) = error.place().unwrap();
        (section.to_owned(), offset, defect.clone())
    }

    #[test]
    fn reads_what_circom_wrote_and_writes_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let z = read(&fixture()).unwrap();
        assert_eq!((z.len(), z[0]), (1682, Canonical::ONE));
        let copy = dir.path().join("copy.wtns");
        write(&z, &copy).unwrap();
        assert_eq!(fs::read(&copy).unwrap(), fs::read(fixture()).unwrap());
        assert_eq!(Wtns::open(&copy).unwrap().read(1..3).unwrap(), z[1..3]);
        write(&z[..1], &copy).unwrap();
        assert_eq!(read(&copy).unwrap(), z[..1]);
    }

    #[test]
    fn fills_a_region_and_no_other_size() {
        let file = Wtns::open(&fixture()).unwrap();
        let mut memory = vec![0; 1682 * 32];
        file.write_into(&mut WitnessRegion::from_slice(&mut memory, 3, 1679).unwrap()).unwrap();
        assert_eq!(memory, file.values().as_flattened());
        let mut small = vec![0; 1681 * 32];
        let mut region = WitnessRegion::from_slice(&mut small, 3, 1678).unwrap();
        let error = file.write_into(&mut region).unwrap_err();
        let wrong_number = |wanted| {
            let defect = Defect::Count { what: "the number of values", found: 1682, wanted };
            (HEADER, NUMBER_OFFSET, defect)
        };
        let place = |error: &FormatError| error.place().map(|(s, o, d)| (s, o, d.clone())).unwrap();
        assert_eq!(place(&error), wrong_number(1681));
        assert_eq!(place(&file.read(1..1683).unwrap_err()), wrong_number(1683));
        assert_eq!(file.read(1682..1682).unwrap(), []);
        assert_eq!(place(&file.read_whole(1681).unwrap_err()), wrong_number(1681));
        assert_eq!(file.read_whole(1682).unwrap(), read(&fixture()).unwrap());
    }

    #[test]
    fn refuses_every_cut() {
        let whole = fs::read(fixture()).unwrap();
        for cut in (0..200).chain((whole.len() - 40)..whole.len()) {
            let (_, _, defect) = refusal(&whole[..cut]);
            assert!(matches!(defect, Defect::Truncated { .. }), "cut at {cut}: {defect}");
        }
    }

    #[test]
    fn refuses_wrong_fields_by_name() {
        let whole = fs::read(fixture()).unwrap();
        // 12 bytes of file header, 12 of the first section's, its 40; 12 of the second section's.
        let values = 76;
        let with = |at: usize, bytes: &[u8]| {
            let mut changed = whole.clone();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            changed
        };
        let modulus: Vec<u8> = fr::MODULUS.iter().flat_map(|l| l.to_le_bytes()).collect();
        for (what, bytes, offset) in [
            ("another version", with(4, &[3]), 4),
            ("another field size", with(24, &[33]), 24),
            ("another modulus", with(28, &[0]), 28),
            ("no values announced", with(60, &[0; 4]), 60),
            ("too few values announced", with(60, &[0x91]), values + 1681 * 32),
            ("too many values announced", with(60, &[0x93]), values),
            ("a value that is r", with(values + 7 * 32, &modulus), values + 7 * 32),
            ("another first value", with(values, &[2]), values),
        ] {
            let (_, found, defect) = refusal(&bytes);
            assert_eq!(found, offset as u64, "{what}: {defect}");
        }
        let (section, _, defect) = refusal(&with(values + 7 * 32, &modulus));
        assert_eq!(section, VALUES);
        assert!(matches!(defect, Defect::Scalar { index: 7, .. }), "{defect}");
    }
}
