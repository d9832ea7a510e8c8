//! The pairing check.
use super::{Proof, VerifiedProof, VerifyingKey};
use crate::algebra::Canonical;
pub struct PreparedVerifyingKey {/* vk, e(alpha, beta), … */}
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    #[error("{found} public inputs, the verifying key wants {wanted}")]
    Inputs { found: usize, wanted: usize },
    #[error("the proof does not verify")]
    Rejected,
}
impl PreparedVerifyingKey {
    pub fn new(_vk: &VerifyingKey) -> Self {
        todo!()
    }
    /// `inputs` without ONE.
    pub fn verify(&self, _proof: &Proof, _inputs: &[Canonical]) -> Result<VerifiedProof, VerifyError> {
        todo!()
    }
}
