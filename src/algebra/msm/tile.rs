//! The points of one tile with their scalars recoded, and their order by bucket.
use super::digits::{Recoding, magnitude};
use crate::algebra::{BaseField, CancelToken, Cancelled, Canonical, Curve, PointStore};
use rayon::prelude::*;
use std::ops::Range;
use zeroize::Zeroize;

/// Where the scalars of points are.
pub(super) struct Scalars<'a> {
    pub(super) index: Option<&'a [u32]>,
    pub(super) values: &'a [Canonical],
}

impl Scalars<'_> {
    /// The scalar of point i.
    #[inline(always)]
    pub(super) fn get(&self, i: usize) -> Canonical {
        match self.index {
            Some(index) => self.values[index[i] as usize],
            None => self.values[i],
        }
    }
}

/// A point of the tile as an addend: its place shifted left by one, and the sign in the lowest bit.
#[derive(Clone, Copy)]
struct Addend(u32);

impl Addend {
    fn new(place: usize, negated: bool) -> Self {
        Self((place as u32) << 1 | u32::from(negated))
    }
    fn negated_if(self, negated: bool) -> Self {
        Self(self.0 ^ u32::from(negated))
    }
}

/// How many addends ahead their points are fetched: they lie in no order that the processor could foresee.
const PREFETCH: usize = 16;

/// Begins to load `points[place]`.
#[inline(always)]
fn prefetch<T>(points: &[T], place: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(point) = points.get(place) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for line in (0..size_of::<T>()).step_by(64) {
            // SAFETY: the address lies in the element; a prefetch reads nothing that the program could see.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(point).cast::<i8>().add(line)) };
        }
    }
}

/// The scalars of one chunk that are neither zero nor at a point at infinity.
struct Chunk {
    /// Those of one digit: its bucket, in the lowest window.
    short: Vec<(u32, Addend)>,
    /// The others, shifted for reading digits.
    long: Vec<([u64; 4], Addend)>,
}

/// Points with nonzero scalars, and for each bucket of each window the points that go into it.
pub(super) struct Tile<C: Curve> {
    points: Vec<C::Affine>,
    /// By bucket.
    addends: Vec<Addend>,
    /// Buckets of all windows, lowest window first: where in `addends` each ends.
    ends: Vec<u32>,
}

impl<C: Curve> Tile<C> {
    /// `chunks` are ranges of points with the number of nonzero scalars in each.
    pub(super) fn new(
        store: &PointStore<C>,
        scalars: &Scalars<'_>,
        chunks: &[(Range<usize>, usize)],
        recoding: &Recoding,
        cancel: &CancelToken,
    ) -> Result<Self, Cancelled> {
        let mut points = vec![C::Affine::default(); chunks.iter().map(|(_, nonzero)| nonzero).sum()];
        let mut parts = Vec::with_capacity(chunks.len());
        let (mut rest, mut first) = (points.as_mut_slice(), 0);
        for (range, nonzero) in chunks {
            let (places, others) = rest.split_at_mut(*nonzero);
            parts.push((range.clone(), places, first));
            (rest, first) = (others, first + nonzero);
        }
        let chunks = parts
            .into_par_iter()
            .map(|(range, places, first)| {
                cancel.check()?;
                Ok(Chunk::new(store, scalars, range, places, first, recoding))
            })
            .collect::<Result<Vec<_>, Cancelled>>()?;

        // A counting sort in each window.
        let buckets = recoding.buckets();
        let mut ends = vec![0u32; recoding.windows() * buckets];
        ends.par_chunks_mut(buckets).enumerate().try_for_each(|(window, counts)| {
            cancel.check()?;
            for chunk in &chunks {
                chunk.for_each(window, recoding, |bucket, _| counts[bucket] += 1);
            }
            Ok(())
        })?;
        let total: usize = ends.iter().map(|count| *count as usize).sum();
        let mut addends = vec![Addend(0); total];
        let mut parts = Vec::with_capacity(recoding.windows());
        let (mut rest, mut first) = (addends.as_mut_slice(), 0);
        for counts in ends.chunks_mut(buckets) {
            let count = counts.iter().sum::<u32>();
            let (places, others) = rest.split_at_mut(count as usize);
            parts.push((counts, places, first));
            (rest, first) = (others, first + count);
        }
        parts.into_par_iter().enumerate().try_for_each(|(window, (ends, places, first))| {
            cancel.check()?;
            let mut next = 0;
            for end in ends.iter_mut() {
                (*end, next) = (next, next + *end);
            }
            for chunk in &chunks {
                chunk.for_each(window, recoding, |bucket, addend| {
                    places[ends[bucket] as usize] = addend;
                    ends[bucket] += 1;
                });
            }
            ends.iter_mut().for_each(|end| *end += first);
            Ok(())
        })?;
        Ok(Self { points, addends, ends })
    }

