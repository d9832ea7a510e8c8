//! The container of iden3's binary files (`.r1cs`, `.wtns`, `.zkey`): four bytes of magic, a version,
//! and sections of a type and a length in any order.
//!
//! Layout, all little-endian: magic, u32 version, u32 number of sections; then for each section u32
//! type, u64 length, the bytes. (iden3 "R1CS binary format", <https://github.com/iden3/r1csfile>.)
use super::{FormatError, bytes::Reader, error::Defect};

/// The sections of a file, found but not yet read.
pub struct BinFile<'a> {
    sections: Vec<Section<'a>>,
    length: u64,
}

struct Section<'a> {
    kind: u32,
    offset: u64,
    bytes: &'a [u8],
}

const HEADER: &str = "file header";
const TABLE: &str = "section table";

impl<'a> BinFile<'a> {
    /// Checks magic, version and that the sections fill the file exactly.
    ///
    /// # Errors
    /// [`FormatError`] at the first of them that is not so.
    pub fn parse(bytes: &'a [u8], magic: &[u8; 4], version: u32) -> Result<Self, FormatError> {
        let mut reader = Reader::new(HEADER, bytes, 0);
        let found: [u8; 4] = reader.array()?;
        if found != *magic {
            let (found, wanted) = (found.escape_ascii().to_string(), magic.escape_ascii().to_string());
            return Err(reader.error_at(0, Defect::Value { what: "the file's magic", found, wanted }));
        }
        reader.expect_u32_le("the format version", version.into())?;
        let count = reader.u32_le()?;
        reader.enter(TABLE);
        // Grows with the sections that are really there: each takes 12 bytes of the file at least.
        let mut sections = Vec::new();
        for _ in 0..count {
            let kind = reader.u32_le()?;
            let length = reader.u64_le()?;
            let offset = reader.offset();
            sections.push(Section { kind, offset, bytes: reader.take(length)? });
        }
        reader.finish()?;
        Ok(Self { sections, length: bytes.len() as u64 })
    }

    /// The section of this type, which must be there exactly once. `name` is for messages.
    pub fn section(&self, kind: u32, name: &'static str) -> Result<Reader<'a>, FormatError> {
        let missing = || FormatError::malformed(name, self.length, Defect::Missing);
        self.optional_section(kind, name)?.ok_or_else(missing)
    }

    /// The section of this type, which may be there once. `name` is for messages.
    pub fn optional_section(&self, kind: u32, name: &'static str) -> Result<Option<Reader<'a>>, FormatError> {
        let mut found = self.sections.iter().filter(|s| s.kind == kind);
        match (found.next(), found.next()) {
            (None, _) => Ok(None),
            (Some(only), None) => Ok(Some(Reader::new(name, only.bytes, only.offset))),
            (Some(first), Some(again)) => {
                Err(FormatError::malformed(name, again.offset, Defect::Duplicate { first: first.offset }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(sections: &[(u32, &[u8])]) -> Vec<u8> {
        let mut out = b"test\x01\0\0\0".to_vec();
        out.extend((sections.len() as u32).to_le_bytes());
        for (kind, bytes) in sections {
            out.extend(kind.to_le_bytes());
            out.extend((bytes.len() as u64).to_le_bytes());
            out.extend(*bytes);
        }
        out
    }

    fn parse(bytes: &[u8]) -> Result<BinFile<'_>, FormatError> {
        BinFile::parse(bytes, b"test", 1)
    }

    #[test]
    fn finds_sections_in_any_order() {
        let bytes = file(&[(7, b"seven"), (2, b""), (9, b"nine")]);
        let parsed = parse(&bytes).unwrap();
        let mut nine = parsed.section(9, "nine").unwrap();
        assert_eq!(nine.take(4).unwrap(), b"nine");
        nine.finish().unwrap();
        assert_eq!(parsed.section(7, "seven").unwrap().offset(), 24);
        parsed.section(2, "two").unwrap().finish().unwrap();
    }

    #[test]
    fn refuses_every_cut_and_any_tail() {
        let bytes = file(&[(1, b"abc"), (2, b"defg")]);
        for cut in 0..bytes.len() {
            let error = parse(&bytes[..cut]).err().unwrap();
            let (_, offset, defect) = error.place().unwrap();
            let Defect::Truncated { found, wanted } = *defect else { panic!("cut {cut}: {error}") };
            assert_eq!(offset + found, cut as u64);
            assert!(wanted > found);
        }
        let mut longer = bytes.clone();
        longer.push(0);
        let error = parse(&longer).err().unwrap();
        assert_eq!(error.place(), Some((TABLE, bytes.len() as u64, &Defect::Trailing { found: 1 })));
    }

    #[test]
    fn refuses_wrong_magic_version_missing_and_duplicate_sections() {
        let mut bytes = file(&[(1, b"a"), (2, b"b"), (1, b"c")]);
        let parsed = parse(&bytes).unwrap();
        let error = parsed.section(1, "one").err().unwrap();
        assert_eq!(error.place(), Some(("one", 50, &Defect::Duplicate { first: 24 })));
        let error = parsed.section(3, "three").err().unwrap();
        assert_eq!(error.place(), Some(("three", bytes.len() as u64, &Defect::Missing)));
        bytes[4] = 2;
        let version = Defect::Count { what: "the format version", found: 2, wanted: 1 };
        assert_eq!(parse(&bytes).err().unwrap().place(), Some((HEADER, 4, &version)));
        bytes[0] = b'T';
        assert!(matches!(parse(&bytes).err().unwrap().place(), Some((HEADER, 0, Defect::Value { .. }))));
    }

    #[test]
    fn a_length_beyond_the_file_is_refused_without_allocating() {
        let mut bytes = file(&[(1, b"a")]);
        bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        let error = parse(&bytes).err().unwrap();
        assert_eq!(error.place(), Some((TABLE, 24, &Defect::Truncated { found: 1, wanted: u64::MAX })));
    }
}
