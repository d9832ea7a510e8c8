//! The witness vector z = (1, public inputs, auxiliary) in memory: its encodings and its writer.

/// How a witness is encoded in a lease or memfd (a field of `submit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WitnessEncoding {
    /// 32-byte little-endian integers below r.
    Canonical,
    /// 32-byte little-endian limbs of value · 2^256 mod r.
    Montgomery,
    /// Blocks of bits, small values and whole values (see `packed`).
    Packed,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WitnessError {
    #[error("value {index} of the witness is not below the field's modulus")]
    NotCanonical { index: u64 },
    #[error("the witness begins with a value other than 1")]
    FirstNotOne,
    #[error("the witness has {found} bytes, wanted {wanted}")]
    Length { found: u64, wanted: u64 },
    #[error("the circuit allocates {found} {kind} variables, wanted {wanted}")]
    Count { kind: &'static str, found: u64, wanted: u64 },
}

/// Memory to write a witness into: `num_inputs + num_aux` slots of 32 bytes that another process may
/// share, hence raw pointers only and no reads.
pub struct WitnessRegion<'a> {
    pub(crate) base: std::ptr::NonNull<u8>,
    pub(crate) num_inputs: usize,
    pub(crate) num_aux: usize,
    pub(crate) _memory: std::marker::PhantomData<&'a mut [u8]>,
}

impl<'a> WitnessRegion<'a> {
    pub fn from_slice(
        _memory: &'a mut [u8],
        _num_inputs: usize,
        _num_aux: usize,
    ) -> Result<Self, WitnessError> {
        todo!()
    }
    /// # Safety
    /// `base` is valid for writes of 32 · (num_inputs + num_aux) bytes for 'a.
    pub unsafe fn from_raw(_base: std::ptr::NonNull<u8>, _num_inputs: usize, _num_aux: usize) -> Self {
        todo!()
    }
    pub fn num_inputs(&self) -> usize {
        self.num_inputs
    }
    pub fn num_aux(&self) -> usize {
        self.num_aux
    }
    /// Input 0 is ONE.
    pub fn set_input(&mut self, _i: usize, _canonical_le: &[u8; 32]) -> Result<(), WitnessError> {
        todo!()
    }
    pub fn set_aux(&mut self, _i: usize, _canonical_le: &[u8; 32]) -> Result<(), WitnessError> {
        todo!()
    }
}
