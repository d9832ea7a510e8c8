//! Round trips, sizes, and hostile encodings.
use super::*;
use crate::{
    algebra::{Canonical, Fr, fr::MODULUS},
    r1cs::{WitnessEncoding, WitnessError, WitnessSink, decode_into},
};
use proptest::prelude::*;

/// z as it is, 1 first.
fn pack(z: &[Canonical], num_inputs: usize) -> Vec<u8> {
    let num_aux = z.len() - num_inputs;
    let mut memory = vec![0xaa; max_bytes(num_inputs, num_aux).unwrap()];
    let mut writer = PackedWriter::from_slice(&mut memory, num_inputs, num_aux).unwrap();
    for (i, value) in z[num_inputs..].iter().enumerate() {
        writer.set_aux(i, &value.to_le_bytes()).unwrap();
    }
    for (i, value) in z[..num_inputs].iter().enumerate() {
        writer.set_input(i, &value.to_le_bytes()).unwrap();
    }
    let length = writer.finish().unwrap();
    assert!(length as usize <= memory.len());
    memory.truncate(length as usize);
    memory
}

fn unpack(bytes: &[u8], num_inputs: usize, values: usize) -> Result<Vec<Canonical>, WitnessError> {
    let mut out = vec![Canonical::from_u64(7); values];
    decode_into(WitnessEncoding::Packed, &bytes, num_inputs, &mut out)?;
    Ok(out)
}

fn values() -> impl Strategy<Value = Canonical> {
    prop_oneof![
        6 => (0u64..2).prop_map(Canonical::from_u64),
        2 => any::<u64>().prop_map(Canonical::from_u64),
        1 => (2u64..300).prop_map(Canonical::from_u64),
        1 => any::<[u8; 32]>().prop_map(|b| {
            let mut wide = [0; 64];
            wide[..32].copy_from_slice(&b);
            Fr::from_wide_le_bytes(&wide).to_canonical()
        }),
        1 => Just((-Fr::ONE).to_canonical()),
        1 => (0u32..252).prop_map(|k| {
            let mut limbs = [0; 4];
            limbs[k as usize / 64] = 1 << (k % 64);
            Canonical::new(limbs).unwrap()
        }),
    ]
}

fn assignments() -> impl Strategy<Value = (Vec<Canonical>, usize)> {
    (prop::collection::vec(values(), 1..900), any::<prop::sample::Index>()).prop_map(|(mut z, inputs)| {
        z[0] = Canonical::ONE;
        let inputs = 1 + inputs.index(z.len());
        (z, inputs)
    })
}

/// All of one kind, with ONE in front.
fn uniform(value: Canonical, len: usize) -> Vec<Canonical> {
    let mut z = vec![value; len];
    z[0] = Canonical::ONE;
    z
}

#[test]
fn sizes_at_the_edges_of_blocks_round_trip() {
    let kinds = [0, 1, 2, u64::MAX].map(Canonical::from_u64).into_iter().chain([(-Fr::ONE).to_canonical()]);
    for value in kinds {
        for len in [1, 2, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1000] {
            for inputs in [1, 2, 255, 256, 257, len].into_iter().filter(|&i| i <= len) {
                let z = uniform(value, len);
                let bytes = pack(&z, inputs);
                assert!(bytes.len() <= max_bytes(inputs, len - inputs).unwrap());
                assert_eq!(unpack(&bytes, inputs, len).unwrap(), z, "{len} values, {inputs} inputs");
            }
        }
    }
}

/// The figures that docs/packed-witness.md states, per value: bytes against 32.
#[test]
fn sizes_are_the_documented_ones() {
    let len = 1 << 17;
    let ratio = |z: &[Canonical]| pack(z, 1).len() as f64 / (32 * z.len()) as f64;
    assert!((ratio(&uniform(Canonical::ONE, len)) - 0.0088).abs() < 0.0001);
    let dense = ratio(&uniform((-Fr::ONE).to_canonical(), len));
    assert!(dense < 1.009, "{dense}");
    let small = ratio(&uniform(Canonical::from_u64(2), len));
    assert!((small - 0.2588).abs() < 0.0001, "{small}");
    // 98.4 % bits, the rest whole, spread evenly or in runs of 256.
    let whole = (-Fr::ONE).to_canonical();
    for run in [1, 256] {
        let value = |i: usize| if (i / run * 16) % 1000 < 16 { whole } else { Canonical::ONE };
        let z: Vec<Canonical> = std::iter::once(Canonical::ONE).chain((1..len).map(value)).collect();
        let wholes = z.iter().filter(|v| **v == whole).count() as f64 / len as f64;
        assert!((wholes - 0.016).abs() < 0.002, "{wholes}");
        let ratio = ratio(&z);
        assert!((ratio - 0.0088 - wholes).abs() < 0.0001, "{ratio}");
    }
}

