//! Sums of many short lists of points by affine additions that share their inversions.
//!
//! An affine addition takes one inversion and three products; Montgomery's trick turns n inversions into one and
//! 3n products, six products an addition in all, where mixed Jacobian coordinates take eleven. The lists ("runs")
//! are halved level by level, so that a long run is a tree and never a chain of dependent additions.
use crate::algebra::{BaseField, Curve};

/// Buffers of [`Runs::sum`], kept between calls.
pub(super) struct Runs<C: Curve> {
    /// The points of all runs, one run after the other.
    points: Vec<C::Affine>,
    /// The length of each run.
    lengths: Vec<u32>,
    /// Denominators of the level's additions, last pair first.
    denominators: Vec<C::Field>,
    /// For each of them, the product of those before it.
    products: Vec<C::Field>,
}

impl<C: Curve> Runs<C> {
    pub(super) fn new() -> Self {
        Self { points: Vec::new(), lengths: Vec::new(), denominators: Vec::new(), products: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        self.points.clear();
        self.lengths.clear();
    }

    /// One more run, of at least one point.
    #[inline(always)]
    pub(super) fn push_run(&mut self, points: impl Iterator<Item = C::Affine>) {
        let start = self.points.len();
        self.points.extend(points);
        self.lengths.push((self.points.len() - start) as u32);
    }

    /// One sum for each run, in their order.
    pub(super) fn sum(&mut self) -> &[C::Affine] {
        while self.points.len() > self.lengths.len() {
            self.halve();
        }
        &self.points
    }

    /// Adds the points of each run pairwise, an odd last one staying as it is.
    fn halve(&mut self) {
        self.denominators.clear();
        self.products.clear();
        let mut product = C::Field::one();
        let mut end = self.points.len();
        for length in self.lengths.iter().rev() {
            let start = end - *length as usize;
            for pair in self.points[start..end].as_chunks::<2>().0.iter().rev() {
                let denominator = denominator::<C>(&pair[0], &pair[1]);
                self.products.push(product);
                self.denominators.push(denominator);
                product = product.mul(&denominator);
            }
            end = start;
        }
        let mut inverse = product.inverse();
        // Forwards now; results go to places whose points have been read.
        let (mut read, mut write) = (0, 0);
        let mut pairs = self.denominators.iter().zip(&self.products).rev();
        for length in &mut self.lengths {
            let run_end = read + *length as usize;
            while read + 1 < run_end {
                let Some((denominator, product)) = pairs.next() else { break };
                let reciprocal = inverse.mul(product);
                inverse = inverse.mul(denominator);
                self.points[write] = add::<C>(&self.points[read], &self.points[read + 1], &reciprocal);
                read += 2;
                write += 1;
            }
            if read < run_end {
                self.points[write] = self.points[read];
                read += 1;
                write += 1;
            }
            *length = length.div_ceil(2);
        }
        self.points.truncate(write);
    }
}

/// What p + q divides by: never zero, and 1 where nothing is divided.
#[inline(always)]
pub(super) fn denominator<C: Curve>(p: &C::Affine, q: &C::Affine) -> C::Field {
    let ((px, py), (qx, qy)) = (C::coordinates(p), C::coordinates(q));
    let difference = qx.sub(px);
    if difference.is_zero() || px.is_zero() || qx.is_zero() {
        return rare_denominator::<C>(p, q, py, qy, difference);
    }
    difference
}

#[cold]
fn rare_denominator<C: Curve>(
    p: &C::Affine,
    q: &C::Affine,
    py: &C::Field,
    qy: &C::Field,
    difference: C::Field,
) -> C::Field {
    if C::is_infinity(p) || C::is_infinity(q) {
        return C::Field::one();
    }
    if !difference.is_zero() {
        return difference;
    }
    // The same x: the same point, whose tangent's slope divides by 2y, or opposite ones (y = 0 among them).
    let sum = py.add(qy);
    if sum.is_zero() { C::Field::one() } else { sum }
}

/// p + q, given the reciprocal of their [`denominator`].
#[inline(always)]
pub(super) fn add<C: Curve>(p: &C::Affine, q: &C::Affine, reciprocal: &C::Field) -> C::Affine {
    let ((px, py), (qx, qy)) = (C::coordinates(p), C::coordinates(q));
    if px.equals(qx) || px.is_zero() || qx.is_zero() {
        return rare_add::<C>(p, q, reciprocal);
    }
    with_slope::<C>(p, qx, qy.sub(py).mul(reciprocal))
}

#[cold]
fn rare_add<C: Curve>(p: &C::Affine, q: &C::Affine, reciprocal: &C::Field) -> C::Affine {
    let ((px, py), (qx, qy)) = (C::coordinates(p), C::coordinates(q));
    if C::is_infinity(p) {
        return *q;
    }
    if C::is_infinity(q) {
        return *p;
    }
    if !px.equals(qx) {
        return with_slope::<C>(p, qx, qy.sub(py).mul(reciprocal));
    }
    if py.add(qy).is_zero() {
        return C::Affine::default();
    }
    let square = px.square();
    with_slope::<C>(p, qx, square.add(&square).add(&square).mul(reciprocal))
}

/// The third point of the line through p with that slope, which also meets the curve at qx, reflected.
#[inline(always)]
fn with_slope<C: Curve>(p: &C::Affine, qx: &C::Field, slope: C::Field) -> C::Affine {
    let (px, py) = C::coordinates(p);
    let x = slope.square().sub(px).sub(qx);
    let y = slope.mul(&px.sub(&x)).sub(py);
    C::from_coordinates(x, y)
}
