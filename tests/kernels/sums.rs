//! What every implementation of the curve kernels must do: fields, points, and multi-exponentiations whose
//! sums are known from the points' logarithms. Run on the emulation and on devices.
use crate::properties::{Backend, each, minus_one, scalars};
use cuzk::{
    algebra::{BaseField, Canonical, Curve, Fr},
    gpu::{
        DeviceSlice,
        msm::{Chunk, Msm},
        msm_plan::{MsmDevice, MsmPlan, MsmSize},
        msm_sort::Windows,
        points::{self, DeviceCurve},
    },
};
use rayon::prelude::*;

/// Points with known logarithms: consecutive multiples of the generator, so that sums of different pairs
/// are often equal.
pub fn points<C: DeviceCurve>(count: usize) -> (Vec<C::Affine>, Vec<Fr>) {
    const TILE: usize = 1 << 10;
    let generator = C::generator();
    let tiles = (0..count.div_ceil(TILE)).into_par_iter().flat_map(|tile| {
        let mut log = Fr::from_u64((tile * TILE) as u64 + 1);
        let mut point = C::mul(&C::to_projective(&generator), &log);
        let mut tile_points = Vec::new();
        let mut logs = Vec::new();
        for _ in tile * TILE..count.min((tile + 1) * TILE) {
            tile_points.push(point);
            logs.push(log);
            point = C::add_affine(&point, &generator);
            log += Fr::from_u64(1);
        }
        C::batch_to_affine(&tile_points).into_par_iter().zip(logs)
    });
    tiles.unzip()
}

/// As many points with random logarithms as are asked for: a few from the host, and the device's multiples of
/// them by 2^64, of those again, and so on.
fn points_of_device<C: DeviceCurve>(
    backend: &impl Backend,
    multiprocessors: u32,
    count: usize,
) -> (DeviceSlice<C::Affine>, Vec<Fr>) {
    const SEEDS: usize = 1 << 12;
    const DOUBLINGS: u32 = 64;
    let generator = C::to_projective(&C::generator());
    let mut logs: Vec<Fr> =
        scalars(SEEDS.min(count.div_ceil(4)), 17).into_iter().map(Fr::from_canonical).collect();
    let seeds: Vec<_> = logs.par_iter().map(|log| C::mul(&generator, log)).collect();
    let all = backend.alloc(count);
    backend.write(all.slice(0..seeds.len()).unwrap(), &C::batch_to_affine(&seeds));
    let scratch = backend.alloc(points::multiples_scratch_bytes(multiprocessors) as usize);
    let factor = Fr::from_u64(2).pow(&[DOUBLINGS.into()]);
    while logs.len() < count {
        let (have, more) = (logs.len(), logs.len().min(count - logs.len()));
        let (from, to) = (all.slice(0..more).unwrap(), all.slice(have..have + more).unwrap());
        // SAFETY: slices of the backend.
        unsafe { points::multiples::<C>(backend, multiprocessors, from, to, DOUBLINGS, scratch) }.unwrap();
        let more: Vec<Fr> = logs[..more].par_iter().map(|&log| log * factor).collect();
        logs.extend(more);
    }
    (all, logs)
}

/// Elements of the coordinates' field, in whole warps, with all edges of its representation.
fn field_elements<C: DeviceCurve>() -> Vec<C::Field> {
    let zero = C::Field::default();
    let one = C::Field::one();
    let minus_one = one.neg();
    let mut edges = vec![zero, one, minus_one, one.add(&one), minus_one.add(&minus_one)];
    // Limbs of ones and zeros: the largest and smallest that a chain of carries meets.
    for limbs in [
        [1, 0, 0, 0, 0, 0],
        [u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX, (1 << 60) - 1],
        [0, u64::MAX, 0, u64::MAX, 0, 1 << 60],
        [0, 0, 0, 0, 0, 0x1a01_11ea_397f_e699],
    ] {
        let mut value = zero;
        for (k, component) in value.components_mut().iter_mut().enumerate() {
            component.l = limbs;
            component.l[0] ^= k as u64;
        }
        edges.push(value);
        let mut value = zero;
        value.components_mut()[C::Field::DEGREE - 1].l = limbs;
        edges.push(value);
    }
    // Whatever coordinates points have.
    edges.extend(points::<C>(80).0.iter().flat_map(|p| [*C::coordinates(p).0, *C::coordinates(p).1]));
    edges.truncate(edges.len() / 32 * 32);
    edges
}

