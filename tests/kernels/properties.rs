//! What every implementation of the kernels must do: a table of cases, each compared with the host's own
//! arithmetic. Run on the emulation (`tests/kernels`) and on devices (`tests/gpu`).
use cuzk::{
    algebra::{CancelToken, Canonical, Domain, Fr, TwoAdicRoot, fr::MODULUS},
    gpu::{
        DeviceSlice, Launcher, field,
        ntt::{Coset, RootTable, Roots, Transform},
        quotient::{self, Buffers},
        spmv::{self, DeviceMatrix, LongRows},
    },
    groth16::HBasis,
    r1cs::{Circuit, CircuitBuilder, Matrix},
};
use rayon::prelude::*;

/// A launcher with memory of its own.
pub trait Backend: Launcher {
    /// Memory for as long as the backend lives, or to the end of a scope; its content is not defined and not
    /// zero.
    fn alloc<T: Copy>(&self, len: usize) -> DeviceSlice<T>;
    fn write<T: Copy>(&self, target: DeviceSlice<T>, values: &[T]);
    /// After all launches so far.
    fn read<T: Copy>(&self, source: DeviceSlice<T>) -> Vec<T>;
    /// Frees what `work` allocates when it is done.
    fn scope<R>(&self, work: impl FnOnce() -> R) -> R;

    fn upload<T: Copy>(&self, values: &[T]) -> DeviceSlice<T> {
        let slice = self.alloc(values.len());
        self.write(slice, values);
        slice
    }
}