#[test]
fn writers_refuse_what_is_no_witness() {
    let mut memory = [0u8; 4096];
    let mut writer = PackedWriter::from_slice(&mut memory, 2, 300).unwrap();
    let one = Canonical::ONE.to_le_bytes();
    let mut modulus = [0; 32];
    for (bytes, limb) in modulus.as_chunks_mut::<8>().0.iter_mut().zip(MODULUS) {
        *bytes = limb.to_le_bytes();
    }
    let order = |kind, found, wanted| Err(WitnessError::Order { kind, found, wanted });
    let count = |kind, found, wanted| Err(WitnessError::Count { kind, found, wanted });
    assert_eq!(writer.set_input(0, &[0; 32]), Err(WitnessError::FirstNotOne));
    assert_eq!(writer.set_input(1, &one), order("input", 1, 0));
    assert_eq!(writer.set_input(0, &one), Ok(()));
    assert_eq!(writer.set_input(0, &one), order("input", 0, 1));
    assert_eq!(writer.set_input(1, &modulus), Err(WitnessError::NotCanonical { index: 1 }));
    assert_eq!(writer.set_input(2, &one), count("input", 3, 2));
    assert_eq!(writer.set_aux(1, &one), order("auxiliary", 1, 0));
    assert_eq!(writer.set_aux(0, &modulus), Err(WitnessError::NotCanonical { index: 2 }));
    assert_eq!(writer.set_aux(300, &one), count("auxiliary", 301, 300));
    for i in 0..299 {
        writer.set_aux(i, &one).unwrap();
    }
    assert_eq!(writer.set_input(1, &one), Ok(()));
    assert_eq!(writer.finish(), count("auxiliary", 299, 300).map(|()| 0));
}

#[test]
fn writers_stay_in_their_memory() {
    let z = uniform((-Fr::ONE).to_canonical(), 600);
    let whole = pack(&z, 1);
    for capacity in [0, HEADER_BYTES, 95, 96, 500, whole.len() - 1] {
        let mut memory = vec![0xaa; capacity + 64];
        let (inside, outside) = memory.split_at_mut(capacity);
        let refused = PackedWriter::from_slice(inside, 1, 599).and_then(|mut writer| {
            for (i, value) in z[1..].iter().enumerate() {
                writer.set_aux(i, &value.to_le_bytes())?;
            }
            writer.set_input(0, &z[0].to_le_bytes())?;
            writer.finish()
        });
        let found = capacity as u64;
        assert!(matches!(refused, Err(WitnessError::Length { found: f, .. }) if f == found), "{capacity}");
        assert!(outside.iter().all(|b| *b == 0xaa), "{capacity}");
    }
    assert!(max_bytes(usize::MAX, 1).is_none() && max_bytes(1, usize::MAX / 32).is_none());
}

