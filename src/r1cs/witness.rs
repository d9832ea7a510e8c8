//! The witness vector z = (1, public inputs, auxiliary) in memory: its encodings and its writer.
use super::packed::PackedError;
use std::{marker::PhantomData, ptr::NonNull};

/// The scalar field's modulus r, little-endian limbs (the field itself needs the prover).
pub(crate) const MODULUS: [u64; 4] =
    [0xffff_ffff_0000_0001, 0x53bd_a402_fffe_5bfe, 0x3339_d808_09a1_d805, 0x73ed_a753_299d_7d48];

#[cfg(feature = "prover")]
const _: () = {
    let mut limb = 0;
    while limb < 4 {
        assert!(MODULUS[limb] == crate::algebra::fr::MODULUS[limb]);
        limb += 1;
    }
};

/// Bytes of one value in the canonical and Montgomery encodings.
pub const VALUE_BYTES: usize = 32;

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

/// What is wrong with a witness.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WitnessError {
    /// A value is not below r.
    #[error("value {index} of the witness is not below the field's modulus")]
    NotCanonical {
        /// Its index in z.
        index: u64,
    },
    /// z_0 is ONE.
    #[error("the witness begins with a value other than 1")]
    FirstNotOne,
    /// The memory does not have the size that the variables take.
    #[error("the witness has {found} bytes, wanted {wanted}")]
    Length {
        /// Bytes there are.
        found: u64,
        /// Bytes that the variables take.
        wanted: u64,
    },
    /// The circuit and the memory disagree about the number of variables.
    #[error("the circuit allocates {found} {kind} variables, wanted {wanted}")]
    Count {
        /// "input" (ONE included) or "auxiliary".
        kind: &'static str,
        /// Variables that the circuit allocates; where it was stopped, those so far.
        found: u64,
        /// Variables that the memory is for.
        wanted: u64,
    },
    /// A value that came before or after its turn, where values must come in order.
    #[error("{kind} variable {found} was written when it was the turn of {wanted}")]
    Order {
        /// "input" or "auxiliary".
        kind: &'static str,
        /// The variable that was written.
        found: u64,
        /// The next one.
        wanted: u64,
    },
    /// The packed encoding is malformed.
    #[error("the packed witness is malformed: {0}")]
    PackedInvalid(#[from] PackedError),
    /// Its bytes cannot be copied.
    #[error("the witness cannot be read: {reason}")]
    Unreadable {
        /// What the system said.
        reason: String,
    },
}

/// Whether a little-endian integer is below r.
pub(crate) fn is_canonical(value: &[u8; VALUE_BYTES]) -> bool {
    for (limb, modulus) in value.as_chunks::<8>().0.iter().zip(MODULUS).rev() {
        match u64::from_le_bytes(*limb).cmp(&modulus) {
            std::cmp::Ordering::Less => return true,
            std::cmp::Ordering::Greater => return false,
            std::cmp::Ordering::Equal => (),
        }
    }
    false
}

/// 1, little-endian.
pub(crate) const ONE_BYTES: [u8; VALUE_BYTES] = {
    let mut one = [0; VALUE_BYTES];
    one[0] = 1;
    one
};

/// Where a witness goes, value by value: the inputs in order and the auxiliary variables in order,
/// interleaved in any way, each 32 little-endian bytes of an integer below r.
pub trait WitnessSink: Send {
    /// Public inputs with ONE.
    fn num_inputs(&self) -> usize;
    /// Auxiliary variables.
    fn num_aux(&self) -> usize;
    /// Takes input i; input 0 is ONE.
    ///
    /// # Errors
    /// [`WitnessError::Count`] for an input that the witness does not have,
    /// [`WitnessError::NotCanonical`] for a value not below r, [`WitnessError::FirstNotOne`] for
    /// another ONE than 1.
    fn set_input(&mut self, i: usize, canonical_le: &[u8; 32]) -> Result<(), WitnessError>;
    /// Takes auxiliary variable i.
    ///
    /// # Errors
    /// [`WitnessError::Count`] for a variable that the witness does not have,
    /// [`WitnessError::NotCanonical`] for a value not below r.
    fn set_aux(&mut self, i: usize, canonical_le: &[u8; 32]) -> Result<(), WitnessError>;
}