/// Sums, differences, products, squares and inverses of coordinates.
pub fn field_arithmetic<C: DeviceCurve>(backend: &impl Backend) {
    let elements = field_elements::<C>();
    for shift in [0, 1, 2, 3, 5, 8, 13, 21] {
        let mut right = elements.clone();
        right.rotate_left(shift);
        let (l, r) = (backend.upload(&elements), backend.upload(&right));
        let out = backend.alloc(5 * elements.len());
        // SAFETY: slices of the backend.
        unsafe { points::field_arithmetic::<C>(backend, l, r, out) }.unwrap();
        let out = backend.read(out);
        let results: Vec<&[C::Field]> = out.chunks_exact(elements.len()).collect();
        for (i, (a, b)) in elements.iter().zip(&right).enumerate() {
            let found = [results[0][i], results[1][i], results[2][i], results[3][i], results[4][i]];
            assert_eq!(found, [a.add(b), a.sub(b), a.mul(b), a.square(), a.inverse()], "{a:?}, {b:?}");
        }
    }
}

/// Additions and doublings, with infinity, equal and opposite points.
pub fn curve_arithmetic<C: DeviceCurve>(backend: &impl Backend) {
    let (some, _) = points::<C>(5);
    let mut all = vec![C::Affine::default()];
    all.extend(some.iter().flat_map(|p| [*p, C::neg(p)]));
    let mut left: Vec<_> = all.iter().flat_map(|p| vec![*p; all.len()]).collect();
    let mut right: Vec<_> = all.iter().flat_map(|_| all.iter().copied()).collect();
    let count = left.len().next_multiple_of(32);
    left.resize(count, C::Affine::default());
    right.resize(count, C::Affine::default());
    let out = backend.alloc(4 * count);
    // SAFETY: slices of the backend.
    unsafe { points::curve_arithmetic::<C>(backend, backend.upload(&left), backend.upload(&right), out) }
        .unwrap();
    let out: Vec<C::Projective> = backend.read(out);
    for (i, (l, r)) in left.iter().zip(&right).enumerate() {
        let sum = C::add_affine(&C::to_projective(l), r);
        let twice = C::double(&sum);
        let more = C::add(&sum, &C::double(&C::to_projective(l)));
        for (k, wanted) in [sum, twice, twice, more].into_iter().enumerate() {
            assert_eq!(C::to_affine(&out[k * count + i]), C::to_affine(&wanted), "{l:?}, {r:?}, result {k}");
        }
    }
}

/// Keys' encoding, with every kind of bad point.
pub fn decoding<C: DeviceCurve>(backend: &impl Backend) {
    let decode = |encoded: &[u8]| {
        let out = backend.alloc::<C::Affine>(encoded.len() / C::UNCOMPRESSED);
        let bad = backend.upload(&[u64::MAX]);
        // SAFETY: slices of the backend.
        unsafe { points::decode::<C>(backend, backend.upload(encoded), out, bad) }.unwrap();
        (backend.read(out), backend.read(bad)[0])
    };
    let (mut good, _) = points::<C>(300);
    good[7] = C::Affine::default();
    let mut encoded = vec![0; good.len() * C::UNCOMPRESSED];
    for (p, out) in good.iter().zip(encoded.chunks_exact_mut(C::UNCOMPRESSED)) {
        C::to_uncompressed(p, out);
    }
    for count in [0, 1, 31, 32, 33, 127, 128, 129, 300] {
        let (points, bad) = decode(&encoded[..count * C::UNCOMPRESSED]);
        assert_eq!((&points[..], bad), (&good[..count], u64::MAX), "{count} points");
    }
    let refused = |at: usize, change: &dyn Fn(&mut [u8])| {
        let mut encoded = encoded.clone();
        change(&mut encoded[at * C::UNCOMPRESSED..(at + 1) * C::UNCOMPRESSED]);
        assert_eq!(decode(&encoded).1, at as u64);
    };
    let modulus = {
        let mut minus_one = C::Field::one().neg();
        let component = &mut minus_one.components_mut()[0];
        let mut bytes = [0; 48];
        // SAFETY: 48 bytes for one element.
        unsafe { blst::blst_bendian_from_fp(bytes.as_mut_ptr(), component) };
        bytes[47] += 1;
        bytes
    };
    for at in [0, 150, 299] {
        for flag in [0x80, 0x40, 0x20, 0xc0] {
            refused(at, &|p| p[0] |= flag);
        }
        for coordinate in 0..C::UNCOMPRESSED / 48 {
            refused(at, &|p| p[coordinate * 48..][..48].copy_from_slice(&modulus));
            refused(at, &|p| p[coordinate * 48] |= 0x1f);
            if coordinate > 0 {
                refused(at, &|p| p[coordinate * 48] |= 0x40);
            }
        }
        refused(at, &|p| p.fill(0));
    }
    refused(7, &|p| p[95] = 1);
    refused(7, &|p| p[0] = 0x60);
}

