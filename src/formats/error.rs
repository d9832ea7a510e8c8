//! What can be wrong with a file: which file, which section, at which byte, what was found there and
//! what was wanted.
use crate::{algebra::PointError, groth16::KeyError, r1cs::circuit::CircuitError};
use std::path::{Path, PathBuf};

/// A file that could not be read or written, or whose content is not what its format demands.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The operating system's refusal.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory that was being worked on.
        path: PathBuf,
        /// The refusal.
        source: std::io::Error,
    },
    /// The content contradicts the format.
    #[error("{}{section}, byte {offset}: {defect}", prefix(file.as_deref()))]
    Malformed {
        /// The file, unless the bytes came without a name.
        file: Option<PathBuf>,
        /// The format's own name of the part.
        section: &'static str,
        /// Where the offending bytes begin, counted from the start of the file (of the text, for JSON).
        offset: u64,
        /// What is wrong there.
        defect: Defect,
    },
}

/// What is wrong with a place in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// The file or the section ends too early.
    #[error("{found} bytes are left, wanted {wanted}")]
    Truncated {
        /// Bytes from the offset to the end.
        found: u64,
        /// Bytes that the format or an earlier length field demands.
        wanted: u64,
    },
    /// Bytes follow where the file or the section should end.
    #[error("{found} bytes follow the end")]
    Trailing {
        /// How many.
        found: u64,
    },
    /// A count or length that contradicts the rest of the file or the circuit.
    #[error("{what} is {found}, wanted {wanted}")]
    Count {
        /// The counted thing.
        what: &'static str,
        /// The file's figure.
        found: u64,
        /// The figure that follows from everything else.
        wanted: u64,
    },
    /// An index beyond what it indexes.
    #[error("{what} is {found}, wanted one below {limit}")]
    Index {
        /// The index's role.
        what: &'static str,
        /// The file's figure.
        found: u64,
        /// The first figure that is too large.
        limit: u64,
    },
    /// A field with one or a few acceptable values holds another.
    #[error("{what} is {found}, wanted {wanted}")]
    Value {
        /// The field.
        what: &'static str,
        /// Its value, printed.
        found: String,
        /// The acceptable values, printed.
        wanted: String,
    },
    /// A section that must be there once is missing.
    #[error("the section is missing")]
    Missing,
    /// A section that must be there once is there again.
    #[error("the section appears again; it was first at byte {first}")]
    Duplicate {
        /// Where the first one begins.
        first: u64,
    },
    /// A scalar that is not below the scalar field's modulus.
    #[error("scalar {index} is {found}, wanted a value below the modulus r")]
    Scalar {
        /// Its place in the section.
        index: u64,
        /// Its value: hexadecimal from binary files, as written from text.
        found: String,
    },
    /// A point that is not acceptable.
    #[error("{group} point {index}: {error}, wanted a point of the subgroup")]
    Point {
        /// "G1" or "G2".
        group: &'static str,
        /// Its place in the section.
        index: u64,
        /// What is wrong with it.
        error: PointError,
    },
    /// The key does not fit the circuit.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The file's rows do not make a circuit.
    #[error(transparent)]
    Circuit(#[from] CircuitError),
    /// The text is not JSON, or not of the wanted shape.
    #[error("{found}, wanted {wanted}")]
    Json {
        /// What the parser says.
        found: String,
        /// The document that was expected.
        wanted: &'static str,
    },
}

impl FormatError {
    /// For `map_err`: an operating system error at `path`.
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// A defect in bytes that carry no file name (yet, see [`Self::in_file`]).
    pub fn malformed(section: &'static str, offset: u64, defect: Defect) -> Self {
        Self::Malformed { file: None, section, offset, defect }
    }

    /// Names the file where the error does not name one already.
    pub fn in_file(mut self, path: &Path) -> Self {
        if let Self::Malformed { file: file @ None, .. } = &mut self {
            *file = Some(path.to_owned());
        }
        self
    }

    /// Section, offset and defect, unless it is an operating system error.
    pub fn place(&self) -> Option<(&'static str, u64, &Defect)> {
        match self {
            Self::Io { .. } => None,
            Self::Malformed { section, offset, defect, .. } => Some((section, *offset, defect)),
        }
    }
}

fn prefix(file: Option<&Path>) -> String {
    file.map(|f| format!("{}: ", f.display())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_file_section_offset_found_and_wanted() {
        let error = FormatError::malformed("h", 868, Defect::Truncated { found: 95, wanted: 96 });
        assert_eq!(error.to_string(), "h, byte 868: 95 bytes are left, wanted 96");
        let error = error.in_file(Path::new("spend.params")).in_file(Path::new("other"));
        assert_eq!(error.to_string(), "spend.params: h, byte 868: 95 bytes are left, wanted 96");
        let refused = FormatError::io(Path::new("x"))(std::io::ErrorKind::NotFound.into());
        assert!(refused.to_string().starts_with("x: "), "{refused}");
        assert!(refused.place().is_none());
    }
}
