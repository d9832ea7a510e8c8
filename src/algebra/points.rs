//! Long point vectors of a key: owned in memory, or left in a mapped file in that file's encoding
//! and decoded tile by tile where they are used.
use super::{Curve, PointError};
use memmap2::Mmap;
use std::{ops::Range, sync::Arc};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointEncoding {
    /// bellman: big-endian canonical coordinates, flags in the first byte.
    ZcashUncompressed,
    /// snarkjs: little-endian Montgomery coordinates, infinity all zero.
    MontgomeryLe,
}

/// `len` points, wherever they are.
pub enum PointStore<C: Curve> {
    Owned(Vec<C::Affine>),
    Mapped { map: Arc<Mmap>, offset: usize, len: usize, encoding: PointEncoding },
}

impl<C: Curve> PointStore<C> {
    /// Checks that the range lies in the mapping (overflow included) before anything is read.
    pub fn mapped(_map: Arc<Mmap>, _offset: u64, _len: u64, _encoding: PointEncoding) -> Option<Self> {
        todo!()
    }
    pub fn len(&self) -> usize {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Decodes points `range` into `out` (cleared first). For a key that has been fully validated:
    /// checks coordinates only as far as memory safety and arithmetic need.
    pub fn read(&self, _range: Range<usize>, _out: &mut Vec<C::Affine>) {
        todo!()
    }
    /// Full validation, in parallel: encoding, curve, subgroup, and infinity unless allowed.
    /// The error carries the index of the first bad point.
    pub fn validate(&self, _allow_infinity: bool) -> Result<(), (usize, PointError)> {
        todo!()
    }
}