/// Changes that each break one rule, and the error that says so. 1 input, 301 auxiliary variables: block 0
/// has 256 values, block 1 has 46; every seventh value is whole, every third of the rest small.
#[test]
fn malformed_encodings_are_refused_by_name() {
    let value = |i: usize| match i {
        _ if i.is_multiple_of(7) => -Fr::ONE,
        _ if i.is_multiple_of(3) => Fr::from_u64(99),
        _ => Fr::from_u64(i as u64 % 2),
    };
    let z: Vec<Canonical> =
        std::iter::once(Fr::ONE).chain((0..301).map(value)).map(Fr::to_canonical).collect();
    let bytes = pack(&z, 1);
    assert_eq!(unpack(&bytes, 1, 302).unwrap(), z);
    let directory: Vec<u64> =
        bytes[64..88].as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
    let (block0, block1, end) = (directory[0] as usize, directory[1] as usize, directory[2] as usize);
    assert_eq!((block0, end), (96, bytes.len()));

    let changed = |at: usize, new: &[u8]| {
        let mut changed = bytes.clone();
        changed[at..at + new.len()].copy_from_slice(new);
        match unpack(&changed, 1, 302) {
            Err(WitnessError::PackedInvalid(error)) => error,
            other => panic!("{:?} at {at}", other.map(|_| "unpacked")),
        }
    };
    let header = |field, found, wanted| PackedError::Header { field, found, wanted };
    let offset = |block, found, least, most| PackedError::Offset { block, found, least, most };
    assert!(matches!(changed(0, b"C"), PackedError::Header { field: "magic", .. }));
    assert_eq!(changed(8, &[2]), header("version", 2, 1));
    assert_eq!(changed(12, &[0, 2]), header("values of a block", 512, 256));
    assert_eq!(changed(16, &[2]), header("number of inputs", 2, 1));
    assert_eq!(changed(24, &[0]), header("number of auxiliary variables", 256, 301));
    assert_eq!(changed(32, &[0; 8]), header("length", 0, end as u64));
    for (at, field) in
        [(40, "first reserved field"), (55, "second reserved field"), (63, "third reserved field")]
    {
        assert!(matches!(changed(at, &[1]), PackedError::Header { field: f, .. } if f == field));
    }
    assert_eq!(changed(64, &64u64.to_le_bytes()), offset(0, 64, 96, 96));
    assert_eq!(changed(64, &u64::MAX.to_le_bytes()), offset(0, u64::MAX, 96, 96));
    let (least, most) = (96 + 64, (96 + MAX_BLOCK_BYTES).min(end) as u64);
    for found in [0, 96, 159, 161, most + 32, u64::MAX] {
        assert_eq!(changed(72, &found.to_le_bytes()), offset(1, found, least, most));
    }
    for found in [0, end as u64 - 32, end as u64 + 32, 1 << 63] {
        assert_eq!(changed(80, &found.to_le_bytes()), offset(2, found, end as u64, end as u64));
    }
    assert!(matches!(changed(88, &[1]), PackedError::Reserved { block: 0, .. }));

    let shorter = changed(72, &(block1 as u64 - 32).to_le_bytes());
    let (found, wanted) = ((block1 - block0 - 32) as u64, (block1 - block0) as u64);
    assert_eq!(shorter, PackedError::BlockLength { block: 0, found, wanted });
    let all_wide = changed(block0, &[0xff]);
    assert!(matches!(all_wide, PackedError::BlockLength { block: 0, .. }));
    for bitmap in [block1, block1 + 32] {
        // Value 46, the first beyond the last: a bit that changes no length, unless it is wide.
        let error = changed(bitmap + 5, &[bytes[bitmap + 5] | 1 << 6]);
        let beyond = PackedError::Reserved { block: 1, what: "the bits beyond the last value" };
        assert!(error == beyond || matches!(error, PackedError::BlockLength { block: 1, .. }), "{error}");
    }
    // Some padding there is: smalls take 8 bytes, blocks 32.
    let last = changed(end - 1, &[1]);
    assert_eq!(last, PackedError::Reserved { block: 1, what: "the bytes after the last value" });
    assert!(last.to_string().contains("block 1"));
}

#[test]
fn the_lowest_bad_value_is_named() {
    let mut z = uniform((-Fr::ONE).to_canonical(), 1024 + 40);
    let inputs = 30;
    z[5] = Canonical::ONE;
    let bytes = pack(&z, inputs);
    // Where value y of the encoded order lies: all are whole but ONE and z_5, which are the last block's.
    let place = |y: usize| {
        let at = 64 + 8 * (y / 256);
        let block = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        block + 64 + 32 * (y % 256)
    };
    let with_bad = |bad: &[usize], first: u8| {
        let mut changed = bytes.clone();
        for &y in bad {
            changed[place(y)..place(y) + 32].fill(0xff);
        }
        // The bit of z_0 in the last block: y = 1034, its 10th value.
        let at = 64 + 8 * 4;
        let block = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        let bit = 1 << (10 % 8);
        changed[block + 32 + 1] = (changed[block + 32 + 1] & !bit) | (first * bit);
        unpack(&changed, inputs, z.len()).unwrap_err()
    };
    let bad = |index| WitnessError::NotCanonical { index };
    assert_eq!(with_bad(&[], 0), WitnessError::FirstNotOne);
    // y = aux index below 1034, then inputs.
    assert_eq!(with_bad(&[700, 300], 1), bad(330));
    assert_eq!(with_bad(&[1030, 1023], 1), bad(1053));
    assert_eq!(with_bad(&[0, 700], 0), WitnessError::FirstNotOne);
    // z_1 … z_4 are the block's wholes 10 … 13 (ONE takes none): the last block's lowest in z.
    let z_1 = 1024 + 10;
    assert_eq!(with_bad(&[0, z_1 + 1, 1025], 1), bad(2));
}

