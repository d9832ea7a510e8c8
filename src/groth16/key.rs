//! Proving and verifying keys, however they were stored.
use crate::{
    algebra::{G1, G1Affine, G2, G2Affine, PointStore, TwoAdicRoot},
    r1cs::Circuit,
};

#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey {
    pub alpha_g1: G1Affine,
    pub beta_g1: Option<G1Affine>,
    pub beta_g2: G2Affine,
    pub gamma_g2: G2Affine,
    pub delta_g1: Option<G1Affine>,
    pub delta_g2: G2Affine,
    /// One point per input, ONE included.
    pub ic: Vec<G1Affine>,
}

/// In which basis the key's H points expect the quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HBasis {
    /// bellman: tau^i t(tau)/delta, m − 1 points; scalars are h's coefficients.
    Monomial,
    /// snarkjs: m points; scalars are A·B − C on the odd coset.
    CosetLagrange,
}

/// One of the a, b₁, b₂ queries.
pub struct Query<C: crate::algebra::Curve> {
    pub points: PointStore<C>,
    /// Variable of each point; None: point i belongs to variable i (infinities kept).
    pub variables: Option<std::sync::Arc<[u32]>>,
}

pub struct ProvingKey {
    pub vk: VerifyingKey,
    pub beta_g1: G1Affine,
    pub delta_g1: G1Affine,
    pub h: PointStore<G1>,
    pub h_basis: HBasis,
    pub root: TwoAdicRoot,
    pub l: PointStore<G1>,
    pub a: Query<G1>,
    pub b_g1: Query<G1>,
    pub b_g2: Query<G2>,
    /// BLAKE3 of the key file.
    pub id: [u8; 32],
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    #[error("the key has {found} {query} points, the circuit wants {wanted}")]
    Count { query: &'static str, found: u64, wanted: u64 },
}

impl ProvingKey {
    /// Every count against the circuit: h, l, a, b, ic, domain.
    pub fn check_circuit(&self, _circuit: &Circuit) -> Result<(), KeyError> {
        todo!()
    }
}
