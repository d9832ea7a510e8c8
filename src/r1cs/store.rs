//! Long vectors of plain values: owned, or left in a mapped file and used in place. On top of them
//! the two narrow integer vectors of a sparse matrix: row offsets and coefficient indices, each in
//! the narrowest width that its values allow, so that equal matrices are equal byte for byte.
use crate::algebra::Fr;
use memmap2::Mmap;
use rayon::prelude::*;
use std::{ops::Deref, sync::Arc};

/// Types whose every bit pattern is a value, without padding: they may be read from a file's bytes.
///
/// # Safety
/// Implementors have no padding and no invalid bit patterns.
pub(crate) unsafe trait Plain: Copy + Send + Sync + 'static {}
// SAFETY: integers have neither padding nor invalid bit patterns.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: `Fr` is transparent over four u64 limbs. (Limbs not below r are wrong but not undefined;
// whoever maps them checks them.)
unsafe impl Plain for Fr {}

/// A vector in memory, or part of a mapped file.
pub(crate) enum Store<T: Plain> {
    Owned(Vec<T>),
    Mapped(MappedSlice<T>),
}

/// `len` values at a byte offset of a mapped file; range and alignment are checked when it is made.
pub(crate) struct MappedSlice<T: Plain> {
    map: Arc<Mmap>,
    offset: usize,
    len: usize,
    _values: std::marker::PhantomData<T>,
}

impl<T: Plain> MappedSlice<T> {
    /// None where the range leaves the mapping or is not aligned for `T`.
    pub(crate) fn new(map: &Arc<Mmap>, offset: u64, len: u64) -> Option<Self> {
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        let end = len.checked_mul(size_of::<T>())?.checked_add(offset)?;
        let aligned = (map.as_ptr() as usize).checked_add(offset)? % align_of::<T>() == 0;
        (end <= map.len() && aligned).then(|| Self {
            map: map.clone(),
            offset,
            len,
            _values: std::marker::PhantomData,
        })
    }
}

impl<T: Plain> Deref for Store<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match self {
            Self::Owned(v) => v,
            // SAFETY: `MappedSlice::new` checked that offset and length lie within the mapping, which
            // `map` keeps alive and which is never written through, and that the start is aligned;
            // every bit pattern is a `T`.
            Self::Mapped(m) => unsafe {
                std::slice::from_raw_parts(m.map.as_ptr().add(m.offset).cast::<T>(), m.len)
            },
        }
    }
}

/// The bytes of plain values, in the host's (little-endian) order.
pub(crate) fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: `T` has no padding, so all size_of_val(values) bytes are initialised; u8 has alignment 1.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) }
}

/// Ends of rows in a matrix, preceded by 0: u32 where the last one fits, else u64.
pub(crate) enum Offsets {
    U32(Store<u32>),
    U64(Store<u64>),
}

impl Offsets {
    /// Whether a matrix with this many entries has 32-bit offsets.
    pub(crate) fn narrow(entries: u64) -> bool {
        u32::try_from(entries).is_ok()
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::U32(v) => v.len() - 1,
            Self::U64(v) => v.len() - 1,
        }
    }

    pub(crate) fn get(&self, i: usize) -> u64 {
        match self {
            Self::U32(v) => v[i].into(),
            Self::U64(v) => v[i],
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::U32(v) => bytes_of(v),
            Self::U64(v) => bytes_of(v),
        }
    }
}

/// Indices into the coefficient table: u16 where the table has at most 2^16 values, else u32.
pub(crate) enum Indices {
    U16(Store<u16>),
    U32(Store<u32>),
}

impl Indices {
    /// Whether indices into a table of this many coefficients have 16 bits.
    pub(crate) fn narrow(table: u64) -> bool {
        table <= 1 << 16
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::U16(v) => bytes_of(v),
            Self::U32(v) => bytes_of(v),
        }
    }
}

/// Offsets while a matrix is built.
pub(crate) enum OffsetsBuf {
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl OffsetsBuf {
    /// No rows yet: the one offset 0.
    pub(crate) fn new() -> Self {
        Self::U32(vec![0])
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::U32(v) => v.len() - 1,
            Self::U64(v) => v.len() - 1,
        }
    }

    fn get(&self, i: usize) -> u64 {
        match self {
            Self::U32(v) => v[i].into(),
            Self::U64(v) => v[i],
        }
    }