    /// Places in `addends` of one bucket's points.
    #[inline(always)]
    pub(super) fn bucket(&self, bucket: usize) -> Range<usize> {
        let start = if bucket == 0 { 0 } else { self.ends[bucket - 1] };
        start as usize..self.ends[bucket] as usize
    }

    /// The first bucket that ends past `addend`; the number of buckets if none does.
    pub(super) fn bucket_at(&self, addend: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= addend)
    }

    /// The points, with their signs, at `range` of the addends.
    #[inline(always)]
    pub(super) fn signed_points(&self, range: Range<usize>) -> impl Iterator<Item = C::Affine> + '_ {
        range.map(|i| {
            let addend = self.addends[i];
            if let Some(later) = self.addends.get(i + PREFETCH) {
                prefetch(&self.points, (later.0 >> 1) as usize);
            }
            let point = &self.points[(addend.0 >> 1) as usize];
            let (x, y) = C::coordinates(point);
            C::from_coordinates(*x, C::Field::select(addend.0 & 1 == 1, &y.neg(), y))
        })
    }
}

/// Scalars are secrets.
impl Drop for Chunk {
    fn drop(&mut self) {
        self.short.iter_mut().for_each(|(bucket, _)| bucket.zeroize());
        self.long.iter_mut().for_each(|(scalar, _)| scalar.zeroize());
    }
}

/// The order by bucket tells the digits.
impl<C: Curve> Drop for Tile<C> {
    fn drop(&mut self) {
        self.addends.iter_mut().for_each(|addend| addend.0.zeroize());
        self.ends.zeroize();
    }
}

impl Chunk {
    fn new<C: Curve>(
        store: &PointStore<C>,
        scalars: &Scalars<'_>,
        range: Range<usize>,
        places: &mut [C::Affine],
        first: usize,
        recoding: &Recoding,
    ) -> Self {
        // Room for all: a vector that grows would leave copies of scalars behind.
        let (mut short, mut long) = (Vec::with_capacity(places.len()), Vec::with_capacity(places.len()));
        let mut used = 0;
        for i in range {
            let scalar = scalars.get(i);
            if scalar.is_zero() {
                continue;
            }
            let point = store.get(i);
            if C::is_infinity(&point) {
                continue;
            }
            let (magnitude, negated) = magnitude(scalar);
            places[used] = point;
            let addend = Addend::new(first + used, negated);
            used += 1;
            match recoding.single_digit(&magnitude) {
                Some(digit) => short.push((digit - 1, addend)),
                None => long.push((recoding.shift(&magnitude), addend)),
            }
        }
        Self { short, long }
    }

    /// Calls `visit` with bucket and addend of every nonzero digit in the window.
    #[inline(always)]
    fn for_each(&self, window: usize, recoding: &Recoding, mut visit: impl FnMut(usize, Addend)) {
        if window == 0 {
            for (bucket, addend) in &self.short {
                visit(*bucket as usize, *addend);
            }
        }
        for (shifted, addend) in &self.long {
            let digit = recoding.digit(shifted, window);
            if digit != 0 {
                visit(digit.unsigned_abs() as usize - 1, addend.negated_if(digit < 0));
            }
        }
    }
}
