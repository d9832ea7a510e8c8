//! Writing a witness into a lease, in the encoding that the job is submitted with.
use super::{ClientError, Lease, Witness};
use crate::r1cs::{PackedWriter, WitnessEncoding, WitnessError, WitnessRegion, WitnessSink};

/// Where a witness is written: a lease, value by value, inputs and auxiliary variables each in order.
pub struct WitnessWriter<'a>(Encoder<'a>);

enum Encoder<'a> {
    /// Any order is good.
    Canonical(WitnessRegion<'a>),
    Packed(PackedWriter<'a>),
}

impl WitnessWriter<'_> {
    /// Public inputs with ONE.
    pub fn num_inputs(&self) -> usize {
        match &self.0 {
            Encoder::Canonical(region) => region.num_inputs(),
            Encoder::Packed(writer) => writer.num_inputs(),
        }
    }

    /// Auxiliary variables.
    pub fn num_aux(&self) -> usize {
        match &self.0 {
            Encoder::Canonical(region) => region.num_aux(),
            Encoder::Packed(writer) => writer.num_aux(),
        }
    }

    /// Writes input i, 32 little-endian bytes of an integer below r; input 0 is ONE.
    ///
    /// # Errors
    /// [`WitnessError::Count`], [`WitnessError::NotCanonical`], [`WitnessError::FirstNotOne`].
    pub fn set_input(&mut self, i: usize, canonical_le: &[u8; 32]) -> Result<(), WitnessError> {
        match &mut self.0 {
            Encoder::Canonical(region) => region.set_input(i, canonical_le),
            Encoder::Packed(writer) => writer.set_input(i, canonical_le),
        }
    }

    /// Writes auxiliary variable i, 32 little-endian bytes of an integer below r.
    ///
    /// # Errors
    /// [`WitnessError::Count`], [`WitnessError::NotCanonical`]; [`WitnessError::Length`] where the packed
    /// encoding does not fit the lease, which happens where few values are small.
    pub fn set_aux(&mut self, i: usize, canonical_le: &[u8; 32]) -> Result<(), WitnessError> {
        match &mut self.0 {
            Encoder::Canonical(region) => region.set_aux(i, canonical_le),
            Encoder::Packed(writer) => writer.set_aux(i, canonical_le),
        }
    }
}

impl WitnessSink for WitnessWriter<'_> {
    fn num_inputs(&self) -> usize {
        Self::num_inputs(self)
    }
    fn num_aux(&self) -> usize {
        Self::num_aux(self)
    }
    fn set_input(&mut self, i: usize, canonical_le: &[u8; 32]) -> Result<(), WitnessError> {
        Self::set_input(self, i, canonical_le)
    }
    fn set_aux(&mut self, i: usize, canonical_le: &[u8; 32]) -> Result<(), WitnessError> {
        Self::set_aux(self, i, canonical_le)
    }
}

impl Witness {
    /// A lease that `fill` writes a whole witness into, in the canonical or the packed encoding.
    pub(super) fn write<E>(
        mut lease: Lease,
        packed: bool,
        fill: impl FnOnce(&mut WitnessWriter<'_>) -> Result<(), E>,
    ) -> Result<Self, ClientError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let failed = |error: E| ClientError::Witness(error.into());
        if !packed {
            fill(&mut WitnessWriter(Encoder::Canonical(lease.region()))).map_err(failed)?;
            return Ok(Self::canonical(lease));
        }
        let encoding_failed = |error: WitnessError| ClientError::Witness(error.into());
        let mut writer = WitnessWriter(Encoder::Packed(lease.packed_writer().map_err(encoding_failed)?));
        fill(&mut writer).map_err(failed)?;
        let length = match writer.0 {
            Encoder::Packed(writer) => writer.finish().map_err(encoding_failed)?,
            Encoder::Canonical(_) => lease.bytes(),
        };
        Ok(Self::encoded(lease, WitnessEncoding::Packed, length))
    }
}
