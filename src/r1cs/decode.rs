//! Reading a witness out of memory that another process may share: the one place that does.
//!
//! Whoever owns the memory may be hostile and may change it while it is read. Every byte is therefore
//! copied into private memory once and checked there; what a byte is later has no influence.
use super::{WitnessEncoding, WitnessError, packed, witness::VALUE_BYTES};
use crate::algebra::{Canonical, Fr};
use rayon::prelude::*;
use std::io;

/// Values that a parallel task copies at a time.
const VALUES_PER_TASK: usize = 512;

/// The bytes of an encoded witness, which another process may change while they are read.
pub trait WitnessBytes {
    /// How many there are.
    fn length(&self) -> usize;
    /// Copies bytes, as they are now, from `offset` on into private memory.
    ///
    /// # Errors
    /// The system's; that the bytes pass the end is one.
    fn copy(&self, offset: usize, into: &mut [u8]) -> io::Result<()>;
}

impl WitnessBytes for &[u8] {
    fn length(&self) -> usize {
        self.len()
    }
    fn copy(&self, offset: usize, into: &mut [u8]) -> io::Result<()> {
        let bytes = offset.checked_add(into.len()).and_then(|end| self.get(offset..end));
        into.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A copy whose failure is the witness's.
pub(super) fn copy(
    source: &(impl WitnessBytes + ?Sized),
    offset: usize,
    into: &mut [u8],
) -> Result<(), WitnessError> {
    source.copy(offset, into).map_err(|error| WitnessError::Unreadable { reason: error.to_string() })
}

/// Decodes a witness of any encoding into `out`, which has one place per variable of the circuit; in
/// parallel.
///
/// Every value in `out` is canonical afterwards, whatever the bytes' owner does. On an error the content
/// of `out` is of no use.
///
/// # Errors
/// The first of: [`WitnessError::Length`] and, for the packed encoding, errors in its header and directory;
/// then the error of the lowest index in z: [`WitnessError::FirstNotOne`] (of index 0),
/// [`WitnessError::NotCanonical`], and, taken at the first value that they concern, a malformed packed
/// block and [`WitnessError::Unreadable`] bytes. [`WitnessError::Count`] where `num_inputs` exceeds the
/// variables or is 0.
pub fn decode_into(
    encoding: WitnessEncoding,
    source: &(dyn WitnessBytes + Sync),
    num_inputs: usize,
    out: &mut [Canonical],
) -> Result<(), WitnessError> {
    if num_inputs == 0 || num_inputs > out.len() {
        let (found, wanted) = (num_inputs as u64, out.len() as u64);
        return Err(WitnessError::Count { kind: "input", found, wanted });
    }
    // Until something else stands there: of a z_0 that was not decoded nothing is said.
    out[0] = Canonical::ONE;
    let read = match encoding {
        WitnessEncoding::Canonical => decode_values(source, out, Canonical::from_le_bytes),
        WitnessEncoding::Montgomery => decode_values(source, out, from_montgomery_bytes),
        WitnessEncoding::Packed => packed::decode(source, num_inputs, out),
    };
    match read {
        Err(WitnessError::NotCanonical { index: 0 }) => read,
        _ if out[0] != Canonical::ONE => Err(WitnessError::FirstNotOne),
        _ => read,
    }
}

/// Values of 32 bytes each.
fn decode_values(
    source: &(dyn WitnessBytes + Sync),
    out: &mut [Canonical],
    decode: impl Fn(&[u8; VALUE_BYTES]) -> Option<Canonical> + Sync,
) -> Result<(), WitnessError> {
    match out.len().checked_mul(VALUE_BYTES) {
        Some(wanted) if wanted == source.length() => (),
        wanted => {
            let (found, wanted) = (source.length() as u64, wanted.map_or(u64::MAX, |w| w as u64));
            return Err(WitnessError::Length { found, wanted });
        }
    }
    let failures = out.par_chunks_mut(VALUES_PER_TASK).enumerate().filter_map(|(task, out)| {
        let first = task * VALUES_PER_TASK;
        let mut bytes = [[0; VALUE_BYTES]; VALUES_PER_TASK];
        let bytes = &mut bytes[..out.len()];
        if let Err(error) = copy(source, first * VALUE_BYTES, bytes.as_flattened_mut()) {
            return Some((first, error));
        }
        let mut bad = None;
        for (i, (out, bytes)) in out.iter_mut().zip(bytes.iter()).enumerate() {
            *out = decode(bytes).unwrap_or_else(|| {
                bad.get_or_insert(first + i);
                Canonical::ZERO
            });
        }
        bad.map(|index| (index, WitnessError::NotCanonical { index: index as u64 }))
    });
    match failures.min_by_key(|(index, _)| *index) {
        None => Ok(()),
        Some((_, error)) => Err(error),
    }
}

/// A value from its limbs times 2^256 mod r.
fn from_montgomery_bytes(bytes: &[u8; VALUE_BYTES]) -> Option<Canonical> {
    let mut limbs = [0; 4];
    for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_le_bytes(*bytes);
    }
    Fr::from_montgomery_limbs(limbs).map(Fr::to_canonical)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::fr::MODULUS;
    use proptest::prelude::*;

    fn decode(
        encoding: WitnessEncoding,
        bytes: &[u8],
        num_inputs: usize,
        values: usize,
    ) -> Result<Vec<Canonical>, WitnessError> {
        let mut out = vec![Canonical::from_u64(7); values];
        decode_into(encoding, &bytes, num_inputs, &mut out)?;
        Ok(out)
    }

    fn bytes_of_limbs(limbs: [u64; 4]) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (bytes, limb) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(limbs) {
            *bytes = limb.to_le_bytes();
        }
        bytes
    }