/// Multiples by powers of two, infinity included.
pub fn multiples<C: DeviceCurve>(backend: &impl Backend, multiprocessors: u32, count: usize) {
    let (mut some, _) = points::<C>(count);
    some[count / 2] = C::Affine::default();
    let from = backend.upload(&some);
    for doublings in [0, 1, 5] {
        let to = backend.alloc(count);
        let scratch = backend.alloc(points::multiples_scratch_bytes(multiprocessors) as usize);
        // SAFETY: slices of the backend.
        unsafe { points::multiples::<C>(backend, multiprocessors, from, to, doublings, scratch) }.unwrap();
        let factor = Fr::from_u64(1 << doublings);
        let wanted: Vec<_> = some.par_iter().map(|p| C::mul(&C::to_projective(p), &factor)).collect();
        assert!(backend.read(to) == C::batch_to_affine(&wanted), "{doublings} doublings");
    }
}

/// A sum to compute: the logarithm of point i is `logs[i]`.
pub struct Case<'a, C: DeviceCurve> {
    pub points: DeviceSlice<C::Affine>,
    pub logs: &'a [Fr],
    pub size: MsmSize,
    pub device: MsmDevice,
    pub table_stride: u32,
}

impl<C: DeviceCurve> Case<'_, C> {
    /// Computes the sum and compares it with the one that the logarithms give.
    pub fn check(&self, backend: &impl Backend, name: &str, scalars: &[Canonical], index: Option<&[u32]>) {
        let plan = MsmPlan::<C>::new(self.size, self.device).unwrap();
        let results = backend.scope(|| {
            let memory = backend.alloc::<u8>(plan.num_bytes() as usize);
            let results = backend.alloc(plan.results());
            let all = Chunk {
                points: self.points,
                table_stride: self.table_stride,
                scalars: backend.upload(scalars),
                index: index.map(|index| backend.upload(index)),
            };
            // SAFETY: slices of the backend.
            unsafe { Msm::new(&plan, backend, memory).unwrap().run(&all, results) }.unwrap();
            backend.read(results)
        });
        let found = plan.combine(&results).unwrap();
        let log = (0..self.logs.len()).into_par_iter().map(|i| {
            let scalar = scalars[index.map_or(i, |index| index[i] as usize)];
            Fr::from_canonical(scalar) * self.logs[i]
        });
        let log = log.reduce(|| Fr::ZERO, |a, b| a + b);
        let wanted = C::mul(&C::to_projective(&C::generator()), &log);
        let shape = (plan.windows(), plan.chunk(), plan.groups().count());
        assert_eq!(
            C::to_affine(&found),
            C::to_affine(&wanted),
            "{name}, {} points, {shape:?}",
            self.logs.len()
        );
    }
}

/// Scalars of every kind that a sum might treat in a way of its own, made one at a time.
pub fn scalar_vectors(count: usize) -> impl Iterator<Item = (&'static str, Vec<Canonical>)> {
    let random = scalars(count.max(1), 1);
    let small = |v: u64| Canonical::new([v, 0, 0, 0]).unwrap();
    let kinds = [
        "random",
        "zero",
        "one",
        "r - 1",
        "one and r - 1",
        "all equal",
        "sparse",
        "a single bucket",
        "98 % bits",
        "small",
        "powers of two",
    ];
    kinds.into_iter().map(move |kind| {
        let values = each(count, |i| match kind {
            "random" => random[i],
            "zero" => Canonical::ZERO,
            "one" => Canonical::ONE,
            "one and r - 1" if i % 2 == 0 => Canonical::ONE,
            "r - 1" | "one and r - 1" => minus_one(),
            "all equal" => random[0],
            "sparse" if i % 97 == 3 => random[i],
            "sparse" => Canonical::ZERO,
            // One bucket of the lowest window, and of a window in the middle.
            "a single bucket" => Canonical::new([5, 0, 1 << 20, 0]).unwrap(),
            "98 % bits" if i % 50 == 0 => random[i],
            "98 % bits" => small((i * i % 7 < 3) as u64),
            "small" => small(i as u64 % 1000),
            _ => {
                let mut limbs = [0; 4];
                limbs[i % 254 / 64] = 1 << (i % 254 % 64);
                Canonical::new(limbs).unwrap()
            }
        });
        (kind, values)
    })
}

