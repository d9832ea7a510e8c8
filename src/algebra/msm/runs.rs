//! Sums of many short lists of points by affine additions that share their inversions.
//!
//! An affine addition takes one inversion and three products; Montgomery's trick turns n inversions into one and
//! 3n products, six products an addition in all, where mixed Jacobian coordinates take eleven. The lists ("runs")
//! are halved level by level, so that a long run is a tree and never a chain of dependent additions.
use crate::algebra::{BaseField, Curve};

/// Buffers of [`Runs::sum`], kept between calls.
pub(crate) struct Runs<C: Curve> {
    /// The points of all runs, one run after the other.
    points: Vec<C::Affine>,
    /// The length of each run.
    lengths: Vec<u32>,
    reciprocals: Reciprocals<C::Field>,
}

impl<C: Curve> Runs<C> {
    pub(crate) fn new() -> Self {
        Self { points: Vec::new(), lengths: Vec::new(), reciprocals: Reciprocals::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.points.clear();
        self.lengths.clear();
    }

    /// One more run, of at least one point.
    #[inline(always)]
    pub(crate) fn push_run(&mut self, points: impl Iterator<Item = C::Affine>) {
        let start = self.points.len();
        self.points.extend(points);
        self.lengths.push((self.points.len() - start) as u32);
    }

    /// One sum for each run, in their order.
    pub(crate) fn sum(&mut self) -> &[C::Affine] {
        while self.points.len() > self.lengths.len() {
            self.halve();
        }
        &self.points
    }

    /// Adds the points of each run pairwise, an odd last one staying as it is.
    fn halve(&mut self) {
        self.reciprocals.clear();
        let mut end = self.points.len();
        for length in self.lengths.iter().rev() {
            let start = end - *length as usize;
            for pair in self.points[start..end].as_chunks::<2>().0.iter().rev() {
                self.reciprocals.push(denominator::<C>(&pair[0], &pair[1]));
            }
            end = start;
        }
        self.reciprocals.invert();
        // Forwards now: results go to places whose points have been read.
        let (mut read, mut write) = (0, 0);
        let mut reciprocal = C::Field::default();
        for length in &mut self.lengths {
            for _ in 0..*length / 2 {
                self.reciprocals.pop(&mut reciprocal);
                self.points[write] = add::<C>(&self.points[read], &self.points[read + 1], &reciprocal);
                read += 2;
                write += 1;
            }
            if *length % 2 == 1 {
                self.points[write] = self.points[read];
                read += 1;
                write += 1;
            }
            *length = length.div_ceil(2);
        }
        self.points.truncate(write);
    }
}

/// The reciprocals of many elements by one inversion (Montgomery, "Speeding the Pollard and elliptic curve methods
/// of factorization", 1987): a stack that takes elements and, once inverted, gives their reciprocals.
pub(super) struct Reciprocals<F> {
    elements: Vec<F>,
    /// `products[i]` is the product of the first i elements.
    products: Vec<F>,
    /// 1 over the product of all elements that are still on the stack.
    inverse: F,
}

impl<F: BaseField> Reciprocals<F> {
    pub(super) fn new() -> Self {
        Self { elements: Vec::new(), products: vec![F::one()], inverse: F::one() }
    }

    pub(super) fn clear(&mut self) {
        self.elements.clear();
        self.products.truncate(1);
    }

    /// Not zero.
    #[inline(always)]
    pub(super) fn push(&mut self, element: F) {
        let count = self.elements.len();
        self.elements.push(element);
        self.products.push(F::default());
        let (before, last) = self.products.split_at_mut(count + 1);
        last[0].set_product(&before[count], &self.elements[count]);
    }

    pub(super) fn invert(&mut self) {
        self.inverse = self.products[self.elements.len()].inverse();
    }

    /// Takes the last element and sets `reciprocal` to its reciprocal; does nothing when there is none.
    #[inline(always)]
    pub(super) fn pop(&mut self, reciprocal: &mut F) {
        if let Some(element) = self.elements.pop() {
            reciprocal.set_product(&self.inverse, &self.products[self.elements.len()]);
            self.inverse.multiply_by(&element);
        }
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
