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

    fn value(&self, index: u32) -> Fr {
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
        Self { offsets: OffsetsBuf::new(), columns: Vec::new(), indices: IndicesBuf::new() }
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
fn check_shape(num_inputs: usize, num_aux: usize) -> Result<usize, CircuitError> {
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
    ///
    /// # Errors
    /// [`CircuitError::Variable`], and nothing is appended; [`CircuitError::Coefficients`].
    pub fn constraint(
        &mut self,
        a: &[(u32, Fr)],
        b: &[(u32, Fr)],
        c: &[(u32, Fr)],
    ) -> Result<(), CircuitError> {
        let wanted = self.num_inputs.saturating_add(self.num_aux) as u64;
        // All before any: the matrices have as many rows as each other.
        for (matrix, terms) in [('A', a), ('B', b), ('C', c)] {
            if let Some(&(found, _)) = terms.iter().find(|term| u64::from(term.0) >= wanted) {
                let (row, found) = (self.matrices[0].offsets.rows() as u64, found.into());
                return Err(CircuitError::Variable { matrix, row, found, wanted });
            }
        }
        for (matrix, terms) in self.matrices.iter_mut().zip([a, b, c]) {
            self.terms.clear();
            self.terms.extend(terms.iter().map(|&(column, coefficient)| (column.into(), coefficient)));
            matrix.push_row(&mut self.terms, |column| column as u32, &mut self.interner)?;
        }
        Ok(())
    }

    /// Appends the constraints of another builder for as many variables: parts of a circuit can be built in
    /// parallel.
    ///
    /// # Errors
    /// [`CircuitError::Variables`], and nothing is appended; [`CircuitError::Coefficients`].
    pub fn append(&mut self, other: &Self) -> Result<(), CircuitError> {
        let found = other.num_inputs.saturating_add(other.num_aux) as u64;
        let wanted = self.num_inputs.saturating_add(self.num_aux) as u64;
        if found != wanted {
            return Err(CircuitError::Variables { found, wanted });
        }
        let places = other.interner.values.iter().map(|&value| self.interner.intern(value));
        let map = places.collect::<Result<Vec<u32>, _>>()?;
        for (matrix, other) in self.matrices.iter_mut().zip(&other.matrices) {
            matrix.offsets.append(&other.offsets);
            matrix.columns.extend_from_slice(&other.columns);
            matrix.indices.append(&other.indices, &map);
        }
        Ok(())
    }

    /// Appends the input rows and freezes the circuit.
    ///
    /// # Errors
    /// [`CircuitError::NoInputs`] and [`CircuitError::Variables`].
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        algebra::{CancelToken, Cancelled, Canonical},
        r1cs::{
            matrix::ROWS_PER_TASK,
            test_circuits::{Rows, circuit, circuits, dense_product},
        },
    };
    use proptest::prelude::*;

    fn fr(v: i64) -> Fr {
        let magnitude = Fr::from_u64(v.unsigned_abs());
        if v < 0 { -magnitude } else { magnitude }
    }

    fn entries(circuit: &Circuit, matrix: &Matrix, row: usize) -> Vec<(u32, Fr)> {
        matrix.row(row).map(|(column, index)| (column, circuit.coefficients()[index as usize])).collect()
    }

    #[test]
    fn rows_are_summed_sorted_and_freed_of_zeros() {
        let mut builder = CircuitBuilder::new(2, 3);
        let a = [(4, fr(2)), (0, fr(-1)), (4, fr(5)), (1, fr(3)), (1, fr(-3))];
        builder.constraint(&a, &[(2, fr(0))], &[(3, fr(1)), (3, fr(-2))]).unwrap();
        let circuit = builder.finish().unwrap();
        assert_eq!((circuit.num_inputs(), circuit.num_aux(), circuit.num_variables()), (2, 3, 5));
        assert_eq!((circuit.num_constraints(), circuit.num_rows()), (1, 3));
        assert_eq!(entries(&circuit, circuit.a(), 0), [(0, fr(-1)), (4, fr(7))]);
        assert_eq!(entries(&circuit, circuit.b(), 0), []);
        assert_eq!(entries(&circuit, circuit.c().unwrap(), 0), [(3, fr(-1))]);
        for input in 0..2 {
            assert_eq!(entries(&circuit, circuit.a(), 1 + input), [(input as u32, fr(1))]);
            assert_eq!(entries(&circuit, circuit.b(), 1 + input), []);
        }
        assert_eq!(entries(&circuit, circuit.a(), 3), [], "rows past the end are empty");
        assert_eq!(circuit.coefficients(), [fr(1), fr(-1), fr(7)]);
        assert_eq!(circuit.a_density().indices(), [0, 1, 4]);
        assert_eq!(circuit.b_density().count(), 0);
    }

    #[test]
    fn equal_rows_have_equal_ids_and_others_do_not() {
        let id = |rows: &[[&[(u32, Fr)]; 3]], inputs, aux| {
            let mut builder = CircuitBuilder::new(inputs, aux);
            for [a, b, c] in rows {
                builder.constraint(a, b, c).unwrap();
            }
            builder.finish().unwrap().id()
        };
        let x: &[_] = &[(1, fr(9)), (2, fr(5))];
        let y: &[_] = &[(2, fr(5)), (1, fr(4)), (1, fr(5))];
        let one: &[_] = &[(0, fr(1))];
        let reference = id(&[[x, one, &[]]], 1, 2);
        assert_eq!(reference, id(&[[y, one, &[(1, fr(0))]]], 1, 2), "the same rows, written otherwise");
        let others = [
            id(&[[x, one, one]], 1, 2),
            id(&[[one, x, &[]]], 1, 2),
            id(&[[x, one, &[]]], 2, 1),
            id(&[[x, one, &[]]], 1, 3),
            id(&[[x, one, &[]], [&[], &[], &[]]], 1, 2),
            id(&[[&[(1, fr(9)), (2, fr(6))], one, &[]]], 1, 2),
        ];
        for (i, other) in others.iter().enumerate() {
            assert_ne!(&reference, other, "{i}");
            assert!(!others[..i].contains(other), "{i}");
        }
    }

    #[test]
    fn shapes_and_variables_are_checked() {
        let refused = |inputs, aux| CircuitBuilder::new(inputs, aux).finish().err();
        assert_eq!(refused(0, 3), Some(CircuitError::NoInputs));
        let most = u32::MAX as usize;
        assert_eq!(
            refused(2, most - 1),
            Some(CircuitError::Variables { found: 1 << 32, wanted: u32::MAX.into() })
        );
        assert!(matches!(refused(usize::MAX, 2), Some(CircuitError::Variables { .. })));
        let mut builder = CircuitBuilder::new(1, 1);
        builder.constraint(&[], &[], &[]).unwrap();
        let error = builder.constraint(&[], &[(0, fr(1)), (2, fr(1))], &[]).unwrap_err();
        assert_eq!(error, CircuitError::Variable { matrix: 'B', row: 1, found: 2, wanted: 2 });
        assert_eq!(error.to_string(), "row 1 of B names variable 2, wanted one below 2");
        let kept = builder.finish().unwrap();
        assert_eq!((kept.num_constraints(), kept.b().rows(), kept.c().unwrap().rows()), (1, 1, 1));
        let empty = CircuitBuilder::new(1, 0).finish().unwrap();
        assert_eq!((empty.num_constraints(), empty.num_rows()), (0, 1));
        assert_eq!(empty.first_unsatisfied(&[Canonical::ONE], &CancelToken::new()), Ok(None));
    }

    #[test]
    fn wide_rows_and_wide_tables_evaluate_too() {
        // More entries in one row than one task takes, more coefficients than 16 bits number.
        let n = 200_000u32;
        let terms: Vec<(u32, Fr)> = (0..n).map(|i| (i, Fr::from_u64(u64::from(i) * 7 + 2))).collect();
        let mut builder = CircuitBuilder::new(1, n as usize - 1);
        builder.constraint(&terms, &[(0, fr(1))], &[]).unwrap();
        let circuit = builder.finish().unwrap();
        assert_eq!(circuit.coefficients().len(), n as usize + 2);
        let z: Vec<Canonical> = (0..n).map(|i| Canonical::from_u64(u64::from(i % 5))).collect();
        let mut out = vec![Canonical::ONE; 3];
        circuit.a().evaluate(circuit.coefficients(), &z, &mut out, &CancelToken::new()).unwrap();
        let wanted: u64 = (0..u64::from(n)).map(|i| (i * 7 + 2) * (i % 5)).sum();
        assert_eq!(out, [Canonical::from_u64(wanted), z[0], Canonical::ZERO]);
    }

    #[test]
    fn parts_of_other_variables_are_refused() {
        let mut builder = CircuitBuilder::new(1, 3);
        let error = builder.append(&CircuitBuilder::new(1, 2)).unwrap_err();
        assert_eq!(error, CircuitError::Variables { found: 3, wanted: 4 });
    }

    #[test]
    fn evaluation_stops_when_cancelled() {
        let circuit = CircuitBuilder::new(1, 0).finish().unwrap();
        let cancel = CancelToken::new();
        cancel.cancel();
        let mut out = [Canonical::ZERO];
        assert!(circuit.a().evaluate(circuit.coefficients(), &[Canonical::ONE], &mut out, &cancel).is_err());
    }

    #[test]
    fn the_search_for_an_unsatisfied_row_looks_at_the_token() {
        // z_1 · 1 = z_1 everywhere, but z_1 · 1 = 0 in rows of the third and of the fourth task.
        let rows = 4 * ROWS_PER_TASK;
        let (x, one) = ([(1, fr(1))], [(0, fr(1))]);
        let mut builder = CircuitBuilder::new(1, 1);
        for i in 0..rows {
            let wrong = [2 * ROWS_PER_TASK + 5, 3 * ROWS_PER_TASK].contains(&i);
            builder.constraint(&x, &one, if wrong { &[] } else { &x }).unwrap();
        }
        let circuit = builder.finish().unwrap();
        let (satisfied, not) = ([Canonical::ONE, Canonical::ZERO], [Canonical::ONE; 2]);
        let cancel = CancelToken::new();
        assert_eq!(circuit.first_unsatisfied(&not, &cancel), Ok(Some(2 * ROWS_PER_TASK + 5)));
        let before = cancel.looks();
        assert_eq!(circuit.first_unsatisfied(&satisfied, &cancel), Ok(None));
        // ONE's input row is in a task of its own.
        assert_eq!(cancel.looks() - before, 5);
        cancel.cancel();
        for z in [satisfied, not] {
            assert_eq!(circuit.first_unsatisfied(&z, &cancel), Err(Cancelled));
        }
    }

    proptest! {
        #[test]
        fn matrices_evaluate_like_dense_ones((rows, z) in circuits()) {
            let circuit = circuit(&rows);
            let matrices = [Some(circuit.a()), Some(circuit.b()), circuit.c()];
            for (which, matrix) in matrices.into_iter().flatten().enumerate() {
                let mut out = vec![Canonical::ONE; circuit.num_rows() + 3];
                matrix.evaluate(circuit.coefficients(), &z, &mut out, &CancelToken::new()).unwrap();
                prop_assert_eq!(out, dense_product(&rows, which, &z, circuit.num_rows() + 3));
            }
            let first = (0..rows.constraints.len()).find(|&i| {
                let [a, b, c] = [0, 1, 2].map(|which| dense_product(&rows, which, &z, i + 1)[i]);
                Fr::from_canonical(a) * b != c
            });
            prop_assert_eq!(circuit.first_unsatisfied(&z, &CancelToken::new()), Ok(first));
        }

        #[test]
        fn densities_are_the_columns_with_entries((rows, _) in circuits()) {
            let circuit = circuit(&rows);
            for (matrix, density) in [(circuit.a(), circuit.a_density()), (circuit.b(), circuit.b_density())] {
                let mut columns: Vec<u32> =
                    (0..matrix.rows()).flat_map(|i| matrix.row(i).map(|(column, _)| column)).collect();
                columns.sort_unstable();
                columns.dedup();
                prop_assert_eq!(density.len(), circuit.num_variables());
                prop_assert_eq!(density.indices(), columns);
            }
        }

        #[test]
        fn parts_make_the_circuit_of_all_rows((rows, _) in circuits(), cut in any::<prop::sample::Index>()) {
            let cut = cut.index(rows.constraints.len() + 1);
            let part = |range: std::ops::Range<usize>| {
                let mut builder = CircuitBuilder::new(rows.num_inputs, rows.num_aux);
                for [a, b, c] in &rows.constraints[range] {
                    builder.constraint(a, b, c).unwrap();
                }
                builder
            };
            let mut builder = part(0..cut);
            builder.append(&part(cut..rows.constraints.len())).unwrap();
            prop_assert_eq!(builder.finish().unwrap().id(), circuit(&rows).id());
        }

        #[test]
        fn ids_do_not_depend_on_the_order_of_terms((rows, _) in circuits()) {
            let mut reversed: Rows = rows.clone();
            for term in reversed.constraints.iter_mut().flatten() {
                term.reverse();
            }
            prop_assert_eq!(circuit(&rows).id(), circuit(&reversed).id());
        }
    }
}
