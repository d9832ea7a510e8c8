//! Building circuits row by row: repeated columns are summed, zeros dropped, coefficients interned,
//! and the input rows appended.
use super::{
    Circuit, CircuitError, Matrix,
    matrix::{MINUS_ONE_INDEX, ONE_INDEX},
    store::{IndicesBuf, OffsetsBuf, Store},
};
use crate::algebra::Fr;
use rayon::prelude::*;
use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

/// Distinct coefficients in the order of their first appearance, after 1 and −1.
pub(crate) struct Interner {
    values: Vec<Fr>,
    index: HashMap<[u64; 4], u32>,
    minus_one: Fr,
}

impl Interner {
    pub(crate) fn new() -> Self {
        let minus_one = -Fr::ONE;
        Self { values: vec![Fr::ONE, minus_one], index: HashMap::new(), minus_one }
    }

    pub(crate) fn intern(&mut self, coefficient: Fr) -> Result<u32, CircuitError> {
        if coefficient == Fr::ONE {
            return Ok(ONE_INDEX);
        }
        if coefficient == self.minus_one {
            return Ok(MINUS_ONE_INDEX);
        }
        let next =
            u32::try_from(self.values.len()).map_err(|_| CircuitError::Coefficients { wanted: 1 << 32 })?;
        let index = *self.index.entry(coefficient.montgomery_limbs()).or_insert(next);
        if index == next {
            self.values.push(coefficient);
        }
        Ok(index)
    }

    pub(crate) fn value(&self, index: u32) -> Fr {
        self.values[index as usize]
    }

    /// The table in its canonical order (1, −1, then the coefficients in use, ascending as
    /// integers of their Montgomery form), and each interned coefficient's place in it.
    fn canonical(self, matrices: &[&MatrixBuf]) -> (Vec<Fr>, Vec<u32>) {
        let used: Vec<AtomicBool> = self.values.iter().map(|_| AtomicBool::new(false)).collect();
        for matrix in matrices {
            matrix.indices.for_each(|i| {
                if !used[i as usize].load(Ordering::Relaxed) {
                    used[i as usize].store(true, Ordering::Relaxed);
                }
            });
        }
        let mut order: Vec<u32> = (MINUS_ONE_INDEX + 1..)
            .zip(&used[MINUS_ONE_INDEX as usize + 1..])
            .filter(|(_, used)| used.load(Ordering::Relaxed))
            .map(|(i, _)| i)
            .collect();
        order.par_sort_unstable_by_key(|&i| magnitude(self.value(i)));
        let mut map = vec![0; self.values.len()];
        map[MINUS_ONE_INDEX as usize] = MINUS_ONE_INDEX;
        let mut table = vec![Fr::ONE, self.minus_one];
        for (place, &i) in (MINUS_ONE_INDEX + 1..).zip(&order) {
            map[i as usize] = place;
            table.push(self.value(i));
        }
        (table, map)
    }
}

/// The limbs of the Montgomery form, the most significant one first: a sort key.
pub(crate) fn magnitude(value: Fr) -> [u64; 4] {
    let [a, b, c, d] = value.montgomery_limbs();
    [d, c, b, a]
}

/// A matrix that grows by rows.
pub(crate) struct MatrixBuf {
    pub(crate) offsets: OffsetsBuf,
    pub(crate) columns: Vec<u32>,
    pub(crate) indices: IndicesBuf,
}

impl MatrixBuf {
    pub(crate) fn new() -> Self {
        Self { offsets: OffsetsBuf::new(), columns: Vec::new(), indices: IndicesBuf::zeros(0) }
    }

    /// Appends a row, summing terms of one column and dropping zeros. Rows are ordered by the terms'
    /// keys; `encode` makes the stored column of a key. `terms` is left in disorder.
    pub(crate) fn push_row(
        &mut self,
        terms: &mut [(u64, Fr)],
        encode: impl Fn(u64) -> u32,
        interner: &mut Interner,
    ) -> Result<(), CircuitError> {
        terms.sort_unstable_by_key(|&(key, _)| key);
        for terms in terms.chunk_by(|x, y| x.0 == y.0) {
            let sum = terms.iter().fold(Fr::ZERO, |sum, &(_, coefficient)| sum + coefficient);
            if !sum.is_zero() {
                self.indices.push(interner.intern(sum)?);
                self.columns.push(encode(terms[0].0));
            }
        }
        self.offsets.push(self.columns.len() as u64);
        Ok(())
    }

