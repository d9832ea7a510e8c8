//! Checks that a mapped circuit is one: what the arithmetic and every index rely on, and that the
//! serialisation is the canonical one.
use super::{FileError, layout::Layout};
use crate::{
    algebra::{Fr, fr::MODULUS},
    r1cs::{
        Matrix,
        builder::magnitude,
        identity::{Counts, Part, Section},
        matrix::ONE_INDEX,
        store::{Indices, Offsets, Plain},
    },
};
use rayon::prelude::*;
use std::{
    fmt::Display,
    sync::atomic::{AtomicBool, Ordering},
};

/// Elements of one parallel task, at least.
const TASK: usize = 1 << 14;

/// A section with its place, for errors.
#[derive(Clone, Copy)]
struct Place {
    section: Section,
    offset: u64,
}

impl Place {
    fn of(layout: &Layout, section: Section) -> Self {
        let placed = layout.sections.iter().find(|placed| placed.section == section);
        Self { section, offset: placed.map_or(0, |placed| placed.offset) }
    }

    fn wrong<T: Plain>(
        self,
        element: usize,
        what: &'static str,
        found: impl Display,
        wanted: impl Display,
    ) -> FileError {
        let offset = self.offset + (element * size_of::<T>()) as u64;
        FileError::malformed(self.section.name(), offset, what, &found, &wanted)
    }
}

/// The table is 1, −1, then other nonzero values below r, ascending strictly.
pub(super) fn table(layout: &Layout, table: &[Fr]) -> Result<(), FileError> {
    let place = Place::of(layout, Section::Coefficients);
    let print = |i: usize| {
        let [a, b, c, d] = magnitude(table[i]);
        format!("{a:016x}{b:016x}{c:016x}{d:016x}")
    };
    for (i, wanted, name) in [(0, Fr::ONE, "1"), (1, -Fr::ONE, "-1")] {
        if table[i] != wanted {
            return Err(place.wrong::<Fr>(
                i,
                "a coefficient",
                print(i),
                format_args!("{name} in Montgomery form"),
            ));
        }
    }
    let [a, b, c, d] = MODULUS;
    let bad = (2..table.len()).into_par_iter().with_min_len(TASK).find_map_first(|i| {
        let value = magnitude(table[i]);
        let wrong = |wanted| Some(place.wrong::<Fr>(i, "a coefficient", print(i), wanted));
        if value >= [d, c, b, a] {
            wrong("a value below r")
        } else if table[i].is_zero() || table[i] == Fr::ONE || table[i] == -Fr::ONE {
            wrong("none of 0, 1 and -1")
        } else if i > 2 && value <= magnitude(table[i - 1]) {
            wrong("one above its predecessor")
        } else {
            None
        }
    });
    bad.map_or(Ok(()), Err)
}

/// Every coefficient but 1 and −1 is somebody's.
pub(super) fn usage(layout: &Layout, table: &[Fr], matrices: &[&Matrix]) -> Result<(), FileError> {
    let used: Vec<AtomicBool> = table.iter().map(|_| AtomicBool::new(false)).collect();
    let mark = |i: u32| {
        let used = &used[i as usize];
        if !used.load(Ordering::Relaxed) {
            used.store(true, Ordering::Relaxed);
        }
    };
    for matrix in matrices {
        match &matrix.indices {
            Indices::U16(v) => v.par_iter().with_min_len(TASK).for_each(|&i| mark(i.into())),
            Indices::U32(v) => v.par_iter().with_min_len(TASK).for_each(|&i| mark(i)),
        }
    }
    match used.iter().skip(2).position(|used| !used.load(Ordering::Relaxed)) {
        None => Ok(()),
        Some(i) => {
            let place = Place::of(layout, Section::Coefficients);
            Err(place.wrong::<Fr>(i + 2, "the uses of a coefficient", 0, "at least 1"))
        }
    }
}

