//! Opening a circuit and its proving key from files in any of the formats that are read, told apart
//! by their first bytes. The key's points are not validated here: see [`crate::formats::validated`].
use super::CircuitDefinition;
use crate::{
    algebra::{Fr, PointStore},
    files::open_regular,
    formats::{self, Defect, FormatError},
    groth16::{KeyError, ProvingKey},
    r1cs::{self, Circuit, Matrix},
};
use std::{
    io::Read,
    path::{Path, PathBuf},
};

/// A circuit and a key that fits it, as far as counts tell.
pub struct Material {
    /// The circuit.
    pub circuit: Circuit,
    /// Its proving key.
    pub key: ProvingKey,
}

/// Why a circuit or its key cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MaterialError {
    /// A file cannot be read, or is not what its format demands; the message names it.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A compiled circuit file is not what it should be.
    #[error("{}: {source}", path.display())]
    Circuit {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: r1cs::file::FileError,
    },
    /// The key is another circuit's: its own counts are of another size.
    #[error("not a key of this circuit: {0}")]
    Counts(#[source] FormatError),
    /// The key is another circuit's.
    #[error("{}: not a key of this circuit: {source}", path.display())]
    Mismatch {
        /// The key file.
        path: PathBuf,
        /// The first count that differs.
        source: KeyError,
    },
    /// A bellman key needs its circuit from another file.
    #[error("{}: this key format holds no circuit, wanted a .cuzk or .r1cs file beside it", path.display())]
    CircuitMissing {
        /// The key file.
        path: PathBuf,
    },
    /// The circuit file beside a zkey, which holds its circuit's A and B, is another circuit's.
    #[error("{} is a key of another circuit: row {row} of matrix {matrix} differs from {}", path.display(), circuit.display())]
    Differs {
        /// The key file.
        path: PathBuf,
        /// The circuit file.
        circuit: PathBuf,
        /// 'A' or 'B'.
        matrix: char,
        /// The first row that differs.
        row: usize,
    },
}

/// What a file is, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// snarkjs: a key with its circuit.
    Zkey,
    /// iden3: a circuit.
    R1cs,
    /// iden3: a witness.
    Wtns,
    /// Our own compiled circuit.
    Cuzk,
    /// bellman and bellperson: a key. It has no magic: this is what everything else is taken for. (No key
    /// begins like one of the others: that would be a coordinate above the field's modulus.)
    Params,
}

impl FileKind {
    /// The kind of the file at `path`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(path: &Path) -> Result<Self, FormatError> {
        let mut start = Vec::with_capacity(8);
        let read = open_regular(path).and_then(|f| f.take(8).read_to_end(&mut start));
        read.map_err(FormatError::io(path))?;
        Ok(match &start[..] {
            [b'z', b'k', b'e', b'y', ..] => Self::Zkey,
            [b'r', b'1', b'c', b's', ..] => Self::R1cs,
            [b'w', b't', b'n', b's', ..] => Self::Wtns,
            [b'c', b'u', b'z', b'k', ..] => Self::Cuzk,
            _ => Self::Params,
        })
    }
}

/// Opens a circuit: iden3 `.r1cs`, `.zkey` or our own `.cuzk`.
///
/// # Errors
/// [`MaterialError`], naming the file.
pub fn open_circuit(path: &Path) -> Result<Circuit, MaterialError> {
    match FileKind::of(path)? {
        FileKind::R1cs => Ok(formats::iden3_r1cs::read(path)?),
        FileKind::Zkey => Ok(formats::zkey::open(path)?.1),
        // Ours says best what is wrong with a file that is none.
        _ => {
            r1cs::file::open(path).map_err(|source| MaterialError::Circuit { path: path.to_owned(), source })
        }
    }
}

impl Material {
    /// Opens what a definition names.
    ///
    /// # Errors
    /// As [`Material::open`].
    pub fn from_definition(definition: &CircuitDefinition) -> Result<Self, MaterialError> {
        Self::open(&definition.key, definition.circuit.as_deref())
    }

