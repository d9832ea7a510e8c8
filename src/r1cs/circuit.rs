//! A compiled circuit: the matrices, their shared coefficient table, and who allocates what.
use super::{
    Density, Matrix,
    identity::{self, SectionHash},
    matrix::{ROWS_PER_TASK, Table},
    store::{Store, bytes_of},
};
use crate::algebra::{CancelToken, Cancelled, Canonical, Fr};
use rayon::prelude::*;
use std::sync::OnceLock;

/// An R1CS over BLS12-381's scalar field: row i demands (A·z)_i · (B·z)_i = (C·z)_i of the assignment
/// z = (1, public inputs, auxiliary).
///
/// Rows: the circuit's own constraints, then one row z_i · 0 = 0 per input (ONE included), stored
/// explicitly in A: bellman, bellperson, arkworks and snarkjs all agree on this.
pub struct Circuit {
    num_inputs: usize,
    num_aux: usize,
    coefficients: Store<Fr>,
    a: Matrix,
    b: Matrix,
    c: Option<Matrix>,
    a_density: OnceLock<Density>,
    b_density: OnceLock<Density>,
    id: OnceLock<[u8; 32]>,
}

impl Circuit {
    /// Of parts that agree: A has the constraints' rows and one row per input, B and C the
    /// constraints' rows; the table is canonical (see [`identity`]).
    pub(crate) fn from_parts(
        num_inputs: usize,
        num_aux: usize,
        coefficients: Store<Fr>,
        a: Matrix,
        b: Matrix,
        c: Option<Matrix>,
    ) -> Self {
        Self {
            num_inputs,
            num_aux,
            coefficients,
            a,
            b,
            c,
            a_density: OnceLock::new(),
            b_density: OnceLock::new(),
            id: OnceLock::new(),
        }
    }

    /// The same circuit with its id, where whoever made it has hashed the sections already.
    pub(crate) fn with_id(self, id: [u8; 32]) -> Self {
        Self { id: OnceLock::from(id), ..self }
    }

    /// Public inputs with ONE.
    pub fn num_inputs(&self) -> usize {
        self.num_inputs
    }

    /// Auxiliary (private) variables.
    pub fn num_aux(&self) -> usize {
        self.num_aux
    }

    /// Inputs and auxiliary variables: the length of z.
    pub fn num_variables(&self) -> usize {
        self.num_inputs + self.num_aux
    }

    /// All rows, input rows included: what the domain must hold.
    pub fn num_rows(&self) -> usize {
        self.a.rows()
    }

    /// The circuit's own constraints, without the input rows.
    pub fn num_constraints(&self) -> usize {
        self.a.rows() - self.num_inputs
    }

    /// A, input rows included.
    pub fn a(&self) -> &Matrix {
        &self.a
    }

    /// B; its input rows are empty and not stored.
    pub fn b(&self) -> &Matrix {
        &self.b
    }

    /// C, its input rows empty and not stored. None for circuits read from a zkey, which stores none.
    pub fn c(&self) -> Option<&Matrix> {
        self.c.as_ref()
    }

    /// The table of distinct coefficients: 1, −1, then the others in use.
    pub fn coefficients(&self) -> &[Fr] {
        &self.coefficients
    }

    /// Variables with a nonzero column in A, input rows included. Computed once.
    pub fn a_density(&self) -> &Density {
        self.a_density.get_or_init(|| Density::of(&self.a))
    }

    /// Variables with a nonzero column in B. Computed once.
    pub fn b_density(&self) -> &Density {
        self.b_density.get_or_init(|| Density::of(&self.b))
    }