    fn encode(encoding: WitnessEncoding, z: &[Canonical]) -> Vec<u8> {
        let one = |value: &Canonical| match encoding {
            WitnessEncoding::Montgomery => bytes_of_limbs(Fr::from_canonical(*value).montgomery_limbs()),
            _ => value.to_le_bytes(),
        };
        z.iter().flat_map(one).collect()
    }

    const PLAIN: [WitnessEncoding; 2] = [WitnessEncoding::Canonical, WitnessEncoding::Montgomery];

    #[test]
    fn lengths_and_counts_are_checked() {
        for encoding in PLAIN {
            for length in [0, 31, 32, 63, 65, 96] {
                let error = decode(encoding, &vec![0; length], 1, 2).unwrap_err();
                assert_eq!(error, WitnessError::Length { found: length as u64, wanted: 64 });
            }
            for inputs in [0, 3] {
                let wanted = WitnessError::Count { kind: "input", found: inputs as u64, wanted: 2 };
                assert_eq!(decode(encoding, &[0; 64], inputs, 2), Err(wanted));
            }
        }
    }

    #[test]
    fn the_lowest_bad_value_is_named() {
        let below = |mut limbs: [u64; 4]| {
            limbs[0] -= 1;
            limbs
        };
        for encoding in PLAIN {
            for len in [1, 2, 511, 512, 513, 2000] {
                let mut z = vec![Canonical::from_u64(3); len];
                z[0] = Canonical::ONE;
                let right = encode(encoding, &z);
                assert_eq!(decode(encoding, &right, 1, len), Ok(z.clone()));
                let with = |bad: &[(usize, [u64; 4])]| {
                    let mut bytes = right.clone();
                    for &(i, limbs) in bad {
                        bytes[32 * i..32 * i + 32].copy_from_slice(&bytes_of_limbs(limbs));
                    }
                    decode(encoding, &bytes, 1, len).map(|z| z[len - 1])
                };
                let last = len - 1;
                let bad = |index: usize| Err(WitnessError::NotCanonical { index: index as u64 });
                assert_eq!(with(&[(last, MODULUS)]), bad(last));
                assert_eq!(with(&[(last, [u64::MAX; 4]), (len / 2, MODULUS)]), bad(len / 2));
                assert_eq!(with(&[(0, [0; 4])]), Err(WitnessError::FirstNotOne));
                if last > 0 {
                    assert_eq!(with(&[(0, [0; 4]), (last, MODULUS)]), Err(WitnessError::FirstNotOne));
                    assert_eq!(with(&[(0, MODULUS), (last, MODULUS)]), bad(0));
                    let largest = with(&[(last, below(MODULUS))]).unwrap();
                    let wanted = match encoding {
                        WitnessEncoding::Canonical => Canonical::new(below(MODULUS)).unwrap(),
                        _ => Fr::from_montgomery_limbs(below(MODULUS)).unwrap().to_canonical(),
                    };
                    assert_eq!(largest, wanted);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_become_canonical_values_or_errors(
            mut limbs in prop::collection::vec(any::<[u64; 4]>(), 1..80),
        ) {
            limbs[0] = [1, 0, 0, 0];
            let bytes: Vec<u8> = limbs.iter().flat_map(|l| bytes_of_limbs(*l)).collect();
            let wanted = limbs.iter().position(|l| Canonical::new(*l).is_none());
            match (decode(WitnessEncoding::Canonical, &bytes, 1, limbs.len()), wanted) {
                (Ok(z), None) => prop_assert_eq!(z.iter().map(|v| v.limbs()).collect::<Vec<_>>(), limbs),
                (found, Some(index)) => {
                    prop_assert_eq!(found, Err(WitnessError::NotCanonical { index: index as u64 }));
                }
                (Err(error), None) => return Err(TestCaseError::fail(error.to_string())),
            }
        }
    }
}
