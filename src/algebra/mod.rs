//! The arithmetic under Groth16 over BLS12-381: the scalar field, the two curve groups, evaluation
//! domains and multi-exponentiation, on blst and rayon.
mod base_field;
pub mod cancel;
pub mod curve;
pub mod domain;
pub mod encoding;
pub mod fr;
mod limbs;
pub mod msm;
pub mod points;
#[cfg(test)]
pub(crate) mod testing;

pub use base_field::BaseField;
pub use cancel::{CancelToken, Cancelled};
pub use curve::{Curve, G1, G1Affine, G1Projective, G2, G2Affine, G2Projective};
pub use domain::{Domain, TwoAdicRoot};
pub use encoding::{PointEncoding, PointError};
pub use fr::{Canonical, Fr};
pub use msm::msm;
pub use points::{PointStore, RawPoints};
