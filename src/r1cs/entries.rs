//! Circuits from loose entries of A and B, in any order and possibly repeated: how a zkey stores them.
use super::{
    Circuit, CircuitError,
    builder::{Interner, MatrixBuf, assemble, check_shape},
    matrix::ONE_INDEX,
    store::{IndicesBuf, OffsetsBuf},
};
use crate::algebra::Fr;

/// Which matrix an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The left factors.
    A,
    /// The right factors.
    B,
}

impl Side {
    fn name(self) -> char {
        match self {
            Self::A => 'A',
            Self::B => 'B',
        }
    }
}

/// One coefficient of A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// A or B.
    pub side: Side,
    /// The row, from 0, input rows included.
    pub row: u32,
    /// The variable in z.
    pub column: u32,
    /// Entries of one place are summed; zeros are dropped.
    pub coefficient: Fr,
}

impl Circuit {
    /// A circuit without C from the entries of A and B, of which A's must include the input rows
    /// (z_i · 0 = 0 in the last `num_inputs` rows). The number of rows is the last one named, plus 1.
    ///
    /// `entries` is called twice (a counting sort needs no copy of them) and must give the same both
    /// times. Rows from `max_rows` on are refused before anything is allocated for them.
    ///
    /// # Errors
    /// The entries' own, and [`CircuitError`] for a variable or row out of range, missing input rows,
    /// or entries that changed between the two readings.
    pub fn from_entries<I, E>(
        num_inputs: usize,
        num_aux: usize,
        max_rows: usize,
        entries: impl Fn() -> I,
    ) -> Result<Self, E>
    where
        I: Iterator<Item = Result<Entry, E>>,
        E: From<CircuitError>,
    {
        let wanted = check_shape(num_inputs, num_aux)? as u64;
        let mut sides = [Placement::new(), Placement::new()];
        for entry in entries() {
            let Entry { side, row, column, .. } = entry?;
            let matrix = side.name();
            if row as usize >= max_rows {
                let (found, wanted) = (row.into(), max_rows as u64);
                return Err(CircuitError::Row { matrix, found, wanted }.into());
            }
            if u64::from(column) >= wanted {
                let (row, found) = (row.into(), column.into());
                return Err(CircuitError::Variable { matrix, row, found, wanted }.into());
            }
            sides[side as usize].count(row as usize);
        }
        let rows = sides[0].rows().max(sides[1].rows());
        let constraints = rows
            .checked_sub(num_inputs)
            .ok_or(CircuitError::InputRow { row: rows as u64, input: rows as u64 })?;

        let mut interner = Interner::new();
        for side in &mut sides {
            side.allocate();
        }
        for entry in entries() {
            let Entry { side, row, column, coefficient } = entry?;
            if u64::from(column) >= wanted {
                return Err(CircuitError::EntriesChanged.into());
            }
            sides[side as usize].place(row as usize, column, interner.intern(coefficient)?)?;
        }
        let [a, b] = sides;
        let a = a.compact(rows, &mut interner)?;
        check_input_rows(&a, constraints, num_inputs)?;
        if b.rows() > constraints {
            let row = constraints as u64;
            return Err(CircuitError::InputRow { row, input: 0 }.into());
        }
        let b = b.compact(constraints, &mut interner)?;
        Ok(assemble(num_inputs, num_aux, interner, a, b, None)?)
    }
}

/// The last rows of A are exactly 1 · z_i.
fn check_input_rows(a: &MatrixBuf, constraints: usize, num_inputs: usize) -> Result<(), CircuitError> {
    for input in 0..num_inputs {
        let row = constraints + input;
        let (start, end) = (a.offsets.get(row) as usize, a.offsets.get(row + 1) as usize);
        let right =
            end - start == 1 && a.columns[start] as usize == input && a.indices.get(start) == ONE_INDEX;
        if !right {
            return Err(CircuitError::InputRow { row: row as u64, input: input as u64 });
        }
    }
    Ok(())
}

