//! One table of properties, run over both groups: every distribution of scalars over every kind of points, at sizes
//! around powers of two.
use super::*;
use crate::algebra::{Fr, G1, G2, testing};

/// Double and add.
fn naive<C: Curve>(points: &[C::Affine], scalars: &[Canonical]) -> C::Projective {
    points.iter().zip(scalars).fold(C::identity(), |sum, (p, s)| {
        C::add(&sum, &C::mul(&C::to_projective(p), &Fr::from_canonical(*s)))
    })
}

/// Points with their discrete logarithms: the reference where double and add takes too long.
struct Points<C: Curve> {
    points: Vec<C::Affine>,
    logarithms: Vec<Fr>,
}

impl<C: Curve> Points<C> {
    fn select(&self, mut choose: impl FnMut(usize) -> Choice) -> Self {
        let (points, logarithms) = (0..self.points.len())
            .map(|i| match choose(i) {
                Choice::Point(j) => (self.points[j], self.logarithms[j]),
                Choice::Opposite(j) => (C::neg(&self.points[j]), -self.logarithms[j]),
                Choice::Infinity => (C::Affine::default(), Fr::ZERO),
            })
            .unzip();
        Self { points, logarithms }
    }

    fn wanted(&self, scalars: &[Canonical]) -> C::Projective {
        let logarithm = self
            .logarithms
            .iter()
            .zip(scalars)
            .fold(Fr::ZERO, |sum, (l, s)| sum + *l * Fr::from_canonical(*s));
        C::mul(&C::to_projective(&C::generator()), &logarithm)
    }
}

enum Choice {
    Point(usize),
    Opposite(usize),
    Infinity,
}

fn kinds_of_points<C: Curve>(n: usize) -> Vec<(&'static str, Points<C>)> {
    let (points, logarithms) = testing::multiples::<C>(n);
    let distinct = Points::<C> { points, logarithms };
    vec![
        ("one point", distinct.select(|_| Choice::Point(0))),
        ("few points", distinct.select(|i| Choice::Point(i % 3 % n))),
        (
            "opposites",
            distinct.select(|i| if i % 2 == 0 { Choice::Point(i) } else { Choice::Opposite(i - 1) }),
        ),
        ("infinities", distinct.select(|i| if i % 3 == 0 { Choice::Infinity } else { Choice::Point(i) })),
        ("infinity only", distinct.select(|_| Choice::Infinity)),
        ("distinct points", distinct),
    ]
}

fn kinds_of_scalars(n: usize) -> Vec<(&'static str, Vec<Canonical>)> {
    let uniform = testing::scalars(n, 5);
    let each = |f: &dyn Fn(usize) -> Canonical| (0..n).map(f).collect();
    let two = Fr::from_u64(2);
    let half = (-Fr::ONE * two.inverse().unwrap()).to_canonical();
    let one = Canonical::ONE;
    vec![
        ("zeros", each(&|_| Canonical::ZERO)),
        ("ones", each(&|_| one)),
        ("r - 1", each(&|_| -one)),
        ("bits", each(&|i| if uniform[i].limbs()[0] & 1 == 1 { one } else { Canonical::ZERO })),
        ("all equal", each(&|_| uniform[0])),
        ("the largest magnitudes", each(&|i| if i % 2 == 0 { half } else { half + one })),
        ("one digit", each(&|_| two.pow(&[100]).to_canonical())),
        ("bytes", each(&|i| Canonical::from_u64(uniform[i].limbs()[0] & 0xff))),
        (
            "words and their opposites",
            each(&|i| {
                let word = Canonical::from_u64(uniform[i].limbs()[0]);
                if i % 2 == 0 { word } else { -word }
            }),
        ),
        ("sparse", each(&|i| if i % 37 == 5 { uniform[i] } else { Canonical::ZERO })),
        ("mixed", each(&|i| [Canonical::ZERO, one, uniform[i]][i % 3])),
        ("uniform", uniform.clone()),
    ]
}

fn check<C: Curve>(sizes: &[usize], sum: impl Fn(&PointStore<C>, &[Canonical]) -> C::Projective) {
    for n in sizes {
        let scalars = kinds_of_scalars(*n);
        for (kind, points) in kinds_of_points::<C>(*n) {
            let store = PointStore::<C>::Owned(points.points.clone());
            for (distribution, scalars) in &scalars {
                let found = sum(&store, scalars);
                assert!(found == points.wanted(scalars), "{} {n}: {kind}, {distribution}", C::NAME);
            }
        }
    }
}

fn whole<C: Curve>(store: &PointStore<C>, scalars: &[Canonical]) -> C::Projective {
    msm(store, None, scalars, &CancelToken::new()).unwrap()
}

/// In many small tiles and chunks.
fn tiled<C: Curve>(store: &PointStore<C>, scalars: &[Canonical]) -> C::Projective {
    let scalars = Scalars { index: None, values: scalars };
    msm_by_tiles(store, &scalars, 50, 7, &CancelToken::new()).unwrap()
}

const SMALL: [usize; 13] = [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 127, 129];

#[test]
fn sums_in_g1() {
    check::<G1>(&SMALL, whole);
    check::<G1>(&[1023, 1025, 4096], whole);
    check::<G1>(&[1, 7, 8, 50, 200, 201], tiled);
}

#[test]
fn sums_in_g2() {
    check::<G2>(&SMALL, whole);
    check::<G2>(&[2049], whole);
    check::<G2>(&[50, 201], tiled);
}

fn agrees_with_double_and_add<C: Curve>() {
    for n in [0, 1, 2, 33] {
        let points = testing::multiples::<C>(n).0;
        let store = PointStore::<C>::Owned(points.clone());
        for (distribution, scalars) in kinds_of_scalars(n.max(1)) {
            assert!(whole(&store, &scalars) == naive::<C>(&points, &scalars), "{n}: {distribution}");
        }
    }
}

#[test]
fn double_and_add() {
    agrees_with_double_and_add::<G1>();
    agrees_with_double_and_add::<G2>();
}

#[test]
fn no_points_sum_to_infinity() {
    assert_eq!(whole(&PointStore::<G1>::Owned(Vec::new()), &[]), G1::identity());
    assert_eq!(tiled(&PointStore::<G2>::Owned(Vec::new()), &[Canonical::ONE]), G2::identity());
}

#[test]
fn an_index_selects_scalars() {
    let scalars = testing::scalars(1000, 9);
    let index: Vec<u32> = (0..300).map(|i| (i * i + 7) % 1000).collect();
    let (points, logarithms) = testing::multiples::<G1>(index.len());
    let selected: Vec<_> = index.iter().map(|i| scalars[*i as usize]).collect();
    let wanted = Points::<G1> { points: points.clone(), logarithms }.wanted(&selected);
    let store = PointStore::<G1>::Owned(points);
    assert_eq!(msm(&store, Some(&index), &scalars, &CancelToken::new()), Ok(wanted));
}

#[test]
fn a_raised_token_stops_the_sum() {
    let cancel = CancelToken::new();
    cancel.cancel();
    let store = PointStore::<G1>::Owned(testing::multiples::<G1>(40).0);
    assert_eq!(msm(&store, None, &testing::scalars(40, 1), &cancel), Err(Cancelled));
}