/// Memory to write a witness into: `num_inputs + num_aux` slots of 32 bytes in the canonical
/// encoding, which another process may share: it is written through raw pointers and never read.
pub struct WitnessRegion<'a> {
    base: NonNull<u8>,
    num_inputs: usize,
    num_aux: usize,
    _memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: a region is the only writer of its memory on this side, like `&mut [u8]`, which is Send.
unsafe impl Send for WitnessRegion<'_> {}

impl<'a> WitnessRegion<'a> {
    /// Bytes of a region for so many variables; None where they pass the address space.
    pub fn bytes(num_inputs: usize, num_aux: usize) -> Option<usize> {
        num_inputs.checked_add(num_aux)?.checked_mul(VALUE_BYTES).filter(|&b| isize::try_from(b).is_ok())
    }

    /// A region over private memory, which must have exactly the bytes that the variables take.
    pub fn from_slice(memory: &'a mut [u8], num_inputs: usize, num_aux: usize) -> Result<Self, WitnessError> {
        let found = memory.len() as u64;
        match Self::bytes(num_inputs, num_aux) {
            Some(bytes) if bytes == memory.len() => (),
            wanted => {
                return Err(WitnessError::Length { found, wanted: wanted.map_or(u64::MAX, |w| w as u64) });
            }
        }
        let base = NonNull::from(memory).cast();
        Ok(Self { base, num_inputs, num_aux, _memory: PhantomData })
    }

    /// A region over memory that may be shared with another process.
    ///
    /// # Safety
    /// `base` is valid for writes of 32 · (num_inputs + num_aux) bytes for 'a, and nothing else in this
    /// process uses those bytes meanwhile.
    pub unsafe fn from_raw(base: NonNull<u8>, num_inputs: usize, num_aux: usize) -> Self {
        Self { base, num_inputs, num_aux, _memory: PhantomData }
    }

    /// Public inputs with ONE.
    pub fn num_inputs(&self) -> usize {
        self.num_inputs
    }

    /// Auxiliary variables.
    pub fn num_aux(&self) -> usize {
        self.num_aux
    }

    /// Writes input i; input 0 is ONE.
    ///
    /// # Errors
    /// [`WitnessError::Count`] for an input that the region does not have,
    /// [`WitnessError::NotCanonical`] for a value not below r, [`WitnessError::FirstNotOne`] for
    /// another ONE than 1.
    pub fn set_input(&mut self, i: usize, canonical_le: &[u8; 32]) -> Result<(), WitnessError> {
        check_index("input", i, self.num_inputs)?;
        if i == 0 && *canonical_le != ONE_BYTES {
            return Err(WitnessError::FirstNotOne);
        }
        self.write(i, canonical_le)
    }

    /// Writes auxiliary variable i.
    ///
    /// # Errors
    /// [`WitnessError::Count`] for a variable that the region does not have,
    /// [`WitnessError::NotCanonical`] for a value not below r.
    pub fn set_aux(&mut self, i: usize, canonical_le: &[u8; 32]) -> Result<(), WitnessError> {
        check_index("auxiliary", i, self.num_aux)?;
        self.write(self.num_inputs + i, canonical_le)
    }

    /// Writes z_index for an index that has been checked.
    fn write(&mut self, index: usize, value: &[u8; VALUE_BYTES]) -> Result<(), WitnessError> {
        if !is_canonical(value) {
            return Err(WitnessError::NotCanonical { index: index as u64 });
        }
        // SAFETY: index < num_inputs + num_aux, for so many slots the memory is valid for writes
        // (`from_slice`, `from_raw`); a slice on the stack does not overlap it.
        unsafe {
            let slot = self.base.as_ptr().add(index * VALUE_BYTES);
            slot.copy_from_nonoverlapping(value.as_ptr(), VALUE_BYTES);
        }
        Ok(())
    }
}