/// A counting sort of one matrix's entries by row.
struct Placement {
    /// First the number of entries in each row; after `allocate` each row's next free place; after the
    /// last `place` each row's end.
    cursors: Vec<u64>,
    columns: Vec<u32>,
    indices: IndicesBuf,
    placed: u64,
}

impl Placement {
    fn new() -> Self {
        Self { cursors: Vec::new(), columns: Vec::new(), indices: IndicesBuf::zeros(0), placed: 0 }
    }

    fn rows(&self) -> usize {
        self.cursors.len()
    }

    fn count(&mut self, row: usize) {
        if row >= self.cursors.len() {
            self.cursors.resize(row + 1, 0);
        }
        self.cursors[row] += 1;
    }

    fn allocate(&mut self) {
        let mut start = 0;
        for cursor in &mut self.cursors {
            start += std::mem::replace(cursor, start);
        }
        self.columns = vec![0; start as usize];
        self.indices = IndicesBuf::zeros(start as usize);
    }

    fn place(&mut self, row: usize, column: u32, index: u32) -> Result<(), CircuitError> {
        let cursor = self.cursors.get_mut(row).ok_or(CircuitError::EntriesChanged)?;
        let place = *cursor as usize;
        *self.columns.get_mut(place).ok_or(CircuitError::EntriesChanged)? = column;
        self.indices.set(place, index);
        *cursor += 1;
        self.placed += 1;
        Ok(())
    }

    /// Sorts each row by column, sums repeated columns, drops zeros; the matrix gets `rows` rows, the
    /// ones past the last entry empty.
    fn compact(self, rows: usize, interner: &mut Interner) -> Result<MatrixBuf, CircuitError> {
        let Self { cursors, mut columns, mut indices, placed } = self;
        if placed != columns.len() as u64 {
            return Err(CircuitError::EntriesChanged);
        }
        let mut offsets = OffsetsBuf::new();
        let mut row: Vec<(u32, u32)> = Vec::new();
        let (mut read, mut write) = (0, 0);
        for end in cursors {
            let end = end as usize;
            if end < read {
                return Err(CircuitError::EntriesChanged);
            }
            row.clear();
            row.extend((read..end).map(|i| (columns[i], indices.get(i))));
            row.sort_unstable_by_key(|&(column, _)| column);
            for terms in row.chunk_by(|x, y| x.0 == y.0) {
                let index = match terms {
                    [(_, index)] => *index,
                    _ => {
                        let values = terms.iter().map(|&(_, index)| interner.value(index));
                        interner.intern(values.fold(Fr::ZERO, |sum, value| sum + value))?
                    }
                };
                if !interner.value(index).is_zero() {
                    columns[write] = terms[0].0;
                    indices.set(write, index);
                    write += 1;
                }
            }
            read = end;
            offsets.push(write as u64);
        }
        while offsets.rows() < rows {
            offsets.push(write as u64);
        }
        columns.truncate(write);
        indices.truncate(write);
        Ok(MatrixBuf { offsets, columns, indices })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::r1cs::test_circuits::{Rows, circuits};
    use proptest::prelude::*;

    /// The entries of a circuit's A and B, input rows included, in row order.
    fn entries(rows: &Rows) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (row, [a, b, _]) in (0..).zip(&rows.constraints) {
            for (side, terms) in [(Side::A, a), (Side::B, b)] {
                let entry = |&(column, coefficient)| Entry { side, row, column, coefficient };
                entries.extend(terms.iter().map(entry));
            }
        }
        for input in 0..rows.num_inputs as u32 {
            let row = rows.constraints.len() as u32 + input;
            entries.push(Entry { side: Side::A, row, column: input, coefficient: Fr::ONE });
        }
        entries
    }

    fn read(rows: &Rows, max_rows: usize, entries: &[Entry]) -> Result<Circuit, CircuitError> {
        Circuit::from_entries(rows.num_inputs, rows.num_aux, max_rows, || entries.iter().map(|&e| Ok(e)))
    }

