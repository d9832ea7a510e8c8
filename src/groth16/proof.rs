//! A proof, and a proof that the verifier has accepted: only the latter may leave the daemon.
use crate::algebra::{G1Affine, G2Affine, PointError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    pub a: G1Affine,
    pub b: G2Affine,
    pub c: G1Affine,
}
impl Proof {
    /// a ‖ b ‖ c, compressed Zcash encoding: 48 + 96 + 48 bytes, as bellman, Zcash and Filecoin use it.
    pub fn to_bytes(&self) -> [u8; 192] {
        todo!()
    }
    pub fn from_bytes(_b: &[u8; 192]) -> Result<Self, PointError> {
        todo!()
    }
}
/// Made by [`super::PreparedVerifyingKey::verify_owned`] alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedProof(pub(super) Proof);
impl VerifiedProof {
    pub fn proof(&self) -> &Proof {
        &self.0
    }
}
