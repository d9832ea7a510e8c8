//! Evaluation domains: the 2^k-th roots of unity and the transforms over them and their odd coset.
use super::{CancelToken, Cancelled, Canonical};

/// Which primitive 2^32-th root of unity generates all smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwoAdicRoot {
    /// 7^((r-1)/2^32): bellman, bellperson, arkworks, blstrs.
    Seven,
    /// 5^((r-1)/2^32): snarkjs (ffjavascript takes the least non-residue).
    Five,
}

/// The domain of size 2^log_size.
pub struct Domain {
    pub log_size: u32,
    pub root: TwoAdicRoot,
}

impl Domain {
    /// The smallest domain with at least `rows` points; None above 2^32.
    pub fn for_rows(_rows: u64, _root: TwoAdicRoot) -> Option<Self> {
        todo!()
    }
    pub fn size(&self) -> usize {
        1 << self.log_size
    }
    /// Coefficients → values at w^0, w^1, … (in place, natural order both).
    pub fn fft(&self, _v: &mut [Canonical], _cancel: &CancelToken) -> Result<(), Cancelled> {
        todo!()
    }
    pub fn ifft(&self, _v: &mut [Canonical], _cancel: &CancelToken) -> Result<(), Cancelled> {
        todo!()
    }
    /// Coefficients → values on the odd coset (shift: a primitive 2m-th root, the square root of w
    /// that the same two-adic root generates).
    pub fn coset_fft(&self, _v: &mut [Canonical], _cancel: &CancelToken) -> Result<(), Cancelled> {
        todo!()
    }
    pub fn coset_ifft(&self, _v: &mut [Canonical], _cancel: &CancelToken) -> Result<(), Cancelled> {
        todo!()
    }
    /// Lagrange coefficients at tau (for the setup): L_0(tau), …
    pub fn lagrange_at(&self, _tau: super::Fr) -> Vec<super::Fr> {
        todo!()
    }
}