    /// Appends the rows z_i · 0 = 0.
    pub(crate) fn push_input_rows(&mut self, num_inputs: usize, encode: impl Fn(u64) -> u32) {
        for i in 0..num_inputs as u64 {
            self.columns.push(encode(i));
            self.indices.push(ONE_INDEX);
            self.offsets.push(self.columns.len() as u64);
        }
    }

    fn freeze(mut self, width: usize, map: &[u32], table: u64) -> Matrix {
        self.columns.shrink_to_fit();
        Matrix {
            offsets: self.offsets.freeze(),
            columns: Store::Owned(self.columns),
            indices: self.indices.remap(map, table),
            width,
        }
    }
}

/// Checks the numbers of variables: at least ONE, and columns that fit u32.
pub(crate) fn check_shape(num_inputs: usize, num_aux: usize) -> Result<usize, CircuitError> {
    if num_inputs == 0 {
        return Err(CircuitError::NoInputs);
    }
    match num_inputs.checked_add(num_aux) {
        Some(width) if u32::try_from(width).is_ok() => Ok(width),
        sum => Err(CircuitError::Variables {
            found: sum.map_or(u64::MAX, |s| s as u64),
            wanted: u32::MAX.into(),
        }),
    }
}

/// Makes a circuit of matrices whose columns are final and whose A ends with the input rows.
pub(crate) fn assemble(
    num_inputs: usize,
    num_aux: usize,
    interner: Interner,
    a: MatrixBuf,
    b: MatrixBuf,
    c: Option<MatrixBuf>,
) -> Result<Circuit, CircuitError> {
    let width = check_shape(num_inputs, num_aux)?;
    let mut matrices = vec![&a, &b];
    matrices.extend(&c);
    let (table, map) = interner.canonical(&matrices);
    let len = table.len() as u64;
    Ok(Circuit::from_parts(
        num_inputs,
        num_aux,
        Store::Owned(table),
        a.freeze(width, &map, len),
        b.freeze(width, &map, len),
        c.map(|c| c.freeze(width, &map, len)),
    ))
}

/// Collects rows and makes a [`Circuit`]: sums repeated columns, drops zero coefficients, interns the
/// coefficients, appends the input rows.
pub struct CircuitBuilder {
    num_inputs: usize,
    num_aux: usize,
    interner: Interner,
    matrices: [MatrixBuf; 3],
    terms: Vec<(u64, Fr)>,
}

impl CircuitBuilder {
    /// For a circuit with this many public inputs, ONE included, and auxiliary variables.
    pub fn new(num_inputs: usize, num_aux: usize) -> Self {
        Self {
            num_inputs,
            num_aux,
            interner: Interner::new(),
            matrices: std::array::from_fn(|_| MatrixBuf::new()),
            terms: Vec::new(),
        }
    }

    /// Appends the constraint (A·z) · (B·z) = C·z; terms are (variable index in z, coefficient), in any
    /// order.
    pub fn constraint(
        &mut self,
        a: &[(u32, Fr)],
        b: &[(u32, Fr)],
        c: &[(u32, Fr)],
    ) -> Result<(), CircuitError> {
        let wanted = self.num_inputs.saturating_add(self.num_aux) as u64;
        for ((matrix, name), terms) in self.matrices.iter_mut().zip(['A', 'B', 'C']).zip([a, b, c]) {
            let row = matrix.offsets.rows() as u64;
            if let Some(&(found, _)) = terms.iter().find(|term| u64::from(term.0) >= wanted) {
                return Err(CircuitError::Variable { matrix: name, row, found: found.into(), wanted });
            }
            self.terms.clear();
            self.terms.extend(terms.iter().map(|&(column, coefficient)| (column.into(), coefficient)));
            matrix.push_row(&mut self.terms, |column| column as u32, &mut self.interner)?;
        }
        Ok(())
    }

    /// Appends the input rows and freezes the circuit.
    pub fn finish(self) -> Result<Circuit, CircuitError> {
        self.freeze(true)
    }

    /// As [`Self::finish`], for a source that does not tell C: see [`Circuit::c`].
    pub fn finish_without_c(self) -> Result<Circuit, CircuitError> {
        self.freeze(false)
    }

    fn freeze(self, with_c: bool) -> Result<Circuit, CircuitError> {
        let [mut a, b, c] = self.matrices;
        check_shape(self.num_inputs, self.num_aux)?;
        a.push_input_rows(self.num_inputs, |column| column as u32);
        assemble(self.num_inputs, self.num_aux, self.interner, a, b, with_c.then_some(c))
    }
}