    /// Opens a key and its circuit and checks them against each other. A zkey holds matrices A and B and
    /// needs no circuit file; with one, C is known too, and a failure can be explained.
    ///
    /// # Errors
    /// [`MaterialError`], naming the file at fault.
    pub fn open(key: &Path, circuit: Option<&Path>) -> Result<Self, MaterialError> {
        let material = match (FileKind::of(key)?, circuit) {
            (FileKind::Zkey, None) => Self::open_zkey(key)?,
            (FileKind::Zkey, Some(path)) => {
                let inside = Self::open_zkey(key)?;
                let circuit = open_circuit(path)?;
                if let Some((matrix, row)) = first_difference(&inside.circuit, &circuit) {
                    let (path, circuit) = (key.to_owned(), path.to_owned());
                    return Err(MaterialError::Differs { path, circuit, matrix, row });
                }
                Self { circuit, key: inside.key }
            }
            (_, None) => return Err(MaterialError::CircuitMissing { path: key.to_owned() }),
            (_, Some(circuit)) => {
                let circuit = open_circuit(circuit)?;
                // A file that is cut says so otherwise; a count that differs is another circuit's.
                let opened = formats::bellman::open_params(key, &circuit).map_err(|e| match e.place() {
                    Some((_, _, Defect::Count { .. })) => MaterialError::Counts(e),
                    _ => e.into(),
                });
                Self { key: opened?, circuit }
            }
        };
        let checked = material.key.check_circuit(&material.circuit);
        checked.map_err(|source| MaterialError::Mismatch { path: key.to_owned(), source })?;
        Ok(material)
    }

    /// As [`key_bytes`].
    pub fn key_bytes(&self) -> u64 {
        key_bytes(&self.key)
    }

    fn open_zkey(path: &Path) -> Result<Self, MaterialError> {
        let (key, circuit) = formats::zkey::open(path)?;
        Ok(Self { circuit, key })
    }
}

/// Bytes of a key's file that stay mapped.
pub fn key_bytes(key: &ProvingKey) -> u64 {
    match &key.h {
        PointStore::Mapped { map, .. } => map.len() as u64,
        PointStore::Owned(_) => 0,
    }
}

/// The first row in which A or B of two circuits differ.
fn first_difference(x: &Circuit, y: &Circuit) -> Option<(char, usize)> {
    let values = |circuit: &Circuit, matrix: &Matrix, row: usize| -> Vec<(u32, Fr)> {
        let coefficient = |(column, i): (u32, u32)| (column, circuit.coefficients()[i as usize]);
        matrix.row(row).map(coefficient).collect()
    };
    let differs = |a: &Matrix, b: &Matrix| {
        (0..a.rows().max(b.rows())).find(|&row| values(x, a, row) != values(y, b, row))
    };
    differs(x.a(), y.a()).map(|row| ('A', row)).or_else(|| differs(x.b(), y.b()).map(|row| ('B', row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_file_that_is_absent() {
        let absent = Path::new("/nonexistent/k.params");
        let error = Material::open(absent, Some(Path::new("/nonexistent/c.cuzk"))).err().unwrap();
        assert!(error.to_string().contains("/nonexistent/k.params"), "{error}");
    }

    #[test]
    fn a_bellman_key_needs_a_circuit() {
        let dir = tempfile::tempdir().unwrap();
        let params = dir.path().join("k.params");
        std::fs::write(&params, b"\x01").unwrap();
        assert!(matches!(Material::open(&params, None), Err(MaterialError::CircuitMissing { .. })));
    }

    #[test]
    fn kinds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for (start, kind) in [
            ("zkey\x01", FileKind::Zkey),
            ("r1cs", FileKind::R1cs),
            ("wtns\0\0\0\0\0\0", FileKind::Wtns),
            ("zke", FileKind::Params),
            ("", FileKind::Params),
        ] {
            std::fs::write(&path, start).unwrap();
            assert_eq!(FileKind::of(&path).unwrap(), kind, "{start:?}");
        }
    }
}
