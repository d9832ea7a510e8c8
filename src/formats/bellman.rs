//! bellman and bellperson `.params` and `.vk`.
use super::FormatError;
use crate::{
    groth16::{ProvingKey, VerifyingKey},
    r1cs::Circuit,
};
use std::path::Path;
/// Maps the file and checks its structure; the circuit gives the densities. Points are not validated here
/// (see `validated::load_key`).
pub fn open_params(_path: &Path, _circuit: &Circuit) -> Result<ProvingKey, FormatError> {
    todo!()
}
pub fn write_params(_key: &ProvingKey, _path: &Path) -> Result<(), FormatError> {
    todo!()
}
/// The verifying key at the head of a `.params`, or a `.vk`. Fully validated.
pub fn read_vk(_bytes: &[u8]) -> Result<VerifyingKey, FormatError> {
    todo!()
}
pub fn write_vk(_vk: &VerifyingKey) -> Vec<u8> {
    todo!()
}
