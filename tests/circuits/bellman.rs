//! bellman circuits of our own, and an independent full synthesis to compare with.
use bellman::{Circuit as Synthesize, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};
use bls12_381::Scalar;
use cuzk::{
    algebra::{CancelToken, Canonical},
    r1cs::{
        Circuit, WitnessError, WitnessRegion,
        recorder::{RecordError, record_bellman, write_bellman_witness},
    },
};
use group::ff::{Field, PrimeField};

/// A full synthesis: values and rows as the circuit gave them.
#[derive(Default)]
pub struct Synthesized {
    inputs: Vec<Scalar>,
    aux: Vec<Scalar>,
    rows: Vec<[LinearCombination<Scalar>; 3]>,
}

fn canonical(value: Scalar) -> Canonical {
    Canonical::from_le_bytes(&value.to_repr()).unwrap()
}

impl Synthesized {
    pub fn of(circuit: impl Synthesize<Scalar>) -> Self {
        let mut cs = Self { inputs: vec![Scalar::ONE], ..Self::default() };
        circuit.synthesize(&mut cs).unwrap();
        cs
    }

    /// z.
    pub fn assignment(&self) -> Vec<Canonical> {
        self.inputs.iter().chain(&self.aux).map(|&v| canonical(v)).collect()
    }

    /// The first row that another assignment does not satisfy.
    pub fn first_unsatisfied(&self, z: &[Canonical]) -> Option<usize> {
        let z: Vec<Scalar> = z.iter().map(|v| Scalar::from_repr(v.to_le_bytes()).unwrap()).collect();
        let evaluate = |row: &LinearCombination<Scalar>| {
            row.as_ref().iter().fold(Scalar::ZERO, |sum, (variable, coefficient)| {
                let index = match variable.get_unchecked() {
                    Index::Input(i) => i,
                    Index::Aux(i) => self.inputs.len() + i,
                };
                sum + z[index] * coefficient
            })
        };
        self.rows.iter().position(|[a, b, c]| evaluate(a) * evaluate(b) != evaluate(c))
    }
}

impl ConstraintSystem<Scalar> for Synthesized {
    type Root = Self;

    fn alloc<F, A, AR>(&mut self, _: A, f: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.aux.push(f()?);
        Ok(Variable::new_unchecked(Index::Aux(self.aux.len() - 1)))
    }

    fn alloc_input<F, A, AR>(&mut self, _: A, f: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.inputs.push(f()?);
        Ok(Variable::new_unchecked(Index::Input(self.inputs.len() - 1)))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
    {
        let zero = LinearCombination::zero;
        self.rows.push([a(zero()), b(zero()), c(zero())]);
    }

    fn push_namespace<NR, N>(&mut self, _: N)
    where
        NR: Into<String>,
        N: FnOnce() -> NR,
    {
    }

    fn pop_namespace(&mut self) {}

    fn get_root(&mut self) -> &mut Self {
        self
    }
}

/// The witness that the writer makes for a recorded circuit.
pub fn written(circuit: &Circuit, instance: impl Synthesize<Scalar>) -> Vec<Canonical> {
    let mut memory = vec![0xff; 32 * circuit.num_variables()];
    let mut region = WitnessRegion::from_slice(&mut memory, circuit.num_inputs(), circuit.num_aux()).unwrap();
    write_bellman_witness(instance, &mut region).unwrap();
    memory.as_chunks::<32>().0.iter().map(|v| Canonical::from_le_bytes(v).unwrap()).collect()
}

/// Inputs and auxiliary variables in turn, rows with repeated and vanishing terms, enforced before
/// the last inputs are there: x_0 given, y_i = x_i², x_{i+1} = y_i + x_i.
#[derive(Clone)]
pub struct Interleaved {
    pub start: Option<Scalar>,
    pub steps: usize,
}

impl Synthesize<Scalar> for Interleaved {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let given = |v: Option<Scalar>| move || v.ok_or(SynthesisError::AssignmentMissing);
        let mut value = self.start;
        let mut x = cs.alloc(|| "x", given(value))?;
        for _ in 0..self.steps {
            let square = value.map(|v| v.square());
            let y = cs.alloc(|| "y", given(square))?;
            // 2x − x and x + 0·ONE: both are x.
            cs.enforce(
                || "square",
                |lc| lc + x + x - x,
                |lc| lc + (Scalar::ZERO, CS::one()) + x,
                |lc| lc + y,
            );
            let next = value.zip(square).map(|(v, s)| v + s);
            let input = cs.alloc_input(|| "x", given(next))?;
            cs.enforce(|| "sum", |lc| lc + input, |lc| lc + CS::one(), |lc| lc + y + x);
            (x, value) = (input, next);
        }
        Ok(())
    }
}

