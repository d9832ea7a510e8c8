//! snarkjs JSON: proof.json, verification_key.json, public.json.
use super::FormatError;
use crate::{
    algebra::Canonical,
    groth16::{Proof, VerifyingKey},
};
pub fn proof_to_json(_p: &Proof) -> String {
    todo!()
}
pub fn proof_from_json(_s: &str) -> Result<Proof, FormatError> {
    todo!()
}
pub fn vk_to_json(_vk: &VerifyingKey) -> String {
    todo!()
}
pub fn vk_from_json(_s: &str) -> Result<VerifyingKey, FormatError> {
    todo!()
}
pub fn public_to_json(_inputs: &[Canonical]) -> String {
    todo!()
}
pub fn public_from_json(_s: &str) -> Result<Vec<Canonical>, FormatError> {
    todo!()
}
