//! iden3 `.r1cs` (circom).
use super::FormatError;
use crate::r1cs::Circuit;
use std::path::Path;
pub fn read(_path: &Path) -> Result<Circuit, FormatError> {
    todo!()
}