impl WitnessSink for WitnessRegion<'_> {
    fn num_inputs(&self) -> usize {
        self.num_inputs
    }
    fn num_aux(&self) -> usize {
        self.num_aux
    }
    fn set_input(&mut self, i: usize, canonical_le: &[u8; 32]) -> Result<(), WitnessError> {
        Self::set_input(self, i, canonical_le)
    }
    fn set_aux(&mut self, i: usize, canonical_le: &[u8; 32]) -> Result<(), WitnessError> {
        Self::set_aux(self, i, canonical_le)
    }
}

pub(crate) fn check_index(kind: &'static str, i: usize, count: usize) -> Result<(), WitnessError> {
    if i < count {
        Ok(())
    } else {
        Err(WitnessError::Count { kind, found: i as u64 + 1, wanted: count as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(first: u8) -> [u8; 32] {
        let mut value = [0; 32];
        value[0] = first;
        value
    }

    fn modulus(less: u64) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (bytes, limb) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(MODULUS) {
            *bytes = limb.to_le_bytes();
        }
        bytes[0] -= less as u8;
        bytes
    }

    #[test]
    fn only_values_below_r_are_canonical() {
        let mut high = modulus(0);
        high[31] += 1;
        let mut middle = modulus(0);
        middle[16] += 1;
        let mut lower = modulus(0);
        lower[16] -= 1;
        for (value, canonical) in [
            ([0; 32], true),
            (modulus(1), true),
            (lower, true),
            (modulus(0), false),
            (middle, false),
            (high, false),
            ([0xff; 32], false),
        ] {
            assert_eq!(is_canonical(&value), canonical, "{value:x?}");
        }
    }

    #[test]
    fn regions_write_their_slots_and_nothing_else() {
        let mut memory = [0xaa; 32 * 5];
        let mut region = WitnessRegion::from_slice(&mut memory, 2, 3).unwrap();
        assert_eq!((region.num_inputs(), region.num_aux()), (2, 3));
        region.set_aux(2, &value(9)).unwrap();
        region.set_input(0, &value(1)).unwrap();
        region.set_aux(0, &modulus(1)).unwrap();
        let count = |kind, found, wanted| Err(WitnessError::Count { kind, found, wanted });
        assert_eq!(region.set_input(2, &value(1)), count("input", 3, 2));
        assert_eq!(region.set_aux(3, &value(1)), count("auxiliary", 4, 3));
        assert_eq!(region.set_input(0, &value(2)), Err(WitnessError::FirstNotOne));
        assert_eq!(region.set_input(1, &modulus(0)), Err(WitnessError::NotCanonical { index: 1 }));
        assert_eq!(region.set_aux(1, &[0xff; 32]), Err(WitnessError::NotCanonical { index: 3 }));
        let untouched = [0xaa; 32];
        assert_eq!(memory.as_chunks::<32>().0, [value(1), untouched, modulus(1), untouched, value(9)]);
    }

    #[test]
    fn regions_have_the_bytes_of_their_variables() {
        for length in [0, 63, 65, 96] {
            let mut memory = vec![0; length];
            let error = WitnessRegion::from_slice(&mut memory, 1, 1).err();
            assert_eq!(error, Some(WitnessError::Length { found: length as u64, wanted: 64 }));
        }
        for (inputs, aux) in [(usize::MAX, 1), (1 << 58, 0), (1 << 59, 0)] {
            assert_eq!(WitnessRegion::bytes(inputs, aux), None, "{inputs} {aux}");
            assert!(WitnessRegion::from_slice(&mut [], inputs, aux).is_err());
        }
        assert_eq!(WitnessRegion::bytes(8, 100), Some(32 * 108));
    }
}
