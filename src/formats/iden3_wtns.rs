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
    r1cs::{WitnessError, WitnessRegion},
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
const VALUE_BYTES: usize = 32;
/// 1, little-endian.
const ONE: [u8; VALUE_BYTES] = {
    let mut one = [0; VALUE_BYTES];
    one[0] = 1;
    one
};

/// A mapped witness file whose structure has been checked; each value is when it is read.
pub struct Wtns {
    path: PathBuf,
    map: Arc<Mmap>,
    /// Where the first value begins.
    offset: usize,
    len: usize,
}

impl Wtns {
    /// Maps the file and checks its structure.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        let map = files::map(path)?;
        let (offset, len) = parse(&map).map_err(|e| e.in_file(path))?;
        Ok(Self { path: path.to_owned(), map, offset, len })
    }

    /// Number of values, ONE included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values, not even ONE.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values, in order.
    fn values(&self) -> &[[u8; VALUE_BYTES]] {
        self.map[self.offset..].as_chunks().0.split_at(self.len).0
    }

    /// Writes the whole witness into `region`, value by value from the file's pages, each checked.
    pub fn write_into(&self, region: &mut WitnessRegion<'_>) -> Result<(), FormatError> {
        let num_inputs = region.num_inputs();
        let wanted = num_inputs as u64 + region.num_aux() as u64;
        if self.len as u64 != wanted {
            let defect = Defect::Count { what: "the number of values", found: self.len as u64, wanted };
            return Err(FormatError::malformed(HEADER, self.offset as u64, defect).in_file(&self.path));
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
    pub fn read(&self, range: std::ops::Range<usize>) -> Result<Vec<Canonical>, FormatError> {
        let read = |(i, value): (usize, &[u8; VALUE_BYTES])| {
            let index = range.start + i;
            let not_canonical =
                || self.refused(index, value, &WitnessError::NotCanonical { index: index as u64 });
            Canonical::from_le_bytes(value).ok_or_else(not_canonical)
        };
        let values = self.values().get(range.clone()).unwrap_or_default();
        values.iter().enumerate().map(read).collect()
    }

    /// A value that no witness has at its place.
    fn refused(&self, index: usize, value: &[u8; VALUE_BYTES], error: &WitnessError) -> FormatError {
        let offset = (self.offset + index * VALUE_BYTES) as u64;
        let defect = match error {
            WitnessError::NotCanonical { .. } => Defect::Scalar { index: index as u64, found: hex(value) },
            _ => Defect::Value { what: "value 0", found: hex(value), wanted: hex(&ONE) },
        };
        FormatError::malformed(VALUES, offset, defect).in_file(&self.path)
    }
}

/// Offset of the first value, and their number.
fn parse(bytes: &[u8]) -> Result<(usize, usize), FormatError> {
    let file = BinFile::parse(bytes, MAGIC, &[VERSION])?;
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
    Ok((offset as usize, count as usize))
}

/// Reads a whole witness; every value is below r, and the first is 1.
pub fn read(path: &Path) -> Result<Vec<Canonical>, FormatError> {
    let file = Wtns::open(path)?;
    match file.values().first() {
        Some(value) if *value != ONE => Err(file.refused(0, value, &WitnessError::FirstNotOne)),
        _ => file.read(0..file.len()),
    }
}

/// Writes a witness.
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
        let (_, _, defect) = error.place().unwrap();
        assert!(matches!(defect, Defect::Count { found: 1682, wanted: 1681, .. }), "{error}");
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