/// Resident points: every kind of scalars at every edge of the size.
pub fn sums<C: DeviceCurve>(backend: &impl Backend, device: MsmDevice, counts: &[usize]) {
    for &count in counts {
        let (points, logs) = points::<C>(count);
        let size = MsmSize { points: count as u64, at_once: count as u64, multiples: None };
        let points = backend.upload(&points);
        let case = Case::<C> { points, logs: &logs, size, device, table_stride: 0 };
        for (name, scalars) in scalar_vectors(count) {
            case.check(backend, name, &scalars, None);
        }
    }
}

/// The same for sizes beyond what the host makes points of: around 2^`log_count`, all `kinds` of scalars
/// at the power of two itself.
pub fn large_sums<C: DeviceCurve>(backend: &impl Backend, device: MsmDevice, log_count: u32, kinds: usize) {
    backend.scope(|| {
        let most = (1 << log_count) + 1;
        let (all, logs) = points_of_device::<C>(backend, device.multiprocessors, most);
        for (count, kinds) in [(most - 2, 1), (most - 1, kinds), (most, 1)] {
            let size = MsmSize { points: count as u64, at_once: count as u64, multiples: None };
            let points = all.slice(0..count).unwrap();
            let case = Case::<C> { points, logs: &logs[..count], size, device, table_stride: 0 };
            for (name, scalars) in scalar_vectors(count).take(kinds) {
                case.check(backend, name, &scalars, None);
            }
        }
    });
}

/// Points with their logarithms.
type WithLogs<C> = Vec<(<C as Curve>::Affine, Fr)>;

/// Repeated points, opposite points and infinity, with equal scalars and with random ones.
pub fn unusual_points<C: DeviceCurve>(backend: &impl Backend, device: MsmDevice, count: usize) {
    let (some, some_logs) = points::<C>(count);
    let mut kinds: Vec<(&str, WithLogs<C>)> = Vec::new();
    let each = |f: &dyn Fn(usize) -> (C::Affine, Fr)| (0..count).map(f).collect::<Vec<_>>();
    let infinity = (C::Affine::default(), Fr::ZERO);
    kinds.push(("one point", each(&|_| (some[0], some_logs[0]))));
    kinds.push(("two points", each(&|i| (some[i % 2], some_logs[i % 2]))));
    kinds.push((
        "P and -P",
        each(&|i| {
            if i % 2 == 0 { (some[i], some_logs[i]) } else { (C::neg(&some[i - 1]), -some_logs[i - 1]) }
        }),
    ));
    kinds.push((
        "one point and its opposite",
        each(&|i| {
            if i % 3 == 0 { (some[0], some_logs[0]) } else { (C::neg(&some[0]), -some_logs[0]) }
        }),
    ));
    kinds.push(("infinity", each(&|_| infinity)));
    kinds.push(("some infinities", each(&|i| if i % 5 < 2 { infinity } else { (some[i], some_logs[i]) })));
    let random = scalars(count, 2);
    for (name, kind) in kinds {
        let (points, logs): (Vec<_>, Vec<_>) = kind.into_iter().unzip();
        let size = MsmSize { points: count as u64, at_once: count as u64, multiples: None };
        let case = Case::<C> { points: backend.upload(&points), logs: &logs, size, device, table_stride: 0 };
        case.check(backend, name, &vec![Canonical::ONE; count], None);
        case.check(backend, name, &vec![random[0]; count], None);
        case.check(backend, name, &random, None);
    }
}

