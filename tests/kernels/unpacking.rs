//! What every device must do: unpack witnesses as the host does, and refuse those that the host refuses.
use crate::{
    proofs::circuits::packed,
    properties::{Backend, scalars},
};
use cuzk::{
    algebra::Canonical,
    gpu::{DeviceSlice, Queue, unpack},
    r1cs::{WitnessEncoding, WitnessError, decode_into, packed::max_bytes},
};

/// Packed witnesses of these kinds (see [`values_of`]), and those that break a rule of the encoding.
pub fn unpacking(queue: &(impl Backend + Queue), kinds: &[u64]) {
    for (num_inputs, values) in [(1, 1), (1, 2), (3, 31), (2, 256), (1, 257), (300, 300), (7, 1000)] {
        let most = max_bytes(num_inputs, values - num_inputs).unwrap();
        let case = Case {
            queue,
            num_inputs,
            encoded: queue.alloc(most + 64),
            z: queue.alloc(values),
            bad: queue.alloc(1),
        };
        for &kind in kinds {
            let z = values_of(kind, values);
            let good = packed(&z, num_inputs);
            assert_eq!(case.unpack(&good), Ok(z), "{num_inputs} of {values}, {kind}");
            // Everything up to the first block's bitmaps, and bytes all over the rest.
            let first_block = (64 + 8 * (values.div_ceil(256) + 1)).next_multiple_of(32);
            let rest = (first_block + 64..good.len()).step_by(good.len() / 50 + 1);
            let places = (0..first_block + 64).chain(rest).chain([good.len() - 1]);
            for place in places.filter(|&place| place < good.len()) {
                for byte in [good[place] ^ 1, good[place] ^ 0x80, 0xff] {
                    let mut bad = good.clone();
                    bad[place] = byte;
                    case.compare(&bad);
                }
            }
            for length in [0, 63, 64, first_block, good.len() - 1, good.len() - 32] {
                case.compare(&good[..length.min(good.len())]);
            }
            case.compare(&[&good[..], &[0; 32]].concat());
        }
        case.compare(&vec![0; most + 1]);
    }
}

struct Case<'q, Q> {
    queue: &'q Q,
    num_inputs: usize,
    encoded: DeviceSlice<u8>,
    z: DeviceSlice<Canonical>,
    bad: DeviceSlice<u64>,
}

impl<Q: Backend + Queue> Case<'_, Q> {
    fn unpack(&self, encoded: &[u8]) -> Result<Vec<Canonical>, WitnessError> {
        let bytes = self.encoded.slice(0..encoded.len()).unwrap();
        self.queue.write(bytes, encoded);
        // SAFETY: memory of the backend, for this alone.
        let fault = unsafe { unpack::unpack(self.queue, bytes, self.num_inputs, self.z, self.bad) };
        match fault.unwrap() {
            None => Ok(self.queue.read(self.z)),
            Some(fault) => Err(fault),
        }
    }

    fn compare(&self, encoded: &[u8]) {
        let mut z = vec![Canonical::ZERO; self.z.len()];
        let wanted = decode_into(WitnessEncoding::Packed, &encoded, self.num_inputs, &mut z).map(|()| z);
        let found = self.unpack(encoded);
        // The device's prover looks at z_0 afterwards.
        if wanted != Err(WitnessError::FirstNotOne) {
            assert_eq!(found, wanted);
        }
    }
}

/// 1, then bits, small values, whole ones, all of these, or zeros.
fn values_of(kind: u64, count: usize) -> Vec<Canonical> {
    let mut z = scalars(count, 77);
    for (i, value) in z.iter_mut().enumerate() {
        let low = value.limbs()[0];
        match (kind, i) {
            (_, 0) => *value = Canonical::ONE,
            (0, _) => *value = Canonical::from_u64(low % 2),
            (1, _) => *value = Canonical::from_u64(low),
            (3, _) if low % 3 == 0 => *value = Canonical::from_u64(low % 2),
            (3, _) if low % 3 == 1 => *value = Canonical::from_u64(low),
            (4, _) => *value = Canonical::ZERO,
            _ => {}
        }
    }
    z
}