    proptest! {
        #[test]
        fn any_order_gives_the_circuit_of_the_rows(
            ((rows, _), seed) in (circuits(), any::<prop::sample::Index>()),
        ) {
            let mut shuffled = entries(&rows);
            let len = shuffled.len();
            // A permutation of sorts: rotated and interleaved.
            shuffled.rotate_left(seed.index(len));
            let (even, odd): (Vec<_>, Vec<_>) = shuffled.iter().enumerate().partition(|(i, _)| i % 2 == 0);
            let shuffled: Vec<Entry> = even.into_iter().chain(odd).map(|(_, &e)| e).collect();

            let mut builder = crate::r1cs::CircuitBuilder::new(rows.num_inputs, rows.num_aux);
            for [a, b, _] in &rows.constraints {
                builder.constraint(a, b, &[]).unwrap();
            }
            let wanted = builder.finish().unwrap();
            let found = read(&rows, rows.constraints.len() + rows.num_inputs, &shuffled).unwrap();
            prop_assert!(found.c().is_none());
            prop_assert_eq!(found.num_constraints(), wanted.num_constraints());
            prop_assert_eq!(found.coefficients(), wanted.coefficients());
            for (found, wanted) in [(found.a(), wanted.a()), (found.b(), wanted.b())] {
                prop_assert_eq!(found.rows(), wanted.rows());
                for row in 0..wanted.rows() {
                    prop_assert_eq!(found.row(row).collect::<Vec<_>>(), wanted.row(row).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn what_contradicts_a_circuit_is_refused() {
        let entry = |side, row, column, value| Entry { side, row, column, coefficient: Fr::from_u64(value) };
        let shape = Rows { num_inputs: 2, num_aux: 1, constraints: vec![] };
        let inputs = [entry(Side::A, 1, 0, 1), entry(Side::A, 2, 1, 1)];
        let with = |extra: &[Entry]| read(&shape, 3, &[&inputs[..], extra].concat()).err();
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[entry(Side::B, 0, 2, 5)]), None);
        let cases = [
            (entry(Side::B, 3, 0, 1), CircuitError::Row { matrix: 'B', found: 3, wanted: 3 }),
            (entry(Side::A, 0, 3, 1), CircuitError::Variable { matrix: 'A', row: 0, found: 3, wanted: 3 }),
            (entry(Side::A, 1, 0, 1), CircuitError::InputRow { row: 1, input: 0 }),
            (entry(Side::A, 2, 0, 1), CircuitError::InputRow { row: 2, input: 1 }),
            (entry(Side::B, 2, 0, 1), CircuitError::InputRow { row: 1, input: 0 }),
        ];
        for (extra, error) in cases {
            assert_eq!(with(&[extra]), Some(error));
        }
        assert_eq!(read(&shape, 3, &inputs[..1]).err(), Some(CircuitError::InputRow { row: 0, input: 0 }));
        assert_eq!(read(&shape, 3, &[]).err(), Some(CircuitError::InputRow { row: 0, input: 0 }));
    }

    #[test]
    fn entries_that_change_between_readings_are_noticed() {
        let entry = |row, column| Entry { side: Side::A, row, column, coefficient: Fr::ONE };
        let honest = vec![entry(0, 1), entry(1, 0), entry(2, 1)];
        let others: [Vec<Entry>; 4] = [
            honest[..2].to_vec(),
            [honest.clone(), vec![entry(2, 1)]].concat(),
            vec![entry(7, 1), entry(1, 0), entry(2, 1)],
            vec![entry(0, 9), entry(1, 0), entry(2, 1)],
        ];
        for second in others {
            let calls = std::cell::Cell::new(0);
            let result = Circuit::from_entries(2, 0, 3, || {
                calls.set(calls.get() + 1);
                let entries = if calls.get() == 1 { honest.clone() } else { second.clone() };
                entries.into_iter().map(Ok::<_, CircuitError>)
            });
            assert_eq!(result.err(), Some(CircuitError::EntriesChanged));
        }
    }
}
