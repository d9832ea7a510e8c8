//! bellpepper-core circuits: their systems have traps of their own (witness generators that are given
//! slices to fill, extensible systems).
use bellpepper_core::{
    Circuit as Synthesize, ConstraintSystem, SynthesisError, boolean::AllocatedBit, num::AllocatedNum,
    test_cs::TestConstraintSystem,
};
use blstrs::Scalar;
use cuzk::{
    algebra::{CancelToken, Canonical, Fr},
    r1cs::{
        Circuit, WitnessRegion,
        recorder::{record_bellpepper, write_bellpepper_witness},
    },
};
use ff013::{Field, PrimeField};

/// Powers of a number, computed as gadgets that know witness generators do: values into slices where
/// there are slices, else variable by variable; the same variables either way.
#[derive(Clone)]
struct Powers {
    base: Option<Scalar>,
    count: usize,
}

impl Synthesize<Scalar> for Powers {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        assert!(!CS::is_extensible());
        let base = AllocatedNum::alloc(cs.namespace(|| "base"), || {
            self.base.ok_or(SynthesisError::AssignmentMissing)
        })?;
        for round in 0..self.count {
            let cs = &mut cs.namespace(|| format!("round {round}"));
            if cs.is_witness_generator() {
                // Two slices at once, and again before anything else happens.
                let value = self.base.ok_or(SynthesisError::AssignmentMissing)?;
                let (aux, inputs) = cs.allocate_empty(2, 0);
                assert_eq!((aux.len(), inputs.len()), (2, 0));
                aux[0] = value.square();
                aux[1] = value.square() * value;
                let (aux, inputs) = cs.allocate_empty(1, 1);
                aux[0] = value.square().square();
                inputs[0] = value.square().square() * value;
            } else {
                let square = base.square(cs.namespace(|| "2"))?;
                let cube = square.mul(cs.namespace(|| "3"), &base)?;
                let fourth = square.square(cs.namespace(|| "4"))?;
                let fifth = fourth.get_value().zip(base.get_value()).map(|(x, y)| x * y);
                let input = cs.alloc_input(|| "5", || fifth.ok_or(SynthesisError::AssignmentMissing))?;
                cs.enforce(
                    || "fifth",
                    |lc| lc + fourth.get_variable(),
                    |lc| lc + base.get_variable(),
                    |lc| lc + input,
                );
                cs.enforce(
                    || "again",
                    |lc| lc + square.get_variable(),
                    |lc| lc + cube.get_variable(),
                    |lc| lc + input,
                );
            }
            AllocatedBit::alloc(cs.namespace(|| "bit"), Some(round % 2 == 1))?;
        }
        Ok(())
    }
}

fn written(circuit: &Circuit, instance: impl Synthesize<Scalar>) -> Vec<Canonical> {
    let mut memory = vec![0xff; 32 * circuit.num_variables()];
    let mut region = WitnessRegion::from_slice(&mut memory, circuit.num_inputs(), circuit.num_aux()).unwrap();
    write_bellpepper_witness(instance, &mut region).unwrap();
    memory.as_chunks::<32>().0.iter().map(|v| Canonical::from_le_bytes(v).unwrap()).collect()
}

#[test]
fn slices_and_single_values_make_the_same_witness() {
    for count in [0, 1, 2, 33] {
        let circuit = record_bellpepper(Powers { base: None, count }).unwrap();
        let instance = Powers { base: Some(Scalar::from(7)), count };
        let mut cs = TestConstraintSystem::new();
        instance.clone().synthesize(&mut cs).unwrap();
        assert!(cs.is_satisfied());
        assert_eq!((circuit.num_inputs(), circuit.num_aux()), (cs.num_inputs(), 1 + 4 * count));
        assert_eq!(circuit.num_constraints(), cs.num_constraints());
        let wanted: Vec<Canonical> = cs
            .scalar_inputs()
            .iter()
            .chain(&cs.scalar_aux())
            .map(|v| Canonical::from_le_bytes(&v.to_repr()).unwrap())
            .collect();
        assert_eq!(written(&circuit, instance), wanted);
        assert_eq!(circuit.first_unsatisfied(&wanted, &CancelToken::new()), Ok(None));
    }
}

#[test]
fn a_changed_value_falsifies_the_first_row_that_reads_it() {
    let circuit = record_bellpepper(Powers { base: None, count: 3 }).unwrap();
    let z = written(&circuit, Powers { base: Some(-Scalar::ONE), count: 3 });
    for changed in 1..z.len() {
        let mut wrong = z.clone();
        wrong[changed] = Fr::from_u64(5).to_canonical();
        let column = changed as u32;
        let reads = |m: &cuzk::r1cs::Matrix, i| m.row(i).any(|(c, _)| c == column);
        // Input rows are satisfied by any value.
        let wanted = (0..circuit.num_constraints())
            .find(|&i| reads(circuit.a(), i) || reads(circuit.b(), i) || reads(circuit.c().unwrap(), i));
        assert_eq!(circuit.first_unsatisfied(&wrong, &CancelToken::new()), Ok(wanted), "{changed}");
    }
}

#[test]
fn too_many_values_in_slices_are_noticed() {
    let circuit = record_bellpepper(Powers { base: None, count: 2 }).unwrap();
    for (inputs, aux, message) in [
        (3, 8, "the circuit allocates 9 auxiliary variables, wanted 8"),
        (3, 10, "the circuit allocates 9 auxiliary variables, wanted 10"),
        (2, 9, "the circuit allocates 3 input variables, wanted 2"),
        (4, 9, "the circuit allocates 3 input variables, wanted 4"),
    ] {
        let mut memory = vec![0; 32 * (inputs + aux)];
        let mut region = WitnessRegion::from_slice(&mut memory, inputs, aux).unwrap();
        let instance = Powers { base: Some(Scalar::ONE), count: 2 };
        let error = write_bellpepper_witness(instance, &mut region).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert_eq!((circuit.num_inputs(), circuit.num_aux()), (3, 9));
}

/// The same circuit in both libraries is the same circuit.
#[test]
fn both_libraries_record_alike() {
    struct Interleaved(usize);
    impl Synthesize<Scalar> for Interleaved {
        fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
            let missing = || Err(SynthesisError::AssignmentMissing);
            let mut x = cs.alloc(|| "x", missing)?;
            for _ in 0..self.0 {
                let y = cs.alloc(|| "y", missing)?;
                cs.enforce(
                    || "square",
                    |lc| lc + x + x - x,
                    |lc| lc + (Scalar::ZERO, CS::one()) + x,
                    |lc| lc + y,
                );
                let input = cs.alloc_input(|| "x", missing)?;
                cs.enforce(|| "sum", |lc| lc + input, |lc| lc + CS::one(), |lc| lc + y + x);
                x = input;
            }
            Ok(())
        }
    }
    let other = crate::bellman::Interleaved { start: None, steps: 5 };
    let other = cuzk::r1cs::recorder::record_bellman(other).unwrap();
    assert_eq!(record_bellpepper(Interleaved(5)).unwrap().id(), other.id());
}