    /// Appends the end of the next row; `end` is not below the previous one.
    pub(crate) fn push(&mut self, end: u64) {
        match (&mut *self, u32::try_from(end)) {
            (Self::U32(v), Ok(end)) => v.push(end),
            (Self::U32(v), Err(_)) => {
                let mut wide: Vec<u64> = v.iter().map(|&o| o.into()).collect();
                wide.push(end);
                *self = Self::U64(wide);
            }
            (Self::U64(v), _) => v.push(end),
        }
    }

    /// Appends another matrix's rows, the first of which begins at the last end so far.
    pub(crate) fn append(&mut self, other: &Self) {
        let base = self.get(self.rows());
        let last = base + other.get(other.rows());
        match (&mut *self, other) {
            (Self::U32(v), Self::U32(other)) if u32::try_from(last).is_ok() => {
                v.extend(other[1..].iter().map(|&end| base as u32 + end));
            }
            _ => (1..=other.rows()).for_each(|row| self.push(base + other.get(row))),
        }
    }

    pub(crate) fn freeze(self) -> Offsets {
        match self {
            Self::U32(mut v) => {
                v.shrink_to_fit();
                Offsets::U32(Store::Owned(v))
            }
            Self::U64(mut v) => {
                v.shrink_to_fit();
                Offsets::U64(Store::Owned(v))
            }
        }
    }
}

/// Coefficient indices while a matrix is built: they widen when the first large one comes.
pub(crate) enum IndicesBuf {
    U16(Vec<u16>),
    U32(Vec<u32>),
}

impl IndicesBuf {
    /// No indices yet.
    pub(crate) fn new() -> Self {
        Self::U16(Vec::new())
    }

    pub(crate) fn push(&mut self, index: u32) {
        match (&mut *self, u16::try_from(index)) {
            (Self::U16(v), Ok(index)) => v.push(index),
            (Self::U16(v), Err(_)) => {
                *self = Self::U32(v.iter().map(|&i| i.into()).chain([index]).collect());
            }
            (Self::U32(v), _) => v.push(index),
        }
    }

    /// Appends `map[i]` for every index i of another vector.
    pub(crate) fn append(&mut self, other: &Self, map: &[u32]) {
        let narrow = map.iter().all(|&i| u16::try_from(i).is_ok());
        match (&mut *self, other) {
            (Self::U16(v), Self::U16(other)) if narrow => {
                v.extend(other.iter().map(|&i| map[usize::from(i)] as u16));
            }
            (_, Self::U16(other)) => other.iter().for_each(|&i| self.push(map[usize::from(i)])),
            (_, Self::U32(other)) => other.iter().for_each(|&i| self.push(map[i as usize])),
        }
    }

    /// Calls `seen` with every index, in parallel.
    pub(crate) fn for_each(&self, seen: impl Fn(u32) + Sync) {
        match self {
            Self::U16(v) => v.par_iter().with_min_len(1 << 14).for_each(|&i| seen(i.into())),
            Self::U32(v) => v.par_iter().with_min_len(1 << 14).for_each(|&i| seen(i)),
        }
    }

