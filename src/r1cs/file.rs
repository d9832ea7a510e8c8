//! The compiled circuit file (`.cuzk`): mapped and used in place.
use super::Circuit;
use std::path::Path;

pub fn write(_circuit: &Circuit, _path: &Path) -> Result<(), FileError> {
    todo!()
}
/// Maps the file, checks everything (header, checksum, offsets monotone, columns and coefficient indices in range).
pub fn open(_path: &Path) -> Result<Circuit, FileError> {
    todo!()
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
}