/// `count` values from a seed (SplitMix64), uniform below r.
pub fn scalars(count: usize, seed: u64) -> Vec<Canonical> {
    (0..count)
        .into_par_iter()
        .map(|i| {
            let mut wide = [0; 64];
            for (k, word) in wide.chunks_exact_mut(8).enumerate() {
                let mut x = (seed << 40 | (i as u64) << 3 | k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
                word.copy_from_slice(&(x ^ x >> 31).to_le_bytes());
            }
            Fr::from_wide_le_bytes(&wide).to_canonical()
        })
        .collect()
}

/// r − 1.
pub fn minus_one() -> Canonical {
    let mut limbs = MODULUS;
    limbs[0] -= 1;
    Canonical::new(limbs).unwrap()
}

/// A value for each index.
pub fn each(count: usize, value: impl Fn(usize) -> Canonical + Send + Sync) -> Vec<Canonical> {
    (0..count).into_par_iter().map(value).collect()
}

/// Vectors of every kind that a kernel might treat in a way of its own, made one at a time.
pub fn vectors(count: usize) -> impl Iterator<Item = (&'static str, Vec<Canonical>)> {
    let bit = |i: usize| if i * i % 7 < 3 { Canonical::ONE } else { Canonical::ZERO };
    ["random", "zero", "one", "r - 1", "a single value", "bits"].into_iter().map(move |kind| {
        let values = match kind {
            "random" => scalars(count, 1),
            "zero" => vec![Canonical::ZERO; count],
            "one" => vec![Canonical::ONE; count],
            "r - 1" => vec![minus_one(); count],
            "bits" => each(count, bit),
            _ => each(count, |i| if i == count / 2 { minus_one() } else { Canonical::ZERO }),
        };
        (kind, values)
    })
}

/// Sums, differences and products, with the edges of the field.
pub fn arithmetic(backend: &impl Backend) {
    let half = Canonical::new([
        MODULUS[0] >> 1 | MODULUS[1] << 63,
        MODULUS[1] >> 1 | MODULUS[2] << 63,
        MODULUS[2] >> 1 | MODULUS[3] << 63,
        MODULUS[3] >> 1,
    ])
    .unwrap();
    let mut edges = vec![Canonical::ZERO, Canonical::ONE, minus_one(), half];
    edges.extend([32, 64, 96, 128, 192, 224, 254].map(|bit| {
        let mut limbs = [0; 4];
        limbs[bit / 64] = 1 << (bit % 64);
        Canonical::new(limbs).unwrap()
    }));
    // Lowest limbs zero: the reduction's quotient digits vanish.
    edges.push(Canonical::new([0, 0, 0, 1 << 62]).unwrap());
    edges.push(Canonical::new([u64::MAX, u64::MAX, u64::MAX, u64::MAX >> 2]).unwrap());
    edges.extend(scalars(200, 3));
    let left: Vec<_> = edges.iter().flat_map(|&a| vec![a; edges.len()]).collect();
    let right: Vec<_> = edges.iter().flat_map(|_| edges.iter().copied()).collect();
    let operands = field::Operands {
        left: backend.upload(&left),
        right: backend.upload(&right),
        sum: backend.alloc(left.len()),
        difference: backend.alloc(left.len()),
        product: backend.alloc(left.len()),
    };
    // SAFETY: slices of the backend.
    unsafe { field::arithmetic(backend, &operands) }.unwrap();
    let sum = backend.read(operands.sum);
    let difference = backend.read(operands.difference);
    let product = backend.read(operands.product);
    for (i, (&a, &b)) in left.iter().zip(&right).enumerate() {
        assert_eq!(sum[i], a + b, "{a:?} + {b:?}");
        assert_eq!(difference[i], a - b, "{a:?} - {b:?}");
        // The limbs of b read as Montgomery form: b / 2^256.
        let b_over_r = Fr::from_montgomery_limbs(b.limbs()).unwrap();
        assert_eq!(product[i], b_over_r * a, "{a:?} * {b:?} / 2^256");
    }
}

/// Montgomery form to canonical, and the check of canonical witnesses.
pub fn conversions(backend: &impl Backend) {
    for count in [0, 1, 31, 32, 33, 255, 256, 257, 5000] {
        let values = scalars(count, 5);
        let montgomery: Vec<_> = values.iter().map(|&v| Fr::from_canonical(v).montgomery_limbs()).collect();
        let slice = backend.upload(&montgomery);
        // SAFETY: four limbs are a canonical value's memory; the backend's memory is aligned to 16 bytes.
        let slice = unsafe { DeviceSlice::<Canonical>::from_raw(slice.address(), count) };
        // SAFETY: slices of the backend.
        unsafe { field::from_montgomery(backend, slice) }.unwrap();
        assert_eq!(backend.read(slice), values);
    }
    let good = scalars(3000, 6).into_iter().map(Canonical::limbs).collect::<Vec<_>>();
    for (bad, wanted) in [(vec![], u64::MAX), (vec![2999], 2999), (vec![0], 0), (vec![2500, 77, 1024], 77)] {
        for not_canonical in [MODULUS, [u64::MAX; 4], [0, 0, 0, MODULUS[3] + 1]] {
            let mut values = good.clone();
            for &i in &bad {
                values[i] = not_canonical;
            }
            let slice = backend.upload(&values);
            // SAFETY: as above.
            let slice = unsafe { DeviceSlice::<Canonical>::from_raw(slice.address(), values.len()) };
            let first = backend.upload(&[u64::MAX]);
            // SAFETY: slices of the backend.
            unsafe { field::check(backend, slice, first) }.unwrap();
            assert_eq!(backend.read(first), [wanted]);
        }
    }
}

/// A table of roots in the backend's memory.
pub fn roots(backend: &impl Backend, root: TwoAdicRoot) -> Roots {
    Roots::new(backend.upload(&RootTable::compute(root))).unwrap()
}

/// All four transforms over 2^log_size values.
pub fn transforms(backend: &impl Backend, roots: Roots, root: TwoAdicRoot, log_size: u32, kinds: usize) {
    let transform = Transform::new(roots, log_size).unwrap();
    let domain = Domain::new(log_size, root).unwrap();
    let never = CancelToken::new();
    let (source, target) = (backend.alloc(transform.size()), backend.alloc(transform.size()));
    for (kind, values) in vectors(transform.size()).take(kinds) {
        for coset in [Coset::Domain, Coset::Odd] {
            let mut wanted = values.clone();
            match coset {
                Coset::Domain => domain.ifft(&mut wanted, &never).unwrap(),
                Coset::Odd => domain.coset_ifft(&mut wanted, &never).unwrap(),
            }
            backend.write(source, &values);
            // SAFETY: slices of the backend.
            unsafe { transform.inverse(backend, coset, source, target) }.unwrap();
            assert!(backend.read(target) == wanted, "inverse, {coset:?}, 2^{log_size}, {kind}");

            let mut wanted = values.clone();
            match coset {
                Coset::Domain => domain.fft(&mut wanted, &never).unwrap(),
                Coset::Odd => domain.coset_fft(&mut wanted, &never).unwrap(),
            }
            backend.write(source, &values);
            // SAFETY: slices of the backend.
            unsafe { transform.forward(backend, coset, source, target) }.unwrap();
            assert!(backend.read(target) == wanted, "forward, {coset:?}, 2^{log_size}, {kind}");
        }
    }
}

/// Transforms of random values without the host's own transform: a polynomial's coefficients and its values must
/// agree at a point outside the domain, where Lagrange's formula takes the values.
pub fn interpolation(backend: &impl Backend, roots: Roots, root: TwoAdicRoot, log_size: u32, coset: Coset) {
    let transform = Transform::new(roots, log_size).unwrap();
    let domain = Domain::new(log_size, root).unwrap();
    let shift = match coset {
        Coset::Domain => Fr::ONE,
        Coset::Odd => domain.coset_shift(),
    };
    let point = Fr::from_canonical(scalars(1, 31)[0]);
    let lagrange = domain.lagrange_at(point * shift.inverse().unwrap());
    const TILE: usize = 1 << 14;
    let agree = |coefficients: &[Canonical], values: &[Canonical]| {
        let tiles = coefficients.par_chunks(TILE).enumerate().map(|(tile, chunk)| {
            let sum = chunk.iter().rev().fold(Fr::ZERO, |sum, c| sum * point + Fr::from_canonical(*c));
            sum * point.pow(&[(tile * TILE) as u64])
        });
        let by_values = values.par_iter().zip(&lagrange).map(|(value, l)| Fr::from_canonical(*value) * *l);
        let zero = || Fr::ZERO;
        tiles.reduce(zero, |a, b| a + b) == by_values.reduce(zero, |a, b| a + b)
    };
    let given = scalars(transform.size(), 1);
    let [source, target] = [backend.upload(&given), backend.alloc(transform.size())];
    // SAFETY: slices of the backend.
    unsafe { transform.forward(backend, coset, source, target) }.unwrap();
    assert!(agree(&given, &backend.read(target)), "forward, {coset:?}, 2^{log_size}");
    backend.write(source, &given);
    // SAFETY: slices of the backend.
    unsafe { transform.inverse(backend, coset, source, target) }.unwrap();
    assert!(agree(&backend.read(target), &given), "inverse, {coset:?}, 2^{log_size}");
}

/// Two monomials at any size: what the host knows of their values is two powers a point, not a transform.
pub fn monomials(backend: &impl Backend, roots: Roots, root: TwoAdicRoot, log_size: u32, coset: Coset) {
    let transform = Transform::new(roots, log_size).unwrap();
    let domain = Domain::new(log_size, root).unwrap();
    let size = transform.size();
    let terms = [(1, Fr::from_u64(3)), (size - 2, -Fr::from_u64(1 << 40))];
    let mut values = vec![Canonical::ZERO; size];
    for (exponent, coefficient) in terms {
        values[exponent] = coefficient.to_canonical();
    }
    let [left, right] = [backend.alloc(size), backend.alloc(size)];
    backend.write(left, &values);
    // SAFETY: slices of the backend.
    unsafe { transform.forward(backend, coset, left, right) }.unwrap();
    let shift = match coset {
        Coset::Domain => Fr::ONE,
        Coset::Odd => domain.coset_shift(),
    };
    const TILE: usize = 1 << 14;
    backend.read(right).par_chunks(TILE).enumerate().for_each(|(tile, found)| {
        let first = (tile * TILE) as u64;
        let mut steps = terms.map(|(exponent, coefficient)| {
            let power = |of: Fr| of.pow(&[exponent as u64]);
            let step = power(domain.generator());
            (coefficient * power(shift) * step.pow(&[first]), step)
        });
        for (i, found) in found.iter().enumerate() {
            let wanted = (steps[0].0 + steps[1].0).to_canonical();
            assert_eq!(*found, wanted, "value {} of 2^{log_size}, {coset:?}", first as usize + i);
            for (value, step) in &mut steps {
                *value *= *step;
            }
        }
    });
    // SAFETY: slices of the backend.
    unsafe { transform.inverse(backend, coset, right, left) }.unwrap();
    assert!(backend.read(left) == values, "back, 2^{log_size}, {coset:?}");
}

/// The quotient in both bases, as `groth16::prover` computes it.
pub fn quotients(backend: &impl Backend, roots: Roots, root: TwoAdicRoot, log_size: u32) {
    let transform = Transform::new(roots, log_size).unwrap();
    let domain = Domain::new(log_size, root).unwrap();
    let size = transform.size();
    let buffers = Buffers { a: backend.alloc(size), b: backend.alloc(size), c: backend.alloc(size) };
    for basis in [HBasis::Monomial, HBasis::CosetLagrange] {
        let (a, b) = (scalars(size, 8), scalars(size, 9));
        backend.write(buffers.a, &a);
        backend.write(buffers.b, &b);
        // SAFETY: slices of the backend.
        let h = unsafe { quotient::quotient(backend, &transform, basis, buffers) }.unwrap();
        assert!(backend.read(h) == reference_quotient(&domain, basis, a, b), "{basis:?}, 2^{log_size}");
    }
}

fn reference_quotient(
    domain: &Domain,
    basis: HBasis,
    mut a: Vec<Canonical>,
    mut b: Vec<Canonical>,
) -> Vec<Canonical> {
    let never = CancelToken::new();
    let product = |a: &[Canonical], b: &[Canonical]| -> Vec<Canonical> {
        a.par_iter().zip(b).map(|(a, b)| Fr::from_canonical(*a) * *b).collect()
    };
    let mut c = product(&a, &b);
    domain.ifft(&mut c, &never).unwrap();
    for v in [&mut a, &mut b] {
        domain.ifft(v, &never).unwrap();
        domain.coset_fft(v, &never).unwrap();
    }
    let mut d = product(&a, &b);
    match basis {
        HBasis::Monomial => {
            domain.coset_ifft(&mut d, &never).unwrap();
            let half = Fr::from_u64(2).inverse().unwrap();
            let h: Vec<_> = c.par_iter().zip(&d).map(|(c, d)| half * (*c - *d)).collect();
            // A·B has degree 2m − 2: the quotient has m − 1 coefficients.
            assert_eq!(h.last(), Some(&Canonical::ZERO));
            h
        }
        HBasis::CosetLagrange => {
            domain.coset_fft(&mut c, &never).unwrap();
            d.par_iter().zip(&c).map(|(d, c)| *d - *c).collect()
        }
    }
}

/// A circuit whose rows have the given numbers of entries in A and B, over `variables` variables.
fn circuit(row_lengths: &[(usize, usize)], variables: usize, distinct: u64) -> Circuit {
    let mut builder = CircuitBuilder::new(1, variables - 1);
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for &(in_a, in_b) in row_lengths {
        let mut row = |length: usize| -> Vec<(u32, Fr)> {
            // Different columns, so that none are merged.
            let first = next(variables as u64);
            (0..length)
                .map(|i| {
                    let coefficient = match next(4) {
                        0 => Fr::ONE,
                        1 => -Fr::ONE,
                        _ => Fr::from_u64(2 + next(distinct)),
                    };
                    (((first + i as u64) % variables as u64) as u32, coefficient)
                })
                .collect()
        };
        let (a, b) = (row(in_a), row(in_b));
        builder.constraint(&a, &b, &[]).unwrap();
    }
    builder.finish().unwrap()
}

/// The same matrix with ends of rows in eight bytes, as from 2^32 entries on.
fn with_wide_offsets(backend: &impl Backend, matrix: &Matrix, narrow: &DeviceMatrix) -> DeviceMatrix {
    assert_eq!(matrix.offset_bytes().len(), 4 * (matrix.rows() + 1));
    let (ends, _) = matrix.offset_bytes().as_chunks::<4>();
    let ends: Vec<_> =
        ends.iter().flat_map(|end| u64::from(u32::from_ne_bytes(*end)).to_ne_bytes()).collect();
    DeviceMatrix { offsets: backend.upload(&ends), ..*narrow }
}

fn upload_matrix(backend: &impl Backend, matrix: &Matrix) -> DeviceMatrix {
    let long = LongRows::of(matrix).unwrap();
    DeviceMatrix {
        offsets: backend.upload(matrix.offset_bytes()),
        columns: backend.upload(matrix.columns()),
        indices: backend.upload(matrix.index_bytes()),
        segment_sums: backend.alloc(long.segments.len()),
        segments: backend.upload(&long.segments),
        long_rows: backend.upload(&long.rows),
        rows: matrix.rows() as u64,
        first_entry: 0,
    }
}

/// Rows of every length times assignments of every kind.
pub fn evaluations(backend: &impl Backend) {
    let short: Vec<_> = (0..40).map(|i| (i % 5, i % 3)).collect();
    let around: Vec<_> = (10..40).map(|i| (i, 50 - i)).collect();
    let long = vec![(1, 0), (1023, 5), (0, 1024), (1025, 0), (3, 5000), (2, 2), (2048, 17)];
    let empty = vec![(0, 0); 300];
    for (name, lengths, variables, distinct) in [
        ("short rows", short, 50, 9),
        ("rows around the limit", around, 64, 100_000),
        ("long rows", long, 5000, 1000),
        ("empty rows", empty, 3, 2),
        ("one row", vec![(2, 1)], 4, 5),
        ("no rows", vec![], 1, 1),
        // More than 2^16 coefficients: wide indices.
        ("many coefficients", vec![(30_000, 30_000), (30_000, 30_000), (5, 5)], 30_000, u64::MAX >> 32),
    ] {
        let circuit = circuit(&lengths, variables, distinct);
        let matrices = [upload_matrix(backend, circuit.a()), upload_matrix(backend, circuit.b())];
        let wide = [
            with_wide_offsets(backend, circuit.a(), &matrices[0]),
            with_wide_offsets(backend, circuit.b(), &matrices[1]),
        ];
        let coefficients = backend.upload(circuit.coefficients());
        let size = circuit.num_rows().next_power_of_two() * 2;
        for (kind, z) in vectors(variables) {
            let out = [backend.alloc(size), backend.alloc(size)];
            let on_device = backend.upload(&z);
            // SAFETY: slices of the backend, holding the circuit.
            unsafe { spmv::evaluate(backend, [&matrices[0], &matrices[1]], coefficients, on_device, out) }
                .unwrap();
            let wide_out = [backend.alloc(size), backend.alloc(size)];
            // SAFETY: as above.
            unsafe { spmv::evaluate(backend, [&wide[0], &wide[1]], coefficients, on_device, wide_out) }
                .unwrap();
            for ((matrix, out), wide) in [circuit.a(), circuit.b()].into_iter().zip(out).zip(wide_out) {
                let mut wanted = vec![Canonical::ZERO; size];
                matrix.evaluate(circuit.coefficients(), &z, &mut wanted, &CancelToken::new()).unwrap();
                assert!(backend.read(out) == wanted, "{name}, z {kind}");
                assert!(backend.read(wide) == wanted, "{name}, z {kind}, wide ends of rows");
            }
        }
    }
}