#[test]
fn allocations_of_both_kinds_may_alternate() {
    for steps in [0, 1, 2, 40] {
        let circuit = record_bellman(Interleaved { start: None, steps }).unwrap();
        assert_eq!((circuit.num_inputs(), circuit.num_aux()), (1 + steps, 1 + steps));
        assert_eq!(circuit.num_constraints(), 2 * steps);
        let instance = Interleaved { start: Some(Scalar::from(3)), steps };
        let synthesized = Synthesized::of(instance.clone());
        let z = synthesized.assignment();
        assert_eq!(written(&circuit, instance), z);
        assert_eq!(circuit.first_unsatisfied(&z, &CancelToken::new()), Ok(None));
        for changed in 1..z.len() {
            let mut wrong = z.clone();
            wrong[changed] = canonical(Scalar::from(11));
            assert_eq!(
                circuit.first_unsatisfied(&wrong, &CancelToken::new()),
                Ok(synthesized.first_unsatisfied(&wrong))
            );
        }
    }
}

#[test]
fn repeated_terms_are_summed_and_zeros_dropped() {
    let circuit = record_bellman(Interleaved { start: None, steps: 1 }).unwrap();
    // z = (ONE, x_1; x_0, y_0)
    let row = |m: &cuzk::r1cs::Matrix, i| m.row(i).collect::<Vec<_>>();
    assert_eq!(row(circuit.a(), 0), [(2, 0)]);
    assert_eq!(row(circuit.b(), 0), [(2, 0)]);
    assert_eq!(row(circuit.c().unwrap(), 0), [(3, 0)]);
    assert_eq!(row(circuit.c().unwrap(), 1), [(2, 0), (3, 0)]);
    assert_eq!(row(circuit.a(), 2), [(0, 0)], "input rows follow");
    assert_eq!(row(circuit.a(), 3), [(1, 0)]);
}

#[test]
fn counts_must_be_exact() {
    let count = |inputs, aux| {
        let mut memory = vec![0; 32 * (inputs + aux)];
        let mut region = WitnessRegion::from_slice(&mut memory, inputs, aux).unwrap();
        match write_bellman_witness(Interleaved { start: Some(Scalar::ONE), steps: 3 }, &mut region) {
            Err(RecordError::Witness(error)) => Some(error),
            Ok(()) => None,
            Err(other) => panic!("{other}"),
        }
    };
    let wrong = |kind, found, wanted| Some(WitnessError::Count { kind, found, wanted });
    assert_eq!(count(4, 4), None);
    assert_eq!(count(0, 4), wrong("input", 1, 0));
    assert_eq!(count(3, 4), wrong("input", 4, 3));
    assert_eq!(count(5, 4), wrong("input", 4, 5));
    assert_eq!(count(4, 3), wrong("auxiliary", 4, 3));
    assert_eq!(count(4, 5), wrong("auxiliary", 4, 5));
}

/// Swallows the error that `alloc` gives, and names a variable that it never got.
struct Careless {
    ignore: bool,
}

impl Synthesize<Scalar> for Careless {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        for _ in 0..3 {
            let allocated = cs.alloc(|| "", || Ok(Scalar::ONE));
            if !self.ignore {
                allocated?;
            }
        }
        let beyond = Variable::new_unchecked(Index::Aux(3));
        cs.enforce(|| "", |lc| lc, |lc| lc + CS::one(), |lc| lc + beyond);
        Ok(())
    }
}

#[test]
fn what_a_circuit_does_wrong_is_told() {
    for ignore in [false, true] {
        let mut memory = [0; 32 * 3];
        let mut region = WitnessRegion::from_slice(&mut memory, 1, 2).unwrap();
        let error = write_bellman_witness(Careless { ignore }, &mut region).unwrap_err();
        assert_eq!(error.to_string(), "the circuit allocates 3 auxiliary variables, wanted 2");
    }
    let error = record_bellman(Careless { ignore: false }).err().unwrap();
    assert_eq!(error.to_string(), "row 0 of C names variable 4, wanted one below 4");

    let mut memory = [0; 32 * 5];
    let mut region = WitnessRegion::from_slice(&mut memory, 2, 3).unwrap();
    let blank = Interleaved { start: None, steps: 1 };
    let error = write_bellman_witness(blank, &mut region).unwrap_err();
    assert_eq!(error.to_string(), "synthesis failed: an assignment for a variable could not be computed");
}

/// Over jubjub's scalar field, not BLS12-381's.
struct Foreign;

impl Synthesize<jubjub::Fr> for Foreign {
    fn synthesize<CS: ConstraintSystem<jubjub::Fr>>(self, _: &mut CS) -> Result<(), SynthesisError> {
        Ok(())
    }
}

#[test]
fn other_fields_are_refused() {
    assert!(matches!(record_bellman(Foreign), Err(RecordError::Field { .. })));
    let mut region = [0; 32];
    let mut region = WitnessRegion::from_slice(&mut region, 1, 0).unwrap();
    let error = write_bellman_witness(Foreign, &mut region).unwrap_err().to_string();
    assert!(error.contains(jubjub::Fr::MODULUS.trim_start_matches("0x")), "{error}");
}
