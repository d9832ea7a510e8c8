//! Opening a circuit and its proving key from files in any of the formats that are read, told apart
//! by their first bytes. The key's points are not validated here: see [`crate::formats::validated`].
use super::CircuitDefinition;
use crate::{
    formats::{self, FormatError},
    groth16::{KeyError, ProvingKey},
    r1cs::{self, Circuit},
};
use std::{
    fs::File,
    io::{self, Read},
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
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of another tool is not what it should be.
    #[error("{}: {source}", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: FormatError,
    },
    /// A compiled circuit file is not what it should be.
    #[error("{}: {source}", path.display())]
    Circuit {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: r1cs::file::FileError,
    },
    /// The key is another circuit's.
    #[error("{} is not a key of this circuit: {source}", path.display())]
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
    /// A zkey holds its circuit; a second one could only contradict it.
    #[error("{}: a .zkey holds its circuit, wanted no circuit file beside it, found {}", path.display(), circuit.display())]
    CircuitUnwanted {
        /// The key file.
        path: PathBuf,
        /// The circuit file that was named.
        circuit: PathBuf,
    },
}

/// The first four bytes of a file, or fewer where it has fewer.
fn magic(path: &Path) -> Result<Vec<u8>, MaterialError> {
    let failed = |source| MaterialError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::with_capacity(4);
    File::open(path).and_then(|f| f.take(4).read_to_end(&mut bytes)).map_err(failed)?;
    Ok(bytes)
}

/// Whether the file is a snarkjs `.zkey`; other keys are bellman's, which have no magic (and can never
/// begin with this one: it would be a coordinate above the field's modulus).
fn is_zkey(path: &Path) -> Result<bool, MaterialError> {
    Ok(magic(path)? == b"zkey")
}

/// Opens a circuit: iden3 `.r1cs`, `.zkey` or our own `.cuzk`.
///
/// # Errors
/// [`MaterialError`], naming the file.
pub fn open_circuit(path: &Path) -> Result<Circuit, MaterialError> {
    let format = |source| MaterialError::Format { path: path.to_owned(), source };
    match &magic(path)?[..] {
        b"r1cs" => formats::iden3_r1cs::read(path).map_err(format),
        b"zkey" => Ok(formats::zkey::open(path).map_err(format)?.1),
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

    /// Opens a key and its circuit and checks their counts against each other.
    ///
    /// # Errors
    /// [`MaterialError`], naming the file at fault.
    pub fn open(key: &Path, circuit: Option<&Path>) -> Result<Self, MaterialError> {
        let format = |source| MaterialError::Format { path: key.to_owned(), source };
        let (key_read, circuit) = match (is_zkey(key)?, circuit) {
            (true, None) => formats::zkey::open(key).map_err(format)?,
            (true, Some(circuit)) => {
                return Err(MaterialError::CircuitUnwanted {
                    path: key.to_owned(),
                    circuit: circuit.to_owned(),
                });
            }
            (false, None) => return Err(MaterialError::CircuitMissing { path: key.to_owned() }),
            (false, Some(circuit)) => {
                let circuit = open_circuit(circuit)?;
                (formats::bellman::open_params(key, &circuit).map_err(format)?, circuit)
            }
        };
        key_read
            .check_circuit(&circuit)
            .map_err(|source| MaterialError::Mismatch { path: key.to_owned(), source })?;
        Ok(Self { circuit, key: key_read })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_file_that_is_absent() {
        let absent = Path::new("/nonexistent/k.params");
        let error = Material::open(absent, Some(Path::new("/nonexistent/c.cuzk"))).err().unwrap();
        assert!(matches!(&error, MaterialError::Io { path, .. } if path == absent), "{error}");
    }

    #[test]
    fn a_zkey_stands_alone_and_other_keys_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let (zkey, params) = (dir.path().join("k.zkey"), dir.path().join("k.params"));
        std::fs::write(&zkey, b"zkey....").unwrap();
        std::fs::write(&params, b"\x01").unwrap();
        let other = Some(Path::new("c.cuzk"));
        assert!(matches!(Material::open(&zkey, other), Err(MaterialError::CircuitUnwanted { .. })));
        assert!(matches!(Material::open(&params, None), Err(MaterialError::CircuitMissing { .. })));
    }
}
