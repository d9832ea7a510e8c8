//! The canonical serialisation of a circuit, and the circuit id: BLAKE3 over it.
//!
//! The serialisation has sections: the coefficient table, then row offsets, columns and coefficient
//! indices of A, B and (where known) C, all little-endian. The table is (1, −1, then every other
//! coefficient in use once, ascending by the integer of its Montgomery form), 32 bytes of Montgomery
//! limbs each. Offsets are u32 where the matrix has fewer than 2^32 entries, else u64; indices are
//! u16 where the table has at most 2^16 coefficients, else u32; columns are u32 and ascend strictly
//! within a row. Hence equal rows serialise to equal bytes. A compiled circuit file holds exactly
//! these sections, so that its checksums give the id.

/// The numbers that fix the sections' lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Public inputs with ONE.
    pub(crate) inputs: u64,
    pub(crate) aux: u64,
    /// Rows without the input rows.
    pub(crate) constraints: u64,
    /// Length of the coefficient table.
    pub(crate) coefficients: u64,
    /// Entries of A (input rows included), B and C.
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) c: Option<u64>,
}

/// One of a matrix's three arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Offsets,
    Columns,
    Indices,
}

/// A section of the serialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Coefficients,
    Matrix(char, Part),
}

impl Section {
    /// The number that stands for the section in hashes and files.
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Coefficients => 1,
            Self::Matrix(name, part) => {
                let matrix = match name {
                    'A' => 1,
                    'B' => 2,
                    _ => 3,
                };
                let part = match part {
                    Part::Offsets => 0,
                    Part::Columns => 1,
                    Part::Indices => 2,
                };
                16 * matrix + part
            }
        }
    }

    /// The name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Coefficients => "coefficient table",
            Self::Matrix('A', Part::Offsets) => "row offsets of A",
            Self::Matrix('A', Part::Columns) => "columns of A",
            Self::Matrix('A', Part::Indices) => "coefficient indices of A",
            Self::Matrix('B', Part::Offsets) => "row offsets of B",
            Self::Matrix('B', Part::Columns) => "columns of B",
            Self::Matrix('B', Part::Indices) => "coefficient indices of B",
            Self::Matrix(_, Part::Offsets) => "row offsets of C",
            Self::Matrix(_, Part::Columns) => "columns of C",
            Self::Matrix(_, Part::Indices) => "coefficient indices of C",
        }
    }
}

/// BLAKE3 of one section's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SectionHash {
    pub(crate) section: Section,
    pub(crate) hash: [u8; 32],
}

impl SectionHash {
    /// Hashes in parallel.
    pub(crate) fn of(section: Section, bytes: &[u8]) -> Self {
        Self { section, hash: blake3::Hasher::new().update_rayon(bytes).finalize().into() }
    }
}

/// How input rows are represented: one row z_i · 0 = 0 per input after the circuit's own rows, stored
/// in A (bellman, bellperson, arkworks, snarkjs). The only convention so far.
pub(crate) const INPUT_ROWS_EXPLICIT: u32 = 1;

/// The id of the circuit with these numbers and sections.
pub(crate) fn circuit_id(counts: &Counts, sections: &[SectionHash]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("cuzk 2026-11 circuit id v1");
    hasher.update(&INPUT_ROWS_EXPLICIT.to_le_bytes());
    for count in [counts.inputs, counts.aux, counts.constraints, counts.coefficients] {
        hasher.update(&count.to_le_bytes());
    }
    for entries in [Some(counts.a), Some(counts.b), counts.c] {
        // Absent and empty differ: u64::MAX entries do not exist.
        hasher.update(&entries.unwrap_or(u64::MAX).to_le_bytes());
    }
    for section in sections {
        hasher.update(&section.section.code().to_le_bytes());
        hasher.update(&section.hash);
    }
    hasher.finalize().into()
}