    /// Replaces every index i by `map[i]`, in the width that a table of `table` coefficients wants.
    pub(crate) fn remap(self, map: &[u32], table: u64) -> Indices {
        match (self, Indices::narrow(table)) {
            (Self::U16(mut v), true) => {
                v.par_iter_mut().for_each(|i| *i = map[usize::from(*i)] as u16);
                v.shrink_to_fit();
                Indices::U16(Store::Owned(v))
            }
            (Self::U16(v), false) => {
                Indices::U32(Store::Owned(v.par_iter().map(|&i| map[usize::from(i)]).collect()))
            }
            (Self::U32(v), true) => {
                Indices::U16(Store::Owned(v.par_iter().map(|&i| map[i as usize] as u16).collect()))
            }
            (Self::U32(mut v), false) => {
                v.par_iter_mut().for_each(|i| *i = map[*i as usize]);
                v.shrink_to_fit();
                Indices::U32(Store::Owned(v))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_widen_when_the_first_one_passes_32_bits() {
        let mut offsets = OffsetsBuf::new();
        let ends = [0, 7, u32::MAX.into(), 1 << 32, (1 << 40) + 3];
        for end in ends {
            offsets.push(end);
        }
        assert_eq!(offsets.rows(), ends.len());
        let frozen = offsets.freeze();
        assert!(matches!(frozen, Offsets::U64(_)));
        assert_eq!(frozen.rows(), ends.len());
        assert_eq!(frozen.get(0), 0);
        for (i, end) in ends.into_iter().enumerate() {
            assert_eq!(frozen.get(i + 1), end);
        }
        assert_eq!(frozen.bytes().len(), 8 * (ends.len() + 1));
        assert!(Offsets::narrow(u32::MAX.into()) && !Offsets::narrow(1 << 32));
    }

    #[test]
    fn indices_are_as_wide_as_the_table_wants() {
        let identity: Vec<u32> = (0..70_000).collect();
        let indices = |last: u32| {
            let mut indices = IndicesBuf::new();
            [0, 65_535, last, 3].into_iter().for_each(|index| indices.push(index));
            indices
        };
        for (last, table, wide) in [(5, 65_536, false), (65_535, 65_537, true), (65_536, 65_537, true)] {
            let frozen = indices(last).remap(&identity, table);
            let values: Vec<u32> = match &frozen {
                Indices::U16(v) => v.iter().map(|&i| i.into()).collect(),
                Indices::U32(v) => v.to_vec(),
            };
            assert_eq!(values, [0, 65_535, last, 3]);
            assert_eq!(matches!(frozen, Indices::U32(_)), wide, "table of {table}");
        }
        // A table that shrank below what its indices were made for narrows them.
        let mut map = identity.clone();
        map[65_536] = 9;
        let narrowed = indices(65_536).remap(&map, 65_536);
        assert!(matches!(narrowed, Indices::U16(_)));
    }

    #[test]
    fn appended_offsets_and_indices_widen_too() {
        let offsets = |ends: &[u64]| {
            let mut offsets = OffsetsBuf::new();
            ends.iter().for_each(|&end| offsets.push(end));
            offsets
        };
        let most = u64::from(u32::MAX);
        for (left, right, wide) in [
            (vec![3], vec![1, 5], false),
            (vec![most - 5], vec![5], false),
            (vec![most - 5], vec![5, 6], true),
        ] {
            let mut all = offsets(&left);
            all.append(&offsets(&right));
            let found: Vec<u64> = (0..=all.rows()).map(|i| all.get(i)).collect();
            let base = left[left.len() - 1];
            let wanted: Vec<u64> =
                [0].into_iter().chain(left.clone()).chain(right.iter().map(|end| base + end)).collect();
            assert_eq!(found, wanted);
            assert_eq!(matches!(all, OffsetsBuf::U64(_)), wide);
        }
        let (mut indices, mut other) = (IndicesBuf::new(), IndicesBuf::new());
        indices.push(0);
        [1, 0, 1].into_iter().for_each(|i| other.push(i));
        indices.append(&other, &[7, 65_535]);
        assert!(matches!(indices, IndicesBuf::U16(_)));
        indices.append(&other, &[7, 65_536]);
        other.push(70_000);
        let map: Vec<u32> = (1..=70_001).collect();
        indices.append(&other, &map);
        let IndicesBuf::U32(found) = indices else { panic!("not wide") };
        assert_eq!(found, [0, 65_535, 7, 65_535, 65_536, 7, 65_536, 2, 1, 2, 70_001]);
    }

    #[test]
    fn mapped_slices_stay_in_their_mapping() {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1, 0, 0, 0, 2, 0, 0, 0, 3, 0]).unwrap();
        // SAFETY: nobody else has the file.
        let map = Arc::new(unsafe { memmap2::MmapOptions::new().map_copy_read_only(&file) }.unwrap());
        let slice = Store::Mapped(MappedSlice::<u32>::new(&map, 0, 2).unwrap());
        assert_eq!(*slice, [1, 2]);
        for (offset, len) in [(0, 3), (2, 1), (8, 1), (12, 0), (u64::MAX, 1), (4, u64::MAX), (4, 1 << 62)] {
            assert!(MappedSlice::<u32>::new(&map, offset, len).is_none(), "{offset} {len}");
        }
        assert!(MappedSlice::<u16>::new(&map, 8, 1).is_some());
    }
}