/// An index picks the scalar of each point.
pub fn indexed<C: DeviceCurve>(backend: &impl Backend, device: MsmDevice, count: usize) {
    let (points, logs) = points::<C>(count);
    let size = MsmSize { points: count as u64, at_once: count as u64, multiples: None };
    let case = Case::<C> { points: backend.upload(&points), logs: &logs, size, device, table_stride: 0 };
    let scalars = scalars(2 * count, 3);
    let index: Vec<u32> = (0..count as u32).map(|i| 2 * count as u32 - 1 - 2 * i).collect();
    case.check(backend, "reversed", &scalars, Some(&index));
    case.check(backend, "one scalar", &scalars, Some(&vec![7.min(count as u32); count]));
}

/// Memory that forces several chunks and groups; and points that come in pieces.
pub fn in_pieces<C: DeviceCurve>(backend: &impl Backend, device: MsmDevice, count: usize) {
    let (points, logs) = points::<C>(count);
    let points = backend.upload(&points);
    let whole = MsmSize { points: count as u64, at_once: count as u64, multiples: None };
    let mut memory = MsmPlan::<C>::new(whole, device).unwrap().num_bytes();
    let mut shapes = std::collections::HashSet::new();
    loop {
        let tight = MsmDevice { memory, ..device };
        let Ok(plan) = MsmPlan::<C>::new(whole, tight) else { break };
        assert!(plan.num_bytes() <= memory);
        if shapes.insert((plan.chunk(), plan.groups().count(), plan.windows())) {
            let case = Case::<C> { points, logs: &logs, size: whole, device: tight, table_stride: 0 };
            for (name, scalars) in scalar_vectors(count).take(3) {
                case.check(backend, name, &scalars, None);
            }
        }
        memory = memory / 4 * 3;
    }
    assert!(shapes.iter().any(|s| s.1 > 1) || shapes.iter().any(|s| s.0 < count as u64), "{shapes:?}");
    // Three pieces, the last one shorter.
    let size = MsmSize { at_once: count as u64 * 2 / 5, ..whole };
    let plan = MsmPlan::<C>::new(size, device).unwrap();
    let memory = backend.alloc::<u8>(plan.num_bytes() as usize);
    let results = backend.alloc(plan.results());
    let scalars = scalars(count, 4);
    let uploaded = backend.upload(&scalars);
    let sets = plan.groups().next().unwrap();
    assert_eq!(plan.groups().count(), 1);
    // SAFETY: slices of the backend.
    unsafe {
        let sum = Msm::new(&plan, backend, memory).unwrap();
        sum.begin(&sets).unwrap();
        let mut first = 0;
        while first < count {
            let range = first..count.min(first + size.at_once as usize);
            first = range.end;
            let points = points.slice(range.clone()).unwrap();
            let scalars = uploaded.slice(range).unwrap();
            sum.add(&sets, &Chunk { points, table_stride: 0, scalars, index: None }).unwrap();
        }
        sum.finish(&sets, results).unwrap();
    }
    let found = plan.combine(&backend.read(results)).unwrap();
    let log = scalars.iter().zip(&logs).fold(Fr::ZERO, |sum, (&s, &l)| sum + Fr::from_canonical(s) * l);
    let wanted = C::mul(&C::to_projective(&C::generator()), &log);
    assert_eq!(C::to_affine(&found), C::to_affine(&wanted));
}

/// Precomputed multiples.
pub fn with_multiples<C: DeviceCurve>(
    backend: &impl Backend,
    device: MsmDevice,
    count: usize,
    windows: &[Windows],
) {
    let (some, logs) = points::<C>(count);
    for &windows in windows {
        let all = backend.alloc(count * windows.tables as usize);
        let table = |t: u32| all.slice(t as usize * count..(t as usize + 1) * count).unwrap();
        backend.write(table(0), &some);
        for t in 1..windows.tables {
            let scratch = backend.alloc(points::multiples_scratch_bytes(device.multiprocessors) as usize);
            let doublings = windows.width * windows.sets();
            // SAFETY: slices of the backend.
            unsafe {
                points::multiples::<C>(
                    backend,
                    device.multiprocessors,
                    table(t - 1),
                    table(t),
                    doublings,
                    scratch,
                )
            }
            .unwrap();
        }
        let size = MsmSize { points: count as u64, at_once: count as u64, multiples: Some(windows) };
        let case = Case::<C> { points: table(0), logs: &logs, size, device, table_stride: count as u32 };
        for (name, scalars) in scalar_vectors(count) {
            case.check(backend, name, &scalars, None);
        }
    }
}