/// One matrix whose sections have the right lengths: offsets first, as the rest relies on them.
pub(super) fn matrix(layout: &Layout, counts: &Counts, name: char, matrix: &Matrix) -> Result<(), FileError> {
    let place = |part| Place::of(layout, Section::Matrix(name, part));
    let entries = matrix.entries();
    match &matrix.offsets {
        Offsets::U32(v) => offsets(place(Part::Offsets), v, entries)?,
        Offsets::U64(v) => offsets(place(Part::Offsets), v, entries)?,
    }
    columns(place(Part::Columns), matrix)?;
    match &matrix.indices {
        Indices::U16(v) => indices(place(Part::Indices), v, counts.coefficients)?,
        Indices::U32(v) => indices(place(Part::Indices), v, counts.coefficients)?,
    }
    Ok(())
}

fn offsets<T: Plain + Into<u64>>(place: Place, offsets: &[T], entries: u64) -> Result<(), FileError> {
    let what = "a row's offset";
    let first: u64 = offsets[0].into();
    if first != 0 {
        return Err(place.wrong::<T>(0, what, first, 0));
    }
    let bad = offsets.par_windows(2).with_min_len(TASK).enumerate().find_map_first(|(i, pair)| {
        let (start, end) = (pair[0].into(), pair[1].into());
        (end < start).then(|| place.wrong::<T>(i + 1, what, end, format_args!("at least {start}")))
    });
    if let Some(error) = bad {
        return Err(error);
    }
    let last = offsets.len() - 1;
    let end = offsets[last].into();
    if end != entries {
        return Err(place.wrong::<T>(
            last,
            "the last row's end",
            end,
            format_args!("{entries}, the entries"),
        ));
    }
    Ok(())
}

fn columns(place: Place, matrix: &Matrix) -> Result<(), FileError> {
    let (width, columns) = (matrix.width, &matrix.columns);
    let bad = (0..matrix.rows()).into_par_iter().with_min_len(TASK).find_map_first(|row| {
        let range = matrix.range(row);
        let mut least = 0;
        range.into_iter().find_map(|i| {
            let column = columns[i];
            if column as usize >= width {
                return Some(place.wrong::<u32>(i, "a column", column, format_args!("one below {width}")));
            }
            if u64::from(column) < least {
                let wanted = format_args!("at least {least}: columns of a row ascend").to_string();
                return Some(place.wrong::<u32>(i, "a column", column, wanted));
            }
            least = u64::from(column) + 1;
            None
        })
    });
    bad.map_or(Ok(()), Err)
}

fn indices<T: Plain + Into<u64>>(place: Place, indices: &[T], table: u64) -> Result<(), FileError> {
    let bad = indices.par_iter().with_min_len(TASK).enumerate().find_map_first(|(i, &index)| {
        let index = index.into();
        let what = "a coefficient's index";
        (index >= table).then(|| place.wrong::<T>(i, what, index, format_args!("one below {table}")))
    });
    bad.map_or(Ok(()), Err)
}

/// The last rows of A are the input rows 1 · z_i.
pub(super) fn input_rows(layout: &Layout, counts: &Counts, a: &Matrix) -> Result<(), FileError> {
    let (rows, inputs) = (a.rows(), counts.inputs as usize);
    let bad = (0..inputs).into_par_iter().with_min_len(TASK).find_first(|&input| {
        let mut row = a.row(rows - inputs + input);
        row.next() != Some((input as u32, ONE_INDEX)) || row.next().is_some()
    });
    match bad {
        None => Ok(()),
        Some(input) => {
            let row = rows - inputs + input;
            let place = Place::of(layout, Section::Matrix('A', Part::Columns));
            let found = format!("{:?} (column, coefficient index)", a.row(row).take(3).collect::<Vec<_>>());
            let wanted = format_args!("[({input}, {ONE_INDEX})]").to_string();
            Err(place.wrong::<u32>(a.range(row).start, "an input's row", found, wanted))
        }
    }
}