    /// Bytes that the table and the matrices take, in memory or in a mapped file.
    pub fn num_bytes(&self) -> u64 {
        self.sections().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// The parts of the canonical serialisation, in order.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (identity::Section, &[u8])> {
        use identity::{Part, Section};
        let table = (Section::Coefficients, bytes_of(&self.coefficients));
        let matrices = [('A', Some(&self.a)), ('B', Some(&self.b)), ('C', self.c.as_ref())];
        std::iter::once(table).chain(matrices.into_iter().flat_map(|(name, matrix)| {
            matrix.into_iter().flat_map(move |m| {
                [
                    (Section::Matrix(name, Part::Offsets), m.offsets.bytes()),
                    (Section::Matrix(name, Part::Columns), bytes_of(&m.columns)),
                    (Section::Matrix(name, Part::Indices), m.indices.bytes()),
                ]
            })
        }))
    }

    /// The numbers of the canonical serialisation.
    pub(crate) fn counts(&self) -> identity::Counts {
        identity::Counts {
            inputs: self.num_inputs as u64,
            aux: self.num_aux as u64,
            constraints: self.num_constraints() as u64,
            coefficients: self.coefficients.len() as u64,
            a: self.a.entries(),
            b: self.b.entries(),
            c: self.c.as_ref().map(Matrix::entries),
        }
    }

    /// BLAKE3 over the canonical serialisation (counts, table, matrices): the circuit's id. Circuits
    /// with equal rows have equal ids, wherever they come from; C counts where it is known, so that a
    /// `.zkey`, which stores no C, and the `.r1cs` of the same circuit have different ids. Computed once.
    pub fn id(&self) -> [u8; 32] {
        *self.id.get_or_init(|| {
            let hashes: Vec<SectionHash> =
                self.sections().map(|(section, bytes)| SectionHash::of(section, bytes)).collect();
            identity::circuit_id(&self.counts(), &hashes)
        })
    }

    /// The first row with (A·z) · (B·z) ≠ C·z, or None; None too where C is unknown (see [`Self::c`]).
    ///
    /// # Errors
    /// [`Cancelled`] once the token is raised, unless a row was found by then.
    ///
    /// # Panics
    /// Where `z` does not have [`Self::num_variables`] values.
    pub fn first_unsatisfied(
        &self,
        z: &[Canonical],
        cancel: &CancelToken,
    ) -> Result<Option<usize>, Cancelled> {
        let Some(c) = &self.c else { return Ok(None) };
        let table = Table::new(&self.coefficients);
        let unsatisfied = |i: &usize| {
            let [a, b, c] = [&self.a, &self.b, c].map(|m| m.row_value(&table, z, *i));
            Fr::from_canonical(a) * b != c
        };
        (0..self.num_rows().div_ceil(ROWS_PER_TASK))
            .into_par_iter()
            .map(|task| {
                cancel.check()?;
                let first = task * ROWS_PER_TASK;
                Ok((first..self.num_rows().min(first + ROWS_PER_TASK)).find(unsatisfied))
            })
            // A cancelled task may hide an earlier row than those found after it.
            .find_first(|found| *found != Ok(None))
            .unwrap_or(Ok(None))
    }
}

/// What cannot become a circuit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CircuitError {
    /// A term names a variable that the circuit does not have.
    #[error("row {row} of {matrix} names variable {found}, wanted one below {wanted}")]
    Variable {
        /// 'A', 'B' or 'C'.
        matrix: char,
        /// The row, from 0.
        row: u64,
        /// The variable named.
        found: u64,
        /// The number of variables.
        wanted: u64,
    },
    /// ONE is an input, so there is at least one.
    #[error("the circuit has 0 inputs, wanted at least 1: ONE is an input")]
    NoInputs,
    /// Variables are numbered by 32 bits.
    #[error("the circuit has {found} variables, wanted at most {wanted}")]
    Variables {
        /// Inputs and auxiliary variables.
        found: u64,
        /// The most that 32 bits number.
        wanted: u64,
    },
    /// The coefficient table is numbered by 32 bits.
    #[error("the circuit has more distinct coefficients than {wanted}")]
    Coefficients {
        /// The most that 32 bits number.
        wanted: u64,
    },
}
