//! Reading a file's bytes front to back, each step checked against what is left, so that no length
//! field is believed before the bytes that it promises are there.
use super::{FormatError, error::Defect};
use crate::algebra::fr;

/// A cursor over one section (or a whole file) that knows its name and its place in the file.
#[derive(Clone)]
pub struct Reader<'a> {
    section: &'static str,
    bytes: &'a [u8],
    /// Offset of `bytes[0]` in the file.
    base: u64,
    position: usize,
}

impl<'a> Reader<'a> {
    /// `base` is the offset of `bytes` in the file.
    pub fn new(section: &'static str, bytes: &'a [u8], base: u64) -> Self {
        Self { section, bytes, base, position: 0 }
    }

    /// Further bytes belong to a section of this name.
    pub fn enter(&mut self, section: &'static str) {
        self.section = section;
    }

    /// Offset in the file of the next byte.
    pub fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    /// Bytes left.
    pub fn remaining(&self) -> u64 {
        (self.bytes.len() - self.position) as u64
    }

    /// A defect of the next bytes.
    pub fn error(&self, defect: Defect) -> FormatError {
        self.error_at(self.offset(), defect)
    }

    /// A defect at an offset of the file.
    pub fn error_at(&self, offset: u64, defect: Defect) -> FormatError {
        FormatError::malformed(self.section, offset, defect)
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: u64) -> Result<&'a [u8], FormatError> {
        let left = self.remaining();
        if n > left {
            return Err(self.error(Defect::Truncated { found: left, wanted: n }));
        }
        let start = self.position;
        self.position += n as usize;
        Ok(&self.bytes[start..self.position])
    }

    /// The next `count` items of `size` bytes; a product beyond 64 bits is beyond any file.
    pub fn take_items(&mut self, count: u64, size: u64) -> Result<&'a [u8], FormatError> {
        self.take(count.saturating_mul(size))
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64)?);
        Ok(out)
    }

    /// A little-endian 32-bit integer.
    pub fn u32_le(&mut self) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A big-endian 32-bit integer.
    pub fn u32_be(&mut self) -> Result<u32, FormatError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A little-endian 64-bit integer.
    pub fn u64_le(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A count of `what` as a little-endian 32-bit integer that must be `wanted`.
    pub fn expect_u32_le(&mut self, what: &'static str, wanted: u64) -> Result<(), FormatError> {
        let offset = self.offset();
        let found = u64::from(self.u32_le()?);
        if found == wanted {
            Ok(())
        } else {
            Err(self.error_at(offset, Defect::Count { what, found, wanted }))
        }
    }

    /// A field's size in bytes and its modulus, which must be `wanted` (little-endian).
    pub fn expect_modulus(&mut self, what: &'static str, wanted: &[u8]) -> Result<(), FormatError> {
        self.expect_u32_le("a field element's size in bytes", wanted.len() as u64)?;
        let offset = self.offset();
        let found = self.take(wanted.len() as u64)?;
        if found == wanted {
            return Ok(());
        }
        Err(self.error_at(offset, Defect::Value { what, found: hex(found), wanted: hex(wanted) }))
    }

    /// The same for r, the scalar field's modulus.
    pub fn expect_scalar_modulus(&mut self) -> Result<(), FormatError> {
        let r: Vec<u8> = fr::MODULUS.iter().flat_map(|limb| limb.to_le_bytes()).collect();
        self.expect_modulus("the scalar field's modulus r", &r)
    }

    /// Nothing may be left.
    pub fn finish(self) -> Result<(), FormatError> {
        match self.remaining() {
            0 => Ok(()),
            found => Err(self.error(Defect::Trailing { found })),
        }
    }
}

/// A little-endian integer in hexadecimal.
pub fn hex(little_endian: &[u8]) -> String {
    little_endian.iter().rev().fold(String::from("0x"), |text, byte| text + &format!("{byte:02x}"))
}
