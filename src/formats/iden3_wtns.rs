//! iden3 `.wtns`.
use super::FormatError;
use crate::algebra::Canonical;
use std::path::Path;
pub fn read(_path: &Path) -> Result<Vec<Canonical>, FormatError> {
    todo!()
}
pub fn write(_z: &[Canonical], _path: &Path) -> Result<(), FormatError> {
    todo!()
}