/// A malformed block says nothing of the values in other blocks, and nothing of its own.
#[test]
fn a_malformed_block_leaves_the_others_alone() {
    // Block 0 holds 10 auxiliary variables and 246 inputs, z_0 among them; block 1 the other 154 inputs.
    let inputs = 400;
    let z = uniform(Canonical::from_u64(2), inputs + 10);
    let bytes = pack(&z, inputs);
    let block = |i: usize| u64::from_le_bytes(bytes[64 + 8 * i..72 + 8 * i].try_into().unwrap()) as usize;
    let z_0 = (block(0) + 1, 1u8 << 2);
    let wide = |changed: &mut Vec<u8>, block: usize| changed[block + 32..block + 64].fill(0xff);
    let length = |index| move |e: &WitnessError| matches!(e, WitnessError::PackedInvalid(PackedError::BlockLength { block, .. }) if *block == index);
    // The length of block 0 is wrong: of z_0 nothing is known, and block 1 is as it should be.
    let mut changed = bytes.clone();
    wide(&mut changed, block(0));
    let error = unpack(&changed, inputs, z.len()).unwrap_err();
    assert!(length(0)(&error), "{error}");
    // That of block 1, and z_0 is 0: its bit in V, like all of block 0's others, is not set in W.
    let mut changed = bytes.clone();
    wide(&mut changed, block(1));
    let error = unpack(&changed, inputs, z.len()).unwrap_err();
    assert!(length(1)(&error), "{error}");
    assert_eq!(changed[z_0.0] & z_0.1, 0);
    changed[z_0.0 + 32] &= !z_0.1;
    assert_eq!(unpack(&changed, inputs, z.len()), Err(WitnessError::FirstNotOne));
}

/// Whoever ignores a refusal is refused again, however often.
#[test]
fn a_refused_value_leaves_the_writer_as_it_was() {
    let whole = (-Fr::ONE).to_canonical().to_le_bytes();
    // Room for the directory and one block of three.
    let mut memory = vec![0; 96 + MAX_BLOCK_BYTES];
    let mut writer = PackedWriter::from_slice(&mut memory, 1, 700).unwrap();
    writer.set_input(0, &Canonical::ONE.to_le_bytes()).unwrap();
    for i in 0..511 {
        writer.set_aux(i, &whole).unwrap();
    }
    for _ in 0..700 {
        assert!(matches!(writer.set_aux(511, &whole), Err(WitnessError::Length { .. })));
        assert!(matches!(writer.set_aux(512, &whole), Err(WitnessError::Order { .. })));
    }
    let wrong = WitnessError::Count { kind: "auxiliary", found: 511, wanted: 700 };
    assert_eq!(writer.finish(), Err(wrong));
}

proptest! {
    #[test]
    fn packing_and_unpacking_is_the_identity((z, inputs) in assignments()) {
        let bytes = pack(&z, inputs);
        prop_assert!(bytes.len() <= max_bytes(inputs, z.len() - inputs).unwrap());
        prop_assert!(bytes.len().is_multiple_of(ALIGNMENT));
        prop_assert_eq!(unpack(&bytes, inputs, z.len()).unwrap(), z);
    }

    #[test]
    fn cut_encodings_are_refused((z, inputs) in assignments(), cut in any::<prop::sample::Index>()) {
        let bytes = pack(&z, inputs);
        prop_assert!(unpack(&bytes[..cut.index(bytes.len())], inputs, z.len()).is_err());
        let longer = [&bytes[..], &[0; 32]].concat();
        prop_assert!(unpack(&longer, inputs, z.len()).is_err());
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(
        bytes in prop::collection::vec(any::<u8>(), 1..2000),
        values in 1usize..600,
        inputs in any::<prop::sample::Index>(),
    ) {
        prop_assert!(unpack(&bytes, 1 + inputs.index(values), values).is_err());
    }

    /// Nearly right encodings: whatever decodes is canonical and begins with 1.
    #[test]
    fn changed_encodings_do_no_harm(
        (z, inputs) in assignments(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = pack(&z, inputs);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(out) = unpack(&bytes, inputs, z.len()) {
            prop_assert!(out.iter().all(|v| Canonical::new(v.limbs()).is_some()));
            prop_assert_eq!(out[0], Canonical::ONE);
        }
    }
}
