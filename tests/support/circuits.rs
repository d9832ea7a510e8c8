//! Circuits of any size with their keys on disk, and their witnesses.
#![allow(dead_code)]
use cuzk::{
    algebra::{Canonical, Fr},
    formats::bellman::write_params,
    groth16::{VerifyingKey, setup::insecure_setup},
    r1cs::{Circuit, CircuitBuilder, PackedWriter, WitnessSink, file},
};
use std::path::Path;

/// A chain of squares: x_0 is public, x_{i+1} = x_i^2 + 1, and the last is public too.
///
/// z = (1, x_0, x_n; x_1 … x_{n−1}), n ≥ 2.
pub struct Chain {
    /// Squarings.
    pub length: usize,
}

impl Chain {
    fn variable(&self, i: usize) -> u32 {
        match i {
            0 => 1,
            i if i == self.length => 2,
            i => 2 + i as u32,
        }
    }

    /// The circuit, with one constraint a squaring.
    pub fn circuit(&self) -> Circuit {
        let mut builder = CircuitBuilder::new(3, self.length - 1);
        let one = Fr::from_u64(1);
        for i in 0..self.length {
            let x = [(self.variable(i), one)];
            // x_i · x_i = x_{i+1} − 1
            builder.constraint(&x, &x, &[(self.variable(i + 1), one), (0, -one)]).unwrap();
        }
        builder.finish().unwrap()
    }

    /// The assignment that begins with `start`.
    pub fn witness(&self, start: u64) -> Vec<Canonical> {
        let mut z = vec![Canonical::ONE; self.length + 2];
        let mut x = Fr::from_u64(start);
        for i in 0..=self.length {
            z[self.variable(i) as usize] = x.to_canonical();
            x = x.square() + Fr::from_u64(1);
        }
        z
    }

    /// Writes the circuit and a key of its own, and returns the definition and the verifying key.
    pub fn write(&self, directory: &Path, name: &str) -> (String, VerifyingKey) {
        let circuit = self.circuit();
        let key = insecure_setup(&circuit, [7; 32]).unwrap();
        let (circuit_path, key_path) =
            (directory.join(format!("{name}.cuzk")), directory.join(format!("{name}.params")));
        file::write(&circuit, &circuit_path).unwrap();
        write_params(&key, &key_path).unwrap();
        let definition = format!("key = '{}'\ncircuit = '{}'\n", key_path.display(), circuit_path.display());
        (definition, key.vk)
    }
}

/// z in the canonical encoding.
pub fn canonical(z: &[Canonical]) -> Vec<u8> {
    z.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// z in the Montgomery encoding.
pub fn montgomery(z: &[Canonical]) -> Vec<u8> {
    let limbs = z.iter().flat_map(|value| Fr::from_canonical(*value).montgomery_limbs());
    limbs.flat_map(u64::to_le_bytes).collect()
}

/// z in the packed encoding, of a circuit with so many inputs, ONE included.
pub fn packed(z: &[Canonical], num_inputs: usize) -> Vec<u8> {
    let num_aux = z.len() - num_inputs;
    let mut bytes = vec![0; cuzk::r1cs::packed::max_bytes(num_inputs, num_aux).unwrap()];
    let mut writer = PackedWriter::from_slice(&mut bytes, num_inputs, num_aux).unwrap();
    for (i, value) in z.iter().enumerate() {
        match i.checked_sub(num_inputs) {
            None => writer.set_input(i, &value.to_le_bytes()).unwrap(),
            Some(i) => writer.set_aux(i, &value.to_le_bytes()).unwrap(),
        }
    }
    let length = writer.finish().unwrap();
    bytes.truncate(length as usize);
    bytes
}
