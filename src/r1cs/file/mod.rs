//! The compiled circuit file (`.cuzk`): mapped and used in place.
//!
//! A header with the circuit's numbers and a table of sections, then the sections of the canonical
//! serialisation (see `super::identity`), each with its BLAKE3 hash in the table; the circuit's id is
//! made of those hashes. `docs/circuit-file.md` is the full description.
mod check;
mod layout;
#[cfg(test)]
mod tests;

use super::{
    Circuit, Matrix,
    identity::{Counts, Part, Section, SectionHash, circuit_id},
    store::{Indices, MappedSlice, Offsets, Plain, Store},
};
use crate::files::open_regular;
use layout::{Header, Layout, Placed, hex};
use memmap2::{Mmap, MmapOptions};
use std::{fmt::Display, path::Path, sync::Arc};

/// Why a compiled circuit file cannot be written or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system's refusal.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The content is not what a compiled circuit file demands.
    #[error("{section}, byte {offset}: {what} is {found}, wanted {wanted}")]
    Malformed {
        /// The part of the file.
        section: &'static str,
        /// Where the offending bytes begin.
        offset: u64,
        /// What lies there.
        what: &'static str,
        /// Its value.
        found: String,
        /// The value or values that the format demands.
        wanted: String,
    },
}

impl FileError {
    fn malformed(
        section: &'static str,
        offset: u64,
        what: &'static str,
        found: &dyn Display,
        wanted: &dyn Display,
    ) -> Self {
        Self::Malformed { section, offset, what, found: found.to_string(), wanted: wanted.to_string() }
    }
}

/// Writes the circuit to `path`, whole or not at all.
///
/// # Errors
/// The operating system's.
pub fn write(circuit: &Circuit, path: &Path) -> Result<(), FileError> {
    let counts = circuit.counts();
    let hashes: Vec<SectionHash> =
        circuit.sections().map(|(section, bytes)| SectionHash::of(section, bytes)).collect();
    let too_large = || std::io::Error::from(std::io::ErrorKind::FileTooLarge);
    let layout = Layout::new(&counts).ok_or_else(too_large)?;
    let header = layout::write_header(&counts, &layout, &hashes, circuit_id(&counts, &hashes));
    crate::files::write_whole(path, FileError::Io, |out| {
        out.write_all(&header)?;
        let mut at = layout.header;
        for (placed, (_, bytes)) in layout.sections.iter().zip(circuit.sections()) {
            let padding = [0; layout::ALIGNMENT as usize];
            out.write_all(&padding[..(placed.offset - at) as usize])?;
            out.write_all(bytes)?;
            at = placed.offset + placed.length;
        }
        Ok(())
    })
}

/// Maps the file privately and checks everything before anything is used: the header, the sections'
/// places and hashes, the file's length, the circuit id, and that the content is a circuit (offsets
/// ascend, columns and indices are in range, coefficients are below r, the input rows are there).
///
/// The circuit uses the mapping in place. Whoever changes the file afterwards can make proofs fail but
/// not this process' memory unsafe; whoever truncates it ends the process (SIGBUS).
///
/// # Errors
/// [`FileError::Malformed`] with section, offset, the value found and the value wanted.
pub fn open(path: &Path) -> Result<Circuit, FileError> {
    let file = open_regular(path)?;
    // SAFETY: the mapping is private and read-only. If the file is changed in spite of what the
    // function's documentation says, its bytes are still plain values, and every index computed from
    // them is checked when it is used.
    let map = Arc::new(unsafe { MmapOptions::new().map_copy_read_only(&file) }?);
    let header = layout::read_header(&map)?;
    check_hashes(&map, &header)?;
    check_padding(&map, &header.layout)?;
    let id = circuit_id(&header.counts, &header.hashes);
    if id != header.id {
        return Err(FileError::malformed(layout::HEADER, 88, "the circuit id", &hex(&header.id), &hex(&id)));
    }

    let sections = Sections { map: &map, layout: &header.layout };
    let counts = &header.counts;
    let coefficients = sections.store(Section::Coefficients)?;
    check::table(&header.layout, &coefficients)?;
    let a = sections.matrix(counts, 'A', counts.a)?;
    let b = sections.matrix(counts, 'B', counts.b)?;
    let c = counts.c.map(|entries| sections.matrix(counts, 'C', entries)).transpose()?;
    for (name, matrix) in [('A', Some(&a)), ('B', Some(&b)), ('C', c.as_ref())] {
        if let Some(matrix) = matrix {
            check::matrix(&header.layout, counts, name, matrix)?;
        }
    }
    check::input_rows(&header.layout, counts, &a)?;
    let matrices: Vec<&Matrix> = [&a, &b].into_iter().chain(&c).collect();
    check::usage(&header.layout, &coefficients, &matrices)?;
    let (inputs, aux) = (counts.inputs as usize, counts.aux as usize);
    Ok(Circuit::from_parts(inputs, aux, coefficients, a, b, c).with_id(id))
}

/// Every section is what was written.
fn check_hashes(file: &[u8], header: &Header) -> Result<(), FileError> {
    for (placed, wanted) in header.layout.sections.iter().zip(&header.hashes) {
        // The header's reader has checked the sections against the file's length.
        let bytes = &file[placed.offset as usize..(placed.offset + placed.length) as usize];
        let found = SectionHash::of(placed.section, bytes);
        if found != *wanted {
            let (found, wanted) = (hex(&found.hash), hex(&wanted.hash));
            let name = placed.section.name();
            return Err(FileError::malformed(name, placed.offset, "the BLAKE3 hash", &found, &wanted));
        }
    }
    Ok(())
}

/// The gaps between sections are zero.
fn check_padding(file: &[u8], layout: &Layout) -> Result<(), FileError> {
    let mut at = layout.header;
    for Placed { offset, length, section, .. } in &layout.sections {
        let gap = &file[at as usize..*offset as usize];
        if let Some(i) = gap.iter().position(|byte| *byte != 0) {
            let what = "a byte of the padding before the section";
            return Err(FileError::malformed(section.name(), at + i as u64, what, &gap[i], &0));
        }
        at = offset + length;
    }
    Ok(())
}

/// The mapped sections of a file whose header has been checked.
struct Sections<'a> {
    map: &'a Arc<Mmap>,
    layout: &'a Layout,
}

impl Sections<'_> {
    fn store<T: Plain>(&self, section: Section) -> Result<Store<T>, FileError> {
        let placed = self.layout.sections.iter().find(|placed| placed.section == section);
        let slice =
            placed.and_then(|p| MappedSlice::new(self.map, p.offset, p.length / size_of::<T>() as u64));
        let missing = || FileError::malformed(section.name(), 0, "the section", &"not mapped", &"mapped");
        Ok(Store::Mapped(slice.ok_or_else(missing)?))
    }

    fn matrix(&self, counts: &Counts, name: char, entries: u64) -> Result<Matrix, FileError> {
        let offsets = Section::Matrix(name, Part::Offsets);
        let indices = Section::Matrix(name, Part::Indices);
        Ok(Matrix {
            offsets: match Offsets::narrow(entries) {
                true => Offsets::U32(self.store(offsets)?),
                false => Offsets::U64(self.store(offsets)?),
            },
            columns: self.store(Section::Matrix(name, Part::Columns))?,
            indices: match Indices::narrow(counts.coefficients) {
                true => Indices::U16(self.store(indices)?),
                false => Indices::U32(self.store(indices)?),
            },
            width: (counts.inputs + counts.aux) as usize,
        })
    }
}
