//! The CPU prover.
use super::{Proof, ProvingKey, Stage, Timeline};
use crate::{
    algebra::{CancelToken, Cancelled, Canonical, Fr},
    r1cs::Circuit,
};

/// The blinding scalars r and s. `from_os` is the only constructor outside the test interface.
pub struct Randomness {
    pub(super) r: Fr,
    pub(super) s: Fr,
}
impl Randomness {
    pub fn from_os() -> std::io::Result<Self> {
        todo!()
    }
    /// For tests that compare provers byte for byte; a proof with known r, s is not zero-knowledge.
    pub fn fixed_for_tests(_r: Fr, _s: Fr) -> Self {
        todo!()
    }
}
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProveError {
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    #[error("the witness has {found} values, wanted {wanted}")]
    Length { found: u64, wanted: u64 },
}
pub struct CpuProver;
impl CpuProver {
    /// `on_stage` is told when each stage begins (progress); spans go into `timeline`.
    pub fn prove(
        _circuit: &Circuit,
        _key: &ProvingKey,
        _z: &[Canonical],
        _randomness: Randomness,
        _cancel: &CancelToken,
        _timeline: &mut Timeline,
        _on_stage: &mut dyn FnMut(Stage),
    ) -> Result<Proof, ProveError> {
        todo!()
    }
}
